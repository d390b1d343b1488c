//! What is special about the databases: the conformance suite tests what all stores share.

mod between;
mod cache;
mod caller;
mod costs;
pub(crate) mod count;
mod edited;
mod faults;
mod fixture;
pub(crate) mod ledger;
mod plans;
#[cfg(feature = "postgres")]
mod pooler;
#[cfg(feature = "postgres")]
mod snapshot;
#[cfg(feature = "postgres")]
mod under_way;
mod views;

use fixture::application;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) use fixture::server;

//! What is special about the databases: the conformance suite tests what all stores share.

mod between;
#[cfg(feature = "sqlite")]
mod busy;
mod cache;
mod caller;
mod costs;
pub(crate) mod count;
mod edited;
mod faults;
mod fixture;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod held;
pub(crate) mod ledger;
#[cfg(feature = "postgres")]
mod news;
#[cfg(feature = "postgres")]
mod open_executions;
mod page_plans;
mod plans;
#[cfg(feature = "postgres")]
mod pooler;
#[cfg(feature = "postgres")]
mod sequences;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod slots;
#[cfg(feature = "postgres")]
mod snapshot;
mod views;

use fixture::application;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) use fixture::server;

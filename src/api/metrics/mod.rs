//! A node's and a cluster's figures for dashboards and alarms, as
//! [`Scheduler::metrics`](crate::Scheduler::metrics) and [`Client::metrics`](crate::Client::metrics) give
//! them.

mod cluster;
#[cfg(feature = "metrics")]
mod facade;
mod family;
mod node;

pub(super) use cluster::of as of_cluster;
#[cfg(feature = "metrics")]
pub(super) use facade::tell as tell_facade;
pub use family::{Family, Kind, Metrics, Sample, Value};
pub(super) use node::of as of_node;

pub use crate::domain::histogram::Histogram;

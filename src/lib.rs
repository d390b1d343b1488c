//! firetime: several app servers run one schedule as if there were one.

mod client;
mod clock;
mod config;
mod driver;
mod error;
mod event;
mod job;
mod machine;
mod misfire;
mod model;
mod node;
mod pipeline;
pub mod schedule;
mod scheduler;
#[cfg(test)]
mod sim;
#[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "what only a database would call"))]
mod store;
mod window;

pub use client::{Client, ExecutionFilter, ExecutionView, NodeView, Schedule, ScheduleView};
pub use error::{Error, Kind};
pub use event::Event;
pub use job::{Context, HandlerError, Job};
pub use model::{ExecutionId, ExecutionState, MisfirePolicy, NodeId, ScheduleId, ScheduleState, UnknownWord};
#[doc(inline)]
pub use schedule::{Cron, Gap, Overlap, Simple, Trigger, TriggerError};
pub use scheduler::{Builder, Scheduler};
pub use store::Ensured;
#[cfg(feature = "sql")]
pub use store::{CallerConnection, MigrationReport};

/// Creates or upgrades firetime's tables in the database `url` names; several servers may do so at once.
///
/// # Errors
/// [`Kind::Config`] for an unusable URL, [`Kind::Unavailable`] if the database cannot be reached,
/// [`Kind::Schema`] if its schema is newer than this version of firetime (it is left as it is).
#[cfg(feature = "sql")]
pub fn migrate(url: &str) -> Result<MigrationReport, Error> {
    store::migrate(url)
}

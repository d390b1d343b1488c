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
mod store;
mod window;

pub use client::{Client, ExecutionFilter, ExecutionView, NodeView, Schedule, ScheduleView};
pub use error::{Error, Kind};
pub use event::Event;
pub use job::{Context, HandlerError, Job};
pub use model::{ExecutionId, ExecutionState, MisfirePolicy, NodeId, ScheduleId, ScheduleState, UnknownWord};
pub use schedule::{Cron, Gap, Overlap, Simple, Trigger, TriggerError};
pub use scheduler::{Builder, Scheduler};
#[cfg(feature = "sql")]
pub use store::CallerConnection;
pub use store::{Ensured, MigrationReport, migrate};

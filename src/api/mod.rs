//! What applications use: the builder, the scheduler, the client, jobs and schedules.

mod client;
pub(crate) mod config;
mod job;
mod scheduler;

pub use client::{Client, ExecutionFilter, ExecutionView, NodeView, Schedule, ScheduleView};
pub use job::Job;
pub use scheduler::{Builder, Scheduler};

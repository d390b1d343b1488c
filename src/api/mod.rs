//! The public interface: the builder, the scheduler, the client, jobs and schedules.

mod audit;
#[cfg(feature = "tokio")]
mod awaited;
mod builder;
mod check;
mod client;
mod config;
mod definition;
mod details;
mod health;
mod job;
mod lane;
pub mod metrics;
mod outcomes;
mod outgoing;
mod past;
mod place;
pub mod request;
mod said;
mod scheduler;
mod schedules;
pub(crate) mod spans;
mod target;
mod undecodable;
mod upcoming;
pub(crate) mod verify;
mod views;
mod why;
mod words;

pub use audit::{AuditFilter, AuditView};
pub use builder::Builder;
pub use check::{Check, Failures, Finding, FindingKind, FindingLevel, Outage};
pub use client::Client;
pub use definition::Schedule;
pub use details::{ExecutionDetails, FieldEdit, ScheduleDetails};
pub use health::Health;
pub use job::Job;
pub use lane::Lane;
pub use metrics::Metrics;
pub use outcomes::{OutcomeFilter, Outcomes};
pub use outgoing::Outgoing;
pub use past::PastOccurrence;
pub use place::{AuditPlace, ExecutionPlace};
pub use request::cancel::Cancelled;
pub use request::drain::Draining;
pub use request::edit::{EditPlan, Edited};
pub use request::enqueue::Enqueued;
pub use request::pause::Paused;
pub use request::remove::Removed;
pub use request::rerun::{Reran, RerunCancelled, RerunFate, RerunOccurrence, RerunPlan, UnknownSpan};
pub use request::resume::Resumed;
pub use request::retry::Retried;
pub use request::skip::Skipped;
pub use request::sync::{SyncPlan, Synced};
pub use request::trigger::Triggered;
pub use request::wait::Waited;
#[cfg(test)]
pub(crate) use request::written::carrier;
pub use said::{ExecutionLogs, LogLine};
pub use scheduler::Scheduler;
pub use schedules::{ScheduleFilter, SchedulePage, SchedulePlace, Standing};
pub use target::Target;
pub use undecodable::Undecodable;
pub use upcoming::{Fire, Upcoming};
pub use verify::{Accounted, Flaw, FlawKind, Verification};
#[cfg(feature = "certificate")]
pub use verify::{Certificate, CertifiedSchedule, CertifiedTrigger};
pub use views::{
    ApplicationView, ExecutionFilter, ExecutionView, JobView, NodeView, OwnerView, RateView, ScheduleView,
};
pub use why::{
    Because, Evidence, Expected, Fate, FullBound, FullNode, IdleNode, Late, LateWait, SilentNode, Who, Why,
    WhyList,
};

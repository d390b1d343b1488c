//! Several app servers run one schedule exactly as if there were one, with nothing but the database they
//! share.
//!
//! A server builds a [`Scheduler`] with a handler for each [`Job`], and describes what should happen when as
//! [`Schedule`]s through a [`Client`]. The README has a program and the promises.
//!
//! # Where to begin
//!
//! | you want to | read |
//! | --- | --- |
//! | run a job on a schedule, from nothing | [a first schedule](guide::first_schedule) |
//! | run a job once, now or later | [enqueueing](guide::enqueue) |
//! | do that in your own transaction | [within your own transaction](guide::transactions) |
//! | have a handler's effects exactly once | [exactly once](guide::exactly_once) |
//! | write handlers as futures | [async handlers](guide::async_handlers) |
//! | say when a schedule fires | [triggers](guide::triggers), [`trigger`] |
//! | say what follows a failure or an outage | [retries](guide::time_limits_and_retries), [catching up](guide::catching_up) |
//! | test schedules without waiting | [testing](guide::testing) |
//! | watch it, and know why something did not run | [observing](guide::observing), [why](guide::why) |
//! | do anything else | [the guide](guide) |
//!
//! # The flow
//!
//! ```text
//! poll -> expand -> wheel -> permit -> claim -> start -> pool -> complete
//!  5 s    ordered    wait    a seat    guarded   on     elastic  guarded
//!  grid   rayon    till near in pool   UPDATE   time    threads  outcome
//!                               ^
//! misfire handler (one node) ---+--- repairs what the flow left behind, under the same guards
//! ```
//!
//! Everything that decides is pure: it is given `now` and values and returns values. A machine asks for one
//! store call at a time, a driver performs it, so whole clusters also run in virtual time inside one test.
//!
//! # Features
//!
//! `sqlite` (default, compiled in), `postgres` (libpq), `mysql` (MariaDB's client), `cli` (the program),
//! `tokio` (handlers that are futures, and requests to await); `sqlx`, `tokio-postgres` and `diesel-async`
//! (requests within transactions of these drivers); `tracing` (a span for each attempt), `metrics` (figures
//! for the facade of that name), `console` (web pages on a client's verbs), `testing` (whole clusters in a
//! test, for `dev-dependencies`).

#![cfg_attr(docsrs, feature(doc_cfg))]
// Production code is linted without cfg(test) too, where these stay denied.
#![cfg_attr(
    test,
    allow(
        clippy::print_stdout,
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        clippy::too_many_lines,
        reason = "tests print figures, start threads, read the real clock and ignore what they do not test"
    )
)]

mod api;
#[cfg(feature = "console")]
pub mod console;
mod domain;
#[cfg(test)]
mod fixtures;
// In the docs alone: a library would carry these texts in its metadata.
#[cfg(doc)]
mod guide_pages;
mod machine;
mod members;
mod misfire;
mod node;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod parts;
mod pipeline;
mod repair;
mod requests;
#[cfg(any(test, feature = "bench"))]
mod sample;
#[cfg(test)]
mod sim;
#[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "what only a database would call"))]
mod store;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::panic, clippy::format_push_string, reason = "it fails its users' tests")]
pub mod testing;
mod time;
pub mod trigger;

pub use api::{
    Accounted, ApplicationView, AuditFilter, AuditPlace, AuditView, Because, Builder, Cancelled, Check,
    Client, Draining, EditPlan, Edited, Enqueued, Evidence, ExecutionDetails, ExecutionFilter, ExecutionLogs,
    ExecutionPlace, ExecutionView, Expected, Failures, Fate, FieldEdit, Finding, FindingKind, FindingLevel,
    Fire, Flaw, FlawKind, FullBound, FullNode, Health, IdleNode, Job, JobView, Lane, Late, LateWait, LogLine,
    Metrics, NodeView, Outage, OutcomeFilter, Outcomes, Outgoing, OwnerView, PastOccurrence, Paused,
    RateView, Removed, Reran, RerunCancelled, RerunFate, RerunOccurrence, RerunPlan, Resumed, Retried,
    Schedule, ScheduleDetails, ScheduleFilter, SchedulePage, SchedulePlace, ScheduleView, Scheduler,
    SilentNode, Skipped, Standing, SyncPlan, Synced, Target, Triggered, Undecodable, UnknownSpan, Upcoming,
    Verification, Waited, Who, Why, WhyList,
};
#[cfg(feature = "certificate")]
pub use api::{Certificate, CertifiedSchedule, CertifiedTrigger};
#[doc(inline)]
pub use api::{metrics, request};
#[cfg(feature = "tracing")]
pub use domain::SpanOrigin;
pub use domain::{
    Activity, Answer, Attempt, Cause, Covers, Difference, Error, ErrorKind, Event, ExecutionId,
    ExecutionState, HandlerError, IntoAnswer, LaneHealth, LeftOut, Lineage, LogLevel, MisfirePolicy, NodeId,
    Overlap, Progress, Receipt, Retry, ScheduleField, ScheduleId, ScheduleState, UnknownWord, Word,
};
#[cfg(doc)]
#[doc(inline)]
pub use guide_pages::guide;
#[cfg(feature = "tokio")]
pub use node::around::HandlerFuture;
pub use node::around::Next;
pub use node::context::{Cancellation, Context};
pub use node::event_stream::EventStream;
#[cfg(feature = "tracing")]
pub use node::log_layer::LogLayer;
pub use node::stopped::Stopped;
#[cfg(all(feature = "sql", feature = "tokio"))]
#[doc(inline)]
pub use store::driver;
#[cfg(feature = "sql")]
pub use store::{CallerConnection, MigrationReport};
pub use store::{Ensured, OnConflict, SyncStep, SyncedSchedule, Withdraws};
#[doc(inline)]
pub use trigger::{Cron, Delay, Fold, Gap, Simple, Trigger, TriggerError};

/// Creates or upgrades firetime's tables in the database `url` names; several servers may do so at once.
///
/// # Errors
/// [`ErrorKind::Config`] for an unusable URL, [`ErrorKind::Unavailable`] if the database cannot be reached,
/// [`ErrorKind::Schema`] if its schema is newer than this version of firetime (it is left as it is).
#[cfg(feature = "sql")]
pub fn migrate(url: &str) -> Result<MigrationReport, Error> {
    store::migrate(url)
}

#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "console"))]
#[doc = include_str!("../docs/console.md")]
struct ConsolePage;

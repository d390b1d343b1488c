//! One node of the demo, a process of its own, and the lines in which it tells what happens.

use std::io::{self, Write};
use std::sync::mpsc;
use std::time::Duration;

use firetime::{Context, Event, HandlerError, Scheduler};
use serde::{Deserialize, Serialize};

use super::plan::{REPORT, TICK};
use crate::failure::{Failure, Result};
use crate::target::Target;
use crate::when;

/// What a node tells, a line of JSON each, on its standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Told {
    /// It has joined the cluster under this id.
    Joined(String),
    /// A handler has begun.
    Begun {
        schedule: String,
        /// The occurrence's fire time, epoch milliseconds.
        fire_time: i64,
        attempt: u32,
        /// When it began, epoch milliseconds.
        at: i64,
    },
    /// It declared the node of this id dead.
    Died(String),
    /// It repaired something.
    Repaired(String),
}

/// How long running jobs may still end once the demo is over.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a node until standard input ends: when the demo closes it, or is gone.
pub(crate) fn run(target: &Target) -> Result {
    let seconds = Duration::from_secs;
    // Shorter than an application's, so that a death is noticed before the demo ends.
    let scheduler = Scheduler::builder(&target.application, &target.database.url)
        .poll_interval(seconds(1))
        .heartbeat_interval(seconds(1))
        .store_timeout(Duration::from_millis(1_500))
        .death_after(seconds(6))
        .misfire_interval(seconds(2))
        .migrate(false)
        .handler(TICK, |context, ()| begun(context))
        .handler(REPORT, |context, takes| {
            begun(context)?;
            work(Duration::from_millis(takes));
            Ok(())
        })
        .on_event(|event| {
            // Who listens is gone if this fails; then standard input ends too.
            told(event).map(|told| say(&told).ok());
        })
        .start()?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    if scheduler.shutdown(PATIENCE).is_clean() {
        Ok(())
    } else {
        Err(Failure::Failed("the shutdown was not clean".to_owned()))
    }
}

fn begun(context: &Context) -> Result<(), HandlerError> {
    Ok(say(&Told::Begun {
        schedule: context.schedule().to_owned(),
        fire_time: context.fire_time().timestamp_millis(),
        attempt: context.attempt(),
        at: when::now().timestamp_millis(),
    })?)
}

fn told(event: &Event) -> Option<Told> {
    match event {
        Event::Joined { node, .. } | Event::Fenced { new: node, .. } => Some(Told::Joined(node.to_string())),
        Event::NodeDied { node, .. } => Some(Told::Died(node.to_string())),
        Event::Repaired { what, .. } => Some(Told::Repaired((*what).to_owned())),
        _ => None,
    }
}

/// Writes a line at once and whole: lines of other threads stay beside it, a kill cannot cut it.
fn say(told: &Told) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Takes `span`, as a job that works would.
fn work(span: Duration) {
    let (until, nothing) = mpsc::channel::<()>();
    nothing.recv_timeout(span).ok();
    drop(until);
}

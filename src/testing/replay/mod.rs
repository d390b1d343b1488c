//! A real ledger, played again with a change: what would have run, been late, skipped and collided.

mod change;
mod feed;
mod record;
mod tally;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use self::change::Change;
use self::record::Record;
pub use self::tally::{Replayed, ReplayedSchedule, Tally};
use crate::api::Client;
use crate::domain::{Error, ErrorKind};
use crate::trigger::Trigger;

/// The past of an application, to be played again on the engine in memory, with a change: another trigger,
/// fewer nodes, a database that was away, another time limit. For what is to be decided before it happens.
///
/// Its schedules are as they are now. Each handler takes as long as it took then, and ends as it did; one
/// that did not run then takes as long as the median of its schedule. What was enqueued or asked for comes at
/// the instant at which it was due. The past is played twice, with the change and without: what differs
/// between these two comes from the change, and what differs between the second and the ledger from what a
/// replay cannot know. That is: earlier triggers and pauses, outages and deaths of then, reruns; how long a
/// run that ran out of time would have taken (it takes twice its time); which lane a job has (each node has
/// one, with the seats of all).
///
/// ```
/// use firetime::testing::Replay;
/// use firetime::{Client, Job, Schedule, Trigger};
/// use std::time::Duration;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// let client = Client::connect("shop", &url)?;
/// # const REPORT: Job<()> = Job::new("report");
/// # client.ensure(&Schedule::new("hourly", REPORT, &(), Trigger::cron("0 0 * * * ?", "UTC")?)?).run()?;
/// let week = client.now()? - Duration::from_secs(7 * 24 * 3_600);
/// let replayed = Replay::of(&client, week..client.now()?)?
///     .nodes(2)
///     .trigger("hourly", Trigger::cron("0 0/20 * * * ?", "UTC")?)
///     .run()?;
/// for schedule in &replayed.schedules {
///     println!("{}: {} runs, would be {}", schedule.name, schedule.unchanged.ran, schedule.changed.ran);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is played before `run`"]
#[derive(Debug)]
pub struct Replay {
    record: Arc<Record>,
    change: Change,
}

impl Replay {
    /// Reads what the ledger has of a span: up to 200,000 executions, first attempts and later ones.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the span is empty or holds more than that; or the database's failure.
    pub fn of(client: &Client, span: Range<DateTime<Utc>>) -> Result<Self, Error> {
        Ok(Self { record: Arc::new(Record::read(client, span)?), change: Change::default() })
    }

    /// As if this schedule had had another trigger.
    pub fn trigger(mut self, schedule: &str, trigger: Trigger) -> Self {
        self.change.triggers.insert(schedule.to_owned(), trigger);
        self
    }

    /// As if there had been so many nodes, 1 to 100. Otherwise there are as many as live now, or, where none
    /// does, as have run something.
    pub fn nodes(mut self, count: usize) -> Self {
        self.change.nodes = Some(count);
        self
    }

    /// As if the database had been away. What was to be enqueued meanwhile is enqueued once it is back.
    pub fn outage(mut self, span: Range<DateTime<Utc>>) -> Self {
        self.change.outages.push(span.start.into()..span.end.into());
        self
    }

    /// As if the handlers of this job had had so long, but for schedules with a limit of their own.
    pub fn time_limit(mut self, job: &str, limit: Duration) -> Self {
        self.change.time_limits.insert(job.to_owned(), limit);
        self
    }

    /// Plays it. Takes some seconds of processor time for a week of three nodes, if it is optimised.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a change of a schedule or a job that is not there, or for no nodes.
    pub fn run(self) -> Result<Replayed, Error> {
        self.check()?;
        let unchanged = feed::play(&self.record, &Change::default())?;
        let changed = feed::play(&self.record, &self.change)?;
        Ok(Replayed::of(&self.record, &unchanged, &changed))
    }

    fn check(&self) -> Result<(), Error> {
        let refused = |why: String| Err(Error::new(ErrorKind::Config, format!("a replay: {why}")));
        let Change { triggers, time_limits, nodes, .. } = &self.change;
        if let Some(name) = triggers.keys().find(|name| !self.record.has_schedule(name)) {
            return refused(format!("there is no schedule {name:?}"));
        }
        if let Some(name) = time_limits.keys().find(|name| !self.record.has_job(name)) {
            return refused(format!("there is no job {name:?}"));
        }
        match nodes {
            Some(count) if !(1..=100).contains(count) => {
                refused(format!("{count} nodes: 1 to 100 are possible"))
            }
            _ => Ok(()),
        }
    }
}

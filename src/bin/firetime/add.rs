//! Making a schedule, or an execution without one.

use std::io::{self, Write};
use std::time::Duration;

use chrono::{DateTime, Utc};
use firetime::{Client, Enqueued, Ensured, Job, OnConflict, Overlap, Schedule, Trigger};
use serde_json::json;

use crate::control::Subject;
use crate::failure::Result;
use crate::inspect::connect;
use crate::output::{self, Output};
use crate::target::Target;
use crate::text::escaped;
use crate::when::utc;

/// How many fire times are shown.
const SHOWN: usize = 5;

/// A schedule to be made.
#[derive(Debug)]
pub(crate) struct NewSchedule {
    pub(crate) job: String,
    pub(crate) trigger: Trigger,
    pub(crate) payload: serde_json::Value,
    pub(crate) description: String,
    pub(crate) priority: i32,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) pause_after: Option<u32>,
    /// Only its fire times are shown.
    pub(crate) dry_run: bool,
    /// The present, from which an interval counts.
    pub(crate) now: DateTime<Utc>,
}

/// An execution to be enqueued.
#[derive(Debug)]
pub(crate) struct NewExecution {
    pub(crate) job: String,
    pub(crate) payload: serde_json::Value,
    pub(crate) at: Option<DateTime<Utc>>,
    pub(crate) priority: Option<i32>,
    pub(crate) key: Option<String>,
    /// The one that has the key.
    pub(crate) replace: bool,
    pub(crate) group: Option<String>,
    pub(crate) lane: Option<String>,
    pub(crate) tags: Vec<String>,
}

pub(crate) fn enqueue(target: &Target, new: &NewExecution, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    // A job's name lives as long as the program, which ends soon.
    let job: Job<serde_json::Value> = Job::new(new.job.clone().leak());
    let enqueue = client.enqueue(job, &new.payload);
    let enqueue = new.at.iter().fold(enqueue, |enqueue, at| enqueue.at(*at));
    let enqueue = new.priority.iter().fold(enqueue, |enqueue, priority| enqueue.priority(*priority));
    let enqueue = new.key.iter().fold(enqueue, |enqueue, key| enqueue.key(key));
    let enqueue = new.group.iter().fold(enqueue, |enqueue, group| enqueue.group(group));
    let enqueue = new.lane.iter().fold(enqueue, |enqueue, lane| enqueue.lane(lane));
    let enqueue = new.tags.iter().fold(enqueue, |enqueue, tag| enqueue.tag(tag));
    let enqueue = if new.replace { enqueue.on_conflict(OnConflict::Replace) } else { enqueue };
    let answer = enqueue.run()?;
    let id = i64::from(answer.id());
    let (word, said) = match answer {
        Enqueued::Created(_) => ("created", format!("execution {id} waits for a node")),
        Enqueued::Replaced(_) => ("replaced", format!("execution {id} was replaced and waits for a node")),
        _ => ("existing", format!("nothing was stored, execution {id} has the key and has not ended")),
    };
    match output {
        Output::Json => output::json(out, &json!({ "id": id, "answer": word }))?,
        Output::Table => writeln!(out, "{said}")?,
    }
    warn_of_no_node(&client, &new.job)
}

pub(crate) fn add(target: &Target, new: &NewSchedule, subject: &Subject, out: &mut dyn Write) -> Result {
    let client = subject.client(target)?;
    // A job's name lives as long as the program, which ends soon.
    let job: Job<serde_json::Value> = Job::new(new.job.clone().leak());
    let schedule = Schedule::new(&subject.name, job, &new.payload, new.trigger.clone())?;
    let schedule = schedule.description(&new.description).priority(new.priority);
    let schedule = new.time_limit.iter().fold(schedule, |schedule, limit| schedule.timeout(*limit));
    let schedule = new.overlap.iter().fold(schedule, |schedule, rule| schedule.overlap(*rule));
    let schedule = new.pause_after.iter().fold(schedule, |schedule, count| schedule.pause_after(*count));
    let now = new.now.timestamp_millis();
    let timing = firetime::trigger::Timing::new(new.trigger.clone(), Some(now), None)?;
    let shown = if let Trigger::Delay(_) = &new.trigger { 1 } else { SHOWN };
    let fire_times = std::iter::successors(timing.after(now - 1), |at| timing.after(*at)).take(shown);
    let fire_times: Vec<i64> = fire_times.collect();
    match (&fire_times[..], &new.trigger) {
        ([], Trigger::Simple(_)) => {
            writeln!(out, "its fire times are past: what is missed follows the misfire policy")?;
        }
        ([], _) => writeln!(out, "it has no fire time from now on")?,
        _ => writeln!(out, "fires at (UTC):")?,
    }
    for at in fire_times {
        writeln!(out, "  {}", utc(DateTime::from_timestamp_millis(at)))?;
    }
    if let Trigger::Delay(delay) = &new.trigger {
        writeln!(out, "  then {} ms after each run", delay.delay_ms())?;
    }
    if new.dry_run {
        writeln!(out, "nothing was changed")?;
        return Ok(());
    }
    let said = match client.ensure(&schedule).reason(&subject.reason).run()? {
        Ensured::Created => "created",
        Ensured::Changed => "changed",
        Ensured::Unchanged => "nothing was changed, it is so",
        Ensured::Differs => "nothing was changed, it differs",
        Ensured::Quarantined => "nothing was changed, it is in error: give it another trigger",
    };
    writeln!(out, "{}: {said}", escaped(&subject.name))?;
    warn_of_no_node(&client, &new.job)
}

/// An execution without a live node that has its handler waits; somebody may have misspelt the job.
fn warn_of_no_node(client: &Client, job: &str) -> Result {
    if client.jobs()?.iter().find(|it| it.name == job).is_none_or(|it| it.nodes == 0) {
        let job = escaped(job);
        writeln!(io::stderr(), "firetime: no live node has a handler for job {job:?}: it waits for one")?;
    }
    Ok(())
}

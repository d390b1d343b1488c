//! Making and changing schedules, and executions without one.

use std::io::{self, Write};
use std::time::Duration;

use chrono::{DateTime, Utc};
use firetime::{
    Client, Cron, Difference, Enqueued, Ensured, ErrorKind, Job, MisfirePolicy, OnConflict, Overlap,
    Schedule, ScheduleDetails, Trigger,
};
use serde_json::json;
use serde_json::value::RawValue;

use crate::control::{Subject, of_schedule};
use crate::failure::{Failure, Result};
use crate::inspect::{TEXT_SHOWN, connect};
use crate::output::{self, Output};
use crate::target::Target;
use crate::text::{escaped, shortened};
use crate::when::utc;

/// How many fire times are shown.
const SHOWN: usize = 5;

/// A schedule that is to be made or changed.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) fields: Fields,
    /// One of this name is replaced.
    pub(crate) replaces: bool,
    /// Nothing is made or changed.
    pub(crate) dry_run: bool,
    /// The present, from which an interval counts.
    pub(crate) now: DateTime<Utc>,
}

/// The fields of a definition that are named.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) job: Option<String>,
    pub(crate) trigger: Option<Trigger>,
    /// The zone of a cron expression, of this trigger or of the one that is there.
    pub(crate) zone: Option<String>,
    pub(crate) start: Option<DateTime<Utc>>,
    pub(crate) end: Option<DateTime<Utc>>,
    pub(crate) payload: Option<Box<RawValue>>,
    pub(crate) description: Option<String>,
    pub(crate) priority: Option<i32>,
    pub(crate) misfire: Option<MisfirePolicy>,
    pub(crate) misfire_threshold: Option<Duration>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) pause_after: Option<u32>,
}

impl Fields {
    /// Those of a schedule as it is, as far as they can be read.
    fn of(details: &ScheduleDetails) -> Self {
        let span = |millis: i64| u64::try_from(millis).ok().map(Duration::from_millis);
        Self {
            job: Some(details.schedule.job.clone()),
            trigger: details.rule.clone(),
            zone: None,
            start: details.starts,
            end: details.ends,
            payload: RawValue::from_string(details.payload.clone()).ok(),
            description: Some(details.schedule.description.clone()),
            priority: i32::try_from(details.priority).ok(),
            misfire: details.misfire.parse().ok(),
            misfire_threshold: span(details.schedule.misfire_threshold),
            time_limit: details.time_limit.and_then(span),
            overlap: details.overlap.parse().ok(),
            pause_after: details.pause_after.and_then(|count| count.try_into().ok()),
        }
    }

    /// These, and those of a schedule that are not named here.
    fn or(&self, there: Self) -> Result<Self> {
        // The start of an interval is its own: another trigger begins anew.
        let has_window = self.trigger.is_none() || matches!(there.trigger, Some(Trigger::Cron(_)));
        Ok(Self {
            job: self.job.clone().or(there.job),
            zone: None,
            start: self.start.or(there.start.filter(|_| has_window)),
            end: self.end.or(there.end),
            payload: self.payload.clone().or(there.payload),
            description: self.description.clone().or(there.description),
            priority: self.priority.or(there.priority),
            misfire: self.misfire.or(there.misfire),
            misfire_threshold: self.misfire_threshold.or(there.misfire_threshold),
            time_limit: self.time_limit.or(there.time_limit),
            overlap: self.overlap.or(there.overlap),
            pause_after: self.pause_after.or(there.pause_after),
            trigger: self.trigger_or(there.trigger)?,
        })
    }

    /// An expression keeps the zone and the rules for clock changes that are not named.
    fn trigger_or(&self, there: Option<Trigger>) -> Result<Option<Trigger>> {
        let (named, zone) = (self.trigger.clone(), self.zone.as_deref());
        let cron = |expression: &str, there: &Cron| -> Result<Option<Trigger>> {
            let cron = Cron::parse(expression, zone.unwrap_or(there.zone()))?;
            Ok(Some(Trigger::Cron(cron.gap(there.gap_policy()).fold(there.fold_policy()))))
        };
        match (named, there) {
            (Some(Trigger::Cron(named)), Some(Trigger::Cron(there))) => cron(named.expression(), &there),
            (None, Some(Trigger::Cron(there))) => cron(there.expression(), &there),
            (None, _) if zone.is_some() => {
                Err(Failure::Usage("--zone is that of a cron expression, and it has none".to_owned()))
            }
            (named, there) => Ok(named.or(there)),
        }
    }

    fn schedule(&self, name: &str) -> Result<Schedule> {
        let (Some(job), Some(trigger), Some(payload)) = (&self.job, &self.trigger, &self.payload) else {
            let unreadable = "its trigger or its payload cannot be read: name both";
            return Err(Failure::Usage(unreadable.to_owned()));
        };
        // A job's name lives as long as the program, which ends soon.
        let job: Job<Box<RawValue>> = Job::new(job.clone().leak());
        let schedule = Schedule::new(name, job, payload, trigger.clone())?;
        let schedule = self.start.iter().fold(schedule, |schedule, at| schedule.starting(*at));
        let schedule = self.end.iter().fold(schedule, |schedule, at| schedule.ending(*at));
        let schedule = self.description.iter().fold(schedule, |schedule, text| schedule.description(text));
        let schedule = self.priority.iter().fold(schedule, |schedule, priority| schedule.priority(*priority));
        let schedule = self.misfire.iter().fold(schedule, |schedule, policy| schedule.misfire(*policy));
        let threshold = self.misfire_threshold.iter();
        let schedule = threshold.fold(schedule, |schedule, span| schedule.misfire_threshold(*span));
        let schedule = self.time_limit.iter().fold(schedule, |schedule, limit| schedule.timeout(*limit));
        let schedule = self.overlap.iter().fold(schedule, |schedule, rule| schedule.overlap(*rule));
        Ok(self.pause_after.iter().fold(schedule, |schedule, count| schedule.pause_after(*count)))
    }
}

/// An execution to be enqueued.
#[derive(Debug)]
pub(crate) struct NewExecution {
    pub(crate) job: String,
    pub(crate) payload: Box<RawValue>,
    pub(crate) at: Option<DateTime<Utc>>,
    pub(crate) priority: Option<i32>,
    pub(crate) key: Option<String>,
    /// The one that has the key.
    pub(crate) replace: bool,
    pub(crate) group: Option<String>,
    pub(crate) lane: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) headers: Vec<(String, String)>,
}

pub(crate) fn enqueue(target: &Target, new: &NewExecution, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    // A job's name lives as long as the program, which ends soon.
    let job: Job<Box<RawValue>> = Job::new(new.job.clone().leak());
    let enqueue = client.enqueue(job, &new.payload);
    let enqueue = new.at.iter().fold(enqueue, |enqueue, at| enqueue.at(*at));
    let enqueue = new.priority.iter().fold(enqueue, |enqueue, priority| enqueue.priority(*priority));
    let enqueue = new.key.iter().fold(enqueue, |enqueue, key| enqueue.key(key));
    let enqueue = new.group.iter().fold(enqueue, |enqueue, group| enqueue.group(group));
    let enqueue = new.lane.iter().fold(enqueue, |enqueue, lane| enqueue.lane(lane));
    let enqueue = new.tags.iter().fold(enqueue, |enqueue, tag| enqueue.tag(tag));
    let enqueue = new.headers.iter().fold(enqueue, |enqueue, (name, text)| enqueue.header(name, text));
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

pub(crate) fn add(target: &Target, new: &Definition, subject: &Subject, out: &mut dyn Write) -> Result {
    let (client, name) = (subject.client(target)?, &subject.name);
    let schedule = new.fields.schedule(name)?;
    show_fire_times(&new.fields, new.now, out)?;
    if new.dry_run {
        writeln!(out, "nothing was changed")?;
        return Ok(());
    }
    let seen = if new.replaces { known(&client, name)? } else { None };
    let answer = ensure(&client, &schedule, seen.as_ref(), subject)?;
    if answer == Ensured::Differs
        && !new.replaces
        && let Some(seen) = known(&client, name)?
    {
        show_differences(&seen, &schedule, out)?;
        return Err(Failure::Usage(format!(
            "nothing was changed: schedule {name:?} is defined otherwise; say --replace --yes to replace it, or \
             change some of its fields with `firetime schedules set`"
        )));
    }
    tell(name, answer, seen.as_ref(), &schedule, out)?;
    warn_of_no_node(&client, new.fields.job.as_deref().unwrap_or_default())
}

pub(crate) fn set(target: &Target, new: &Definition, subject: &Subject, out: &mut dyn Write) -> Result {
    let (client, name) = (subject.client(target)?, &subject.name);
    let seen = of_schedule(&client, name, client.schedule(name))?;
    let fields = new.fields.or(Fields::of(&seen))?;
    let schedule = fields.schedule(name)?;
    if new.fields.trigger.is_some() || new.fields.zone.is_some() {
        show_fire_times(&fields, new.now, out)?;
    }
    if new.dry_run {
        show_differences(&seen, &schedule, out)?;
        writeln!(out, "nothing was changed")?;
        return Ok(());
    }
    let answer = ensure(&client, &schedule, Some(&seen), subject)?;
    tell(name, answer, Some(&seen), &schedule, out)?;
    warn_of_no_node(&client, fields.job.as_deref().unwrap_or_default())
}

/// The schedule of this name, if there is one.
fn known(client: &Client, name: &str) -> Result<Option<ScheduleDetails>> {
    match client.schedule(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Makes a schedule, or changes the one that was seen unless somebody else did since.
fn ensure(
    client: &Client,
    schedule: &Schedule,
    seen: Option<&ScheduleDetails>,
    subject: &Subject,
) -> Result<Ensured> {
    let ensure = client.ensure(schedule).reason(&subject.reason);
    Ok(match seen {
        Some(seen) => ensure.if_version(seen.schedule.version),
        None => ensure.if_new(),
    }
    .run()?)
}

/// What became of it, and what it was before.
fn tell(
    name: &str,
    answer: Ensured,
    was: Option<&ScheduleDetails>,
    schedule: &Schedule,
    out: &mut dyn Write,
) -> Result {
    let said = match answer {
        Ensured::Created => "created",
        Ensured::Changed => "changed",
        Ensured::Unchanged => "nothing was changed, it is so",
        Ensured::Quarantined => "it stays in error: give it another trigger",
        Ensured::Differs => {
            let lost =
                "nothing was changed: somebody else has changed it meanwhile; look at it and try again";
            return Err(Failure::Failed(format!("{name:?}: {lost}")));
        }
    };
    writeln!(out, "{}: {said}", escaped(name))?;
    was.map_or(Ok(()), |was| show_differences(was, schedule, out))
}

/// The fields of a schedule that are, or were, to become others.
fn show_differences(stored: &ScheduleDetails, schedule: &Schedule, out: &mut dyn Write) -> Result {
    let shown = |text: &str| match text {
        "" => "none".to_owned(),
        text => escaped(&shortened(text, TEXT_SHOWN)).to_string(),
    };
    for Difference { field, was, becomes, .. } in stored.differences(schedule) {
        writeln!(out, "  {}: {} -> {}", field.replace('_', " "), shown(&was), shown(&becomes))?;
    }
    Ok(())
}

fn show_fire_times(fields: &Fields, now: DateTime<Utc>, out: &mut dyn Write) -> Result {
    let Some(trigger) = &fields.trigger else { return Ok(()) };
    let now = now.timestamp_millis();
    let start = fields.start.map_or(now, |start| start.timestamp_millis());
    let end = fields.end.map(|end| end.timestamp_millis());
    let timing = firetime::trigger::Timing::new(trigger.clone(), Some(start), end)?;
    let shown = if let Trigger::Delay(_) = trigger { 1 } else { SHOWN };
    let fire_times = std::iter::successors(timing.after(now - 1), |at| timing.after(*at)).take(shown);
    let fire_times: Vec<i64> = fire_times.collect();
    match (&fire_times[..], trigger) {
        ([], Trigger::Simple(_)) => {
            writeln!(out, "its fire times are past: what is missed follows the misfire policy")?;
        }
        ([], _) => writeln!(out, "it has no fire time from now on")?,
        _ => writeln!(out, "fires at (UTC):")?,
    }
    for at in fire_times {
        writeln!(out, "  {}", utc(DateTime::from_timestamp_millis(at)))?;
    }
    if let Trigger::Delay(delay) = trigger {
        writeln!(out, "  then {} ms after each run", delay.delay_ms())?;
    }
    Ok(())
}

/// An execution without a live node that has its handler waits; somebody may have misspelt the job.
fn warn_of_no_node(client: &Client, job: &str) -> Result {
    if client.jobs()?.iter().find(|it| it.name == job).is_none_or(|it| it.nodes == 0) {
        let job = escaped(job);
        writeln!(io::stderr(), "firetime: no live node has a handler for job {job:?}: it waits for one")?;
    }
    Ok(())
}

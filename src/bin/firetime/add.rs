//! Making and changing schedules, and executions without one.

use std::io::{self, Write};
use std::ops::Bound;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::ValueEnum;
use firetime::request::Edit;
use firetime::{
    Client, Difference, Edited, Enqueued, Ensured, ErrorKind, Job, MisfirePolicy, OnConflict, Overlap,
    Schedule, ScheduleDetails, ScheduleField, Trigger,
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

/// A schedule that is to be changed.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) fields: Fields,
    /// Taken away.
    pub(crate) clears: Vec<Clearable>,
    /// Given back to its owner's code; all fields if none is named.
    pub(crate) resets: Option<Vec<ScheduleField>>,
    /// Although it withdraws occurrences that are due.
    pub(crate) yes: bool,
    /// Nothing is changed.
    pub(crate) dry_run: bool,
    /// The present, from which an interval counts.
    pub(crate) now: DateTime<Utc>,
}

/// A field that a schedule need not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clearable {
    Start,
    End,
    Description,
    MisfireThreshold,
    TimeLimit,
    Overlap,
    PauseAfter,
    ExpectedBy,
}

impl Clearable {
    /// The edit that takes it away, too.
    fn from(self, edit: Edit<'_>) -> Edit<'_> {
        match self {
            Self::Start => edit.starting(None),
            Self::End => edit.ending(None),
            Self::Description => edit.description(""),
            Self::MisfireThreshold => edit.misfire_threshold(None),
            Self::TimeLimit => edit.time_limit(None),
            Self::Overlap => edit.overlap(None),
            Self::PauseAfter => edit.pause_after(None),
            Self::ExpectedBy => edit.expected_by(None),
        }
    }

    /// The name of its option, if that is given too.
    pub(crate) fn named_in(self, fields: &Fields) -> Option<&'static str> {
        let (is_named, option) = match self {
            Self::Start => (fields.start.is_some(), "--start"),
            Self::End => (fields.end.is_some(), "--end"),
            Self::Description => (fields.description.is_some(), "--description"),
            Self::MisfireThreshold => (fields.misfire_threshold.is_some(), "--misfire-threshold"),
            Self::TimeLimit => (fields.time_limit.is_some(), "--time-limit"),
            Self::Overlap => (fields.overlap.is_some(), "--overlap"),
            Self::PauseAfter => (fields.pause_after.is_some(), "--pause-after"),
            Self::ExpectedBy => (fields.expected_by.is_some(), "--expected-by"),
        };
        is_named.then_some(option)
    }
}

/// A schedule that is to be made.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) fields: Fields,
    /// One of this name is replaced.
    pub(crate) replaces: bool,
    /// Nothing is made.
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
    pub(crate) expected_by: Option<Duration>,
}

impl Fields {
    /// Whether none is given.
    pub(crate) fn are_none(&self) -> bool {
        matches!(
            self,
            Self {
                job: None,
                trigger: None,
                zone: None,
                start: None,
                end: None,
                payload: None,
                description: None,
                priority: None,
                misfire: None,
                misfire_threshold: None,
                time_limit: None,
                overlap: None,
                pause_after: None,
                expected_by: None,
            }
        )
    }

    /// The edit that changes these.
    fn edit<'a>(&self, client: &'a Client, name: &str) -> Edit<'a> {
        let edit = client.edit(name);
        // A job's name lives as long as the program, which ends soon.
        let job = self.job.iter();
        let edit = job.fold(edit, |edit, job| edit.job(Job::<Box<RawValue>>::new(job.clone().leak())));
        let edit = self.trigger.iter().fold(edit, |edit, trigger| match trigger {
            Trigger::Cron(cron) => edit.cron(cron.expression()),
            trigger => edit.trigger(trigger.clone()),
        });
        let edit = self.zone.iter().fold(edit, |edit, zone| edit.zone(zone));
        let edit = self.start.iter().fold(edit, |edit, at| edit.starting(*at));
        let edit = self.end.iter().fold(edit, |edit, at| edit.ending(*at));
        let edit = self.payload.iter().fold(edit, |edit, payload| edit.payload(payload));
        let edit = self.description.iter().fold(edit, |edit, text| edit.description(text));
        let edit = self.priority.iter().fold(edit, |edit, priority| edit.priority(*priority));
        let edit = self.misfire.iter().fold(edit, |edit, policy| edit.misfire(*policy));
        let edit = self.misfire_threshold.iter().fold(edit, |edit, span| edit.misfire_threshold(*span));
        let edit = self.time_limit.iter().fold(edit, |edit, limit| edit.time_limit(*limit));
        let edit = self.overlap.iter().fold(edit, |edit, rule| edit.overlap(*rule));
        let edit = self.pause_after.iter().fold(edit, |edit, count| edit.pause_after(*count));
        self.expected_by.iter().fold(edit, |edit, span| edit.expected_by(*span))
    }

    fn schedule(&self, name: &str) -> Result<Schedule> {
        let (Some(job), Some(trigger), Some(payload)) = (&self.job, &self.trigger, &self.payload) else {
            return Err(Failure::Usage("name its job, its trigger and its payload".to_owned()));
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
        let schedule = self.time_limit.iter().fold(schedule, |schedule, limit| schedule.time_limit(*limit));
        let schedule = self.overlap.iter().fold(schedule, |schedule, rule| schedule.overlap(*rule));
        let schedule = self.pause_after.iter().fold(schedule, |schedule, count| schedule.pause_after(*count));
        Ok(self.expected_by.iter().fold(schedule, |schedule, span| schedule.expected_by(*span)))
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
    if let Some(trigger) = &new.fields.trigger {
        show_fire_times(trigger, (new.fields.start, new.fields.end), new.now, out)?;
    }
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

pub(crate) fn set(target: &Target, new: &Change, subject: &Subject, out: &mut dyn Write) -> Result {
    let (client, name) = (subject.client(target)?, &subject.name);
    let edit = new.fields.edit(&client, name).reason(&subject.reason);
    let edit = new.clears.iter().fold(edit, |edit, field| field.from(edit));
    let edit = new.resets.iter().flatten().fold(edit, |edit, field| edit.give_back(*field));
    let gives_all_back = new.resets.as_ref().is_some_and(Vec::is_empty);
    let edit = if gives_all_back { edit.give_back_all() } else { edit };
    let plan = of_schedule(&client, name, edit.plan())?;
    let retimes = |it: &Difference| ["trigger", "starts", "ends"].contains(&it.field);
    if new.fields.trigger.is_some() || new.fields.zone.is_some() || plan.differences.iter().any(retimes) {
        show_fire_times(&plan.trigger, (plan.starts, plan.ends), new.now, out)?;
    }
    if new.dry_run {
        show(&plan.differences, out)?;
        let withdraws = plan.withdraws.map_or_else(|| "nothing".to_owned(), |it| it.to_string());
        writeln!(out, "  would withdraw {withdraws}")?;
        writeln!(out, "nothing was changed")?;
        return Ok(());
    }
    if let Some(withdraws) = plan.withdraws.filter(|_| !new.yes) {
        return Err(Failure::Usage(format!(
            "nothing was changed: this would withdraw {withdraws}, which nobody has claimed; say --yes to change it \
             all the same"
        )));
    }
    let before = of_schedule(&client, name, client.schedule(name))?.schedule;
    tell_edit(name, &edit.if_version(plan.version).run()?, out)?;
    let given_back: Vec<&str> =
        before.by_hand.iter().filter(|it| !plan.by_hand.contains(it)).map(|it| it.as_str()).collect();
    if !given_back.is_empty() {
        let fields = given_back.join(", ").replace('_', " ");
        writeln!(
            out,
            "  given back: {fields}; the next sync of {} sets them",
            escaped(plan.owner.as_deref().unwrap_or_default())
        )?;
    }
    let job =
        plan.differences.iter().find(|it| it.field == "job").map_or(before.job, |it| it.becomes.clone());
    warn_of_no_node(&client, &job)
}

fn tell_edit(name: &str, answer: &Edited, out: &mut dyn Write) -> Result {
    let (said, plan) = match answer {
        Edited::Changed(plan) => ("changed", plan),
        Edited::Quarantined(plan) => ("it stays in error: give it another trigger", plan),
        Edited::Differs => return Err(raced(name)),
        _ => {
            writeln!(out, "{}: nothing was changed, it is so", escaped(name))?;
            return Ok(());
        }
    };
    writeln!(out, "{}: {said}", escaped(name))?;
    show(&plan.differences, out)?;
    if let Some(withdraws) = plan.withdraws {
        writeln!(out, "  withdrew {withdraws}")?;
    }
    if !plan.by_hand.is_empty() && !plan.differences.is_empty() {
        let fields: Vec<&str> = plan.by_hand.iter().map(|field| field.as_str()).collect();
        let (fields, owner) =
            (fields.join(", ").replace('_', " "), escaped(plan.owner.as_deref().unwrap_or_default()));
        writeln!(out, "  by hand: {fields}; syncs of {owner} leave them so until --reset gives them back")?;
    }
    Ok(())
}

/// Somebody else was faster.
fn raced(name: &str) -> Failure {
    let lost = "nothing was changed: somebody else has changed it meanwhile; look at it and try again";
    Failure::Failed(format!("{name:?}: {lost}"))
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
        Ensured::Differs => return Err(raced(name)),
        _ => "stored",
    };
    writeln!(out, "{}: {said}", escaped(name))?;
    was.map_or(Ok(()), |was| show_differences(was, schedule, out))
}

/// The fields of a schedule that are, or were, to become others.
fn show_differences(stored: &ScheduleDetails, schedule: &Schedule, out: &mut dyn Write) -> Result {
    show(&stored.differences(schedule), out)
}

fn show(differences: &[Difference], out: &mut dyn Write) -> Result {
    let shown = |text: &str| match text {
        "" => "none".to_owned(),
        text => escaped(&shortened(text, TEXT_SHOWN)).to_string(),
    };
    for Difference { field, was, becomes, .. } in differences {
        writeln!(out, "  {}: {} -> {}", field.replace('_', " "), shown(was), shown(becomes))?;
    }
    Ok(())
}

/// The next fire times of a trigger in a window.
fn show_fire_times(
    trigger: &Trigger,
    (start, end): (Option<DateTime<Utc>>, Option<DateTime<Utc>>),
    now: DateTime<Utc>,
    out: &mut dyn Write,
) -> Result {
    let end = end.map_or(Bound::Unbounded, Bound::Included);
    let first = start.map_or(now, |start| start.max(now));
    let anchored = trigger.clone().anchored(start.unwrap_or(now))?;
    let fire_times: Vec<DateTime<Utc>> =
        anchored.fire_times((Bound::Included(first), end)).take(SHOWN).collect();
    match (&fire_times[..], trigger) {
        ([], Trigger::Simple(_)) => {
            writeln!(out, "its fire times are past: what is missed follows the misfire policy")?;
        }
        ([], _) => writeln!(out, "it has no fire time from now on")?,
        _ => writeln!(out, "fires at (UTC):")?,
    }
    for at in fire_times {
        writeln!(out, "  {}", utc(Some(at)))?;
    }
    if let Trigger::Delay(delay) = trigger {
        writeln!(out, "  then {} ms after each run", delay.delay().as_millis())?;
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

//! Edit: some fields of a schedule become others.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{check, request};
use crate::api::config::check_schedule_name;
use crate::api::job::check_job;
use crate::api::{Client, Job};
use crate::domain::{
    Difference, Error, ErrorKind, FieldSet, JobPolicy, JobSpec, Millis, MisfirePolicy, Overlap, PauseAfter,
    ScheduleField, Timestamp, payload,
};
use crate::store::sync::{PlannedEdit, SyncRow, edited};
use crate::store::{Author, Definition, Ensured, OnlyIf, ScheduleRow, SyncStep, Verbs, Withdraws};
use crate::time::{Window, millis};
use crate::trigger::{Cron, Timing, Trigger};

request! {
    /// Changes some fields of a schedule; all others stay as they are. Made by [`Client::edit`].
    ///
    /// The schedule is read, changed, and written if it still has the version that was read. If somebody else
    /// was faster, the same fields are changed in what the other left, unless it is
    /// [to be of a version](Self::if_version).
    ///
    /// What a schedule need not have is taken away with `None`, as in `edit.ending(None)`.
    ///
    /// Of a schedule that lives in code ([`Client::sync`]) the fields that this changes are the operator's
    /// from now on: its owner's code leaves them as they are, until they are [given back](Self::give_back).
    ///
    /// Another trigger withdraws occurrences that are due and not yet claimed, as [`Client::ensure`] says;
    /// [`plan`](Self::plan) tells beforehand which.
    ///
    /// ```
    /// use firetime::{Client, Edited, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Schedule::new("nightly", REPORT, &(), Trigger::cron("0 30 2 * * ?", "Europe/Berlin")?)?;
    /// client.ensure(&nightly).run()?;
    /// let edit = client.edit("nightly").cron("0 0 4 * * ?").priority(7).reason("the backup takes longer");
    /// let plan = edit.plan()?;
    /// assert_eq!(plan.differences.len(), 2);
    /// assert!(plan.withdraws.is_none(), "nothing is due");
    /// assert!(matches!(edit.if_version(plan.version).run()?, Edited::Changed(_)));
    /// assert_eq!(client.edit("nightly").priority(7).run()?, Edited::Unchanged);
    /// assert_eq!(client.schedule("nightly")?.schedule.trigger, "cron 0 0 4 * * ? [Europe/Berlin]");
    /// client.edit("nightly").time_limit(std::time::Duration::from_secs(90)).run()?;
    /// client.edit("nightly").time_limit(None).run()?;
    /// assert_eq!(client.schedule("nightly")?.time_limit, None, "it is its job's again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Edit { name: String, changes: Changes, gives_back: FieldSet, version: Option<i64> } -> Edited
}

/// What is named.
#[derive(Clone, Debug, Default)]
struct Changes {
    job: Option<JobSpec>,
    rule: Option<Rule>,
    zone: Option<String>,
    start: Taken<DateTime<Utc>>,
    end: Taken<DateTime<Utc>>,
    payload: Option<Result<String, String>>,
    description: Option<String>,
    priority: Option<i32>,
    misfire: Option<MisfirePolicy>,
    threshold: Taken<Millis>,
    time_limit: Taken<Millis>,
    overlap: Taken<Overlap>,
    pause_after: Option<PauseAfter>,
    expected_by: Taken<Millis>,
}

/// None: it stays; with None in it, it is taken away.
type Taken<T> = Option<Option<T>>;

/// When it is to fire.
#[derive(Clone, Debug)]
enum Rule {
    Whole(Trigger),
    /// An expression for the zone, and the rules, of the one that is there.
    Expression(String),
    Interval(Duration),
}

impl Client {
    /// Changes some fields of a schedule; all others stay as they are.
    pub fn edit(&self, name: &str) -> Edit<'_> {
        Edit {
            client: self,
            name: name.to_owned(),
            changes: Changes::default(),
            gives_back: FieldSet::default(),
            version: None,
            by: self.attribution(),
        }
    }
}

impl Edit<'_> {
    /// Another trigger. Of two triggers the one that is named last counts. Default: the one that is there.
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.changes.rule = Some(Rule::Whole(trigger));
        self
    }

    /// Fires as this [cron expression](Trigger::cron) says, in the time zone and with the rules for clock
    /// changes of the expression that is there; of another trigger, in UTC. Default: the trigger that is
    /// there.
    pub fn cron(mut self, expression: &str) -> Self {
        self.changes.rule = Some(Rule::Expression(expression.to_owned()));
        self
    }

    /// The time zone of the cron expression, of the named one or the one that is there: an IANA name such as
    /// `Europe/Berlin`. Default: the one that is there.
    pub fn zone(mut self, zone: &str) -> Self {
        self.changes.zone = Some(zone.to_owned());
        self
    }

    /// Fires [at this interval](Trigger::every), from the edit on. Default: the trigger that is there.
    pub fn every(mut self, interval: Duration) -> Self {
        self.changes.rule = Some(Rule::Interval(interval));
        self
    }

    /// Nothing fires before this instant; with `None` a cron expression starts at once. Default: as it is;
    /// the start of an interval goes with that, and cannot be taken away.
    pub fn starting(mut self, at: impl Into<Option<DateTime<Utc>>>) -> Self {
        self.changes.start = Some(at.into());
        self
    }

    /// Nothing fires after this instant; with `None` it has no end. Default: as it is.
    pub fn ending(mut self, at: impl Into<Option<DateTime<Utc>>>) -> Self {
        self.changes.end = Some(at.into());
        self
    }

    /// Runs another job, which takes the same payload if none is [named](Self::payload). Default: the one it
    /// runs.
    pub fn job<P>(mut self, job: Job<P>) -> Self {
        self.changes.job = Some(job.spec());
        self
    }

    /// What its handler is given. Up to 256 KiB of JSON (checked when the request is run). Default: as it is.
    pub fn payload(mut self, payload: &impl Serialize) -> Self {
        self.changes.payload = Some(payload::encode(payload).map_err(|error| error.to_string()));
        self
    }

    /// What it is for: one line of at most 500 characters. Default: as it is.
    pub fn description(mut self, text: &str) -> Self {
        self.changes.description = Some(text.to_owned());
        self
    }

    /// As [`Schedule::priority`](crate::Schedule::priority). Default: as it is.
    pub fn priority(mut self, priority: i32) -> Self {
        self.changes.priority = Some(priority);
        self
    }

    /// As [`Schedule::misfire`](crate::Schedule::misfire). Default: as it is.
    pub fn misfire(mut self, policy: MisfirePolicy) -> Self {
        self.changes.misfire = Some(policy);
        self
    }

    /// As [`Schedule::misfire_threshold`](crate::Schedule::misfire_threshold), and with `None` its default.
    /// Default: as it is.
    pub fn misfire_threshold(mut self, threshold: impl Into<Option<Duration>>) -> Self {
        self.changes.threshold = Some(threshold.into().map(millis));
        self
    }

    /// As [`Schedule::time_limit`](crate::Schedule::time_limit); with `None` its job says how long. Default:
    /// as it is.
    pub fn time_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.changes.time_limit = Some(limit.into().map(|limit| millis(limit).max(1)));
        self
    }

    /// As [`Schedule::overlap`](crate::Schedule::overlap), and with `None` its default. Default: as it is.
    pub fn overlap(mut self, rule: impl Into<Option<Overlap>>) -> Self {
        self.changes.overlap = Some(rule.into());
        self
    }

    /// As [`Schedule::pause_after`](crate::Schedule::pause_after), and with `None` its default. Default: as
    /// it is.
    pub fn pause_after(mut self, occurrences: impl Into<Option<u32>>) -> Self {
        self.changes.pause_after = Some(PauseAfter::of(occurrences.into()));
        self
    }

    /// As [`Schedule::expected_by`](crate::Schedule::expected_by); with `None`, or zero, nobody waits for it
    /// any more. Default: as it is.
    pub fn expected_by(mut self, span: impl Into<Option<Duration>>) -> Self {
        let span = span.into().filter(|span| !span.is_zero());
        self.changes.expected_by = Some(span.map(|span| millis(span).max(1)));
        self
    }

    /// Gives a field back to the code of the schedule's owner: it stays as it is until that code's next
    /// [sync](Client::sync) whose revision is not lower than the known one, which sets it. Default: what an
    /// operator has changed stays the operator's.
    pub fn give_back(mut self, field: ScheduleField) -> Self {
        self.gives_back = self.gives_back.iter().chain([field]).collect();
        self
    }

    /// Gives all fields back: see [`Edit::give_back`].
    pub fn give_back_all(mut self) -> Self {
        self.gives_back = ScheduleField::ALL.iter().copied().collect();
        self
    }

    /// Only if the schedule has still this [version](crate::ScheduleView::version); else nothing is changed,
    /// and the answer is [`Edited::Differs`]. Default: any.
    pub fn if_version(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }

    /// What the request would come to now. It only reads.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn plan(&self) -> Result<EditPlan, Error> {
        let (row, definition) = self.resolved(&*self.client.store)?;
        self.planned(&*self.client.store, &definition, row)
    }

    /// Runs the request in a transaction of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a field cannot be so (the trigger can never fire, the payload is too large,
    /// the actor or the reason too long), or no schedule can have this name; [`ErrorKind::NotFound`] if there
    /// is no such schedule; [`ErrorKind::Data`] if its trigger or its job cannot be read, and none is named;
    /// [`ErrorKind::Conflict`] if others keep changing it; or the database's failure.
    pub fn run(self) -> Result<Edited, Error> {
        let edited = self.over(&*self.client.store)?;
        if matches!(edited, Edited::Changed(_) | Edited::Quarantined(_)) {
            self.client.announce(&self.name);
        }
        Ok(edited)
    }

    fn over(&self, verbs: &dyn Verbs) -> Result<Edited, Error> {
        loop {
            let (row, definition) = self.resolved(verbs)?;
            if self.version.is_some_and(|version| version != row.version) {
                return Ok(Edited::Differs);
            }
            let plan = self.planned(verbs, &definition, row)?;
            match verbs.ensure(&definition).map_err(|error| self.explained(error))? {
                Ensured::Unchanged => return Ok(Edited::Unchanged),
                Ensured::Quarantined => return Ok(Edited::Quarantined(plan)),
                Ensured::Created | Ensured::Changed => return Ok(Edited::Changed(plan)),
                // Somebody has changed it since it was read.
                Ensured::Differs => {}
            }
        }
    }

    /// The schedule, and what it is to be.
    fn resolved(&self, verbs: &dyn Verbs) -> Result<(ScheduleRow, Definition), Error> {
        check(&self.by)?;
        check_schedule_name(&self.name)?;
        let found = verbs.schedule(&self.client.application, &self.name)?;
        let row = found.ok_or_else(|| self.client.unknown(&self.name))?;
        let definition = self.definition(&row).map_err(|error| self.explained(error))?;
        Ok((row, definition))
    }

    fn planned(
        &self,
        verbs: &dyn Verbs,
        definition: &Definition,
        row: ScheduleRow,
    ) -> Result<EditPlan, Error> {
        let (version, row) = (row.version, SyncRow::from(row));
        let planned = edited(definition, &row, verbs.now()?);
        let PlannedEdit { schedule, ownership } =
            planned.map_err(|problem| self.explained(problem.error()))?;
        let differences = match schedule.step {
            SyncStep::Changed { differences } | SyncStep::Quarantined { differences } => differences,
            _ => Vec::new(),
        };
        let utc = |at: Option<Timestamp>| at.and_then(Timestamp::utc);
        Ok(EditPlan {
            version,
            differences,
            trigger: definition.trigger.clone(),
            starts: utc(definition.start),
            ends: utc(definition.end),
            withdraws: schedule.withdraws,
            by_hand: ownership.by_hand().iter().collect(),
            owner: ownership.owner,
        })
    }

    /// The row as a definition, with the named fields.
    fn definition(&self, row: &ScheduleRow) -> Result<Definition, Error> {
        let changes = &self.changes;
        let (trigger, start, end) = changes.timed(row)?;
        let job = match &changes.job {
            Some(job) => job.clone(),
            None if row.job.is_empty() => {
                return Err(Error::new(ErrorKind::Data, "its job is missing: name one, too"));
            }
            None => JobSpec::new(&row.job, JobPolicy::DEFAULT),
        };
        check_job(&job)?;
        let refused = |text: String| Error::new(ErrorKind::Config, format!("payload: {text}"));
        let payload = changes.payload.clone().transpose().map_err(refused)?;
        let stored = Definition::stored(&self.name, &row.job, &row.settings, trigger);
        Ok(Definition {
            application: self.client.application.clone(),
            job,
            payload: payload.unwrap_or(stored.payload),
            start,
            end,
            priority: changes.priority.unwrap_or(stored.priority),
            misfire: changes.misfire.unwrap_or(stored.misfire),
            threshold: changes
                .threshold
                .map_or(stored.threshold, |it| it.unwrap_or(Window::default().threshold)),
            time_limit: changes.time_limit.unwrap_or(stored.time_limit),
            overlap: changes.overlap.unwrap_or(stored.overlap),
            pause_after: changes.pause_after.unwrap_or(stored.pause_after),
            expected_by: changes.expected_by.unwrap_or(stored.expected_by),
            description: changes.description.clone().unwrap_or(stored.description),
            only_if: OnlyIf::Version(row.version),
            author: Author::Hand { gives_back: self.gives_back.clone() },
            by: self.by.clone(),
            ..stored
        })
    }

    fn explained(&self, error: Error) -> Error {
        error.during(&format!("editing schedule {:?}", self.name))
    }
}

impl Changes {
    /// When it is to fire, and from when to when.
    fn timed(&self, row: &ScheduleRow) -> Result<(Trigger, Option<Timestamp>, Option<Timestamp>), Error> {
        let timing = row.when.timing();
        let there = timing.as_ref().ok().map(Timing::trigger);
        let trigger = match (self.trigger(there)?, &timing) {
            (Some(trigger), _) => trigger,
            (None, Err(problem)) => {
                return Err(Error::new(ErrorKind::Data, format!("{problem}: name its trigger, too")));
            }
            (None, Ok(_)) => return Err(Error::new(ErrorKind::Data, "it has no trigger: name one, too")),
        };
        // The start of an interval is its own: another trigger begins anew.
        let has_window = self.rule.is_none() || matches!(there, Some(Trigger::Cron(_)));
        let start = timing.as_ref().ok().and_then(Timing::start).filter(|_| has_window);
        let end = timing.as_ref().ok().and_then(Timing::end);
        if self.start == Some(None) && self.rule.is_none() && !matches!(trigger, Trigger::Cron(_)) {
            let problem = "its interval counts from its start, which cannot be taken away: name another start, or \
                           another trigger";
            return Err(Error::new(ErrorKind::Config, problem));
        }
        let named = |named: Taken<DateTime<Utc>>, there| named.map_or(there, |at| at.map(Timestamp::from));
        Ok((trigger, named(self.start, start), named(self.end, end)))
    }

    /// The named trigger, or the one that is there with what is named of it.
    fn trigger(&self, there: Option<&Trigger>) -> Result<Option<Trigger>, Error> {
        let refused = |text: String| Error::new(ErrorKind::Config, text);
        let zone = self.zone.as_deref();
        let (expression, rules) = match (&self.rule, there) {
            (Some(Rule::Expression(expression)), Some(Trigger::Cron(cron))) => (&**expression, Some(cron)),
            (Some(Rule::Expression(expression)), _) => (&**expression, None),
            (Some(Rule::Whole(Trigger::Cron(cron))), _) => (cron.expression(), Some(cron)),
            (None, Some(Trigger::Cron(cron))) => (cron.expression(), Some(cron)),
            _ if zone.is_some() => {
                let problem = "a time zone is that of a cron expression, and there is none";
                return Err(refused(problem.to_owned()));
            }
            (Some(Rule::Interval(interval)), _) => {
                return Trigger::every(*interval).map(Some).map_err(|error| refused(error.to_string()));
            }
            (Some(Rule::Whole(trigger)), _) => return Ok(Some(trigger.clone())),
            (None, there) => return Ok(there.cloned()),
        };
        let zone = zone.or(rules.map(Cron::zone)).unwrap_or("UTC");
        let cron = Cron::parse(expression, zone).map_err(|error| refused(error.to_string()))?;
        let cron = rules.into_iter().fold(cron, |cron, it| cron.with_gap(it.gap()).with_fold(it.fold()));
        Ok(Some(Trigger::Cron(cron)))
    }
}

/// What an [edit](crate::request::Edit) would come to, or has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditPlan {
    /// The version of the schedule that was read, for [`Edit::if_version`](crate::request::Edit::if_version).
    pub version: i64,
    /// The fields that become others.
    pub differences: Vec<Difference>,
    /// The trigger that it has afterwards, and the instants from which and up to which it fires.
    pub trigger: Trigger,
    /// See [`trigger`](Self::trigger).
    pub starts: Option<DateTime<Utc>>,
    /// See [`trigger`](Self::trigger).
    pub ends: Option<DateTime<Utc>>,
    /// The occurrences that are due and not yet claimed, and that another trigger ends.
    pub withdraws: Option<Withdraws>,
    /// In whose code the schedule lives; none if it is nobody's.
    pub owner: Option<String>,
    /// The fields that are the operator's afterwards; none if the schedule is nobody's.
    pub by_hand: Vec<ScheduleField>,
}

/// The answer to an [edit](crate::request::Edit).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edited {
    /// These fields were changed, or given back.
    Changed(EditPlan),
    /// It was so already; nothing was written.
    Unchanged,
    /// It is in ERROR and fires nothing, and stays so: another trigger begins it anew. These fields were
    /// changed.
    Quarantined(EditPlan),
    /// It has another version than it was to have: nothing was changed.
    Differs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Schedule;
    use crate::api::request::tests::client;
    use crate::domain::ScheduleState;
    use crate::{AuditFilter, Gap};

    fn trigger(client: &Client) -> String {
        client.schedule("s").unwrap().schedule.trigger
    }

    #[test]
    fn what_is_not_named_stays() {
        let (client, _) = client();
        let job: Job<()> = Job::new("job");
        let cron = Cron::parse("0 30 2 * * ?", "Europe/Berlin").unwrap().with_gap(Gap::Skip);
        let end = DateTime::from_timestamp_millis(4_000_000_000_000).unwrap();
        let nightly = Schedule::new("s", job, &(), Trigger::Cron(cron)).unwrap().ending(end).pause_after(3);
        client.ensure(&nightly.time_limit(Duration::from_secs(9)).overlap(Overlap::Queue(2))).run().unwrap();
        let before = client.schedule("s").unwrap();
        let Edited::Changed(plan) = client.edit("s").cron("0 45 2 * * ?").run().unwrap() else { panic!() };
        let [difference] = &plan.differences[..] else { panic!("{plan:?}") };
        assert_eq!(difference.becomes, "cron 0 45 2 * * ? [Europe/Berlin], gap SKIP");
        assert_eq!((plan.owner.as_deref(), &plan.by_hand[..], plan.ends), (None, &[][..], Some(end)));
        client.edit("s").zone("UTC").run().unwrap();
        assert_eq!(trigger(&client), "cron 0 45 2 * * ? [UTC], gap SKIP");
        let after = client.schedule("s").unwrap();
        assert_eq!(
            (after.ends, after.time_limit, after.pause_after),
            (Some(end), Some(Duration::from_secs(9)), Some(3))
        );
        assert_eq!((&after.overlap, &after.payload), (&before.overlap, &before.payload));
        client.edit("s").payload(&7).job(Job::<u8>::new("other")).ending(end).run().unwrap();
        let after = client.schedule("s").unwrap();
        assert_eq!((after.payload.as_str(), after.schedule.job.as_str()), ("7", "other"));
        // Another interval begins anew.
        client.edit("s").every(Duration::from_secs(60)).run().unwrap();
        assert_eq!(trigger(&client), "every 60000 ms");
        let edits = client.audit(&AuditFilter { verb: Some("edit".to_owned()), ..AuditFilter::default() });
        assert_eq!(edits.unwrap().len(), 4);
    }

    #[test]
    fn each_field_can_be_edited() {
        let (client, _) = client();
        let second = Duration::from_secs(1);
        let start = client.now().unwrap() + second;
        let edit = || {
            client
                .edit("s")
                .trigger(Trigger::fixed_delay(second).unwrap())
                .starting(start)
                .description("so")
                .priority(-2)
                .misfire(MisfirePolicy::FireAll)
                .misfire_threshold(second * 90)
                .time_limit(second)
                .overlap(Overlap::Replace)
                .pause_after(0)
        };
        assert_eq!(edit().plan().unwrap().differences.len(), 9, "{:?}", edit().plan());
        assert!(matches!(edit().run().unwrap(), Edited::Changed(_)));
        assert_eq!(edit().run().unwrap(), Edited::Unchanged);
        let plan = edit().plan().unwrap();
        assert_eq!((plan.differences, plan.starts), (Vec::new(), Some(start)));
    }

    #[test]
    fn what_is_taken_away_is_as_if_it_had_never_been_named() {
        let (client, _) = client();
        let (job, second): (Job<()>, _) = (Job::new("job"), Duration::from_secs(1));
        let made = || Schedule::new("s", job, &(), Trigger::cron("0 30 2 * * ?", "UTC").unwrap()).unwrap();
        client.ensure(&made()).run().unwrap();
        let plain = client.schedule("s").unwrap();
        let start = client.now().unwrap() + second;
        let named = made().starting(start).ending(start + 90 * second).description("so").time_limit(second);
        let named = named.misfire_threshold(second * 90).overlap(Overlap::Replace).pause_after(3);
        client.ensure(&named.expected_by(second)).run().unwrap();
        let edit = || {
            let edit = client.edit("s").starting(None).ending(None).description("").time_limit(None);
            edit.misfire_threshold(None).overlap(None).pause_after(None).expected_by(None)
        };
        let Edited::Changed(plan) = edit().run().unwrap() else { panic!() };
        assert_eq!((plan.differences.len(), plan.starts, plan.ends), (8, None, None), "{plan:?}");
        assert_eq!(client.schedule("s").unwrap().differences(&made()), []);
        let after = client.schedule("s").unwrap();
        assert_eq!((after.starts, after.ends, after.overlap), (plain.starts, None, plain.overlap));
        assert_eq!(edit().run().unwrap(), Edited::Unchanged);
    }

    /// An end that has passed is taken away: it fires again.
    #[test]
    fn a_schedule_that_has_ended_fires_again_without_its_end() {
        let (client, _) = client();
        let past = client.now().unwrap() - Duration::from_secs(90);
        client.edit("s").cron("0 30 2 * * ?").ending(past).run().unwrap();
        assert_eq!(client.schedule("s").unwrap().schedule.state, ScheduleState::Complete);
        client.edit("s").ending(None).run().unwrap();
        let schedule = client.schedule("s").unwrap().schedule;
        assert!(schedule.state == ScheduleState::Active && schedule.next.is_some(), "{schedule:?}");
    }

    #[test]
    fn the_start_of_an_interval_is_not_taken_away() {
        let (client, _) = client();
        let minute = Duration::from_secs(60);
        client.edit("s").every(minute).run().unwrap();
        let error = client.edit("s").starting(None).run().unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains("another start"), "{error}");
        client.edit("s").starting(None).every(2 * minute).run().unwrap();
        client.edit("s").starting(None).cron("0 30 2 * * ?").run().unwrap();
        assert_eq!(client.schedule("s").unwrap().starts, None);
    }

    #[test]
    fn an_edit_of_another_version_changes_nothing() {
        let (client, announced) = client();
        let version = client.edit("s").priority(1).plan().unwrap().version;
        client.edit("s").priority(2).run().unwrap();
        let before = announced.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(client.edit("s").priority(1).if_version(version).run().unwrap(), Edited::Differs);
        assert_eq!(client.schedule("s").unwrap().priority, 2);
        assert_eq!(announced.load(std::sync::atomic::Ordering::Relaxed), before);
        assert!(matches!(
            client.edit("s").priority(1).if_version(version + 1).run().unwrap(),
            Edited::Changed(_)
        ));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (client, _) = client();
        let refused = [
            (client.edit("s").cron("0 0 25 * * ?"), "25"),
            (client.edit("s").zone("UTC"), "cron expression"),
            (client.edit("s").every(Duration::from_secs(5)).zone("UTC"), "cron expression"),
            (client.edit("s").cron("0 0 2 * * ?").zone("Mars/Olympus"), "Mars"),
            (client.edit("s").every(Duration::ZERO), "interval"),
            (client.edit("s").payload(&std::collections::BTreeMap::from([((1, 2), 3)])), "payload"),
            (client.edit("s").description("a\nb"), "control character"),
            (client.edit("s").pause_after(1_001), "pause_after"),
            (client.edit("").priority(1), "name"),
            (client.edit("s").actor("a\nb"), "actor"),
        ];
        for (edit, word) in refused {
            let error = edit.run().unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains(word), "{error}: {word}");
        }
        let planned = client.edit("s").description("a\nb").plan().unwrap_err();
        assert_eq!(planned.kind(), ErrorKind::Config, "{planned}");
        assert_eq!(client.edit("t").priority(1).run().unwrap_err().kind(), ErrorKind::NotFound);
        client.remove("s").run().unwrap();
        assert_eq!(client.edit("s").priority(1).plan().unwrap_err().kind(), ErrorKind::NotFound);
    }
}

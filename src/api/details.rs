//! One schedule, or one execution, whole.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::spans::some_as_millis;
use crate::api::{ExecutionView, NodeView, OwnerView, Schedule, ScheduleView};
use crate::domain::{
    Difference, Error, ErrorKind, JobId, MisfirePolicy, Overlap, ScheduleField, Timestamp, Word, payload,
};
use crate::store::Described;
use crate::store::audit::AuditRow;
use crate::store::columns::{NONE, Settings, When};
use crate::trigger::Trigger;

/// One schedule whole: what was asked of it, what comes next, and what became of it. As JSON, instants are
/// epoch milliseconds, and spans are milliseconds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ScheduleDetails {
    /// What a listing shows of it.
    #[serde(flatten)]
    pub schedule: ScheduleView,
    /// What its handler is given: JSON, as it is stored.
    pub payload: String,
    /// Its trigger; none if its columns mean none.
    #[serde(skip)]
    pub rule: Option<Trigger>,
    /// It fires at or after this.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub starts: Option<DateTime<Utc>>,
    /// It fires at or before this.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub ends: Option<DateTime<Utc>>,
    /// Of the due occurrences of its job the highest starts first; a point counts as ten minutes of waiting.
    pub priority: i32,
    /// What becomes of missed occurrences.
    pub misfire: Word<MisfirePolicy>,
    /// How long its handler may take; none: as its job says.
    #[serde(serialize_with = "some_as_millis")]
    pub time_limit: Option<Duration>,
    /// What becomes of an occurrence that is due while another execution has not ended. As JSON `SKIP`,
    /// `QUEUE 3` (three may wait), `REPLACE` or `ALLOW`.
    pub overlap: Word<Overlap>,
    /// After how many occurrences in a row that failed for good or killed their nodes it pauses itself, or
    /// else after two in a row that killed their nodes; 0: never; none: only after those two, without a
    /// failure between them.
    pub pause_after: Option<u32>,
    /// What is known of the owner in whose code it lives; none if it is nobody's.
    pub owned_by: Option<OwnerView>,
    /// Of each field that an operator has changed since ([`ScheduleView::by_hand`]): who did so last, as far
    /// as the audit still has that.
    pub edits: Vec<FieldEdit>,
    /// Its next fire times, five at most; none unless it is active.
    #[serde(serialize_with = "millis")]
    pub next_five: Vec<DateTime<Utc>>,
    /// How many occurrences the ledger holds, by the states of their attempts: of the newest 10,000 attempts.
    pub counts: BTreeMap<String, u64>,
    /// Its newest executions, five at most.
    pub last: Vec<ExecutionView>,
    /// Its definition as it is stored.
    #[serde(skip)]
    pub(super) columns: (Settings, When),
}

/// Who changed a field of a schedule last, by hand. As JSON, instants are epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FieldEdit {
    /// The field.
    pub field: ScheduleField,
    /// When, by the database's clock.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub at: Option<DateTime<Utc>>,
    /// Who.
    pub actor: String,
    /// Why, as far as they said.
    pub reason: String,
}

impl FieldEdit {
    /// The newest of these edits that changed the field; they are in the audit's order, newest first.
    pub(super) fn newest(field: ScheduleField, edits: &[AuditRow]) -> Option<Self> {
        let edit = edits.iter().find(|edit| edit.fields.has(field))?;
        Some(Self { field, at: edit.made.utc(), actor: edit.actor.clone(), reason: edit.reason.clone() })
    }
}

/// One execution whole: the attempts at its occurrence, and where they ran. As JSON, instants are epoch
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecutionDetails {
    /// The attempt that was asked for.
    #[serde(flatten)]
    pub execution: ExecutionView,
    /// A payload of its own, as JSON; none if it is given its schedule's.
    pub payload: Option<String>,
    /// Its headers, texts by name, if it has some ([`Enqueue::header`](crate::request::Enqueue::header)).
    pub headers: BTreeMap<String, String>,
    /// How far its handlers have come, as JSON, if one has said so ([`Context::checkpoint`]).
    ///
    /// [`Context::checkpoint`]: crate::Context::checkpoint
    pub checkpoint: Option<String>,
    /// What the attempt that has succeeded left, as JSON, if it left something ([`Context::result`]).
    ///
    /// [`Context::result`]: crate::Context::result
    pub result: Option<String>,
    /// All attempts at its occurrence, the first first.
    pub attempts: Vec<ExecutionView>,
    /// The nodes that ran them, as far as their rows are still there.
    pub nodes: Vec<NodeView>,
}

impl ScheduleDetails {
    /// The fields that [`Client::ensure`](crate::Client::ensure) would change to make it as described.
    ///
    /// ```
    /// use firetime::{Client, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<String> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// let nightly = Schedule::new("nightly", REPORT, &"all".to_string(), nightly)?;
    /// client.ensure(&nightly).run()?;
    /// let stored = client.schedule("nightly")?;
    /// assert_eq!(stored.differences(&nightly), []);
    /// let [difference] = &stored.differences(&nightly.priority(9))[..] else { panic!() };
    /// assert_eq!((difference.field, &*difference.was, &*difference.becomes), ("priority", "5", "9"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn differences(&self, wanted: &Schedule) -> Vec<Difference> {
        let wanted = wanted.definition(&self.schedule.application);
        let (settings, stored) = &self.columns;
        // An interval that anybody may anchor stays where it is.
        let anchor = self.starts.map_or(Timestamp::at(0), Timestamp::from);
        let when = wanted.timing(anchor).ok().map_or_else(|| stored.clone(), |timing| When::of(&timing));
        let job = if self.schedule.job == wanted.job.name { settings.job } else { None };
        let becomes = wanted.settings(JobId(job.unwrap_or(NONE)));
        let was = Described { job: &self.schedule.job, settings, when: stored };
        let becomes = Described { job: &wanted.job.name, settings: &becomes, when: &when };
        was.differences(&becomes, wanted.is_anchored())
    }
}

impl ExecutionDetails {
    /// The last attempt. Its state is that of the whole execution: it is `PENDING` while a retry waits.
    #[must_use]
    pub fn last(&self) -> &ExecutionView {
        self.attempts.last().unwrap_or(&self.execution)
    }

    /// The [`result`](Self::result) as a value of the type that its handler left; none if it left none.
    ///
    /// ```
    /// use firetime::{Error, ExecutionDetails};
    ///
    /// fn words(execution: &ExecutionDetails) -> Result<usize, Error> {
    ///     Ok(execution.result_as()?.unwrap_or(0))
    /// }
    /// # let _ = words;
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Data`] if it is none of `T`, as after a release that changed it.
    pub fn result_as<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let none =
            |text: &str, said| Error::new(ErrorKind::Data, format!("reading a result: {said}: {text}"));
        let read = |text: &String| payload::decode(text).map_err(|said| none(text, said));
        self.result.as_ref().map(read).transpose()
    }
}

fn millis<S: serde::Serializer>(instants: &[DateTime<Utc>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(instants.iter().map(DateTime::timestamp_millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::FieldSet;

    #[test]
    fn the_audit_tells_who_changed_a_field_last() {
        let edit = |id, actor: &str, fields: &str| AuditRow {
            id,
            application: "app".to_owned(),
            made: Timestamp::at(id * 1_000),
            actor: actor.to_owned(),
            verb: "edit".to_owned(),
            target_type: "schedule".to_owned(),
            target: "s".to_owned(),
            was: String::new(),
            became: "overlap=SKIP".to_owned(),
            fields: FieldSet::read(fields),
            reason: "because".to_owned(),
        };
        let edits = [
            edit(3, "cem", "priority"),
            edit(2, "bea", "trigger,job,payload,misfire_threshold"),
            edit(1, "ann", "priority,misfire"),
        ];
        let by = |field| FieldEdit::newest(field, &edits).map(|edit| edit.actor);
        let of = |who: &str| Some(who.to_owned());
        use ScheduleField::{Job, Misfire, MisfireThreshold, Overlap, Payload, Priority, Trigger};
        assert_eq!([by(Priority), by(Trigger), by(Job)], [of("cem"), of("bea"), of("bea")]);
        assert_eq!([by(MisfireThreshold), by(Payload), by(Misfire)], [of("bea"), of("bea"), of("ann")]);
        assert_eq!(by(Overlap), None);
        let newest = FieldEdit::newest(Trigger, &edits).unwrap();
        assert_eq!((newest.at, newest.reason.as_str()), (Timestamp::at(2_000).utc(), "because"));
    }
}

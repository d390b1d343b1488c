//! Schedules as an application defines them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::Job;
use crate::api::config::check_schedule_name;
use crate::api::job::check_job;
use crate::domain::{Error, ErrorKind, MisfirePolicy, Overlap, PauseAfter, payload};
use crate::store::Definition;
use crate::time::millis;
use crate::trigger::Trigger;

/// What a schedule should be: a name, a job with its payload, a trigger.
///
/// ```
/// use firetime::{Job, MisfirePolicy, Schedule, Trigger};
///
/// const REPORT: Job<String> = Job::new("report");
/// let at_half_past_two = Trigger::cron("0 30 2 * * ?", "Europe/Berlin")?;
/// let nightly = Schedule::new("nightly", REPORT, &"sales".to_string(), at_half_past_two)?
///     .misfire(MisfirePolicy::DoNothing)
///     .priority(7);
/// # let _ = nightly;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a schedule does nothing until a client ensures it"]
pub struct Schedule {
    definition: Definition,
}

impl Schedule {
    /// A schedule called `name` (1 to 200 characters, no control characters; unique per application) that
    /// runs `job` with `payload` whenever `trigger` says so.
    ///
    /// A payload of more than 256 KiB of JSON is refused when the schedule is ensured
    /// ([`ErrorKind::Config`]): store large data elsewhere and let the payload hold its key.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the name cannot be used or the payload cannot be written as JSON.
    pub fn new<P: Serialize>(name: &str, job: Job<P>, payload: &P, trigger: Trigger) -> Result<Self, Error> {
        check_schedule_name(name)?;
        let job = job.spec();
        check_job(&job)?;
        let payload = payload::encode(payload)
            .map_err(|error| Error::new(ErrorKind::Config, format!("schedule {name:?}: payload: {error}")))?;
        Ok(Self { definition: Definition { payload, job, ..Definition::new(name, "", trigger) } })
    }

    /// Nothing fires before this instant. Default: the moment the schedule is created. One in the past moves
    /// no occurrence there: planning begins now ([`Client::ensure`](crate::Client::ensure)).
    pub fn starting(mut self, at: DateTime<Utc>) -> Self {
        self.definition.start = Some(at.into());
        self
    }

    /// Nothing fires after this instant; an occurrence exactly at it still does. Default: no end.
    pub fn ending(mut self, at: DateTime<Utc>) -> Self {
        self.definition.end = Some(at.into());
        self
    }

    /// Of occurrences of its job that are due the higher priority goes first; each point counts as ten
    /// minutes of waiting. Default: 5, as in Quartz.
    pub fn priority(mut self, priority: i32) -> Self {
        self.definition.priority = priority;
        self
    }

    /// What to do with occurrences missed for longer than the threshold. Default:
    /// [`MisfirePolicy::FireOnce`].
    pub fn misfire(mut self, policy: MisfirePolicy) -> Self {
        self.definition.misfire = policy;
        self
    }

    /// How late an occurrence may be before it counts as missed. Default: 60 s; a node raises it to at least
    /// its poll interval plus its store timeout plus 2 s.
    pub fn misfire_threshold(mut self, threshold: Duration) -> Self {
        self.definition.threshold = millis(threshold);
        self
    }

    /// How long a handler may take, in place of what its job says ([`Job::time_limit`]). Default: as its job
    /// says; from 1 ms on.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.definition.time_limit = Some(millis(limit).max(1));
        self
    }

    /// What becomes of an occurrence that is due while another execution of the schedule has not ended.
    /// Default: [`Overlap::Skip`] for what recurs, [`Overlap::Allow`] for what fires once.
    pub fn overlap(mut self, rule: Overlap) -> Self {
        self.definition.overlap = Some(rule);
        self
    }

    /// The schedule pauses itself after so many occurrences in a row that failed for good or killed their
    /// nodes, both kinds counted together: 1 to 1,000. It also does after two in a row that killed their
    /// nodes. Default: only after those two; one that failed for good between them ends the streak. 0
    /// switches both off. More than 1,000 is refused when the schedule is ensured ([`ErrorKind::Config`]).
    ///
    /// An occurrence counts once, after its retries: when its last attempt failed, ran out of time or gave
    /// up. It killed its node if as many nodes died under it as its job allows ([`Job::max_attempts`]);
    /// several on one node that died count once. A success ends the streak, so does a resume of the schedule
    /// or another trigger; skipped and cancelled occurrences and requests by hand do not count. The pause is
    /// in the audit, by `firetime`, with its reason, and told as
    /// [`Event::Contained`](crate::Event::Contained).
    ///
    /// ```
    /// use std::time::Duration;
    /// use firetime::{Job, Schedule, Trigger};
    ///
    /// const SYNC: Job<()> = Job::new("sync");
    /// let every_minute = Trigger::every(Duration::from_secs(60))?;
    /// let sync = Schedule::new("sync", SYNC, &(), every_minute)?.pause_after(5);
    /// # let _ = sync;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause_after(mut self, occurrences: u32) -> Self {
        self.definition.pause_after = PauseAfter::of(Some(occurrences));
        self
    }

    /// Each occurrence is to have succeeded within this span of its fire time, from 1 ms on. Default, and
    /// with zero: nobody waits for it.
    ///
    /// One that has not, nor a later one of the schedule, is told once as
    /// [`Event::ExpectationUnmet`](crate::Event::ExpectationUnmet) and recorded in the audit as `unmet`,
    /// whatever became of it: it failed, runs still, was skipped, or never began. The misfire handler's node
    /// finds it, within half a minute of the span's end. The first success at or behind that fire time,
    /// planned or asked for, is told as [`Event::ExpectationMet`](crate::Event::ExpectationMet) and recorded
    /// as `met`. Nobody waits for what somebody has skipped by hand, held back by a pause, or withdrawn by
    /// another trigger.
    ///
    /// ```
    /// use std::time::Duration;
    /// use firetime::{Job, Schedule, Trigger};
    ///
    /// const REPORT: Job<()> = Job::new("report");
    /// let at_three = Trigger::cron("0 0 3 * * ?", "Europe/Berlin")?;
    /// let three_hours = Duration::from_secs(3 * 3_600);
    /// let nightly = Schedule::new("nightly", REPORT, &(), at_three)?.expected_by(three_hours);
    /// # let _ = nightly;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expected_by(mut self, span: Duration) -> Self {
        self.definition.expected_by = (!span.is_zero()).then(|| millis(span).max(1));
        self
    }

    /// What the schedule is for, shown to people beside it: one line of at most 500 characters without
    /// control characters (checked when the schedule is ensured). Default: empty.
    pub fn description(mut self, text: &str) -> Self {
        text.clone_into(&mut self.definition.description);
        self
    }

    pub(super) fn definition(&self, application: &str) -> Definition {
        Definition { application: application.to_owned(), ..self.definition.clone() }
    }
}

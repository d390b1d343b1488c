//! Trigger: a schedule runs once more, now or later, beside its planned occurrences.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{Begins, awaits, check, joins, ordered};
use crate::api::Client;
use crate::api::config::check_schedule_name;
use crate::api::outgoing::{Begun, OutgoingTarget};
use crate::domain::headers::{self, Headers};
use crate::domain::{Error, ErrorKind, ExecutionId, ScheduleState, Timestamp, payload};
use crate::store::Verbs;
use crate::store::audit::Attribution;
use crate::store::order::{Ordered, RunOrder, implausible, too_large};

/// Runs a schedule once more, beside its planned occurrences: the next fire time stays as it is. Made by
/// [`Client::trigger`].
///
/// The execution has an identity of its own, is retried and recovered as its job says, and finds who
/// asked for it, and why, in [`Context::cause`](crate::Context::cause). It also runs while the schedule
/// is paused, or after its last fire time. Each request makes an execution: one whose answer was lost
/// ([`ErrorKind::Unknown`]) may have made it, which [`Client::audit`] tells.
///
/// ```
/// use firetime::{Client, ExecutionFilter, Job, Schedule, Trigger, Triggered};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// const REPORT: Job<String> = Job::new("report");
/// let client = Client::connect("shop", &url)?;
/// let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
/// client.ensure(&Schedule::new("nightly", REPORT, &"all".to_string(), nightly)?).run()?;
/// let again = client.trigger("nightly").payload(&"berlin").reason("the figures were wrong").run()?;
/// let Triggered::Pending(execution) = again else { panic!("{again:?}") };
/// let row = &client.executions(&ExecutionFilter::default())?[0];
/// assert_eq!((row.id.to_string(), row.state.as_str()), (execution.to_string(), "PENDING"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is run: `.run()`, `.run_in(..)` or `.await`"]
pub struct TriggerNow<'a> {
    client: &'a Client,
    name: String,
    payload: Result<Option<String>, String>,
    headers: Headers,
    at: Option<DateTime<Utc>>,
    by: Attribution,
    begun: Begun,
}

impl Client {
    /// Runs a schedule once more, now or later, beside its planned occurrences.
    pub fn trigger(&self, name: &str) -> TriggerNow<'_> {
        TriggerNow {
            client: self,
            name: name.to_owned(),
            payload: Ok(None),
            headers: Headers::new(),
            at: None,
            by: self.attribution(),
            begun: Begun::default(),
        }
    }
}

awaits!(TriggerNow { name, payload, headers, at, by, begun }, Triggered);

impl Begins for TriggerNow<'_> {
    fn begun(mut self) -> Self {
        let (client, target) = (self.client, OutgoingTarget::Schedule(&self.name));
        self.begun.begin(&client.hooks, &client.application, target, &mut self.headers);
        self
    }
}

impl TriggerNow<'_> {
    ordered!(by);
    joins!(TriggerNow { name, payload, headers, at, by, begun }, Triggered);

    /// What the handler is given instead of the schedule's payload. Default: the schedule's, as it is when
    /// the execution is claimed. Up to 8 KiB of JSON (checked when the request is run). It must be what the
    /// job's handler takes: one that cannot be decoded makes the execution fail.
    pub fn payload(mut self, payload: &impl Serialize) -> Self {
        self.payload = payload::encode(payload).map(Some).map_err(|error| error.to_string());
        self
    }

    /// Gives it a header: a text that its handler reads by this name
    /// ([`Context::header`](crate::Context::header)), in each attempt. As
    /// [`Enqueue::header`](crate::request::Enqueue::header).
    pub fn header(mut self, name: &str, text: &str) -> Self {
        self.headers.insert(name.to_owned(), text.to_owned());
        self
    }

    /// When it is due, in database time; its [`Context::fire_time`](crate::Context::fire_time), to the
    /// millisecond. Default: at once. An instant in the past is due at once, too.
    pub fn at(mut self, at: DateTime<Utc>) -> Self {
        self.at = Some(at);
        self
    }

    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the payload is too large or cannot be written as JSON, the instant lies
    /// before 1973, the actor or the reason is too long or has control characters, or no schedule can have
    /// this name; [`ErrorKind::NotFound`] if there is no such schedule; or the database's failure.
    pub fn run(self) -> Result<Triggered, Error> {
        let begun = self.begun();
        let answer = begun.over(&*begun.client.store)?;
        begun.client.announce(&begun.name);
        Ok(answer)
    }

    pub(super) fn over(&self, verbs: &dyn Verbs) -> Result<Triggered, Error> {
        match verbs.order(&self.resolved()?)? {
            Ordered::Pending(execution) => Ok(Triggered::Pending(execution)),
            Ordered::NotRunnable(state) => Ok(Triggered::NotRunnable(state.unwrap_or(ScheduleState::Error))),
            Ordered::Unknown => Err(self.client.unknown(&self.name)),
        }
    }

    fn resolved(&self) -> Result<RunOrder, Error> {
        let refused = |problem: String| {
            Error::new(ErrorKind::Config, format!("triggering schedule {:?}: {problem}", self.name))
        };
        check(&self.by)?;
        check_schedule_name(&self.name)?;
        let payload = self.payload.clone().map_err(|problem| refused(format!("payload: {problem}")))?;
        if let Some(problem) = payload.as_ref().and_then(|payload| too_large("the payload", payload.len())) {
            return Err(refused(problem));
        }
        let problem = self.begun.refusal().map(str::to_owned).or_else(|| headers::problem(&self.headers));
        if let Some(problem) = problem {
            return Err(refused(problem));
        }
        let at = self.at.map(Timestamp::from);
        if let Some(problem) = at.and_then(implausible) {
            return Err(refused(problem.to_owned()));
        }
        Ok(RunOrder {
            application: self.client.application.clone(),
            schedule: self.name.clone(),
            payload,
            headers: self.headers.clone(),
            at,
            by: self.by.clone(),
        })
    }
}

/// The answer to a [`TriggerNow`](crate::request::TriggerNow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Triggered {
    /// The execution waits for a node; its row id in `QRTZ_RUN`.
    Pending(ExecutionId),
    /// The schedule is in this state, in which nothing of it runs; nothing was made.
    NotRunnable(ScheduleState),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;
    use crate::domain::ExecutionState;
    use crate::store::order::LARGEST_OWN_PAYLOAD;

    #[test]
    fn what_cannot_be_run_is_refused_and_makes_nothing() {
        let (client, announced) = client();
        let before = announced.load(std::sync::atomic::Ordering::Relaxed);
        let large = "x".repeat(LARGEST_OWN_PAYLOAD);
        let refused = [
            (client.trigger("s").payload(&large), "8192"),
            (client.trigger("s").payload(&std::collections::BTreeMap::from([((1, 2), 3)])), "payload"),
            (client.trigger("s").at(DateTime::from_timestamp_millis(1_700_000_000).unwrap()), "seconds"),
            (client.trigger("s").header("a b", "c"), "without spaces"),
            (client.trigger("s").actor("a\nb"), "actor"),
            (client.trigger(""), "name"),
        ];
        for (request, word) in refused {
            let error = request.run().unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains(word), "{error}");
        }
        assert_eq!(client.trigger("t").run().unwrap_err().kind(), ErrorKind::NotFound);
        client.remove("s").run().unwrap();
        assert_eq!(client.trigger("s").run().unwrap_err().kind(), ErrorKind::NotFound);
        let rows = client.executions(&crate::ExecutionFilter::default()).unwrap();
        assert!(rows.iter().all(|row| row.state == ExecutionState::Withdrawn), "by the removal");
        assert_eq!(announced.load(std::sync::atomic::Ordering::Relaxed), before + 1, "by the removal");
    }
}

//! Enqueue: a job is run, now or later, without a schedule.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{Begins, awaits, joins};
use crate::api::config::check_name;
use crate::api::job::check_job;
use crate::api::outgoing::{Begun, OutgoingTarget};
use crate::api::{Client, Job};
use crate::domain::headers::{self, Headers};
use crate::domain::{Error, ErrorKind, ExecutionId, JobPolicy, JobSpec, Millis, payload};
use crate::store::Verbs;
use crate::store::enqueue::{
    DueAt, EnqueueOrder, Keyed, MOST_AT_ONCE, MOST_TAGS, OnConflict, UniqueKey, queue_of,
};
use crate::store::order::{implausible, too_large};
use crate::store::request::{Conflict, EnqueueArguments};
use crate::time::millis;

/// How long after it is stored an execution may be due: 100 years.
const LONGEST_DELAY: Millis = 36_525 * 24 * 3_600_000;

/// The common part of two requests.
#[derive(Debug)]
struct Enqueuing {
    job: JobSpec,
    payloads: Result<Vec<String>, String>,
    groups: Vec<String>,
    lane: Option<String>,
    tags: Vec<String>,
    headers: Headers,
    due: DueAt,
    priority: Option<i32>,
    key: Option<UniqueKey>,
    begun: Begun,
}

impl Enqueuing {
    fn new<'p, P: Serialize + 'p>(job: Job<P>, payloads: impl Iterator<Item = &'p P>) -> Self {
        let mut groups = Vec::new();
        let encode = |payload: &'p P| {
            groups.extend(job.own_group().map(|group| group(payload)));
            payload::encode(payload).map_err(|error| error.to_string())
        };
        Self {
            job: job.spec(),
            payloads: payloads.map(encode).collect(),
            groups,
            lane: None,
            tags: Vec::new(),
            headers: Headers::new(),
            due: DueAt::After(0),
            priority: None,
            key: None,
            begun: Begun::default(),
        }
    }

    fn begun(mut self, client: &Client) -> Self {
        let target = OutgoingTarget::Job(&self.job.name);
        self.begun.begin(&client.hooks, &client.application, target, &mut self.headers);
        self
    }

    /// What is to be stored, and what is to be dropped once it was.
    fn resolved(self, client: &Client) -> Result<(EnqueueOrder, Begun), Error> {
        let Self { job, payloads, groups, lane, mut tags, headers, due, priority, key, begun } = self;
        check_job(&job)?;
        let refused = |problem: String| {
            Err(Error::new(ErrorKind::Config, format!("enqueuing job {:?}: {problem}", job.name)))
        };
        let payloads = match payloads {
            Ok(payloads) => payloads,
            Err(problem) => return refused(format!("payload: {problem}")),
        };
        if let Some(problem) = begun.refusal() {
            return refused(problem.to_owned());
        }
        let problem = too_many(&payloads).or_else(|| headers::problem(&headers)).or_else(|| too_far(due));
        if let Some(problem) = problem {
            return refused(problem);
        }
        for group in groups.iter().filter(|group| !group.is_empty()) {
            check_name("group", group, 200)?;
        }
        if let Some(lane) = &lane {
            check_name("lane", lane, 50)?;
        }
        for tag in &tags {
            check_name("tag", tag, 100)?;
        }
        tags.sort();
        tags.dedup();
        if tags.len() > MOST_TAGS {
            return refused(format!("{} tags, {MOST_TAGS} are possible", tags.len()));
        }
        if let Some(UniqueKey { key, per, .. }) = &key {
            if key.is_empty() && per.is_some() {
                return refused("a period counts for a key, and it has none".to_owned());
            }
            check_name("unique key", key, 200)?;
            if per.is_some_and(|per| per < 1_000) {
                return refused("the period of its key is shorter than a second".to_owned());
            }
        }
        let (application, notifier) = (client.application.clone(), Arc::clone(&client.notifier));
        let lane = lane.unwrap_or_default();
        let order = EnqueueOrder {
            application,
            job,
            payloads,
            groups,
            lane,
            tags,
            headers,
            due,
            priority,
            key,
            notifier,
        };
        Ok((order, begun))
    }
}

/// What is wrong with the number of payloads, or with the size of one, if anything.
fn too_many(payloads: &[String]) -> Option<String> {
    let count = payloads.len();
    if count > MOST_AT_ONCE {
        return Some(format!(
            "{count} executions at once, {MOST_AT_ONCE} are possible: enqueue them in parts"
        ));
    }
    payloads.iter().find_map(|payload| too_large("a payload", payload.len()))
}

/// What is wrong with a due time, if anything.
fn too_far(due: DueAt) -> Option<String> {
    match due {
        DueAt::After(delay) => {
            (delay > LONGEST_DELAY).then(|| "it is to run in more than 100 years".to_owned())
        }
        DueAt::Instant(at) => implausible(at).map(str::to_owned),
    }
}

/// The options that one execution and many have in common.
macro_rules! options {
    () => {
        /// When it is due, in database time; its [`Context::fire_time`](crate::Context::fire_time), to the
        /// millisecond. Default: at once. An instant in the past is due at once, too.
        pub fn at(mut self, at: DateTime<Utc>) -> Self {
            self.order.due = DueAt::Instant(at.into());
            self
        }

        /// How long after it is stored it is due, to the millisecond: up to 100 years. Default: at once.
        pub fn after(mut self, delay: Duration) -> Self {
            self.order.due = DueAt::After(millis(delay));
            self
        }

        /// Among the due executions of its job, in its lane and its group, each point counts as ten minutes
        /// of waiting: the highest begin first, also before a backlog, and the lowest do not wait for ever.
        /// Default: 5.
        pub fn priority(mut self, priority: i32) -> Self {
            self.order.priority = Some(priority);
            self
        }

        /// Lets it run in this [lane](crate::Lane) on nodes that have it, and in its job's lane on others.
        /// 1 to 50 characters, none of them control characters. Default: its job's lane.
        ///
        /// A job's executions in different lanes take turns like those of different jobs, and share its
        /// [bounds](crate::Job::concurrency).
        pub fn lane(mut self, lane: &str) -> Self {
            self.order.lane = Some(lane.to_owned());
            self
        }

        /// Gives it a tag, by which [`Client::executions`] finds it; another with each call, 10 at most. 1 to
        /// 100 characters, none of them control characters. Default: no tags.
        pub fn tag(mut self, tag: &str) -> Self {
            self.order.tags.push(tag.to_owned());
            self
        }

        /// Gives it a header: a text that its handler reads by this name
        /// ([`Context::header`](crate::Context::header)), in each attempt, such as the tenant or a
        /// `traceparent`. Another with each call; the last one of a name counts. Names are told apart by
        /// their case, and have printable ASCII characters without spaces; texts have no control characters.
        /// 32 at most, of 4 KiB together with their names. Default: no headers.
        ///
        /// ```
        /// use firetime::{Client, Job};
        /// # let folder = tempfile::tempdir()?;
        /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
        /// # firetime::migrate(&url)?;
        /// const MAIL: Job<String> = Job::new("mail");
        /// let client = Client::connect("shop", &url)?;
        /// let mail = client.enqueue(MAIL, &"ada@example.org".to_string()).header("tenant", "7").run()?;
        /// assert_eq!(client.execution(mail.id())?.headers["tenant"], "7");
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn header(mut self, name: &str, text: &str) -> Self {
            self.order.headers.insert(name.to_owned(), text.to_owned());
            self
        }
    };
}

/// Runs a job once, now or later, without a schedule. Made by [`Client::enqueue`].
///
/// The execution is one row of `QRTZ_RUN`. It is claimed, retried, recovered, cancelled, shown and kept in
/// the ledger as those of schedules are; [`Context::schedule`](crate::Context::schedule) names its job's
/// queue, `queue:JOB`, and [`Context::cause`](crate::Context::cause) is
/// [`Cause::Enqueued`](crate::Cause::Enqueued). Its [fence](crate::Context::fence) counts the claims of this
/// execution alone. Without a live node that has a handler for its job, it waits. Nodes hear of it as
/// it is stored.
///
/// A request whose answer was lost ([`ErrorKind::Unknown`]) may have stored it.
///
/// ```
/// use firetime::{Client, Enqueued, Job};
/// use std::time::Duration;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// const MAIL: Job<String> = Job::new("mail");
/// let client = Client::connect("shop", &url)?;
/// let Enqueued::Created(execution) = client.enqueue(MAIL, &"ada@example.org".to_string()).run()? else {
///     panic!("it is new")
/// };
/// client.enqueue(MAIL, &"bob@example.org".to_string()).after(Duration::from_secs(3_600)).run()?;
/// let row = client.execution(execution)?.execution;
/// assert_eq!((row.job.as_str(), row.state.as_str(), row.reason.as_str()), ("mail", "PENDING", "enqueued"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is run: `.run()`, `.run_in(..)` or `.await`"]
pub struct Enqueue<'a> {
    client: &'a Client,
    order: Enqueuing,
}

impl Client {
    /// Runs a job once, now or later, without a schedule.
    pub fn enqueue<P: Serialize>(&self, job: Job<P>, payload: &P) -> Enqueue<'_> {
        Enqueue { client: self, order: Enqueuing::new(job, std::iter::once(payload)) }
    }

    /// Runs a job once for each of these payloads, at most 100,000: all of them are stored, or none.
    pub fn enqueue_many<'p, P: Serialize + 'p>(
        &self,
        job: Job<P>,
        payloads: impl IntoIterator<Item = &'p P>,
    ) -> EnqueueMany<'_> {
        EnqueueMany { client: self, order: Enqueuing::new(job, payloads.into_iter()) }
    }
}

awaits!(Enqueue { order }, Enqueued);

impl Begins for Enqueue<'_> {
    fn begun(self) -> Self {
        Self { order: self.order.begun(self.client), ..self }
    }
}

impl Enqueue<'_> {
    options!();

    /// Gives it a key: at most one unfinished execution of its job has it. The key is kept from
    /// when it is stored until the execution has ended for good, also while it waits for a retry, or its
    /// handler runs on beyond its time limit. [`on_conflict`](Self::on_conflict) says what becomes of this
    /// one if another has the key. 1 to 200 characters, none of them control characters. Default: no key.
    ///
    /// ```
    /// use firetime::{Client, Enqueued, Job};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const REMIND: Job<u64> = Job::new("remind");
    /// let client = Client::connect("shop", &url)?;
    /// let Enqueued::Created(first) = client.enqueue(REMIND, &7).key("customer-7").run()? else { panic!() };
    /// assert_eq!(client.enqueue(REMIND, &7).key("customer-7").run()?, Enqueued::Existing(first));
    /// client.cancel(first).run()?;
    /// assert!(matches!(client.enqueue(REMIND, &7).key("customer-7").run()?, Enqueued::Created(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(mut self, key: &str) -> Self {
        self.unique().key = key.to_owned();
        self
    }

    /// Lets its key count only among executions that are due in the same period: the whole spans of this
    /// length since 1970-01-01 00:00 UTC, so that a day begins at midnight UTC. From one second on, to the
    /// millisecond. Default: at any time.
    pub fn key_per(mut self, period: Duration) -> Self {
        self.unique().per = Some(millis(period));
        self
    }

    /// Puts it into this group, in place of the one that its job makes of the payload
    /// ([`Job::group_by`]): for programs that know a job by its name alone. 1 to 200 characters, none of them
    /// control characters; an empty one is no group.
    pub fn group(mut self, group: &str) -> Self {
        self.order.groups = vec![group.to_owned()];
        self
    }

    /// What becomes of it if another execution has its key. Default: [`OnConflict::Existing`].
    pub fn on_conflict(mut self, conflict: OnConflict) -> Self {
        self.unique().on_conflict = conflict;
        self
    }

    /// The request that another program has written.
    pub(super) fn written<'c>(client: &'c Client, it: &EnqueueArguments) -> Enqueue<'c> {
        let on_conflict = match it.on_conflict {
            Some(Conflict::Replace) => OnConflict::Replace,
            // Of a rejected one its row tells.
            Some(Conflict::Existing | Conflict::Reject) | None => OnConflict::Existing,
        };
        let key = it.key.clone().map(|key| UniqueKey { key, per: None, on_conflict });
        let order = Enqueuing {
            job: JobSpec::new(&it.job, JobPolicy::DEFAULT),
            payloads: Ok(vec![it.payload.as_ref().map_or("null", |payload| payload.get()).to_owned()]),
            groups: it.group.iter().cloned().collect(),
            lane: it.lane.clone(),
            tags: it.tags.clone().unwrap_or_default(),
            headers: it.headers.clone().unwrap_or_default(),
            due: it.due.map_or(DueAt::After(0), |due| DueAt::Instant(due.into())),
            priority: it.priority,
            key,
            begun: Begun::default(),
        };
        Enqueue { client, order }
    }

    fn unique(&mut self) -> &mut UniqueKey {
        let none = UniqueKey { key: String::new(), per: None, on_conflict: OnConflict::Existing };
        self.order.key.get_or_insert(none)
    }

    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if another execution has its key, and that is [`OnConflict::Reject`];
    /// [`ErrorKind::Config`] if the payload has more than 8 KiB of JSON or cannot be written as JSON, the
    /// instant lies before 1973 or the delay is longer than 100 years, no job, group, lane, tag or key can
    /// have this name, there are too many tags or headers, the period of its key is shorter than a second, or
    /// the hook around it refuses it; or the database's failure.
    pub fn run(self) -> Result<Enqueued, Error> {
        let (client, queue) = (self.client, queue_of(&self.order.job.name));
        let answer = self.begun().over(&*client.store)?;
        client.announce(&queue);
        Ok(answer)
    }

    joins!(Enqueue { order }, Enqueued);

    pub(super) fn over(self, verbs: &dyn Verbs) -> Result<Enqueued, Error> {
        let (order, _until_it_is_stored) = self.order.resolved(self.client)?;
        if let Some(UniqueKey { key, on_conflict, .. }) = &order.key {
            return match verbs.enqueue_unique(&order)? {
                Keyed::Created(id) => Ok(Enqueued::Created(id)),
                Keyed::Replaced(id) => Ok(Enqueued::Replaced(id)),
                Keyed::Existing(id) if *on_conflict == OnConflict::Reject => {
                    let message =
                        format!("enqueuing job {:?}: execution {id} has the key {key:?}", order.job.name);
                    Err(Error::new(ErrorKind::Conflict, message))
                }
                Keyed::Existing(id) => Ok(Enqueued::Existing(id)),
            };
        }
        let stored = verbs.enqueue(&order)?.pop();
        let missing =
            || Error::new(ErrorKind::Data, format!("enqueuing job {:?}: nothing was stored", order.job.name));
        stored.map(Enqueued::Created).ok_or_else(missing)
    }
}

/// Runs a job once for each of many payloads. Made by [`Client::enqueue_many`].
///
/// All of them are stored, or none. Each is an execution as [`Enqueue`] makes it.
///
/// ```
/// use firetime::{Client, Job};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// const RESIZE: Job<u64> = Job::new("resize");
/// let client = Client::connect("shop", &url)?;
/// let executions = client.enqueue_many(RESIZE, &[1, 2, 3]).priority(1).run()?;
/// assert_eq!(executions.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is run: `.run()`, `.run_in(..)` or `.await`"]
pub struct EnqueueMany<'a> {
    client: &'a Client,
    order: Enqueuing,
}

awaits!(EnqueueMany { order }, Vec<ExecutionId>);

impl Begins for EnqueueMany<'_> {
    fn begun(self) -> Self {
        Self { order: self.order.begun(self.client), ..self }
    }
}

impl EnqueueMany<'_> {
    options!();

    /// Runs the request; the executions in the order of their payloads. Without a payload nothing is done.
    ///
    /// # Errors
    /// As [`Enqueue::run`]; [`ErrorKind::Config`] also if there are more than 100,000 payloads.
    pub fn run(self) -> Result<Vec<ExecutionId>, Error> {
        let (client, queue) = (self.client, queue_of(&self.order.job.name));
        let answer = self.begun().over(&*client.store)?;
        if !answer.is_empty() {
            client.announce(&queue);
        }
        Ok(answer)
    }

    joins!(EnqueueMany { order }, Vec<ExecutionId>);

    fn over(self, verbs: &dyn Verbs) -> Result<Vec<ExecutionId>, Error> {
        let (order, _until_it_is_stored) = self.order.resolved(self.client)?;
        verbs.enqueue(&order)
    }
}

/// The answer to an [`Enqueue`](crate::request::Enqueue).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enqueued {
    /// The execution waits for a node; its row id in `QRTZ_RUN`.
    Created(ExecutionId),
    /// This one has the key, and has not ended: nothing was stored.
    Existing(ExecutionId),
    /// This one has the key and waits; it has the payload, due time, priority, lane, group, tags and headers
    /// of the request now. It keeps its id: a cancel by the id of an earlier request's answer cancels this
    /// request, unless it names a [tag](crate::request::Cancel::tag) that this one has not.
    Replaced(ExecutionId),
}

impl Enqueued {
    /// The execution that waits or runs now. As later attempts have ids of their own,
    /// [`Client::cancel`] and [`Client::execution`] take any of them for the whole.
    #[must_use]
    pub fn id(self) -> ExecutionId {
        match self {
            Self::Created(id) | Self::Existing(id) | Self::Replaced(id) => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;
    use crate::store::order::LARGEST_OWN_PAYLOAD;

    const MAIL: Job<String> = Job::new("mail");

    /// It has more than 53 bits, and a reader of JSON may keep no more.
    #[test]
    fn an_origin_is_written_to_json_digit_by_digit() {
        let (client, _) = client();
        client.enqueue(MAIL, &"x".to_owned()).run().unwrap();
        let row = client.executions(&crate::ExecutionFilter::default()).unwrap().remove(0);
        assert!(row.origin > 1 << 53);
        assert_eq!(serde_json::json!(row)["origin"], row.origin.to_string());
    }

    #[test]
    fn what_cannot_be_stored_is_refused_and_nothing_is_kept() {
        let (client, _) = client();
        let (large, text) = ("x".repeat(LARGEST_OWN_PAYLOAD), "x".to_owned());
        let early = DateTime::from_timestamp_millis(1_700_000_000).unwrap();
        let many = vec![text.clone(); MOST_AT_ONCE + 1];
        let refused = [
            (client.enqueue(MAIL, &large).run().map(|_| ()), "8192"),
            (client.enqueue(MAIL, &text).at(early).run().map(|_| ()), "seconds"),
            (client.enqueue(MAIL, &text).after(Duration::MAX).run().map(|_| ()), "100 years"),
            (client.enqueue_many(MAIL, [&text]).after(Duration::MAX).run().map(|_| ()), "100 years"),
            (client.enqueue(Job::new(""), &text).run().map(|_| ()), "name"),
            (client.enqueue(MAIL, &text).key("").run().map(|_| ()), "key"),
            (client.enqueue(MAIL, &text).on_conflict(OnConflict::Reject).run().map(|_| ()), "key"),
            (client.enqueue(MAIL, &text).key("k").key_per(Duration::ZERO).run().map(|_| ()), "second"),
            (client.enqueue(MAIL, &text).key_per(Duration::from_secs(60)).run().map(|_| ()), "has none"),
            (client.enqueue_many(MAIL, &many).run().map(|_| ()), "in parts"),
            (client.enqueue_many(MAIL, [&text, &large]).run().map(|_| ()), "8192"),
        ];
        for (refused, word) in refused {
            let error = refused.unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains(word), "{error}");
        }
        assert_eq!(client.enqueue_many(MAIL, &[]).run().unwrap(), []);
        assert!(client.executions(&crate::ExecutionFilter::default()).unwrap().is_empty());
    }

    #[test]
    fn a_key_is_kept_replaced_or_refused() {
        let (client, _) = client();
        let (text, other) = ("x".to_owned(), "y".to_owned());
        let keyed = |payload| client.enqueue(MAIL, payload).key("k");
        let Enqueued::Created(first) = keyed(&text).run().unwrap() else { panic!("it is new") };
        assert_eq!(keyed(&other).run().unwrap(), Enqueued::Existing(first));
        let refused = keyed(&other).on_conflict(OnConflict::Reject).run().unwrap_err();
        assert!(
            refused.kind() == ErrorKind::Conflict && refused.to_string().contains("has the key"),
            "{refused}"
        );
        assert_eq!(client.execution(first).unwrap().payload.as_deref(), Some("\"x\""));
        let replaced = keyed(&other).on_conflict(OnConflict::Replace).priority(9).run().unwrap();
        assert_eq!(replaced, Enqueued::Replaced(first));
        assert_eq!(client.execution(first).unwrap().payload.as_deref(), Some("\"y\""));
        client.cancel(first).run().unwrap();
        let Enqueued::Created(second) = keyed(&text).run().unwrap() else { panic!("the first has ended") };
        assert_eq!(client.retry(first).run().unwrap(), crate::Retried::KeyTaken(second));
        client.cancel(second).run().unwrap();
        assert!(matches!(client.retry(first).run().unwrap(), crate::Retried::Pending(_)));
        assert!(matches!(keyed(&text).run().unwrap(), Enqueued::Existing(_)), "the retry has the key again");
    }

    #[test]
    fn each_payload_is_an_execution_in_its_order() {
        let (client, _) = client();
        let texts: Vec<String> = (0..5).map(|n| n.to_string()).collect();
        let ids = client.enqueue_many(MAIL, &texts).run().unwrap();
        let payloads: Vec<Option<String>> =
            ids.iter().map(|id| client.execution(*id).unwrap().payload).collect();
        let expected: Vec<Option<String>> = texts.iter().map(|text| Some(format!("{text:?}"))).collect();
        assert_eq!(payloads, expected);
        assert!(client.schedules().unwrap().iter().all(|schedule| schedule.job != "mail"), "a queue is none");
    }
}

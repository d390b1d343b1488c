//! Jobs: a stable name tied to a payload type, with the policies of its executions.

use std::marker::PhantomData;
use std::time::Duration;

use super::config::{check_name, check_text};

use crate::domain::{Error, HandlerError, JobPolicy, JobSettings, JobSpec, Millis, Rate, Retry};
use crate::node::handlers::{Served, Upgrade};
use crate::store::columns::LONGEST_DESCRIPTION;

/// A job: a name that stays the same over releases and servers, and the type of its payload.
///
/// The payload is stored as JSON. By default an occurrence whose node dies while it runs is run again on
/// another (at-least-once), but if that node dies too it is FAILED; and a failure is not retried.
///
/// These policies ([`Job::recovery`], [`Job::max_attempts`], [`Job::retry`]) are stored with the job. Those
/// of the node that joined last with a handler for it hold for all nodes.
/// [`Client::ensure`](crate::Client::ensure) stores them only if the job is new.
///
/// ```
/// use firetime::{Job, Retry};
/// use std::time::Duration;
///
/// const GREET: Job<String> = Job::new("greet");
/// const BILL: Job<u64> = Job::new("bill").retry(Retry::fixed(Duration::from_secs(30)).at_most(3));
/// assert_eq!(GREET.name(), "greet");
/// # let _ = BILL;
/// ```
#[derive(Debug)]
#[must_use = "a job has to be given to a builder, a schedule or a client"]
pub struct Job<P> {
    name: &'static str,
    policy: JobPolicy,
    description: &'static str,
    lane: Option<&'static str>,
    /// Whether its rates are spread.
    evenly: bool,
    group: Option<fn(&P) -> String>,
    aliases: &'static [&'static str],
    upgrade: Option<Upgrade<P>>,
    #[cfg(feature = "tokio")]
    grace: Duration,
    payload: PhantomData<fn(P)>,
}

impl<P> Clone for Job<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Job<P> {}

impl<P> Job<P> {
    /// A job called `name`: 1 to 200 characters, none of them control characters (checked where it is used).
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            policy: JobPolicy::DEFAULT,
            description: "",
            lane: None,
            evenly: false,
            group: None,
            aliases: &[],
            upgrade: None,
            #[cfg(feature = "tokio")]
            grace: Duration::from_secs(5),
            payload: PhantomData,
        }
    }

    /// Names that the job had before. Its handler runs what was enqueued under them, and the schedules that
    /// still name them, as jobs of these names: each is listed, paused and bounded apart. Default: none.
    ///
    /// Nodes of the release before know the old name alone. So let the handlers have both names first, and
    /// enqueue under the new one once all nodes do.
    ///
    /// ```
    /// use firetime::Job;
    ///
    /// const SHIP: Job<u64> = Job::new("ship").aliases(&["send-parcel"]);
    /// # let _ = SHIP;
    /// ```
    pub const fn aliases(mut self, names: &'static [&'static str]) -> Self {
        self.aliases = names;
        self
    }

    /// Makes a payload of today's type from one that is not, but was stored by a release before. It is called
    /// with the stored JSON where that is no `P`; its error says why it cannot, and the payload counts as
    /// one that cannot be decoded here. Default: none.
    ///
    /// What serde does alone needs none: a new field with `#[serde(default)]`, a renamed one with
    /// `#[serde(alias = "..")]`.
    ///
    /// ```
    /// use firetime::{HandlerError, Job};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Parcel {
    ///     grams: u64,
    /// }
    ///
    /// /// It was a number of kilograms.
    /// fn from_kilograms(stored: serde_json::Value) -> Result<Parcel, HandlerError> {
    ///     let kilograms: f64 = serde_json::from_value(stored)?;
    ///     Ok(Parcel { grams: (kilograms * 1_000.0) as u64 })
    /// }
    ///
    /// const SHIP: Job<Parcel> = Job::new("ship").upgrade(from_kilograms);
    /// # let _ = SHIP;
    /// ```
    pub const fn upgrade(mut self, upgrade: fn(serde_json::Value) -> Result<P, HandlerError>) -> Self {
        self.upgrade = Some(upgrade);
        self
    }

    /// Whether an occurrence whose node died while it ran is run again. Default: true (at-least-once);
    /// false makes it at-most-once.
    pub const fn recovery(mut self, recover: bool) -> Self {
        self.policy.recover = recover;
        self
    }

    /// How many attempts at an occurrence may end with the death of their node: after the last of them it is
    /// FAILED, `attempts exhausted`, since it may be what kills them. Default: 2; at least 1. Failures are
    /// counted by [`Job::retry`].
    ///
    /// A job that always kills its process takes so many nodes with it for each occurrence: stay below the
    /// number of nodes that must not all be down at once. One that runs for long, on nodes that are often
    /// killed, may need more.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Tries again after a failure. Default: not at all.
    ///
    /// Each retry starts at its instant, on whatever node: every poll plans those that are due before the
    /// next one. One that is due sooner is found by the node that stored the failure; if that dies or stops
    /// first, it may be late by up to the poll interval.
    pub const fn retry(mut self, retry: Retry) -> Self {
        self.policy.retry = retry;
        self
    }

    /// How long a handler may take, counted from its first instruction. Default: as long as it likes; from 1
    /// ms on, kept to the millisecond. [`Schedule::time_limit`](crate::Schedule::time_limit) goes before it.
    ///
    /// At the limit the execution is TIMED_OUT, whether or not its handler returns, and
    /// [`Context::is_cancelled`](crate::Context::is_cancelled) is true. That is a failure, and [`Job::retry`]
    /// decides about a retry, which waits until the handler has returned or its node is gone. Until then it
    /// keeps its thread, and is shown as stuck. What it answers then changes nothing. An async handler's
    /// future is dropped once its grace is over, which is its return.
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        const LEAST: Duration = Duration::from_millis(1);
        self.policy.time_limit = Some(if limit.as_millis() == 0 { LEAST } else { limit });
        self
    }

    /// Runs the job's executions in a [`Lane`](crate::Lane) of the node, on threads that other jobs do not
    /// use. Default: the lane `default`, or the automatic one while the job is slow; `Job::lane("default")`
    /// keeps it in the first.
    ///
    /// A node whose builder has a handler for the job and no such lane does not start
    /// ([`ErrorKind::Config`](crate::ErrorKind::Config)). The lane is not stored: it holds for the nodes
    /// whose handler was given this job.
    ///
    /// ```
    /// use firetime::Job;
    ///
    /// const REPORT: Job<u32> = Job::new("report").lane("slow");
    /// # let _ = REPORT;
    /// ```
    pub const fn lane(mut self, name: &'static str) -> Self {
        self.lane = Some(name);
        self
    }

    /// At most so many of its executions run at once, on all nodes: a licence for three, one import at a
    /// time. Default, and 0: no limit; a pause stops a job.
    ///
    /// Counted from claimed executions, also those whose handlers run on beyond their time limits, and those
    /// of a node that died until they are taken back. The others wait, and no thread waits for them: one
    /// begins when one of its node ends. A node asks for places that others have freed after 0.1 s, and each
    /// time after twice as long, up to 3.2 s. The latest node that started says how many; another number
    /// holds within a poll interval.
    pub const fn concurrency(mut self, most: u32) -> Self {
        self.policy.bounds.job.concurrency = some(most);
        self
    }

    /// At most `count` of its executions begin within each span of `per`, on all nodes: what a partner's
    /// server allows. Default, and a count or a span of 0: any number. From 1 ms on, kept to the millisecond;
    /// a count of over 10,000 is taken for 10,000.
    ///
    /// Counted is when each execution may begin, by the database's clock: as it is claimed, or when it is due
    /// if that is later. Each claim counts, whatever became of it: also one that was handed back, against its
    /// own execution, too. The others wait as with [`Job::concurrency`], mostly up to 0.1 s longer than they
    /// must, so that many are claimed together.
    ///
    /// A handler begins some milliseconds after its claim, as long as the commit takes and a thread to wake.
    /// All `count` may begin at once, at the end of one span, and all of the next at its begin: twice `count`
    /// within `per` less these milliseconds. Where the callee counts strictly, name a `per` that is longer
    /// than its span by what a handler may be late, say a twentieth, or spread them by [`Job::evenly`]. One
    /// that waits in its lane's queue begins later by up to 5 s: give the job a [`Lane`](crate::Lane) without
    /// a queue, or an async handler.
    ///
    /// ```
    /// use firetime::Job;
    /// use std::time::Duration;
    ///
    /// const SMS: Job<String> = Job::new("sms").rate(100, Duration::from_secs(1));
    /// # let _ = SMS;
    /// ```
    pub const fn rate(mut self, count: u32, per: Duration) -> Self {
        self.policy.bounds.job.rate = rate(count, per);
        self
    }

    /// Spreads [`Job::rate`] and [`Job::group_rate`] over their spans: executions begin at least
    /// `per / count` apart (rounded up to a millisecond), on all nodes, in place of `count` at once. Default:
    /// they are not spread.
    ///
    /// It is the rate of one execution in `per / count`, is shown so, and counts as any rate does. Each
    /// execution takes a claim of its own: that bounds the job to some hundred a second. The handlers of two
    /// that follow each other begin closer by as much as the first took longer from its claim to its first
    /// instruction: some milliseconds, and more where the database or the machine is slow.
    ///
    /// ```
    /// use firetime::{Job, Lane};
    /// use std::time::Duration;
    ///
    /// // One each 100 ms. None waits for a thread once it is claimed.
    /// const CALL: Job<u32> = Job::new("call").rate(10, Duration::from_secs(1)).evenly().lane("calls");
    /// let lane = Lane::threads(1, 8).queue(0);
    /// # let _ = (CALL, lane);
    /// ```
    pub const fn evenly(mut self) -> Self {
        self.evenly = true;
        self
    }

    /// Groups the job's [enqueued](crate::Client::enqueue) executions by a key: the customer, the account,
    /// the host that is called. Default: no groups.
    ///
    /// Groups take turns: while executions of several wait on a node, each group gets a start in its turn,
    /// however many another has waiting. Each may have bounds, [`Job::group_concurrency`] and
    /// [`Job::group_rate`]. The key is made of the payload as the execution is enqueued, and is kept by its
    /// retries. 1 to 200 characters, none of them control characters; an empty key is no group. Executions of
    /// schedules are in no group, nor are those enqueued by a program that does not know the key: they take
    /// turns as if they all were in one, and have the bounds of their job alone.
    ///
    /// ```
    /// use firetime::Job;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Export {
    ///     customer: u64,
    ///     table: String,
    /// }
    ///
    /// const EXPORT: Job<Export> =
    ///     Job::new("export").group_by(|export: &Export| export.customer.to_string()).group_concurrency(1);
    /// # let _ = EXPORT;
    /// ```
    pub const fn group_by(mut self, key: fn(&P) -> String) -> Self {
        self.group = Some(key);
        self
    }

    /// At most so many executions of each [group](Job::group_by) run at once, on all nodes. Counted as by
    /// [`Job::concurrency`]. Default, and 0: any number.
    pub const fn group_concurrency(mut self, most: u32) -> Self {
        self.policy.bounds.group.concurrency = some(most);
        self
    }

    /// At most `count` executions of each [group](Job::group_by) begin within each span of `per`, on all
    /// nodes. Counted, and its range, as [`Job::rate`]. Default, and a count or a span of 0: any number.
    pub const fn group_rate(mut self, count: u32, per: Duration) -> Self {
        self.policy.bounds.group.rate = rate(count, per);
        self
    }

    /// How long an async handler may go on once it is to end: at its time limit, when somebody asked for its
    /// end, when the execution or the node's lease is lost ([`Context::cancelled`]). Then its future is
    /// dropped at the next point where it waits. Default: 5 s; zero drops it at once. Not stored: it holds
    /// for the nodes whose handler was given this job, and handlers on threads have none.
    ///
    /// An execution dropped after its time limit stays TIMED_OUT; one that was asked to end is CANCELLED. One
    /// whose node has lost its lease is run anew ([`Event::Interrupted`]), or FAILED without
    /// [`Job::recovery`], if it is still this node's.
    ///
    /// ```
    /// use firetime::Job;
    /// use std::time::Duration;
    ///
    /// const FETCH: Job<String> =
    ///     Job::new("fetch").time_limit(Duration::from_secs(30)).grace(Duration::from_millis(500));
    /// # let _ = FETCH;
    /// ```
    ///
    /// [`Context::cancelled`]: crate::Context::cancelled
    /// [`Event::Interrupted`]: crate::Event::Interrupted
    #[cfg(feature = "tokio")]
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What the job is for, shown to people beside it: one line of at most 500 characters without control
    /// characters (checked where the job is used). Default: empty. Stored with the job, as its policies are.
    ///
    /// ```
    /// use firetime::Job;
    ///
    /// const BILL: Job<u64> = Job::new("bill").description("Sends a customer the bill of a month.");
    /// # let _ = BILL;
    /// ```
    pub const fn description(mut self, text: &'static str) -> Self {
        self.description = text;
        self
    }

    /// The name stored in the database.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) const fn own_group(&self) -> Option<fn(&P) -> String> {
        self.group
    }

    pub(super) fn served(&self) -> Served<P> {
        let (lane, aliases, upgrade) = (self.lane, self.aliases, self.upgrade);
        Served { spec: self.spec(), lane, aliases, upgrade }
    }

    #[cfg(feature = "tokio")]
    pub(super) const fn own_grace(&self) -> Duration {
        self.grace
    }

    pub(crate) fn spec(&self) -> JobSpec {
        let mut policy = self.policy;
        if self.evenly {
            for bound in [&mut policy.bounds.job, &mut policy.bounds.group] {
                bound.rate = bound.rate.evenly();
            }
        }
        let settings = JobSettings { policy, description: self.description.into() };
        JobSpec { name: self.name.to_owned(), settings }
    }
}

/// Refuses jobs that no row can hold.
pub(super) fn check_job(job: &JobSpec) -> Result<(), Error> {
    check_name("job name", &job.name, 200)?;
    check_text("job description", &job.settings.description, LONGEST_DESCRIPTION)
}

const fn some(count: u32) -> Option<u32> {
    if count == 0 { None } else { Some(count) }
}

/// A claim reads as many rows as were claimed within the span.
const HIGHEST_COUNT: u32 = 10_000;

const fn rate(count: u32, per: Duration) -> Rate {
    let count = if count > HIGHEST_COUNT { HIGHEST_COUNT } else { count };
    let is_zero = per.is_zero();
    let longest = Millis::MAX as u128 / 4;
    let per = if per.as_millis() > longest { longest } else { per.as_millis() } as Millis;
    let per = if per == 0 && !is_zero { 1 } else { per };
    Rate { count, per }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Bounds, ErrorKind};

    #[test]
    fn a_description_is_one_line_of_500_characters() {
        let check = |text: String| check_job(&Job::<()>::new("job").description(text.leak()).spec());
        assert!(check("ä".repeat(500)).is_ok());
        for text in ["ä".repeat(501), "two\nlines".to_owned()] {
            let error = check(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("job description"), "{error}");
        }
    }

    #[test]
    fn a_rate_that_is_spread_lets_one_in_each_part_of_its_span() {
        let second = Duration::from_secs(1);
        let job = Job::<()>::new("job").evenly().rate(10, second).group_rate(3, second);
        let Bounds { job, group } = job.spec().settings.policy.bounds;
        assert_eq!([job.rate, group.rate], [(1, 100), (1, 334)].map(|(count, per)| Rate { count, per }));
        assert!(Job::<()>::new("job").evenly().spec().settings.policy.bounds.is_none());
    }

    /// Ten retries once let a job that kills its node take eleven of them.
    #[test]
    fn retries_allow_no_more_deaths() {
        let retry = Retry::fixed(Duration::ZERO).at_most(10);
        let policy = Job::<()>::new("job").retry(retry).spec().settings.policy;
        assert_eq!((policy.max_attempts, policy.retry.at_most), (2, 10));
    }
}

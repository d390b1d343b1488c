//! Wait: until an execution has ended for good.

use std::time::Duration;

use crossbeam::channel::{RecvTimeoutError, bounded};

use crate::api::{Client, ExecutionDetails};
use crate::domain::{Error, ErrorKind, ExecutionId};
use crate::members::asker::{Waiter, is_waited_out};
use crate::time::boot;

/// Waits until an execution has ended for good. Made by [`Client::wait`].
///
/// Attempts that are followed by a retry, snoozes and deaths of nodes are no ends: it waits until no attempt
/// at the occurrence is left that may run or runs, and answers with all of them. One that is TIMED_OUT has
/// ended once its handler has returned. The id of any attempt names it.
///
/// All who wait over one client, or over the clients of one [`Scheduler`](crate::Scheduler), share a thread
/// and a connection: it asks for all of them at once, for each after an eighth of the time that it has been
/// waited for, 25 ms to a second. So thousands may wait. It ends
/// five seconds after the last of them.
///
/// ```
/// use std::time::Duration;
///
/// use firetime::{Client, Job, Scheduler, Waited};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// const ADD: Job<(u64, u64)> = Job::new("add");
///
/// let scheduler = Scheduler::builder("shop", &url)
///     .handler(ADD, |context, (one, other)| Ok(context.result(&(one + other))?))
///     .start()?;
/// let client = Client::connect("shop", &url)?;
/// let id = client.enqueue(ADD, &(1, 2)).run()?.id();
/// let Waited::Ended(sum) = client.wait(id).timeout(Duration::from_secs(20)).run()? else { panic!() };
/// assert_eq!(sum.result_as::<u64>()?, Some(3));
/// # assert!(scheduler.shutdown(Duration::from_secs(10)).is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is run: `.run()` or `.await`"]
pub struct Wait<'a> {
    client: &'a Client,
    execution: ExecutionId,
    timeout: Option<Duration>,
}

/// The answer to a [`Wait`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "there is one of it, and it is taken apart at once")]
pub enum Waited {
    /// It has ended: [`ExecutionDetails::last`] tells how.
    Ended(ExecutionDetails),
    /// It had not ended when the time was up, as far as was known; or it had, and the database was away.
    TimedOut,
}

impl Client {
    /// Waits until an execution has ended for good.
    pub fn wait(&self, execution: impl Into<ExecutionId>) -> Wait<'_> {
        Wait { client: self, execution: execution.into(), timeout: None }
    }
}

impl Wait<'_> {
    /// How long to wait, by this host's clock. Default: until it has ended. With less than some 100 ms the
    /// database may not have been asked by then.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs the request: the calling thread waits. While the database is away it waits on, until the time is
    /// up ([`Waited::TimedOut`]).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the application has no such execution, as before the commit of the
    /// transaction that enqueued it, or once its retention is over; [`ErrorKind::System`] if the thread that
    /// asks cannot be begun, or has panicked meanwhile (the next wait begins another); or a failure of the
    /// database that waiting does not mend.
    pub fn run(self) -> Result<Waited, Error> {
        let Self { client, execution, timeout } = self;
        let left = left_of(timeout);
        loop {
            let (tell, told) = bounded(1);
            let _ticket =
                client.waiters.wait(&client.application, &client.store, execution, Waiter::Thread(tell))?;
            let told = match left() {
                Some(left) => told.recv_timeout(left),
                None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match told {
                Ok(ended) => ended?,
                Err(RecvTimeoutError::Timeout) => return Ok(Waited::TimedOut),
                Err(RecvTimeoutError::Disconnected) => return Err(nobody_asks()),
            }
            if let Some(waited) = waited(client.execution(execution))? {
                return Ok(waited);
            }
        }
    }
}

/// How much is left of a timeout that begins now.
fn left_of(timeout: Option<Duration>) -> impl Fn() -> Option<Duration> {
    let began = boot();
    move || timeout.map(|timeout| timeout.saturating_sub((boot() - began).duration()))
}

/// The answer about an execution that has ended; none if the database is away, and it is waited for again.
fn waited(ended: Result<ExecutionDetails, Error>) -> Result<Option<Waited>, Error> {
    match ended {
        Err(error) if is_waited_out(&error) => Ok(None),
        ended => ended.map(|ended| Some(Waited::Ended(ended))),
    }
}

fn nobody_asks() -> Error {
    Error::new(ErrorKind::System, "waiting for an execution: the thread that asked has panicked")
}

/// Waits as a future: no thread waits with it. It begins when it is first polled, in a tokio runtime, with
/// its time driver if there is a timeout; the errors are those of `run`, and [`ErrorKind::Config`] where
/// there is none.
#[cfg(feature = "tokio")]
impl IntoFuture for Wait<'_> {
    type Output = Result<Waited, Error>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, execution, timeout } = self;
        let client = client.clone();
        Box::pin(async move {
            let left = left_of(timeout);
            loop {
                let (tell, told) = tokio::sync::oneshot::channel();
                // A waiter that has given up needs no answer.
                let waiter = Waiter::Task(Box::new(move |ended| drop(tell.send(ended))));
                let _ticket = client.waiters.wait(&client.application, &client.store, execution, waiter)?;
                let told = match left() {
                    Some(left) => match crate::api::awaited::within(left, told).await? {
                        Some(told) => told,
                        None => return Ok(Waited::TimedOut),
                    },
                    None => told.await,
                };
                told.map_err(|_| nobody_asks())??;
                let client = client.clone();
                let details = move || waited(client.execution(execution));
                if let Some(waited) = crate::api::awaited::run("waiting for an execution", details).await? {
                    return Ok(waited);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::{ExecutionState, Timestamp};
    use crate::fixtures::{claim, definition};
    use crate::store::Verbs;
    use crate::store::memory::MemoryStore;
    use crate::trigger::Trigger;

    /// A client, an execution that has ended, and its database.
    fn ended() -> (Client, ExecutionId, Arc<MemoryStore>) {
        let at = Timestamp::at(1_767_225_600_000);
        let store = Arc::new(MemoryStore::new(at));
        store.ensure(&definition("s", Trigger::every(Duration::from_secs(1)).unwrap())).unwrap();
        let claimed = claim(store.as_ref(), "s", true, at);
        store.complete(&claimed.complete(at)).unwrap();
        let execution = claimed.execution();
        drop(claimed);
        (Client::over("app", Arc::clone(&store) as _, Arc::default(), |_| {}), execution, store)
    }

    /// It is away between the answer that it has ended and the question how.
    #[test]
    fn a_wait_outlasts_an_outage_at_its_end() {
        let (client, execution, store) = ended();
        store.refuse_reads(3);
        let Waited::Ended(details) = client.wait(execution).run().unwrap() else { panic!("no end") };
        assert_eq!(details.last().state, ExecutionState::Succeeded);
        store.refuse_reads(u32::MAX);
        let waited = client.wait(execution).timeout(Duration::from_millis(100)).run();
        assert_eq!(waited.unwrap(), Waited::TimedOut);
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn so_does_an_awaited_one() {
        let (client, execution, store) = ended();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            store.refuse_reads(3);
            let Waited::Ended(details) = client.wait(execution).await.unwrap() else { panic!("no end") };
            assert_eq!(details.last().state, ExecutionState::Succeeded);
            store.refuse_reads(u32::MAX);
            let waited = client.wait(execution).timeout(Duration::from_millis(100)).await;
            assert_eq!(waited.unwrap(), Waited::TimedOut);
        });
    }
}

//! Those who wait for the ends of executions, over one store: the first begins the asker, which ends a while
//! after the last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crossbeam::channel::Sender;

use crate::domain::{Error, ExecutionId};
use crate::machine::driver::{Driver, Surroundings, drive, inbox};
use crate::members::asker::{AskerInput, AskerMachine, AskerOutput, Waiter, WaiterId};
use crate::members::listener::{ListenInput, ListenMachine, ListenOutput};
use crate::store::Store;
use crate::store::news::Ends;
use crate::time::{Clock, Window};

/// The waiters of all clients of one store.
#[derive(Default)]
pub(crate) struct Waiters {
    asking: Mutex<Option<Asking>>,
    last_id: AtomicU64,
}

struct Asking {
    asker: Sender<AskerInput>,
    driver: Driver,
    /// Where the database tells.
    listener: Option<Sender<ListenInput>>,
    waiters: usize,
}

/// One that waits, until it is dropped.
pub(crate) struct Ticket {
    waiters: Arc<Waiters>,
    asker: Sender<AskerInput>,
    execution: ExecutionId,
    id: WaiterId,
}

impl Waiters {
    /// Waits for the end of an execution of the application.
    ///
    /// # Errors
    /// `ErrorKind::System` if no thread can be begun.
    pub(crate) fn wait(
        self: &Arc<Self>,
        application: &str,
        store: &Arc<dyn Store>,
        execution: ExecutionId,
        waiter: Waiter,
    ) -> Result<Ticket, Error> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let mut asking = self.asking();
        // An asker that has ended has panicked: its waiters are told so by the end of their channels.
        asking.take_if(|it| it.has_ended());
        let asker = match &mut *asking {
            Some(asking) => {
                asking.waiters += 1;
                asking.asker.clone()
            }
            none => {
                let asking = Asking::begin(application, store, Arc::downgrade(self))?;
                none.insert(asking).asker.clone()
            }
        };
        asker.send(AskerInput::Wait(execution, id, waiter)).ok();
        drop(asking);
        Ok(Ticket { waiters: Arc::clone(self), asker, execution, id })
    }

    /// Ends the asker, unless somebody waits.
    fn end_if_idle(&self) {
        let mut asking = self.asking();
        if asking.as_ref().is_some_and(|it| it.waiters == 0) {
            *asking = None;
        }
    }

    fn asking(&self) -> MutexGuard<'_, Option<Asking>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut asking = self.waiters.asking();
        self.asker.send(AskerInput::Leave(self.execution, self.id)).ok();
        // Another one does not count those of an asker that has panicked.
        let own = asking.as_mut().filter(|asking| asking.asker.same_channel(&self.asker));
        own.into_iter().for_each(|asking| asking.waiters -= 1);
    }
}

impl Asking {
    /// Begins to ask, and to listen where the database tells: who hears of an end asks at once.
    fn begin(application: &str, store: &Arc<dyn Store>, waiters: Weak<Waiters>) -> Result<Self, Error> {
        let (window, (asker, messages)) = (Window::default(), inbox());
        let around = Surroundings {
            clock: Arc::new(Clock::default()),
            store: Arc::clone(store),
            call: window.call,
            abandoned: Arc::default(),
            calls: Arc::default(),
            panicked: Arc::new(|_, _| {}),
        };
        let machine = AskerMachine::new(application.to_owned());
        let tell = move |AskerOutput::Idle| waiters.upgrade().iter().for_each(|it| it.end_if_idle());
        let driver = drive("firetime-wait", machine, messages, &around, tell)?;
        let listener = store.hearing().tells.then(|| listen(application, &window, &around, asker.clone()));
        // Without it ends are asked for.
        let listener = listener.and_then(Result::ok);
        Ok(Self { asker, driver, listener, waiters: 1 })
    }

    fn has_ended(&self) -> bool {
        self.driver.join(Duration::ZERO).is_some()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.asker.send(AskerInput::Stop).ok();
        self.listener.iter().for_each(|listener| listener.send(ListenInput::Stop).unwrap_or_default());
    }
}

fn listen(
    application: &str,
    window: &Window,
    around: &Surroundings,
    asker: Sender<AskerInput>,
) -> Result<Sender<ListenInput>, Error> {
    let (listener, messages) = inbox();
    let machine = ListenMachine::new(application.to_owned(), window);
    let tell = move |output| {
        let input = match output {
            ListenOutput::Told(is_told) => AskerInput::Told(is_told),
            ListenOutput::Ends(Ends { ended, awaited: _ }) => AskerInput::Ended(ended),
            ListenOutput::News(_) | ListenOutput::Event(_) => return,
        };
        asker.send(input).ok();
    };
    drive("firetime-hear", machine, messages, around, tell)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::bounded;

    use super::*;
    use crate::domain::Timestamp;
    use crate::fixtures::{claim, definition};
    use crate::store::memory::MemoryStore;
    use crate::store::{ExecutionChange, Verbs};
    use crate::trigger::Trigger;

    const SOON: Duration = Duration::from_secs(20);
    const AT: Timestamp = Timestamp::at(1_767_225_600_000);

    #[test]
    fn the_first_begins_an_asker_and_the_last_ends_it() {
        let store = MemoryStore::new(AT);
        store.ensure(&definition("s", Trigger::every(Duration::from_secs(1)).unwrap())).unwrap();
        let claimed = claim(&store, "s", true, AT);
        let execution = claimed.execution();
        let store: Arc<dyn Store> = Arc::new(store);
        let waiters = Arc::<Waiters>::default();
        for _ in 0..2 {
            let (tickets, told): (Vec<_>, Vec<_>) = (0..3)
                .map(|_| {
                    let (tell, told) = bounded(1);
                    let waiter = Waiter::Thread(tell);
                    (waiters.wait("app", &store, execution, waiter).unwrap(), told)
                })
                .unzip();
            assert_eq!(waiters.asking().as_ref().map(|it| it.waiters), Some(3));
            let outcome: ExecutionChange = claimed.complete(AT);
            store.complete(&outcome).unwrap();
            for told in told {
                told.recv_timeout(SOON).unwrap().unwrap();
            }
            waiters.end_if_idle();
            assert!(waiters.asking().is_some(), "their tickets are not dropped yet");
            drop(tickets);
            assert_eq!(waiters.asking().as_ref().map(|it| it.waiters), Some(0), "more may come");
            waiters.end_if_idle();
            assert!(waiters.asking().is_none());
        }
        drop(claimed);
    }

    /// The waker of a task is its executor's code. Those who wait beside it learn of the panic.
    #[cfg(feature = "tokio")]
    #[test]
    fn behind_an_asker_that_has_panicked_another_one_asks() {
        let store = MemoryStore::new(AT);
        store.ensure(&definition("s", Trigger::every(Duration::from_secs(1)).unwrap())).unwrap();
        let claimed = claim(&store, "s", true, AT);
        let (execution, outcome) = (claimed.execution(), claimed.complete(AT));
        let store: Arc<dyn Store> = Arc::new(store);
        let waiters = Arc::<Waiters>::default();
        let wait = || {
            let (tell, told) = bounded(1);
            (waiters.wait("app", &store, execution, Waiter::Thread(tell)).unwrap(), told)
        };
        let (beside, unanswered) = wait();
        let panics = Waiter::Task(Box::new(|_| panic!("a waker's own")));
        let _panicked = waiters.wait("app", &store, ExecutionId(i64::MAX), panics).unwrap();
        assert!(unanswered.recv_timeout(SOON).unwrap_err().is_disconnected());
        store.complete(&outcome).unwrap();
        let clock = Clock::default();
        let until = clock.now().boot + 20_000;
        let told = loop {
            let (_ticket, told) = wait();
            if let Ok(told) = told.recv_timeout(SOON) {
                break told;
            }
            // Its thread may be about to end.
            assert!(clock.now().boot < until, "nobody asks");
        };
        assert!(told.is_ok());
        drop(beside);
        assert_eq!(waiters.asking().as_ref().map(|it| it.waiters), Some(0));
        drop(claimed);
    }
}

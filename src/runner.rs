//! What happens to a claimed execution on a pool thread: start, run, outcome.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::DateTime;
use crossbeam::channel::{Sender, bounded};

use crate::clock::Clock;
use crate::event::{Event, Events};
use crate::job::{Context, Handlers};
use crate::model::Outcome;
use crate::pipeline::complete::CompleteInput;
use crate::store::{Begin, Claimed, Settled, Settlement};

/// Runs one claimed execution on a pool thread.
pub(crate) struct Runner {
    pub clock: Arc<Clock>,
    pub handlers: Arc<Handlers>,
    pub complete: Sender<CompleteInput>,
    pub events: Arc<Events>,
    pub stopping: Arc<AtomicBool>,
    /// The shutdown has returned: nothing begins any more.
    pub closed: Arc<AtomicBool>,
}

impl Runner {
    pub(crate) fn run(&self, claimed: Claimed) {
        match claimed.begin(self.clock.now(), self.closed.load(Ordering::Relaxed)) {
            Begin::Start(settlement, mut claimed) => {
                if self.start(settlement) {
                    claimed.mark_started();
                    self.run(claimed);
                }
            }
            Begin::Run(claimed) => {
                let outcome = self.call(&claimed);
                self.finish(claimed, outcome);
            }
            Begin::GiveBack(settlement) => {
                self.events.emit(&Event::GivenBack { execution: settlement.execution });
                self.settle(CompleteInput::Settle(settlement, None));
            }
        }
    }

    /// CLAIMED -> RUNNING under the token; false if the execution is no longer ours.
    fn start(&self, settlement: Settlement) -> bool {
        let (reply, settled) = bounded(1);
        self.settle(CompleteInput::Settle(settlement, Some(reply)));
        // A completer that has ended drops the reply: then the node is stopping and others settle the row.
        matches!(settled.recv(), Ok(Settled::Done))
    }

    fn call(&self, claimed: &Claimed) -> Outcome {
        let context = self.context(claimed);
        let payload = &claimed.entry().payload;
        match catch_unwind(AssertUnwindSafe(|| self.handlers.run(&context, payload))) {
            Ok(Ok(())) => Outcome::Succeeded,
            Ok(Err(error)) => Outcome::Failed(error.to_string()),
            Err(panic) => Outcome::Failed(format!("panicked: {}", panic_text(panic.as_ref()))),
        }
    }

    fn finish(&self, claimed: Claimed, outcome: Outcome) {
        let error = match &outcome {
            Outcome::Succeeded => None,
            Outcome::Failed(error) => Some(error.clone()),
        };
        let (execution, schedule) = (claimed.execution(), Arc::clone(&claimed.entry().name));
        let now = self.clock.now().db;
        let policy = self.handlers.policy(&claimed.entry().job).filter(|_| error.is_some());
        let retry = policy.and_then(|policy| policy.retry_at(claimed.attempt(), now));
        self.settle(CompleteInput::Settle(claimed.finish(outcome, retry, now), None));
        self.events.emit(&Event::Finished { execution, schedule, error });
    }

    fn settle(&self, input: CompleteInput) {
        // A completer that has ended is past its deadline: others settle what it leaves.
        self.complete.send(input).ok();
    }

    fn context(&self, claimed: &Claimed) -> Context {
        Context {
            schedule: Arc::clone(&claimed.entry().name),
            job: Arc::clone(&claimed.entry().job),
            execution: claimed.execution(),
            fire_time: DateTime::from_timestamp_millis(claimed.scheduled()).unwrap_or_default(),
            attempt: claimed.attempt(),
            fence: claimed.fence(),
            stopping: Arc::clone(&self.stopping),
        }
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

//! What happens to a claimed execution on a pool thread: start, run, outcome.

use std::any::Any;
use std::fmt::{self, Display, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::DateTime;
use crossbeam::channel::{Sender, bounded};

use crate::clock::Clock;
use crate::event::{Event, Events};
use crate::job::{Context, Handlers};
use crate::model::{LONGEST_ERROR, Outcome};
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
        // The error is shown and dropped in there too: both are the application's code.
        match catch_unwind(AssertUnwindSafe(|| self.handlers.run(&context, payload).map_err(brief))) {
            Ok(Ok(())) => Outcome::Succeeded,
            Ok(Err(error)) => Outcome::Failed(error),
            Err(panic) => Outcome::Failed(panicked(panic)),
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

/// The beginning of a text, and no more: it is kept, sent on and logged. What does not fit is not even made.
pub(crate) fn brief(text: impl Display) -> String {
    struct Brief {
        text: String,
        left: usize,
    }

    impl Write for Brief {
        fn write_str(&mut self, more: &str) -> fmt::Result {
            let fits = more.char_indices().nth(self.left).map_or(more, |(end, _)| &more[..end]);
            self.text.push_str(fits);
            self.left -= fits.chars().count();
            if fits.len() < more.len() { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut brief = Brief { text: String::new(), left: LONGEST_ERROR };
    // An error only says that there was more.
    write!(brief, "{text}").ok();
    brief.text
}

/// The text of a panic that is over.
fn panicked(panic: Box<dyn Any + Send>) -> String {
    let text = brief(format_args!("panicked: {}", panic_text(panic.as_ref())));
    // What it carried is the application's and may panic once more, with something harmless or not.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    text
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(brief("short"), "short");
        assert_eq!(brief("ü".repeat(LONGEST_ERROR)), "ü".repeat(LONGEST_ERROR));
        assert_eq!(brief("ü".repeat(LONGEST_ERROR + 1)), "ü".repeat(LONGEST_ERROR));
        let parts = format_args!("{}{}", "a".repeat(LONGEST_ERROR - 1), "☂☂").to_string();
        assert_eq!(
            brief(format_args!("{}{}{}", &parts[..10], &parts[10..], "more")),
            parts.replace("☂☂", "☂")
        );
    }

    /// Writing goes on for ever; reading does not.
    #[test]
    fn a_text_without_end_is_cut() {
        struct Endless;
        impl Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("more ")?;
                }
            }
        }
        assert_eq!(brief(Endless).chars().count(), LONGEST_ERROR);
    }

    #[test]
    fn a_panic_that_panics_again_is_over() {
        struct Again(u32);
        impl Drop for Again {
            fn drop(&mut self) {
                if self.0 > 0 {
                    std::panic::panic_any(Again(self.0 - 1));
                }
            }
        }
        let panic = catch_unwind(|| std::panic::panic_any(Again(3))).unwrap_err();
        assert_eq!(panicked(panic), "panicked: no message");
        let panic = catch_unwind(|| panic!("{}", "x".repeat(2 * LONGEST_ERROR))).unwrap_err();
        assert_eq!(panicked(panic).chars().count(), LONGEST_ERROR);
    }
}

//! The verbs of a [`Client`](crate::Client), each a request with a type of its own.
//!
//! A request does nothing until it is run. Its options are methods, each with its default and its range.
//! `run` answers what happened: that somebody else was faster, or that nothing was left to do, is an answer
//! and no error. A request that can join a transaction of the caller's has `run_in` beside `run`.
//!
//! ```
//! use firetime::{Client, Job, Paused, Schedule, ScheduleState, Trigger};
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
//! # firetime::migrate(&url)?;
//! const REPORT: Job<()> = Job::new("report");
//! let client = Client::connect("shop", &url)?;
//! let nightly = Schedule::new("nightly", REPORT, &(), Trigger::cron("0 30 2 * * ?", "Europe/Berlin")?)?;
//! client.ensure(&nightly).run()?;
//! let by_ann = client.pause("nightly").actor("ann").reason("stock-taking").run()?;
//! assert_eq!(by_ann, Paused::Paused);
//! assert_eq!(client.pause("nightly").run()?, Paused::NotActive(ScheduleState::Paused));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(super) mod cancel;
mod ensure;
pub(super) mod pause;
pub(super) mod remove;
pub(super) mod resume;
pub(super) mod retry;
pub(super) mod skip;
pub(super) mod trigger;

pub use cancel::Cancel;
pub use ensure::Ensure;
pub use pause::Pause;
pub use remove::Remove;
pub use resume::Resume;
pub use retry::Retry;
pub use skip::Skip;
pub use trigger::TriggerNow;

use crate::api::Client;
use crate::api::config::check_text;
use crate::domain::{Entry, Error, ScheduleState};
use crate::store::audit::{AuditEntry, Order};

/// The options that every request has: who asks, and why.
macro_rules! ordered {
    ($($order:ident).+) => {
        /// Who asks, recorded in the [audit](crate::Client::audit). Default: the client's; up to 200
        /// characters, no control characters.
        pub fn actor(mut self, actor: &str) -> Self {
            actor.clone_into(&mut self.$($order).+.actor);
            self
        }

        /// Why, recorded in the [audit](crate::Client::audit). Default: empty; up to 500 characters, no
        /// control characters.
        pub fn reason(mut self, reason: &str) -> Self {
            reason.clone_into(&mut self.$($order).+.reason);
            self
        }
    };
}

use ordered;

fn check(order: &Order) -> Result<(), Error> {
    check_text("the actor", &order.actor, 200)?;
    check_text("the reason", &order.reason, 500)
}

/// How a change of a schedule's state is recorded.
fn recorded(
    client: &Client,
    verb: &'static str,
    entry: &Entry,
    becomes: ScheduleState,
    order: &Order,
) -> AuditEntry {
    let states = (entry.state.label(), becomes.label());
    AuditEntry::of_schedule(verb, (&client.application, &entry.name), states, order)
}

/// How one attempt to change a schedule ended.
enum Attempt<A> {
    /// Its row was changed.
    Won(A),
    /// Its state asks for no change.
    Declined(A),
    /// Another change came first, or more is left to do: the row as it is then decides.
    Again,
}

/// Attempts to change the schedule called `name` until one attempt answers; tells the client's own node of a
/// change.
fn decide<A>(
    client: &Client,
    name: &str,
    attempt: impl Fn(&Entry) -> Result<Attempt<A>, Error>,
) -> Result<A, Error> {
    loop {
        match attempt(&client.find(name)?)? {
            Attempt::Won(answer) => {
                client.announce(name);
                return Ok(answer);
            }
            Attempt::Declined(answer) => return Ok(answer),
            Attempt::Again => {}
        }
    }
}

#[cfg(test)]
mod tests;

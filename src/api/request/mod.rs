//! The verbs of a [`Client`](crate::Client), each a request with a type of its own.
//!
//! A request does nothing until it is run. Its options are methods, each with its default and its range.
//! `run` answers what happened: that somebody else was faster, or that nothing was left to do, is an answer
//! and no error. `run_in` beside `run` joins a transaction of the caller's, in any
//! [driver](crate::CallerConnection). With the feature `tokio` every
//! request may be awaited in place of `run`.
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
#![cfg_attr(
    feature = "tokio",
    doc = r#"
Awaited, a request runs on the blocking pool of the tokio runtime around it:

```
use firetime::{Client, Job, Paused, Schedule, Trigger};
# let folder = tempfile::tempdir()?;
# let url = format!("sqlite:{}", folder.path().join("shop.db").display());
# firetime::migrate(&url)?;
# tokio::runtime::Runtime::new()?.block_on(async {
const REPORT: Job<()> = Job::new("report");
let client = Client::connect_async("shop", &url).await?;
let nightly = Schedule::new("nightly", REPORT, &(), Trigger::cron("0 30 2 * * ?", "Europe/Berlin")?)?;
client.ensure(&nightly).await?;
assert_eq!(client.pause("nightly").reason("stock-taking").await?, Paused::Paused);
# Ok::<(), Box<dyn std::error::Error>>(())
# })?;
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]

pub(super) mod cancel;
pub(super) mod drain;
pub(super) mod edit;
pub(super) mod enqueue;
mod ensure;
pub(super) mod pause;
pub(super) mod remove;
pub(super) mod rerun;
pub(super) mod resume;
pub(super) mod retry;
pub(super) mod skip;
pub(super) mod sync;
pub(super) mod trigger;
pub(super) mod wait;
pub(crate) mod written;

pub use cancel::Cancel;
pub use drain::Drain;
pub use edit::Edit;
pub use enqueue::{Enqueue, EnqueueMany};
pub use ensure::Ensure;
pub use pause::Pause;
pub use remove::Remove;
pub use rerun::{Backfill, CancelRerun, Rerun};
pub use resume::Resume;
pub use retry::RetryNow;
pub use skip::Skip;
pub use sync::SyncSchedules;
pub use trigger::TriggerNow;
pub use wait::Wait;

pub use crate::api::verify::Verify;

use crate::api::Client;
use crate::api::config::check_text;
use crate::domain::{Entry, Error, ScheduleState};
use crate::store::Verbs;
use crate::store::audit::{Attribution, AuditEntry};

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

/// What a request does as it is run, awaited or joins a transaction: once, on the caller's thread, and before
/// anything else.
trait Begins: Sized {
    fn begun(self) -> Self {
        self
    }
}

/// Runs a request within a caller's transaction: as `over` does on the client's own connections.
macro_rules! joins {
    ($(#[$more:meta])* $Request:ident { $($field:ident),* }, $Answer:ty) => {
        /// Runs the request on the caller's connection, so that it joins the transaction open there: it is in
        /// force if and when the caller commits, and nodes hear of it then. What it changes is locked until
        /// that. Without an open transaction a blocking connection begins one for it, and an async one
        /// refuses it.
        ///
        $(#[$more])*
        /// # Errors
        /// As `run`; [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if a row has changed since the
        /// transaction began. Nothing of the request is left then.
        #[cfg(feature = "sql")]
        pub fn run_in<C: crate::store::CallerConnection>(self, connection: &mut C) -> C::Outcome<'_, $Answer> {
            let Self { client, $($field),* } = crate::api::request::Begins::begun(self);
            let (client, store) = (client.clone(), std::sync::Arc::clone(&client.store));
            let over = move |verbs: &dyn crate::store::Verbs| $Request { client: &client, $($field),* }.over(verbs);
            crate::store::joined(store, connection, over)
        }
    };
}

use joins;

/// Lets a request be awaited: it runs on the blocking pool of the tokio runtime around it.
macro_rules! awaits {
    ($Request:ident { $($field:ident),* }, $Answer:ty) => {
        /// Runs the request on the blocking pool of the tokio runtime that it is awaited in, with the errors
        /// of `run`; [`ErrorKind::Config`](crate::ErrorKind::Config) outside of one, where nothing was done.
        /// It begins when it is first polled; dropping it then does not take it back.
        #[cfg(feature = "tokio")]
        impl IntoFuture for $Request<'_> {
            type Output = Result<$Answer, Error>;
            type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                let Self { client, $($field),* } = crate::api::request::Begins::begun(self);
                let client = client.clone();
                let run = move || $Request { client: &client, $($field),* }.run();
                Box::pin(crate::api::awaited::run("a request of a client", run))
            }
        }
    };
}

use awaits;

/// A request by its fields and the type of its answer. With it come `actor`, `reason` and `run_in`, and it
/// may be awaited.
macro_rules! request {
    ($(#[$about:meta])* $Request:ident { $($field:ident: $Type:ty),* } -> $Answer:ty) => {
        $(#[$about])*
        #[derive(Debug)]
        #[must_use = "a request does nothing until it is run: `.run()`, `.run_in(..)` or `.await`"]
        pub struct $Request<'a> {
            client: &'a crate::api::Client,
            $($field: $Type,)*
            by: crate::store::audit::Attribution,
        }

        impl $Request<'_> {
            crate::api::request::ordered!(by);
            crate::api::request::joins!($Request { $($field,)* by }, $Answer);
        }

        crate::api::request::awaits!($Request { $($field,)* by }, $Answer);
        impl crate::api::request::Begins for $Request<'_> {}
    };
}

use request;

fn check(by: &Attribution) -> Result<(), Error> {
    check_text("the actor", &by.actor, 200)?;
    check_text("the reason", &by.reason, 500)
}

/// How a change of a schedule's state is recorded.
fn recorded(
    client: &Client,
    verb: &'static str,
    entry: &Entry,
    becomes: ScheduleState,
    by: &Attribution,
) -> AuditEntry {
    let states = (entry.state.as_str(), becomes.as_str());
    AuditEntry::of_schedule(verb, (&client.application, &entry.name), states, by)
}

/// Attempts to change the schedule called `name` until one attempt answers; one that does not has met another
/// change, or left more to do, and the row as it is then decides.
fn decide<A>(
    client: &Client,
    verbs: &dyn Verbs,
    name: &str,
    attempt: impl Fn(&Entry) -> Result<Option<A>, Error>,
) -> Result<A, Error> {
    loop {
        if let Some(answer) = attempt(&client.find(verbs, name)?)? {
            return Ok(answer);
        }
    }
}

#[cfg(test)]
mod tests;

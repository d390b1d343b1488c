//! Resume: a pause ends, and what it held back is accounted for.

use super::{Attempt, check, decide, ordered, recorded};
use crate::api::Client;
use crate::domain::{Entry, Error, ScheduleState};
use crate::repair::resume;
use crate::store::Change;
use crate::store::audit::Order;

/// Ends a pause: occurrences planned meanwhile are recorded as skipped (`paused`), the next is the first
/// after now. Made by [`Client::resume`].
///
/// ```
/// use firetime::{Client, Job, Resumed, Schedule, ScheduleState, Trigger};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// # const REPORT: Job<()> = Job::new("report");
/// let client = Client::connect("shop", &url)?;
/// # client.ensure(&Schedule::new("nightly", REPORT, &(), Trigger::cron("0 30 2 * * ?", "UTC")?)?).run()?;
/// client.pause("nightly").run()?;
/// assert_eq!(client.resume("nightly").run()?, Resumed::Resumed);
/// assert_eq!(client.resume("nightly").run()?, Resumed::NotPaused(ScheduleState::Active));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct Resume<'a> {
    pub(in crate::api) client: &'a Client,
    pub(in crate::api) name: String,
    pub(in crate::api) order: Order,
}

impl Resume<'_> {
    ordered!(order);

    /// Runs the request. The end of a long pause takes several transactions; the schedule stays paused until
    /// the last.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters, or if no
    /// schedule can have this name; [`ErrorKind::NotFound`] if there is no such schedule; or the database's
    /// failure.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn run(self) -> Result<Resumed, Error> {
        check(&self.order)?;
        decide(self.client, &self.name, |entry| self.attempt(entry))
    }

    fn attempt(&self, entry: &Entry) -> Result<Attempt<Resumed>, Error> {
        let store = &self.client.store;
        let Some(repair) = resume(entry, store.time()?.millis()) else {
            return Ok(Attempt::Declined(Resumed::NotPaused(entry.state)));
        };
        // The arrears of a long pause take several repairs; the last one ends the pause.
        let ends = repair.resume;
        let entry = recorded(self.client, "resume", entry, ScheduleState::Active, &self.order);
        let change = Change::Repair(repair);
        let applied = if ends { store.apply_audited(change, &entry)? } else { store.apply_one(change)? };
        let won = applied.is_done();
        Ok(if won && ends { Attempt::Won(Resumed::Resumed) } else { Attempt::Again })
    }
}

/// The answer to a [`Resume`](crate::request::Resume).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resumed {
    /// The schedule was paused, and this request ended the pause.
    Resumed,
    /// The schedule was in this state, and nothing was changed.
    NotPaused(ScheduleState),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;

    #[test]
    fn a_resume_that_another_forestalls_is_decided_anew() {
        let (client, _) = client();
        client.pause("s").run().unwrap();
        let seen = client.find("s").unwrap();
        assert_eq!(client.resume("s").run().unwrap(), Resumed::Resumed);
        let late = client.resume("s");
        assert!(matches!(late.attempt(&seen).unwrap(), Attempt::Again));
        assert_eq!(late.run().unwrap(), Resumed::NotPaused(ScheduleState::Active));
    }
}

//! Pause: an active schedule fires no more until it is resumed.

use super::{Attempt, check, decide, ordered, recorded};
use crate::api::Client;
use crate::domain::{Entry, Error, ScheduleState};
use crate::store::audit::Order;
use crate::store::{self, Applied, Change};

/// Pauses an active schedule at once: nothing planned of it is claimed until it is [resumed](Client::resume).
/// Made by [`Client::pause`].
///
/// ```
/// use firetime::{Client, Job, Paused, Schedule, ScheduleState, Trigger};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// # const REPORT: Job<()> = Job::new("report");
/// let client = Client::connect("shop", &url)?;
/// # client.ensure(&Schedule::new("nightly", REPORT, &(), Trigger::cron("0 30 2 * * ?", "UTC")?)?).run()?;
/// match client.pause("nightly").actor("ann").reason("stock-taking").run()? {
///     Paused::Paused => println!("paused"),
///     Paused::NotActive(ScheduleState::Paused) => println!("somebody paused it before"),
///     other => println!("nothing to pause: {other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct Pause<'a> {
    pub(in crate::api) client: &'a Client,
    pub(in crate::api) name: String,
    pub(in crate::api) order: Order,
}

impl Pause<'_> {
    ordered!(order);

    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters, or if
    /// no schedule can have this name; [`ErrorKind::NotFound`] if there is no such schedule; or the
    /// database's failure.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn run(self) -> Result<Paused, Error> {
        check(&self.order)?;
        decide(self.client, &self.name, |entry| self.attempt(entry))
    }

    fn attempt(&self, entry: &Entry) -> Result<Attempt<Paused>, Error> {
        if entry.state != ScheduleState::Active {
            return Ok(Attempt::Declined(Paused::NotActive(entry.state)));
        }
        let Order { actor, reason } = self.order.clone();
        let pause = store::PauseChange { id: entry.id, version: entry.version, by: actor, reason };
        let entry = recorded(self.client, "pause", entry, ScheduleState::Paused, &self.order);
        Ok(match self.client.store.apply_audited(Change::Pause(pause), &entry)? {
            Applied::Done => Attempt::Won(Paused::Paused),
            Applied::Lost => Attempt::Again,
        })
    }
}

/// The answer to a [`Pause`](crate::request::Pause).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Paused {
    /// The schedule was active, and this request paused it.
    Paused,
    /// The schedule was in this state, and nothing was changed. [`ScheduleState::Paused`]: somebody paused it
    /// before; their name and reason stay.
    NotActive(ScheduleState),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;

    #[test]
    fn a_pause_that_another_forestalls_is_decided_anew() {
        let (client, _) = client();
        let seen = client.find("s").unwrap();
        assert_eq!(client.pause("s").actor("ann").run().unwrap(), Paused::Paused);
        let late = client.pause("s").actor("bob");
        assert!(matches!(late.attempt(&seen).unwrap(), Attempt::Again));
        assert_eq!(late.run().unwrap(), Paused::NotActive(ScheduleState::Paused));
        assert_eq!(client.schedules().unwrap()[0].paused_by, "ann");
    }
}

//! Pause: nothing planned is claimed until somebody resumes it, or the pause's time is up.

use chrono::{DateTime, Utc};

use super::{check, decide, recorded, request};
use crate::api::target::CheckedTarget;
use crate::api::{Client, Target};
use crate::domain::{Entry, Error, ErrorKind, ScheduleState, Timestamp};
use crate::store::audit::Attribution;
use crate::store::switch::{SwitchOrder, SwitchVerb, Switched};
use crate::store::{self, Applied, Change, Verbs};

request! {
    /// Pauses a schedule, a job, a node or the application until it is [resumed](Client::resume). Made by
    /// [`Client::pause`]; [`Target`] says what each holds back.
    ///
    /// Occurrences planned meanwhile are recorded as skipped (`paused`) when the pause ends. A node's pause
    /// holds nothing back: other nodes run its share, and where there are none, what it missed is misfired
    /// ([`MisfirePolicy`](crate::MisfirePolicy)).
    ///
    /// ```
    /// use firetime::{Client, Job, Paused, Schedule, ScheduleState, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// # let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// # client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// match client.pause("nightly").actor("ann").reason("stock-taking").run()? {
    ///     Paused::Paused => println!("paused"),
    ///     Paused::NotActive(ScheduleState::Paused) => println!("somebody paused it before"),
    ///     other => println!("nothing to pause: {other:?}"),
    /// }
    /// use firetime::Target;
    /// let tomorrow = chrono::Utc::now() + chrono::TimeDelta::days(1);
    /// client.pause(Target::job("report")).until(tomorrow).reason("the printer is out of paper").run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Pause { target: Target, until: Option<DateTime<Utc>> } -> Paused
}

impl Client {
    /// Pauses a schedule (by its name), a job, a node or the application until [`Client::resume`].
    pub fn pause(&self, target: impl Into<Target>) -> Pause<'_> {
        Pause { client: self, target: target.into(), until: None, by: self.attribution() }
    }
}

impl Pause<'_> {
    /// When the pause ends by itself, in database time, to the millisecond. Default: never. The misfire
    /// handler ends it within half a minute of that; whoever resumes it before ends it, too.
    pub fn until(mut self, until: DateTime<Utc>) -> Self {
        self.until = Some(until);
        self
    }

    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters, if the pause
    /// would end in the past, or if nothing can have this name or id; [`ErrorKind::NotFound`] if there is no
    /// such schedule or job, or no such node lives; or the database's failure.
    pub fn run(self) -> Result<Paused, Error> {
        let answer = self.over(&*self.client.store)?;
        if answer == Paused::Paused {
            self.client.announce_target(&self.target);
        }
        Ok(answer)
    }

    pub(super) fn over(&self, verbs: &dyn Verbs) -> Result<Paused, Error> {
        check(&self.by)?;
        self.check_until(verbs)?;
        let scope = match self.target.checked()? {
            CheckedTarget::Schedule(name) => {
                return decide(self.client, verbs, name, |entry| self.attempt(verbs, entry));
            }
            CheckedTarget::Above(scope) => scope,
        };
        let (application, by) = (self.client.application.clone(), self.by.clone());
        let verb = SwitchVerb::Pause { until: self.until.map(Timestamp::from) };
        let order = SwitchOrder { application, scope, verb, by };
        match verbs.switch(&order)? {
            Switched::Done => Ok(Paused::Paused),
            Switched::Already(_) => Ok(Paused::NotActive(ScheduleState::Paused)),
            Switched::Unknown => Err(self.client.unknown_target(&self.target)),
        }
    }

    fn check_until(&self, verbs: &dyn Verbs) -> Result<(), Error> {
        let Some(until) = self.until else { return Ok(()) };
        if Timestamp::from(until) > verbs.now()? {
            return Ok(());
        }
        let message = format!("pausing {}: the pause would end at {until}, which is past", self.target);
        Err(Error::new(ErrorKind::Config, message))
    }

    fn attempt(&self, verbs: &dyn Verbs, entry: &Entry) -> Result<Option<Paused>, Error> {
        if entry.state != ScheduleState::Active {
            return Ok(Some(Paused::NotActive(entry.state)));
        }
        let Attribution { actor, reason } = self.by.clone();
        let until = self.until.map(Timestamp::from);
        let pause = store::PauseChange { id: entry.id, version: entry.version, by: actor, reason, until };
        let entry = recorded(self.client, "pause", entry, ScheduleState::Paused, &self.by);
        Ok(match verbs.apply_audited(Change::Pause(pause), &entry)? {
            Applied::Done => Some(Paused::Paused),
            Applied::Lost | Applied::Held => None,
        })
    }
}

/// The answer to a [`Pause`](crate::request::Pause).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Paused {
    /// It was active, and this request paused it.
    Paused,
    /// It was in this state, and nothing was changed. [`ScheduleState::Paused`]: somebody paused it before,
    /// or the node drains; their name, reason and end stay.
    NotActive(ScheduleState),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;

    #[test]
    fn a_pause_that_another_forestalls_is_decided_anew() {
        let (client, _) = client();
        let seen = client.find(&*client.store, "s").unwrap();
        assert_eq!(client.pause("s").actor("ann").run().unwrap(), Paused::Paused);
        let late = client.pause("s").actor("bob");
        assert!(late.attempt(&*client.store, &seen).unwrap().is_none());
        assert_eq!(late.run().unwrap(), Paused::NotActive(ScheduleState::Paused));
        assert_eq!(client.schedules().unwrap()[0].paused_by, "ann");
    }
}

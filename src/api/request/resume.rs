//! Resume: a pause ends, and what it held back is accounted for.

use super::{check, decide, recorded, request};
use crate::api::target::CheckedTarget;
use crate::api::{Client, Target};
#[cfg(doc)]
use crate::domain::ErrorKind;
use crate::domain::{Entry, Error, ScheduleState};
use crate::repair::{pass_paused, resume};
use crate::store::switch::{PassedQuery, Scope, SwitchOrder, SwitchVerb, Switched};
use crate::store::{Applied, Change, Move, Verbs};

request! {
    /// Ends a pause, of whatever [`Target`]: occurrences planned meanwhile are recorded as skipped
    /// (`paused`), the next is the first after now. Also lets a node that was [drained](Client::drain) claim
    /// again. Made by [`Client::resume`].
    ///
    /// ```
    /// use firetime::{Client, Job, Resumed, Schedule, ScheduleState, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// # let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// # client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// client.pause("nightly").run()?;
    /// assert_eq!(client.resume("nightly").run()?, Resumed::Resumed);
    /// assert_eq!(client.resume("nightly").run()?, Resumed::NotPaused(ScheduleState::Active));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Resume { target: Target } -> Resumed
}

/// The most schedules that pass in one transaction what a pause held back.
const BATCH: usize = 500;

impl Client {
    /// Ends a pause: occurrences planned meanwhile are recorded as skipped, the next is the first after now.
    pub fn resume(&self, target: impl Into<Target>) -> Resume<'_> {
        Resume { client: self, target: target.into(), by: self.attribution() }
    }
}

impl Resume<'_> {
    /// Runs the request. The end of a long pause, or of one that held back many schedules, takes several
    /// transactions; the pause lasts until the last.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters, or if nothing
    /// can have this name or id; [`ErrorKind::NotFound`] if there is no such schedule or job, or no such node
    /// lives; or the database's failure.
    pub fn run(self) -> Result<Resumed, Error> {
        let answer = self.over(&*self.client.store)?;
        if answer == Resumed::Resumed {
            self.client.announce_target(&self.target);
        }
        Ok(answer)
    }

    pub(super) fn over(&self, verbs: &dyn Verbs) -> Result<Resumed, Error> {
        check(&self.by)?;
        let scope = match self.target.checked()? {
            CheckedTarget::Schedule(name) => {
                return decide(self.client, verbs, name, |entry| self.attempt(verbs, entry));
            }
            CheckedTarget::Above(scope) => scope,
        };
        let (application, by) = (self.client.application.clone(), self.by.clone());
        let order = SwitchOrder { application, scope, verb: SwitchVerb::Resume, by };
        pass_held_back(verbs, &order)?;
        match verbs.switch(&order)? {
            Switched::Done => Ok(Resumed::Resumed),
            Switched::Already(_) => Ok(Resumed::NotPaused(ScheduleState::Active)),
            Switched::Unknown => Err(self.client.unknown_target(&self.target)),
        }
    }

    fn attempt(&self, verbs: &dyn Verbs, entry: &Entry) -> Result<Option<Resumed>, Error> {
        let Some(repair) = resume(entry, verbs.now()?) else {
            return Ok(Some(Resumed::NotPaused(entry.state)));
        };
        // The arrears of a long pause take several repairs; the last one ends the pause.
        let ends = repair.how == Move::Resume;
        let entry = recorded(self.client, "resume", entry, ScheduleState::Active, &self.by);
        let change = Change::Repair(repair);
        let won = match ends {
            true => verbs.apply_audited(change, &entry)?.is_done(),
            false => verbs.apply(&[change])? == [Applied::Done],
        };
        Ok(if won && ends { Some(Resumed::Resumed) } else { None })
    }
}

/// The schedules of a paused job or application pass what was planned until now.
fn pass_held_back(verbs: &dyn Verbs, order: &SwitchOrder) -> Result<(), Error> {
    let job = match &order.scope {
        Scope::Job(name) => Some(name.clone()),
        Scope::Application => None,
        Scope::Node(_) => return Ok(()),
    };
    let (now, application) = (verbs.now()?, order.application.clone());
    let query = PassedQuery { application, job, before: now + 1, limit: BATCH };
    loop {
        let entries = verbs.passed(&query)?;
        if entries.is_empty() {
            return Ok(());
        }
        let repairs = entries.iter().filter_map(|entry| pass_paused(entry, now));
        verbs.apply(&repairs.map(Change::Repair).collect::<Vec<_>>())?;
    }
}

/// The answer to a [`Resume`](crate::request::Resume).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resumed {
    /// It was paused (a node: or drained), and this request ended that.
    Resumed,
    /// It was in this state, and nothing was changed.
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
        let seen = client.find(&*client.store, "s").unwrap();
        assert_eq!(client.resume("s").run().unwrap(), Resumed::Resumed);
        let late = client.resume("s");
        assert!(late.attempt(&*client.store, &seen).unwrap().is_none());
        assert_eq!(late.run().unwrap(), Resumed::NotPaused(ScheduleState::Active));
    }
}

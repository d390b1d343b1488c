//! Remove: a schedule is gone.

use std::sync::Arc;

use super::{check, request};
use crate::api::Client;
use crate::api::config::check_schedule_name;
use crate::domain::{Error, ExecutionId, ExecutionState, ScheduleState};
use crate::store::order::ExecutionOrder;
use crate::store::sync::SyncRow;
use crate::store::{Change, ExecutionQuery, RemoveChange, SeenSchedule, Verbs, Withdraws};

request! {
    /// Removes a schedule: nothing of it is claimed any more, and what waited to be run is cancelled. What
    /// runs ends normally. Made by [`Client::remove`].
    ///
    /// Occurrences that are due and not yet claimed are withdrawn: a row of the ledger, in state `WITHDRAWN`
    /// with the reason `removed`, says which and how many, and names the audit's entry.
    ///
    /// Its row stays, in state `REMOVED` and in no listing, until retention has removed its ledger: so its
    /// executions keep their name. A schedule of the same name that is [ensured](Client::ensure) later is a
    /// new one, in a generation of its own.
    ///
    /// ```
    /// use firetime::{Client, Ensured, Job, Removed, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Schedule::new("nightly", REPORT, &(), Trigger::cron("0 30 2 * * ?", "UTC")?)?;
    /// client.ensure(&nightly).run()?;
    /// assert_eq!(client.remove("nightly").reason("replaced by hourly").run()?, Removed::Removed);
    /// assert_eq!(client.remove("nightly").run()?, Removed::AlreadyRemoved);
    /// assert!(client.schedules()?.is_empty());
    /// assert_eq!(client.ensure(&nightly).run()?, Ensured::Created);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Remove { name: String, cancels: bool } -> Removed
}

impl Client {
    /// Removes a schedule: nothing of it is claimed any more, and what waited to be run is cancelled.
    pub fn remove(&self, name: &str) -> Remove<'_> {
        Remove { client: self, name: name.to_owned(), cancels: false, by: self.attribution() }
    }
}

impl Remove<'_> {
    /// Cancels what it has running, too: each execution as [`Client::cancel`] does, once the schedule is
    /// removed. Default: it ends normally.
    ///
    /// Within a transaction of yours it finds the executions that the transaction sees: on MariaDB, and
    /// wherever it is REPEATABLE READ, none that began after its first statement.
    pub fn cancel_running(mut self) -> Self {
        self.cancels = true;
        self
    }

    /// What the removal would withdraw now: the occurrences that are due and not yet claimed. It only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if no schedule can have this name; [`ErrorKind::NotFound`] if there is no such
    /// schedule; or the database's failure.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn withdraws(&self) -> Result<Option<Withdraws>, Error> {
        check_schedule_name(&self.name)?;
        let found = self.client.store.schedule(&self.client.application, &self.name)?;
        let row = found.ok_or_else(|| self.client.unknown(&self.name))?;
        Ok(SyncRow::from(row).removal(self.client.store.now()?))
    }

    /// Runs the request, whatever state the schedule is in, and also if its row cannot be understood.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters, or if no
    /// schedule can have this name; [`ErrorKind::NotFound`] if there has been no such schedule; or the
    /// database's failure. It says so where the schedule is removed, and [`Remove::cancel_running`] failed:
    /// made again, the request goes on.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn run(self) -> Result<Removed, Error> {
        let answer = self.remove(&*self.client.store)?;
        if answer == Removed::Removed {
            self.client.announce(&self.name);
        }
        if self.cancels {
            self.cancel_all(&*self.client.store).map_err(|error| self.unfinished(error))?;
            self.client.announce_cancel();
        }
        Ok(answer)
    }

    /// The error of a removal that is made, though not all that runs was asked to end.
    fn unfinished(&self, error: Error) -> Error {
        let message = format!(
            "schedule {:?} is removed, but not all that runs of it was asked to end: remove it so once more",
            self.name
        );
        Error::new(error.kind(), message).because(Arc::new(error))
    }

    pub(super) fn over(&self, verbs: &dyn Verbs) -> Result<Removed, Error> {
        let answer = self.remove(verbs)?;
        if self.cancels {
            self.cancel_all(verbs)?;
        }
        Ok(answer)
    }

    fn remove(&self, verbs: &dyn Verbs) -> Result<Removed, Error> {
        check(&self.by)?;
        check_schedule_name(&self.name)?;
        let application = &self.client.application;
        loop {
            let seen = verbs.seen(application, &self.name)?.ok_or_else(|| self.client.unknown(&self.name))?;
            if seen.state == ScheduleState::Removed.stored() {
                return Ok(Removed::AlreadyRemoved);
            }
            if self.attempt(verbs, seen)? {
                return Ok(Removed::Removed);
            }
        }
    }

    fn cancel_all(&self, verbs: &dyn Verbs) -> Result<(), Error> {
        let application = &self.client.application;
        let query = ExecutionQuery {
            application: Some(application.clone()),
            schedule: Some(self.name.clone()),
            states: vec![ExecutionState::Claimed, ExecutionState::Running],
            limit: usize::MAX,
            ..ExecutionQuery::default()
        };
        for row in verbs.executions(&query)? {
            let (application, execution) = (application.clone(), ExecutionId(row.id));
            verbs.cancel(&ExecutionOrder::new(application, execution, self.by.clone()))?;
        }
        Ok(())
    }

    /// Whether the row was still as it was seen.
    fn attempt(&self, verbs: &dyn Verbs, seen: SeenSchedule) -> Result<bool, Error> {
        let removal = RemoveChange::of(&self.client.application, seen, &self.by, verbs.now()?);
        let entry = removal.entry(&self.name, &self.by);
        Ok(verbs.apply_audited(Change::Remove(removal), &entry)?.is_done())
    }
}

/// The answer to a [`Remove`](crate::request::Remove).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removed {
    /// This request removed the schedule.
    Removed,
    /// Somebody had removed it before.
    AlreadyRemoved,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;

    #[test]
    fn a_removal_that_another_forestalls_is_decided_anew() {
        let (client, _) = client();
        let seen = client.store.seen("app", "s").unwrap().unwrap();
        client.pause("s").run().unwrap();
        let late = client.remove("s");
        assert!(!late.attempt(&*client.store, seen).unwrap(), "it was paused meanwhile");
        assert_eq!(late.run().unwrap(), Removed::Removed);
        assert_eq!(client.remove("s").run().unwrap(), Removed::AlreadyRemoved);
    }

    #[test]
    fn a_removed_schedule_is_not_found() {
        let (client, _) = client();
        client.remove("s").run().unwrap();
        for error in [client.pause("s").run().unwrap_err(), client.resume("s").run().unwrap_err()] {
            assert_eq!(error.kind(), crate::ErrorKind::NotFound, "{error}");
        }
        assert!(client.schedules().unwrap().is_empty());
    }
}

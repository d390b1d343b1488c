//! Skip: the next occurrence of a schedule is left out.

use chrono::{DateTime, Utc};

use super::{check, decide, request};
use crate::api::Client;
use crate::domain::{Entry, Error, NextFire, ScheduleState, Timestamp};
use crate::repair::skip;
use crate::store::audit::AuditEntry;
use crate::store::{Change, Verbs};

request! {
    /// Skips the next occurrence of an active or paused schedule: it is recorded as SKIPPED (`by hand`), and
    /// the one behind it is the next. Made by [`Client::skip`].
    ///
    /// The fire time names the occurrence, so that a request made twice, or too late, skips no other.
    ///
    /// ```
    /// use firetime::{Client, Job, Schedule, Skipped, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// # let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// # client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let tonight = client.schedules()?[0].next.expect("it fires every night");
    /// let skipped = client.skip("nightly", tonight).reason("the database is moved").run()?;
    /// let tomorrow = tonight + chrono::TimeDelta::days(1);
    /// assert!(matches!(skipped, Skipped::Skipped { next: Some(at), .. } if at == tomorrow));
    /// let again = client.skip("nightly", tonight).run()?;
    /// assert!(matches!(again, Skipped::NotNext { next: Some(at), .. } if at == tomorrow));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Skip { name: String, at: Timestamp } -> Skipped
}

impl Client {
    /// Skips the next occurrence of a schedule, which is to be the one at `fire_time`.
    pub fn skip(&self, name: &str, fire_time: DateTime<Utc>) -> Skip<'_> {
        let at = fire_time.into();
        Skip { client: self, name: name.to_owned(), at, by: self.attribution() }
    }
}

impl Skip<'_> {
    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters, or if no
    /// schedule can have this name; [`ErrorKind::NotFound`] if there is no such schedule; or the database's
    /// failure.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn run(self) -> Result<Skipped, Error> {
        let answer = self.over(&*self.client.store)?;
        if matches!(answer, Skipped::Skipped { .. }) {
            self.client.announce(&self.name);
        }
        Ok(answer)
    }

    fn over(&self, verbs: &dyn Verbs) -> Result<Skipped, Error> {
        check(&self.by)?;
        decide(self.client, verbs, &self.name, |entry| self.attempt(verbs, entry))
    }

    fn attempt(&self, verbs: &dyn Verbs, entry: &Entry) -> Result<Option<Skipped>, Error> {
        let Some(repair) = skip(entry, self.at, verbs.now()?) else {
            let is_open = matches!(entry.state, ScheduleState::Active | ScheduleState::Paused);
            return Ok(Some(match is_open {
                true => Skipped::NotNext { next: instant(entry.cursor.next) },
                false => Skipped::NotActive(entry.state),
            }));
        };
        let next = instant(repair.to.next);
        let shown = |at: Option<DateTime<Utc>>| at.map_or("never".to_owned(), |at| format!("next {at}"));
        let states = (shown(self.at.utc()), shown(next));
        let names = (self.client.application.as_str(), &*entry.name);
        let entry = AuditEntry::of_schedule("skip", names, (&states.0, &states.1), &self.by);
        let applied = verbs.apply_audited(Change::Repair(repair), &entry)?;
        Ok(if applied.is_done() { Some(Skipped::Skipped { next }) } else { None })
    }
}

fn instant(next: NextFire) -> Option<DateTime<Utc>> {
    next.at().and_then(Timestamp::utc)
}

/// The answer to a [`Skip`](crate::request::Skip).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// The occurrence is skipped.
    #[non_exhaustive]
    Skipped {
        /// The fire time behind it, if there is one.
        next: Option<DateTime<Utc>>,
    },
    /// The next fire time is another; nothing was changed.
    #[non_exhaustive]
    NotNext {
        /// The next fire time; none while a run is under way whose end says when that is.
        next: Option<DateTime<Utc>>,
    },
    /// The schedule is in this state, in which it fires nothing; nothing was changed.
    NotActive(ScheduleState),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;

    #[test]
    fn a_skip_that_another_forestalls_is_decided_anew() {
        let (client, _) = client();
        let seen = client.find(&*client.store, "s").unwrap();
        let next = instant(seen.cursor.next).unwrap();
        let later = next + chrono::TimeDelta::hours(1);
        assert_eq!(client.skip("s", next).run().unwrap(), Skipped::Skipped { next: Some(later) });
        let late = client.skip("s", next);
        assert!(late.attempt(&*client.store, &seen).unwrap().is_none());
        assert_eq!(late.run().unwrap(), Skipped::NotNext { next: Some(later) });
        let row = &client.executions(&crate::ExecutionFilter::default()).unwrap()[0];
        assert_eq!(
            (row.state.as_str(), row.reason.as_str(), row.fire_time),
            ("SKIPPED", "by hand", Some(next))
        );
    }
}

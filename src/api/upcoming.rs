//! The fires to come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::client::Client;
use crate::domain::{Error, NextFire, Timestamp};
use crate::store::ScheduleRow;
use crate::store::schedules::{Among, ScheduleQuery};
use crate::time::millis;
use crate::trigger::Timing;

/// So many schedules are looked at.
const MOST_SCHEDULES: usize = 1_000;
/// So many fires are told.
const MOST_FIRES: usize = 10_000;

/// What fires within a span from now on ([`Client::upcoming`]).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upcoming {
    /// The earliest first.
    pub fires: Vec<Fire>,
    /// Up to when all are told: to the end of the span, or less far if there are too many.
    pub until: DateTime<Utc>,
    /// Whether there are more within the span.
    pub is_cut: bool,
}

/// One fire to come. As JSON, the instant is epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fire {
    /// When.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub at: DateTime<Utc>,
    /// Of which schedule.
    pub schedule: String,
    /// Its job.
    pub job: String,
    /// Its trigger in words: `every day at 02:30 (Europe/Berlin)`.
    pub trigger: String,
}

impl Client {
    /// What fires within a span from now on, of active schedules that nothing holds and that some live node
    /// can run: every fire of each, as far as its trigger says so. Of a schedule that waits for the end of
    /// its run only the next one is known.
    ///
    /// It looks at the 1,000 schedules that fire first, and tells 10,000 fires at most.
    ///
    /// ```
    /// use firetime::{Client, Job, Schedule, Trigger};
    /// use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let trigger = Trigger::cron("*/10 * * * * ?", "UTC")?;
    /// client.ensure(&Schedule::new("often", REPORT, &(), trigger)?).run()?;
    /// // No live node can run it.
    /// assert_eq!(client.upcoming(Duration::from_secs(600))?.fires, []);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The database's failure.
    pub fn upcoming(&self, span: Duration) -> Result<Upcoming, Error> {
        let now = self.store.now()?;
        let until = now.saturating_add(millis(span));
        let jobs = self.above()?.claimed_jobs();
        let page = self.store.schedule_page(&ScheduleQuery {
            application: self.application.clone(),
            among: Among::Due { jobs, from: now, until },
            text: None,
            job: None,
            owner: None,
            state: None,
            paused_by: None,
            after: None,
            limit: MOST_SCHEDULES,
            look: usize::MAX,
        })?;
        let known = page.next.and_then(|_| NextFire::stored(page.rows.last()?.next).at());
        Ok(fires(&page.rows, known.unwrap_or(until), known.is_some()))
    }
}

/// All fires of these schedules before an instant, as many as are told.
fn fires(schedules: &[ScheduleRow], until: Timestamp, is_cut: bool) -> Upcoming {
    let timings: Vec<Option<Timing>> = schedules.iter().map(|row| row.when.timing().ok()).collect();
    let first = schedules.iter().enumerate();
    let first = first.filter_map(|(place, row)| Some(Reverse((NextFire::stored(row.next).at()?, place))));
    let mut next: BinaryHeap<Reverse<(Timestamp, usize)>> = first.collect();
    let (mut fires, mut cut_at) = (Vec::new(), None);
    while let Some(Reverse((at, place))) = next.pop().filter(|Reverse((at, _))| *at < until) {
        if fires.len() == MOST_FIRES {
            cut_at = Some(at);
            break;
        }
        let row = &schedules[place];
        fires.extend(at.utc().map(|at| Fire {
            at,
            schedule: row.name.clone(),
            job: row.job.clone(),
            trigger: row.when.in_words(),
        }));
        let following = timings[place].as_ref().and_then(|timing| timing.behind_run(at).at());
        next.extend(
            following.filter(|following| *following > at).map(|following| Reverse((following, place))),
        );
    }
    let until = cut_at.unwrap_or(until).utc().unwrap_or(DateTime::<Utc>::MAX_UTC);
    Upcoming { fires, until, is_cut: is_cut || cut_at.is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::definition;
    use crate::store::memory::MemoryStore;
    use crate::store::{Store, Verbs};
    use crate::trigger::{Simple, Trigger};

    const START: Timestamp = Timestamp::at(2_000_000_000_000);

    /// Schedules that fire every so many seconds from [`START`] on.
    fn every(seconds: &[i64]) -> Vec<ScheduleRow> {
        let store = MemoryStore::default();
        for (number, seconds) in seconds.iter().enumerate() {
            let simple = Simple::new(Some(START.millis()), seconds * 1_000, -1).unwrap();
            store.ensure(&definition(&format!("s{number:04}"), Trigger::Simple(simple))).unwrap();
        }
        store.schedules(None).unwrap()
    }

    #[test]
    fn each_fire_of_a_schedule_is_told() {
        let upcoming = fires(&every(&[20, 30]), START + 60_000, false);
        let told =
            upcoming.fires.iter().map(|it| (it.at.timestamp() - START.millis() / 1_000, &*it.schedule));
        let expected = [(0, "s0000"), (0, "s0001"), (20, "s0000"), (30, "s0001"), (40, "s0000")];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert!(!upcoming.is_cut && upcoming.until.timestamp_millis() == START.millis() + 60_000);
    }

    #[test]
    fn too_many_fires_are_told_up_to_an_instant() {
        let upcoming = fires(&every(&[1; 20]), START + 600_000, false);
        assert!(upcoming.is_cut && upcoming.fires.len() == MOST_FIRES);
        assert_eq!(upcoming.until.timestamp_millis(), START.millis() + 500_000);
    }
}

//! Missed occurrences: fired once, skipped or all fired, as the misfire policy says.

use crate::domain::{
    Cursor, Entry, MOST_FIRED, Millis, MisfirePolicy, Missed, NextFire, Reason, ScheduleState, Timestamp,
};
use crate::store::{LedgerRow, Repair, Unstarted};
use crate::trigger::Trigger;

/// "Fire all" lets a missed occurrence start at least this often.
const SLOWEST_PACE: Millis = 1_000;

pub(super) fn missed(entry: &Entry, now: Timestamp) -> Option<Missed> {
    Missed::of(entry.cursor.next, &entry.timing, now)
}

impl Missed {
    pub(super) fn all_skipped(&self, prev: Option<Timestamp>, reason: Reason) -> Vec<LedgerRow> {
        let Self { first: from, last: to, count, .. } = *self;
        let following = NextFire::planned(self.following);
        vec![LedgerRow::Skipped { from, to, count, prev, following, reason, holder: None }]
    }

    /// The latest runs now, the earlier ones are skipped.
    fn fire_once(&self, prev: Option<Timestamp>, now: Timestamp) -> Vec<LedgerRow> {
        let Self { first: from, last: at, before, behind_run: following, .. } = *self;
        let (count, reason, holder) = (self.count - 1, Reason::Misfire, None);
        let skipped =
            |to| LedgerRow::Skipped { from, to, count, prev, following: NextFire::At(at), reason, holder };
        let skipped = before.map(skipped);
        let fired = LedgerRow::Pending { at, due: now, prev: before.or(prev), following, reason };
        skipped.into_iter().chain([fired]).collect()
    }

    /// Each runs, in order, faster than it was planned; those beyond the cap are skipped.
    fn fire_all(&self, mut prev: Option<Timestamp>, now: Timestamp) -> Vec<LedgerRow> {
        let (pace, reason) = (self.pace(), Reason::Misfire);
        let followers = self.times.iter().skip(1).copied().map(NextFire::At);
        let followers = followers.chain([self.beyond.map_or(self.behind_run, NextFire::At)]);
        let mut rows = Vec::with_capacity(self.times.len() + 1);
        for ((n, at), following) in (0..).zip(self.times.iter().copied()).zip(followers) {
            rows.push(LedgerRow::Pending { at, due: now + n * pace, prev, following, reason });
            prev = Some(at);
        }
        if let Some(from) = self.beyond {
            let (to, count) = (self.last, self.count - MOST_FIRED as u64);
            let following = NextFire::planned(self.following);
            rows.push(LedgerRow::Skipped { from, to, count, prev, following, reason, holder: None });
        }
        rows
    }

    fn pace(&self) -> Millis {
        let gaps = i64::try_from(self.count - 1).unwrap_or(i64::MAX).max(1);
        ((self.last - self.first) / gaps / 2).min(SLOWEST_PACE)
    }
}

/// The repair of a schedule whose cursor fell behind its threshold; `None` when it did not. What earlier
/// repairs of it left `unstarted` gives way.
pub(crate) fn decide(
    entry: &Entry,
    unstarted: &[Unstarted],
    now: Timestamp,
    least_threshold: Millis,
) -> Option<Repair> {
    if entry.state != ScheduleState::Active || !entry.is_misfired(now, least_threshold) {
        return None;
    }
    let missed = missed(entry, now)?;
    let prev = entry.cursor.prev;
    let policy = match entry.misfire {
        // Each of its runs would have put off the next.
        MisfirePolicy::FireAll if entry.timing.delay_ms().is_some() => MisfirePolicy::FireOnce,
        policy => policy,
    };
    let rows = match policy {
        MisfirePolicy::FireAll => missed.fire_all(prev, now),
        MisfirePolicy::FireOnce if missed.is_whole(now) => missed.fire_once(prev, now),
        MisfirePolicy::FireOnce | MisfirePolicy::DoNothing => missed.all_skipped(prev, Reason::Misfire),
    };
    let gives_way = policy == MisfirePolicy::FireOnce;
    let supersede = if gives_way { unstarted.to_vec() } else { Vec::new() };
    Some(Repair { supersede, ..moved(entry, &missed, rows, now) })
}

/// The occurrences that a repair's decision passed one by one at the cost of a search each: those of a cron.
pub(crate) fn searched(entry: &Entry, repair: &Repair) -> u64 {
    if matches!(entry.timing.trigger(), Trigger::Cron(_)) { repair.passed } else { 0 }
}

pub(super) fn moved(entry: &Entry, missed: &Missed, rows: Vec<LedgerRow>, now: Timestamp) -> Repair {
    let next = rows.last().map_or(NextFire::planned(missed.following), LedgerRow::following);
    let to = Cursor { prev: Some(missed.last), next };
    Repair { rows, ..Repair::of(entry, to, missed.count, now) }
}

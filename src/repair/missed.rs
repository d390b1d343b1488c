//! Missed occurrences: fired once, skipped or all fired, as the misfire policy says.

use crate::domain::{Cursor, Entry, Millis, MisfirePolicy, NextFire, Reason, ScheduleState, Timestamp};
use crate::store::{LedgerRow, Repair, Unstarted};
use crate::trigger::Trigger;

/// The most occurrences one repair passes one by one; the rest is for the next, behind all other schedules.
pub(crate) const MOST_PASSED: u64 = 100_000;
/// The most occurrences "fire all" runs in one repair; those beyond are skipped.
pub(crate) const MOST_FIRED: usize = 1_000;
/// "Fire all" lets a missed occurrence start at least this often.
const SLOWEST_PACE: Millis = 1_000;

/// The occurrences of a schedule from its cursor to `now`, counted.
pub(super) struct Missed {
    first: Timestamp,
    last: Timestamp,
    /// The one before the last.
    before: Option<Timestamp>,
    count: u64,
    following: Option<Timestamp>,
    /// Where the cursor goes if the last one is run.
    behind_run: NextFire,
    /// The first ones, as many as "fire all" may run.
    times: Vec<Timestamp>,
    /// The first one behind those, if it was missed too.
    beyond: Option<Timestamp>,
}

pub(super) fn missed(entry: &Entry, now: Timestamp) -> Option<Missed> {
    let first = entry.cursor.next.at().filter(|next| *next <= now)?;
    let mut missed = Missed {
        first,
        last: first,
        before: None,
        count: 1,
        following: entry.timing.next_after(first),
        behind_run: NextFire::Never,
        times: vec![first],
        beyond: None,
    };
    for _ in 1..MOST_PASSED {
        let Some(next) = missed.following.filter(|next| *next <= now) else { break };
        missed.before = Some(missed.last);
        // Behind the times that may run, a fixed interval is reckoned: a cursor set back by hand is decades
        // behind.
        let (leapt, next) = missed.beyond.and_then(|_| entry.timing.leap(next, now)).unwrap_or((0, next));
        missed.last = next;
        missed.count += 1 + leapt;
        missed.following = entry.timing.next_after(next);
        if missed.times.len() < MOST_FIRED {
            missed.times.push(next);
        } else {
            missed.beyond.get_or_insert(next);
        }
    }
    missed.behind_run = entry.timing.behind_run(missed.last);
    Some(missed)
}

impl Missed {
    /// Whether it reaches `now`; otherwise the cap cut it off.
    pub(super) fn is_whole(&self, now: Timestamp) -> bool {
        self.following.is_none_or(|next| next > now)
    }

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

//! The room that a job's bounds leave for further executions, by those that were claimed before. Pure.

use std::collections::{HashMap, VecDeque};

use super::bounds::{Bound, Bounds, Full, MOST_AHEAD, Rate};
use super::{BoundScope, Millis, Timestamp};

/// An execution of a job with bounds that was claimed lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub group: Option<String>,
    /// When it was to begin: as it was claimed, or when it was due if that is later.
    pub begins: Timestamp,
    /// It has not ended, or its handler runs on beyond its time limit.
    pub runs: bool,
}

/// The executions that count towards a bound.
#[derive(Clone, Debug, Default)]
struct Used {
    running: u32,
    /// When those within the span were to begin, the first in front.
    begins: VecDeque<Timestamp>,
}

/// The places that a job's bounds leave.
#[derive(Debug)]
pub(crate) struct Room {
    bounds: Bounds,
    now: Timestamp,
    job: Used,
    groups: HashMap<String, Used>,
}

impl Room {
    /// The places left beside the executions claimed before `now`.
    pub(crate) fn new(bounds: Bounds, now: Timestamp, noted: impl IntoIterator<Item = Noted>) -> Self {
        let mut room = Self { bounds, now, job: Used::default(), groups: HashMap::new() };
        let mut noted: Vec<Noted> = noted.into_iter().collect();
        noted.sort_unstable_by_key(|it| it.begins);
        for it in noted {
            room.job.add(&bounds.job, &it, now);
            if let Some(group) = it.group.clone().filter(|_| !bounds.group.is_none()) {
                room.groups.entry(group).or_default().add(&bounds.group, &it, now);
            }
        }
        room
    }

    /// The same of executions with their keys. Also returns those that do not count any more.
    pub(crate) fn of_noted<K>(
        bounds: Bounds,
        now: Timestamp,
        noted: Vec<(K, Noted)>,
    ) -> (Self, Vec<(K, Noted)>) {
        let counts = |it: &Noted| it.runs || is_within(bounds.span(), it.begins, now);
        let (counted, over): (Vec<_>, Vec<_>) = noted.into_iter().partition(|(_, it)| counts(it));
        (Self::new(bounds, now, counted.into_iter().map(|(_, it)| it)), over)
    }

    #[cfg(any(feature = "sql", test))]
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// When an execution is to begin that is due then, and is claimed now.
    pub(crate) fn begins(&self, due: Timestamp) -> Timestamp {
        due.clamp(self.now, self.now.saturating_add(MOST_AHEAD))
    }

    /// Takes a place for an execution, if there is one for it.
    pub(crate) fn take(&mut self, group: Option<&str>) -> Result<(), Full> {
        let Bounds { job: of_all, group: of_each } = self.bounds;
        self.job.check(&of_all, self.now).map_err(|until| Full { scope: BoundScope::Job, until })?;
        if let Some(group) = group.filter(|_| !of_each.is_none()) {
            let used = self.groups.entry(group.to_owned()).or_default();
            used.check(&of_each, self.now).map_err(|until| Full { scope: BoundScope::Group, until })?;
            used.take(&of_each, self.now);
        }
        self.job.take(&of_all, self.now);
        Ok(())
    }

    /// Gives back a place that was taken: the execution could not be claimed.
    #[cfg(any(feature = "sql", test))]
    pub(crate) fn leave(&mut self, group: Option<&str>) {
        self.job.leave();
        if let Some(used) = group.and_then(|group| self.groups.get_mut(group)) {
            used.leave();
        }
    }
}

impl Used {
    fn add(&mut self, bound: &Bound, noted: &Noted, now: Timestamp) {
        self.running += u32::from(noted.runs);
        if bound.rate().is_some_and(|rate| is_within(rate.per, noted.begins, now)) {
            self.begins.push_back(noted.begins);
        }
    }

    /// Fails if there is no room, with the instant at which there will be if only time makes it.
    fn check(&self, bound: &Bound, now: Timestamp) -> Result<(), Option<Timestamp>> {
        if bound.concurrency.is_some_and(|most| self.running >= most) {
            return Err(None);
        }
        let Some(Rate { count, per }) = bound.rate() else { return Ok(()) };
        let beyond = self.begins.len().checked_sub(count as usize);
        // Behind those that are too many, should the rate have become lower.
        match beyond.and_then(|beyond| self.begins.get(beyond)) {
            Some(begins) => Err(Some(begins.saturating_add(per).max(now.saturating_add(pace(per))))),
            None => Ok(()),
        }
    }

    fn take(&mut self, bound: &Bound, now: Timestamp) {
        self.running += 1;
        if bound.rate().is_some() {
            self.begins.push_back(now);
        }
    }

    #[cfg(any(feature = "sql", test))]
    fn leave(&mut self) {
        self.running = self.running.saturating_sub(1);
        self.begins.pop_back();
    }
}

/// Whether a beginning counts in the span before `now`, and in that behind it if the claim is made ahead. One
/// that is farther ahead of the clock was noted before the clock was set back: nobody knows when.
fn is_within(per: Millis, begins: Timestamp, now: Timestamp) -> bool {
    now.saturating_since(begins) < per && begins.saturating_since(now) < per + MOST_AHEAD
}

/// Places that become free one after the other are given away together, at most so much later: a claim for
/// each would cost more than it is worth.
fn pace(per: Millis) -> Millis {
    (per / 10).clamp(1, 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::at(1_000_000);

    fn noted(group: Option<&str>, ago: Millis, runs: bool) -> Noted {
        Noted { group: group.map(str::to_owned), begins: NOW - ago, runs }
    }

    fn concurrency(job: Option<u32>, group: Option<u32>) -> Bounds {
        let bound = |concurrency| Bound { concurrency, ..Bound::NONE };
        Bounds { job: bound(job), group: bound(group) }
    }

    fn per_second(job: Option<u32>, group: Option<u32>) -> Bounds {
        let rate = |count: Option<u32>| Rate { count: count.unwrap_or(0), per: 1_000 };
        let bound = |count| Bound { concurrency: None, rate: rate(count) };
        Bounds { job: bound(job), group: bound(group) }
    }

    const JOB_IS_FULL: Result<(), Full> = Err(Full { scope: BoundScope::Job, until: None });
    const GROUP_IS_FULL: Result<(), Full> = Err(Full { scope: BoundScope::Group, until: None });

    #[test]
    fn what_runs_takes_places_of_its_job_and_its_group() {
        let running = [noted(Some("a"), 5_000, true), noted(None, 9, true), noted(Some("a"), 9, false)];
        let mut room = Room::new(concurrency(Some(4), Some(2)), NOW, running);
        assert_eq!(room.take(Some("a")), Ok(()));
        assert_eq!(room.take(Some("a")), GROUP_IS_FULL);
        assert_eq!(room.take(Some("b")), Ok(()));
        assert_eq!(room.take(None), JOB_IS_FULL);
        room.leave(Some("a"));
        assert_eq!(room.take(Some("a")), Ok(()));
        assert_eq!(room.take(Some("b")), JOB_IS_FULL);
    }

    #[test]
    fn executions_without_a_group_have_no_bounds_of_one() {
        let mut room = Room::new(concurrency(None, Some(1)), NOW, [noted(None, 9, true)]);
        assert_eq!([room.take(None), room.take(None), room.take(Some("a"))], [Ok(()); 3]);
        assert_eq!(room.take(Some("a")), GROUP_IS_FULL);
    }

    #[test]
    fn claims_count_for_the_span_of_a_rate_whether_or_not_they_have_ended() {
        let claimed =
            [noted(Some("a"), 999, false), noted(Some("a"), 300, true), noted(Some("a"), 1_000, true)];
        let mut room = Room::new(per_second(Some(3), None), NOW, claimed.clone());
        assert_eq!(room.take(None), Ok(()));
        assert_eq!(
            room.take(None),
            Err(Full { scope: BoundScope::Job, until: Some(NOW + 100) }),
            "with those next due"
        );
        let mut room = Room::new(per_second(None, Some(1)), NOW, claimed);
        assert_eq!(room.take(Some("a")), Err(Full { scope: BoundScope::Group, until: Some(NOW + 700) }));
        assert_eq!(room.take(Some("b")), Ok(()));
        assert_eq!(room.take(Some("b")), Err(Full { scope: BoundScope::Group, until: Some(NOW + 1_000) }));
        room.leave(Some("b"));
        assert_eq!(room.take(Some("b")), Ok(()));
    }

    #[test]
    fn a_rate_that_became_lower_waits_for_as_many_as_are_too_many() {
        let claimed = [900, 500, 200].map(|ago| noted(None, ago, false));
        let mut room = Room::new(per_second(Some(2), None), NOW, claimed.clone());
        assert_eq!(room.take(None), Err(Full { scope: BoundScope::Job, until: Some(NOW + 500) }));
        assert_eq!(Room::new(per_second(None, Some(2)), NOW, claimed).take(None), Ok(()));
    }

    /// However the instants lie, no window holds more than may be, and one is let in as the first leaves.
    #[test]
    fn no_window_of_a_rate_holds_more_than_may_be() {
        let bounds = per_second(Some(5), None);
        let (mut made, mut now): (Vec<Timestamp>, Timestamp) = (Vec::new(), NOW);
        while now < NOW + 20_000 {
            let seen = made.iter().map(|begins| Noted { group: None, begins: *begins, runs: false });
            match Room::new(bounds, now, seen).take(None) {
                Ok(()) => made.push(now),
                Err(Full { until, .. }) => {
                    assert!(until.is_some_and(|until| until > now && until <= now + 1_000), "{until:?}");
                    now += 7;
                }
            }
        }
        assert!(made.windows(6).all(|six| six[5] - six[0] >= 1_000));
        assert!(made.len() >= 95, "{}", made.len());
    }

    /// Two claims that are made ahead, in whatever order, begin as far apart as two that are not.
    #[test]
    fn what_is_claimed_ahead_counts_from_when_it_is_due() {
        let rate = Rate { count: 1, per: 10 };
        let bounds = Bounds { job: Bound { rate, ..Bound::NONE }, ..Bounds::NONE };
        let room = |begins: &[Timestamp]| {
            Room::new(bounds, NOW, begins.iter().map(|at| Noted { group: None, begins: *at, runs: true }))
        };
        let begins = [NOW - 20, NOW + 50, NOW + 900].map(|due| room(&[]).begins(due));
        assert_eq!(begins, [NOW, NOW + 50, NOW + MOST_AHEAD]);
        let until = |begins| room(&[begins]).take(None).unwrap_err().until;
        assert_eq!(until(NOW + 50), Some(NOW + 60), "farther ahead than the span is long");
        assert_eq!(room(&[NOW - 10]).take(None), Ok(()));
    }

    #[test]
    fn a_clock_that_was_set_back_stops_no_job_for_longer_than_its_span() {
        let ahead = [noted(None, -3_600_000, false), noted(None, -999, false)];
        let mut room = Room::new(per_second(Some(1), None), NOW, ahead);
        assert_eq!(room.take(None), Err(Full { scope: BoundScope::Job, until: Some(NOW + 1_999) }));
        let ahead = vec![((), noted(None, -1_000 - MOST_AHEAD, false))];
        assert_eq!(Room::of_noted(per_second(Some(1), None), NOW, ahead.clone()).1, ahead);
    }
}

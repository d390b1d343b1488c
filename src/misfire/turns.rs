//! The turns of a pass: counts of failures take turns with its other tasks, so that neither kind waits for
//! all of the other. Pure.

/// A duty that may have a call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The pause that follows the last count.
    Contain,
    /// A count: of a schedule that failed here, or also of one whose executions are about to end for good.
    Count { with_dying: bool },
    /// The next task of the pass.
    Task,
    /// The next step of retention.
    Purge,
}

#[derive(Default)]
pub(super) struct Turns {
    /// A streak was counted since the last task that is not urgent.
    has_counted: bool,
}

impl Turns {
    /// The duties in the order in which they are asked for a call. An urgent task waits for no count of
    /// deaths.
    pub(super) fn order(&self, is_urgent: bool) -> impl Iterator<Item = Turn> + use<> {
        let count = (!self.has_counted).then_some(Turn::Count { with_dying: !is_urgent });
        let last = Turn::Count { with_dying: true };
        [Some(Turn::Contain), count, Some(Turn::Task), Some(Turn::Purge), Some(last)].into_iter().flatten()
    }

    /// One of them has made a call; none if none had one to make.
    pub(super) fn taken(&mut self, turn: Option<Turn>, is_urgent: bool) {
        self.has_counted = match turn {
            Some(Turn::Contain | Turn::Count { .. }) => true,
            Some(Turn::Task | Turn::Purge) | None => self.has_counted && is_urgent,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEATHS: Turn = Turn::Count { with_dying: true };
    const FAILURES: Turn = Turn::Count { with_dying: false };

    /// The turns of a pass in which all of these always have a call to make.
    fn turns(have: &[Turn], urgent: impl Fn(usize) -> bool) -> Vec<Turn> {
        let mut turns = Turns::default();
        let next = |n| {
            let turn = turns.order(urgent(n)).find(|turn| have.contains(turn));
            turns.taken(turn, urgent(n));
            turn
        };
        (0..6).filter_map(next).collect()
    }

    #[test]
    fn counts_and_tasks_take_turns() {
        let have = [DEATHS, FAILURES, Turn::Task, Turn::Purge];
        assert_eq!(turns(&have, |_| false), [DEATHS, Turn::Task, DEATHS, Turn::Task, DEATHS, Turn::Task]);
        assert_eq!(turns(&have[..2], |_| false), [DEATHS; 6]);
        assert_eq!(turns(&have[2..], |_| false), [Turn::Task; 6]);
    }

    #[test]
    fn urgent_tasks_wait_for_one_count_of_failures_at_most_and_for_none_of_deaths() {
        let have = [DEATHS, FAILURES, Turn::Task];
        let all = turns(&have, |n| n < 4);
        assert_eq!(all, [FAILURES, Turn::Task, Turn::Task, Turn::Task, Turn::Task, DEATHS]);
        assert_eq!(turns(&[DEATHS, Turn::Task], |_| true), [Turn::Task; 6]);
    }

    #[test]
    fn a_pause_follows_its_count() {
        assert_eq!(turns(&[DEATHS, Turn::Contain, Turn::Task], |_| true)[..2], [Turn::Contain; 2]);
    }
}

//! Time limits of running handlers.
//!
//! A run ends by its handler's return or by its limit. The first of the two decides, once: the thread or task
//! of the handler, or the machine that stores outcomes and watches the limits.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::domain::{Boot, ExecutionId};
use crate::store::ExecutionChange;

/// When a run's time is up, and how it ended, once it has.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Boot,
    ended: Arc<OnceLock<EndedBy>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedBy {
    Return,
    TimeLimit,
}

impl Deadline {
    pub(crate) fn new(at: Boot) -> Self {
        Self { at, ended: Arc::default() }
    }

    /// The handler has returned at this instant; false if that was too late.
    pub(crate) fn returned(&self, boot: Boot) -> bool {
        let by = if boot < self.at { EndedBy::Return } else { EndedBy::TimeLimit };
        *self.ended.get_or_init(|| by) == EndedBy::Return
    }

    /// Somebody sees that its time is up; false if the handler had returned before.
    pub(super) fn times_out(&self) -> bool {
        *self.ended.get_or_init(|| EndedBy::TimeLimit) == EndedBy::TimeLimit
    }
}

/// A run that is timed out if its handler has not returned by then.
#[derive(Debug)]
pub(crate) struct Limited {
    pub end: Deadline,
    /// What is stored then; its instant is not set yet.
    pub change: ExecutionChange,
    /// Of its lane.
    pub stuck: Stuck,
}

/// How many handlers of a lane run on although their time is up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stuck(Arc<AtomicUsize>);

impl Stuck {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The runs whose time is not up yet, by its end.
#[derive(Debug, Default)]
pub(super) struct Limits {
    by_end: BTreeMap<(Boot, ExecutionId), Limited>,
    ends: HashMap<ExecutionId, Boot>,
}

impl Limits {
    pub(super) fn add(&mut self, limited: Limited) {
        let id = limited.change.execution;
        self.ends.insert(id, limited.end.at);
        self.by_end.insert((limited.end.at, id), limited);
    }

    /// Its handler has returned; what was watched of it until now.
    pub(super) fn remove(&mut self, execution: ExecutionId) -> Option<Limited> {
        let at = self.ends.remove(&execution)?;
        self.by_end.remove(&(at, execution))
    }

    /// The next run whose time is up.
    pub(super) fn pop(&mut self, boot: Boot) -> Option<Limited> {
        let (key, _) = self.by_end.first_key_value().filter(|((at, _), _)| *at <= boot)?;
        let key = *key;
        self.ends.remove(&key.1);
        self.by_end.remove(&key)
    }

    /// When the next one's is.
    pub(super) fn next_at(&self) -> Boot {
        self.by_end.first_key_value().map_or(Boot::MAX, |((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Timestamp, Token};
    use crate::store::Transition;

    #[test]
    fn a_run_ends_once_and_late_is_late_though_nobody_has_looked() {
        let [in_time, late, seen] = [(); 3].map(|()| Deadline::new(Boot::at(10)));
        assert!(in_time.returned(Boot::at(9)) && !in_time.times_out());
        assert!(!late.returned(Boot::at(10)) && late.times_out());
        assert!(seen.times_out() && !seen.returned(Boot::at(9)));
    }

    #[test]
    fn runs_come_up_in_the_order_of_their_ends_unless_they_have_returned() {
        let mut limits = Limits::default();
        for (id, at) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            let time_out = Transition::TimeOut(String::new());
            let change = ExecutionChange::of(ExecutionId(id), Token::fresh(), time_out, Timestamp::at(0));
            limits.add(Limited { end: Deadline::new(Boot::at(at)), change, stuck: Stuck::default() });
        }
        assert!(limits.remove(ExecutionId(3)).is_some() && limits.remove(ExecutionId(9)).is_none());
        let mut pop = |boot| limits.pop(Boot::at(boot)).map(|it| it.change.execution.0);
        assert_eq!([pop(9), pop(10), pop(10), pop(29), pop(30)], [None, Some(2), Some(4), None, Some(1)]);
        assert_eq!(limits.next_at(), Boot::MAX);
        assert!(limits.ends.is_empty());
    }
}

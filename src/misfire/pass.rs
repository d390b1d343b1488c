//! The remaining tasks of a pass, in order.

use std::collections::VecDeque;

use super::batch::Unwritten;
use super::calls::{Call, Op};
use crate::domain::Millis;

/// The pause after a call that failed.
pub(super) const FAILURE_PAUSE: Millis = 1_000;

/// A part of the pass still to do.
#[expect(clippy::large_enum_variant, reason = "a pass has few at a time")]
pub(super) enum Task {
    Perform(Call),
    /// Worked off batch by batch.
    Write(VecDeque<Unwritten>),
}

#[derive(Default)]
pub(super) struct Pass(VecDeque<Task>);

impl Task {
    /// None if there is nothing to write.
    fn write(list: impl IntoIterator<Item = Unwritten>) -> Option<Self> {
        let list: VecDeque<Unwritten> = list.into_iter().collect();
        (!list.is_empty()).then_some(Self::Write(list))
    }

    /// Part of the takeover of dead nodes' executions.
    fn is_takeover(&self) -> bool {
        match self {
            Self::Perform((op, _)) => matches!(op, Op::FindStranded(..)),
            Self::Write(list) => matches!(list.front(), Some(Unwritten::Revocation(_))),
        }
    }

    /// Whether it goes before the counts of deaths: further pages, recoveries, and calls that take little
    /// time.
    fn is_urgent(&self) -> bool {
        use Op::{Elect, EndPause, FindEndedPauses, FindPassed, PassOn};
        let is_short =
            |op: &Op| matches!(op, Elect(..) | FindEndedPauses(_) | FindPassed(_) | PassOn(_) | EndPause(..));
        self.is_takeover() || matches!(self, Self::Perform((op, _)) if is_short(op))
    }
}

impl Pass {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next call, before all others.
    pub(super) fn next(&mut self, call: Call) {
        self.0.push_front(Task::Perform(call));
    }

    /// A call behind all others.
    pub(super) fn last(&mut self, call: Call) {
        self.0.push_back(Task::Perform(call));
    }

    /// The next list to write, before all others.
    pub(super) fn write_next(&mut self, list: impl IntoIterator<Item = Unwritten>) {
        Task::write(list).into_iter().for_each(|task| self.0.push_front(task));
    }

    /// A list behind all others.
    pub(super) fn write_last(&mut self, list: impl IntoIterator<Item = Unwritten>) {
        self.0.extend(Task::write(list));
    }

    pub(super) fn pop(&mut self) -> Option<Task> {
        self.0.pop_front()
    }

    /// Whether the next task waits for no count of deaths.
    pub(super) fn is_urgent(&self) -> bool {
        self.0.front().is_some_and(Task::is_urgent)
    }

    /// Whether the next task writes.
    pub(super) fn writes_next(&self) -> bool {
        matches!(self.0.front(), Some(Task::Write(_)))
    }

    /// The search of another takeover brings the rest of this one.
    pub(super) fn drop_takeover(&mut self) {
        self.0.retain(|task| !task.is_takeover());
    }

    /// Drops the rest; true if there were unreadable rows to quarantine.
    pub(super) fn end(&mut self) -> bool {
        let quarantines = |task: &Task| matches!(task, Task::Perform((Op::Quarantine(_), _)));
        self.0.drain(..).any(|task| quarantines(&task))
    }
}

//! The misfire handler's outputs: events, and one call of the poll for all repairs made since the last.

use std::collections::VecDeque;

use super::MisfireOutput;
use crate::domain::Event;

#[derive(Default)]
pub(super) struct Outbox {
    outputs: VecDeque<MisfireOutput>,
    /// Something was repaired since the poll was last woken.
    repaired: bool,
}

impl Outbox {
    pub(super) fn event(&mut self, event: Event) {
        self.outputs.push_back(MisfireOutput::Event(event));
    }

    pub(super) fn repaired(&mut self, events: Vec<Event>) {
        self.repaired |= !events.is_empty();
        self.outputs.extend(events.into_iter().map(MisfireOutput::Event));
    }

    /// Wakes the poll, which has not seen the repairs' cursors and PENDING executions yet.
    pub(super) fn wake_poll(&mut self) {
        if std::mem::take(&mut self.repaired) {
            self.outputs.push_back(MisfireOutput::WakePoll);
        }
    }

    pub(super) fn next(&mut self) -> Option<MisfireOutput> {
        self.outputs.pop_front()
    }
}

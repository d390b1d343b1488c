//! The standard library's binary heap; what is cancelled stays in it until it comes to the top.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use firetime::parts::Due;

use super::{Alive, Item, Numbered, Waits};

#[derive(Default)]
pub struct Heap {
    heap: BinaryHeap<Reverse<Numbered>>,
    alive: Alive,
}

impl Heap {
    fn drop_cancelled(&mut self) {
        while self.heap.peek().is_some_and(|first| !self.alive.has(first.0.number)) {
            self.heap.pop();
        }
    }
}

impl Waits for Heap {
    type Ticket = usize;

    fn starting(_: i64, _: usize) -> Self {
        Self::default()
    }

    fn put(&mut self, due: Due) -> usize {
        let number = self.alive.add();
        self.heap.push(Reverse(Numbered { due, item: Item::of(due), number }));
        number
    }

    fn take_out(&mut self, number: usize) -> bool {
        self.alive.remove(number)
    }

    fn next(&mut self) -> Option<i64> {
        self.drop_cancelled();
        self.heap.peek().map(|first| first.0.due.at)
    }

    fn expire(&mut self, now: i64) -> Vec<(Due, Item)> {
        let mut due = Vec::new();
        while let Some(first) = self.heap.peek()
            && first.0.due.at <= now
        {
            if let Some(Reverse(it)) = self.heap.pop()
                && self.alive.remove(it.number)
            {
                due.push((it.due, it.item));
            }
        }
        due
    }
}

impl Ord for Numbered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.cmp(&other.due)
    }
}

impl PartialOrd for Numbered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numbered {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Numbered {}

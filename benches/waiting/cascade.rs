//! A hierarchical wheel with a delay queue, Kafka's way: wheels of twenty slots, each slot of one as long as
//! the whole of the wheel below; the slots in use wait in one heap, so that nothing ticks; an expired slot's
//! entries are put in again further down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use firetime::parts::Due;

use super::{Alive, Item, Numbered, Waits};

const SLOTS: i64 = 20;
/// 20^6 ms are 17 hours.
const LEVELS: usize = 6;

pub struct Cascade {
    now: i64,
    levels: Vec<Vec<Vec<Numbered>>>,
    /// When each slot in use begins, and which it is.
    queue: BinaryHeap<Reverse<(i64, usize, usize)>>,
    alive: Alive,
}

impl Cascade {
    fn place(&mut self, entry: Numbered) {
        let mut tick = 1;
        for level in 0..LEVELS {
            // As there: a wheel takes what is due less than a turn after its own present slot began.
            let begin = self.now - self.now % tick;
            if entry.due.at < begin + tick * SLOTS {
                let turn = entry.due.at / tick;
                let slot = (turn % SLOTS) as usize;
                let entries = &mut self.levels[level][slot];
                if entries.is_empty() {
                    self.queue.push(Reverse((turn * tick, level, slot)));
                }
                entries.push(entry);
                return;
            }
            tick *= SLOTS;
        }
        panic!("beyond the last wheel");
    }
}

impl Waits for Cascade {
    type Ticket = usize;

    fn starting(now: i64, _: usize) -> Self {
        let level = || (0..SLOTS).map(|_| Vec::new()).collect();
        let levels = (0..LEVELS).map(|_| level()).collect();
        Self { now, levels, queue: BinaryHeap::new(), alive: Alive::default() }
    }

    fn put(&mut self, due: Due) -> usize {
        let number = self.alive.add();
        self.place(Numbered { due, item: Item::of(due), number });
        number
    }

    fn take_out(&mut self, number: usize) -> bool {
        self.alive.remove(number)
    }

    fn next(&mut self) -> Option<i64> {
        self.queue.peek().map(|first| first.0.0)
    }

    fn expire(&mut self, now: i64) -> Vec<(Due, Item)> {
        let mut due = Vec::new();
        while let Some(Reverse((begin, level, slot))) = self.queue.peek().copied()
            && begin <= now
        {
            self.queue.pop();
            self.now = begin;
            for entry in std::mem::take(&mut self.levels[level][slot]) {
                if entry.due.at > now {
                    if self.alive.has(entry.number) {
                        self.place(entry);
                    }
                } else if self.alive.remove(entry.number) {
                    due.push((entry.due, entry.item));
                }
            }
        }
        self.now = now;
        due.sort_unstable_by_key(|(due, _)| *due);
        due
    }
}

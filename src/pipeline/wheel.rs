//! The hierarchical timing wheel: what is planned waits here until it is due.
//!
//! An instant is a 64-bit number of milliseconds, read as eleven digits of six bits. Level `n` of
//! the wheel has one slot per value of digit `n`, and an entry's place follows from one rule:
//!
//! > **An entry lies on the level of the highest digit in which it differs from `now`, in the slot
//! > of its own digit there.**
//!
//! Everything else is a consequence. All of time has a place, so there is no overflow list. Levels
//! are in time order, and so are the slots of a level, so the next due slot is the first bit of the
//! first bitmap that has one. A step of `now` touches only the slots it passes, however long it
//! is. A slot that `now` has just entered cascades: its entries are due or belong further down.
//! And a place need not be stored: whoever cancels an entry works it out again.
//!
//! The wheel is pure: it is given `now` and owns no clock, thread or lock.

use std::cmp::{Ordering, Reverse};

#[cfg(test)]
mod tests;

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;

/// When an entry is due and which goes first among those due together: by `at`, then the higher
/// `priority`, then the lower `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Due {
    /// Epoch milliseconds, UTC; any `i64`.
    pub at: i64,
    /// Higher goes first.
    pub priority: i32,
    /// Settles what is left; lower goes first.
    pub id: i64,
}

impl Due {
    fn rank(&self) -> (i64, Reverse<i32>, i64) {
        (self.at, Reverse(self.priority), self.id)
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Names one entry, for as long as it is in the wheel; a handle that outlives it names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// Why an entry was not inserted; the item is handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// It is due already, so it has nothing to wait for.
    Elapsed(T),
    /// The wheel holds as many entries as its cap allows.
    Full(T),
}

/// A hierarchical timing wheel with ticks of one millisecond.
#[derive(Debug)]
pub struct Wheel<T> {
    /// The latest instant seen, as a tick. Every entry's tick is greater.
    now: u64,
    cap: usize,
    levels: Vec<Level>,
    entries: Slab<T>,
}

impl<T> Wheel<T> {
    /// An empty wheel standing at `now` (epoch milliseconds) that holds at most `cap` entries
    /// (and never more than `u32::MAX`).
    pub fn new(now: i64, cap: usize) -> Self {
        Self {
            now: tick(now),
            cap: cap.min(NONE as usize),
            levels: vec![Level::EMPTY; LEVELS],
            entries: Slab::new(),
        }
    }

    /// How many entries wait.
    pub fn len(&self) -> usize {
        self.entries.len
    }

    /// Whether no entry waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets `item` wait until it is due.
    ///
    /// # Errors
    /// Hands the item back when it is due already, or when the wheel is at its cap.
    pub fn insert(&mut self, due: Due, item: T) -> Result<Handle, Refused<T>> {
        if tick(due.at) <= self.now {
            return Err(Refused::Elapsed(item));
        }
        if self.len() >= self.cap {
            return Err(Refused::Full(item));
        }
        let handle = self.entries.add(due, item);
        self.link(handle.index);
        Ok(handle)
    }

    /// Takes an entry out in constant time; `None` when it is no longer in the wheel.
    pub fn cancel(&mut self, handle: Handle) -> Option<T> {
        if !self.entries.holds(handle) {
            return None;
        }
        self.unlink(handle.index);
        self.entries.remove(handle.index).map(|(_, item)| item)
    }

    /// The earliest instant (epoch milliseconds) at which [`advance`](Self::advance) has something
    /// to do; `None` when nothing waits.
    ///
    /// Never late. It is early only after a cancel took the first of a slot above the lowest
    /// level, and only once: the wake-up it causes cascades that slot.
    pub fn next_due(&self) -> Option<i64> {
        let level = self.levels.iter().find(|level| level.occupied != 0)?;
        Some(instant(level.first().earliest))
    }

    /// Moves to `now` (epoch milliseconds) and returns all that is due by then, in order.
    ///
    /// A `now` before the latest one seen counts as that one: when the clock steps back, what
    /// was inserted stays due at its own instant and nothing that was due waits again. The work
    /// depends on the entries passed, not on the length of the step.
    #[must_use = "what is returned has left the wheel"]
    pub fn advance(&mut self, now: i64) -> Vec<(Due, T)> {
        let (before, now) = (self.now, self.now.max(tick(now)));
        self.now = now;
        let mut due = Vec::new();
        let top = Place::of(before, now);
        for level in 0..top.level {
            self.settle(level, u64::MAX, &mut due);
        }
        self.settle(top.level, u64::MAX >> (SLOTS - 1 - top.slot), &mut due);
        due.sort_unstable_by_key(|(due, _)| *due);
        due
    }

    /// Empties the wheel and returns all that still waited, in order.
    #[must_use = "what is returned has left the wheel"]
    pub fn drain(&mut self) -> Vec<(Due, T)> {
        let now = self.now;
        let all = self.advance(i64::MAX);
        self.now = now; // Sound, for no entry is left whose place it could change.
        all
    }

    /// Empties the slots of `level` named by `passed`: each entry is due, or moves to a lower level.
    fn settle(&mut self, level: usize, passed: u64, due: &mut Vec<(Due, T)>) {
        while let Some(mut index) = self.levels[level].take_first(passed) {
            while index != NONE {
                let next = self.entries.nodes[index as usize].next;
                if self.entries.tick(index) <= self.now {
                    due.extend(self.entries.remove(index));
                } else {
                    self.link(index);
                }
                index = next;
            }
        }
    }

    fn link(&mut self, index: u32) {
        let tick = self.entries.tick(index);
        let place = Place::of(self.now, tick);
        let next = self.levels[place.level].push(place.slot, index, tick);
        let node = &mut self.entries.nodes[index as usize];
        (node.prev, node.next) = (NONE, next);
        self.entries.set_prev(next, index);
    }

    fn unlink(&mut self, index: u32) {
        let place = Place::of(self.now, self.entries.tick(index));
        let Node { prev, next, .. } = self.entries.nodes[index as usize];
        self.entries.set_prev(next, prev);
        match self.entries.nodes.get_mut(prev as usize) {
            Some(node) => node.next = next,
            None => self.levels[place.level].set_head(place.slot, next),
        }
    }
}

/// Milliseconds as an unsigned number, in the same order.
fn tick(at: i64) -> u64 {
    at.cast_unsigned() ^ (1 << 63)
}

fn instant(tick: u64) -> i64 {
    (tick ^ (1 << 63)).cast_signed()
}

/// Where an entry lies: see the rule at the top of this file.
struct Place {
    level: usize,
    slot: usize,
}

impl Place {
    fn of(now: u64, tick: u64) -> Self {
        let level = ((now ^ tick) | 1).ilog2() / DIGIT_BITS;
        let slot = (tick >> (level * DIGIT_BITS)) as usize % SLOTS;
        Self { level: level as usize, slot }
    }
}

#[derive(Clone, Debug)]
struct Level {
    /// Bit `n` is set when slot `n` has entries.
    occupied: u64,
    slots: [Slot; SLOTS],
}

/// A list of entries; meaningful only while its bit in `occupied` is set.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    /// No entry is due before this tick. A cancel does not raise it.
    earliest: u64,
}

impl Level {
    const EMPTY: Self = Self { occupied: 0, slots: [Slot { head: NONE, earliest: 0 }; SLOTS] };

    fn first(&self) -> &Slot {
        &self.slots[self.occupied.trailing_zeros() as usize % SLOTS]
    }

    /// Takes the list out of the first occupied slot among `wanted`.
    fn take_first(&mut self, wanted: u64) -> Option<u32> {
        let found = self.occupied & wanted;
        if found == 0 {
            return None;
        }
        let slot = found.trailing_zeros() as usize;
        let head = self.slots[slot].head;
        self.set_head(slot, NONE);
        Some(head)
    }

    /// Makes `index` the head of a slot's list and returns the head before it.
    fn push(&mut self, slot: usize, index: u32, tick: u64) -> u32 {
        let Slot { head, earliest } = self.slots[slot];
        let earliest = if head == NONE { tick } else { earliest.min(tick) };
        self.slots[slot].earliest = earliest;
        self.set_head(slot, index);
        head
    }

    fn set_head(&mut self, slot: usize, head: u32) {
        self.slots[slot].head = head;
        let bit = 1 << slot;
        if head == NONE {
            self.occupied &= !bit;
        } else {
            self.occupied |= bit;
        }
    }
}

/// No entry: the end of a list.
const NONE: u32 = u32::MAX;

/// The entries, in one block of memory; a slot's list runs through it by index.
#[derive(Debug)]
struct Slab<T> {
    nodes: Vec<Node<T>>,
    /// Head of the list of vacant nodes.
    vacant: u32,
    len: usize,
}

#[derive(Debug)]
struct Node<T> {
    due: Due,
    item: Option<T>,
    prev: u32,
    next: u32,
    /// Grows when the node is vacated, so that no handle given out before still matches.
    generation: u32,
}

impl<T> Slab<T> {
    const fn new() -> Self {
        Self { nodes: Vec::new(), vacant: NONE, len: 0 }
    }

    fn tick(&self, index: u32) -> u64 {
        tick(self.nodes[index as usize].due.at)
    }

    fn holds(&self, handle: Handle) -> bool {
        let node = self.nodes.get(handle.index as usize);
        node.is_some_and(|node| node.generation == handle.generation)
    }

    fn set_prev(&mut self, index: u32, prev: u32) {
        if let Some(node) = self.nodes.get_mut(index as usize) {
            node.prev = prev;
        }
    }

    fn add(&mut self, due: Due, item: T) -> Handle {
        if self.vacant == NONE {
            self.grow(due);
        }
        let index = self.vacant;
        let node = &mut self.nodes[index as usize];
        self.vacant = node.next;
        self.len += 1;
        (node.due, node.item) = (due, Some(item));
        Handle { index, generation: node.generation }
    }

    /// Adds one vacant node. Grows by a quarter where a `Vec` would double: memory follows use.
    fn grow(&mut self, due: Due) {
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact(self.nodes.len() / 4 + 16);
        }
        let index = self.nodes.len() as u32;
        self.nodes.push(Node { due, item: None, prev: NONE, next: self.vacant, generation: 0 });
        self.vacant = index;
    }

    fn remove(&mut self, index: u32) -> Option<(Due, T)> {
        let node = &mut self.nodes[index as usize];
        let item = node.item.take()?;
        node.generation = node.generation.wrapping_add(1);
        node.next = self.vacant;
        self.vacant = index;
        self.len -= 1;
        Some((node.due, item))
    }
}

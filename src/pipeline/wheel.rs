//! The hierarchical timing wheel, in which planned items wait until they are due.
//!
//! An instant is a 64-bit number of milliseconds, read as ten digits of seven bits. Level `n` of
//! the wheel has one slot per value of digit `n`, and an entry's place follows from one rule:
//!
//! > **An entry lies on the level of the highest digit in which it differs from `now`, in the slot
//! > of its own digit there.**
//!
//! Everything else is a consequence. All of time has a place, so there is no overflow list. Levels
//! are in time order, and so are the slots of a level, so the next due slot is the first bit of the
//! first bitmap that has one. A step of `now` touches only the slots it passes, however long it
//! is. A slot that `now` has just entered cascades: its entries are due or belong further down.
//!
//! A slot holds its entries one behind the other, so that passing it reads memory in a row. What is
//! cancelled is only noted down: it stays in its slot until that is passed, or until more is
//! cancelled than waits; then all slots are swept.
//!
//! The wheel is pure: it is given `now` and owns no clock, thread or lock.

use std::cmp::{Ordering, Reverse};
use std::collections::hash_map;

use rustc_hash::FxHashMap;

#[cfg(test)]
mod tests;

const DIGIT_BITS: u32 = 7;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// An emptied slot keeps room for the next entries, if it is for so many at most.
const ROOM: usize = 32;

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
///
/// There is one of each, and cancelling takes it: nothing is cancelled twice.
#[derive(Debug, PartialEq, Eq)]
pub struct Handle {
    tick: u64,
    serial: u64,
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
    levels: Vec<Level<T>>,
    /// How many entries wait, the cancelled ones left out.
    waiting: usize,
    /// Those that were cancelled and still lie in their slots.
    cancelled: Numbers,
    /// The next entry's number.
    serial: u64,
    /// No entry has a lower number.
    oldest: u64,
}

impl<T> Wheel<T> {
    /// An empty wheel standing at `now` (epoch milliseconds) in which at most `cap` entries wait.
    pub fn new(now: i64, cap: usize) -> Self {
        Self {
            now: tick(now),
            cap,
            levels: (0..LEVELS).map(|_| Level::new()).collect(),
            waiting: 0,
            cancelled: Numbers::default(),
            serial: 0,
            oldest: 0,
        }
    }

    /// How many entries wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no entry waits.
    #[cfg(any(test, feature = "bench"))]
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
        let (Due { at, priority, id }, serial) = (due, self.serial);
        self.serial += 1;
        self.waiting += 1;
        self.place(Entry { at, id, serial, priority, item });
        Ok(Handle { tick: tick(at), serial })
    }

    /// Takes an entry out, in constant time on average; false when it is no longer in the wheel.
    /// Its item is dropped at some later time.
    pub fn cancel(&mut self, handle: Handle) -> bool {
        if handle.tick <= self.now || handle.serial < self.oldest {
            return false;
        }
        debug_assert!(handle.serial < self.serial, "another wheel's handle");
        self.cancelled.insert(handle.serial);
        self.waiting -= 1;
        self.sweep();
        true
    }

    /// Takes what was cancelled out of the slots, if that is more than what waits.
    fn sweep(&mut self) {
        if self.cancelled.count <= self.waiting {
            return;
        }
        for level in self.levels.iter_mut().filter(|level| level.occupied != 0) {
            level.sweep(&mut self.cancelled);
        }
    }

    /// The earliest instant (epoch milliseconds) at which [`advance`](Self::advance) has something
    /// to do; `None` when nothing waits.
    ///
    /// Never late. It is early only after a cancel took the first of a slot, and only once for
    /// each slot: the wake-up it causes empties it.
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
        let top = SlotPosition::of(before, now);
        for level in 0..top.level {
            self.settle(level, u128::MAX, &mut due);
        }
        self.settle(top.level, u128::MAX >> (SLOTS - 1 - top.slot), &mut due);
        self.sweep();
        due.sort_unstable_by_key(|(due, _)| *due);
        due
    }

    /// Empties the wheel and returns all that still waited, in order.
    #[must_use = "what is returned has left the wheel"]
    pub fn drain(&mut self) -> Vec<(Due, T)> {
        let now = self.now;
        let all = self.advance(i64::MAX);
        self.now = now; // Sound, for no entry is left whose place it could change.
        self.oldest = self.serial;
        all
    }

    /// Empties the slots of `level` named by `passed`: each entry is due, or moves to a lower level.
    fn settle(&mut self, level: usize, passed: u128, due: &mut Vec<(Due, T)>) {
        while let Some((slot, mut entries)) = self.levels[level].take_first(passed) {
            if level == 0 {
                due.reserve(entries.len());
            }
            for entry in entries.drain(..) {
                if self.cancelled.count > 0 && self.cancelled.remove(entry.serial) {
                    continue;
                }
                if tick(entry.at) <= self.now {
                    self.waiting -= 1;
                    due.push((entry.due(), entry.item));
                } else {
                    self.place(entry);
                }
            }
            if entries.capacity() <= ROOM {
                self.levels[level].slots[slot].entries = entries;
            }
        }
    }

    fn place(&mut self, entry: Entry<T>) {
        let tick = tick(entry.at);
        let place = SlotPosition::of(self.now, tick);
        let slot = self.levels[place.level].open(place.slot, tick);
        grow(&mut slot.entries);
        slot.entries.push(entry);
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
struct SlotPosition {
    level: usize,
    slot: usize,
}

impl SlotPosition {
    #[inline]
    fn of(now: u64, tick: u64) -> Self {
        let level = ((now ^ tick) | 1).ilog2() / DIGIT_BITS;
        let slot = (tick >> (level * DIGIT_BITS)) as usize % SLOTS;
        Self { level: level as usize, slot }
    }
}

#[derive(Debug)]
struct Level<T> {
    /// Bit `n` is set when slot `n` has entries.
    occupied: u128,
    slots: [Slot<T>; SLOTS],
}

#[derive(Debug)]
struct Slot<T> {
    entries: Vec<Entry<T>>,
    /// No entry is due before this tick, if there is any. A cancel does not raise it.
    earliest: u64,
}

/// Flat: the fields of a [`Due`], the number and a small item together fill no more than thirty-two bytes.
#[derive(Debug)]
struct Entry<T> {
    at: i64,
    id: i64,
    /// Its number among all that were ever inserted, by which it is cancelled.
    serial: u64,
    priority: i32,
    item: T,
}

impl<T> Entry<T> {
    fn due(&self) -> Due {
        Due { at: self.at, priority: self.priority, id: self.id }
    }
}

impl<T> Level<T> {
    fn new() -> Self {
        Self { occupied: 0, slots: std::array::from_fn(|_| Slot { entries: Vec::new(), earliest: 0 }) }
    }

    fn first(&self) -> &Slot<T> {
        &self.slots[self.occupied.trailing_zeros() as usize % SLOTS]
    }

    /// Takes the entries out of the first occupied slot among `wanted`, and says which that is.
    fn take_first(&mut self, wanted: u128) -> Option<(usize, Vec<Entry<T>>)> {
        let found = self.occupied & wanted;
        if found == 0 {
            return None;
        }
        let slot = found.trailing_zeros() as usize;
        self.occupied &= !(1 << slot);
        Some((slot, std::mem::take(&mut self.slots[slot].entries)))
    }

    fn sweep(&mut self, cancelled: &mut Numbers) {
        for (bit, slot) in self.slots.iter_mut().enumerate() {
            slot.entries.retain(|entry| !cancelled.remove(entry.serial));
            if slot.entries.is_empty() {
                slot.entries = Vec::new();
                self.occupied &= !(1 << bit);
            }
        }
    }

    /// The slot that is about to get an entry of `tick`.
    fn open(&mut self, slot: usize, tick: u64) -> &mut Slot<T> {
        self.occupied |= 1 << slot;
        let slot = &mut self.slots[slot];
        slot.earliest = if slot.entries.is_empty() { tick } else { slot.earliest.min(tick) };
        slot
    }
}

/// Makes room for one more. A long list grows by a quarter where a `Vec` would double: memory follows use.
fn grow<T>(entries: &mut Vec<T>) {
    if entries.len() == entries.capacity() {
        let more = if entries.len() < 64 { entries.len().max(2) } else { entries.len() / 4 };
        entries.reserve_exact(more);
    }
}

/// A set of numbers, sixty-four to a word: those of one poll lie close together.
#[derive(Debug, Default)]
struct Numbers {
    words: FxHashMap<u64, u64>,
    count: usize,
}

impl Numbers {
    /// One that is not there yet.
    fn insert(&mut self, number: u64) {
        *self.words.entry(number / 64).or_default() |= 1 << (number % 64);
        self.count += 1;
    }

    /// False if it is not there.
    fn remove(&mut self, number: u64) -> bool {
        let bit = 1 << (number % 64);
        let hash_map::Entry::Occupied(mut word) = self.words.entry(number / 64) else { return false };
        if word.get() & bit == 0 {
            return false;
        }
        self.count -= 1;
        *word.get_mut() &= !bit;
        if *word.get() == 0 {
            word.remove();
        }
        true
    }
}

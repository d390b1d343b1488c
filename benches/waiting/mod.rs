//! Three ways to let things wait, each as plain and as fast as it goes. All expire in the order of [`Due`]
//! and to the millisecond. Those that cancel lazily set a bit by the entry's number, the cheapest thing to
//! do.

mod cascade;
mod heap;
mod rounds;

use firetime::parts::{Due, Handle, Wheel};

pub use cascade::Cascade;
pub use heap::Heap;
pub use rounds::Rounds;

/// What waits: as large as what the scheduler's plan puts into its wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    Row,
    Execution,
}

impl Item {
    fn of(due: Due) -> Self {
        if due.id % 2 == 0 { Self::Row } else { Self::Execution }
    }
}

/// What the bench asks of each of them.
pub trait Waits {
    type Ticket;
    fn starting(now: i64, most: usize) -> Self;
    /// Lets something wait that is not due yet.
    fn put(&mut self, due: Due) -> Self::Ticket;
    /// Whether it still waited.
    fn take_out(&mut self, ticket: Self::Ticket) -> bool;
    /// No later than the first due instant, and after the last `expire`.
    fn next(&mut self) -> Option<i64>;
    fn expire(&mut self, now: i64) -> Vec<(Due, Item)>;
}

impl Waits for Wheel<Item> {
    type Ticket = Handle;

    fn starting(now: i64, most: usize) -> Self {
        Self::new(now, most)
    }

    fn put(&mut self, due: Due) -> Handle {
        self.insert(due, Item::of(due)).unwrap()
    }

    fn take_out(&mut self, ticket: Handle) -> bool {
        self.cancel(ticket)
    }

    fn next(&mut self) -> Option<i64> {
        self.next_due()
    }

    fn expire(&mut self, now: i64) -> Vec<(Due, Item)> {
        self.advance(now)
    }
}

/// Which entries still wait, by number.
#[derive(Default)]
struct Alive {
    bits: Vec<u64>,
    made: usize,
    waiting: usize,
}

impl Alive {
    fn add(&mut self) -> usize {
        let number = self.made;
        if number.is_multiple_of(64) {
            self.bits.push(0);
        }
        self.bits[number / 64] |= 1 << (number % 64);
        (self.made, self.waiting) = (number + 1, self.waiting + 1);
        number
    }

    fn has(&self, number: usize) -> bool {
        self.bits[number / 64] & 1 << (number % 64) != 0
    }

    /// Whether it was there.
    fn remove(&mut self, number: usize) -> bool {
        let was = self.has(number);
        self.bits[number / 64] &= !(1 << (number % 64));
        self.waiting -= usize::from(was);
        was
    }
}

/// An entry and its number.
#[derive(Clone, Copy)]
struct Numbered {
    due: Due,
    item: Item,
    number: usize,
}

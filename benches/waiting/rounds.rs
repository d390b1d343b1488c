//! A hashed wheel with rounds, Netty's way: one turn of slots, entries wait in theirs for as many turns as it
//! takes. It ticks every millisecond. More slots than Netty's 512: enough for 6 s in one turn.

use firetime::parts::Due;

use super::{Alive, Item, Numbered, Waits};

const SLOTS: i64 = 8_192;

pub struct Rounds {
    now: i64,
    slots: Vec<Vec<Waiting>>,
    alive: Alive,
}

struct Waiting {
    rounds: u32,
    entry: Numbered,
}

impl Rounds {
    fn tick(&mut self, due: &mut Vec<(Due, Item)>) {
        self.now += 1;
        let slot = &mut self.slots[(self.now % SLOTS) as usize];
        let mut at = 0;
        while let Some(waiting) = slot.get_mut(at) {
            if !self.alive.has(waiting.entry.number) {
                slot.swap_remove(at);
            } else if waiting.rounds > 0 {
                waiting.rounds -= 1;
                at += 1;
            } else {
                let entry = slot.swap_remove(at).entry;
                self.alive.remove(entry.number);
                due.push((entry.due, entry.item));
            }
        }
    }
}

impl Waits for Rounds {
    type Ticket = usize;

    fn starting(now: i64, _: usize) -> Self {
        Self { now, slots: (0..SLOTS).map(|_| Vec::new()).collect(), alive: Alive::default() }
    }

    fn put(&mut self, due: Due) -> usize {
        let number = self.alive.add();
        let rounds = ((due.at - self.now - 1) / SLOTS) as u32;
        let entry = Numbered { due, item: Item::of(due), number };
        self.slots[(due.at % SLOTS) as usize].push(Waiting { rounds, entry });
        number
    }

    fn take_out(&mut self, number: usize) -> bool {
        self.alive.remove(number)
    }

    fn next(&mut self) -> Option<i64> {
        (self.alive.waiting > 0).then_some(self.now + 1)
    }

    fn expire(&mut self, now: i64) -> Vec<(Due, Item)> {
        let mut due = Vec::new();
        while self.now < now {
            self.tick(&mut due);
        }
        due.sort_unstable_by_key(|(due, _)| *due);
        due
    }
}

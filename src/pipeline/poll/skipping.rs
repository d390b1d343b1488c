//! Where polls begin.
//!
//! A poll begins with the first entry of each index, of schedules and of PENDING executions. While an old
//! snapshot keeps the dead entries of earlier claims there, walking over them takes longer than a call may:
//! after a poll that failed or was slow, polls begin at the floor. What comes to lie before it all the same,
//! such as what a long transaction stored, is found by looks, each of which searches from the first entry on.
//! Once a look is quick, polls begin with the first entry again.
//!
//! ```text
//!     Off --slow or failed poll--> Due --poll with time left--> Following --sent--> Running
//!      ^                            ^                                                  |
//!      |                            '----------------- slow or failed -----------------|
//!      '--------------------------------------- quick ---------------------------------'
//! ```

use crate::domain::Millis;
use crate::store::Polled;
use crate::time::{Now, Window};

/// The floor is at least this far in the past: transactions take time to commit, and clocks differ.
const MARGIN: Millis = 60_000;
/// The floor of PENDING executions is nearer: dead entries of theirs may be many.
const PENDING_MARGIN: Millis = 10_000;
/// A call that takes longer is slow if it brings fewer rows than this.
const IN_VAIN: Millis = 100;
const FEW: usize = 1_000;
/// The longest pause behind a look that failed or was slow. The first is the poll interval, and each is twice
/// as long as the one before.
const LONGEST_PAUSE: Millis = MARGIN;

/// Looks for overdue schedules before the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    /// None is needed: polls begin with the first entry.
    Off,
    /// One follows the first poll that ends after this boot-clock instant and leaves it time.
    Due(Millis),
    /// One follows the poll that has just ended.
    Following,
    /// One is under way. It was sent while polls began at this floor.
    Running(Millis),
}

pub(super) struct Skipping {
    /// The poll interval.
    interval: Millis,
    /// The longest time a store call may take.
    call: Millis,
    /// As far as this node knows, no schedule of a listed job is due before this: it was so when a poll saw
    /// it, and fire times only grow. `None` before the first poll has ended.
    known: Option<Millis>,
    /// The same of PENDING executions.
    known_pending: Option<Millis>,
    looks: Looks,
    /// The pause behind the next look that fails or is slow.
    pause: Millis,
}

impl Skipping {
    pub(super) fn new(window: &Window) -> Self {
        let (interval, call) = (window.poll, window.call);
        Self { interval, call, known: None, known_pending: None, looks: Looks::Off, pause: interval }
    }

    /// The fire time with which polls begin. An outage holds it back, and so do schedules nobody claims.
    pub(super) fn floor(&self, now: Now) -> Millis {
        match self.looks {
            Looks::Off => 0,
            _ => self.known.unwrap_or(Millis::MAX).min(now.db - MARGIN),
        }
    }

    /// The due time with which polls begin among PENDING executions.
    pub(super) fn pending_floor(&self, now: Now) -> Millis {
        match self.looks {
            Looks::Off => Millis::MIN,
            _ => self.known_pending.unwrap_or(Millis::MAX).min(now.db - PENDING_MARGIN),
        }
    }

    /// The due time with which short polls begin: they are for what may start now.
    pub(super) fn recent(now: Now) -> Millis {
        now.db - PENDING_MARGIN
    }

    /// A poll's first page has come. Its call began at `called`, boot clock, and what was due before `late`
    /// was late.
    pub(super) fn polled(&mut self, now: Now, called: Millis, late: Millis, polled: &Polled) {
        // What is created after this poll may be due at once, and an outage may hide it for long.
        let known =
            |earliest: Option<Millis>, created: Millis| Some(earliest.unwrap_or(created).min(created));
        self.known = known(polled.earliest, late - MARGIN);
        self.known_pending = known(polled.earliest_pending, late - PENDING_MARGIN);
        if self.looks == Looks::Off && self.is_slow(now, called, polled.entries.len() + polled.pendings.len())
        {
            self.skip(now);
        }
    }

    /// A poll failed or was slow, whatever the reason: polls begin at the floor until a look is quick.
    pub(super) fn skip(&mut self, now: Now) {
        self.looks = match self.looks {
            Looks::Off => {
                self.pause = self.interval;
                Looks::Due(now.boot)
            }
            Looks::Due(at) => Looks::Due(at.min(now.boot)),
            looks => looks,
        };
    }

    /// Some node lists a job that none listed before: its schedules may be overdue, so the next look is due.
    pub(super) fn listed_anew(&mut self) {
        if let Looks::Due(at) = &mut self.looks {
            *at = Millis::MIN;
        }
    }

    /// A poll has ended, so long before the next; `None` if that one begins as soon as it may. A look that is
    /// due follows, but for one that has come due only lately and might delay the next poll.
    pub(super) fn ended(&mut self, now: Now, left: Option<Millis>) {
        let Looks::Due(at) = self.looks else { return };
        let in_time = left.is_some_and(|left| left >= self.call.min(self.interval / 2));
        let since = now.boot.saturating_sub(at);
        if since >= 0 && in_time || since >= LONGEST_PAUSE {
            self.looks = Looks::Following;
        }
    }

    /// Whether a look is to be sent now: from here on it is under way.
    pub(super) fn begin_look(&mut self, now: Now) -> bool {
        let follows = self.looks == Looks::Following;
        if follows {
            self.looks = Looks::Running(self.floor(now));
        }
        follows
    }

    /// The floor below which the look under way finds what polls did not.
    pub(super) fn looking(&self) -> Option<Millis> {
        match self.looks {
            Looks::Running(floor) => Some(floor),
            _ => None,
        }
    }

    /// The look that began at `called`, boot clock, has ended, with or without an answer.
    pub(super) fn looked(&mut self, now: Now, called: Millis, answered: bool) {
        let quick = answered && !self.is_slow(now, called, 0);
        self.looks = if quick { Looks::Off } else { Looks::Due(called + self.pause) };
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }

    /// A look found a schedule that is due at `earliest`.
    pub(super) fn found(&mut self, earliest: Millis) {
        self.known = Some(self.known.map_or(earliest, |known| known.min(earliest)));
    }

    /// A look found a PENDING execution that is due at `earliest`.
    pub(super) fn found_pending(&mut self, earliest: Millis) {
        self.known_pending = Some(self.known_pending.map_or(earliest, |known| known.min(earliest)));
    }

    /// Whether a call that brought so many rows took a good part of the time a call may take, or was in vain.
    fn is_slow(&self, now: Now, called: Millis, brought: usize) -> bool {
        let took = now.boot - called;
        took > self.call / 3 || took > IN_VAIN && brought < FEW
    }
}

#[cfg(test)]
mod tests;

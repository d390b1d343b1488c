//! Where polls begin.
//!
//! A poll begins with the first entry of each index, of schedules and of PENDING executions. While an old
//! snapshot keeps the dead entries of earlier claims there, walking over them takes longer than a call may:
//! after a poll that failed or was slow, polls begin at the floor. Rows that come to lie before the floor all
//! the same, such as those of a long transaction, are found by looks: each searches from the first entry on.
//! Once a look is quick, polls begin with the first entry again.
//!
//! ```text
//!     Off --slow or failed poll--> Due --poll with time left--> Following
//!      ^                            ^                               |
//!      |                            '------ slow or failed look ----|
//!      '------------------- quick look -----------------------------'
//! ```

use crate::domain::{Boot, Millis, Timestamp};
use crate::store::Polled;
use crate::time::{Now, Window};

/// The floor is at least this far in the past: transactions take time to commit, and clocks differ.
const MARGIN: Millis = 60_000;
/// The floor of PENDING executions is nearer: dead entries of theirs may be many.
const PENDING_MARGIN: Millis = 10_000;
/// Short polls read executions that are due no longer than this: others are for full ones.
const RECENT: Millis = 1_000;
/// A call that takes longer is slow if it reads fewer rows than this.
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
    /// One follows the first poll that ends after this and leaves it time.
    Due(Boot),
    /// One follows the poll that has just ended, or is under way.
    Following,
}

/// A look under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// When it was sent.
    sent: Boot,
    /// Where polls began then.
    schedules: Timestamp,
    pendings: Timestamp,
}

/// Where polls that skip begin in one index.
struct Floor {
    /// The least distance of the floor from now.
    margin: Millis,
    /// The earliest due time of rows that live nodes run, as a poll last read it from the index; due times
    /// only grow. `None` before the first poll has ended.
    known: Option<Timestamp>,
}

impl Floor {
    fn new(margin: Millis) -> Self {
        Self { margin, known: None }
    }

    fn at(&self, now: Now) -> Timestamp {
        self.known.unwrap_or(Timestamp::MAX).min(now.db - self.margin)
    }

    /// A poll saw the first that is due; `None`: nothing before the window's end. What was due before `late`
    /// was late.
    fn polled(&mut self, earliest: Option<Timestamp>, late: Timestamp) {
        // A row created after this poll may be due at once, and an outage may hide it for long.
        let created = late - self.margin;
        self.known = Some(earliest.map_or(created, |earliest| earliest.min(created)));
    }

    /// A look saw the first that is due; whether that lies before the floor at which polls began.
    fn looked(&mut self, earliest: Option<Timestamp>, floor: Timestamp) -> bool {
        let Some(earliest) = earliest else { return false };
        self.known = Some(self.known.map_or(earliest, |known| known.min(earliest)));
        earliest < floor
    }
}

pub(super) struct Skipping {
    /// The poll interval.
    interval: Millis,
    /// The longest time a store call may take.
    call: Millis,
    schedules: Floor,
    pendings: Floor,
    looks: Looks,
    /// The pause behind the next look that fails or is slow.
    pause: Millis,
}

impl Skipping {
    pub(super) fn new(window: &Window) -> Self {
        let (interval, call) = (window.poll, window.call);
        let (schedules, pendings) = (Floor::new(MARGIN), Floor::new(PENDING_MARGIN));
        Self { interval, call, schedules, pendings, looks: Looks::Off, pause: interval }
    }

    /// The fire time with which polls begin. It stays behind after an outage, and while a schedule is left
    /// unclaimed.
    pub(super) fn floor(&self, now: Now) -> Timestamp {
        match self.looks {
            Looks::Off => Timestamp::EPOCH,
            _ => self.schedules.at(now),
        }
    }

    /// The due time with which polls begin among PENDING executions.
    pub(super) fn pending_floor(&self, now: Now) -> Timestamp {
        match self.looks {
            Looks::Off => Timestamp::MIN,
            _ => self.pendings.at(now),
        }
    }

    /// The due time with which short polls begin: they are for what may start now, and read past what has
    /// been claimed since.
    pub(super) fn recent(now: Now) -> Timestamp {
        now.db - RECENT
    }

    /// A poll's first page has come. Its call was sent at `called`, and what was due before `late`
    /// was late.
    pub(super) fn polled(&mut self, now: Now, called: Boot, late: Timestamp, polled: &Polled) {
        self.schedules.polled(polled.earliest, late);
        self.pendings.polled(polled.earliest_pending, late);
        if self.looks == Looks::Off && self.is_slow(now, called, polled.rows) {
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
            *at = Boot::MIN;
        }
    }

    /// A poll has ended, so long before the next; `None` if that one begins as soon as it may. A look that is
    /// due follows, but for one that has come due only lately and might delay the next poll.
    pub(super) fn ended(&mut self, now: Now, left: Option<Millis>) {
        let Looks::Due(at) = self.looks else { return };
        let in_time = left.is_some_and(|left| left >= self.call.min(self.interval / 2));
        let since = now.boot.saturating_since(at);
        if since >= 0 && in_time || since >= LONGEST_PAUSE {
            self.looks = Looks::Following;
        }
    }

    /// The look that is to be sent now.
    pub(super) fn look(&self, now: Now) -> Option<Look> {
        let (schedules, pendings) = (self.floor(now), self.pending_floor(now));
        (self.looks == Looks::Following).then_some(Look { sent: now.boot, schedules, pendings })
    }

    /// A look has been answered; whether something lies before the floors at which polls began.
    pub(super) fn looked(&mut self, now: Now, look: Look, polled: &Polled) -> bool {
        self.look_ended(look, !self.is_slow(now, look.sent, 0));
        let schedule = self.schedules.looked(polled.earliest, look.schedules);
        self.pendings.looked(polled.earliest_pending, look.pendings) || schedule
    }

    /// A look has been answered, or has failed and was not quick.
    pub(super) fn look_ended(&mut self, look: Look, is_quick: bool) {
        self.looks = if is_quick { Looks::Off } else { Looks::Due(look.sent + self.pause) };
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }

    /// Whether a call that read so many rows took a good part of the time a call may take, or was in vain.
    fn is_slow(&self, now: Now, called: Boot, rows: usize) -> bool {
        let took = now.boot - called;
        took > self.call / 3 || took > IN_VAIN && rows < FEW
    }
}

#[cfg(test)]
mod tests;

//! The begins of polls: with the ticks of a grid, and between two of them where a poll is wanted sooner.
//!
//! The grid is the epoch's: ticks that are late, or skipped, never move those behind them.

use super::sizes::SHORT_PAGE;
use crate::domain::{Boot, Millis, NodeId, Timestamp};
use crate::time::Now;

/// The pause after a poll that failed.
const FAILURE_PAUSE: Millis = 1_000;
/// The pause after the first extra poll, which is one between two ticks. Each further pause is twice as long,
/// unless the poll was for news.
pub(super) const FIRST_EXTRA_PAUSE: Millis = 10;
/// The least pause before a short poll.
const SHORT_PAUSE: Millis = 15;
/// The longest pause after an extra poll.
const EXTRA_PAUSE: Millis = 100;
/// The pauses begin anew after an extra poll that ended this long after the one before.
const EXTRA_REST: Millis = 1_000;
/// News makes the next poll wait for this many times the duration of the last one: with endless news a node
/// that has a long backlog reads it again for a tenth of the time, not for most of it.
const BACKLOG_REST: Millis = 9;
/// The same after a poll that read no more rows than a short one may: little is read again.
const NEWS_REST: Millis = 2;
/// Short polls follow each other for so long after one that has found something: a process that enqueues all
/// the time tells of it no more often.
const FOLLOWS: Millis = 50;
/// After a poll that took this long, news that must wait for the next one makes a short poll.
const LONG_POLL: Millis = 50;

/// Ticks on multiples of `period` plus `phase`: the next one comes from the grid, never from "now + period".
#[derive(Debug)]
pub(super) struct Ticker {
    period: Millis,
    phase: Millis,
    next: Timestamp,
}

impl Ticker {
    /// The first tick is the first of the grid after `now`.
    fn new(period: Millis, phase: Millis, now: Timestamp) -> Self {
        let mut ticker = Self { period, phase: phase.rem_euclid(period), next: now };
        ticker.next = ticker.last_at(now) + period;
        ticker
    }

    /// The latest tick at or before `now` and the number of ticks skipped before it; `None` before the next
    /// tick.
    ///
    /// After a clock that stepped back by more than a period the grid is taken up again from `now`.
    fn tick(&mut self, now: Timestamp) -> Option<(Timestamp, u64)> {
        if self.next > now.saturating_add(self.period) {
            self.next = self.last_at(now) + self.period;
        }
        if now < self.next {
            return None;
        }
        let tick = self.last_at(now);
        let skipped = (tick - self.next) / self.period;
        self.next = tick + self.period;
        Some((tick, u64::try_from(skipped).unwrap_or(0)))
    }

    fn last_at(&self, now: Timestamp) -> Timestamp {
        now - (now - self.phase).millis().rem_euclid(self.period)
    }
}

/// A node's phase on the grid: nodes started together do not poll together.
fn phase_of(node: NodeId, period: Millis) -> Millis {
    let spread = i64::try_from(node.0.as_u128() % 1_000_000).unwrap_or(0);
    spread % period
}

/// The timetable's advice at an instant.
pub(super) enum Next {
    /// A poll begins: with this tick, before which so many were skipped, or as an extra poll.
    Begin { tick: Option<Timestamp>, skipped: u64 },
    /// A short poll begins, which only looks for what may start at once.
    Short,
    /// No poll begins before this.
    Wait(Boot),
}

/// Why a poll has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    Tick,
    /// Something may have become due since the last poll, or was cut off from it.
    Extra,
    /// Somebody has changed something: a steady stream of news is polled for as often as polls are cheap.
    News,
}

/// A poll for news.
struct NewsPoll {
    is_wanted: bool,
    /// It does not begin before this.
    from: Boot,
}

impl NewsPoll {
    /// When it begins.
    fn at(&self) -> Boot {
        if self.is_wanted { self.from } else { Boot::MAX }
    }
}

/// The instants at which polls begin.
pub(super) struct Timetable {
    ticker: Ticker,
    /// A poll is wanted before the next tick.
    pub(super) wanted: bool,
    /// The poll for changes that this process has made or heard of, and until it begins a short one.
    news: NewsPoll,
    short: NewsPoll,
    /// Short polls follow each other until this.
    follows_until: Boot,
    /// The earliest retry stored here that is due before the next tick and that no poll has begun for.
    retry: Option<Timestamp>,
    /// Of the last poll.
    begun: Begun,
    /// When the last extra poll ended, and the pause behind it.
    extra_ended: Option<Boot>,
    extra_pause: Millis,
    /// No poll begins before this.
    hold: Boot,
}

impl Timetable {
    /// The first poll begins at once.
    pub(super) fn new(node: NodeId, period: Millis, now: Now) -> Self {
        let ticker = Ticker::new(period, phase_of(node, period), now.db);
        let unwanted = || NewsPoll { is_wanted: false, from: now.boot };
        let (news, short) = (unwanted(), unwanted());
        let (begun, extra_ended, extra_pause) = (Begun::Tick, None, EXTRA_PAUSE);
        let (retry, hold, follows_until) = (None, now.boot, now.boot);
        Self {
            ticker,
            wanted: true,
            news,
            short,
            follows_until,
            retry,
            begun,
            extra_ended,
            extra_pause,
            hold,
        }
    }

    /// This process has made a change, or heard of one.
    pub(super) fn heard(&mut self) {
        (self.news.is_wanted, self.short.is_wanted) = (true, true);
    }

    /// A poll has brought executions that no poll has brought before: more may follow, and not be told.
    pub(super) fn found(&mut self, now: Now) {
        self.follows_until = now.boot + FOLLOWS;
        self.short.is_wanted = true;
    }

    /// Whether a poll begins now.
    pub(super) fn next(&mut self, now: Now) -> Next {
        if now.boot < self.hold {
            return Next::Wait(self.hold);
        }
        let extra_at = self.extra_at();
        let (news_at, short_at) = (self.news.at(), self.short.at());
        match self.ticker.tick(now.db) {
            Some((tick, skipped)) => self.begin(Begun::Tick, Some(tick), skipped),
            None if self.wanted || extra_at <= now.db => self.begin(Begun::Extra, None, 0),
            None if news_at <= now.boot => self.begin(Begun::News, None, 0),
            None if short_at <= now.boot => {
                (self.short.is_wanted, self.begun) = (false, Begun::News);
                Next::Short
            }
            None => Next::Wait(now.boot_at(extra_at.min(self.ticker.next)).min(news_at).min(short_at)),
        }
    }

    fn begin(&mut self, begun: Begun, tick: Option<Timestamp>, skipped: u64) -> Next {
        (self.wanted, self.news.is_wanted, self.short.is_wanted) = (false, false, false);
        (self.retry, self.begun) = (None, begun);
        Next::Begin { tick, skipped }
    }

    /// When an extra poll brings a retry in time to wait for its instant.
    fn extra_at(&self) -> Timestamp {
        self.retry.map_or(Timestamp::MAX, |due| due - EXTRA_PAUSE)
    }

    /// The next tick.
    pub(super) fn next_tick(&self) -> Timestamp {
        self.ticker.next
    }

    /// Wants a poll shortly before this retry is due, unless the next tick's brings it in time.
    pub(super) fn want_retry(&mut self, due: Timestamp) {
        if due < self.ticker.next {
            self.retry = Some(self.retry.map_or(due, |other| other.min(due)));
        }
    }

    /// A poll that began at `sent` has ended; it has read so many rows.
    pub(super) fn ended(&mut self, now: Now, sent: Boot, rows: usize, is_short: bool) {
        let took = now.boot - sent;
        let rested = now.boot + took * if rows > SHORT_PAGE { BACKLOG_REST } else { NEWS_REST };
        self.hold = now.boot;
        self.short.is_wanted |= now.boot < self.follows_until;
        if is_short {
            self.short.from = rested.max(now.boot + SHORT_PAUSE);
            return;
        }
        self.news.from = rested;
        self.short.from = if took >= LONG_POLL { now.boot } else { rested };
        match self.begun {
            Begun::Tick => {}
            Begun::Extra => self.hold = now.boot + self.pause(now),
            // Short polls go on meanwhile.
            Begun::News => {
                self.news.from = rested.max(now.boot + self.pause(now));
                self.short.from = self.short.from.max(now.boot + SHORT_PAUSE);
            }
        }
    }

    /// The pause behind an extra poll that has just ended.
    fn pause(&mut self, now: Now) -> Millis {
        let has_rested = self.extra_ended.is_none_or(|ended| now.boot - ended >= EXTRA_REST);
        let longer = (2 * self.extra_pause).min(EXTRA_PAUSE);
        self.extra_pause = if has_rested { FIRST_EXTRA_PAUSE } else { longer };
        self.extra_ended = Some(now.boot);
        self.extra_pause
    }

    /// A poll has failed: another follows as soon as the pause is over.
    pub(super) fn failed(&mut self, now: Now) {
        self.hold = now.boot + FAILURE_PAUSE;
        self.wanted = true;
    }
}

#[cfg(test)]
mod tests;

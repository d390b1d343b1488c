//! Every span of the protocol in one place, with the inequalities that keep it safe.

use std::time::Duration;

use crate::domain::{Error, ErrorKind, MOST_AHEAD, Millis, Timestamp};

/// The spans a cluster works with. All milliseconds.
///
/// Nodes of one application must agree on `death` and `call`: a lease is measured by its owner's, a death by
/// the observer's. On the others they may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Poll period: ticks lie on epoch multiples of it, plus the node's phase.
    pub poll: Millis,
    /// How far beyond the next poll a poll looks.
    pub lead: Millis,
    /// Heartbeat period `h`.
    pub beat: Millis,
    /// The most a store call may take before its thread and connection are abandoned: `q`.
    pub call: Millis,
    /// A beat unchanged for this long means death: `d`.
    pub death: Millis,
    /// The default and least misfire threshold.
    pub threshold: Millis,
    /// How often one node of the application runs the misfire handler.
    pub election: Millis,
    /// How long the ledger keeps an occurrence that has ended; `None` is for ever.
    pub retention: Option<Millis>,
}

/// Between the last instant a claim may start and the first at which repair may take it away: at least this.
const LEAST_MARGIN: Millis = 1_000;
/// The margin's part of `death`: the lease's end and the death are counted on two hosts, whose clocks may run
/// at rates that differ by as much.
const MARGIN_PART: Millis = 100;
/// The ledger is kept at least this long: an hour is longer than anybody takes to learn what became of a
/// claim.
pub(crate) const LEAST_RETENTION: Millis = 3_600_000;
/// No other span may be longer: sums of them stay far from the end of the numbers.
const LONGEST: Millis = 24 * 3_600_000;
/// One claim batch takes the occurrences that come due within this span: a claim is sent at most this long
/// before its fire time.
pub(crate) const CLAIM_AHEAD: Millis = 50;
/// A claim is sent no later than this before the first instant it is for, and sooner where claims take
/// longer.
pub(crate) const LEAST_LEAD: Millis = 20;
/// After a commit a small batch of outcomes waits at most this long for more. A crash in this span may cost a
/// second attempt of an occurrence whose handler had returned.
pub(crate) const GATHER: Millis = 50;
/// After a large batch the next one waits at most this long for more outcomes: a backlog's come fast, and at
/// its end no more follow.
pub(crate) const REST: Millis = 8;
/// A claim that found its row locked is tried once more, and not before this; PostgreSQL waits so long for
/// each such row before it is left out (0 would be for ever).
pub(crate) const SKIP_RETRY: Millis = 20;
/// Claims never move a cursor further ahead of the clock than this.
pub(crate) const CURSOR_AHEAD: Millis = 30_000;
/// An election mark further ahead than this is taken for a broken clock's and counts as due.
const ELECTION_AHEAD: Millis = 30_000;
/// From this long overdue on, any node claims an occurrence, not only those at home in its shard.
pub(crate) const HOME_LEAD: Millis = 2_000;
/// The database's clock and ours may differ by this much before we warn.
pub(crate) const OFFSET_WARNING: Millis = 1_000;
/// The wall clock and the boot clock drifted apart by more than this: the machine was paused, or its clock
/// was set.
pub(crate) const WALL_JUMP: Millis = 500;
/// A step of the database's clock by more than this drops the plan.
pub(crate) const OFFSET_JUMP: Millis = 250;
// What is claimed ahead counts towards a rate from when it is due.
const _: () = assert!(CLAIM_AHEAD + OFFSET_JUMP <= MOST_AHEAD);
/// The most threads and connections that abandoned store calls may hold; beyond it no call is made. A network
/// that goes silent for good leaves some five behind, until the kernel gives their connections up.
pub(crate) const MOST_ABANDONED: usize = 64;

impl Default for Window {
    fn default() -> Self {
        Self {
            poll: 5_000,
            lead: 1_000,
            beat: 5_000,
            call: 3_000,
            death: 25_000,
            threshold: 60_000,
            election: 15_000,
            retention: Some(30 * 24 * 3_600_000),
        }
    }
}

impl Window {
    /// Refuses spans that are longer than any cluster can mean; the error names the one.
    pub(crate) fn bounded(self) -> Result<Self, Error> {
        let spans = [
            ("poll interval", self.poll),
            ("heartbeat interval", self.beat),
            ("store_timeout", self.call),
            ("death_after", self.death),
            ("misfire interval", self.election),
        ];
        let Some((name, span)) = spans.iter().find(|(_, span)| *span > LONGEST) else { return Ok(self) };
        Err(Error::new(ErrorKind::Config, format!("the {name} is at most one day, got {span} ms")))
    }

    /// Checks every inequality the protocol rests on; the error names the one that fails.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        let rules = [
            (self.poll >= 100, "the poll interval is at least 100 ms"),
            (self.beat >= 100, "the heartbeat interval is at least 100 ms"),
            (self.call >= 500, "store_timeout is at least 500 ms"),
            (
                self.lease() >= self.silence(),
                "death_after, less a hundredth of it (at least 1 s) and store_timeout, must leave two heartbeats, \
                 and one heartbeat plus store_timeout",
            ),
            (
                self.threshold >= self.least_threshold(),
                "the misfire threshold must be at least the poll interval plus store_timeout plus 2 s",
            ),
            (self.election >= self.poll, "the misfire interval must be at least the poll interval"),
            (
                self.retention.is_none_or(|span| span >= LEAST_RETENTION.max(self.threshold)),
                "the retention must be at least one hour, and the misfire threshold",
            ),
        ];
        let Some((_, rule)) = rules.iter().find(|(holds, _)| !holds) else { return Ok(self) };
        let Self { poll, beat, call, death, election, .. } = self;
        let message = format!(
            "{rule}: poll interval {poll} ms, heartbeat {beat} ms, store_timeout {call} ms, \
             death_after {death} ms, misfire interval {election} ms"
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    /// How long after a confirmed heartbeat was sent its lease lets a claim start. The next heartbeat is
    /// answered before its end.
    pub(crate) fn lease(&self) -> Millis {
        self.death - self.call - LEAST_MARGIN.max(self.death / MARGIN_PART)
    }

    /// After how long without a confirmed heartbeat a node counts as silent: one that runs, and whose
    /// database answers, is heard of sooner. A silent node's lease has not ended yet, or just now.
    pub(crate) fn silence(&self) -> Millis {
        self.beat + self.beat.max(self.call)
    }

    /// The misfire threshold no schedule may go below: a healthy poll always comes first.
    pub(crate) fn least_threshold(&self) -> Millis {
        self.poll + self.call + 2_000
    }

    /// The end of what a poll at `tick` looks at (exclusive).
    pub(crate) fn end(&self, tick: Timestamp) -> Timestamp {
        tick.saturating_add(self.poll + self.lead)
    }
}

/// The election mark above which another node may be elected: no right clock has written it.
pub(crate) fn far_election(now: Timestamp, interval: Millis) -> Timestamp {
    now.saturating_add(ELECTION_AHEAD.max(interval))
}

/// Whether the election mark lets somebody be elected. A mark that cannot be read does.
pub(crate) fn is_election_due(mark: Option<Timestamp>, now: Timestamp, interval: Millis) -> bool {
    mark.is_none_or(|mark| mark <= now || mark > far_election(now, interval))
}

/// A span as whole milliseconds, saturating.
pub(crate) fn millis(span: Duration) -> Millis {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds as a span; negative ones are zero.
pub(crate) fn span(millis: Millis) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_every_inequality() {
        assert!(Window::default().checked().is_ok());
    }

    #[test]
    fn what_just_holds_is_allowed_and_a_millisecond_less_is_not() {
        let least = Window {
            poll: 100,
            lead: 1_000,
            beat: 100,
            call: 500,
            death: 2_100,
            threshold: 2_600,
            election: 100,
            retention: Some(3_600_000),
        };
        assert_eq!(least.checked().ok(), Some(least));
        let cases = [
            Window { poll: 99, ..least },
            Window { beat: 99, ..least },
            Window { call: 499, ..least },
            Window { death: 2_099, ..least },
            Window { threshold: 2_599, ..least },
            Window { election: 99, ..least },
            Window { retention: Some(3_599_999), ..least },
        ];
        for window in cases {
            assert!(window.checked().is_err(), "{window:?}");
        }
        assert!(Window { retention: None, ..least }.checked().is_ok());
    }

    #[test]
    fn a_span_over_a_day_is_named() {
        const DAY: Millis = 86_400_000;
        let windows = |span| {
            let window = Window::default();
            [
                (Window { poll: span, ..window }, "poll interval"),
                (Window { beat: span, ..window }, "heartbeat interval"),
                (Window { call: span, ..window }, "store_timeout"),
                (Window { death: span, ..window }, "death_after"),
                (Window { election: span, ..window }, "misfire interval"),
            ]
        };
        assert!(windows(DAY).into_iter().all(|(window, _)| window.bounded().is_ok()));
        for (window, word) in windows(DAY + 1) {
            assert!(window.bounded().unwrap_err().to_string().contains(word), "{word}");
        }
    }

    #[test]
    fn what_follows_from_the_default_spans() {
        let window = Window::default();
        assert_eq!((window.lease(), window.silence(), window.least_threshold()), (21_000, 10_000, 10_000));
        assert_eq!(
            (window.end(Timestamp::at(10_000)), window.end(Timestamp::MAX)),
            (Timestamp::at(16_000), Timestamp::MAX)
        );
    }

    /// An observer whose clock runs a hundredth faster than the owner's sees no death before the last claim
    /// has ended.
    #[test]
    fn no_claim_outlasts_a_death_counted_on_a_faster_clock() {
        for death in [25_000, 60_000, 3_600_000, LONGEST] {
            let window = Window { death, ..Window::default() };
            assert!((window.lease() + window.call) * 101 <= death * 100, "{death}");
        }
    }

    #[test]
    fn a_lease_lasts_until_the_next_heartbeat_is_answered() {
        let window = Window { beat: 100, death: 4_200, ..Window::default() };
        assert!(window.checked().is_err());
        assert!(Window { death: 7_100, ..window }.checked().is_ok());
        assert!(Window { death: 7_099, ..window }.checked().is_err());
    }

    #[test]
    fn spans_and_milliseconds_end_where_the_other_does() {
        assert_eq!((millis(Duration::from_micros(7_999)), millis(Duration::MAX)), (7, Millis::MAX));
        assert_eq!((span(7), span(-1)), (Duration::from_millis(7), Duration::ZERO));
    }

    #[test]
    fn a_broken_inequality_is_named() {
        let cases: [(Window, &str); 6] = [
            (Window { poll: 0, ..Window::default() }, "poll interval"),
            (Window { death: 10_000, ..Window::default() }, "death_after"),
            (Window { threshold: 9_000, ..Window::default() }, "misfire threshold"),
            (Window { election: 1_000, ..Window::default() }, "misfire interval"),
            (Window { retention: Some(3_599_999), ..Window::default() }, "retention"),
            (Window { retention: Some(3_600_000), threshold: 3_600_001, ..Window::default() }, "retention"),
        ];
        for (window, word) in cases {
            let error = window.checked().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn an_election_mark_is_due_when_it_is_behind_or_too_far_ahead() {
        let due = |mark| is_election_due(Some(mark), Timestamp::at(1_000_000), 15_000);
        assert_eq!(
            [
                due(Timestamp::at(-1)),
                due(Timestamp::at(1_000_000)),
                due(Timestamp::at(1_000_001)),
                due(Timestamp::at(1_030_000)),
                due(Timestamp::at(1_030_001))
            ],
            [true, true, false, false, true]
        );
        assert!(is_election_due(None, Timestamp::at(1_000_000), 15_000));
        assert!(
            !is_election_due(Some(Timestamp::at(1_060_000)), Timestamp::at(1_000_000), 60_000),
            "as far ahead as the interval"
        );
    }
}

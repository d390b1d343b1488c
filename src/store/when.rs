//! A trigger as columns of QRTZ_EXECUTE, and what columns that anyone may have written mean.

use super::columns::{LONGEST_STREAK, NO_TIME, NONE, QUEUE, When};
use crate::domain::{Cursor, Millis, NextFire, Overlap, PauseAfter, ScheduleState, Timestamp};
use crate::time::LEAST_RETENTION;
use crate::trigger::{Cron, Delay, FOR_EVER, Fold, Gap, Simple, Timing, Trigger, TriggerError};

/// Instants before this (1973-03-03) are taken for seconds written where milliseconds belong: read as
/// seconds they reach to the year 5138.
pub(crate) const FIRST_PLAUSIBLE: Millis = 100_000_000_000;

/// The database's time, and the instant from which the application's ledger holds every occurrence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    pub now: Timestamp,
    pub ledger_from: Timestamp,
}

impl Present {
    /// While the ledger holds everything.
    pub(crate) fn at(now: Timestamp) -> Self {
        Self { now, ledger_from: NO_TIME }
    }
}

/// The cursor of a schedule that gets its trigger now, `prev` being the last fire time it was planned at.
///
/// The next fire time is the trigger's first from now on. Of a simple trigger that lies wholly in the past it
/// is the first behind `prev`, and of [`Trigger::once`] its instant, even at or before `prev`: the misfire
/// policy decides about it. But retention may have removed the execution of an instant before `ledger_from`,
/// so that one counts as passed. (A mark younger than any retention is a wrong clock's.) A cron trigger whose
/// end has passed has none.
pub(crate) fn planned(timing: &Timing, prev: Option<Timestamp>, at: Present) -> Cursor {
    let behind = prev.unwrap_or(NO_TIME);
    let past = || match timing.trigger() {
        Trigger::Simple(simple) if simple.interval_ms() == 0 => timing.next_after(NO_TIME),
        Trigger::Simple(_) => timing.next_after(behind),
        Trigger::Cron(_) | Trigger::Delay(_) => None,
    };
    let next = timing.next_after(behind.max(at.now - 1)).or_else(past);
    let forgotten = at.ledger_from.min(at.now - LEAST_RETENTION);
    if is_past_one_shot(timing, at.now) && next.is_some_and(|next| next < forgotten) {
        return Cursor { prev: next, next: NextFire::Never };
    }
    let prev = prev.filter(|prev| next.is_none_or(|next| *prev < next));
    Cursor { prev, next: NextFire::planned(next) }
}

/// Whether the trigger is one whose instant has passed: it may lie before the application's `ledger_from`.
pub(crate) fn is_past_one_shot(timing: &Timing, now: Timestamp) -> bool {
    let is_one_shot = matches!(timing.trigger(), Trigger::Simple(simple) if simple.interval_ms() == 0);
    is_one_shot && timing.next_after(now - 1).is_none()
}

/// The columns of a schedule made at `now`, if what is stored could be understood again; else what to change.
pub(crate) fn storable(timing: &Timing, now: Timestamp) -> Result<When, String> {
    /// Of the columns.
    const LONGEST_CRON: usize = 200;
    if let Trigger::Cron(cron) = timing.trigger() {
        let length = cron.expression().chars().count();
        if length > LONGEST_CRON {
            return Err(format!("the cron expression has {length} characters, {LONGEST_CRON} are allowed"));
        }
    }
    let next = planned(timing, None, Present::at(now)).next.at();
    let times = [("end", timing.end()), ("next fire time", next)];
    for (what, time) in times {
        if let Some(time) = time.map(Timestamp::millis).filter(|time| *time < FIRST_PLAUSIBLE) {
            return Err(format!(
                "its {what}, {time} ms, is before 1973-03-03: are these seconds, not milliseconds?"
            ));
        }
    }
    if next == NextFire::AfterRun.column() {
        return Err("its next fire time, 9999-12-31 23:59:59.999 UTC, stands for one that is not known yet"
            .to_owned());
    }
    Ok(When::of(timing))
}

impl When {
    /// The columns a trigger is stored in.
    pub(crate) fn of(timing: &Timing) -> Self {
        let window = (timing.start_ms().unwrap_or(NONE), timing.end_ms().unwrap_or(NONE));
        match timing.trigger() {
            Trigger::Cron(cron) => Self::of_cron(cron, window),
            Trigger::Simple(simple) => Self::of_simple(simple, timing, window.1),
            Trigger::Delay(delay) => Self::of_delay(*delay, timing, window.1),
        }
    }

    fn of_cron(cron: &Cron, (start, end): (Millis, Millis)) -> Self {
        let (gap, fold) = cron.dst();
        Self {
            job_type: "CRON".to_owned(),
            cron: Some(cron.expression().to_owned()),
            zone_id: Some(cron.zone().to_owned()),
            repeat_count: Some(FOR_EVER),
            repeat_interval: Some(0),
            start_time: Some(start),
            end_time: Some(end),
            dst_gap: word(GAPS, &gap),
            dst_fold: word(FOLDS, &fold),
        }
    }

    /// The table has one start: occurrences before the window's are taken off the count.
    fn of_simple(simple: &Simple, timing: &Timing, end: Millis) -> Self {
        let anchor = simple.start_ms().unwrap_or(NONE);
        let start = timing.after(NONE).unwrap_or(anchor);
        let passed = (start - anchor).checked_div(simple.interval_ms()).unwrap_or(0);
        let count = match simple.stored_repeat_count() {
            FOR_EVER => FOR_EVER,
            count => (count - passed).max(0),
        };
        Self::repeated("SIMPLE", count, simple.interval_ms(), (start, end))
    }

    fn of_delay(delay: Delay, timing: &Timing, end: Millis) -> Self {
        let start = timing.after(NONE).or(delay.start_ms()).unwrap_or(NONE);
        Self::repeated("DELAY", FOR_EVER, delay.delay_ms(), (start, end))
    }

    fn repeated(job_type: &str, count: i64, interval: Millis, (start, end): (Millis, Millis)) -> Self {
        Self {
            job_type: job_type.to_owned(),
            cron: None,
            zone_id: None,
            repeat_count: Some(count),
            repeat_interval: Some(interval),
            start_time: Some(start),
            end_time: Some(end),
            dst_gap: word(GAPS, &Gap::default()),
            dst_fold: word(FOLDS, &Fold::default()),
        }
    }

    /// What the columns mean, or why they mean nothing.
    pub(crate) fn timing(&self) -> Result<Timing, String> {
        let start = optional("start_time", self.start_time)?;
        let end = optional("end_time", self.end_time)?;
        if let Some(end) = end {
            plausible("end_time", end)?;
        }
        let trigger = match self.job_type.as_str() {
            "CRON" => Trigger::Cron(self.as_cron()?),
            "SIMPLE" => Trigger::Simple(self.as_simple(start)?),
            "DELAY" => Trigger::Delay(self.as_delay(start)?),
            QUEUE => of_queue().map_err(|error| error.to_string())?,
            other => return Err(format!("job_type {other:?} is none of CRON, SIMPLE, DELAY and QUEUE")),
        };
        Timing::new(trigger, start, end).map_err(|error| error.to_string())
    }

    fn as_cron(&self) -> Result<Cron, String> {
        let expression = self.cron.as_deref().ok_or("cron is NULL")?;
        let zone = self.zone_id.as_deref().ok_or("zone_id is NULL")?;
        let cron = Cron::parse(expression, zone).map_err(|error| error.to_string())?;
        Ok(cron.with_gap(meant(GAPS, "dst_gap", &self.dst_gap)?).with_fold(meant(
            FOLDS,
            "dst_fold",
            &self.dst_fold,
        )?))
    }

    fn as_simple(&self, start: Option<Millis>) -> Result<Simple, String> {
        let interval = self.repeat_interval.ok_or("repeat_interval is NULL")?;
        let count = self.repeat_count.ok_or("repeat_count is NULL")?;
        Simple::new(start, interval, count).map_err(|error| error.to_string())
    }

    fn as_delay(&self, start: Option<Millis>) -> Result<Delay, String> {
        let delay = self.repeat_interval.ok_or("repeat_interval is NULL")?;
        Delay::new(start, delay).map_err(|error| error.to_string())
    }

    /// Whether two rows ask for the same, wherever an interval trigger that anybody may anchor starts.
    pub(crate) fn same(&self, other: &Self, anchored: bool) -> bool {
        let start_time = if anchored { other.start_time } else { self.start_time };
        *self == Self { start_time, ..other.clone() }
    }

    /// What the trigger says, in words; empty if the columns mean none.
    pub(crate) fn in_words(&self) -> String {
        self.timing().map(|timing| timing.trigger().in_words()).unwrap_or_default()
    }

    /// The trigger for people to read.
    pub(crate) fn describe(&self) -> String {
        match (self.job_type.as_str(), self.repeat_count) {
            ("CRON", _) => format!(
                "cron {} [{}]{}",
                self.cron.as_deref().unwrap_or("NULL"),
                self.zone_id.as_deref().unwrap_or("NULL"),
                self.rules()
            ),
            ("SIMPLE", Some(0)) => "once".to_owned(),
            ("SIMPLE", count) => {
                let times = count.filter(|count| *count > 0).map(|count| count.saturating_add(1));
                let times = times.map_or_else(String::new, |times| format!(", {times} times"));
                match self.repeat_interval {
                    Some(interval) => format!("every {interval} ms{times}"),
                    None => "every NULL ms".to_owned(),
                }
            }
            ("DELAY", _) => match self.repeat_interval {
                Some(delay) => format!("{delay} ms after each run"),
                None => "NULL ms after each run".to_owned(),
            },
            (other, _) => other.to_owned(),
        }
    }

    /// Its rules for clock changes that are not the usual ones.
    fn rules(&self) -> String {
        let (gap, fold) = (word(GAPS, &Gap::default()), word(FOLDS, &Fold::default()));
        let of = |name: &str, rule: &String, usual| match *rule == usual {
            true => String::new(),
            false => format!(", {name} {rule}"),
        };
        of("gap", &self.dst_gap, gap) + &of("fold", &self.dst_fold, fold)
    }
}

/// The trigger of every queue's row: one that has nothing left to fire.
pub(crate) fn of_queue() -> Result<Trigger, TriggerError> {
    Simple::new(Some(0), 0, 0).map(Trigger::Simple)
}

/// A row's cursor, or why it cannot be one.
pub(crate) fn cursor(
    state: ScheduleState,
    prev: Option<Millis>,
    next: Option<Millis>,
) -> Result<Cursor, String> {
    let prev = optional("prev_fire_time", prev)?;
    let next = optional("next_fire_time", next)?;
    for (column, time) in [("prev_fire_time", prev), ("next_fire_time", next)] {
        if let Some(time) = time {
            plausible(column, time)?;
        }
    }
    match (prev, next) {
        (Some(prev), Some(next)) if next <= prev => {
            Err(format!("next_fire_time {next} is not after prev_fire_time {prev}"))
        }
        (_, None) if matches!(state, ScheduleState::Active | ScheduleState::Paused) => {
            Err(format!("state {} without a next_fire_time", state.stored()))
        }
        _ => Ok(Cursor { prev: prev.map(Timestamp::at), next: NextFire::stored(next.map(Timestamp::at)) }),
    }
}

/// A number that only ever grows by one: it must be able to.
pub(crate) fn count(column: &str, value: i64) -> Result<i64, String> {
    if (0..i64::MAX).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{column} {value} is not a count that can grow"))
    }
}

/// A fence must be able to grow: a claim of the row would overflow it.
pub(crate) fn fence(value: i64) -> Result<(), String> {
    if value == i64::MAX { Err(format!("fence {value} can grow no more")) } else { Ok(()) }
}

/// The highest mark that the fences of new schedules begin above: they must be able to grow.
pub(crate) const HIGHEST_FENCE_MARK: i64 = i64::MAX / 2;

pub(crate) fn priority(value: i64) -> Result<i32, String> {
    i32::try_from(value).map_err(|_| format!("priority {value} is none of -2147483648 to 2147483647"))
}

pub(crate) fn threshold(value: Millis) -> Result<Millis, String> {
    if value >= 0 { Ok(value) } else { Err(format!("threshold {value} is not a span")) }
}

/// A schedule's own time limit.
pub(crate) fn time_limit(value: Option<Millis>) -> Result<Option<Millis>, String> {
    match value {
        Some(limit) if limit < 1 => Err(format!("time limit {limit} is not a span")),
        limit => Ok(limit),
    }
}

/// After which occurrences in a row a schedule pauses itself.
pub(crate) fn pause_after(value: Option<i64>) -> Result<PauseAfter, String> {
    let count = |value: i64| {
        let count = u32::try_from(value).ok().filter(|_| value <= LONGEST_STREAK);
        count.ok_or_else(|| format!("pause_after {value} is none of 0 to {LONGEST_STREAK}"))
    };
    value.map(count).transpose().map(PauseAfter::of)
}

/// What becomes of occurrences that would overlap.
pub(crate) fn overlap(word: &str) -> Result<Overlap, String> {
    word.parse().map_err(|unknown| format!("overlap rule {unknown}"))
}

fn optional(column: &str, time: Option<Millis>) -> Result<Option<Millis>, String> {
    match time {
        Some(NONE) => Ok(None),
        Some(time) => Ok(Some(time)),
        None => Err(format!("{column} is NULL")),
    }
}

fn plausible(column: &str, time: Millis) -> Result<(), String> {
    if time < FIRST_PLAUSIBLE {
        return Err(format!("{column} {time} is before 1973: milliseconds are expected, not seconds"));
    }
    Ok(())
}

const GAPS: [(Gap, &str); 2] = [(Gap::FireAfter, "FIRE_AFTER"), (Gap::Skip, "SKIP")];
const FOLDS: [(Fold, &str); 2] = [(Fold::First, "FIRST"), (Fold::Both, "BOTH")];

/// The word of a value among these.
fn word<T: PartialEq>(words: [(T, &str); 2], of: &T) -> String {
    words.into_iter().filter(|(it, _)| it == of).map(|(_, word)| word).collect()
}

/// The value of a column's word among these.
fn meant<T: Copy>(words: [(T, &str); 2], column: &str, word: &str) -> Result<T, String> {
    let [(_, one), (_, other)] = words;
    let found = words.into_iter().find(|(_, it)| *it == word).map(|(it, _)| it);
    found.ok_or_else(|| format!("{column} {word:?} is neither {one} nor {other}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_trigger_reads_back_as_it_was_written() {
        let cron =
            Cron::parse("0 30 2 * * ?", "Europe/Berlin").unwrap().with_gap(Gap::Skip).with_fold(Fold::Both);
        let every = Simple::every(Duration::from_secs(5)).unwrap().anchored_ms(200_000_000_000).unwrap();
        let plain = Cron::parse("0 30 2 * * ?", "Europe/Berlin").unwrap();
        let delay = Delay::new(Some(200_000_000_000), 5_000).unwrap();
        let triggers =
            [Trigger::Cron(cron), Trigger::Cron(plain), Trigger::Simple(every), Trigger::Delay(delay)];
        for trigger in triggers {
            let timing = Timing::new(trigger, None, Some(300_000_000_000)).unwrap();
            let back = When::of(&timing).timing().unwrap();
            assert_eq!(back.trigger(), timing.trigger());
            assert_eq!(back.after(200_000_004_999), timing.after(200_000_004_999));
        }
    }

    #[test]
    fn occurrences_before_the_window_are_taken_off_the_count() {
        let simple = Simple::new(Some(200_000_000_000), 1_000, 4).unwrap();
        let timing = Timing::new(Trigger::Simple(simple), Some(200_000_001_500), None).unwrap();
        let back = When::of(&timing).timing().unwrap();
        let all: Vec<_> = std::iter::successors(back.after(-1), |at| back.after(*at)).collect();
        assert_eq!(all, [200_000_002_000, 200_000_003_000, 200_000_004_000]);
    }

    fn cron(expression: &str, end: Option<Timestamp>) -> Timing {
        Timing::new(Trigger::cron(expression, "UTC").unwrap(), None, end.map(Timestamp::millis)).unwrap()
    }

    fn simple(start: Timestamp, interval: Millis, count: i64) -> Timing {
        let simple = Simple::new(Some(start.millis()), interval, count).unwrap();
        Timing::new(Trigger::Simple(simple), None, None).unwrap()
    }

    #[test]
    fn the_first_fire_time_is_not_before_the_schedule_was_made_if_another_is_left() {
        const NOW: Timestamp = Timestamp::at(200_000_000_000);
        let first = |timing: &Timing, now| planned(timing, None, Present::at(now)).next.at();
        let every_second = cron("* * * * * ?", None);
        assert_eq!(
            (first(&every_second, NOW), first(&every_second, NOW + 1)),
            (Some(NOW), Some(NOW + 1_000))
        );
        assert_eq!(first(&cron("* * * * * ?", Some(NOW - 1)), NOW), None, "a cron whose end has passed");
        assert_eq!(first(&simple(NOW - 5_000, 1_000, -1), NOW + 1), Some(NOW + 1_000));
        assert_eq!(first(&simple(NOW - 5_000, 1_000, 2), NOW), Some(NOW - 5_000), "all of it has passed");
    }

    #[test]
    fn only_a_one_shot_is_planned_at_or_before_its_last_fire_time_again() {
        const NOW: Timestamp = Timestamp::at(200_000_000_000);
        let cursor = |timing: &Timing, prev| {
            let Cursor { prev, next } = planned(timing, Some(NOW + prev), Present::at(NOW));
            (prev.map(|at| at - NOW), next.at().map(|at| at - NOW))
        };
        let once = |at: Millis| simple(NOW + at, 0, 0);
        assert_eq!(cursor(&once(5), -10), (Some(-10), Some(5)));
        assert_eq!(cursor(&once(-5), -10), (Some(-10), Some(-5)));
        assert_eq!(cursor(&once(-10), -10), (None, Some(-10)));
        assert_eq!(cursor(&once(-15), -10), (None, Some(-15)));
        assert_eq!(cursor(&once(20), 50), (None, Some(20)), "the clock went back");
        let thrice = simple(NOW - 1_000, 400, 2);
        assert_eq!(cursor(&thrice, -2_000), (Some(-2_000), Some(-1_000)));
        assert_eq!(cursor(&thrice, -1_000), (Some(-1_000), Some(-600)));
        assert_eq!(cursor(&thrice, -200), (Some(-200), None));
        assert_eq!(cursor(&simple(NOW - 1_000, 400, 0), -200), (Some(-200), None), "times(1)");
        let for_ever = simple(NOW - 1_000, 500, -1);
        assert_eq!(cursor(&for_ever, -1_000), (Some(-1_000), Some(0)), "from now on");
        assert_eq!(cursor(&for_ever, 0), (Some(0), Some(500)));
        assert_eq!(cursor(&cron("* * * * * ?", None), 0), (Some(0), Some(1_000)));
        assert_eq!(cursor(&cron("* * * * * ?", Some(NOW - 1)), -5_000), (Some(-5_000), None));
    }

    #[test]
    fn what_could_not_be_read_back_is_not_stored() {
        let long = |length: usize| {
            let blanks = " ".repeat(length - "* * * * * ?".len());
            storable(&cron(&format!("* * * * * {blanks}?"), None), Timestamp::at(FIRST_PLAUSIBLE))
        };
        assert!(long(200).is_ok());
        assert!(long(201).unwrap_err().contains("201 characters, 200 are allowed"));

        let once = |at| storable(&simple(Timestamp::at(at), 0, 0), Timestamp::at(FIRST_PLAUSIBLE));
        assert!(once(FIRST_PLAUSIBLE).is_ok());
        assert!(once(FIRST_PLAUSIBLE - 1).unwrap_err().contains("next fire time, 99999999999 ms"));
        let ending = |end| storable(&cron("* * * * * ?", Some(end)), Timestamp::at(0));
        assert!(ending(Timestamp::at(FIRST_PLAUSIBLE - 1)).unwrap_err().contains("its end, 99999999999 ms"));
    }

    #[test]
    fn the_count_is_kept_as_it_is_where_nothing_has_passed() {
        for count in [-1, 0, 1, 7] {
            let stored = When::of(&simple(Timestamp::at(200_000_000_000), 1_000, count));
            assert_eq!(stored.repeat_count, Some(count));
        }
    }

    #[test]
    fn a_word_that_is_none_is_named() {
        let stored = When::of(&cron("* * * * * ?", None));
        let gap = When { dst_gap: "SKIPP".to_owned(), ..stored.clone() };
        assert!(gap.timing().unwrap_err().contains("dst_gap \"SKIPP\""));
        let fold = When { dst_fold: String::new(), ..stored };
        assert!(fold.timing().unwrap_err().contains("dst_fold \"\""));
    }

    #[test]
    fn only_a_start_that_anybody_may_set_may_differ() {
        let stored = When::of(&simple(Timestamp::at(200_000_000_000), 1_000, -1));
        let later = When::of(&simple(Timestamp::at(200_000_000_001), 1_000, -1));
        let other = When::of(&simple(Timestamp::at(200_000_000_000), 1_001, -1));
        assert!(stored.same(&stored, true) && stored.same(&later, false));
        assert!(!stored.same(&later, true) && !stored.same(&other, false));
    }

    #[test]
    fn a_trigger_is_shown_in_a_few_words() {
        let shown = |timing: &Timing| When::of(timing).describe();
        assert_eq!(shown(&cron("@daily", None)), "cron @daily [UTC]");
        assert_eq!(shown(&simple(Timestamp::at(0), 0, 0)), "once");
        assert_eq!(shown(&simple(Timestamp::at(0), 250, -1)), "every 250 ms");
        assert_eq!(shown(&simple(Timestamp::at(0), 250, 2)), "every 250 ms, 3 times");
        let both = When { dst_fold: "BOTH".to_owned(), ..When::of(&cron("@daily", None)) };
        assert_eq!(both.describe(), "cron @daily [UTC], fold BOTH");
        let broken = When { repeat_interval: None, ..When::of(&simple(Timestamp::at(0), 250, -1)) };
        assert_eq!(broken.describe(), "every NULL ms");
    }

    #[test]
    fn a_cursor_goes_forward_and_ends_only_with_its_schedule() {
        use ScheduleState::*;
        const AT: Millis = FIRST_PLAUSIBLE;
        let cases = [
            (Active, NONE, AT, true),
            (Active, AT, AT + 1, true),
            (Active, AT, AT, false),
            (Active, AT + 1, AT, false),
            (Active, AT, NONE, false),
            (Paused, AT, NONE, false),
            (Complete, AT, NONE, true),
            (Error, NONE, NONE, true),
            (Active, AT - 1, AT, false),
            (Complete, AT - 1, NONE, false),
        ];
        for (state, prev, next, holds) in cases {
            let read = super::cursor(state, Some(prev), Some(next));
            assert_eq!(read.is_ok(), holds, "{state:?} {prev} {next}");
            if let Ok(cursor) = read {
                assert_eq!(
                    [cursor.prev, cursor.next.column()].map(|at| at.map_or(NONE, Timestamp::millis)),
                    [prev, next]
                );
            }
        }
        assert!(super::cursor(Active, None, Some(AT)).unwrap_err().contains("prev_fire_time is NULL"));
    }

    #[test]
    fn numbers_at_the_ends_of_their_ranges() {
        let counts = [-1, 0, 7, i64::MAX - 1, i64::MAX].map(|value| count("fence", value).ok());
        assert_eq!(counts, [None, Some(0), Some(7), Some(i64::MAX - 1), None]);
        let priorities = [i64::from(i32::MIN) - 1, i64::from(i32::MIN), 7, 1 << 31];
        assert_eq!(priorities.map(|value| priority(value).ok()), [None, Some(i32::MIN), Some(7), None]);
        assert_eq!([-1, 0, 7].map(|value| threshold(value).ok()), [None, Some(0), Some(7)]);
    }

    #[test]
    fn seconds_for_milliseconds_are_recognised() {
        let seconds = 1_700_000_000;
        let error = cursor(ScheduleState::Active, Some(NONE), Some(seconds)).unwrap_err();
        assert!(error.contains("next_fire_time") && error.contains("seconds"), "{error}");
        assert!(cursor(ScheduleState::Active, Some(NONE), Some(seconds * 1_000)).is_ok());
    }
}

//! Accounts of ledgers that were written down.

use super::account::{Account, Accountant, Span};
use super::answer::FlawKind::{self, *};
use super::demand::demands;
use crate::domain::{ExecutionId, ScheduleId, Timestamp};
use crate::fixtures::{cron, simple};
use crate::store::columns::When;
use crate::store::ledger::{LedgerLine, LedgerSchedule, LinePlace, TriggerEnd, TriggerPeriod};
use crate::trigger::{AWAITED, Delay, Timing, Trigger};

/// A whole day in UTC, and an interval.
const DAY: Timestamp = Timestamp::at(1_000_080_000_000);
const SECOND: i64 = 1_000;

fn at(seconds: i64) -> Timestamp {
    DAY + seconds * SECOND
}

/// Every second, from the start of the day on; its next fire time is that of the tenth second.
fn every_second() -> LedgerSchedule {
    schedule(&simple(1, DAY, SECOND, -1, None).timing, 10)
}

fn schedule(timing: &Timing, next: i64) -> LedgerSchedule {
    let when = When::of(timing);
    let period = TriggerPeriod { generation: 0, begun: DAY, first: Some(DAY), when: when.clone(), end: None };
    let (name, state) = ("s".to_owned(), "EXECUTING".to_owned());
    let next = Some(at(next));
    LedgerSchedule { id: ScheduleId(1), name, state, generation: 0, next, when, triggers: vec![period] }
}

/// A run of the occurrence of this second, between those a second before and behind.
fn ran(second: i64) -> LedgerLine {
    let place =
        LinePlace { schedule: ScheduleId(1), generation: 0, origin: 0, scheduled: at(second), attempt: 1 };
    LedgerLine {
        id: ExecutionId(100 + second),
        place,
        until: None,
        occurrences: 1,
        state: "SUCCEEDED".to_owned(),
        reason: String::new(),
        cause: None,
        due: at(second),
        fence: 1,
        node: "n".to_owned(),
        claimed: Some(at(second)),
        started: Some(at(second)),
        finished: Some(at(second)),
        prev: Some(at(second - 1)),
        following: Some(at(second + 1)),
        holder: None,
        error: String::new(),
        result: None,
    }
}

/// A span that was skipped.
fn skipped(from: i64, to: i64) -> LedgerLine {
    LedgerLine {
        until: Some(at(to)),
        occurrences: to - from + 1,
        state: "SKIPPED".to_owned(),
        reason: "misfire".to_owned(),
        following: Some(at(to + 1)),
        ..ran(from)
    }
}

fn another(line: &LedgerLine) -> LedgerLine {
    let place = LinePlace { attempt: line.place.attempt + 1, ..line.place };
    LedgerLine { id: ExecutionId(line.id.0 + 1_000), place, ..line.clone() }
}

fn of_generation(line: LedgerLine, generation: i64) -> LedgerLine {
    LedgerLine { place: LinePlace { generation, ..line.place }, ..line }
}

fn account_of(schedule: &LedgerSchedule, lines: Vec<LedgerLine>, until: Timestamp) -> Account {
    let span = Span { from: Timestamp::MIN, until };
    let demands = demands(schedule, until);
    let mut accountant = Accountant::new(schedule, &demands, span);
    for line in lines {
        accountant.take(line);
    }
    accountant.finish().0
}

/// All that is there as far as the cursor.
fn whole() -> Vec<LedgerLine> {
    (0..10).map(ran).collect()
}

fn found(lines: Vec<LedgerLine>) -> Vec<(FlawKind, u64, String)> {
    let account = account_of(&every_second(), lines, at(12));
    account.flaws.into_iter().map(|flaw| (flaw.kind, flaw.occurrences, flaw.sentence)).collect()
}

/// The flaw of a ledger that was whole.
#[track_caller]
fn caught(kind: FlawKind, occurrences: u64, sentence: &str, change: impl FnOnce(&mut Vec<LedgerLine>)) {
    let mut lines = whole();
    change(&mut lines);
    let flaws = found(lines);
    let is_it = |(its, count, said): &(FlawKind, u64, String)| {
        *its == kind && *count == occurrences && said.contains(sentence)
    };
    assert!(flaws.iter().any(is_it), "{flaws:#?}");
}

#[test]
fn a_whole_ledger_has_no_flaw() {
    let account = account_of(&every_second(), whole(), at(12));
    assert_eq!(account.flaws, []);
    assert_eq!((account.rows, account.waiting), (10, 2), "two are due");
    assert_eq!(
        account.occurrences.into_iter().collect::<Vec<_>>(),
        [(("SUCCEEDED".into(), String::new()), 10)]
    );
    let paused = LedgerSchedule { state: "PAUSED".to_owned(), ..every_second() };
    let account = account_of(&paused, whole(), at(12));
    assert_eq!((account.flaws, account.waiting, account.paused), (vec![], 2, 2), "a resume decides on them");
    let overtime = LedgerLine { state: "TIMED_OUT".to_owned(), finished: None, ..ran(9) };
    let running = (0..9).map(ran).chain([overtime]).collect();
    assert_eq!(account_of(&every_second(), running, at(12)).flaws, [], "its handler runs on");
    let mixed = vec![ran(0), skipped(1, 6), ran(7), another(&ran(7)), ran(8), ran(9)];
    let mut mixed: Vec<_> = mixed;
    mixed[2].state = "FAILED".to_owned();
    let account = account_of(&every_second(), mixed, at(10));
    assert_eq!((account.flaws, account.waiting), (vec![], 0));
    assert_eq!(account.occurrences.values().sum::<u64>(), 10);
}

#[test]
fn what_has_no_row_is_missing() {
    caught(Missing, 1, "its occurrence of 2001-09-10 00:00:04.000 UTC has no row", |it| drop(it.remove(4)));
    caught(Missing, 3, "its 3 occurrences from 2001-09-10 00:00:00.000 UTC to ", |it| drop(it.drain(..3)));
    caught(Missing, 4, "its 4 occurrences from ", |it| it.truncate(6));
    caught(Missing, 10, "have no row", Vec::clear);
}

#[test]
fn what_nobody_demanded_and_what_stands_twice_is_found() {
    caught(Unplanned, 1, "its trigger demanded no occurrence at ", |it| {
        it[4].place.scheduled = at(4) + 7;
    });
    caught(Twice, 1, "execution 103 stands for it, too", |it| {
        it[3] = LedgerLine { until: Some(at(5)), occurrences: 3, following: Some(at(4)), ..it[3].clone() };
    });
    caught(Twice, 1, "another attempt follows one that succeeded", |it| it.insert(5, another(&ran(4))));
    caught(Attempts, 1, "another attempt follows one that has not ended", |it| {
        it.insert(5, another(&ran(4)));
        (it[4].state, it[4].finished) = ("RUNNING".to_owned(), None);
    });
    caught(Attempts, 1, "its attempts are numbered 2", |it| it[4].place.attempt = 2);
    caught(Miscounted, 3, "it counts 3 occurrences where its trigger has 2", |it| {
        it.splice(4..6, [LedgerLine { occurrences: 3, ..skipped(4, 5) }]);
    });
}

#[test]
fn what_contradicts_its_neighbours_or_itself_is_found() {
    caught(Unlinked, 1, "it says that it follows ", |it| it[4].prev = Some(at(2)));
    caught(Unlinked, 1, "says that none follows", |it| it[3].following = None);
    caught(Unlinked, 1, "the last row leads to ", |it| it[9].following = Some(at(11)));
    caught(Unlinked, 1, "the last row leads to none", |it| it[9].following = None);
    caught(Contradiction, 1, "its state is \"DONE\"", |it| it[4].state = "DONE".to_owned());
    caught(Contradiction, 1, "it has ended at no time", |it| it[4].finished = None);
    caught(Contradiction, 1, "it has not ended, and has an end", |it| it[4].state = "PENDING".to_owned());
    caught(Contradiction, 1, "nobody claimed it", |it| it[4].claimed = None);
    caught(Contradiction, 1, "no node ran it", |it| it[4].node.clear());
}

/// An edit ends a generation: all that was due is accounted for, and nothing behind it is.
#[test]
fn each_trigger_demands_its_own_time() {
    let mut schedule = every_second();
    let when = When::of(&simple(1, DAY, 2 * SECOND, -1, None).timing);
    let end = TriggerEnd { at: at(5) + 500, last: Some(at(3)), state: "PAUSED".to_owned() };
    schedule.triggers[0].end = Some(end);
    let second =
        TriggerPeriod { generation: 1, begun: at(5), first: Some(at(6)), when: when.clone(), end: None };
    schedule.triggers.push(second);
    (schedule.generation, schedule.when) = (1, when);
    let withdrawn =
        LedgerLine { state: "WITHDRAWN".to_owned(), reason: "edited".to_owned(), ..skipped(4, 5) };
    let later = |seconds| {
        let line = of_generation(ran(seconds), 1);
        LedgerLine { prev: Some(at(seconds - 2)), following: Some(at(seconds + 2)), ..line }
    };
    let all: Vec<_> = (0..4).map(ran).chain([withdrawn, later(6), later(8)]).collect();
    let account = account_of(&schedule, all.clone(), at(12));
    assert_eq!(account.flaws, []);
    assert_eq!((account.occurrences.values().sum::<u64>(), account.waiting), (8, 1));
    let without = |n: usize| {
        let mut lines = all.clone();
        lines.remove(n);
        account_of(&schedule, lines, at(12)).flaws
    };
    for (n, count, generation) in [(4, 2, 0), (5, 1, 1), (6, 1, 1), (0, 1, 0)] {
        let flaws = without(n);
        let is_it = flaws
            .iter()
            .any(|flaw| (flaw.kind, flaw.occurrences, flaw.generation) == (Missing, count, generation));
        assert!(is_it, "{n}: {flaws:#?}");
    }
    let mut behind = all.clone();
    behind.insert(5, ran(6));
    let flaws = account_of(&schedule, behind, at(12)).flaws;
    assert!(flaws.iter().any(|flaw| flaw.kind == Unplanned && flaw.generation == 0), "{flaws:#?}");
}

#[test]
fn a_schedule_in_error_plans_nothing_and_its_time_is_named() {
    let schedule = LedgerSchedule { state: "ERROR".to_owned(), ..every_second() };
    let flaws = account_of(&schedule, whole(), at(14)).flaws;
    let [flaw] = &flaws[..] else { panic!("{flaws:#?}") };
    assert_eq!((flaw.kind, flaw.occurrences, flaw.generation), (InError, 4, 0));
    let end = TriggerEnd { at: at(12), last: Some(at(9)), state: "ERROR".to_owned() };
    let mut mended = every_second();
    mended.triggers[0].end = Some(end);
    mended.generation = 1;
    let flaws = account_of(&mended, whole(), at(14)).flaws;
    assert_eq!((flaws[0].kind, flaws[0].occurrences, flaws[0].generation), (InError, 3, 0), "{flaws:#?}");
    let unreadable = LedgerSchedule {
        triggers: Vec::new(),
        when: When { cron: None, ..When::of(&cron(1, "* * * * * ?", DAY).timing) },
        ..every_second()
    };
    let flaws = account_of(&unreadable, whole(), at(12)).flaws;
    assert_eq!(flaws.iter().map(|flaw| flaw.kind).collect::<Vec<_>>(), [Unreadable]);
}

/// Nobody can list the fire times of what follows the ends of runs: the links are verified.
#[test]
fn a_fixed_delay_is_verified_by_its_links() {
    let delay = Trigger::Delay(Delay::new(Some(DAY.millis()), SECOND).unwrap());
    let mut schedule = schedule(&Timing::new(delay, None, None).unwrap(), 0);
    schedule.next = Some(Timestamp::at(AWAITED));
    let mut lines: Vec<_> = (0..3).map(ran).collect();
    lines[2].following = Some(Timestamp::at(AWAITED));
    assert_eq!(account_of(&schedule, lines.clone(), at(12)).flaws, []);
    lines.remove(1);
    let flaws = account_of(&schedule, lines, at(12)).flaws;
    assert_eq!(flaws.iter().map(|flaw| flaw.kind).collect::<Vec<_>>(), [Unlinked]);
}

/// A row written by hand has no history: it begins with its first row.
#[test]
fn without_a_history_the_first_row_begins_it() {
    let schedule = LedgerSchedule { triggers: Vec::new(), ..every_second() };
    assert_eq!(account_of(&schedule, whole(), at(12)).flaws, []);
    let mut lines = whole();
    lines.drain(..3);
    assert_eq!(account_of(&schedule, lines.clone(), at(12)).flaws, []);
    lines.remove(3);
    assert!(account_of(&schedule, lines, at(12)).flaws.iter().any(|flaw| flaw.kind == Missing));
}

#[test]
fn a_span_that_begins_before_what_is_looked_at_counts_from_there() {
    let schedule = every_second();
    let span = Span { from: at(3), until: at(9) };
    let demands = demands(&schedule, span.until);
    let mut accountant = Accountant::new(&schedule, &demands, span);
    for line in [skipped(0, 5), ran(6), ran(7), ran(8)] {
        accountant.take(line);
    }
    let (account, _) = accountant.finish();
    assert_eq!((account.flaws, account.waiting), (vec![], 0));
    assert_eq!(account.occurrences.values().copied().collect::<Vec<_>>(), [3, 3]);
}

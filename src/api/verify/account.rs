//! The rows of one schedule against what its triggers demand: pure, row by row in the order of their key.

use std::collections::BTreeMap;
use std::iter::Peekable;

use super::answer::{Flaw, FlawKind};
use super::demand::Demand;
use crate::api::words;
use crate::domain::{ExecutionId, ExecutionState, MOST_PASSED, NextFire, ScheduleState, Timestamp};
use crate::store::ledger::{LedgerLine, LedgerSchedule};

/// The fire times that are looked at: from the first one on, before the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Span {
    fn has(self, at: Timestamp) -> bool {
        self.from <= at && at < self.until
    }
}

/// What the rows of a schedule come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Account {
    pub rows: u64,
    /// Planned occurrences with a row, by the state and the reason of the last attempt.
    pub occurrences: BTreeMap<(String, String), u64>,
    pub waiting: u64,
    /// Of those that wait, how many a paused schedule holds back.
    pub paused: u64,
    pub by_hand: u64,
    pub flaws: Vec<Flaw>,
}

impl Account {
    /// So many occurrences ended as this row.
    fn add(&mut self, last: &LedgerLine, count: u64) {
        let mut known = self.occurrences.iter_mut();
        let is_its = |((state, reason), _): &(&(String, String), &mut u64)| {
            (state, reason) == (&last.state, &last.reason)
        };
        if let Some((_, known)) = known.find(is_its) {
            *known += count;
        } else if count > 0 {
            self.occurrences.insert((last.state.clone(), last.reason.clone()), count);
        }
    }
}

/// Takes the rows of one schedule.
pub(super) struct Accountant<'a> {
    schedule: &'a LedgerSchedule,
    demands: std::slice::Iter<'a, Demand>,
    span: Span,
    account: Account,
    /// The generation that is looked at.
    generation: i64,
    /// The attempts at the occurrence that the last row belongs to.
    attempts: Vec<LedgerLine>,
    chain: Option<Chain<'a>>,
}

/// One generation's planned occurrences, as far as they were looked at.
struct Chain<'a> {
    generation: i64,
    demand: Option<&'a Demand>,
    /// The fire times that no row has accounted for yet.
    times: Peekable<Box<dyn Iterator<Item = Timestamp> + 'a>>,
    behind: Option<Behind>,
}

/// The last row of a chain, but for further attempts.
#[derive(Clone, Copy)]
struct Behind {
    /// The last occurrence it stands for.
    last: Timestamp,
    following: Option<Timestamp>,
    /// Nothing follows in its generation.
    ends: bool,
    execution: i64,
}

impl<'a> Accountant<'a> {
    pub(super) fn new(schedule: &'a LedgerSchedule, demands: &'a [Demand], span: Span) -> Self {
        let (account, generation) = (Account::default(), schedule.generation);
        Self {
            schedule,
            demands: demands.iter(),
            span,
            account,
            generation,
            attempts: Vec::new(),
            chain: None,
        }
    }

    /// The next row; the attempts at the occurrence before it, if it is of another.
    pub(super) fn take(&mut self, line: LedgerLine) -> Option<Vec<LedgerLine>> {
        self.account.rows += 1;
        let is_same = |other: &LedgerLine| {
            let (one, other) = (line.place, other.place);
            (one.generation, one.origin, one.scheduled) == (other.generation, other.origin, other.scheduled)
        };
        let ended = if self.attempts.last().is_some_and(is_same) { None } else { self.close() };
        self.attempts.push(line);
        ended
    }

    /// The end of the rows.
    pub(super) fn finish(mut self) -> (Account, Option<Vec<LedgerLine>>) {
        let ended = self.close();
        self.leave_chain();
        while let Some(demand) = self.demands.next() {
            self.enter_chain(demand.generation, Some(demand), None);
            self.leave_chain();
        }
        (self.account, ended)
    }

    /// All attempts at an occurrence are there.
    fn close(&mut self) -> Option<Vec<LedgerLine>> {
        let attempts = std::mem::take(&mut self.attempts);
        let (first, last) = (attempts.first()?, attempts.last()?);
        self.generation = first.place.generation;
        self.check_attempts(&attempts);
        attempts.iter().for_each(|line| self.check_state(line));
        if first.place.origin == 0 {
            self.account_for(first, last);
        } else if self.span.has(first.place.scheduled) {
            self.account.by_hand += 1;
        }
        Some(attempts)
    }

    fn check_attempts(&mut self, attempts: &[LedgerLine]) {
        let numbers = attempts.iter().map(|line| line.place.attempt);
        if !numbers.eq(1..=i64::try_from(attempts.len()).unwrap_or(i64::MAX)) {
            let numbers: Vec<_> = attempts.iter().map(|line| line.place.attempt.to_string()).collect();
            let what = format!("its attempts are numbered {}", numbers.join(", "));
            self.blame_row(FlawKind::Attempts, &attempts[0], &what);
        }
        for line in attempts.iter().rev().skip(1) {
            match line.state.parse::<ExecutionState>() {
                Ok(ExecutionState::Succeeded) => {
                    self.blame_row(FlawKind::Twice, line, "another attempt follows one that succeeded");
                }
                Ok(state) if !state.is_terminal() => {
                    self.blame_row(
                        FlawKind::Attempts,
                        line,
                        "another attempt follows one that has not ended",
                    );
                }
                _ => {}
            }
        }
    }

    fn check_state(&mut self, line: &LedgerLine) {
        let Ok(state) = line.state.parse::<ExecutionState>() else {
            return self.blame_row(FlawKind::Contradiction, line, &format!("its state is {:?}", line.state));
        };
        let ran =
            matches!(state, ExecutionState::Succeeded | ExecutionState::Failed | ExecutionState::TimedOut);
        let owned = matches!(state, ExecutionState::Claimed | ExecutionState::Running);
        let what = match (state.is_terminal(), line.finished) {
            // Its handler runs on beyond its time limit.
            (true, None) if state == ExecutionState::TimedOut => return,
            (true, None) => "it has ended at no time",
            (false, Some(_)) => "it has not ended, and has an end",
            _ if (ran || owned) && (line.claimed.is_none() || line.fence < 1) => "nobody claimed it",
            _ if (ran || owned) && line.node.is_empty() => "no node ran it",
            _ if line.until.is_some_and(|until| until < line.place.scheduled) => {
                "its span ends before it begins"
            }
            _ => return,
        };
        self.blame_row(FlawKind::Contradiction, line, &format!("its state is {}, and {what}", line.state));
    }

    /// A row, or the attempts at one occurrence, in their generation's chain.
    fn account_for(&mut self, first: &LedgerLine, last: &LedgerLine) {
        let (scheduled, generation) = (first.place.scheduled, first.place.generation);
        self.go_to(generation, scheduled);
        let until = first.until.unwrap_or(scheduled).max(scheduled);
        self.check_link(first);
        self.miss_until(scheduled);
        let Some(chain) = &mut self.chain else { return };
        let starts = chain.times.peek() == Some(&scheduled);
        let (mut covered, mut ends) = (0, None);
        while let Some(at) = chain.times.next_if(|at| *at <= until) {
            (covered, ends) = (covered + 1, Some(at));
        }
        let timing = chain.demand.and_then(|demand| demand.timing.as_ref());
        let is_listed = timing.is_some_and(|timing| timing.delay_ms().is_none());
        chain.behind = Some(Behind {
            last: until,
            following: first.following,
            ends: first.state == ExecutionState::Withdrawn.as_str(),
            execution: first.id.0,
        });
        let (begins_here, ends_here) = (self.span.has(scheduled), self.span.has(until));
        if !is_listed {
            covered =
                if begins_here { first.occurrences.max(1).unsigned_abs() } else { u64::from(ends_here) };
        } else if (begins_here && !starts) || (ends_here && ends != Some(until)) {
            let at = if begins_here && !starts { scheduled } else { until };
            let what = format!("its trigger demanded no occurrence at {}", shown(Some(at)));
            self.blame_row(FlawKind::Unplanned, first, &what);
        } else if begins_here && ends_here && !is_count(first.occurrences, covered) {
            let what = format!("it counts {} occurrences where its trigger has {covered}", first.occurrences);
            self.blame_row(FlawKind::Miscounted, first, &what);
        }
        self.account.add(last, covered);
    }

    /// Comes to the chain of a generation; those before it end.
    fn go_to(&mut self, generation: i64, first_row: Timestamp) {
        if self.chain.as_ref().is_some_and(|chain| chain.generation == generation) {
            return;
        }
        self.leave_chain();
        while let Some(demand) = self.demands.as_slice().first().filter(|it| it.generation <= generation) {
            self.demands.next();
            self.enter_chain(demand.generation, Some(demand), Some(first_row));
            if demand.generation == generation {
                return;
            }
            self.leave_chain();
        }
        self.enter_chain(generation, None, Some(first_row));
    }

    /// Without a noted first fire time a chain begins with its first row.
    fn enter_chain(&mut self, generation: i64, demand: Option<&'a Demand>, first_row: Option<Timestamp>) {
        let times = demand.and_then(|demand| {
            let timing = demand.timing.as_ref()?;
            let from = demand.first.or(first_row.filter(|_| demand.generation == generation))?;
            let end = demand.end().min(self.span.until);
            let (from, last) = (from.max(self.span.from), end.saturating_add(-1));
            Some(timing.fire_times(from.millis(), last.millis()).map(Timestamp::at))
        });
        let times: Box<dyn Iterator<Item = Timestamp> + 'a> = match times {
            Some(times) => Box::new(times),
            None => Box::new(std::iter::empty()),
        };
        self.generation = generation;
        self.chain = Some(Chain { generation, demand, times: times.peekable(), behind: None });
        if demand.is_some_and(|demand| demand.timing.is_none()) {
            let what = format!("the trigger of generation {generation} cannot be understood");
            self.blame(FlawKind::Unreadable, (None, None, 0), None, &what);
        }
    }

    /// Ends a chain: its remaining fire times have no row, and its last row leads to the schedule's cursor.
    fn leave_chain(&mut self) {
        if let Some(chain) = &self.chain {
            self.generation = chain.generation;
        }
        self.miss_until(Timestamp::MAX);
        let Some(Chain { demand, behind: Some(behind), .. }) = self.chain.take() else { return };
        let Some(leads_to) = demand.and_then(|demand| demand.leads_to).filter(|_| !behind.ends) else {
            return;
        };
        // What is planned behind the cursor that was read has come since.
        let is_newer = leads_to.at().is_some_and(|next| behind.last >= next);
        // And what lies behind the span was not read.
        let is_read = behind.following.is_none_or(|following| following < self.span.until);
        if NextFire::stored(behind.following) != leads_to && !is_newer && is_read {
            let what = format!(
                "the last row leads to {}, the schedule's next fire time is {}",
                shown(behind.following),
                shown(leads_to.column())
            );
            self.blame(FlawKind::Unlinked, (Some(behind.last), None, 1), Some(behind.execution), &what);
        }
    }

    /// The fire times before this one have no row: they are due, were lost, or are missing.
    fn miss_until(&mut self, before: Timestamp) {
        let Some(chain) = &mut self.chain else { return };
        let Some(demand) = chain.demand else { return };
        let (mut missing, mut lost) = (Gap::default(), Gap::default());
        let mut waiting = 0;
        while let Some(at) = chain.times.next_if(|at| *at < before) {
            match at {
                at if at < demand.passed => missing.add(at),
                at if at < demand.due => waiting += 1,
                at => lost.add(at),
            }
        }
        self.account.waiting += waiting;
        if self.schedule.state == ScheduleState::Paused.stored() {
            self.account.paused += waiting;
        }
        self.blame_gap(FlawKind::Missing, &missing, "no row");
        self.blame_gap(FlawKind::InError, &lost, "no row: the schedule was in ERROR");
    }

    /// Each row names the fire time before it and the one behind it.
    fn check_link(&mut self, line: &LedgerLine) {
        let Some(behind) = self.chain.as_ref().and_then(|chain| chain.behind) else { return };
        let scheduled = line.place.scheduled;
        if scheduled <= behind.last {
            let what = format!("execution {} stands for it, too", behind.execution);
            self.blame_row(FlawKind::Twice, line, &what);
        } else if line.prev != Some(behind.last) || behind.following != Some(scheduled) {
            let what = format!(
                "it says that it follows {}, and the row before it, of {}, says that {} follows",
                shown(line.prev),
                shown(Some(behind.last)),
                shown(behind.following)
            );
            self.blame_row(FlawKind::Unlinked, line, &what);
        }
    }

    fn blame_gap(&mut self, kind: FlawKind, gap: &Gap, what: &str) {
        let Gap { first: Some(first), last, count } = *gap else { return };
        let what = match count {
            1 => format!("its occurrence of {} has {what}", shown(Some(first))),
            _ => {
                format!("its {count} occurrences from {} to {} have {what}", shown(Some(first)), shown(last))
            }
        };
        self.blame(kind, (Some(first), last.filter(|_| count > 1), count), None, &what);
    }

    fn blame_row(&mut self, kind: FlawKind, line: &LedgerLine, what: &str) {
        let at = line.place.scheduled;
        let what = format!("execution {}, of {}: {what}", line.id.0, shown(Some(at)));
        let count = line.occurrences.max(1).unsigned_abs();
        self.blame(kind, (Some(at), line.until, count), Some(line.id.0), &what);
    }

    fn blame(
        &mut self,
        kind: FlawKind,
        (at, until, occurrences): (Option<Timestamp>, Option<Timestamp>, u64),
        execution: Option<i64>,
        what: &str,
    ) {
        let instant = |at: Option<Timestamp>| at.and_then(Timestamp::utc);
        let schedule = self.schedule.name.clone();
        let generation = self.generation;
        let sentence = format!("{schedule}: {what}");
        let (at, last) = (instant(at), instant(until));
        self.account.flaws.push(Flaw {
            kind,
            schedule: Some(schedule),
            generation,
            at,
            last,
            occurrences,
            execution: execution.map(ExecutionId),
            sentence,
        });
    }
}

/// Neighbouring fire times without a row.
#[derive(Default)]
struct Gap {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    count: u64,
}

impl Gap {
    fn add(&mut self, at: Timestamp) {
        self.first.get_or_insert(at);
        (self.last, self.count) = (Some(at), self.count + 1);
    }
}

/// A cron trigger's occurrences are counted up to a limit.
fn is_count(said: i64, covered: u64) -> bool {
    let said = u64::try_from(said).unwrap_or(0);
    said == covered || (said == MOST_PASSED && covered > said)
}

pub(super) fn shown(at: Option<Timestamp>) -> String {
    match at {
        Some(at) => at.utc().map_or_else(|| at.to_string(), words::instant),
        None => "none".to_owned(),
    }
}

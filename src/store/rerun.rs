//! Reruns: occurrences that did not succeed are run by hand, each once and under its own fire time.
//!
//! Which they are is decided here, once for all stores, from what a [`Ledger`] answers. A rerun's executions
//! belong to the schedule's generation of now, as all do that somebody asks for; their origin is the id of
//! the audit's row on the request.

use std::collections::HashMap;

use super::audit::{ASKED_TO_CANCEL, Attribution, AuditEntry, CANCEL};
use super::order::Ordered;
use super::when::FIRST_PLAUSIBLE;
use crate::domain::{ExecutionState, MOST_PASSED, Millis, Missed, NextFire, ScheduleState, Timestamp};
use crate::trigger::Timing;

/// The most occurrences that one request looks at, whatever becomes of them.
pub(crate) const MOST_RERUN: usize = 1_000;

/// The verbs under which reruns are recorded.
pub(crate) const RERUN: &str = "rerun";
pub(crate) const BACKFILL: &str = "backfill";

/// What is to be run of a schedule, and how.
#[derive(Clone, Debug)]
pub(crate) struct RerunOrder {
    pub application: String,
    pub schedule: String,
    pub wanted: RerunWanted,
    /// So much time lies between two due times; at least 1 ms.
    pub pace: Millis,
    pub by: Attribution,
}

/// Which occurrences: with fire times since an instant, and before another.
#[derive(Clone, Debug)]
pub(crate) enum RerunWanted {
    /// Those of the ledger whose last attempt ended so.
    Ended(EndedSo, Option<Timestamp>, Option<Timestamp>),
    /// All fire times of the trigger up to those that the schedule itself has yet to fire.
    Planned(Timestamp, Timestamp),
}

/// How the last attempt at an occurrence ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedSo {
    /// One of these; at least one.
    pub states: Vec<ExecutionState>,
    pub reason: Option<String>,
}

/// What becomes of an occurrence that a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RerunFate {
    Run,
    /// It has succeeded: itself, or an earlier rerun of it.
    Succeeded,
    /// It has not ended, or a rerun of it has not.
    Open,
}

impl RerunFate {
    /// Of an execution in this state, if it says anything against another.
    pub(crate) fn of(state: &str, has_finished: bool) -> Self {
        match state.parse() {
            Ok(ExecutionState::Succeeded) => Self::Succeeded,
            Ok(ExecutionState::TimedOut) if !has_finished => Self::Open,
            Ok(state) if state.is_terminal() => Self::Run,
            // Nobody knows what a state that is no word of ours means.
            Ok(_) | Err(_) => Self::Open,
        }
    }

    /// Of several executions, of which one has succeeded, or has not ended.
    pub(crate) fn of_all(has_succeeded: bool, is_open: bool) -> Self {
        match (has_succeeded, is_open) {
            (_, true) => Self::Open,
            (true, false) => Self::Succeeded,
            (false, false) => Self::Run,
        }
    }
}

/// The state of an occurrence's row in the ledger, and the reason for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoodAs {
    /// Empty if there is no row.
    pub state: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RerunOccurrence {
    pub at: Timestamp,
    /// The fire time before it: what it covers begins there.
    pub prev: Option<Timestamp>,
    pub fate: RerunFate,
    /// Itself; nothing of its reruns.
    pub was: StoodAs,
}

/// A row of the ledger that stands for several occurrences whose fire times nobody knows: the trigger of its
/// generation is not known, or has other fire times there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownSpan {
    pub from: Timestamp,
    pub until: Timestamp,
    pub count: i64,
}

/// What a request would do, in the order of the fire times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RerunPlan {
    pub occurrences: Vec<RerunOccurrence>,
    pub unknown: Vec<UnknownSpan>,
    /// The first fire time behind the last that was looked at, if there are more.
    pub rest_from: Option<Timestamp>,
}

impl RerunPlan {
    pub(crate) fn run(&self) -> impl Iterator<Item = &RerunOccurrence> {
        self.occurrences.iter().filter(|it| it.fate == RerunFate::Run)
    }

    /// One more may be looked at; if not, it is where the rest begins.
    fn has_room(&mut self, at: Timestamp) -> bool {
        let has_room = self.occurrences.len() + self.unknown.len() < MOST_RERUN;
        if !has_room {
            self.rest_from.get_or_insert(at);
        }
        has_room
    }
}

/// The answer to a question for the plan of a rerun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RerunPreview {
    Plan(RerunPlan),
    /// As [`Ordered::NotRunnable`].
    NotRunnable(Option<ScheduleState>),
    /// The end of each run says when the next is: nothing can be made up for.
    NoFireTimes,
    /// There is no such schedule, or it was removed.
    Unknown,
}

/// The answer to a [`RerunOrder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reran {
    /// The executions are PENDING.
    Ordered {
        origin: i64,
        plan: RerunPlan,
    },
    /// No occurrence was left to be run, and nothing was made.
    Nothing(RerunPlan),
    NotRunnable(Option<ScheduleState>),
    NoFireTimes,
    Unknown,
}

impl RerunPreview {
    /// The plan to carry out, or the answer if there is nothing to do.
    pub(crate) fn decided(self) -> std::result::Result<RerunPlan, Reran> {
        match self {
            Self::Plan(plan) if plan.run().next().is_some() => Ok(plan),
            Self::Plan(plan) => Err(Reran::Nothing(plan)),
            Self::NotRunnable(state) => Err(Reran::NotRunnable(state)),
            Self::NoFireTimes => Err(Reran::NoFireTimes),
            Self::Unknown => Err(Reran::Unknown),
        }
    }
}

impl RerunOrder {
    /// How it is recorded. The row's id becomes the origin of all its executions.
    pub(crate) fn entry(&self, plan: &RerunPlan) -> AuditEntry {
        let verb = match self.wanted {
            RerunWanted::Ended(..) => RERUN,
            RerunWanted::Planned(..) => BACKFILL,
        };
        let at = |it: Option<&RerunOccurrence>| it.map(|it| shown(it.at)).unwrap_or_default();
        let (first, last) = (at(plan.run().next()), at(plan.run().last()));
        let became = format!("{} occurrences from {first} to {last}", plan.run().count());
        AuditEntry::of_schedule(verb, (&self.application, &self.schedule), ("", &became), &self.by)
    }

    /// When the `n`th of its executions is due, if the first is `now`.
    pub(crate) fn due(&self, now: Timestamp, n: usize) -> Timestamp {
        now.saturating_add(i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(self.pace))
    }
}

/// The end of a whole rerun.
#[derive(Clone, Debug)]
pub(crate) struct RerunCancel {
    pub application: String,
    pub origin: i64,
    pub by: Attribution,
}

/// The answer to a [`RerunCancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RerunCancelled {
    /// So many had not begun and are CANCELLED; so many run, whose nodes are asked to end them.
    Done { cancelled: usize, asked: usize },
    /// All of its executions have ended, or were asked to before.
    Ended,
    /// The audit has no such rerun, and none of its executions waits.
    Unknown,
}

impl RerunCancel {
    /// How it is recorded.
    pub(crate) fn entry(&self, schedule: &str, (cancelled, asked): (usize, usize)) -> AuditEntry {
        let was = format!("{}: {cancelled} waited, {asked} ran", cancelled_rerun(self.origin));
        let became = if asked > 0 { ASKED_TO_CANCEL } else { ExecutionState::Cancelled.as_str() };
        AuditEntry::of_schedule(CANCEL, (&self.application, schedule), (&was, became), &self.by)
    }
}

/// How the audit's entry on the cancel of a rerun begins to say what was.
pub(crate) fn cancelled_rerun(origin: i64) -> String {
    format!("rerun {origin}")
}

/// A schedule as a rerun finds it.
#[derive(Debug)]
pub(crate) struct RerunSchedule<'a> {
    pub state: &'a str,
    pub generation: i64,
    pub next: NextFire,
    /// None if its columns mean none.
    pub timing: Option<Timing>,
}

/// The last attempt at an occurrence, or the row of a span of them, which ended as was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedRow {
    pub at: Timestamp,
    pub until: Option<Timestamp>,
    pub count: i64,
    pub prev: Option<Timestamp>,
    pub fate: RerunFate,
    pub was: StoodAs,
}

/// A part of a generation's fire times: since an instant, and before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LedgerPart {
    pub generation: i64,
    pub from: Timestamp,
    pub before: Timestamp,
}

/// What a rerun asks of its schedule's ledger.
pub(crate) trait Ledger {
    type Fault;

    /// The last generation before this one that has rows, and the first planned fire time there.
    fn generation_before(&mut self, generation: i64) -> Asked<Option<(i64, Option<Timestamp>)>, Self>;

    /// The trigger of an earlier generation, if it is known what that was.
    fn trigger_of(&mut self, generation: i64) -> Asked<Option<Timing>, Self>;

    /// The first `most` planned occurrences and spans that begin in a part and ended so, by fire time.
    fn ended(&mut self, part: LedgerPart, so: &EndedSo, most: usize) -> Asked<Vec<EndedRow>, Self>;

    /// The span that begins before a part and reaches into it, if it ended so.
    fn reaching_in(&mut self, part: LedgerPart, so: &EndedSo) -> Asked<Option<EndedRow>, Self>;

    /// What the last attempts at these planned occurrences say, as far as there are any.
    fn planned_at(
        &mut self,
        generation: i64,
        times: &[Timestamp],
    ) -> Asked<Vec<(Timestamp, RerunFate, StoodAs)>, Self>;

    /// What earlier reruns say of fire times from the first to the last: of each what counts most.
    fn reruns(
        &mut self,
        generation: i64,
        times: (Timestamp, Timestamp),
    ) -> Asked<Vec<(Timestamp, RerunFate)>, Self>;
}

type Asked<T, L> = std::result::Result<T, <L as Ledger>::Fault>;

/// What an order would do now.
pub(crate) fn preview<L: Ledger>(
    ledger: &mut L,
    schedule: &RerunSchedule<'_>,
    wanted: &RerunWanted,
    now: Timestamp,
) -> Asked<RerunPreview, L> {
    match Ordered::refusal(schedule.state) {
        None => {}
        Some(Ordered::NotRunnable(state)) => return Ok(RerunPreview::NotRunnable(state)),
        Some(_) => return Ok(RerunPreview::Unknown),
    }
    let Some(timing) = &schedule.timing else { return Ok(RerunPreview::NotRunnable(None)) };
    // What was skipped ahead of its time has none that has come.
    let ahead = now.saturating_add(1);
    let plan = match wanted {
        RerunWanted::Ended(so, since, until) => {
            let until = until.map_or(ahead, |until| until.min(ahead));
            let times = (since.unwrap_or(Timestamp::MIN), until);
            of_ledger(ledger, (schedule.generation, timing), so, times)?
        }
        RerunWanted::Planned(..) if timing.delay_ms().is_some() => return Ok(RerunPreview::NoFireTimes),
        RerunWanted::Planned(since, until) => {
            let until = schedule.next.at().map_or(ahead, |next| ahead.min(next)).min(*until);
            of_trigger(ledger, timing, (*since, until))?
        }
    };
    Ok(RerunPreview::Plan(plan))
}

/// The generations with fire times from `from` on, the oldest first. A later one takes the place of an
/// earlier one from its first fire time on: what ran while the database's clock was ahead lies behind that.
fn parts<L: Ledger>(ledger: &mut L, (from, mut before): (Timestamp, Timestamp)) -> Asked<Vec<LedgerPart>, L> {
    let (mut parts, mut last) = (Vec::new(), i64::MAX);
    while let Some((generation, first)) = ledger.generation_before(last)? {
        parts.push(LedgerPart { generation, from, before });
        last = generation;
        before = first.map_or(before, |first| before.min(first));
        if before <= from {
            break;
        }
    }
    parts.reverse();
    Ok(parts)
}

fn of_ledger<L: Ledger>(
    ledger: &mut L,
    (generation, timing): (i64, &Timing),
    so: &EndedSo,
    times: (Timestamp, Timestamp),
) -> Asked<RerunPlan, L> {
    let (mut plan, parts) = (RerunPlan::default(), parts(ledger, times)?);
    for part in &parts {
        let mut rows: Vec<EndedRow> = ledger.reaching_in(*part, so)?.into_iter().collect();
        rows.extend(ledger.ended(*part, so, MOST_RERUN + 1)?);
        let timing = match rows.iter().any(|row| row.until.is_some()) {
            true if part.generation == generation => Some(timing.clone()),
            true => ledger.trigger_of(part.generation)?,
            false => None,
        };
        rows.iter().all(|row| plan.take(row, *part, timing.as_ref()));
        if plan.rest_from.is_some() {
            break;
        }
    }
    let again =
        plan.occurrences.iter().filter(|it| it.fate == RerunFate::Succeeded).map(|it| it.at).collect();
    leave_out(ledger, &parts, &mut plan)?;
    run_again(&mut plan, again);
    Ok(plan)
}

/// Whoever asks for occurrences that have succeeded means to run them again.
fn run_again(plan: &mut RerunPlan, succeeded: Vec<Timestamp>) {
    for it in &mut plan.occurrences {
        if it.fate == RerunFate::Succeeded && succeeded.binary_search(&it.at).is_ok() {
            it.fate = RerunFate::Run;
        }
    }
}

fn of_trigger<L: Ledger>(
    ledger: &mut L,
    timing: &Timing,
    (from, before): (Timestamp, Timestamp),
) -> Asked<RerunPlan, L> {
    let mut plan = RerunPlan::default();
    let mut next = timing.next_after(from.saturating_sub(1));
    let mut prev = next.and_then(|next| timing.last_before(next));
    while let Some(at) = next.filter(|at| *at < before && plan.has_room(*at)) {
        plan.occurrences.push(RerunOccurrence { at, prev, fate: RerunFate::Run, was: StoodAs::default() });
        (prev, next) = (Some(at), timing.next_after(at));
    }
    let parts = parts(ledger, (from, before))?;
    for part in &parts {
        let is_in = |at: &Timestamp| (part.from..part.before).contains(at);
        let times: Vec<Timestamp> = plan.occurrences.iter().map(|it| it.at).filter(is_in).collect();
        if !times.is_empty() {
            let found = ledger.planned_at(part.generation, &times)?;
            plan.know(found.iter().map(|(at, fate, _)| (*at, *fate)).collect());
            plan.stood(found.into_iter().map(|(at, _, was)| (at, was)).collect());
        }
    }
    leave_out(ledger, &parts, &mut plan)?;
    Ok(plan)
}

/// Leaves out what an earlier rerun has done, or is about to.
fn leave_out<L: Ledger>(ledger: &mut L, parts: &[LedgerPart], plan: &mut RerunPlan) -> Asked<(), L> {
    let times =
        plan.occurrences.first().zip(plan.occurrences.last()).map(|(first, last)| (first.at, last.at));
    let Some(times) = times else { return Ok(()) };
    for part in parts {
        let found = ledger.reruns(part.generation, times)?;
        plan.know(found);
    }
    Ok(())
}

impl RerunPlan {
    /// Adds the occurrences of a row; not so, once there is no room for more.
    fn take(&mut self, row: &EndedRow, part: LedgerPart, timing: Option<&Timing>) -> bool {
        let Some(until) = row.until else {
            let EndedRow { at, prev, fate, ref was, .. } = *row;
            let has_room = self.has_room(at);
            if has_room {
                self.occurrences.push(RerunOccurrence { at, prev, fate, was: was.clone() });
            }
            return has_room;
        };
        match timing.filter(|timing| has_made(timing, row, until)) {
            Some(timing) => self.take_span(row, until, part, timing),
            None => {
                let has_room = self.has_room(row.at.max(part.from));
                if has_room {
                    self.unknown.push(UnknownSpan { from: row.at, until, count: row.count });
                }
                has_room
            }
        }
    }

    fn take_span(&mut self, row: &EndedRow, until: Timestamp, part: LedgerPart, timing: &Timing) -> bool {
        let is_in = |at: &Timestamp| *at <= until && *at < part.before;
        let mut next = timing.next_after(row.at.max(part.from).saturating_sub(1)).filter(is_in);
        let mut prev = match next {
            Some(first) if first > row.at => Some(timing.last_through(row.at, first.saturating_sub(1))),
            _ => row.prev,
        };
        while let Some(at) = next {
            if !self.has_room(at) {
                return false;
            }
            self.occurrences.push(RerunOccurrence { at, prev, fate: row.fate, was: row.was.clone() });
            (prev, next) = (Some(at), timing.next_after(at).filter(is_in));
        }
        true
    }

    /// The rows of some fire times.
    fn stood(&mut self, mut rows: HashMap<Timestamp, StoodAs>) {
        for it in &mut self.occurrences {
            it.was = rows.remove(&it.at).unwrap_or(std::mem::take(&mut it.was));
        }
    }

    /// What is known of some fire times: of each occurrence what counts most.
    fn know(&mut self, fates: Vec<(Timestamp, RerunFate)>) {
        let fates: HashMap<Timestamp, RerunFate> = fates.into_iter().collect();
        for it in &mut self.occurrences {
            it.fate = fates.get(&it.at).map_or(it.fate, |fate| it.fate.max(*fate));
        }
    }
}

/// Whether a span is what this trigger has planned: it begins and ends there, and has as many fire times.
fn has_made(timing: &Timing, row: &EndedRow, until: Timestamp) -> bool {
    let is_one = |at: Timestamp| timing.next_after(at.saturating_sub(1)) == Some(at);
    let counted = || Missed::of(NextFire::At(row.at), timing, until).map_or(0, |missed| missed.count);
    let count = u64::try_from(row.count).unwrap_or(0);
    is_one(row.at) && is_one(until) && (count >= MOST_PASSED || counted() == count)
}

/// What is wrong with the instants of a request, if anything.
pub(crate) fn wrong_times(since: Option<Timestamp>, until: Option<Timestamp>) -> Option<String> {
    let early = [since, until].into_iter().flatten().find(|at| at.millis() < FIRST_PLAUSIBLE);
    match (early, since, until) {
        (Some(_), ..) => Some("it means fire times before 1973-03-03: are these seconds?".to_owned()),
        (None, Some(since), Some(until)) if since >= until => {
            let (since, until) = (shown(since), shown(until));
            Some(format!("it means fire times since {since} and before {until}: there are none"))
        }
        _ => None,
    }
}

/// As people read it.
fn shown(at: Timestamp) -> String {
    at.utc().map_or_else(|| at.to_string(), |utc| utc.to_string())
}

//! What each trigger of a schedule demands of the ledger.

use crate::domain::{NextFire, ScheduleState, Timestamp};
use crate::store::ledger::{LedgerSchedule, TriggerPeriod};
use crate::trigger::Timing;

/// What one generation demands.
#[derive(Debug)]
pub(super) struct Demand {
    pub generation: i64,
    /// None if its columns mean none.
    pub timing: Option<Timing>,
    /// Its first fire time; none if nobody noted it, and it begins with its first row.
    pub first: Option<Timestamp>,
    /// Each fire time before this one must have a row.
    pub passed: Timestamp,
    /// Those from there on, before this one, have come due and wait.
    pub due: Timestamp,
    /// Those from `passed` on, before this one, nobody planned: the schedule was in ERROR.
    pub lost: Timestamp,
    /// Where the ledger of this generation leads to, if that is known.
    pub leads_to: Option<NextFire>,
}

/// The demands of a schedule's generations, in their order, as far as `until`.
pub(super) fn demands(schedule: &LedgerSchedule, until: Timestamp) -> Vec<Demand> {
    let mut demands: Vec<Demand> =
        schedule.triggers.iter().map(|period| of_period(schedule, period, until)).collect();
    if demands.iter().all(|demand| demand.generation != schedule.generation) {
        let timing = schedule.when.timing().ok();
        demands.push(Demand { timing, ..standing(schedule, None, until) });
        demands.sort_by_key(|demand| demand.generation);
    }
    demands
}

fn of_period(schedule: &LedgerSchedule, period: &TriggerPeriod, until: Timestamp) -> Demand {
    let timing = period.when.timing().ok();
    let TriggerPeriod { generation, first, ref end, .. } = *period;
    let Some(end) = end else {
        if generation == schedule.generation {
            return Demand { timing, ..standing(schedule, first, until) };
        }
        // Somebody changed the row by hand: what there is of it is verified.
        return Demand { timing, ..Demand::of_nothing(generation, first) };
    };
    let claimed = end.last.map_or(Timestamp::MIN, |last| last.saturating_add(1));
    let ended = end.at.saturating_add(1);
    let (passed, lost) = match ScheduleState::read(&end.state) {
        Ok(ScheduleState::Init) => (claimed, claimed),
        Ok(ScheduleState::Active | ScheduleState::Paused | ScheduleState::Complete) => {
            (claimed.max(ended), claimed)
        }
        _ => (claimed, ended),
    };
    // Nothing was planned: it never fires.
    let passed = if first.is_none() { Timestamp::MIN } else { passed };
    Demand { timing, passed, lost, ..Demand::of_nothing(generation, first) }
}

/// The generation that a schedule is in.
fn standing(schedule: &LedgerSchedule, first: Option<Timestamp>, until: Timestamp) -> Demand {
    let next = NextFire::stored(schedule.next);
    let passed = next.at().unwrap_or(Timestamp::MAX);
    let nothing = Demand::of_nothing(schedule.generation, first);
    let leads_to = Some(next).filter(|next| *next != NextFire::AfterRun);
    match ScheduleState::read(&schedule.state) {
        Ok(ScheduleState::Active | ScheduleState::Paused | ScheduleState::Complete) => {
            Demand { passed, due: until, leads_to, ..nothing }
        }
        Ok(ScheduleState::Init | ScheduleState::Removed) => nothing,
        _ => Demand { passed, lost: until, ..nothing },
    }
}

impl Demand {
    fn of_nothing(generation: i64, first: Option<Timestamp>) -> Self {
        let (passed, due, lost) = (Timestamp::MIN, Timestamp::MIN, Timestamp::MIN);
        Self { generation, timing: None, first, passed, due, lost, leads_to: None }
    }

    /// Fire times before this one are demanded, wait, or were lost.
    pub(super) fn end(&self) -> Timestamp {
        self.passed.max(self.due).max(self.lost)
    }
}

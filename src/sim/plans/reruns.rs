//! Operators who have occurrences run again, and end that.

use super::Plans;
use crate::domain::{ExecutionState, Millis, Timestamp};
use crate::sim::jobs::APPLICATION;
use crate::sim::judge;
use crate::sim::wire::Wire;
use crate::store::audit::Attribution;
use crate::store::rerun::{EndedSo, Reran, RerunCancel, RerunCancelled, RerunFate, RerunOrder, RerunWanted};
use crate::store::{ExecutionQuery, ExecutionRow, Verbs};

/// Whatever ended without success.
const WITHOUT_SUCCESS: [ExecutionState; 6] = [
    ExecutionState::Failed,
    ExecutionState::TimedOut,
    ExecutionState::Cancelled,
    ExecutionState::Abandoned,
    ExecutionState::Skipped,
    ExecutionState::Withdrawn,
];

impl Plans {
    /// Somebody has occurrences of some schedule run that did not succeed in the last minutes, or ends such a
    /// rerun. So many changes had been made by then.
    pub(in crate::sim) fn rerun(&mut self, now: Millis, changes: usize, wire: &Wire<'_>) {
        if self.dice.one_in(6) && !self.reruns.is_empty() {
            return self.cancel_rerun(now, wire);
        }
        let n = self.any();
        let schedule = self.made[n].definition.name.clone();
        if wire.seen(APPLICATION, &schedule).unwrap().is_none_or(|seen| wire.is_locked(seen.id)) {
            return;
        }
        let so = EndedSo { states: WITHOUT_SUCCESS.to_vec(), reason: None };
        let since = Timestamp::at(now - self.dice.below(120_000));
        let order = RerunOrder {
            application: APPLICATION.to_owned(),
            schedule: schedule.clone(),
            wanted: RerunWanted::Ended(so, Some(since), None),
            pace: 1 + self.dice.below(2_000),
            by: Attribution { actor: "sim".to_owned(), reason: String::new() },
        };
        // The store itself: an operator's call is whole.
        match wire.store.rerun(&order) {
            Ok(Reran::Ordered { origin, plan }) => {
                let times = plan.run().map(|it| it.at.millis()).collect();
                let rows = of_origin(wire, origin);
                let orders = rows.iter().filter(|row| row.attempt == 1);
                let orders = orders.map(|row| judge::Order { execution: row.id, payload: None });
                self.orders.extend(orders);
                self.reruns.push(judge::Rerun { schedule, origin, changes, times });
            }
            Ok(Reran::Nothing(_)) => {}
            Ok(Reran::Unknown) => assert!(self.made[n].removed.is_some() || wire.is_behind()),
            // Under a sabotage.
            Ok(Reran::NotRunnable(_)) => {}
            Ok(Reran::NoFireTimes) => panic!("it is no backfill"),
            Err(error) => assert!(wire.is_behind(), "{error}"),
        }
    }

    fn cancel_rerun(&mut self, now: Millis, wire: &Wire<'_>) {
        let n = usize::try_from(self.dice.below(self.reruns.len() as Millis)).unwrap();
        let judge::Rerun { schedule, origin, .. } = &self.reruns[n];
        if wire.seen(APPLICATION, schedule).unwrap().is_some_and(|seen| wire.is_locked(seen.id)) {
            return;
        }
        let mut open = of_origin(wire, *origin);
        open.retain(|row| RerunFate::of(&row.state, row.finished.is_some()) == RerunFate::Open);
        let by = Attribution { actor: "sim".to_owned(), reason: String::new() };
        let order = RerunCancel { application: APPLICATION.to_owned(), origin: *origin, by };
        // The store itself: an operator's call is whole.
        match wire.store.cancel_rerun(&order) {
            Ok(RerunCancelled::Done { .. }) => {
                let cancels = open.iter().map(|row| judge::Cancel { execution: row.id, at: now });
                self.cancels.extend(cancels);
            }
            Ok(RerunCancelled::Ended | RerunCancelled::Unknown) => {}
            Err(error) => assert!(wire.is_behind(), "{error}"),
        }
    }

    /// What somebody had run again.
    pub(in crate::sim) fn reruns(&self) -> Vec<judge::Rerun> {
        self.reruns.clone()
    }
}

/// The executions of a rerun.
fn of_origin(wire: &Wire<'_>, origin: i64) -> Vec<ExecutionRow> {
    let query = ExecutionQuery { limit: 100_000, ..ExecutionQuery::default() };
    let mut rows = wire.store.executions(&query).unwrap();
    rows.retain(|row| row.origin == origin);
    rows
}

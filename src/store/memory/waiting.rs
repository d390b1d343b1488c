//! The payloads that handlers have yet to decode.

use std::ops::Bound::{Excluded, Unbounded};

use super::rows::{Execution, Schedule};
use super::tables::Tables;
use crate::domain::{ExecutionId, ScheduleState, Timestamp};
use crate::store::waiting::{PayloadOf, PayloadPage, PayloadPlace, PayloadWalk, WaitingPayload};

impl Tables {
    pub(super) fn waiting_payloads(&self, walk: &PayloadWalk) -> PayloadPage {
        match &walk.after {
            PayloadPlace::Schedule(name) => self.payloads_of_schedules(walk, name),
            PayloadPlace::Execution { queue, key } => self.payloads_of_executions(walk, *queue, *key),
        }
    }

    fn payloads_of_schedules(&self, walk: &PayloadWalk, after: &str) -> PayloadPage {
        let names = self.index(&walk.application).map(|index| &index.schedules);
        let behind = names.into_iter().flat_map(|names| names.range::<str, _>((Excluded(after), Unbounded)));
        let seen: Vec<_> = behind.take(walk.limit).collect();
        let payload = |(name, id): &(&std::sync::Arc<str>, &i64)| {
            let row = self.schedule(**id).filter(|row| waits(row))?;
            self.waiting_payload(PayloadOf::Schedule(name.to_string()), row, &row.settings.payload)
        };
        let last = seen.last().filter(|_| seen.len() == walk.limit);
        let behind_last = last.map(|(name, _)| PayloadPlace::Schedule(name.to_string()));
        PayloadPage {
            payloads: seen.iter().filter_map(payload).collect(),
            next: Some(behind_last.unwrap_or_else(|| PayloadPlace::queue(0))),
        }
    }

    fn payloads_of_executions(&self, walk: &PayloadWalk, queue: i64, after: (Timestamp, i64)) -> PayloadPage {
        let index = self.index(&walk.application);
        let behind = index.into_iter().flat_map(|index| index.pending.range((Excluded(after), Unbounded)));
        let of_queue = behind.filter_map(|key| {
            let run = self.run(ExecutionId(key.1))?;
            (self.queue_of_run(run) == queue).then_some((*key, run))
        });
        let seen: Vec<((Timestamp, i64), &Execution)> = of_queue.take(walk.limit).collect();
        let last = seen.last().map(|(key, _)| *key).filter(|_| seen.len() == walk.limit);
        let queues = index.into_iter().flat_map(|index| index.schedules.values());
        let next_queue =
            queues.filter(|id| **id > queue && self.schedule(**id).is_some_and(Schedule::is_queue)).min();
        let payload = |(key, run): &((Timestamp, i64), &Execution)| {
            let row = self.schedule(run.schedule).filter(|row| !row.is(ScheduleState::Removed))?;
            let of_schedule = Some(&*row.settings.payload).filter(|_| !waits(row));
            let payload = run.payload.as_deref().or(of_schedule)?;
            self.waiting_payload(PayloadOf::Execution(ExecutionId(key.1)), row, payload)
        };
        PayloadPage {
            payloads: seen.iter().filter_map(payload).collect(),
            next: match last {
                Some(key) => Some(PayloadPlace::Execution { queue, key }),
                None => next_queue.map(|id| PayloadPlace::queue(*id)),
            },
        }
    }

    fn queue_of_run(&self, run: &Execution) -> i64 {
        self.schedule(run.schedule).filter(|row| row.is_queue()).map_or(0, |_| run.schedule)
    }

    fn waiting_payload(&self, of: PayloadOf, row: &Schedule, payload: &str) -> Option<WaitingPayload> {
        let job = self.jobs.get(&row.job())?.name.to_string();
        Some(WaitingPayload { of, job, payload: payload.to_owned() })
    }
}

/// Its payload stands for that of its executions, too.
fn waits(row: &Schedule) -> bool {
    row.is(ScheduleState::Active) || row.is(ScheduleState::Paused)
}

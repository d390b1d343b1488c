//! The triggers' history, and the ledger as it is verified.

use std::sync::Arc;

use super::rows::Execution;
use super::tables::Tables;
use crate::domain::{ExecutionId, ScheduleId, Timestamp};
use crate::store::columns::NO_TIME;
use crate::store::enqueue::HIGHEST_BY_HAND;
use crate::store::ledger::{
    LedgerLine, LedgerPage, LedgerSchedule, LinePlace, LineQuery, TriggerEnd, TriggerPeriod,
};

impl Tables {
    /// Notes the generation that a schedule begins now.
    pub(super) fn begin_trigger(&mut self, schedule: i64, now: Timestamp) {
        let Some(row) = self.schedule(schedule) else { return };
        let (generation, when) = (row.generation, row.shape.columns.clone());
        let first = row.next.filter(|next| *next != NO_TIME);
        let period = TriggerPeriod { generation, begun: now, first, when, end: None };
        let (key, application) = ((schedule, generation), Arc::clone(&row.application));
        if !self.triggers.contains_key(&key) {
            self.triggers.insert(key, (application, period));
        }
    }

    /// Notes the end of the generation of a schedule that has not ended.
    pub(super) fn end_trigger(
        &mut self,
        schedule: i64,
        state: &str,
        last: Option<Timestamp>,
        now: Timestamp,
    ) {
        let last = last.filter(|last| *last != NO_TIME);
        let periods = self.triggers.range((schedule, i64::MIN)..=(schedule, i64::MAX));
        let open = periods.filter(|(_, (_, period))| period.end.is_none()).map(|(key, _)| *key);
        for key in open.collect::<Vec<_>>() {
            if let Some((_, period)) = self.triggers.get_mut(&key) {
                period.end = Some(TriggerEnd { at: now, last, state: state.to_owned() });
            }
        }
    }

    /// Of the schedules that are there no longer, and of generations that ended before and have no row left.
    pub(super) fn forget_triggers(&mut self, application: &str, before: Timestamp) {
        let is_old = |period: &TriggerPeriod| period.end.as_ref().is_some_and(|end| end.at < before);
        let is_left =
            |schedule, generation| self.ledger(schedule).any(|(_, run)| run.generation == generation);
        let gone = self.triggers.iter().filter(|((schedule, generation), (of, period))| {
            let is_over = is_old(period) && !is_left(*schedule, *generation);
            **of == *application && (is_over || self.schedule(*schedule).is_none())
        });
        let gone: Vec<_> = gone.map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| self.triggers.remove(key));
    }

    pub(super) fn ledger_schedules(&self, page: &LedgerPage) -> Vec<LedgerSchedule> {
        let names = self.index(&page.application).into_iter().flat_map(|index| &index.schedules);
        let wanted = |name: &str| page.name.as_deref().is_none_or(|only| only == name);
        let mut ids: Vec<i64> = names.filter(|(name, _)| wanted(name)).map(|(_, id)| *id).collect();
        ids.retain(|id| *id > page.after.0);
        ids.sort_unstable();
        let rows = ids.into_iter().filter_map(|id| Some((id, self.schedule(id)?)));
        let schedule = |(id, row): (i64, &super::rows::Schedule)| LedgerSchedule {
            id: ScheduleId(id),
            name: row.name.to_string(),
            state: row.state.to_string(),
            generation: row.generation,
            next: row.next.filter(|next| *next != NO_TIME),
            when: row.shape.columns.clone(),
            triggers: {
                let periods = self.triggers.range((id, i64::MIN)..=(id, i64::MAX));
                periods.map(|(_, (_, period))| period.clone()).collect()
            },
        };
        rows.filter(|(_, row)| !row.is_queue()).take(page.limit).map(schedule).collect()
    }

    pub(super) fn ledger_lines(&self, query: &LineQuery) -> Vec<LedgerLine> {
        let LineQuery { ref application, after, through, from, before, limit, .. } = *query;
        let attempt = u32::try_from(after.attempt).unwrap_or(u32::MAX);
        let key = (after.schedule.0, after.generation, after.origin, after.scheduled, attempt);
        let rows = self.ledger_behind(key).take_while(|(_, run)| run.schedule <= through.0);
        let wanted = |run: &Execution| {
            *run.application == **application
                && run.origin < HIGHEST_BY_HAND
                && run.scheduled < before
                && (run.scheduled >= from || run.until.is_some_and(|until| until >= from))
        };
        rows.filter(|(_, run)| wanted(run)).take(limit).map(|(id, run)| line(id, run)).collect()
    }
}

fn line(id: ExecutionId, run: &Execution) -> LedgerLine {
    let schedule = ScheduleId(run.schedule);
    let (generation, origin, scheduled) = (run.generation, run.origin, run.scheduled);
    LedgerLine {
        id,
        place: LinePlace { schedule, generation, origin, scheduled, attempt: run.attempt.into() },
        until: run.until,
        occurrences: run.count,
        state: run.state.to_string(),
        reason: run.reason.to_string(),
        cause: run.cause.map(str::to_owned),
        due: run.due,
        fence: run.fence,
        node: run.node.map(|node| node.to_string()).unwrap_or_default(),
        claimed: run.claimed,
        started: run.started,
        finished: run.finished,
        prev: run.prev,
        following: run.following,
        holder: run.holder,
        error: run.error.clone(),
        result: run.result.as_deref().map(str::to_owned),
    }
}

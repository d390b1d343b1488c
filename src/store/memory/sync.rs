//! Syncs: the schedules of an owner.

use std::collections::HashMap;

use super::tables::Tables;
use crate::domain::{ErrorKind, JobId, ScheduleId, Timestamp};
use crate::store::columns::NO_TIME;
use crate::store::definition::WorkedOut;
use crate::store::sync::{OwnerRow, Problem, SyncAnswer, SyncOrder, SyncRow, SyncedSchedule};
use crate::store::when::{self, Present};
use crate::store::{Change, RemoveChange, Result};

impl Tables {
    pub(super) fn plan_sync(&self, order: &SyncOrder) -> Result<SyncAnswer> {
        order.check().map_err(Problem::error)?;
        let known = self.owner(&order.application, &order.owner).map(|owner| owner.revision);
        let wanted = self.worked_out(order)?;
        let schedules = order.steps(&wanted, &self.sync_rows(order), self.now).map_err(Problem::error)?;
        Ok(SyncAnswer { known, schedules })
    }

    pub(super) fn sync(&mut self, order: &SyncOrder) -> Result<SyncAnswer> {
        let planned = self.plan_sync(order)?;
        if order.is_stale(planned.known) && !self.hooks.ignores_revisions {
            return Ok(planned);
        }
        order.refusal(&planned.schedules).map_err(Problem::error)?;
        if order.needs_nothing(&planned) && !self.hooks.ignores_revisions {
            return Ok(planned);
        }
        let application = self.application(&order.application);
        let (owner, revision, actor) = (order.owner.clone(), order.revision, order.by.actor.clone());
        let row = OwnerRow { owner: owner.clone(), revision, synced: self.now, actor };
        self.owners.insert((application, owner.into()), row);
        let wanted = self.worked_out(order)?;
        let wanted: HashMap<&str, WorkedOut<'_>> =
            wanted.into_iter().map(|wanted| (&*wanted.definition.name, wanted)).collect();
        for schedule in planned.schedules.iter().filter(|schedule| schedule.step.writes()) {
            self.sync_one(order, wanted.get(&*schedule.name), schedule)?;
        }
        Ok(planned)
    }

    pub(super) fn owner(&self, application: &str, owner: &str) -> Option<OwnerRow> {
        self.owners.get(&(application.into(), owner.into())).cloned()
    }

    fn sync_one(
        &mut self,
        order: &SyncOrder,
        wanted: Option<&WorkedOut<'_>>,
        schedule: &SyncedSchedule,
    ) -> Result<()> {
        let id = self.schedule_named(&order.application, &schedule.name);
        let Some(wanted) = wanted else { return self.sync_away(order, id) };
        let job = self.put_job(&order.application, &wanted.definition.job);
        let settings = wanted.definition.settings(job);
        match id.and_then(|id| Some((id, self.stored(id)?))) {
            Some((id, stored)) => self.change((id, &stored), wanted, settings).map(drop),
            None => self.create(wanted, settings).map(drop),
        }
    }

    /// The list lacks it.
    fn sync_away(&mut self, order: &SyncOrder, id: Option<i64>) -> Result<()> {
        let Some(row) = id.and_then(|id| self.sync_row(id)) else { return Ok(()) };
        let removal = RemoveChange::of(&order.application, row.seen(), &order.by, self.now);
        let entry = removal.entry(&row.name, &order.by);
        self.apply_audited(&Change::Remove(removal), &entry).map(drop)
    }

    fn worked_out<'a>(&self, order: &'a SyncOrder) -> Result<Vec<WorkedOut<'a>>> {
        let now: Timestamp = self.now;
        let app = self.apps.get(&*order.application);
        let present = Present { now, ledger_from: app.map_or(NO_TIME, |app| app.ledger_from) };
        let worked_out = |definition| {
            let senseless = |text: String| super::schedules::refused(definition, ErrorKind::Config, &text);
            let timing = definition.timing(now).map_err(|error| senseless(error.to_string()))?;
            let when = when::storable(&timing, now).map_err(senseless)?;
            Ok(WorkedOut { definition, timing, when, present })
        };
        order.definitions.iter().map(worked_out).collect()
    }

    fn sync_rows(&self, order: &SyncOrder) -> Vec<SyncRow> {
        let Some(index) = self.index(&order.application) else { return Vec::new() };
        let is_named = |name: &str| order.definitions.iter().any(|definition| definition.name == name);
        let is_owned = |id: i64| {
            let owner = self.schedule(id).and_then(|row| row.ownership.owner.as_deref());
            owner == Some(&*order.owner)
        };
        let ids = index.schedules.iter().filter(|(name, id)| is_named(name) || is_owned(**id));
        ids.filter_map(|(_, id)| self.sync_row(*id)).collect()
    }

    fn sync_row(&self, id: i64) -> Option<SyncRow> {
        let (stored, name) = (self.stored(id)?, self.schedule(id)?.name.to_string());
        let job = stored.settings.job.and_then(|job| self.jobs.get(&JobId(job)));
        let job = job.map(|job| job.name.to_string()).unwrap_or_default();
        Some(SyncRow { id: ScheduleId(id), name, job, stored })
    }
}

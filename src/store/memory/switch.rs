//! Jobs, nodes and applications that somebody pauses, drains or resumes.

use std::sync::Arc;

use super::commits::RowKey;
use super::hooks::Touch;
use super::rows::App;
use super::tables::Tables;
use crate::domain::{Activity, Entry, JobId, ScheduleState, Timestamp};
use crate::store::change::PauseEnd;
use crate::store::switch::{EndedPause, PassedQuery, Scope, SeenSwitch, SwitchChange, SwitchOrder};
use crate::store::switch::{SwitchRow, Switched};
use crate::store::{ApplicationRow, Change, JobRow, Result};

impl Tables {
    pub(super) fn switch(&mut self, order: &SwitchOrder) -> Result<Switched> {
        if order.scope == Scope::Application {
            self.make_app(&order.application);
        }
        let Some(seen) = self.seen_switch(&order.application, &order.scope) else {
            return Ok(Switched::Unknown);
        };
        let was = seen.switch();
        let Some(change) = SwitchChange::of(order, seen.clone(), self.now) else {
            return Ok(Switched::Already(was));
        };
        let entry = seen.entry(&order.application, order.verb.name(), change.becomes, &order.by);
        self.apply(&[Change::Switch(change)])?;
        self.note_pause_end(&order.application, order.verb.until());
        self.record(&entry);
        Ok(Switched::Done)
    }

    fn seen_switch(&self, application: &str, scope: &Scope) -> Option<SeenSwitch> {
        match scope {
            Scope::Job(name) => {
                let id = *self.index(application)?.jobs.get(name.as_str())?;
                let job = self.jobs.get(&id)?;
                let row = SwitchRow::Job(id, name.clone());
                Some(SeenSwitch { row, state: job.state.to_string(), since: job.pause.since })
            }
            Scope::Node(id) => {
                let node = self.nodes.get(id);
                let node = node.filter(|node| *node.application == *application && node.ended.is_none())?;
                let row = SwitchRow::Node(*id);
                Some(SeenSwitch { row, state: node.state.to_string(), since: node.pause.since })
            }
            Scope::Application => {
                let app = self.apps.get(application)?;
                let row = SwitchRow::Application(application.to_owned());
                Some(SeenSwitch { row, state: app.state.to_string(), since: app.pause.since })
            }
        }
    }

    /// Makes the row of an application that has had no node yet, if it has a job.
    fn make_app(&mut self, application: &str) {
        if self.index(application).is_some_and(|index| !index.jobs.is_empty()) {
            self.apps.row(application.into(), App::default);
        }
    }

    /// Some pause in the application ends by itself then.
    pub(super) fn note_pause_end(&mut self, application: &str, until: Option<Timestamp>) {
        let Some(until) = until else { return };
        self.touch(Touch::PauseEnd, RowKey::App(application.into()));
        self.make_app(application);
        if let Some(app) = self.apps.get_mut(application) {
            app.pause_ends = Some(app.pause_ends.map_or(until, |ends| ends.min(until)));
        }
    }

    pub(super) fn has_ended_pause(&self, application: &str) -> bool {
        let ends = self.apps.get(application).and_then(|app| app.pause_ends);
        ends.is_some_and(|ends| ends <= self.now)
    }

    pub(super) fn passed(&self, query: &PassedQuery) -> Vec<Entry> {
        let Some(index) = self.index(&query.application) else { return Vec::new() };
        let due = index.due.iter().take_while(|(at, _)| *at < query.before);
        let entries = due.filter_map(|(_, id)| self.entry(*id)?.ok());
        let scope = query.job.clone().map_or(Scope::Application, Scope::Job);
        let seen = self.seen_switch(&query.application, &scope);
        if seen.is_none_or(|seen| seen.switch() == Activity::Active) {
            return Vec::new();
        }
        let wanted = |entry: &Entry| query.job.as_deref().is_none_or(|job| job == &*entry.job);
        entries.filter(wanted).take(query.limit).collect()
    }

    /// All pauses that end by themselves, each with when.
    fn ending(&self, application: &str) -> Vec<(Timestamp, EndedPause)> {
        let Some(index) = self.index(application) else { return Vec::new() };
        let mut ending = Vec::new();
        for id in index.schedules.values() {
            let row = self.schedule(*id).filter(|row| row.is(ScheduleState::Paused));
            if let (Some(until), Some(Ok(entry))) = (row.and_then(|row| row.paused_until), self.entry(*id)) {
                ending.push((until, EndedPause::Schedule(Box::new(entry))));
            }
        }
        let jobs = index.jobs.keys().map(|name| Scope::Job(name.to_string()));
        let live = self.nodes.iter().filter(|(_, node)| *node.application == *application);
        let nodes = live.map(|(id, _)| Scope::Node(*id));
        for scope in jobs.chain(nodes).chain([Scope::Application]) {
            let Some(seen) = self.seen_switch(application, &scope) else { continue };
            let pause = match &seen.row {
                SwitchRow::Job(id, _) => self.jobs.get(id).map(|job| &job.pause),
                SwitchRow::Node(id) => self.nodes.get(id).map(|node| &node.pause),
                SwitchRow::Application(name) => self.apps.get(name.as_str()).map(|app| &app.pause),
            };
            if let Some(until) = pause.and_then(|pause| pause.until) {
                ending.push((until, EndedPause::Switch(seen)));
            }
        }
        ending
    }

    pub(super) fn ended_pauses(&mut self, application: &str) -> Vec<EndedPause> {
        let (ended, later): (Vec<_>, Vec<_>) =
            self.ending(application).into_iter().partition(|(until, _)| *until <= self.now);
        let seen = self.apps.get(application).and_then(|app| app.pause_ends);
        if let Some(seen) = seen.filter(|seen| ended.is_empty() && *seen <= self.now) {
            let becomes = later.into_iter().map(|(until, _)| until).min();
            let end = PauseEnd { application: application.to_owned(), seen, becomes };
            self.change_app(&Change::PauseEnd(end), application);
        }
        ended.into_iter().map(|(_, pause)| pause).collect()
    }

    pub(super) fn job_rows(&self, application: &str) -> Vec<JobRow> {
        let Some(index) = self.index(application) else { return Vec::new() };
        let row = |(name, id): (&Arc<str>, &JobId)| {
            let job = self.jobs.get(id)?;
            Some(JobRow {
                name: name.to_string(),
                switch: Activity::read(&job.state, true),
                pause: job.pause.row(),
                settings: job.settings.clone(),
                nobody: job.nobody.since,
            })
        };
        index.jobs.iter().filter_map(row).collect()
    }

    pub(super) fn application_rows(&self) -> Vec<ApplicationRow> {
        let row = |name: String| {
            let app = self.apps.get(name.as_str()).cloned().unwrap_or_default();
            let switch = Activity::read(&app.state, false);
            ApplicationRow { name, switch, pause: app.pause.row() }
        };
        self.applications().into_iter().map(row).collect()
    }
}

//! The audit.

use super::rows::{Execution, RequestRow};
use super::tables::Tables;
use crate::domain::{ExecutionState, Timestamp};
use crate::store::audit::{AuditEntry, AuditQuery, AuditRow, news_of};
use crate::store::news::{Glance, GlanceQuery, Marks, News};

impl Tables {
    /// The row's id.
    pub(super) fn record(&mut self, entry: &AuditEntry) -> i64 {
        let AuditEntry { application, verb, target_type, target, was, became, fields, by } = entry.clone();
        let (id, made) = (self.fresh_id(), self.now);
        let (verb, target_type, actor, reason) = (verb.into(), target_type.into(), by.actor, by.reason);
        let row =
            AuditRow { id, application, made, actor, verb, target_type, target, was, became, fields, reason };
        self.audit.insert(id, row);
        id
    }

    pub(super) fn audit_rows(&self, query: &AuditQuery) -> Vec<AuditRow> {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let wanted = |row: &&AuditRow| {
            row.application == query.application
                && is(&query.target, &row.target)
                && is(&query.actor, &row.actor)
                && is(&query.verb, &row.verb)
                && query.since.is_none_or(|since| row.made >= since)
                && query.after.is_none_or(|after| (row.made, row.id) < after)
        };
        let mut rows: Vec<AuditRow> = self.audit.values().filter(wanted).cloned().collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.made, row.id)));
        rows.truncate(query.limit);
        rows
    }

    pub(super) fn glance(&self, query: &GlanceQuery) -> Glance {
        let (runs, run) = self.runs_behind(query.after.run);
        let is_news = |run: &Execution| {
            let is_first = run.is(ExecutionState::Pending) && run.attempt == 1;
            *run.application == *query.application && is_first && run.due < query.until
        };
        let work = runs.filter(|run| is_news(run)).map(|_| News { work: true, ..News::default() });
        let behind = |row: &&AuditRow| row.id > query.after.audit && row.application == query.application;
        let changes = self.audit.values().filter(behind);
        let changes = changes.map(|row| news_of(&row.verb, &row.became));
        let nodes = self.nodes.iter().filter(|(_, node)| *node.application == *query.application);
        let told = nodes.map(|(_, node)| node.told).max().unwrap_or(Timestamp::at(-1));
        let request = self.requests.last_key_value().map_or(0, |(id, _)| *id);
        let marks = Marks { run, audit: self.audit.last_key_value().map_or(0, |(id, _)| *id), request, told };
        let behind = self.requests.range(query.after.request.saturating_add(1)..);
        let asks = |row: &RequestRow| row.ended.is_none() && row.application == query.application;
        let request = behind.into_iter().any(|(_, row)| asks(row));
        let members = News { members: told > query.after.told, request, ..News::default() };
        Glance { marks, news: work.chain(changes).fold(members, News::and) }
    }

    pub(super) fn purge_audit(&mut self, application: &str, before: Timestamp) {
        self.audit.retain(|_, row| row.application != application || row.made >= before);
    }
}

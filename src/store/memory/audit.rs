//! The audit.

use super::tables::Tables;
use crate::domain::Millis;
use crate::store::audit::{AuditEntry, AuditQuery, AuditRow};

impl Tables {
    /// The row's id.
    pub(super) fn record(&mut self, entry: &AuditEntry) -> i64 {
        let AuditEntry { application, verb, target_type, target, was, became, order } = entry.clone();
        let (id, made) = (self.fresh_id(), self.now);
        let (verb, target_type, actor, reason) = (verb.into(), target_type.into(), order.actor, order.reason);
        self.audit.push(AuditRow {
            id,
            application,
            made,
            actor,
            verb,
            target_type,
            target,
            was,
            became,
            reason,
        });
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
        };
        self.audit.iter().rev().filter(wanted).take(query.limit).cloned().collect()
    }

    pub(super) fn purge_audit(&mut self, application: &str, before: Millis) {
        self.audit.retain(|row| row.application != application || row.made >= before);
    }
}

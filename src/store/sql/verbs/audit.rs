//! The audit.

use super::withdrawn;
use crate::domain::{FieldSet, Timestamp};
use crate::store::audit::{AuditEntry, AuditQuery, AuditRow, news_of};
use crate::store::news::News;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::poll::news;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, Value, answer, single, sql};
use crate::store::sql::views::inspect::of_application;
use crate::store::withdrawn::Withdrawal;

/// Records a change that this transaction has made.
pub(crate) fn record(session: &mut dyn Session, entry: &AuditEntry) -> Step<()> {
    let dialect = session.dialect();
    if dialect.notifies() {
        return record_with_id(session, entry).map(drop);
    }
    session.execute(&insert(dialect, entry)).map(drop)
}

/// Records a change of a schedule that this transaction has made, and what it withdraws.
pub(super) fn record_withdrawing(
    session: &mut dyn Session,
    entry: &AuditEntry,
    withdrawal: Option<&Withdrawal>,
) -> Step<()> {
    let Some(withdrawal) = withdrawal else { return record(session, entry) };
    let id = record_with_id(session, entry)?;
    withdrawn::insert(session, &entry.application, withdrawal, Some(id))
}

/// As [`record`]; the row's id.
pub(crate) fn record_with_id(session: &mut dyn Session, entry: &AuditEntry) -> Step<i64> {
    let insert = insert(session.dialect(), entry);
    insert_telling(session, insert, news_of(entry.verb, &entry.became), &entry.application)
}

/// Inserts a row whose id the database draws; that id.
pub(crate) fn insert_with_id(session: &mut dyn Session, insert: Statement) -> Step<i64> {
    insert_telling(session, insert, News::default(), "")
}

/// As [`insert_with_id`]; the commit tells the application's nodes of it.
fn insert_telling(session: &mut dyn Session, insert: Statement, news: News, application: &str) -> Step<i64> {
    let dialect = session.dialect();
    if dialect.returns_inserted_rows() {
        let insert = news::tell(session.tells(), news, insert.push(" RETURNING id"), application);
        return single(session.rows(&insert)?);
    }
    session.execute(&insert)?;
    single(session.rows(&sql("SELECT CAST(LAST_INSERT_ID() AS SIGNED) AS id"))?)
}

fn insert(dialect: Dialect, entry: &AuditEntry) -> Statement {
    let insert = sql(format!(
        "INSERT INTO QRTZ_AUDIT (application, made_time, actor, verb, target_type, target, was, became, \
         fields, reason) VALUES (?, {}, ?, ?, ?, ?, ?, ?, ?, ?)",
        dialect.clock()
    ));
    insert
        .bind_all((entry.application.as_str(), entry.by.actor.as_str(), entry.verb, entry.target_type))
        .bind_all((entry.target.as_str(), entry.was.as_str(), entry.became.as_str()))
        .bind(entry.fields.text().map_or(Value::Null, Value::Text))
        .bind(entry.by.reason.as_str())
}

pub(crate) fn list(session: &mut dyn Session, query: &AuditQuery) -> Step<Vec<AuditRow>> {
    let question = sql(format!("SELECT {} FROM QRTZ_AUDIT a WHERE 1 = 1", AuditRow::columns()));
    let mut question = of_application(question, "a", Some(&query.application));
    for (column, wanted) in [("target", &query.target), ("actor", &query.actor), ("verb", &query.verb)] {
        question = question.given(&format!(" AND a.{column} = ?"), wanted.as_deref());
    }
    let question = question.given(" AND a.made_time >= ?", query.since);
    let question = match query.after {
        // The first condition alone is one that an index can begin at.
        Some((made, id)) => question
            .push(" AND a.made_time <= ? AND (a.made_time < ? OR a.id < ?)")
            .bind_all((made, made, id)),
        None => question,
    };
    session.all(
        &question.push(" ORDER BY a.made_time DESC, a.id DESC LIMIT ?").bind(query.limit),
        AuditRow::read,
    )
}

answer! {
    AuditRow() {
        id = "a.id", Row::int;
        application = "a.application", Row::loose_text;
        made = "a.made_time", Row::loose_instant;
        actor = "a.actor", Row::loose_text;
        verb = "a.verb", Row::loose_text;
        target_type = "a.target_type", Row::loose_text;
        target = "a.target", Row::loose_text;
        was = "a.was", Row::loose_text;
        became = "a.became", Row::loose_text;
        fields = "a.fields", |row| Ok(row.maybe_text()?.as_deref().map(FieldSet::read).unwrap_or_default());
        reason = "a.reason", Row::loose_text;
    }
}

/// Removes requests to cancel that were made before and whose execution is gone.
pub(crate) fn purge_cancels(session: &mut dyn Session, application: &str, before: Timestamp) -> Step<()> {
    let delete = sql("DELETE FROM QRTZ_CANCEL WHERE application = ? AND asked_time < ? AND NOT EXISTS \
                      (SELECT 1 FROM QRTZ_RUN r WHERE r.id = QRTZ_CANCEL.execution_id)");
    session.execute(&delete.bind(application).bind(before)).map(drop)
}

/// Removes what was recorded before; at most so many rows, the oldest of them.
pub(crate) fn purge(
    session: &mut dyn Session,
    application: &str,
    before: Timestamp,
    limit: usize,
) -> Step<usize> {
    let old = sql(
        "SELECT MAX(o.id) FROM (SELECT a.id FROM QRTZ_AUDIT a WHERE a.application = ? AND a.made_time < ? \
                   ORDER BY a.made_time, a.id LIMIT ?) AS o",
    );
    let old = old.bind(application).bind(before).bind(limit);
    let Some(last) = session.one(&old, Row::maybe_int)?.flatten() else { return Ok(0) };
    let delete = sql("DELETE FROM QRTZ_AUDIT WHERE application = ? AND made_time < ? AND id <= ?");
    session.execute(&delete.bind(application).bind(before).bind(last))
}

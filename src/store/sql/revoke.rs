//! Executions taken from nodes that are dead or missing.

use std::collections::HashSet;

use super::claim::ids;
use super::connection::Dialect;
use super::session::{Fault, Nature, Session};
use super::settle::follow_up;
use super::statement::{Statement, Value, Want, batch, guarded, join, sql, update};
use super::under_way::{Whose, sweep, under_way};
use crate::domain::{ExecutionId, ExecutionState};
use crate::store::{Reason, Revocation, StrandedPage, guard};

pub(super) fn stranded(
    session: &mut dyn Session,
    application: &str,
    after: ExecutionId,
    limit: usize,
) -> Result<StrandedPage, Fault> {
    sweep(session, application, Whose::Nobody)?;
    let (mut stranded, mut brought, mut last) = (Vec::new(), 0, None);
    for mut row in session.rows(&page(session.dialect(), application, after, limit))? {
        (brought, last) = (brought + 1, Some(ExecutionId(row.int()?)));
        stranded.extend(super::node::stranded(&mut row).ok());
    }
    Ok(StrandedPage { stranded, next: last.filter(|_| brought == limit) })
}

/// The id leads the row, so that the page goes on even behind one that cannot be read.
pub(super) fn page(dialect: Dialect, application: &str, after: ExecutionId, limit: usize) -> Statement {
    let all = under_way(dialect, application, Whose::Nobody);
    let text = format!(
        "SELECT o.id AS place, o.* FROM ({}) AS o WHERE o.id + 0 > ? ORDER BY o.id + 0 LIMIT ?",
        all.text
    );
    Statement { text, ..all }.bind(after.0).bind(limit)
}

/// The revocations of one transaction; whether each was made.
pub(super) fn revoke(session: &mut dyn Session, revocations: &[Revocation]) -> Result<Vec<bool>, Fault> {
    let mut in_order: Vec<&Revocation> = revocations.iter().collect();
    in_order.sort_by_key(|revocation| revocation.stranded.id);
    let mut taken = HashSet::new();
    for page in in_order.chunks(batch(session.dialect())) {
        taken.extend(take_back(session, page)?);
    }
    in_order.retain(|revocation| taken.contains(&revocation.stranded.id.0));
    let again: Vec<Vec<Value>> = in_order.iter().filter_map(|revocation| next_attempt(revocation)).collect();
    for rows in again.chunks(batch(session.dialect())) {
        follow_up(session, rows)?;
    }
    Ok(revocations.iter().map(|revocation| taken.contains(&revocation.stranded.id.0)).collect())
}

/// An execution goes back to PENDING, or ends.
const TAKE_BACK: &[(&str, &str)] = &[
    ("state", "w.becomes"),
    ("reason", "w.reason"),
    ("claim_token", "CASE WHEN w.becomes = 'PENDING' THEN w.fresh ELSE r.claim_token END"),
    ("node", "CASE WHEN w.becomes = 'PENDING' THEN '' ELSE r.node END"),
    ("claimed_time", "CASE WHEN w.becomes = 'PENDING' THEN -1 ELSE r.claimed_time END"),
    ("started_time", "CASE WHEN w.becomes = 'PENDING' THEN -1 ELSE r.started_time END"),
    ("finished_time", "CASE WHEN w.becomes = 'PENDING' THEN r.finished_time ELSE w.now END"),
];

/// What locking a page of revocations reads.
const LOCKED: &[&str] = &["id", "state", "claim_token"];

/// The ids of the executions that were taken back.
fn take_back(session: &mut dyn Session, page: &[&Revocation]) -> Result<Vec<i64>, Fault> {
    let revocations = || page.iter().copied();
    let want = Want::new(revocations().map(|it| it.stranded.id.0))
        .alike("state", revocations().map(|it| it.stranded.state.as_str()))
        .texts("claim_token", revocations().map(|it| it.stranded.token.to_string()))
        .alike("becomes", revocations().map(|it| it.to.as_str()))
        .alike("reason", revocations().map(|it| it.reason.as_str()))
        .texts("fresh", revocations().map(|it| it.fresh.to_string()))
        .alike("now", revocations().map(|it| it.now));
    let (dialect, condition) = (session.dialect(), guarded(session.dialect(), &guard::REVOKE, "r"));
    let lock = sql("SELECT r.id FROM ").want(dialect, &want.of(LOCKED)).push(&format!(
        " {} QRTZ_RUN r ON {condition}{}",
        join(dialect),
        dialect.lock_free("r")
    ));
    let free = ids(session.rows(&lock)?)?;
    let want = want.only(&free);
    let changes = || update(dialect, ("QRTZ_RUN", "r"), TAKE_BACK, &want, &condition);
    if want.len() > 0 && session.execute(&changes())? != want.len() {
        return Err(Fault::new(Nature::Conflict, "an UPDATE of locked rows changed another number of rows"));
    }
    Ok(free)
}

/// The attempt that follows, as a row for [`follow_up`].
fn next_attempt(revocation: &Revocation) -> Option<Vec<Value>> {
    let ends = revocation.to != ExecutionState::Pending;
    (revocation.again && ends).then(|| {
        vec![
            revocation.stranded.id.0.into(),
            revocation.stranded.token.to_string().into(),
            revocation.to.as_str().into(),
            revocation.due.into(),
            revocation.fresh.to_string().into(),
            Reason::Recovery.as_str().into(),
        ]
    })
}

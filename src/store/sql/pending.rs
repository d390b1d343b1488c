//! PENDING executions: their schedule's row is locked first, then the execution changes hands.

use std::collections::{HashMap, HashSet};

use super::claim::{Found, Waiting, ids, in_batches, mine, put_into};
use super::session::{Fault, Session};
use super::statement::{Value, Want, guarded, join, sql, update};
use crate::model::ExecutionState;
use crate::store::guard;

type Step<T> = Result<T, Fault>;

const WAITING: &[&str] =
    &["id", "schedule", "origin", "state", "claim_token", "token", "node", "run_state", "claimed", "started"];

pub(super) fn pending_want<'a>(pending: impl Iterator<Item = &'a Waiting<'a>>) -> Want {
    let row = |(request, pending): &Waiting<'_>| {
        let (run_state, started) = put_into(request);
        vec![
            Value::from(pending.id.0),
            Value::from(pending.entry.id.0),
            Value::from(pending.origin),
            Value::from(ExecutionState::Pending.as_str()),
            Value::from(pending.token.to_string()),
            Value::from(request.token.to_string()),
            Value::from(request.node.to_string()),
            Value::from(run_state),
            Value::from(request.now),
            Value::from(started),
        ]
    };
    Want::new(WAITING, pending.map(row).collect())
}

/// The schedule's states in which its PENDING executions may be claimed.
pub(super) const CLAIMABLE: &str =
    "(e.state IN ('EXECUTING', 'COMPLETE') OR (e.state = 'PAUSED' AND w.origin <> 0))";

/// Each by its id.
pub(super) fn win_pending(session: &mut dyn Session, pending: &[Waiting<'_>]) -> Step<Found> {
    in_batches(session, pending, win_batch)
}

fn win_batch(session: &mut dyn Session, pending: &[Waiting<'_>]) -> Step<Found> {
    let dialect = session.dialect();
    let lock = sql("SELECT e.id FROM ").want(dialect, &pending_want(pending.iter())).push(&format!(
        " {} QRTZ_EXECUTE e ON e.id = w.schedule AND {CLAIMABLE} WHERE w.id <> -1 ORDER BY e.id{}",
        join(dialect),
        dialect.lock_free("e")
    ));
    let locked: HashSet<i64> = ids(session.rows(&lock)?)?.into_iter().collect();
    let free = |(_, pending): &&Waiting<'_>| locked.contains(&pending.entry.id.0);
    let want = pending_want(pending.iter().filter(free));
    if want.len() == 0 {
        return Ok(HashMap::new());
    }
    let schedule = "e.id = w.schedule AND w.id <> -1";
    session.execute(&update(dialect, ("QRTZ_EXECUTE", "e"), &[("fence", "e.fence + 1")], &want, schedule))?;
    let sets = [
        ("state", "w.run_state"),
        ("claim_token", "w.token"),
        ("fence", "(SELECT e.fence FROM QRTZ_EXECUTE e WHERE e.id = w.schedule)"),
        ("node", "w.node"),
        ("claimed_time", "w.claimed"),
        ("started_time", "w.started"),
    ];
    session.execute(&update(dialect, ("QRTZ_RUN", "r"), &sets, &want, &guarded(&guard::TAKE, "r")))?;
    mine(session, &want, "r.id", "r.id = w.id")
}

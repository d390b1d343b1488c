//! PENDING executions: their schedule's row is locked first, then the execution changes hands.

use std::collections::HashSet;

use super::batch::{Want, guarded, update};
use super::fault::Step;
use super::found::{Found, in_batches, mine};
use super::planned::CLAIMED_OR_RUNNING;
use super::session::Session;
use super::statement::{ids, sql};
use crate::domain::{ExecutionState, Pending};
use crate::store::{ClaimRequest, guard};

pub(super) type Waiting<'a> = (&'a ClaimRequest, &'a Pending);

pub(super) fn pending_want<'a>(pending: impl Iterator<Item = &'a Waiting<'a>> + Clone) -> Want {
    let requests = || pending.clone().map(|(request, _)| *request);
    let pendings = || pending.clone().map(|(_, pending)| *pending);
    Want::new(pendings().map(|it| it.id.0))
        .ints("schedule", pendings().map(|it| it.entry.id.0))
        .ints("origin", pendings().map(|it| it.origin))
        .same("state", ExecutionState::Pending.as_str())
        .texts("claim_token", pendings().map(|it| it.token.to_string()))
        .texts("token", requests().map(|it| it.token.to_string()))
        .alike("node", requests().map(|it| it.node))
        .alike("claimed", requests().map(|it| it.now))
        .ints("started", requests().map(|it| it.started().unwrap_or(-1)))
}

/// The schedules whose PENDING executions may be claimed: by their states, and by a fence that can grow.
pub(super) const CLAIMABLE: &str = "(e.state IN ('EXECUTING', 'COMPLETE') OR (e.state = 'PAUSED' AND w.origin <> 0)) \
     AND e.fence <> 9223372036854775807";

/// Each by its id.
pub(super) fn win_pending(session: &mut dyn Session, pending: &[Waiting<'_>]) -> Step<Found> {
    in_batches(session, pending, win_batch)
}

fn win_batch(session: &mut dyn Session, pending: &[Waiting<'_>]) -> Step<Found> {
    let dialect = session.dialect();
    let lock = sql("SELECT e.id FROM ").want(dialect, &pending_want(pending.iter())).push(&format!(
        " {} QRTZ_EXECUTE e ON {} AND {CLAIMABLE} WHERE w.id <> -1 ORDER BY e.id{}",
        dialect.join(),
        dialect.seek("e.id", "w.schedule"),
        dialect.lock_free("e")
    ));
    let locked: HashSet<i64> = ids(session.rows(&lock)?)?.into_iter().collect();
    let free = |(_, pending): &&Waiting<'_>| locked.contains(&pending.entry.id.0);
    let want = pending_want(pending.iter().filter(free));
    if want.len() == 0 {
        return Ok(Found::default());
    }
    let schedule = dialect.seek("e.id", "w.schedule") + " AND w.id <> -1";
    session.execute(&update(
        dialect,
        ("QRTZ_EXECUTE", "e"),
        &[("fence", "e.fence + 1")],
        &want,
        &schedule,
    ))?;
    let sets = [
        ("state", CLAIMED_OR_RUNNING),
        ("claim_token", "w.token"),
        ("fence", "(SELECT e.fence FROM QRTZ_EXECUTE e WHERE e.id = w.schedule)"),
        ("node", "w.node"),
        ("claimed_time", "w.claimed"),
        ("started_time", "w.started"),
    ];
    session.execute(&update(
        dialect,
        ("QRTZ_RUN", "r"),
        &sets,
        &want,
        &guarded(dialect, &guard::TAKE, "r"),
    ))?;
    let won = mine(session, &want, "r.id", &dialect.seek("r.id", "w.id"))?;
    dialect.database().note(session, won.keys().copied().collect())?;
    Ok(won)
}

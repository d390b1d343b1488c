//! What an edit of a trigger, or a removal, withdraws: its row in the ledger, beside that of the audit.

use crate::domain::{ExecutionState, Reason, Timestamp};
use crate::store::RemoveChange;
use crate::store::columns::{Cell, When};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, answer, listed, sql};
use crate::store::withdrawn::{OldPlan, Withdrawal};

answer! {
    /// What was planned of a schedule whose state has changed since.
    struct Planned() {
        generation: i64 = "e.generation", Row::loose_int;
        prev: Option<i64> = "e.prev_fire_time", Row::maybe_int;
        next: Option<i64> = "e.next_fire_time", Row::maybe_int;
        when: When = listed("e.", When::COLUMNS), |row| When::read(|| row.next());
    }
}

/// What a removal withdraws that this transaction has made: it leaves the cursor and the trigger as they
/// were.
pub(super) fn by(session: &mut dyn Session, removal: &RemoveChange) -> Step<Option<Withdrawal>> {
    if !removal.may_withdraw() {
        return Ok(None);
    }
    let RemoveChange { seen, now, .. } = removal;
    let question = sql(format!("SELECT {} FROM QRTZ_EXECUTE e WHERE e.id = ?", Planned::columns()));
    let planned = session.one(&question.bind(seen.id.0), Planned::read)?;
    Ok(planned.and_then(|Planned { generation, prev, next, when }| {
        let (prev, next) = (prev.map(Timestamp::at), next.map(Timestamp::at));
        let old = OldPlan { id: seen.id, state: &seen.state, generation, prev, next, when: &when };
        old.withdrawn(Reason::Removed, *now)
    }))
}

/// Inserts the row of what is withdrawn. A cursor set back by hand leads to occurrences that have a row: the
/// change is made all the same.
pub(super) fn insert(
    session: &mut dyn Session,
    application: &str,
    withdrawal: &Withdrawal,
    audit: Option<i64>,
) -> Step<()> {
    let Withdrawal { id, generation, from, to, count, prev, following, reason, now } = *withdrawal;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let insert = sql("INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, \
                      until_time, occurrences, attempt, state, reason, due_time, finished_time, \
                      prev_fire_time, following_fire_time, holder) \
                      VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)");
    let insert = insert
        .bind_all((application, id.0, generation, from))
        .bind_all((to, count, ExecutionState::Withdrawn.as_str(), reason.as_str()))
        .bind_all((from, now, prev, following.column()))
        .bind(audit.map_or(Cell::NoNumber, Cell::Int));
    session.execute(&insert.push(&session.dialect().or_leave("QRTZ_RUN", "attempt"))).map(drop)
}

//! Executions made, retried or cancelled by hand.

use super::change::insert_again;
use super::{audit, change, named, queue};
use crate::domain::headers;
use crate::domain::{ExecutionId, ExecutionState, Reason, ScheduleId, Token};
use crate::store::order::{Cancel, ExecutionOrder, KeyAndTags, Ordered, Retry, RunOrder};
use crate::store::sql::claim::planned::holding;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Bindable, Value, single, sql};
use crate::store::sql::session::{Session, lock_free, now};
use crate::store::transition::RunEnd;
use crate::store::{Applied, Change, ExecutionChange, Repair, Transition};

/// Makes the execution. The schedule's row is locked first, as by a claim: a removal comes before or after.
pub(crate) fn order(session: &mut dyn Session, order: &RunOrder) -> Step<Ordered> {
    let lock = session.dialect().lock("e");
    let name = (&*order.application, &*order.schedule);
    let Some(named) = named::schedule(session, name, &lock)? else { return Ok(Ordered::Unknown) };
    let question = sql("SELECT e.id, e.generation, e.state FROM QRTZ_EXECUTE e WHERE ");
    let found = session.rows(&question.and(named).push(&lock))?.pop();
    let Some(mut row) = found else { return Ok(Ordered::Unknown) };
    let (schedule, generation, state) = (row.int()?, row.loose_int()?, row.loose_text()?);
    if let Some(refusal) = Ordered::refusal(&state) {
        return Ok(refusal);
    }
    touch(session, "QRTZ_EXECUTE", schedule, &order.application)?;
    let due = order.at.map_or_else(|| now(session), Ok)?;
    let origin = audit::record_with_id(session, &order.entry())?;
    let insert =
        sql("INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, \
                      state, reason, cause, due_time, claim_token, payload, headers) \
                      VALUES (?, ?, ?, ?, ?, 1, 'PENDING', ?, ?, ?, ?, ?, ?)");
    let insert = insert
        .bind_all((order.application.as_str(), schedule, generation, origin, due, Reason::ByHand.as_str()))
        .bind_all((Reason::ByHand.as_str(), due, Token::fresh().to_string()));
    let insert = insert.bind(order.payload.as_deref().map_or(Value::Null, Bindable::value));
    let insert = insert.bind(headers::column(&order.headers).map_or(Value::Null, Bindable::value));
    audit::insert_with_id(session, insert).map(|id| Ordered::Pending(ExecutionId(id)))
}

/// The changes of one transaction. The keeper of a slot whose schedule's next occurrence replaces it is
/// cancelled. An execution that another transaction holds, or that cannot be understood, is left alone:
/// others must not wait for it.
pub(crate) fn apply(session: &mut dyn Session, changes: &[Change]) -> Step<Vec<Applied>> {
    let applied = change::apply(session, changes)?;
    for (change, applied) in changes.iter().zip(&applied) {
        if let Change::Repair(Repair { id, replaces: Some(_), .. }) = change
            && applied.is_done()
        {
            replace(session, *id)?;
        }
    }
    Ok(applied)
}

/// The same; an execution that others hold is answered so, and nothing waits for it.
pub(crate) fn apply_free(session: &mut dyn Session, changes: &[Change]) -> Step<Vec<Applied>> {
    let executions = changes.iter().filter_map(|change| Some(change.execution()?.0)).collect();
    let held = lock_free(session, ("QRTZ_RUN", "r"), executions)?;
    let is_held = |change: &&Change| change.execution().is_some_and(|id| held.contains(&id.0));
    let free: Vec<Change> = changes.iter().filter(|change| !is_held(change)).cloned().collect();
    let mut applied = apply(session, &free)?.into_iter();
    let answer = |change| if is_held(&change) { Some(Applied::Held) } else { applied.next() };
    Ok(changes.iter().filter_map(answer).collect())
}

fn replace(session: &mut dyn Session, schedule: ScheduleId) -> Step<()> {
    let holders = sql(format!(
        "SELECT e.application, h.id FROM QRTZ_EXECUTE e JOIN QRTZ_RUN h ON {} WHERE e.id = ?",
        holding(session.dialect())
    ));
    for mut row in session.rows(&holders.bind(schedule.0))? {
        let (application, execution) = (row.text()?, ExecutionId(row.int()?));
        match cancel_free(session, &ExecutionOrder::replaced(&application, execution)) {
            Err(fault) if fault.kind != FaultKind::Undecodable => return Err(fault),
            _ => {}
        }
    }
    Ok(())
}

/// Cancels an execution that has not begun; asks for the end of one that runs. Its row is locked, so that it
/// neither begins nor ends meanwhile. Of one that was tried again, that is the last attempt.
pub(crate) fn cancel(session: &mut dyn Session, order: &ExecutionOrder) -> Step<Cancel> {
    let lock = session.dialect().lock("r");
    let answer = cancel_locked(session, order, &lock)?;
    let Cancel::Ended(_) = answer else { return Ok(answer) };
    let has_changed = queue::has_changed(session, order.execution)?;
    let lock = if has_changed { session.dialect().lock_to_see("l") } else { String::new() };
    match last_behind(session, order.execution, &lock)? {
        Some(execution) => cancel(session, &ExecutionOrder { execution, ..order.clone() }),
        None => Ok(answer),
    }
}

/// The last of the attempts that followed this one.
pub(super) fn last_behind(
    session: &mut dyn Session,
    execution: ExecutionId,
    lock: &str,
) -> Step<Option<ExecutionId>> {
    let question = sql("SELECT l.id FROM QRTZ_RUN r JOIN QRTZ_RUN l ON l.execute_id = r.execute_id \
                        AND l.generation = r.generation AND l.origin = r.origin \
                        AND l.scheduled_time = r.scheduled_time AND l.attempt > r.attempt \
                        WHERE r.id = ? ORDER BY l.attempt DESC LIMIT 1");
    session.one(&question.bind(execution.0).push(lock), |row| row.int().map(ExecutionId))
}

/// The same; one that somebody holds locked counts as unknown.
fn cancel_free(session: &mut dyn Session, order: &ExecutionOrder) -> Step<Cancel> {
    let lock = session.dialect().lock_free("r");
    cancel_locked(session, order, &lock)
}

fn cancel_locked(session: &mut dyn Session, order: &ExecutionOrder, lock: &str) -> Step<Cancel> {
    let found = schedule_of(session, order)?;
    let is_seen = found.is_some();
    let (name, plans) = found.unwrap_or_default();
    let dialect = session.dialect();
    if let Some(RunEnd { schedule, .. }) = plans.filter(|_| dialect.has_row_locks()) {
        let schedule = sql("SELECT e.id FROM QRTZ_EXECUTE e WHERE e.id = ?").bind(schedule.0);
        session.rows(&schedule.push(&dialect.lock("e")))?;
    }
    let question = sql(format!(
        "SELECT r.unique_key, r.tags, r.state, r.claim_token, r.node, r.finished_time FROM QRTZ_RUN r \
         WHERE r.id = ? AND r.application = ?{lock}"
    ));
    let question = question.bind(order.execution.0).bind(order.application.as_str());
    let Some(mut row) = session.rows(&question)?.pop() else { return Ok(Cancel::Unknown) };
    if !is_seen {
        let problem = format!("execution {} was made since the caller's transaction began", order.execution);
        return Err(Fault::new(FaultKind::Conflict, problem));
    }
    let has = KeyAndTags { key: row.maybe_text()?, tags: queue::tags(&mut row)? };
    if !has.have(&order.wanted) {
        return Ok(Cancel::Differs(has));
    }
    let (state, token, node) = (row.word()?, row.token()?, row.loose_text()?);
    let runs_on = state == Some(ExecutionState::TimedOut) && row.time()?.is_none();
    let Some(state) = state.filter(|state| !state.is_terminal() || runs_on) else {
        return Ok(Cancel::Ended(state));
    };
    let answer = if runs_on || state == ExecutionState::Running {
        Cancel::Asked { node, is_new: ask(session, order)? }
    } else {
        let no_token = || Fault::undecodable(format!("execution {} has no claim token", order.execution));
        let cancel = Transition::Cancel(Reason::Cancelled);
        let change = ExecutionChange::of(order.execution, token.ok_or_else(no_token)?, cancel, now(session)?);
        let change = ExecutionChange { run_end: plans, ..change };
        if change::apply(session, &[change.into()])? != [Applied::Done] {
            return Err(Fault::new(FaultKind::Conflict, "an execution that is locked has changed"));
        }
        Cancel::Done
    };
    if !matches!(answer, Cancel::Asked { is_new: false, .. }) {
        audit::record(session, &order.cancel_entry(&name, state))?;
    }
    Ok(answer)
}

/// The name of an execution's schedule, and whether that fires again some time after its end; none if there
/// is no such execution.
fn schedule_of(session: &mut dyn Session, order: &ExecutionOrder) -> Step<Option<(String, Option<RunEnd>)>> {
    let question = sql(
        "SELECT COALESCE(e.name, '') AS name, r.execute_id, CASE WHEN e.job_type = 'DELAY' AND r.origin = 0 \
                        THEN e.repeat_interval END AS delay \
                        FROM QRTZ_RUN r LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id WHERE r.id = ?",
    );
    session.one(&question.bind(order.execution.0), |row| {
        let (name, schedule) = (row.loose_text()?, ScheduleId(row.int()?));
        Ok((name, row.maybe_int()?.map(|delay| RunEnd { schedule, delay })))
    })
}

/// Makes another attempt at an execution, whose row is locked: of two requests one is the first.
pub(crate) fn retry(session: &mut dyn Session, order: &ExecutionOrder) -> Step<Retry> {
    // The key's row before the execution's.
    let keyed = queue::key_of(session, order)?;
    if let Some(keyed) = &keyed
        && let Some(keeper) = keyed.keeper(session)?
    {
        return Ok(Retry::KeyTaken(keeper));
    }
    let question = sql(format!(
        "SELECT r.state, r.attempt, r.scheduled_time, r.execute_id FROM QRTZ_RUN r \
         WHERE r.id = ? AND r.application = ?{}",
        session.dialect().lock("r")
    ));
    let question = question.bind(order.execution.0).bind(order.application.as_str());
    let Some(mut row) = session.rows(&question)?.pop() else { return Ok(Retry::Unknown) };
    let (state, attempt, scheduled) = (row.word()?, row.loose_int()?, row.loose_instant()?);
    let schedule = sql("SELECT e.name, e.state FROM QRTZ_EXECUTE e WHERE e.id = ?").bind(row.loose_int()?);
    let found = session.one(&schedule, |row| Ok((row.loose_text()?, row.loose_text()?)))?;
    let (name, schedule) = found.unwrap_or_default();
    if let Some(refusal) = Retry::refusal(state, &schedule) {
        return Ok(refusal);
    }
    let Some(state) = state else { return Ok(Retry::State(None)) };
    if last_behind(session, order.execution, "")?.is_some() {
        return Ok(Retry::Followed);
    }
    let stuck = sql("SELECT COUNT(*) FROM QRTZ_STUCK s WHERE s.execution_id = ?").bind(order.execution.0);
    if single(session.rows(&stuck)?)? > 0 {
        return Ok(Retry::State(Some(ExecutionState::Running)));
    }
    audit::record(session, &order.retry_entry(&name, state, attempt.saturating_add(1)))?;
    let insert = insert_again("?", "'retry'", "?", "?").push(" FROM QRTZ_RUN r WHERE r.id = ?");
    // One that was cancelled ahead of its time still waits for it.
    let due = now(session)?.max(scheduled);
    let insert = insert.bind(Reason::ByHand.as_str()).bind(due).bind(Token::fresh().to_string());
    let id = audit::insert_with_id(session, insert.bind(order.execution.0))?;
    touch(session, "QRTZ_RUN", order.execution.0, &order.application)?;
    keyed.map_or(Ok(()), |keyed| keyed.retake(session))?;
    Ok(Retry::Pending(ExecutionId(id)))
}

/// Whether the request is new.
pub(super) fn ask(session: &mut dyn Session, order: &ExecutionOrder) -> Step<bool> {
    let known = sql("SELECT COUNT(*) FROM QRTZ_CANCEL WHERE execution_id = ?").bind(order.execution.0);
    if single(session.rows(&known)?)? > 0 {
        return Ok(false);
    }
    let insert = sql(format!(
        "INSERT INTO QRTZ_CANCEL (execution_id, application, asked_time, actor, reason) \
         VALUES (?, ?, {}, ?, ?)",
        session.dialect().clock()
    ));
    let insert = insert.bind(order.execution.0).bind(order.application.as_str());
    session.execute(&insert.bind(order.by.actor.as_str()).bind(order.by.reason.as_str()))?;
    touch(session, "QRTZ_RUN", order.execution.0, &order.application)?;
    Ok(true)
}

/// Writes the row of an execution or a schedule, which is locked: what changes it on another member of a
/// Galera cluster comes before or after. An outcome there must see that somebody has asked for the end of
/// its execution; retention, that an execution is tried again; and retention and removals, that a schedule
/// is run.
pub(super) fn touch(session: &mut dyn Session, table: &str, id: i64, application: &str) -> Step<()> {
    if let Some(touch) = session.dialect().touch() {
        let touch = sql(format!("UPDATE {table} SET {touch} WHERE id = ? AND application = ?"));
        session.execute(&touch.bind(id).bind(application))?;
    }
    Ok(())
}

pub(crate) fn saw_cancels(session: &mut dyn Session, executions: &[ExecutionId]) -> Step<()> {
    for some in executions.chunks(session.dialect().batch()) {
        let seen =
            format!("UPDATE QRTZ_CANCEL SET seen_time = {} WHERE seen_time = -1", session.dialect().clock());
        let seen = sql(seen).push(" AND execution_id IN ").list(some.iter().map(|id| id.0));
        session.execute(&seen)?;
    }
    Ok(())
}

//! Executions that somebody asks for.

use super::audit;
use super::fault::Step;
use super::session::{Session, now};
use super::statement::{Value, sql};
use crate::domain::{ExecutionId, Reason, Token};
use crate::store::order::{Ordered, RunOrder};

/// Makes the execution. The schedule's row is locked first, as by a claim: a removal comes before or after.
pub(super) fn order(session: &mut dyn Session, order: &RunOrder) -> Step<Ordered> {
    let question = sql(format!(
        "SELECT e.id, e.generation, e.state FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.name = ?{}",
        session.dialect().lock("e")
    ));
    let question = question.bind(order.application.as_str()).bind(order.schedule.as_str());
    let Some(mut row) = session.rows(&question)?.pop() else { return Ok(Ordered::Unknown) };
    let (schedule, generation, state) = (row.int()?, row.loose_int()?, row.loose_text()?);
    if let Some(refusal) = Ordered::refusal(&state) {
        return Ok(refusal);
    }
    let due = order.at.map_or_else(|| now(session), Ok)?;
    let origin = audit::record_with_id(session, &order.entry())?;
    let insert =
        sql("INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, \
                      state, reason, due_time, claim_token, payload) \
                      VALUES (?, ?, ?, ?, ?, 1, 'PENDING', ?, ?, ?, ?)");
    let insert = insert
        .bind(order.application.as_str())
        .bind(schedule)
        .bind(generation)
        .bind(origin)
        .bind(due)
        .bind(Reason::ByHand.as_str())
        .bind(due)
        .bind(Token::fresh().to_string());
    let insert = insert.bind(order.payload.as_deref().map_or(Value::Null, Value::from));
    audit::insert_with_id(session, insert).map(|id| Ordered::Pending(ExecutionId(id)))
}

//! Requests that other programs have written: their rows are read, locked and ended.

use crate::domain::text::{escaped, shortened};
use crate::domain::{ErrorKind, Timestamp};
use crate::store::request::{Answered, CarriedOut, MOST_ARGUMENTS, Request, RequestQuery};
use crate::store::sql::connection::call::SqlStore;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Value, sql};
use crate::store::sql::verbs::joined::OnConnection;
use crate::store::{Carrier, Result};

/// So much of an answer is kept: with the sign of its end it fills the column.
const LONGEST_ANSWER: usize = 499;

/// The requests of a page, by id.
pub(crate) fn page(session: &mut dyn Session, query: &RequestQuery) -> Step<Vec<Request>> {
    let question = sql(format!(
        "SELECT q.id, q.actor, q.verb, SUBSTR(q.arguments, 1, {}) AS arguments FROM QRTZ_REQUEST q \
         WHERE q.application = ? AND q.state = 'REQUESTED' AND q.id > ? ORDER BY q.id LIMIT ?",
        MOST_ARGUMENTS + 1
    ));
    let application = query.application.as_str();
    session.all(&question.bind(application).bind(query.after).bind(query.limit), |row| {
        let (id, actor) = (row.int()?, row.loose_text()?);
        let (verb, arguments) = (row.loose_text()?, row.loose_text()?);
        Ok(Request::read(id, actor, &verb, &arguments))
    })
}

/// Carries a request out in one transaction; if it is refused, ends it in another.
pub(crate) fn carry_out(store: &SqlStore, request: &Request, carrier: &dyn Carrier) -> Result<CarriedOut> {
    let mut failure = None;
    let carried = store.write_caught_up("carry out a request", |session| {
        failure = None;
        if !lock(session, request.id)? {
            return is_open(session, request.id)
                .map(|it| if it { CarriedOut::Held } else { CarriedOut::Ended });
        }
        let asked = match &request.asked {
            Ok(asked) => asked,
            Err(problem) => return Ok(CarriedOut::Refused(problem.clone())),
        };
        let carried = carrier.carry_out(asked, &request.actor, &OnConnection::new(store, session));
        let undone = || Fault::new(FaultKind::Refused, "a request was not carried out");
        match carried {
            Ok(Answered::Done { execution, answer }) => {
                let id = execution.map(|execution| execution.0);
                end(session, request.id, ("DONE", answer), id).map(|()| CarriedOut::Done)
            }
            Ok(Answered::Refused(reason)) => {
                failure = Some(Ok(CarriedOut::Refused(reason)));
                Err(undone())
            }
            Err(error) => {
                // Where rows are held the same call would wait once more: others come first.
                let kind = match error.kind() {
                    ErrorKind::Conflict => FaultKind::Conflict,
                    _ => FaultKind::Senseless,
                };
                failure = Some(Err(error));
                Err(Fault { kind, ..undone() })
            }
        }
    });
    match (failure.unwrap_or(carried))? {
        CarriedOut::Refused(reason) => refuse(store, request.id, &reason),
        carried => Ok(carried),
    }
}

/// Ends a request whose changes were taken back.
fn refuse(store: &SqlStore, request: i64, reason: &str) -> Result<CarriedOut> {
    store.write("refuse a request", |session| {
        if !lock(session, request)? {
            return Ok(CarriedOut::Ended);
        }
        end(session, request, ("REFUSED", reason), None).map(|()| CarriedOut::Refused(reason.to_owned()))
    })
}

/// Locks a request's row; false if another transaction holds it, or it has ended.
fn lock(session: &mut dyn Session, request: i64) -> Step<bool> {
    let locks = session.dialect().lock_free("q");
    let question = format!("SELECT q.id FROM QRTZ_REQUEST q WHERE q.id = ? AND q.state = 'REQUESTED'{locks}");
    Ok(session.one(&sql(question).bind(request), Row::int)?.is_some())
}

fn is_open(session: &mut dyn Session, request: i64) -> Step<bool> {
    let question = sql("SELECT q.id FROM QRTZ_REQUEST q WHERE q.id = ? AND q.state = 'REQUESTED'");
    Ok(session.one(&question.bind(request), Row::int)?.is_some())
}

/// Ends a request whose row is locked.
fn end(
    session: &mut dyn Session,
    request: i64,
    (state, answer): (&str, &str),
    execution: Option<i64>,
) -> Step<()> {
    let ended = sql(format!(
        "UPDATE QRTZ_REQUEST SET state = ?, answer = ?, execution_id = ?, ended_time = {} WHERE id = ? \
         AND state = 'REQUESTED'",
        session.dialect().clock()
    ));
    let execution = execution.map_or(Value::NoNumber, Value::Int);
    // It may repeat characters of the request that no text column takes.
    let answer = shortened(&escaped(answer), LONGEST_ANSWER);
    match session.execute(&ended.bind(state).bind(answer).bind(execution).bind(request))? {
        1 => Ok(()),
        _ => Err(Fault::new(FaultKind::Conflict, "a request has been ended meanwhile")),
    }
}

/// Removes requests that ended before; at most so many, the oldest of them.
pub(crate) fn purge(
    session: &mut dyn Session,
    application: &str,
    before: Timestamp,
    limit: usize,
) -> Step<usize> {
    let old = "SELECT MAX(o.id) FROM (SELECT q.id FROM QRTZ_REQUEST q WHERE q.application = ? \
               AND q.state <> 'REQUESTED' AND q.ended_time < ? ORDER BY q.ended_time, q.id LIMIT ?) AS o";
    let old = sql(old).bind(application).bind(before).bind(limit);
    let Some(last) = session.one(&old, Row::maybe_int)?.flatten() else { return Ok(0) };
    let delete = sql("DELETE FROM QRTZ_REQUEST WHERE application = ? AND state <> 'REQUESTED' \
                      AND ended_time < ? AND id <= ?");
    session.execute(&delete.bind(application).bind(before).bind(last))
}

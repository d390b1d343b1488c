//! The triggers' history: a row for each generation of a schedule, in the transaction that begins or ends it.

use std::borrow::Cow;

use super::named;
use crate::domain::{ScheduleId, Timestamp};
use crate::store::Repair;
use crate::store::columns::When;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::{BatchRows, update};
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, listed, sql};

/// Notes the generation that the schedule of this name begins now, with the trigger and the next fire time of
/// its row.
pub(super) fn begin_named(
    session: &mut dyn Session,
    (application, name): (&str, &str),
    now: Timestamp,
) -> Step<()> {
    // An INSERT with a SELECT locks what it reads, too.
    let lock = session.dialect().lock("e");
    match named::schedule(session, (application, name), &lock)? {
        Some(named) => begin_where(session, named, now),
        None => Ok(()),
    }
}

/// Notes the generation that a schedule begins now.
pub(super) fn begin(session: &mut dyn Session, schedule: ScheduleId, now: Timestamp) -> Step<()> {
    begin_where(session, sql("e.id = ?").bind(schedule), now)
}

fn begin_where(session: &mut dyn Session, of: Statement, now: Timestamp) -> Step<()> {
    let insert = sql(format!(
        "{} SELECT e.id, e.generation, e.application, ?, COALESCE(e.next_fire_time, -1), {} \
         FROM QRTZ_EXECUTE e WHERE ",
        insert_into(),
        listed("e.", When::COLUMNS)
    ));
    let leave = session.dialect().or_leave("QRTZ_TRIGGER", "generation");
    session.execute(&insert.bind(now).and(of).push(&leave)).map(drop)
}

fn insert_into() -> String {
    format!(
        "INSERT INTO QRTZ_TRIGGER (execute_id, generation, application, begun_time, first_fire_time, {})",
        listed("", When::COLUMNS)
    )
}

/// Notes the end of a schedule's generation: until then its state was this, and it had claimed or passed its
/// fire times up to `last`. The row is named by its whole key: on MariaDB a part of it would lock the gap
/// where other schedules' rows are inserted.
pub(super) fn end(
    session: &mut dyn Session,
    (schedule, generation): (ScheduleId, i64),
    (state, last): (&str, Option<Timestamp>),
    now: Timestamp,
) -> Step<()> {
    let update = sql("UPDATE QRTZ_TRIGGER SET last_fire_time = ?, ended_time = ?, end_state = ? \
                      WHERE execute_id = ? AND generation = ? AND ended_time = -1");
    session.execute(&update.bind_all((last, now, state, schedule, generation))).map(drop)
}

/// The same of schedules that are planned anew, each of which begins a generation with that: a batch of them
/// by one statement each.
pub(super) fn plan_anew(session: &mut dyn Session, repairs: &[&Repair]) -> Step<()> {
    let dialect = session.dialect();
    for some in repairs.chunks(dialect.batch()) {
        let each = || some.iter();
        let ended = BatchRows::new(each().map(|it| it.id.0))
            .ints("generation", each().map(|it| it.generation))
            .times("last", each().map(|it| it.cursor.prev))
            .times("at", each().map(|it| it.now))
            .alike("state", each().map(|it| Cow::Borrowed(it.state.stored())));
        let sets = [("last_fire_time", "w.last"), ("ended_time", "w.at"), ("end_state", "w.state")];
        let this = dialect.seek("t.execute_id", "w.id");
        let not_ended = format!("{this} AND t.generation = w.generation AND t.ended_time = -1");
        session.execute(&update(dialect, ("QRTZ_TRIGGER", "t"), &sets, &ended, &not_ended))?;
        let begun = ended.of(&["id", "at"]);
        let insert = sql(format!(
            "{} SELECT e.id, e.generation, e.application, w.at, COALESCE(e.next_fire_time, -1), {} FROM ",
            insert_into(),
            listed("e.", When::COLUMNS)
        ));
        let insert = insert.want(dialect, &begun).push(&format!(
            " {} {} ON {} WHERE 1 = 1{}",
            dialect.join(),
            dialect.by_id("QRTZ_EXECUTE", "e"),
            dialect.seek("e.id", "w.id"),
            dialect.or_leave("QRTZ_TRIGGER", "generation")
        ));
        session.execute(&insert)?;
    }
    Ok(())
}

/// The same of one whose cursor stays where it is, and whose row this transaction has locked.
pub(super) fn end_where_it_stands(
    session: &mut dyn Session,
    schedule: ScheduleId,
    state: &str,
    now: Timestamp,
) -> Step<()> {
    let question = sql("SELECT e.generation, e.prev_fire_time FROM QRTZ_EXECUTE e WHERE e.id = ?");
    let stands = session.one(&question.bind(schedule), |row| Ok((row.loose_int()?, row.time()?)))?;
    let Some((generation, last)) = stands else { return Ok(()) };
    end(session, (schedule, generation), (state, last), now)
}

/// Removes the history of generations that ended before and of which no row is left, at most some more than
/// so many.
pub(crate) fn purge(
    session: &mut dyn Session,
    application: &str,
    before: Timestamp,
    limit: usize,
) -> Step<()> {
    let old = sql("SELECT MAX(o.ended_time) FROM (SELECT t.ended_time FROM QRTZ_TRIGGER t \
                   WHERE t.application = ? AND t.ended_time >= 0 AND t.ended_time < ? \
                   ORDER BY t.ended_time LIMIT ?) AS o");
    let old = old.bind_all((application, before, limit));
    let Some(last) = session.one(&old, Row::maybe_int)?.flatten() else {
        return Ok(());
    };
    let delete = "DELETE FROM QRTZ_TRIGGER WHERE application = ? AND ended_time >= 0 AND ended_time <= ? \
                  AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN r WHERE r.execute_id = QRTZ_TRIGGER.execute_id \
                  AND r.generation = QRTZ_TRIGGER.generation)";
    session.execute(&sql(delete).bind_all((application, last))).map(drop)
}

/// Removes the history of schedules whose rows are gone.
pub(crate) fn forget(session: &mut dyn Session, schedules: impl IntoIterator<Item = i64>) -> Step<()> {
    let delete = sql("DELETE FROM QRTZ_TRIGGER WHERE NOT EXISTS (SELECT 1 FROM QRTZ_EXECUTE e \
                      WHERE e.id = QRTZ_TRIGGER.execute_id) AND execute_id IN ");
    session.execute(&delete.list(schedules)).map(drop)
}

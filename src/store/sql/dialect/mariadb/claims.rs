//! A batch of planned claims on MariaDB: one compound statement if all rows are free, three otherwise.

use uuid::Uuid;

use crate::domain::ExecutionId;
use crate::store::sql::claim::planned::{
    Found, LOCKED, PlannedRequest, Win, all_of, claimable, have_slots, holding, insert_moved, join_holders,
    move_cursors, other_number, planned_want, take_slots,
};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::BatchRows;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, single, sql};

/// Begins a transaction and claims rows that are all free and as they were seen. Otherwise it is to be rolled
/// back, and the next try to leave out the held ones. The claim brings no rows, so its error leaves nothing
/// half read.
pub(super) fn all_free(session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
    let want = planned_want(planned);
    let not_free = || Fault::new(FaultKind::Conflict, "a row is held by another, or was changed");
    let made =
        session.execute(&claim_free(&want, &with_slots(planned))).map_err(|fault| match fault.kind {
            FaultKind::Busy | FaultKind::Deadlock => not_free(),
            _ => fault,
        })?;
    if made < want.len() {
        return Err(not_free());
    }
    let won = just_inserted(session, planned)?;
    all_of(&want, won)
}

/// Begins a transaction and claims only the rows that are free and unchanged.
pub(super) fn begin_and_skip(session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
    session.execute(&sql(Dialect::Mysql.begin()))?;
    skipping(session, planned)
}

/// Claims only the rows that are free and unchanged: locks them, moves their cursors, inserts the executions.
pub(super) fn skipping(session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
    let want = planned_want(planned);
    let mut free: Vec<i64> = session.all(&lock_free(&want), Row::int)?;
    let has_slots = have_slots(planned);
    if has_slots && !free.is_empty() {
        let taken: Vec<i64> = session.all(&taken_slots(&want.clone().only(&free)), Row::int)?;
        free.retain(|schedule| !taken.contains(schedule));
    }
    let moved = if free.is_empty() { free } else { move_free(session, &want, &free)? };
    let want = want.only(&moved);
    if want.len() == 0 {
        return Ok(Found::default());
    }
    if has_slots {
        session.execute(&take_slots(Dialect::Mysql, &want))?;
    }
    // One that made nothing would leave an old id as the last, with all that came since behind it.
    if session.execute(&insert_moved(Dialect::Mysql, &want))? != want.len() {
        return Err(other_number());
    }
    all_of(&want, just_inserted(session, planned)?)
}

/// The schedules of these whose executions must not overlap.
fn with_slots(planned: &[PlannedRequest<'_>]) -> Vec<i64> {
    let with_slots = planned.iter().filter(|(_, occurrence)| occurrence.entry.overlap.has_slot());
    with_slots.map(|(_, occurrence)| occurrence.entry.id.0).collect()
}

/// Before a statement that is to wait for no lock.
const NOT_WAITING: &str = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR ";

/// One statement. If it inserts nothing, no id lies behind the last: nobody reads what was inserted earlier.
fn claim_free(want: &BatchRows, with_slots: &[i64]) -> Statement {
    let dialect = Dialect::Mysql;
    let claim = sql(format!("BEGIN NOT ATOMIC START TRANSACTION; {NOT_WAITING}"))
        .and(move_cursors(dialect, want))
        .push("; IF ROW_COUNT() = ? THEN ")
        .bind(want.len());
    let inserted = insert_moved(dialect, want).push("; ELSE DO LAST_INSERT_ID(9223372036854775807); END IF");
    let claim = if with_slots.is_empty() {
        claim.and(inserted)
    } else {
        let taken = take_free_slots(with_slots).push("; IF ROW_COUNT() = ? THEN ").bind(with_slots.len());
        claim.and(taken).and(inserted).push("; ELSE DO LAST_INSERT_ID(9223372036854775807); END IF")
    };
    claim.push("; END")
}

/// Takes the slots that are free, of schedules whose cursors this transaction has moved. A change of one
/// table reads the ledger without a lock; of joined tables, and in the condition of an IF, it would wait for
/// outcomes.
pub(crate) fn take_free_slots(schedules: &[i64]) -> Statement {
    sql("UPDATE QRTZ_EXECUTE AS e SET e.slot_generation = e.generation, e.slot_origin = 0, \
         e.slot_time = e.prev_fire_time WHERE e.id IN ")
    .list(schedules.iter().copied())
    .push(&format!(" AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN h WHERE {})", holding(Dialect::Mysql)))
}

/// Those of these schedules whose slots are taken.
pub(crate) fn taken_slots(want: &BatchRows) -> Statement {
    let dialect = Dialect::Mysql;
    sql("SELECT e.id FROM ").want(dialect, &want.of(&["id"])).push(&join_holders(dialect, "w.id"))
}

pub(crate) fn lock_free(want: &BatchRows) -> Statement {
    let dialect = Dialect::Mysql;
    let (condition, skipping) = (claimable(dialect), dialect.lock_free("e"));
    sql("SELECT e.id FROM ")
        .want(dialect, &want.of(LOCKED))
        .push(&format!(" {} QRTZ_EXECUTE e ON {condition}{skipping}", dialect.join()))
}

/// Moves the cursors of these schedules, whose rows are locked, and gives those that it moved. InnoDB locks
/// places in an index too: a row that is free cannot be moved to one that somebody else holds. Those are
/// found by halves, without waiting: they must not keep the others from being claimed.
fn move_free(session: &mut dyn Session, want: &BatchRows, schedules: &[i64]) -> Step<Vec<i64>> {
    let moves = move_cursors(Dialect::Mysql, &want.clone().only(schedules));
    let text = format!("{NOT_WAITING}{}", moves.text);
    match session.execute(&Statement { text, ..moves }) {
        Ok(moved) if moved == schedules.len() => Ok(schedules.to_vec()),
        Ok(_) => {
            Err(Fault::new(FaultKind::Conflict, "an UPDATE of locked rows changed another number of rows"))
        }
        // Only the statement is rolled back then, unless the server was told otherwise.
        Err(fault) if fault.kind == FaultKind::Busy && is_in_transaction(session)? => match schedules {
            [_] => Ok(Vec::new()),
            _ => {
                let (first, second) = schedules.split_at(schedules.len() / 2);
                let mut moved = move_free(session, want, first)?;
                moved.append(&mut move_free(session, want, second)?);
                Ok(moved)
            }
        },
        Err(fault) => Err(fault),
    }
}

pub(super) fn is_in_transaction(session: &mut dyn Session) -> Step<bool> {
    Ok(single(session.rows(&sql("SELECT @@in_transaction AS held"))?)? == 1)
}

/// MariaDB has RETURNING too, but announces its columns only when it executes, which is too late for diesel.
/// What this connection inserted last begins at an id it knows; others' rows may lie between, but they have
/// other tokens.
pub(crate) fn just_inserted(session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
    let mut found = Found::default();
    for mut row in session.rows(&newest())? {
        let (token, schedule) = (row.loose_text()?, row.int()?);
        let wanted = planned.binary_search_by_key(&schedule, |(_, occurrence)| occurrence.entry.id.0);
        let request = wanted.ok().and_then(|place| planned.get(place)).map(|(request, _)| request);
        if request.is_some_and(|request| Uuid::parse_str(&token) == Ok(request.token.0)) {
            found.insert(schedule, Win { execution: ExecutionId(row.int()?), fence: row.int()? });
        }
    }
    Ok(found)
}

/// The executions from the first one on that this connection inserted last.
pub(crate) fn newest() -> Statement {
    sql("SELECT r.claim_token, r.execute_id, r.id, r.fence FROM QRTZ_RUN r WHERE r.id >= LAST_INSERT_ID()")
}

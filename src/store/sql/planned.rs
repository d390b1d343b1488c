//! Planned occurrences: the cursor move, and the execution it leaves.

use uuid::Uuid;

use super::claim::{Found, Planned, by_first_column, ids, in_batches};
use super::connection::Dialect;
use super::session::{Fault, Nature, Session};
use super::statement::{Statement, Want, assigned, guarded, join, single, sql, update};
use super::under_way;
use crate::domain::ScheduleState;
use crate::store::guard;
use crate::time::SKIP_RETRY;

type Step<T> = Result<T, Fault>;

/// What locking, moving and inserting read of a batch.
pub(super) const LOCKED: &[&str] = &["id", "state", "prev_fire_time", "next_fire_time", "version"];
const MOVED: &[&str] = &["id", "state", "prev_fire_time", "next_fire_time", "version", "following"];
const INSERTED: &[&str] =
    &["id", "prev_fire_time", "next_fire_time", "following", "token", "node", "claimed", "started"];
/// What all three at once read of it.
const MOVED_AND_INSERTED: &[&str] = &[
    "id",
    "state",
    "prev_fire_time",
    "next_fire_time",
    "version",
    "following",
    "token",
    "node",
    "claimed",
    "started",
];

pub(super) fn planned_want(planned: &[Planned<'_>]) -> Want {
    let requests = || planned.iter().map(|(request, _)| *request);
    let occurrences = || planned.iter().map(|(_, occurrence)| *occurrence);
    Want::new(occurrences().map(|it| it.entry.id.0))
        .same("state", ScheduleState::Active.as_str())
        .ints("prev_fire_time", occurrences().map(|it| it.prev.unwrap_or(-1)))
        .ints("next_fire_time", occurrences().map(|it| it.at))
        .ints("version", occurrences().map(|it| it.entry.version))
        .ints("generation", occurrences().map(|it| it.entry.generation))
        .ints("following", occurrences().map(|it| it.following.unwrap_or(-1)))
        .texts("token", requests().map(|it| it.token.to_string()))
        .alike("node", requests().map(|it| it.node))
        .alike("claimed", requests().map(|it| it.now))
        .ints("started", requests().map(|it| it.started().unwrap_or(-1)))
}

/// A claim puts its execution into this state.
pub(super) const CLAIMED_OR_RUNNING: &str = "CASE WHEN w.started = -1 THEN 'CLAIMED' ELSE 'RUNNING' END";

/// The cursor move of a planned claim.
const MOVE: &[(&str, &str)] = &[
    ("prev_fire_time", "w.next_fire_time"),
    ("next_fire_time", "w.following"),
    ("state", "CASE WHEN w.following = -1 THEN 'COMPLETE' ELSE 'EXECUTING' END"),
    ("fence", "e.fence + 1"),
    // A figure for people, which stands still before it overflows.
    (
        "time_triggered",
        "CASE WHEN e.time_triggered < 9000000000000000000 THEN e.time_triggered + 1 ELSE e.time_triggered END",
    ),
];

/// What a planned claim compares, and that the fence can grow: a claim that overflowed it would fail with its
/// whole batch, by an error that only its text tells from others.
pub(super) fn claimable(dialect: Dialect) -> String {
    guarded(dialect, &guard::CLAIM, "e") + " AND e.fence <> 9223372036854775807"
}

/// The executions of claims `w`, whose schedules' columns are those of `schedule`; their source follows.
fn insert_of(schedule: &str) -> String {
    format!(
        "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, due_time, \
         claim_token, fence, node, claimed_time, started_time, prev_fire_time, following_fire_time) \
         SELECT {schedule}.application, {schedule}.id, {schedule}.generation, w.next_fire_time, 1, \
         {CLAIMED_OR_RUNNING}, w.next_fire_time, w.token, {schedule}.fence, w.node, w.claimed, w.started, \
         w.prev_fire_time, w.following FROM "
    )
}

/// Each by its schedule.
pub(super) fn win_planned(session: &mut dyn Session, planned: &[Planned<'_>]) -> Step<Found> {
    in_batches(session, planned, win_batch)
}

/// The same by [`claim_waiting`]. Should it be refused, a row may have been held for too long, in whatever
/// language that is said: the next try is to skip it.
pub(super) fn win_waiting(session: &mut dyn Session, planned: &[Planned<'_>]) -> Step<Found> {
    let won = session.rows(&claim_waiting(&planned_want(planned))).map_err(|fault| match fault.nature {
        Nature::Refused => Fault { nature: Nature::Busy, ..fault },
        _ => fault,
    });
    by_first_column(won?)
}

/// MariaDB's claim of rows that are all free and as they were seen; begins its own transaction. Otherwise it
/// is to be rolled back, and the next try to leave out what is held. The claim brings no rows, so its error
/// leaves nothing half read.
pub(super) fn win_free(session: &mut dyn Session, planned: &[Planned<'_>]) -> Step<Found> {
    let want = planned_want(planned);
    let not_free = || Fault::new(Nature::Conflict, "a row is held by another, or was changed");
    let made = session.execute(&claim_free(&want)).map_err(|fault| match fault.nature {
        Nature::Busy => not_free(),
        _ => fault,
    })?;
    if made < want.len() {
        return Err(not_free());
    }
    let won = just_inserted(session, planned)?;
    if won.len() == want.len() { Ok(won) } else { Err(other_number()) }
}

/// The same of those that are.
pub(super) fn begin_and_win(session: &mut dyn Session, planned: &[Planned<'_>]) -> Step<Found> {
    session.execute(&sql(session.dialect().begin()))?;
    win_planned(session, planned)
}

/// Before a statement of MariaDB that is to wait for no lock.
const NOT_WAITING: &str = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR ";

/// One statement on MariaDB. It changes fewer rows than are wanted only if it inserts nothing.
pub(super) fn claim_free(want: &Want) -> Statement {
    let dialect = Dialect::Mysql;
    let moved = move_cursors(dialect, want);
    let insert = insert_moved(dialect, want);
    let mut claim = sql(format!("BEGIN NOT ATOMIC START TRANSACTION; {NOT_WAITING}"))
        .push(&moved.text)
        .push("; IF ROW_COUNT() = ? THEN ")
        .push(&insert.text)
        .push("; END IF; END");
    claim.binds = [moved.binds, vec![want.len().into()], insert.binds].concat();
    claim
}

fn win_batch(session: &mut dyn Session, planned: &[Planned<'_>]) -> Step<Found> {
    let (dialect, want) = (session.dialect(), planned_want(planned));
    match dialect {
        Dialect::Postgres => by_first_column(session.rows(&claim_skipping(&want))?),
        Dialect::Sqlite => {
            let moved = session.rows(&move_cursors(dialect, &want).push(" RETURNING id"))?;
            insert_runs(session, &want.only(&ids(moved)?), planned)
        }
        Dialect::Mysql => {
            let free = ids(session.rows(&lock_free(dialect, &want))?)?;
            let moved = if free.is_empty() { free } else { move_free(session, &want, &free)? };
            insert_runs(session, &want.only(&moved), planned)
        }
    }
}

pub(super) fn lock_free(dialect: Dialect, want: &Want) -> Statement {
    let (condition, skipping) = (claimable(dialect), dialect.lock_free("e"));
    sql("SELECT e.id FROM ")
        .want(dialect, &want.of(LOCKED))
        .push(&format!(" {} QRTZ_EXECUTE e ON {condition}{skipping}", join(dialect)))
}

/// Moves the cursors of these schedules, whose rows are locked, and gives those that it moved. InnoDB locks
/// places in an index too: a row that is free cannot be moved to one that somebody else holds. Those are found
/// by halves, without waiting: they must not keep the others from being claimed.
fn move_free(session: &mut dyn Session, want: &Want, schedules: &[i64]) -> Step<Vec<i64>> {
    let moves = move_cursors(Dialect::Mysql, &want.clone().only(schedules));
    let text = format!("{NOT_WAITING}{}", moves.text);
    match session.execute(&Statement { text, ..moves }) {
        Ok(moved) if moved == schedules.len() => Ok(schedules.to_vec()),
        Ok(_) => Err(Fault::new(Nature::Conflict, "an UPDATE of locked rows changed another number of rows")),
        // Only the statement is rolled back then, unless the server was told otherwise.
        Err(fault) if fault.nature == Nature::Busy && is_in_transaction(session)? => match schedules {
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

fn is_in_transaction(session: &mut dyn Session) -> Step<bool> {
    Ok(single(session.rows(&sql("SELECT @@in_transaction AS held"))?)? == 1)
}

pub(super) fn move_cursors(dialect: Dialect, want: &Want) -> Statement {
    update(dialect, ("QRTZ_EXECUTE", "e"), MOVE, &want.of(MOVED), &claimable(dialect))
}

/// Inserts an execution for each row of `want`, whose cursor has been moved by this transaction.
fn insert_runs(session: &mut dyn Session, want: &Want, planned: &[Planned<'_>]) -> Step<Found> {
    if want.len() == 0 {
        return Ok(Found::default());
    }
    let dialect = session.dialect();
    let insert = insert_moved(dialect, want);
    let inserted = if dialect == Dialect::Mysql {
        // One that made nothing would leave an old id as the last, with all that came since behind it.
        if session.execute(&insert)? != want.len() {
            return Err(other_number());
        }
        just_inserted(session, planned)?
    } else {
        by_first_column(session.rows(&insert.push(" RETURNING execute_id, id, fence"))?)?
    };
    if inserted.len() == want.len() { Ok(inserted) } else { Err(other_number()) }
}

fn insert_moved(dialect: Dialect, want: &Want) -> Statement {
    sql(insert_of("e"))
        .want(dialect, &want.of(INSERTED))
        .push(&format!(" {} QRTZ_EXECUTE e ON e.id = w.id", join(dialect)))
}

fn other_number() -> Fault {
    Fault::new(Nature::Conflict, "an INSERT of executions made another number of rows")
}

/// MariaDB has RETURNING too, but announces its columns only when it executes, which is too late for diesel.
/// What this connection inserted last begins at an id it knows; others' rows may lie between, but they have
/// other tokens.
pub(super) fn just_inserted(session: &mut dyn Session, planned: &[Planned<'_>]) -> Step<Found> {
    let mut found = Found::default();
    for mut row in session.rows(&newest())? {
        let (token, schedule) = (row.loose_text()?, row.int()?);
        let wanted = planned.binary_search_by_key(&schedule, |(_, occurrence)| occurrence.entry.id.0);
        let request = wanted.ok().and_then(|place| planned.get(place)).map(|(request, _)| request);
        if request.is_some_and(|request| Uuid::parse_str(&token) == Ok(request.token.0)) {
            found.insert(schedule, (row.int()?, row.int()?));
        }
    }
    Ok(found)
}

/// From what this connection inserted last on, on MariaDB.
pub(super) fn newest() -> Statement {
    sql("SELECT r.claim_token, r.execute_id, r.id, r.fence FROM QRTZ_RUN r WHERE r.id >= LAST_INSERT_ID()")
}

/// PostgreSQL's claim, a transaction of its own, with which the setting ends. Each row that somebody holds is
/// waited for, but not for long; to lock all rows before they are changed would cost a sixth of the
/// statement.
pub(super) fn claim_waiting(want: &Want) -> Statement {
    sql(format!(
        "WITH patience AS (SELECT set_config('lock_timeout', '{SKIP_RETRY}', true)), \
         moved AS (UPDATE QRTZ_EXECUTE AS e SET {} FROM patience, ",
        assigned("", MOVE)
    ))
    .want(Dialect::Postgres, &want.of(MOVED_AND_INSERTED))
    .push(&guarded_and_inserted())
}

/// PostgreSQL's claim of what nobody holds. The UPDATE repeats the guard: a row may have changed between the
/// statement's snapshot and its lock.
pub(super) fn claim_skipping(want: &Want) -> Statement {
    let free = Dialect::Postgres.lock_free("e");
    sql("WITH locked AS (SELECT w.* FROM ").want(Dialect::Postgres, &want.of(MOVED_AND_INSERTED)).push(
        &format!(
            " JOIN QRTZ_EXECUTE e ON {}{free}), moved AS (UPDATE QRTZ_EXECUTE AS e SET {} FROM locked AS w{}",
            claimable(Dialect::Postgres),
            assigned("", MOVE),
            guarded_and_inserted()
        ),
    )
}

/// The end of PostgreSQL's claim, behind what its UPDATE is from.
fn guarded_and_inserted() -> String {
    format!(
        " WHERE {} RETURNING e.application, e.id, e.generation, w.next_fire_time, w.token, e.fence, w.node, w.claimed, \
         w.started, w.prev_fire_time, w.following), \
         won AS ({} moved AS w RETURNING execute_id, id, fence, application, node), \
         noted AS ({} MIN(id), MAX(id), application, node FROM won GROUP BY application, node) \
         SELECT execute_id, id, fence FROM won",
        claimable(Dialect::Postgres),
        insert_of("w"),
        under_way::NOTE
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::statement::Row;

    /// Refuses whatever it is asked.
    struct Refusing(Nature);

    impl Session for Refusing {
        fn dialect(&self) -> Dialect {
            Dialect::Postgres
        }

        fn rows(&mut self, _: &Statement) -> Step<Vec<Row>> {
            Err(Fault::new(self.0, "nein"))
        }

        fn execute(&mut self, _: &Statement) -> Step<usize> {
            unreachable!("a claim is a question")
        }

        fn each(&mut self, _: &Statement, _: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
            unreachable!("a claim's rows come together")
        }

        fn batch(&mut self, _: &str) -> Step<()> {
            unreachable!("a claim is a question")
        }
    }

    /// Only what changed nothing and may be about a lock is tried again: otherwise a claim would be made
    /// twice, or a row that can never be claimed would be asked for again and again.
    #[test]
    fn a_refusal_that_may_be_about_a_lock_is_one() {
        use Nature::{Busy, Conflict, Duplicate, Lost, ReadOnly, Refused, Undecodable, Unknown};
        for nature in [Busy, Refused, ReadOnly, Conflict, Duplicate, Lost, Nature::Row, Undecodable, Unknown]
        {
            let fault = win_waiting(&mut Refusing(nature), &[]).unwrap_err();
            assert_eq!(fault.nature, if nature == Refused { Busy } else { nature });
        }
    }
}

//! Definitions: making and changing schedules, on our own connections or on a caller's.

use super::entry::{self, Payload, Raw};
use super::fault::{Fault, FaultKind, Step};
use super::node;
use super::session::{Session, Work, now};
use super::statement::{Statement, guarded_by, listed, set_all, single, sql};
use super::{audit, change};
use crate::domain::{Entry, Error, ErrorKind, ScheduleId, ScheduleState, Timestamp, shards};
use crate::store::change::WithdrawChange;
use crate::store::columns::{Cell, Column, Settings, When};
use crate::store::definition::{Edit, PlannedRow, StoredSchedule, WorkedOut};
use crate::store::when::{self, Present};
use crate::store::{Definition, Ensured, Prepared, SeenSchedule, guard};
use crate::trigger::Timing;

/// A database connection of the application's own.
///
/// What a request changes on it, such as an execution that it enqueues, belongs to the transaction open on
/// it: it appears with everything else the transaction does, or not at all. Without an open transaction the
/// request has one of its own. The connection must lead to the database firetime uses, with firetime's tables
/// found without a prefix.
///
/// Implemented for diesel's `SqliteConnection`, `PgConnection` and `MysqlConnection`, and for these in
/// diesel's own pool (`diesel::r2d2`); not for connections of diesel-async or SQLx.
pub trait CallerConnection: joined::Joined {}

pub(super) mod joined {
    use super::{Fault, FaultKind, Step, Work};

    /// Runs statements inside the connection's transaction, under a savepoint.
    pub trait Joined {
        #[doc(hidden)]
        fn joined(&mut self, body: Work<'_>) -> Step<()>;
    }

    /// How a diesel transaction of ours ends early.
    pub(super) enum Abort {
        Fault(Fault),
        Diesel(diesel::result::Error),
    }

    impl Abort {
        /// `commits`: a transaction of our own was to be committed, which it may be although the answer is
        /// lost. Changes under a savepoint wait for the caller's commit instead.
        pub(super) fn fault(self, recognised: fn(diesel::result::Error) -> Fault, commits: bool) -> Fault {
            let fault = match self {
                Self::Fault(fault) => return fault,
                Self::Diesel(error) => recognised(error),
            };
            match commits && !fault.kind.passes() {
                true => Fault { kind: FaultKind::Unknown, ..fault },
                false => fault,
            }
        }
    }

    impl From<diesel::result::Error> for Abort {
        fn from(error: diesel::result::Error) -> Self {
            Self::Diesel(error)
        }
    }
}

macro_rules! caller_connection {
    ($connection:ty, $database:ident, $within:expr) => {
        impl CallerConnection for $connection {}

        impl joined::Joined for $connection {
            fn joined(&mut self, body: Work<'_>) -> Step<()> {
                use diesel::connection::{Connection, TransactionManager};
                use joined::Abort;
                type Manager = <$connection as Connection>::TransactionManager;
                let depth = |session: &mut Self| {
                    let status = Manager::transaction_manager_status_mut(session);
                    status.transaction_depth().ok().flatten().map_or(0, |depth| depth.get())
                };
                let before = depth(self);
                let mut answer = None;
                let ended = Connection::transaction(self, |session: &mut Self| {
                    let done = $within(session, &mut *body);
                    answer = Some(done.clone());
                    done.map_err(Abort::Fault)
                });
                let Err(abort) = ended else { return Ok(()) };
                // diesel still counts a savepoint that it could not release: the caller's rollback would undo
                // that savepoint alone.
                if depth(self) > before {
                    Manager::rollback_transaction(self).ok();
                }
                match answer {
                    // The rollback may fail, too: the transaction is gone.
                    Some(Err(fault)) => Err(fault),
                    done => Err(abort.fault(super::$database::faults::fault, done.is_some() && before == 0)),
                }
            }
        }
    };
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn within(session: &mut dyn Session, work: Work<'_>) -> Step<()> {
    work(session)
}

#[cfg(feature = "sqlite")]
caller_connection!(diesel::SqliteConnection, sqlite, within);
#[cfg(feature = "postgres")]
caller_connection!(diesel::PgConnection, postgres, within);
#[cfg(feature = "mysql")]
caller_connection!(diesel::MysqlConnection, mariadb, super::mariadb::galera::within);

type Pooled<C> = diesel::r2d2::PooledConnection<diesel::r2d2::ConnectionManager<C>>;

impl<C: CallerConnection + diesel::r2d2::R2D2Connection + 'static> CallerConnection for Pooled<C> {}

impl<C: joined::Joined + diesel::r2d2::R2D2Connection + 'static> joined::Joined for Pooled<C> {
    fn joined(&mut self, body: Work<'_>) -> Step<()> {
        (**self).joined(body)
    }
}

/// What a caller is told of a fault in a transaction of theirs. A deadlock has rolled all of it back: the
/// request alone, made again, would be committed without what came before it.
pub(super) fn told(fault: Fault) -> Error {
    let (kind, follows) = match fault.kind {
        FaultKind::Conflict | FaultKind::Deadlock | FaultKind::Ended => {
            (ErrorKind::Conflict, "a row has changed since your transaction began; roll back and try again")
        }
        kind => (kind.error_kind(), kind.follows()),
    };
    fault.error(kind, &format!("in your transaction: {follows}"))
}

/// Makes and reads what a caller's transaction is spared or cannot see.
pub(super) fn prepare(session: &mut dyn Session, definition: &Definition) -> Step<Prepared> {
    definition.check().map_err(|problem| refused(definition, FaultKind::Senseless, &problem))?;
    let now = now(session)?;
    let job = node::job(session, &definition.application, &definition.job, now)?;
    let fence_from = node::fence_mark(session, &definition.application)?;
    Ok(Prepared { job, fence_from })
}

pub(super) fn ensure(
    session: &mut dyn Session,
    definition: &Definition,
    prepared: Option<Prepared>,
) -> Step<Ensured> {
    ensured(session, definition, prepared).map_err(|fault| match fault.kind.is_busy() {
        true => fault.with(&format!(
            "another transaction that has not ended holds the row of schedule {:?}, \
             or of job {:?} if that is new",
            definition.name, definition.job.name
        )),
        false => fault,
    })
}

fn ensured(session: &mut dyn Session, definition: &Definition, prepared: Option<Prepared>) -> Step<Ensured> {
    let senseless = |problem: String| refused(definition, FaultKind::Senseless, &problem);
    definition.check().map_err(senseless)?;
    let now = now(session)?;
    let timing = definition.timing(now).map_err(|error| senseless(error.to_string()))?;
    let when = when::storable(&timing, now).map_err(senseless)?;
    let present = present(session, definition, &timing, now)?;
    let wanted = WorkedOut { definition, timing, when, present };
    if let Some((row, stored)) = load(session, definition, "")? {
        return change(session, &wanted, prepared, &row, &stored);
    }
    if create(session, &wanted, prepared)? {
        audit::record(session, &wanted.creation())?;
        return Ok(Ensured::Created);
    }
    // Another made it first. A snapshot of the caller's may be older: only a locking read sees the row then.
    let lock = session.dialect().lock("e");
    let deleted = format!("schedule {:?} was deleted meanwhile", definition.name);
    let found = load(session, definition, &lock)?;
    let (row, stored) = found.ok_or_else(|| Fault::new(FaultKind::Conflict, deleted))?;
    change(session, &wanted, prepared, &row, &stored)
}

/// Only a one-shot in the past asks for more than the time.
fn present(
    session: &mut dyn Session,
    definition: &Definition,
    timing: &Timing,
    now: Timestamp,
) -> Step<Present> {
    if !when::is_past_one_shot(timing, now) {
        return Ok(Present::at(now));
    }
    let mark = sql("SELECT COALESCE(MAX(ledger_from), -1) FROM QRTZ_APP WHERE application = ?");
    let ledger_from = Timestamp::at(single(session.rows(&mark.bind(definition.application.as_str()))?)?);
    Ok(Present { now, ledger_from })
}

fn refused(definition: &Definition, kind: FaultKind, problem: &str) -> Fault {
    Fault::new(kind, format!("schedule {:?}: {problem}", definition.name))
}

/// The columns that an edit's guard compares, as they are.
struct Guarded {
    id: i64,
    prev: Cell,
    next: Cell,
}

fn load(
    session: &mut dyn Session,
    definition: &Definition,
    lock: &str,
) -> Step<Option<(Guarded, StoredSchedule)>> {
    let question = sql(format!(
        "SELECT id, prev_fire_time, next_fire_time, version, generation, state, {}, {} FROM QRTZ_EXECUTE e \
         WHERE application = ? AND name = ?{lock}",
        listed("", Settings::COLUMNS),
        listed("", When::COLUMNS)
    ));
    let question = question.bind(definition.application.as_str()).bind(definition.name.as_str());
    let Some(mut row) = session.rows(&question)?.pop() else { return Ok(None) };
    let guarded = Guarded { id: row.int()?, prev: row.next()?, next: row.next()? };
    let time = |cell: &Cell| if let Cell::Int(time) = cell { Some(Timestamp::at(*time)) } else { None };
    let (prev, next) = (time(&guarded.prev), time(&guarded.next));
    let (version, generation, state) = (row.loose_int()?, row.loose_int()?, row.loose_text()?);
    let settings = Settings::read(|| row.next())?;
    let when = When::read(|| row.next())?;
    Ok(Some((guarded, StoredSchedule { state, version, generation, prev, next, settings, when })))
}

/// Inserts the row unless there is one; whether it did. On MariaDB an INSERT that fails leaves the
/// transaction as it was.
fn create(session: &mut dyn Session, wanted: &WorkedOut<'_>, prepared: Option<Prepared>) -> Step<bool> {
    let insert = insert(session, wanted, prepared)?;
    if session.dialect().counts_rows_left_alone() {
        return match session.execute(&insert) {
            Err(fault) if fault.kind == FaultKind::Duplicate => Ok(false),
            ended => ended.map(|_| true),
        };
    }
    Ok(session.execute(&insert.push(&session.dialect().or_leave("QRTZ_EXECUTE", "name")))? == 1)
}

fn insert(session: &mut dyn Session, wanted: &WorkedOut<'_>, prepared: Option<Prepared>) -> Step<Statement> {
    let definition = wanted.definition;
    let planned = wanted.created().map_err(|problem| refused(definition, FaultKind::Senseless, &problem))?;
    let job = job(session, wanted, prepared)?;
    // The caller's snapshot may be older than the mark, and the prepared mark than the row's removal.
    let outside = prepared.map_or(0, |prepared| prepared.fence_from);
    let fence = outside.max(node::fence_mark(session, &definition.application)?);
    let cells = [definition.settings(job).cells(), wanted.when.cells()].concat();
    let insert = sql(format!(
        "INSERT INTO QRTZ_EXECUTE (application, name, shard, state, prev_fire_time, next_fire_time, fence, {}, {}) \
         VALUES (?, ?, ?, ?, ?, ?, ?{})",
        listed("", Settings::COLUMNS),
        listed("", When::COLUMNS),
        ", ?".repeat(cells.len())
    ));
    let insert = insert
        .bind(definition.application.as_str())
        .bind(definition.name.as_str())
        .bind(shards::of(&definition.name))
        .bind(planned.state)
        .bind(planned.cursor.prev)
        .bind(planned.cursor.next)
        .bind(fence);
    Ok(cells.into_iter().fold(insert, Statement::bind))
}

/// The job's row, made if it is missing.
fn job(session: &mut dyn Session, wanted: &WorkedOut<'_>, prepared: Option<Prepared>) -> Step<i64> {
    match prepared {
        Some(prepared) => Ok(prepared.job),
        None => {
            let WorkedOut { definition, present, .. } = wanted;
            node::job(session, &definition.application, &definition.job, present.now)
        }
    }
}

fn change(
    session: &mut dyn Session,
    wanted: &WorkedOut<'_>,
    prepared: Option<Prepared>,
    row: &Guarded,
    stored: &StoredSchedule,
) -> Step<Ensured> {
    let definition = wanted.definition;
    let is_removed = stored.is_removed();
    if is_removed {
        wanted.created().map_err(|problem| refused(definition, FaultKind::Senseless, &problem))?;
    }
    let job = job(session, wanted, prepared)?;
    let settings = definition.settings(job);
    let (edit, ensured) = wanted.edit(stored, &settings).map_err(|problem| {
        refused(definition, FaultKind::Undecodable, &format!("{problem}: mend the row by hand"))
    })?;
    let update =
        set_all(sql("UPDATE QRTZ_EXECUTE SET version = version + 1"), Settings::COLUMNS, settings.cells());
    let is_broken = stored.state == ScheduleState::Error.as_str();
    let (update, guard) = match edit {
        Edit::None => return Ok(ensured),
        Edit::Settings => (update, &guard::EDIT),
        // Nothing moves the cursor of a broken or removed row, which may be NULL and equal nothing.
        Edit::Retime(planned) if is_broken || is_removed => {
            let update = update.push(", reason = '', shard = ?").bind(shards::of(&definition.name));
            (retimed(update, &wanted.when, planned), &guard::EDIT)
        }
        Edit::Retime(planned) => (retimed(update, &wanted.when, planned), &guard::RETIME),
    };
    let update = guarded_by(update, guard, |statement, column| match column {
        Column::Id => statement.equals(column, row.id),
        Column::State => statement.equals(column, stored.state.as_str()),
        Column::PrevFireTime => statement.equals(column, row.prev.clone()),
        Column::NextFireTime => statement.equals(column, row.next.clone()),
        Column::Version => statement.equals(column, stored.version),
        _ => column.absent(statement),
    });
    if session.execute(&update)? == 1 {
        if is_removed {
            // Handed back since the removal.
            let (application, now) = (definition.application.clone(), wanted.present.now);
            change::withdraw(session, WithdrawChange { application, schedule: ScheduleId(row.id), now })?;
        }
        audit::record(session, &wanted.difference(stored, &settings))?;
        Ok(ensured)
    } else {
        let problem = format!("schedule {:?} was changed or claimed meanwhile", definition.name);
        Err(Fault::new(FaultKind::Conflict, problem))
    }
}

/// Another trigger begins a generation of its own.
fn retimed(update: Statement, when: &When, planned: PlannedRow) -> Statement {
    set_all(update, When::COLUMNS, when.cells())
        .push(", generation = generation + 1, prev_fire_time = ?, next_fire_time = ?, state = ?")
        .bind(planned.cursor.prev)
        .bind(planned.cursor.next)
        .bind(planned.state)
}

/// A schedule's row, whether or not it can be understood.
pub(super) fn seen(session: &mut dyn Session, application: &str, name: &str) -> Step<Option<SeenSchedule>> {
    seen_by(session, application, name, "")
}

/// With its row locked until the transaction ends.
pub(super) fn seen_locked(
    session: &mut dyn Session,
    application: &str,
    name: &str,
) -> Step<Option<SeenSchedule>> {
    let lock = session.dialect().lock("e");
    seen_by(session, application, name, &lock)
}

fn seen_by(
    session: &mut dyn Session,
    application: &str,
    name: &str,
    lock: &str,
) -> Step<Option<SeenSchedule>> {
    let question =
        "SELECT e.id, e.version, e.state FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.name = ?";
    let question = sql(format!("{question}{lock}"));
    let Some(mut row) = session.rows(&question.bind(application).bind(name))?.pop() else { return Ok(None) };
    let (id, version, state) = (ScheduleId(row.int()?), row.loose_int()?, row.loose_text()?);
    Ok(Some(SeenSchedule { id, version, state }))
}

pub(super) fn find(session: &mut dyn Session, application: &str, name: &str) -> Step<Option<Entry>> {
    find_by(session, application, name, "")
}

/// With its row locked until the transaction ends.
pub(super) fn find_locked(session: &mut dyn Session, application: &str, name: &str) -> Step<Option<Entry>> {
    let lock = session.dialect().lock("e");
    find_by(session, application, name, &lock)
}

fn find_by(session: &mut dyn Session, application: &str, name: &str, lock: &str) -> Step<Option<Entry>> {
    let question = sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
         WHERE e.application = ? AND e.name = ?{lock}",
        entry::columns(Payload::Whole)
    ));
    let Some(mut row) = session.rows(&question.bind(application).bind(name))?.pop() else { return Ok(None) };
    let unreadable = |reason| Fault::undecodable(format!("schedule {name:?} of {application:?}: {reason}"));
    Raw::read(&mut row)?.understand().map(Some).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use diesel::result::Error as DieselError;

    use super::joined::Abort;
    use super::*;

    /// The kind of the error that a caller is told of, whose savepoint or transaction ended with this.
    fn kind(recognised: fn(DieselError) -> Fault, is_own: bool) -> ErrorKind {
        let told = told(Abort::Diesel(DieselError::RollbackTransaction).fault(recognised, is_own));
        let cause = std::error::Error::source(&told).and_then(|cause| cause.downcast_ref());
        assert_eq!(cause, Some(&DieselError::RollbackTransaction));
        told.kind()
    }

    #[test]
    fn only_a_commit_of_our_own_leaves_open_what_was_done() {
        let lost = |error| Fault::caused(FaultKind::Lost, error);
        assert_eq!((kind(lost, true), kind(lost, false)), (ErrorKind::Unknown, ErrorKind::Unavailable));
    }

    /// A transaction that is gone is not rolled back once more.
    #[cfg(feature = "sqlite")]
    #[test]
    fn a_refusal_is_told_although_the_rollback_fails() {
        use diesel::Connection;
        let mut connection = diesel::SqliteConnection::establish(":memory:").unwrap();
        let ended = joined::Joined::joined(&mut connection, &mut |session| {
            session.batch("ROLLBACK")?;
            Err(Fault::new(FaultKind::Conflict, "it is gone"))
        });
        assert_eq!(ended.unwrap_err().kind, FaultKind::Conflict);
    }

    /// The retry would have been one savepoint too deep, in no transaction: stored statement by statement.
    #[cfg(feature = "sqlite")]
    #[test]
    fn a_savepoint_that_cannot_be_released_leaves_the_caller_where_they_were() {
        use diesel::Connection;
        use diesel::connection::{AnsiTransactionManager, TransactionManager};
        let mut connection = diesel::SqliteConnection::establish(":memory:").unwrap();
        let depth = |connection: &mut diesel::SqliteConnection| {
            let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
            status.transaction_depth().unwrap().map_or(0, |depth| depth.get())
        };
        let ended = connection.transaction(|connection| {
            let mut release = |session: &mut dyn Session| session.batch("RELEASE diesel_savepoint_1");
            joined::Joined::joined(connection, &mut release).unwrap_err();
            assert_eq!(depth(connection), 1);
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert_eq!(ended, Err(diesel::result::Error::RollbackTransaction));
        assert_eq!(depth(&mut connection), 0);
    }

    #[test]
    fn a_callers_transaction_that_a_deadlock_ended_is_to_be_made_again() {
        for is_own in [true, false] {
            assert_eq!(kind(|it| Fault::caused(FaultKind::Deadlock, it), is_own), ErrorKind::Conflict);
        }
        assert_eq!(kind(|it| Fault::caused(FaultKind::Busy, it), false), ErrorKind::Unavailable);
    }
}

//! Definitions: making and changing schedules.

use super::{audit, change, named, node, triggers};
use crate::domain::{Entry, JobId, ScheduleId, ScheduleState, Timestamp, shards};
use crate::store::columns::{Cell, Column, NONE, Ownership, Settings, When};
use crate::store::definition::{Becomes, Edit, PlannedRow, StoredSchedule, WorkedOut};
use crate::store::sql::rows::entry::{Payload, Raw};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{
    Row, Statement, answer, guarded_by, listed, set_all, single, sql,
};
use crate::store::sql::session::{Session, now};
use crate::store::when::{self, Present};
use crate::store::{Definition, Ensured, Prepared, SeenSchedule, guard};
use crate::trigger::Timing;

/// Makes and reads what a caller's transaction is spared or cannot see.
pub(crate) fn prepare(session: &mut dyn Session, definition: &Definition) -> Step<Prepared> {
    definition.check().map_err(|problem| refused(definition, FaultKind::Senseless, &problem))?;
    let now = now(session)?;
    let job = node::job(session, &definition.application, &definition.job, now)?;
    let fence_from = node::fence_mark(session, &definition.application)?;
    let seen = seen(session, &definition.application, &definition.name, "")?;
    let waiting = match seen.filter(|seen| seen.state == ScheduleState::Removed.stored()) {
        Some(removed) => change::waiting(session, &definition.application, removed.id)?,
        None => Vec::new(),
    };
    Ok(Prepared { job, fence_from, waiting })
}

pub(crate) fn ensure(
    session: &mut dyn Session,
    definition: &Definition,
    prepared: Option<&Prepared>,
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

fn ensured(session: &mut dyn Session, definition: &Definition, prepared: Option<&Prepared>) -> Step<Ensured> {
    let senseless = |problem: String| refused(definition, FaultKind::Senseless, &problem);
    definition.check().map_err(senseless)?;
    let now = now(session)?;
    let timing = definition.timing(now).map_err(|error| senseless(error.to_string()))?;
    let when = when::storable(&timing, now).map_err(senseless)?;
    let present = present(session, definition, &timing, now)?;
    let wanted = WorkedOut { definition, timing, when, present };
    let lock = session.dialect().lock("e");
    // A snapshot of the caller's may be older than the row.
    let seen = load(session, definition, if prepared.is_some() { &lock } else { "" })?;
    if let Some(row) = seen {
        return change(session, &wanted, prepared, &row);
    }
    if !definition.only_if.admits(None) {
        return Ok(Ensured::Differs);
    }
    if create(session, &wanted, prepared)? {
        return Ok(Ensured::Created);
    }
    // Another made it first, perhaps since the caller's snapshot.
    let made = format!("schedule {:?} was made or deleted meanwhile", definition.name);
    let found = load(session, definition, &lock)?;
    let row = found.ok_or_else(|| Fault::new(FaultKind::Conflict, made))?;
    change(session, &wanted, prepared, &row)
}

/// Only a one-shot in the past asks for more than the time.
pub(super) fn present(
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

pub(super) fn refused(definition: &Definition, kind: FaultKind, problem: &str) -> Fault {
    Fault::new(kind, format!("schedule {:?}: {problem}", definition.name))
}

answer! {
    /// A schedule's row; its cursor as it is, for the guard of an edit.
    pub(super) struct Loaded() {
        pub(super) id: i64 = "id", Row::int;
        prev: Cell = "prev_fire_time", Row::next;
        next: Cell = "next_fire_time", Row::next;
        version: i64 = "version", Row::loose_int;
        generation: i64 = "generation", Row::loose_int;
        state: String = "state", Row::loose_text;
        settings: Settings = listed("", Settings::COLUMNS), |row| Settings::read(|| row.next());
        when: When = listed("", When::COLUMNS), |row| When::read(|| row.next());
        ownership: Ownership = listed("", Ownership::COLUMNS), |row| Ownership::read(|| row.next());
    }
}

impl Loaded {
    pub(super) fn job(&self) -> Option<JobId> {
        self.settings.job.map(JobId)
    }

    /// The row as decisions see it.
    pub(super) fn stored(&self) -> StoredSchedule {
        let time = |cell: &Cell| if let Cell::Int(time) = cell { Some(Timestamp::at(*time)) } else { None };
        StoredSchedule {
            state: self.state.clone(),
            version: self.version,
            generation: self.generation,
            prev: time(&self.prev),
            next: time(&self.next),
            settings: self.settings.clone(),
            when: self.when.clone(),
            ownership: self.ownership.clone(),
        }
    }
}

fn load(session: &mut dyn Session, definition: &Definition, lock: &str) -> Step<Option<Loaded>> {
    let name = (&*definition.application, &*definition.name);
    let Some(named) = named::schedule(session, name, lock)? else { return Ok(None) };
    let question = sql(format!("SELECT {} FROM QRTZ_EXECUTE e WHERE ", Loaded::columns()));
    session.one(&question.and(named).push(lock), Loaded::read)
}

/// Makes the row, and records that, unless there is one; whether it did.
pub(super) fn create(
    session: &mut dyn Session,
    wanted: &WorkedOut<'_>,
    prepared: Option<&Prepared>,
) -> Step<bool> {
    let is_made = inserted(session, wanted, prepared)?;
    if is_made {
        let Definition { application, name, .. } = wanted.definition;
        triggers::begin_named(session, (application, name), wanted.present.now)?;
        audit::record(session, &wanted.creation())?;
    }
    Ok(is_made)
}

/// Inserts the row unless there is one; whether it did. On MariaDB an INSERT that fails leaves the
/// transaction as it was.
fn inserted(session: &mut dyn Session, wanted: &WorkedOut<'_>, prepared: Option<&Prepared>) -> Step<bool> {
    let insert = insert(session, wanted, prepared)?;
    if session.dialect().counts_rows_left_alone() {
        return match session.execute(&insert) {
            Err(fault) if fault.kind == FaultKind::Duplicate => Ok(false),
            ended => ended.map(|_| true),
        };
    }
    Ok(session.execute(&insert.push(&session.dialect().or_leave("QRTZ_EXECUTE", "name")))? == 1)
}

fn insert(session: &mut dyn Session, wanted: &WorkedOut<'_>, prepared: Option<&Prepared>) -> Step<Statement> {
    let definition = wanted.definition;
    let planned = wanted.created().map_err(|problem| refused(definition, FaultKind::Senseless, &problem))?;
    let job = job(session, wanted, prepared)?;
    // The caller's snapshot may be older than the mark, and the prepared mark than the row's removal.
    let outside = prepared.map_or(0, |prepared| prepared.fence_from);
    let fence = outside.max(node::fence_mark(session, &definition.application)?);
    let mut columns = [listed("", Settings::COLUMNS), listed("", When::COLUMNS)].join(", ");
    let mut cells = [definition.settings(job).cells(), wanted.when.cells()].concat();
    let ownership = definition.author.ownership();
    if ownership != Ownership::NOBODYS {
        columns = [columns, listed("", Ownership::COLUMNS)].join(", ");
        cells.extend(ownership.cells());
    }
    let insert = sql(format!(
        "INSERT INTO QRTZ_EXECUTE (application, name, shard, state, prev_fire_time, next_fire_time, fence, \
         {columns}) VALUES (?, ?, ?, ?, ?, ?, ?{})",
        ", ?".repeat(cells.len())
    ));
    let insert = insert
        .bind_all((definition.application.as_str(), definition.name.as_str(), shards::of(&definition.name)))
        .bind_all((planned.state, planned.cursor.prev, planned.cursor.next.column(), fence));
    Ok(cells.into_iter().fold(insert, Statement::bind))
}

/// The job's row, made if it is missing.
fn job(session: &mut dyn Session, wanted: &WorkedOut<'_>, prepared: Option<&Prepared>) -> Step<JobId> {
    match prepared {
        Some(prepared) => Ok(prepared.job),
        None => {
            let WorkedOut { definition, present, .. } = wanted;
            node::job(session, &definition.application, &definition.job, present.now)
        }
    }
}

pub(super) fn change(
    session: &mut dyn Session,
    wanted: &WorkedOut<'_>,
    prepared: Option<&Prepared>,
    row: &Loaded,
) -> Step<Ensured> {
    let definition = wanted.definition;
    let (id, stored) = (row.id, &row.stored());
    let is_removed = stored.is_removed();
    if is_removed {
        wanted.created().map_err(|problem| refused(definition, FaultKind::Senseless, &problem))?;
    }
    let job = match definition.only_if.admits(Some(stored)) {
        true => job(session, wanted, prepared)?,
        // The job of what is not changed is not made: without one the rows differ.
        false => node::known_job(session, &definition.application, &definition.job)?.unwrap_or(JobId(NONE)),
    };
    let becomes = wanted.becomes(stored, definition.settings(job));
    let (edit, ensured) = wanted.edit(stored, &becomes).map_err(|problem| {
        refused(definition, FaultKind::Undecodable, &format!("{problem}: mend the row by hand"))
    })?;
    let withdrawal = wanted.withdrawal(ScheduleId(id), stored, &edit);
    let update = sql("UPDATE QRTZ_EXECUTE SET version = version + 1");
    let update = assigned(update, stored, &becomes);
    let is_broken = stored.state == ScheduleState::Error.stored();
    let retimes = matches!(edit, Edit::Retime(_));
    let (update, guard) = match edit {
        Edit::None => return Ok(ensured),
        Edit::Settings => (update, &guard::EDIT),
        // Nothing moves the cursor of a broken or removed row, which may be NULL and equal nothing.
        Edit::Retime(planned) if is_broken || is_removed => {
            let cleared = ", reason = '', paused_by = '', paused_time = -1, paused_until = -1, shard = ?";
            let update = update.push(cleared).bind(shards::of(&definition.name));
            (retimed(update, &wanted.when, planned), &guard::EDIT)
        }
        Edit::Retime(planned) => (retimed(update, &wanted.when, planned), &guard::RETIME),
    };
    let update = guarded_by(update, guard, |statement, column| match column {
        Column::Id => statement.equals(column, id),
        Column::State => statement.equals(column, stored.state.as_str()),
        Column::PrevFireTime => statement.equals(column, row.prev.clone()),
        Column::NextFireTime => statement.equals(column, row.next.clone()),
        Column::Version => statement.equals(column, stored.version),
        _ => column.absent(statement),
    });
    if session.execute(&update)? == 1 {
        if is_removed {
            withdraw(session, wanted, ScheduleId(id), prepared)?;
        }
        if retimes {
            let now = wanted.present.now;
            triggers::end(session, (ScheduleId(id), stored.generation), (&stored.state, stored.prev), now)?;
            triggers::begin(session, ScheduleId(id), now)?;
        }
        audit::record_withdrawing(session, &wanted.difference(stored, &becomes), withdrawal.as_ref())?;
        Ok(ensured)
    } else {
        let problem = format!("schedule {:?} was changed or claimed meanwhile", definition.name);
        Err(Fault::new(FaultKind::Conflict, problem))
    }
}

/// Ends what was handed back since the schedule's removal. A caller's older snapshot may not show all of it:
/// where the database cannot change such a row either, the caller has to begin anew.
fn withdraw(
    session: &mut dyn Session,
    wanted: &WorkedOut<'_>,
    schedule: ScheduleId,
    prepared: Option<&Prepared>,
) -> Step<()> {
    let (definition, now) = (wanted.definition, wanted.present.now);
    let waiting = change::waiting(session, &definition.application, schedule)?;
    change::withdraw(session, &waiting, now)?;
    let mut unseen = prepared.map_or_else(Vec::new, |prepared| prepared.waiting.clone());
    unseen.retain(|execution| !waiting.contains(execution));
    if change::withdraw(session, &unseen, now)? == unseen.len() {
        return Ok(());
    }
    let ended = sql("SELECT COUNT(*) FROM QRTZ_RUN r WHERE r.finished_time <> -1 AND r.id IN ");
    let ended = single(session.rows(&ended.list(unseen.iter().map(|execution| execution.0)))?)?;
    if usize::try_from(ended) == Ok(unseen.len()) {
        return Ok(());
    }
    let problem = format!("executions of schedule {:?} have changed meanwhile", definition.name);
    Err(Fault::new(FaultKind::Conflict, problem))
}

/// Appends what a row's columns become, beside its trigger and its cursor.
fn assigned(update: Statement, stored: &StoredSchedule, becomes: &Becomes) -> Statement {
    let update = set_all(update, Settings::COLUMNS, becomes.settings.cells());
    match stored.ownership == becomes.ownership {
        true => update,
        false => set_all(update, Ownership::COLUMNS, becomes.ownership.cells()),
    }
}

/// Another trigger begins a generation of its own.
fn retimed(update: Statement, when: &When, planned: PlannedRow) -> Statement {
    set_all(update, When::COLUMNS, when.cells())
        .push(", generation = generation + 1, prev_fire_time = ?, next_fire_time = ?, state = ?")
        .bind_all((planned.cursor.prev, planned.cursor.next.column(), planned.state))
}

/// A schedule's row, whether or not it can be understood; its row `e` is locked by these words.
pub(crate) fn seen(
    session: &mut dyn Session,
    application: &str,
    name: &str,
    lock: &str,
) -> Step<Option<SeenSchedule>> {
    let Some(named) = named::schedule(session, (application, name), lock)? else { return Ok(None) };
    let question = sql("SELECT e.id, e.version, e.state, e.next_fire_time FROM QRTZ_EXECUTE e WHERE ");
    session.one(&question.and(named).push(lock), |row| {
        let (id, version, state) = (ScheduleId(row.int()?), row.loose_int()?, row.loose_text()?);
        Ok(SeenSchedule { id, version, state, next: row.time()? })
    })
}

/// A schedule; its row `e` is locked by these words.
pub(crate) fn find(
    session: &mut dyn Session,
    application: &str,
    name: &str,
    lock: &str,
) -> Step<Option<Entry>> {
    let dialect = session.dialect();
    let Some(named) = named::schedule(session, (application, name), lock)? else { return Ok(None) };
    let mut raw_with = |job: &str| {
        let columns = Raw::columns(Payload::Whole);
        let question =
            sql(format!("SELECT {columns} FROM QRTZ_EXECUTE e LEFT JOIN {job} ON j.id = e.pid WHERE "));
        session.one(&question.and(named.clone()).push(lock), Raw::read)
    };
    let raw = match raw_with(&dialect.unlocked("QRTZ_JOB", "j"))? {
        // A job that is younger than a caller's snapshot is seen under a lock alone.
        Some(raw) if raw.lacks_job() && dialect.locks_gaps() => raw_with("QRTZ_JOB AS j")?,
        raw => raw,
    };
    let unreadable = |reason| Fault::undecodable(format!("schedule {name:?} of {application:?}: {reason}"));
    raw.map(Raw::understand).transpose().map_err(unreadable)
}

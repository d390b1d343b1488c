//! Syncs: the schedules of an owner, in one transaction under the row of its revision.

use std::collections::{HashMap, HashSet};

use super::ensure::{self, Loaded};
use super::{node, switch};
use crate::domain::{JobId, JobSpec, ScheduleId, ScheduleState, Timestamp};
use crate::store::columns::NO_TIME;
use crate::store::definition::WorkedOut;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, answer, sql};
use crate::store::sql::session::{Session, now};
use crate::store::sync::{OwnerRow, Problem, SyncAnswer, SyncOrder, SyncRow, SyncedSchedule};
use crate::store::when;
use crate::store::{Change, Definition, Prepared, RemoveChange};

/// What was made and read outside of a caller's transaction, by the schedule's name.
pub(crate) type Outside = HashMap<String, Prepared>;

/// What a sync would come to. It writes nothing.
pub(crate) fn plan(session: &mut dyn Session, order: &SyncOrder) -> Step<SyncAnswer> {
    order.check().map_err(Fault::from)?;
    let known = revision(session, order, "")?;
    let now = now(session)?;
    let wanted = worked_out(session, order, now)?;
    let rows: Vec<SyncRow> = found(session, order)?.iter().map(Found::row).collect();
    Ok(SyncAnswer { known, schedules: order.steps(&wanted, &rows, now)? })
}

/// Makes the owner's schedules be as they are listed. The owner's row comes first, and is written with
/// whatever else is: so syncs of one owner follow each other. Within a caller's transaction `outside` is what
/// was made outside of it.
pub(crate) fn sync(
    session: &mut dyn Session,
    order: &SyncOrder,
    outside: Option<&Outside>,
) -> Step<SyncAnswer> {
    order.check().map_err(Fault::from)?;
    let known = locked_revision(session, order)?;
    if order.is_stale(known) {
        return Ok(SyncAnswer { known, schedules: Vec::new() });
    }
    if outside.is_some() && is_newer(session, order)? {
        let problem = format!("owner {:?} was synced since the caller's transaction began", order.owner);
        return Err(Fault::new(FaultKind::Conflict, problem));
    }
    let now = now(session)?;
    let wanted = worked_out(session, order, now)?;
    // Without a lock: rows that this leaves alone are others' to change. What a caller's older snapshot does
    // not show of them comes behind this sync.
    let mut found = found(session, order)?;
    let made_outside = made_outside(order, outside);
    let steps = |found: &[Found]| {
        let rows: Vec<SyncRow> = found.iter().map(|found| found.row_with(&made_outside)).collect();
        let schedules = order.steps(&wanted, &rows, now)?;
        order.refusal(&schedules)?;
        Ok::<_, Fault>(schedules)
    };
    let mut schedules = steps(&found)?;
    let writes = schedules.iter().any(|schedule| schedule.step.writes());
    if !writes && known == Some(order.revision) {
        return Ok(SyncAnswer { known, schedules });
    }
    note_revision(session, order, known)?;
    let by_name = wanted.iter().map(|wanted| (&*wanted.definition.name, wanted)).collect();
    let sync = Sync { order, now, wanted: by_name, outside };
    let jobs = sync.jobs(session, &schedules, &found)?;
    if session.dialect().has_row_locks() && lock_changed(session, &schedules, &mut found)? {
        schedules = steps(&found)?;
    }
    sync.write(session, &schedules, &found, &jobs)?;
    Ok(SyncAnswer { known, schedules })
}

/// The names of jobs whose rows were made outside: a snapshot of the caller's may not show these.
fn made_outside<'a>(order: &'a SyncOrder, outside: Option<&Outside>) -> HashMap<JobId, &'a str> {
    let made = |definition: &'a Definition| {
        Some((outside?.get(&definition.name)?.job, definition.job.name.as_str()))
    };
    order.definitions.iter().filter_map(made).collect()
}

/// What is known of an owner.
pub(crate) fn owner(session: &mut dyn Session, application: &str, owner: &str) -> Step<Option<OwnerRow>> {
    let columns = OwnerRow::columns();
    let question = format!("SELECT {columns} FROM QRTZ_OWNER o WHERE o.application = ? AND o.owner = ?");
    session.one(&sql(question).bind_all((application, owner)), OwnerRow::read)
}

answer! {
    OwnerRow() {
        owner = "o.owner", Row::loose_text;
        revision = "o.revision", Row::loose_int;
        synced = "o.synced_time", Row::loose_instant;
        actor = "o.actor", Row::loose_text;
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let kind = if problem.is_of_row { FaultKind::Undecodable } else { FaultKind::Senseless };
        Self::new(kind, problem.text)
    }
}

/// The highest revision that is known of the owner; its row is locked by these words.
fn revision(session: &mut dyn Session, order: &SyncOrder, lock: &str) -> Step<Option<i64>> {
    let question = "SELECT o.revision FROM QRTZ_OWNER o WHERE o.application = ? AND o.owner = ?";
    let question = sql(format!("{question}{lock}"));
    session.one(&question.bind_all((order.application.as_str(), order.owner.as_str())), Row::loose_int)
}

/// One that is not there is not locked: on MariaDB that would keep others from making their own beside it.
fn locked_revision(session: &mut dyn Session, order: &SyncOrder) -> Step<Option<i64>> {
    match revision(session, order, "")? {
        None => Ok(None),
        Some(_) => {
            let lock = session.dialect().lock("o");
            revision(session, order, &lock)
        }
    }
}

/// Whether the owner's row, which is locked, is another than a caller's snapshot shows. Whatever else syncs
/// schedules of the owner writes this row, too: if it has not changed, the snapshot shows what they wrote.
fn is_newer(session: &mut dyn Session, order: &SyncOrder) -> Step<bool> {
    let lock = session.dialect().lock_to_see("o");
    if lock.is_empty() {
        return Ok(false);
    }
    let shown = sql("SELECT o.revision, o.touched FROM QRTZ_OWNER o WHERE o.application = ? AND o.owner = ?");
    let shown = shown.bind_all((order.application.as_str(), order.owner.as_str()));
    let read = |row: &mut Row| Ok((row.loose_int()?, row.maybe_int()?));
    let Some(seen) = session.one(&shown, read)? else { return Ok(false) };
    Ok(session.one(&shown.push(&lock), read)? != Some(seen))
}

fn note_revision(session: &mut dyn Session, order: &SyncOrder, known: Option<i64>) -> Step<()> {
    let SyncOrder { application, owner, revision, by, .. } = order;
    let dialect = session.dialect();
    let (clock, touch) = (dialect.clock(), dialect.and_touch());
    let key = (application.as_str(), owner.as_str());
    let written = match known {
        Some(known) => {
            let update = sql(format!(
                "UPDATE QRTZ_OWNER SET revision = ?, synced_time = {clock}, actor = ?{touch} \
                 WHERE application = ? AND owner = ? AND revision = ?"
            ));
            let update = update.bind_all((*revision, by.actor.as_str())).bind_all(key).bind(known);
            session.execute(&update)?
        }
        None => {
            let insert = sql(format!(
                "INSERT INTO QRTZ_OWNER (application, owner, revision, synced_time, actor) \
                 VALUES (?, ?, ?, {clock}, ?)"
            ));
            let insert = insert.bind_all(key).bind_all((*revision, by.actor.as_str()));
            made(session, insert)?
        }
    };
    match written {
        1 => Ok(()),
        _ => Err(Fault::new(FaultKind::Conflict, format!("owner {owner:?} was synced meanwhile"))),
    }
}

/// Inserts an owner's row unless there is one; how many it has inserted.
fn made(session: &mut dyn Session, insert: Statement) -> Step<usize> {
    let dialect = session.dialect();
    if !dialect.counts_rows_left_alone() {
        return session.execute(&insert.push(&dialect.or_leave("QRTZ_OWNER", "owner")));
    }
    match session.execute(&insert) {
        Err(fault) if fault.kind == FaultKind::Duplicate => Ok(0),
        ended => ended,
    }
}

/// The definitions for the present.
fn worked_out<'a>(
    session: &mut dyn Session,
    order: &'a SyncOrder,
    now: Timestamp,
) -> Step<Vec<WorkedOut<'a>>> {
    let mut ledger_from = None;
    let mut all = Vec::with_capacity(order.definitions.len());
    for definition in &order.definitions {
        let senseless = |problem: String| ensure::refused(definition, FaultKind::Senseless, &problem);
        let timing = definition.timing(now).map_err(|error| senseless(error.to_string()))?;
        let when = when::storable(&timing, now).map_err(senseless)?;
        let present = match ledger_from {
            Some(ledger_from) => when::Present { now, ledger_from },
            None => ensure::present(session, definition, &timing, now)?,
        };
        ledger_from = ledger_from.or(Some(present.ledger_from).filter(|mark| *mark != NO_TIME));
        all.push(WorkedOut { definition, timing, when, present });
    }
    Ok(all)
}

answer! {
    /// A row of the owner, or one that the list names.
    struct Found() {
        name: String = "e.name", Row::loose_text;
        job: String = "(SELECT j.job_class FROM QRTZ_JOB j WHERE j.id = e.pid) AS job", Row::loose_text;
        loaded: Loaded = Loaded::columns(), Loaded::read;
    }
}

impl Found {
    /// With the name of its job as it is here, if it is.
    fn row_with(&self, jobs: &HashMap<JobId, &str>) -> SyncRow {
        let job = self.loaded.job().and_then(|id| jobs.get(&id));
        SyncRow { job: job.map_or_else(|| self.job.clone(), |job| (*job).to_owned()), ..self.row() }
    }

    fn row(&self) -> SyncRow {
        SyncRow {
            id: ScheduleId(self.loaded.id),
            name: self.name.clone(),
            job: self.job.clone(),
            stored: self.loaded.stored(),
        }
    }
}

/// The owner's rows, and those of the other names. Mostly the owner has all.
fn found(session: &mut dyn Session, order: &SyncOrder) -> Step<Vec<Found>> {
    let mut found: Vec<Found> = session.all(&owned(&order.application, &order.owner), Found::read)?;
    let known: HashSet<&str> = found.iter().map(|row| &*row.name).collect();
    let names = order.definitions.iter().map(|definition| &*definition.name);
    let others: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
    for names in others.chunks(session.dialect().batch()) {
        let rows: Vec<Found> = session.all(&named(&order.application, names), Found::read)?;
        found.extend(rows);
    }
    Ok(found)
}

/// An owner's schedules that were not removed.
pub(crate) fn owned(application: &str, owner: &str) -> Statement {
    let question = sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.owner = ? \
         AND (e.state IS NULL OR e.state <> '{}')",
        Found::columns(),
        ScheduleState::Removed.stored()
    ));
    question.bind_all((application, owner))
}

/// The schedules of these names.
pub(crate) fn named(application: &str, names: &[&str]) -> Statement {
    let columns = Found::columns();
    let question =
        sql(format!("SELECT {columns} FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.name IN "));
    question.bind(application).list(names.iter().copied())
}

/// Rows by their ids, locked in this order.
pub(crate) fn locked(dialect: Dialect, ids: &[i64]) -> Statement {
    let (columns, table) = (Found::columns(), dialect.by_id("QRTZ_EXECUTE", "e"));
    let question = sql(format!("SELECT {columns} FROM {table} WHERE e.id IN "));
    let order = format!(" {}{}", dialect.in_order("e.id"), dialect.lock("e"));
    question.list(ids.iter().copied()).push(&order)
}

/// Locks the rows that are written, by id, and reads them once more; whether there are any. They stay as they
/// are from then on.
fn lock_changed(session: &mut dyn Session, schedules: &[SyncedSchedule], found: &mut [Found]) -> Step<bool> {
    let dialect = session.dialect();
    let written = schedules.iter().filter(|schedule| schedule.step.writes());
    let written: HashSet<&str> = written.map(|schedule| &*schedule.name).collect();
    let is_written = |row: &&Found| written.contains(&*row.name);
    let mut ids: Vec<i64> = found.iter().filter(is_written).map(|row| row.loaded.id).collect();
    ids.sort_unstable();
    let mut fresh = HashMap::new();
    for ids in ids.chunks(dialect.batch()) {
        let rows: Vec<Found> = session.all(&locked(dialect, ids), Found::read)?;
        fresh.extend(rows.into_iter().map(|row| (row.loaded.id, row)));
    }
    for row in found.iter_mut().filter(|row| ids.binary_search(&row.loaded.id).is_ok()) {
        let gone =
            || Fault::new(FaultKind::Conflict, format!("schedule {:?} was deleted meanwhile", row.name));
        *row = fresh.remove(&row.loaded.id).ok_or_else(gone)?;
    }
    Ok(!ids.is_empty())
}

/// A sync that writes.
struct Sync<'a> {
    order: &'a SyncOrder,
    now: Timestamp,
    wanted: HashMap<&'a str, &'a WorkedOut<'a>>,
    outside: Option<&'a Outside>,
}

impl Sync<'_> {
    /// The jobs of the definitions that are written, by their names; those that are missing are made. A row
    /// that is there mostly knows its own.
    fn jobs(
        &self,
        session: &mut dyn Session,
        schedules: &[SyncedSchedule],
        found: &[Found],
    ) -> Step<HashMap<String, JobId>> {
        let mut jobs: HashMap<String, JobId> = HashMap::new();
        for row in found {
            jobs.extend(row.loaded.job().map(|id| (row.job.clone(), id)));
        }
        let written = schedules.iter().filter(|schedule| schedule.step.writes());
        let written = written.filter(|schedule| self.outside(&schedule.name).is_none());
        let specs = written.filter_map(|schedule| Some(&self.wanted.get(&*schedule.name)?.definition.job));
        let mut missing: Vec<&JobSpec> = specs.filter(|spec| !jobs.contains_key(&spec.name)).collect();
        missing.sort_by(|one, other| one.name.cmp(&other.name));
        missing.dedup_by(|one, other| one.name == other.name);
        for specs in missing.chunks(session.dialect().batch()) {
            let made = node::jobs_there(session, &self.order.application, specs, self.now)?;
            jobs.extend(made.into_iter().map(|(name, (id, _))| (name, id)));
        }
        Ok(jobs)
    }

    /// Changes and removes rows by id, and then makes those that are missing.
    fn write(
        &self,
        session: &mut dyn Session,
        schedules: &[SyncedSchedule],
        found: &[Found],
        jobs: &HashMap<String, JobId>,
    ) -> Step<()> {
        let rows: HashMap<&str, &Found> = found.iter().map(|row| (&*row.name, row)).collect();
        let written = schedules.iter().filter(|schedule| schedule.step.writes());
        let mut written: Vec<(&str, Option<&Found>)> =
            written.map(|schedule| (&*schedule.name, rows.get(&*schedule.name).copied())).collect();
        written.sort_by_key(|(_, row)| row.map_or(i64::MAX, |row| row.loaded.id));
        for (name, row) in written {
            match (self.wanted.get(name), row) {
                (Some(wanted), row) => {
                    let prepared = self.prepared(wanted.definition, jobs)?;
                    put(session, wanted, &prepared, row)?;
                }
                (None, Some(row)) => self.remove(session, row)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn outside(&self, name: &str) -> Option<&Prepared> {
        self.outside.and_then(|outside| outside.get(name))
    }

    fn prepared(&self, definition: &Definition, jobs: &HashMap<String, JobId>) -> Step<Prepared> {
        if let Some(prepared) = self.outside(&definition.name) {
            return Ok(prepared.clone());
        }
        let lacks = || Fault::new(FaultKind::Conflict, format!("job {:?} has changed", definition.job.name));
        let job = jobs.get(&definition.job.name).copied().ok_or_else(lacks)?;
        Ok(Prepared { job, fence_from: 0, waiting: Vec::new() })
    }

    /// The list lacks it.
    fn remove(&self, session: &mut dyn Session, row: &Found) -> Step<()> {
        let SyncOrder { application, by, .. } = self.order;
        let removal = RemoveChange::of(application, row.row().seen(), by, self.now);
        let entry = removal.entry(&row.name, by);
        match switch::apply_audited(session, &Change::Remove(removal), &entry)?.is_done() {
            true => Ok(()),
            false => {
                let problem = format!("schedule {:?} was changed meanwhile", row.name);
                Err(Fault::new(FaultKind::Conflict, problem))
            }
        }
    }
}

/// Changes a row, or makes one.
fn put(
    session: &mut dyn Session,
    wanted: &WorkedOut<'_>,
    prepared: &Prepared,
    row: Option<&Found>,
) -> Step<()> {
    if let Some(row) = row {
        return ensure::change(session, wanted, Some(prepared), &row.loaded).map(drop);
    }
    if ensure::create(session, wanted, Some(prepared))? {
        return Ok(());
    }
    let made = format!("schedule {:?} was made meanwhile", wanted.definition.name);
    Err(Fault::new(FaultKind::Conflict, made))
}

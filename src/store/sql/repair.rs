//! What the misfire handler changes: every step guarded, so that two handlers at once only waste work.

use std::collections::HashSet;

use super::claim::ids;
use super::connection::Dialect;
use super::entry::{Payload, Raw, columns};
use super::poll::{lanes, listed, read_lanes};
use super::session::{Fault, Nature, Session};
use super::statement::{Statement, Value, Want, batch, guarded, join, seek, sql, update};
use crate::domain::{ExecutionState, Millis, ScheduleId, ScheduleState, Token};
use crate::store::guard::{self, Column, Guard};
use crate::store::{Broken, BrokenPage, BrokenQuery, LedgerRow, Reason, Repair, Unstarted, called};
use crate::time::far_election;

/// Appends a guard to a statement: each column compared with what was seen.
pub(super) fn guarded_by(
    mut statement: Statement,
    guard: &Guard,
    seen: impl Fn(Column) -> Value,
) -> Statement {
    for (index, column) in guard.columns().enumerate() {
        let and = if index == 0 { " WHERE " } else { " AND " };
        statement = statement.push(&format!("{and}{} = ?", column.name())).bind(seen(column));
    }
    statement
}

/// As [`is_election_due`](crate::time::is_election_due) says, in one statement.
pub(super) fn elect(
    session: &mut dyn Session,
    application: &str,
    now: Millis,
    interval: Millis,
) -> Result<bool, Fault> {
    // SQLite keeps a text if it is given one: it is larger than any number.
    let update = sql("UPDATE QRTZ_APP SET time_pre = ?, time_next = ?, time_interval = ? \
                      WHERE application = ? AND (time_next IS NULL OR time_next <= ? OR time_next > ?)");
    let update = update.bind(now).bind(now.saturating_add(interval)).bind(interval).bind(application);
    Ok(session.execute(&update.bind(now).bind(far_election(now, interval)))? == 1)
}

/// The repairs of one transaction; whether each was made. Rows are locked in id order, those that others hold
/// left out.
pub(super) fn repair(session: &mut dyn Session, repairs: &[Repair]) -> Result<Vec<bool>, Fault> {
    let mut in_order: Vec<&Repair> = repairs.iter().collect();
    in_order.sort_by_key(|repair| repair.id);
    let mut made = HashSet::new();
    for page in in_order.chunks(batch(session.dialect())) {
        made.extend(move_cursors(session, page)?);
    }
    in_order.retain(|repair| made.contains(&repair.id.0));
    supersede(session, &in_order)?;
    let rows: Vec<Vec<Value>> =
        in_order.iter().flat_map(|repair| repair.rows.iter().map(|row| ledger_row(repair, row))).collect();
    for rows in rows.chunks(batch(session.dialect())) {
        insert_rows(session, rows)?;
    }
    Ok(repairs.iter().map(|repair| made.contains(&repair.id.0)).collect())
}

/// What locking a page of repairs reads.
const LOCKED: &[&str] = &["id", "state", "prev_fire_time", "next_fire_time", "version"];

const MOVE: &[(&str, &str)] = &[
    ("prev_fire_time", "w.to_prev"),
    ("next_fire_time", "w.to_next"),
    ("state", "w.becomes"),
    ("version", "e.version + 1"),
    (
        "time_triggered",
        "CASE WHEN e.time_triggered < 9000000000000000000 THEN e.time_triggered + w.passed \
         ELSE e.time_triggered END",
    ),
    ("reason", "CASE WHEN w.resumes = 1 THEN '' ELSE e.reason END"),
    ("paused_by", "CASE WHEN w.resumes = 1 THEN '' ELSE e.paused_by END"),
    ("paused_time", "CASE WHEN w.resumes = 1 THEN -1 ELSE e.paused_time END"),
    ("paused_until", "CASE WHEN w.resumes = 1 THEN -1 ELSE e.paused_until END"),
];

fn repair_want(page: &[&Repair]) -> Want {
    let becomes = |repair: &Repair| match repair.to.next {
        None => ScheduleState::Complete,
        Some(_) if repair.resume => ScheduleState::Active,
        Some(_) => repair.state,
    };
    let repairs = || page.iter().copied();
    Want::new(repairs().map(|it| it.id.0))
        .alike("state", repairs().map(|it| it.state.as_str()))
        .ints("prev_fire_time", repairs().map(|it| it.cursor.prev.unwrap_or(-1)))
        .ints("next_fire_time", repairs().map(|it| it.cursor.next.unwrap_or(-1)))
        .ints("version", repairs().map(|it| it.version))
        .ints("to_prev", repairs().map(|it| it.to.prev.unwrap_or(-1)))
        .ints("to_next", repairs().map(|it| it.to.next.unwrap_or(-1)))
        .alike("becomes", repairs().map(|it| becomes(it).as_str()))
        .ints("passed", repairs().map(|it| i64::try_from(it.passed).unwrap_or(i64::MAX)))
        .alike("resumes", repairs().map(|it| i64::from(it.resume)))
}

/// The ids of the schedules whose cursors were moved.
fn move_cursors(session: &mut dyn Session, page: &[&Repair]) -> Result<Vec<i64>, Fault> {
    let (dialect, want) = (session.dialect(), repair_want(page));
    let waits = page.iter().any(|repair| repair.waits());
    let free = ids(session.rows(&lock(dialect, &want, waits))?)?;
    let want = want.only(&free);
    if want.len() > 0 && session.execute(&moves(dialect, &want))? != want.len() {
        return Err(Fault::new(Nature::Conflict, "an UPDATE of locked rows changed another number of rows"));
    }
    Ok(free)
}

fn lock(dialect: Dialect, want: &Want, waits: bool) -> Statement {
    let condition = guarded(dialect, &guard::REPAIR, "e");
    let lock = if waits { dialect.lock("e") } else { dialect.lock_free("e") };
    sql("SELECT e.id FROM ")
        .want(dialect, &want.of(LOCKED))
        .push(&format!(" {} QRTZ_EXECUTE e ON {condition}{lock}", join(dialect)))
}

fn moves(dialect: Dialect, want: &Want) -> Statement {
    update(dialect, ("QRTZ_EXECUTE", "e"), MOVE, want, &guarded(dialect, &guard::REPAIR, "e"))
}

/// The unstarted work of earlier misfire repairs gives way to that of these.
fn supersede(session: &mut dyn Session, repairs: &[&Repair]) -> Result<(), Fault> {
    let give_way: Vec<(&Unstarted, Millis)> = repairs
        .iter()
        .flat_map(|repair| repair.supersede.iter().map(|unstarted| (unstarted, repair.now)))
        .collect();
    let dialect = session.dialect();
    for page in give_way.chunks(batch(dialect)) {
        let want = Want::new(page.iter().map(|(it, _)| it.execution.0))
            .same("state", ExecutionState::Pending.as_str())
            .texts("claim_token", page.iter().map(|(it, _)| it.token.to_string()))
            .ints("now", page.iter().map(|(_, now)| *now))
            .same("reason", Reason::Superseded.as_str());
        let sets = [
            ("state", "'SKIPPED'"),
            ("reason", "w.reason"),
            ("finished_time", "w.now"),
            ("claim_token", "''"),
        ];
        let condition = guarded(dialect, &guard::SUPERSEDE, "r");
        session.execute(&update(dialect, ("QRTZ_RUN", "r"), &sets, &want, &condition))?;
    }
    Ok(())
}

const LEDGER: &[&str] = &[
    "id",
    "at",
    "until",
    "occurrences",
    "state",
    "reason",
    "due",
    "token",
    "finished",
    "behind",
    "following",
];

fn insert_rows(session: &mut dyn Session, rows: &[Vec<Value>]) -> Result<(), Fault> {
    let dialect = session.dialect();
    let want = Want::of_rows(LEDGER, rows);
    let insert = sql(
        "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, until_time, \
                      occurrences, attempt, state, reason, due_time, claim_token, finished_time, prev_fire_time, \
                      following_fire_time) \
                      SELECT e.application, e.id, e.generation, w.at, w.until, w.occurrences, 1, w.state, w.reason, \
                      w.due, w.token, w.finished, w.behind, w.following FROM ",
    );
    let insert = insert.want(dialect, &want);
    let inserted = session.execute(&insert.push(&format!(
        " {} QRTZ_EXECUTE e ON {}",
        join(dialect),
        seek(dialect, "e.id", "w.id")
    )))?;
    if inserted == want.len() {
        Ok(())
    } else {
        Err(Fault::undecodable(format!("{inserted} ledger rows were made instead of {}", want.len())))
    }
}

fn ledger_row(repair: &Repair, row: &LedgerRow) -> Vec<Value> {
    let id = repair.id.0;
    match *row {
        LedgerRow::Skipped { from, to, count, prev, following, reason } => vec![
            id.into(),
            from.into(),
            to.into(),
            i64::try_from(count).unwrap_or(i64::MAX).into(),
            ExecutionState::Skipped.as_str().into(),
            reason.as_str().into(),
            from.into(),
            "".into(),
            repair.now.into(),
            prev.into(),
            following.into(),
        ],
        LedgerRow::Pending { at, due, prev, following, reason } => vec![
            id.into(),
            at.into(),
            None.into(),
            1_i64.into(),
            ExecutionState::Pending.as_str().into(),
            reason.as_str().into(),
            due.into(),
            Token::fresh().to_string().into(),
            None.into(),
            prev.into(),
            following.into(),
        ],
    }
}

/// What SQL can tell of a row that cannot be understood. It may name too many: each is tried in full.
const SUSPICIOUS: &str = "(e.state IS NULL OR e.state NOT IN ('EXECUTING', 'PAUSED', 'COMPLETE') \
     OR j.id IS NULL OR e.job_type IS NULL OR e.job_type NOT IN ('CRON', 'SIMPLE') \
     OR e.prev_fire_time IS NULL OR e.next_fire_time IS NULL OR e.start_time IS NULL OR e.end_time IS NULL \
     OR e.prev_fire_time < -1 OR e.next_fire_time < -1 \
     OR e.prev_fire_time BETWEEN 0 AND 99999999999 OR e.next_fire_time BETWEEN 0 AND 99999999999 \
     OR e.end_time BETWEEN 0 AND 99999999999 \
     OR (e.end_time <> -1 AND e.start_time > e.end_time) \
     OR (e.next_fire_time <> -1 AND e.next_fire_time <= e.prev_fire_time) \
     OR (e.next_fire_time = -1 AND e.state <> 'COMPLETE') \
     OR (e.job_type = 'CRON' AND (e.cron IS NULL OR e.zone_id IS NULL)) \
     OR (e.job_type = 'SIMPLE' AND (e.start_time < -1 OR e.repeat_count IS NULL OR e.repeat_count < -1 \
         OR e.repeat_interval IS NULL \
         OR e.repeat_interval < 0 OR (e.repeat_interval = 0 AND e.repeat_count <> 0))) \
     OR e.misfire NOT IN ('FIRE_ONCE', 'DO_NOTHING', 'FIRE_ALL') \
     OR e.version NOT BETWEEN 0 AND 9223372036854775806 OR e.generation NOT BETWEEN 0 AND 9223372036854775806 \
     OR e.fence = 9223372036854775807 OR e.threshold < 0 OR e.priority NOT BETWEEN -2147483648 AND 2147483647 \
     OR e.shard NOT BETWEEN 0 AND 15 OR e.name = '' \
     OR e.dst_gap NOT IN ('FIRE_AFTER', 'SKIP') OR e.dst_overlap NOT IN ('FIRST', 'BOTH')";

/// SQLite keeps text in a BIGINT column if it is given some; no comparison would ever bring such a row.
const SUSPICIOUS_TYPES: &str = " OR typeof(e.prev_fire_time) <> 'integer' OR typeof(e.next_fire_time) <> 'integer' \
     OR typeof(e.version) <> 'integer' OR typeof(e.shard) <> 'integer' OR typeof(e.name) <> 'text'";

/// The most overdue rows looked at in full for each that is asked for.
const LOOKED_AT: usize = 10;

/// Rows of one step that SQL can tell are broken, and overdue ones whose trigger cannot be parsed: a row that
/// no poll can understand stays behind and becomes the most overdue.
pub(super) fn broken(session: &mut dyn Session, query: &BrokenQuery) -> Result<BrokenPage, Fault> {
    let (mut broken, mut next, mut walked) = (Vec::new(), None, 0);
    for mut row in session.rows(&suspects(session.dialect(), query))? {
        let (is_asked_for, end_of_step) = (row.int()? == 1, row.maybe_int()?);
        let raw = Raw::read(&mut row)?;
        walked += 1;
        next = if walked == query.limit { Some(ScheduleId(raw.id)) } else { end_of_step.map(ScheduleId) };
        if is_asked_for {
            broken.extend(as_broken(raw));
        }
    }
    let mut overdue = if query.before == Millis::MIN { Vec::new() } else { overdue(session, query)? };
    overdue.retain(|it: &Broken| broken.iter().all(|walked: &Broken| walked.id != it.id));
    overdue.truncate(query.limit);
    broken.append(&mut overdue);
    Ok(BrokenPage { broken, next })
}

fn as_broken(raw: Raw) -> Option<Broken> {
    let (id, version, state) = (ScheduleId(raw.id), raw.version, raw.state.clone());
    let name = called(&raw.name, id);
    raw.understand().err().map(|reason| Broken { id, name, version, state, reason })
}

/// Of jobs that some live node lists: the rows of others are looked at by the walk alone. Each job and shard
/// has its share, so that the healthy rows of one do not hide what is broken in another.
fn overdue(session: &mut dyn Session, query: &BrokenQuery) -> Result<Vec<Broken>, Fault> {
    let lanes = lanes(&listed(session, &query.application)?, &(query.from..query.before));
    let mut broken = Vec::new();
    let share = (query.limit * LOOKED_AT).div_ceil(lanes.len().max(1));
    read_lanes(session, &query.application, &lanes, share, Payload::None, &mut |_, raw| {
        broken.extend(as_broken(raw))
    })?;
    Ok(broken)
}

/// One statement: the step's last row is always brought, so that the next step's beginning is known.
pub(super) fn suspects(dialect: Dialect, query: &BrokenQuery) -> Statement {
    let types = if dialect == Dialect::Sqlite { SUSPICIOUS_TYPES } else { "" };
    let asked_for = "e.application = ? AND (e.state IS NULL OR e.state NOT IN ('ERROR', 'INIT'))";
    let columns = columns(Payload::None);
    let statement = sql(format!(
        "SELECT CASE WHEN {asked_for} THEN 1 ELSE 0 END AS asked_for, step.ends AS ends, {columns} \
         FROM (SELECT (SELECT id FROM QRTZ_EXECUTE WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?) AS ends) AS step \
         {} QRTZ_EXECUTE e ON e.id > ? AND e.id <= COALESCE(step.ends, 9223372036854775807) \
         LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
         WHERE e.id = step.ends OR ({asked_for} AND {SUSPICIOUS}{types})) ORDER BY e.id LIMIT ?",
        join(dialect)
    ));
    let application = query.application.as_str();
    let walk = statement.bind(application).bind(query.after.0).bind(query.step - 1).bind(query.after.0);
    walk.bind(application).bind(query.limit)
}

/// Guarded by the version and the state it was seen with. A version that is no count begins anew at 0: it
/// could not grow. A state that is none of ours may be anything, NULL and what cannot be read included: it
/// must still be none.
pub(super) fn quarantine(session: &mut dyn Session, broken: &Broken) -> Result<bool, Fault> {
    let version = match session.dialect() {
        Dialect::Sqlite => "(CASE WHEN typeof(version) = 'integer' THEN version ELSE -1 END)",
        _ => "COALESCE(version, -1)",
    };
    let known = ScheduleState::ALL.iter().map(|state| state.as_str());
    let reason: String = broken.reason.chars().filter(|character| *character != '\0').take(500).collect();
    let update = sql(format!(
        "UPDATE QRTZ_EXECUTE SET state = 'ERROR', reason = ?, \
         version = CASE WHEN {version} BETWEEN 0 AND 9223372036854775806 THEN {version} + 1 ELSE 0 END \
         WHERE id = ? AND {version} = ?"
    ));
    let update = update.bind(reason).bind(broken.id.0).bind(broken.version);
    let update = match broken.state.parse::<ScheduleState>() {
        Ok(state) => update.push(" AND state = ?").bind(state.as_str()),
        Err(_) => update.push(" AND COALESCE(state, '') NOT IN ").list(known),
    };
    Ok(session.execute(&update)? == 1)
}

//! Jobs, nodes and applications that somebody pauses, drains or resumes, and pauses that end by themselves.

use super::{audit, change, named, node, withdrawn};
use crate::domain::{JobId, Timestamp};
use crate::store::audit::AuditEntry;
use crate::store::change::PauseEnd;
use crate::store::sql::rows::entry::{Payload, Raw};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, single, sql};
use crate::store::sql::session::{Session, now};
use crate::store::switch::{EndedPause, Scope, SeenSwitch, SwitchChange, SwitchOrder, SwitchRow, Switched};
use crate::store::{Applied, Change, PauseChange};

/// The row is locked, so that nothing else changes it between the decision and its audit.
pub(crate) fn switch(session: &mut dyn Session, order: &SwitchOrder) -> Step<Switched> {
    if let Some(until) = order.verb.until() {
        note_end(session, &order.application, until)?;
    }
    let mut seen = seen(session, order)?;
    if seen.is_none() && order.scope == Scope::Application && make_application(session, &order.application)? {
        seen = self::seen(session, order)?;
    }
    let Some(seen) = seen else { return Ok(Switched::Unknown) };
    let was = seen.switch();
    let now = now(session)?;
    let Some(change) = SwitchChange::of(order, seen.clone(), now) else { return Ok(Switched::Already(was)) };
    let entry = seen.entry(&order.application, order.verb.name(), change.becomes, &order.by);
    if change::apply(session, &[Change::Switch(change)])? != [Applied::Done] {
        return Err(Fault::new(FaultKind::Conflict, "a state that is locked has changed"));
    }
    audit::record(session, &entry)?;
    Ok(Switched::Done)
}

fn seen(session: &mut dyn Session, order: &SwitchOrder) -> Step<Option<SeenSwitch>> {
    let (dialect, application) = (session.dialect(), order.application.as_str());
    let question = match &order.scope {
        Scope::Job(name) => {
            let lock = dialect.lock("j");
            let Some(named) = named::job(session, (application, name), &lock)? else { return Ok(None) };
            sql("SELECT j.id, j.state, j.paused_time FROM QRTZ_JOB j WHERE ").and(named).push(&lock)
        }
        Scope::Node(id) => {
            let question = "SELECT 0 AS id, n.state, n.paused_time FROM QRTZ_NODE n WHERE n.uuid = ?";
            let live = " AND n.application = ? AND n.ended_time = -1";
            sql(format!("{question}{live}{}", dialect.lock("n"))).bind(id.to_string()).bind(application)
        }
        Scope::Application => {
            let question = "SELECT 0 AS id, a.state, a.paused_time FROM QRTZ_APP a WHERE a.application = ?";
            sql(format!("{question}{}", dialect.lock("a"))).bind(application)
        }
    };
    session.one(&question, |row| seen_row(row, &order.scope, application))
}

fn seen_row(row: &mut Row, scope: &Scope, application: &str) -> Step<SeenSwitch> {
    let id = row.int()?;
    let row_of = match scope {
        Scope::Job(name) => SwitchRow::Job(JobId(id), name.clone()),
        Scope::Node(node) => SwitchRow::Node(*node),
        Scope::Application => SwitchRow::Application(application.to_owned()),
    };
    Ok(SeenSwitch { row: row_of, state: row.loose_text()?, since: row.time()? })
}

/// One change and, if it is made, its record. The application's row comes first: rows are locked in that
/// order.
pub(crate) fn apply_audited(session: &mut dyn Session, change: &Change, entry: &AuditEntry) -> Step<Applied> {
    if let Change::Pause(PauseChange { until: Some(until), .. }) = change {
        note_end(session, &entry.application, *until)?;
    }
    let applied = change::apply_all(session, std::slice::from_ref(change))?.pop().unwrap_or(Applied::Lost);
    if applied.is_done() {
        let withdrawal = match change {
            Change::Remove(removal) => withdrawn::by(session, removal)?,
            _ => None,
        };
        audit::record_withdrawing(session, entry, withdrawal.as_ref())?;
    }
    Ok(applied)
}

/// Notes that a pause in the application ends by itself at `until`. The row is written in any case: a
/// transaction that looks for the next end at the same time holds the row, and must see this pause. That is
/// why no guard compares the earlier value, and the table of changes has no entry for it.
fn note_end(session: &mut dyn Session, application: &str, until: Timestamp) -> Step<()> {
    let update = sql(format!(
        "UPDATE QRTZ_APP SET pause_ends = CASE WHEN pause_ends = -1 OR pause_ends > ? THEN ? \
         ELSE pause_ends END{} WHERE application = ?",
        session.dialect().and_touch()
    ));
    let update = update.bind(until).bind(until).bind(application);
    if session.execute(&update)? == 0 && make_application(session, application)? {
        session.execute(&update)?;
    }
    Ok(())
}

/// Makes the row of an application that has had no node yet, if it has a job; whether it was missing. Every
/// schedule and every queue has one.
fn make_application(session: &mut dyn Session, application: &str) -> Step<bool> {
    let jobs = sql("SELECT COUNT(*) FROM QRTZ_JOB j WHERE j.application = ?").bind(application);
    Ok(single(session.rows(&jobs)?)? > 0 && node::app(session, application)?)
}

/// The most ended pauses of schedules brought at once.
const LIMIT: usize = 500;

/// The pauses whose time is up; if there are none, notes the next end.
pub(crate) fn ended(session: &mut dyn Session, application: &str) -> Step<Vec<EndedPause>> {
    let dialect = session.dialect();
    let lock = format!("SELECT a.pause_ends FROM QRTZ_APP a WHERE a.application = ?{}", dialect.lock("a"));
    let mark = session.one(&sql(lock).bind(application), Row::time)?.flatten();
    let now = now(session)?;
    let switches = ending("kind, id, name, state, since", application).push(" WHERE p.until <= ?").bind(now);
    let mut ended: Vec<EndedPause> =
        session.all(&switches, |row| ended_switch(row).map(EndedPause::Switch))?;
    let schedules = sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e {} QRTZ_JOB j ON j.id = e.pid WHERE e.application = ? \
         AND e.state = 'PAUSED' AND e.paused_until <> -1 AND e.paused_until <= ? LIMIT ?",
        Raw::columns(Payload::None),
        dialect.join()
    ));
    let schedules: Vec<Raw> = session.all(&schedules.bind_all((application, now, LIMIT)), Raw::read)?;
    // One that cannot be understood goes into quarantine.
    let understood = schedules.into_iter().filter_map(|raw| raw.understand().ok());
    ended.extend(understood.map(|entry| EndedPause::Schedule(Box::new(entry))));
    if let Some(seen) = mark.filter(|mark| ended.is_empty() && *mark <= now) {
        note_next_end(session, application, seen)?;
    }
    Ok(ended)
}

/// These columns of the jobs, nodes and applications whose pause ends by itself.
fn ending(columns: &str, application: &str) -> Statement {
    sql(format!(
        "SELECT {columns} FROM (SELECT 0 AS kind, j.id, j.job_class AS name, j.state, \
         j.paused_time AS since, j.paused_until AS until FROM QRTZ_JOB j WHERE j.application = ? \
         AND j.paused_until <> -1 UNION ALL SELECT 1, 0, n.uuid, n.state, n.paused_time, n.paused_until \
         FROM QRTZ_NODE n WHERE n.application = ? AND n.ended_time = -1 AND n.paused_until <> -1 \
         UNION ALL SELECT 2, 0, a.application, a.state, a.paused_time, a.paused_until FROM QRTZ_APP a \
         WHERE a.application = ? AND a.paused_until <> -1) AS p"
    ))
    .bind_all((application, application, application))
}

fn ended_switch(row: &mut Row) -> Step<SeenSwitch> {
    let (kind, id, name) = (row.int()?, row.int()?, row.loose_text()?);
    let row_of = match kind {
        0 => SwitchRow::Job(JobId(id), name),
        1 => {
            SwitchRow::Node(name.parse().map_err(|_| Fault::undecodable(format!("node {name:?} has no id")))?)
        }
        _ => SwitchRow::Application(name),
    };
    Ok(SeenSwitch { row: row_of, state: row.loose_text()?, since: row.time()? })
}

/// None of the pauses has ended: polls look again when the first of them does.
fn note_next_end(session: &mut dyn Session, application: &str, seen: Timestamp) -> Step<()> {
    let schedules = sql("SELECT MIN(e.paused_until) AS until FROM QRTZ_EXECUTE e \
                         WHERE e.application = ? AND e.state = 'PAUSED' AND e.paused_until <> -1");
    let mut becomes: Option<Timestamp> = None;
    for question in [schedules.bind(application), ending("MIN(p.until) AS until", application)] {
        let first = session.one(&question, Row::maybe_instant)?.flatten();
        becomes = becomes.into_iter().chain(first).min();
    }
    let end = PauseEnd { application: application.to_owned(), seen, becomes };
    change::make(session, &[Change::PauseEnd(end)]).map(drop)
}

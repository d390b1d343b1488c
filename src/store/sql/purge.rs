//! Retention: what ended long ago leaves the ledger.
//!
//! The schedules are walked by name, and the ledger's unique key finds each one's oldest rows: a schedule
//! with nothing to remove costs one look, whatever the size of the ledger.

use super::session::{Fault, Nature, Session};
use super::statement::{Statement, sql};
use crate::model::Millis;
use crate::store::{Purge, Purged};

/// The most schedules one call looks at.
const PAGE: usize = 1_000;
/// The most schedules whose ledger one call reads.
const READ: usize = 64;

/// Planned occurrences are a chain of their own beside those somebody asked for.
const KINDS: [&str; 2] = ["= 0", "> 0"];

/// An occurrence with all its attempts.
struct Old {
    schedule: i64,
    generation: i64,
    origin: i64,
    scheduled: Millis,
    attempts: usize,
}

pub(super) fn purge(session: &mut dyn Session, purge: &Purge) -> Result<Purged, Fault> {
    let before = super::now(session)?.saturating_sub(purge.keep);
    let page = session.rows(&oldest(purge))?;
    let mut at_end = page.len() < PAGE;
    let (mut next, mut read, mut old) = (purge.after.clone(), 0, Vec::new());
    for mut row in page {
        let (schedule, name, ended) = (row.int()?, row.maybe_text()?, row.maybe_int()?);
        if ended.is_some_and(|ended| (0..before).contains(&ended)) {
            for kind in KINDS {
                old.extend(ended_before(session, schedule, kind, before, purge.limit - old.len())?);
            }
            read += 1;
            if old.len() == purge.limit {
                at_end = false;
                break;
            }
        }
        // A name that cannot be read is no place to go on from.
        next = name.unwrap_or(next);
        if read == READ {
            at_end = false;
            break;
        }
    }
    at_end |= old.is_empty() && next == purge.after;
    if !old.is_empty() {
        remove(session, &purge.application, before, &old)?;
    }
    Ok(Purged { occurrences: old.len(), next: (!at_end).then_some(next) })
}

/// The schedules of a page with the end of their ledgers' first rows.
pub(super) fn oldest(purge: &Purge) -> Statement {
    sql("SELECT e.id, e.name, (SELECT r.finished_time FROM QRTZ_RUN r WHERE r.execute_id = e.id \
         ORDER BY r.generation, r.origin, r.scheduled_time, r.attempt LIMIT 1) AS ended \
         FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.name > ? ORDER BY e.name LIMIT ?")
    .bind(purge.application.as_str())
    .bind(purge.after.as_str())
    .bind(PAGE)
}

/// The first occurrences of a schedule's oldest generation, up to the first that has not ended before.
fn ended_before(
    session: &mut dyn Session,
    schedule: i64,
    kind: &str,
    before: Millis,
    limit: usize,
) -> Result<Vec<Old>, Fault> {
    let mut old = Vec::new();
    for mut row in session.rows(&occurrences(schedule, kind, before, limit))? {
        let (generation, origin, scheduled) = (row.maybe_int()?, row.maybe_int()?, row.maybe_int()?);
        let (attempts, ended) = (usize::try_from(row.int()?).unwrap_or(0), row.maybe_int()?);
        // What cannot be read was written by hand and stays, as does all behind it.
        let (Some(generation), Some(origin), Some(scheduled)) = (generation, origin, scheduled) else {
            break;
        };
        if ended.is_none_or(|ended| ended >= before) {
            break;
        }
        old.push(Old { schedule, generation, origin, scheduled, attempts });
    }
    Ok(old)
}

/// An attempt that has not ended, or nobody knows when, counts as ending at the end of time.
pub(super) fn occurrences(schedule: i64, kind: &str, before: Millis, limit: usize) -> Statement {
    sql(format!(
        "SELECT r.generation, r.origin, r.scheduled_time, COUNT(*) AS attempts, \
         MAX(CASE WHEN r.state IN ('PENDING', 'CLAIMED', 'RUNNING') OR r.finished_time < 0 THEN {} \
         ELSE r.finished_time END) AS ended FROM QRTZ_RUN r WHERE r.execute_id = ? \
         AND r.generation = (SELECT MIN(g.generation) FROM QRTZ_RUN g WHERE g.execute_id = ?) \
         AND r.origin {kind} AND r.scheduled_time < ? GROUP BY r.generation, r.origin, r.scheduled_time \
         ORDER BY r.generation, r.origin, r.scheduled_time LIMIT ?",
        i64::MAX
    ))
    .bind(schedule)
    .bind(schedule)
    .bind(before)
    .bind(limit)
}

/// Moves the mark, then removes exactly the rows that were seen: another handler may be at it too.
fn remove(session: &mut dyn Session, application: &str, before: Millis, old: &[Old]) -> Result<(), Fault> {
    let mark = sql("UPDATE QRTZ_APP SET ledger_from = ? WHERE application = ? AND ledger_from < ?");
    super::node::app(session, application)?;
    session.execute(&mark.bind(before).bind(application).bind(before))?;
    let one_chain = |one: &Old, other: &Old| {
        (one.schedule, one.generation, one.origin) == (other.schedule, other.generation, other.origin)
    };
    for chain in old.chunk_by(one_chain) {
        let (Some(last), attempts) = (chain.last(), chain.iter().map(|old| old.attempts).sum::<usize>())
        else {
            continue;
        };
        if session.execute(&delete(last))? != attempts {
            return Err(Fault::new(Nature::Conflict, "rows to be purged are no longer as they were seen"));
        }
    }
    Ok(())
}

/// Everything of a chain up to an occurrence.
fn delete(last: &Old) -> Statement {
    sql("DELETE FROM QRTZ_RUN WHERE execute_id = ? AND generation = ? AND origin = ? AND scheduled_time <= ?")
        .bind(last.schedule)
        .bind(last.generation)
        .bind(last.origin)
        .bind(last.scheduled)
}

#[cfg(test)]
pub(super) fn delete_for_test(schedule: i64, scheduled: Millis) -> Statement {
    delete(&Old { schedule, generation: 0, origin: 0, scheduled, attempts: 0 })
}

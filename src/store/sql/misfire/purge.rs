//! Retention: executions that ended long ago are removed.
//!
//! The schedules are walked by name, and the ledger's unique key finds each one's oldest rows: a schedule
//! with nothing to remove costs one look, whatever the size of the ledger. A step reads first and then
//! removes all it found by a few statements, each guarded by what was read.

use super::outcomes;
#[cfg(test)]
use crate::domain::ScheduleState;
use crate::domain::Timestamp;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::rows::open_executions::owned_by_none;
use crate::store::sql::session::batch::{BatchRows, delete, guarded};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, answer, sql};
use crate::store::sql::session::{Session, now};
use crate::store::sql::verbs::{audit, node, said, triggers};
use crate::store::when::HIGHEST_FENCE_MARK;
use crate::store::{Purge, Purged, guard};

/// The most schedules one call looks at.
const PAGE: usize = 1_000;
/// The most generations whose ledger one call reads.
const READ: usize = 64;

/// Planned occurrences are a chain of their own beside those somebody asked for.
const KINDS: [&str; 2] = ["= 0", "> 0"];

/// An occurrence with all its attempts.
struct Old {
    schedule: i64,
    generation: i64,
    origin: i64,
    scheduled: Timestamp,
    attempts: usize,
}

answer! {
    /// A schedule of a page, as it was seen.
    struct Seen() {
        id: i64 = "e.id", Row::int;
        name: Option<String> = "e.name", Row::maybe_text;
        /// When its ledger's first row ended, or if that has not, when it was planned.
        ended: Option<Timestamp> = "(SELECT CASE WHEN r.finished_time < 0 THEN r.scheduled_time \
            ELSE r.finished_time END FROM QRTZ_RUN r WHERE r.execute_id = e.id \
            ORDER BY r.generation, r.origin, r.scheduled_time, r.attempt LIMIT 1) AS ended",
            Row::maybe_instant;
        /// A one-shot that has been run, or skipped, long ago, or removed.
        is_over: bool = "CASE WHEN e.state = 'COMPLETE' AND e.job_type = 'SIMPLE' AND e.repeat_count = 0 \
            AND e.repeat_interval = 0 AND e.next_fire_time = -1 AND e.prev_fire_time >= 0 \
            AND e.prev_fire_time < ? THEN 1 WHEN e.state = 'REMOVED' THEN 1 ELSE 0 END AS spent", Row::flag;
        state: String = "e.state", Row::loose_text;
        prev: Timestamp = "e.prev_fire_time", Row::loose_instant;
        next: Timestamp = "e.next_fire_time", Row::loose_instant;
        version: i64 = "e.version", Row::loose_int;
        fence: i64 = "e.fence", |row| Ok(row.loose_int()?.min(HIGHEST_FENCE_MARK));
    }
}

/// What one step found to be removed.
#[derive(Default)]
struct Found {
    old: Vec<Old>,
    /// Schedules that are over, without a ledger.
    spent: Vec<Seen>,
    /// The highest fence of the schedules that are over, whether or not their ledger is gone.
    fence: i64,
    generations: usize,
}

pub(crate) fn purge(session: &mut dyn Session, purge: &Purge) -> Step<Purged> {
    let before = now(session)?.saturating_sub(purge.keep);
    let page = session.rows(&oldest(purge, before))?;
    let mut at_end = page.len() < PAGE;
    let (mut next, mut found) = (purge.after.clone(), Found::default());
    for mut row in page {
        let mut seen = Seen::read(&mut row)?;
        // A name that cannot be read is no place to go on from.
        let name = seen.name.take().unwrap_or_else(|| next.clone());
        if seen.is_over {
            found.fence = found.fence.max(seen.fence);
        }
        if seen.ended.is_some_and(|ended| (Timestamp::EPOCH..before).contains(&ended)) {
            let known = found.old.len();
            let is_whole = found.read(session, seen.id, before, purge.limit)?;
            if found.old.len() == purge.limit || (!is_whole && found.old.len() > known) {
                at_end = false;
                break;
            }
        } else if seen.is_over && seen.ended.is_none() {
            found.spent.push(seen);
        }
        next = name;
        if found.generations >= READ {
            at_end = false;
            break;
        }
    }
    if found.fence > 0 {
        let mark = raise_fence_mark(session, &purge.application, found.fence)?;
        found.spent.retain(|spent| spent.fence <= mark);
    }
    if !found.old.is_empty() || !found.spent.is_empty() {
        move_mark(session, &purge.application, before)?;
    }
    let is_first = purge.after.is_empty();
    let nodes = if is_first { remove_nodes(session, &purge.application, before, purge.limit)? } else { 0 };
    if is_first {
        audit::purge(session, &purge.application, before, purge.limit)?;
        audit::purge_cancels(session, &purge.application, before)?;
        triggers::purge(session, &purge.application, before, purge.limit)?;
        outcomes::purge(session, &purge.application, before)?;
    }
    let schedules = remove(session, &found.spent, delete_spent)?;
    if schedules > 0 {
        triggers::forget(session, found.spent.iter().map(|spent| spent.id))?;
    }
    let occurrences = remove_old(session, &found.old)?;
    said::forget(session, &purge.application, before, 2 * purge.limit)?;
    at_end |= next == purge.after && schedules + occurrences == 0;
    Ok(Purged { nodes, schedules, occurrences, next: (!at_end).then_some(next) })
}

/// The schedules of a page, without queues.
pub(crate) fn oldest(purge: &Purge, before: Timestamp) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.name > ? \
         AND (e.job_type IS NULL OR e.job_type <> 'QUEUE') ORDER BY e.name LIMIT ?",
        Seen::columns()
    ))
    .bind_all((before, purge.application.as_str(), purge.after.as_str(), PAGE))
}

impl Found {
    /// Reads a schedule's generations from the oldest on; whether it came to the last.
    fn read(
        &mut self,
        session: &mut dyn Session,
        schedule: i64,
        before: Timestamp,
        limit: usize,
    ) -> Step<bool> {
        let mut generation = i64::MIN;
        loop {
            let Some((first, last)) = generations(session, schedule, generation)? else { return Ok(true) };
            for kind in KINDS {
                let rest = limit - self.old.len();
                self.old.extend(ended_before(session, schedule, first, kind, before, rest)?);
            }
            self.generations += 1;
            if first == last {
                return Ok(true);
            }
            if self.old.len() == limit || self.generations >= READ {
                return Ok(false);
            }
            generation = first + 1;
        }
    }
}

/// The first and last generation of a schedule's ledger, from one on.
fn generations(session: &mut dyn Session, schedule: i64, from: i64) -> Step<Option<(i64, i64)>> {
    let both =
        session.one(&first_and_last(schedule, from), |row| Ok(row.maybe_int()?.zip(row.maybe_int()?)))?;
    Ok(both.flatten())
}

pub(crate) fn first_and_last(schedule: i64, from: i64) -> Statement {
    sql("SELECT (SELECT MIN(r.generation) FROM QRTZ_RUN r WHERE r.execute_id = ? \
         AND r.generation >= ?) AS first_one, (SELECT MAX(r.generation) FROM QRTZ_RUN r \
         WHERE r.execute_id = ?) AS last_one")
    .bind_all((schedule, from, schedule))
}

/// The first occurrences of a generation, up to the first that has not ended before.
fn ended_before(
    session: &mut dyn Session,
    schedule: i64,
    generation: i64,
    kind: &str,
    before: Timestamp,
    limit: usize,
) -> Step<Vec<Old>> {
    let mut old = Vec::new();
    for mut row in session.rows(&occurrences(schedule, generation, kind, before, limit))? {
        let (origin, scheduled) = (row.maybe_int()?, row.maybe_instant()?);
        let (attempts, ended) = (usize::try_from(row.int()?).unwrap_or(0), row.maybe_instant()?);
        // What cannot be read was written by hand and stays, as does all behind it.
        let (Some(origin), Some(scheduled)) = (origin, scheduled) else { break };
        if ended.is_none_or(|ended| ended >= before) {
            break;
        }
        old.push(Old { schedule, generation, origin, scheduled, attempts });
    }
    Ok(old)
}

/// An attempt that has not ended, or nobody knows when, counts as ending at the end of time.
pub(crate) fn occurrences(
    schedule: i64,
    generation: i64,
    kind: &str,
    before: Timestamp,
    limit: usize,
) -> Statement {
    sql(format!(
        "SELECT r.origin, r.scheduled_time, COUNT(*) AS attempts, \
         MAX(CASE WHEN r.state IN ('PENDING', 'CLAIMED', 'RUNNING') OR r.finished_time < 0 THEN {} \
         ELSE r.finished_time END) AS ended FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? \
         AND r.origin {kind} AND r.scheduled_time < ? GROUP BY r.generation, r.origin, r.scheduled_time \
         ORDER BY r.generation, r.origin, r.scheduled_time LIMIT ?",
        i64::MAX
    ))
    .bind_all((schedule, generation, before, limit))
}

fn move_mark(session: &mut dyn Session, application: &str, before: Timestamp) -> Step<()> {
    let mark = sql("UPDATE QRTZ_APP SET ledger_from = ? WHERE application = ? AND ledger_from < ?");
    node::app(session, application)?;
    session.execute(&mark.bind(before).bind(application).bind(before)).map(drop)
}

/// Raises the mark above which the fences of new schedules begin; answers what it was. Only rows up to the
/// old mark may go: a client that makes a removed name anew may have read the mark before it was raised.
fn raise_fence_mark(session: &mut dyn Session, application: &str, fence: i64) -> Step<i64> {
    let mark = node::fence_mark(session, application)?;
    if mark < fence {
        let raise = sql("UPDATE QRTZ_APP SET fence_from = ? WHERE application = ? AND fence_from < ?");
        session.execute(&raise.bind(fence).bind(application).bind(fence))?;
    }
    Ok(mark)
}

/// Nodes that ended before, but for those that executions under way name; how many.
fn remove_nodes(
    session: &mut dyn Session,
    application: &str,
    before: Timestamp,
    limit: usize,
) -> Step<usize> {
    let dialect = session.dialect();
    let ended = |statement: Statement| {
        let statement = statement.push(" WHERE application = ? AND ended_time >= 0 AND ended_time < ?");
        owned_by_none(dialect, statement.bind(application).bind(before), application)
    };
    let question = ended(sql("SELECT uuid FROM QRTZ_NODE")).push(" LIMIT ?").bind(limit);
    let uuids: Vec<Option<String>> = session.all(&question, Row::maybe_text)?;
    let uuids: Vec<String> = uuids.into_iter().flatten().collect();
    remove(session, &uuids, |_, uuids| {
        ended(sql("DELETE FROM QRTZ_NODE")).push(" AND uuid IN ").list(uuids.iter().map(String::as_str))
    })
}

/// Deletes by statements of so many rows each; how many.
pub(crate) fn remove<T>(
    session: &mut dyn Session,
    rows: &[T],
    delete: impl Fn(Dialect, &[T]) -> Statement,
) -> Step<usize> {
    let dialect = session.dialect();
    rows.chunks(dialect.batch()).map(|page| session.execute(&delete(dialect, page))).sum()
}

/// Schedules that are over, are still as they were seen, and have no execution.
fn delete_spent(dialect: Dialect, spent: &[Seen]) -> Statement {
    let want = BatchRows::new(spent.iter().map(|it| it.id))
        .texts("state", spent.iter().map(|it| it.state.clone()))
        .times("prev_fire_time", spent.iter().map(|it| it.prev))
        .times("next_fire_time", spent.iter().map(|it| it.next))
        .ints("version", spent.iter().map(|it| it.version));
    let has_none = "NOT EXISTS (SELECT 1 FROM QRTZ_RUN r WHERE r.execute_id = e.id)";
    let condition = format!("{} AND {has_none}", guarded(dialect, &guard::FORGET, "e"));
    delete(dialect, ("QRTZ_EXECUTE", "e"), &want, &condition)
}

/// Removes exactly the rows that were seen: another handler may be at it too. How many occurrences.
fn remove_old(session: &mut dyn Session, old: &[Old]) -> Step<usize> {
    let one_chain = |one: &Old, other: &Old| {
        (one.schedule, one.generation, one.origin) == (other.schedule, other.generation, other.origin)
    };
    let ends: Vec<&Old> = old.chunk_by(one_chain).filter_map(<[Old]>::last).collect();
    let removed = remove(session, &ends, delete_chains)?;
    if removed != old.iter().map(|old| old.attempts).sum::<usize>() {
        return Err(Fault::new(FaultKind::Conflict, "rows to be purged are no longer as they were seen"));
    }
    Ok(old.len())
}

/// Everything of some chains up to an occurrence of each.
fn delete_chains(dialect: Dialect, ends: &[&Old]) -> Statement {
    let want = BatchRows::new(ends.iter().map(|it| it.schedule))
        .ints("generation", ends.iter().map(|it| it.generation))
        .ints("origin", ends.iter().map(|it| it.origin))
        .times("scheduled", ends.iter().map(|it| it.scheduled));
    let condition = format!(
        "{} AND r.generation = w.generation AND r.origin = w.origin AND r.scheduled_time <= w.scheduled",
        dialect.seek("r.execute_id", "w.id")
    );
    delete(dialect, ("QRTZ_RUN", "r"), &want, &condition)
}

#[cfg(test)]
pub(crate) fn delete_for_test(dialect: Dialect, schedule: i64, scheduled: Timestamp) -> [Statement; 2] {
    let last = Old { schedule, generation: 0, origin: 0, scheduled, attempts: 0 };
    let state = ScheduleState::Complete.stored().to_owned();
    let (name, ended, is_over) = (None, None, true);
    let (prev, next, version, fence) = (scheduled, scheduled, 0, 0);
    let spent = Seen { id: schedule, name, ended, is_over, state, prev, next, version, fence };
    [delete_chains(dialect, &[&last]), delete_spent(dialect, &[spent])]
}

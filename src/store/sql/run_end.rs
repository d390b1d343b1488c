//! The next occurrence of schedules whose next fire time counts from the end of a run.
//!
//! The claim leaves their cursor at [`AWAITED`]. Whatever ends the run plans the next occurrence in its own
//! transaction, with the schedule's row locked before the execution's, as everywhere.

use std::collections::{BTreeSet, HashMap};

use super::batch::BatchRows;
use super::fault::Step;
use super::session::Session;
use super::statement::{Row, ids, sql};
use crate::domain::Millis;
use crate::store::when::NONE;
use crate::store::{Change, ExecutionChange};
use crate::trigger::{AWAITED, Delay};

/// Locks the schedules that these changes may plan. Mostly there are none.
pub(super) fn lock(session: &mut dyn Session, changes: &[Change]) -> Step<()> {
    let planned = changes.iter().filter_map(|change| match change {
        Change::Execution(change) => change.plans.map(|end| end.schedule.0),
        _ => None,
    });
    let schedules: BTreeSet<i64> = planned.collect();
    if schedules.is_empty() || !session.dialect().has_row_locks() {
        return Ok(());
    }
    let lock = session.dialect().lock("e");
    let rows = sql("SELECT e.id FROM QRTZ_EXECUTE e WHERE e.id IN ").list(schedules);
    ids(session.rows(&rows.push(&format!(" ORDER BY e.id{lock}")))?).map(|_| ())
}

/// A run that has ended.
struct Ended {
    execution: i64,
    schedule: i64,
    generation: i64,
    at: Millis,
    delay: Option<Millis>,
    end: Option<Millis>,
}

/// Plans the next occurrence of each schedule whose run has ended with one of these changes: no attempt at the
/// occurrence follows, and it is the one that the schedule waits for.
pub(super) fn plan(session: &mut dyn Session, changes: &[&ExecutionChange]) -> Step<()> {
    let now: HashMap<i64, Millis> = changes.iter().map(|it| (it.execution.0, it.now)).collect();
    let mut planned = BTreeSet::new();
    for some in changes.chunks(session.dialect().batch()) {
        for ended in ended(session, some)? {
            let Some(now) = now.get(&ended.execution).filter(|_| planned.insert(ended.schedule)) else {
                continue;
            };
            move_on(session, &ended, *now)?;
        }
    }
    Ok(())
}

fn ended(session: &mut dyn Session, changes: &[&ExecutionChange]) -> Step<Vec<Ended>> {
    let dialect = session.dialect();
    let want = BatchRows::new(changes.iter().map(|change| change.execution.0));
    let question =
        sql("SELECT r.id, r.execute_id, r.generation, r.scheduled_time, e.repeat_interval, e.end_time FROM ")
            .want(dialect, &want.of(&["id"]))
            .push(&format!(
                " {join} QRTZ_RUN r ON {} AND r.origin = 0 {join} QRTZ_EXECUTE e ON {} \
                 AND e.prev_fire_time = r.scheduled_time AND e.next_fire_time = {AWAITED} \
                 WHERE NOT EXISTS (SELECT 1 FROM QRTZ_RUN h WHERE h.execute_id = r.execute_id \
                 AND h.generation = r.generation AND h.origin = 0 AND h.scheduled_time = r.scheduled_time \
                 AND (h.state IN ('PENDING', 'CLAIMED', 'RUNNING') \
                 OR (h.state = 'TIMED_OUT' AND h.finished_time = -1)))",
                dialect.seek("r.id", "w.id"),
                dialect.seek("e.id", "r.execute_id"),
                join = dialect.join()
            ));
    let read = |mut row: Row| {
        Ok(Ended {
            execution: row.int()?,
            schedule: row.int()?,
            generation: row.int()?,
            at: row.int()?,
            delay: row.maybe_int()?,
            end: row.time()?,
        })
    };
    session.rows(&question)?.into_iter().map(read).collect()
}

/// Moves the cursor, and notes in the ledger where it went.
fn move_on(session: &mut dyn Session, ended: &Ended, now: Millis) -> Step<()> {
    // Without a delay the row cannot be understood, and is for the misfire handler to find.
    let Some(delay) = ended.delay else { return Ok(()) };
    let next = Delay::after_run(delay, ended.end, ended.at, now).unwrap_or(NONE);
    let cursor = sql(format!(
        "UPDATE QRTZ_EXECUTE SET next_fire_time = ?, \
         state = CASE WHEN ? = -1 AND state IN ('EXECUTING', 'PAUSED') THEN 'COMPLETE' ELSE state END \
         WHERE id = ? AND state <> 'REMOVED' AND prev_fire_time = ? AND next_fire_time = {AWAITED}"
    ));
    if session.execute(&cursor.bind(next).bind(next).bind(ended.schedule).bind(ended.at))? == 1 {
        let ledger = sql(format!(
            "UPDATE QRTZ_RUN SET following_fire_time = ? WHERE execute_id = ? AND generation = ? AND origin = 0 \
             AND scheduled_time = ? AND following_fire_time = {AWAITED}"
        ));
        let ledger = ledger.bind(next).bind(ended.schedule).bind(ended.generation).bind(ended.at);
        session.execute(&ledger)?;
    }
    Ok(())
}

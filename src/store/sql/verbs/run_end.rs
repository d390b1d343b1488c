//! The next occurrence of schedules whose next fire time counts from the end of a run.
//!
//! The claim leaves their cursor at [`AWAITED`]. Whatever ends the run plans the next occurrence in its own
//! transaction, with the schedule's row locked before the execution's, as everywhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::domain::{ScheduleId, Timestamp, after_run};
use crate::store::change::AfterRun;
use crate::store::sql::session::batch::{BatchRows, update};
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, answer, sql};
use crate::store::sql::session::{Session, lock_free};
use crate::store::transition::RunEnd;
use crate::store::{Applied, Change, ExecutionChange};
use crate::trigger::AWAITED;

/// Locks the schedules that these changes may plan; gives those that others hold. Mostly there are none.
pub(crate) fn lock(session: &mut dyn Session, changes: &[Change]) -> Step<BTreeSet<i64>> {
    let schedules = changes.iter().filter_map(planned_by).map(|end| end.schedule.0).collect();
    lock_free(session, ("QRTZ_EXECUTE", "e"), schedules)
}

/// What becomes of a change that needs one of these schedules; none if it needs none.
pub(crate) fn held(change: &Change, schedules: &BTreeSet<i64>) -> Option<Applied> {
    let Change::Execution(change) = change else { return None };
    change.ends_run().filter(|end| schedules.contains(&end.schedule.0)).map(|_| Applied::of_held(change))
}

fn planned_by(change: &Change) -> Option<RunEnd> {
    if let Change::Execution(change) = change { change.ends_run() } else { None }
}

/// A run that has ended, and when its schedule fires next.
pub(crate) struct Ended {
    generation: i64,
    pub plan: AfterRun,
}

answer! {
    struct EndedRow() {
        execution: i64 = "r.id", Row::int;
        schedule: i64 = "r.execute_id", Row::int;
        generation: i64 = "r.generation", Row::int;
        at: Timestamp = "r.scheduled_time", Row::instant;
        delay: Option<i64> = "e.repeat_interval", Row::maybe_int;
        window: (Option<Timestamp>, Option<Timestamp>) =
            "e.start_time, e.end_time", |row| Ok((row.time()?, row.time()?));
    }
}

/// The runs that have ended with one of these changes, one for each schedule: no attempt at the occurrence
/// follows, and it is the one that the schedule waits for.
pub(crate) fn ended(session: &mut dyn Session, changes: &[&ExecutionChange]) -> Step<Vec<Ended>> {
    let dialect = session.dialect();
    let now: HashMap<i64, Timestamp> = changes.iter().map(|it| (it.execution.0, it.now)).collect();
    let want = BatchRows::new(changes.iter().map(|change| change.execution.0));
    let question =
        sql(format!("SELECT {} FROM ", EndedRow::columns())).want(dialect, &want.of(&["id"])).push(&format!(
            " {join} QRTZ_RUN r ON {} AND r.origin = 0 {join} QRTZ_EXECUTE e ON {} \
                 AND e.state <> 'REMOVED' AND e.prev_fire_time = r.scheduled_time \
                 AND e.next_fire_time = {AWAITED} \
                 WHERE NOT EXISTS (SELECT 1 FROM QRTZ_RUN h WHERE h.execute_id = r.execute_id \
                 AND h.generation = r.generation AND h.origin = 0 AND h.scheduled_time = r.scheduled_time \
                 AND (h.state IN ('PENDING', 'CLAIMED', 'RUNNING') \
                 OR (h.state = 'TIMED_OUT' AND h.finished_time = -1)))",
            dialect.seek("r.id", "w.id"),
            dialect.seek("e.id", "r.execute_id"),
            join = dialect.join()
        ));
    let mut ended: BTreeMap<i64, Ended> = BTreeMap::new();
    let rows: Vec<EndedRow> = session.all(&question, EndedRow::read)?;
    for EndedRow { execution, schedule, generation, at, delay, window } in rows {
        // Without a delay the row cannot be understood, and is for the misfire handler to find.
        let Some((delay, now)) = delay.zip(now.get(&execution)) else { continue };
        let next = after_run(delay, window, at, *now);
        let plan = AfterRun { schedule: ScheduleId(schedule), at, next };
        ended.insert(schedule, Ended { generation, plan });
    }
    Ok(ended.into_values().collect())
}

/// Records in the ledger, on each attempt at the occurrence, where the cursors of these schedules have gone.
/// Their rows are locked, and attempts are not told apart: the table of changes has no entry for it. Attempts
/// are found without a lock, as in [`waiting`](super::change::waiting).
pub(crate) fn record(session: &mut dyn Session, ended: &[Ended]) -> Step<()> {
    if ended.is_empty() {
        return Ok(());
    }
    let dialect = session.dialect();
    let want = BatchRows::new(ended.iter().map(|it| it.plan.schedule.0))
        .ints("generation", ended.iter().map(|it| it.generation))
        .times("at", ended.iter().map(|it| it.plan.at))
        .times("next", ended.iter().map(|it| it.plan.next));
    let attempts = sql("SELECT r.id, w.next FROM ").want(dialect, &want).push(&format!(
        " {} QRTZ_RUN r ON {} AND r.generation = w.generation AND r.origin = 0 AND r.scheduled_time = w.at",
        dialect.join(),
        dialect.seek("r.execute_id", "w.id")
    ));
    let attempts: Vec<(i64, i64)> = session.all(&attempts, |row| Ok((row.int()?, row.int()?)))?;
    for some in attempts.chunks(dialect.batch()) {
        let want =
            BatchRows::new(some.iter().map(|(id, _)| *id)).ints("next", some.iter().map(|(_, next)| *next));
        let (sets, seek) = ([("following_fire_time", "w.next")], dialect.seek("r.id", "w.id"));
        let awaits = format!("{seek} AND r.following_fire_time = {AWAITED}");
        session.execute(&update(dialect, ("QRTZ_RUN", "r"), &sets, &want, &awaits))?;
    }
    Ok(())
}

//! Occurrences in a row that failed.

use crate::domain::{ExecutionId, ScheduleId, ScheduleState, Timestamp};
use crate::store::columns::NO_TIME;
use crate::store::repairs::called;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, sql};
use crate::store::streak::{AttemptRow, Count, Reach, Streak, StreakQuery, count};
use crate::store::when;

/// The schedule's row is read first: whatever changes it from then on makes its pause lose.
pub(crate) fn streak(session: &mut dyn Session, query: &StreakQuery) -> Step<Option<Streak>> {
    let id = query.schedule;
    let question =
        sql("SELECT e.application, e.name, e.state, e.version, e.generation, e.pause_after, e.resumed_time \
                        FROM QRTZ_EXECUTE e WHERE e.id = ?");
    let Some(mut row) = session.rows(&question.bind(id.0))?.pop() else { return Ok(None) };
    let (application, name, state) = (row.loose_text()?, row.loose_text()?, row.loose_text()?);
    let (version, generation) = (row.maybe_int()?, row.loose_int()?);
    // One that cannot be understood goes into quarantine.
    let (Some(version), Ok(pause_after)) = (version, when::pause_after(row.maybe_int()?)) else {
        return Ok(None);
    };
    let resumed = row.maybe_instant()?;
    if state != ScheduleState::Active.as_str() || pause_after == Some(0) {
        return Ok(None);
    }
    for reach in [query.reach.at_most(Reach::FIRST), query.reach] {
        let rows = session.rows(&attempts(id, generation, resumed.unwrap_or(NO_TIME), reach))?;
        let rows: Vec<AttemptRow> = rows.into_iter().map(attempt).collect::<Step<_>>()?;
        match count(&rows, &query.dying, pause_after) {
            Count::Due(reason) => {
                let name = called(&name, id);
                return Ok(Some(Streak { schedule: id, version, application, name, reason }));
            }
            Count::Open => {}
            Count::Ended => break,
        }
    }
    Ok(None)
}

/// The newest attempts at occurrences that were planned after an instant, but for what was never run. It is a
/// first attempt: of a later one that was skipped the one before it must not become the last.
pub(crate) fn attempts(schedule: ScheduleId, generation: i64, after: Timestamp, reach: Reach) -> Statement {
    sql("SELECT s.id, s.scheduled_time, s.state, s.reason, s.node, s.finished_time, \
         CASE WHEN s.state IN ('RUNNING', 'FAILED', 'TIMED_OUT', 'ABANDONED') \
         AND EXISTS (SELECT 1 FROM QRTZ_CANCEL c WHERE c.execution_id = s.id) THEN 1 ELSE 0 END AS cancelled \
         FROM (SELECT r.id, r.scheduled_time, r.attempt, r.state, r.reason, r.node, r.finished_time \
         FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin = 0 \
         AND r.scheduled_time > ? ORDER BY r.scheduled_time DESC, r.attempt DESC LIMIT ?) s \
         WHERE s.attempt > 1 OR s.state NOT IN ('SKIPPED', 'CANCELLED') \
         ORDER BY s.scheduled_time DESC, s.attempt DESC LIMIT ?")
    .bind_all((schedule.0, generation, after, reach.scanned, reach.rows))
}

fn attempt(mut row: Row) -> Step<AttemptRow> {
    Ok(AttemptRow {
        id: ExecutionId(row.int()?),
        scheduled: row.instant()?,
        state: row.loose_text()?.parse().ok(),
        reason: row.loose_text()?,
        node: row.loose_text()?,
        is_over: row.time()?.is_some(),
        is_cancelled: row.int()? == 1,
    })
}

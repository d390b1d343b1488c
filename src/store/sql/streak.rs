//! Occurrences in a row that failed.

use super::fault::Step;
use super::session::Session;
use super::statement::{Row, Statement, sql};
use crate::domain::{ExecutionId, Millis, ScheduleId, ScheduleState};
use crate::store::called;
use crate::store::streak::{AttemptRow, Count, READS, Streak, StreakQuery, count};
use crate::store::when::{self, NONE};

/// The schedule's row is read first: whatever changes it from then on makes its pause lose.
pub(super) fn streak(session: &mut dyn Session, query: &StreakQuery) -> Step<Option<Streak>> {
    let id = query.schedule;
    let question =
        sql("SELECT e.application, e.name, e.state, e.version, e.generation, e.pause_after, e.resumed_time \
                        FROM QRTZ_EXECUTE e WHERE e.id = ?");
    let Some(mut row) = session.rows(&question.bind(id.0))?.pop() else { return Ok(None) };
    let (application, name, state) = (row.loose_text()?, row.loose_text()?, row.loose_text()?);
    let (version, generation) = (row.loose_int()?, row.loose_int()?);
    // One that cannot be understood goes into quarantine.
    let (Ok(pause_after), resumed) = (when::pause_after(row.maybe_int()?), row.maybe_int()?) else {
        return Ok(None);
    };
    if state != ScheduleState::Active.as_str() || pause_after == Some(0) {
        return Ok(None);
    }
    for most in READS {
        let rows = session.rows(&attempts(id, generation, resumed.unwrap_or(NONE), most))?;
        let rows: Vec<AttemptRow> = rows.into_iter().map(attempt).collect::<Step<_>>()?;
        match count(&rows, &query.dying, pause_after) {
            Count::Due(reason) => {
                let name = called(&name, id);
                return Ok(Some(Streak { schedule: id, version, application, name, reason }));
            }
            Count::Open if rows.len() == most => {}
            Count::Open | Count::Ended => break,
        }
    }
    Ok(None)
}

/// The newest attempts at occurrences that were planned after an instant.
pub(super) fn attempts(schedule: ScheduleId, generation: i64, after: Millis, most: usize) -> Statement {
    sql("SELECT r.id, r.scheduled_time, r.state, r.reason, r.node, r.finished_time, \
         CASE WHEN r.state IN ('FAILED', 'TIMED_OUT', 'ABANDONED') \
         AND EXISTS (SELECT 1 FROM QRTZ_CANCEL c WHERE c.execution_id = r.id) THEN 1 ELSE 0 END AS cancelled \
         FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin = 0 AND r.scheduled_time > ? \
         ORDER BY r.scheduled_time DESC, r.attempt DESC LIMIT ?")
    .bind(schedule.0)
    .bind(generation)
    .bind(after)
    .bind(most)
}

fn attempt(mut row: Row) -> Step<AttemptRow> {
    Ok(AttemptRow {
        id: ExecutionId(row.int()?),
        scheduled: row.loose_int()?,
        state: row.loose_text()?.parse().ok(),
        reason: row.loose_text()?,
        node: row.loose_text()?,
        is_over: row.time()?.is_some(),
        is_cancelled: row.int()? == 1,
    })
}

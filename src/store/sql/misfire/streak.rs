//! Occurrences in a row that failed.

use crate::domain::{ExecutionId, PauseAfter, ScheduleId, ScheduleState, Timestamp};
use crate::store::columns::NO_TIME;
use crate::store::repairs::called;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, sql};
use crate::store::sql::verbs::switch::apply_audited;
use crate::store::streak::{AttemptRow, Count, Reach, Streak, StreakQuery, count};
use crate::store::{Applied, when};

answer! {
    /// What a schedule's row says of its streaks.
    struct Standing() {
        application: String = "e.application", Row::loose_text;
        name: String = "e.name", Row::loose_text;
        state: String = "e.state", Row::loose_text;
        version: Option<i64> = "e.version", Row::maybe_int;
        generation: i64 = "e.generation", Row::loose_int;
        pause_after: Option<i64> = "e.pause_after", Row::maybe_int;
        resumed: Option<Timestamp> = "e.resumed_time", Row::maybe_instant;
    }
}

/// The schedule's row is read first: whatever changes it from then on makes its pause lose.
pub(crate) fn streak(session: &mut dyn Session, query: &StreakQuery) -> Step<Option<Streak>> {
    let id = query.schedule;
    let question = sql(format!("SELECT {} FROM QRTZ_EXECUTE e WHERE e.id = ?", Standing::columns()));
    let Some(standing) = session.one(&question.bind(id.0), Standing::read)? else { return Ok(None) };
    let Standing { application, name, state, version, generation, pause_after, resumed } = standing;
    // One that cannot be understood goes into quarantine.
    let (Some(version), Ok(pause_after)) = (version, when::pause_after(pause_after)) else {
        return Ok(None);
    };
    if state != ScheduleState::Active.stored() || pause_after == PauseAfter::Never {
        return Ok(None);
    }
    for reach in [query.reach.at_most(Reach::FIRST), query.reach] {
        let attempts = attempts(id, generation, resumed.unwrap_or(NO_TIME), reach);
        let rows: Vec<AttemptRow> = session.all(&attempts, AttemptRow::read)?;
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

/// What has succeeded since the first count ends the streak, however long that is ago: the process may have
/// been stopped in between.
pub(crate) fn contain(session: &mut dyn Session, query: &StreakQuery, counted: &Streak) -> Step<Applied> {
    if streak(session, query)?.as_ref() != Some(counted) {
        return Ok(Applied::Lost);
    }
    let (change, audit) = counted.pause();
    apply_audited(session, &change, &audit)
}

/// The newest attempts at occurrences that were planned after an instant, but for what was never run. It is a
/// first attempt: of a later one that was skipped the one before it must not become the last.
pub(crate) fn attempts(schedule: ScheduleId, generation: i64, after: Timestamp, reach: Reach) -> Statement {
    sql(format!(
        "SELECT {} FROM (SELECT r.id, r.scheduled_time, r.attempt, r.state, r.reason, r.node, \
         r.finished_time FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin = 0 \
         AND r.scheduled_time > ? ORDER BY r.scheduled_time DESC, r.attempt DESC LIMIT ?) s \
         WHERE s.attempt > 1 OR s.state NOT IN ('SKIPPED', 'CANCELLED') \
         ORDER BY s.scheduled_time DESC, s.attempt DESC LIMIT ?",
        AttemptRow::columns()
    ))
    .bind_all((schedule.0, generation, after, reach.scanned, reach.rows))
}

answer! {
    AttemptRow() {
        id = "s.id", |row| row.int().map(ExecutionId);
        scheduled = "s.scheduled_time", Row::loose_instant;
        state = "s.state", Row::word;
        reason = "s.reason", Row::loose_text;
        node = "s.node", Row::loose_text;
        is_over = "s.finished_time", |row| Ok(row.time()?.is_some());
        is_cancelled = "CASE WHEN s.state IN ('RUNNING', 'FAILED', 'TIMED_OUT', 'ABANDONED') AND EXISTS \
            (SELECT 1 FROM QRTZ_CANCEL c WHERE c.execution_id = s.id) THEN 1 ELSE 0 END AS cancelled",
            Row::flag;
    }
}

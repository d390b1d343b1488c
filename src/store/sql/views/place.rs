//! Which execution stands for the occurrence that was planned at an instant, and which ran it again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use super::covers::{FIRST_CAUSE, MOST_GENERATIONS, generation_before};
use crate::domain::{ExecutionId, Reason, ScheduleId, Timestamp};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, sql};

answer! {
    struct Place() {
        id: ExecutionId = "r.id", |row| Ok(ExecutionId(row.int()?));
        scheduled: Timestamp = "r.scheduled_time", Row::instant;
        until: Option<Timestamp> = "r.until_time", Row::time;
    }
}

/// Of the newest generation that has one: the last attempt at the occurrence of that fire time, or the row
/// of the skipped or withdrawn span that it lies in.
pub(crate) fn execution_at(
    session: &mut dyn Session,
    schedule: ScheduleId,
    at: Timestamp,
) -> Step<Option<ExecutionId>> {
    in_newest(session, schedule, |session, generation| {
        let place = session.one(&last_through(schedule, generation, at), Place::read)?;
        Ok(place.filter(|it| it.until.unwrap_or(it.scheduled) >= at).map(|it| it.id))
    })
}

/// What is found in the newest generation that has it; the newest ones alone are looked through.
fn in_newest<T>(
    session: &mut dyn Session,
    schedule: ScheduleId,
    look: impl Fn(&mut dyn Session, i64) -> Step<Option<T>>,
) -> Step<Option<T>> {
    let mut next = generation_before(session, schedule, i64::MAX)?;
    for _ in 0..MOST_GENERATIONS {
        let Some(generation) = next else { break };
        if let Some(found) = look(session, generation)? {
            return Ok(Some(found));
        }
        next = generation_before(session, schedule, generation)?;
    }
    Ok(None)
}

/// The first fire times of a span that have rows, in the newest generations.
pub(crate) fn fire_times(
    session: &mut dyn Session,
    schedule: ScheduleId,
    span: &Range<Timestamp>,
    limit: usize,
) -> Step<Vec<Timestamp>> {
    let times = RefCell::new(BTreeSet::new());
    in_newest(session, schedule, |session, generation| -> Step<Option<()>> {
        let page: Vec<Timestamp> =
            session.all(&first_times(schedule, generation, span, limit), Row::instant)?;
        times.borrow_mut().extend(page);
        Ok(None)
    })?;
    Ok(times.into_inner().into_iter().take(limit).collect())
}

pub(crate) fn first_times(
    schedule: ScheduleId,
    generation: i64,
    span: &Range<Timestamp>,
    limit: usize,
) -> Statement {
    sql("SELECT DISTINCT r.scheduled_time FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? \
         AND r.origin = 0 AND r.scheduled_time >= ? AND r.scheduled_time < ? \
         ORDER BY r.scheduled_time LIMIT ?")
    .bind_all((schedule.0, generation, span.start, span.end, limit))
}

pub(crate) fn last_through(schedule: ScheduleId, generation: i64, at: Timestamp) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin = 0 \
         AND r.scheduled_time <= ? \
         ORDER BY r.generation DESC, r.origin DESC, r.scheduled_time DESC, r.attempt DESC LIMIT 1",
        Place::columns()
    ))
    .bind_all((schedule.0, generation, at))
}

/// The last attempt of the last rerun of the occurrence of that fire time.
pub(crate) fn rerun_at(
    session: &mut dyn Session,
    schedule: ScheduleId,
    at: Timestamp,
) -> Step<Option<ExecutionId>> {
    in_newest(session, schedule, |session, generation| {
        session.one(&last_rerun(schedule, generation, at), |row| row.int().map(ExecutionId))
    })
}

pub(crate) fn last_rerun(schedule: ScheduleId, generation: i64, at: Timestamp) -> Statement {
    sql(format!(
        "SELECT r.id FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin > 0 \
         AND r.scheduled_time = ? AND {FIRST_CAUSE} = '{}' \
         ORDER BY r.generation DESC, r.origin DESC, r.scheduled_time DESC, r.attempt DESC LIMIT 1",
        Reason::Rerun.as_str()
    ))
    .bind_all((schedule.0, generation, at))
}

//! What an execution covers: its schedule's last success before it, and what became of the occurrences in
//! between.
//!
//! The ledger's unique key finds both from the execution's own place backwards: what it costs grows with the
//! rows that are left out, up to so many that are counted, not with the ledger.

use crate::domain::{Covers, ExecutionId, LastAttempt, LeftOut, Reason, ScheduleId, Timestamp};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, sql};

/// Why the first attempt at the occurrence of `r` was made.
pub(crate) const FIRST_CAUSE: &str = "(SELECT f.cause FROM QRTZ_RUN f WHERE f.execute_id = r.execute_id \
     AND f.generation = r.generation AND f.origin = r.origin AND f.scheduled_time = r.scheduled_time \
     AND f.attempt = 1)";

/// The most generations that are looked through for a success.
pub(super) const MOST_GENERATIONS: usize = 64;

/// A part of a schedule's planned occurrences: those of a generation before an instant.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub schedule: ScheduleId,
    pub generation: i64,
    pub before: Timestamp,
}

answer! {
    /// The execution that is asked about.
    struct Own() {
        schedule: ScheduleId = "r.execute_id", |row| row.int().map(ScheduleId);
        generation: i64 = "r.generation", Row::int;
        origin: i64 = "r.origin", Row::int;
        until: Timestamp = "r.scheduled_time", Row::instant;
        prev: Option<Timestamp> = "r.prev_fire_time", Row::time;
        is_rerun: bool = format!(
            "CASE WHEN r.origin > 0 AND {FIRST_CAUSE} = '{}' THEN 1 ELSE 0 END AS is_rerun",
            Reason::Rerun.as_str()
        ), Row::flag;
    }
}

/// None if there is no such execution. A rerun stands for its own occurrence, from the fire time before it.
///
/// A later generation takes the place of an earlier one from its first fire time on: what ran while the
/// database's clock was ahead lies behind that.
pub(crate) fn covers(session: &mut dyn Session, execution: ExecutionId, most: usize) -> Step<Option<Covers>> {
    let own = sql(format!("SELECT {} FROM QRTZ_RUN r WHERE r.id = ?", Own::columns()));
    let Some(own) = session.one(&own.bind(execution.0), Own::read)? else { return Ok(None) };
    let Own { schedule, until, .. } = own;
    if own.is_rerun {
        return Ok(Some(Covers::new(own.prev, until, LeftOut::default())));
    }
    let is_planned = own.origin == 0;
    let mut next =
        if is_planned { Some(own.generation) } else { generation_before(session, schedule, i64::MAX)? };
    let (mut before, mut left_out, mut room) = (until, LeftOut::default(), most);
    for _ in 0..MOST_GENERATIONS {
        let Some(generation) = next else { break };
        let stretch = Stretch { schedule, generation, before };
        let success = session.one(&last_success(stretch), Row::instant)?;
        let ends: Vec<Ends> = session.all(&ends_after(stretch, success, room), Ends::read)?;
        for Ends { state, reason, has_finished, occurrences, rows, first, followed } in ends {
            room = room.saturating_sub(usize::try_from(rows).unwrap_or(0));
            before = before.min(first);
            if followed == 0 {
                let count =
                    u64::try_from(occurrences).unwrap_or(0).saturating_mul(u64::try_from(rows).unwrap_or(0));
                left_out.count(&LastAttempt { state: &state, reason: &reason, has_finished }, count);
            }
        }
        if room == 0 {
            left_out = left_out.cut();
        }
        if success.is_some() {
            return Ok(Some(Covers::new(success, until, left_out)));
        }
        if room == 0 {
            let first = session.one(&first_of(stretch), Row::maybe_instant)?.flatten();
            before = first.map_or(before, |first| before.min(first));
        }
        next = generation_before(session, schedule, generation)?;
    }
    Ok(Some(Covers::new(None, until, left_out)))
}

pub(crate) fn last_success(Stretch { schedule, generation, before }: Stretch) -> Statement {
    sql("SELECT r.scheduled_time FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? \
         AND r.origin = 0 AND r.scheduled_time < ? AND r.state = 'SUCCEEDED' \
         ORDER BY r.generation DESC, r.origin DESC, r.scheduled_time DESC, r.attempt DESC LIMIT 1")
    .bind_all((schedule.0, generation, before))
}

answer! {
    /// Attempts that ended alike.
    struct Ends() {
        state: String = "t.state", Row::loose_text;
        reason: String = "t.reason", Row::loose_text;
        has_finished: bool = "t.finished", Row::flag;
        occurrences: i64 = "t.occurrences", Row::int;
        rows: i64 = "COUNT(*) AS alike", Row::int;
        /// The first fire time of these.
        first: Timestamp = "MIN(t.scheduled_time) AS first_one", Row::instant;
        /// How many attempts followed each.
        followed: i64 = "t.followed", Row::int;
    }
}

/// How the newest attempts ended at the occurrences behind a success, or at all there are.
///
/// A join with the attempts that follow would be planned for a few rows, and read all for each of many.
pub(crate) fn ends_after(
    Stretch { schedule, generation, before }: Stretch,
    success: Option<Timestamp>,
    most: usize,
) -> Statement {
    sql(format!(
        "SELECT {} FROM (SELECT r.state, r.reason, CASE WHEN r.finished_time < 0 THEN 0 \
         ELSE 1 END AS finished, r.occurrences, r.scheduled_time, (SELECT COUNT(*) FROM QRTZ_RUN l \
         WHERE l.execute_id = r.execute_id AND l.generation = r.generation AND l.origin = r.origin \
         AND l.scheduled_time = r.scheduled_time AND l.attempt = r.attempt + 1) AS followed \
         FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin = 0 \
         AND r.scheduled_time > ? AND r.scheduled_time < ? \
         ORDER BY r.generation DESC, r.origin DESC, r.scheduled_time DESC, r.attempt DESC LIMIT ?) t \
         GROUP BY t.state, t.reason, t.finished, t.occurrences, t.followed",
        Ends::columns()
    ))
    .bind_all((schedule.0, generation, success.unwrap_or(Timestamp::MIN), before, most))
}

/// The first fire time there, where not all rows are read.
pub(crate) fn first_of(Stretch { schedule, generation, before }: Stretch) -> Statement {
    sql("SELECT MIN(r.scheduled_time) AS first_one FROM QRTZ_RUN r WHERE r.execute_id = ? \
         AND r.generation = ? AND r.origin = 0 AND r.scheduled_time < ?")
    .bind_all((schedule.0, generation, before))
}

/// The last generation before this one that the ledger has rows of.
pub(crate) fn generation_before(
    session: &mut dyn Session,
    schedule: ScheduleId,
    generation: i64,
) -> Step<Option<i64>> {
    Ok(session.one(&last_generation(session.dialect(), schedule, generation), Row::maybe_int)?.flatten())
}

pub(crate) fn last_generation(dialect: Dialect, schedule: ScheduleId, before: i64) -> Statement {
    next_generation(dialect, ("MAX", "<", " DESC"), schedule, before)
}

pub(super) fn generation_after(
    session: &mut dyn Session,
    schedule: ScheduleId,
    generation: i64,
) -> Step<Option<i64>> {
    let next = next_generation(session.dialect(), ("MIN", ">", ""), schedule, generation);
    Ok(session.one(&next, Row::maybe_int)?.flatten())
}

/// By a plan that is kept, PostgreSQL takes a schedule for one with few rows, and would read all of them for
/// the highest generation. MariaDB would read all of them in their order.
fn next_generation(
    dialect: Dialect,
    (end, follows, way): (&str, &str, &str),
    schedule: ScheduleId,
    generation: i64,
) -> Statement {
    let highest = format!("{end}(r.generation) AS next_one");
    let first = format!(" ORDER BY r.execute_id{way}, r.generation{way} LIMIT 1");
    let (one, order) = dialect.choose((&*highest, ""), ("r.generation", &*first), (&*highest, ""));
    sql(format!("SELECT {one} FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation {follows} ?{order}"))
        .bind_all((schedule.0, generation))
}

//! The newest planned occurrences of schedules: of some at once, from the end of the ledger's unique key.

use std::sync::Arc;

use crate::domain::ScheduleId;
use crate::store::past::{PastRow, occurrences, rows_of};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, Value, answer, padded, sql};

/// How many schedules one statement reads.
const AT_ONCE: usize = 64;
/// In so many of the newest generations of each.
const GENERATIONS: i64 = 2;

answer! {
    PastRow() {
        schedule = "r.execute_id", |row| row.int().map(ScheduleId);
        id = "r.id", Row::int;
        generation = "r.generation", Row::int;
        scheduled = "r.scheduled_time", Row::instant;
        until = "r.until_time", Row::time;
        count = "r.occurrences", Row::loose_int;
        attempt = "r.attempt", Row::int;
        state = "r.state", Row::loose_text;
        reason = "r.reason", Row::loose_text;
        due = "r.due_time", Row::loose_instant;
        started = "r.started_time", Row::time;
        finished = "r.finished_time", Row::time;
    }
}

pub(crate) fn past(session: &mut dyn Session, schedules: &[ScheduleId], most: usize) -> Step<Vec<PastRow>> {
    let mut rows = Vec::new();
    for schedules in schedules.chunks(AT_ONCE) {
        let question = newest(session.dialect(), schedules, rows_of(most));
        rows.extend(session.all::<_, Vec<PastRow>>(&question, PastRow::read)?);
    }
    Ok(occurrences(rows, most))
}

/// So many rows of each generation, the newest of it.
pub(crate) fn newest(dialect: Dialect, schedules: &[ScheduleId], limit: usize) -> Statement {
    let columns = PastRow::columns();
    let of = |schedule: &str, generation: &str| {
        format!(
            "SELECT {columns} FROM QRTZ_RUN r WHERE r.execute_id = {schedule} \
             AND r.generation = {generation} AND r.origin = 0 ORDER BY r.execute_id DESC, \
             r.generation DESC, r.origin DESC, r.scheduled_time DESC, r.attempt DESC LIMIT ?"
        )
    };
    if dialect.binds_lists() {
        // One plan for all: a union would be planned branch by branch.
        let back: Vec<String> = (0..GENERATIONS).map(|back| format!("({back}::BIGINT)")).collect();
        let ids = Arc::new(schedules.iter().map(|id| id.0).collect());
        return sql(format!(
            "SELECT {columns} FROM (SELECT unnest(?) AS id) AS s JOIN QRTZ_EXECUTE e ON e.id = s.id \
             CROSS JOIN (VALUES {}) AS g (back) CROSS JOIN LATERAL ({}) AS r",
            back.join(", "),
            of("e.id", "e.generation - g.back")
        ))
        .bind(Value::Ints(ids))
        .bind(limit);
    }
    let size = padded(schedules.len());
    let branch = |(place, back): (usize, i64)| {
        let generation = format!("(SELECT e.generation - {back} FROM QRTZ_EXECUTE e WHERE e.id = ?)");
        format!("SELECT * FROM ({}) AS b_{place}_{back}", of("?", &generation))
    };
    let branches = (0..size).flat_map(|place| (0..GENERATIONS).map(move |back| (place, back)));
    let question = sql(branches.map(branch).collect::<Vec<String>>().join(" UNION ALL "));
    let schedules = schedules.iter().copied().chain(std::iter::repeat(ScheduleId(-1))).take(size);
    schedules.fold(question, |question, id| {
        (0..GENERATIONS).fold(question, |question, _| question.bind_all((id, id, limit)))
    })
}

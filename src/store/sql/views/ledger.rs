//! The ledger as it is verified.

use crate::domain::{ExecutionId, ScheduleId, Timestamp};
use crate::store::columns::When;
use crate::store::enqueue::HIGHEST_BY_HAND;
use crate::store::ledger::{
    LedgerLine, LedgerPage, LedgerSchedule, LinePlace, LineQuery, TriggerEnd, TriggerPeriod,
};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, listed, sql};

answer! {
    LedgerSchedule() {
        id = "e.id", |row| row.int().map(ScheduleId);
        name = "e.name", Row::loose_text;
        state = "e.state", Row::loose_text;
        generation = "e.generation", Row::loose_int;
        next = "e.next_fire_time", Row::time;
        when = listed("e.", When::COLUMNS), |row| When::read(|| row.next());
        triggers = "0 AS triggers", |row| row.next().map(|_| Vec::new());
    }
}

answer! {
    TriggerPeriod() {
        generation = "t.generation", Row::int;
        begun = "t.begun_time", Row::loose_instant;
        first = "t.first_fire_time", Row::time;
        when = listed("t.", When::COLUMNS), |row| When::read(|| row.next());
        end = "t.ended_time, t.last_fire_time, t.end_state", |row| {
            let (at, last, state) = (row.time()?, row.time()?, row.loose_text()?);
            Ok(at.map(|at| TriggerEnd { at, last, state }))
        };
    }
}

answer! {
    LinePlace() {
        schedule = "r.execute_id", |row| row.int().map(ScheduleId);
        generation = "r.generation", Row::int;
        origin = "r.origin", Row::int;
        scheduled = "r.scheduled_time", Row::instant;
        attempt = "r.attempt", Row::int;
    }
}

answer! {
    LedgerLine() {
        id = "r.id", |row| row.int().map(ExecutionId);
        place = LinePlace::columns(), LinePlace::read;
        until = "r.until_time", Row::time;
        occurrences = "r.occurrences", Row::loose_int;
        state = "r.state", Row::loose_text;
        reason = "r.reason", Row::loose_text;
        cause = "r.cause", Row::maybe_text;
        due = "r.due_time", Row::loose_instant;
        fence = "r.fence", Row::loose_int;
        node = "r.node", Row::loose_text;
        claimed = "r.claimed_time", Row::time;
        started = "r.started_time", Row::time;
        finished = "r.finished_time", Row::time;
        prev = "r.prev_fire_time", Row::time;
        following = "r.following_fire_time", Row::time;
        holder = "r.holder", Row::maybe_int;
        error = "r.error", Row::loose_text;
        result = "r.result", Row::maybe_text;
    }
}

/// The instant from which the ledger has all that was planned.
pub(crate) fn from(session: &mut dyn Session, application: &str) -> Step<Option<Timestamp>> {
    let mark = sql("SELECT a.ledger_from FROM QRTZ_APP a WHERE a.application = ?").bind(application);
    Ok(session.one(&mark, Row::time)?.flatten())
}

/// The schedules of a page, each with its triggers.
pub(crate) fn schedules(session: &mut dyn Session, page: &LedgerPage) -> Step<Vec<LedgerSchedule>> {
    let question = sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.id > ? \
         AND (e.job_type IS NULL OR e.job_type <> 'QUEUE')",
        LedgerSchedule::columns()
    ));
    let question = question.bind_all((page.application.as_str(), page.after));
    let question = question.given(" AND e.name = ?", page.name.as_deref());
    let question = question.push(" ORDER BY e.id LIMIT ?").bind(page.limit);
    let mut schedules: Vec<LedgerSchedule> = session.all(&question, LedgerSchedule::read)?;
    let (Some(first), Some(last)) = (schedules.first(), schedules.last()) else { return Ok(schedules) };
    let question = sql(format!(
        "SELECT t.execute_id, {} FROM QRTZ_TRIGGER t WHERE t.execute_id >= ? AND t.execute_id <= ? \
         ORDER BY t.execute_id, t.generation",
        TriggerPeriod::columns()
    ));
    for mut row in session.rows(&question.bind_all((first.id, last.id)))? {
        let schedule = ScheduleId(row.int()?);
        let period = TriggerPeriod::read(&mut row)?;
        if let Ok(place) = schedules.binary_search_by_key(&schedule, |it| it.id) {
            schedules[place].triggers.push(period);
        }
    }
    Ok(schedules)
}

/// A page of rows. Each statement seeks by the unique key's first columns: behind a row come the rest of its
/// chain, of its generation, of its schedule, and the other schedules.
pub(crate) fn lines(session: &mut dyn Session, query: &LineQuery) -> Step<Vec<LedgerLine>> {
    let LinePlace { schedule, generation, origin, scheduled, attempt } = query.after;
    let seeks = [
        sql("r.execute_id = ? AND r.generation = ? AND r.origin = ? AND r.scheduled_time >= ? \
             AND (r.scheduled_time > ? OR r.attempt > ?)")
        .bind_all((schedule, generation, origin, scheduled, scheduled, attempt)),
        sql("r.execute_id = ? AND r.generation = ? AND r.origin > ?")
            .bind_all((schedule, generation, origin)),
        sql("r.execute_id = ? AND r.generation > ?").bind_all((schedule, generation)),
        sql("r.execute_id > ? AND r.execute_id <= ?").bind_all((schedule, query.through)),
    ];
    // Behind all rows of a schedule only others follow.
    let first = if generation == i64::MAX { seeks.len() - 1 } else { 0 };
    let mut lines = Vec::new();
    for seek in seeks.into_iter().skip(first) {
        let rest = query.limit - lines.len();
        if rest > 0 {
            let page: Vec<LedgerLine> = session.all(&page(query, seek, rest), LedgerLine::read)?;
            lines.extend(page);
        }
    }
    Ok(lines)
}

fn page(query: &LineQuery, seek: Statement, limit: usize) -> Statement {
    let question = sql(format!("SELECT {} FROM QRTZ_RUN r WHERE ", LedgerLine::columns()));
    question
        .and(seek)
        .push(
            " AND r.application = ? AND r.origin < ? AND r.scheduled_time < ? \
             AND (r.scheduled_time >= ? OR r.until_time >= ?) \
             ORDER BY r.execute_id, r.generation, r.origin, r.scheduled_time, r.attempt LIMIT ?",
        )
        .bind_all((query.application.as_str(), HIGHEST_BY_HAND, query.before, query.from, query.from, limit))
}

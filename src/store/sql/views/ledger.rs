//! The ledger as it is verified.

use crate::domain::{ExecutionId, ScheduleId, Timestamp};
use crate::store::columns::When;
use crate::store::enqueue::HIGHEST_BY_HAND;
use crate::store::ledger::{
    LedgerLine, LedgerPage, LedgerRange, LedgerSchedule, LinePlace, LineQuery, LinesBy, TriggerEnd,
    TriggerPeriod,
};
use crate::store::sql::dialect::{Dialect, LedgerIndex};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, listed, sql};
use crate::store::sql::views::covers::generation_after;
use crate::store::sql::views::history::has_at_least;

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

/// A range is read by fire time if gathering its rows for each page reads less than the ledger has ids. The
/// spans that reach into it are found among all that end later.
pub(crate) fn lines_by(session: &mut dyn Session, range: &LedgerRange) -> Step<LinesBy> {
    let ends = sql("SELECT (SELECT MIN(x.id) FROM QRTZ_RUN x) AS first_one, \
                    (SELECT MAX(x.id) FROM QRTZ_RUN x) AS last_one");
    let ends = session.one(&ends, |row| Ok((row.maybe_int()?, row.maybe_int()?)))?;
    let ids = ends.and_then(|(first, last)| Some(last?.saturating_sub(first?).saturating_add(1)));
    let most = most_by_time(range.page, ids.unwrap_or_default());
    let (dialect, counted) = (session.dialect(), "SELECT 1 AS one FROM ");
    let rows = sql(counted).push(&dialect.ledger_by(LedgerIndex::Time)).push(" WHERE 1 = 1");
    let spans = sql(counted).push(&dialect.ledger_by(LedgerIndex::Span)).push(" WHERE r.application = ?");
    let spans = spans.bind(range.application.as_str());
    let spans = spans.push(" AND r.until_time >= ? AND r.until_time <> -1").bind(range.from);
    let is_long = has_at_least(session, rows.and(due_within(dialect, range.from, range.before)), most + 1)?
        || has_at_least(session, spans, most + 1)?;
    Ok(if is_long { LinesBy::Key } else { LinesBy::FireTime })
}

/// Of so many rows, each page reads all: rows times pages are to be no more than the ids.
fn most_by_time(page: usize, ids: i64) -> usize {
    u64::try_from(ids).unwrap_or(0).saturating_mul(page as u64).isqrt() as usize
}

/// A page of rows.
pub(crate) fn lines(session: &mut dyn Session, query: &LineQuery) -> Step<Vec<LedgerLine>> {
    let mut lines = match (query.of_one(), query.by) {
        (Some(schedule), _) => of_one(session, query, schedule)?,
        (None, LinesBy::FireTime) => {
            session.all(&by_fire_time(session.dialect(), query), LedgerLine::read)?
        }
        (None, LinesBy::Key) => return by_key(session, query),
    };
    let spans: Vec<LedgerLine> = session.all(&reaching(session.dialect(), query), LedgerLine::read)?;
    lines.extend(spans);
    lines.sort_by_key(|line| line.place);
    lines.truncate(query.limit);
    Ok(lines)
}

/// Each statement seeks by the unique key's first columns: behind a row come the rest of its chain, of its
/// generation, of its schedule, and the other schedules.
fn by_key(session: &mut dyn Session, query: &LineQuery) -> Step<Vec<LedgerLine>> {
    let LinePlace { schedule, generation, .. } = query.after;
    let [chain, origins] = behind(query.after);
    let seeks = [
        chain,
        origins,
        sql("r.execute_id = ? AND r.generation > ?").bind_all((schedule, generation)),
        sql("r.execute_id > ? AND r.execute_id <= ?").bind_all((schedule, query.through)),
    ];
    // Behind all rows of a schedule only others follow.
    let first = if generation == i64::MAX { seeks.len() - 1 } else { 0 };
    let of_range = sql(" AND r.scheduled_time < ? AND (r.scheduled_time >= ? OR r.until_time >= ?)")
        .bind_all((query.before, query.from, query.from));
    let mut lines = Vec::new();
    for seek in seeks.into_iter().skip(first) {
        seek_more(session, query, seek.and(of_range.clone()), &mut lines)?;
    }
    Ok(lines)
}

/// The rows of a schedule within a range but for spans that reach into it: the planned ones by the whole key,
/// generation by generation.
fn of_one(session: &mut dyn Session, query: &LineQuery, schedule: ScheduleId) -> Step<Vec<LedgerLine>> {
    let is_begun = query.after.schedule == schedule && query.after.generation < i64::MAX;
    let mut next = match is_begun {
        true => Some(query.after.generation),
        false => generation_after(session, schedule, i64::MIN)?,
    };
    let mut lines = Vec::new();
    while let Some(generation) = next.filter(|_| lines.len() < query.limit) {
        let seeks = if is_begun && generation == query.after.generation {
            behind(query.after).to_vec()
        } else {
            ["< 0", "= 0", "> 0"].map(|origins| of_generation(schedule, generation, origins)).to_vec()
        };
        for seek in seeks {
            seek_more(session, query, within(query, seek), &mut lines)?;
        }
        next = generation_after(session, schedule, generation)?;
    }
    Ok(lines)
}

fn of_generation(schedule: ScheduleId, generation: i64, origins: &str) -> Statement {
    let of = sql("r.execute_id = ? AND r.generation = ? AND r.origin ").push(origins);
    of.bind_all((schedule, generation))
}

/// The planned occurrences of a generation within a range.
#[cfg(test)]
pub(crate) fn of_chain(query: &LineQuery, schedule: ScheduleId, generation: i64) -> Statement {
    seek_in_key(query, within(query, of_generation(schedule, generation, "= 0")), query.limit)
}

fn within(query: &LineQuery, seek: Statement) -> Statement {
    seek.push(" AND r.scheduled_time >= ? AND r.scheduled_time < ?").bind_all((query.from, query.before))
}

/// The rest of a row's chain, and of its generation.
fn behind(LinePlace { schedule, generation, origin, scheduled, attempt }: LinePlace) -> [Statement; 2] {
    [
        sql("r.execute_id = ? AND r.generation = ? AND r.origin = ? AND r.scheduled_time >= ? \
             AND (r.scheduled_time > ? OR r.attempt > ?)")
        .bind_all((schedule, generation, origin, scheduled, scheduled, attempt)),
        sql("r.execute_id = ? AND r.generation = ? AND r.origin > ?")
            .bind_all((schedule, generation, origin)),
    ]
}

/// Appends the rows that a condition finds by the unique key, as far as the page has room.
fn seek_more(
    session: &mut dyn Session,
    query: &LineQuery,
    seek: Statement,
    lines: &mut Vec<LedgerLine>,
) -> Step<()> {
    let rest = query.limit - lines.len();
    if rest > 0 {
        let more: Vec<LedgerLine> = session.all(&seek_in_key(query, seek, rest), LedgerLine::read)?;
        lines.extend(more);
    }
    Ok(())
}

fn seek_in_key(query: &LineQuery, seek: Statement, limit: usize) -> Statement {
    let question = sql(format!("SELECT {} FROM QRTZ_RUN r WHERE ", LedgerLine::columns()));
    question
        .and(seek)
        .push(
            " AND r.application = ? AND r.origin < ? \
             ORDER BY r.execute_id, r.generation, r.origin, r.scheduled_time, r.attempt LIMIT ?",
        )
        .bind_all((query.application.as_str(), HIGHEST_BY_HAND, limit))
}

/// The rows of a range.
pub(crate) fn by_fire_time(dialect: Dialect, query: &LineQuery) -> Statement {
    sorted(dialect, LedgerIndex::Time, query, due_within(dialect, query.from, query.before))
}

/// The spans that begin before a range and reach into it.
pub(crate) fn reaching(dialect: Dialect, query: &LineQuery) -> Statement {
    let spans = sql(" AND r.until_time >= ? AND r.until_time <> -1 AND r.scheduled_time < ?");
    sorted(dialect, LedgerIndex::Span, query, spans.bind_all((query.from, query.from.min(query.before))))
}

fn due_within(dialect: Dialect, from: Timestamp, before: Timestamp) -> Statement {
    let column = dialect.fire_time();
    sql(format!(" AND r.{column} >= ? AND r.{column} < ?")).bind_all((from, before))
}

/// A page of what an index finds, sorted: the sum keeps a database from reading all rows in the order of
/// their key.
fn sorted(dialect: Dialect, index: LedgerIndex, query: &LineQuery, condition: Statement) -> Statement {
    const KEY: &str = "r.execute_id + 0, r.generation, r.origin, r.scheduled_time, r.attempt";
    let LinePlace { schedule, generation, origin, scheduled, attempt } = query.after;
    let found = dialect.ledger_by(index);
    let question = sql(format!("SELECT {} FROM {found} WHERE r.application = ?", LedgerLine::columns()));
    let question = question.bind(query.application.as_str()).and(condition);
    question
        .push(&format!(
            " AND r.origin < ? AND r.execute_id + 0 <= ? AND ({KEY}) > (?, ?, ?, ?, ?) ORDER BY {KEY} LIMIT ?"
        ))
        .bind_all((HIGHEST_BY_HAND, query.through))
        .bind_all((schedule, generation, origin, scheduled, attempt, query.limit))
}

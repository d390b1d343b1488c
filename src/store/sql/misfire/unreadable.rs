//! The walk over all schedules: it finds rows that cannot be understood, cursors ahead of the clock, and
//! schedules of which something is expected.

use crate::domain::{Entry, ScheduleId, Timestamp};
use crate::store::columns::{Holds, STANDING, Settings, Spec, When};
use crate::store::repairs::called;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::migrate::is_newer;
use crate::store::sql::poll::{listed, read_sections, sections};
use crate::store::sql::rows::entry::{Payload, Raw};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, sql};
use crate::store::when::FIRST_PLAUSIBLE;
use crate::store::{CursorAhead, SeenSchedule, UnreadablePage, UnreadableQuery, UnreadableRow};
use crate::trigger::AWAITED;

/// Columns that are understood together.
const TOGETHER: &str = "j.id IS NULL OR e.name = '' OR (e.end_time <> -1 AND e.start_time > e.end_time) \
     OR (e.next_fire_time <> -1 AND e.next_fire_time <= e.prev_fire_time) \
     OR (e.next_fire_time = -1 AND e.state <> 'COMPLETE') \
     OR (e.job_type = 'CRON' AND (e.cron IS NULL OR e.zone_id IS NULL)) \
     OR (e.job_type = 'SIMPLE' AND (e.start_time < -1 OR e.repeat_count IS NULL OR e.repeat_count < -1 \
         OR e.repeat_interval IS NULL \
         OR e.repeat_interval < 0 OR (e.repeat_interval = 0 AND e.repeat_count <> 0))) \
     OR (e.job_type = 'DELAY' AND (e.start_time < -1 OR e.repeat_interval IS NULL OR e.repeat_interval < 1))";

/// What SQL can tell of a row that cannot be understood, by what its columns hold. It may name too many: each
/// is tried in full.
fn suspicious(dialect: Dialect) -> String {
    let columns = || STANDING.iter().chain(Settings::COLUMNS).chain(When::COLUMNS);
    let mut conditions: Vec<String> = columns().filter_map(misplaced).collect();
    // SQLite keeps text in a BIGINT column if it is given some; no comparison would ever bring such a row.
    if dialect.keeps_any_type() {
        let numbers = columns().filter(|column| matches!(column.holds, Holds::Number(..) | Holds::Time));
        conditions.extend(numbers.map(|column| format!("typeof(e.{}) <> 'integer'", column.name)));
        let optional = columns().filter(|column| matches!(column.holds, Holds::Optional(..)));
        let is_neither = |column: &Spec| format!("typeof(e.{}) NOT IN ('integer', 'null')", column.name);
        conditions.extend(optional.map(is_neither));
        conditions.push("typeof(e.name) <> 'text'".to_owned());
    }
    format!("({TOGETHER} OR {})", conditions.join(" OR "))
}

/// That a column holds something else than it may; none where its text alone cannot tell.
fn misplaced(column: &Spec) -> Option<String> {
    let name = column.name;
    let outside = match column.holds {
        Holds::Number(i64::MIN, i64::MAX) => return Some(format!("e.{name} IS NULL")),
        Holds::Number(i64::MIN, most) => format!("e.{name} > {most}"),
        Holds::Number(least, i64::MAX) => format!("e.{name} < {least}"),
        Holds::Number(least, most) => format!("e.{name} NOT BETWEEN {least} AND {most}"),
        Holds::Optional(least, most) => return Some(format!("e.{name} NOT BETWEEN {least} AND {most}")),
        Holds::Time => format!("e.{name} < -1 OR e.{name} BETWEEN 0 AND {}", FIRST_PLAUSIBLE - 1),
        Holds::Word(words) => format!("e.{name} NOT IN ('{}')", words.join("', '")),
        Holds::Text(_) | Holds::Line(_) | Holds::Free => return None,
    };
    Some(format!("e.{name} IS NULL OR {outside}"))
}

/// The ledger's row of a skip by hand, as the last that a schedule `e` has passed.
const SKIPPED_BY_HAND: &str = "SELECT 1 FROM QRTZ_RUN r WHERE r.execute_id = e.id \
     AND r.generation = e.generation AND r.origin = 0 AND r.scheduled_time = e.prev_fire_time \
     AND r.attempt = 1 AND r.state = 'SKIPPED' AND r.reason = 'by hand'";

/// The most overdue rows looked at in full for each that is asked for.
const LOOKED_AT: usize = 10;

/// Rows of one step that SQL can tell are broken or, if asked for, ahead of the clock, and overdue ones whose
/// trigger cannot be parsed: a row that no poll can understand stays behind and becomes the most overdue.
pub(crate) fn unreadable(session: &mut dyn Session, query: &UnreadableQuery) -> Step<UnreadablePage> {
    let (mut broken, mut ahead, mut expecting) = (Vec::new(), Vec::new(), Vec::new());
    let (mut next, mut walked) = (None, 0);
    for mut row in session.rows(&suspects(session.dialect(), query))? {
        let Suspect { is_asked_for, expects, now, end_of_step, raw } = Suspect::read(&mut row)?;
        walked += 1;
        next = if walked == query.limit { Some(ScheduleId(raw.id)) } else { end_of_step.map(ScheduleId) };
        expecting.extend((is_asked_for && expects).then_some(ScheduleId(raw.id)));
        if is_asked_for {
            match understood(raw) {
                Ok(entry) if query.wants(&entry, now) => ahead.push(CursorAhead { entry, seen: now }),
                Ok(_) => {}
                Err(row) => broken.push(row),
            }
        }
    }
    let mut overdue = if query.before == Timestamp::MIN { Vec::new() } else { overdue(session, query)? };
    overdue.retain(|it: &UnreadableRow| {
        broken.iter().all(|walked: &UnreadableRow| walked.seen.id != it.seen.id)
    });
    overdue.truncate(query.limit);
    broken.append(&mut overdue);
    // Nodes of the later release understand them, or find out that nobody does.
    if !broken.is_empty() && is_newer(session)? {
        broken.clear();
    }
    Ok(UnreadablePage { broken, ahead, expecting, next })
}

fn understood(raw: Raw) -> Result<Entry, UnreadableRow> {
    let id = ScheduleId(raw.id);
    let (seen, name) = (
        SeenSchedule { id, version: raw.version, state: raw.state.clone(), next: None },
        called(&raw.name, id),
    );
    raw.understand().map_err(|reason| UnreadableRow { seen, name, reason })
}

/// Of jobs that some live node lists: the rows of others are looked at by the walk alone. Each job and shard
/// has its share, so that the healthy rows of one do not hide what is broken in another.
fn overdue(session: &mut dyn Session, query: &UnreadableQuery) -> Step<Vec<UnreadableRow>> {
    let sections = sections(&listed(session, &query.application)?, &(query.from..query.before));
    let mut broken = Vec::new();
    let share = (query.limit * LOOKED_AT).div_ceil(sections.len().max(1));
    read_sections(session, &query.application, &sections, share, Payload::None, &mut |_, raw| {
        broken.extend(understood(raw).err())
    })?;
    Ok(broken)
}

const ASKED_FOR: &str =
    "e.application = ? AND (e.state IS NULL OR e.state NOT IN ('ERROR', 'INIT', 'REMOVED'))";

/// That something is expected of a schedule `e`, and that it is not in QRTZ_EXPECTED yet.
const EXPECTS: &str = "e.expected_by IS NOT NULL AND NOT EXISTS (SELECT 1 FROM QRTZ_EXPECTED x \
                       WHERE x.application = e.application AND x.id = e.id)";

answer! {
    struct Suspect(dialect: Dialect) {
        is_asked_for: bool = format!("CASE WHEN {ASKED_FOR} THEN 1 ELSE 0 END AS asked_for"), Row::flag;
        expects: bool = format!("CASE WHEN {EXPECTS} THEN 1 ELSE 0 END AS expects"), Row::flag;
        now: Timestamp = format!("{} AS now", dialect.clock()), Row::instant;
        end_of_step: Option<i64> = "step.ends AS ends", Row::maybe_int;
        raw: Raw = Raw::columns(Payload::None), Raw::read;
    }
}

/// One statement: the step's last row is always brought, so that the next step's beginning is known.
pub(crate) fn suspects(dialect: Dialect, query: &UnreadableQuery) -> Statement {
    let statement = sql(format!(
        "SELECT {} \
         FROM (SELECT (SELECT id FROM QRTZ_EXECUTE WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?) AS ends) \
         AS step {} QRTZ_EXECUTE e ON e.id > ? AND e.id <= COALESCE(step.ends, 9223372036854775807) \
         LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
         WHERE e.id = step.ends OR ({ASKED_FOR} AND ({} OR ({EXPECTS}) OR (e.state = 'EXECUTING' \
         AND (e.prev_fire_time > ? OR (e.job_type = 'DELAY' AND e.next_fire_time > e.start_time \
         AND e.next_fire_time - e.repeat_interval > ?)) AND e.next_fire_time <> {AWAITED} \
         AND NOT EXISTS ({SKIPPED_BY_HAND})))) ORDER BY e.id LIMIT ?",
        Suspect::columns(dialect),
        dialect.join(),
        suspicious(dialect)
    ));
    let application = query.application.as_str();
    let walk = statement.bind(application).bind(query.after.0).bind(query.step - 1).bind(query.after.0);
    let ahead = query.ahead.unwrap_or(Timestamp::MAX);
    walk.bind(application).bind(ahead).bind(ahead).bind(query.limit)
}

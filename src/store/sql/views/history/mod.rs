//! Lists of executions, out of a ledger of any size. ADR 65 has the way of each question, and its limits.

mod stretches;

use std::sync::Arc;

use self::stretches::Stretches;
use super::covers::generation_before;
use super::inspect::PAGE;
use crate::domain::{Cause, ExecutionState, ScheduleId, Timestamp, headers};
use crate::store::enqueue::read_tags;
use crate::store::order::CancelRow;
use crate::store::sql::dialect::{Dialect, LedgerIndex};
use crate::store::sql::rows::open_executions;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, Value, answer, sql};
use crate::store::{ExecutionQuery, ExecutionRow, ListPlace};

/// So many rows may be gathered and sorted. What has more of them is so dense in the ledger that reading it
/// from one end on soon fills a page. In tests a few are many, so that both ways are taken.
const FEW: usize = if cfg!(test) { 3 } else { 5_000 };

/// The executions of a job with more schedules than this are not gathered schedule by schedule.
const FEW_SCHEDULES: usize = if cfg!(test) { 3 } else { 1_000 };

/// Of an application with more jobs than this, tags are not looked for queue by queue.
const FEW_JOBS: usize = 1_000;

/// The rows of a list, in its order.
pub(crate) fn executions(session: &mut dyn Session, query: &ExecutionQuery) -> Step<Vec<ExecutionRow>> {
    let way = Way::of(session, query)?;
    let (mut rows, mut after) = (Vec::new(), query.after);
    loop {
        let limit = PAGE.min(query.limit - rows.len());
        let page = Page { query, after, limit }.read(session, &way)?;
        let is_last = page.len() < limit || query.late.is_some();
        after = page.last().map(ExecutionRow::place);
        rows.extend(page);
        if is_last || rows.len() == query.limit {
            return Ok(rows);
        }
    }
}

/// Rows that one statement finds, in the order of the list: by this index, under this condition.
struct Branch {
    index: LedgerIndex,
    condition: Statement,
}

/// How the rows of a list are found.
enum Way {
    /// By all of these together.
    Together(Vec<Branch>),
    /// By ids, stretch by stretch.
    Ids,
    /// By fire times, stretch by stretch.
    Times,
}

impl Way {
    fn of(session: &mut dyn Session, query: &ExecutionQuery) -> Step<Self> {
        if let Some(named) = named(session.dialect(), query) {
            return Ok(Self::found(LedgerIndex::Any, named));
        }
        if has_few_open(session, query)? {
            let open = session.dialect().database().open_states(query);
            return Ok(Self::found(LedgerIndex::Open, open));
        }
        if let Some(tag) = query.tag.as_deref()
            && let Some(tagged) = tagged(session, query, tag)?
        {
            return Ok(Self::found(LedgerIndex::Any, tagged));
        }
        // No index has all schedules of a job: claims would pay for it, and MariaDB would take it for the one
        // that polls go by. So they are looked for only where the executions of the job are rare.
        if let Some(job) = query.job.as_deref().filter(|_| query.schedule.is_none())
            && is_dense(session, query, job)?
        {
            return Self::of_many(session, query, None);
        }
        let schedules = schedules(session, query)?;
        if let Some(schedules) = &schedules {
            let among = |alias: &str| ledger_of(session.dialect(), alias, schedules);
            let (counted, found) = (among("x."), among("r."));
            if is_few(session, sql("SELECT 1 AS one FROM QRTZ_RUN x WHERE ").and(counted))? {
                return Ok(Self::found(LedgerIndex::Schedule, sql(" AND ").and(found)));
            }
        }
        Self::of_many(session, query, schedules)
    }

    fn found(index: LedgerIndex, condition: Statement) -> Self {
        Self::Together(vec![Branch { index, condition }])
    }

    /// By an index that has the order of the list, if there is one; otherwise the ledger is read from one end
    /// on.
    fn of_many(session: &mut dyn Session, query: &ExecutionQuery, schedules: Option<Vec<i64>>) -> Step<Self> {
        let of_application = |condition: &str, value: &str| {
            query.application.as_deref().map(|own| sql(condition).bind_all((own, value)))
        };
        if let Some(group) = query.group.as_deref()
            && let Some(group) = of_application(" AND r.application = ? AND r.group_key = ?", group)
        {
            let counted = sql("SELECT 1 AS one FROM QRTZ_RUN r WHERE 1 = 1").and(group.clone());
            if !query.ends_rarely() || is_few(session, counted)? {
                return Ok(Self::since(query, LedgerIndex::Group, vec![group]));
            }
        }
        if query.ends_rarely()
            && let Some(rare) = query
                .states
                .iter()
                .map(|state| of_application(" AND r.application = ? AND r.ended = ?", state.as_str()))
                .collect::<Option<Vec<_>>>()
        {
            return Ok(Self::since(query, LedgerIndex::Ended, rare));
        }
        if let Some(cause) = query.cause.as_deref().filter(|_| query.has_rare_cause())
            && let Some(cause) =
                of_application(" AND r.application = ? AND r.cause = ? AND r.cause <> 'enqueued'", cause)
        {
            return Ok(Self::since(query, LedgerIndex::Cause, vec![cause]));
        }
        if let (Some(_), Some([schedule])) = (&query.schedule, schedules.as_deref()) {
            return by_generations(session, query, ScheduleId(*schedule)).map(Self::Together);
        }
        Ok(if query.by_fire_time() { Self::Times } else { Self::Ids })
    }

    /// By an index that ends with fire times: what begins in the time that is asked for, and the spans that
    /// reach into it.
    fn since(query: &ExecutionQuery, index: LedgerIndex, conditions: Vec<Statement>) -> Self {
        let within = |condition: Statement| {
            let condition = condition.given(" AND r.scheduled_time >= ?", query.since);
            Branch { index, condition }
        };
        let spans = query.since.map(|since| spans(query, since));
        Self::Together(conditions.into_iter().map(within).chain(spans).collect())
    }
}

/// Whether the end of the ledger at which a list of a job begins fills a page with its executions.
fn is_dense(session: &mut dyn Session, query: &ExecutionQuery, job: &str) -> Step<bool> {
    /// How many ids are looked at.
    const NEAR: i64 = if cfg!(test) { 10 } else { 40_000 };
    let end = sql(format!("SELECT {}(x.id) AS id FROM QRTZ_RUN x", if query.oldest { "MIN" } else { "MAX" }));
    let Some(id) = session.one(&end, Row::maybe_int)?.flatten() else { return Ok(false) };
    let near = if query.oldest { (id, id.saturating_add(NEAR)) } else { (id.saturating_sub(NEAR), id) };
    let of_job = sql("SELECT 1 AS one FROM QRTZ_RUN r \
         JOIN QRTZ_EXECUTE e ON e.id = r.execute_id LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
         WHERE r.id >= ? AND r.id <= ? AND COALESCE(j.job_class, '') = ?")
    .bind_all((near.0, near.1, job))
    .given(" AND r.application = ?", query.application.as_deref());
    has_at_least(session, of_job, query.limit.clamp(1, FEW))
}

/// Few rows are meant: the attempts at one occurrence, those of a unique key, and late ones.
fn named(dialect: Dialect, query: &ExecutionQuery) -> Option<Statement> {
    if let Some(id) = query.of {
        // By the whole unique key: a queue may have a million others.
        let same = |question: Statement, column: &&str| {
            let same = format!(" AND r.{column} = (SELECT x.{column} FROM QRTZ_RUN x WHERE x.id = ?)");
            question.push(&same).bind(id.0)
        };
        return Some(["execute_id", "generation", "origin", "scheduled_time"].iter().fold(sql(""), same));
    }
    if let Some(before) = query.late {
        let late = format!(" AND r.state = 'PENDING'{} AND r.due_time < ?", dialect.pending());
        return Some(sql(late).bind(before));
    }
    query.key.as_deref().map(|key| found_by_name(dialect, "QRTZ_KEY", named_so("unique_key", key)))
}

fn named_so(column: &str, name: &str) -> Statement {
    sql(format!("n.{column} = ?")).bind(name)
}

/// The executions with a tag, if these are few: where the list is of an application, in its own queues.
fn tagged(session: &mut dyn Session, query: &ExecutionQuery, tag: &str) -> Step<Option<Statement>> {
    let (queues, dialect) = (queues(session, query)?, session.dialect());
    let condition = match queues {
        Some(queues) if queues.is_empty() => return Ok(Some(sql(" AND 1 = 0"))),
        Some(queues) => named_so("tag", tag).push(" AND ").and(ledger_of(dialect, "n.", &queues)),
        None => named_so("tag", tag),
    };
    let counted = sql("SELECT 1 AS one FROM QRTZ_TAG n WHERE ").and(condition.clone());
    Ok(is_few(session, counted)?.then(|| found_by_name(dialect, "QRTZ_TAG", condition)))
}

/// The ids of an application's queues; none if the list is of all applications, or it has too many jobs.
fn queues(session: &mut dyn Session, query: &ExecutionQuery) -> Step<Option<Vec<i64>>> {
    let Some(application) = query.application.as_deref() else { return Ok(None) };
    let question = sql(format!(
        "SELECT s.id FROM QRTZ_JOB j LEFT JOIN QRTZ_EXECUTE s ON s.application = j.application \
         AND s.name = {} WHERE j.application = ? LIMIT ?",
        session.dialect().queue_of("j.job_class")
    ));
    let question = question.bind_all((application, FEW_JOBS + 1));
    let found: Vec<Option<i64>> = session.all(&question, Row::maybe_int)?;
    Ok(Some(found).filter(|found| found.len() <= FEW_JOBS).map(|found| found.into_iter().flatten().collect()))
}

/// These tables name an execution by its queue and its origin. They are read first: a planner may take a
/// queue for as short as most schedules are, and read all of its rows. PostgreSQL is given the ids as an
/// array.
fn found_by_name(dialect: Dialect, table: &str, condition: Statement) -> Statement {
    let (among, end) = if dialect.binds_lists() { ("= ANY (ARRAY(", "))") } else { ("IN (", ")") };
    sql(format!(
        " AND r.id {among}SELECT x.id FROM {table} n {} QRTZ_RUN x ON x.execute_id = n.execute_id \
         AND x.generation = 0 AND x.origin = n.origin WHERE ",
        dialect.join()
    ))
    .and(condition)
    .push(end)
}

/// Whether only executions that have not ended are meant, and few are PENDING. Those under way are never
/// many.
fn has_few_open(session: &mut dyn Session, query: &ExecutionQuery) -> Step<bool> {
    if query.states.is_empty() || query.states.iter().any(|state| state.is_terminal()) {
        return Ok(false);
    }
    if !query.states.contains(&ExecutionState::Pending) {
        return Ok(true);
    }
    let pending =
        format!("SELECT 1 AS one FROM QRTZ_RUN r WHERE r.state = 'PENDING'{}", session.dialect().pending());
    is_few(session, sql(pending).given(" AND r.application = ?", query.application.as_deref()))
}

fn is_few(session: &mut dyn Session, question: Statement) -> Step<bool> {
    Ok(!has_at_least(session, question, FEW + 1)?)
}

/// Whether a question has so many rows; no more are read.
pub(super) fn has_at_least(session: &mut dyn Session, question: Statement, rows: usize) -> Step<bool> {
    let count = sql("SELECT COUNT(*) AS counted FROM (").and(question).push(" LIMIT ?) AS c");
    let found = session.one(&count.bind(rows), Row::int)?.unwrap_or_default();
    Ok(usize::try_from(found).is_ok_and(|found| found >= rows))
}

/// The ids of the schedules and of the queue that a list is limited to; none if it is not, or to many.
fn schedules(session: &mut dyn Session, query: &ExecutionQuery) -> Step<Option<Vec<i64>>> {
    let application = query.application.as_deref();
    match (query.schedule.as_deref(), query.job.as_deref(), application) {
        (Some(schedule), _, _) => {
            let named = sql("SELECT s.id FROM QRTZ_EXECUTE s WHERE s.name = ?").bind(schedule);
            let named = named.given(" AND s.application = ?", application);
            let found: Vec<i64> = session.all(&named.push(" LIMIT ?").bind(FEW_SCHEDULES + 1), Row::int)?;
            Ok(Some(found).filter(|found| found.len() <= FEW_SCHEDULES))
        }
        (None, Some(job), Some(application)) => of_job(session, application, job),
        (None, _, _) => Ok(None),
    }
}

/// The schedules and the queue of a job. No index has them: all are looked at, so many by a statement that
/// each stays within its time.
fn of_job(session: &mut dyn Session, application: &str, job: &str) -> Step<Option<Vec<i64>>> {
    const STRETCH: i64 = if cfg!(test) { 3 } else { 50_000 };
    let named = sql("SELECT j.id FROM QRTZ_JOB j WHERE j.application = ? AND j.job_class = ?");
    let Some(job) = session.one(&named.bind_all((application, job)), Row::int)? else {
        return Ok(Some(Vec::new()));
    };
    let table = session.dialect().by_id("QRTZ_EXECUTE", "s");
    let end = sql(format!("SELECT s.id FROM {table} WHERE s.id > ? ORDER BY s.id LIMIT 1 OFFSET ?"));
    let stretch = format!("SELECT s.id FROM {table} WHERE s.id > ? AND s.id <= ? AND s.pid = ?");
    let (mut found, mut after) = (Vec::<i64>::new(), i64::MIN);
    loop {
        let last: Option<i64> = session.one(&end.clone().bind_all((after, STRETCH - 1)), Row::int)?;
        let of_job = sql(&*stretch).bind_all((after, last.unwrap_or(i64::MAX), job));
        let left = FEW_SCHEDULES + 1 - found.len();
        let more: Vec<i64> = session.all(&of_job.push(" LIMIT ?").bind(left), Row::int)?;
        found.extend(more);
        match last {
            _ if found.len() > FEW_SCHEDULES => return Ok(None),
            Some(last) => after = last,
            None => return Ok(Some(found)),
        }
    }
}

/// That a row of the ledger is of one of these schedules, as a condition.
fn ledger_of(dialect: Dialect, alias: &str, schedules: &[i64]) -> Statement {
    let column = format!("{alias}execute_id");
    match dialect.binds_lists() {
        true => sql(format!("{column} = ANY (?)")).bind(Value::Ints(Arc::new(schedules.to_vec()))),
        false => sql(format!("{column} IN ")).list(schedules.iter().copied()),
    }
}

/// Of each generation what was planned, by the ledger's unique key, and what was asked for: one schedule may
/// have a million of the former.
fn by_generations(
    session: &mut dyn Session,
    query: &ExecutionQuery,
    schedule: ScheduleId,
) -> Step<Vec<Branch>> {
    let (mut branches, mut next) = (Vec::new(), generation_before(session, schedule, i64::MAX)?);
    while let Some(generation) = next {
        let of = |condition: &str| {
            let of = sql(" AND r.execute_id = ? AND r.generation = ?").bind_all((schedule.0, generation));
            of.push(condition)
        };
        let mut planned = of(" AND r.origin = 0");
        if let Some(since) = query.since {
            // The row before may be a span that reaches there.
            let before = "COALESCE((SELECT MAX(p.scheduled_time) FROM QRTZ_RUN p WHERE p.execute_id = ? \
                          AND p.generation = ? AND p.origin = 0 AND p.scheduled_time < ?), ?)";
            planned = planned
                .push(&format!(" AND r.scheduled_time >= {before}"))
                .bind_all((schedule.0, generation, since, since));
        }
        branches.push(Branch { index: LedgerIndex::Planned, condition: planned });
        branches.push(Branch { index: LedgerIndex::Schedule, condition: of(" AND r.origin > 0") });
        next = generation_before(session, schedule, generation)?;
    }
    Ok(branches)
}

/// So many rows of a list.
struct Page<'a> {
    query: &'a ExecutionQuery,
    /// Those that follow this.
    after: Option<ListPlace>,
    limit: usize,
}

impl Page<'_> {
    fn read(&self, session: &mut dyn Session, way: &Way) -> Step<Vec<ExecutionRow>> {
        let mut rows = Vec::new();
        let Way::Together(branches) = way else {
            let spans = self.query.since.map(|since| spans(self.query, since));
            let (first, last) = if self.query.oldest { (spans, None) } else { (None, spans) };
            self.add(session, first.as_ref(), &mut rows)?;
            self.by_stretches(session, way, &mut rows)?;
            self.add(session, last.as_ref(), &mut rows)?;
            return Ok(rows);
        };
        for branch in branches {
            rows.extend(self.found(session, branch, self.limit)?);
            if branches.len() > 1 {
                rows.sort_by(|a, b| self.query.order(a.place(), b.place()));
                rows.truncate(self.limit);
            }
        }
        Ok(rows)
    }

    /// Adds what a branch finds, as far as the page has room.
    fn add(
        &self,
        session: &mut dyn Session,
        branch: Option<&Branch>,
        rows: &mut Vec<ExecutionRow>,
    ) -> Step<()> {
        let rest = self.limit - rows.len();
        if let Some(branch) = branch.filter(|_| rest > 0) {
            rows.extend(self.found(session, branch, rest)?);
        }
        Ok(())
    }

    fn found(&self, session: &mut dyn Session, branch: &Branch, limit: usize) -> Step<Vec<ExecutionRow>> {
        session.all(&self.rows(session.dialect(), branch, limit), ExecutionRow::read)
    }

    fn by_stretches(&self, session: &mut dyn Session, way: &Way, rows: &mut Vec<ExecutionRow>) -> Step<()> {
        let (line, mut stretches) = self.line(session.dialect(), way);
        stretches.skip_to(line.next(session, &stretches, self.query.oldest)?);
        while let Some(stretch) = stretches.next().filter(|_| rows.len() < self.limit) {
            let before = rows.len();
            self.add(session, Some(&line.between(stretch)), rows)?;
            if rows.len() == before {
                stretches.skip_to(line.next(session, &stretches, self.query.oldest)?);
            }
        }
        Ok(())
    }

    /// What is left of a line behind the last row that was listed.
    fn line(&self, dialect: Dialect, way: &Way) -> (Line, Stretches) {
        /// How many ids the first stretch has, and the longest.
        const IDS: (i64, i64) = (2_000, 100_000);
        /// The same of fire times: about a minute, and nine hours.
        const TIMES: (i64, i64) = (1 << 16, 1 << 25);
        let oldest = self.query.oldest;
        let left = |(from, until): (i64, i64), place: Option<i64>| match place {
            None => (from, until),
            Some(place) if oldest => (from.max(place), until),
            Some(place) => (from, until.min(place.saturating_add(1))),
        };
        match way {
            Way::Times => {
                let since = self.query.since.unwrap_or(Timestamp::MIN).millis();
                let until = self.query.until.unwrap_or(Timestamp::MAX).millis();
                let times = left((since, until), self.after.map(|after| after.scheduled.millis()));
                (Line(dialect.fire_time(), LedgerIndex::Time), Stretches::new(times, oldest, TIMES))
            }
            Way::Ids | Way::Together(_) => {
                let ids = left((i64::MIN, i64::MAX), self.after.map(|after| after.id));
                (Line("id", LedgerIndex::Id), Stretches::new(ids, oldest, IDS))
            }
        }
    }

    fn rows(&self, dialect: Dialect, branch: &Branch, limit: usize) -> Statement {
        let query = self.query;
        let question = sql(format!(
            "SELECT {} \
             FROM {} LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id \
             LEFT JOIN QRTZ_CANCEL c ON c.execution_id = r.id LEFT JOIN QRTZ_AUDIT a ON a.id = r.origin \
             LEFT JOIN QRTZ_JOB j ON j.id = e.pid WHERE 1 = 1",
            ExecutionRow::columns(query.of.is_some()),
            dialect.ledger_by(branch.index)
        ));
        let question = conditions(question.and(branch.condition.clone()), query);
        // COALESCE keeps a database from beginning with the tables beside the ledger, and with all rows of a
        // schedule or a job. What a branch has by the ids of schedules is not asked for again: PostgreSQL
        // would take the name for a rare one, and sort all rows, not go by the index until a page is full.
        let by_schedule = matches!(branch.index, LedgerIndex::Schedule | LedgerIndex::Planned);
        let of_schedule = query.schedule.as_deref().filter(|_| !by_schedule);
        let of_job = query.job.as_deref().filter(|_| !by_schedule || query.schedule.is_some());
        let question = question
            .given(" AND COALESCE(e.name, '') = ?", of_schedule)
            .given(" AND COALESCE(j.job_class, '') = ?", of_job);
        let question = self.behind(question);
        let (way, last) = (if query.oldest { "" } else { " DESC" }, branch.index.last());
        let order = match query.late {
            Some(_) => "r.due_time".to_owned(),
            None if branch.index == LedgerIndex::Time => format!("r.{}{way}, r.id{way}", dialect.fire_time()),
            None if query.by_fire_time() => format!("r.scheduled_time{way}, r.{last}{way}"),
            // PostgreSQL might read the ledger in this order, and look for the few in it.
            None if branch.index.gathers() => format!("r.id + 0{way}"),
            None => format!("r.id{way}"),
        };
        question.push(&format!(" ORDER BY {order} LIMIT ?")).bind(limit)
    }

    /// Appends that rows follow in the list.
    fn behind(&self, question: Statement) -> Statement {
        let Some(ListPlace { scheduled, id }) = self.after else { return question };
        let follows = if self.query.oldest { '>' } else { '<' };
        match self.query.by_fire_time() {
            false => question.push(&format!(" AND r.id {follows} ?")).bind(id),
            true => question
                .push(&format!(
                    " AND r.scheduled_time {follows}= ? \
                     AND (r.scheduled_time {follows} ? OR r.id {follows} ?)"
                ))
                .bind_all((scheduled, scheduled, id)),
        }
    }
}

/// A column by which the ledger is read from one end on, and its index.
struct Line(&'static str, LedgerIndex);

impl Line {
    fn between(&self, (from, until): (i64, i64)) -> Branch {
        let Self(column, index) = *self;
        let condition = sql(format!(" AND r.{column} >= ? AND r.{column} < ?")).bind_all((from, until));
        Branch { index, condition }
    }

    /// The first value that there is in the rest of the line.
    fn next(&self, session: &mut dyn Session, rest: &Stretches, oldest: bool) -> Step<Option<i64>> {
        let Self(column, _) = self;
        let first = if oldest { "MIN" } else { "MAX" };
        let question = sql(format!(
            "SELECT {first}(x.{column}) AS first_one FROM QRTZ_RUN x WHERE x.{column} >= ? AND x.{column} < ?"
        ));
        Ok(session.one(&question.bind_all(rest.rest()), Row::maybe_int)?.flatten())
    }
}

/// The spans of skipped and withdrawn occurrences that begin before this and reach it.
fn spans(query: &ExecutionQuery, since: Timestamp) -> Branch {
    let spans = sql(" AND r.until_time >= ? AND r.until_time <> -1 AND r.scheduled_time < ?");
    let index = if query.application.is_some() { LedgerIndex::Span } else { LedgerIndex::Any };
    Branch { index, condition: spans.bind_all((since, since)) }
}

/// Appends what each row of a list is.
fn conditions(question: Statement, query: &ExecutionQuery) -> Statement {
    let node =
        query.node.as_ref().map(|node| node.replace('!', "!!").replace('%', "!%").replace('_', "!_") + "%");
    let last = " AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN n WHERE n.execute_id = r.execute_id \
                AND n.generation = r.generation AND n.origin = r.origin \
                AND n.scheduled_time = r.scheduled_time AND n.attempt > r.attempt)";
    let mut question = question
        .push(if query.last { last } else { "" })
        .given(" AND r.application = ?", query.application.as_deref())
        .given(" AND r.group_key = ?", query.group.as_deref())
        .given(
            " AND (SELECT COUNT(*) FROM QRTZ_TAG t WHERE t.tag = ? AND t.execute_id = r.execute_id \
             AND t.origin = r.origin) > 0",
            query.tag.as_deref(),
        )
        .given(" AND r.reason = ?", query.reason.as_deref())
        .given(" AND r.node LIKE ? ESCAPE '!'", node)
        .given(" AND r.finished_time >= ?", query.ended_since.map(|since| since.max(Timestamp::EPOCH)))
        .given(" AND r.finished_time >= 0 AND r.finished_time < ?", query.ended_until)
        .given(" AND r.scheduled_time < ?", query.until);
    if !query.states.is_empty() {
        question = open_executions::in_states(question, &query.states);
    }
    if let Some(cause) = query.cause.as_deref() {
        let planned = cause == Cause::Planned.as_str();
        let named = question.push(if planned { " AND r.cause IS NULL" } else { " AND r.cause = ?" });
        question = if planned { named } else { named.bind(cause) };
    }
    // A span counts if it reaches there.
    match query.since {
        None => question,
        Some(since) => {
            question.push(" AND (r.scheduled_time >= ? OR r.until_time >= ?)").bind_all((since, since))
        }
    }
}

answer! {
    ExecutionRow(has_payload: bool) {
        id = "r.id", Row::int;
        application = "r.application", Row::loose_text;
        schedule = "e.name", Row::loose_text;
        job = "j.job_class", Row::loose_text;
        state = "r.state", Row::loose_text;
        reason = "r.reason", Row::loose_text;
        generation = "r.generation", Row::loose_int;
        origin = "r.origin", Row::loose_int;
        scheduled = "r.scheduled_time", Row::loose_instant;
        until = "r.until_time", Row::time;
        count = "r.occurrences", Row::loose_int;
        attempt = "r.attempt", Row::loose_int;
        node = "r.node", Row::loose_text;
        claimed = "r.claimed_time", Row::time;
        started = "r.started_time", Row::time;
        finished = "r.finished_time", Row::time;
        error = "r.error", Row::loose_text;
        cancel = "c.asked_time, c.actor, c.reason AS cancel_reason, c.seen_time", |row| {
            let (asked, actor, reason) = (row.maybe_instant()?, row.loose_text()?, row.loose_text()?);
            let seen = row.time()?;
            Ok(asked.map(|asked| CancelRow { asked, actor, reason, seen }))
        };
        cause = "r.cause, a.actor AS ordered_by, a.reason AS ordered_why", |row| {
            let (word, actor, why) = (row.maybe_text()?, row.maybe_text()?, row.maybe_text()?);
            Ok(Cause::read(word.as_deref(), actor.zip(why)))
        };
        fence = "r.fence", Row::loose_int;
        due = "r.due_time", Row::loose_instant;
        payload =
            if has_payload { "r.payload AS own_payload" } else { "NULL AS own_payload" }, Row::maybe_text;
        headers = if has_payload { "r.headers" } else { "NULL AS headers" },
            |row| Ok(headers::read(row.maybe_text()?.as_deref()));
        checkpoint = if has_payload { "r.checkpoint" } else { "NULL AS checkpoint" }, Row::maybe_text;
        result = if has_payload { "r.result" } else { "NULL AS result" }, Row::maybe_text;
        failures = "COALESCE(r.failures, 0) AS failed", Row::loose_int;
        snoozes = "COALESCE(r.snoozes, 0) AS snoozed", Row::loose_int;
        stuck = "CASE WHEN r.state = 'TIMED_OUT' AND EXISTS \
            (SELECT 1 FROM QRTZ_STUCK k WHERE k.execution_id = r.id) THEN 1 ELSE 0 END AS stuck", Row::flag;
        holder = "r.holder", Row::maybe_int;
        waited_for = "r.waited_for", Row::maybe_text;
        key = "r.unique_key", Row::maybe_text;
        group = "r.group_key", Row::maybe_text;
        lane = "r.lane", Row::maybe_text;
        tags = "r.tags", |row| Ok(read_tags(row.maybe_text()?.as_deref()));
        nobody = "CASE WHEN r.state = 'PENDING' THEN j.nobody_time END AS nobody", Row::time;
        held = "CASE WHEN r.state = 'PENDING' AND r.origin = 0 AND e.state = 'PAUSED' THEN 1 ELSE 0 END \
            AS held", Row::flag;
    }
}

/// The statements of a list's first page, as long as it is not full.
#[cfg(test)]
pub(crate) fn statements_for_test(session: &mut dyn Session, query: &ExecutionQuery) -> Vec<Statement> {
    let (way, dialect) = (Way::of(session, query).unwrap(), session.dialect());
    let page = Page { query, after: query.after, limit: query.limit };
    let branches = match way {
        Way::Together(branches) => branches,
        Way::Ids | Way::Times => {
            let (line, mut stretches) = page.line(dialect, &way);
            stretches.skip_to(line.next(session, &stretches, query.oldest).unwrap());
            stretches.take(20).map(|stretch| line.between(stretch)).collect()
        }
    };
    branches.iter().map(|it| page.rows(dialect, it, query.limit)).collect()
}

//! What the pipeline and the misfire handler look at.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::connection::Dialect;
use super::entry::{self, Raw, SHARDS};
use super::session::{Fault, Session};
use super::statement::{Row, Statement, join, seek, sql};
use super::under_way::no_one_has;
use crate::clock::{Clock, TimeSample};
use crate::model::{Entry, ExecutionId, Millis, MisfirePolicy, Pending, ScheduleId, Token};
use crate::store::when;
use crate::store::{Page, PollQuery, Polled, Reason, Stalled, StalledQuery, Unstarted};

pub(super) fn poll(session: &mut dyn Session, query: &PollQuery, clock: &Clock) -> Result<Polled, Fault> {
    let signs = signs(session, query, clock)?;
    let (mut schedules, mut pendings) = (Pages::default(), Pages::default());
    let mut known = HashMap::new();
    let jobs = if signs.due || signs.pending { jobs(session, &query.application)? } else { HashMap::new() };
    for part in parts(query, &jobs) {
        if signs.due {
            let source = due(session.dialect(), query, &part);
            schedules.add(session, &source, query.limit, |row| due_entry(row).map(Some))?;
        }
        if signs.pending {
            // A row that cannot be read was written by hand: it is left alone.
            let source = pending(session.dialect(), query, &part);
            pendings.add(session, &source, query.limit, |row| Ok(waiting(row, &mut known).ok()))?;
        }
    }
    let (entries, more_schedules) = schedules.merged(query.limit);
    let (pendings, more_pendings) = pendings.merged(query.limit);
    Ok(Polled {
        time: signs.time,
        app_enabled: signs.app == "Y",
        node_enabled: signs.node == "Y",
        election: signs.election,
        late: signs.late,
        entries,
        pendings,
        next: Page::behind(more_schedules, more_pendings),
    })
}

/// The ids of an application's active jobs, by name. Questions for due rows name the job by its id, a constant: only
/// then does MariaDB seek the fire time in the index as well.
pub(super) fn jobs(session: &mut dyn Session, application: &str) -> Result<HashMap<String, i64>, Fault> {
    let question = sql("SELECT job_class, id FROM QRTZ_JOB WHERE application = ? AND state = 'EXECUTING'");
    let rows = session.rows(&question.bind(application))?;
    rows.into_iter().map(|mut row| Ok((row.text()?, row.int()?))).collect()
}

/// What one statement tells: an idle poll needs no more.
struct Signs {
    time: TimeSample,
    app: String,
    node: String,
    election: Option<Millis>,
    due: bool,
    pending: bool,
    late: bool,
}

fn signs(session: &mut dyn Session, query: &PollQuery, clock: &Clock) -> Result<Signs, Fault> {
    let question = look(session.dialect(), query);
    let asked = clock.host();
    let row = session.rows(&question)?.pop();
    let answered = clock.host();
    let mut row = row.ok_or_else(|| Fault::undecodable("a poll without an answer".to_owned()))?;
    Ok(Signs {
        app: row.text()?,
        node: row.text()?,
        election: row.maybe_int()?,
        due: row.int()? == 1,
        pending: row.int()? == 1,
        late: row.int()? == 1,
        time: session.dialect().sample(asked, row.int()?, answered),
    })
}

/// Whether the application and the node are in state Y, the election mark, whether any of the query's jobs is due,
/// anything PENDING, and anything of the application late; and the database's time: read last, so that little time
/// passes between it and the answer's arrival.
pub(super) fn look(dialect: Dialect, query: &PollQuery) -> Statement {
    let application = query.application.as_str();
    let pending = format!(
        "EXISTS (SELECT 1 FROM QRTZ_RUN r WHERE r.application = ? AND r.state = 'PENDING' AND r.due_time < ?{})",
        no_one_has(dialect)
    );
    sql(format!(
        "SELECT (SELECT state FROM QRTZ_APP WHERE application = ?) AS app, \
         (SELECT state FROM QRTZ_NODE WHERE uuid = ? AND ended_time = -1) AS node, \
         (SELECT time_next FROM QRTZ_APP WHERE application = ?) AS election, COALESCE(heads.due, 0) AS due, \
         CASE WHEN {pending} THEN 1 ELSE 0 END AS pending, \
         CASE WHEN heads.late = 1 OR {pending} THEN 1 ELSE 0 END AS late, {} AS now \
         FROM (SELECT MAX(CASE WHEN head.fire_time < ? THEN 1 ELSE 0 END) AS late, \
         MAX(CASE WHEN head.fire_time < ? AND head.job_class IN ",
        dialect.exact_clock()
    ))
    .bind(application)
    .bind(query.node.to_string())
    .bind(application)
    .bind(application)
    .bind(query.until)
    .bind(application)
    .bind(query.late)
    .bind(query.late)
    .bind(query.until)
    .list(query.shares.iter().flat_map(|share| &share.jobs).map(String::as_str))
    .push(&format!(" THEN 1 ELSE 0 END) AS due FROM ({HEADS}) AS head) AS heads"))
    .bind(query.until.max(query.late))
    .bind(application)
}

/// The earliest fire time before an instant (?) in each shard of each job of an application (?): one look into the
/// index for each, however many rows there are. The limit keeps MariaDB from merging this into a question around it,
/// where it would no longer know `s`.
const HEADS: &str = "SELECT j.job_class, (SELECT e.next_fire_time FROM QRTZ_EXECUTE e \
     WHERE e.application = j.application AND e.state = 'EXECUTING' AND e.pid = j.id AND e.shard = s.shard \
     AND e.next_fire_time > -1 AND e.next_fire_time < ? ORDER BY e.next_fire_time LIMIT 1) AS fire_time \
     FROM QRTZ_JOB j CROSS JOIN (SELECT 0 AS shard UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 \
     UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 \
     UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11 UNION ALL SELECT 12 UNION ALL SELECT 13 \
     UNION ALL SELECT 14 UNION ALL SELECT 15) AS s WHERE j.application = ? LIMIT 1000000000";

/// What one statement brings: schedules of these jobs in some shards, or of some names.
pub(super) struct Part<'q> {
    jobs: Vec<i64>,
    among: Among<'q>,
}

enum Among<'q> {
    Shards(&'q [i64]),
    Names(&'q [String]),
}

/// Mostly one: nodes that list the same jobs share them all alike.
pub(super) fn parts<'q>(query: &'q PollQuery, ids: &HashMap<String, i64>) -> Vec<Part<'q>> {
    let known = |jobs: &[String]| jobs.iter().filter_map(|job| ids.get(job).copied()).collect::<Vec<i64>>();
    let shares = query
        .shares
        .iter()
        .map(|share| Part { jobs: known(&share.jobs), among: Among::Shards(&share.shards) });
    let jobs = query.shares.iter().flat_map(|share| known(&share.jobs)).collect();
    let named = Part { jobs, among: Among::Names(&query.names) };
    shares.chain([named]).filter(|part| !part.is_empty()).collect()
}

impl Part<'_> {
    fn is_empty(&self) -> bool {
        let nowhere = match self.among {
            Among::Shards(shards) => shards.is_empty(),
            Among::Names(names) => names.is_empty(),
        };
        nowhere || self.jobs.is_empty()
    }

    fn of(&self, question: Statement) -> Statement {
        let question = question.push(" AND e.pid IN ").list(self.jobs.iter().copied());
        match self.among {
            Among::Shards(shards) => question.push(" AND e.shard IN ").list(shards.iter().copied()),
            Among::Names(names) => question.push(" AND e.name IN ").list(names.iter().map(String::as_str)),
        }
    }
}

/// A question for what is due, and the order of its pages.
pub(super) struct Source {
    question: Statement,
    order: &'static str,
    /// It begins with what is due first.
    first: bool,
}

impl Source {
    /// All of it, if that is no more than a page; else one row more, and not the first ones.
    pub(super) fn whole(&self, limit: usize) -> Statement {
        self.question.clone().push(" LIMIT ?").bind(limit + 1)
    }

    /// A page, and the row behind it.
    pub(super) fn page(&self, limit: usize) -> Statement {
        self.question.clone().push(&format!(" ORDER BY {} LIMIT ?", self.order)).bind(limit + 1)
    }
}

pub(super) fn due(dialect: Dialect, query: &PollQuery, part: &Part<'_>) -> Source {
    let question = sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e {} QRTZ_JOB j ON j.id = e.pid \
         WHERE e.application = ? AND e.state = 'EXECUTING'",
        entry::COLUMNS,
        join(dialect)
    ));
    let question = part
        .of(question.bind(query.application.as_str()))
        .push(" AND e.next_fire_time < ? AND (e.next_fire_time > ? OR (e.next_fire_time = ? AND e.id > ?))")
        .bind(query.until)
        .bind(query.page.schedules.0)
        .bind(query.page.schedules.0)
        .bind(query.page.schedules.1);
    let first = query.page.schedules == Page::FIRST.schedules;
    Source { question, order: "e.next_fire_time, e.id", first }
}

/// PENDING executions: of active or complete schedules, and of paused ones if asked for by hand.
pub(super) fn pending(dialect: Dialect, query: &PollQuery, part: &Part<'_>) -> Source {
    let question = sql(format!(
        "SELECT r.id, r.scheduled_time, r.due_time, r.attempt, r.origin, r.claim_token, {} \
         FROM QRTZ_RUN r {join} QRTZ_EXECUTE e ON {schedule} {join} QRTZ_JOB j ON j.id = e.pid \
         WHERE r.application = ? AND r.state = 'PENDING' AND r.due_time < ?{waiting} \
         AND (r.due_time > ? OR (r.due_time = ? AND r.id > ?)) \
         AND (e.state IN ('EXECUTING', 'COMPLETE') OR (e.state = 'PAUSED' AND r.origin <> 0))",
        entry::COLUMNS,
        join = join(dialect),
        schedule = seek(dialect, "e.id", "r.execute_id"),
        waiting = no_one_has(dialect)
    ))
    .bind(query.application.as_str())
    .bind(query.until)
    .bind(query.page.pendings.0)
    .bind(query.page.pendings.0)
    .bind(query.page.pendings.1);
    let first = query.page.pendings == Page::FIRST.pendings;
    Source { question: part.of(question), order: "r.due_time, r.id", first }
}

/// A row's place in the order of its pages, and what it means, if that can be understood.
type Keyed<T> = ((Millis, i64), Option<T>);

/// One page of each part, on the way to one page of all.
struct Pages<T> {
    rows: Vec<Keyed<T>>,
    /// Some part's page is full: more may come behind it.
    full: bool,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), full: false }
    }
}

impl<T> Pages<T> {
    /// Mostly a page has room for all there is. That is sorted here: sorting whole rows would take the database twice as long
    /// as finding them. If it has not, the rows of the first page are read twice.
    fn add(
        &mut self,
        session: &mut dyn Session,
        source: &Source,
        limit: usize,
        mut read: impl FnMut(Row) -> Result<Option<Keyed<T>>, Fault>,
    ) -> Result<(), Fault> {
        let before = self.rows.len();
        if source.first && self.bring(session, &source.whole(limit), &mut read)? <= limit {
            return Ok(());
        }
        self.rows.truncate(before);
        self.full |= self.bring(session, &source.page(limit), &mut read)? > limit;
        Ok(())
    }

    /// Answers how many rows came.
    fn bring(
        &mut self,
        session: &mut dyn Session,
        question: &Statement,
        read: &mut dyn FnMut(Row) -> Result<Option<Keyed<T>>, Fault>,
    ) -> Result<usize, Fault> {
        let mut brought = 0;
        session.each(question, &mut |row| {
            brought += 1;
            self.rows.extend(read(row)?);
            Ok(())
        })?;
        Ok(brought)
    }

    /// What the first `limit` rows in the order of their keys mean, each once; and the last one's key if more may follow.
    fn merged(mut self, limit: usize) -> (Vec<T>, Option<(Millis, i64)>) {
        self.rows.sort_unstable_by_key(|(key, _)| *key);
        self.rows.dedup_by_key(|(key, _)| *key);
        let more = self.full || self.rows.len() > limit;
        self.rows.truncate(limit);
        let last = self.rows.last().filter(|_| more).map(|(key, _)| *key);
        (self.rows.into_iter().filter_map(|(_, row)| row).collect(), last)
    }
}

/// A due schedule's row. Understood at once: a page of rows as they are would take several times the memory.
fn due_entry(mut row: Row) -> Result<Keyed<Arc<Entry>>, Fault> {
    let raw = Raw::read(&mut row)?;
    Ok((raw.key(), raw.understand().ok().map(Arc::new)))
}

/// A PENDING execution's row; those of one schedule share its entry.
fn waiting(mut row: Row, known: &mut HashMap<i64, Option<Arc<Entry>>>) -> Result<Keyed<Pending>, Fault> {
    let (id, scheduled, due) = (row.int()?, row.int()?, row.int()?);
    let (attempt, origin, token) = (u32::try_from(row.int()?), row.int()?, row.text()?);
    let schedule = Raw::read(&mut row)?;
    let entry = known.entry(schedule.id).or_insert_with(|| schedule.understand().ok().map(Arc::new)).clone();
    let pending = match (entry, attempt, uuid::Uuid::parse_str(&token)) {
        (Some(entry), Ok(attempt), Ok(token)) if when::is_instant(scheduled) => {
            let (id, token) = (ExecutionId(id), Token(token));
            Some(Pending { id, entry, scheduled, due, attempt, origin, token })
        }
        _ => None,
    };
    Ok(((due, id), pending))
}

/// Rows fallen behind whose job some live node lists, while the application is switched on.
pub(super) fn stalled(session: &mut dyn Session, query: &StalledQuery) -> Result<Stalled, Fault> {
    let jobs = listed(session, &query.application)?;
    if jobs.is_empty() {
        return Ok(Stalled { entries: Vec::new(), unstarted: Vec::new(), next: None });
    }
    let rows = entry::raw(session.rows(&behind(session.dialect(), query, &jobs))?)?;
    let next = rows.last().filter(|_| rows.len() == query.limit).map(|last| ScheduleId(last.id));
    let entries = entry::understood(rows);
    Ok(Stalled { unstarted: unstarted(session, &query.application, &entries)?, entries, next })
}

/// What earlier misfire repairs of these schedules left PENDING and may give way. Their ids are no reason to read the
/// schedules' whole ledgers: what is PENDING is found by its own index.
fn unstarted(
    session: &mut dyn Session,
    application: &str,
    entries: &[Entry],
) -> Result<Vec<Unstarted>, Fault> {
    let give_way = entries.iter().filter(|entry| entry.misfire == MisfirePolicy::FireOnce);
    let give_way: HashSet<i64> = give_way.map(|entry| entry.id.0).collect();
    let (Some(first), Some(last)) = (give_way.iter().min(), give_way.iter().max()) else {
        return Ok(Vec::new());
    };
    let question = unstarted_between(session.dialect(), application, *first, *last);
    let mut unstarted = Vec::new();
    for mut row in session.rows(&question)? {
        let (schedule, execution, token) = (row.int()?, ExecutionId(row.int()?), row.loose_text()?);
        // One without a readable token was written by hand and stays.
        if let (true, Ok(token)) = (give_way.contains(&schedule), Uuid::parse_str(&token)) {
            unstarted.push(Unstarted { schedule: ScheduleId(schedule), execution, token: Token(token) });
        }
    }
    Ok(unstarted)
}

pub(super) fn unstarted_between(dialect: Dialect, application: &str, first: i64, last: i64) -> Statement {
    sql(format!(
        "SELECT r.execute_id, r.id, r.claim_token FROM QRTZ_RUN r JOIN QRTZ_EXECUTE e ON e.id = r.execute_id \
         WHERE r.application = ? AND r.state = 'PENDING' AND r.reason = ?{} \
         AND r.execute_id + 0 BETWEEN ? AND ? AND e.misfire = 'FIRE_ONCE'",
        no_one_has(dialect)
    ))
    .bind(application)
    .bind(Reason::Misfire.as_str())
    .bind(first)
    .bind(last)
}

pub(super) fn behind(dialect: Dialect, query: &StalledQuery, jobs: &[i64]) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e {} QRTZ_JOB j ON j.id = e.pid \
         WHERE e.application = ? AND e.state = 'EXECUTING' AND e.shard IN {SHARDS} \
         AND e.next_fire_time >= 0 AND e.next_fire_time < ? AND e.id > ? \
         AND (SELECT a.state FROM QRTZ_APP a WHERE a.application = e.application) = 'Y' AND e.pid IN ",
        entry::COLUMNS,
        join(dialect)
    ))
    .bind(query.application.as_str())
    .bind(query.before)
    .bind(query.after.0)
    .list(jobs.iter().copied())
    .push(" ORDER BY e.id + 0 LIMIT ?")
    .bind(query.limit)
}

/// The ids of the active jobs that some live node has a handler for.
pub(super) fn listed(session: &mut dyn Session, application: &str) -> Result<Vec<i64>, Fault> {
    let names = listed_jobs(session, application)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let ids = jobs(session, application)?;
    Ok(names.iter().filter_map(|name| ids.get(name).copied()).collect())
}

/// The jobs that nodes not ended say they have handlers for.
fn listed_jobs(session: &mut dyn Session, application: &str) -> Result<Vec<String>, Fault> {
    let question = sql("SELECT DISTINCT jobs FROM QRTZ_NODE WHERE application = ? AND ended_time = -1");
    let mut jobs = Vec::new();
    for mut row in session.rows(&question.bind(application))? {
        jobs.extend(super::node::jobs(&row.loose_text()?));
    }
    jobs.sort();
    jobs.dedup();
    Ok(jobs)
}

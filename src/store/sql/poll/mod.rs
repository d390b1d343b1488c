//! The searches of polls and of the misfire handler.

pub(super) mod due;
pub(super) mod news;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use self::due::{Part, parts};
use super::dialect::Dialect;
use super::rows::entry::{Payload, Raw};
use super::session::Session;
use super::session::fault::{Fault, Step};
use super::session::statement::{Row, Statement, answer, padded, sql};
use super::verbs::node;
use crate::domain::shards::SHARDS;
use crate::domain::{
    Activity, Cause, Entry, ExecutionId, JobId, MisfirePolicy, Pending, Reason, ScheduleId, Timestamp, Token,
    shards,
};
use crate::store::enqueue::queue_of;
use crate::store::switch::PassedQuery;
use crate::store::{
    DueRows, LargePayload, OverduePage, OverdueQuery, Page, PollQuery, Polled, Section, Unstarted,
};
use crate::time::{Clock, Micros};

pub(crate) fn poll(session: &mut dyn Session, query: &PollQuery, clock: &Clock) -> Step<Polled> {
    let (is_due, mut polled) = first_look(session, query, clock)?;
    let is_pending = polled.earliest_pending.is_some();
    if (is_due || is_pending) && !query.shares.is_empty() {
        let (jobs, queues) = jobs_and_queues(session, query)?;
        let parts = parts(query, &jobs);
        let sections = if is_due { due(session, query, &parts, &mut polled)? } else { Vec::new() };
        let more = if is_pending { pendings(session, query, &queues, &parts, &mut polled)? } else { None };
        polled.next = Page::behind(sections, more);
    }
    Ok(polled)
}

/// Brings the page's due schedules; answers with the sections of the next page.
fn due(
    session: &mut dyn Session,
    query: &PollQuery,
    parts: &[Part<'_>],
    polled: &mut Polled,
) -> Step<Vec<Section>> {
    let DueRows::Sections(sections) = &query.page.schedules else {
        return all_due(session, query, parts, polled);
    };
    let (rows, next) = share_out(session, &query.application, sections, query.limit, &due_entry)?;
    polled.rows += rows.len();
    rows.into_iter().filter_map(|(_, row)| row).for_each(|row| row.put(polled));
    Ok(next)
}

/// An equal share of each section, section by section, and the sections of the next page.
fn share_out<T>(
    session: &mut dyn Session,
    application: &str,
    sections: &[Section],
    limit: usize,
    understand: &dyn Fn(Raw) -> Keyed<T>,
) -> Step<(Vec<Keyed<T>>, Vec<Section>)> {
    let (asked, waiting) = sections.split_at(sections.len().min(limit));
    let (mut shared, mut next) = (Vec::new(), waiting.to_vec());
    if asked.is_empty() {
        return Ok((shared, next));
    }
    let share = limit / asked.len();
    let mut brought: Vec<Vec<Keyed<T>>> = asked.iter().map(|_| Vec::new()).collect();
    read_sections(session, application, asked, share + 1, Payload::Small, &mut |section, raw| {
        brought[section].push(understand(raw));
    })?;
    for (section, mut rows) in asked.iter().zip(brought) {
        rows.sort_unstable_by_key(|(key, _)| *key);
        let more = rows.len() > share;
        rows.truncate(share);
        next.extend(rows.last().filter(|_| more).map(|(key, _)| Section { after: *key, ..*section }));
        shared.append(&mut rows);
    }
    Ok((shared, next))
}

/// Mostly a page holds all due rows. They are sorted here: sorting whole rows would take the database twice
/// as long as finding them.
fn all_due(
    session: &mut dyn Session,
    query: &PollQuery,
    parts: &[Part<'_>],
    polled: &mut Polled,
) -> Step<Vec<Section>> {
    let (named, shares): (Vec<&Part<'_>>, Vec<&Part<'_>>) = parts.iter().partition(|part| part.is_named());
    let mut rows: Vec<Keyed<DueRow>> = Vec::new();
    let mut bring = |parts: &[&Part<'_>], rows: &mut Vec<Keyed<DueRow>>| {
        parts.iter().try_for_each(|part| {
            let question = session.dialect().database().due_rows(query, part, query.limit + 1);
            session.each(&question, &mut |mut row| {
                rows.push(due_entry(Raw::read(&mut row)?));
                Ok(())
            })
        })
    };
    bring(&shares, &mut rows)?;
    polled.rows += rows.len();
    let overfull = rows.len() > query.limit;
    if overfull {
        rows.clear();
    }
    bring(&named, &mut rows)?;
    rows.sort_unstable_by_key(|(key, _)| *key);
    rows.dedup_by_key(|(key, _)| *key);
    rows.into_iter().for_each(|(_, row)| row.into_iter().for_each(|row| row.put(polled)));
    let sections = shares.iter().filter(|_| overfull).flat_map(|part| part.sections(query));
    Ok(sections.collect())
}

/// Brings the PENDING executions that the page reaches and the query wants; answers with the key of the last
/// one that was looked at, of the newest with that of the first, if there are more.
fn pendings(
    session: &mut dyn Session,
    query: &PollQuery,
    queues: &[Queue<'_>],
    parts: &[Part<'_>],
    polled: &mut Polled,
) -> Step<Option<(Timestamp, i64)>> {
    if query.page.pendings == Page::END || parts.is_empty() {
        return Ok(None);
    }
    let (mut rows, mut known) = (Vec::new(), Known::default());
    for queues in queues.chunks(QUEUES) {
        session.each(&waiting_rows(session.dialect(), query, parts, queues), &mut |row| {
            rows.push(waiting(row, &mut known, &mut polled.large)?);
            Ok(())
        })?;
    }
    polled.rows += rows.len();
    rows.sort_unstable_by_key(|(key, _)| *key);
    let beyond = rows.len().saturating_sub(query.limit);
    rows.drain(if query.page.newest { 0..beyond } else { rows.len() - beyond..rows.len() });
    let last = if query.page.newest { rows.first() } else { rows.last() };
    let last = last.filter(|_| beyond > 0).map(|(key, _)| *key);
    polled.pendings.extend(rows.into_iter().filter_map(|(_, pending)| pending));
    Ok(last)
}

/// The shards of a queue at which a poll looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue<'q> {
    pub(crate) id: i64,
    pub(crate) shards: &'q [i64],
}

impl Queue<'_> {
    /// Stands for the executions of schedules, which have their schedules' shards.
    pub(crate) const NONE: Self = Self { id: 0, shards: &[] };
    const PADDING: Self = Self { id: -1, shards: &[] };

    /// Appends that `r` is in one of the shards. These stay as they are while no node joins or leaves.
    fn condition(&self) -> String {
        if self.shards.is_empty() || self.shards.len() == SHARDS {
            return String::new();
        }
        let shards: Vec<String> = self.shards.iter().map(i64::to_string).collect();
        format!(" AND r.origin % {SHARDS} IN ({})", shards.join(", "))
    }
}

/// The active jobs, and the queues whose executions a poll looks at: those of the jobs it wants, and
/// [`Queue::NONE`].
fn jobs_and_queues<'q>(
    session: &mut dyn Session,
    query: &'q PollQuery,
) -> Step<(HashMap<String, JobId>, Vec<Queue<'q>>)> {
    let dialect = session.dialect();
    let question = format!(
        "SELECT j.job_class, j.id, e.id AS queue FROM QRTZ_JOB j LEFT JOIN QRTZ_EXECUTE e \
         ON e.application = j.application AND e.name = {} WHERE j.application = ? AND j.state = 'EXECUTING'",
        dialect.queue_of("j.job_class")
    );
    let rows: Vec<(String, JobId, Option<i64>)> = session
        .all(&sql(question).bind(query.application.as_str()), |row| {
            Ok((row.text()?, JobId(row.int()?), row.maybe_int()?))
        })?;
    let shares = query.shares.iter().filter(|share| !share.shards.is_empty());
    let shards_of: HashMap<&String, &[i64]> =
        shares.flat_map(|share| share.jobs.iter().map(|job| (job, share.shards.as_slice()))).collect();
    // A poll asks by its name for what was enqueued in its own process, whatever the shard.
    let is_named = |job: &String| !query.names.is_empty() && query.names.contains(&queue_of(job));
    let wanted = |(job, _, queue): &(String, JobId, Option<i64>)| match is_named(job) {
        true => Some(Queue { id: (*queue)?, shards: &[] }),
        false => Some(Queue { id: (*queue)?, shards: shards_of.get(job)? }),
    };
    let queues = [Queue::NONE].into_iter().chain(rows.iter().filter_map(wanted)).collect();
    Ok((rows.into_iter().map(|(job, id, _)| (job, id)).collect(), queues))
}

/// The payloads of these schedules.
pub(crate) fn payloads(session: &mut dyn Session, schedules: &[ScheduleId]) -> Step<Vec<LargePayload>> {
    let question = sql("SELECT e.id, e.version, e.payload FROM QRTZ_EXECUTE e WHERE e.id IN ");
    session.all(&question.list(schedules.iter().map(|id| id.0)), |row| {
        let (id, version) = (ScheduleId(row.int()?), row.loose_int()?);
        Ok(LargePayload { id, version, payload: row.loose_text()?.into() })
    })
}

/// The ids of an application's active jobs, by name. Questions for due rows name the job by its id, a
/// constant: only then does MariaDB seek the fire time in the index as well.
pub(crate) fn jobs(session: &mut dyn Session, application: &str) -> Step<HashMap<String, JobId>> {
    let question = sql("SELECT job_class, id FROM QRTZ_JOB WHERE application = ? AND state = 'EXECUTING'");
    session.all(&question.bind(application), |row| Ok((row.text()?, JobId(row.int()?))))
}

answer! {
    /// What one statement tells: an idle poll needs no more. The database's time is read last, so that little
    /// time passes between it and the answer's arrival.
    struct FirstAnswer(dialect: Dialect) {
        app: String = "(SELECT state FROM QRTZ_APP WHERE application = ?) AS app", Row::text;
        node: String =
            "(SELECT state FROM QRTZ_NODE WHERE uuid = ? AND ended_time = -1) AS node", Row::loose_text;
        election: Option<Timestamp> =
            "(SELECT time_next FROM QRTZ_APP WHERE application = ?) AS election", Row::maybe_instant;
        /// Whether some pause has ended.
        pause_ended: bool = format!(
            "COALESCE((SELECT CASE WHEN pause_ends BETWEEN 0 AND {} THEN 1 ELSE 0 END FROM QRTZ_APP \
             WHERE application = ?), 0) AS pause_ended",
            dialect.clock()
        ), Row::flag;
        /// Whether other programs' requests wait.
        requested: bool = "CASE WHEN EXISTS (SELECT 1 FROM QRTZ_REQUEST WHERE application = ? \
            AND state = 'REQUESTED') THEN 1 ELSE 0 END AS requested", Row::flag;
        /// Whether something is expected of some schedule.
        expects: bool = "CASE WHEN EXISTS (SELECT 1 FROM QRTZ_EXPECTED WHERE application = ?) \
            THEN 1 ELSE 0 END AS expects", Row::flag;
        /// Whether any of the query's jobs is due.
        is_due: bool = "COALESCE(heads.due, 0) AS due", Row::flag;
        /// When the first PENDING execution is due: one look into the index for each queue, as in [`heads`].
        pending: Option<Timestamp> = format!(
            "(SELECT MIN(first.due_time) FROM (SELECT (SELECT r.due_time FROM QRTZ_RUN r \
             WHERE r.application = ? AND r.state = 'PENDING'{} AND r.queue = q.id AND r.due_time >= ? \
             AND r.due_time < ? ORDER BY r.due_time LIMIT 1) AS due_time FROM (SELECT 0 AS id UNION ALL \
             SELECT e.id FROM QRTZ_JOB j {} QRTZ_EXECUTE e ON e.application = j.application \
             AND e.name = {} WHERE j.application = ?) AS q LIMIT 1000000000) AS first) AS pending",
            dialect.pending(),
            dialect.join(),
            dialect.queue_of("j.job_class")
        ), Row::maybe_instant;
        /// Whether some active job is none of the listed ones.
        unlisted: bool = "COALESCE(heads.unlisted, 0) AS unlisted", Row::flag;
        /// Whether anything of the listed jobs is late.
        is_late: bool = "CASE WHEN heads.earliest < ? THEN 1 ELSE 0 END AS late", Row::flag;
        /// When the earliest of the listed jobs is due.
        earliest: Option<Timestamp> = "heads.earliest AS earliest", Row::maybe_instant;
        now: Micros = format!("{} AS now", dialect.exact_clock()), |row| row.int().map(Micros::of);
    }
}

/// Whether anything of the query's jobs is due, and an answer without rows as yet.
fn first_look(session: &mut dyn Session, query: &PollQuery, clock: &Clock) -> Step<(bool, Polled)> {
    let question = look(session.dialect(), query);
    let asked = clock.host();
    let row = session.rows(&question)?.pop();
    let answered = clock.host();
    let mut row = row.ok_or_else(|| Fault::undecodable("a poll without an answer".to_owned()))?;
    let answer = FirstAnswer::read(&mut row)?;
    let FirstAnswer { app, node, election, pause_ended, requested, expects, .. } = answer;
    let FirstAnswer { unlisted, is_due, pending, is_late, earliest, now, .. } = answer;
    let polled = Polled {
        app_enabled: app == "Y",
        node_enabled: node == Activity::Active.stored(false),
        drains: [Activity::Draining, Activity::Drained].iter().any(|it| node == it.stored(false)),
        pause_ended,
        requested,
        unlisted,
        expects,
        election,
        late: is_late || pending.is_some_and(|at| at < query.late),
        earliest: earliest.filter(|at| *at < query.until),
        earliest_pending: pending.filter(|at| *at < query.until),
        time: session.dialect().sample(asked, now, answered),
        rows: 0,
        entries: Vec::new(),
        pendings: Vec::new(),
        large: HashMap::new(),
        next: None,
    };
    Ok((is_due, polled))
}

pub(crate) fn look(dialect: Dialect, query: &PollQuery) -> Statement {
    let application = query.application.as_str();
    let look = sql(format!("SELECT {} FROM (SELECT ", FirstAnswer::columns(dialect)))
        .bind_all((application, query.node.to_string(), application, application, application, application))
        .bind(application)
        .bind_all((query.pending_from, query.until.max(query.late), application, query.late));
    if query.listed.is_empty() && query.page.schedules == DueRows::Sections(Vec::new()) {
        return look.push("NULLIF(0, 0) AS earliest, 0 AS due, 0 AS unlisted) AS heads");
    }
    look.push("MIN(CASE WHEN head.job_class IN ")
        .list(query.listed.iter().map(String::as_str))
        .push(
            " THEN head.fire_time END) AS earliest, MAX(CASE WHEN head.fire_time < ? AND head.job_class IN ",
        )
        .bind(query.until)
        .list(query.shares.iter().flat_map(|share| &share.jobs).map(String::as_str))
        .push(" THEN 1 ELSE 0 END) AS due, MAX(CASE WHEN head.job_class IN ")
        .list(query.listed.iter().map(String::as_str))
        .push(&format!(" THEN 0 ELSE 1 END) AS unlisted FROM ({}) AS head) AS heads", heads()))
        .bind_all((query.from, query.until.max(query.late), application))
}

/// The earliest fire time between two instants (?, ?) in each shard of each active job of an application (?):
/// one look into the index for each, however many rows there are. The limit keeps MariaDB from merging this
/// into a question around it, where it would no longer know `s`. The states of jobs are asked for by id:
/// without them the index of names covers the question, and SQLite leaves other applications' jobs alone.
fn heads() -> String {
    let shards: Vec<String> = shards::every().map(|shard| format!("SELECT {shard} AS shard")).collect();
    format!(
        "SELECT j.id AS pid, j.job_class, s.shard, (SELECT e.next_fire_time FROM QRTZ_EXECUTE e \
         WHERE e.application = j.application AND e.state = 'EXECUTING' AND e.pid = j.id \
         AND e.shard = s.shard AND e.next_fire_time >= ? AND e.next_fire_time < ? ORDER BY e.next_fire_time \
         LIMIT 1) AS fire_time FROM QRTZ_JOB j CROSS JOIN ({}) AS s WHERE j.application = ? \
         AND (SELECT a.state FROM QRTZ_JOB a WHERE a.id = j.id) = 'EXECUTING' LIMIT 1000000000",
        shards.join(" UNION ALL ")
    )
}

/// The sections of what is due in this span of these jobs in all shards.
pub(crate) fn sections(jobs: &[JobId], due: &Range<Timestamp>) -> Vec<Section> {
    let section = |job: JobId| shards::every().map(move |shard| Section::new(job, shard, due.clone()));
    jobs.iter().flat_map(|job| section(*job)).collect()
}

/// How many sections one statement reads.
const SECTIONS: usize = 64;

/// Hands on up to `share` rows of each section, with the section's place.
pub(crate) fn read_sections(
    session: &mut dyn Session,
    application: &str,
    sections: &[Section],
    share: usize,
    payload: Payload,
    see: &mut dyn FnMut(usize, Raw),
) -> Step<()> {
    for (chunk, first) in sections.chunks(SECTIONS).zip((0..).step_by(SECTIONS)) {
        let question = section_rows(session.dialect(), application, chunk, share, payload);
        session.each(&question, &mut |mut row| {
            let section = usize::try_from(row.int()?).unwrap_or(usize::MAX);
            if section < chunk.len() {
                see(first + section, Raw::read(&mut row)?);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The rows of some sections, each in its order and with its section's place; padded with sections of no job.
pub(crate) fn section_rows(
    dialect: Dialect,
    application: &str,
    sections: &[Section],
    share: usize,
    payload: Payload,
) -> Statement {
    let section = |place: usize| {
        format!(
            "SELECT * FROM (SELECT {place} AS section, {} FROM QRTZ_EXECUTE e {} QRTZ_JOB j ON j.id = e.pid \
             WHERE e.application = ? AND e.state = 'EXECUTING' AND e.pid = ? AND e.shard = ? \
             AND e.next_fire_time >= ? AND e.next_fire_time < ? AND (e.next_fire_time > ? OR e.id > ?) \
             ORDER BY e.next_fire_time, e.id LIMIT ?) AS section_{place}",
            Raw::columns(payload),
            dialect.join()
        )
    };
    let nothing = Section { job: JobId(-1), shard: 0, after: (Timestamp::EPOCH, 0), until: Timestamp::EPOCH };
    let size = padded(sections.len());
    let question = sql((0..size).map(section).collect::<Vec<String>>().join(" UNION ALL "));
    sections.iter().copied().chain(std::iter::repeat(nothing)).take(size).fold(
        question,
        |question, section| {
            question
                .bind_all((application, section.job, section.shard, section.after.0, section.until))
                .bind_all((section.after.0, section.after.1, share))
        },
    )
}

/// How many queues one statement looks into.
const QUEUES: usize = 64;

/// The next PENDING executions of these queues in the order of (due time, id), or the last, and one more;
/// with their schedules if the parts want them: of active or complete schedules, and of paused ones if asked
/// for by hand. Only keys are read of each queue: a page of whole rows of every queue would be too many.
pub(crate) fn waiting_rows(
    dialect: Dialect,
    query: &PollQuery,
    parts: &[Part<'_>],
    queues: &[Queue<'_>],
) -> Statement {
    let desc = if query.page.newest { " DESC" } else { "" };
    let padding = std::iter::repeat(&Queue::PADDING);
    let queues: Vec<&Queue<'_>> = queues.iter().chain(padding).take(padded(queues.len())).collect();
    let keys = |(place, queue): (usize, &&Queue<'_>)| {
        format!(
            "SELECT * FROM (SELECT r.id, r.due_time FROM QRTZ_RUN r WHERE r.application = ? \
             AND r.state = 'PENDING'{} AND r.queue = ? AND r.due_time >= ? AND r.due_time < ? \
             AND (r.due_time > ? OR r.id > ?){} ORDER BY r.due_time{desc}, r.id{desc} LIMIT ?) AS q_{place}",
            dialect.pending(),
            queue.condition()
        )
    };
    let question = sql(format!(
        "SELECT p.id, p.due_time, CASE WHEN e.id IS NULL THEN 0 ELSE 1 END AS wanted, {} \
         FROM (SELECT k.id FROM ({}) AS k ORDER BY k.due_time{desc}, k.id{desc} LIMIT ?) AS w \
         {} QRTZ_RUN p ON {} LEFT JOIN QRTZ_EXECUTE e ON {} \
         AND (e.state IN ('EXECUTING', 'COMPLETE') OR (e.state = 'PAUSED' AND p.origin <> 0)) AND (",
        WaitingRow::columns(),
        queues.iter().enumerate().map(keys).collect::<Vec<String>>().join(" UNION ALL "),
        dialect.join(),
        dialect.seek("p.id", "w.id"),
        dialect.seek("e.id", "p.execute_id")
    ));
    let (due, id) = query.page.pendings;
    let question = queues.iter().fold(question, |question, queue| {
        question
            .bind_all((query.application.as_str(), queue.id, due.max(query.pending_from), query.until))
            .bind_all((due, id, query.limit + 1))
    });
    let question = question.bind(query.limit + 1);
    // Enqueued executions are shared out one by one.
    let shard = format!("CASE WHEN e.job_type = 'QUEUE' THEN p.origin % {SHARDS} ELSE e.shard END");
    let wanted = parts.iter().enumerate().fold(question, |question, (place, part)| {
        part.of(question.push(if place == 0 { "(" } else { " OR (" }), &shard).push(")")
    });
    wanted.push(") LEFT JOIN QRTZ_JOB j ON j.id = e.pid")
}

/// What the audit holds of the order that an execution `p` comes from.
fn of_order(column: &str) -> String {
    format!(
        "CASE WHEN p.cause IN ('by hand', 'rerun') \
         THEN (SELECT a.{column} FROM QRTZ_AUDIT a WHERE a.id = p.origin) END AS by_{column}"
    )
}

/// A row's place in the order of its pages, and what it means, if that can be understood.
type Keyed<T> = ((Timestamp, i64), Option<T>);

/// A due schedule, and the size of its payload if that was left out.
struct DueRow {
    entry: Arc<Entry>,
    left_out: usize,
}

impl DueRow {
    fn put(self, polled: &mut Polled) {
        if self.left_out > 0 {
            polled.large.insert(self.entry.id, self.left_out);
        }
        polled.entries.push(self.entry);
    }
}

/// A due schedule's row. Understood at once: a page of rows as they are would take several times the memory.
fn due_entry(raw: Raw) -> Keyed<DueRow> {
    let (key, left_out) = (raw.key(), raw.left_out());
    (key, raw.understand().ok().map(|entry| DueRow { entry: Arc::new(entry), left_out }))
}

/// What rows of one page share.
#[derive(Default)]
struct Known {
    entries: HashMap<i64, Option<Arc<Entry>>>,
    /// Names of groups and lanes.
    names: HashSet<Arc<str>>,
}

impl Known {
    fn name(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(name.as_str()) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }
}

answer! {
    /// A PENDING execution `p` with its schedule.
    struct WaitingRow() {
        scheduled: Option<Timestamp> = "p.scheduled_time", Row::maybe_instant;
        attempt: Option<i64> = "p.attempt", Row::maybe_int;
        generation: i64 = "p.generation AS of_generation", Row::loose_int;
        origin: Option<i64> = "p.origin", Row::maybe_int;
        token: Option<Token> = "p.claim_token", Row::token;
        cause: Option<String> = "p.cause AS why", Row::maybe_text;
        payload: Option<String> =
            "CASE WHEN e.id IS NULL THEN NULL ELSE p.payload END AS own", Row::maybe_text;
        priority: Option<i64> = "p.priority AS own_priority", Row::maybe_int;
        group: Option<String> = "p.group_key", Row::maybe_text;
        lane: Option<String> = "p.lane", Row::maybe_text;
        headers: Option<String> =
            "CASE WHEN e.id IS NULL THEN NULL ELSE p.headers END AS own_headers", Row::maybe_text;
        failures: Option<i64> = "p.failures", Row::maybe_int;
        snoozes: Option<i64> = "p.snoozes", Row::maybe_int;
        actor: Option<String> = of_order("actor"), Row::maybe_text;
        note: Option<String> = of_order("reason"), Row::maybe_text;
        schedule: Raw = Raw::columns(Payload::Small), Raw::read;
    }
}

/// A PENDING execution's row; those of one schedule share its entry. One that cannot be read was written by
/// hand: it is left alone.
fn waiting(mut row: Row, known: &mut Known, large: &mut HashMap<ScheduleId, usize>) -> Step<Keyed<Pending>> {
    let (id, due, wanted) = (row.int()?, row.loose_instant()?, row.flag()?);
    if !wanted {
        return Ok(((due, id), None));
    }
    let row = WaitingRow::read(&mut row)?;
    let (schedule, left_out) = (row.schedule.id, row.schedule.left_out());
    if left_out > 0 {
        large.insert(ScheduleId(schedule), left_out);
    }
    let understand = || row.schedule.understand().ok().map(Arc::new);
    let entry = known.entries.entry(schedule).or_insert_with(understand).clone();
    let attempt = row.attempt.map(u32::try_from);
    let (Some(entry), Some(scheduled), Some(Ok(attempt)), Some(origin), Some(token)) =
        (entry, row.scheduled.filter(|at| at.utc().is_some()), attempt, row.origin, row.token)
    else {
        return Ok(((due, id), None));
    };
    let count = |value: Option<i64>| u32::try_from(value.unwrap_or(0).max(0)).unwrap_or(u32::MAX);
    let pending = Pending {
        id: ExecutionId(id),
        entry,
        scheduled,
        due,
        attempt,
        generation: row.generation,
        origin,
        token,
        cause: Cause::read(row.cause.as_deref(), row.actor.zip(row.note)),
        payload: row.payload.map(Arc::from),
        priority: row.priority.and_then(|priority| i32::try_from(priority).ok()),
        group: row.group.map(|group| known.name(group)),
        lane: row.lane.map(|lane| known.name(lane)),
        headers: row.headers.map(Arc::from),
        failures: count(row.failures),
        snoozes: count(row.snoozes),
    };
    Ok(((due, id), Some(pending)))
}

/// Rows fallen behind whose job some live node lists, while the application is switched on.
pub(crate) fn overdue(session: &mut dyn Session, query: &OverdueQuery) -> Step<OverduePage> {
    let jobs = listed(session, &query.application)?;
    let mut sections = match &query.sections {
        Some(sections) => sections.clone(),
        None if jobs.is_empty() => Vec::new(),
        None => sections_behind(session, query)?,
    };
    sections.retain(|section| jobs.contains(&section.job));
    let entry = |raw: Raw| (raw.key(), raw.understand().ok());
    let (mut rows, next) = share_out(session, &query.application, &sections, query.limit, &entry)?;
    rows.sort_unstable_by_key(|(key, _)| *key);
    let entries: Vec<Entry> = rows.into_iter().filter_map(|(_, entry)| entry).collect();
    Ok(OverduePage { unstarted: unstarted(session, &query.application, &entries)?, entries, next })
}

/// What the pause of a job, or of the application, has held back.
pub(crate) fn passed(session: &mut dyn Session, query: &PassedQuery) -> Step<Vec<Entry>> {
    let paused = match &query.job {
        Some(_) => "AND j.state <> 'EXECUTING' AND j.job_class = ?",
        None => {
            "AND EXISTS (SELECT 1 FROM QRTZ_APP a WHERE a.application = j.application AND a.state <> 'Y')"
        }
    };
    let jobs = sql(format!("SELECT j.id FROM QRTZ_JOB j WHERE j.application = ? {paused}"));
    let jobs = jobs.bind(query.application.as_str());
    let jobs = query.job.iter().fold(jobs, |jobs, job| jobs.bind(job.as_str()));
    let jobs: Vec<JobId> = session.all(&jobs, |row| row.int().map(JobId))?;
    let mut entries = Vec::new();
    for sections in sections(&jobs, &(Timestamp::EPOCH..query.before)).chunks(SECTIONS) {
        let mut see = |_, raw: Raw| entries.extend(raw.understand().ok());
        read_sections(session, &query.application, sections, query.limit, Payload::None, &mut see)?;
        if entries.len() >= query.limit {
            break;
        }
    }
    entries.truncate(query.limit);
    Ok(entries)
}

/// The sections of all jobs that have rows behind.
fn sections_behind(session: &mut dyn Session, query: &OverdueQuery) -> Step<Vec<Section>> {
    let due = query.from..query.before;
    let section = |row: &mut Row| Ok(Section::new(JobId(row.int()?), row.int()?, due.clone()));
    session.all(&behind(&query.application, &due), section)
}

pub(crate) fn behind(application: &str, due: &Range<Timestamp>) -> Statement {
    sql(format!("SELECT head.pid, head.shard FROM ({}) AS head WHERE head.fire_time < ?", heads()))
        .bind_all((due.start, due.end, application, due.end))
}

/// The earliest of each section of an active job, with its fire time, of those that fire in a span.
pub(crate) fn heads_between(application: &str, from: Timestamp, until: Timestamp) -> Statement {
    let columns = "head.pid, head.shard, head.fire_time";
    sql(format!("SELECT {columns} FROM ({}) AS head WHERE head.fire_time < ?", heads())).bind_all((
        from,
        until,
        application,
        until,
    ))
}

/// What earlier misfire repairs of these schedules left PENDING and may give way. Their ids are no reason to
/// read the schedules' whole ledgers: what is PENDING is found by its own index.
fn unstarted(session: &mut dyn Session, application: &str, entries: &[Entry]) -> Step<Vec<Unstarted>> {
    let give_way = entries.iter().filter(|entry| entry.misfire == MisfirePolicy::FireOnce);
    let give_way: Vec<i64> = give_way.map(|entry| entry.id.0).collect();
    if give_way.is_empty() {
        return Ok(Vec::new());
    }
    let question = unstarted_of(session.dialect(), application, give_way);
    let unstarted: Vec<Option<Unstarted>> = session.all(&question, |row| {
        let (schedule, execution) = (ScheduleId(row.int()?), ExecutionId(row.int()?));
        // One without a readable token was written by hand and stays.
        Ok(row.token()?.map(|token| Unstarted { schedule, execution, token }))
    })?;
    Ok(unstarted.into_iter().flatten().collect())
}

/// The most planned PENDING executions read in search of superseded ones. If the application has more, some
/// are not superseded and run although a later occurrence does.
const LOOKED_THROUGH: usize = 200_000;

pub(crate) fn unstarted_of(dialect: Dialect, application: &str, schedules: Vec<i64>) -> Statement {
    let pending = format!(
        "SELECT r.execute_id, r.id, r.claim_token, r.reason FROM QRTZ_RUN r \
         WHERE r.application = ? AND r.state = 'PENDING'{} AND r.origin = 0 LIMIT {LOOKED_THROUGH}",
        dialect.pending()
    );
    let question = sql(format!(
        "SELECT p.execute_id, p.id, p.claim_token FROM ({pending}) AS p WHERE p.reason = ? AND "
    ));
    let question = question.bind(application).bind(Reason::Misfire.as_str());
    dialect.among(question, "p.execute_id", schedules)
}

/// The ids of the active jobs that some live node has a handler for, while the application is switched on.
pub(crate) fn listed(session: &mut dyn Session, application: &str) -> Step<Vec<JobId>> {
    let names = listed_jobs(session, application)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let ids = jobs(session, application)?;
    Ok(names.iter().filter_map(|name| ids.get(name).copied()).collect())
}

/// The jobs that nodes not ended say they have handlers for; none of an application that is switched off.
fn listed_jobs(session: &mut dyn Session, application: &str) -> Step<Vec<String>> {
    let question =
        sql("SELECT DISTINCT n.jobs FROM QRTZ_NODE n JOIN QRTZ_APP a ON a.application = n.application \
         WHERE n.application = ? AND n.ended_time = -1 AND a.state = 'Y'");
    let jobs: Vec<Vec<String>> = session.all(&question.bind(application), node::list)?;
    let mut jobs = jobs.concat();
    jobs.sort();
    jobs.dedup();
    Ok(jobs)
}

//! The searches of polls and of the misfire handler.

pub(super) mod due;
pub(super) mod news;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use self::due::{Part, parts};
use super::dialect::Dialect;
use super::rows::entry::{self, Payload, Raw};
use super::session::Session;
use super::session::fault::{Fault, Step};
use super::session::statement::{Row, Statement, ids, padded, sql};
use super::verbs::node;
use crate::domain::shards::SHARDS;
use crate::domain::{
    Cause, Entry, ExecutionId, MisfirePolicy, Pending, Reason, ScheduleId, Timestamp, Token, shards,
};
use crate::store::switch::{PassedQuery, Switch};
use crate::store::{
    DueRows, LargePayload, OverduePage, OverdueQuery, Page, PollQuery, Polled, Section, Unstarted,
};
use crate::time::Clock;

pub(crate) fn poll(session: &mut dyn Session, query: &PollQuery, clock: &Clock) -> Step<Polled> {
    let FirstAnswer { is_due, is_pending, mut polled } = first_answer(session, query, clock)?;
    if (is_due || is_pending) && !query.shares.is_empty() {
        let jobs = jobs(session, &query.application)?;
        let parts = parts(query, &jobs);
        let sections = if is_due { due(session, query, &parts, &mut polled)? } else { Vec::new() };
        let more = if is_pending { pendings(session, query, &parts, &mut polled)? } else { None };
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
    parts: &[Part<'_>],
    polled: &mut Polled,
) -> Step<Option<(Timestamp, i64)>> {
    if query.page.pendings == Page::END || parts.is_empty() {
        return Ok(None);
    }
    let (mut rows, mut known) = (Vec::new(), Known::default());
    session.each(&waiting_rows(session.dialect(), query, parts), &mut |row| {
        rows.push(waiting(row, &mut known, &mut polled.large)?);
        Ok(())
    })?;
    polled.rows += rows.len();
    rows.sort_unstable_by_key(|(key, _)| *key);
    let beyond = rows.len().saturating_sub(query.limit);
    rows.drain(if query.page.newest { 0..beyond } else { rows.len() - beyond..rows.len() });
    let last = if query.page.newest { rows.first() } else { rows.last() };
    let last = last.filter(|_| beyond > 0).map(|(key, _)| *key);
    polled.pendings.extend(rows.into_iter().filter_map(|(_, pending)| pending));
    Ok(last)
}

/// The payloads of these schedules.
pub(crate) fn payloads(session: &mut dyn Session, schedules: &[ScheduleId]) -> Step<Vec<LargePayload>> {
    let question = sql("SELECT e.id, e.version, e.payload FROM QRTZ_EXECUTE e WHERE e.id IN ");
    let rows = session.rows(&question.list(schedules.iter().map(|id| id.0)))?;
    let read = |mut row: Row| {
        let (id, version) = (ScheduleId(row.int()?), row.loose_int()?);
        Ok(LargePayload { id, version, payload: row.loose_text()?.into() })
    };
    rows.into_iter().map(read).collect()
}

/// The ids of an application's active jobs, by name. Questions for due rows name the job by its id, a
/// constant: only then does MariaDB seek the fire time in the index as well.
pub(crate) fn jobs(session: &mut dyn Session, application: &str) -> Step<HashMap<String, i64>> {
    let question = sql("SELECT job_class, id FROM QRTZ_JOB WHERE application = ? AND state = 'EXECUTING'");
    let rows = session.rows(&question.bind(application))?;
    rows.into_iter().map(|mut row| Ok((row.text()?, row.int()?))).collect()
}

/// What one statement tells: an idle poll needs no more.
struct FirstAnswer {
    is_due: bool,
    is_pending: bool,
    /// As yet without rows.
    polled: Polled,
}

fn first_answer(session: &mut dyn Session, query: &PollQuery, clock: &Clock) -> Step<FirstAnswer> {
    let question = look(session.dialect(), query);
    let asked = clock.host();
    let row = session.rows(&question)?.pop();
    let answered = clock.host();
    let mut row = row.ok_or_else(|| Fault::undecodable("a poll without an answer".to_owned()))?;
    let (app_enabled, node, election) = (row.text()? == "Y", row.loose_text()?, row.maybe_instant()?);
    let pause_ended = row.int()? == 1;
    let (is_due, pending) = (row.int()? == 1, row.maybe_instant()?);
    let polled = Polled {
        app_enabled,
        node_enabled: node == Switch::On.word(false),
        drains: [Switch::Draining, Switch::Drained].iter().any(|it| node == it.word(false)),
        pause_ended,
        election,
        late: row.int()? == 1 || pending.is_some_and(|at| at < query.late),
        earliest: row.maybe_instant()?.filter(|at| *at < query.until),
        earliest_pending: pending.filter(|at| *at < query.until),
        time: session.dialect().sample(asked, row.int()?, answered),
        rows: 0,
        entries: Vec::new(),
        pendings: Vec::new(),
        large: HashMap::new(),
        next: None,
    };
    Ok(FirstAnswer { is_due, is_pending: polled.earliest_pending.is_some(), polled })
}

/// The states of the application and the node, the election mark, whether some pause has ended, whether any
/// of the query's jobs is due, when the first PENDING execution is, whether anything of the listed jobs is
/// late, and when the earliest of these is due; and the database's time: read last, so that little time
/// passes between it and the answer's arrival.
pub(crate) fn look(dialect: Dialect, query: &PollQuery) -> Statement {
    let application = query.application.as_str();
    let pending = format!(
        "(SELECT r.due_time FROM QRTZ_RUN r WHERE r.application = ? AND r.state = 'PENDING' AND r.due_time >= ? \
         AND r.due_time < ?{} ORDER BY r.due_time LIMIT 1)",
        dialect.pending()
    );
    sql(format!(
        "SELECT (SELECT state FROM QRTZ_APP WHERE application = ?) AS app, \
         (SELECT state FROM QRTZ_NODE WHERE uuid = ? AND ended_time = -1) AS node, \
         (SELECT time_next FROM QRTZ_APP WHERE application = ?) AS election, \
         COALESCE((SELECT CASE WHEN pause_ends BETWEEN 0 AND {clock} THEN 1 ELSE 0 END FROM QRTZ_APP \
         WHERE application = ?), 0) AS pause_ended, COALESCE(heads.due, 0) AS due, \
         {pending} AS pending, CASE WHEN heads.earliest < ? THEN 1 ELSE 0 END AS late, heads.earliest AS earliest, \
         {} AS now FROM (SELECT MIN(CASE WHEN head.job_class IN ",
        dialect.exact_clock(),
        clock = dialect.clock()
    ))
    .bind_all((application, query.node.to_string(), application, application, application))
    .bind_all((query.pending_from, query.until.max(query.late), query.late))
    .list(query.listed.iter().map(String::as_str))
    .push(" THEN head.fire_time END) AS earliest, MAX(CASE WHEN head.fire_time < ? AND head.job_class IN ")
    .bind(query.until)
    .list(query.shares.iter().flat_map(|share| &share.jobs).map(String::as_str))
    .push(&format!(" THEN 1 ELSE 0 END) AS due FROM ({}) AS head) AS heads", heads()))
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
         WHERE e.application = j.application AND e.state = 'EXECUTING' AND e.pid = j.id AND e.shard = s.shard \
         AND e.next_fire_time >= ? AND e.next_fire_time < ? ORDER BY e.next_fire_time LIMIT 1) AS fire_time \
         FROM QRTZ_JOB j CROSS JOIN ({}) AS s WHERE j.application = ? \
         AND (SELECT a.state FROM QRTZ_JOB a WHERE a.id = j.id) = 'EXECUTING' LIMIT 1000000000",
        shards.join(" UNION ALL ")
    )
}

/// The sections of what is due in this span of these jobs in all shards.
pub(crate) fn sections(jobs: &[i64], due: &Range<Timestamp>) -> Vec<Section> {
    let section = |job: i64| shards::every().map(move |shard| Section::new(job, shard, due.clone()));
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
            entry::columns(payload),
            dialect.join()
        )
    };
    let nothing =
        Section { job: -1, shard: 0, after: (Timestamp::default(), 0), until: Timestamp::default() };
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

/// The next PENDING executions in the order of (due time, id), or the last, whoever's they are, and one more;
/// with their schedules if the parts want them: of active or complete schedules, and of paused ones if asked
/// for by hand.
pub(crate) fn waiting_rows(dialect: Dialect, query: &PollQuery, parts: &[Part<'_>]) -> Statement {
    let question = sql(format!(
        "SELECT p.id, p.due_time, CASE WHEN e.id IS NULL THEN 0 ELSE 1 END AS wanted, p.scheduled_time, p.attempt, \
         p.generation AS of_generation, p.origin, p.claim_token, p.cause AS why, CASE WHEN e.id IS NULL THEN NULL ELSE p.payload END AS own, p.priority AS own_priority, p.group_key, p.lane, p.failures, p.snoozes, {actor}, {note}, {} \
         FROM (SELECT r.id, r.due_time, r.scheduled_time, r.attempt, r.generation, r.origin, \
         r.claim_token, r.execute_id, r.cause, r.payload, r.priority, r.group_key, r.lane, r.failures, r.snoozes FROM QRTZ_RUN r WHERE r.application = ? AND r.state = 'PENDING'{waiting} \
         AND r.due_time >= ? AND r.due_time < ? AND (r.due_time > ? OR r.id > ?) \
         ORDER BY {order} LIMIT ?) AS p LEFT JOIN QRTZ_EXECUTE e ON {schedule} \
         AND (e.state IN ('EXECUTING', 'COMPLETE') OR (e.state = 'PAUSED' AND p.origin <> 0)) AND (",
        entry::columns(Payload::Small),
        order = if query.page.newest { "r.due_time DESC, r.id DESC" } else { "r.due_time, r.id" },
        schedule = dialect.seek("e.id", "p.execute_id"),
        actor = of_order("actor"),
        note = of_order("reason"),
        waiting = dialect.pending()
    ))
    .bind_all((query.application.as_str(), query.page.pendings.0.max(query.pending_from), query.until))
    .bind_all((query.page.pendings.0, query.page.pendings.1, query.limit + 1));
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
        "CASE WHEN p.cause = 'by hand' THEN (SELECT a.{column} FROM QRTZ_AUDIT a WHERE a.id = p.origin) END AS by_{column}"
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
    let (key, left_out) = (raw.key(), raw.left_out);
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

/// A PENDING execution's row; those of one schedule share its entry. One that cannot be read was written by
/// hand: it is left alone.
fn waiting(mut row: Row, known: &mut Known, large: &mut HashMap<ScheduleId, usize>) -> Step<Keyed<Pending>> {
    let (id, due, wanted) = (row.int()?, row.instant()?, row.int()? == 1);
    if !wanted {
        return Ok(((due, id), None));
    }
    let (scheduled, attempt) = (row.maybe_instant()?, row.maybe_int()?.map(u32::try_from));
    let generation = row.loose_int()?;
    let (origin, token) = (row.maybe_int()?, uuid::Uuid::parse_str(&row.loose_text()?));
    let (cause, payload) = (row.maybe_text()?, row.maybe_text()?);
    let priority = row.maybe_int()?.and_then(|priority| i32::try_from(priority).ok());
    let group = row.maybe_text()?.map(|group| known.name(group));
    let lane = row.maybe_text()?.map(|lane| known.name(lane));
    let count = |value: Option<i64>| u32::try_from(value.unwrap_or(0).max(0)).unwrap_or(u32::MAX);
    let (failures, snoozes) = (count(row.maybe_int()?), count(row.maybe_int()?));
    let (actor, note) = (row.maybe_text()?, row.maybe_text()?);
    let by = actor.zip(note);
    let schedule = Raw::read(&mut row)?;
    if schedule.left_out > 0 {
        large.insert(ScheduleId(schedule.id), schedule.left_out);
    }
    let entry =
        known.entries.entry(schedule.id).or_insert_with(|| schedule.understand().ok().map(Arc::new)).clone();
    let pending = match (entry, scheduled, attempt, origin, token) {
        (Some(entry), Some(scheduled), Some(Ok(attempt)), Some(origin), Ok(token))
            if scheduled.utc().is_some() =>
        {
            let (id, token, cause) = (ExecutionId(id), Token(token), Cause::read(cause.as_deref(), by));
            let payload = payload.map(Arc::from);
            Some(Pending {
                id,
                entry,
                scheduled,
                due,
                attempt,
                generation,
                origin,
                token,
                cause,
                payload,
                priority,
                group,
                lane,
                failures,
                snoozes,
            })
        }
        _ => None,
    };
    Ok(((due, id), pending))
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
    let jobs = ids(session.rows(&jobs)?)?;
    let mut entries = Vec::new();
    for sections in sections(&jobs, &(Timestamp::default()..query.before)).chunks(SECTIONS) {
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
    let rows = session.rows(&behind(&query.application, &due))?;
    let section = |mut row: Row| Ok(Section::new(row.int()?, row.int()?, due.clone()));
    rows.into_iter().map(section).collect()
}

pub(crate) fn behind(application: &str, due: &Range<Timestamp>) -> Statement {
    sql(format!("SELECT head.pid, head.shard FROM ({}) AS head WHERE head.fire_time < ?", heads()))
        .bind_all((due.start, due.end, application, due.end))
}

/// What earlier misfire repairs of these schedules left PENDING and may give way. Their ids are no reason to
/// read the schedules' whole ledgers: what is PENDING is found by its own index.
fn unstarted(session: &mut dyn Session, application: &str, entries: &[Entry]) -> Step<Vec<Unstarted>> {
    let give_way = entries.iter().filter(|entry| entry.misfire == MisfirePolicy::FireOnce);
    let give_way: Vec<i64> = give_way.map(|entry| entry.id.0).collect();
    if give_way.is_empty() {
        return Ok(Vec::new());
    }
    let mut unstarted = Vec::new();
    for mut row in session.rows(&unstarted_of(session.dialect(), application, give_way))? {
        let (schedule, execution, token) = (row.int()?, ExecutionId(row.int()?), row.loose_text()?);
        // One without a readable token was written by hand and stays.
        if let Ok(token) = Uuid::parse_str(&token) {
            unstarted.push(Unstarted { schedule: ScheduleId(schedule), execution, token: Token(token) });
        }
    }
    Ok(unstarted)
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
pub(crate) fn listed(session: &mut dyn Session, application: &str) -> Step<Vec<i64>> {
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
    let mut jobs = Vec::new();
    for mut row in session.rows(&question.bind(application))? {
        jobs.extend(node::jobs(&row.loose_text()?));
    }
    jobs.sort();
    jobs.dedup();
    Ok(jobs)
}

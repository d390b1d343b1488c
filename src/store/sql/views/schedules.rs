//! Pages of schedules. Each is found in small rows, which say whether a schedule is on it, and then read.
//!
//! Those of which there are few are gathered by an index; everything else is looked at by name. An index that
//! has all schedules by job, or by state, would be written by claims (ADR 70).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::domain::{JobId, ScheduleState, Timestamp};
use crate::store::ScheduleRow;
use crate::store::schedules::{Among, ScheduleKey, SchedulePage, ScheduleQuery, ScheduleSketch};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::poll;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, Value, answer, padded, sql};
use crate::store::sql::views::inspect::{SHOWN, all_schedules, behind_name, of_application};

/// So many are gathered at most, and then sorted. Where there are more, a look at all by name finds some
/// soon. In tests a few are many, so that both ways are taken.
const FEW: usize = if cfg!(test) { 3 } else { 5_000 };
/// How many schedules the first statement of a look by name reads at least.
const FIRST: usize = 200;
/// Of so many sections, a job's schedules in one shard, those that fire first are read.
const SECTIONS: usize = 256;
/// How many sections one statement reads.
const AT_ONCE: usize = 64;
/// So many of each section are read at least.
const SHARE: usize = 16;

pub(crate) fn page(session: &mut dyn Session, query: &ScheduleQuery) -> Step<SchedulePage> {
    let jobs = Jobs::read(session, &query.application)?;
    let found = match &query.among {
        Among::Due { jobs: wanted, from, until } => due(session, query, &jobs, wanted, (*from, *until))?,
        _ => by_name(session, query, &jobs)?,
    };
    let rows = whole(session, &found.ids)?;
    Ok(SchedulePage { rows, next: found.next, looked: found.looked })
}

/// How many schedules there are; of more than `most`, that many.
pub(crate) fn count(session: &mut dyn Session, application: &str, most: usize) -> Step<usize> {
    let count = session.one(&counting(application, most), Row::int)?;
    Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
}

pub(crate) fn counting(application: &str, most: usize) -> Statement {
    sql(format!(
        "SELECT COUNT(*) AS schedules FROM (SELECT e.id FROM QRTZ_EXECUTE e WHERE {SHOWN} \
         AND e.application = ? ORDER BY e.application, e.name LIMIT ?) AS c"
    ))
    .bind_all((application, most))
}

/// How many active schedules each job has; of more than `most`, that many.
pub(crate) fn count_by_job(
    session: &mut dyn Session,
    application: &str,
    most: usize,
) -> Step<Vec<(String, usize)>> {
    let jobs: Vec<(JobId, String)> = Jobs::read(session, application)?.0.into_iter().collect();
    let mut counts = Vec::new();
    for jobs in jobs.chunks(AT_ONCE) {
        let ids: Vec<JobId> = jobs.iter().map(|(id, _)| *id).collect();
        session.each(&counting_by_job(application, &ids, most), &mut |mut row| {
            let (place, count) = (row.int()?, row.int()?);
            let job = usize::try_from(place).ok().and_then(|place| jobs.get(place));
            counts.extend(job.map(|(_, job)| (job.clone(), usize::try_from(count).unwrap_or_default())));
            Ok(())
        })?;
    }
    Ok(counts)
}

pub(crate) fn counting_by_job(application: &str, jobs: &[JobId], most: usize) -> Statement {
    let part = |place: usize| {
        format!(
            "SELECT {place} AS job, COUNT(*) AS schedules FROM (SELECT e.id FROM QRTZ_EXECUTE e \
             WHERE e.application = ? AND e.state = 'EXECUTING' AND e.pid = ? LIMIT ?) AS c_{place}"
        )
    };
    let size = padded(jobs.len());
    let question = sql((0..size).map(part).collect::<Vec<String>>().join(" UNION ALL "));
    let jobs = jobs.iter().copied().chain(std::iter::repeat(JobId(-1))).take(size);
    jobs.fold(question, |question, job| question.bind_all((application, job, most)))
}

/// The jobs of an application by their ids.
struct Jobs(HashMap<JobId, String>);

impl Jobs {
    fn read(session: &mut dyn Session, application: &str) -> Step<Self> {
        let question = sql("SELECT j.id, j.job_class FROM QRTZ_JOB j WHERE j.application = ?");
        let jobs: Vec<(JobId, String)> =
            session.all(&question.bind(application), |row| Ok((JobId(row.int()?), row.loose_text()?)))?;
        Ok(Self(jobs.into_iter().collect()))
    }

    /// The ids of those of these names.
    fn ids(&self, names: &[String]) -> Vec<JobId> {
        let names: HashSet<&String> = names.iter().collect();
        self.0.iter().filter(|(_, name)| names.contains(name)).map(|(id, _)| *id).collect()
    }
}

answer! {
    struct Sketched() {
        id: i64 = "e.id", Row::int;
        name: String = "e.name", Row::loose_text;
        job: Option<i64> = "e.pid", Row::maybe_int;
        state: String = "e.state", Row::loose_text;
        paused_by: String = "e.paused_by", Row::loose_text;
        description: String = "e.description", Row::loose_text;
        owner: Option<String> = "e.owner", Row::maybe_text;
        next: Option<Timestamp> = "e.next_fire_time", Row::time;
    }
}

impl Sketched {
    fn named(self, jobs: &Jobs) -> ScheduleSketch {
        let Self { id, name, job, state, paused_by, description, owner, next } = self;
        let job = job.and_then(|job| jobs.0.get(&JobId(job)).cloned()).unwrap_or_default();
        ScheduleSketch { id, name, job, state, paused_by, description, owner, next }
    }
}

/// What a page has.
#[derive(Default)]
struct Found {
    ids: Vec<i64>,
    next: Option<ScheduleKey>,
    looked: usize,
}

/// How schedules are read by name.
#[derive(Debug)]
pub(crate) enum Way {
    All,
    /// Those in a state that has an index by name.
    State(ScheduleState),
    /// Those of which an occurrence has not succeeded in time, among all.
    Unmet,
    Gathered(Vec<i64>),
}

impl Way {
    fn of(session: &mut dyn Session, query: &ScheduleQuery, jobs: &Jobs) -> Step<Self> {
        let dialect = session.dialect();
        let gathered = match &query.among {
            Among::All | Among::Due { .. } => return Ok(Self::All),
            Among::Ids(ids) => return Ok(Self::Gathered(ids.clone())),
            Among::InState(state) if dialect.has_partial_indexes() => return Ok(Self::State(*state)),
            Among::InState(state) => in_state(&query.application, *state),
            Among::ActiveOf(names) => match jobs.ids(names) {
                jobs if jobs.is_empty() => return Ok(Self::Gathered(Vec::new())),
                jobs => active_of(&query.application, &jobs),
            },
            Among::Unmet => unmet(&query.application),
        };
        let ids: Vec<i64> = session.all(&gathered, Row::int)?;
        Ok(match query.among {
            _ if ids.len() <= FEW => Self::Gathered(ids),
            Among::Unmet => Self::Unmet,
            _ => Self::All,
        })
    }
}

fn in_state(application: &str, state: ScheduleState) -> Statement {
    sql("SELECT e.id FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.state = ? LIMIT ?").bind_all((
        application,
        state.stored(),
        FEW + 1,
    ))
}

pub(crate) fn active_of(application: &str, jobs: &[JobId]) -> Statement {
    sql("SELECT e.id FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.state = 'EXECUTING' AND e.pid IN ")
        .bind(application)
        .list(jobs.iter().copied())
        .push(" LIMIT ?")
        .bind(FEW + 1)
}

pub(crate) fn unmet(application: &str) -> Statement {
    sql("SELECT x.id FROM QRTZ_EXPECTED x WHERE x.application = ? AND x.unmet_time <> -1 LIMIT ?")
        .bind_all((application, FEW + 1))
}

fn by_name(session: &mut dyn Session, query: &ScheduleQuery, jobs: &Jobs) -> Step<Found> {
    let way = Way::of(session, query, jobs)?;
    if matches!(&way, Way::Gathered(ids) if ids.is_empty()) {
        return Ok(Found::default());
    }
    let mut found = Found { next: query.after.clone(), ..Found::default() };
    let mut size = query.limit.saturating_add(1).max(FIRST);
    loop {
        let asked = size.min(query.look.saturating_sub(found.looked));
        if asked == 0 {
            return Ok(found);
        }
        let question = sketches(session.dialect(), &way, query, after(&found), asked);
        let brought: Vec<Sketched> = session.all(&question, Sketched::read)?;
        let is_last = brought.len() < asked;
        for sketch in brought {
            let sketch = sketch.named(jobs);
            found.looked += 1;
            // SQLite keeps names that are no text, behind which there is no other.
            let is_admitted = query.admits(&sketch);
            if is_admitted && found.ids.len() == query.limit {
                return Ok(found);
            }
            found.ids.extend(is_admitted.then_some(sketch.id));
            found.next = Some(query.key(&sketch)).filter(|_| !sketch.name.is_empty());
        }
        if is_last || found.next.is_none() {
            found.next = None;
            return Ok(found);
        }
        size = size.saturating_mul(4);
    }
}

fn after(found: &Found) -> Option<&str> {
    match &found.next {
        Some(ScheduleKey::Name(name)) => Some(name),
        _ => None,
    }
}

/// Schedules behind a name, so many.
pub(crate) fn sketches(
    dialect: Dialect,
    way: &Way,
    query: &ScheduleQuery,
    after: Option<&str>,
    limit: usize,
) -> Statement {
    let question = sql(format!("SELECT {} FROM QRTZ_EXECUTE e WHERE {SHOWN}", Sketched::columns()));
    let question = match after {
        Some(name) => behind_name(question, dialect, &query.application, name),
        None => of_application(question, "e", Some(&query.application)),
    };
    let question = match way {
        Way::All => question,
        // SQLite takes a partial index only for its own words.
        Way::State(state) => {
            let state = state.stored();
            question.push(&format!(" AND e.state IN ('PAUSED', 'ERROR') AND e.state = '{state}'"))
        }
        Way::Unmet => question.push(
            " AND EXISTS (SELECT 1 FROM QRTZ_EXPECTED x WHERE x.application = e.application \
             AND x.id = e.id AND x.unmet_time <> -1)",
        ),
        Way::Gathered(ids) => of_ids(dialect, question, ids),
    };
    question.push(" ORDER BY e.application, e.name LIMIT ?").bind(limit)
}

/// Appends that a schedule has one of these ids: PostgreSQL is to seek each, and not to read the table.
fn of_ids(dialect: Dialect, question: Statement, ids: &[i64]) -> Statement {
    match dialect.binds_lists() {
        true => question.push(" AND e.id = ANY (?)").bind(Value::Ints(Arc::new(ids.to_vec()))),
        false => question.push(" AND e.id IN ").list(ids.iter().copied()),
    }
}

/// The schedules of these ids, in this order.
fn whole(session: &mut dyn Session, ids: &[i64]) -> Step<Vec<ScheduleRow>> {
    /// So many are read by one statement.
    const CHUNK: usize = 1_000;
    let dialect = session.dialect();
    let mut rows: HashMap<i64, ScheduleRow> = HashMap::new();
    for ids in ids.chunks(CHUNK) {
        session.each(&whole_rows(dialect, ids), &mut |mut row| {
            let row = ScheduleRow::read(&mut row)?;
            rows.insert(row.id, row);
            Ok(())
        })?;
    }
    // One that was removed meanwhile is gone.
    Ok(ids.iter().filter_map(|id| rows.remove(id)).collect())
}

pub(crate) fn whole_rows(dialect: Dialect, ids: &[i64]) -> Statement {
    of_ids(dialect, all_schedules(dialect, "QRTZ_JOB AS j"), ids)
}

/// The active schedules of one job in one shard, with the first fire time there is.
#[derive(Clone, Copy)]
pub(crate) struct Section {
    pub(crate) head: Timestamp,
    pub(crate) job: JobId,
    pub(crate) shard: i64,
}

/// Each section brings a share. What lies behind the last row of one of which there is more may be
/// incomplete, and is left to the next page.
fn due(
    session: &mut dyn Session,
    query: &ScheduleQuery,
    jobs: &Jobs,
    wanted: &[String],
    (from, until): (Timestamp, Timestamp),
) -> Step<Found> {
    let after = match query.after {
        Some(ScheduleKey::Due(at, id)) => (at, id),
        _ => (from, i64::MIN),
    };
    let wanted: HashSet<JobId> = jobs.ids(wanted).into_iter().collect();
    let mut sections: Vec<Section> =
        session.all(&poll::heads_between(&query.application, from.max(after.0), until), |row| {
            let (job, shard, head) = (JobId(row.int()?), row.int()?, row.instant()?);
            Ok(Section { head, job, shard })
        })?;
    sections.retain(|section| wanted.contains(&section.job));
    sections.sort_by_key(|section| section.head);
    // All sections of one first fire time, so that each page has something.
    let last = sections.get(SECTIONS).map(|section| section.head);
    let beyond =
        sections.iter().map(|section| section.head).find(|head| last.is_some_and(|last| *head > last));
    sections.retain(|section| beyond.is_none_or(|beyond| section.head < beyond));
    let mut complete = beyond.map(|beyond| (beyond - 1, i64::MAX));
    let share = query.limit.saturating_mul(2) / sections.len().max(1);
    let share = share.saturating_add(SHARE).min(query.limit.saturating_add(1));
    let mut sketches: Vec<ScheduleSketch> = Vec::new();
    for sections in sections.chunks(AT_ONCE) {
        let mut counts: HashMap<i64, (usize, (Timestamp, i64))> = HashMap::new();
        let question = due_in(&query.application, sections, (after, until), share);
        session.each(&question, &mut |mut row| {
            let place = row.int()?;
            let sketch = Sketched::read(&mut row)?.named(jobs);
            let key = (sketch.next.unwrap_or(Timestamp::MIN), sketch.id);
            let (count, last) = counts.entry(place).or_insert((0, key));
            (*count, *last) = (*count + 1, key.max(*last));
            sketches.push(sketch);
            Ok(())
        })?;
        let cut = counts.values().filter(|(count, _)| *count == share).map(|(_, last)| *last).min();
        complete = complete.into_iter().chain(cut).min();
    }
    let looked = sketches.len();
    let place = |sketch: &ScheduleSketch| (sketch.next.unwrap_or(Timestamp::MIN), sketch.id);
    sketches.retain(|sketch| complete.is_none_or(|complete| place(sketch) <= complete));
    sketches.sort_by_key(place);
    let mut found = Found { looked, ..Found::default() };
    for sketch in sketches.iter().filter(|sketch| query.admits(sketch)) {
        if found.ids.len() == query.limit {
            return Ok(found);
        }
        found.ids.push(sketch.id);
        found.next = Some(query.key(sketch));
    }
    found.next = complete.map(|(at, id)| ScheduleKey::Due(at, id));
    Ok(found)
}

/// The first of each section, with the section's place.
pub(crate) fn due_in(
    application: &str,
    sections: &[Section],
    (after, until): ((Timestamp, i64), Timestamp),
    share: usize,
) -> Statement {
    let section = |place: usize| {
        format!(
            "SELECT * FROM (SELECT {place} AS section, {} FROM QRTZ_EXECUTE e WHERE e.application = ? \
             AND e.state = 'EXECUTING' AND e.pid = ? AND e.shard = ? AND e.next_fire_time >= ? \
             AND e.next_fire_time < ? AND (e.next_fire_time > ? OR e.id > ?) \
             ORDER BY e.next_fire_time, e.id LIMIT ?) AS section_{place}",
            Sketched::columns()
        )
    };
    let nothing = Section { head: until, job: JobId(-1), shard: 0 };
    let size = padded(sections.len());
    let question = sql((0..size).map(section).collect::<Vec<String>>().join(" UNION ALL "));
    sections.iter().copied().chain(std::iter::repeat(nothing)).take(size).fold(
        question,
        |question, Section { job, shard, .. }| {
            question.bind_all((application, job, shard, after.0, until, after.0, after.1, share))
        },
    )
}

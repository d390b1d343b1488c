//! Jobs that nobody can run.

use std::collections::{BTreeSet, HashMap};

use crate::domain::{JobId, Timestamp};
use crate::store::nobody::{MOST_COUNTED, MOST_JOBS, NobodyMark, NobodyQuery, UnservedJob};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, padded, sql};
use crate::store::sql::verbs::node;
use crate::store::sql::views::figures::is_due;

/// How many jobs one statement counts.
const JOBS: usize = 64;

/// The nodes and the jobs are read first: mostly there is nothing to count.
pub(crate) fn nobody(session: &mut dyn Session, query: &NobodyQuery) -> Step<Vec<UnservedJob>> {
    let (dialect, application) = (session.dialect(), query.application.as_str());
    let claiming =
        sql("SELECT n.jobs FROM QRTZ_NODE n WHERE n.application = ? AND n.ended_time = -1 AND n.state = 'Y'");
    let listed: Vec<Vec<String>> = session.all(&claiming.bind(application), node::list)?;
    let listed: BTreeSet<String> = listed.into_iter().flatten().collect();
    let jobs: Vec<Job> = session.all(&jobs(dialect, application), Job::read)?;
    let unserved = jobs.into_iter().filter(|job| job.is_marked() || job.is_nobodys(&listed));
    let unserved: Vec<Job> = unserved.collect();
    let planned: HashMap<i64, i64> = match unserved.iter().any(|job| job.is_nobodys(&listed)) {
        true => pairs(session, &planned(dialect, query))?.into_iter().collect(),
        false => HashMap::new(),
    };
    let mut found: Vec<UnservedJob> = Vec::new();
    for some in unserved.chunks(JOBS) {
        let nobodys: Vec<&Job> = some.iter().filter(|job| job.is_nobodys(&listed)).collect();
        let counts = counts(session, query, &nobodys, &planned)?;
        found.extend(
            some.iter().filter_map(|job| job.found(counts.get(&job.id).copied().unwrap_or_default())),
        );
        if found.len() >= MOST_JOBS {
            found.truncate(MOST_JOBS);
            break;
        }
    }
    Ok(found)
}

answer! {
    struct Job() {
        id: i64 = "j.id", Row::int;
        name: String = "j.job_class", Row::loose_text;
        is_active: bool = "CASE WHEN j.state = 'EXECUTING' THEN 1 ELSE 0 END AS active", Row::flag;
        since: Option<Timestamp> = "j.nobody_time", Row::time;
        told: Option<Timestamp> = "j.nobody_told", Row::time;
        queue: Option<i64> = "q.id AS queue", Row::maybe_int;
    }
}

impl Job {
    fn is_nobodys(&self, listed: &BTreeSet<String>) -> bool {
        self.is_active && !listed.contains(&self.name)
    }

    fn is_marked(&self) -> bool {
        self.since.is_some()
    }

    /// If it has something to run, or its row says that it had.
    fn found(&self, (schedules, waiting): (i64, i64)) -> Option<UnservedJob> {
        let seen = NobodyMark { since: self.since, told: self.told };
        let has_some = schedules > 0 || waiting > 0 || self.is_marked();
        let name = self.name.as_str().into();
        has_some.then_some(UnservedJob { id: JobId(self.id), name, schedules, waiting, seen })
    }
}

fn jobs(dialect: Dialect, application: &str) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_JOB j LEFT JOIN QRTZ_EXECUTE q ON q.application = j.application AND q.name = {} \
         WHERE j.application = ? ORDER BY j.job_class",
        Job::columns(),
        dialect.queue_of("j.job_class")
    ))
    .bind(application)
}

/// The active schedules of so many jobs, and their executions that wait, with those of schedules.
fn counts(
    session: &mut dyn Session,
    query: &NobodyQuery,
    jobs: &[&Job],
    planned: &HashMap<i64, i64>,
) -> Step<HashMap<i64, (i64, i64)>> {
    let (dialect, mut counts) = (session.dialect(), HashMap::<i64, (i64, i64)>::new());
    if jobs.is_empty() {
        return Ok(counts);
    }
    // Padding stands behind the jobs.
    let job = |place: i64| usize::try_from(place).ok().and_then(|place| jobs.get(place));
    for (place, schedules) in pairs(session, &schedules(query, jobs))? {
        job(place).into_iter().for_each(|job| counts.entry(job.id).or_default().0 += schedules);
    }
    for (place, waiting) in pairs(session, &enqueued(dialect, query, jobs))? {
        job(place).into_iter().for_each(|job| counts.entry(job.id).or_default().1 += waiting);
    }
    for job in jobs {
        counts.entry(job.id).or_default().1 += planned.get(&job.id).copied().unwrap_or_default();
    }
    Ok(counts)
}

fn pairs(session: &mut dyn Session, question: &Statement) -> Step<Vec<(i64, i64)>> {
    session.all(question, |row| Ok((row.int()?, row.int()?)))
}

/// A bounded count for each job, with the job's place; padded with jobs that are none.
fn of_each(jobs: &[&Job], of: impl Fn(Statement, Option<&Job>) -> Statement) -> Statement {
    let all = jobs.iter().map(|job| Some(*job)).chain(std::iter::repeat(None)).take(padded(jobs.len()));
    all.enumerate().fold(sql(""), |question, (place, job)| {
        let union = if place == 0 { "" } else { " UNION ALL " };
        let question = question.push(&format!("{union}SELECT {place} AS place, COUNT(*) AS counted FROM ("));
        of(question, job).push(&format!(" LIMIT {MOST_COUNTED}) AS counted_{place}"))
    })
}

fn schedules(query: &NobodyQuery, jobs: &[&Job]) -> Statement {
    of_each(jobs, |question, job| {
        let active = "SELECT e.id FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.state = 'EXECUTING' \
                      AND e.pid = ?";
        question.push(active).bind(query.application.as_str()).bind(job.map_or(-1, |job| job.id))
    })
}

fn enqueued(dialect: Dialect, query: &NobodyQuery, jobs: &[&Job]) -> Statement {
    of_each(jobs, |question, job| {
        let waits = format!("SELECT r.id FROM QRTZ_RUN r WHERE {} AND r.queue = ?", is_due(dialect));
        let queue = job.and_then(|job| job.queue).unwrap_or(-1);
        question.push(&waits).bind_all((query.application.as_str(), query.now, queue))
    })
}

/// Of schedules, whose executions lie in queue 0, as many as a figure counts.
fn planned(dialect: Dialect, query: &NobodyQuery) -> Statement {
    sql(format!(
        "SELECT e.pid, COUNT(*) AS counted FROM (SELECT r.execute_id, r.due_time FROM QRTZ_RUN r WHERE {} \
         AND r.queue = 0 ORDER BY r.application, r.queue, r.due_time, r.id LIMIT ?) w \
         JOIN QRTZ_EXECUTE e ON e.id = w.execute_id WHERE e.pid IS NOT NULL GROUP BY e.pid",
        is_due(dialect)
    ))
    .bind_all((query.application.as_str(), query.now, MOST_COUNTED))
}

//! The due schedules of a poll, in parts that one statement brings each.

use std::collections::HashMap;

use crate::domain::JobId;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::rows::entry::{Payload, Raw};
use crate::store::sql::session::statement::{Statement, sql};
use crate::store::{PollQuery, Section};

/// What one statement brings: schedules of these jobs in some shards, or of some names.
pub(crate) struct Part<'q> {
    pub(crate) jobs: Vec<JobId>,
    pub(crate) among: Among<'q>,
}

pub(crate) enum Among<'q> {
    Shards(&'q [i64]),
    Names(&'q [String]),
}

/// Mostly one: nodes that list the same jobs share them all alike.
pub(crate) fn parts<'q>(query: &'q PollQuery, ids: &HashMap<String, JobId>) -> Vec<Part<'q>> {
    let known = |jobs: &[String]| jobs.iter().filter_map(|job| ids.get(job).copied()).collect::<Vec<JobId>>();
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

    pub(crate) fn is_named(&self) -> bool {
        matches!(self.among, Among::Names(_))
    }

    pub(crate) fn sections<'p>(&'p self, query: &'p PollQuery) -> impl Iterator<Item = Section> + 'p {
        let shards = if let Among::Shards(shards) = self.among { shards } else { &[] };
        let pairs = self.jobs.iter().flat_map(move |job| shards.iter().map(move |shard| (*job, *shard)));
        pairs.flat_map(move |(job, shard)| Section::both(job, shard, query))
    }

    /// `shard` is what says in which shard a row is.
    pub(crate) fn of(&self, question: Statement, shard: &str) -> Statement {
        let question = question.push("e.pid IN ").list(self.jobs.iter().copied());
        match self.among {
            Among::Shards(shards) => question.push(&format!(" AND {shard} IN ")).list(shards.iter().copied()),
            Among::Names(names) => question.push(" AND e.name IN ").list(names.iter().map(String::as_str)),
        }
    }
}

/// Due rows of a part, in any order, found by lists of jobs and of shards or names.
pub(crate) fn by_lists(dialect: Dialect, query: &PollQuery, part: &Part<'_>, limit: usize) -> Statement {
    let from = format!(
        "QRTZ_EXECUTE e {} QRTZ_JOB j ON j.id = e.pid WHERE e.application = ? AND e.state = 'EXECUTING' AND ",
        dialect.join()
    );
    let question = begun().push(&from).bind(query.application.as_str());
    ended(part.of(question, "e.shard"), query, limit)
}

/// Begins a question for schedules: their source and a condition follow, and then [`ended`].
pub(crate) fn begun() -> Statement {
    sql(format!("SELECT {} FROM ", Raw::columns(Payload::Small)))
}

/// Appends that a schedule is due for the query.
pub(crate) fn ended(question: Statement, query: &PollQuery, limit: usize) -> Statement {
    let due = " AND e.next_fire_time >= ? AND e.next_fire_time < ? LIMIT ?";
    question.push(due).bind(query.from).bind(query.until).bind(limit)
}

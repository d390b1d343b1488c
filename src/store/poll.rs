//! Polls: the due schedules and PENDING executions of a node's home shards, page by page.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::domain::shards::Share;
use crate::domain::{Entry, JobId, NodeId, Pending, ScheduleId, Timestamp};
use crate::time::TimeSample;

#[derive(Clone, Debug)]
pub(crate) struct PollQuery {
    pub node: NodeId,
    pub application: String,
    /// The shards of each job whose rows are asked for.
    pub shares: Vec<Share>,
    /// Schedules that are asked for by name besides, whatever their shards, if a share has their jobs.
    pub names: Vec<String>,
    /// The jobs that live nodes list, whose earliest fire time is asked for.
    pub listed: Vec<String>,
    /// Schedules due before this are not looked for: lately there were none.
    pub from: Timestamp,
    /// The same of PENDING executions.
    pub pending_from: Timestamp,
    /// The window's end (exclusive).
    pub until: Timestamp,
    /// Rows due before this are late, and any node's to claim.
    pub late: Timestamp,
    pub page: Page,
    /// The page's size: the most schedules to bring, beside those asked for by name, and PENDING executions
    /// to look at.
    pub limit: usize,
    /// The last poll said that the node drains: a member of a Galera cluster that lags may not know it yet.
    pub drains: bool,
}

/// Which rows a page of a poll brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub schedules: DueRows,
    /// PENDING executions behind this key of (due time, id): the page looks at no more of them than it holds,
    /// whether or not the query wants them. Those in the queues of other jobs, and in other shards, a
    /// database need not look at.
    pub pendings: (Timestamp, i64),
    /// Of these the last, not the first.
    pub newest: bool,
}

/// The due schedules of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DueRows {
    /// All, if the page holds them. If it does not, only those asked for by name, and the next page has
    /// sections.
    All,
    /// An equal share of the page for each of these.
    Sections(Vec<Section>),
}

/// The due schedules of one job in one shard, in the order of (fire time, id), behind `after` and before
/// `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub job: JobId,
    pub shard: i64,
    pub after: (Timestamp, i64),
    pub until: Timestamp,
}

impl Section {
    /// The sections of a job in a shard: overdue rows, of which there may be any number, and the others.
    pub(crate) fn both(job: JobId, shard: i64, query: &PollQuery) -> [Self; 2] {
        let late = query.late.clamp(query.from, query.until.max(query.from));
        [Self::new(job, shard, late..query.until), Self::new(job, shard, query.from..late)]
    }

    /// The rows due in this span.
    pub(crate) fn new(job: JobId, shard: i64, due: Range<Timestamp>) -> Self {
        Self { job, shard, after: (due.start - 1, i64::MAX), until: due.end }
    }
}

impl Page {
    pub(crate) const FIRST: Self =
        Self { schedules: DueRows::All, pendings: (Timestamp::MIN, i64::MAX), newest: false };
    /// Behind all PENDING executions.
    pub(crate) const END: (Timestamp, i64) = (Timestamp::MAX, i64::MAX);

    /// The page behind one that left these sections, and PENDING executions behind this key.
    pub(crate) fn behind(sections: Vec<Section>, pendings: Option<(Timestamp, i64)>) -> Option<Self> {
        let more = !sections.is_empty() || pendings.is_some();
        let pendings = pendings.unwrap_or(Self::END);
        more.then_some(Self { schedules: DueRows::Sections(sections), pendings, newest: false })
    }
}

/// Payloads of more bytes come by [`Store::payloads`](super::Store::payloads).
pub(crate) const SMALL_PAYLOAD: usize = 1_024;

/// A payload too large for a poll's page, of a schedule in this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LargePayload {
    pub id: ScheduleId,
    pub version: i64,
    pub payload: Arc<str>,
}

/// What a poll brought. Rows that cannot be understood are left out: repair looks for them explicitly.
#[derive(Clone, Debug)]
pub(crate) struct Polled {
    pub time: TimeSample,
    /// The application is in state Y.
    pub app_enabled: bool,
    /// This node is in state Y.
    pub node_enabled: bool,
    /// The node is to hand back what waits.
    pub drains: bool,
    /// The time of some pause in the application is up.
    pub pause_ended: bool,
    /// Other programs' requests wait.
    pub requested: bool,
    /// Some active job is none of the query's [`listed`](PollQuery::listed) ones.
    pub unlisted: bool,
    /// Something is expected of some schedule of the application.
    pub expects: bool,
    /// The application's election mark.
    pub election: Option<Timestamp>,
    /// Some active schedule of an active listed job, or some PENDING execution, is late, whatever its shard.
    pub late: bool,
    /// The earliest next fire time in the window of those schedules.
    pub earliest: Option<Timestamp>,
    /// When the first PENDING execution of any schedule is due, if that is before the window's end.
    pub earliest_pending: Option<Timestamp>,
    /// How many rows were read, also those that the query does not want.
    pub rows: usize,
    /// Active schedules of active jobs with next fire time before `until`; of a page that holds them all,
    /// earliest first.
    pub entries: Vec<Arc<Entry>>,
    /// PENDING executions due before `until`, earliest first.
    pub pendings: Vec<Pending>,
    /// Bytes of the payloads that were too large: they are empty in `entries` and `pendings`.
    pub large: HashMap<ScheduleId, usize>,
    /// The page that may hold more. Behind a page of the newest PENDING executions its key is that of the
    /// first of them.
    pub next: Option<Page>,
}

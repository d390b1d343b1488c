//! Rows of QRTZ_EXECUTE as values, and values as columns.

use super::policy;
use crate::domain::shards::{self, SHARDS};
use crate::domain::{Bounds, Entry, ScheduleId, ScheduleState, Timestamp};
use crate::store::columns::{QUEUE, When};
use crate::store::poll::SMALL_PAYLOAD;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, listed};
use crate::store::when;

/// How much of a payload is read.
#[derive(Clone, Copy)]
pub(crate) enum Payload {
    Whole,
    /// One of more than [`SMALL_PAYLOAD`] bytes is left out, and its size told.
    Small,
    None,
}

/// The columns [`Raw::read`] reads, of `e` with its job `j`.
pub(crate) fn columns(payload: Payload) -> String {
    let payload = match payload {
        Payload::Whole => "e.payload, 0 AS left_out".to_owned(),
        Payload::Small => format!(
            "CASE WHEN OCTET_LENGTH(e.payload) <= {SMALL_PAYLOAD} THEN e.payload END AS payload, \
             CASE WHEN OCTET_LENGTH(e.payload) > {SMALL_PAYLOAD} THEN OCTET_LENGTH(e.payload) ELSE 0 END AS left_out"
        ),
        Payload::None => "'' AS payload, 0 AS left_out".to_owned(),
    };
    format!(
        "e.id, e.version, e.state, e.name, j.job_class, {payload}, {}, \
         e.prev_fire_time, e.next_fire_time, e.generation, e.priority, e.misfire, e.threshold, e.time_limit, e.overlap, \
         e.pause_after, e.shard, \
         CASE WHEN j.id IS NULL THEN 0 ELSE 1 END AS has_job, j.recover, {}, \
         e.fence",
        listed("e.", When::COLUMNS),
        policy::bounds_columns("j")
    )
}

/// A schedule's row before anybody has tried to understand it.
pub(crate) struct Raw {
    pub(crate) id: i64,
    pub(crate) version: i64,
    pub(crate) state: String,
    pub(crate) name: String,
    job: String,
    payload: String,
    /// Bytes of a payload that was left out.
    pub(crate) left_out: usize,
    pub(crate) when: When,
    prev: Option<i64>,
    next: Option<i64>,
    pub(crate) generation: i64,
    priority: i64,
    misfire: String,
    threshold: i64,
    time_limit: Option<i64>,
    overlap: String,
    pause_after: Option<i64>,
    shard: i64,
    has_job: bool,
    recover: bool,
    bounds: Bounds,
    fence: i64,
}

impl Raw {
    /// Reads [`columns`]. A column that holds another type than its own reads as NULL.
    pub(crate) fn read(row: &mut Row) -> Step<Self> {
        let (id, version, state) = (row.int()?, row.loose_int()?, row.loose_text()?);
        let (name, job, payload) = (row.loose_text()?, row.loose_text()?, row.loose_text()?);
        let left_out = usize::try_from(row.loose_int()?).unwrap_or(0);
        let when = When::read(|| row.next())?;
        Ok(Self {
            id,
            version,
            state,
            name,
            job,
            payload,
            left_out,
            when,
            prev: row.maybe_int()?,
            next: row.maybe_int()?,
            generation: row.loose_int()?,
            priority: row.maybe_int()?.unwrap_or(i64::MIN),
            misfire: row.loose_text()?,
            threshold: row.loose_int()?,
            time_limit: row.maybe_int()?,
            overlap: row.loose_text()?,
            pause_after: row.maybe_int()?,
            shard: row.loose_int()?,
            has_job: row.int()? == 1,
            recover: row.loose_int()? != 0,
            bounds: policy::bounds(row)?,
            fence: row.loose_int()?,
        })
    }

    /// Its place among the due ones.
    pub(crate) fn key(&self) -> (Timestamp, i64) {
        (self.next.map_or(Timestamp::MIN, Timestamp::at), self.id)
    }

    /// What the row means, or why it means nothing.
    pub(crate) fn understand(self) -> Result<Entry, String> {
        let state: ScheduleState = self.state.parse().map_err(|unknown| format!("state {unknown}"))?;
        if self.name.is_empty() {
            return Err("name is empty or no text".to_owned());
        }
        if !shards::every().any(|shard| shard == self.shard) {
            let last = SHARDS - 1;
            return Err(format!("shard {} is none of 0 to {last}, so no poll would look at it", self.shard));
        }
        if !self.has_job {
            return Err("pid is no job's id".to_owned());
        }
        when::fence(self.fence)?;
        Ok(Entry {
            id: ScheduleId(self.id),
            name: self.name.into(),
            job: self.job.into(),
            payload: self.payload.into(),
            state,
            timing: self.when.timing()?,
            cursor: when::cursor(state, self.prev, self.next)?,
            version: when::count("version", self.version)?,
            generation: when::count("generation", self.generation)?,
            priority: when::priority(self.priority)?,
            misfire: self.misfire.parse().map_err(|unknown| format!("misfire policy {unknown}"))?,
            threshold: when::threshold(self.threshold)?,
            recover: self.recover,
            bounds: self.bounds,
            time_limit: when::time_limit(self.time_limit)?,
            overlap: when::overlap(&self.overlap)?,
            pause_after: when::pause_after(self.pause_after)?,
            is_queue: self.when.job_type == QUEUE,
        })
    }
}

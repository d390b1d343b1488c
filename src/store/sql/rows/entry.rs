//! Rows of QRTZ_EXECUTE as values, and values as columns.

use super::policy;
use crate::domain::shards::{self, SHARDS};
use crate::domain::{Bounds, Entry, ScheduleId, ScheduleState, Timestamp};
use crate::store::columns::{QUEUE, When};
use crate::store::poll::SMALL_PAYLOAD;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, answer, listed};
use crate::store::when;

/// How much of a payload is read.
#[derive(Clone, Copy)]
pub(crate) enum Payload {
    Whole,
    /// One of more than [`SMALL_PAYLOAD`] bytes is left out, and its size told.
    Small,
    None,
}

impl Payload {
    /// The columns of a payload and of its size, if it is left out.
    fn columns(self) -> String {
        match self {
            Self::Whole => "e.payload, 0 AS left_out".to_owned(),
            Self::Small => format!(
                "CASE WHEN OCTET_LENGTH(e.payload) <= {SMALL_PAYLOAD} THEN e.payload END AS payload, \
                 CASE WHEN OCTET_LENGTH(e.payload) > {SMALL_PAYLOAD} THEN OCTET_LENGTH(e.payload) \
                 ELSE 0 END AS left_out"
            ),
            Self::None => "'' AS payload, 0 AS left_out".to_owned(),
        }
    }
}

answer! {
    /// A schedule's row `e`, with its job `j`, before anybody has tried to understand it. A column that holds
    /// another type than its own reads as NULL.
    pub(crate) struct Raw(payload: Payload) {
        pub(crate) id: i64 = "e.id", Row::int;
        pub(crate) version: i64 = "e.version", Row::loose_int;
        pub(crate) state: String = "e.state", Row::loose_text;
        pub(crate) name: String = "e.name", Row::loose_text;
        job: String = "j.job_class", Row::loose_text;
        /// And its bytes, if it was left out.
        payload: (String, i64) = payload.columns(), |row| Ok((row.loose_text()?, row.loose_int()?));
        pub(crate) when: When = listed("e.", When::COLUMNS), |row| When::read(|| row.next());
        prev: Option<i64> = "e.prev_fire_time", Row::maybe_int;
        next: Option<i64> = "e.next_fire_time", Row::maybe_int;
        pub(crate) generation: i64 = "e.generation", Row::loose_int;
        priority: Option<i64> = "e.priority", Row::maybe_int;
        misfire: String = "e.misfire", Row::loose_text;
        threshold: i64 = "e.threshold", Row::loose_int;
        time_limit: Option<i64> = "e.time_limit", Row::maybe_int;
        overlap: String = "e.overlap", Row::loose_text;
        pause_after: Option<i64> = "e.pause_after", Row::maybe_int;
        shard: i64 = "e.shard", Row::loose_int;
        has_job: bool = "CASE WHEN j.id IS NULL THEN 0 ELSE 1 END AS has_job", Row::flag;
        recover: i64 = "j.recover", Row::loose_int;
        bounds: Bounds = policy::bounds_columns("j"), policy::bounds;
        fence: i64 = "e.fence", Row::loose_int;
    }
}

impl Raw {
    /// The bytes of a payload that was left out.
    pub(crate) fn left_out(&self) -> usize {
        usize::try_from(self.payload.1).unwrap_or(0)
    }

    pub(crate) fn lacks_job(&self) -> bool {
        !self.has_job
    }

    /// Its place among the due ones.
    pub(crate) fn key(&self) -> (Timestamp, i64) {
        (self.next.map_or(Timestamp::MIN, Timestamp::at), self.id)
    }

    /// What the row means, or why it means nothing.
    pub(crate) fn understand(self) -> Result<Entry, String> {
        let state = ScheduleState::read(&self.state).map_err(|unknown| format!("state {unknown}"))?;
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
            payload: self.payload.0.into(),
            state,
            timing: self.when.timing()?,
            cursor: when::cursor(state, self.prev, self.next)?,
            version: when::count("version", self.version)?,
            generation: when::count("generation", self.generation)?,
            priority: when::priority(self.priority.unwrap_or(i64::MIN))?,
            misfire: self.misfire.parse().map_err(|unknown| format!("misfire policy {unknown}"))?,
            threshold: when::threshold(self.threshold)?,
            recover: self.recover != 0,
            bounds: self.bounds,
            time_limit: when::time_limit(self.time_limit)?,
            overlap: when::overlap(&self.overlap)?,
            pause_after: when::pause_after(self.pause_after)?,
            is_queue: self.when.job_type == QUEUE,
        })
    }
}

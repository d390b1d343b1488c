//! The rows that machines' operations touch, and their costs in virtual time.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;

use super::jobs;
use crate::domain::{Candidate, Entry, ExecutionId, Millis, ScheduleId};
use crate::machine::Operation;
use crate::members::HeartbeatOp;
use crate::misfire::MisfireOp;
use crate::pipeline::complete::CompleteOp;
use crate::pipeline::dispatch::ClaimOp;
use crate::pipeline::poll::decode::in_turn;
use crate::pipeline::poll::{PollAnswer, PollOp};
use crate::requests::RequestsOp;
use crate::store::{Change, ClaimRequest};
use crate::time::Micros;

/// The watchdog's limit.
pub(super) const CALL: Millis = 3_000;

/// What an operation touches.
pub(super) trait Rows: Operation {
    /// Whether a database that only reads refuses it.
    fn writes(&self) -> bool {
        true
    }

    /// The schedules' rows it locks.
    fn rows(&self) -> Vec<ScheduleId> {
        Vec::new()
    }

    /// How many rows it writes, where that may be many.
    fn written(&self) -> usize {
        self.rows().len()
    }

    /// How long it takes if it decodes payloads, which the database has no part in. `timeless` if the
    /// decoding takes no notice of the time.
    fn decoding(&self, _timeless: bool) -> Option<Millis> {
        None
    }

    /// How long its answer takes to be found and brought.
    fn takes(_answer: &Self::Answer) -> Millis {
        0
    }
}

/// How many rows, or bytes, a slow network brings in a millisecond.
const ROWS_IN_A_MILLISECOND: usize = 1;
const BYTES_IN_A_MILLISECOND: usize = 5_000;

impl Rows for PollOp {
    fn writes(&self) -> bool {
        false
    }

    fn decoding(&self, timeless: bool) -> Option<Millis> {
        let Self::Decode(decode) = self else { return None };
        let spent = Cell::new(Micros::ZERO);
        let most = if timeless { Micros::MAX } else { decode.most };
        let decode_one = |row: &Arc<Entry>| {
            spent.set(spent.get() + Micros::of_millis(jobs::decoding(&row.payload)));
            if spent.get() > Micros::of_millis(CALL) {
                decode.hang(row);
            }
        };
        in_turn(decode.jobs.clone(), most, || spent.get(), decode_one);
        Some(spent.get().millis())
    }

    fn takes(answer: &PollAnswer) -> Millis {
        let (rows, bytes) = match answer {
            PollAnswer::Page(polled) | PollAnswer::Look(polled) => {
                let entries = polled.entries.iter().chain(polled.pendings.iter().map(|it| &it.entry));
                let bytes: usize = entries.map(|entry| entry.payload.len()).sum();
                (polled.entries.len() + polled.pendings.len(), bytes)
            }
            PollAnswer::Payloads(payloads) => {
                (payloads.len(), payloads.iter().map(|it| it.payload.len()).sum())
            }
            PollAnswer::Decode(()) | PollAnswer::Glance(_) => (0, 0),
        };
        takes(rows, bytes)
    }
}

/// How long so many rows, or bytes, take to be found and brought.
pub(super) fn takes(rows: usize, bytes: usize) -> Millis {
    (rows / ROWS_IN_A_MILLISECOND + bytes / BYTES_IN_A_MILLISECOND) as Millis
}

impl Rows for CompleteOp {}
impl Rows for HeartbeatOp {}
impl Rows for Infallible {}

impl Rows for RequestsOp {
    fn writes(&self) -> bool {
        matches!(self, Self::CarryOut(..))
    }
}

impl Rows for ClaimOp {
    fn rows(&self) -> Vec<ScheduleId> {
        match self {
            Self::Claim(requests) | Self::Resolve(requests, _) => requests.iter().map(schedule).collect(),
            Self::Quarantine(broken) => vec![broken.seen.id],
            Self::PassOver(changes) => changes.iter().filter_map(Change::schedule).collect(),
        }
    }
}

impl Rows for MisfireOp {
    fn rows(&self) -> Vec<ScheduleId> {
        match self {
            Self::Repair(changes) | Self::TakeBack(changes) => {
                changes.iter().filter_map(Change::schedule).collect()
            }
            Self::Quarantine(broken) => vec![broken.seen.id],
            Self::Contain(_, streak) => vec![streak.schedule],
            _ => Vec::new(),
        }
    }

    fn written(&self) -> usize {
        let rows = |change: &Change| if let Change::Repair(repair) = change { repair.writes() } else { 2 };
        match self {
            Self::Repair(changes) | Self::TakeBack(changes) => changes.iter().map(rows).sum(),
            _ => 1,
        }
    }
}

/// The row of an execution among the rows that are locked: its sign tells it from a schedule's.
pub(super) fn row(execution: ExecutionId) -> ScheduleId {
    ScheduleId(-execution.0)
}

/// The schedule whose row a claim locks; of an enqueued execution its own.
pub(super) fn schedule(request: &ClaimRequest) -> ScheduleId {
    match &request.candidate {
        Candidate::Pending(pending) if pending.entry.is_queue => row(pending.id),
        candidate => candidate.entry().id,
    }
}

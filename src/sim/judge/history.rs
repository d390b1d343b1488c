//! The history of a run in the judge's form, and the verdict on it. Only the standard library is used.

use std::collections::{BTreeMap, BTreeSet};

/// What the names of jobs' queues begin with: enqueued executions are recorded under them.
pub const QUEUE: &str = "queue:";

pub type Millis = i64;

/// What a run left behind.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub plans: Vec<Plan>,
    pub executions: Vec<Execution>,
    pub effects: Vec<Effect>,
    /// What handlers heard that asked what their executions cover, in the order they asked.
    pub coverings: Vec<Covering>,
    /// What handlers stored of how far they had come, and what they were told of it.
    pub checkpoints: Vec<Checkpoint>,
    pub resumes: Vec<Resume>,
    /// In the order they were made. Empty if nobody kept them.
    pub changes: Vec<Change>,
    pub pauses: Vec<Pause>,
    /// What somebody asked for beside what was planned; none if nobody kept it.
    pub orders: Option<Vec<Order>>,
    /// Of these, those with a unique key.
    pub keyed: Vec<Keyed>,
    /// What somebody had run again, in the order in which it was ordered.
    pub reruns: Vec<Rerun>,
    /// What other programs asked for by writing rows, in the order of their ids.
    pub requests: Vec<Request>,
    /// Syncs of schedules that live in code, in the order in which they were made.
    pub syncs: Vec<Sync>,
    /// Attempts that somebody asked for beside what policies grant.
    pub retries: BTreeSet<i64>,
    /// Occurrences that somebody skipped: the schedule, the fire time.
    pub skips: Vec<(String, Millis)>,
    /// What was noted of expected occurrences, in the order in which it was noted.
    pub expectations: Vec<ExpectationNote>,
    /// What nodes told of that: the schedule, the fire time, and whether it was met at last.
    pub told: Vec<(String, Millis, bool)>,
    /// Jobs that no node can run.
    pub unserved: Vec<Unserved>,
    /// How many outcomes are counted in each state of [`COUNTED`](super::COUNTED); none if nobody asked.
    pub counted: Option<[i64; 4]>,
    /// Schedules that were paused for what failed in a row, and when.
    pub contained: Vec<(String, Millis)>,
    /// Executions that somebody cancelled, or asked to end while they ran.
    pub cancels: Vec<Cancel>,
    /// Schedules that were removed, each until it was made again.
    pub removals: Vec<Pause>,
    pub switches: Vec<Switch>,
    /// The nodes alive when the history was read; those declared dead; those that had given a reason for it.
    pub live: BTreeSet<String>,
    pub dead: BTreeSet<String>,
    pub doomed: BTreeSet<String>,
    /// How long, at least, the ledger is kept. What was removed is among the executions, as it was last.
    pub kept: Millis,
    /// Since when nothing went wrong any more, and when the history was read.
    pub healed: Millis,
    pub read: Millis,
    /// For each node that was killed: how much time the heartbeats of one observer covered until somebody
    /// declared it dead, for the observer that covered most. Empty if nobody counted.
    pub unnoticed: Vec<Millis>,
    /// When the database's clock was set, and how far it was ahead of true time from then on.
    pub clock: Vec<(Millis, Millis)>,
    /// When copies of the database took over that lacked its last commits, or none.
    pub promotions: Vec<Millis>,
    /// Executions begun by lost commits: they may run again, also under another row of the same id.
    pub lost: Vec<Effect>,
    /// Cancels in lost commits: a handler that had heard of one ends all the same.
    pub lost_cancels: Vec<Cancel>,
    /// Processes were stopped between two instructions: what such a one begins late is excused and counted.
    pub stopped: bool,
    pub bounds: Bounds,
}

/// One schedule's part of a history.
#[derive(Default)]
pub struct Part<'a> {
    pub rows: BTreeMap<i64, &'a Execution>,
    pub changes: Vec<&'a Change>,
    pub effects: Vec<&'a Effect>,
}

impl History {
    /// Its parts by the schedules' names: one pass over the history for all schedules, not one for each.
    pub fn by_schedule(&self) -> BTreeMap<&str, Part<'_>> {
        let mut parts: BTreeMap<&str, Part<'_>> = BTreeMap::new();
        let mut schedules: BTreeMap<i64, &str> = BTreeMap::new();
        for row in &self.executions {
            parts.entry(&row.schedule).or_default().rows.insert(row.id, row);
            schedules.insert(row.id, &row.schedule);
        }
        for change in &self.changes {
            let Some(schedule) = schedules.get(&change.execution) else { continue };
            parts.entry(schedule).or_default().changes.push(change);
        }
        for effect in &self.effects {
            parts.entry(&effect.schedule).or_default().effects.push(effect);
        }
        parts
    }

    /// The most that the database's clock was ahead of true time until then: a node learns of a step at its
    /// next poll.
    pub fn ahead(&self, at: Millis) -> Millis {
        let until = self.clock.iter().filter(|(since, _)| *since <= at);
        until.map(|(_, ahead)| *ahead).max().unwrap_or(0).max(0)
    }

    /// What the handler saw that ran under the row's last claim, if it began.
    pub fn last_run(&self, row: &Execution) -> Option<&Effect> {
        self.effects.iter().rev().find(|it| it.execution == row.id && it.fence == row.fence)
    }
}

/// How soon things are in order again once nothing goes wrong any more.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Nothing stays CLAIMED or RUNNING for longer, not under a dead node and not under a live one: jobs are
    /// shorter than that.
    pub settled: Millis,
    /// Nothing is claimed or skipped earlier than this before its time. Nothing at all begins before it, but
    /// for what the database's clock was ever ahead.
    pub early: Millis,
    /// The most time that one observer's heartbeats cover before a death is noticed, whatever was lost in
    /// between, if few die at once: `death_after` (25 s); an interval each for the heartbeats between which
    /// the node died, for the next one, which shows its last beat, and for the one that ends the count (15
    /// s); and how late that last beat may arrive (3.9 s) and its showing be answered (3 s).
    pub noticed: Millis,
    /// The longest pause before another attempt.
    pub again: Millis,
    /// No store call takes longer.
    pub call: Millis,
    /// Nothing stays due for longer. `None`: the pool was kept full, and what waits for a seat may wait.
    pub begun: Option<Millis>,
    /// Nothing that is due waits for longer for a slot that is free: a poll, and the calls of its claim. For
    /// what is behind with its slot's schedule, in place of `begun`.
    pub freed: Millis,
    /// The grace of async handlers.
    pub grace: Millis,
    /// After so many more occurrences than it allows a schedule that fails is paused at the latest.
    pub contained: u32,
}

impl Default for Bounds {
    /// The default spans: death and repair within a minute; the misfire threshold, an election and a store
    /// call.
    fn default() -> Self {
        Self {
            settled: 60_000,
            early: 1_000,
            noticed: 47_000,
            again: 12_000,
            call: 3_000,
            begun: Some(60_000 + 15_000 + 3_000),
            freed: 78_000,
            grace: 5_000,
            contained: 1,
        }
    }
}

/// A schedule: what must come of it, and where its row ended.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub schedule: String,
    pub job: String,
    /// Its payloads, each with the instant from which it holds. Empty if nobody kept them.
    pub payloads: Vec<(Millis, String)>,
    /// What an oracle expects of each generation, ascending, at least as far as the history reaches.
    pub generations: BTreeMap<i64, Vec<Millis>>,
    /// The first occurrences of these generations know of no fire time before them.
    pub unpreceded: BTreeSet<i64>,
    /// Of generations that fire again so long after each run: these, in place of what is expected.
    pub delays: BTreeMap<i64, Delay>,
    /// Generations that ended with another trigger, or with a removal: that was decided between these two
    /// instants, by the database's clock.
    pub ended: BTreeMap<i64, (Millis, Millis)>,
    /// Of the job: an attempt whose node died is followed by another, unless so many have died; one that
    /// failed, unless more than so many have failed.
    pub recovers: bool,
    pub deaths: u32,
    pub retries: u32,
    /// How long its handler may take.
    pub limit: Option<Millis>,
    /// The limits of its job, and of each of the job's groups.
    pub concurrency: Limit,
    pub group_concurrency: Limit,
    /// How long after its fire time an occurrence is to have succeeded, if that is expected.
    pub expected_by: Option<Millis>,
    /// No two of its executions run at once.
    pub exclusive: bool,
    /// After how many occurrences in a row that failed for good it is paused: 0 never, none for deaths alone.
    pub pause_after: Option<u32>,
    /// FIRE_ONCE, DO_NOTHING or FIRE_ALL, and how late an occurrence must be for it.
    pub misfire: String,
    pub threshold: Millis,
    /// No occurrence begins later than this, and none is skipped: nothing but its neighbours, in other lanes
    /// or in its own, may be in its way.
    pub punctual: Option<Millis>,
    pub state: String,
    pub next: Option<Millis>,
}

/// How many executions may run at once, and how many may be claimed within how many milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub most: Option<usize>,
    pub rate: Option<(usize, Millis)>,
}

/// A trigger that fires again so long after the end of each run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay {
    /// Its first fire time; none if that follows the end of the run before it.
    pub first: Option<Millis>,
    pub delay: Millis,
    /// The last instant at which it may fire.
    pub ends: Millis,
}

/// One row of the ledger.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    pub id: i64,
    pub schedule: String,
    pub generation: i64,
    /// 0 is planned.
    pub origin: i64,
    pub group: Option<String>,
    pub scheduled: Millis,
    /// Of a row that stands for skipped occurrences: the last one, and how many.
    pub until: Option<Millis>,
    pub count: i64,
    pub attempt: u32,
    pub state: String,
    pub reason: String,
    pub fence: i64,
    pub node: String,
    pub due: Millis,
    pub claimed: Option<Millis>,
    pub finished: Option<Millis>,
    pub prev: Option<Millis>,
    pub following: Option<Millis>,
    /// Of one that was skipped because it would have overlapped: which other.
    pub holder: Option<i64>,
}

/// A handler's first instruction, as the job itself saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    pub execution: i64,
    pub schedule: String,
    pub payload: String,
    pub scheduled: Millis,
    pub attempt: u32,
    pub fence: i64,
    pub at: Millis,
    /// Its last instruction, if it came to it.
    pub ended: Option<Millis>,
    /// How long it took by its host's boot clock, if it was counted.
    pub took: Option<Millis>,
    /// It answered that it goes on at this instant; or it was interrupted then, to be run anew.
    pub snoozed: Option<Millis>,
    /// How long an async handler went on although its node knew that it was to end, while its process ran.
    pub overstayed: Option<Millis>,
    /// It was to complete in a transaction of its own.
    pub completes: bool,
    /// When such a transaction was committed, and with it what the handler wrote into the application's
    /// tables.
    pub committed: Vec<Millis>,
}

impl Effect {
    /// Since when its execution has ended for the others, if it has.
    pub fn over(&self) -> Option<Millis> {
        self.committed.iter().copied().chain(self.ended).min()
    }
}

/// What a handler heard that asked what its execution covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covering {
    pub execution: i64,
    /// How many changes had been made by then.
    pub changes: usize,
    pub from: Option<Millis>,
    pub until: Millis,
    pub missed: u64,
    pub skipped: u64,
    pub paused: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub withdrawn: u64,
    pub open: u64,
}

/// A handler stored how far it had come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub execution: i64,
    pub fence: i64,
    /// No other has it.
    pub value: i64,
    /// When its handler asked for it.
    pub asked: Millis,
    /// When it was stored, if somebody knows.
    pub stored: Option<Millis>,
    /// Whether it was stored, as its handler heard; none if there was no answer.
    pub heard: Option<bool>,
}

/// A handler was told how far its execution had come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    pub execution: i64,
    pub fence: i64,
    pub at: Millis,
    /// That of a checkpoint; none if there was no checkpoint.
    pub value: Option<i64>,
}

/// A change of an execution's row; without a `from` it was inserted, without a `to` removed.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub at: Millis,
    /// How far the database's clock was from that.
    pub apart: Millis,
    pub execution: i64,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// A pause or a removal, from its acknowledgement to the instant its end was asked for.
#[derive(Clone, Debug)]
pub struct Pause {
    pub schedule: String,
    pub from: Millis,
    pub until: Millis,
}

/// An enqueued execution with a unique key.
#[derive(Clone, Debug)]
pub struct Keyed {
    pub execution: i64,
    pub key: String,
}

/// An execution that somebody asked for, and the payload it was to have if not its schedule's.
#[derive(Clone, Debug)]
pub struct Order {
    pub execution: i64,
    pub payload: Option<String>,
}

/// A sync of the schedules that an owner's code lists.
#[derive(Clone, Debug)]
pub struct Sync {
    pub owner: String,
    pub revision: i64,
    /// The listed schedules, each with its priority.
    pub list: BTreeMap<String, i64>,
    /// Whether it was answered that a higher revision is known; none if it failed.
    pub is_stale: Option<bool>,
    /// The schedules of each owner just after it.
    pub rows: BTreeMap<String, BTreeMap<String, i64>>,
}

/// An occurrence has not succeeded in time, or it or a later one has at last.
#[derive(Clone, Debug, Default)]
pub struct ExpectationNote {
    pub schedule: String,
    /// That of the schedule then.
    pub generation: i64,
    pub fire_time: Millis,
    pub is_met: bool,
    /// When it was noted, and the database's time then.
    pub at: Millis,
    pub clock: Millis,
}

/// A job that no node can run.
#[derive(Clone, Debug, Default)]
pub struct Unserved {
    pub job: String,
    pub since: Millis,
    /// When that was noted as told, by the database's clock.
    pub told: Vec<Millis>,
}

/// Occurrences that somebody had run again.
#[derive(Clone, Debug, Default)]
pub struct Rerun {
    pub schedule: String,
    pub origin: i64,
    /// How many changes had been made by then.
    pub changes: usize,
    /// The fire times, as it was answered.
    pub times: Vec<Millis>,
}

/// A request that another program has written.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub id: i64,
    /// The thing whose requests are carried out in order, if it concerns one.
    pub subject: Option<String>,
    /// When its row says that it was carried out, or refused.
    pub ended: Option<Millis>,
}

/// Somebody cancelled an execution.
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    pub execution: i64,
    pub at: Millis,
}

/// A node, a job, or without either the whole application, was switched off.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    pub node: Option<String>,
    pub job: Option<String>,
    pub from: Millis,
    /// Since when everybody whom it concerns must know.
    pub known: Millis,
    /// The last instant at which it was seen to be off; it ended within a second of that.
    pub until: Millis,
    /// Nothing planned between these instants runs when it has ended: nobody changed its trigger meanwhile.
    pub passes: Option<(Millis, Millis)>,
    /// The node was to drain: nothing begins on it, either.
    pub drains: bool,
}

impl Switch {
    /// Whether it holds back the schedules of a job on all nodes.
    pub fn holds_back(&self, job: Option<&str>) -> bool {
        self.node.is_none() && (self.job.is_none() || self.job.as_deref() == job)
    }
}

/// The judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Occurrences of which a first attempt was made, and those skipped with a reason.
    pub fired: usize,
    pub skipped: usize,
    /// Those withdrawn by edits and removals.
    pub withdrawn: usize,
    /// Of those skipped, because they would have overlapped.
    pub overlapped: usize,
    pub attempts: usize,
    /// Occurrences that were noted as unmet.
    pub unmet: usize,
    /// Attempts that retention removed.
    pub removed: usize,
    /// Late beginnings of processes that were stopped.
    pub excused: usize,
    pub violations: Vec<String>,
}

impl Verdict {
    pub fn blame(&mut self, violation: String) {
        self.violations.push(violation);
    }

    /// Panics with the first violations if there are any.
    pub fn assert_clean(&self) {
        let first: Vec<_> = self.violations.iter().take(12).collect();
        assert!(self.violations.is_empty(), "{} violations: {first:#?}", self.violations.len());
    }
}

impl Execution {
    /// The last occurrence this row accounts for.
    pub fn last(&self) -> Millis {
        self.until.unwrap_or(self.scheduled)
    }

    /// Whether it stands for what was due and not claimed when its generation ended.
    pub fn is_withdrawn(&self) -> bool {
        self.state == WITHDRAWN
    }

    /// Whether it was skipped because it would have overlapped.
    pub fn is_overlapped(&self) -> bool {
        matches!(self.reason.as_str(), "overlap" | "holder late")
    }
}

/// The state of a row for what was due when nobody was to claim it any more.
pub const WITHDRAWN: &str = "WITHDRAWN";

/// The state of a row that was removed: nothing may come after.
pub const REMOVED: &str = "REMOVED";

pub fn is_over(state: &str) -> bool {
    !matches!(state, "PENDING" | "CLAIMED" | "RUNNING")
}

pub fn is_owned(state: &str) -> bool {
    matches!(state, "CLAIMED" | "RUNNING")
}

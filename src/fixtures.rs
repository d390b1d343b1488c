//! Rows and troubles for the tests of the machines.

use std::sync::Arc;

use crate::domain::{
    Boot, Candidate, Cursor, Entry, Error, ErrorKind, ExecutionId, ExecutionState, JobPolicy, JobSpec,
    LaneReport, Millis, MisfirePolicy, NextFire, NodeId, Occurrence, Overlap, ScheduleId, Timestamp, Token,
};
use crate::machine::{Machine, Step};
use crate::repair::Revocation;
pub(crate) use crate::sample::entry;
use crate::store::memory::MemoryStore;
use crate::store::{
    Applied, Change, Claim, ClaimRequest, Claimed, Definition, ExecutionChange, NewNode, NodeEnd,
    PauseChange, Repair, Store, Stranded, UnreadableRow, Verbs,
};
use crate::time::{Lease, Now};
use crate::trigger::{Cron, Simple, Timing, Trigger};

/// A node about to join, of a host that has no name.
pub(crate) fn new_node(id: NodeId, application: &str, jobs: Vec<JobSpec>, now: Timestamp) -> NewNode {
    NewNode {
        id,
        application: application.to_owned(),
        host_ip: String::new(),
        host_name: String::new(),
        pid: 1,
        silent_after: 10_000,
        jobs,
        now,
    }
}

/// Who publishes nothing of a node's lanes.
pub(crate) type NoLanes = fn() -> LaneReport;

/// A cron schedule in UTC whose cursor stands before `next`.
pub(crate) fn cron(id: i64, expression: &str, next: Timestamp) -> Entry {
    let trigger = Trigger::Cron(Cron::parse(expression, "UTC").unwrap());
    let timing = Timing::new(trigger, None, None).unwrap();
    entry(id, timing, Cursor { prev: None, next: NextFire::At(next) })
}

/// A simple schedule that has not fired yet.
pub(crate) fn simple(
    id: i64,
    start: Timestamp,
    interval: Millis,
    repeats: i64,
    end: Option<Timestamp>,
) -> Entry {
    let trigger = Trigger::Simple(Simple::new(Some(start.millis()), interval, repeats).unwrap());
    let timing = Timing::new(trigger, None, end.map(Timestamp::millis)).unwrap();
    entry(id, timing, Cursor { prev: None, next: NextFire::At(start) })
}

/// A schedule of the application "app" for the job "job".
pub(crate) fn definition(name: &str, trigger: Trigger) -> Definition {
    let (application, overlap) = ("app".to_owned(), Some(Overlap::Allow));
    Definition { application, overlap, ..Definition::new(name, "job", trigger) }
}

/// The next occurrence of a schedule of "app", claimed; it may start at any time.
pub(crate) fn claim(store: &dyn Store, name: &str, at_once: bool, now: Timestamp) -> Claimed {
    claim_under(Lease { until: Boot::MAX, apart: 0 }, store, name, at_once, now)
}

/// The claim of a one-shot planned for `at`, to begin before `deadline`.
pub(crate) fn claimed(at: Timestamp, deadline: Millis) -> Claimed {
    let store = MemoryStore::new(at);
    let once = Trigger::Simple(Simple::new(Some(at.millis()), 0, 0).unwrap());
    store.ensure(&definition("s", once)).unwrap();
    claim_under(Lease { until: Boot::at(deadline), apart: 0 }, &store, "s", true, at)
}

/// As [`claim`], under a lease of its own.
pub(crate) fn claim_under(
    lease: Lease,
    store: &dyn Store,
    name: &str,
    at_once: bool,
    now: Timestamp,
) -> Claimed {
    let entry = Arc::new(store.find("app", name).unwrap().unwrap());
    let candidate = Candidate::Planned(Occurrence::head(&entry).unwrap());
    let (token, node) = (Token::fresh(), NodeId::fresh());
    let request = ClaimRequest { candidate, token, node, at_once, lease, waited: None, now };
    match store.claim(&[request]).unwrap().pop() {
        Some(Claim::Won(claimed)) => claimed,
        other => panic!("{other:?}"),
    }
}

/// Runs a machine for a minute in which every store call fails at once. Ten times a second it is given what
/// `feed` says. How many calls it made; waiting for what is past counts as a loop that never rests.
pub(crate) fn calls_while_down<M: Machine>(
    machine: &mut M,
    begin: Timestamp,
    kind: ErrorKind,
    mut feed: impl FnMut() -> Option<M::Input>,
) -> usize {
    let (mut now, mut calls, mut turns) = (begin, 0, 0);
    while now < begin + 60_000 {
        turns += 1;
        assert!(turns < 5_000, "{calls} calls and no rest within {} ms", now - begin);
        let at = Now { db: now, boot: Boot::at(now.millis()), apart: 0 };
        match machine.next(at) {
            Step::Do((_, asked)) => {
                calls += 1;
                machine.done(at, asked, Err(Error::new(kind, "down")));
            }
            Step::Tell(_) => {}
            Step::Wait(until) => {
                now = Timestamp::at(until.millis()).clamp(now, now + 100);
                if let Some(input) = feed() {
                    machine.receive(Now { db: now, boot: Boot::at(now.millis()), apart: 0 }, input);
                }
            }
            Step::Stop => panic!("the machine stopped"),
        }
    }
    calls
}

/// A schedule whose cursor stands at its first occurrence.
pub(crate) fn behind(policy: MisfirePolicy, interval: Millis) -> Entry {
    let mut entry = simple(1, Timestamp::at(1_000_000), interval, -1, None);
    entry.misfire = policy;
    entry
}

/// An execution that nobody answers for.
pub(crate) fn stranded(id: i64, state: ExecutionState, deaths: u32) -> Stranded {
    let policy = JobPolicy::DEFAULT;
    let (id, schedule, name, token) = (ExecutionId(id), ScheduleId(1), "nightly".into(), Token::fresh());
    Stranded {
        id,
        schedule,
        name,
        job: "report".into(),
        state,
        token,
        attempt: deaths + 1,
        failures: 0,
        deaths,
        is_cancelled: false,
        delay: None,
        policy,
    }
}

/// The changes that tests make, one kind a call, on any store.
pub(crate) trait Changes: Store {
    fn settle(&self, changes: &[ExecutionChange]) -> Result<Vec<Applied>, Error> {
        self.apply(&changes.iter().cloned().map(Change::Execution).collect::<Vec<_>>())
    }

    fn revoke(&self, revocations: &[Revocation]) -> Result<Vec<bool>, Error> {
        made(self.apply(&revocations.iter().map(|it| it.change().into()).collect::<Vec<_>>()))
    }

    fn repair(&self, repairs: &[Repair]) -> Result<Vec<bool>, Error> {
        made(self.apply(&repairs.iter().cloned().map(Change::Repair).collect::<Vec<_>>()))
    }

    fn quarantine(&self, broken: &UnreadableRow) -> Result<bool, Error> {
        self.apply_one(Change::Quarantine(broken.clone())).map(Applied::is_done)
    }

    fn pause(&self, id: ScheduleId, version: i64, by: &str, reason: &str) -> Result<bool, Error> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.apply_one(Change::Pause(PauseChange { id, version, by, reason, until: None }))
            .map(Applied::is_done)
    }

    fn declare_dead(&self, node: NodeId, beat: i64, now: Timestamp) -> Result<bool, Error> {
        self.apply_one(Change::End(NodeEnd { node, beat: Some(beat), now })).map(Applied::is_done)
    }

    fn leave(&self, node: NodeId, now: Timestamp) -> Result<(), Error> {
        self.apply_one(Change::End(NodeEnd { node, beat: None, now })).map(|_| ())
    }
}

impl<S: Store + ?Sized> Changes for S {}

fn made(applied: Result<Vec<Applied>, Error>) -> Result<Vec<bool>, Error> {
    Ok(applied?.into_iter().map(Applied::is_done).collect())
}

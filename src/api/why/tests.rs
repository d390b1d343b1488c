mod expected;
mod late;
mod not_due;
mod ran;
mod skipped;
mod waiting;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::answer::Why;
use super::because::Because;
use super::explain::explain;
use super::facts::{Facts, Plan};
use super::fate::Fate;
use crate::api::{ApplicationView, AuditView, ExecutionView, JobView, NodeView, RateView, ScheduleView};
use crate::domain::{
    Activity, Cause, ExecutionId, LaneHealth, MisfirePolicy, ScheduleField, ScheduleId, ScheduleState, Word,
};
use crate::store::columns::When;
use crate::store::ledger::{TriggerEnd, TriggerPeriod};
use crate::trigger::{Timing, Trigger};

fn at(hour: i64, millis: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_795_910_400_000 + hour * 3_600_000 + millis).unwrap()
}

/// The fire time of "nightly" on 2026-11-29.
fn two() -> DateTime<Utc> {
    at(2, 0)
}

const NODE: &str = "n1";

fn planned(state: &str, reason: &str) -> ExecutionView {
    ExecutionView {
        id: ExecutionId(7),
        application: "shop".to_owned(),
        schedule: "nightly".to_owned(),
        job: "report".to_owned(),
        state: Word::read(state),
        reason: reason.to_owned(),
        cause: Cause::Planned,
        generation: 0,
        origin: 0,
        fire_time: Some(two()),
        stored_fire_time: two().into(),
        last_fire_time: None,
        count: 1,
        attempt: 1,
        failures: 0,
        snoozes: 0,
        stuck: false,
        holder: None,
        change: None,
        waited_for: None,
        key: None,
        group: None,
        lane: None,
        tags: Vec::new(),
        fence: 1,
        due: Some(two()),
        node: None,
        claimed: None,
        started: None,
        finished: None,
        error: String::new(),
        cancel_asked: None,
        cancel_asked_by: String::new(),
        cancel_asked_why: String::new(),
        cancel_seen: None,
        nobody_since: None,
        held: false,
    }
}

/// One that began 3 ms late on the node, and ended 1.2 s after that.
fn ran(state: &str, reason: &str) -> ExecutionView {
    let (node, started, finished) = (Some(NODE.to_owned()), Some(at(2, 3)), Some(at(2, 1_203)));
    ExecutionView { node, claimed: started, started, finished, ..planned(state, reason) }
}

fn skipped(reason: &str) -> ExecutionView {
    ExecutionView { finished: Some(at(3, 0)), ..planned("SKIPPED", reason) }
}

fn node(id: &str) -> NodeView {
    NodeView {
        id: id.to_owned(),
        application: "shop".to_owned(),
        host_ip: String::new(),
        host_name: "host-a".to_owned(),
        pid: 41,
        silent_after: Some(Duration::from_secs(10)),
        state: Activity::Active,
        paused_by: String::new(),
        reason: String::new(),
        paused: None,
        paused_until: None,
        beat: 1,
        jobs: vec!["report".to_owned()],
        threads: 4,
        busy: 0,
        queued: 0,
        stuck: 0,
        lanes: Vec::new(),
        started: Some(at(0, 0)),
        last_beat: Some(at(12, -2_000)),
        ended: None,
        end_reason: String::new(),
    }
}

fn job() -> JobView {
    JobView {
        name: "report".to_owned(),
        state: Activity::Active,
        nodes: 1,
        schedules: 1,
        recover: true,
        max_attempts: 2,
        max_retries: 0,
        retry_delay: Duration::ZERO,
        retry_cap: Duration::ZERO,
        retry_jitter: 0,
        time_limit: None,
        concurrency: None,
        rate: None,
        group_concurrency: None,
        group_rate: None,
        description: String::new(),
        paused_by: String::new(),
        reason: String::new(),
        paused: None,
        paused_until: None,
        nobody_since: None,
    }
}

fn schedule() -> ScheduleView {
    ScheduleView {
        id: ScheduleId(1),
        application: "shop".to_owned(),
        name: "nightly".to_owned(),
        job: "report".to_owned(),
        nodes: 1,
        state: ScheduleState::Active.into(),
        trigger: "cron 0 0 2 * * ? UTC".to_owned(),
        trigger_words: "every day at 02:00 (UTC)".to_owned(),
        description: String::new(),
        prev: Some(two()),
        next: Some(at(26, 0)),
        misfire_threshold: Duration::from_secs(60),
        expected_by: None,
        unmet: None,
        triggered: 1,
        version: 1,
        reason: String::new(),
        paused_by: String::new(),
        paused: None,
        quarantined: None,
        paused_until: None,
        held_by: String::new(),
        left_alone: String::new(),
        owner: None,
        by_hand: Vec::new(),
        nobody_since: None,
    }
}

/// The cluster at noon, with one node, and "nightly", which fires at two.
fn noon() -> Facts {
    let timing = Timing::new(Trigger::cron("0 0 2 * * ?", "UTC").unwrap(), None, None).ok();
    Facts {
        now: at(12, 0),
        name: "nightly".to_owned(),
        at: Some(two()),
        plan: Some(Plan {
            view: schedule(),
            timing,
            misfire: Some(MisfirePolicy::FireOnce),
            left_by: Vec::new(),
        }),
        attempts: Vec::new(),
        nodes: vec![node(NODE)],
        job: Some(job()),
        application: Some(ApplicationView {
            name: "shop".to_owned(),
            state: Activity::Active,
            paused_by: String::new(),
            reason: String::new(),
            paused: None,
            paused_until: None,
        }),
        holder: None,
        rerun: None,
        triggers: Vec::new(),
        under_way: Vec::new(),
        changes: Vec::new(),
    }
}

fn with(attempts: Vec<ExecutionView>) -> Facts {
    Facts { attempts, ..noon() }
}

fn change(verb: &str, target_type: &str, made: DateTime<Utc>, was: &str) -> AuditView {
    AuditView {
        id: made.timestamp_millis(),
        application: "shop".to_owned(),
        made: Some(made),
        stored_made: made.into(),
        actor: "ann".to_owned(),
        verb: verb.to_owned(),
        target_type: target_type.to_owned(),
        target: "nightly".to_owned(),
        was: was.to_owned(),
        became: "cron 0 0 2 * * ? UTC".to_owned(),
        fields: Vec::new(),
        reason: "stocktaking".to_owned(),
    }
}

/// An edit that set another trigger.
fn retimed(made: DateTime<Utc>) -> AuditView {
    let fields = vec![ScheduleField::Trigger, ScheduleField::Priority];
    AuditView { fields, ..change("ensure", "schedule", made, "cron 0 0 4 * * ? UTC, priority=4") }
}

#[track_caller]
fn says(facts: &Facts, fate: Fate, reason: &str, sentence: &str) -> Why {
    let why = explain(facts);
    assert_eq!((why.fate, &*why.reason, &*why.sentence), (fate, reason, sentence));
    why
}

const ON: &str = "node n1 (host-a, process 41)";
const IT: &str = "\"nightly\" of 2026-11-29 02:00:00.000 UTC";

fn pending() -> ExecutionView {
    let (reason, cause) = ("retry".to_owned(), Cause::Retry);
    ExecutionView { id: ExecutionId(8), attempt: 2, reason, cause, ..planned("PENDING", "") }
}

//! Why an execution began late, as far as that is known.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::facts::Facts;
use crate::api::spans::as_millis;
use crate::api::words::{instant, length};
use crate::api::{AuditView, ExecutionView, NodeView};
use crate::domain::{Activity, BoundScope, Cause, ExecutionId, SeatKind, SeatWait};

/// From so late on an execution is late.
const LATE: TimeDelta = TimeDelta::seconds(1);

/// That an execution began a second late or more, and what it waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Late {
    /// How late. As JSON milliseconds.
    #[serde(serialize_with = "as_millis")]
    pub lateness: Duration,
    /// What it waited for. Empty if nothing is known of it: its node was slow to claim it, or the database.
    pub waits: Vec<LateWait>,
}

/// Something that an execution waited for after it was due. As JSON an object whose `for` names it; instants
/// are epoch milliseconds, and spans are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LateWait {
    /// No live node had a handler for its job and claimed.
    #[non_exhaustive]
    Node {
        /// From when: it was due, or the last of these nodes ended, was heard of, or was switched off.
        #[serde(with = "chrono::serde::ts_milliseconds")]
        since: DateTime<Utc>,
        /// When one joined.
        #[serde(with = "chrono::serde::ts_milliseconds")]
        until: DateTime<Utc>,
    },
    /// Its application, its job or its schedule was paused.
    #[non_exhaustive]
    PauseEnd {
        /// What: `application`, `job` or `schedule`.
        target_type: String,
        /// Its name.
        target: String,
        /// Who had paused it.
        actor: String,
        /// When the pause ended.
        #[serde(with = "chrono::serde::ts_milliseconds")]
        until: DateTime<Utc>,
    },
    /// Another execution of its schedule had not ended.
    #[non_exhaustive]
    Holder {
        /// That execution.
        holder: ExecutionId,
    },
    /// All threads, tasks and places in the queue of its lane were taken on its node, or given to others that
    /// were due before.
    #[non_exhaustive]
    Lane {
        /// The lane.
        lane: String,
        /// For how long.
        #[serde(serialize_with = "as_millis")]
        span: Duration,
    },
    /// So many executions of its job, or of its group, ran as may run at once.
    #[non_exhaustive]
    Bound {
        /// `job` or `group`.
        of: String,
        /// For how long.
        #[serde(serialize_with = "as_millis")]
        span: Duration,
    },
    /// So many of its job, or of its group, had begun as may begin within a span of time.
    #[non_exhaustive]
    Rate {
        /// `job` or `group`.
        of: String,
        /// For how long.
        #[serde(serialize_with = "as_millis")]
        span: Duration,
    },
    /// It was claimed, and waited in the queue of its node.
    #[non_exhaustive]
    Queue {
        /// For how long.
        #[serde(serialize_with = "as_millis")]
        span: Duration,
    },
}

/// How late an execution began that has begun, if it was late, and why.
pub(super) fn late(facts: &Facts, it: &ExecutionView) -> Option<Late> {
    let (due, claimed, started) = (it.due?, it.claimed?, it.started?);
    let late = started - due;
    // How late something was found that was missed is told by its reason.
    if late < LATE || it.cause == Cause::Misfire && it.attempt == 1 {
        return None;
    }
    let holder = it.holder.filter(|_| it.attempt == 1).map(|holder| LateWait::Holder { holder });
    let queued = started - claimed;
    let queue = (queued >= LATE).then(|| LateWait::Queue { span: queued.to_std().unwrap_or_default() });
    // A snooze after the wait has moved the due time: the wait may be longer than the execution is late.
    let seat = it.waited_for.as_deref().and_then(|text| text.parse().ok());
    let seat = seat.filter(|wait: &SeatWait| wait.span <= late.num_milliseconds()).map(of_seat);
    let waits = pauses(facts, it, (due, claimed)).chain(no_node(facts, it, (due, claimed)));
    let waits = waits.chain(holder).chain(seat).chain(queue).collect();
    Some(Late { lateness: late.to_std().unwrap_or_default(), waits })
}

fn of_seat(SeatWait { seat, span }: SeatWait) -> LateWait {
    let span = crate::time::span(span);
    let of = |scope| if scope == BoundScope::Job { "job" } else { "group" }.to_owned();
    match seat {
        SeatKind::Lane(lane) => LateWait::Lane { lane: lane.to_string(), span },
        SeatKind::Bound(scope) => LateWait::Bound { of: of(scope), span },
        SeatKind::Rate(scope) => LateWait::Rate { of: of(scope), span },
    }
}

/// Pauses that had begun when it was due and ended before it was claimed.
/// A schedule's own holds what it plans, and nothing that was asked for by hand.
fn pauses(
    facts: &Facts,
    it: &ExecutionView,
    (due, claimed): (DateTime<Utc>, DateTime<Utc>),
) -> impl Iterator<Item = LateWait> {
    let is_planned = it.origin == 0;
    let holds = move |target: &str| target != "node" && (is_planned || target != "schedule");
    let is_pause = move |it: &&AuditView| it.verb == "pause" && holds(&it.target_type);
    facts.changes.iter().rev().filter(is_pause).filter_map(move |begin| {
        let until = facts.end_of_pause(begin)?.made?;
        let is_its = begin.made? <= claimed && until - due >= LATE && until <= claimed;
        is_its.then(|| LateWait::PauseEnd {
            target_type: begin.target_type.clone(),
            target: begin.target.clone(),
            actor: begin.actor.clone(),
            until,
        })
    })
}

/// The time in which no node had a handler and claimed, from its due time on. A node that died lived until it
/// was heard of last; one that is switched off claims nothing since then.
fn no_node(
    facts: &Facts,
    it: &ExecutionView,
    (due, claimed): (DateTime<Utc>, DateTime<Utc>),
) -> Option<LateWait> {
    let lists = |node: &&NodeView| node.jobs.contains(&it.job);
    let last = |node: &NodeView| match node.ended {
        Some(ended) if node.end_reason == "dead" => node.last_beat.map_or(ended, |beat| beat.min(ended)),
        Some(ended) => ended,
        None if node.state != Activity::Active => node.paused.unwrap_or(claimed),
        None => claimed,
    };
    let lives = facts.nodes.iter().filter(lists).filter_map(|node| Some((node.started?, last(node))));
    let lives: Vec<_> = lives.filter(|(begun, ended)| *ended > due && *begun < claimed).collect();
    // Its own node's row is there, unless retention has removed it: then nothing is known.
    let first = lives.iter().map(|(begun, _)| *begun).min()?;
    let covered = lives.iter().filter(|(begun, _)| *begun <= due).map(|(_, ended)| *ended).max();
    let (from, until) = match covered {
        None => (due, first),
        Some(ended) => {
            let next = lives.iter().map(|(begun, _)| *begun).filter(|begun| *begun > ended).min()?;
            let is_bridged = lives.iter().any(|(begun, until)| *begun <= ended && *until > ended);
            if is_bridged {
                return None;
            }
            (ended, next)
        }
    };
    (until - from >= LATE).then_some(LateWait::Node { since: from, until })
}

/// `: it waited 40.1 s for a seat of lane "slow"`; nothing if nothing is known.
pub(super) fn said(late: &Late) -> String {
    let waits: Vec<String> = late.waits.iter().map(waited).collect();
    if waits.is_empty() { String::new() } else { format!(": {}", waits.join(", and ")) }
}

fn waited(wait: &LateWait) -> String {
    match wait {
        LateWait::Node { since, until } => {
            format!(
                "no node that claimed had a handler for it from {} until {}",
                instant(*since),
                instant(*until)
            )
        }
        LateWait::PauseEnd { target_type, target, actor, until } => {
            let actor = if actor.is_empty() { "somebody" } else { actor };
            format!("{target_type} {target:?} was paused by {actor} until {}", instant(*until))
        }
        LateWait::Holder { holder } => format!("it must not overlap execution {holder}"),
        LateWait::Lane { lane, span } => format!("it waited {} for a seat of lane {lane:?}", length(*span)),
        LateWait::Bound { of, span } => format!("it waited {} for a seat of its {of}", length(*span)),
        LateWait::Rate { of, span } => format!("it waited {} for the rate of its {of}", length(*span)),
        LateWait::Queue { span } => format!("it waited {} in its node's queue", length(*span)),
    }
}

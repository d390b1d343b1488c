//! Whether an occurrence has succeeded as soon as it was expected to.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::because::Because;
use super::facts::Facts;
use super::fate::Fate;
use crate::api::spans::as_millis;
use crate::api::words::{instant, length, span};
use crate::domain::ExecutionState;
use crate::store::audit::MET;

/// By when a planned occurrence is to have succeeded, as its schedule says now
/// ([`Schedule::expected_by`](crate::Schedule::expected_by)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Expected {
    /// How long after its fire time. As JSON milliseconds.
    #[serde(serialize_with = "as_millis")]
    pub within: Duration,
    /// Until when. As JSON epoch milliseconds.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub until: DateTime<Utc>,
    /// When it succeeded; or, if it did not and its time is up, when it was noted that a later one had. None
    /// if neither is known. As JSON epoch milliseconds.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub met: Option<DateTime<Utc>>,
}

/// None of what nobody waits for: what somebody paused, skipped, edited or removed beforehand.
pub(super) fn expected(facts: &Facts, fate: Fate, because: &Because) -> Option<Expected> {
    let excused = matches!(because, Because::Paused { .. } | Because::ByHand { .. }) && fate == Fate::Skipped;
    if excused || matches!(fate, Fate::Withdrawn | Fate::NotDue | Fate::Unknown | Fate::WillBeSkipped) {
        return None;
    }
    let last = facts.attempts.last();
    let at = facts.at.or_else(|| last.filter(|it| it.origin == 0)?.fire_time)?;
    let within = facts.plan.as_ref()?.view.expected_by?;
    let until = at.checked_add_signed(TimeDelta::from_std(within).ok()?)?;
    let success = last.filter(|it| it.state == ExecutionState::Succeeded).and_then(|it| it.finished);
    let later = || {
        let noted = facts.changes.iter().rev().find(|it| it.verb == MET && it.made >= Some(until));
        noted.filter(|_| facts.now >= until)?.made
    };
    Some(Expected { within, until, met: success.or_else(later) })
}

/// The fact, in words.
pub(super) fn known(expected: &Expected, now: DateTime<Utc>) -> String {
    let within = format!("within {}, until {}", length(expected.within), instant(expected.until));
    match expected.met {
        Some(met) if met <= expected.until => format!("{within}: met at {}", instant(met)),
        Some(met) => format!("{within}: met {} too late, at {}", span(met - expected.until), instant(met)),
        None if now < expected.until => format!("{within}: its time is not up"),
        None => format!("{within}: not met"),
    }
}

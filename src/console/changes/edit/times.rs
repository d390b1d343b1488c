//! The next fire times by a new trigger, beside those by the old one.

use std::ops::Bound;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::clocks;
use crate::{EditPlan, ScheduleDetails, Trigger};

/// So many fire times are shown beside each other.
const SHOWN: usize = 10;

/// Fire times beside each other.
pub(super) struct Times {
    pub(super) rows: Vec<Both>,
    /// What changes of the clocks do to them within a year.
    pub(super) clocks: Vec<String>,
    /// What they are in.
    pub(super) zone: String,
}

/// The fire times of one row: as it is, and as it would be.
pub(super) struct Both {
    pub(super) is: String,
    pub(super) becomes: String,
    /// Whether the other trigger has this fire time as well, among those that are shown.
    pub(super) stays: bool,
}

/// None if when it fires does not change.
pub(super) fn beside(details: &ScheduleDetails, plan: &EditPlan, now: DateTime<Utc>) -> Option<Times> {
    if !plan.differences.iter().any(|it| ["trigger", "starts", "ends"].contains(&it.field)) {
        return None;
    }
    let old = details.rule.clone().map(|rule| next(rule, details.starts, details.ends, now));
    let (old, new) = (old.unwrap_or_default(), next(plan.trigger.clone(), plan.starts, plan.ends, now));
    let zone = zone_of(&plan.trigger);
    let wall = |at: Option<&DateTime<Utc>>| {
        let at = at.map(|at| at.with_timezone(&zone));
        at.map(|at| at.format("%a %Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
    };
    let rows = (0..old.len().max(new.len())).map(|place| Both {
        is: wall(old.get(place)),
        becomes: wall(new.get(place)),
        stays: new.get(place).is_some_and(|at| old.contains(at)),
    });
    Some(Times {
        rows: rows.collect(),
        clocks: match &plan.trigger {
            Trigger::Cron(cron) => clocks::of_cron(cron, now),
            _ => Vec::new(),
        },
        zone: zone.name().to_owned(),
    })
}

fn zone_of(trigger: &Trigger) -> Tz {
    match trigger {
        Trigger::Cron(cron) => cron.zone().parse().unwrap_or(Tz::UTC),
        _ => Tz::UTC,
    }
}

/// The next fire times of a trigger in its window; of one that waits for the end of a run only the first.
fn next(
    trigger: Trigger,
    starts: Option<DateTime<Utc>>,
    ends: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Vec<DateTime<Utc>> {
    let Ok(trigger) = trigger.anchored(starts.unwrap_or(now)) else { return Vec::new() };
    let first = Bound::Included(starts.unwrap_or(now).max(now));
    let times = trigger.fire_times((first, ends.map_or(Bound::Unbounded, Bound::Included)));
    times.filter(|at| *at > now).take(SHOWN).collect()
}

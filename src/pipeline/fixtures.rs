//! Rows for the tests of the pipeline.

use std::sync::Arc;

use crate::model::{Cursor, Entry, Millis, MisfirePolicy, ScheduleId, ScheduleState};
use crate::schedule::{Cron, Simple, Timing, Trigger};

pub(crate) fn entry(id: i64, timing: Timing, cursor: Cursor) -> Entry {
    Entry {
        id: ScheduleId(id),
        name: Arc::from(format!("schedule-{id}")),
        job: Arc::from("job"),
        payload: Arc::from("null"),
        state: ScheduleState::Active,
        timing,
        cursor,
        version: 0,
        generation: 0,
        priority: 5,
        misfire: MisfirePolicy::FireOnce,
        threshold: 60_000,
    }
}

/// A cron schedule in UTC whose cursor stands before `next`.
pub(crate) fn cron(id: i64, expression: &str, next: Millis) -> Entry {
    let trigger = Trigger::Cron(Cron::parse(expression, "UTC").unwrap());
    let timing = Timing::new(trigger, None, None).unwrap();
    entry(id, timing, Cursor { prev: None, next: Some(next) })
}

/// A simple schedule that has not fired yet.
pub(crate) fn simple(id: i64, start: Millis, interval: Millis, repeats: i64, end: Option<Millis>) -> Entry {
    let trigger = Trigger::Simple(Simple::new(Some(start), interval, repeats).unwrap());
    let timing = Timing::new(trigger, None, end).unwrap();
    entry(id, timing, Cursor { prev: None, next: Some(start) })
}

//! A schedule's row for tests and benches.

use std::sync::Arc;

use crate::domain::{
    Bounds, Cursor, DEFAULT_PRIORITY, Entry, MisfirePolicy, Overlap, PauseAfter, ScheduleId, ScheduleState,
};
use crate::time::Window;
use crate::trigger::Timing;

/// An active row of the job "job".
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
        priority: DEFAULT_PRIORITY,
        misfire: MisfirePolicy::FireOnce,
        threshold: Window::default().threshold,
        time_limit: None,
        recover: true,
        bounds: Bounds::NONE,
        overlap: Overlap::Skip,
        pause_after: PauseAfter::Deaths,
        is_queue: false,
    }
}

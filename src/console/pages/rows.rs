//! Executions as rows of a table: each with why it is as it is.

use chrono::{DateTime, Utc};

use crate::console::changes::button::Button;
use crate::console::changes::followed::{followed, is_mended, mended};
use crate::console::changes::missed::MissedOrder;
use crate::console::changes::order::Order;
use crate::console::frame::Frame;
use crate::console::web::query;
use crate::console::words::{
    Badge, Mark, Moment, because, cause, clock, first_line, is_of_queue, name_of_schedule, node_of, number,
    span,
};
use crate::{Cause, ExecutionId, ExecutionState, ExecutionView, NodeView};

/// A row of executions, or of a span of occurrences that were skipped or withdrawn.
pub(super) struct ExecutionLine {
    pub(crate) id: ExecutionId,
    pub(crate) to: String,
    pub(crate) schedule: String,
    pub(crate) to_schedule: String,
    pub(crate) fire_time: Option<Moment>,
    pub(crate) badge: Badge,
    /// How late it began.
    pub(crate) start: String,
    pub(crate) took: String,
    pub(crate) node: String,
    pub(crate) reason: String,
    pub(crate) button: Option<Button>,
}

impl ExecutionLine {
    /// The rows of a list. Others than those of the list may have mended some of it.
    pub(crate) fn all(
        list: &[ExecutionView],
        others: &[ExecutionView],
        nodes: &[NodeView],
        frame: &Frame,
        now: DateTime<Utc>,
    ) -> Vec<Self> {
        let (followed, mended) = (followed(list), mended(list.iter().chain(others)));
        let row = |it: &ExecutionView| {
            let row = Self::new(it, nodes, frame, now);
            // Another attempt has been made.
            let is_over = followed.contains(&it.id) || is_mended(it, &mended);
            Self { button: row.button.filter(|_| !is_over), ..row }
        };
        list.iter().map(row).collect()
    }

    fn new(it: &ExecutionView, nodes: &[NodeView], frame: &Frame, now: DateTime<Utc>) -> Self {
        let between = |from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>| Some(to? - from?);
        let ran = it.finished.or_else(|| (it.state == ExecutionState::Running).then_some(now));
        let took = between(it.started, ran).map(span).unwrap_or_default();
        let start = between(it.due, it.started).map(|late| format!("+{}", span(late))).unwrap_or_default();
        Self {
            id: it.id,
            to: query::execution(it.id),
            schedule: name_of_schedule(it),
            to_schedule: if is_of_queue(it) { String::new() } else { query::schedule(&it.schedule) },
            fire_time: Moment::some(it.fire_time, now),
            badge: badge(it),
            start,
            took,
            node: node_of(it, nodes),
            reason: reason(it, now),
            button: button(it, frame),
        }
    }
}

/// Its state; of an attempt that waits, what for.
pub(crate) fn badge(it: &ExecutionView) -> Badge {
    match it.state.as_str() {
        "PENDING" if it.nobody_since.is_some() => Badge::new(Mark::Failed, "nobody can run it"),
        "PENDING" if it.cause == Cause::Retry => Badge::new(Mark::Waits, "waits to be retried"),
        "RUNNING" if it.cancel_asked.is_some() => Badge::new(Mark::Running, "asked to end"),
        "TIMED_OUT" if it.stuck => Badge::new(Mark::Failed, "timed out, runs on"),
        "SKIPPED" | "WITHDRAWN" if it.count > 1 => {
            Badge::new(Mark::Skipped, format!("{} {}", number(it.count), it.state.as_str().to_lowercase()))
        }
        state => Badge::of_execution(state),
    }
}

/// Why it is as it is, in words; nothing where that is plain.
pub(crate) fn reason(it: &ExecutionView, now: DateTime<Utc>) -> String {
    let mut parts = Vec::new();
    let is_usual = [Cause::Planned, Cause::Enqueued, Cause::Retry].contains(&it.cause);
    match it.reason.as_str() {
        "" => {}
        reason if reason == it.cause.as_str() => {}
        "overlap" => parts.push(match it.holder {
            Some(holder) => format!("execution {holder} had not ended"),
            None => "another had not ended".to_owned(),
        }),
        reason => parts.push(reason.to_owned()),
    }
    let error = first_line(&it.error);
    if !error.is_empty() {
        parts.push(error);
    }
    if it.attempt > 1 {
        parts.push(format!("attempt {}", it.attempt));
    }
    if !is_usual {
        parts.push(cause(&it.cause));
    }
    if let Some(waited) = &it.waited_for {
        parts.push(format!("waited for a seat ({waited} ms)"));
    }
    if let Some(at) = it.nobody_since {
        parts.push(format!("no live node has a handler, since {}", Moment::new(at, now).said));
    }
    if it.cancel_asked.is_some() {
        parts.push(because("its end was asked for", &it.cancel_asked_by, &it.cancel_asked_why));
    }
    parts.join(" · ")
}

/// What may be done to it.
pub(crate) fn button(it: &ExecutionView, frame: &Frame) -> Option<Button> {
    match it.state.as_str() {
        "PENDING" | "CLAIMED" | "RUNNING" => Button::new(frame, "Cancel", &Order::Cancel(it.id.get())),
        "FAILED" | "TIMED_OUT" | "ABANDONED" | "CANCELLED" => {
            Button::new(frame, "Try again", &Order::Retry(it.id.get()))
        }
        "SKIPPED" | "WITHDRAWN" if it.count == 1 && it.origin == 0 => {
            let at = it.fire_time?;
            Button::new(frame, format!("Run it for {}", clock(at)), &Order::Rerun(it.schedule.clone(), at))
        }
        "SKIPPED" | "WITHDRAWN" if it.origin == 0 && !is_of_queue(it) => {
            Button::new(frame, "Run what is missing", &Order::Missed(Box::new(MissedOrder::within(it)?)))
        }
        _ => None,
    }
}

//! The span of an attempt in the application's traces. Without the feature `tracing` it is nothing.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "tracing")]
use super::user_code::guarded;
use super::{Attempt, Cause, ExecutionState};

/// What the span of an attempt says of it, beside what the attempt itself does.
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody asks"))]
pub(crate) struct SpanFacts<'a> {
    pub application: &'a str,
    pub node: &'a dyn fmt::Display,
    pub cause: &'a Cause,
    pub fence: i64,
    pub lateness: Duration,
}

/// One for each attempt, from before its handler begins until its outcome is known. A subscriber is the
/// application's code: a panic of it ends no thread of ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptSpan {
    #[cfg(feature = "tracing")]
    span: Option<tracing::Span>,
}

#[cfg(feature = "tracing")]
impl Drop for AttemptSpan {
    fn drop(&mut self) {
        let span = self.span.take();
        guarded(|| drop(span)).ok();
    }
}

#[cfg(feature = "tracing")]
impl AttemptSpan {
    /// Whether there is a subscriber. Without one its crate would write spans to the log, if some other crate
    /// has asked it to.
    pub(crate) fn is_wanted() -> bool {
        tracing::dispatcher::has_been_set()
    }

    /// A root, whatever span its thread is in.
    pub(crate) fn new(attempt: &Attempt, facts: &SpanFacts<'_>) -> Self {
        let SpanFacts { application, node, cause, fence, lateness } = facts;
        let span = || {
            tracing::info_span!(
                target: "firetime",
                parent: None,
                "firetime.execution",
                schedule = &*attempt.schedule,
                job = &*attempt.job,
                execution = attempt.execution.get(),
                attempt = attempt.number,
                cause = cause.as_str(),
                node = %node,
                fence,
                lateness = lateness.as_secs_f64(),
                outcome = tracing::field::Empty,
                "messaging.system" = "firetime",
                "messaging.operation.name" = "run",
                "messaging.operation.type" = "process",
                "messaging.destination.name" = &*attempt.job,
                "messaging.message.id" = %attempt.execution,
                "messaging.client.id" = %node,
                "messaging.consumer.group.name" = application,
                "error.type" = tracing::field::Empty,
                "otel.kind" = "consumer",
                "otel.status_code" = tracing::field::Empty,
            )
        };
        Self { span: guarded(span).ok() }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.span.is_none()
    }

    /// Leaves the span open for good.
    pub(crate) fn leave(mut self) {
        std::mem::forget(self.span.take());
    }

    pub(crate) fn span(&self) -> Option<&tracing::Span> {
        self.span.as_ref()
    }

    /// Runs code of the attempt inside of it.
    pub(crate) fn within<T>(&self, body: impl FnOnce() -> T) -> T {
        match &self.span {
            Some(span) => span.in_scope(body),
            None => body(),
        }
    }

    /// The attempt has ended in this state.
    pub(crate) fn ended(&self, state: ExecutionState) {
        let Some(span) = &self.span else { return };
        let record = || {
            span.record("outcome", state.as_str());
            if matches!(state, ExecutionState::Failed | ExecutionState::TimedOut) {
                span.record("error.type", state.as_str());
                span.record("otel.status_code", "ERROR");
            }
        };
        guarded(record).ok();
    }
}

#[cfg(not(feature = "tracing"))]
impl AttemptSpan {
    pub(crate) fn is_wanted() -> bool {
        false
    }

    pub(crate) fn new(_: &Attempt, _: &SpanFacts<'_>) -> Self {
        Self::default()
    }

    pub(crate) fn within<T>(&self, body: impl FnOnce() -> T) -> T {
        body()
    }

    pub(crate) fn ended(&self, _: ExecutionState) {}

    pub(crate) fn is_none(&self) -> bool {
        true
    }

    pub(crate) fn leave(self) {}
}

/// How the span of an attempt belongs to the trace of whoever enqueued or triggered its execution, if that
/// has a [header](crate::Context::header) `traceparent`: the answer of
/// [`Context::span_origin`](crate::Context::span_origin).
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanOrigin {
    /// It has no such header, as planned executions: the span begins a trace.
    Root,
    /// It is the first run: the span is a child of that which the header names.
    Child,
    /// It is a retry, or goes on after a snooze, perhaps hours later: the span begins a trace, and has a link
    /// to that which the header names.
    Link,
}

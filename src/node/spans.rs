//! Makes the spans of a node's attempts.

#[cfg(feature = "tracing")]
use std::sync::Arc;
use std::time::Duration;

use crate::domain::attempt_span::{AttemptSpan, SpanFacts};
use crate::domain::{Attempt, NodeId};
use crate::node::context::Context;
#[cfg(feature = "tracing")]
use crate::node::log_layer::LogLayer;
use crate::store::Claimed;

/// The application's function that is called with each span.
#[cfg(feature = "tracing")]
pub(crate) type OnSpan = dyn Fn(&tracing::Span, &Context) + Send + Sync;

/// What the spans of one node have in common.
#[derive(Clone, Default)]
pub(crate) struct Spans {
    application: String,
    node: Option<NodeId>,
    #[cfg(feature = "tracing")]
    pub on_span: Option<Arc<OnSpan>>,
}

impl Spans {
    /// The same for this node of an application.
    pub(crate) fn of(mut self, application: &str, node: NodeId) -> Self {
        application.clone_into(&mut self.application);
        self.node = Some(node);
        self
    }

    /// The span of an attempt that begins so late.
    pub(super) fn begin(&self, attempt: &Attempt, claimed: &Claimed, lateness: Duration) -> AttemptSpan {
        let nobody = NodeId(uuid::Uuid::nil());
        let facts = SpanFacts {
            application: &self.application,
            node: self.node.as_ref().unwrap_or(&nobody),
            cause: claimed.cause(),
            fence: claimed.fence(),
            lateness,
        };
        AttemptSpan::new(attempt, &facts)
    }

    /// Runs the application's code of an attempt in its span. Before the span is entered the application is
    /// told of it.
    pub(super) fn first_within<T>(
        &self,
        span: &AttemptSpan,
        context: &Context,
        body: impl FnOnce() -> T,
    ) -> T {
        #[cfg(feature = "tracing")]
        if let Some(span) = span.span() {
            LogLayer::attach(span, context);
            self.on_span.iter().for_each(|on_span| on_span(span, context));
        }
        #[cfg(not(feature = "tracing"))]
        let _ = context;
        span.within(body)
    }
}

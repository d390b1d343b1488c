//! Makes the spans of a node's attempts.

#[cfg(feature = "tracing")]
use std::sync::Arc;
use std::time::Duration;

use crate::domain::Attempt;
use crate::domain::attempt_span::{AttemptSpan, SpanFacts};
use crate::members::Standing;
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
    #[cfg(feature = "tracing")]
    pub on_span: Option<Arc<OnSpan>>,
}

impl Spans {
    /// The same for a node of this application.
    pub(crate) fn of(mut self, application: &str) -> Self {
        application.clone_into(&mut self.application);
        self
    }

    /// The span of an attempt that begins so late on this node.
    pub(super) fn begin(
        &self,
        attempt: &Attempt,
        claimed: &Claimed,
        lateness: Duration,
        standing: &Standing,
    ) -> AttemptSpan {
        if !AttemptSpan::is_wanted() {
            return AttemptSpan::default();
        }
        let facts = SpanFacts {
            application: &self.application,
            node: &standing.node(),
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

#[cfg(test)]
#[cfg(feature = "tracing")]
mod tests {
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;
    use crate::domain::{JobPolicy, JobSpec, NodeId};
    use crate::node::handlers::Handlers;
    use crate::node::tests::bench::RunnerBench;

    /// The nodes that spans name.
    #[derive(Clone, Default)]
    struct Named(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Named {
        fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
            span.record(&mut self.clone());
        }
    }

    impl Visit for Named {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if ["node", "messaging.client.id"].contains(&field.name()) {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        }
    }

    #[test]
    fn a_span_names_its_node_as_that_has_joined_last() {
        let mut handlers = Handlers::default();
        handlers.add(JobSpec::new("job", JobPolicy::DEFAULT), |_, ()| Ok(())).unwrap();
        let bench = RunnerBench::new(handlers);
        let (first, named) = (NodeId::fresh(), Named::default());
        let next = first.next_incarnation();
        [first, next].into_iter().for_each(|node| bench.runner.standing.joined(node));
        let subscriber = tracing_subscriber::registry().with(named.clone());
        tracing::subscriber::with_default(subscriber, || bench.runner.run(bench.claim(true)));
        assert_eq!(*named.0.lock().unwrap(), [next.to_string(), next.to_string()]);
    }
}

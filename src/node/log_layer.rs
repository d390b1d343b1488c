//! Takes what handlers log with `tracing` into the logs of their executions.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use tracing::field::{Field, Visit};
use tracing::span::Id;
use tracing::{Event, Level, Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context as Around;
use tracing_subscriber::registry::LookupSpan;

use crate::domain::LogLevel;
use crate::node::context::Context;

/// A layer for `tracing-subscriber` that adds what is logged within the span of an execution to the
/// execution's own log, as [`Context::log`](crate::Context::log) does: by its handler, and by the libraries
/// that it calls. So whoever shows the execution sees what it logged
/// ([`Client::logs`](crate::Client::logs)).
///
/// Of an attempt the newest 200 lines are kept, of 500 characters each. What is logged elsewhere is left
/// alone. Other layers get everything, too. It works as a layer of the global subscriber without a filter of
/// its own, and knows the executions of all schedulers of the process.
///
/// ```
/// use firetime::{LogLayer, LogLevel};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// // INFO and above; of the job `import` DEBUG, too.
/// let layer = LogLayer::new().level_of("import", LogLevel::Debug);
/// let subscriber = tracing_subscriber::registry().with(layer); // .with(tracing_subscriber::fmt::layer())
/// # let _ = subscriber; /*
/// tracing::subscriber::set_global_default(subscriber)?;
/// # */
/// ```
#[derive(Debug, Default)]
pub struct LogLayer {
    level: LogLevel,
    of_jobs: BTreeMap<String, LogLevel>,
    /// Of the spans of executions that run.
    runs: Mutex<FxHashMap<Id, Arc<Context>>>,
}

impl LogLayer {
    /// Takes what is logged at INFO and above.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what is logged at this level and above, of jobs without a level of their own. Default:
    /// [`LogLevel::Info`].
    #[must_use]
    pub fn level(mut self, level: LogLevel) -> Self {
        self.level = level;
        self
    }

    /// The same for the executions of the job of this name.
    #[must_use]
    pub fn level_of(mut self, job: &str, level: LogLevel) -> Self {
        self.of_jobs.insert(job.to_owned(), level);
        self
    }

    /// Hands the layer of the present subscriber, if there is one, the context of this span.
    pub(super) fn attach(span: &Span, context: &Context) {
        let Some(id) = span.id() else { return };
        tracing::dispatcher::get_default(|subscriber| {
            if let Some(layer) = subscriber.downcast_ref::<Self>() {
                layer.runs().insert(id.clone(), Arc::new(context.clone()));
            }
        });
    }

    fn level_for(&self, job: &str) -> LogLevel {
        self.of_jobs.get(job).copied().unwrap_or(self.level)
    }

    fn runs(&self) -> MutexGuard<'_, FxHashMap<Id, Arc<Context>>> {
        // A map of plain values is whole whatever panicked beside it.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, around: Around<'_, S>) {
        let Some(scope) = around.event_scope(event) else { return };
        let run = {
            let runs = self.runs();
            scope.into_iter().find_map(|span| runs.get(&span.id()).cloned())
        };
        let Some(run) = run else { return };
        let level = level_of(*event.metadata().level());
        if level <= self.level_for(run.job()) {
            let mut line = Text::default();
            event.record(&mut line);
            run.log_at(level, &line.0);
        }
    }

    fn on_close(&self, id: Id, _: Around<'_, S>) {
        let closed = self.runs().remove(&id);
        // Outside of the lock: it may be the last to hold what its context holds.
        drop(closed);
    }
}

fn level_of(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}

/// The message of an event, and its fields behind that.
#[derive(Default)]
struct Text(String);

impl Text {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Writing into a String does not fail.
        if field.name() == "message" {
            let fields = std::mem::take(&mut self.0);
            write!(self.0, "{value}{fields}").ok();
        } else {
            write!(self.0, " {}={value}", field.name()).ok();
        }
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}

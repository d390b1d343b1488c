//! A subscriber that keeps the spans of attempts: each with its fields as text, until it is closed.

use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_global_default;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::Result;

/// How many spans have been closed.
#[derive(Clone, Default)]
pub struct Spans {
    closed: Arc<AtomicUsize>,
}

/// Installs the subscriber for this process.
pub fn keep() -> Result<Spans> {
    let spans = Spans::default();
    set_global_default(tracing_subscriber::registry().with(spans.clone()))?;
    Ok(spans)
}

impl Spans {
    pub fn kept(&self) -> usize {
        self.closed.load(Ordering::Relaxed)
    }
}

/// A span's fields.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A String takes all that is written to it.
        write!(self.0, "{}={value:?} ", field.name()).ok();
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context
            .span(id)
            .into_iter()
            .for_each(|span| span.extensions_mut().insert(std::mem::take(&mut fields)));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        span.extensions_mut().get_mut::<Fields>().into_iter().for_each(|fields| values.record(fields));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let fields = context.span(&id).and_then(|span| span.extensions_mut().remove::<Fields>());
        let is_of_an_attempt = fields.is_some_and(|fields| !std::hint::black_box(fields.0).is_empty());
        self.closed.fetch_add(usize::from(is_of_an_attempt), Ordering::Relaxed);
    }
}

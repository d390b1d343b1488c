//! The application's middleware: code of its own around its handlers.

use std::fmt;
#[cfg(feature = "tokio")]
use std::pin::Pin;
use std::sync::Arc;

use crate::domain::user_code::guarded;
use crate::domain::{Answer, HandlerError};
use crate::node::context::Context;

/// The future of an async handler, or of a middleware around one.
#[cfg(feature = "tokio")]
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Answer, HandlerError>> + Send>>;

/// A middleware of handlers on threads.
pub(crate) type Around = dyn Fn(&Context, Next<'_>) -> Result<Answer, HandlerError> + Send + Sync;
/// A middleware of async handlers.
#[cfg(feature = "tokio")]
pub(crate) type AsyncAround = dyn Fn(Context, HandlerFuture) -> HandlerFuture + Send + Sync;

/// What a middleware of [`Builder::around`](crate::Builder::around) has around it: the next middleware, or
/// the handler. Dropped without being run, neither of them runs, and the middleware's answer is the
/// execution's.
#[must_use = "without it the handler does not run"]
pub struct Next<'a> {
    context: &'a Context,
    rest: &'a [Arc<Around>],
    handler: &'a mut dyn FnMut() -> Result<Answer, HandlerError>,
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("left", &self.rest.len()).finish_non_exhaustive()
    }
}

impl<'a> Next<'a> {
    /// The whole of it: these around the handler, which is called once at most.
    pub(crate) fn new(
        context: &'a Context,
        rest: &'a [Arc<Around>],
        handler: &'a mut dyn FnMut() -> Result<Answer, HandlerError>,
    ) -> Self {
        Self { context, rest, handler }
    }

    /// Runs the rest: the next middleware, or the handler. Its answer is what the handler answers, unless a
    /// middleware in between makes another of it.
    ///
    /// # Errors
    /// The handler's error, or that of a middleware in between.
    pub fn run(self) -> Result<Answer, HandlerError> {
        let Self { context, rest, handler } = self;
        match rest.split_first() {
            Some((first, rest)) => first(context, Self { context, rest, handler }),
            None => handler(),
        }
    }
}

/// The middleware of a handler: the first is the outermost.
#[derive(Clone)]
pub(crate) enum Layer {
    Blocking(Arc<Around>),
    #[cfg(feature = "tokio")]
    Async(Arc<AsyncAround>),
}

#[cfg(feature = "tokio")]
impl Layer {
    pub(crate) fn of_futures<F>(around: impl Fn(Context, HandlerFuture) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Answer, HandlerError>> + Send + 'static,
    {
        Self::Async(Arc::new(move |context, next| Box::pin(around(context, next))))
    }
}

/// The middleware of a scheduler, as it was added.
#[derive(Default)]
pub(crate) struct Layers(Vec<(Option<&'static str>, Layer)>);

/// The middleware of one handler.
#[derive(Default)]
pub(crate) struct Wrapping {
    pub blocking: Vec<Arc<Around>>,
    #[cfg(feature = "tokio")]
    pub futures: Vec<Arc<AsyncAround>>,
}

impl Layers {
    /// Adds one, for the handler of this job alone if one is named.
    pub(crate) fn add(&mut self, job: Option<&'static str>, layer: Layer) {
        self.0.push((job, layer));
    }

    /// The jobs that some are for alone.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter_map(|(job, _)| *job)
    }

    /// What a handler of this job has around it. A handler of the other kind than a middleware that is meant
    /// for it is an error: it would run without, and nobody would notice. A middleware for all jobs may be
    /// there for both kinds.
    pub(crate) fn of(&self, job: &str, is_async: bool) -> Result<Wrapping, String> {
        let mut wrapping = Wrapping::default();
        let (mut has_common, mut is_left_out) = (false, false);
        for (only, layer) in self.0.iter().filter(|(only, _)| only.is_none_or(|only| only == job)) {
            let fits = wrapping.add(layer, is_async);
            has_common |= fits && only.is_none();
            is_left_out |= !fits && only.is_none();
            if !fits && only.is_some() {
                return Err(left_out(job, is_async));
            }
        }
        if is_left_out && !has_common { Err(left_out(job, is_async)) } else { Ok(wrapping) }
    }
}

fn left_out(job: &str, is_async: bool) -> String {
    let (handler, add) = match is_async {
        true => ("an async handler", "around_async or around_async_job"),
        false => ("a handler on threads", "around or around_job"),
    };
    format!("job {job:?} has {handler}, which the middleware for it cannot wrap: add one with {add}, too")
}

impl Wrapping {
    /// Adds one if it fits a handler of this kind.
    fn add(&mut self, layer: &Layer, is_async: bool) -> bool {
        match layer {
            Layer::Blocking(around) if !is_async => self.blocking.push(Arc::clone(around)),
            #[cfg(feature = "tokio")]
            Layer::Async(around) if is_async => self.futures.push(Arc::clone(around)),
            _ => return false,
        }
        true
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        drop_apart(&mut self.0);
    }
}

impl Drop for Wrapping {
    fn drop(&mut self) {
        drop_apart(&mut self.blocking);
        #[cfg(feature = "tokio")]
        drop_apart(&mut self.futures);
    }
}

/// Drops the application's functions, and what they captured, each on its own: two panics in one unwinding
/// would end the process.
fn drop_apart<T>(functions: &mut Vec<T>) {
    for function in functions.drain(..) {
        guarded(|| drop(function)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(layers: &Layers, job: &str, is_async: bool) -> Result<usize, String> {
        layers.of(job, is_async).map(|it| it.blocking.len())
    }

    #[test]
    fn a_middleware_is_for_all_jobs_or_one() {
        let mut layers = Layers::default();
        assert_eq!(named(&layers, "a", false), Ok(0));
        layers.add(Some("a"), Layer::Blocking(Arc::new(|_, next| next.run())));
        assert_eq!((named(&layers, "a", false), named(&layers, "b", false)), (Ok(1), Ok(0)));
        layers.add(None, Layer::Blocking(Arc::new(|_, next| next.run())));
        assert_eq!((named(&layers, "a", false), named(&layers, "b", false)), (Ok(2), Ok(1)));
        assert_eq!(layers.jobs().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn no_handler_runs_without_the_middleware_that_is_meant_for_it() {
        let mut layers = Layers::default();
        layers.add(Some("a"), Layer::Blocking(Arc::new(|_, next| next.run())));
        assert!(named(&layers, "a", true).unwrap_err().contains("around_async_job"));
        assert_eq!(named(&layers, "b", true), Ok(0));
        layers.add(None, Layer::Blocking(Arc::new(|_, next| next.run())));
        assert!(named(&layers, "b", true).unwrap_err().contains("\"b\" has an async handler"));
        #[cfg(feature = "tokio")]
        {
            layers.add(None, Layer::Async(Arc::new(|_, next| next)));
            let counts = |job, is_async| {
                let of = layers.of(job, is_async).unwrap();
                (of.blocking.len(), of.futures.len())
            };
            assert_eq!((counts("b", false), counts("b", true)), ((1, 0), (0, 1)));
            assert!(layers.of("a", true).is_err(), "its own is not for it");
        }
    }
}

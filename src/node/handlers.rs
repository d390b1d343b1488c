//! The handlers of one node by job.

use std::collections::BTreeMap;
use std::error::Error as StdError;
#[cfg(feature = "tokio")]
use std::{pin::Pin, time::Duration};

use serde::de::DeserializeOwned;

use crate::domain::payload;
use crate::domain::user_code::{brief, guarded};
use crate::domain::{Answer, Boot, ExecutionId, JobPolicy, JobSpec, Token};
use crate::node::context::Context;
use crate::node::passed_on::PassedOn;
use crate::pipeline::lanes::{DEFAULT_LANE, JobLane};
use crate::pipeline::poll::decode::Catalog;
use crate::time::{self, Micros};

/// What a handler returns when it fails: any error. Its text is stored with the execution (4,000 characters).
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// Why a handler's run has no answer.
pub(crate) enum NoAnswer {
    /// It failed.
    Handler(HandlerError),
    /// It did not begin: its job's payload is of another type.
    Undecodable(String),
}

impl<E: Into<HandlerError>> From<E> for NoAnswer {
    fn from(error: E) -> Self {
        Self::Handler(error.into())
    }
}

type BlockingFn = Box<dyn Fn(&Context, &str) -> Result<Answer, NoAnswer> + Send + Sync>;
/// The future that an async handler returns.
#[cfg(feature = "tokio")]
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<Answer, HandlerError>> + Send>>;
#[cfg(feature = "tokio")]
type AsyncFn = Box<dyn Fn(Context, &str) -> Result<HandlerFuture, NoAnswer> + Send + Sync>;
type Check = fn(&str) -> Result<(), String>;

/// A handler with its payload's type erased.
struct Handler {
    spec: JobSpec,
    /// The lane that the job names.
    lane: Option<&'static str>,
    check: Check,
    body: Body,
}

/// A function that runs on a thread, or one that makes a future.
enum Body {
    Blocking(BlockingFn),
    #[cfg(feature = "tokio")]
    Async {
        begin: AsyncFn,
        grace: Duration,
    },
}

/// The handlers of one scheduler, by job name.
#[derive(Default)]
pub(crate) struct Handlers {
    by_name: BTreeMap<String, Handler>,
    /// The executions whose payloads they could not decode.
    pub(super) passed_on: PassedOn,
}

/// What handlers captured is dropped with them, of each on its own: two panics in one unwinding would end the
/// process.
impl Drop for Handlers {
    fn drop(&mut self) {
        for handler in std::mem::take(&mut self.by_name).into_values() {
            guarded(|| drop(handler)).ok();
        }
    }
}

impl Handlers {
    /// Adds a handler; false if the job has one already.
    pub(crate) fn add<P: DeserializeOwned + 'static, A: Into<Answer>>(
        &mut self,
        spec: JobSpec,
        lane: Option<&'static str>,
        run: impl Fn(&Context, P) -> Result<A, HandlerError> + Send + Sync + 'static,
    ) -> bool {
        let run: BlockingFn = Box::new(move |context, text| {
            Ok(run(context, decoded(text).map_err(NoAnswer::Undecodable)?)?.into())
        });
        self.insert::<P>(spec, lane, Body::Blocking(run))
    }

    /// Adds an async handler, which has so long to end once it is told to; false if the job has one already.
    #[cfg(feature = "tokio")]
    pub(crate) fn add_async<P: DeserializeOwned + 'static, A: Into<Answer>, F>(
        &mut self,
        spec: JobSpec,
        lane: Option<&'static str>,
        grace: Duration,
        run: impl Fn(Context, P) -> F + Send + Sync + 'static,
    ) -> bool
    where
        F: Future<Output = Result<A, HandlerError>> + Send + 'static,
    {
        let begin: AsyncFn = Box::new(move |context, text| {
            let running = run(context, decoded(text).map_err(NoAnswer::Undecodable)?);
            Ok(Box::pin(async move { running.await.map(Into::into) }))
        });
        self.insert::<P>(spec, lane, Body::Async { begin, grace })
    }

    fn insert<P: DeserializeOwned + 'static>(
        &mut self,
        spec: JobSpec,
        lane: Option<&'static str>,
        body: Body,
    ) -> bool {
        let name = spec.name.clone();
        let handler = Handler { spec, lane, check: |text| decoded::<P>(text).map(drop), body };
        self.by_name.insert(name, handler).is_none()
    }

    pub(crate) fn specs(&self) -> Vec<JobSpec> {
        self.by_name.values().map(|handler| handler.spec.clone()).collect()
    }

    /// The jobs that name a lane, with its name, and those whose handlers are async.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = JobLane<'_>> {
        self.by_name.iter().filter_map(|(job, handler)| {
            let is_async = !matches!(handler.body, Body::Blocking(_));
            let lane = handler.lane.or(is_async.then_some(DEFAULT_LANE))?;
            Some(JobLane { job, lane, is_async })
        })
    }

    pub(crate) fn policy(&self, job: &str) -> Option<JobPolicy> {
        self.by_name.get(job).map(|handler| handler.spec.settings.policy)
    }

    pub(crate) fn run(&self, context: &Context, payload: &str) -> Result<Answer, NoAnswer> {
        let handler = self.by_name.get(context.job()).ok_or("this node has no handler for the job")?;
        match &handler.body {
            Body::Blocking(run) => run(context, payload),
            #[cfg(feature = "tokio")]
            Body::Async { .. } => Err("the job's handler is async".into()),
        }
    }

    /// The run of a job's async handler, and its grace.
    #[cfg(feature = "tokio")]
    pub(crate) fn begin(
        &self,
        context: Context,
        payload: &str,
    ) -> Result<(HandlerFuture, Duration), NoAnswer> {
        match self.by_name.get(context.job()).map(|handler| &handler.body) {
            Some(Body::Async { begin, grace }) => Ok((begin(context, payload)?, *grace)),
            Some(Body::Blocking(_)) | None => Err("this node has no async handler for the job".into()),
        }
    }
}

/// The application's code: a payload whose decoding panics cannot be decoded.
fn decoded<P: DeserializeOwned>(payload: &str) -> Result<P, String> {
    guarded(|| payload::decode(payload))
        .unwrap_or_else(|said| Err(brief(format_args!("decoding panicked: {said}"))))
}

impl Catalog for Handlers {
    fn jobs(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    fn decodes(&self, job: &str, payload: &str) -> Result<(), String> {
        let handler = self.by_name.get(job).ok_or("no handler for the job")?;
        (handler.check)(payload)
    }

    fn leaves(&self, execution: ExecutionId, token: Token, boot: Boot) -> bool {
        self.passed_on.leaves(execution, token, boot)
    }

    fn clock(&self) -> Micros {
        time::boot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> JobSpec {
        JobSpec::new(name, JobPolicy::DEFAULT)
    }

    /// Both in one unwinding would end the process.
    #[test]
    fn handlers_that_panic_when_they_are_dropped_end_one_by_one() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("a handler's own");
            }
        }
        let mut handlers = Handlers::default();
        for name in ["one", "two"] {
            let panics = Panics;
            handlers.add(named(name), None, move |_, ()| {
                let _its_own = &panics;
                Ok(())
            });
        }
        drop(handlers);
    }
}

//! The handlers of one node by job.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::Arc;
#[cfg(feature = "tokio")]
use std::{pin::Pin, time::Duration};

use serde::de::DeserializeOwned;

use crate::domain::payload;
use crate::domain::user_code::{brief, guarded, with_causes};
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

/// Makes a payload of a type of today from one that was stored before.
pub(crate) type Upgrade<P> = fn(serde_json::Value) -> Result<P, HandlerError>;

/// A job as its handler serves it.
pub(crate) struct Served<P> {
    pub spec: JobSpec,
    /// The lane that the job names.
    pub lane: Option<&'static str>,
    /// Other names, under which what was stored before waits.
    pub aliases: &'static [&'static str],
    pub upgrade: Option<Upgrade<P>>,
}

impl<P> From<JobSpec> for Served<P> {
    fn from(spec: JobSpec) -> Self {
        Self { spec, lane: None, aliases: &[], upgrade: None }
    }
}

type BlockingFn = Box<dyn Fn(&Context, &str) -> Result<Answer, NoAnswer> + Send + Sync>;
/// The future that an async handler returns.
#[cfg(feature = "tokio")]
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<Answer, HandlerError>> + Send>>;
#[cfg(feature = "tokio")]
type AsyncFn = Box<dyn Fn(Context, &str) -> Result<HandlerFuture, NoAnswer> + Send + Sync>;
type Check = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// A handler with its payload's type erased.
struct Handler {
    spec: JobSpec,
    /// The lane that the job names.
    lane: Option<&'static str>,
    code: Arc<Code>,
}

/// The application's code of a handler.
struct Code {
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
        for Handler { code, .. } in std::mem::take(&mut self.by_name).into_values() {
            guarded(|| drop(code)).ok();
        }
    }
}

impl Handlers {
    /// Adds a handler. The first of its names that has one already is the error.
    pub(crate) fn add<P: DeserializeOwned + 'static, A: Into<Answer>>(
        &mut self,
        served: impl Into<Served<P>>,
        run: impl Fn(&Context, P) -> Result<A, HandlerError> + Send + Sync + 'static,
    ) -> Result<(), String> {
        let served: Served<P> = served.into();
        let upgrade = served.upgrade;
        let run: BlockingFn = Box::new(move |context, text| {
            Ok(run(context, decoded(text, upgrade).map_err(NoAnswer::Undecodable)?)?.into())
        });
        self.insert(served, Body::Blocking(run))
    }

    /// As [`add`](Self::add), of an async handler, which has so long to end once it is told to.
    #[cfg(feature = "tokio")]
    pub(crate) fn add_async<P: DeserializeOwned + 'static, A: Into<Answer>, F>(
        &mut self,
        served: impl Into<Served<P>>,
        grace: Duration,
        run: impl Fn(Context, P) -> F + Send + Sync + 'static,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<A, HandlerError>> + Send + 'static,
    {
        let served: Served<P> = served.into();
        let upgrade = served.upgrade;
        let begin: AsyncFn = Box::new(move |context, text| {
            let running = run(context, decoded(text, upgrade).map_err(NoAnswer::Undecodable)?);
            Ok(Box::pin(async move { running.await.map(Into::into) }))
        });
        self.insert(served, Body::Async { begin, grace })
    }

    fn insert<P: DeserializeOwned + 'static>(&mut self, served: Served<P>, body: Body) -> Result<(), String> {
        let Served { spec, lane, aliases, upgrade } = served;
        let check: Check = Box::new(move |text| decoded::<P>(text, upgrade).map(drop));
        let code = Arc::new(Code { check, body });
        let aliases = aliases.iter().map(|alias| JobSpec { name: (*alias).to_owned(), ..spec.clone() });
        for spec in std::iter::once(spec.clone()).chain(aliases) {
            let (name, code) = (spec.name.clone(), Arc::clone(&code));
            if self.by_name.insert(name.clone(), Handler { spec, lane, code }).is_some() {
                return Err(name);
            }
        }
        Ok(())
    }

    pub(crate) fn specs(&self) -> Vec<JobSpec> {
        self.by_name.values().map(|handler| handler.spec.clone()).collect()
    }

    /// The jobs that name a lane, with its name, and those whose handlers are async.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = JobLane<'_>> {
        self.by_name.iter().filter_map(|(job, handler)| {
            let is_async = !matches!(handler.code.body, Body::Blocking(_));
            let lane = handler.lane.or(is_async.then_some(DEFAULT_LANE))?;
            Some(JobLane { job, lane, is_async })
        })
    }

    pub(crate) fn policy(&self, job: &str) -> Option<JobPolicy> {
        self.by_name.get(job).map(|handler| handler.spec.settings.policy)
    }

    pub(crate) fn run(&self, context: &Context, payload: &str) -> Result<Answer, NoAnswer> {
        let handler = self.by_name.get(context.job()).ok_or("this node has no handler for the job")?;
        match &handler.code.body {
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
        match self.by_name.get(context.job()).map(|handler| &handler.code.body) {
            Some(Body::Async { begin, grace }) => Ok((begin(context, payload)?, *grace)),
            Some(Body::Blocking(_)) | None => Err("this node has no async handler for the job".into()),
        }
    }
}

/// The application's code: a payload whose decoding panics cannot be decoded. What is not of today's type is
/// upgraded, if the job can.
fn decoded<P: DeserializeOwned>(payload: &str, upgrade: Option<Upgrade<P>>) -> Result<P, String> {
    let decode = || match (payload::decode(payload), upgrade) {
        (Err(said), Some(upgrade)) => {
            let upgraded = upgrade(payload::decode(payload)?);
            upgraded.map_err(|error| format!("{said}; upgrading it: {}", with_causes(error.as_ref())))
        }
        (decoded, _) => decoded,
    };
    guarded(decode).unwrap_or_else(|said| Err(brief(format_args!("decoding panicked: {said}"))))
}

impl Catalog for Handlers {
    fn jobs(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    fn decodes(&self, job: &str, payload: &str) -> Result<(), String> {
        let handler = self.by_name.get(job).ok_or("no handler for the job")?;
        (handler.code.check)(payload)
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

    #[test]
    fn a_handler_serves_the_names_that_its_job_had() {
        let mut handlers = Handlers::default();
        let served = |name: &str, aliases| Served::<()> { aliases, ..named(name).into() };
        handlers.add(served("ship", &["send", "post"]), |_, ()| Ok(())).unwrap();
        assert_eq!(handlers.jobs(), ["post", "send", "ship"]);
        assert_eq!(handlers.decodes("send", "null"), Ok(()));
        let twice = handlers.add(served("mail", &["post"]), |_, ()| Ok(()));
        assert_eq!(twice, Err("post".to_owned()));
    }

    #[test]
    fn a_payload_of_an_older_release_is_upgraded() {
        let upgrade: Upgrade<(u8, u8)> = |old| {
            let old: u8 = serde_json::from_value(old)?;
            if old == 13 { Err("nobody wants that".into()) } else { Ok((old, 0)) }
        };
        assert_eq!(decoded("[1, 2]", Some(upgrade)), Ok((1, 2)));
        assert_eq!(decoded("7", Some(upgrade)), Ok((7, 0)));
        assert!(decoded("7", None::<Upgrade<(u8, u8)>>).is_err());
        let said = decoded("13", Some(upgrade)).unwrap_err();
        assert!(
            said.contains("expected a tuple") && said.ends_with("upgrading it: nobody wants that"),
            "{said}"
        );
        let panics: Upgrade<(u8, u8)> = |_| panic!("no such release");
        assert!(decoded("7", Some(panics)).unwrap_err().contains("no such release"));
        assert!(decoded("{", Some(upgrade)).is_err());
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
            handlers
                .add(named(name), move |_, ()| {
                    let _its_own = &panics;
                    Ok(())
                })
                .unwrap();
        }
        drop(handlers);
    }
}

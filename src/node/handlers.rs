//! The handlers of one node by job.

use std::collections::BTreeMap;
use std::sync::Arc;
#[cfg(feature = "tokio")]
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::domain::payload;
use crate::domain::user_code::{brief, guarded, with_causes};
use crate::domain::{Answer, Boot, ExecutionId, HandlerError, IntoAnswer, JobPolicy, JobSpec, Token};
#[cfg(feature = "tokio")]
use crate::node::around::HandlerFuture;
use crate::node::around::{Around, Layer, Layers, Next, Wrapping};
use crate::node::context::Context;
use crate::node::passed_on::PassedOn;
use crate::pipeline::lanes::{DEFAULT_LANE, JobLane};
use crate::pipeline::poll::decode::Catalog;
use crate::time::{self, Micros};

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

type BlockingFn = Box<dyn Fn(&Context, &str, &[Arc<Around>]) -> Result<Answer, NoAnswer> + Send + Sync>;
#[cfg(feature = "tokio")]
type AsyncFn = Box<dyn Fn(Context, &str) -> Result<HandlerFuture, NoAnswer> + Send + Sync>;
type Check = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// A handler with its payload's type erased.
struct Handler {
    spec: JobSpec,
    /// The lane that the job names.
    lane: Option<&'static str>,
    code: Arc<Code>,
    around: Wrapping,
}

/// The application's code of a handler.
struct Code {
    /// The name of its job, of which others may be aliases.
    job: String,
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
    layers: Layers,
    /// The executions whose payloads they could not decode.
    pub(super) passed_on: PassedOn,
}

/// What handlers captured is dropped with them, of each on its own: two panics in one unwinding would end the
/// process.
impl Drop for Handlers {
    fn drop(&mut self) {
        for Handler { code, around, .. } in std::mem::take(&mut self.by_name).into_values() {
            drop(around);
            guarded(|| drop(code)).ok();
        }
    }
}

impl Handlers {
    /// Adds a handler. The first of its names that has one already is the error.
    pub(crate) fn add<P: DeserializeOwned + 'static, A: IntoAnswer>(
        &mut self,
        served: impl Into<Served<P>>,
        run: impl Fn(&Context, P) -> Result<A, HandlerError> + Send + Sync + 'static,
    ) -> Result<(), String> {
        let served: Served<P> = served.into();
        let upgrade = served.upgrade;
        let run: BlockingFn = Box::new(move |context, text, around| {
            let mut payload = Some(decoded(text, upgrade).map_err(NoAnswer::Undecodable)?);
            let mut handler = || match payload.take() {
                Some(payload) => run(context, payload).map(IntoAnswer::into_answer),
                None => Err("the handler has run already".into()),
            };
            Ok(Next::new(context, around, &mut handler).run()?)
        });
        self.insert(served, Body::Blocking(run))
    }

    /// As [`add`](Self::add), of an async handler, which has so long to end once it is told to.
    #[cfg(feature = "tokio")]
    pub(crate) fn add_async<P: DeserializeOwned + 'static, A: IntoAnswer, F>(
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
            Ok(Box::pin(async move { running.await.map(IntoAnswer::into_answer) }))
        });
        self.insert(served, Body::Async { begin, grace })
    }

    fn insert<P: DeserializeOwned + 'static>(&mut self, served: Served<P>, body: Body) -> Result<(), String> {
        let Served { spec, lane, aliases, upgrade } = served;
        let check: Check = Box::new(move |text| decoded::<P>(text, upgrade).map(drop));
        let code = Arc::new(Code { job: spec.name.clone(), check, body });
        let aliases = aliases.iter().map(|alias| JobSpec { name: (*alias).to_owned(), ..spec.clone() });
        for spec in std::iter::once(spec.clone()).chain(aliases) {
            let (name, code) = (spec.name.clone(), Arc::clone(&code));
            let handler = Handler { spec, lane, code, around: Wrapping::default() };
            if self.by_name.insert(name.clone(), handler).is_some() {
                return Err(name);
            }
        }
        Ok(())
    }

    /// Adds a middleware, for the handler of this job alone if one is named. It is in force once
    /// [`wrap`](Self::wrap) was called.
    pub(crate) fn around(&mut self, job: Option<&'static str>, layer: Layer) {
        self.layers.add(job, layer);
    }

    /// Puts its middleware around each handler. One that would be left out somewhere is an error.
    pub(crate) fn wrap(&mut self) -> Result<(), String> {
        let has_handler = |job: &&str| self.by_name.values().any(|it| it.code.job == **job);
        if let Some(job) = self.layers.jobs().find(|job| !has_handler(job)) {
            return Err(format!("job {job:?} has middleware, and no handler here"));
        }
        for Handler { code, around, .. } in self.by_name.values_mut() {
            *around = self.layers.of(&code.job, !matches!(code.body, Body::Blocking(_)))?;
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
            Body::Blocking(run) => run(context, payload, &handler.around.blocking),
            #[cfg(feature = "tokio")]
            Body::Async { .. } => Err("the job's handler is async".into()),
        }
    }

    /// The run of a job's async handler with what is around it, and its grace.
    #[cfg(feature = "tokio")]
    pub(crate) fn begin(
        &self,
        context: Context,
        payload: &str,
    ) -> Result<(HandlerFuture, Duration), NoAnswer> {
        let handler = self.by_name.get(context.job());
        let Some((Body::Async { begin, grace }, around)) =
            handler.map(|it| (&it.code.body, &it.around.futures))
        else {
            return Err("this node has no async handler for the job".into());
        };
        let contexts: Vec<Context> = around.iter().map(|_| context.clone()).collect();
        let running = begin(context, payload)?;
        let wrapped = around.iter().rev().zip(contexts);
        Ok((wrapped.fold(running, |next, (around, context)| around(context, next)), *grace))
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
    fn middleware_goes_with_a_job_under_each_of_its_names() {
        let mut handlers = Handlers::default();
        let served = |name: &str, aliases| Served::<()> { aliases, ..named(name).into() };
        handlers.around(Some("ship"), Layer::Blocking(Arc::new(|_, next| next.run())));
        handlers.add(served("ship", &["send"]), |_, ()| Ok(())).unwrap();
        handlers.add(served("mail", &[]), |_, ()| Ok(())).unwrap();
        handlers.wrap().unwrap();
        let count = |name: &str| handlers.by_name[name].around.blocking.len();
        assert_eq!((count("ship"), count("send"), count("mail")), (1, 1, 0));
        handlers.around(Some("bill"), Layer::Blocking(Arc::new(|_, next| next.run())));
        assert_eq!(handlers.wrap(), Err("job \"bill\" has middleware, and no handler here".to_owned()));
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

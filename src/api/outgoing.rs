//! What a client's own code adds to its requests that enqueue or trigger.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::HandlerError;
use crate::domain::headers::Headers;
use crate::domain::user_code::with_causes;

/// What a request with [`Client::around_enqueue`](crate::Client::around_enqueue) is about to store.
#[derive(Debug)]
pub struct Outgoing<'a> {
    application: &'a str,
    target: OutgoingTarget<'a>,
    headers: &'a mut Headers,
}

/// What is to run.
#[derive(Clone, Copy, Debug)]
pub(super) enum OutgoingTarget<'a> {
    Job(&'a str),
    Schedule(&'a str),
}

impl Outgoing<'_> {
    /// The application that it is for.
    #[must_use]
    pub fn application(&self) -> &str {
        self.application
    }

    /// The job that is enqueued; none if a schedule is triggered.
    #[must_use]
    pub fn job(&self) -> Option<&str> {
        if let OutgoingTarget::Job(name) = self.target { Some(name) } else { None }
    }

    /// The schedule that is triggered; none if a job is enqueued.
    #[must_use]
    pub fn schedule(&self) -> Option<&str> {
        if let OutgoingTarget::Schedule(name) = self.target { Some(name) } else { None }
    }

    /// A header that it has: the request's own, or one that was set here before.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Sets a header, also in place of one that it has. Names, texts and their number are as for
    /// [`Enqueue::header`](crate::request::Enqueue::header).
    pub fn set_header(&mut self, name: &str, text: &str) {
        self.headers.insert(name.to_owned(), text.to_owned());
    }
}

/// What a function of [`Hooks`] returned: kept until the request has ended.
pub(super) type Kept = Box<dyn Any + Send>;

type Hook = dyn Fn(&mut Outgoing<'_>) -> Result<Kept, HandlerError> + Send + Sync;

/// The functions of a client; the first is the outermost.
#[derive(Clone, Default)]
pub(super) struct Hooks(Vec<Arc<Hook>>);

impl Hooks {
    pub(super) fn add<G: Send + 'static>(
        &mut self,
        hook: impl Fn(&mut Outgoing<'_>) -> Result<G, HandlerError> + Send + Sync + 'static,
    ) {
        self.0.push(Arc::new(move |outgoing| hook(outgoing).map(|kept| Box::new(kept) as Kept)));
    }
}

/// Where a request stands: whether the functions of its client were called, and what they came to.
#[derive(Default)]
pub(super) struct Begun {
    has_begun: bool,
    /// Never locked: a request is Sync although what its functions keep need not be.
    kept: Mutex<Vec<Kept>>,
    /// Why one of them has refused it.
    refusal: Option<String>,
}

/// The innermost goes first.
impl Drop for Begun {
    fn drop(&mut self) {
        let kept = self.kept();
        while kept.pop().is_some() {}
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

impl Begun {
    /// Calls the functions, unless that was done before.
    pub(super) fn begin(
        &mut self,
        hooks: &Hooks,
        application: &str,
        target: OutgoingTarget<'_>,
        headers: &mut Headers,
    ) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        for hook in &hooks.0 {
            match hook(&mut Outgoing { application, target, headers }) {
                Ok(kept) => self.kept().push(kept),
                Err(error) => {
                    self.refusal = Some(with_causes(error.as_ref()));
                    return;
                }
            }
        }
    }

    fn kept(&mut self) -> &mut Vec<Kept> {
        self.kept.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the request was refused, if it was.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}

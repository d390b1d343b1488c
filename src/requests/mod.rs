//! Carrying out requests that other programs have written: the machine of each node that does so.
//!
//! Once it is told that some wait, it walks over them in the order of their ids, and again until a walk has
//! carried out none. Each is a transaction of its own, which locks the request's row, makes the changes and
//! ends the row; so none is carried out twice, whoever else walks. Of requests that concern the same
//! [`Subject`] a later one waits for an earlier one: it is passed over in a walk that could not end that.

mod calls;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

#[cfg(test)]
pub(crate) use self::calls::Op as RequestsOp;
use self::calls::{Answer, Answered, Asked, Op, join};
use crate::domain::{Boot, Error, Event, Millis};
use crate::machine::{Machine, Step};
use crate::store::Carrier;
use crate::store::request::{CarriedOut, Request, RequestQuery, Subject};
use crate::time::Now;

/// How many requests one call reads.
const PAGE: usize = 100;
/// How long a request is set aside after its first failure; each time twice as long as before,
const FIRST_PAUSE: Millis = 100;
/// up to this.
const LONGEST_PAUSE: Millis = 10_000;
/// So many failures in a row are the database's, not the requests': the walk ends,
const FAILURES: usize = 3;
/// and the next one begins after this.
const REST: Millis = 1_000;

pub(crate) enum RequestsInput {
    /// Some may wait.
    Wake,
    Stop,
}

pub(crate) enum RequestsOutput {
    Event(Event),
}

pub(crate) struct RequestsMachine {
    application: String,
    carrier: Arc<dyn Carrier>,
    /// Requests may have been written since the walk under way began.
    is_wanted: bool,
    walk: Option<Walk>,
    /// No walk begins before this.
    rest: Boot,
    /// Requests that have failed. A walk tries one of them again, so that new ones wait for no more than
    /// that.
    aside: HashMap<i64, Aside>,
    outbox: VecDeque<RequestsOutput>,
    stopping: bool,
    /// Nothing waits for an earlier request of its subject.
    #[cfg(test)]
    is_unordered: bool,
}

/// A request that is set aside.
#[derive(Clone, Copy)]
struct Aside {
    until: Boot,
    /// How long it is.
    pause: Millis,
}

/// One way through the requests that wait.
#[derive(Default)]
struct Walk {
    page: VecDeque<Request>,
    /// The last id that was read; none once there is no further page.
    after: Option<i64>,
    /// The subjects of requests that wait on.
    blocked: HashSet<Subject>,
    /// It has carried out a request.
    has_moved: bool,
    /// The one that was aside, and is tried again.
    retried: Option<(i64, Millis)>,
    /// How many calls have failed in a row.
    failures: usize,
}

impl Walk {
    /// From the first request on.
    fn new(retried: Option<(i64, Millis)>) -> Self {
        Self { after: Some(i64::MIN), retried, ..Self::default() }
    }

    fn block(&mut self, request: &Request) {
        self.blocked.extend(request.subject());
    }

    /// The next request that may be carried out: the first, or after a failure the last, so that what
    /// somebody holds does not keep all that was written since waiting.
    fn next(&mut self, aside: &HashMap<i64, Aside>) -> Option<Request> {
        let (blocked, mut earlier) = (&mut self.blocked, HashSet::new());
        let mut may_go = |request: &Request| {
            let subject = request.subject();
            if aside.contains_key(&request.id) {
                blocked.extend(subject);
                return false;
            }
            subject.is_none_or(|it| !blocked.contains(&it) && earlier.insert(it))
        };
        let mut free = (0..self.page.len()).filter(|n| may_go(&self.page[*n]));
        let next = if self.failures == 0 { free.next() } else { free.last() };
        if next.is_none() {
            self.page.clear();
        }
        self.page.remove(next?)
    }
}

impl RequestsMachine {
    pub(crate) fn new(application: String, carrier: Arc<dyn Carrier>) -> Self {
        Self {
            application,
            carrier,
            is_wanted: false,
            walk: None,
            rest: Boot::MIN,
            aside: HashMap::new(),
            outbox: VecDeque::new(),
            stopping: false,
            #[cfg(test)]
            is_unordered: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn unordered(self) -> Self {
        Self { is_unordered: true, ..self }
    }

    /// The next call of a walk; none if it has ended.
    fn call(&mut self, mut walk: Walk) -> Option<(Op, Asked)> {
        #[cfg(test)]
        if self.is_unordered {
            walk.blocked.clear();
        }
        if let Some(request) = walk.next(&self.aside) {
            self.walk = Some(walk);
            return Some(Asked::carry_out(request.clone(), Arc::clone(&self.carrier), request));
        }
        if let Some(after) = walk.after {
            self.walk = Some(walk);
            let query = RequestQuery { application: self.application.clone(), after, limit: PAGE };
            return Some(Asked::page(query, ()));
        }
        self.is_wanted |= walk.has_moved;
        None
    }

    fn brought(&mut self, page: Vec<Request>) {
        let Some(walk) = &mut self.walk else { return };
        walk.failures = 0;
        walk.after = page.last().filter(|_| page.len() >= PAGE).map(|request| request.id);
        walk.page.extend(page);
    }

    fn carried_out(&mut self, request: &Request, carried: CarriedOut) {
        if let CarriedOut::Refused(reason) = &carried {
            let event = Event::RequestRefused { request: request.id, reason: reason.clone() };
            self.outbox.push_back(RequestsOutput::Event(event));
        }
        let Some(walk) = &mut self.walk else { return };
        walk.failures = 0;
        match carried {
            CarriedOut::Done | CarriedOut::Refused(_) => walk.has_moved = true,
            CarriedOut::Held => walk.block(request),
            CarriedOut::Ended => {}
        }
    }

    /// A call has failed.
    fn failed(&mut self, now: Now, asked: Asked, error: Error) {
        let Some(mut walk) = self.walk.take() else { return };
        let operation = asked.name();
        walk.failures += 1;
        let event = match asked {
            Asked::CarryOut(request) => {
                self.set_aside(now, &mut walk, &request);
                Event::RequestFailed { request: request.id, error }
            }
            Asked::Page(()) => {
                walk.failures = FAILURES;
                Event::StoreFailed { operation, error }
            }
        };
        self.outbox.push_back(RequestsOutput::Event(event));
        if walk.failures < FAILURES {
            self.walk = Some(walk);
        } else {
            (self.is_wanted, self.rest) = (true, now.boot + REST);
        }
    }

    /// It may have been carried out all the same: those that concern the same thing wait for another walk.
    fn set_aside(&mut self, now: Now, walk: &mut Walk, request: &Request) {
        let last = walk.retried.filter(|(id, _)| *id == request.id);
        let pause = last.map_or(FIRST_PAUSE, |(_, pause)| (2 * pause).min(LONGEST_PAUSE));
        self.aside.insert(request.id, Aside { until: now.boot + pause, pause });
        walk.block(request);
    }

    /// The request that was to be tried again first, and how long it was aside.
    fn retried(&mut self, now: Now) -> Option<(i64, Millis)> {
        let first = self.aside.iter().min_by_key(|(id, aside)| (aside.until, **id));
        let (id, Aside { pause, .. }) =
            first.filter(|(_, aside)| aside.until <= now.boot).map(|(id, aside)| (*id, *aside))?;
        self.aside.remove(&id);
        Some((id, pause))
    }

    /// When the next walk begins: at once if some may wait, or once one that is aside may be tried again.
    fn begins_at(&self) -> Boot {
        let aside = self.aside.values().map(|aside| aside.until).min().unwrap_or(Boot::MAX);
        self.rest.max(if self.is_wanted { Boot::MIN } else { aside })
    }
}

impl Machine for RequestsMachine {
    type Op = Op;
    type Asked = Asked;
    type Input = RequestsInput;
    type Output = RequestsOutput;

    fn next(&mut self, now: Now) -> Step<(Op, Asked), RequestsOutput> {
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.stopping {
            return Step::Stop;
        }
        if let Some(call) = self.walk.take().and_then(|walk| self.call(walk)) {
            return Step::Do(call);
        }
        let begins = self.begins_at();
        if now.boot < begins {
            return Step::Wait(begins);
        }
        self.is_wanted = false;
        let walk = Walk::new(self.retried(now));
        self.call(walk).map_or(Step::Wait(begins), Step::Do)
    }

    fn done(&mut self, now: Now, asked: Asked, answer: Result<Answer, Error>) {
        match join(asked, answer) {
            Ok(Answered::Page((), page)) => self.brought(page),
            Ok(Answered::CarryOut(request, carried)) => self.carried_out(&request, carried),
            Err((asked, error)) => self.failed(now, asked, error),
        }
    }

    fn receive(&mut self, _now: Now, input: RequestsInput) {
        match input {
            RequestsInput::Wake => self.is_wanted = true,
            RequestsInput::Stop => self.stopping = true,
        }
    }
}

#[cfg(test)]
mod tests;

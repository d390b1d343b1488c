//! What waits in the database and no handler of this build could run.

use std::collections::BTreeSet;
use std::fmt;

use crate::domain::{Error, ExecutionId};
use crate::node::handlers::Handlers;
use crate::pipeline::poll::decode::Catalog;
use crate::store::Store;
use crate::store::waiting::{PayloadOf, PayloadPlace, PayloadWalk};

/// Something that waits and that the handlers of a builder could not run, found by
/// [`Builder::check_payloads`](crate::Builder::check_payloads).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undecodable {
    /// No handler has a job of which something waits; that is told once.
    #[non_exhaustive]
    Job {
        /// The job's name.
        job: String,
    },
    /// A payload of a schedule that is active or paused.
    #[non_exhaustive]
    Schedule {
        /// The schedule's name.
        schedule: String,
        /// Its job's name.
        job: String,
        /// The decoder's error.
        reason: String,
    },
    /// A payload of an execution that is PENDING.
    #[non_exhaustive]
    Execution {
        /// The execution's id.
        execution: ExecutionId,
        /// Its job's name.
        job: String,
        /// The decoder's error.
        reason: String,
    },
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job { job } => write!(f, "job {job:?}: no handler for what waits of it"),
            Self::Schedule { schedule, job, reason } => {
                write!(f, "schedule {schedule:?} of job {job:?}: {reason}")
            }
            Self::Execution { execution, job, reason } => {
                write!(f, "execution {execution} of job {job:?}: {reason}")
            }
        }
    }
}

/// How many rows one store call looks at: payloads of schedules may be large.
const PAGE: usize = 250;
/// More help nobody.
const MOST: usize = 1_000;

/// Decodes what waits until it has found [`MOST`].
pub(super) fn find(
    store: &dyn Store,
    application: &str,
    handlers: &Handlers,
) -> Result<Vec<Undecodable>, Error> {
    let handled: BTreeSet<String> = handlers.jobs().into_iter().collect();
    let (mut unhandled, mut found) = (BTreeSet::new(), Vec::new());
    let mut next = Some(PayloadPlace::FIRST);
    while let Some(after) = next.filter(|_| found.len() < MOST) {
        let walk = PayloadWalk { application: application.to_owned(), after, limit: PAGE };
        let page = store.waiting_payloads(&walk)?;
        for it in page.payloads {
            let job = it.job;
            if !handled.contains(&job) {
                found.extend(unhandled.insert(job.clone()).then_some(Undecodable::Job { job }));
            } else if let Err(reason) = handlers.decodes(&job, &it.payload) {
                found.push(match it.of {
                    PayloadOf::Schedule(schedule) => Undecodable::Schedule { schedule, job, reason },
                    PayloadOf::Execution(execution) => Undecodable::Execution { execution, job, reason },
                });
            }
        }
        next = page.next;
    }
    found.truncate(MOST);
    Ok(found)
}

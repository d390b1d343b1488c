//! Jobs with a limit whose claims another node was in the way of: when they are tried again. Pure.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::domain::{Millis, NodeId};

/// The pause before the second try, and at most before a later one; each is twice as long as the last.
const FIRST_PAUSE: Millis = 20;
const LONGEST_PAUSE: Millis = 640;

pub(super) struct BusyJobs {
    jobs: FxHashMap<Arc<str>, Again>,
    /// Nodes that met do not meet again.
    apart: Millis,
}

struct Again {
    /// When (boot clock) the job is tried again; none while it is.
    at: Option<Millis>,
    pause: Millis,
}

impl BusyJobs {
    pub(super) fn new(node: NodeId) -> Self {
        let apart = Millis::try_from(node.0.as_u128() % FIRST_PAUSE.unsigned_abs() as u128).unwrap_or(0);
        Self { jobs: FxHashMap::default(), apart }
    }

    /// A claim of this job found it counted by another.
    pub(super) fn add(&mut self, job: &Arc<str>, boot: Millis) {
        let apart = self.apart;
        let again = self
            .jobs
            .entry(Arc::clone(job))
            .or_insert_with(|| Again { at: None, pause: FIRST_PAUSE + apart });
        if again.at.is_none() {
            again.at = Some(boot + again.pause);
            again.pause = (2 * again.pause).min(LONGEST_PAUSE + apart);
        }
    }

    /// A claim of this job was not in anybody's way.
    pub(super) fn settle(&mut self, job: &str) {
        if !self.jobs.is_empty() {
            self.jobs.remove(job);
        }
    }

    /// The jobs that are tried again now.
    pub(super) fn due(&mut self, boot: Millis) -> Vec<Arc<str>> {
        let due = self.jobs.iter_mut().filter(|(_, again)| again.at.is_some_and(|at| at <= boot));
        due.map(|(job, again)| {
            again.at = None;
            Arc::clone(job)
        })
        .collect()
    }

    /// When (boot clock) the next one is.
    pub(super) fn next_at(&self) -> Option<Millis> {
        self.jobs.values().filter_map(|again| again.at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pause_is_twice_as_long_until_a_claim_gets_through() {
        let mut jobs = BusyJobs::new(NodeId(uuid::Uuid::from_u128(7)));
        let job: Arc<str> = "job".into();
        let mut pauses = Vec::new();
        let mut now = 0;
        for _ in 0..8 {
            jobs.add(&job, now);
            jobs.add(&job, now); // Another of the same batch.
            let at = jobs.next_at().unwrap();
            pauses.push(at - now);
            assert!(jobs.due(at - 1).is_empty());
            assert_eq!((jobs.due(at), jobs.next_at()), (vec![Arc::clone(&job)], None));
            now = at;
        }
        assert_eq!(pauses, [27, 54, 108, 216, 432, 647, 647, 647]);
        jobs.settle("job");
        jobs.add(&job, 0);
        assert_eq!(jobs.next_at(), Some(27));
    }
}

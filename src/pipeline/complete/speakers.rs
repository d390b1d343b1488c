//! Runs that have said something that is not stored yet: while they go on it is stored at a pace, and at
//! their end before their outcome.

use std::collections::{BTreeSet, HashMap};

use super::saying::Speaker;
use crate::domain::{Boot, ErrorKind, ExecutionId, Millis};
use crate::store::Applied;
use crate::store::said::Said;
use crate::time::Now;

/// What a run says while it goes on is stored at most so often.
const PACE: Millis = 2_000;
/// Instants at which something is stored are so far apart, so that several runs share a call.
const GRID: Millis = 250;
/// The most runs, and bytes of lines, of one call.
const BATCH: usize = 256;
const LARGEST: usize = 4_000_000;
/// The pause behind the first failure; each further one is twice as long, up to [`PACE`].
const PAUSE: Millis = 100;
/// So often it is tried while the database may be away: for half a minute, before the outcome is stored
/// without it.
const TRIES: u32 = 20;
/// And so often if the database refuses it.
const TRIES_OF_REFUSED: u32 = 3;

/// The runs that have said something. `O` is an outcome that waits until it is stored.
pub(super) struct Speakers<O> {
    runs: HashMap<ExecutionId, Run<O>>,
    by_time: BTreeSet<(Boot, ExecutionId)>,
}

struct Run<O> {
    speaker: Speaker,
    at: Boot,
    /// How often it could not be stored.
    failures: u32,
    outcomes: Vec<O>,
}

impl<O> Default for Speakers<O> {
    fn default() -> Self {
        Self { runs: HashMap::new(), by_time: BTreeSet::new() }
    }
}

impl<O> Speakers<O> {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// It has said something.
    pub(super) fn add(&mut self, speaker: Speaker, now: Now) {
        let at = now.boot + PACE;
        let at = at + (GRID - at.millis().rem_euclid(GRID)) % GRID;
        let execution = speaker.execution;
        match self.runs.get_mut(&execution) {
            Some(run) => run.speaker = speaker,
            None => {
                self.runs.insert(execution, Run { speaker, at, failures: 0, outcomes: Vec::new() });
                self.by_time.insert((at, execution));
            }
        }
    }

    /// Keeps an outcome until what its run has said is stored; gives it back if that is.
    pub(super) fn keep(&mut self, execution: ExecutionId, outcome: O, now: Now) -> Option<O> {
        let Some(run) = self.runs.get_mut(&execution) else { return Some(outcome) };
        run.outcomes.push(outcome);
        if run.failures == 0 {
            self.move_to(execution, now.boot);
        }
        None
    }

    /// Nothing waits any more.
    pub(super) fn hasten(&mut self, now: Now) {
        let waiting: Vec<ExecutionId> =
            self.runs.iter().filter(|(_, run)| run.failures == 0).map(|(id, _)| *id).collect();
        waiting.into_iter().for_each(|id| self.move_to(id, now.boot));
    }

    fn move_to(&mut self, execution: ExecutionId, at: Boot) {
        if let Some(run) = self.runs.get_mut(&execution) {
            self.by_time.remove(&(run.at, execution));
            run.at = at;
            self.by_time.insert((at, execution));
        }
    }

    /// When something is to be stored next.
    pub(super) fn next_at(&self) -> Boot {
        self.by_time.first().map_or(Boot::MAX, |(at, _)| *at)
    }

    /// What is to be stored now; a run of which it failed before, alone.
    pub(super) fn due(&self, now: Now) -> Vec<Said> {
        let (mut due, mut size) = (Vec::new(), 0);
        for (_, execution) in self.by_time.iter().take_while(|(at, _)| *at <= now.boot) {
            let Some(run) = self.runs.get(execution) else { continue };
            if run.failures > 0 && !due.is_empty() {
                continue;
            }
            let said = run.speaker.said(now.db);
            size += said.size();
            due.push(said);
            if run.failures > 0 || due.len() == BATCH || size >= LARGEST {
                break;
            }
        }
        due
    }

    /// What these runs have said is stored, or not; gives the outcomes that need not wait any more.
    pub(super) fn stored(&mut self, asked: &[ExecutionId], answers: &[Applied], now: Now) -> Vec<O> {
        let answers = asked.iter().zip(answers);
        let outcomes = answers.flat_map(|(execution, answer)| match answer {
            Applied::Held => self.failed(*execution, ErrorKind::Unavailable, now),
            Applied::Done | Applied::Lost => self.remove(*execution),
        });
        outcomes.collect()
    }

    /// The call has failed; gives the outcomes that wait no longer.
    pub(super) fn all_failed(&mut self, asked: &[ExecutionId], failure: ErrorKind, now: Now) -> Vec<O> {
        asked.iter().flat_map(|execution| self.failed(*execution, failure, now)).collect()
    }

    fn failed(&mut self, execution: ExecutionId, failure: ErrorKind, now: Now) -> Vec<O> {
        let Some(run) = self.runs.get_mut(&execution) else { return Vec::new() };
        run.failures += 1;
        let is_refused = failure == ErrorKind::Data;
        if run.failures >= if is_refused { TRIES_OF_REFUSED } else { TRIES } {
            return self.remove(execution);
        }
        let pause = (PAUSE << (run.failures - 1).min(5)).min(PACE);
        self.move_to(execution, now.boot + pause);
        Vec::new()
    }

    fn remove(&mut self, execution: ExecutionId) -> Vec<O> {
        let Some(run) = self.runs.remove(&execution) else { return Vec::new() };
        self.by_time.remove(&(run.at, execution));
        run.outcomes
    }
}

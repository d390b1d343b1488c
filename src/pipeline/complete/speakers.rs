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
/// The pause behind the first failure; each further one is twice as long: of a row that is held up to
/// [`PACE`], of a call up to [`LONGEST_PAUSE`].
const PAUSE: Millis = 100;
const LONGEST_PAUSE: Millis = 10_000;
/// Once it could not be stored for so long, the outcome is stored without it.
const PATIENCE: Millis = 30_000;
/// So often it is tried if the database refuses it.
const TRIES_OF_REFUSED: u32 = 3;

/// The runs that have said something. `O` is an outcome that waits until it is stored.
pub(super) struct Speakers<O> {
    runs: HashMap<ExecutionId, Run<O>>,
    by_time: BTreeSet<(Boot, ExecutionId)>,
    /// Those that could not be stored, by when that was first.
    failing: BTreeSet<(Boot, ExecutionId)>,
    /// Nothing is stored before this: a call has failed.
    hold: Boot,
    pause: Millis,
    /// How many outcomes wait.
    outcomes: usize,
}

struct Run<O> {
    speaker: Speaker,
    at: Boot,
    /// Since when it could not be stored.
    failing: Option<Boot>,
    /// How often the database refused it, and how often its row was held.
    refused: u32,
    held: u32,
    outcomes: Vec<O>,
}

impl<O> Default for Speakers<O> {
    fn default() -> Self {
        Self {
            runs: HashMap::new(),
            by_time: BTreeSet::new(),
            failing: BTreeSet::new(),
            hold: Boot::MIN,
            pause: PAUSE,
            outcomes: 0,
        }
    }
}

impl<O> Speakers<O> {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many outcomes wait.
    pub(super) fn outcomes(&self) -> usize {
        self.outcomes
    }

    /// It has said something.
    pub(super) fn add(&mut self, speaker: Speaker, now: Now) {
        let at = now.boot + PACE;
        let at = at + (GRID - at.millis().rem_euclid(GRID)) % GRID;
        let execution = speaker.execution;
        match self.runs.get_mut(&execution) {
            Some(run) => run.speaker = speaker,
            None => {
                let (failing, refused, held, outcomes) = (None, 0, 0, Vec::new());
                self.runs.insert(execution, Run { speaker, at, failing, refused, held, outcomes });
                self.by_time.insert((at, execution));
            }
        }
    }

    /// Keeps an outcome until what its run has said is stored; gives it back if that is.
    pub(super) fn keep(&mut self, execution: ExecutionId, outcome: O, now: Now) -> Option<O> {
        let Some(run) = self.runs.get_mut(&execution) else { return Some(outcome) };
        run.outcomes.push(outcome);
        self.outcomes += 1;
        if run.failing.is_none() {
            self.move_to(execution, now.boot);
        }
        None
    }

    /// Nothing waits any more.
    pub(super) fn hasten(&mut self, now: Now) {
        let waiting: Vec<ExecutionId> =
            self.runs.iter().filter(|(_, run)| run.failing.is_none()).map(|(id, _)| *id).collect();
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
        self.by_time.first().map_or(Boot::MAX, |(at, _)| (*at).max(self.hold))
    }

    /// When something is given up next.
    pub(super) fn gives_up_at(&self) -> Boot {
        self.failing.first().map_or(Boot::MAX, |(since, _)| since.saturating_add(PATIENCE))
    }

    /// The outcomes that have waited for long enough: what their runs have said is given up.
    pub(super) fn given_up(&mut self, now: Now) -> Vec<O> {
        let mut outcomes = Vec::new();
        while now.boot >= self.gives_up_at()
            && let Some((_, execution)) = self.failing.first().copied()
        {
            outcomes.extend(self.remove(execution));
        }
        outcomes
    }

    /// What is to be stored now; a run that the database refused before, alone.
    pub(super) fn due(&self, now: Now) -> Vec<Said> {
        let (mut due, mut size) = (Vec::new(), 0);
        for (_, execution) in self.by_time.iter().take_while(|(at, _)| *at <= now.boot) {
            let Some(run) = self.runs.get(execution) else { continue };
            if run.refused > 0 && !due.is_empty() {
                continue;
            }
            let said = run.speaker.said(now.db);
            size += said.size();
            due.push(said);
            if run.refused > 0 || due.len() == BATCH || size >= LARGEST {
                break;
            }
        }
        due
    }

    /// What these runs have said is stored, or not; gives the outcomes that need not wait any more.
    pub(super) fn stored(&mut self, asked: &[ExecutionId], answers: &[Applied], now: Now) -> Vec<O> {
        (self.hold, self.pause) = (Boot::MIN, PAUSE);
        let mut outcomes = Vec::new();
        for (execution, answer) in asked.iter().zip(answers) {
            match answer {
                Applied::Held => self.held(*execution, now),
                Applied::Done | Applied::Lost => outcomes.extend(self.remove(*execution)),
            }
        }
        outcomes
    }

    /// The call has failed; gives the outcomes that wait no longer. Unless the database refused what these
    /// runs say, it would have failed for all that is due.
    pub(super) fn all_failed(&mut self, asked: &[ExecutionId], failure: ErrorKind, now: Now) -> Vec<O> {
        if failure == ErrorKind::Data {
            return asked.iter().flat_map(|execution| self.refused(*execution, now)).collect();
        }
        self.hold = now.boot + self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now.boot);
        let due: Vec<ExecutionId> = due.map(|(_, execution)| *execution).collect();
        due.into_iter().chain(asked.iter().copied()).for_each(|execution| self.fails(execution, now));
        Vec::new()
    }

    fn fails(&mut self, execution: ExecutionId, now: Now) {
        if let Some(run) = self.runs.get_mut(&execution) {
            let since = *run.failing.get_or_insert(now.boot);
            self.failing.insert((since, execution));
        }
    }

    fn held(&mut self, execution: ExecutionId, now: Now) {
        let Some(run) = self.runs.get_mut(&execution) else { return };
        let pause = (PAUSE << run.held.min(5)).min(PACE);
        run.held += 1;
        self.fails(execution, now);
        self.move_to(execution, now.boot + pause);
    }

    fn refused(&mut self, execution: ExecutionId, now: Now) -> Vec<O> {
        let Some(run) = self.runs.get_mut(&execution) else { return Vec::new() };
        run.refused += 1;
        if run.refused >= TRIES_OF_REFUSED {
            return self.remove(execution);
        }
        self.fails(execution, now);
        self.move_to(execution, now.boot + PAUSE);
        Vec::new()
    }

    fn remove(&mut self, execution: ExecutionId) -> Vec<O> {
        let Some(run) = self.runs.remove(&execution) else { return Vec::new() };
        self.by_time.remove(&(run.at, execution));
        if let Some(since) = run.failing {
            self.failing.remove(&(since, execution));
        }
        self.outcomes -= run.outcomes.len();
        run.outcomes
    }
}

//! The simulated application: jobs of every policy, payloads that say how long they take, and how runs end.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::faults::Faults;
use super::judge::Limit;
use crate::domain::{Answer, Bound, Bounds, Entry, JobPolicy, JobSpec, Millis, Rate, Retry};
use crate::pipeline::poll::decode::Catalog;
use crate::testing::dice::Dice;
use crate::time::{Micros, millis, span};

pub(super) const APPLICATION: &str = "sim";

/// A job that no node runs.
pub(super) const NOBODYS: &str = "nobody's";

/// One that survives any number of deaths, one that fails now and then and is given up after two, one that is
/// never run a second time, three at once, one of each group, and so many within five seconds.
pub(super) fn all() -> [JobSpec; 3] {
    let policy = |recover, max_attempts, retries, limit, bounds| JobPolicy {
        recover,
        max_attempts,
        retry: Retry::fixed(Duration::from_secs(1)).jitter(50).at_most(retries),
        time_limit: limit,
        bounds,
    };
    let bound = |most, (count, per)| Bound { concurrency: Some(most), rate: Rate { count, per } };
    let bounded = Bounds { job: bound(3, (100, 5_000)), group: bound(1, (2, 5_000)) };
    let limit = Some(Duration::from_secs(15));
    [
        ("steady", policy(true, 1_000, 0, None, Bounds::NONE)),
        ("flaky", policy(true, 2, 2, limit, Bounds::NONE)),
        ("once", policy(false, 2, 0, limit, bounded)),
    ]
    .map(|(name, policy)| JobSpec::new(name, policy))
}

/// What the judge makes of a bound.
pub(super) fn limit_of(bound: &Bound) -> Limit {
    let rate = bound.rate().map(|rate| (rate.count as usize, rate.per));
    Limit { most: bound.concurrency.map(|most| most as usize), rate }
}

/// The group of an enqueued execution, mostly one of two.
pub(super) fn group(dice: &mut Dice) -> String {
    ["", "one", "one", "two"][usize::try_from(dice.below(4)).unwrap_or(0)].to_owned()
}

/// How long a job's handlers may take.
pub(super) fn limit(job: &str) -> Option<Millis> {
    all().iter().find(|it| it.name == job)?.settings.policy.time_limit.map(millis)
}

/// A payload whose decoding takes so long.
pub(super) fn slow(takes: Millis) -> String {
    format!("\"decoded within {takes}\"")
}

/// One whose handler takes up to so long.
pub(super) fn long(takes: Millis) -> String {
    format!("\"run within {takes}\"")
}

/// One whose handler always fails, and one whose handler kills its process.
pub(super) const FAILS: &str = "\"fails\"";
pub(super) const KILLS: &str = "\"kills\"";

/// One whose handler takes exactly so long.
pub(super) fn exactly(takes: Millis) -> String {
    format!("\"run for {takes}\"")
}

fn fixed(payload: &str) -> Option<Millis> {
    payload.strip_prefix("\"run for ")?.strip_suffix('"')?.parse().ok()
}

pub(super) fn decoding(payload: &str) -> Millis {
    within(payload, "decoded").unwrap_or(0)
}

fn within(payload: &str, what: &str) -> Option<Millis> {
    let takes = payload.strip_prefix('"')?.strip_prefix(what)?.strip_prefix(" within ")?.strip_suffix('"')?;
    Some(takes.parse().unwrap())
}

/// A handler for everything. Its clock counts what payloads say that their decoding takes.
pub(super) struct Anything {
    clock: AtomicI64,
    /// A sabotage: decoding takes no notice of the time.
    timeless: bool,
}

impl Anything {
    pub(super) fn new(timeless: bool) -> Self {
        Self { clock: AtomicI64::new(0), timeless }
    }
}

impl Catalog for Anything {
    fn jobs(&self) -> Vec<String> {
        all().into_iter().map(|job| job.name).collect()
    }

    fn decodes(&self, _job: &str, payload: &str) -> Result<(), String> {
        self.clock.fetch_add(1_000 * decoding(payload), Ordering::Relaxed);
        Ok(())
    }

    fn clock(&self) -> Micros {
        Micros::of(if self.timeless { 0 } else { self.clock.load(Ordering::Relaxed) })
    }
}

/// What failures say. The database cannot hold the last one: see `Wire::settle`.
const TEXTS: [&str; 3] =
    ["called `Option::unwrap()` on \"none\"", "C:\\tmp\n\tisn't a 'file'\\", "naïve \"☕\"\r\n\\\\"];

/// How a run of this schedule's job ends, and how long it takes.
pub(super) fn run(entry: &Entry, dice: &mut Dice, faults: &Faults) -> (Answer, Millis) {
    let (failed, how) = (*entry.job == *"flaky" && dice.one_in(3), dice.below(16));
    let most = within(&entry.payload, "run").unwrap_or(200);
    let takes = if dice.happens(faults.long_jobs) { dice.below(40_000) } else { dice.below(most) };
    let text = TEXTS[usize::try_from(takes).unwrap() % TEXTS.len()];
    let failed = failed || &*entry.payload == FAILS;
    let answer = match (failed, how) {
        (true, 0..2) => Answer::GiveUp(text.to_owned()),
        (true, 2..6) => Answer::RetryIn(Duration::from_secs(2), text.to_owned()),
        (true, _) => Answer::Failed(text.to_owned()),
        (false, _) if dice.happens(faults.snoozes) => Answer::Snooze(span(1_000 * (1 + dice.below(3)))),
        (false, _) => Answer::Done,
    };
    (answer, fixed(&entry.payload).unwrap_or(takes))
}

/// How a handler goes about completing in a transaction of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completes {
    /// How long the transaction stays open behind that.
    pub open: Millis,
    /// It is rolled back in the end, as if that were a commit.
    pub rolls_back: bool,
    /// How often it is made anew if it failed, or seems to have.
    pub again: u32,
    /// The handler answers as the transaction seems to have ended. Otherwise it answers what it would have
    /// without one.
    pub is_honest: bool,
    /// How long the handler goes on behind the transaction.
    pub lingers: Millis,
}

/// Whether, and how, a run's handler completes in a transaction of its own.
pub(super) fn completes(entry: &Entry, dice: &mut Dice, faults: &Faults) -> Option<Completes> {
    if faults.completes == 0 || &*entry.payload == KILLS || !dice.happens(faults.completes) {
        return None;
    }
    let open = if dice.one_in(4) { 3_000 } else { 5 };
    let lingers = if dice.one_in(4) { 15_000 } else { 5 };
    Some(Completes {
        open: dice.below(open),
        rolls_back: dice.one_in(6),
        again: if dice.one_in(3) { 2 } else { 0 },
        is_honest: !dice.one_in(3),
        lingers: dice.below(lingers),
    })
}

/// After how long a run's handler stores its first checkpoint; none if it stores none.
pub(super) fn first_checkpoint(dice: &mut Dice, faults: &Faults) -> Option<Millis> {
    let saves = faults.checkpoints > 0 && dice.happens(faults.checkpoints);
    saves.then(|| 1 + dice.below(60))
}

//! What the schedules run: jobs of every policy.

use std::time::Duration;

use super::dice::Dice;
use super::scenario::Faults;
use crate::model::{JobPolicy, JobSpec, Millis, Outcome};

/// A job that no node runs.
pub(super) const NOBODYS: &str = "nobody's";

/// One that survives any number of deaths, one that fails now and then and is given up after two, one that is
/// never run a second time.
pub(super) fn all() -> [JobSpec; 3] {
    let policy = |recover, max_attempts, max_tries| JobPolicy {
        recover,
        max_attempts,
        max_tries,
        retry_delay: Duration::from_secs(1),
    };
    [("steady", policy(true, 1_000, 1)), ("flaky", policy(true, 2, 3)), ("once", policy(false, 2, 1))]
        .map(|(name, policy)| JobSpec { name: name.to_owned(), policy })
}

/// A payload whose decoding takes so long.
pub(super) fn slow(takes: Millis) -> String {
    format!("\"decoded within {takes}\"")
}

pub(super) fn decoding(payload: &str) -> Millis {
    let takes = payload.strip_prefix("\"decoded within ").and_then(|rest| rest.strip_suffix('"'));
    takes.map_or(0, |takes| takes.parse().unwrap())
}

/// What failures say. The database cannot hold the last one: see `Wire::settle`.
const TEXTS: [&str; 3] =
    ["called `Option::unwrap()` on \"none\"", "C:\\tmp\n\tisn't a 'file'\\", "naïve \"☕\"\r\n\\\\"];

/// How a run of this job ends, and how long it takes.
pub(super) fn run(job: &str, dice: &mut Dice, faults: &Faults) -> (Outcome, Millis) {
    let failed = job == "flaky" && dice.one_in(3);
    let takes = if dice.happens(faults.long_jobs) { dice.below(40_000) } else { dice.below(200) };
    let text = TEXTS[usize::try_from(takes).unwrap() % TEXTS.len()];
    let outcome = if failed { Outcome::Failed(text.to_owned()) } else { Outcome::Succeeded };
    (outcome, takes)
}

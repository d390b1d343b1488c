//! What the schedules run: jobs of every policy.

use std::time::Duration;

use super::dice::Dice;
use super::scenario::Faults;
use crate::domain::{Entry, JobPolicy, JobSpec, Millis, Outcome};

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

/// One whose handler takes up to so long.
pub(super) fn long(takes: Millis) -> String {
    format!("\"run within {takes}\"")
}

pub(super) fn decoding(payload: &str) -> Millis {
    within(payload, "decoded").unwrap_or(0)
}

fn within(payload: &str, what: &str) -> Option<Millis> {
    let takes = payload.strip_prefix('"')?.strip_prefix(what)?.strip_prefix(" within ")?.strip_suffix('"')?;
    Some(takes.parse().unwrap())
}

/// What failures say. The database cannot hold the last one: see `Wire::settle`.
const TEXTS: [&str; 3] =
    ["called `Option::unwrap()` on \"none\"", "C:\\tmp\n\tisn't a 'file'\\", "naïve \"☕\"\r\n\\\\"];

/// How a run of this schedule's job ends, and how long it takes.
pub(super) fn run(entry: &Entry, dice: &mut Dice, faults: &Faults) -> (Outcome, Millis) {
    let failed = *entry.job == *"flaky" && dice.one_in(3);
    let most = within(&entry.payload, "run").unwrap_or(200);
    let takes = if dice.happens(faults.long_jobs) { dice.below(40_000) } else { dice.below(most) };
    let text = TEXTS[usize::try_from(takes).unwrap() % TEXTS.len()];
    let outcome = if failed { Outcome::Failed(text.to_owned()) } else { Outcome::Succeeded };
    (outcome, takes)
}

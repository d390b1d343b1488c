//! What the schedules run: jobs of every policy.

use std::time::Duration;

use super::dice::Dice;
use super::scenario::Faults;
use crate::model::{JobPolicy, JobSpec, Millis, Outcome};

/// So many that no occurrence runs out of them by chance.
const ATTEMPTS: u32 = 1_000;

/// One that is recovered, one that also fails and is tried again, one that is never run a second time.
pub(super) fn all() -> [JobSpec; 3] {
    let policy = |recover, max_tries| JobPolicy {
        recover,
        max_attempts: ATTEMPTS,
        max_tries,
        retry_delay: Duration::from_secs(1),
    };
    [("steady", policy(true, 1)), ("flaky", policy(true, 3)), ("once", policy(false, 1))]
        .map(|(name, policy)| JobSpec { name: name.to_owned(), policy })
}

/// How a run of this job ends, and how long it takes.
pub(super) fn run(job: &str, dice: &mut Dice, faults: &Faults) -> (Outcome, Millis) {
    let failed = job == "flaky" && dice.one_in(3);
    let outcome = if failed { Outcome::Failed("as the dice fell".to_owned()) } else { Outcome::Succeeded };
    let takes = if dice.strikes(faults.long_jobs) { dice.below(40_000) } else { dice.below(200) };
    (outcome, takes)
}

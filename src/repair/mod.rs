//! What becomes of missed occurrences, of those that would overlap, of a pause that ends, of cursors ahead of
//! the clock, and of executions whose node is gone: pure decisions.

mod ahead;
mod missed;
mod overlap;
mod recover;
mod resume;

pub(crate) use ahead::plan_anew;
#[cfg(test)]
use missed::MOST_FIRED;
pub(crate) use missed::{MOST_PASSED, decide, searched};
pub(crate) use overlap::overlapped;
pub(crate) use recover::{Revocation, recover, recover_apart};
pub(crate) use resume::{pass_paused, resume, skip};

#[cfg(test)]
mod tests;

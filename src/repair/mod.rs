//! Pure decisions on missed occurrences, those that would overlap, pauses that end, cursors ahead of the
//! clock, and executions whose node is gone.

mod anew;
mod missed;
mod overlap;
mod recover;
mod resume;

pub(crate) use anew::plan_anew;
pub(crate) use missed::{decide, searched};
pub(crate) use overlap::overlapped;
pub(crate) use recover::{Revocation, recover, recover_apart};
pub(crate) use resume::{pass_paused, resume, skip};

#[cfg(test)]
mod tests;

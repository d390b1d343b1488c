//! The elastic pool, in which claimed executions run.
//!
//! A seat is reserved before the claim, so the pool never has to refuse a claimed execution, and a full pool
//! is known before anything is at stake:
//!
//! ```text
//!     reserve -> Permit -> (claim) -> submit -> runs at once, or waits in the queue
//!        |         '- dropped: the seat is free again
//!        '- None: full; Notice::Freed says when to ask again
//! ```
//!
//! `admission` counts and `floor` moves the items, purely; `core` carries it out with a lock and threads. The
//! core reads no clock: it learns the time from `submit` and `tick`. It names its primitives only through
//! `sync`, so that the model check runs the very same file on simulated threads.

mod admission;
mod core;
pub(crate) mod floor;
mod sync;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

#[cfg(test)]
use self::admission::Figures;
pub use self::admission::PoolLimits;
pub(crate) use self::admission::Seat;
#[cfg(any(test, feature = "tokio"))]
pub(crate) use self::core::Occupied;
pub use self::core::{Notice, Permit, Pool};

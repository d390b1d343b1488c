//! Edits of a schedule.

mod clocks;
mod fields;
mod order;
pub(crate) mod page;
mod times;

pub(crate) use self::order::{EditOrder, carry, said};

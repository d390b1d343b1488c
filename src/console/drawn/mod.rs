//! What pages draw.

pub(crate) mod day;
pub(crate) mod grid;
pub(crate) mod plot;
pub(crate) mod strip;

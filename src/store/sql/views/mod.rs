//! Views for people.

pub(super) mod covers;
pub(super) mod inspect;

//! Views for people, and of the payloads that wait.

pub(super) mod covers;
pub(super) mod inspect;
pub(super) mod waiting;

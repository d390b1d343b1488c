//! The searches and removals of the misfire handler.

pub(super) mod expected;
pub(super) mod nobody;
pub(super) mod orphans;
pub(super) mod outcomes;
pub(super) mod purge;
pub(super) mod purge_queue;
pub(super) mod streak;
pub(super) mod unreadable;

//! Rows that several statements read, and the conditions that find them.

pub(super) mod entry;
pub(super) mod open_executions;
pub(super) mod policy;

//! Changes: the table of changes, and the verbs of clients and nodes, on connections of our own or on a
//! caller's.

pub(super) mod audit;
pub(super) mod calls;
pub(super) mod change;
pub(super) mod ensure;
pub(super) mod joined;
pub(super) mod named;
pub(super) mod node;
pub(super) mod order;
pub(super) mod outcomes;
pub(super) mod queue;
pub(super) mod requests;
pub(super) mod rerun;
pub(super) mod run_end;
pub(super) mod said;
pub(super) mod switch;
pub(super) mod sync;
pub(super) mod triggers;
mod withdrawn;

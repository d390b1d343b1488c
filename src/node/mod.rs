//! One node: its machines wired together, its handlers, the life of a claimed execution, and its events.

pub(crate) mod handlers;
pub(crate) mod lifecycle;
pub(crate) mod route;
pub(crate) mod runner;
pub(crate) mod teller;

//! Who belongs to the cluster: joining, heartbeats, leases, deaths, and what this process answers for.

mod cancels;
mod heartbeat;
mod held;
mod observer;

pub(crate) use cancels::Cancels;
#[cfg(test)]
pub(crate) use heartbeat::NodeOp;
pub(crate) use heartbeat::{Identity, NodeInput, NodeMachine, NodeOutput, members};
pub(crate) use held::Held;

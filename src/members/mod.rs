//! Who belongs to the cluster: joining, heartbeats, leases, deaths, and what this process answers for.

mod bell;
mod heartbeat;
mod held;
mod observer;
mod standing;

#[cfg(test)]
pub(crate) use heartbeat::NodeOp;
pub(crate) use heartbeat::{Identity, NodeInput, NodeMachine, NodeOutput, members};
pub(crate) use held::Held;
pub(crate) use standing::Standing;

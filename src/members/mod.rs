//! Membership of the cluster: joining, heartbeats, leases, deaths, the executions this process answers for,
//! and news of the others' changes.

pub(crate) mod bell;
mod heartbeat;
mod held;
pub(crate) mod listener;
mod observer;
mod standing;

#[cfg(test)]
pub(crate) use heartbeat::NodeOp;
pub(crate) use heartbeat::{Identity, NodeInput, NodeMachine, NodeOutput, members};
pub(crate) use held::Held;
pub(crate) use standing::Standing;

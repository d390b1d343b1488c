//! Membership of the cluster: joining, heartbeats, leases, deaths, the executions this process answers for,
//! and news of the others' changes.

pub(crate) mod asker;
pub(crate) mod bell;
mod heartbeat;
pub(crate) mod listener;
mod observer;
mod own_tokens;
mod standing;
pub(crate) mod waiters;

#[cfg(test)]
pub(crate) use heartbeat::HeartbeatOp;
pub(crate) use heartbeat::{HeartbeatInput, HeartbeatMachine, HeartbeatOutput, members};
pub(crate) use own_tokens::OwnTokens;
pub(crate) use standing::Standing;

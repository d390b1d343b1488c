//! The store calls of the heartbeat's machine.

use crate::domain::{Error, ExecutionId, Lineage, NodeId, Timestamp};
use crate::machine::calls::calls;
use crate::store::{
    Applied, Change, ExecutionChange, Heartbeat, HeartbeatReply, NewNode, NodeEnd, Peer, Store,
};
use crate::time::Now;

/// A heartbeat that was sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(super) at: Now,
    /// It tells the other nodes something.
    pub(super) tells: bool,
}

calls! { []
    register = Register { "joining", asks (node: NewNode), keeps (), brings () }
        |store| store.register(&node).map(drop);
    /// Ends the row of a registration in doubt.
    retract = Retract { "joining", asks (node: NodeId, now: Timestamp), keeps (), brings () }
        |store| end(store, node, now);
    beat = Beat {
        "heartbeat", asks (beat: Heartbeat), keeps Sent, brings (HeartbeatReply, Option<Lineage>)
    } |store| store.beat(&beat).map(|reply| (reply, store.lineage()));
    declare_dead = DeclareDead { "declaring a node dead", asks (end: NodeEnd), keeps Peer, brings Applied }
        |store| store.apply_one(Change::End(end));
    revoke = Revoke {
        "settling an execution nobody holds", asks (change: ExecutionChange), keeps (), brings ()
    } |store| store.apply_one(change.into()).map(drop);
    saw_cancels = SawCancels {
        "noting that cancels were seen", asks (executions: Vec<ExecutionId>), keeps (), brings ()
    } |store| store.saw_cancels(&executions);
    leave = Leave { "leaving", asks (node: NodeId, now: Timestamp), keeps (), brings () }
        |store| end(store, node, now);
}

/// The node says itself that it has ended.
fn end(store: &dyn Store, node: NodeId, now: Timestamp) -> Result<(), Error> {
    store.apply_one(Change::End(NodeEnd { node, beat: None, now })).map(drop)
}

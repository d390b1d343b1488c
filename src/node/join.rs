//! How a node joins the cluster, and how one that could not start leaves it again.

use std::sync::Arc;

use crossbeam::channel::bounded;

use crate::domain::shards::Member;
use crate::domain::{Error, ErrorKind, Millis, NodeId};
use crate::machine::driver;
use crate::members::{Identity, members};
use crate::node::handlers::Handlers;
use crate::store::{Beat, Change, Figures, NodeEnd, Pulse, Store};
use crate::time::{Clock, Lease, Offset, Window, span};

pub(super) fn identity(application: &str, handlers: &Handlers) -> Identity {
    Identity {
        application: application.to_owned(),
        host_ip: host_ip(),
        host_name: host_name(),
        pid: std::process::id(),
        jobs: handlers.specs(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A label for people: the address the host's own name resolves to, or nothing.
fn host_ip() -> String {
    use std::net::ToSocketAddrs;
    (host_name().as_str(), 0)
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .map_or_else(String::new, |address| address.ip().to_string())
}

/// As [`join`], within the time of its two store calls: MariaDB's client waits for ever on a network that has
/// gone silent.
pub(super) fn join_within(
    store: &Arc<dyn Store>,
    identity: &Identity,
    id: NodeId,
    clock: &Arc<Clock>,
    window: Window,
) -> Result<(Lease, Offset, Vec<Member>), Error> {
    let (reply, answer) = bounded(0);
    let (store, identity, clock) = (Arc::clone(store), identity.clone(), Arc::clone(clock));
    driver::spawn("firetime-join", move || {
        let joined = join(store.as_ref(), &identity, id, &clock, window.lease());
        if reply.send(joined).is_err() {
            // The start has failed; if this fails, too, the node is found dead.
            store.apply_one(Change::End(NodeEnd { node: id, beat: None, now: clock.now().db })).ok();
        }
    })?;
    let limit = span(2 * window.call);
    answer.recv_timeout(limit).unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unknown,
            format!("joining: no answer within {limit:?}; the call was abandoned"),
        ))
    })
}

/// Registers and beats once: gives the first lease, the offset to the database's clock, and the
/// live nodes.
fn join(
    store: &dyn Store,
    identity: &Identity,
    id: NodeId,
    clock: &Clock,
    lease: Millis,
) -> Result<(Lease, Offset, Vec<Member>), Error> {
    let sample = store.register(&identity.new_node(id, clock.now().db))?;
    let offset = Offset::new(sample);
    clock.set_offset(offset.least());
    let sent = clock.now();
    let application = identity.application.clone();
    let beat = Beat { node: id, application, figures: Figures::default(), withdraw: false, now: sent.db };
    match store.beat(&beat)? {
        Pulse::Alive { peers, .. } => Ok((Lease::new(sent, lease), offset, members(&peers))),
        Pulse::Ended => {
            Err(Error::new(ErrorKind::Conflict, "joining: somebody ended this node's row at once"))
        }
    }
}

/// Takes back what [`join`] may have done, as far as the database lets it: the row of a node that never ran
/// would keep its home shards until it is declared dead.
pub(super) fn leave(heart: &Arc<dyn Store>, node: NodeId, clock: &Clock, call: Millis) {
    let (done, ended) = bounded(1);
    let (store, now) = (Arc::clone(heart), clock.now().db);
    let leaving = move || {
        // Whether or not it did: the error that is told is the start's.
        store.apply_one(Change::End(NodeEnd { node, beat: None, now })).ok();
        done.send(()).ok();
    };
    // Without a thread nobody can bound it but the session's own limits.
    match driver::spawn("firetime-leave", leaving.clone()) {
        Ok(()) => drop(ended.recv_timeout(span(call))),
        Err(_) => leaving(),
    }
}

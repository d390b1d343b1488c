//! The proxy that the cluster tests cut their nodes from the database with.

#[path = "../it/chaos/proxy.rs"]
pub mod proxy;
#[path = "../it/chaos/wire.rs"]
pub mod wire;

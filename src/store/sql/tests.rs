//! What is special about the databases: the conformance suite tests what all stores share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A test server's URL.
pub(super) fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run the tests with scripts/with-servers.sh, or build without this database")
    })
}

pub(super) const LIMITS: Limits = Limits { call: 3_000, connections: 8 };

/// A database all tests of this process share, migrated once.
pub(super) fn shared(slot: &'static OnceLock<String>, make: impl FnOnce() -> String) -> &'static str {
    slot.get_or_init(|| {
        let url = make();
        migrate(&url).unwrap();
        url
    })
}

/// An application name nobody else uses.
pub(super) fn application() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("app-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

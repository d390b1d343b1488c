//! Real threads and locks, which the core is built on.

use std::{io, thread};

pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

#[expect(clippy::disallowed_methods, reason = "the driver and the pool are the two that spawn")]
pub(super) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name).spawn(body).map(drop)
}

//! What the handler of a run says beside its answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a run has said, shared by its handler's [`Context`](super::context::Context) and its thread or task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saying(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// It has begun to store its outcome in a transaction of its own.
    is_completing: AtomicBool,
    /// None while it has said nothing: most handlers never do.
    said: Mutex<Option<Box<Said>>>,
}

#[derive(Debug, Default)]
struct Said {
    /// As JSON.
    result: Option<String>,
}

impl Saying {
    /// The handler begins to store its outcome in a transaction of its own.
    #[cfg(any(test, feature = "sql"))]
    pub(crate) fn complete(&self) {
        self.0.is_completing.store(true, Ordering::Release);
    }

    pub(super) fn is_completing(&self) -> bool {
        self.0.is_completing.load(Ordering::Acquire)
    }

    /// The handler leaves a result, as JSON.
    pub(super) fn leave(&self, result: String) {
        self.said().get_or_insert_default().result = Some(result);
    }

    pub(super) fn result(&self) -> Option<String> {
        self.said().as_ref().and_then(|said| said.result.clone())
    }

    fn said(&self) -> MutexGuard<'_, Option<Box<Said>>> {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

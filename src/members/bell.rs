//! Wakes async handlers that wait for news of their executions.

/// Rung after each change of what handlers ask about. Nobody listens unless a handler is async, and without
/// the feature `tokio` there is nothing to ring.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    #[cfg(feature = "tokio")]
    notify: tokio::sync::Notify,
}

impl Bell {
    /// Wakes all who listen.
    pub(crate) fn ring(&self) {
        #[cfg(feature = "tokio")]
        self.notify.notify_waiters();
    }

    /// Ends with the next ring after it was enabled, or polled for the first time.
    #[cfg(feature = "tokio")]
    pub(crate) fn rung(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

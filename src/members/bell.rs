//! Wakes async handlers that wait for news of their executions.

#[cfg(feature = "tokio")]
use {
    crate::domain::Boot,
    crate::time::{Now, span},
    std::future::poll_fn,
    std::pin::{Pin, pin},
    std::task::Poll,
    tokio::sync::futures::Notified,
    tokio::task::unconstrained,
    tokio::time::sleep,
};

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
    pub(crate) fn rung(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

/// Waits until the bell rings or it is `until`. A handler that uses up its task's budget with
/// each poll would starve a timer that counts against it.
#[cfg(feature = "tokio")]
pub(crate) async fn woken(mut rung: Pin<&mut Notified<'_>>, until: Boot, now: Now) {
    let mut timer = pin!(unconstrained(sleep(span(until.saturating_since(now.boot)))));
    poll_fn(|cx| match rung.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => timer.as_mut().poll(cx),
    })
    .await;
}

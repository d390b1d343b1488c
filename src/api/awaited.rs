//! Calls that may be awaited: they block on the blocking pool of the tokio runtime around them.

use std::time::Duration;

#[cfg(feature = "sql")]
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use crate::domain::user_code::guarded;
use crate::domain::{Error, ErrorKind};
use crate::node::context::Context;

/// Runs a call that blocks; `what` it does is for people.
///
/// # Errors
/// The call's; [`ErrorKind::Config`] outside of a tokio runtime, where nothing was done;
/// [`ErrorKind::Unknown`] if the runtime is shut down meanwhile.
pub(super) async fn run<T: Send + 'static>(
    what: &str,
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let Ok(runtime) = Handle::try_current() else {
        let hint = "await it within one, or call it without await";
        let message = format!("awaited outside of a tokio runtime; {hint}");
        return Err(Error::new(ErrorKind::Config, message).during(what));
    };
    runtime.spawn_blocking(call).await.unwrap_or_else(|ended| match ended.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => {
            Err(Error::new(ErrorKind::Unknown, "the tokio runtime was shut down meanwhile").during(what))
        }
    })
}

/// Awaits a future for so long; none if that is over. The end of a long time never comes.
///
/// # Errors
/// [`ErrorKind::Config`] outside of a tokio runtime that has a time driver.
pub(super) async fn within<F: Future>(timeout: Duration, future: F) -> Result<Option<F::Output>, Error> {
    let refused = || {
        let message = "awaited with a timeout outside of a tokio runtime with a time driver: build it with \
                       enable_time() or enable_all()";
        Error::new(ErrorKind::Config, message)
    };
    Handle::try_current().map_err(|_| refused())?;
    // The only way to learn it: tokio panics where it cannot wait.
    let timer = guarded(|| tokio::time::timeout(timeout, future)).map_err(|_| refused())?;
    Ok(timer.await.ok())
}

impl Context {
    /// As [`checkpoint`](Self::checkpoint), in an async handler.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    #[cfg(feature = "sql")]
    pub async fn checkpoint_async(&self, value: &impl Serialize) -> Result<(), Error> {
        let (context, checkpoint) = (self.clone(), self.checkpoint_of(value));
        run("storing a checkpoint", move || context.store_checkpoint(&checkpoint?)).await
    }

    /// As [`resume`](Self::resume), in an async handler.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub async fn resume_async<T: DeserializeOwned + Send + 'static>(&self) -> Result<Option<T>, Error> {
        let context = self.clone();
        run("reading a checkpoint", move || context.resume()).await
    }
}

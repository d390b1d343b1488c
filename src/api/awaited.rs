//! Calls that may be awaited: they block on the blocking pool of the tokio runtime around them.

use tokio::runtime::Handle;

use crate::domain::{Error, ErrorKind};

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

//! A console: its client, and how it behaves.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::options::Options;
use super::trouble::Trouble;
use crate::Client;

/// So many requests ask the database at once; further ones wait for their turn.
const MOST_CALLS: usize = 8;

/// The client of a console, and how it behaves.
#[derive(Clone)]
pub(super) struct Console {
    client: Client,
    application: Arc<str>,
    options: Arc<Options>,
    calls: Arc<Semaphore>,
}

impl Console {
    pub(super) fn new(client: Client, options: Options) -> Self {
        let application = client.application().into();
        let calls = Arc::new(Semaphore::new(MOST_CALLS));
        Self { client, application, options: Arc::new(options), calls }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn application(&self) -> &str {
        &self.application
    }

    /// Calls the client where it may block. Whoever hangs up, or loses patience, leaves the call to itself:
    /// it counts among those under way until it has ended.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Client) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let (calls, client) = (Arc::clone(&self.calls), self.client.clone());
        let called = async move {
            let permit = calls.acquire_owned().await.map_err(|_| Trouble::broken())?;
            let blocking = tokio::task::spawn_blocking(move || {
                let answer = call(&client);
                drop(permit);
                answer
            });
            blocking.await.unwrap_or_else(|error| {
                log::error!("console: {error}");
                Err(Trouble::broken())
            })
        };
        tokio::time::timeout(self.options.patience, called).await.unwrap_or_else(|_| Err(Trouble::away()))
    }
}

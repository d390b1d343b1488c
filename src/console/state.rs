//! A console: its client, and how it behaves.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::asker::Askers;
use super::bulk::Tasks;
use super::clock;
use super::logins::Logins;
use super::options::Options;
use super::standby::Standby;
use super::streams::{Place, Streams};
use super::trouble::Trouble;
use crate::Client;

/// So many requests ask the database at once; further ones wait for their turn.
const MOST_CALLS: usize = 8;

/// Who changes something, for the audit, if neither a login nor the client says.
const ACTOR: &str = "console";

/// The client of a console, and how it behaves.
#[derive(Clone)]
pub(super) struct Console {
    client: Client,
    application: Arc<str>,
    options: Arc<Options>,
    logins: Arc<Logins>,
    standby: Arc<Standby>,
    calls: Arc<Semaphore>,
    /// Changes of many that are under way.
    tasks: Tasks,
    askers: Askers,
    streams: Streams,
}

impl Console {
    pub(super) fn new(client: Client, options: Options) -> Self {
        // A process's own name would look like a node's.
        let client = if client.actor().is_some() { client } else { client.acting_as(ACTOR) };
        let application = client.application().into();
        let calls = Arc::new(Semaphore::new(MOST_CALLS));
        Self {
            client,
            application,
            options: Arc::new(options),
            logins: Arc::default(),
            standby: Arc::default(),
            calls,
            tasks: Tasks::default(),
            askers: Askers::default(),
            streams: Streams::default(),
        }
    }

    pub(super) fn options(&self) -> &Arc<Options> {
        &self.options
    }

    pub(super) fn logins(&self) -> &Arc<Logins> {
        &self.logins
    }

    /// Whether the database takes no changes; asked where it may block.
    pub(super) fn is_standby(&self, client: &Client) -> Result<bool, Trouble> {
        self.standby.is_on(client, clock::now())
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    pub(super) fn askers(&self) -> &Askers {
        &self.askers
    }

    /// A place among the pages that are kept up to date, if there is one for this user.
    pub(super) fn stream(&self, user: Option<&str>) -> Option<Place> {
        self.streams.place(user)
    }

    pub(super) fn application(&self) -> &str {
        &self.application
    }

    /// Calls the client where it may block. Whoever hangs up, or loses patience, leaves the call to itself:
    /// it counts among those under way until it has ended. `lost` is the trouble of a call that has begun and
    /// whose answer nobody has.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        lost: fn() -> Trouble,
        call: impl FnOnce(&Client) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let (calls, client) = (Arc::clone(&self.calls), self.client.clone());
        let mut has_begun = false;
        let called = async {
            let permit = calls.acquire_owned().await.map_err(|_| Trouble::broken())?;
            has_begun = true;
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
        match tokio::time::timeout(self.options.patience, called).await {
            Ok(answer) => answer,
            Err(_) => Err(if has_begun { lost() } else { Trouble::away() }),
        }
    }
}

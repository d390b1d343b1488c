//! A console: its client, and how it behaves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use tokio::sync::Semaphore;

use super::access::clock;
use super::access::known::{Who, who};
use super::access::logins::Logins;
use super::access::peer::Peer;
use super::access::sessions::By;
use super::changes::bulk::Tasks;
use super::live::asker::Askers;
use super::live::streams::{Place, Streams};
use super::options::Options;
use super::web::trouble::Trouble;
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

    /// Who asks, by whichever login knows them.
    pub(super) fn who(&self, parts: &Parts, by: By) -> Result<Who, Trouble> {
        who(&self.options, &self.logins.sessions, parts, &Peer::of(parts, &self.options), by)
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

    /// A place among the pages that are kept up to date, if there is one for whoever asks.
    pub(super) fn stream(&self, user: Option<&str>, network: Option<&str>) -> Option<Place> {
        self.streams.place(user, network)
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

/// An answer counts for so long: a standby may be promoted.
const COUNTS: Duration = Duration::from_secs(5);

/// What the database said last, and when.
#[derive(Debug, Default)]
struct Standby(Mutex<Option<(Duration, bool)>>);

impl Standby {
    /// Whether the database is a standby, or read-only.
    fn is_on(&self, client: &Client, now: Duration) -> Result<bool, Trouble> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, is_on)) = known.filter(|(at, _)| now.saturating_sub(*at) < COUNTS) {
            return Ok(is_on);
        }
        let is_on = client.is_read_only()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, is_on));
        Ok(is_on)
    }
}

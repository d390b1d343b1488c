//! Who has logged in to the console, and how often people try to.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::limiter::Limiter;
use super::sessions::Sessions;

/// So many passwords are compared at once: each takes 19 MiB and a core for a while.
const MOST_AT_ONCE: usize = 2;

/// Who has logged in, and how often people try to.
#[derive(Debug)]
pub(crate) struct Logins {
    pub(crate) sessions: Sessions,
    /// By the user's name, whether there is one or not.
    by_name: Limiter,
    /// By where the request comes from.
    by_network: Limiter,
    pub(crate) at_once: Arc<Semaphore>,
}

impl Default for Logins {
    fn default() -> Self {
        Self {
            sessions: Sessions::default(),
            by_name: Limiter::new(5, Duration::from_secs(30)),
            by_network: Limiter::new(20, Duration::from_secs(10)),
            at_once: Arc::new(Semaphore::new(MOST_AT_ONCE)),
        }
    }
}

impl Logins {
    /// Counts a try; or, if there were too many, says how long to wait.
    pub(crate) fn count(&self, name: &str, network: Option<&str>, now: Duration) -> Result<(), Duration> {
        network.map_or(Ok(()), |network| self.by_network.count(network, now))?;
        self.by_name.count(name, now)
    }

    /// It was the right password.
    pub(crate) fn forgive(&self, name: &str, network: Option<&str>) {
        network.inspect(|network| self.by_network.forgive(network));
        self.by_name.forgive(name);
    }
}

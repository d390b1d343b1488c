//! The limits of a store's calls and connections.

use crate::domain::Millis;
use crate::time::Window;

/// What a store may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreLimits {
    /// The most a statement, or a pause inside a transaction, may take: milliseconds.
    pub call: Millis,
    /// The most connections in use at once, and the most that stay open while idle.
    pub connections: u32,
    /// How many more may be opened in the place of those that abandoned calls keep. Where it is 0 nobody
    /// abandons calls, and a session that may hang gives its statements up by itself.
    pub spare: u32,
}

impl StoreLimits {
    /// Whether a node's loops use it, rather than clients.
    #[cfg(feature = "sql")]
    pub(crate) fn is_of_node(&self) -> bool {
        self.spare > 0
    }
}

/// Those of a client: its callers are the application's threads, however many call at once.
impl Default for StoreLimits {
    fn default() -> Self {
        Self { call: Window::default().call, connections: 64, spare: 0 }
    }
}

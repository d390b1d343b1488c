//! What whoever starts a console decides.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;

use super::user::User;

/// Who asks, as the application's own login tells.
type UserOf = dyn Fn(&Parts) -> Option<User> + Send + Sync;

/// How a console behaves. Default: everybody who reaches it may look and change, under the client's name; it
/// answers only to the names of this machine.
///
/// ```
/// use firetime::console::Options;
/// let options = Options::new().host("ops.example.org").read_only(true);
/// ```
#[derive(Clone)]
pub struct Options {
    pub(super) is_read_only: bool,
    pub(super) hosts: Vec<String>,
    pub(super) user: Option<Arc<UserOf>>,
    /// A page that takes longer is given up.
    pub(super) patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { is_read_only: false, hosts: Vec::new(), user: None, patience: Duration::from_secs(15) }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Options");
        shown.field("is_read_only", &self.is_read_only).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether every change is refused. Default: no.
    #[must_use]
    pub fn read_only(self, is_read_only: bool) -> Self {
        Self { is_read_only, ..self }
    }

    /// A name under which it may be reached, without a port, such as that of the proxy before it. May be said
    /// several times. Default: `localhost`, and the addresses of the loopback interface. A request for
    /// another host is refused: a page elsewhere could have pointed its own name at this address.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.hosts.push(name.to_ascii_lowercase());
        self
    }

    /// Who asks, as the application's login knows: somebody with a role, or none, who may look and change
    /// nothing. The audit has their changes under their name. Default: nobody is asked, everybody is an
    /// [`Admin`](super::Role::Admin), and changes are the [client's](crate::Client::acting_as).
    ///
    /// ```
    /// use firetime::console::{Options, Role, User};
    /// /// What the application's login puts into the request's extensions.
    /// #[derive(Clone)]
    /// struct Employee {
    ///     name: String,
    ///     is_on_call: bool,
    /// }
    /// let options = Options::new().user(|request| {
    ///     let employee = request.extensions.get::<Employee>()?;
    ///     let role = if employee.is_on_call { Role::Operator } else { Role::Viewer };
    ///     Some(User::new(&employee.name, role))
    /// });
    /// ```
    #[must_use]
    pub fn user(self, user: impl Fn(&Parts) -> Option<User> + Send + Sync + 'static) -> Self {
        Self { user: Some(Arc::new(user)), ..self }
    }

    /// How long a page may take, the database's answers with it; then it says so. A form has as long to come.
    /// Default: 15 s.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

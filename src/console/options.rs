//! What whoever starts a console decides.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;

use super::access::header::TrustedHeader;
use super::access::masks::Masks;
use super::access::sessions::Lasts;
use super::access::user::User;
use super::access::users::Users;

const HOUR: Duration = Duration::from_secs(60 * 60);

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
    pub(super) users: Option<Users>,
    pub(super) header: Option<TrustedHeader>,
    /// Those that may speak for others; none if nobody has named one.
    proxies: Vec<IpAddr>,
    /// Whether browsers reach it by HTTPS alone.
    pub(super) is_https: bool,
    pub(super) lasts: Lasts,
    /// What is hidden from everybody.
    pub(super) masks: Arc<Masks>,
    /// A page that takes longer is given up.
    pub(super) patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            is_read_only: false,
            hosts: Vec::new(),
            user: None,
            users: None,
            header: None,
            proxies: Vec::new(),
            is_https: false,
            masks: Arc::default(),
            lasts: Lasts { idle: 12 * HOUR, whole: 7 * 24 * HOUR },
            patience: Duration::from_secs(15),
        }
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
    /// nothing. It is called for each request, and every two seconds for each open page that keeps itself up
    /// to date; it is not to block. The audit has their changes under their name. Default: nobody is asked,
    /// everybody is an [`Admin`](super::Role::Admin), and changes are the
    /// [client's](crate::Client::acting_as).
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

    /// People log in to the console itself, as users of this file. Default: nobody does.
    ///
    /// ```no_run
    /// use firetime::console::{Options, Users};
    /// let options = Options::new().users(Users::open("/etc/firetime/users")?);
    /// # Ok::<(), firetime::Error>(())
    /// ```
    #[must_use]
    pub fn users(self, users: Users) -> Self {
        Self { users: Some(users), ..self }
    }

    /// A proxy says who asks, in this header. Everybody else who sends it is refused. Default: none.
    #[must_use]
    pub fn trust(self, header: TrustedHeader) -> Self {
        Self { header: Some(header), ..self }
    }

    /// The address of a proxy that may speak for others: who asks, if a [header](Self::trust) is trusted,
    /// from where (the last address in `X-Forwarded-For`), and whether by HTTPS (`X-Forwarded-Proto`). May be
    /// said several times. Default: the addresses of the loopback interface.
    ///
    /// The address is read from axum's `ConnectInfo<SocketAddr>`, which a server adds to requests that is
    /// made with `into_make_service_with_connect_info`. Without it no request comes from a proxy.
    #[must_use]
    pub fn proxy(mut self, address: IpAddr) -> Self {
        self.proxies.push(address.to_canonical());
        self
    }

    pub(super) fn is_proxy(&self, address: IpAddr) -> bool {
        match self.proxies.is_empty() {
            true => address.is_loopback(),
            false => self.proxies.contains(&address),
        }
    }

    /// Whether browsers reach it by HTTPS alone: then they send its cookies by nothing else. Default: no; if
    /// a [proxy](Self::proxy) says of a request that it came by HTTPS, its cookies are kept so all the same.
    #[must_use]
    pub fn https(self, is_https: bool) -> Self {
        Self { is_https, ..self }
    }

    /// How long a login of [`users`](Self::users) lasts at most, however busy it is. Default: 7 days.
    #[must_use]
    pub fn login_lasts(mut self, whole: Duration) -> Self {
        self.lasts.whole = whole;
        self
    }

    /// How long a login of [`users`](Self::users) lasts without a request. Default: 12 h.
    #[must_use]
    pub fn login_lasts_idle(mut self, idle: Duration) -> Self {
        self.lasts.idle = idle;
        self
    }

    /// Hides the payloads, checkpoints and results of a job, and what its handlers say in their logs: from
    /// everybody, whatever their role. The audit then shows no payload of any schedule. May be said several
    /// times. Default: nothing is hidden.
    ///
    /// What decoders say of these payloads is hidden too. What a handler says of its failure is shown all the
    /// same, as are headers, keys, groups and tags.
    #[must_use]
    pub fn hide_payloads(mut self, job: &str) -> Self {
        Arc::make_mut(&mut self.masks).hide(job);
        self
    }

    /// Hides a field in the payloads, checkpoints and results of a job, wherever in the JSON it is, and the
    /// lines of its logs that name it or have its value (of three characters or more): otherwise as
    /// [`hide_payloads`](Self::hide_payloads). May be said several times. Default: nothing is hidden.
    ///
    /// ```
    /// use firetime::console::Options;
    /// let options = Options::new().hide_payloads("payroll").mask("mail", "address");
    /// ```
    #[must_use]
    pub fn mask(mut self, job: &str, field: &str) -> Self {
        Arc::make_mut(&mut self.masks).mask(job, field);
        self
    }

    /// How long a page may take, the database's answers with it; then it says so. A form has as long to come.
    /// Default: 15 s.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

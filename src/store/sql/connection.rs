//! Connections: which database a URL names, how a session is limited, and the pool.
//!
//! The pool opens nothing that nobody waits for, and never tests what it hands out: a connection that failed
//! in any way that is not positively a refusal is dropped instead, and with it all that were opened before
//! the failure. A caller waits longer than a second only while a connection is being opened, which far from
//! the database takes a dozen round trips.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel::Connection;
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

#[cfg(feature = "postgres")]
use super::pooler;
use super::reach::{Reach, server};
use super::secrets::secrets;
use super::session::{Fault, Nature, Session, explained};
use super::statement::{Value, single, sql};
use super::watched::Watched;
use crate::domain::user_code::guarded;
use crate::domain::{Error, Kind, Millis};
use crate::store::{Limits, Result};
use crate::time::{HostTime, Micros, TimeSample, span};

/// How long a statement waits for a lock; milliseconds. MariaDB counts in seconds.
pub(super) const LOCK_WAIT: Millis = 1_000;

/// How long a call waits for a connection while none is being opened: all are in use, or the database
/// refuses.
const CONNECTION_WAIT: Duration = Duration::from_secs(1);

/// Which SQL is spoken.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
    Mysql,
}

impl Dialect {
    /// The database's clock, epoch milliseconds.
    pub(super) fn clock(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)",
            Self::Postgres => "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)",
            Self::Mysql => "CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED)",
        }
    }

    /// The same in microseconds, as far as the database tells them: SQLite knows whole milliseconds.
    pub(super) fn exact_clock(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000",
            Self::Postgres => "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000) AS BIGINT)",
            Self::Mysql => "CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000) AS SIGNED)",
        }
    }

    /// A comparison of the database's clock, read by [`Dialect::exact_clock`], with the host's.
    pub(super) fn sample(self, asked: HostTime, told: Micros, answered: HostTime) -> TimeSample {
        match self {
            Self::Sqlite => TimeSample::in_process(asked, told, answered),
            Self::Postgres | Self::Mysql => TimeSample::new(asked, told, answered),
        }
    }

    /// Starts a transaction; on SQLite one that may write, so that it never fails halfway.
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
            Self::Mysql => "START TRANSACTION",
        }
    }

    /// Locks what a SELECT brings until the transaction ends, waiting for it. SQLite's transactions that
    /// write are alone anyway.
    pub(super) fn lock(self, alias: &str) -> String {
        match self {
            Self::Sqlite => String::new(),
            Self::Postgres => format!(" FOR UPDATE OF {alias}"),
            Self::Mysql => " FOR UPDATE".to_owned(),
        }
    }

    /// Like [`Dialect::lock`], leaving out rows that others hold.
    pub(super) fn lock_free(self, alias: &str) -> String {
        match self {
            Self::Sqlite => String::new(),
            _ => format!("{} SKIP LOCKED", self.lock(alias)),
        }
    }

    /// Turns an INSERT into one that leaves existing rows alone; `column` is any of the table's.
    pub(super) fn or_leave(self, table: &str, column: &str) -> String {
        match self {
            Self::Mysql => format!(" ON DUPLICATE KEY UPDATE {table}.{column} = {table}.{column}"),
            _ => " ON CONFLICT DO NOTHING".to_owned(),
        }
    }
}

/// A database as its URL names it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) dialect: Dialect,
    /// What diesel is given.
    address: String,
    secrets: Vec<String>,
    pub(super) memory: bool,
    reach: Reach,
    /// How many sessions were given up and have not returned.
    given_up: Arc<AtomicUsize>,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (dialect, address) = match url.split_once(':') {
            Some(("postgres" | "postgresql", _)) => (Dialect::Postgres, url.to_owned()),
            Some(("mysql" | "mariadb", rest)) => (Dialect::Mysql, format!("mysql:{rest}")),
            Some(("sqlite", path)) => (Dialect::Sqlite, path.strip_prefix("//").unwrap_or(path).to_owned()),
            // A mistyped scheme must not make a new file; one letter is a drive's.
            Some((scheme, _)) if scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                return Err(unknown(&format!("scheme {scheme:?}")));
            }
            _ if url.ends_with(".db") || url.ends_with(".sqlite") => (Dialect::Sqlite, url.to_owned()),
            _ => return Err(unknown("URL")),
        };
        let (compiled, feature) = match dialect {
            Dialect::Sqlite => (cfg!(feature = "sqlite"), "sqlite"),
            Dialect::Postgres => (cfg!(feature = "postgres"), "postgres"),
            Dialect::Mysql => (cfg!(feature = "mysql"), "mysql"),
        };
        if !compiled {
            let message = format!(
                "this build cannot speak to that database: firetime's feature `{feature}` is off; the program has all \
                         three with `cargo install --path . --features cli,postgres,mysql`"
            );
            return Err(Error::new(Kind::Config, message));
        }
        if address.is_empty() {
            return Err(Error::new(
                Kind::Config,
                "the URL of a SQLite database names its file: `sqlite:path`",
            ));
        }
        let (secrets, memory) = (secrets(dialect, url), address == ":memory:");
        let is_file = dialect == Dialect::Sqlite && !memory && !address.starts_with("file:");
        let address = if is_file { absolute(address) } else { address };
        Ok(Self { dialect, memory, address, secrets, reach: Reach::default(), given_up: Arc::default() })
    }

    /// A SQLite file that is not there; opening it would make an empty one.
    pub(super) fn missing_file(&self) -> Option<&str> {
        let file = self.dialect == Dialect::Sqlite && !self.memory && !self.address.starts_with("file:");
        (file && !std::path::Path::new(&self.address).exists()).then_some(&self.address)
    }

    /// A driver's message without anything of the password in it.
    pub(super) fn redact(&self, message: &str) -> String {
        self.secrets.iter().fold(message.to_owned(), |text, secret| text.replace(secret, "***"))
    }

    /// Opens a session with its limits set. It may take as long as a store call.
    pub(super) fn connect(&self, limits: Limits) -> std::result::Result<Box<dyn Session + Send>, Fault> {
        // The other clients give a connect up by themselves.
        if self.dialect != Dialect::Mysql {
            return self.connect_here(limits);
        }
        let target = self.clone();
        self.reach
            .open(server(&self.address).as_deref(), span(limits.call), move || target.connect_here(limits))
    }

    /// As [`Target::connect`], for the session a process opens first: refuses a pooler that others' sessions
    /// share, and a server or client library that firetime cannot work with.
    pub(super) fn connect_first(
        &self,
        limits: Limits,
    ) -> std::result::Result<Box<dyn Session + Send>, Fault> {
        let (target, wait) = (self.clone(), span(limits.call));
        match self.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => self.reach.open(None, wait, move || {
                let mut session = target.establish()?;
                pooler::refuse([&mut session, &mut target.establish()?])
                    .map_err(|fault| target.clean(fault))?;
                target.limited(Box::new(session), limits)
            }),
            Dialect::Mysql => self.reach.open(server(&self.address).as_deref(), wait, move || {
                let mut session = target.connect_here(limits)?;
                self_check(session.as_mut()).map_err(|fault| target.clean(fault))?;
                Ok(session)
            }),
            _ => self.connect(limits),
        }
    }

    #[cfg(feature = "postgres")]
    fn establish(&self) -> std::result::Result<diesel::PgConnection, Fault> {
        diesel::PgConnection::establish(&impatient(&self.address)).map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &diesel::ConnectionError) -> Fault {
        self.clean(Fault::new(Nature::Lost, explained(error.to_string())))
    }

    fn connect_here(&self, limits: Limits) -> std::result::Result<Box<dyn Session + Send>, Fault> {
        let session: Box<dyn Session + Send> = match self.dialect {
            #[cfg(feature = "sqlite")]
            Dialect::Sqlite => {
                let opened =
                    diesel::SqliteConnection::establish(&self.address).map_err(|error| self.lost(&error));
                Box::new(opened.map_err(|fault| self.unopened(fault))?)
            }
            #[cfg(feature = "postgres")]
            Dialect::Postgres => Box::new(self.establish()?),
            #[cfg(feature = "mysql")]
            Dialect::Mysql => {
                let opened = diesel::MysqlConnection::establish(&self.address);
                Box::new(opened.map_err(|error| self.lost(&error))?)
            }
            #[allow(unreachable_patterns, reason = "which arms exist depends on the features")]
            _ => return Err(Fault::new(Nature::Refused, "this database's feature is off")),
        };
        self.limited(session, limits)
    }

    fn limited(
        &self,
        session: Box<dyn Session + Send>,
        limits: Limits,
    ) -> std::result::Result<Box<dyn Session + Send>, Fault> {
        let mut session = self.watched(session, limits)?;
        limit(session.as_mut(), limits).map_err(|fault| self.unopened(fault))?;
        Ok(session)
    }

    /// The session, or one that gives its statements up, where nobody else does and a server may be silent.
    fn watched(
        &self,
        session: Box<dyn Session + Send>,
        limits: Limits,
    ) -> std::result::Result<Box<dyn Session + Send>, Fault> {
        if limits.spare > 0 || self.dialect == Dialect::Sqlite {
            return Ok(session);
        }
        // The server itself gives up a statement after `call`, and mostly says so.
        let wait = span(limits.call + limits.call / 4);
        Ok(Box::new(Watched::over(session, wait, &self.given_up)?))
    }

    /// Why there is no session, and of a file what to look at.
    fn unopened(&self, fault: Fault) -> Fault {
        let is_wrong = self.dialect == Dialect::Sqlite && fault.nature != Nature::Busy;
        let advice = if is_wrong { advice(&self.address) } else { String::new() };
        self.clean(Fault { message: format!("{}{advice}", fault.message), ..fault })
    }

    pub(super) fn clean(&self, fault: Fault) -> Fault {
        Fault::new(fault.nature, self.redact(&fault.message))
    }
}

/// Connections are opened later, and the process may change its directory until then. The path is joined and
/// not tidied: what looks like a password must still be found in it. One below a directory whose name is not
/// UTF-8 stays relative: diesel takes no other.
fn absolute(file: String) -> String {
    let path = std::env::current_dir().ok().map(|here| here.join(&file));
    path.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(file)
}

/// What to look at when a file cannot be opened. One whose name looks like a login is not shown.
fn advice(file: &str) -> String {
    let name = if file.contains('@') { String::new() } else { format!(" {file}") };
    format!(" (the file{name}: is it a database, does its folder exist, may both be written?)")
}

/// A PostgreSQL URL whose connections notice a silent network within seconds, unless the URL says otherwise.
#[cfg(feature = "postgres")]
fn impatient(url: &str) -> String {
    const OPTIONS: [(&str, &str); 5] = [
        ("connect_timeout", "2"),
        ("tcp_user_timeout", "5000"),
        ("keepalives_idle", "10"),
        ("keepalives_interval", "3"),
        ("keepalives_count", "3"),
    ];
    OPTIONS.iter().fold(url.to_owned(), |url, (name, value)| {
        let mark = if url.contains('?') { '&' } else { '?' };
        if url.contains(&format!("{name}=")) { url } else { format!("{url}{mark}{name}={value}") }
    })
}

fn unknown(what: &str) -> Error {
    let known =
        "`postgres://…`, `mysql://…`, `mariadb://…`, `sqlite:path`, or a path ending in .db or .sqlite";
    Error::new(Kind::Config, format!("unknown database {what}: write {known}"))
}

/// Sets what every session of ours has; see [`Limits`].
pub(super) fn limit(session: &mut dyn Session, limits: Limits) -> std::result::Result<(), Fault> {
    let call = limits.call.max(1);
    match session.dialect() {
        Dialect::Sqlite => {
            session.batch(&format!("PRAGMA busy_timeout = {LOCK_WAIT}"))?;
            write_ahead(session)?;
            session.batch("PRAGMA synchronous = FULL")
        }
        Dialect::Postgres => {
            // Only a superuser may choose the language of messages; others keep theirs.
            if session.batch("SET lc_messages TO 'C'").is_err_and(|fault| fault.nature == Nature::Lost) {
                return Err(Fault::new(Nature::Lost, "the connection was lost while it was set up"));
            }
            // Every statement of ours finds its rows by index; a generic plan made while a table was empty
            // would read it from end to end until the next ANALYZE. None is worth compiling anew each time it
            // runs. And a poll sorts up to a page of rows: by default PostgreSQL would sort that on disk.
            //
            // A database without an encoding refuses a whole answer for one byte that is none of UTF-8; asked
            // for bytes, it leaves them to us.
            session.batch(&format!(
                "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
                 SET enable_bitmapscan = off; SET jit = off; SET work_mem = '32MB'; \
                 SELECT set_config('synchronous_commit', 'on', false) \
                 WHERE current_setting('synchronous_commit') IN ('off', 'local'); \
                 SELECT set_config('client_encoding', 'SQL_ASCII', false) \
                 WHERE current_setting('server_encoding') = 'SQL_ASCII'; \
                 SET lock_timeout = {LOCK_WAIT}; SET statement_timeout = {call}; \
                 SET idle_in_transaction_session_timeout = {call}; \
                 SET default_transaction_isolation TO 'read committed'"
            ))
        }
        Dialect::Mysql => {
            let (seconds, lock_wait) = ((call / 1_000).max(1), LOCK_WAIT / 1_000);
            session.batch(&format!(
                "SET SESSION autocommit = 1; SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin; \
                 SET SESSION time_zone = '+00:00', lc_messages = 'en_US', \
                 sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', \
                 sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, completion_type = 0, \
                 innodb_lock_wait_timeout = {lock_wait}, idle_transaction_timeout = {seconds}, \
                 max_statement_time = {seconds}; \
                 SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
            ))
        }
    }
}

/// Switches a file to WAL. SQLite does not wait for a file that is busy here, so a transaction, for which it
/// does, waits in its place.
fn write_ahead(session: &mut dyn Session) -> std::result::Result<(), Fault> {
    let mut switched = session.batch("PRAGMA journal_mode = WAL");
    for _ in 0..8 {
        match &switched {
            Err(fault) if fault.nature == Nature::Busy => {
                session.batch("BEGIN IMMEDIATE; COMMIT")?;
                switched = session.batch("PRAGMA journal_mode = WAL");
            }
            _ => break,
        }
    }
    switched
}

/// Refuses servers that lack what claims need, and client libraries that do not read back what was sent.
fn self_check(session: &mut dyn Session) -> std::result::Result<(), Fault> {
    let version = reads_back(session)?;
    if is_supported(&version) {
        return Ok(());
    }
    let message = format!("firetime needs MariaDB 10.6 or later; this server says it is {version:?}");
    Err(Fault::new(Nature::Refused, message))
}

/// The server's version, if a long string, a NULL and a count come back as they were sent: a client that
/// misreads these would misread the version too.
fn reads_back(session: &mut dyn Session) -> std::result::Result<String, Fault> {
    let long = "firetime".repeat(2_000);
    let echo = sql("SELECT CAST(? AS CHAR) AS a, CAST(NULL AS CHAR) AS b, COUNT(*) AS c, VERSION() AS d \
         FROM (SELECT 1 AS x UNION ALL SELECT 2) AS t");
    if let Some(mut row) = session.rows(&echo.bind(long.as_str()))?.pop() {
        let echoed = (row.next().ok(), row.next().ok(), row.next().ok());
        if echoed == (Some(Value::Text(long)), Some(Value::Null), Some(Value::Int(2))) {
            return row.text();
        }
    }
    let message = "the MariaDB client library misreads what the server sends (libmariadb of MariaDB 10.11.18 does, \
                   10.11.19 does not; or it is another one than firetime was built with): install another release \
                   of it and build again";
    Err(Fault::new(Nature::Refused, message))
}

fn is_supported(version: &str) -> bool {
    let mut numbers =
        version.trim_start_matches("5.5.5-").split(['.', '-']).map_while(|part| part.parse().ok());
    let version_number = (numbers.next().unwrap_or(0u32), numbers.next().unwrap_or(0u32));
    version.contains("MariaDB") && version_number >= (10, 6)
}

/// A session in the pool.
pub(super) struct Link {
    pub(super) session: Box<dyn Session + Send>,
    broken: bool,
    epoch: u64,
    _open: Open,
}

/// Counts a connection for as long as it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn counted(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the pool opens connections with.
pub(super) struct Manager {
    target: Target,
    limits: Limits,
    epoch: Arc<AtomicU64>,
    waiting: Arc<AtomicUsize>,
    connecting: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    /// Why the last try failed.
    failure: Mutex<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConnectError(String);

impl r2d2::ManageConnection for Manager {
    type Connection = Link;
    type Error = ConnectError;

    /// Only for a caller that waits: every call that failed in an outage leaves r2d2 trying to connect for
    /// it, and once the database is back all those tries would succeed at once.
    fn connect(&self) -> std::result::Result<Link, ConnectError> {
        let failure = || self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.connecting.fetch_add(1, Ordering::Relaxed) < self.waiting.load(Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let session = wanted.then(|| self.target.connect(self.limits));
        self.connecting.fetch_sub(1, Ordering::Relaxed);
        match session {
            Some(Ok(session)) => Ok(Link { session, broken: false, epoch, _open: Open::counted(&self.open) }),
            Some(Err(fault)) => {
                failure().clone_from(&fault.message);
                Err(ConnectError(fault.message))
            }
            None => Err(ConnectError(failure().clone())),
        }
    }

    fn is_valid(&self, link: &mut Link) -> std::result::Result<(), ConnectError> {
        single(link.session.rows(&sql("SELECT 1 AS one")).map_err(|fault| ConnectError(fault.message))?)
            .map(|_| ())
            .map_err(|fault| ConnectError(fault.message))
    }

    fn has_broken(&self, link: &mut Link) -> bool {
        // Those opened in the place of connections that abandoned calls kept: once these come back, they are
        // too many.
        let too_many = self.open.load(Ordering::Relaxed) > self.limits.connections.max(1) as usize;
        // A database in memory is its connection: there is nothing to go back to.
        !self.target.memory && (link.broken || too_many || std::thread::panicking())
    }
}

/// The threads one pool opens its connections on. They end with it: r2d2's own wait for the pool's next
/// clean-up, for up to half a minute. Building them panics where the system has no thread left.
fn openers(names: &str) -> Result<ScheduledThreadPool> {
    let pool = ScheduledThreadPool::builder()
        .num_threads(3)
        .thread_name_pattern(names)
        .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled);
    guarded(|| pool.build())
        .map_err(|said| Error::new(Kind::System, format!("cannot start the threads {names}: {said}")))
}

/// The connections of one store.
pub(super) struct Connections {
    pool: r2d2::Pool<Manager>,
    epoch: Arc<AtomicU64>,
    /// How many callers wait for a connection.
    waiting: Arc<AtomicUsize>,
    /// How many are being opened.
    connecting: Arc<AtomicUsize>,
    pub(super) target: Target,
}

impl Connections {
    pub(super) fn open(target: Target, limits: Limits) -> Result<Self> {
        let epoch = Arc::new(AtomicU64::new(0));
        let waiting = Arc::new(AtomicUsize::new(0));
        let connecting = Arc::new(AtomicUsize::new(0));
        let manager = Manager {
            target: target.clone(),
            limits,
            epoch: Arc::clone(&epoch),
            waiting: Arc::clone(&waiting),
            connecting: Arc::clone(&connecting),
            open: Arc::default(),
            failure: Mutex::new("it is still being opened".to_owned()),
        };
        let builder = r2d2::Pool::builder()
            .min_idle(Some(0))
            .max_size(if target.memory { 1 } else { limits.connections.max(1) + limits.spare })
            .test_on_check_out(false)
            .connection_timeout(CONNECTION_WAIT)
            .thread_pool(Arc::new(openers("firetime-connect-{}")?))
            .error_handler(Box::new(r2d2::NopErrorHandler));
        let builder = if target.memory { builder.idle_timeout(None).max_lifetime(None) } else { builder };
        Ok(Self { pool: builder.build_unchecked(manager), epoch, waiting, connecting, target })
    }

    /// A connection opened after the last failure. One that is being opened is waited for, but no longer than
    /// `within`.
    pub(super) fn get(&self, within: Duration) -> Result<r2d2::PooledConnection<Manager>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let link = self.opened(within);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        link
    }

    fn opened(&self, within: Duration) -> Result<r2d2::PooledConnection<Manager>> {
        let mut waited = Duration::ZERO;
        let mut turn = CONNECTION_WAIT.min(within);
        loop {
            match self.pool.get_timeout(turn) {
                Ok(link) if self.target.memory || link.epoch == self.epoch.load(Ordering::Relaxed) => {
                    return Ok(link);
                }
                Ok(mut link) => link.broken = true,
                Err(error) => {
                    waited += turn;
                    // Each turn asks r2d2 for one more connection. As long as all before, they stay few.
                    turn = waited.min(within.saturating_sub(waited));
                    if turn.is_zero() || self.connecting.load(Ordering::Relaxed) == 0 {
                        let message = format!("no connection to the database within {waited:?}: {error}");
                        return Err(Error::new(Kind::Unavailable, self.target.redact(&message)));
                    }
                }
            }
        }
    }

    /// Gives up a connection that failed, and all opened before now: they lead to the same place.
    pub(super) fn discard(&self, link: &mut Link) {
        link.broken = true;
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives up a connection that may not write, with all that lead to the same place: the address may lead
    /// to another server by now, after a failover. And one to MariaDB that met an error, refusals too. An
    /// error that comes halfway through a result (a lock wait ends after the first rows are sent) leaves the
    /// client's prepared statement waiting for the rest, and diesel would find it again: executed once more,
    /// it never returns.
    pub(super) fn distrust(&self, link: &mut Link, fault: &Fault) {
        if fault.nature == Nature::ReadOnly {
            self.discard(link);
        } else if self.target.dialect == Dialect::Mysql && fault.nature != Nature::Conflict {
            link.broken = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_file_that_cannot_be_opened_is_named_unless_it_looks_like_a_login() {
        let opened = |url: &str| {
            let limits = Limits { call: 1_000, connections: 1, spare: 0 };
            Target::parse(url).unwrap().connect(limits).err().expect("no such folder").message
        };
        let said = opened("sqlite:/nowhere/at/all/x.db");
        assert!(said.contains("/nowhere/at/all/x.db") && said.contains("folder"), "{said}");
        let said = opened("sqlite:Cargo.toml");
        assert!(said.contains("Cargo.toml") && said.contains("is it a database"), "{said}");
        assert!(!opened("sqlite:/nowhere/me:hunter2@host.db").contains("hunter2"));
    }

    /// Calls that were given up on keep theirs while others run: eleven connections stayed open for ten
    /// minutes.
    #[cfg(feature = "sqlite")]
    #[test]
    fn connections_beyond_the_limit_close_when_they_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::parse(&format!("sqlite:{}", folder.path().join("x.db").display())).unwrap();
        let connections =
            Connections::open(target, Limits { call: 1_000, connections: 2, spare: 3 }).unwrap();
        let open = || connections.pool.state().connections;
        let taken: Vec<_> = (0..5).map(|_| connections.get(CONNECTION_WAIT).unwrap()).collect();
        assert_eq!(open(), 5);
        drop(taken);
        assert_eq!(open(), 2);
    }

    #[test]
    fn threads_that_cannot_be_made_are_an_error() {
        let error = openers("no thread has this \0 name").err().unwrap();
        assert_eq!(error.kind(), Kind::System);
        assert!(openers("firetime-connect-{}").is_ok());
    }

    #[test]
    fn a_url_names_its_database() {
        let dialect = |url| Target::parse(url).map(|target| (target.dialect, target.address));
        assert_eq!(dialect("sqlite:/a/b.db").unwrap(), (Dialect::Sqlite, "/a/b.db".into()));
        assert_eq!(dialect("sqlite:///a/b").unwrap(), (Dialect::Sqlite, "/a/b".into()));
        assert_eq!(dialect("sqlite:file:jobs.db?mode=ro").unwrap().1, "file:jobs.db?mode=ro");
        assert!(Target::parse("sqlite::memory:").unwrap().memory);
        #[cfg(feature = "mysql")]
        assert_eq!(dialect("mariadb://h/d").unwrap(), (Dialect::Mysql, "mysql://h/d".into()));
        for url in ["oracle://h/d", "sqlit:shop.db", "nothing", ""] {
            let error = Target::parse(url).err().unwrap();
            assert_eq!(error.kind(), Kind::Config);
            assert!(error.to_string().contains("postgres://"), "{error}");
        }
    }

    /// Connections opened after the process had changed its directory led to another, empty file.
    #[test]
    fn a_relative_file_is_that_of_the_directory_at_the_start() {
        let here = std::env::current_dir().unwrap();
        for url in ["jobs.sqlite", "sqlite:jobs.sqlite", "sqlite://./jobs.sqlite"] {
            let address = Target::parse(url).unwrap().address;
            assert_eq!(std::path::Path::new(&address), here.join("jobs.sqlite"), "{url}");
        }
    }

    #[test]
    #[cfg(not(feature = "mysql"))]
    fn a_database_that_was_not_built_in_is_named() {
        let error = Target::parse("mysql://h/d").err().unwrap();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.to_string().contains("`mysql`"), "{error}");
    }

    #[test]
    fn only_mariadb_from_10_6_on_is_taken() {
        for good in ["10.6.1-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB", "5.5.5-10.6.0-MariaDB"]
        {
            assert!(is_supported(good), "{good}");
        }
        for bad in ["8.0.36", "10.5.9-MariaDB", "5.7.1-log", "9.1.0", ""] {
            assert!(!is_supported(bad), "{bad}");
        }
    }
}

//! Where the databases are, one of its own for every run, and what the server says of them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use diesel::Connection as _;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use tempfile::TempDir;

use crate::Result;
use crate::arguments::Arguments;
use crate::process;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    Sqlite,
    Postgres,
    Mariadb,
}

impl ServerKind {
    /// The kind of server a URL leads to.
    pub fn of(url: &str) -> Option<Self> {
        match url.split_once("://")?.0 {
            "postgres" | "postgresql" => Some(Self::Postgres),
            "mysql" => Some(Self::Mariadb),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
        }
    }
}

/// A database server, or a folder of SQLite files.
pub struct Server {
    pub kind: ServerKind,
    /// For SQLite the folder.
    url: String,
    /// Where it is known: then it runs on this machine.
    pid: Option<u32>,
    databases: Cell<u32>,
    _folder: Option<TempDir>,
}

impl Server {
    /// The server that the arguments or the environment name; none if one must be started.
    pub fn find(arguments: &Arguments) -> Result<Option<Self>> {
        let kind = arguments.kind();
        if kind == ServerKind::Sqlite {
            let folder = tempfile::tempdir()?;
            let url = folder.path().display().to_string();
            return Ok(Some(Self { kind, url, pid: None, databases: Cell::new(0), _folder: Some(folder) }));
        }
        let servers = arguments.servers().to_uppercase();
        let (variable, pid) =
            (format!("FIRETIME_TEST_{servers}_URL"), format!("FIRETIME_TEST_{servers}_PID"));
        let known = std::env::var(variable).ok();
        let Some(url) = arguments.database.clone().or_else(|| known.clone()) else { return Ok(None) };
        let pid = if known.as_ref() == Some(&url) { std::env::var(pid).ok() } else { None };
        let pid = pid.map(|pid| pid.parse()).transpose()?;
        Ok(Some(Self { kind, url, pid, databases: Cell::new(0), _folder: None }))
    }

    /// A new database without tables; it goes when it is dropped.
    pub fn fresh(&self) -> Result<Database<'_>> {
        let number = self.databases.replace(self.databases.get() + 1);
        let name = format!("firetime_bench_{}_{number}", std::process::id());
        let url = match self.kind {
            ServerKind::Sqlite => format!("sqlite:{}/{name}.db", self.url),
            ServerKind::Postgres | ServerKind::Mariadb => {
                self.connect()?.batch(&format!("CREATE DATABASE {name}"))?;
                beside(&self.url, &name)?
            }
        };
        Ok(Database { server: self, kind: self.kind, name, url })
    }

    fn connect(&self) -> Result<Connection> {
        Connection::open(self.kind, &self.url)
    }

    /// The server's CPU seconds so far, where they can be known.
    pub fn cpu(&self) -> Result<Option<f64>> {
        self.pid.map(process::cpu_of_family).transpose()
    }

    /// How many bytes of log PostgreSQL has written so far.
    pub fn wal(&self) -> Result<Option<i64>> {
        match self.kind {
            ServerKind::Postgres => {
                let question = "SELECT (pg_current_wal_lsn() - '0/0')::bigint AS n";
                Ok(Some(self.connect()?.number(question)?))
            }
            ServerKind::Mariadb | ServerKind::Sqlite => Ok(None),
        }
    }
}

/// The same server, another database.
fn beside(url: &str, name: &str) -> Result<String> {
    let (path, options) = url.split_once('?').map_or((url, None), |(path, options)| (path, Some(options)));
    let (server, _) = path.rsplit_once('/').ok_or("a database's URL ends with its name")?;
    Ok(options.map_or_else(|| format!("{server}/{name}"), |options| format!("{server}/{name}?{options}")))
}

/// A database of one run's own.
pub struct Database<'a> {
    server: &'a Server,
    pub kind: ServerKind,
    name: String,
    pub url: String,
}

impl Database<'_> {
    /// The URL for a node: of several hosts each has another first.
    pub fn url_of(&self, node: u16) -> String {
        let Some((login, rest)) = self.url.split_once('@') else { return self.url.clone() };
        let Some((hosts, database)) = rest.split_once('/') else { return self.url.clone() };
        let mut hosts: Vec<&str> = hosts.split(',').collect();
        let count = hosts.len();
        hosts.rotate_left(usize::from(node) % count);
        format!("{login}@{}/{database}", hosts.join(","))
    }

    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.kind, &self.url)
    }

    /// Leaves nothing of the loading to be done during the run.
    pub fn settle(&self) -> Result<()> {
        self.connect()?.batch(match self.kind {
            ServerKind::Postgres => "VACUUM ANALYZE",
            ServerKind::Mariadb => "ANALYZE TABLE QRTZ_EXECUTE, QRTZ_RUN",
            ServerKind::Sqlite => "PRAGMA wal_checkpoint(TRUNCATE)",
        })?;
        if self.kind == ServerKind::Postgres {
            self.connect()?.batch("CHECKPOINT")?;
        }
        Ok(())
    }

    /// Makes the server count commits where it does not do so by itself.
    pub fn count_commits(&self) -> Result<()> {
        if self.kind != ServerKind::Mariadb {
            return Ok(());
        }
        let mut connection = self.server.connect()?;
        MARIADB_COMMITS.iter().try_for_each(|counter| {
            connection.batch(&format!("SET GLOBAL innodb_monitor_enable = '{counter}'"))
        })
    }

    /// Commits so far by the server's own count, where it has one: PostgreSQL's of this database, MariaDB's
    /// of all.
    pub fn commits(&self) -> Result<Option<i64>> {
        let question = match self.kind {
            ServerKind::Sqlite => return Ok(None),
            ServerKind::Postgres => {
                format!("SELECT xact_commit AS n FROM pg_stat_database WHERE datname = '{}'", self.name)
            }
            ServerKind::Mariadb => format!(
                "SELECT CAST(SUM(count) AS SIGNED) AS n FROM information_schema.INNODB_METRICS \
                 WHERE name IN ('{}')",
                MARIADB_COMMITS.join("', '")
            ),
        };
        Ok(Some(self.server.connect()?.number(&question)?))
    }

    /// Waits until nobody is connected: PostgreSQL's sessions say what they did as they end.
    pub fn wait_until_left(&self) -> Result<()> {
        if self.kind != ServerKind::Postgres {
            return Ok(());
        }
        let mut connection = self.server.connect()?;
        let question = format!("SELECT COUNT(*) AS n FROM pg_stat_activity WHERE datname = '{}'", self.name);
        let began = Instant::now();
        while connection.number(&question)? > 0 {
            if began.elapsed() > Duration::from_secs(10) {
                return Err("somebody is still connected to the run's database".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        let gone = match self.kind {
            // The folder goes with the server.
            ServerKind::Sqlite => Ok(()),
            ServerKind::Postgres => self.server.connect().and_then(|mut connection| {
                connection.batch(&format!("DROP DATABASE {} WITH (FORCE)", self.name))
            }),
            ServerKind::Mariadb => self
                .server
                .connect()
                .and_then(|mut connection| connection.batch(&format!("DROP DATABASE {}", self.name))),
        };
        if let Err(error) = gone {
            eprintln!("bench: the database {} stays: {error}", self.name);
        }
    }
}

/// InnoDB's, off by default.
const MARIADB_COMMITS: [&str; 3] = ["trx_rw_commits", "trx_ro_commits", "trx_nl_ro_commits"];

/// A connection past the library, as somebody with a client of their own has.
pub enum Connection {
    #[cfg(feature = "sqlite")]
    Sqlite(diesel::SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(diesel::PgConnection),
    #[cfg(feature = "mysql")]
    Mariadb(diesel::MysqlConnection),
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = Text)]
    word: String,
    #[diesel(sql_type = BigInt)]
    n: i64,
}

macro_rules! on {
    ($connection:expr, $it:ident => $do:expr) => {
        match $connection {
            #[cfg(feature = "sqlite")]
            Connection::Sqlite($it) => $do,
            #[cfg(feature = "postgres")]
            Connection::Postgres($it) => $do,
            #[cfg(feature = "mysql")]
            Connection::Mariadb($it) => $do,
        }
    };
}

impl Connection {
    fn open(kind: ServerKind, url: &str) -> Result<Self> {
        match kind {
            #[cfg(feature = "sqlite")]
            ServerKind::Sqlite => {
                let mut connection =
                    diesel::SqliteConnection::establish(url.strip_prefix("sqlite:").unwrap_or(url))?;
                connection.batch_execute("PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL")?;
                Ok(Self::Sqlite(connection))
            }
            #[cfg(feature = "postgres")]
            ServerKind::Postgres => Ok(Self::Postgres(diesel::PgConnection::establish(url)?)),
            #[cfg(feature = "mysql")]
            ServerKind::Mariadb => {
                // The first of several hosts.
                let (before, behind) = url.split_once(',').unwrap_or((url, ""));
                let database = behind.split_once('/').map_or(String::new(), |(_, name)| format!("/{name}"));
                Ok(Self::Mariadb(diesel::MysqlConnection::establish(&format!("{before}{database}"))?))
            }
            #[allow(unreachable_patterns, reason = "with all features no kind is left")]
            other => Err(format!("this bench was built without the feature for {}", other.name()).into()),
        }
    }

    pub fn batch(&mut self, text: &str) -> Result<()> {
        on!(self, it => it.batch_execute(text)).map_err(|error| format!("{text}: {error}").into())
    }

    /// The column `n` of the only row.
    pub fn number(&mut self, question: &str) -> Result<i64> {
        let answer: QueryResult<Number> = on!(self, it => diesel::sql_query(question).get_result(it));
        Ok(answer.map_err(|error| format!("{question}: {error}"))?.n)
    }

    /// The columns `word` and `n` of all rows.
    pub fn counts(&mut self, question: &str) -> Result<Vec<(String, i64)>> {
        let answer: QueryResult<Vec<Counted>> = on!(self, it => diesel::sql_query(question).load(it));
        let rows = answer.map_err(|error| format!("{question}: {error}"))?;
        Ok(rows.into_iter().map(|row| (row.word, row.n)).collect())
    }
}

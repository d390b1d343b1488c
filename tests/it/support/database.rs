//! A fresh database for each test that asks for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use tempfile::TempDir;

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
    #[cfg(feature = "mysql")]
    Mariadb,
}

/// Every kind this build can speak to.
pub fn all() -> Vec<ServerKind> {
    vec![
        #[cfg(feature = "sqlite")]
        ServerKind::Sqlite,
        #[cfg(feature = "postgres")]
        ServerKind::Postgres,
        #[cfg(feature = "mysql")]
        ServerKind::Mariadb,
    ]
}

/// A database of a test's own.
#[derive(Clone)]
pub struct Database {
    pub kind: ServerKind,
    pub url: String,
    /// Removed with the last handle.
    _folder: Option<Arc<TempDir>>,
}

impl Database {
    /// The same database by another URL.
    pub fn at(self, url: String) -> Self {
        Self { url, ..self }
    }

    /// Runs SQL past the library, as somebody with a client of their own does.
    pub fn batch(&self, text: &str) {
        self.try_batch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// As [`Database::batch`], for what may be refused.
    pub fn try_batch(&self, text: &str) -> QueryResult<()> {
        match self.kind {
            #[cfg(feature = "sqlite")]
            ServerKind::Sqlite => self.file().batch_execute(text),
            #[cfg(feature = "postgres")]
            ServerKind::Postgres => diesel::PgConnection::establish(&self.url).unwrap().batch_execute(text),
            #[cfg(feature = "mysql")]
            ServerKind::Mariadb => diesel::MysqlConnection::establish(&self.url).unwrap().batch_execute(text),
        }
    }

    /// How many rows of a table or a view there are under a condition.
    pub fn count(&self, table: &str, condition: &str) -> i64 {
        let question = diesel::dsl::sql::<diesel::sql_types::BigInt>(&format!(
            "SELECT COUNT(*) FROM {table} {condition}"
        ));
        let counted = match self.kind {
            #[cfg(feature = "sqlite")]
            ServerKind::Sqlite => question.get_result(&mut self.file()),
            #[cfg(feature = "postgres")]
            ServerKind::Postgres => {
                question.get_result(&mut diesel::PgConnection::establish(&self.url).unwrap())
            }
            #[cfg(feature = "mysql")]
            ServerKind::Mariadb => {
                question.get_result(&mut diesel::MysqlConnection::establish(&self.url).unwrap())
            }
        };
        counted.unwrap()
    }

    /// A connection to SQLite's file. It waits: a node that was killed leaves a file that the next one mends.
    #[cfg(feature = "sqlite")]
    fn file(&self) -> diesel::SqliteConnection {
        let file = self.url.strip_prefix("sqlite:").unwrap();
        let mut connection = diesel::SqliteConnection::establish(file).unwrap();
        connection.batch_execute("PRAGMA busy_timeout = 10000").unwrap();
        connection
    }

    /// The same database as a role with the password `secret`.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub fn as_role(&self, role: &str) -> Self {
        self.clone().at(as_role(&self.url, role))
    }
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

fn fresh_name() -> String {
    format!("it_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

impl ServerKind {
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => "sqlite",
            #[cfg(feature = "postgres")]
            Self::Postgres => "postgres",
            #[cfg(feature = "mysql")]
            Self::Mariadb => "mariadb",
        }
    }

    /// A new, empty database of a server, or a cluster of them; `run` runs SQL there.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub fn fresh_at(self, server: &str, run: impl FnOnce(&str)) -> Database {
        let name = fresh_name();
        run(&format!("CREATE DATABASE {name}"));
        Database { kind: self, url: beside(server, &name), _folder: None }
    }

    /// A new, empty database.
    pub fn fresh(self) -> Database {
        let name = fresh_name();
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => {
                let folder = Arc::new(tempfile::tempdir().unwrap());
                let url = format!("sqlite:{}", folder.path().join(name).with_extension("db").display());
                Database { kind: self, url, _folder: Some(folder) }
            }
            #[cfg(feature = "postgres")]
            Self::Postgres => {
                let server = server("FIRETIME_TEST_POSTGRES_URL");
                let mut connection = diesel::PgConnection::establish(&server).unwrap();
                connection.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
                Database { kind: self, url: beside(&server, &name), _folder: None }
            }
            #[cfg(feature = "mysql")]
            Self::Mariadb => {
                let server = server("FIRETIME_TEST_MARIADB_URL");
                let mut connection = diesel::MysqlConnection::establish(&server).unwrap();
                connection.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
                Database { kind: self, url: beside(&server, &name), _folder: None }
            }
        }
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run the tests by scripts/test.sh or scripts/with-servers.sh")
    })
}

impl Database {
    /// A role that owns this database and nothing else, as an application's would, and its URL. SQLite has
    /// none.
    pub fn common_role(&self) -> (String, String) {
        let name = self.url.rsplit('/').next().unwrap().to_owned();
        match self.kind {
            #[cfg(feature = "sqlite")]
            ServerKind::Sqlite => (name, self.url.clone()),
            #[cfg(feature = "postgres")]
            ServerKind::Postgres => {
                let mut connection = diesel::PgConnection::establish(&self.url).unwrap();
                let make = format!(
                    "CREATE ROLE {name} LOGIN PASSWORD 'secret'; ALTER DATABASE {name} OWNER TO {name}"
                );
                connection.batch_execute(&make).unwrap();
                let url = as_role(&self.url, &name);
                (name, url)
            }
            #[cfg(feature = "mysql")]
            ServerKind::Mariadb => {
                let mut connection = diesel::MysqlConnection::establish(&self.url).unwrap();
                let make = format!(
                    "CREATE USER {name}@'%' IDENTIFIED BY 'secret'; GRANT ALL ON {name}.* TO {name}@'%'"
                );
                connection.batch_execute(&make).unwrap();
                let url = as_role(&self.url, &name);
                (name, url)
            }
        }
    }
}

/// The same database, another role with the password `secret`.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn as_role(url: &str, role: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (_, host) = rest.split_once('@').unwrap();
    format!("{scheme}://{role}:secret@{host}")
}

/// The same server, another database.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn beside(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').unwrap();
    format!("{server}/{name}")
}

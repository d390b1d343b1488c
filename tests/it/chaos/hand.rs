//! The test's own hand in the database: plain SQL past the library and past the proxies.

#[cfg(feature = "mysql")]
use std::{io::Read, net::TcpStream, time::Duration};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;

use crate::support::database::ServerKind;

pub enum Hand {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(PgConnection),
    #[cfg(feature = "mysql")]
    Mariadb(MysqlConnection),
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

/// The URLs of a URL's hosts, the first one's first.
pub fn each_host(url: &str) -> Vec<String> {
    let (before, hosts) = url.split_once('@').unwrap();
    let (hosts, behind) = hosts.split_once('/').unwrap();
    hosts.split(',').map(|host| format!("{before}@{host}/{behind}")).collect()
}

/// Whether a MariaDB server says the first word.
#[cfg(feature = "mysql")]
fn greets(url: &str) -> std::io::Result<()> {
    const WAIT: Duration = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&super::cluster::address(url), WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.read_exact(&mut [0])
}

/// On a member of a cluster whatever others have committed is seen. Of several it is one that has a majority.
#[cfg(feature = "mysql")]
fn at_member(url: &str, is_one_of_several: bool) -> ConnectionResult<MysqlConnection> {
    // The client would wait for a frozen server for ever.
    greets(url).map_err(|error| ConnectionError::BadConnection(error.to_string()))?;
    let mut connection = MysqlConnection::establish(url)?;
    let mut set_up = |sql| connection.batch_execute(sql).map_err(ConnectionError::CouldntSetupConfiguration);
    set_up("SET SESSION wsrep_sync_wait = 15, max_statement_time = 20")?;
    if is_one_of_several {
        set_up("SELECT COUNT(*) FROM mysql.plugin")?;
    }
    Ok(connection)
}

impl Hand {
    pub fn open(kind: ServerKind, url: &str) -> ConnectionResult<Self> {
        match kind {
            #[cfg(feature = "sqlite")]
            ServerKind::Sqlite => {
                let mut connection = SqliteConnection::establish(url.trim_start_matches("sqlite:"))?;
                connection.batch_execute("PRAGMA busy_timeout = 20000").unwrap();
                Ok(Self::Sqlite(connection))
            }
            #[cfg(feature = "postgres")]
            ServerKind::Postgres => {
                let url = if url.contains(',') {
                    format!("{url}?target_session_attrs=read-write&connect_timeout=2")
                } else {
                    url.to_owned()
                };
                PgConnection::establish(&url).map(Self::Postgres)
            }
            #[cfg(feature = "mysql")]
            ServerKind::Mariadb => {
                let hosts = each_host(url);
                let mut opened = hosts.iter().map(|url| at_member(url, hosts.len() > 1));
                let first = opened.next().unwrap();
                first.or_else(|error| opened.find(Result::is_ok).unwrap_or(Err(error))).map(Self::Mariadb)
            }
        }
    }

    /// Runs statements without binds.
    pub fn run(&mut self, text: &str) -> QueryResult<()> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(connection) => connection.batch_execute(text),
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => connection.batch_execute(text),
            #[cfg(feature = "mysql")]
            Self::Mariadb(connection) => connection.batch_execute(text),
        }
    }

    /// Runs one statement, prepared.
    pub fn prepared(&mut self, text: &str) -> QueryResult<()> {
        let statement = diesel::sql_query(text);
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(connection) => statement.execute(connection),
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => statement.execute(connection),
            #[cfg(feature = "mysql")]
            Self::Mariadb(connection) => statement.execute(connection),
        }
        .map(drop)
    }

    /// What `SELECT CONCAT_WS('|', columns) AS line tail` says, split again. No column may be NULL.
    pub fn rows(&mut self, columns: &str, tail: &str) -> Vec<Vec<String>> {
        self.try_rows(columns, tail).unwrap()
    }

    /// The same of a server that may be away.
    pub fn try_rows(&mut self, columns: &str, tail: &str) -> QueryResult<Vec<Vec<String>>> {
        let query = diesel::sql_query(format!("SELECT CONCAT_WS('|', {columns}) AS line {tail}"));
        let lines: Vec<Line> = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(connection) => query.load(connection),
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => query.load(connection),
            #[cfg(feature = "mysql")]
            Self::Mariadb(connection) => query.load(connection),
        }?;
        Ok(lines.into_iter().map(|it| it.line.split('|').map(str::to_owned).collect()).collect())
    }
}

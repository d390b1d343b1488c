//! The test's own hand in the database: plain SQL past the library and past the proxies.

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
            ServerKind::Postgres => PgConnection::establish(url).map(Self::Postgres),
            #[cfg(feature = "mysql")]
            ServerKind::Mariadb => MysqlConnection::establish(url).map(Self::Mariadb),
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
        let query = diesel::sql_query(format!("SELECT CONCAT_WS('|', {columns}) AS line {tail}"));
        let lines: Vec<Line> = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(connection) => query.load(connection).unwrap(),
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => query.load(connection).unwrap(),
            #[cfg(feature = "mysql")]
            Self::Mariadb(connection) => query.load(connection).unwrap(),
        };
        lines.into_iter().map(|it| it.line.split('|').map(str::to_owned).collect()).collect()
    }
}

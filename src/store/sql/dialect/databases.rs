//! The room of each database.

use super::Dialect;
use super::database::Database;
use super::mariadb::Mariadb;
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use crate::store::StoreLimits;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::session::fault::Step;

impl Dialect {
    /// What this database does in its own way.
    pub(crate) fn database(self) -> &'static dyn Database {
        self.choose::<&'static dyn Database>(&Sqlite, &Postgres, &Mariadb)
    }
}

impl Target {
    /// See [`Database::connect`].
    pub(crate) fn connect(&self, limits: StoreLimits) -> Step<Opened> {
        self.dialect.database().connect(self, limits)
    }

    /// See [`Database::connect_first`].
    pub(crate) fn connect_first(&self, limits: StoreLimits) -> Step<Opened> {
        self.dialect.database().connect_first(self, limits)
    }
}

//! The room of each database.

use super::database::Database;
use super::dialect::Dialect;
use super::fault::Step;
use super::mariadb::Mariadb;
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::target::{Opened, Target};
use crate::store::StoreLimits;

impl Dialect {
    /// What this database does in its own way.
    pub(super) fn database(self) -> &'static dyn Database {
        self.choose::<&'static dyn Database>(&Sqlite, &Postgres, &Mariadb)
    }
}

impl Target {
    /// See [`Database::connect`].
    pub(super) fn connect(&self, limits: StoreLimits) -> Step<Opened> {
        self.dialect.database().connect(self, limits)
    }

    /// See [`Database::connect_first`].
    pub(super) fn connect_first(&self, limits: StoreLimits) -> Step<Opened> {
        self.dialect.database().connect_first(self, limits)
    }
}

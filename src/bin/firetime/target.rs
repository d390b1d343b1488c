//! The target of a command: an application and its database.

use std::fmt;

/// The environment variable that holds the database's URL, unless the command line names a file with it.
pub(crate) const URL_VARIABLE: &str = "FIRETIME_DATABASE_URL";

/// The environment variable that holds the application's name, unless the command line does.
pub(crate) const APPLICATION_VARIABLE: &str = "FIRETIME_APPLICATION";

/// One application in one database.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) application: String,
    pub(crate) database: Database,
}

/// A database by its URL, which may hold a password and so is never shown.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) url: String,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Database(***)")
    }
}

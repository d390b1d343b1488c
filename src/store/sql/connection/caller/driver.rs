//! Connections of async drivers: what a request needs of one.
//!
//! An [`AsyncConnection`] runs single statements, under one savepoint in the transaction that its user has
//! begun. These are such connections, each with the feature of its driver's name:
//!
//! | feature | connections |
//! |---|---|
//! | `sqlx` | `PgConnection`, `MySqlConnection`, `SqliteConnection`, and a `Transaction` of each |
//! | `tokio-postgres` | `Transaction` |
//! | `diesel-async` | `AsyncPgConnection`, `AsyncMysqlConnection` |
//!
//! Any other becomes one by implementing the trait: it knows how to run a statement and what the driver calls
//! its errors, and decides nothing.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

pub use crate::store::sql::session::statement::Value;

use crate::domain::Source;
pub use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::fault::{Fault, FaultKind};
use crate::store::sql::session::statement::Statement;

/// One statement of SQL and the values of its placeholders.
#[derive(Clone, Debug)]
pub struct Query {
    pub(super) statement: Statement,
    pub(super) dialect: Dialect,
}

impl Query {
    /// Its text: placeholders are `$1`, `$2` and so on for PostgreSQL, and `?` for the others. The same
    /// question has the same text each time, so a driver may keep it prepared.
    pub fn text(&self) -> Cow<'_, str> {
        self.dialect.numbered(&self.statement.text)
    }

    /// The values of the placeholders, in their order.
    pub fn values(&self) -> &[Value] {
        &self.statement.binds
    }

    /// The same, for who keeps them.
    pub fn into_values(self) -> Vec<Value> {
        self.statement.binds
    }
}

/// A connection of an async driver, with a transaction that its user has begun.
pub trait AsyncConnection: Send {
    /// A savepoint in the open transaction.
    type Savepoint<'s>: Savepoint
    where
        Self: 's;

    /// The database that it leads to.
    fn dialect(&self) -> Dialect;

    /// Begins a savepoint. A future that is dropped halfway leaves the transaction as it was, but for the
    /// savepoint.
    ///
    /// # Errors
    /// [`DriverError::no_transaction`] where no transaction is open; or the driver's.
    fn save(&mut self) -> impl Future<Output = Result<Self::Savepoint<'_>, DriverError>> + Send;
}

/// A savepoint under which the statements of a request run, one after the other.
///
/// Dropped before it is released, perhaps in the middle of a statement, it undoes what was done under it:
/// the driver rolls back to it before it does anything else, or refuses to commit. No half of a request may
/// be committed.
pub trait Savepoint: Send {
    /// Runs a statement that answers with no rows; gives the number of rows that it matched. On MariaDB these
    /// are those that meet its condition, whether it changes them or not (`CLIENT_FOUND_ROWS`).
    ///
    /// # Errors
    /// The driver's.
    fn execute(&mut self, query: Query) -> impl Future<Output = Result<u64, DriverError>> + Send;

    /// Runs a statement that answers with rows: each a list of [`Value::Int`], [`Value::Text`] or
    /// [`Value::Null`].
    ///
    /// # Errors
    /// The driver's. A value that is of another type, or no UTF-8, is NULL and no error.
    fn rows(&mut self, query: Query) -> impl Future<Output = Result<Vec<Vec<Value>>, DriverError>> + Send;

    /// Releases the savepoint: what was done under it belongs to the caller's transaction. A future that is
    /// dropped halfway keeps all of it or nothing, or the driver refuses to commit.
    ///
    /// # Errors
    /// The driver's.
    fn release(self) -> impl Future<Output = Result<(), DriverError>> + Send;

    /// Rolls back to the savepoint.
    ///
    /// # Errors
    /// The driver's.
    fn roll_back(self) -> impl Future<Output = Result<(), DriverError>> + Send;
}

/// An error of a driver. It has no kind, since what an error means depends on the database; the
/// [`Error`](crate::Error) of the request has one.
///
/// ```
/// use std::error::Error;
/// use firetime::driver::DriverError;
/// let error = DriverError::database("40001", None, "could not serialize access");
/// assert_eq!(error.to_string(), "the database's error 40001");
/// assert_eq!(error.source().unwrap().to_string(), "could not serialize access");
/// ```
#[derive(Clone, Debug)]
pub struct DriverError(Cause);

#[derive(Clone, Debug)]
enum Cause {
    Coded { code: String, constraint: Option<String>, cause: Source },
    Fault(Fault),
}

impl DriverError {
    /// The database's: its SQLSTATE on PostgreSQL, the error's number on MariaDB, the extended result code on
    /// SQLite; and the constraint that it names, if it names one.
    pub fn database(
        code: impl Into<String>,
        constraint: Option<&str>,
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let (code, constraint) = (code.into(), constraint.map(str::to_owned));
        Self(Cause::Coded { code, constraint, cause: Arc::from(cause.into()) })
    }

    /// The connection is gone, or cannot be trusted any more.
    pub fn lost(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Cause::Fault(Fault::caused(FaultKind::Lost, cause)))
    }

    /// The server has ended the transaction, though the caller has not.
    pub fn ended(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Cause::Fault(Fault::caused(FaultKind::Ended, cause)))
    }

    /// The driver cannot read an answer, or send a value.
    pub fn unreadable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Cause::Fault(Fault::caused(FaultKind::Undecodable, cause)))
    }

    /// No transaction is open, as far as the driver knows; `how` says how one is begun.
    pub fn no_transaction(how: &str) -> Self {
        let message =
            format!("the connection has no transaction that its driver knows of: begin it with {how}");
        Self(Cause::Fault(Fault::new(FaultKind::Senseless, message)))
    }

    /// What the error means.
    pub(super) fn fault(self, dialect: Dialect) -> Fault {
        match self.0 {
            Cause::Fault(fault) => fault,
            Cause::Coded { code, constraint, cause } => {
                dialect.database().coded(&code, constraint.as_deref(), cause)
            }
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Coded { code, .. } => write!(f, "the database's error {code}"),
            Cause::Fault(fault) => fault.fmt(f),
        }
    }
}

impl StdError for DriverError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0 {
            Cause::Coded { cause, .. } => Some(&**cause),
            Cause::Fault(fault) => fault.source(),
        }
    }
}

#[cfg(feature = "diesel-async")]
impl From<Fault> for DriverError {
    fn from(fault: Fault) -> Self {
        Self(Cause::Fault(fault))
    }
}

/// A text; NULL if it is no UTF-8.
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
pub(super) fn text(bytes: &[u8]) -> Value {
    str::from_utf8(bytes).map_or(Value::Null, |text| Value::Text(text.to_owned()))
}

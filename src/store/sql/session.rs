//! Diesel behind one small trait, so that its generics end here.
//!
//! A statement reaches diesel as a query fragment that allows caching: diesel then keeps its prepared form
//! by text, which it never does for `sql_query`, UPDATE, or an INSERT of several rows.

use diesel::backend::Backend;
use diesel::deserialize::{self, QueryableByName};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::DatabaseErrorKind;
use diesel::row::{Field, NamedRow};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, HasSqlType, Nullable, Text, Untyped};
use diesel::{QueryResult, RunQueryDsl};

use super::connection::Dialect;
use super::statement::{Row, Statement, Value};
use crate::domain::Kind;

/// What an error means for the statement that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    /// A deadlock, a lock or statement timeout, a busy database: the same may work a moment later.
    Busy,
    /// A row changed between our reading it and our guarded change of it.
    Conflict,
    /// What was asked for cannot be; the database was not needed to say so.
    Senseless,
    /// A row with the same unique key is there already.
    Duplicate,
    /// The database refused what the row holds: the same would be refused again.
    Row,
    /// The database understood and said no, for a reason that may pass: read-only, cancelled, disk full.
    Refused,
    /// This session may not write: its server is a standby, or was made read-only. Another session may.
    ReadOnly,
    /// The connection is gone or cannot be trusted.
    Lost,
    /// The commit's answer is missing.
    Unknown,
    /// A value came back that cannot be understood.
    Undecodable,
}

impl Nature {
    /// Whether another try may go better.
    pub(super) fn passes(self) -> bool {
        matches!(self, Self::Busy | Self::Conflict)
    }

    /// What callers are told.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Unknown => Kind::Unknown,
            Self::Lost | Self::Busy => Kind::Unavailable,
            Self::Conflict => Kind::Conflict,
            Self::Senseless => Kind::Config,
            Self::Refused | Self::ReadOnly => Kind::Refused,
            Self::Row | Self::Duplicate | Self::Undecodable => Kind::Data,
        }
    }
}

/// An error of one statement, before anybody knows what it means for the call.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(super) nature: Nature,
    pub(super) message: String,
}

impl Fault {
    /// Drivers break their messages into lines, and logs would show the breaks as escapes: the message
    /// becomes one line.
    pub(super) fn new(nature: Nature, message: impl Into<String>) -> Self {
        let message = message.into();
        let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
        Self { nature, message: lines.collect::<Vec<_>>().join("; ") }
    }

    pub(super) fn undecodable(message: String) -> Self {
        Self::new(Nature::Undecodable, message)
    }
}

/// A connection on which statements run.
pub trait Session {
    #[doc(hidden)]
    fn dialect(&self) -> Dialect;

    /// Runs a statement; answers how many rows it matched.
    #[doc(hidden)]
    fn execute(&mut self, statement: &Statement) -> Result<usize, Fault>;

    /// Runs a statement that answers with rows.
    #[doc(hidden)]
    fn rows(&mut self, statement: &Statement) -> Result<Vec<Row>, Fault>;

    /// Runs a statement that changes nothing; hands its rows on one by one, those of PostgreSQL and SQLite
    /// while others are still on their way. (A change would count as made with its last row, and diesel would
    /// not tell that its commit failed.) What `see` takes counts towards the statement's time limit.
    #[doc(hidden)]
    fn each(
        &mut self,
        question: &Statement,
        see: &mut dyn FnMut(Row) -> Result<(), Fault>,
    ) -> Result<(), Fault>;

    /// Runs several statements given as text, without binds.
    #[doc(hidden)]
    fn batch(&mut self, text: &str) -> Result<(), Fault>;

    /// From now on statements take as long as they do, also where this session gives them up.
    #[doc(hidden)]
    fn wait(&mut self) {}
}

/// A statement's text between its binds, and these: taken apart once, for diesel walks it several times.
struct Sql<'a> {
    first: &'a str,
    binds: Vec<(&'a Value, &'a str)>,
}

impl<'a> Sql<'a> {
    fn of(statement: &'a Statement) -> Result<Self, Fault> {
        let mut pieces = statement.text.split('?');
        let first = pieces.next().unwrap_or_default();
        let behind: Vec<&str> = pieces.collect();
        if behind.len() != statement.binds.len() {
            return Err(Fault::new(Nature::Refused, "a statement has another number of binds"));
        }
        Ok(Self { first, binds: statement.binds.iter().zip(behind).collect() })
    }
}

impl QueryId for Sql<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Sql<'_> {
    type SqlType = Untyped;
}

impl<C> RunQueryDsl<C> for Sql<'_> {}

/// Binds a whole column at once, where the backend has a type for that.
trait Columns: Backend {
    fn push<'b>(_column: &'b Value, _out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        Err(diesel::result::Error::QueryBuilderError("only PostgreSQL binds a column at once".into()))
    }
}

#[cfg(feature = "sqlite")]
impl Columns for diesel::sqlite::Sqlite {}

#[cfg(feature = "mysql")]
impl Columns for diesel::mysql::Mysql {}

#[cfg(feature = "postgres")]
impl Columns for diesel::pg::Pg {
    fn push<'b>(column: &'b Value, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        use diesel::sql_types::Array;
        match column {
            Value::Ints(values) => out.push_bind_param::<Array<BigInt>, _>(&**values),
            Value::Texts(values) => out.push_bind_param::<Array<Text>, _>(&**values),
            Value::Int(_) | Value::Text(_) | Value::Null => Ok(()),
        }
    }
}

impl<DB> QueryFragment<DB> for Sql<'_>
where
    DB: Columns + HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, DB>,
    String: ToSql<Text, DB>,
    Option<String>: ToSql<Nullable<Text>, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql(self.first);
        for (bind, piece) in &self.binds {
            match bind {
                Value::Int(value) => out.push_bind_param::<BigInt, _>(value)?,
                Value::Text(value) => out.push_bind_param::<Text, _>(value)?,
                Value::Null => out.push_bind_param::<Nullable<Text>, Option<String>>(&None)?,
                column @ (Value::Ints(_) | Value::Texts(_)) => DB::push(column, &mut out)?,
            }
            out.push_sql(piece);
        }
        Ok(())
    }
}

/// Classifies an error by everything diesel tells: its kind, and the text where that is not enough. Texts
/// of PostgreSQL may be in any language, so what is not recognised counts as refused here, and the caller
/// asks the connection whether it still lives before it believes that.
pub(super) fn fault(error: diesel::result::Error) -> Fault {
    use diesel::result::Error::{BrokenTransactionManager, DatabaseError, DeserializationError};
    let nature = match &error {
        DatabaseError(DatabaseErrorKind::SerializationFailure, _) => Nature::Busy,
        // Ids are the database's to give: with its sequence behind them no row is at fault.
        DatabaseError(DatabaseErrorKind::UniqueViolation, information)
            if information.constraint_name() == Some("qrtz_run_pkey") =>
        {
            Nature::Refused
        }
        DatabaseError(DatabaseErrorKind::UniqueViolation, _) => Nature::Duplicate,
        DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _) => Nature::ReadOnly,
        DatabaseError(
            DatabaseErrorKind::NotNullViolation
            | DatabaseErrorKind::CheckViolation
            | DatabaseErrorKind::ForeignKeyViolation
            | DatabaseErrorKind::ExclusionViolation,
            _,
        ) => Nature::Row,
        DatabaseError(DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand, _)
        | BrokenTransactionManager => Nature::Lost,
        DatabaseError(DatabaseErrorKind::Unknown, information) => by_text(information.message()),
        DeserializationError(_) => Nature::Undecodable,
        _ => Nature::Refused,
    };
    Fault::new(nature, explained(error.to_string()))
}

/// A driver's message, with its likely reason where a prepared statement of PostgreSQL is missing or there
/// already: the names are the driver's, in any language.
pub(super) fn explained(message: String) -> String {
    if !message.contains("__diesel_stmt_") && !message.contains("unnamed prepared statement") {
        return message;
    }
    format!(
        "{message} (is this a pooler that shares its sessions between clients? firetime needs session mode)"
    )
}

fn by_text(message: &str) -> Nature {
    const BUSY: [&str; 9] = [
        "database is locked",
        "database table is locked",
        "database schema is locked",
        "deadlock",
        "lock timeout",
        "lock wait timeout",
        "statement timeout",
        "could not serialize access",
        "record has changed since last read",
    ];
    const LOST: [&str; 8] = [
        "server has gone away",
        "lost connection",
        "server closed the connection",
        "no connection to the server",
        "could not receive data",
        "could not send data",
        "commands out of sync",
        "connection was killed",
    ];
    const ROW: [&str; 7] = [
        "out of range",
        "value too long",
        "data too long",
        "incorrect string value",
        "invalid byte sequence",
        "no equivalent in encoding",
        "datatype mismatch",
    ];
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&LOST) {
        Nature::Lost
    } else if says(&BUSY) {
        Nature::Busy
    } else if says(&ROW) {
        Nature::Row
    } else {
        Nature::Refused
    }
}

/// Reads a row, or what of it can be read: a value of a type we never write (SQLite keeps any in any column),
/// or a text that is no UTF-8, reads as NULL. One such row must not make its whole question fail.
fn values<'a, DB: Backend>(
    row: &impl NamedRow<'a, DB>,
    decode: impl Fn(DB::RawValue<'_>) -> deserialize::Result<Value>,
) -> deserialize::Result<Row> {
    let mut values = Vec::with_capacity(diesel::row::Row::field_count(row));
    for index in 0..diesel::row::Row::field_count(row) {
        let field = diesel::row::Row::get(row, index).ok_or("a column is missing")?;
        values.push(field.value().map_or(Ok(Value::Null), &decode)?);
    }
    Ok(Row::new(values))
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
fn text_or_null(bytes: &[u8]) -> Value {
    str::from_utf8(bytes).map_or(Value::Null, Value::from)
}

macro_rules! session {
    ($connection:ty, $dialect:expr, $loading:ty) => {
        impl Session for $connection {
            fn dialect(&self) -> Dialect {
                $dialect
            }

            fn execute(&mut self, statement: &Statement) -> Result<usize, Fault> {
                RunQueryDsl::execute(Sql::of(statement)?, self).map_err(fault)
            }

            fn rows(&mut self, statement: &Statement) -> Result<Vec<Row>, Fault> {
                RunQueryDsl::load(Sql::of(statement)?, self).map_err(fault)
            }

            fn each(
                &mut self,
                question: &Statement,
                see: &mut dyn FnMut(Row) -> Result<(), Fault>,
            ) -> Result<(), Fault> {
                let question = Sql::of(question)?;
                let mut rows = RunQueryDsl::load_iter::<Row, $loading>(question, self).map_err(fault)?;
                rows.try_for_each(|row| see(row.map_err(fault)?))
            }

            fn batch(&mut self, text: &str) -> Result<(), Fault> {
                diesel::connection::SimpleConnection::batch_execute(self, text).map_err(fault)
            }
        }
    };
}

#[cfg(feature = "sqlite")]
session!(diesel::SqliteConnection, Dialect::Sqlite, diesel::connection::DefaultLoadingMode);
#[cfg(feature = "postgres")]
session!(diesel::PgConnection, Dialect::Postgres, diesel::pg::PgRowByRowLoadingMode);
#[cfg(feature = "mysql")]
session!(diesel::MysqlConnection, Dialect::Mysql, diesel::connection::DefaultLoadingMode);

#[cfg(feature = "sqlite")]
impl QueryableByName<diesel::sqlite::Sqlite> for Row {
    fn build<'a>(row: &impl NamedRow<'a, diesel::sqlite::Sqlite>) -> deserialize::Result<Self> {
        use diesel::sqlite::SqliteType;
        values(row, |mut value| match value.value_type() {
            None => Ok(Value::Null),
            Some(SqliteType::SmallInt | SqliteType::Integer | SqliteType::Long) => {
                Ok(Value::Int(value.read_long()))
            }
            Some(SqliteType::Text) => {
                let text = value.read_text().to_owned();
                // What is no UTF-8 comes with this character in its place.
                let replaced = text.contains('\u{fffd}') && str::from_utf8(value.read_blob()).is_err();
                Ok(if replaced { Value::Null } else { Value::Text(text) })
            }
            Some(_) => Ok(Value::Null),
        })
    }
}

#[cfg(feature = "postgres")]
impl QueryableByName<diesel::pg::Pg> for Row {
    fn build<'a>(row: &impl NamedRow<'a, diesel::pg::Pg>) -> deserialize::Result<Self> {
        use diesel::deserialize::FromSql;
        use diesel::pg::Pg;
        use diesel::sql_types::{Integer, SmallInt};
        values(row, |value| match value.get_oid().get() {
            20 => FromSql::<BigInt, Pg>::from_sql(value).map(Value::Int),
            23 => <i32 as FromSql<Integer, Pg>>::from_sql(value).map(|value| Value::Int(value.into())),
            21 => <i16 as FromSql<SmallInt, Pg>>::from_sql(value).map(|value| Value::Int(value.into())),
            19 | 25 | 1042 | 1043 => Ok(text_or_null(value.as_bytes())),
            other => Err(format!("a column has the type number {other}").into()),
        })
    }
}

#[cfg(feature = "mysql")]
impl QueryableByName<diesel::mysql::Mysql> for Row {
    fn build<'a>(row: &impl NamedRow<'a, diesel::mysql::Mysql>) -> deserialize::Result<Self> {
        use diesel::deserialize::FromSql;
        use diesel::mysql::{Mysql, MysqlType};
        values(row, |value| match value.value_type() {
            MysqlType::String | MysqlType::Blob | MysqlType::Enum => Ok(text_or_null(value.as_bytes())),
            _ => FromSql::<BigInt, Mysql>::from_sql(value).map(Value::Int),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_may_pass_is_not_taken_for_the_rows_fault() {
        let passing = [
            "canceling statement due to user request",
            "cannot execute UPDATE in a read-only transaction",
            "Query execution was interrupted",
            "The MariaDB server is running with the --read-only option so it cannot execute this statement",
            "could not extend file: No space left on device",
            "database or disk is full",
            "attempt to write a readonly database",
            "permission denied for table qrtz_run",
        ];
        for message in passing {
            assert_eq!(by_text(message), Nature::Refused, "{message}");
        }
        for message in ["Out of range value for column 'x'", "value too long for type character varying(20)"]
        {
            assert_eq!(by_text(message), Nature::Row, "{message}");
        }
    }
}

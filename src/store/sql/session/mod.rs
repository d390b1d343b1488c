//! Diesel behind one small trait, so that its generics end here.
//!
//! A statement reaches diesel as a query fragment that allows caching: diesel then keeps its prepared form
//! by text, which it never does for `sql_query`, UPDATE, or an INSERT of several rows.

pub(super) mod batch;
pub(super) mod fault;
pub(super) mod statement;

use std::collections::{BTreeSet, HashSet};

use diesel::backend::Backend;
use diesel::deserialize;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::row::{Field, NamedRow};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, HasSqlType, Nullable, Text, Untyped};
use diesel::{QueryResult, RunQueryDsl};

use self::fault::{Fault, FaultKind, Step};
use self::statement::{Row, Statement, Value, single, sql};
use super::dialect::Dialect;
use crate::domain::Timestamp;
use crate::store::columns::Cell;

/// A connection on which statements run.
pub trait Session {
    #[doc(hidden)]
    fn dialect(&self) -> Dialect;

    /// Runs a statement; answers how many rows it matched.
    #[doc(hidden)]
    fn execute(&mut self, statement: &Statement) -> Step<usize>;

    /// Runs a statement that answers with rows.
    #[doc(hidden)]
    fn rows(&mut self, statement: &Statement) -> Step<Vec<Row>>;

    /// Runs a statement that changes nothing; hands its rows on one by one, those of PostgreSQL and SQLite
    /// while others are still on their way. (A change would count as made with its last row, and diesel would
    /// not tell that its commit failed.) What `see` takes counts towards the statement's time limit.
    #[doc(hidden)]
    fn each(&mut self, question: &Statement, see: &mut dyn FnMut(Row) -> Step<()>) -> Step<()>;

    /// Runs several statements given as text, without binds.
    #[doc(hidden)]
    fn batch(&mut self, text: &str) -> Step<()>;

    /// Whether its server is one of several that certify each other's commits (Galera): it may lag behind the
    /// others, and a lock on a row keeps nobody on another of them from changing it.
    #[doc(hidden)]
    fn certifies(&self) -> bool {
        false
    }

    /// Whether its commits tell those who listen.
    #[doc(hidden)]
    fn tells(&self) -> bool {
        self.dialect().notifies()
    }

    /// From now on statements take as long as they do, also where this session gives them up.
    #[doc(hidden)]
    fn wait(&mut self) {}
}

/// Statements to run on a session.
pub type Work<'a> = &'a mut dyn FnMut(&mut dyn Session) -> Step<()>;

impl<S: Session + ?Sized> Session for &mut S {
    fn dialect(&self) -> Dialect {
        (**self).dialect()
    }

    fn execute(&mut self, statement: &Statement) -> Step<usize> {
        (**self).execute(statement)
    }

    fn rows(&mut self, statement: &Statement) -> Step<Vec<Row>> {
        (**self).rows(statement)
    }

    fn each(&mut self, question: &Statement, see: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
        (**self).each(question, see)
    }

    fn batch(&mut self, text: &str) -> Step<()> {
        (**self).batch(text)
    }

    fn certifies(&self) -> bool {
        (**self).certifies()
    }

    fn tells(&self) -> bool {
        (**self).tells()
    }

    fn wait(&mut self) {
        (**self).wait();
    }
}

/// A session whose commits tell nobody.
pub(crate) struct Silent<'s>(pub(crate) &'s mut dyn Session);

impl Session for Silent<'_> {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    fn execute(&mut self, statement: &Statement) -> Step<usize> {
        self.0.execute(statement)
    }

    fn rows(&mut self, statement: &Statement) -> Step<Vec<Row>> {
        self.0.rows(statement)
    }

    fn each(&mut self, question: &Statement, see: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
        self.0.each(question, see)
    }

    fn batch(&mut self, text: &str) -> Step<()> {
        self.0.batch(text)
    }

    fn certifies(&self) -> bool {
        self.0.certifies()
    }

    fn tells(&self) -> bool {
        false
    }
}

impl dyn Session + '_ {
    /// Reads each row of an answer.
    pub(crate) fn all<T, C: FromIterator<T>>(
        &mut self,
        question: &Statement,
        mut read: impl FnMut(&mut Row) -> Step<T>,
    ) -> Step<C> {
        self.rows(question)?.into_iter().map(|mut row| read(&mut row)).collect()
    }

    /// Reads the only row of an answer, if it has one.
    pub(crate) fn one<T>(
        &mut self,
        question: &Statement,
        read: impl FnOnce(&mut Row) -> Step<T>,
    ) -> Step<Option<T>> {
        self.rows(question)?.pop().map(|mut row| read(&mut row)).transpose()
    }
}

/// Locks those of the given rows that are free, and answers the others, which are held. A deleted row is
/// neither: its deleter held the lock, so no open transaction can have changed it. Rows are looked up after
/// the locking: one deleted in between counts as deleted, one released in between still counts as held. Where
/// there are no row locks none is held.
pub(crate) fn lock_free(
    session: &mut dyn Session,
    (table, alias): (&str, &str),
    mut wanted: BTreeSet<i64>,
) -> Step<BTreeSet<i64>> {
    if wanted.is_empty() || !session.dialect().has_row_locks() {
        return Ok(BTreeSet::new());
    }
    let rows = |wanted: &BTreeSet<i64>| {
        sql(format!("SELECT {alias}.id FROM {table} {alias} WHERE {alias}.id IN "))
            .list(wanted.iter().copied())
    };
    let dialect = session.dialect();
    let locked = format!(" {}{}", dialect.in_order(&format!("{alias}.id")), dialect.lock_free(alias));
    let free: HashSet<i64> = session.all(&rows(&wanted).push(&locked), Row::int)?;
    wanted.retain(|row| !free.contains(row));
    if wanted.is_empty() { Ok(wanted) } else { session.all(&rows(&wanted), Row::int) }
}

/// The database's clock.
pub(crate) fn now(session: &mut dyn Session) -> Step<Timestamp> {
    let question = format!("SELECT {} AS now", session.dialect().clock());
    single(session.rows(&sql(question))?).map(Timestamp::at)
}

/// Whether the server takes no changes.
pub(crate) fn is_read_only(session: &mut dyn Session) -> Step<bool> {
    match session.dialect().read_only() {
        Some(condition) => {
            let question = format!("SELECT CASE WHEN {condition} THEN 1 ELSE 0 END AS read_only");
            single(session.rows(&sql(question))?).map(|it| it != 0)
        }
        None => Ok(false),
    }
}

/// Waits until a member of a Galera cluster has applied what others had committed when this began. Within a
/// transaction it waits for nothing.
pub(crate) fn catch_up(session: &mut dyn Session) -> Step<()> {
    match session.certifies() {
        true => session.rows(&sql("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1 AS one")).map(|_| ()),
        false => Ok(()),
    }
}

/// A statement's text between its binds, and these: taken apart once, for diesel walks it several times.
pub(crate) struct Sql<'a> {
    first: &'a str,
    binds: Vec<(&'a Value, &'a str)>,
}

impl<'a> Sql<'a> {
    pub(crate) fn of(statement: &'a Statement) -> Step<Self> {
        let mut pieces = statement.text.split('?');
        let first = pieces.next().unwrap_or_default();
        let behind: Vec<&str> = pieces.collect();
        if behind.len() != statement.binds.len() {
            return Err(Fault::new(FaultKind::Refused, "a statement has another number of binds"));
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
pub(crate) trait Columns: Backend {
    fn push<'b>(_column: &'b Value, _out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        Err(diesel::result::Error::QueryBuilderError("only PostgreSQL binds a column at once".into()))
    }
}

impl<DB> QueryFragment<DB> for Sql<'_>
where
    DB: Columns + HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, DB>,
    String: ToSql<Text, DB>,
    Option<String>: ToSql<Nullable<Text>, DB>,
    Option<i64>: ToSql<Nullable<BigInt>, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql(self.first);
        for (bind, piece) in &self.binds {
            match bind {
                Value::Int(value) => out.push_bind_param::<BigInt, _>(value)?,
                Value::Text(value) => out.push_bind_param::<Text, _>(value)?,
                Value::Null => out.push_bind_param::<Nullable<Text>, Option<String>>(&None)?,
                Value::NoNumber => out.push_bind_param::<Nullable<BigInt>, Option<i64>>(&None)?,
                column @ (Value::Ints(_) | Value::Texts(_)) => DB::push(column, &mut out)?,
            }
            out.push_sql(piece);
        }
        Ok(())
    }
}

/// Reads a row, or what of it can be read: a value of a type we never write (SQLite keeps any in any column),
/// or a text that is no UTF-8, reads as NULL. One such row must not make its whole question fail.
pub(crate) fn cells<'a, DB: Backend>(
    row: &impl NamedRow<'a, DB>,
    decode: impl Fn(DB::RawValue<'_>) -> deserialize::Result<Cell>,
) -> deserialize::Result<Row> {
    let mut cells = Vec::with_capacity(diesel::row::Row::field_count(row));
    for index in 0..diesel::row::Row::field_count(row) {
        let field = diesel::row::Row::get(row, index).ok_or("a column is missing")?;
        cells.push(field.value().map_or(Ok(Cell::Null), &decode)?);
    }
    Ok(Row::new(cells))
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn text_or_null(bytes: &[u8]) -> Cell {
    str::from_utf8(bytes).map_or(Cell::Null, |text| Cell::Text(text.to_owned()))
}

/// Makes a connection of diesel a [`Session`].
macro_rules! session {
    ($connection:ty, $dialect:expr, $loading:ty) => {
        impl Session for $connection {
            fn dialect(&self) -> Dialect {
                $dialect
            }

            fn execute(&mut self, statement: &Statement) -> Step<usize> {
                RunQueryDsl::execute(Sql::of(statement)?, self).map_err(fault)
            }

            fn rows(&mut self, statement: &Statement) -> Step<Vec<Row>> {
                RunQueryDsl::load(Sql::of(statement)?, self).map_err(fault)
            }

            fn each(&mut self, question: &Statement, see: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
                let question = Sql::of(question)?;
                let mut rows = RunQueryDsl::load_iter::<Row, $loading>(question, self).map_err(fault)?;
                rows.try_for_each(|row| see(row.map_err(fault)?))
            }

            fn batch(&mut self, text: &str) -> Step<()> {
                diesel::connection::SimpleConnection::batch_execute(self, text).map_err(fault)
            }
        }
    };
}

pub(crate) use session;

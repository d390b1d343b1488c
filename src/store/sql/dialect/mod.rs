//! The three databases, and every difference between them that is a word or a line: side by side, one method
//! for each. What one of them does in its own way as a whole is in its room ([`Database`]).
//!
//! [`Database`]: self::database::Database

pub(super) mod database;
pub(super) mod databases;
pub(super) mod mariadb;
pub(super) mod postgres;
pub(super) mod sqlite;

#[cfg(feature = "tokio")]
use std::borrow::Cow;
use std::sync::Arc;

use super::session::statement::{Statement, Value};
use crate::store::enqueue::QUEUE_PREFIX;
use crate::store::news::Hearing;
use crate::time::{HostTime, Micros, TimeSample};

/// The setting of a session of PostgreSQL that holds the lowest fence of its claims.
pub(crate) const FENCE_FROM: &str = "firetime.fence_from";

/// Keeps PostgreSQL from ending this session for being idle. Versions before 14 do not, nor know the setting.
pub(crate) const STAYS_WHILE_IDLE: &str = "SELECT set_config('idle_session_timeout', '0', false) \
                                           WHERE current_setting('idle_session_timeout', true) <> '0'";

/// Which database's SQL is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// SQLite's.
    Sqlite,
    /// PostgreSQL's.
    Postgres,
    /// MariaDB's.
    Mysql,
}

/// How the rows of a batch become part of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchForm {
    /// `VALUES`, with a bind for each value.
    Values,
    /// Arrays side by side, with a bind for each column.
    Columns,
    /// JSON, with one bind for all.
    Json,
}

/// By which index the ledger is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LedgerIndex {
    /// As the database decides.
    Any,
    /// By ids.
    Id,
    /// By schedules, whatever the order.
    Schedule,
    /// A schedule's planned occurrences in the order of the ledger's unique key.
    Planned,
    /// By fire times.
    Time,
    /// Those that ended in another way than well.
    Ended,
    /// By causes that executions have rarely.
    Cause,
    Group,
    /// By the last of several occurrences that a row stands for.
    Span,
    /// Those that have not ended.
    Open,
}

impl LedgerIndex {
    /// The last column to be compared: ids and attempts grow together within an occurrence.
    pub(crate) fn last(self) -> &'static str {
        if self == Self::Planned { "attempt" } else { "id" }
    }

    /// Whether few rows are found, whatever their order.
    pub(crate) fn gathers(self) -> bool {
        matches!(self, Self::Any | Self::Schedule | Self::Open)
    }
}

/// A table in which executions that are CLAIMED or RUNNING are found by their node, and the state in which it
/// is searched for them, if by any.
pub(crate) type OpenPlace = (&'static str, Option<&'static str>);

/// Defines properties that some of the databases have.
macro_rules! properties {
    ($($(#[$doc:meta])* $property:ident = $($Dialect:ident)|+;)*) => {
        impl Dialect {$(
            $(#[$doc])*
            pub(crate) fn $property(self) -> bool {
                matches!(self, $(Self::$Dialect)|+)
            }
        )*}
    };
}

properties! {
    /// Whether a database is a file of this process's host, and not a server's.
    is_file = Sqlite;

    /// Whether a transaction that writes keeps all others from writing.
    has_one_writer = Sqlite;

    /// Whether diesel reads the rows that an INSERT answers with.
    returns_inserted_rows = Sqlite | Postgres;

    /// Whether an index may have some rows of its table alone.
    has_partial_indexes = Sqlite | Postgres;

    /// Whether one bind may be a list of numbers.
    binds_lists = Postgres;

    /// Whether a commit tells those who listen.
    notifies = Postgres;

    /// Whether transactions that write hold locks on rows; otherwise one of them runs at a time.
    has_row_locks = Postgres | Mysql;

    /// Whether a lock on a row that is sought by another key than the primary one also keeps others from
    /// inserting beside it, at REPEATABLE READ.
    locks_gaps = Mysql;

    /// Whether the database ends a statement that takes too long.
    limits_statements = Postgres | Mysql;

    /// Whether a column may hold a value of another type than its own.
    keeps_any_type = Sqlite;

    /// Whether an INSERT with [`Dialect::or_leave`] counts a row it leaves alone like one it makes.
    counts_rows_left_alone = Mysql;

    /// Whether a page behind a key begins at the key only if it is asked for by ranges: with an equation, or
    /// with two columns compared at once, MariaDB reads an application from its beginning for each page.
    pages_by_ranges = Mysql;

    /// Whether an error may leave a connection unusable, refusals too. MariaDB's may come halfway through a
    /// result (a lock wait ends after the first rows are sent): the client's prepared statement then waits
    /// for the rest, diesel finds it again, and executed once more it never returns.
    errors_spoil_connections = Mysql;
}

/// Which database a URL names, and what is built in.
impl Dialect {
    /// The database of a path without a scheme.
    pub(crate) const OF_PATHS: Self = Self::Sqlite;

    pub(crate) fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "sqlite" => Some(Self::Sqlite),
            "postgres" | "postgresql" => Some(Self::Postgres),
            "mysql" | "mariadb" => Some(Self::Mysql),
            _ => None,
        }
    }

    /// What diesel is given of a URL whose part behind the scheme is `rest`.
    pub(crate) fn address(self, url: &str, rest: &str) -> String {
        match self {
            Self::Sqlite => rest.strip_prefix("//").unwrap_or(rest).to_owned(),
            Self::Postgres => url.to_owned(),
            Self::Mysql => format!("mysql:{rest}"),
        }
    }

    /// The feature that this database needs, and whether it is on.
    pub(crate) fn feature(self) -> (&'static str, bool) {
        match self {
            Self::Sqlite => ("sqlite", cfg!(feature = "sqlite")),
            Self::Postgres => ("postgres", cfg!(feature = "postgres")),
            Self::Mysql => ("mysql", cfg!(feature = "mysql")),
        }
    }

    /// The one of three values that is this database's.
    pub(crate) fn choose<T>(self, sqlite: T, postgres: T, mariadb: T) -> T {
        match self {
            Self::Sqlite => sqlite,
            Self::Postgres => postgres,
            Self::Mysql => mariadb,
        }
    }
}

/// Words of SQL.
impl Dialect {
    /// A statement's text with the placeholders of this database.
    #[cfg(feature = "tokio")]
    pub(crate) fn numbered(self, text: &str) -> Cow<'_, str> {
        if self != Self::Postgres {
            return text.into();
        }
        let mut pieces = text.split('?');
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.zip(1..).fold(first, |text, (piece, number)| format!("{text}${number}{piece}")).into()
    }

    /// The database's clock, epoch milliseconds.
    pub(crate) fn clock(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)",
            Self::Postgres => "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)",
            Self::Mysql => "CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED)",
        }
    }

    /// What holds of a server that takes no changes, such as a standby. A file of SQLite's says so when it is
    /// changed. MariaDB has a number or a word there, by its version.
    pub(crate) fn read_only(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => {
                Some("pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'")
            }
            Self::Mysql => Some("CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF')"),
        }
    }

    /// The same in microseconds, as far as the database tells them: SQLite knows whole milliseconds.
    pub(crate) fn exact_clock(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000",
            Self::Postgres => "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000) AS BIGINT)",
            Self::Mysql => "CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000) AS SIGNED)",
        }
    }

    /// A comparison of the database's clock, read by [`Dialect::exact_clock`], with the host's.
    pub(crate) fn sample(self, asked: HostTime, told: Micros, answered: HostTime) -> TimeSample {
        match self {
            Self::Sqlite => TimeSample::in_process(asked, told, answered),
            Self::Postgres | Self::Mysql => TimeSample::new(asked, told, answered),
        }
    }

    /// Starts a transaction; on SQLite one that may write, so that it never fails halfway.
    pub(crate) fn begin(self) -> &'static str {
        self.choose("BEGIN IMMEDIATE", "BEGIN", "START TRANSACTION")
    }

    /// Changes a row that a decision rests on, and that may otherwise stay as it is. Locks on Galera end at
    /// their member; there only a row that both change keeps two transactions on different members from
    /// committing beside each other.
    pub(crate) fn touch(self) -> Option<&'static str> {
        (self == Self::Mysql).then_some("touched = COALESCE(touched, 0) + 1")
    }

    /// The same behind other assignments.
    pub(crate) fn and_touch(self) -> String {
        self.touch().map_or_else(String::new, |touch| format!(", {touch}"))
    }

    /// The fence of the next claim behind this column. On PostgreSQL no lower than the session's
    /// [`FENCE_FROM`]: a promoted standby may not have the last claims.
    pub(crate) fn next_fence(self, column: &str) -> String {
        match self {
            Self::Sqlite | Self::Mysql => format!("{column} + 1"),
            Self::Postgres => {
                format!("GREATEST({column} + 1, CAST(current_setting('{FENCE_FROM}', true) AS BIGINT))")
            }
        }
    }

    /// Locks the rows a SELECT brings until the transaction ends, waiting for them. SQLite's transactions
    /// that write are alone anyway.
    pub(crate) fn lock(self, alias: &str) -> String {
        match self {
            Self::Sqlite => String::new(),
            Self::Postgres => format!(" FOR UPDATE OF {alias}"),
            Self::Mysql => " FOR UPDATE".to_owned(),
        }
    }

    /// Sorts rows that are locked, each sought by its id. By the bare column PostgreSQL might read the whole
    /// index in its order instead.
    pub(crate) fn in_order(self, id: &str) -> String {
        match self {
            Self::Sqlite | Self::Mysql => format!("ORDER BY {id}"),
            Self::Postgres => format!("ORDER BY {id} + 0"),
        }
    }

    /// Like [`Dialect::lock`], leaving out rows that others hold.
    pub(crate) fn lock_free(self, alias: &str) -> String {
        match self {
            Self::Sqlite => String::new(),
            Self::Postgres | Self::Mysql => format!("{} SKIP LOCKED", self.lock(alias)),
        }
    }

    /// Locks the rows a SELECT brings where otherwise it might show them as they were when the caller's
    /// transaction began.
    pub(crate) fn lock_to_see(self, alias: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => String::new(),
            Self::Mysql => self.lock(alias),
        }
    }

    /// A table that is read beside rows that a SELECT locks, and whose own rows it is to leave unlocked.
    pub(crate) fn unlocked(self, table: &str, alias: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("{table} AS {alias}"),
            Self::Mysql => format!("(SELECT * FROM {table}) AS {alias}"),
        }
    }

    /// Turns an INSERT into one that leaves existing rows alone; `column` is any of the table's.
    pub(crate) fn or_leave(self, table: &str, column: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => " ON CONFLICT DO NOTHING".to_owned(),
            Self::Mysql => format!(" ON DUPLICATE KEY UPDATE {table}.{column} = {table}.{column}"),
        }
    }

    /// Turns an INSERT into one that sets columns of rows whose `key` exists.
    pub(crate) fn or_set(self, key: &str, columns: &[&str]) -> String {
        let set = |column: &&str| match self {
            Self::Sqlite | Self::Postgres => format!("{column} = EXCLUDED.{column}"),
            Self::Mysql => format!("{column} = VALUES({column})"),
        };
        self.or_update(key, &columns.iter().map(set).collect::<Vec<_>>())
    }

    /// Turns an INSERT into one that adds to rows whose `key` exists: to sums, and to the greatest values.
    pub(crate) fn or_add(self, table: &str, key: &str, sums: &[&str], greatest: &[&str]) -> String {
        let new = |column: &str| match self {
            Self::Sqlite | Self::Postgres => format!("EXCLUDED.{column}"),
            Self::Mysql => format!("VALUES({column})"),
        };
        let add = |column: &&str| format!("{column} = {table}.{column} + {}", new(column));
        let raise = |column: &&str| {
            let new = new(column);
            format!("{column} = CASE WHEN {new} > {table}.{column} THEN {new} ELSE {table}.{column} END")
        };
        self.or_update(key, &sums.iter().map(add).chain(greatest.iter().map(raise)).collect::<Vec<_>>())
    }

    fn or_update(self, key: &str, sets: &[String]) -> String {
        let sets = sets.join(", ");
        match self {
            Self::Sqlite | Self::Postgres => format!(" ON CONFLICT ({key}) DO UPDATE SET {sets}"),
            Self::Mysql => format!(" ON DUPLICATE KEY UPDATE {sets}"),
        }
    }

    /// The sum of a column as a BIGINT: sums have wider types.
    pub(crate) fn sum(self, column: &str) -> String {
        let whole = if self == Self::Mysql { "SIGNED" } else { "BIGINT" };
        format!("CAST(SUM({column}) AS {whole})")
    }

    /// Appends that a column is one of many ids. PostgreSQL hashes a list of so many values only where it is
    /// a question of its own that cannot become a join: joins are nested loops here.
    pub(crate) fn among(self, question: Statement, column: &str, ids: Vec<i64>) -> Statement {
        match self {
            Self::Sqlite | Self::Mysql => question.push(&format!("{column} IN ")).list(ids),
            Self::Postgres => question
                .push(&format!("({column} IN (SELECT unnest(?))) IS TRUE"))
                .bind(Value::Ints(Arc::new(ids))),
        }
    }

    /// A question for the number of tables of the schema's versions: 1 or 0.
    pub(crate) fn schema_table(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT COUNT(*) FROM sqlite_master WHERE name = 'QRTZ_SCHEMA'",
            Self::Postgres => {
                "SELECT COUNT(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('qrtz_schema')"
            }
            Self::Mysql => {
                "SELECT COUNT(*) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_name = 'QRTZ_SCHEMA'"
            }
        }
    }

    /// The number in a column of a row that may hold anything; -1 if it holds none.
    pub(crate) fn loosely(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("(CASE WHEN typeof({column}) = 'integer' THEN {column} ELSE -1 END)"),
            Self::Postgres | Self::Mysql => format!("COALESCE({column}, -1)"),
        }
    }

    /// The index that finds PENDING executions, where it does not hold their state.
    pub(crate) fn pending(self) -> &'static str {
        match self {
            Self::Sqlite | Self::Mysql => "",
            Self::Postgres => " AND node = '' AND claim_token <> ''",
        }
    }

    /// The name of the queue of the job that a column names.
    pub(crate) fn queue_of(self, job: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("'{QUEUE_PREFIX}' || {job}"),
            Self::Mysql => format!("CONCAT('{QUEUE_PREFIX}', {job})"),
        }
    }

    /// How nodes learn of others' changes. SQLite is asked within the process.
    pub(crate) fn hearing(self) -> Hearing {
        Hearing { tells: self.notifies(), glance: self.choose(25, 200, 200) }
    }

    /// The fire time of an execution as its index has it.
    pub(crate) fn fire_time(self) -> &'static str {
        self.choose("scheduled_time", "scheduled_time + 0", "scheduled_time")
    }

    /// The ledger as `r`, read by this index. PostgreSQL's statistics tell it as much; the others might sort
    /// all rows of an application.
    pub(crate) fn ledger_by(self, index: LedgerIndex) -> String {
        let (primary, unique) = match self {
            Self::Sqlite => (" NOT INDEXED", "sqlite_autoindex_QRTZ_RUN_1"),
            Self::Postgres => return "QRTZ_RUN AS r".to_owned(),
            Self::Mysql => (" FORCE INDEX (PRIMARY)", "execute_id"),
        };
        let named = |name: &str| match self {
            Self::Sqlite => format!(" INDEXED BY {name}"),
            Self::Postgres | Self::Mysql => format!(" FORCE INDEX ({name})"),
        };
        let by = match index {
            LedgerIndex::Any => String::new(),
            LedgerIndex::Id => primary.to_owned(),
            LedgerIndex::Schedule | LedgerIndex::Planned => named(unique),
            LedgerIndex::Time => named("QRTZ_RUN_TIME"),
            LedgerIndex::Ended => named("QRTZ_RUN_ENDED"),
            LedgerIndex::Cause => named("QRTZ_RUN_CAUSE"),
            LedgerIndex::Group => named("QRTZ_RUN_GROUP"),
            LedgerIndex::Span => named("QRTZ_RUN_SPAN"),
            LedgerIndex::Open if self == Self::Mysql => named("QRTZ_RUN_OPEN"),
            LedgerIndex::Open => String::new(),
        };
        format!("QRTZ_RUN AS r{by}")
    }

    /// The rows of a table with a higher id (?), found by that alone, as the beginning of a condition.
    pub(crate) fn behind(self, table: &str, alias: &str) -> String {
        match self {
            Self::Sqlite => format!("{table} AS {alias} NOT INDEXED WHERE {alias}.id > ?"),
            Self::Postgres => {
                format!("(SELECT b.* FROM {table} b WHERE b.id > ? OFFSET 0) AS {alias} WHERE TRUE")
            }
            Self::Mysql => format!("{table} AS {alias} FORCE INDEX (PRIMARY) WHERE {alias}.id > ?"),
        }
    }

    /// Where a node's open executions are found: on PostgreSQL by its claims, elsewhere by their state.
    pub(crate) fn open_places(self) -> &'static [OpenPlace] {
        match self {
            Self::Sqlite | Self::Mysql => &[("QRTZ_RUN", Some("CLAIMED")), ("QRTZ_RUN", Some("RUNNING"))],
            Self::Postgres => &[("QRTZ_CLAIM", None)],
        }
    }
}

/// A batch of rows `w`, and what is joined with it.
impl Dialect {
    /// The most rows one statement is given.
    pub(crate) fn batch(self) -> usize {
        self.choose(256, 1_000, 1_000)
    }

    pub(crate) fn batch_form(self) -> BatchForm {
        self.choose(BatchForm::Values, BatchForm::Columns, BatchForm::Json)
    }

    /// How a table is joined to `w`, so that `w` is always read first.
    pub(crate) fn join(self) -> &'static str {
        self.choose("CROSS JOIN", "JOIN", "STRAIGHT_JOIN")
    }

    /// That a column is the wanted row's, by an index seek. With `=`, PostgreSQL may scan the whole index in
    /// its order, which costs the same in a plan made over an empty table; BETWEEN forces a seek.
    pub(crate) fn seek(self, column: &str, wanted: &str) -> String {
        match self {
            Self::Sqlite | Self::Mysql => format!("{column} = {wanted}"),
            Self::Postgres => format!("{column} BETWEEN {wanted} AND {wanted}"),
        }
    }

    /// An UPDATE of the rows that meet a condition with one of `w`: its text before `w`, and behind it.
    pub(crate) fn update(
        self,
        (table, alias): (&str, &str),
        sets: &[(&str, impl AsRef<str>)],
        condition: &str,
    ) -> (String, String) {
        match self {
            Self::Sqlite | Self::Postgres => (
                format!("UPDATE {table} AS {alias} SET {} FROM ", assigned("", sets)),
                format!(" WHERE {condition}"),
            ),
            Self::Mysql => (
                "UPDATE ".to_owned(),
                format!(
                    " STRAIGHT_JOIN {} ON {condition} SET {}",
                    sought(table, alias, condition),
                    assigned(&format!("{alias}."), sets)
                ),
            ),
        }
    }

    /// A DELETE of the rows that meet a condition with one of `w`: its text before `w`, and behind it.
    pub(crate) fn delete(self, (table, alias): (&str, &str), condition: &str) -> (String, String) {
        match self {
            // Nobody else writes meanwhile: what the condition finds is what is removed.
            Self::Sqlite => (
                format!("DELETE FROM {table} WHERE rowid IN (SELECT {alias}.rowid FROM "),
                format!(" CROSS JOIN {table} AS {alias} ON {condition})"),
            ),
            Self::Postgres => {
                (format!("DELETE FROM {table} AS {alias} USING "), format!(" WHERE {condition}"))
            }
            Self::Mysql => (
                format!("DELETE {alias} FROM "),
                format!(" STRAIGHT_JOIN {} ON {condition}", sought(table, alias, condition)),
            ),
        }
    }

    /// A table whose rows are sought by their ids.
    pub(crate) fn by_id(self, table: &str, alias: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("{table} AS {alias}"),
            Self::Mysql => sought(table, alias, &self.seek(&format!("{alias}.id"), "")),
        }
    }
}

/// A table with its primary key named where a condition begins with its first column. MariaDB would otherwise
/// read a small table as a whole, and lock all of it in a caller's transaction at REPEATABLE READ.
fn sought(table: &str, alias: &str, condition: &str) -> String {
    let first = if table.starts_with("QRTZ_OUTCOME") { ".application = " } else { ".id = " };
    let is_by_key = condition.strip_prefix(alias).is_some_and(|rest| rest.starts_with(first));
    format!("{table} AS {alias}{}", if is_by_key { " FORCE INDEX (PRIMARY)" } else { "" })
}

/// What follows SET, each column behind `prefix`.
pub(crate) fn assigned(prefix: &str, sets: &[(&str, impl AsRef<str>)]) -> String {
    let assign = sets.iter().map(|(column, value)| format!("{prefix}{column} = {}", value.as_ref()));
    assign.collect::<Vec<_>>().join(", ")
}

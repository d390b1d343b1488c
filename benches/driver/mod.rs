//! The drivers, as their users have them: a connection, a transaction on it, an INSERT that is prepared once.

mod counted;

use chrono::Utc;
use diesel::ExpressionMethods;
use diesel::connection::{AnsiTransactionManager, InstrumentationEvent, TransactionManager as _};
use diesel_async::{AnsiTransactionManager as AsyncManager, TransactionManager as _};
use firetime::request::Enqueue;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

pub use counted::statements;
use counted::{Counted, count};

/// A driver of one database.
pub trait Driver {
    const NAME: &'static str;
    type Connection;
    type Transaction<'c>;

    async fn connect(url: &str) -> Self::Connection;
    async fn begin(connection: &mut Self::Connection) -> Self::Transaction<'_>;
    async fn insert(transaction: &mut Self::Transaction<'_>, row: Row);
    async fn enqueue(transaction: &mut Self::Transaction<'_>, request: Enqueue<'_>);
    async fn commit(transaction: Self::Transaction<'_>);
}

/// The row of an enqueued execution that is due at once; its queue is that of no job.
pub struct Row {
    pub token: String,
    origin: i64,
    now: i64,
    payload: String,
}

impl Row {
    pub fn new(turn: u32) -> Self {
        let now = Utc::now().timestamp_millis();
        // As firetime's own origins, it grows with time.
        let origin = now << 21 | i64::from(turn);
        Self { token: Uuid::new_v4().to_string(), origin, now, payload: turn.to_string() }
    }
}

const APPLICATION: &str = "bench";
const QUEUE: i64 = 0;
const GENERATION: i64 = 0;
const ATTEMPT: i64 = 1;
const STATE: &str = "PENDING";
const REASON: &str = "enqueued";

/// The table as diesel names it: quoted, so PostgreSQL takes it in small letters and MariaDB in capitals.
macro_rules! table {
    ($table:ident, $name:tt) => {
        diesel::table! {
            #[sql_name = $name]
            $table (id) {
                id -> BigInt,
                application -> Text,
                execute_id -> BigInt,
                generation -> BigInt,
                origin -> BigInt,
                scheduled_time -> BigInt,
                attempt -> BigInt,
                state -> Text,
                reason -> Text,
                cause -> Text,
                due_time -> BigInt,
                claim_token -> Text,
                payload -> Text,
            }
        }
    };
}

table!(small, "qrtz_run");
table!(capital, "QRTZ_RUN");

macro_rules! insert {
    ($table:ident, $row:ident) => {
        diesel::insert_into($table::table).values((
            $table::application.eq(APPLICATION),
            $table::execute_id.eq(QUEUE),
            $table::generation.eq(GENERATION),
            $table::origin.eq($row.origin),
            $table::scheduled_time.eq($row.now),
            $table::attempt.eq(ATTEMPT),
            $table::state.eq(STATE),
            $table::reason.eq(REASON),
            $table::cause.eq(REASON),
            $table::due_time.eq($row.now),
            $table::claim_token.eq($row.token),
            $table::payload.eq($row.payload),
        ))
    };
}

macro_rules! diesel_driver {
    ($Driver:ident, $Connection:ty, $table:ident) => {
        pub struct $Driver;

        impl Driver for $Driver {
            const NAME: &'static str = "diesel";
            type Connection = $Connection;
            type Transaction<'c> = &'c mut $Connection;

            async fn connect(url: &str) -> Self::Connection {
                let url = url.strip_prefix("sqlite:").unwrap_or(url);
                let mut connection = <$Connection as diesel::Connection>::establish(url).unwrap();
                diesel::Connection::set_instrumentation(
                    &mut connection,
                    |event: InstrumentationEvent<'_>| {
                        if matches!(event, InstrumentationEvent::StartQuery { .. }) {
                            count();
                        }
                    },
                );
                connection
            }

            async fn begin(connection: &mut Self::Connection) -> Self::Transaction<'_> {
                AnsiTransactionManager::begin_transaction(connection).unwrap();
                connection
            }

            async fn insert(transaction: &mut Self::Transaction<'_>, row: Row) {
                diesel::RunQueryDsl::execute(insert!($table, row), *transaction).unwrap();
            }

            async fn enqueue(transaction: &mut Self::Transaction<'_>, request: Enqueue<'_>) {
                request.run_in(*transaction).unwrap();
            }

            async fn commit(transaction: Self::Transaction<'_>) {
                AnsiTransactionManager::commit_transaction(transaction).unwrap();
            }
        }
    };
}

diesel_driver!(DieselSqlite, diesel::SqliteConnection, small);
diesel_driver!(DieselPostgres, diesel::PgConnection, small);
diesel_driver!(DieselMariadb, diesel::MysqlConnection, capital);

macro_rules! diesel_async_driver {
    ($Driver:ident, $Connection:ty, $table:ident) => {
        pub struct $Driver;

        impl Driver for $Driver {
            const NAME: &'static str = "diesel-async";
            type Connection = $Connection;
            type Transaction<'c> = &'c mut $Connection;

            async fn connect(url: &str) -> Self::Connection {
                <$Connection as diesel_async::AsyncConnection>::establish(url).await.unwrap()
            }

            async fn begin(connection: &mut Self::Connection) -> Self::Transaction<'_> {
                AsyncManager::begin_transaction(connection).await.unwrap();
                connection
            }

            async fn insert(transaction: &mut Self::Transaction<'_>, row: Row) {
                diesel_async::RunQueryDsl::execute(insert!($table, row), *transaction).await.unwrap();
            }

            async fn enqueue(transaction: &mut Self::Transaction<'_>, request: Enqueue<'_>) {
                request.run_in(&mut Counted(&mut **transaction)).await.unwrap();
            }

            async fn commit(transaction: Self::Transaction<'_>) {
                AsyncManager::commit_transaction(transaction).await.unwrap();
            }
        }
    };
}

diesel_async_driver!(DieselAsyncPostgres, diesel_async::AsyncPgConnection, small);
diesel_async_driver!(DieselAsyncMariadb, diesel_async::AsyncMysqlConnection, capital);

/// The INSERT as text, with its placeholders.
macro_rules! text {
    ($placeholders:literal) => {
        concat!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, state, ",
            "reason, cause, due_time, claim_token, payload) VALUES (",
            $placeholders,
            ")"
        )
    };
}

const TEXT: &str = text!("?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?");
const NUMBERED: &str = text!("$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12");

macro_rules! sqlx_driver {
    ($Driver:ident, $Db:ty, $text:ident) => {
        pub struct $Driver;

        impl Driver for $Driver {
            const NAME: &'static str = "sqlx";
            type Connection = <$Db as sqlx::Database>::Connection;
            type Transaction<'c> = sqlx::Transaction<'c, $Db>;

            async fn connect(url: &str) -> Self::Connection {
                <Self::Connection as sqlx::Connection>::connect(url).await.unwrap()
            }

            async fn begin(connection: &mut Self::Connection) -> Self::Transaction<'_> {
                sqlx::Connection::begin(connection).await.unwrap()
            }

            async fn insert(transaction: &mut Self::Transaction<'_>, row: Row) {
                let insert = sqlx::query($text).bind(APPLICATION).bind(QUEUE).bind(GENERATION);
                let insert = insert.bind(row.origin).bind(row.now).bind(ATTEMPT).bind(STATE).bind(REASON);
                let insert = insert.bind(REASON).bind(row.now).bind(row.token).bind(row.payload);
                insert.execute(&mut **transaction).await.unwrap();
            }

            async fn enqueue(transaction: &mut Self::Transaction<'_>, request: Enqueue<'_>) {
                request.run_in(&mut Counted(&mut **transaction)).await.unwrap();
            }

            async fn commit(transaction: Self::Transaction<'_>) {
                transaction.commit().await.unwrap();
            }
        }
    };
}

sqlx_driver!(SqlxSqlite, sqlx::Sqlite, TEXT);
sqlx_driver!(SqlxPostgres, sqlx::Postgres, NUMBERED);
sqlx_driver!(SqlxMariadb, sqlx::MySql, TEXT);

pub struct TokioPostgres;

impl Driver for TokioPostgres {
    const NAME: &'static str = "tokio-postgres";
    type Connection = (tokio_postgres::Client, Statement);
    type Transaction<'c> = (tokio_postgres::Transaction<'c>, &'c Statement);

    async fn connect(url: &str) -> Self::Connection {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let insert = client.prepare(NUMBERED).await.unwrap();
        (client, insert)
    }

    async fn begin((client, insert): &mut Self::Connection) -> Self::Transaction<'_> {
        (client.transaction().await.unwrap(), insert)
    }

    async fn insert((transaction, insert): &mut Self::Transaction<'_>, row: Row) {
        let values: [&(dyn ToSql + Sync); 12] = [
            &APPLICATION,
            &QUEUE,
            &GENERATION,
            &row.origin,
            &row.now,
            &ATTEMPT,
            &STATE,
            &REASON,
            &REASON,
            &row.now,
            &row.token,
            &row.payload,
        ];
        tokio_postgres::Transaction::execute(transaction, *insert, &values).await.unwrap();
    }

    async fn enqueue((transaction, _): &mut Self::Transaction<'_>, request: Enqueue<'_>) {
        request.run_in(&mut Counted(transaction)).await.unwrap();
    }

    async fn commit((transaction, _): Self::Transaction<'_>) {
        transaction.commit().await.unwrap();
    }
}

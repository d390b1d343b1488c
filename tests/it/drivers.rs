//! Requests in transactions of async drivers: as on diesel's connections, all of a request or nothing.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use diesel_async::TransactionManager;
use firetime::driver::{self, AsyncConnection, DriverError, Query, Savepoint, Value};
use firetime::{
    Answer, AuditFilter, Cancelled, Client, Edited, Enqueued, Ensured, Error, ErrorKind, ExecutionState, Job,
    Paused, Receipt, Removed, Resumed, Retried, Retry, Schedule, Skipped, Synced, Target, Trigger, Triggered,
};
use libtest_mimic::Trial;
use tokio::runtime::{Builder, Runtime};

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{SOON, TEXT, builder, client, states, teller, until};
use crate::trial;

/// A driver, as its users have it.
trait Driver {
    type Connection;
    type Transaction<'c>: AsyncConnection;

    async fn connect(database: &Database) -> Self::Connection;
    async fn begin(connection: &mut Self::Connection) -> Self::Transaction<'_>;
    async fn run(transaction: &mut Self::Transaction<'_>, text: &'static str) -> Result<(), String>;
    async fn commit(transaction: Self::Transaction<'_>) -> Result<(), String>;
    async fn roll_back(transaction: Self::Transaction<'_>);

    /// A request outside of a transaction, where the driver's types allow one.
    async fn outside(_: &mut Self::Connection, _: &Client) -> Option<Result<Enqueued, Error>> {
        None
    }
}

macro_rules! sqlx_driver {
    ($feature:literal, $Driver:ident, $Db:ty) => {
        #[cfg(feature = $feature)]
        struct $Driver;

        #[cfg(feature = $feature)]
        impl Driver for $Driver {
            type Connection = <$Db as sqlx::Database>::Connection;
            type Transaction<'c> = sqlx::Transaction<'c, $Db>;

            async fn connect(database: &Database) -> Self::Connection {
                <Self::Connection as sqlx::Connection>::connect(&database.url).await.unwrap()
            }

            async fn begin(connection: &mut Self::Connection) -> Self::Transaction<'_> {
                sqlx::Connection::begin(connection).await.unwrap()
            }

            async fn run(transaction: &mut Self::Transaction<'_>, text: &'static str) -> Result<(), String> {
                sqlx::query(text)
                    .execute(&mut **transaction)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }

            async fn commit(transaction: Self::Transaction<'_>) -> Result<(), String> {
                transaction.commit().await.map_err(|error| error.to_string())
            }

            async fn roll_back(transaction: Self::Transaction<'_>) {
                transaction.rollback().await.unwrap();
            }

            async fn outside(
                connection: &mut Self::Connection,
                client: &Client,
            ) -> Option<Result<Enqueued, Error>> {
                Some(client.enqueue(TEXT, &String::new()).run_in(connection).await)
            }
        }
    };
}

sqlx_driver!("sqlite", SqlxSqlite, sqlx::Sqlite);
sqlx_driver!("postgres", SqlxPostgres, sqlx::Postgres);
sqlx_driver!("mysql", SqlxMariadb, sqlx::MySql);

#[cfg(feature = "tokio-postgres")]
struct TokioPostgres;

#[cfg(feature = "tokio-postgres")]
impl Driver for TokioPostgres {
    type Connection = tokio_postgres::Client;
    type Transaction<'c> = tokio_postgres::Transaction<'c>;

    async fn connect(database: &Database) -> Self::Connection {
        let (client, connection) =
            tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn begin(connection: &mut Self::Connection) -> Self::Transaction<'_> {
        connection.transaction().await.unwrap()
    }

    async fn run(transaction: &mut Self::Transaction<'_>, text: &'static str) -> Result<(), String> {
        transaction.batch_execute(text).await.map_err(|error| error.to_string())
    }

    async fn commit(transaction: Self::Transaction<'_>) -> Result<(), String> {
        transaction.commit().await.map_err(|error| error.to_string())
    }

    async fn roll_back(transaction: Self::Transaction<'_>) {
        transaction.rollback().await.unwrap();
    }
}

/// The transaction that is open on a connection of diesel-async.
struct Open<'c, C>(&'c mut C);

impl<C: AsyncConnection> AsyncConnection for Open<'_, C> {
    type Savepoint<'s>
        = C::Savepoint<'s>
    where
        Self: 's;

    fn dialect(&self) -> driver::Dialect {
        self.0.dialect()
    }

    async fn save(&mut self) -> Result<C::Savepoint<'_>, DriverError> {
        self.0.save().await
    }
}

macro_rules! diesel_async_driver {
    ($feature:literal, $Driver:ident, $Connection:ty) => {
        #[cfg(all(feature = $feature, feature = "diesel-async"))]
        struct $Driver;

        #[cfg(all(feature = $feature, feature = "diesel-async"))]
        impl Driver for $Driver {
            type Connection = $Connection;
            type Transaction<'c> = Open<'c, $Connection>;

            async fn connect(database: &Database) -> Self::Connection {
                <$Connection as diesel_async::AsyncConnection>::establish(&database.url).await.unwrap()
            }

            async fn begin(connection: &mut Self::Connection) -> Self::Transaction<'_> {
                diesel_async::AnsiTransactionManager::begin_transaction(connection).await.unwrap();
                Open(connection)
            }

            async fn run(transaction: &mut Self::Transaction<'_>, text: &'static str) -> Result<(), String> {
                let ran = diesel_async::SimpleAsyncConnection::batch_execute(transaction.0, text).await;
                ran.map_err(|error| error.to_string())
            }

            async fn commit(transaction: Self::Transaction<'_>) -> Result<(), String> {
                let ended = diesel_async::AnsiTransactionManager::commit_transaction(transaction.0).await;
                ended.map_err(|error| error.to_string())
            }

            async fn roll_back(transaction: Self::Transaction<'_>) {
                diesel_async::AnsiTransactionManager::rollback_transaction(transaction.0).await.unwrap();
            }

            async fn outside(
                connection: &mut Self::Connection,
                client: &Client,
            ) -> Option<Result<Enqueued, Error>> {
                Some(client.enqueue(TEXT, &String::new()).run_in(connection).await)
            }
        }
    };
}

diesel_async_driver!("postgres", DieselAsyncPostgres, diesel_async::AsyncPgConnection);
diesel_async_driver!("mysql", DieselAsyncMariadb, diesel_async::AsyncMysqlConnection);

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    match kind {
        #[cfg(feature = "sqlite")]
        ServerKind::Sqlite => add_for::<SqlxSqlite>(trials, kind, "sqlx"),
        #[cfg(feature = "postgres")]
        ServerKind::Postgres => {
            add_for::<SqlxPostgres>(trials, kind, "sqlx");
            add_for::<TokioPostgres>(trials, kind, "tokio_postgres");
            add_for::<DieselAsyncPostgres>(trials, kind, "diesel_async");
        }
        #[cfg(feature = "mysql")]
        ServerKind::Mariadb => {
            add_for::<SqlxMariadb>(trials, kind, "sqlx");
            add_for::<DieselAsyncMariadb>(trials, kind, "diesel_async");
        }
    }
}

fn add_for<D: Driver>(trials: &mut Vec<Trial>, kind: ServerKind, driver: &str) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("every_verb_joins_the_callers_transaction", every_verb_joins_the_callers_transaction::<D>),
        ("a_refusal_leaves_the_transaction_usable", a_refusal_leaves_the_transaction_usable::<D>),
        ("headers_are_set_where_a_request_joins", headers_are_set_where_a_request_joins::<D>),
        ("a_connection_without_a_transaction_is_refused", a_connection_without_a_transaction_is_refused::<D>),
        ("an_old_transaction_is_told_to_begin_anew", an_old_transaction_is_told_to_begin_anew::<D>),
        (
            "a_transaction_that_the_server_has_ended_is_told",
            a_transaction_that_the_server_has_ended_is_told::<D>,
        ),
        ("a_handler_completes_in_its_own_transaction", a_handler_completes_in_its_own_transaction::<D>),
        ("a_handler_goes_on_where_it_stopped", a_handler_goes_on_where_it_stopped::<D>),
        ("a_request_dropped_at_any_statement_is_no_half", a_request_dropped_at_any_statement_is_no_half::<D>),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::drivers::{driver}::{name}", kind.name()), move || test(kind)));
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn yearly() -> Schedule {
    let yearly = Trigger::cron("0 0 0 1 1 ? 2090-2099", "UTC").unwrap();
    Schedule::new("yearly", TEXT, &String::new(), yearly).unwrap()
}

fn every_verb_joins_the_callers_transaction<D: Driver>(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let verbs = || {
        let rows = client.audit(&AuditFilter::default()).unwrap();
        rows.into_iter().rev().map(|row| row.verb).collect::<Vec<_>>()
    };
    runtime().block_on(async {
        let mut connection = D::connect(&database).await;
        let mut transaction = D::begin(&mut connection).await;
        every_verb(&mut transaction, &client).await;
        D::roll_back(transaction).await;
        let mut transaction = D::begin(&mut connection).await;
        assert!(verbs().is_empty() && states(&client).is_empty(), "rolled back with the transaction");
        every_verb(&mut transaction, &client).await;
        D::commit(transaction).await.unwrap();
    });
    let expected = [
        "ensure", "edit", "trigger", "cancel", "retry", "skip", "pause", "resume", "pause", "resume",
        "remove", "sync", "remove",
    ];
    assert_eq!(verbs(), expected);
    let expected = [("CANCELLED", 1), ("CANCELLED", 2), ("SKIPPED", 1)];
    let mut found = states(&client);
    found.retain(|(state, _)| state != "PENDING");
    assert_eq!(found, expected.map(|(state, attempt)| (state.to_owned(), attempt)));
    assert_eq!(states(&client).len(), 3 + 3, "those that were enqueued wait");
    assert!(client.schedules().unwrap().is_empty());
}

async fn every_verb(connection: &mut impl AsyncConnection, client: &Client) {
    assert_eq!(client.ensure(&yearly()).run_in(connection).await.unwrap(), Ensured::Created);
    assert_eq!(client.ensure(&yearly()).run_in(connection).await.unwrap(), Ensured::Unchanged);
    let edited = client.edit("yearly").priority(7).run_in(connection).await.unwrap();
    assert!(matches!(edited, Edited::Changed(_)), "{edited:?}");
    assert_eq!(client.edit("yearly").priority(7).run_in(connection).await.unwrap(), Edited::Unchanged);
    let again = client.trigger("yearly").payload(&"8").run_in(connection).await.unwrap();
    let Triggered::Pending(execution) = again else { panic!("{again:?}") };
    assert_eq!(client.cancel(execution).run_in(connection).await.unwrap(), Cancelled::Cancelled);
    let retried = client.retry(execution).run_in(connection).await.unwrap();
    assert!(matches!(retried, Retried::Pending(_)), "{retried:?}");
    let next = chrono::DateTime::parse_from_rfc3339("2090-01-01T00:00:00Z").unwrap().to_utc();
    let skipped = client.skip("yearly", next).run_in(connection).await.unwrap();
    assert!(matches!(skipped, Skipped::Skipped { .. }), "{skipped:?}");
    assert_eq!(client.pause("yearly").until(next).run_in(connection).await.unwrap(), Paused::Paused);
    assert_eq!(client.resume("yearly").run_in(connection).await.unwrap(), Resumed::Resumed);
    assert_eq!(client.pause(Target::job("text")).run_in(connection).await.unwrap(), Paused::Paused);
    assert_eq!(client.resume(Target::job("text")).run_in(connection).await.unwrap(), Resumed::Resumed);
    let nobodys = client.pause("nobody's").run_in(connection).await.unwrap_err();
    assert_eq!(nobodys.kind(), ErrorKind::NotFound);
    let nodes = client.drain("8b0b4b0e-0c57-4c5e-9a53-0d2f8e1f7a11").run_in(connection).await.unwrap_err();
    assert_eq!(nodes.kind(), ErrorKind::NotFound);
    assert_eq!(client.remove("yearly").cancel_running().run_in(connection).await.unwrap(), Removed::Removed);
    let listed =
        Schedule::new("listed", TEXT, &String::new(), Trigger::cron("@yearly", "UTC").unwrap()).unwrap();
    let synced = client.sync("billing", 1, &[listed]).run_in(connection).await.unwrap();
    assert!(matches!(synced, Synced::Changed(_)), "{synced:?}");
    let synced = client.sync("billing", 2, &[]).allow_empty().run_in(connection).await.unwrap();
    assert!(matches!(synced, Synced::Changed(_)), "{synced:?}");
    let (one, other) = ("naïve ☂".to_owned(), "2".to_owned());
    let keyed = client.enqueue(TEXT, &one).key("k").tag("t").group("g").run_in(connection).await.unwrap();
    let Enqueued::Created(id) = keyed else { panic!("{keyed:?}") };
    let again = client.enqueue(TEXT, &other).key("k").run_in(connection).await.unwrap();
    assert_eq!(again, Enqueued::Existing(id));
    let many = client.enqueue_many(TEXT, [&one, &other]).run_in(connection).await.unwrap();
    assert_eq!(many.len(), 2);
}

fn a_refusal_leaves_the_transaction_usable<D: Driver>(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    database.batch("CREATE TABLE orders (id BIGINT)");
    runtime().block_on(async {
        let mut connection = D::connect(&database).await;
        let mut transaction = D::begin(&mut connection).await;
        D::run(&mut transaction, "INSERT INTO orders (id) VALUES (1)").await.unwrap();
        let refused = client.pause("nobody's").run_in(&mut transaction).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        let refused = client.enqueue(TEXT, &"x".repeat(9_000)).run_in(&mut transaction).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        client.enqueue(TEXT, &"7".to_owned()).run_in(&mut transaction).await.unwrap();
        D::commit(transaction).await.unwrap();
    });
    assert_eq!(states(&client), [("PENDING".to_owned(), 1)]);
    database.batch("DELETE FROM orders WHERE id = 1");
}

/// On the thread of whoever asks, as the blocking pool has neither its span nor its thread-locals.
fn headers_are_set_where_a_request_joins<D: Driver>(kind: ServerKind) {
    let database = kind.fresh();
    let here = std::thread::current().id();
    let client = client(&database).around_enqueue(move |outgoing| {
        assert_eq!(std::thread::current().id(), here);
        outgoing.set_header("tenant", "7");
        if outgoing.header("refused").is_some() { Err("not today".into()) } else { Ok(()) }
    });
    client.ensure(&yearly()).run().unwrap();
    let (one, many, again) = runtime().block_on(async {
        let mut connection = D::connect(&database).await;
        let mut transaction = D::begin(&mut connection).await;
        let text = "7".to_owned();
        let one = client.enqueue(TEXT, &text).run_in(&mut transaction).await.unwrap().id();
        let many = client.enqueue_many(TEXT, [&text]).run_in(&mut transaction).await.unwrap()[0];
        let again = client.trigger("yearly").run_in(&mut transaction).await.unwrap();
        let refused = client.enqueue(TEXT, &text).header("refused", "").run_in(&mut transaction);
        assert!(refused.await.unwrap_err().to_string().ends_with("not today"));
        D::commit(transaction).await.unwrap();
        (one, many, again)
    });
    let Triggered::Pending(again) = again else { panic!("{again:?}") };
    for id in [one, many, again] {
        assert_eq!(client.execution(id).unwrap().headers["tenant"], "7");
    }
    assert_eq!(states(&client).len(), 3);
}

fn a_connection_without_a_transaction_is_refused<D: Driver>(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    runtime().block_on(async {
        let mut connection = D::connect(&database).await;
        if let Some(answer) = D::outside(&mut connection, &client).await {
            let refused = answer.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
            assert!(refused.to_string().contains("begin it with"), "{refused}");
        }
        let mut transaction = D::begin(&mut connection).await;
        client.enqueue(TEXT, &String::new()).run_in(&mut transaction).await.unwrap();
        D::commit(transaction).await.unwrap();
    });
    assert_eq!(states(&client), [("PENDING".to_owned(), 1)]);
}

/// Somebody else resumes the job after the transaction has seen it paused: the answer depends on how the
/// database isolates, but there is one, and it is known by the driver's code.
fn an_old_transaction_is_told_to_begin_anew<D: Driver>(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    client.ensure(&yearly()).run().unwrap();
    client.pause(Target::job("text")).run().unwrap();
    runtime().block_on(async {
        let mut connection = D::connect(&database).await;
        let mut transaction = D::begin(&mut connection).await;
        if kind.name() == "postgres" {
            D::run(&mut transaction, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        }
        D::run(&mut transaction, "UPDATE QRTZ_JOB SET job_class = 'none' WHERE id = -1").await.unwrap();
        if kind.name() != "sqlite" {
            client.resume(Target::job("text")).run().unwrap();
        }
        match client.resume(Target::job("text")).run_in(&mut transaction).await {
            Ok(answer) => assert_eq!(answer == Resumed::Resumed, kind.name() == "sqlite", "{answer:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
        }
        D::roll_back(transaction).await;
    });
}

/// As MariaDB ends one for a CREATE TABLE; the driver still counts it.
fn a_transaction_that_the_server_has_ended_is_told<D: Driver>(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    runtime().block_on(async {
        let mut connection = D::connect(&database).await;
        let mut transaction = D::begin(&mut connection).await;
        D::run(&mut transaction, "CREATE TABLE orders (id BIGINT)").await.unwrap();
        match client.enqueue(TEXT, &String::new()).run_in(&mut transaction).await {
            Ok(_) => assert_ne!(kind.name(), "mariadb"),
            Err(refused) => assert_eq!((refused.kind(), kind.name()), (ErrorKind::Conflict, "mariadb")),
        }
    });
    assert_eq!(states(&client), []);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Before,
    Within,
    Behind,
}

/// Where a request stops for good: at the statement with this number, those of its savepoint included.
#[derive(Clone, Debug)]
struct Stop {
    at: usize,
    how: How,
    seen: Arc<AtomicUsize>,
    is_there: Arc<AtomicBool>,
}

impl Stop {
    fn new(at: usize, how: How) -> Self {
        Self { at, how, seen: Arc::default(), is_there: Arc::default() }
    }

    async fn at<T>(&self, statement: impl Future<Output = T>) -> T {
        if self.seen.fetch_add(1, Ordering::Relaxed) != self.at {
            return statement.await;
        }
        let mut statement = pin!(statement);
        match self.how {
            How::Before => {}
            How::Within => {
                let once =
                    |context: &mut Context<'_>| Poll::Ready(statement.as_mut().poll(context).is_ready());
                poll_fn(once).await;
            }
            How::Behind => drop(statement.as_mut().await),
        }
        self.is_there.store(true, Ordering::Relaxed);
        pending().await
    }
}

/// A transaction in which a request stops: also an adapter that somebody else has written.
struct Stopping<'a, T> {
    transaction: &'a mut T,
    stop: Stop,
}

struct StoppingSavepoint<S> {
    savepoint: S,
    stop: Stop,
}

impl<T: AsyncConnection> AsyncConnection for Stopping<'_, T> {
    type Savepoint<'s>
        = StoppingSavepoint<T::Savepoint<'s>>
    where
        Self: 's;

    fn dialect(&self) -> driver::Dialect {
        self.transaction.dialect()
    }

    async fn save(&mut self) -> Result<Self::Savepoint<'_>, DriverError> {
        let savepoint = self.stop.at(self.transaction.save()).await?;
        Ok(StoppingSavepoint { savepoint, stop: self.stop.clone() })
    }
}

impl<S: Savepoint> Savepoint for StoppingSavepoint<S> {
    async fn execute(&mut self, query: Query) -> Result<u64, DriverError> {
        self.stop.at(self.savepoint.execute(query)).await
    }

    async fn rows(&mut self, query: Query) -> Result<Vec<Vec<Value>>, DriverError> {
        self.stop.at(self.savepoint.rows(query)).await
    }

    async fn release(self) -> Result<(), DriverError> {
        self.stop.at(self.savepoint.release()).await
    }

    async fn roll_back(self) -> Result<(), DriverError> {
        self.stop.at(self.savepoint.roll_back()).await
    }
}

/// What its caller commits behind it is committed with it or without it, and if it cannot be, nothing is.
fn a_request_dropped_at_any_statement_is_no_half<D: Driver>(kind: ServerKind) {
    let (mut usable, mut refused) = (0, 0);
    for how in [How::Before, How::Within, How::Behind] {
        for at in 0.. {
            let database = kind.fresh();
            let client = client(&database);
            database.batch("CREATE TABLE orders (id BIGINT PRIMARY KEY)");
            let stop = Stop::new(at, how);
            let is_there = || stop.is_there.load(Ordering::Relaxed);
            let ended = runtime().block_on(async {
                let mut connection = D::connect(&database).await;
                let mut transaction = D::begin(&mut connection).await;
                D::run(&mut transaction, "INSERT INTO orders (id) VALUES (1)").await.unwrap();
                {
                    let mut stopping = Stopping { transaction: &mut transaction, stop: stop.clone() };
                    let schedule = yearly();
                    let mut request = client.ensure(&schedule).run_in(&mut stopping);
                    let stopped = poll_fn(|context| match request.as_mut().poll(context) {
                        Poll::Pending if !is_there() => Poll::Pending,
                        polled => Poll::Ready(polled),
                    });
                    assert!(stopped.await.is_pending() || !is_there());
                }
                let both = async {
                    D::run(&mut transaction, "INSERT INTO orders (id) VALUES (2)").await?;
                    D::commit(transaction).await
                };
                tokio::time::timeout(SOON, both)
                    .await
                    .unwrap_or_else(|_| panic!("{how:?} {at}: the driver waits for ever"))
            });
            let schedules = client.schedules().unwrap().len();
            let audited = client.audit(&AuditFilter::default()).unwrap().len();
            assert_eq!(schedules, audited, "half a request: {how:?} {at}");
            if !is_there() {
                assert_eq!((ended, schedules), (Ok(()), 1));
                break;
            }
            // Both orders are there, or neither.
            let orders = database.try_batch("INSERT INTO orders (id) VALUES (1)").is_err();
            let other = database.try_batch("INSERT INTO orders (id) VALUES (2)").is_err();
            assert_eq!((orders, other), (ended.is_ok(), ended.is_ok()), "{how:?} {at}: {ended:?}");
            assert!(ended.is_ok() || schedules == 0, "{how:?} {at}: {ended:?}");
            if ended.is_ok() { usable += 1 } else { refused += 1 }
        }
    }
    println!("{kind:?}: {usable} transactions went on, {refused} were refused");
    assert!(usable > 0);
}

/// Inserts a row and completes with it; "made anew" once more in a transaction of its own, as if nobody had
/// answered the first COMMIT.
async fn charge<D: Driver>(
    database: &Database,
    context: &firetime::Context,
    how: &str,
) -> Result<Receipt, String> {
    let mut connection = D::connect(database).await;
    let mut first = None;
    for _ in 0..if how.contains("made anew") { 2 } else { 1 } {
        let mut transaction = D::begin(&mut connection).await;
        D::run(&mut transaction, "INSERT INTO charges (id) SELECT COUNT(*) FROM charges").await?;
        let receipt = context.complete_in(&mut transaction).await;
        if receipt.is_err() || (context.attempt() == 1 && how.contains("rolled back")) {
            D::roll_back(transaction).await;
        } else {
            D::commit(transaction).await?;
        }
        first.get_or_insert(receipt);
    }
    first.unwrap().map_err(|error| error.to_string())
}

/// However a handler ends: what it has committed is there once, with the outcome.
fn a_handler_completes_in_its_own_transaction<D: Driver>(kind: ServerKind) {
    const HOW: Job<String> = Job::new("how");
    let database = kind.fresh();
    let client = client(&database);
    database.batch("CREATE TABLE charges (id BIGINT PRIMARY KEY)");
    let retry = Retry::fixed(Duration::ZERO).at_most(1);
    let of_handler = database.clone();
    let scheduler = builder(&database)
        .handler(HOW.retry(retry), move |context, how| {
            context.result(&how)?;
            let receipt = runtime().block_on(charge::<D>(&of_handler, context, &how))?;
            match how.as_str() {
                "committed, then an error" => Err("after its commit".into()),
                "committed, then a panic" => panic!("after its commit"),
                "committed, then a snooze" => Ok(Answer::Snooze(Duration::from_secs(3_600))),
                "committed, then done" | "rolled back, then done" => Ok(Answer::Done),
                _ => Ok(Answer::Completed(receipt)),
            }
        })
        .start()
        .unwrap();
    let hows = [
        ("committed", 1),
        ("committed, then an error", 1),
        ("committed, then a panic", 1),
        ("committed, then a snooze", 1),
        ("committed, then done", 1),
        ("committed, then made anew", 1),
        ("rolled back", 2),
        ("rolled back, then done", 2),
    ];
    for (effects, (how, attempts)) in (1..).zip(hows) {
        let id = client.enqueue(HOW, &how.to_owned()).run().unwrap().id();
        let ended = until(how, || {
            let execution = client.execution(id).unwrap();
            (execution.last().state == ExecutionState::Succeeded).then_some(execution)
        });
        assert_eq!(ended.attempts.len(), attempts, "{how}: {ended:?}");
        assert_eq!(ended.result_as::<String>().unwrap().as_deref(), Some(how));
        if attempts == 2 {
            let why = ended.attempts[0].error.as_str();
            assert!(
                ended.attempts[0].state == ExecutionState::Failed && why.contains("rolled back"),
                "{ended:?}"
            );
        }
        assert!(database.try_batch(&format!("INSERT INTO charges (id) VALUES ({})", effects - 1)).is_err());
        assert!(database.try_batch(&format!("INSERT INTO charges (id) VALUES ({effects})")).is_ok(), "{how}");
        database.batch(&format!("DELETE FROM charges WHERE id = {effects}"));
    }
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// After a failure and a snooze; what its transaction rolled back it does again.
fn a_handler_goes_on_where_it_stopped<D: Driver>(kind: ServerKind) {
    const PAGES: Job<u32> = Job::new("pages");
    let database = kind.fresh();
    let client = client(&database);
    database.batch("CREATE TABLE pages (page BIGINT PRIMARY KEY)");
    let (of_handler, (tell, told)) = (database.clone(), teller());
    let scheduler = builder(&database)
        .handler(PAGES.retry(Retry::fixed(Duration::ZERO).at_most(1)), move |context, pages| {
            let from: u32 = context.resume()?.unwrap_or(0);
            tell.lock().unwrap().send(from).map_err(|_| "gone")?;
            for page in from..pages {
                runtime().block_on(async {
                    let mut connection = D::connect(&of_handler).await;
                    let mut transaction = D::begin(&mut connection).await;
                    D::run(&mut transaction, "INSERT INTO pages (page) SELECT COUNT(*) FROM pages").await?;
                    context
                        .checkpoint_in(&(page + 1), &mut transaction)
                        .await
                        .map_err(|it| it.to_string())?;
                    if page == 2 && context.attempt() == 1 {
                        D::roll_back(transaction).await;
                        return Err("in the middle of page 2".to_owned());
                    }
                    D::commit(transaction).await
                })?;
                if page == 3 && context.snoozes() == 0 {
                    return Ok(Answer::Snooze(Duration::ZERO));
                }
            }
            context.checkpoint(&"done")?;
            Ok(Answer::Done)
        })
        .start()
        .unwrap();
    let id = client.enqueue(PAGES, &6).run().unwrap().id();
    let ended = until("it does not end", || {
        let execution = client.execution(id).unwrap();
        let last = execution.last().clone();
        (last.state == ExecutionState::Succeeded).then(|| client.execution(last.id).unwrap())
    });
    assert_eq!((ended.checkpoint.as_deref(), ended.attempts.len()), (Some("\"done\""), 2));
    let began: Vec<u32> = told.try_iter().collect();
    assert_eq!(began, [0, 2, 4]);
    for (page, is_there) in (0..7).map(|page| (page, page < 6)) {
        assert_eq!(
            database.try_batch(&format!("INSERT INTO pages (page) VALUES ({page})")).is_err(),
            is_there
        );
    }
    assert!(scheduler.shutdown(SOON).is_clean());
}

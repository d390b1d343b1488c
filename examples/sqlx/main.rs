//! A shop behind axum and SQLx on PostgreSQL. An order is stored with its charge and its reminder, or not at
//! all. The charge is booked, and its invoice enqueued, in the transaction that ends the execution: once,
//! whatever is killed. The payment cancels the reminder. Start it twice, on one database, and kill one of
//! them: the other goes on. On Unix.
//!
//! ```text
//! ADDRESS=127.0.0.1:3000 DATABASE_URL=postgres://... cargo run --example sqlx --features sqlx,postgres
//! curl -X PUT localhost:3000/orders/7 -H 'content-type: application/json' -d '{"cents": 1990}'
//! curl localhost:3000/orders/7
//! curl -X POST localhost:3000/orders/7/payment
//! ```

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{post, put};
use axum::{Json, Router};
use firetime::{Client, Context, ErrorKind, Job, Receipt, Retry, Scheduler};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::signal::unix::{SignalKind, signal};

const RETRY: Retry = Retry::exponential(Duration::from_secs(1), Duration::from_secs(60)).at_most(4);
const CHARGE: Job<i64> = Job::new("charge").time_limit(Duration::from_secs(10)).retry(RETRY);
const INVOICE: Job<i64> = Job::new("invoice").retry(RETRY);
const REMIND: Job<i64> = Job::new("remind").retry(RETRY);

/// A job's effect is a row. No constraint keeps a second one of an order away: none is needed.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY, cents BIGINT NOT NULL, reminder BIGINT NOT NULL,
                                       is_paid BOOLEAN NOT NULL DEFAULT FALSE);
    CREATE TABLE IF NOT EXISTS charges (order_id BIGINT NOT NULL REFERENCES orders, cents BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS letters (order_id BIGINT NOT NULL REFERENCES orders, subject TEXT NOT NULL);";

#[derive(Clone)]
struct Shop {
    client: Client,
    pool: PgPool,
    /// How long after an order its reminder is sent.
    patience: Duration,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("DATABASE_URL")?;
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let patience = std::env::var("PATIENCE").map_or(Ok(86_400), |seconds| seconds.parse())?;
    let pool = PgPoolOptions::new().max_connections(10).connect(&url).await?;
    make_tables(&pool).await?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    firetime::migrate(&url)?;
    let client = Client::connect_async("shop", &url).await?;
    let shop = Shop { client, pool, patience: Duration::from_secs(patience) };
    let (charging, invoicing, reminding) = (shop.clone(), shop.clone(), shop.clone());
    let scheduler = Scheduler::builder("shop", &url)
        .async_handler(CHARGE, move |context, order| charging.clone().charge(context, order))
        .async_handler(INVOICE, move |context, order| invoicing.clone().send(context, order, "invoice"))
        .async_handler(REMIND, move |context, order| reminding.clone().send(context, order, "reminder"))
        // Each has a connection of the pool's ten: two are left for requests.
        .concurrency(8)
        // What this instance leaves behind when it is killed the other one takes over within 20 s, not 40.
        .heartbeat_interval(Duration::from_secs(1))
        .death_after(Duration::from_secs(10))
        .misfire_interval(Duration::from_secs(5))
        .start_async()
        .await?;
    let routes = Router::new()
        .route("/orders/{order}", put(place).get(look))
        .route("/orders/{order}/payment", post(pay))
        .with_state(shop);
    println!("listening on {}", listener.local_addr()?);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, routes).with_graceful_shutdown(async { drop(stopped.await) });
    let server = tokio::spawn(server.into_future());
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    // First no more requests, then no more jobs.
    drop(stop);
    if tokio::time::timeout(Duration::from_secs(5), server).await.is_err() {
        println!("some requests have not ended");
    }
    let stopped = scheduler.shutdown_async(Duration::from_secs(20)).await;
    println!("stopped {}", if stopped.is_clean() { "cleanly" } else { "with work left to others" });
    Ok(())
}

/// Instances that start at once wait for each other: PostgreSQL refuses to create one table twice at a time.
async fn make_tables(pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(55)").execute(&mut *transaction).await?;
    sqlx::raw_sql(TABLES).execute(&mut *transaction).await?;
    transaction.commit().await
}

#[derive(Deserialize)]
struct Amount {
    cents: i64,
}

/// An order that is there already is left as it is: whoever got no answer asks again.
async fn place(
    State(shop): State<Shop>,
    Path(order): Path<i64>,
    Json(amount): Json<Amount>,
) -> Result<StatusCode, Refusal> {
    let is_new = whole(async move { shop.place(order, amount.cents).await }).await?;
    Ok(if is_new { StatusCode::CREATED } else { StatusCode::OK })
}

async fn pay(State(shop): State<Shop>, Path(order): Path<i64>) -> Result<StatusCode, Refusal> {
    let is_there = whole(async move { shop.pay(order).await }).await?;
    Ok(if is_there { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND })
}

/// Axum drops a route's future when its client hangs up. In a task of its own a transaction runs to its end.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::spawn(work).await {
        Ok(ended) => ended.map_err(refusal),
        Err(error) => Err(refusal(error.into())),
    }
}

impl Shop {
    /// The order, its charge and its reminder: all three are there once this is committed, or none.
    async fn place(&self, order: i64, cents: i64) -> Result<bool, Failure> {
        let mut transaction = self.pool.begin().await?;
        let key = format!("order-{order}");
        self.client.enqueue(CHARGE, &order).key(&key).run_in(&mut *transaction).await?;
        let remind = self.client.enqueue(REMIND, &order).key(&key).after(self.patience);
        let reminder = remind.run_in(&mut *transaction).await?.id();
        let row = "INSERT INTO orders (id, cents, reminder) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";
        let row = sqlx::query(row).bind(order).bind(cents).bind(reminder.get());
        if row.execute(&mut *transaction).await?.rows_affected() == 0 {
            // It is there already. What this request has enqueued is rolled back.
            return Ok(false);
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// The order is paid, and nobody is reminded of it any more.
    async fn pay(&self, order: i64) -> Result<bool, Failure> {
        let mut transaction = self.pool.begin().await?;
        let row = sqlx::query_scalar("UPDATE orders SET is_paid = TRUE WHERE id = $1 RETURNING reminder");
        let reminder: Option<i64> = row.bind(order).fetch_optional(&mut *transaction).await?;
        let Some(reminder) = reminder else { return Ok(false) };
        match self.client.cancel(reminder).reason("paid").run_in(&mut *transaction).await {
            // The ledger forgets an execution 30 days after its end.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            cancelled => drop(cancelled?),
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Books the charge and enqueues its invoice. Both are there if and when the execution has succeeded: a
    /// process that is killed in here leaves nothing, and another one begins anew.
    async fn charge(self, context: Context, order: i64) -> Result<Receipt, Failure> {
        let mut transaction = self.pool.begin().await?;
        let row = "INSERT INTO charges (order_id, cents) SELECT id, cents FROM orders WHERE id = $1";
        sqlx::query(row).bind(order).execute(&mut *transaction).await?;
        // Time to kill it halfway. Yours keeps its transactions short.
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.client.enqueue(INVOICE, &order).run_in(&mut *transaction).await?;
        let receipt = context.complete_in(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(receipt)
    }

    /// Writes to the customer. In place of a mail server, which nobody can roll back, stands a table.
    async fn send(self, context: Context, order: i64, subject: &str) -> Result<Receipt, Failure> {
        let mut transaction = self.pool.begin().await?;
        let row = sqlx::query("INSERT INTO letters (order_id, subject) VALUES ($1, $2)");
        row.bind(order).bind(subject).execute(&mut *transaction).await?;
        let receipt = context.complete_in(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(receipt)
    }
}

/// What has happened to an order, and how often, by the shop's own tables.
async fn look(State(shop): State<Shop>, Path(order): Path<i64>) -> Result<Json<Value>, Refusal> {
    let question = "SELECT is_paid, (SELECT COUNT(*) FROM charges WHERE order_id = id), \
                    (SELECT COUNT(*) FROM letters WHERE order_id = id AND subject = 'invoice'), \
                    (SELECT COUNT(*) FROM letters WHERE order_id = id AND subject = 'reminder') \
                    FROM orders WHERE id = $1";
    let row = sqlx::query_as::<_, (bool, i64, i64, i64)>(question).bind(order);
    let row = row.fetch_optional(&shop.pool).await.map_err(|error| refusal(error.into()))?;
    let (is_paid, charges, invoices, reminders) =
        row.ok_or((StatusCode::NOT_FOUND, "there is no such order".to_owned()))?;
    Ok(Json(json!({ "is_paid": is_paid, "charges": charges, "invoices": invoices, "reminders": reminders })))
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Refusal = (StatusCode, String);

/// A database's own words are for the log, and not for whoever asked. Nothing was committed, or it may have
/// been: the order's number makes it safe to ask again.
#[expect(clippy::print_stderr, reason = "an example shows what happens")]
fn refusal(error: Failure) -> Refusal {
    match error.downcast_ref::<firetime::Error>() {
        Some(error) if error.kind() == ErrorKind::Config => (StatusCode::BAD_REQUEST, error.to_string()),
        _ => {
            eprintln!("{error}");
            (StatusCode::SERVICE_UNAVAILABLE, "try again in a moment".to_owned())
        }
    }
}

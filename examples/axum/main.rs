//! A shop behind axum: routes that enqueue a charge, cancel it and tell its status, and a shutdown that loses
//! none. Start it twice, on one database, and end one of them: the other goes on.
//!
//! ```text
//! ADDRESS=127.0.0.1:3000 DATABASE_URL=postgres://... cargo run --example axum --features tokio,postgres
//! curl -X POST localhost:3000/orders/7/charge -H 'content-type: application/json' -d '{"cents": 1990}'
//! curl localhost:3000/executions/1
//! curl -X DELETE localhost:3000/executions/1
//! ```

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use firetime::{Cancelled, Client, Enqueued, ErrorKind, Job, Retry, Scheduler};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize)]
struct Charge {
    order: u64,
    cents: u64,
}

/// Tried five times in all, after 1 s, 2 s, 4 s and 8 s; each time for at most 10 s.
const CHARGE: Job<Charge> = Job::new("charge")
    .timeout(Duration::from_secs(10))
    .retry(Retry::exponential(Duration::from_secs(1), Duration::from_secs(60)).at_most(4));

type Failure = (StatusCode, String);

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite:shop.db".to_owned());
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let scheduler = Scheduler::builder("shop", &url)
        .async_handler(CHARGE, |context, charge| async move {
            tokio::select! {
                paid = pay(&charge) => paid?,
                // The grace is over soon: nothing was paid.
                why = context.cancelled() => return Err(format!("not charged: {why:?}").into()),
            }
            println!("charged order {}", charge.order);
            Ok(())
        })
        // What this instance leaves behind when it is killed the other one takes over within 20 s, not 40.
        .heartbeat_interval(Duration::from_secs(1))
        .death_after(Duration::from_secs(10))
        .misfire_interval(Duration::from_secs(5))
        .start_async()
        .await?;
    let routes = Router::new()
        .route("/orders/{order}/charge", post(charge))
        .route("/executions/{id}", get(status).delete(cancel))
        .with_state(scheduler.client());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    // First no more requests, then the charges that run here have 20 s to end; what waits is left to others.
    axum::serve(listener, routes).with_graceful_shutdown(asked_to_stop()).await?;
    let is_clean = scheduler.shutdown_async(Duration::from_secs(20)).await;
    println!("stopped {}", if is_clean { "cleanly" } else { "with work left to others" });
    Ok(())
}

/// In place of a request to a bank.
async fn pay(charge: &Charge) -> Result<(), String> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    if charge.cents > 0 { Ok(()) } else { Err("nothing to pay".to_owned()) }
}

#[derive(Deserialize)]
struct Amount {
    cents: u64,
}

/// One unfinished charge for each order, however often it is asked for.
async fn charge(
    State(client): State<Client>,
    Path(order): Path<u64>,
    Json(amount): Json<Amount>,
) -> Result<(StatusCode, Json<Value>), Failure> {
    let charge = Charge { order, cents: amount.cents };
    let enqueued = client.enqueue(CHARGE, &charge).key(&format!("order-{order}")).await.map_err(failure)?;
    Ok(match enqueued {
        Enqueued::Created(id) => (StatusCode::ACCEPTED, Json(json!({ "execution": id.get() }))),
        Enqueued::Existing(id) => (StatusCode::OK, Json(json!({ "execution": id.get() }))),
        other => (StatusCode::OK, Json(json!({ "answer": format!("{other:?}") }))),
    })
}

/// How the last attempt stands.
async fn status(State(client): State<Client>, Path(id): Path<i64>) -> Result<Json<Value>, Failure> {
    // A read blocks: it belongs to the blocking pool.
    let found = tokio::task::spawn_blocking(move || client.execution(id)).await;
    let details = found.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let attempts = details.map_err(failure)?.attempts;
    let last =
        attempts.last().map(|it| json!({ "state": it.state, "attempt": it.attempt, "error": it.error }));
    last.map(Json).ok_or_else(|| (StatusCode::NOT_FOUND, format!("no execution {id}")))
}

async fn cancel(State(client): State<Client>, Path(id): Path<i64>) -> Result<Json<Value>, Failure> {
    let answer = client.cancel(id).reason("the customer has changed her mind").await.map_err(failure)?;
    Ok(Json(json!(match answer {
        Cancelled::Cancelled => "cancelled",
        Cancelled::Asked { .. } => "asked to end",
        _ => "it has ended",
    })))
}

fn failure(error: firetime::Error) -> Failure {
    let status = match error.kind() {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Config => StatusCode::BAD_REQUEST,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, error.to_string())
}

/// Ctrl-C, or SIGTERM as a supervisor sends it.
async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

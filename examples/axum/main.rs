//! A shop behind axum: routes that enqueue a charge, cancel it and tell its status, others for probes and
//! Prometheus, and a shutdown that loses none. Start it twice, on one database, and end one of them: the other
//! goes on. On Unix.
//!
//! ```text
//! ADDRESS=127.0.0.1:3000 DATABASE_URL=postgres://... cargo run --example axum --features tokio,postgres
//! curl -X POST localhost:3000/orders/7/charge -H 'content-type: application/json' -d '{"cents": 1990}'
//! curl localhost:3000/executions/1
//! curl -X DELETE localhost:3000/executions/1
//! curl localhost:3000/metrics
//! ```

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header::CONTENT_TYPE};
use axum::routing::{get, post};
use axum::{Json, Router};
use firetime::{
    Answer, Cancellation, Cancelled, Client, Enqueued, ErrorKind, Health, Job, Metrics, Retry, Scheduler,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Serialize, Deserialize)]
struct Charge {
    order: u64,
    cents: u64,
}

/// Tried five times in all, after 1 s, 2 s, 4 s and 8 s; each time for at most 10 s.
const CHARGE: Job<Charge> = Job::new("charge")
    .time_limit(Duration::from_secs(10))
    .retry(Retry::exponential(Duration::from_secs(1), Duration::from_secs(60)).at_most(4));

type Failure = (StatusCode, String);

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite:shop.db".to_owned());
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    // Before anything is claimed: the address may be taken, and a signal may come at any time from then on.
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let scheduler = Scheduler::builder("shop", &url)
        .async_handler(CHARGE, |context, charge| async move {
            // An execution may run twice, as when its process is killed just after it has paid. The bank
            // knows the order's number and charges once.
            tokio::select! {
                paid = pay(&charge) => paid?,
                why = context.cancelled() => return Ok(match why {
                    Cancellation::ByHand => Answer::Cancelled("the customer has changed her mind".to_owned()),
                    // The node's lease has ended: it is run anew. After the time limit no answer counts.
                    _ => Answer::Snooze(Duration::ZERO),
                }),
            }
            println!("charged order {}", charge.order);
            // Shown with the execution; its result also goes to `client.wait`.
            context.log(format!("charged {} cents", charge.cents));
            context.result(&charge.cents)?;
            Ok(Answer::Done)
        })
        // What this instance leaves behind when it is killed the other one takes over within 20 s, not 40.
        .heartbeat_interval(Duration::from_secs(1))
        .death_after(Duration::from_secs(10))
        .misfire_interval(Duration::from_secs(5))
        .start_async()
        .await?;
    let scheduler = Arc::new(scheduler);
    // For probes and Prometheus alone: they ask no database. Keep them from strangers.
    let inside = Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(Arc::clone(&scheduler));
    let routes = Router::new()
        .route("/orders/{order}/charge", post(charge))
        .route("/executions/{id}", get(status).delete(cancel))
        .with_state(scheduler.client())
        .merge(inside);
    println!("listening on {}", listener.local_addr()?);
    // First no more requests: those under way have 5 s to end. Then the charges that run here have 20 s, less
    // a quarter, after which they are handed back. Waiting charges are left to others.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, routes).with_graceful_shutdown(async { drop(stopped.await) });
    let server = tokio::spawn(server.into_future());
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    drop(stop);
    if tokio::time::timeout(Duration::from_secs(5), server).await.is_err() {
        println!("some requests have not ended");
    }
    let stopped = scheduler.shutdown_async(Duration::from_secs(20)).await;
    println!("stopped {}", if stopped.is_clean() { "cleanly" } else { "with work left to others" });
    Ok(())
}

/// In place of a request to a bank, with the order's number as its idempotency key.
async fn pay(charge: &Charge) -> Result<(), String> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    if charge.cents > 0 { Ok(()) } else { Err("nothing to pay".to_owned()) }
}

#[derive(Deserialize)]
struct Amount {
    cents: u64,
}

/// One unfinished charge for each order. Once it has ended, a request makes another: whether the order is
/// paid is for its own row to say.
async fn charge(
    State(client): State<Client>,
    Path(order): Path<u64>,
    headers: HeaderMap,
    Json(amount): Json<Amount>,
) -> Result<(StatusCode, Json<Value>), Failure> {
    let charge = Charge { order, cents: amount.cents };
    let (key, trace) = (format!("order-{order}"), headers.get("traceparent"));
    let mut request = client.enqueue(CHARGE, &charge).key(&key);
    // The handler, on whatever node, has it as `context.header("traceparent")`: docs/guide/traces.md makes
    // spans of it.
    if let Some(trace) = trace.and_then(|trace| trace.to_str().ok()) {
        request = request.header("traceparent", trace);
    }
    let enqueued = request.await.map_err(failure)?;
    let is_new = matches!(enqueued, Enqueued::Created(_));
    let status = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(json!({ "execution": enqueued.id().get() }))))
}

/// How the last attempt stands, and what the handlers have logged.
async fn status(State(client): State<Client>, Path(id): Path<i64>) -> Result<Json<Value>, Failure> {
    // A read blocks: it belongs to the blocking pool.
    let found = tokio::task::spawn_blocking(move || Ok((client.execution(id)?, client.logs(id)?))).await;
    let found = found.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let (details, logs) = found.map_err(failure)?;
    let result: Option<Value> = details.result_as().map_err(failure)?;
    let (last, lines) = (details.last(), logs.lines.iter().map(|line| &line.text));
    Ok(Json(json!({
        "state": last.state,
        "attempt": last.attempt,
        "error": last.error,
        "result": result,
        "lines": lines.collect::<Vec<_>>(),
    })))
}

async fn cancel(State(client): State<Client>, Path(id): Path<i64>) -> Result<Json<Value>, Failure> {
    let answer = client.cancel(id).reason("the customer has changed her mind").await.map_err(failure)?;
    Ok(Json(json!(match answer {
        Cancelled::Cancelled => "cancelled",
        Cancelled::Asked { .. } => "asked to end",
        _ => "it has ended",
    })))
}

/// Whether only another process helps.
async fn live(State(scheduler): State<Arc<Scheduler>>) -> (StatusCode, Json<Health>) {
    let health = scheduler.health();
    (status_of(health.is_live()), Json(health))
}

/// Whether it works; its body says why not.
async fn ready(State(scheduler): State<Arc<Scheduler>>) -> (StatusCode, Json<Health>) {
    let health = scheduler.health();
    (status_of(health.is_ready()), Json(health))
}

fn status_of(is_well: bool) -> StatusCode {
    if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn metrics(State(scheduler): State<Arc<Scheduler>>) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], scheduler.metrics().to_prometheus())
}

/// A database's own words are for the log, and not for whoever asked.
#[expect(clippy::print_stderr, reason = "an example shows what happens")]
fn failure(error: firetime::Error) -> Failure {
    let status = match error.kind() {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Config => StatusCode::BAD_REQUEST,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    if status == StatusCode::SERVICE_UNAVAILABLE {
        eprintln!("{error:#}");
        return (status, "try again in a moment".to_owned());
    }
    (status, error.to_string())
}

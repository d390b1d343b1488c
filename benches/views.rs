//! How long lists of executions, counts of outcomes, and the console's pages take in a large ledger:
//! `scripts/bench-views.sh` loads one and runs this.
//!
//! For each list the first and the hundredth page of 50 rows: the median of five calls of a client that is
//! connected already, in milliseconds, and how many rows came. The same for each count, and for each page,
//! asked of the console's router, with its size.

#![allow(clippy::disallowed_methods, reason = "a bench reads the real clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and panics when it cannot go on"
)]

mod support;

use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{Client, ExecutionFilter, ExecutionState, ExecutionView, OutcomeFilter};

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    let url = arguments.next().filter(|it| it.contains(':')).expect("the database's URL");
    // The ledger reaches thirty days from there.
    let first = arguments.next().and_then(|it| it.parse().ok()).and_then(DateTime::from_timestamp_millis);
    let first: DateTime<Utc> = first.expect("when the first execution of the ledger was due");
    let client = Client::connect("bench", &url).unwrap();
    println!("{:<44} {:>9} {:>9} {:>6}", "list", "first ms", "100th ms", "rows");
    for (name, filter) in lists(first) {
        if let Err(error) = client.executions(&filter) {
            println!("{name:<44} failed: {error:#}");
            continue;
        }
        let (first, rows) = timed(|| client.executions(&filter).unwrap().len());
        let behind = ExecutionFilter { after: behind(&client, &filter), ..filter };
        let (far, _) = timed(|| client.executions(&behind).unwrap().len());
        println!("{name:<44} {first:>9.1} {far:>9.1} {rows:>6}");
    }
    println!("\n{:<44} {:>9} {:>16}", "counts", "ms", "rows");
    for (name, filter) in counts(first) {
        let (took, rows) = timed(|| client.outcomes(&filter).unwrap().len());
        println!("{name:<44} {took:>9.1} {rows:>16}");
    }
    #[cfg(feature = "console")]
    pages(&client);
}

#[cfg(feature = "console")]
fn pages(client: &Client) {
    use axum::body::{Body, to_bytes};
    use axum::http::{Request, StatusCode};
    use tower::ServiceExt;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pages: axum::Router = firetime::console::router(client.clone(), firetime::console::Options::new());
    let get = |path: &str| {
        let request = Request::get(format!("/{path}")).header("host", "localhost").body(Body::empty());
        runtime.block_on(async {
            let answer = pages.clone().oneshot(request.unwrap()).await.unwrap();
            let status = answer.status();
            let text = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            assert_eq!(status, StatusCode::OK, "{path}: {}", String::from_utf8_lossy(&text));
            text.len()
        })
    };
    let execution = client.executions(&ExecutionFilter { limit: 1, ..Default::default() }).unwrap()[0].id;
    let one = format!("execution?id={execution}");
    println!("\n{:<44} {:>9} {:>16}", "console's page", "ms", "bytes");
    for path in [
        "now",
        "schedules",
        "schedules?first=neglected",
        "schedules?state=neglected",
        "schedules?state=error",
        "schedules?state=paused",
        "schedules?state=overdue",
        "schedules?state=active&job=minutely",
        "schedules?state=complete",
        "schedules?q=fan-99999",
        "schedules?q=nowhere",
        "schedules?after=0.n.fan-5",
        "schedule?name=secondly",
        "schedule?name=minutely-7",
        "schedule?name=fan-7",
        "executions",
        "executions?state=FAILED",
        "executions?failed=lately",
        "executions?schedule=secondly",
        &one,
        "jobs",
        "nodes",
        "audit",
    ] {
        let (took, bytes) = timed(|| get(path));
        println!("{path:<44} {took:>9.1} {bytes:>16}");
    }
}

fn counts(first: DateTime<Utc>) -> [(&'static str, OutcomeFilter); 6] {
    let all = OutcomeFilter::default;
    let last_day = first + TimeDelta::days(29);
    [
        ("all", all()),
        ("by job", OutcomeFilter { by_job: true, ..all() }),
        ("by node", OutcomeFilter { by_node: true, ..all() }),
        ("by hour", OutcomeFilter { by_hour: true, ..all() }),
        (
            "of one job by hour and node",
            OutcomeFilter { job: Some("mail".to_owned()), by_hour: true, by_node: true, ..all() },
        ),
        (
            "of the last day by hour and job",
            OutcomeFilter { since: Some(last_day), by_hour: true, by_job: true, ..all() },
        ),
    ]
}

fn lists(first: DateTime<Utc>) -> Vec<(&'static str, ExecutionFilter)> {
    let day = |n: i64| first + TimeDelta::days(n);
    let all = || ExecutionFilter { limit: 50, ..ExecutionFilter::default() };
    let text = |text: &str| Some(text.to_owned());
    let states = |states: &[ExecutionState]| states.to_vec();
    vec![
        ("all, newest first", all()),
        ("all, oldest first", ExecutionFilter { oldest_first: true, ..all() }),
        ("a schedule with a tenth of all", ExecutionFilter { schedule: text("secondly"), ..all() }),
        ("a schedule with one in 1,000", ExecutionFilter { schedule: text("minutely-7"), ..all() }),
        ("a schedule with few", ExecutionFilter { schedule: text("fan-7"), ..all() }),
        (
            "a schedule in one hour",
            ExecutionFilter {
                schedule: text("secondly"),
                since: Some(day(3)),
                until: Some(day(3) + TimeDelta::hours(1)),
                ..all()
            },
        ),
        ("a job with a million schedules", ExecutionFilter { job: text("fan"), ..all() }),
        ("a job with 100 schedules", ExecutionFilter { job: text("minutely"), ..all() }),
        ("a job that is enqueued", ExecutionFilter { job: text("mail"), ..all() }),
        ("a job with few", ExecutionFilter { job: text("rare"), ..all() }),
        ("a group", ExecutionFilter { group: text("g7"), ..all() }),
        (
            "a group in one state",
            ExecutionFilter { group: text("g7"), states: states(&[ExecutionState::Failed]), ..all() },
        ),
        ("failed", ExecutionFilter { states: states(&[ExecutionState::Failed]), ..all() }),
        (
            "skipped, for one reason",
            ExecutionFilter { states: states(&[ExecutionState::Skipped]), reason: text("misfire"), ..all() },
        ),
        (
            "failed, of one job, on one day",
            ExecutionFilter {
                states: states(&[ExecutionState::Failed, ExecutionState::TimedOut]),
                job: text("minutely"),
                since: Some(day(3)),
                until: Some(day(4)),
                ..all()
            },
        ),
        ("succeeded", ExecutionFilter { states: states(&[ExecutionState::Succeeded]), ..all() }),
        ("waiting", ExecutionFilter { states: states(&[ExecutionState::Pending]), ..all() }),
        (
            "one hour, three days after the first",
            ExecutionFilter { since: Some(day(3)), until: Some(day(3) + TimeDelta::hours(1)), ..all() },
        ),
        ("until ten days after the first", ExecutionFilter { until: Some(day(10)), ..all() }),
        ("a node that ran a fourth", ExecutionFilter { node: text("1111"), ..all() }),
        ("a tag of one in 100", ExecutionFilter { tag: text("import"), ..all() }),
        ("a tag of few", ExecutionFilter { tag: text("few"), ..all() }),
        ("a cause of one in 1,000", ExecutionFilter { cause: text("retry"), ..all() }),
    ]
}

fn timed(call: impl Fn() -> usize) -> (f64, usize) {
    let mut rows = 0;
    let times = (0..5)
        .map(|_| {
            let began = Instant::now();
            rows = call();
            began.elapsed().as_secs_f64() * 1_000.0
        })
        .collect();
    (support::median(times), rows)
}

/// The place of the last row of the 99th page, or of the last there is.
fn behind(client: &Client, filter: &ExecutionFilter) -> Option<firetime::ExecutionPlace> {
    let pages = ExecutionFilter { limit: 99 * 50, ..filter.clone() };
    client.executions(&pages).unwrap().last().map(ExecutionView::place)
}

//! How long lists of executions, and counts of outcomes, take in a large ledger: `scripts/bench-views.sh`
//! loads one and runs this.
//!
//! For each list the first and the hundredth page of 50 rows: the median of five calls of a client that is
//! connected already, in milliseconds, and how many rows came. The same for each count.

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

/// When the first execution of the ledger was due: it reaches thirty days from there.
const FIRST: i64 = 1_700_000_000_000;

fn main() {
    let url = std::env::args().nth(1).filter(|it| it.contains(':')).expect("the database's URL");
    let client = Client::connect("bench", &url).unwrap();
    println!("{:<44} {:>9} {:>9} {:>6}", "list", "first ms", "100th ms", "rows");
    for (name, filter) in lists() {
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
    for (name, filter) in counts() {
        let (took, rows) = timed(|| client.outcomes(&filter).unwrap().len());
        println!("{name:<44} {took:>9.1} {rows:>16}");
    }
}

fn counts() -> [(&'static str, OutcomeFilter); 6] {
    let all = OutcomeFilter::default;
    let last_day = DateTime::from_timestamp_millis(FIRST).unwrap() + TimeDelta::days(29);
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

fn lists() -> Vec<(&'static str, ExecutionFilter)> {
    let day =
        |n: i64| -> DateTime<Utc> { DateTime::from_timestamp_millis(FIRST).unwrap() + TimeDelta::days(n) };
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

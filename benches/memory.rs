//! What waiting costs in memory: real planned occurrences in the plan and its wheel.
//!
//! ```sh
//! cargo bench --features bench --bench memory
//! ```

#![allow(clippy::disallowed_methods, reason = "a bench reads the real clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and panics when it cannot go on"
)]

mod support;

use allocation_counter::measure;
use chrono::DateTime;
use firetime::Trigger;
use firetime::parts::Rows;

const NOW: i64 = 1_767_323_040_000;
const WINDOW: i64 = 6_000;

fn main() {
    support::headline("Bytes per waiting occurrence in plan and wheel; its schedule's row apart");
    println!("{:>9} {:>11} {:>9} {:>9}", "schedules", "occurrences", "waiting", "its row");
    for count in [1_000, 10_000, 20_000, 30_000] {
        report(count, |n| {
            Trigger::once(DateTime::from_timestamp_millis(NOW + 1 + n % WINDOW).unwrap()).unwrap()
        });
    }
    report(20_000, |_| Trigger::cron("* * * * * ?", "Europe/Berlin").unwrap());
}

fn report(count: usize, trigger: impl Fn(i64) -> Trigger) {
    let triggers: Vec<Trigger> = (0..count as i64).map(trigger).collect();
    let rows = Rows::new(triggers, NOW).unwrap();
    let links = rows.expand(NOW, NOW + WINDOW);
    let occurrences = links.count();
    let waiting = links.plan(NOW - 1);
    assert!(waiting.next_due().is_some());
    let plan = held(waiting) / occurrences as f64;
    println!("{count:>9} {occurrences:>11} {plan:>9.0} {:>9.0}", held(rows) / count as f64);
}

/// The bytes that a value, dropped, gives back.
fn held<T>(value: T) -> f64 {
    -measure(|| drop(value)).bytes_current as f64
}

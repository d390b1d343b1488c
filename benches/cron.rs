//! What the next fire time costs, beside croner; and a whole window's rows expanded by one thread and by two.
//!
//! ```sh
//! cargo bench --features bench --bench cron
//! ```

#![allow(clippy::disallowed_methods, reason = "a bench reads the real clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and panics when it cannot go on"
)]

mod support;

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::Tz;
use croner::parser::{CronParser, Seconds, Year};
use firetime::parts::Rows;
use firetime::{Cron, Trigger};
use rustix::time::ClockId;
use support::{Dice, each, median, read, timed};

const EXPRESSIONS: &[(&str, &str)] = &[
    ("every second", "* * * * * ?"),
    ("every 5 minutes", "0 */5 * * * ?"),
    ("weekdays at 9:30", "0 30 9 ? * MON-FRI"),
    ("nightly at 2:30", "0 30 2 * * ?"),
    ("last day of the month", "0 0 2 L * ?"),
    ("last Friday", "0 0 2 ? * 6L"),
    ("third before the last day", "0 0 12 L-3 * ?"),
    ("weekday nearest the 15th", "0 0 12 15W * ?"),
    ("1 January of some years", "0 0 0 1 1 ? 2026-2040"),
];
const ZONES: [Tz; 3] = [Tz::UTC, Tz::Europe__Berlin, Tz::America__New_York];
/// 2024-01-01 UTC, seconds.
const BEGIN: i64 = 1_704_067_200;
const TEN_YEARS: i64 = 10 * 365 * 86_400;
/// Instants at which the clocks of the zones change: 2026 to 2029, both ways.
const CHANGES: &[(Tz, [&str; 4])] = &[
    (
        Tz::Europe__Berlin,
        ["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", "2027-03-28T01:00:00Z", "2027-10-31T01:00:00Z"],
    ),
    (
        Tz::America__New_York,
        ["2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z", "2027-03-14T07:00:00Z", "2027-11-07T06:00:00Z"],
    ),
];
const THREADS: &str = "RAYON_NUM_THREADS";
const CHILD: &str = "FIRETIME_BENCH_EXPAND";

fn main() {
    if std::env::var_os(CHILD).is_some() {
        return expand_once();
    }
    support::headline(
        "The next fire time, ns of processor time a call, from instants of ten years; croner's as a multiple",
    );
    println!("{:<26} {:>18} {:>18} {:>18}", "", "UTC", "Europe/Berlin", "America/New_York");
    for (name, expression) in EXPRESSIONS {
        let cells: String = ZONES.iter().map(|zone| cell(expression, *zone, &any_instants())).collect();
        println!("{name:<26}{cells}");
    }
    println!("\nThe same from instants within three hours of a change of the clocks");
    for (name, expression) in EXPRESSIONS {
        let around = |(zone, changes): &(Tz, [&str; 4])| cell(expression, *zone, &instants_around(changes));
        let cells: String = CHANGES.iter().map(around).collect();
        println!("{name:<26}{:19}{cells}", "");
    }
    expand();
}

fn any_instants() -> Vec<i64> {
    let mut dice = Dice::new(11);
    (0..4_000).map(|_| BEGIN + dice.below(TEN_YEARS)).collect()
}

fn instants_around(changes: &[&str; 4]) -> Vec<i64> {
    let mut dice = Dice::new(12);
    let changes = changes.map(|at| at.parse::<DateTime<Utc>>().unwrap().timestamp());
    (0..4_000).map(|n| changes[n % 4] - 10_800 + dice.below(21_600)).collect()
}

fn cell(expression: &str, zone: Tz, instants: &[i64]) -> String {
    let ours = Cron::parse(expression, zone.name()).unwrap();
    let parser = CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Optional)
        .alternative_weekdays(true)
        .build();
    let theirs = parser.parse(expression).ok();
    let utc: Vec<DateTime<Utc>> = instants.iter().map(|at| Utc.timestamp_opt(*at, 0).unwrap()).collect();
    let local: Vec<DateTime<Tz>> = instants.iter().map(|at| zone.timestamp_opt(*at, 0).unwrap()).collect();
    let (mut our_costs, mut their_costs) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let (span, ()) = timed(|| {
            for at in &utc {
                black_box(ours.next_after(black_box(*at)));
            }
        });
        our_costs.push(each(span, instants.len()));
        if let Some(theirs) = &theirs {
            // A tenth of the instants: some of its answers take milliseconds.
            let few = &local[..local.len() / 10];
            let (span, ()) = timed(|| {
                for at in few {
                    drop(black_box(theirs.find_next_occurrence(black_box(at), false)));
                }
            });
            their_costs.push(each(span, few.len()));
        }
    }
    let ours = median(our_costs);
    let ratio =
        theirs.map_or_else(|| "unknown to it".into(), |_| format!("{:.1}x", median(their_costs) / ours));
    format!(" {:>18}", format!("{ours:.0} ({ratio})"))
}

const ROWS: i64 = 100_000;
/// 2026-01-02 03:04:00 UTC, a Friday.
const NOW: i64 = 1_767_323_040_000;
const WINDOW: i64 = 6_000;

/// A process per number of threads, in turns: the pool takes its size when it is first used.
fn expand() {
    println!("\n{ROWS} rows, half of them cron, expanded over a window of 6 s");
    println!(
        "{:>7} {:>11} {:>9} {:>10} {:>8}",
        "threads", "occurrences", "time, ms", "cores used", "speed-up"
    );
    let counts = ["1", "2"];
    let mut runs: [Vec<[f64; 3]>; 2] = Default::default();
    for _ in 0..7 {
        for (threads, runs) in counts.iter().zip(&mut runs) {
            runs.push(expand_in_a_process(threads));
        }
    }
    let middle = |runs: &Vec<[f64; 3]>, nth: usize| median(runs.iter().map(|run| run[nth]).collect());
    let alone = middle(&runs[0], 0);
    for (threads, runs) in counts.iter().zip(&runs) {
        let (time, cpu, found) = (middle(runs, 0), middle(runs, 1), middle(runs, 2));
        let (used, gain) = (cpu / time, alone / time);
        println!("{threads:>7} {found:>11} {:>9.1} {used:>10.2} {gain:>8.2}", time * 1e3);
    }
}

fn expand_in_a_process(threads: &str) -> [f64; 3] {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.env(CHILD, "1").env(THREADS, threads).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Prints the seconds it took by the clock and of the processors, and how many occurrences there were.
fn expand_once() {
    let rows = Rows::new((0..ROWS).map(mixed).collect(), NOW).unwrap();
    drop(rows.expand(NOW, NOW + WINDOW));
    let (mut times, mut processors, mut found) = (Vec::new(), Vec::new(), 0);
    for _ in 0..3 {
        let (before, begin) = (read(ClockId::ProcessCPUTime), Instant::now());
        let links = rows.expand(NOW, NOW + WINDOW);
        times.push(begin.elapsed().as_secs_f64());
        processors.push((read(ClockId::ProcessCPUTime) - before).as_secs_f64());
        found = links.count();
    }
    println!("{} {} {found}", median(times), median(processors));
}

/// Rows that all have something due in the window: most of them once, some every second.
fn mixed(n: i64) -> Trigger {
    let second = n % (WINDOW / 1_000);
    let zone = ZONES[n as usize % 3].name();
    let every = |seconds| {
        let start = DateTime::from_timestamp_millis(NOW + n % WINDOW).unwrap();
        Trigger::every(Duration::from_secs(seconds)).unwrap().starting(start).unwrap()
    };
    match n % 10 {
        0 => Trigger::cron("* * * * * ?", zone).unwrap(),
        1 => Trigger::cron("0/5 * * * * ?", zone).unwrap(),
        2 | 3 => Trigger::cron(&format!("{second} * * * * ?"), zone).unwrap(),
        4 => Trigger::cron(&format!("{second} 4 3 ? * MON-FRI"), "UTC").unwrap(),
        5 => every(1),
        6 | 7 => every(60),
        _ => Trigger::once(DateTime::from_timestamp_millis(NOW + n % WINDOW).unwrap()).unwrap(),
    }
}

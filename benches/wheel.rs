//! The timing wheel beside three other ways to let things wait, which keep the same promises: ordered expiry
//! to the millisecond, cancellation, the next due instant.
//!
//! ```sh
//! cargo bench --features bench --bench wheel
//! ```

#![allow(clippy::disallowed_methods, reason = "a bench reads the real clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench prints, and panics when it cannot go on"
)]

mod support;
mod waiting;

use std::hint::black_box;
use std::time::Duration;

use firetime::parts::{Due, Wheel};
use support::{Dice, each, median, timed};
use waiting::{Cascade, Heap, Item, Rounds, Waits};

const NOW: i64 = 1_767_323_045_678;
const SPANS: [(&str, i64); 2] = [("6 s", 6_000), ("1 h", 3_600_000)];
/// Of a hundred, when there is cancellation.
const CANCELLED: i64 = 30;

fn main() {
    support::headline(
        "Nanoseconds of processor time per entry, and (in brackets) the ratio to the fastest of the four in this run",
    );
    println!(
        "{:>9} {:>5} {:>9} {:>7}  {:<14} {:<14} {:<14} {:<14}",
        "waiting", "over", "cancelled", "", "wheel", "heap", "rounds", "cascade"
    );
    for waiting in [10_000, 100_000, 1_000_000] {
        for (name, span) in SPANS {
            for cancelled in [0, CANCELLED] {
                compare(&Case { waiting, span, cancelled }, name);
            }
        }
    }
    println!("\nAn empty tick: nothing is due within it; `sleep` asks for the next due instant instead");
    println!("{:>9} {:<22} {:<14} {:<14} {:<14} {:<14}", "waiting", "", "wheel", "heap", "rounds", "cascade");
    for waiting in [10_000, 1_000_000] {
        idle(waiting);
    }
}

struct Case {
    waiting: usize,
    span: i64,
    cancelled: i64,
}

/// Nanoseconds per entry inserted, cancelled, expired; and in all.
type Costs = [f64; 4];
const STEPS: [&str; 4] = ["insert", "cancel", "expire", "all"];

fn compare(case: &Case, span: &str) {
    let runs = match case.waiting {
        10_000 => 21,
        100_000 => 7,
        _ => 5,
    };
    // Side by side, run by run: whatever else the machine does meets all four.
    let mut costs: [Vec<Costs>; 4] = Default::default();
    for run in 0..runs {
        costs[0].push(measure::<Wheel<Item>>(case));
        costs[3].push(measure::<Cascade>(case));
        // With a million these two take seconds a run, and are many times slower.
        if run == 0 || case.waiting < 1_000_000 {
            costs[1].push(measure::<Heap>(case));
            costs[2].push(measure::<Rounds>(case));
        }
    }
    for (step, name) in STEPS.iter().enumerate() {
        if *name == "cancel" && case.cancelled == 0 {
            continue;
        }
        let of = |runs: &Vec<Costs>| median(runs.iter().map(|costs| costs[step]).collect());
        let medians = costs.each_ref().map(of);
        println!("{:>9} {span:>5} {:>8}% {name:>7}  {}", case.waiting, case.cancelled, with_ratios(&medians));
    }
}

fn with_ratios(costs: &[f64; 4]) -> String {
    let fastest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    costs.iter().map(|cost| format!("{:<14} ", format!("{cost:.0} ({:.2})", cost / fastest))).collect()
}

fn measure<W: Waits>(case: &Case) -> Costs {
    let mut dice = Dice::new(7);
    let dues: Vec<Due> =
        (0..case.waiting as i64).map(|id| due(NOW + 1 + dice.below(case.span), id)).collect();
    let mut wheel = W::starting(NOW, case.waiting);
    let (insert, handles) = timed(|| dues.iter().map(|due| wheel.put(*due)).collect::<Vec<_>>());
    let mut victims: Vec<W::Ticket> =
        handles.into_iter().filter(|_| dice.below(100) < case.cancelled).collect();
    (1..victims.len()).rev().for_each(|last| victims.swap(last, dice.below(last as i64 + 1) as usize));
    let victim_count = victims.len();
    let (cancel, ()) = timed(|| victims.into_iter().for_each(|ticket| assert!(wheel.take_out(ticket))));
    let (expire, expired) = timed(|| run_out(&mut wheel));
    assert_eq!(expired, case.waiting - victim_count);
    let all: Duration = insert + cancel + expire;
    [
        each(insert, case.waiting),
        each(cancel, victim_count.max(1)),
        each(expire, expired),
        each(all, case.waiting),
    ]
}

fn due(at: i64, id: i64) -> Due {
    Due { at, priority: 0, id }
}

/// From one due instant to the next until nothing waits.
fn run_out(wheel: &mut impl Waits) -> usize {
    let mut expired = 0;
    while let Some(at) = wheel.next() {
        expired += black_box(wheel.expire(at)).len();
    }
    expired
}

fn idle(waiting: usize) {
    let ticks = idle_costs::<Wheel<Item>>(waiting);
    let others = [idle_costs::<Heap>(waiting), idle_costs::<Rounds>(waiting), idle_costs::<Cascade>(waiting)];
    let row = |what: &str, nth: usize| {
        let costs = [ticks[nth], others[0][nth], others[1][nth], others[2][nth]];
        let costs: String = costs.iter().map(|cost| format!("{:<15}", format!("{cost:.1} ns"))).collect();
        println!("{waiting:>9} {what:<22} {costs}");
    };
    row("empty tick", 0);
    row("sleep: next due", 1);
}

/// What 10,000 ticks of a millisecond cost while all that waits is due within the hour after them; and a
/// question.
fn idle_costs<W: Waits>(waiting: usize) -> [f64; 2] {
    const TICKS: i64 = 10_000;
    let runs = (0..5).map(|_| {
        let mut dice = Dice::new(7);
        let mut wheel = W::starting(NOW, waiting);
        for id in 0..waiting as i64 {
            wheel.put(due(NOW + TICKS + 1 + dice.below(3_600_000), id));
        }
        let (tick, ()) = timed(|| (1..=TICKS).for_each(|n| assert!(wheel.expire(NOW + n).is_empty())));
        let (ask, ()) = timed(|| (0..TICKS).for_each(|_| assert!(black_box(wheel.next()).is_some())));
        (each(tick, TICKS as usize), each(ask, TICKS as usize))
    });
    let (ticks, asks): (Vec<f64>, Vec<f64>) = runs.unzip();
    [median(ticks), median(asks)]
}

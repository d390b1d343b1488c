//! Jobs that do harm: to their thread, their process, its memory, and again wherever they are tried next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{
    Client, Error, ExecutionFilter, ExecutionState, ExecutionView, Overlap, Paused, Schedule, ScheduleState,
    Trigger,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::node::{APPLICATION, GRACE, Line, Nodes, WORK};
use crate::support::poison_jobs::{LONG, POISON};
use crate::trial;

/// The longest silence: some schedule fires every second.
const SOON: Duration = Duration::from_secs(30);
const LATEST: Duration = Duration::from_secs(90);

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_killer_takes_two_nodes_and_is_given_up", a_killer_takes_two_nodes_and_is_given_up),
        (
            "killers_under_a_supervisor_cost_the_others_nothing",
            killers_under_a_supervisor_cost_the_others_nothing,
        ),
        ("a_pause_stops_a_killer_that_outruns_its_cap", a_pause_stops_a_killer_that_outruns_its_cap),
        (
            "a_recurring_killer_costs_four_nodes_and_is_paused",
            a_recurring_killer_costs_four_nodes_and_is_paused,
        ),
        ("endless_jobs_hold_nothing_but_their_threads", endless_jobs_hold_nothing_but_their_threads),
        ("an_outcome_that_panics_is_an_outcome", an_outcome_that_panics_is_an_outcome),
        ("noise_and_long_texts_fill_no_memory", noise_and_long_texts_fill_no_memory),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::poison::{name}", kind.name()), move || test(kind)));
    }
}

fn begin(kind: ServerKind) -> (Database, Client) {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    (database, client)
}

fn once(at: DateTime<Utc>) -> Trigger {
    Trigger::once(at).unwrap()
}

fn poison(client: &Client, name: &str, how: &str, at: DateTime<Utc>) {
    client.ensure(&Schedule::new(name, POISON, &how.to_owned(), once(at)).unwrap()).run().unwrap();
}

fn work(client: &Client, name: &str, millis: u64, at: DateTime<Utc>) {
    client.ensure(&Schedule::new(name, WORK, &millis, once(at)).unwrap()).run().unwrap();
}

/// Its next occurrences do not wait for one whose node has died.
fn beside(schedule: Result<Schedule, Error>) -> Schedule {
    schedule.unwrap().overlap(Overlap::Allow)
}

/// A quick job every second for ever, so that something is said.
fn pulse(client: &Client) {
    let every = Trigger::every(Duration::from_secs(1)).unwrap();
    client.ensure(&beside(Schedule::new("pulse", WORK, &1, every))).run().unwrap();
}

/// A quick job on each of the next `count` seconds; its planned times.
fn tick(client: &Client, count: u32) -> BTreeSet<i64> {
    let start = Utc::now() + TimeDelta::seconds(1);
    let every = Trigger::every(Duration::from_secs(1)).unwrap().starting(start).unwrap();
    let trigger = every.times(u64::from(count)).unwrap();
    client.ensure(&beside(Schedule::new("tick", WORK, &1, trigger))).run().unwrap();
    let from = start.timestamp_millis();
    (0..i64::from(count)).map(|n| from + 1_000 * n).collect()
}

fn rows(client: &Client, schedule: &str) -> Vec<ExecutionView> {
    let filter = ExecutionFilter { limit: 10_000, ..ExecutionFilter::default() };
    let mut rows = client.executions(&filter).unwrap();
    rows.retain(|row| row.schedule == schedule);
    rows.sort_by_key(|row| (row.fire_time, row.attempt));
    rows
}

/// A schedule's executions as (attempt, state, reason).
fn states(client: &Client, schedule: &str) -> Vec<(u32, String, String)> {
    rows(client, schedule).into_iter().map(|row| (row.attempt, row.state.to_string(), row.reason)).collect()
}

fn state(attempt: u32, state: &str, reason: &str) -> (u32, String, String) {
    (attempt, state.to_owned(), reason.to_owned())
}

fn given_up() -> Vec<(u32, String, String)> {
    vec![state(1, "ABANDONED", "node died"), state(2, "FAILED", "attempts exhausted")]
}

fn has_failed(client: &Client, schedule: &str) -> bool {
    rows(client, schedule).iter().any(|row| row.state == ExecutionState::Failed)
}

/// Takes lines until one is followed by what is waited for.
fn until(nodes: &mut Nodes, mut is_so: impl FnMut(&mut Nodes, (usize, Line)) -> bool) {
    let deadline = Instant::now() + LATEST;
    while Instant::now() < deadline {
        let line = nodes.next(SOON);
        if is_so(nodes, line) {
            return;
        }
    }
    panic!("not so after {LATEST:?}");
}

fn until_begun(nodes: &mut Nodes, mut count: usize, prefix: &str) {
    until(nodes, |_, (_, line)| {
        count -= usize::from(matches!(line, Line::Began { schedule, .. } if schedule.starts_with(prefix)));
        count == 0
    });
}

/// Nobody restarts what it kills. Its neighbours on the first node are run again, apart from it.
fn a_killer_takes_two_nodes_and_is_given_up(kind: ServerKind) {
    let (database, client) = begin(kind);
    let mut nodes = Nodes::start(&database.url, 1);
    let beside = ["beside-0", "beside-1", "beside-2"];
    let at = Utc::now();
    for name in beside {
        work(&client, name, 600_000, at);
    }
    until_begun(&mut nodes, beside.len(), "beside");
    // From here on they are quick: only the payload changes, the cursor stays.
    for name in beside {
        work(&client, name, 1, at);
    }
    poison(&client, "killer", "abort", Utc::now());
    let began = Instant::now();
    until(&mut nodes, |_, line| line == (0, Line::Gone));
    let (mut ready, mut gone) = (0, 1);
    for _ in 0..2 {
        nodes.add(&database.url);
    }
    until(&mut nodes, |_, (_, line)| {
        ready += usize::from(line == Line::Ready);
        ready == 2
    });
    pulse(&client);
    let planned = tick(&client, 20);
    until(&mut nodes, |_, (_, line)| {
        gone += usize::from(line == Line::Gone);
        has_failed(&client, "killer") || gone == 3
    });
    println!("{}: given up after {:?}; {gone} nodes lost", kind.name(), began.elapsed());
    assert_eq!(gone, 2, "the last node lives");
    assert_eq!(states(&client, "killer"), given_up());
    until(&mut nodes, |_, (_, line)| {
        assert_ne!(line, Line::Gone);
        succeeded(&client, "tick") == planned
    });
    for name in beside {
        let again = [state(1, "ABANDONED", "node died"), state(2, "SUCCEEDED", "recovery")];
        assert_eq!(states(&client, name), again, "{name}");
    }
    nodes.stop();
}

/// The planned times of which an attempt has succeeded.
fn succeeded(client: &Client, schedule: &str) -> BTreeSet<i64> {
    let done = rows(client, schedule).into_iter().filter(|row| row.state == ExecutionState::Succeeded);
    done.filter_map(|row| Some(row.fire_time?.timestamp_millis())).collect()
}

/// Each way to die, at once: what ends is started again, and every occurrence of others runs.
fn killers_under_a_supervisor_cost_the_others_nothing(kind: ServerKind) {
    const KILLERS: [&str; 3] = ["abort", "exit", "overflow"];
    let (database, client) = begin(kind);
    let mut nodes = Nodes::start(&database.url, 3);
    pulse(&client);
    let planned = tick(&client, 20);
    let began = Instant::now();
    for (n, how) in (0..).zip(KILLERS) {
        poison(&client, how, how, Utc::now() + TimeDelta::milliseconds(2_500 + 1_000 * n));
    }
    let (mut lost, mut took) = (0, BTreeMap::new());
    until(&mut nodes, |nodes, (_, line)| {
        if line == Line::Gone {
            lost += 1;
            nodes.add(&database.url);
        }
        for how in KILLERS {
            if !took.contains_key(how) && has_failed(&client, how) {
                took.insert(how, began.elapsed());
            }
        }
        took.len() == KILLERS.len() && succeeded(&client, "tick") == planned
    });
    println!("{}: given up after {took:?}; {lost} nodes lost, no occurrence missing", kind.name());
    for how in KILLERS {
        assert_eq!(states(&client, how), given_up(), "{how}");
    }
    assert!((3..=2 * KILLERS.len()).contains(&lost), "{lost} nodes lost");
    nodes.stop();
}

/// A supervisor restarts what it kills.
fn a_recurring_killer_costs_four_nodes_and_is_paused(kind: ServerKind) {
    let (database, client) = begin(kind);
    let mut nodes = Nodes::start(&database.url, 3);
    pulse(&client);
    let every = Trigger::every(Duration::from_secs(2)).unwrap();
    client.ensure(&Schedule::new("killer", POISON, &"abort".to_owned(), every).unwrap()).run().unwrap();
    let (mut lost, began) = (0, Instant::now());
    let mut supervise = |nodes: &mut Nodes, (_, line)| {
        if line == Line::Gone {
            lost += 1;
            nodes.add(&database.url);
        }
        lost
    };
    let killer = || client.schedule("killer").unwrap().schedule;
    until(&mut nodes, |nodes, line| {
        assert!(supervise(nodes, line) <= 4, "it goes on");
        killer().state == ScheduleState::Paused
    });
    println!("{}: paused after {:?}", kind.name(), began.elapsed());
    let (by, reason) = (killer().paused_by, killer().reason);
    assert_eq!((by.as_str(), reason.as_str()), ("firetime", "2 occurrences in a row killed their nodes"));
    let planned = tick(&client, 10);
    until(&mut nodes, |nodes, line| {
        assert_eq!(supervise(nodes, line), 4, "it runs although it is paused");
        succeeded(&client, "tick") == planned
    });
    let ended: Vec<_> = states(&client, "killer").into_iter().filter(|it| it.1 != "SKIPPED").collect();
    assert_eq!(ended, [given_up(), given_up()].concat());
    nodes.stop();
}

/// It is planned faster than deaths are noticed: each node that starts takes up its next occurrence.
fn a_pause_stops_a_killer_that_outruns_its_cap(kind: ServerKind) {
    let (database, client) = begin(kind);
    let mut nodes = Nodes::start(&database.url, 3);
    pulse(&client);
    let planned = tick(&client, 20);
    let every = Trigger::every(Duration::from_secs(1)).unwrap();
    let killer = beside(Schedule::new("killer", POISON, &"abort".to_owned(), every)).pause_after(0);
    client.ensure(&killer).run().unwrap();
    let mut lost = 0;
    let mut supervise = |nodes: &mut Nodes, (_, line)| {
        if line == Line::Gone {
            lost += 1;
            nodes.add(&database.url);
        }
        lost
    };
    until(&mut nodes, |nodes, line| supervise(nodes, line) == 6);
    assert_eq!(
        client.pause("killer").actor("operator").reason("kills its nodes").run().unwrap(),
        Paused::Paused
    );
    let paused = Instant::now();
    until(&mut nodes, |nodes, line| {
        // What was claimed before the pause still runs.
        assert!(supervise(nodes, line) <= 8, "the pause does not hold");
        succeeded(&client, "tick") == planned
    });
    println!("{}: all is well {:?} after the pause", kind.name(), paused.elapsed());
    nodes.stop();
}

/// Six of them on four core threads: the pool grows for the others, and the process ends when it is told to.
fn endless_jobs_hold_nothing_but_their_threads(kind: ServerKind) {
    let (database, client) = begin(kind);
    let endless: Vec<String> = (0..6).map(|n| format!("endless-{n}")).collect();
    let mut nodes = Nodes::start(&database.url, 0);
    nodes.add_with(&database.url, &[(GRACE, "2000")]);
    assert_eq!(nodes.next(SOON), (0, Line::Ready));
    let at = Utc::now();
    for name in &endless {
        poison(&client, name, "endless", at);
    }
    until_begun(&mut nodes, endless.len(), "endless");
    work(&client, "other", 1, Utc::now());
    until(&mut nodes, |_, (_, line)| matches!(line, Line::Ended { schedule, .. } if schedule == "other"));

    let asked = Instant::now();
    nodes.ask_to_stop(0);
    until(&mut nodes, |_, line| line == (0, Line::Stopped { clean: false }));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    until(&mut nodes, |_, line| line == (0, Line::Gone));
    for name in &endless {
        poison(&client, name, "harmless", at);
    }
    nodes.add(&database.url);
    until_begun(&mut nodes, endless.len(), "endless");
    nodes.stop();
    for name in &endless {
        let again = [state(1, "ABANDONED", "node died"), state(2, "SUCCEEDED", "recovery")];
        assert_eq!(states(&client, name), again, "{name}");
    }
}

/// An error that panics when it is shown or dropped, a panic that panics when it is dropped.
fn an_outcome_that_panics_is_an_outcome(kind: ServerKind) {
    let (database, client) = begin(kind);
    let mut nodes = Nodes::start(&database.url, 1);
    pulse(&client);
    let biting = ["unshowable error", "undroppable error", "undroppable panic"];
    for how in biting {
        poison(&client, how, how, Utc::now());
    }
    until_begun(&mut nodes, biting.len(), "un");
    let mut ticks = 0;
    until(&mut nodes, |_, (_, line)| {
        ticks += usize::from(matches!(line, Line::Ended { .. }));
        ticks == 10 || biting.iter().all(|how| has_failed(&client, how))
    });
    for (how, error) in biting.into_iter().zip(["cannot be shown", "cannot be dropped", "no message"]) {
        assert_eq!(states(&client, how), [state(1, "FAILED", "")], "{how}");
        assert_eq!(rows(&client, how)[0].error, format!("panicked: {error}"), "{how}");
    }
    assert!(nodes.stop().contains(&(0, Line::Stopped { clean: true })));
}

/// A gigabyte of output, then an error and a panic with texts of 200 MiB: what is kept of them is short.
fn noise_and_long_texts_fill_no_memory(kind: ServerKind) {
    let (database, client) = begin(kind);
    let mut nodes = Nodes::start(&database.url, 1);
    pulse(&client);
    poison(&client, "noise", "noise", Utc::now());
    until(&mut nodes, |_, _| !succeeded(&client, "noise").is_empty());
    for how in ["long error", "long panic", "peak memory"] {
        poison(&client, how, how, Utc::now());
        until(&mut nodes, |_, _| has_failed(&client, how));
    }
    for (how, start) in [("long error", "üü"), ("long panic", "panicked: üü")] {
        let error = &rows(&client, how)[0].error;
        assert_eq!((error.chars().count(), error.starts_with(start)), (4_000, true), "{how}");
    }
    let peak: usize = rows(&client, "peak memory")[0].error.parse().unwrap();
    println!("{}: {} MiB at most", kind.name(), peak >> 20);
    assert!(peak < LONG + (100 << 20), "{} MiB: the text was copied", peak >> 20);
    nodes.stop();
}

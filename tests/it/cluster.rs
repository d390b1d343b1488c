//! Clusters of node processes on one database, judged against what the triggers alone say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use firetime::{Client, ExecutionFilter, ExecutionState, Overlap, Schedule, ScheduleState, Trigger};
use libtest_mimic::Trial;

use crate::support::database::ServerKind;
use crate::support::node::{APPLICATION, Line, Nodes, WORK};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let name = kind.name();
    trials.push(trial(
        format!("{name}::cluster::three_processes_fire_ten_thousand_occurrences"),
        move || {
            three_processes_fire_ten_thousand_occurrences(kind);
        },
    ));
    trials.push(trial(
        format!("{name}::cluster::a_killed_nodes_claims_leave_rows_so_no_run_is_lost"),
        move || {
            a_killed_nodes_claims_leave_rows_so_no_run_is_lost(kind);
        },
    ));
}

fn instant(millis: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(millis).unwrap()
}

/// (schedule, fire time) of everything that must fire.
type Expected = BTreeSet<(String, i64)>;

/// 500 schedules every 1 to 5 s between `from` and `to`: simple and cron, ended by count or by time. What
/// they come to is worked out here, from the instants alone.
fn five_hundred(from: i64, to: i64) -> (Vec<Schedule>, Expected) {
    let mut schedules = Vec::new();
    let mut expected = Expected::new();
    for n in 0..500_i64 {
        let name = format!("schedule-{n:03}");
        let seconds = 1 + n % 5;
        let step = 1_000 * seconds;
        let start = from + 7 * n;
        let new = |trigger| Schedule::new(&name, WORK, &0, trigger).unwrap().overlap(Overlap::Allow);
        let every = Trigger::every(Duration::from_millis(step.unsigned_abs())).unwrap();
        let (schedule, times): (_, Vec<i64>) = match n / 5 % 3 {
            0 => {
                let count = (to - start) / step;
                let trigger = every.starting(instant(start)).unwrap().times(count.unsigned_abs()).unwrap();
                (new(trigger), (0..count).map(|k| start + k * step).collect())
            }
            1 => {
                let trigger = every.starting(instant(start)).unwrap();
                let times = (0..).map(|k| start + k * step).take_while(|at| *at <= to).collect();
                (new(trigger).ending(instant(to)), times)
            }
            _ => {
                let trigger = Trigger::cron(&format!("0/{seconds} * * * * ?"), "Asia/Kathmandu").unwrap();
                // `seconds` divides 60, and the zone's offset is whole minutes.
                let times = (start..=to).filter(|at| at % step == 0).collect();
                (new(trigger).starting(instant(start)).ending(instant(to)), times)
            }
        };
        schedules.push(schedule);
        expected.extend(times.into_iter().map(|at| (name.clone(), at)));
    }
    (schedules, expected)
}

fn three_processes_fire_ten_thousand_occurrences(kind: ServerKind) {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let from = Utc::now().timestamp_millis() + 15_000;
    let (schedules, expected) = five_hundred(from, from + 46_500);
    assert!(expected.len() >= 10_000, "{}", expected.len());
    for schedule in &schedules {
        client.ensure(schedule).run().unwrap();
    }
    assert!(Utc::now().timestamp_millis() < from, "making the schedules took too long");

    let mut nodes = Nodes::start(&database.url, 3);
    let mut begun: BTreeMap<(String, i64), Vec<usize>> = BTreeMap::new();
    let mut late = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(120);
    while begun.len() < expected.len() && Instant::now() < deadline {
        if let (node, Line::Began { schedule, fire, started, .. }) = nodes.next(Duration::from_secs(60)) {
            late.push(started - fire);
            begun.entry((schedule, fire)).or_default().push(node);
        }
    }
    for line in nodes.stop() {
        match line {
            (node, Line::Began { schedule, fire, .. }) => {
                begun.entry((schedule, fire)).or_default().push(node)
            }
            (node, Line::Stopped { clean }) => assert!(clean, "node {node} did not stop cleanly"),
            _ => {}
        }
    }

    let fired: Expected = begun.keys().cloned().collect();
    let missing: Vec<_> = expected.difference(&fired).take(10).collect();
    let unplanned: Vec<_> = fired.difference(&expected).take(10).collect();
    let twice: Vec<_> = begun.iter().filter(|(_, nodes)| nodes.len() > 1).take(10).collect();
    assert!(missing.is_empty() && unplanned.is_empty(), "missing {missing:?}, unplanned {unplanned:?}");
    assert!(twice.is_empty(), "fired more than once: {twice:?}");
    let shares: BTreeSet<usize> = begun.values().flatten().copied().collect();
    assert_eq!(shares.len(), 3, "every node took part");

    let states = client.schedules().unwrap();
    assert!(
        states.iter().all(|it| it.state == ScheduleState::Complete && it.next.is_none()),
        "a finite schedule is not complete"
    );
    let all = client.executions(&ExecutionFilter { limit: 100_000, ..ExecutionFilter::default() }).unwrap();
    assert_eq!(all.len(), expected.len());
    assert!(all.iter().all(|it| it.state == ExecutionState::Succeeded), "something is left claimed");

    late.sort_unstable();
    let percentile = |p: usize| late[(late.len() - 1) * p / 100];
    println!(
        "{}: {} fired; lateness p50 {} ms, p95 {} ms, p99 {} ms, max {} ms",
        kind.name(),
        fired.len(),
        percentile(50),
        percentile(95),
        percentile(99),
        percentile(100)
    );
    assert!(late[0] >= 0, "{} ms early", -late[0]);
}

/// A node is killed while its jobs run and others wait in its queue: each occurrence ends well elsewhere.
fn a_killed_nodes_claims_leave_rows_so_no_run_is_lost(kind: ServerKind) {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let mut nodes = Nodes::start(&database.url, 1);
    let at = Utc::now() + chrono::TimeDelta::seconds(2);
    for n in 0..12 {
        let once = Trigger::once(at).unwrap();
        // Sixty seconds: none of these ends before its node does.
        client.ensure(&Schedule::new(&format!("once-{n}"), WORK, &60_000, once).unwrap()).run().unwrap();
    }
    let mut seen = Seen::default();
    // A claim may record the start of its execution shortly before the handler begins, and says so.
    let running = ExecutionFilter { states: vec![ExecutionState::Running], ..ExecutionFilter::default() };
    while seen.begun_by_first.len() < client.executions(&running).unwrap().len().max(4) {
        seen.take(nodes.next(Duration::from_secs(30)));
    }
    // From here on a job is quick: only the payload changes, the cursor stays.
    for n in 0..12 {
        let once = Trigger::once(at).unwrap();
        client.ensure(&Schedule::new(&format!("once-{n}"), WORK, &10, once).unwrap()).run().unwrap();
    }
    nodes.add(&database.url);
    loop {
        let line = nodes.next(Duration::from_secs(30));
        if line == (1, Line::Ready) {
            break;
        }
        seen.take(line);
    }
    nodes.kill(0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while seen.ended_by_second.len() < 12 && Instant::now() < deadline {
        seen.take(nodes.next(Duration::from_secs(60)));
    }
    nodes.stop();
    assert_eq!(seen.ended_by_second.len(), 12, "{seen:?}");
    for (schedule, attempt) in &seen.ended_by_second {
        let expected = if seen.begun_by_first.contains(schedule) { 2 } else { 1 };
        assert_eq!(*attempt, expected, "{schedule}");
    }
    let all = client.executions(&ExecutionFilter::default()).unwrap();
    let count = |state: ExecutionState| all.iter().filter(|it| it.state == state).count();
    assert_eq!(
        (count(ExecutionState::Succeeded), count(ExecutionState::Abandoned)),
        (12, seen.begun_by_first.len())
    );
}

#[derive(Debug, Default)]
struct Seen {
    begun_by_first: BTreeSet<String>,
    ended_by_second: BTreeMap<String, u32>,
}

impl Seen {
    fn take(&mut self, line: (usize, Line)) {
        match line {
            (0, Line::Began { schedule, .. }) => self.begun_by_first.extend([schedule]),
            (1, Line::Ended { schedule, attempt, .. }) => self.ended_by_second.extend([(schedule, attempt)]),
            _ => {}
        }
    }
}

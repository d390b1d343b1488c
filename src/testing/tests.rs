//! Clusters of a test, as their users have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::TestCluster;
use crate::api::{Builder, Job, Schedule};
use crate::domain::{Answer, HandlerError, Overlap, Retry};
use crate::node::context::Context;
use crate::trigger::Trigger;

const REPORT: Job<()> = Job::new("report");
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn fine(node: Builder) -> Builder {
    node.handler(REPORT, |_, ()| Ok(()))
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

#[test]
fn a_day_of_cron_runs_each_hour_once() {
    let mut cluster = TestCluster::new("shop");
    cluster.node(fine).unwrap();
    let hourly = Trigger::cron("0 30 * * * ?", "UTC").unwrap();
    cluster.client().ensure(&Schedule::new("hourly", REPORT, &(), hourly).unwrap()).run().unwrap();
    cluster.advance(DAY);
    cluster.ran("hourly").times(24);
    cluster.skipped("hourly").never();
    cluster.nothing_waits();
    assert_eq!(cluster.now(), at("2026-01-02T00:00:00Z"));
}

/// By default a node of production keeps 30 days.
#[test]
fn the_ledger_is_kept_unless_the_test_says_how_long() {
    for (retention, count) in [(None, 40), (Some(10 * DAY), 10)] {
        let mut cluster = TestCluster::new("shop");
        let node = |node: Builder| {
            let rare = fine(node)
                .poll_interval(HOUR)
                .heartbeat_interval(HOUR)
                .death_after(3 * HOUR)
                .misfire_interval(HOUR);
            if retention.is_some() { rare.retention(retention) } else { rare }
        };
        cluster.node(node).unwrap();
        let daily = Trigger::cron("0 0 2 * * ?", "UTC").unwrap();
        cluster.client().ensure(&Schedule::new("daily", REPORT, &(), daily).unwrap()).run().unwrap();
        cluster.advance(40 * DAY);
        cluster.ran("daily").times(count);
    }
}

/// The cost of a test is the looks of its nodes: a day has 720 beats, 288 polls and 96 passes of the misfire
/// handler. Each takes one round of one node, and none of the others.
#[test]
fn a_quiet_day_takes_a_round_for_each_look() {
    for count in [1, 3] {
        let mut cluster = TestCluster::new("shop");
        (0..count).for_each(|_| assert!(cluster.node(fine).is_ok()));
        let rounds =
            |cluster: &TestCluster| cluster.nodes.iter().map(|node| node.turns.rounds).max().unwrap();
        let joined = rounds(&cluster);
        cluster.advance(DAY);
        let looked = rounds(&cluster) - joined;
        assert!((720..=1_130).contains(&looked), "{count} nodes: {looked} rounds");
    }
}

/// In Berlin 02:30 is not there on 2026-03-29, and twice on 2026-10-25.
#[test]
fn the_nights_of_clock_changes_are_as_the_trigger_says() {
    for (evening, expected) in [
        ("2026-03-28T20:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        ("2026-10-24T20:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
    ] {
        let mut cluster = TestCluster::starting_at("shop", at(evening));
        cluster.node(fine).unwrap();
        let nightly = Trigger::cron("0 30 2 * * ?", "Europe/Berlin").unwrap();
        cluster.client().ensure(&Schedule::new("nightly", REPORT, &(), nightly).unwrap()).run().unwrap();
        cluster.advance(36 * HOUR);
        cluster.ran("nightly").at(&expected.map(at));
    }
}

#[test]
fn a_retry_policy_of_a_day_takes_a_day_of_the_tests_time() {
    const PAY: Job<u64> = Job::new("pay")
        .retry(Retry::exponential(Duration::from_secs(60), Duration::from_secs(21_600)).at_most(20));
    let mut cluster = TestCluster::new("shop");
    let tried = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&tried);
    let refuse = move |context: &Context, _: u64| -> Result<(), HandlerError> {
        count.store(context.attempt(), Ordering::Relaxed);
        if context.attempt() < 12 { Err("the bank is closed".into()) } else { Ok(()) }
    };
    cluster.node(|node| node.handler(PAY, refuse)).unwrap();
    cluster.client().enqueue(PAY, &7).run().unwrap();
    cluster.advance(2 * DAY);
    assert_eq!(tried.load(Ordering::Relaxed), 12);
    cluster.failed("queue:pay").times(11);
    cluster.enqueued(PAY).with(&7_u64).times(1);
    cluster.enqueued(PAY).with(&8_u64).never();
    cluster.ran("queue:pay").times(1);
}

/// The handler of the first node never comes to its end.
#[test]
fn a_kill_in_the_middle_of_a_handler_is_taken_over() {
    let mut cluster = TestCluster::new("shop");
    let import = |cluster: &TestCluster| {
        let (time, ended) = (cluster.time(), Arc::new(AtomicU32::new(0)));
        let tells = Arc::clone(&ended);
        let handler = move |_: &Context, ()| -> Result<(), HandlerError> {
            time.sleep(Duration::from_secs(20));
            tells.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        (handler, ended)
    };
    let (first, never) = import(&cluster);
    cluster.node(|node| node.handler(REPORT, first)).unwrap();
    cluster.client().enqueue(REPORT, &()).run().unwrap();
    cluster.advance(Duration::from_secs(10));
    let (second, once) = import(&cluster);
    cluster.node(|node| node.handler(REPORT, second)).unwrap();
    cluster.kill(0);
    cluster.advance(HOUR);
    assert_eq!((never.load(Ordering::Relaxed), once.load(Ordering::Relaxed)), (0, 1));
    cluster.ran("queue:report").times(1);
    assert_eq!(cluster.ran("queue:report").executions()[0].attempt, 2);
}

#[test]
fn an_occurrence_is_skipped_while_the_one_before_runs() {
    let mut cluster = TestCluster::new("shop");
    let time = cluster.time();
    cluster
        .node(|node| {
            node.handler(REPORT, move |_, ()| {
                time.sleep(Duration::from_secs(90));
                Ok(())
            })
        })
        .unwrap();
    let minutely = Schedule::new("minutely", REPORT, &(), Trigger::cron("0 * * * * ?", "UTC").unwrap());
    cluster.client().ensure(&minutely.unwrap().overlap(Overlap::Skip)).run().unwrap();
    cluster.advance(Duration::from_secs(10 * 60));
    cluster.ran("minutely").times(5);
    cluster.skipped("minutely").because("overlap").times(5);
}

#[test]
fn a_time_limit_ends_a_handler_that_sleeps() {
    const SLOW: Job<()> = Job::new("slow").time_limit(Duration::from_secs(30));
    let mut cluster = TestCluster::new("shop");
    let time = cluster.time();
    let told = Arc::new(AtomicU32::new(0));
    let tells = Arc::clone(&told);
    let slow = move |context: &Context, ()| -> Result<Answer, HandlerError> {
        time.sleep(Duration::from_secs(60));
        tells.fetch_add(u32::from(context.is_cancelled()), Ordering::Relaxed);
        Ok(Answer::Done)
    };
    cluster.node(|node| node.handler(SLOW, slow)).unwrap();
    cluster.client().enqueue(SLOW, &()).run().unwrap();
    cluster.advance(Duration::from_secs(31));
    cluster.failed("queue:slow").times(1);
    cluster.advance(HOUR);
    assert_eq!(told.load(Ordering::Relaxed), 1);
    cluster.ran("queue:slow").never();
}

#[cfg(feature = "tokio")]
#[test]
fn async_handlers_run_too_and_may_enqueue() {
    const FIRST: Job<u32> = Job::new("first");
    let mut cluster = TestCluster::new("shop");
    let client = cluster.client();
    let node = |node: Builder| {
        let node = node.async_handler(FIRST, move |_, n: u32| {
            let client = client.clone();
            async move {
                client.enqueue(REPORT, &()).after(Duration::from_secs(u64::from(n))).run()?;
                Ok(())
            }
        });
        fine(node)
    };
    cluster.node(node).unwrap();
    cluster.client().enqueue(FIRST, &90).run().unwrap();
    cluster.run_due();
    cluster.ran("queue:first").times(1);
    cluster.enqueued(REPORT).times(1);
    cluster.advance(Duration::from_secs(89));
    cluster.ran("queue:report").never();
    cluster.advance(Duration::from_secs(2));
    cluster.ran("queue:report").times(1);
}

#[test]
fn a_node_that_is_shut_down_lets_its_handlers_end_and_leaves() {
    let mut cluster = TestCluster::new("shop");
    let time = cluster.time();
    let slow = move |_: &Context, ()| -> Result<(), HandlerError> {
        time.sleep(Duration::from_secs(20));
        Ok(())
    };
    let node = cluster.node(|node| node.handler(REPORT, slow)).unwrap();
    cluster.client().enqueue(REPORT, &()).run().unwrap();
    cluster.run_due();
    cluster.shut_down(node);
    cluster.client().enqueue(REPORT, &()).run().unwrap();
    cluster.advance(HOUR);
    cluster.ran("queue:report").times(1);
    assert!(cluster.client().nodes().unwrap().iter().all(|node| node.ended.is_some()));
}

#[test]
fn the_same_test_makes_the_same_history() {
    let history = || {
        let mut cluster = TestCluster::new("shop");
        (0..3).for_each(|n| assert_eq!(cluster.node(fine).unwrap(), n));
        for name in ["a", "b", "c"] {
            let often = Trigger::cron("0/7 * * * * ?", "UTC").unwrap();
            let schedule = Schedule::new(name, REPORT, &(), often).unwrap();
            cluster.client().ensure(&schedule).run().unwrap();
        }
        cluster.advance(Duration::from_secs(120));
        let rows: Vec<_> =
            ["a", "b", "c"].iter().flat_map(|it| cluster.ran(it).executions().to_vec()).collect();
        rows.into_iter().map(|it| (it.schedule, it.fire_time, it.node, it.started)).collect::<Vec<_>>()
    };
    let first = history();
    assert!(first.len() > 40, "{first:?}");
    assert_eq!(first, history());
}

#[test]
fn what_was_expected_is_told_with_the_ledger() {
    let mut cluster = TestCluster::new("shop");
    cluster.node(fine).unwrap();
    cluster.client().enqueue(REPORT, &()).run().unwrap();
    let nightly = Trigger::cron("0 0 2 * * ?", "UTC").unwrap();
    cluster.client().ensure(&Schedule::new("nightly", REPORT, &(), nightly).unwrap()).run().unwrap();
    cluster.run_due();
    let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cluster.ran("nightly").times(1)));
    let said = seen.unwrap_err().downcast::<String>().unwrap();
    assert!(said.starts_with("expected 1 successes of nightly, found 0; the ledger:\n"), "{said}");
    assert!(said.contains("queue:report null  attempt 1  SUCCEEDED"), "{said}");
    let begin = cluster.now();
    cluster.advance_to(begin - TimeDelta::days(1));
    assert_eq!(cluster.now(), begin);
}

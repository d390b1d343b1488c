//! A node seen from outside: its metrics and its health.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use firetime::metrics::{Kind, Metrics, Value};
use firetime::{Answer, Draining, Event, Job, Overlap, Retry, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::chaos::hand::Hand;
use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, SOON, builder, client, listen, until, wait_for};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("metrics_tell_what_a_node_did", metrics_tell_what_a_node_did),
        ("skipped_occurrences_are_counted_by_reason", skipped_occurrences_are_counted_by_reason),
        ("a_node_is_ready_from_its_first_poll_to_its_end", a_node_is_ready_from_its_first_poll_to_its_end),
        (
            "a_node_that_joins_again_is_seen_under_its_new_id",
            a_node_that_joins_again_is_seen_under_its_new_id,
        ),
        ("a_stream_of_events_ends_with_the_shutdown", a_stream_of_events_ends_with_the_shutdown),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::observed::{name}", kind.name()), move || test(kind)));
    }
    if kind == ServerKind::Sqlite {
        let name = "observed::the_alerts_and_the_dashboard_hold".to_owned();
        trials.push(trial(name, the_alerts_and_the_dashboard_hold));
    }
    #[cfg(feature = "cli")]
    trials.push(trial(
        format!("{}::observed::the_exporter_serves_the_clusters_figures", kind.name()),
        move || {
            the_exporter_serves_the_clusters_figures(kind);
        },
    ));
}

const MAIL: Job<u32> = Job::new("mail").retry(Retry::fixed(Duration::from_millis(1)).at_most(1));

/// A node whose handlers hang until the sender is dropped.
fn hanging(database: &Database) -> (Scheduler, Receiver<Event>, Sender<()>) {
    let (let_go, hang) = channel::<()>();
    let hang = Mutex::new(hang);
    let (builder, events) = listen(builder(database).handler(MAIL, move |_, _| {
        hang.lock().unwrap().recv().ok();
        Ok(())
    }));
    (builder.start().unwrap(), events, let_go)
}

const GUIDE: &str = include_str!("../../docs/guide/observing.md");

/// The official reader of the format, which also knows how metrics should be named, takes them; and the guide
/// has them all.
fn assert_well_formed(metrics: &Metrics) {
    for family in &metrics.families {
        assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{}", family.name);
        assert!(GUIDE.contains(&format!("`{}`", family.name)), "the guide lacks {}", family.name);
    }
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool of the package prometheus");
    let text = metrics.to_prometheus();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ended = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.is_empty(), "{said}\n{text}");
}

fn metrics_tell_what_a_node_did(kind: ServerKind) {
    let database = kind.fresh();
    let (builder, events) = listen(builder(&database).handler(MAIL, |_, n| match n {
        0 => Ok(Answer::Done),
        _ => Err("no such address".into()),
    }));
    let scheduler = builder.start().unwrap();
    let client = scheduler.client();
    client.enqueue_many(MAIL, &[0, 0, 1]).run().unwrap();
    for _ in 0..4 {
        wait_for(&events, |event| matches!(event, Event::Finished { .. }).then_some(()));
    }
    until("outcomes wait", || {
        let waiting = scheduler.metrics().number("firetime_outcomes_waiting", &[]);
        (waiting == Some(0.0)).then_some(())
    });
    let metrics = scheduler.metrics();
    let mail = ("job", "mail");
    let ended = |outcome| metrics.number("firetime_executions_ended_total", &[mail, ("outcome", outcome)]);
    assert_eq!(metrics.number("firetime_executions_begun_total", &[mail]), Some(4.0));
    let outcomes = ["succeeded", "retried", "failed", "snoozed"];
    assert_eq!(outcomes.map(ended), [Some(2.0), Some(1.0), Some(1.0), Some(0.0)]);
    let spans = |name: &str| metrics.histogram(name, &[mail]).unwrap().count();
    let names = ["execution_duration", "execution_lateness", "enqueue_to_start"];
    assert_eq!(names.map(|name| spans(&format!("firetime_{name}_seconds"))), [4, 4, 3]);
    let calls = metrics.family("firetime_store_call_duration_seconds").unwrap();
    let operations: Vec<&str> = calls.samples.iter().map(|it| it.labels[1].1.as_str()).collect();
    assert!(operations.contains(&"claim") && operations.contains(&"poll"), "{operations:?}");
    let lease = metrics.number("firetime_lease_seconds", &[]).unwrap();
    assert!((1.0..=25.0).contains(&lease), "{lease}");
    assert_eq!(metrics.number("firetime_lane_threads", &[("lane", "default")]), Some(16.0));
    assert_eq!(metrics.number("firetime_node_ready", &[]), Some(1.0));
    assert_well_formed(&metrics);
    let is_labelled = |value: &Value, labels: &[(&str, String)]| {
        labels[0].0 == "application"
            && !labels.iter().any(|it| it.1.contains("no such address") || it.1 == "1")
            || matches!(value, Value::Histogram(_))
    };
    for family in &metrics.families {
        assert!(family.samples.iter().all(|it| is_labelled(&it.value, &it.labels)), "{family:?}");
    }
    until("the cluster's figures are not read", || {
        scheduler.metrics().family("firetime_cluster_nodes").map(drop)
    });
    let cluster = scheduler.client().metrics().unwrap();
    assert_eq!(cluster.number("firetime_cluster_nodes", &[("state", "active")]), Some(1.0));
    [scheduler.metrics(), cluster].iter().for_each(assert_well_formed);
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn skipped_occurrences_are_counted_by_reason(kind: ServerKind) {
    let database = kind.fresh();
    let (scheduler, events, let_go) = hanging(&database);
    let every = Trigger::every(Duration::from_millis(200)).unwrap();
    let schedule = Schedule::new("often", MAIL, &0, every).unwrap().overlap(Overlap::Skip);
    scheduler.client().ensure(&schedule).run().unwrap();
    let skipped = wait_for(&events, |event| match event {
        Event::Skipped { schedule, reason, occurrences, .. } => {
            Some((schedule.to_string(), *reason, *occurrences))
        }
        _ => None,
    });
    assert_eq!(skipped, ("often".to_owned(), "overlap", 1));
    let counted = scheduler.metrics().number("firetime_occurrences_skipped_total", &[("reason", "overlap")]);
    assert!(counted >= Some(1.0), "{counted:?}");
    scheduler.client().remove("often").run().unwrap();
    drop(let_go);
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_node_is_ready_from_its_first_poll_to_its_end(kind: ServerKind) {
    let database = kind.fresh();
    let (scheduler, events, let_go) = hanging(&database);
    until("it is not ready", || scheduler.health().is_ready().then_some(()));
    wait_for(&events, |event| matches!(event, Event::Polled { .. }).then_some(()));
    let client = scheduler.client();
    let node = scheduler.node().to_string();
    assert_eq!(client.drain(&node).run().unwrap(), Draining::Begun);
    let problem = |scheduler: &Scheduler| scheduler.health().problems.first().cloned();
    until("it does not drain", || problem(&scheduler).filter(|it| it.contains("drains")));
    assert!(scheduler.health().is_live() && !scheduler.health().is_ready());
    client.resume(firetime::Target::node(&node)).run().unwrap();
    until("it is not ready again", || scheduler.health().is_ready().then_some(()));
    let at = Trigger::once(Utc::now() + TimeDelta::milliseconds(100)).unwrap();
    client.ensure(&Schedule::new("once", MAIL, &0, at).unwrap()).run().unwrap();
    until("its handler has not begun", || {
        let begun = scheduler.metrics().number("firetime_executions_begun_total", &[("job", "mail")]);
        (begun == Some(1.0)).then_some(())
    });
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| scheduler.shutdown(SOON).is_clean());
        until("it does not stop", || problem(&scheduler).filter(|it| it.contains("shutting down")));
        assert!(scheduler.health().is_live());
        drop(let_go);
        assert!(stopped.join().unwrap());
    });
    assert_eq!(problem(&scheduler).as_deref(), Some("it has stopped"));
    assert!(!scheduler.health().is_live());
}

/// Somebody has declared it dead.
fn a_node_that_joins_again_is_seen_under_its_new_id(kind: ServerKind) {
    let database = kind.fresh();
    let (scheduler, events, let_go) = hanging(&database);
    drop(let_go);
    let first = scheduler.node();
    let mut hand = Hand::open(kind, &database.url).unwrap();
    hand.run("UPDATE QRTZ_NODE SET ended_time = beat_time, end_reason = 'dead'").unwrap();
    let (old, new) = wait_for(&events, |event| match event {
        Event::Fenced { old, new, .. } => Some((*old, *new)),
        _ => None,
    });
    wait_for(&events, |event| matches!(event, Event::Joined { .. }).then_some(()));
    assert_eq!((old, scheduler.node()), (first, new));
    let infos = scheduler.metrics().family("firetime_node_info").unwrap().samples.clone();
    let nodes: Vec<&str> = infos.iter().map(|it| it.labels[1].1.as_str()).collect();
    assert_eq!(nodes, [new.to_string()]);
    assert_eq!(scheduler.client().drain(&scheduler.node().to_string()).run().unwrap(), Draining::Begun);
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_stream_of_events_ends_with_the_shutdown(kind: ServerKind) {
    let database = kind.fresh();
    let (scheduler, _, let_go) = hanging(&database);
    drop(let_go);
    let events = scheduler.events();
    assert!(scheduler.shutdown(SOON).is_clean());
    let (later, (tell, told)) = (scheduler.events(), channel());
    std::thread::spawn(move || drop(tell.send((events.last(), later.count()))));
    let (last, later) = told.recv_timeout(SOON).expect("they do not end");
    assert!(matches!(last, Some(Event::Stopped { clean: true, .. })), "{last:?}");
    assert_eq!(later, 0, "it has ended");
}

/// A scraper that never reads its answer keeps no other waiting.
#[cfg(feature = "cli")]
fn the_exporter_serves_the_clusters_figures(kind: ServerKind) {
    use std::io::{BufRead, BufReader, Read};
    use std::net::TcpStream;

    let database = kind.fresh();
    let client = client(&database);
    client.enqueue_many(MAIL, &[1, 2]).run().unwrap();
    let mut exporter = Command::new(env!("CARGO_BIN_EXE_firetime"))
        .args(["exporter", "--listen", "127.0.0.1:0"])
        .env("FIRETIME_DATABASE_URL", &database.url)
        .env("FIRETIME_APPLICATION", APPLICATION)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(exporter.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").unwrap().strip_suffix("/metrics").unwrap();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        stream
    };
    let _hang: Vec<TcpStream> = (0..20).map(|_| ask("/metrics")).collect();
    let read = |path| {
        let mut answer = String::new();
        ask(path).read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = read("/metrics");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("version=0.0.4"), "{answer}");
    assert!(answer.contains("firetime_cluster_waiting{application=\"life\",job=\"mail\"} 2"), "{answer}");
    assert!(read("/x").starts_with("HTTP/1.1 404"));
    exporter.kill().unwrap();
    exporter.wait().unwrap();
}

/// Prometheus' own checker reads the files for Prometheus and Grafana, and their families exist.
fn the_alerts_and_the_dashboard_hold() {
    let promtool = |arguments: &[&str]| {
        let ended =
            Command::new("promtool").args(arguments).current_dir("examples/monitoring").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    };
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
    let dashboard = std::fs::read_to_string("examples/monitoring/dashboard.json").unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let expressions = panels.iter().map(|panel| panel["targets"][0]["expr"].as_str().unwrap());
    let expressions: Vec<String> =
        expressions.map(|it| it.replace("$__rate_interval", "5m").replace("$application", "shop")).collect();
    let rules: Vec<_> = expressions
        .iter()
        .enumerate()
        .map(|(place, expr)| serde_json::json!({ "record": format!("panel:{place}"), "expr": expr }))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("panels.yml");
    let groups = serde_json::json!({ "groups": [{ "name": "panels", "rules": rules }] });
    std::fs::write(&file, groups.to_string()).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()]);
    let alerts = std::fs::read_to_string("examples/monitoring/alerts.yml").unwrap();
    for figure in ["overdue", "unrunnable", "unmet"].map(|it| format!("firetime_cluster_schedules_{it}{{")) {
        assert!(expressions.iter().any(|it| it.contains(&figure)), "no panel shows {figure}");
        assert!(alerts.contains(figure.trim_end_matches('{')), "no alarm is told of {figure}");
    }
    let is_of_name = |c: char| !(c.is_ascii_lowercase() || c == '_');
    let words =
        expressions.iter().map(String::as_str).chain([&*alerts]).flat_map(|text| text.split(is_of_name));
    let names: Vec<&str> = words
        .filter(|word| word.starts_with("firetime_"))
        .map(|word| word.trim_end_matches("_bucket"))
        .collect();
    assert!(names.len() > 25, "{names:?}");
    names.iter().for_each(|name| assert!(GUIDE.contains(&format!("`{name}`")), "there is no {name}"));
}

//! Requests that programs without this library write, by plain SQL.

use std::process::Command;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use firetime::{Context, Event, ExecutionFilter, Job, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::node::{self, Nodes};
use crate::support::scheduler::{APPLICATION, SOON, TEXT, client, listen, teller, until, wait_for};
use crate::trial;

const NUMBER: Job<u64> = Job::new("number");

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("an_insert_runs_a_job_once_it_is_committed", an_insert_runs_a_job_once_it_is_committed),
        ("requests_of_one_key_are_carried_out_in_order", requests_of_one_key_are_carried_out_in_order),
        ("schedules_are_paused_triggered_and_resumed", schedules_are_paused_triggered_and_resumed),
        ("killed_nodes_carry_no_request_out_twice", killed_nodes_carry_no_request_out_twice),
        ("a_python_program_asks_in_its_own_transaction", a_python_program_asks_in_its_own_transaction),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::requests::{name}", kind.name()), move || test(kind)));
    }
    if kind.name() == "postgres" {
        let name = "postgres::requests::a_trigger_enqueues_by_a_function".to_owned();
        trials.push(trial(name, move || a_trigger_enqueues_by_a_function(kind)));
    }
}

fn insert(verb: &str, arguments: &str) -> String {
    format!(
        "INSERT INTO QRTZ_REQUEST (application, verb, arguments) VALUES ('{APPLICATION}', '{verb}', '{arguments}')"
    )
}

fn enqueue(n: u64) -> String {
    insert("enqueue", &format!(r#"{{"job": "number", "payload": {n}}}"#))
}

/// So many rows of requests have this state and answer.
fn are(database: &Database, count: i64, state: &str, answer: &str) -> Option<()> {
    let condition = format!("WHERE state = '{state}' AND answer LIKE '{answer}%'");
    (database.count("QRTZ_REQUEST", &condition) == count).then_some(())
}

fn an_insert_runs_a_job_once_it_is_committed(kind: ServerKind) {
    const RARELY: Duration = Duration::from_secs(50);
    let (database, (tell, told)) = (kind.fresh(), teller());
    let run = move |_: &Context, n: u64| Ok(tell.lock().unwrap().send(n)?);
    let builder =
        Scheduler::builder(APPLICATION, &database.url).poll_interval(RARELY).misfire_interval(RARELY);
    let (builder, events) = listen(builder.handler(NUMBER, run));
    let node = builder.start().unwrap();
    wait_for(&events, |event| matches!(event, Event::Polled { .. }).then_some(()));
    let begin = if kind.name() == "sqlite" { "BEGIN IMMEDIATE" } else { "BEGIN" };
    database.batch(&format!("{begin}; {}; ROLLBACK", enqueue(1)));
    for n in 2..5 {
        database.batch(&format!("{begin}; {}; COMMIT", enqueue(n)));
        assert_eq!(told.recv_timeout(SOON), Ok(n), "it does not wait for a poll");
    }
    until("the requests are not done", || are(&database, 3, "DONE", "created"));
    let views = database.count("qrtz_executions", "WHERE job = 'number' AND schedule IS NULL");
    assert_eq!(views, 3);
    database.batch(&insert("enqueue", r#"{"job": "number", "lain": "slow"}"#));
    let refused = wait_for(&events, |event| match event {
        Event::RequestRefused { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert!(refused.contains("unknown field `lain`"), "{refused}");
    until("it is not refused", || are(&database, 1, "REFUSED", "the arguments of enqueue: unknown field"));
    assert!(node.shutdown(SOON).is_clean());
}

/// By two nodes at once.
fn requests_of_one_key_are_carried_out_in_order(kind: ServerKind) {
    const COUNT: u64 = 60;
    let (database, (tell, told)) = (kind.fresh(), teller());
    let start = || {
        let tell = tell.clone();
        let run = move |_: &Context, n: u64| Ok(tell.lock().unwrap().send(n)?);
        Scheduler::builder(APPLICATION, &database.url).handler(NUMBER, run).start().unwrap()
    };
    let nodes = [start(), start()];
    for n in 0..COUNT {
        let (key, due) = (n % 3, "2037-01-31T08:00:00Z");
        let arguments = format!(
            r#"{{"job": "number", "payload": {n}, "key": "k{key}", "due": "{due}", "on_conflict": "replace"}}"#
        );
        database.batch(&insert("enqueue", &arguments));
    }
    until("not all are done", || {
        (database.count("QRTZ_REQUEST", "WHERE state = 'DONE'") == 60).then_some(())
    });
    are(&database, 3, "DONE", "created").expect("one execution for each key");
    let client = client(&database);
    let filter = ExecutionFilter { job: Some("number".to_owned()), ..ExecutionFilter::default() };
    let mut last: Vec<(Option<String>, Option<String>)> = client
        .executions(&filter)
        .unwrap()
        .into_iter()
        .map(|it| (it.key.clone(), client.execution(it.id).unwrap().payload))
        .collect();
    last.sort();
    let expected = [(0, 57), (1, 58), (2, 59)].map(|(k, n)| (Some(format!("k{k}")), Some(n.to_string())));
    assert_eq!(last, expected, "the last request of each key");
    database.batch(&insert("cancel", r#"{"job": "number", "key": "k1", "reason": "paid"}"#));
    until("it is not cancelled", || are(&database, 1, "DONE", "cancelled"));
    assert!(told.try_recv().is_err(), "none was due");
    assert!(nodes.into_iter().all(|node| node.shutdown(SOON).is_clean()));
}

/// Of three nodes that carry requests out, one after the other is killed.
fn killed_nodes_carry_no_request_out_twice(kind: ServerKind) {
    const COUNT: i64 = 300;
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let mut nodes = Nodes::start(&database.url, 3);
    let row = |n| {
        let arguments = format!(r#"{{"job": "work", "payload": {n}, "due": "2037-01-31T08:00:00Z"}}"#);
        format!("('{}', 'enqueue', '{arguments}')", node::APPLICATION)
    };
    let rows: Vec<String> = (0..COUNT).map(row).collect();
    database.batch(&format!(
        "INSERT INTO QRTZ_REQUEST (application, verb, arguments) VALUES {}",
        rows.join(", ")
    ));
    for (number, done) in (0..5).zip((1..).step_by(50)) {
        let is_so = || (database.count("QRTZ_REQUEST", "WHERE state = 'DONE'") >= done).then_some(());
        until("they are not carried out", is_so);
        nodes.kill(number);
        nodes.add(&database.url);
    }
    until("not all are carried out", || are(&database, COUNT, "DONE", "created"));
    let executions = database.count("qrtz_executions", "WHERE job = 'work' AND state = 'PENDING'");
    assert_eq!(executions, COUNT);
    let told = "(SELECT DISTINCT execution_id FROM QRTZ_REQUEST) AS told";
    assert_eq!(database.count(told, ""), COUNT);
    nodes.stop();
}

fn schedules_are_paused_triggered_and_resumed(kind: ServerKind) {
    let (database, (tell, told)) = (kind.fresh(), teller());
    let run = move |_: &Context, text: String| Ok(tell.lock().unwrap().send(text)?);
    let node = Scheduler::builder(APPLICATION, &database.url).handler(TEXT, run).start().unwrap();
    let client = client(&database);
    let tomorrow = Trigger::once(Utc::now() + TimeDelta::days(1)).unwrap();
    client.ensure(&Schedule::new("once", TEXT, &"its own".to_owned(), tomorrow).unwrap()).run().unwrap();
    let state = || client.schedules().unwrap().first().map(|it| it.state.to_string());
    for (verb, arguments, answer, becomes) in [
        ("pause", r#"{"schedule": "once", "reason": "stock-taking"}"#, "paused", "paused"),
        ("resume", r#"{"schedule": "once"}"#, "resumed", "active"),
        ("trigger", r#"{"schedule": "once", "payload": "now"}"#, "created", "active"),
    ] {
        database.batch(&insert(verb, arguments));
        until("it is not done", || are(&database, 1, "DONE", answer));
        assert_eq!(state().as_deref(), Some(becomes), "{verb}");
    }
    assert_eq!(told.recv_timeout(SOON).as_deref(), Ok("now"));
    database.batch(&insert("remove", r#"{"schedule": "once"}"#));
    until("it is not removed", || state().is_none().then_some(()));
    database.batch(&insert("pause", r#"{"schedule": "once"}"#));
    until("it is not refused", || are(&database, 1, "REFUSED", ""));
    assert!(node.shutdown(SOON).is_clean());
}

/// A Python with a database's driver: Debian's has the drivers of its packages.
fn python(kind: ServerKind) -> &'static str {
    let driver = match kind.name() {
        "sqlite" => "sqlite3",
        "postgres" => "psycopg",
        _ => "pymysql",
    };
    let has_it = |python: &&str| {
        let tried = Command::new(python).args(["-c", &format!("import {driver}")]).output();
        tried.is_ok_and(|it| it.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_it);
    found.unwrap_or_else(|| panic!("no Python has {driver}: scripts/install.sh"))
}

fn a_python_program_asks_in_its_own_transaction(kind: ServerKind) {
    let database = kind.fresh();
    let remind = Job::<serde_json::Value>::new("remind");
    let node = Scheduler::builder("shop", &database.url).handler(remind, |_, _| Ok(())).start().unwrap();
    database.batch("CREATE TABLE orders (id BIGINT PRIMARY KEY, paid INT NOT NULL)");
    let shop = |command: &str| {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python/shop.py");
        let ran = Command::new(python(kind)).args([program, &database.url, command, "7"]).output().unwrap();
        let (said, errors) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
        if ran.status.success() { Ok(said) } else { Err(errors) }
    };
    shop("take").unwrap();
    until("it is not enqueued", || shop("show").unwrap().contains("enqueue: DONE created").then_some(()));
    assert!(shop("show").unwrap().contains("remind: PENDING"));
    assert!(shop("take").is_err(), "there is such an order: nothing of the transaction is kept");
    assert_eq!(database.count("QRTZ_REQUEST", ""), 1);
    shop("pay").unwrap();
    until("it is not cancelled", || shop("show").unwrap().contains("cancel: DONE cancelled").then_some(()));
    assert!(shop("show").unwrap().contains("remind: CANCELLED"));
    assert!(node.shutdown(SOON).is_clean());
}

fn a_trigger_enqueues_by_a_function(kind: ServerKind) {
    let (database, (tell, told)) = (kind.fresh(), teller());
    let run = move |context: &Context, n: u64| {
        assert_eq!(context.header("order"), Some(&*n.to_string()));
        Ok(tell.lock().unwrap().send(n)?)
    };
    let node = Scheduler::builder(APPLICATION, &database.url).handler(NUMBER, run).start().unwrap();
    database.batch(&format!(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY);
         CREATE FUNCTION remind() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
         PERFORM firetime_enqueue('{APPLICATION}', 'number', payload => to_json(NEW.id), key => 'order-' || NEW.id,
             due => now() + INTERVAL '1 millisecond', tags => ARRAY['a', 'b'],
             headers => json_build_object('order', CAST(NEW.id AS TEXT)));
         RETURN NULL; END $$;
         CREATE TRIGGER reminded AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION remind();
         INSERT INTO orders VALUES (7), (8)"
    ));
    let mut ran = [told.recv_timeout(SOON).unwrap(), told.recv_timeout(SOON).unwrap()];
    ran.sort_unstable();
    assert_eq!(ran, [7, 8]);
    assert_eq!(database.count("qrtz_executions", "WHERE unique_key = 'order-7'"), 1);
    let tagged = ExecutionFilter { tag: Some("b".to_owned()), ..ExecutionFilter::default() };
    assert_eq!(client(&database).executions(&tagged).unwrap().len(), 2);
    assert!(node.shutdown(SOON).is_clean());
}

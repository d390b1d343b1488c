//! Lists, their pages and filters, and the ledger.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("lists_have_pages_without_gaps", lists_have_pages_without_gaps),
    ("filters_narrow_lists", filters_narrow_lists),
    ("the_ledger_is_verified", the_ledger_is_verified),
];

fn lists_have_pages_without_gaps() {
    let (database, client) = hostile();
    for n in 0..5 {
        database.batch(&format!(
            "INSERT INTO QRTZ_NODE (uuid, application, jobs, beat_time, silent_after) VALUES ('n{n}', '{0}', '[]', 1, 2); \
             INSERT INTO QRTZ_JOB (application, job_class) VALUES ('{0}', 'j{n}')",
            crate::support::scheduler::APPLICATION
        ));
    }
    let payloads: Vec<String> = (0..6).map(|it| it.to_string()).collect();
    client.enqueue_many(TEXT, &payloads).run().unwrap();
    for name in ["a", "b", "c", "d"] {
        ensure(&client, name, TEXT, Trigger::cron(NIGHTLY, "UTC").unwrap());
    }
    let api = Api::new(&client, Options::new());
    for (path, key, count) in [
        ("/executions?", "id", 7),
        ("/executions?oldest=1&", "id", 7),
        ("/schedules?", "name", 5),
        ("/audit?", "id", 5),
        ("/audit?verb=ensure&since=1h&", "id", 5),
        ("/jobs?", "name", 6),
        ("/nodes?", "id", 5),
    ] {
        let whole: Vec<Value> =
            api.get(path)["items"].as_array().unwrap().iter().map(|it| it[key].clone()).collect();
        assert_eq!(whole.len(), count, "{path}");
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("{path}limit=2{after}"));
            let items = page["items"].as_array().unwrap();
            assert!((1..=2).contains(&items.len()), "{page}");
            seen.extend(items.iter().map(|it| it[key].clone()));
            match page["after"].as_str() {
                Some(next) => after = format!("&{}", encoded(&[("after", next)])),
                None => break,
            }
        }
        assert_eq!(seen, whole, "{path}");
    }
}

fn filters_narrow_lists() {
    let (_database, client) = hostile();
    let api = Api::new(&client, Options::new());
    let count = |path: &str| api.get(path)["items"].as_array().unwrap().len();
    let job = encoded(&[("job", "text<i>")]);
    for one in [
        format!("/schedules?{job}&state=active&q=SCRIPT"),
        format!("/executions?{job}&tag=%3Cu%3E&key=%3Cs%3E&state=PENDING&state=FAILED&since=1h&until=1m"),
        format!("/executions?since={}", Utc::now().timestamp_millis() - 3_600_000),
        "/audit?verb=ensure&since=1h&limit=1".to_owned(),
    ] {
        assert_eq!(count(&one), 1, "{one}");
    }
    for none in [
        "/schedules?q=zebra",
        "/schedules?job=x",
        "/schedules?state=paused",
        "/schedules?owner=x",
        "/audit?actor=x",
        "/executions?state=FAILED",
        "/executions?until=3h",
        "/outcomes?by=hour&by=node",
    ] {
        assert_eq!(count(none), 0, "{none}");
    }
    let at = client.schedules().unwrap()[0].next.unwrap();
    let why = api.get(&format!(
        "/why?{}",
        encoded(&[("schedule", HOSTILE), ("at", &at.timestamp_millis().to_string())])
    ));
    assert_eq!(
        (why["at"].as_i64(), why["fate"].as_str()),
        (Some(at.timestamp_millis()), Some("waiting")),
        "{why}"
    );
}

fn the_ledger_is_verified() {
    let (database, client) = hostile();
    let api = Api::new(&client, Options::new());
    let schedule = encoded(&[("schedule", HOSTILE)]);
    let whole = api.get(&format!("/verify?since=1h&{schedule}"));
    assert_eq!((&whole["schedules"], &whole["flaws"]), (&json!(1), &json!([])), "{whole}");
    let next = client.schedules().unwrap()[0].next.unwrap();
    until("it is due", || (client.now().unwrap() > next).then_some(()));
    client.skip(HOSTILE, next).run().unwrap();
    let skipped = api.get("/verify?since=1h");
    assert_eq!((&skipped["rows"], &skipped["flaws"]), (&json!(1), &json!([])), "{skipped}");
    database.batch("DELETE FROM QRTZ_RUN WHERE state = 'SKIPPED'");
    let flawed = api.get("/verify?since=1h");
    assert_eq!(flawed["flaws"][0]["kind"], "missing", "{flawed}");
    assert_eq!(api.get("/verify?since=2025-01-01T00:00:00Z")["rows"], flawed["rows"]);
}

//! Running a schedule for an instant that somebody writes.

use super::*;
use firetime::Cause;

pub const TESTS: &[(&str, fn())] = &[
    ("an_instant_to_come_runs_it_once_later", an_instant_to_come_runs_it_once_later),
    ("an_instant_that_has_passed_runs_its_occurrence", an_instant_that_has_passed_runs_its_occurrence),
];

fn confirm(client: &Client, text: &str) -> Answer {
    let fields = [("verb", "runfor"), ("schedule", "nightly"), ("instant", text)];
    get(client, &format!("/confirm?{}", encoded(&fields)))
}

fn run(client: &Client, text: &str) -> String {
    told(client, &[("verb", "runfor"), ("schedule", "nightly"), ("instant", text), ("reason", "figures")])
}

fn an_instant_to_come_runs_it_once_later() {
    let (_database, client) = nightly("UTC");
    let page = confirm(&client, "2099-01-31 10:05");
    assert!(page.text.contains("Run nightly for 2099-01-31 10:05:00.000 UTC?"), "{}", page.text);
    assert!(page.text.contains("It runs once more in "), "{}", page.text);
    assert!(run(&client, "2099-01-31 10:05").contains("waits until then"));
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let Cause::ByHand { reason, .. } = &rows[0].cause else { panic!("{rows:?}") };
    assert_eq!(reason, "figures");
    assert_eq!(rows[0].due.unwrap().to_rfc3339(), "2099-01-31T10:05:00+00:00");
}

fn an_instant_that_has_passed_runs_its_occurrence() {
    let (_database, client) = nightly("UTC");
    let none = confirm(&client, "2026-01-31 10:05");
    assert!(none.text.contains("It had no fire time then"), "{}", none.text);
    let page = confirm(&client, "2026-01-31 02:30");
    assert!(page.text.contains("the ledger has no occurrence of it"), "{}", page.text);
    assert!(run(&client, "2026-01-31 02:30").contains("1 execution ordered"));
    assert!(confirm(&client, "2026-01-31 02:30").text.contains("It has yet to end for that"));
    assert!(run(&client, "2026-01-31 02:30").starts_with("Nothing was changed: "));
    assert_eq!(confirm(&client, "soon").status, StatusCode::BAD_REQUEST);
    assert!(run(&client, "soon").contains("is no instant"));
}

//! What needs people, and how the last day was.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("failures_are_told_by_their_end", failures_are_told_by_their_end),
    ("a_failure_that_was_tried_again_needs_nobody", a_failure_that_was_tried_again_needs_nobody),
    ("what_is_not_looked_at_is_told", what_is_not_looked_at_is_told),
    ("a_node_is_silent_once_its_row_says_so", a_node_is_silent_once_its_row_says_so),
    ("the_last_day_is_counted_by_hour_and_by_job", the_last_day_is_counted_by_hour_and_by_job),
];

/// An execution that was due hours ago, and ended so many minutes ago in this state; none if it has not.
fn ended(database: &Database, client: &Client, state: &str, minutes: Option<i64>) -> i64 {
    let due = Utc::now() - TimeDelta::hours(5);
    let id = client.enqueue(TEXT, &String::new()).at(due).run().unwrap().id();
    let at = minutes.map_or(-1, |ago| (Utc::now() - TimeDelta::minutes(ago)).timestamp_millis());
    let set = format!("state = '{state}', finished_time = {at}");
    database.batch(&format!("UPDATE QRTZ_RUN SET {set} WHERE id = {id}"));
    id.get()
}

/// A long run fails hours after its fire time, and one that is old may have ended just now.
fn failures_are_told_by_their_end() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    ended(&database, &client, "FAILED", Some(120));
    let now = get(&client, "/now").text;
    assert!(now.contains("nothing failed in the last hour") && !now.contains("Show them"), "{now}");
    let failed = ended(&database, &client, "FAILED", Some(5));
    let runs_on = ended(&database, &client, "TIMED_OUT", None);
    database.batch(&format!("INSERT INTO QRTZ_STUCK VALUES ({runs_on}, '{APPLICATION}', '')"));
    let now = get(&client, "/now");
    assert!(now.text.contains("failed 2 times in the last hour"), "{}", now.text);
    let enqueued = "What was enqueued for text&#60;i&#62;";
    assert!(now.text.contains(enqueued) && !now.text.contains("queue:"), "{}", now.text);
    let to = &links(&now, "Show them")[0];
    assert!(get(&client, to).text.contains(&format!("<h1>{enqueued} that failed in the last hour</h1>")));
    for path in [to.as_str(), "/executions?failed=lately"] {
        let page = get(&client, path);
        assert_eq!(rows(&page), 2, "{path}: {}", page.text);
        for id in [failed, runs_on] {
            assert!(page.text.contains(&format!("execution?id={id}\"")), "{path}: {}", page.text);
        }
    }
    assert_eq!(links(&now, "failed in the last hour"), ["/executions?failed=lately"]);
}

fn a_failure_that_was_tried_again_needs_nobody() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let tried = ["FAILED", "ABANDONED"].map(|state| ended(&database, &client, state, Some(5)));
    let needs = || get(&client, "/now").text;
    let again = || get(&client, "/executions").text.matches("Try again").count();
    assert!(needs().contains("failed 2 times in the last hour"), "{}", needs());
    assert_eq!(again(), 2);
    for id in tried {
        client.retry(id).run().unwrap();
    }
    assert!(needs().contains("nothing failed in the last hour"), "{}", needs());
    assert_eq!((again(), rows(&get(&client, "/executions?failed=lately"))), (0, 0));
    // The later attempt fails as well: its occurrence failed once.
    let now = Utc::now().timestamp_millis();
    let set = format!("state = 'FAILED', finished_time = {now}");
    database.batch(&format!("UPDATE QRTZ_RUN SET {set} WHERE attempt = 2"));
    assert!(needs().contains("failed 2 times in the last hour"), "{}", needs());
    assert_eq!(again(), 2);
}

fn what_is_not_looked_at_is_told() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    client.enqueue_many(TEXT, &vec![String::new(); 1_000]).run().unwrap();
    let due = (Utc::now() - TimeDelta::minutes(5)).timestamp_millis();
    let failed = format!("UPDATE QRTZ_RUN SET state = 'FAILED', finished_time = {due}");
    let waits = "1,000 or more executions wait for too long";
    assert!(!get(&client, "/now").text.contains(waits), "they wait for less than a minute");
    database.batch(&format!("UPDATE QRTZ_RUN SET due_time = {due}"));
    let now = get(&client, "/now").text;
    assert!(now.contains(waits) && now.contains("More may need you"), "{now}");
    database.batch(&format!("{failed} WHERE id <= 110"));
    let now = get(&client, "/now").text;
    assert!(now.contains("; 110 failed in the last hour") && !now.contains(waits), "{now}");
    database.batch(&failed);
    let now = get(&client, "/now").text;
    assert!(now.contains("1,000 or more executions failed in the last two days"), "{now}");
}

fn a_node_is_silent_once_its_row_says_so() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    for (span, silence, is_silent) in
        [(120_000, 60, false), (5_000, 10, true), (-1, 10, false), (-1, 60, true)]
    {
        let beat = (Utc::now() - TimeDelta::seconds(silence)).timestamp_millis();
        database.batch(&format!(
            "DELETE FROM QRTZ_NODE; INSERT INTO QRTZ_NODE (uuid, application, jobs, beat_time, silent_after) \
             VALUES ('a', '{APPLICATION}', '[]', {beat}, {span})"
        ));
        let said = get(&client, "/now").text.contains("no heartbeat for");
        assert_eq!(said, is_silent, "{span} {silence}");
    }
}

fn the_last_day_is_counted_by_hour_and_by_job() {
    const HOUR: i64 = 3_600_000;
    let (database, client) = hostile();
    assert!(get(&client, "/now").text.contains("no attempt has ended"));
    let hour = client.now().unwrap().timestamp_millis() / HOUR * HOUR;
    for (ago, counts) in [(0, "7, 0, 0, 0"), (5, "1200, 3, 1, 2"), (23, "1, 0, 0, 0"), (24, "500, 500, 0, 0")]
    {
        database.batch(&format!(
            "INSERT INTO QRTZ_OUTCOME (application, hours, from_time, job, node, begun, lateness_max, succeeded, \
             failed, timed_out, abandoned) VALUES ('{APPLICATION}', 1, {}, 'text<i>', 'a', 9, 2500, {counts})",
            hour - ago * HOUR
        ));
    }
    let now = get(&client, "/now").text;
    let told = "1,208 attempts succeeded, 3 failed, 1 timed out, 2 abandoned";
    assert!(now.contains(told), "{now}");
    for bar in [
        "1,200 attempts succeeded, 3 failed, 1 timed out, 2 abandoned</title><rect class=\"ran\" x=\"540\" y=\"7\" width=\"24\" \
         height=\"53\" rx=\"2\"/><rect class=\"bad\" x=\"540\" y=\"4\" width=\"24\" height=\"3\" rx=\"2\"/>",
        "7 attempts succeeded</title><rect class=\"ran\" x=\"690\" y=\"57\" width=\"24\" height=\"3\" rx=\"2\"/>",
        "1 attempt succeeded</title><rect class=\"ran\" x=\"0\" ",
    ] {
        assert!(now.contains(bar), "{bar}: {now}");
    }
    let jobs = get(&client, "/jobs").text;
    assert!(jobs.contains(told) && jobs.contains(">+2.5 s<"), "{jobs}");
}

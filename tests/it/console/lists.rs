//! Lists, their filters and their pages.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("filters_and_pages_of_schedules_are_in_the_address", filters_and_pages_of_schedules),
    ("filters_and_pages_of_executions_are_in_the_address", filters_and_pages_of_executions),
];

fn filters_and_pages_of_schedules() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    for number in 0..120 {
        let job = if number % 2 == 0 { TEXT } else { Job::new("other") };
        ensure(&client, &format!("s{number:03}"), job, Trigger::cron(NIGHTLY, "UTC").unwrap());
    }
    client.pause("s007").reason("stock-taking").run().unwrap();
    let count = |path: &str| rows(&get(&client, path));
    assert_eq!((count("/schedules?q=S00"), count("/schedules?job=other&q=s00")), (10, 5));
    assert_eq!((count("/schedules?state=paused"), count("/schedules?state=error")), (1, 0));
    assert!(
        get(&client, "/schedules?state=paused").text.contains("stock-taking"),
        "the reason is in the row"
    );
    let (mut path, mut seen) = ("/schedules?job=text%3Ci%3E".to_owned(), 0);
    loop {
        let page = get(&client, &path);
        seen += rows(&page);
        match &links(&page, "Next page")[..] {
            [next] => next.clone_into(&mut path),
            _ => break,
        }
    }
    assert_eq!(seen, 60);
    assert_eq!(links(&get(&client, &path), "First page"), ["/schedules?job=text%3Ci%3E"]);
}

fn filters_and_pages_of_executions() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let payloads: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    client.enqueue_many(TEXT, &payloads).run().unwrap();
    let due = Utc::now() - TimeDelta::hours(5);
    let tagged = client.enqueue(TEXT, &String::new()).at(due).tag("urgent").key("k").run().unwrap().id();
    client.cancel(tagged).reason("paid").run().unwrap();
    let count = |path: &str| rows(&get(&client, path));
    for one in ["tag=urgent", "key=k", "state=CANCELLED&state=FAILED", "until=4h", "reason=cancelled"] {
        assert_eq!(count(&format!("/executions?{one}")), 1, "{one}");
    }
    for none in ["schedule=x", "group=x", "state=RUNNING", "node=abc", "cause=rerun", "since=2099-01-01"] {
        assert_eq!(count(&format!("/executions?{none}")), 0, "{none}");
    }
    for wrong in ["state=LOST", "since=soon", "after=x", "reason=because", "node=x%0Ay"] {
        let page = get(&client, &format!("/executions?{wrong}"));
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert!(page.text.contains("role=\"alert\""), "{wrong}: {}", page.text);
    }
    for order in ["", "&oldest=1"] {
        let page = get(&client, &format!("/executions?job=text%3Ci%3E{order}"));
        let next = links(&page, "Next page");
        assert_eq!((rows(&page), rows(&get(&client, &next[0]))), (50, 11), "{order}");
        assert!(next[0].contains("after=") && next[0].contains("job=text%3Ci%3E"), "{next:?}");
    }
}

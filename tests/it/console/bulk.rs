//! Changes of all executions of a filter, and reruns of what is missing.

use firetime::{Cause, ExecutionState, ScheduleState};

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("all_of_a_filter_are_cancelled_while_somebody_looks", all_of_a_filter_are_cancelled),
    ("those_that_came_after_the_question_are_left", those_that_came_after_the_question_are_left),
    ("what_failed_is_tried_again_and_what_was_followed_is_left", what_failed_is_tried_again),
    ("a_change_of_many_asks_first_and_names_what_it_means", a_change_of_many_asks_first),
    ("all_schedules_of_a_filter_are_paused_and_resumed", all_schedules_of_a_filter_are_paused),
    ("schedules_made_after_the_question_are_not_paused", schedules_made_after_the_question_are_not_paused),
    ("what_is_missing_is_run_after_a_look_and_can_be_ended", what_is_missing_is_run),
    ("a_skipped_execution_tells_of_its_rerun", a_skipped_execution_tells_of_its_rerun),
    ("a_rerun_that_cannot_be_is_told_beside_the_form", a_rerun_that_cannot_be_is_told),
];

/// One console, which remembers what it has under way.
struct Pages {
    runtime: tokio::runtime::Runtime,
    pages: axum::Router,
}

impl Pages {
    fn of(client: &Client) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { runtime, pages: router(client.clone(), Options::new()) }
    }

    fn sent(&self, request: Request<Body>) -> Answer {
        sent_on(&self.runtime, self.pages.clone(), request)
    }

    fn get(&self, path: &str) -> Answer {
        let request = Request::get(path).header("host", "localhost");
        self.sent(request.body(Body::empty()).unwrap())
    }

    /// Sends the form of a page that asks; the page that it leads to.
    fn order(&self, page: &Answer) -> String {
        let form = page
            .text
            .split("method=\"post\" action=\"change\">")
            .nth(1)
            .unwrap_or_else(|| panic!("{}", page.text));
        let inputs = form.split("</form>").next().unwrap().split("<input type=\"hidden\" ").skip(1);
        let value = |tag: &str, name: &str| {
            let value = tag.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
            value.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"").replace("&#38;", "&")
        };
        let mut fields: Vec<(String, String)> =
            inputs.map(|tag| (value(tag, "name"), value(tag, "value"))).collect();
        fields.retain(|(name, _)| name != "token");
        fields.extend([("token".to_owned(), TOKEN.to_owned()), ("reason".to_owned(), "paid".to_owned())]);
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let request = Request::post("/change").header("host", "localhost").header("content-type", FORM);
        let request = request.header("cookie", format!("firetime_token={TOKEN}"));
        let answer = self.sent(request.body(Body::from(encoded(&fields))).unwrap());
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        format!("/{}", answer.headers["location"].to_str().unwrap())
    }

    /// The page of a change, once it has ended.
    fn ended(&self, path: &str) -> Answer {
        until("the change has ended", || {
            Some(self.get(path)).filter(|it| !it.headers.contains_key("refresh"))
        })
    }
}

fn enqueue(client: &Client, count: usize, tag: &str) -> Vec<i64> {
    let due = Utc::now() + TimeDelta::hours(1);
    let enqueue = || client.enqueue(TEXT, &String::new()).at(due).tag(tag).run().unwrap().id().get();
    (0..count).map(|_| enqueue()).collect()
}

fn states(client: &Client, tag: &str) -> Vec<String> {
    let filter = ExecutionFilter { tag: Some(tag.to_owned()), ..ExecutionFilter::default() };
    client.executions(&filter).unwrap().into_iter().map(|it| it.state.to_string()).collect()
}

fn all_of_a_filter_are_cancelled() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database).acting_as("ann");
    enqueue(&client, 30, "<u>");
    enqueue(&client, 2, "other");
    let pages = Pages::of(&client);
    let list = pages.get("/executions?tag=%3Cu%3E");
    let ask = pages.get(&links(&list, "Cancel all of these")[0]);
    assert_is_text(&ask, "ask");
    assert!(ask.text.contains("Cancel 30 executions?") && ask.text.contains("and 10 more"), "{}", ask.text);
    assert_eq!(states(&client, "<u>"), vec!["PENDING"; 30], "nothing is changed before that");
    let page = pages.order(&ask);
    let ended = pages.ended(&page);
    assert!(
        ended.text.contains("Cancel: done") && ended.text.contains("30 changed, 0 left"),
        "{}",
        ended.text
    );
    assert_eq!(states(&client, "<u>"), vec!["CANCELLED"; 30]);
    assert_eq!(states(&client, "other"), vec!["PENDING"; 2]);
    let audit =
        client.audit(&AuditFilter { verb: Some("cancel".to_owned()), ..AuditFilter::default() }).unwrap();
    assert_eq!(audit.len(), 30);
    assert!(audit.iter().all(|it| it.actor == "ann" && it.reason == "paid"), "{audit:?}");
    let by_reason = pages.get("/bulk?each=retry&state_reason=cancelled&tag=%3Cu%3E");
    assert!(by_reason.text.contains("Try again 30 executions?"), "{}", by_reason.text);
    assert!(by_reason.text.contains("name=\"state_reason\" value=\"cancelled\""), "{}", by_reason.text);
    assert_eq!(pages.get(&page).status, StatusCode::OK, "a page that is loaded again still tells");
    let anew = Pages::of(&client).get(&page);
    assert!(anew.status == StatusCode::NOT_FOUND && anew.text.contains("The audit has"), "{}", anew.text);
}

fn those_that_came_after_the_question_are_left() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    enqueue(&client, 2, "u");
    let pages = Pages::of(&client);
    let ask = pages.get("/bulk?each=cancel&tag=u");
    let later = enqueue(&client, 3, "u");
    pages.ended(&pages.order(&ask));
    let mut now = states(&client, "u");
    now.sort();
    assert_eq!(now, ["CANCELLED", "CANCELLED", "PENDING", "PENDING", "PENDING"], "{later:?}");
}

fn what_failed_is_tried_again() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let ids = enqueue(&client, 4, "u");
    database.batch("UPDATE QRTZ_RUN SET state = 'FAILED', finished_time = due_time");
    let pages = Pages::of(&client);
    let ask = pages.get("/bulk?each=retry&tag=u");
    assert!(ask.text.contains("Try again 4 executions?"), "{}", ask.text);
    client.retry(ids[0]).run().unwrap();
    assert!(
        pages.get("/bulk?each=retry&tag=u").text.contains("Try again 4 executions?"),
        "its first attempt alone is listed"
    );
    let ended = pages.ended(&pages.order(&ask));
    assert!(ended.text.contains("3 changed, 1 left as they were"), "{}", ended.text);
    assert!(ended.text.contains("another attempt has followed"), "{}", ended.text);
    let waiting = ExecutionFilter { states: vec![ExecutionState::Pending], ..ExecutionFilter::default() };
    assert_eq!(client.executions(&waiting).unwrap().len(), 4);
}

fn a_change_of_many_asks_first() {
    let (_database, client) = hostile();
    let pages = Pages::of(&client);
    let none = pages.get("/bulk?each=retry&state=SUCCEEDED");
    assert!(
        none.text.contains("There is nothing to retry") && !none.text.contains("action=\"change\""),
        "{}",
        none.text
    );
    for wrong in ["", "each=remove", "each=cancel&state=LOST", "each=cancel&newest=x"] {
        assert_eq!(pages.get(&format!("/bulk?{wrong}")).status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    assert_eq!(pages.get("/bulk?id=none").status, StatusCode::NOT_FOUND);
    let viewer = ask(&client, Options::new().read_only(true), "/bulk?each=cancel", &[("host", "localhost")]);
    assert_eq!(viewer.status, StatusCode::FORBIDDEN);
    let page = pages.get("/bulk?each=cancel");
    assert_is_text(&page, "bulk");
    assert!(page.text.contains("1 execution has not begun, and will not."), "{}", page.text);
}

/// Schedules that fire once a year.
fn yearly(client: &Client, names: &[String]) {
    let yearly = || Trigger::cron("0 30 2 1 1 ?", "UTC").unwrap();
    for name in names {
        client.ensure(&Schedule::new(name, TEXT, &String::new(), yearly()).unwrap()).run().unwrap();
    }
}

fn paused_of(client: &Client) -> usize {
    client.schedules().unwrap().iter().filter(|it| it.state == ScheduleState::Paused).count()
}

fn all_schedules_of_a_filter_are_paused() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database).acting_as("ann");
    let names: Vec<String> = (0..25).map(|n| format!("daily<i>{n:02}")).collect();
    yearly(&client, &names);
    yearly(&client, &["other".to_owned()]);
    client.clone().acting_as("bob").pause("daily<i>03").reason("stock-taking").run().unwrap();
    client.clone().acting_as("firetime").pause("daily<i>04").run().unwrap();
    let pages = Pages::of(&client);
    let list = pages.get("/schedules?q=DAILY");
    let ask = pages.get(&links(&list, "Pause all of these")[0]);
    assert_is_text(&ask, "ask");
    for said in [
        "Pause 23 schedules?",
        "and 3 more",
        "Paused already, and left so: 1 by bob, 1 by themselves.",
        "what was planned meanwhile is skipped",
    ] {
        assert!(ask.text.contains(said), "{said}: {}", ask.text);
    }
    assert_eq!(paused_of(&client), 2, "nothing is changed before that");
    let ended = pages.ended(&pages.order(&ask));
    assert!(
        ended.text.contains("Pause: done") && ended.text.contains("23 changed, 0 left"),
        "{}",
        ended.text
    );
    assert_eq!((paused_of(&client), last(&client).0.as_str()), (25, "pause"));
    let audit = |verb: &str| {
        let verb = Some(verb.to_owned());
        let audit = client.audit(&AuditFilter { verb, ..AuditFilter::default() }).unwrap();
        audit.iter().filter(|it| it.actor == "ann" && it.reason == "paid").count()
    };
    assert_eq!(audit("pause"), 23, "one entry for each");
    let list = pages.get("/schedules?state=paused");
    assert!(links(&list, "Pause all of these").is_empty(), "{}", list.text);
    let ask = pages.get(&links(&list, "Resume all of these")[0]);
    for said in
        ["Resume 25 schedules?", "They were paused: 23 by ann, 1 by bob, 1 by themselves.", "look at these"]
    {
        assert!(ask.text.contains(said), "{said}: {}", ask.text);
    }
    client.resume("daily<i>00").run().unwrap();
    let ended = pages.ended(&pages.order(&ask));
    assert!(
        ended.text.contains("Resume: done") && ended.text.contains("24 changed, 0 left"),
        "{}",
        ended.text
    );
    assert_eq!((paused_of(&client), audit("resume")), (0, 24));
    let none = pages.get("/bulk?each=resume&q=daily");
    assert!(none.text.contains("There is nothing to resume"), "{}", none.text);
    assert_eq!(pages.get("/bulk?each=pause&state=late").status, StatusCode::BAD_REQUEST);
    let viewer = ask_as(&client, "/bulk?each=pause");
    assert_eq!(viewer.status, StatusCode::FORBIDDEN);
}

fn ask_as(client: &Client, path: &str) -> Answer {
    ask(client, Options::new().read_only(true), path, &[("host", "localhost")])
}

fn schedules_made_after_the_question_are_not_paused() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    yearly(&client, &["a".to_owned(), "b".to_owned()]);
    let pages = Pages::of(&client);
    let ask = pages.get("/bulk?each=pause&job=text%3Ci%3E");
    yearly(&client, &["c".to_owned()]);
    client.pause("a").run().unwrap();
    let ended = pages.ended(&pages.order(&ask));
    assert!(ended.text.contains("1 changed, 0 left"), "{}", ended.text);
    let states: Vec<String> =
        client.schedules().unwrap().into_iter().map(|it| it.state.to_string()).collect();
    assert_eq!(states, ["paused", "paused", "active"]);
}

/// A schedule that was paused while four of its fire times came.
fn paused(client: &Client) {
    let often = Trigger::every(Duration::from_millis(1)).unwrap().times(4).unwrap();
    client.ensure(&Schedule::new("hourly<i>", TEXT, &String::new(), often).unwrap()).run().unwrap();
    client.pause("hourly<i>").run().unwrap();
    let next = client.schedules().unwrap()[0].next.unwrap() + TimeDelta::milliseconds(5);
    until("four fire times have come", || (client.now().unwrap() > next).then_some(()));
    client.resume("hourly<i>").run().unwrap();
}

fn what_is_missing_is_run() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database).acting_as("ann");
    paused(&client);
    let pages = Pages::of(&client);
    let path =
        format!("/missed?{}", encoded(&[("name", "hourly<i>"), ("state_reason", "paused"), ("pace", "1h")]));
    let look = pages.get(&path);
    assert_is_text(&look, "missed");
    assert!(look.text.contains("4 occurrences would run") && look.text.contains("skipped"), "{}", look.text);
    let to = pages.order(&look);
    let page = pages.get(&to);
    assert!(
        to.contains("origin=") && page.text.contains("of 4 occurrences: 4 pending."),
        "{to}: {}",
        page.text
    );
    assert!(page.text.contains("4 left out: they have yet to end."), "{}", page.text);
    assert!(page.text.contains("Nothing is missing"), "made twice it runs nothing twice: {}", page.text);
    let last = last(&client);
    assert_eq!((last.0.as_str(), last.1.as_str(), last.2.as_str()), ("rerun", "ann", "paid"));
    let ask = pages.get(&links(&page, "End this rerun")[0]);
    assert!(ask.text.contains("What has not begun of it is cancelled: 4 executions."), "{}", ask.text);
    pages.order(&ask);
    assert!(pages.get(&to).text.contains("of 4 occurrences: 4 cancelled."), "{}", pages.get(&to).text);
    let list =
        pages.get(&format!("/executions?{}", encoded(&[("schedule", "hourly<i>"), ("state", "SKIPPED")])));
    assert!(links(&list, "Run what is missing")[0].contains("state=SKIPPED"), "{}", list.text);
}

fn a_rerun_that_cannot_be_is_told() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    paused(&client);
    for (field, text, said) in [
        ("pace", "soon", "The pace: Write a whole number"),
        ("since", "never", "is no instant"),
        ("state", "RUNNING", "has not ended"),
        ("state_reason", "because", "there are misfire"),
    ] {
        let page = get(&client, &format!("/missed?{}", encoded(&[("name", "hourly<i>"), (field, text)])));
        assert_eq!(page.status, StatusCode::OK, "{field}");
        let problem =
            page.text.split("class=\"problem\"").nth(1).unwrap_or_else(|| panic!("{field}: {}", page.text));
        assert!(problem.contains(said), "{field}: {problem}");
        assert!(
            field == "state" || page.text.contains(&format!("value=\"{text}\"")),
            "{field} is kept: {}",
            page.text
        );
    }
    assert_eq!(get(&client, "/missed?name=none").status, StatusCode::NOT_FOUND);
    assert_eq!(get(&client, "/missed").status, StatusCode::BAD_REQUEST);
}

/// Its page tells that a rerun of it has succeeded since, and as which execution.
fn a_skipped_execution_tells_of_its_rerun() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database).acting_as("ann");
    let once = Trigger::once(Utc::now() + TimeDelta::milliseconds(20)).unwrap();
    client.ensure(&Schedule::new("once", TEXT, &String::new(), once).unwrap()).run().unwrap();
    client.pause("once").run().unwrap();
    let next = client.schedules().unwrap()[0].next.unwrap();
    until("its fire time has come", || (client.now().unwrap() > next).then_some(()));
    client.resume("once").run().unwrap();
    let skipped = client.executions(&ExecutionFilter::default()).unwrap()[0].id;
    let page = || get(&client, &format!("/execution?id={skipped}")).text;
    assert!(!page().contains("run again"), "{}", page());
    client.backfill("once", next..next + TimeDelta::milliseconds(1)).run().unwrap();
    let rerun = client.executions(&ExecutionFilter::default()).unwrap();
    let rerun = rerun.iter().find(|it| matches!(it.cause, Cause::Rerun { .. })).unwrap().id;
    assert!(
        page().contains(&format!("; ann had it run again as execution {rerun}, which waits")),
        "{}",
        page()
    );
    database.batch(&format!(
        "UPDATE QRTZ_RUN SET state = 'SUCCEEDED', finished_time = 1796005365914 WHERE id = {rerun}"
    ));
    let said = format!("; ann had it run again as execution {rerun}, which succeeded at 2026-11-30 02:22:45");
    assert!(page().contains(&said), "{}", page());
}

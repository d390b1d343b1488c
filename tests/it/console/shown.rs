//! What pages say of schedules, nodes and rows at first sight.

use super::*;
use firetime::ExecutionState;

pub const TESTS: &[(&str, fn())] = &[
    ("a_paused_schedule_says_when_it_fires_again", a_paused_schedule_says_when_it_fires_again),
    ("a_page_that_is_wrong_stays_as_it_is", a_page_that_is_wrong_stays_as_it_is),
    ("a_node_that_leaves_is_named_with_what_it_leaves", a_node_that_leaves_is_named_with_what_it_leaves),
    ("a_node_that_drains_is_named_as_lists_name_it", a_node_that_drains_is_named_as_lists_name_it),
    ("a_row_of_many_skipped_leads_to_their_rerun", a_row_of_many_skipped_leads_to_their_rerun),
    ("a_skipped_row_that_has_been_run_offers_nothing", a_skipped_row_that_has_been_run_offers_nothing),
    ("what_is_to_come_in_an_hour_stands_apart", what_is_to_come_in_an_hour_stands_apart),
    ("an_hour_of_the_grid_tells_why", an_hour_of_the_grid_tells_why),
    ("what_was_enqueued_is_named_so", what_was_enqueued_is_named_so),
    ("when_something_fires_once_is_told_from_now", when_something_fires_once_is_told_from_now),
];

fn a_paused_schedule_says_when_it_fires_again() {
    let (database, client) = nightly("UTC");
    let page = || get(&client, "/schedule?name=nightly").text;
    let until = Utc::now() + TimeDelta::days(9);
    client.pause("nightly").until(until).run().unwrap();
    let day = until.format("It is paused, and fires again after %Y-%m-%d ").to_string();
    assert!(page().contains(&day), "{}", page());
    client.resume("nightly").run().unwrap();
    client.pause("nightly").run().unwrap();
    assert!(page().contains("It is paused, and fires again once somebody resumes it."), "{}", page());
    assert!(page().contains(">Skip 02:30<"), "it may be resumed before that: {}", page());
    let past = (Utc::now() - TimeDelta::hours(1)).timestamp_millis();
    database.batch(&format!("UPDATE QRTZ_EXECUTE SET next_fire_time = {past}"));
    assert!(!page().contains(">Skip "), "its resuming skips that: {}", page());
}

fn a_page_that_is_wrong_stays_as_it_is() {
    let (_database, client) = nightly("UTC");
    let is_live = |path: &str| get(&client, path).text.contains("id=\"live\"");
    assert!(is_live("/schedule?name=nightly") && !is_live("/schedule?name=none"));
    assert!(!is_live("/executions?since=soon") && !is_live("/execution?id=7"));
}

/// What the ids of nodes begin with.
const NODE: &str = "00000000-0000-4000-8000-00000000000";

/// A node of `web`, by the last figure of its id, that was heard of just now.
fn add_node(database: &Database, id: &str, jobs: &str) {
    let beat = Utc::now().timestamp_millis();
    database.batch(&format!(
        "INSERT INTO QRTZ_NODE (uuid, application, host_name, pid, jobs, beat_time, silent_after) \
         VALUES ('{NODE}{id}', '{APPLICATION}', 'web', 7{id}, '{jobs}', {beat}, 60000)"
    ));
}

fn a_node_that_drains_is_named_as_lists_name_it() {
    let (database, client) = nightly("UTC");
    let id = format!("{NODE}1");
    add_node(&database, "1", "[]");
    let said = |verb: &str| told(&client, &[("verb", verb), ("node", &id), ("back", "nodes")]);
    assert_eq!(said("drain"), "Node web/71 drains from its next poll on.");
    assert_eq!(said("drain"), "Nothing was changed: node web/71 drains already.");
    assert_eq!(said("resume"), "Node web/71 is resumed.");
    assert_eq!(said("pause"), "Node web/71 is paused.");
    client.enqueue(TEXT, &String::new()).run().unwrap();
    database.batch(&format!("UPDATE QRTZ_RUN SET state = 'RUNNING', node = '{id}'"));
    let execution = client.executions(&ExecutionFilter::default()).unwrap()[0].id.to_string();
    let cancelled = || told(&client, &[("verb", "cancel"), ("execution", &execution), ("back", "now")]);
    assert!(cancelled().ends_with(" runs on node web/71, which is asked to end it."));
    assert!(cancelled().ends_with(" runs on node web/71, which had been asked to end it before."));
}

fn a_node_that_leaves_is_named_with_what_it_leaves() {
    let (database, client) = nightly("UTC");
    let add = |id: &str, jobs: &str| add_node(&database, id, jobs);
    let ask = |verb: &str| get(&client, &format!("/confirm?verb={verb}&node={NODE}1")).text;
    add("1", "[\"mail\",\"report\",\"bill\"]");
    let none = "No other live node claims: what is due waits until one does.";
    assert!(ask("drain").contains("Drain node web/71?") && ask("drain").contains(none), "{}", ask("drain"));
    assert!(ask("pause").contains("Pause node web/71?") && ask("pause").contains(none), "{}", ask("pause"));
    add("2", "[\"report\"]");
    let some = "No other live node that claims runs the job mail, nor 1 other job: they wait for one.";
    assert!(ask("drain").contains(some), "{}", ask("drain"));
    add("3", "[\"mail\"]");
    let one = "No other live node that claims runs the job bill: it waits for one.";
    assert!(ask("pause").contains(one), "{}", ask("pause"));
    add("4", "[\"bill\"]");
    assert!(ask("drain").contains("What is due runs elsewhere: 3 other live nodes."), "{}", ask("drain"));
    client.drain(&format!("{NODE}2")).run().unwrap();
    let now = get(&client, "/now").text;
    assert!(now.contains("4 nodes live, 1 of them out of service, "), "{now}");
}

fn a_row_of_many_skipped_leads_to_their_rerun() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let every = Trigger::every(Duration::from_secs(1)).unwrap();
    let begun = Utc::now() - TimeDelta::seconds(60);
    let schedule = Schedule::new("often", TEXT, &String::new(), every).unwrap().starting(begun);
    client.ensure(&schedule).run().unwrap();
    client.pause("often").run().unwrap();
    let next = client.schedules().unwrap()[0].next.unwrap();
    until("some have passed", || (client.now().unwrap() > next + TimeDelta::seconds(2)).then_some(()));
    client.resume("often").run().unwrap();
    let row = client.executions(&ExecutionFilter::default()).unwrap().remove(0);
    assert!(row.count > 1 && row.state == ExecutionState::Skipped, "{row:?}");
    let page = get(&client, &format!("/execution?id={}", row.id));
    let to = links(&page, "Run what is missing");
    let missed = get(&client, &to[0]).text;
    assert!(missed.contains(&format!("{} occurrences would run", row.count)), "{missed}");
    // Once they have run the grid has no hole, and offers no second rerun.
    let hour = || links(&get(&client, "/schedule?name=often"), "skipped");
    let picked = hour()[0].trim_end_matches("#why").to_owned();
    let offers = || get(&client, &picked).text.matches("value=\"rerun\"").count();
    assert!(offers() > 1);
    client.rerun("often").run().unwrap();
    let now = Utc::now().timestamp_millis();
    let filter = ExecutionFilter { cause: Some("rerun".to_owned()), ..ExecutionFilter::default() };
    for it in client.executions(&filter).unwrap() {
        let set = format!("state = 'SUCCEEDED', finished_time = {now}");
        database.batch(&format!("UPDATE QRTZ_RUN SET {set} WHERE id = {}", it.id));
    }
    assert_eq!(hour(), Vec::<String>::new());
    assert_eq!(offers(), 0);
}

fn a_skipped_row_that_has_been_run_offers_nothing() {
    let (database, client) = often(1);
    let next = client.schedules().unwrap()[0].next.unwrap();
    client.skip("often", next).run().unwrap();
    until("it has passed", || (client.now().unwrap() > next).then_some(()));
    let skipped = client.executions(&ExecutionFilter::default()).unwrap()[0].id;
    // A list of what was skipped alone has no reruns.
    let paths = [
        "/executions".to_owned(),
        "/executions?state=SKIPPED".to_owned(),
        format!("/execution?id={skipped}"),
    ];
    let offers = || {
        let offers = paths.each_ref().map(|path| get(&client, path).text.contains("Run it for"));
        assert!(offers.iter().all(|it| *it == offers[0]), "{paths:?}: {offers:?}");
        offers[0]
    };
    assert!(offers());
    client.rerun("often").since(next).until(next + TimeDelta::milliseconds(1)).run().unwrap();
    assert!(!offers(), "it waits");
    let ends = |state: &str| {
        let now = Utc::now().timestamp_millis();
        let set = format!("state = '{state}', finished_time = {now}");
        database.batch(&format!("UPDATE QRTZ_RUN SET {set} WHERE cause = 'rerun'"));
    };
    ends("FAILED");
    assert!(offers());
    let newest = |cause: &str| {
        let filter = ExecutionFilter { cause: Some(cause.to_owned()), ..ExecutionFilter::default() };
        client.executions(&filter).unwrap()[0].id
    };
    client.retry(newest("rerun")).run().unwrap();
    assert!(!offers(), "it is tried again");
    client.cancel(newest("retry")).run().unwrap();
    assert!(offers());
    ends("SUCCEEDED");
    assert!(!offers());
}

fn what_is_to_come_in_an_hour_stands_apart() {
    let (_database, client) = often(60);
    let begin = (Utc::now() + TimeDelta::hours(1)).format("%Y-%m-%dT%H:00:00Z");
    let page = get(&client, &format!("/schedule?name=often&at={begin}")).text;
    assert!(page.contains("to come</summary>") && page.contains("will run in "), "{page}");
    assert!(page.contains("the list of executions</a> has all that began"), "{page}");
}

/// A cell leads to the sentences about its hour, each with what repairs it.
fn an_hour_of_the_grid_tells_why() {
    let (_database, client) = often(120);
    let next = client.schedules().unwrap()[0].next.unwrap();
    client.skip("often", next).reason("no stock").run().unwrap();
    let page = get(&client, "/schedule?name=often");
    let cells = links(&page, "skipped");
    assert!(cells[0].ends_with("#why"), "{cells:?}");
    let why = get(&client, cells[0].trim_end_matches("#why"));
    assert!(why.text.contains("no stock") && why.text.contains("class=\"why\""), "{}", why.text);
    assert!(why.text.contains("Run it for ") && why.text.contains("c-picked"), "{}", why.text);
}

/// Its schedule is none that people know.
fn what_was_enqueued_is_named_so() {
    let (database, client) = hostile();
    let id = client.executions(&ExecutionFilter::default()).unwrap()[0].id;
    let paths = [
        "/executions".to_owned(),
        format!("/execution?id={id}"),
        format!("/confirm?verb=cancel&execution={id}"),
    ];
    database.batch(&format!("UPDATE QRTZ_RUN SET state = 'RUNNING', started_time = 1 WHERE id = {id}"));
    for path in paths.iter().map(String::as_str).chain(["/now", "/bulk?each=cancel"]) {
        let page = get(&client, path);
        assert_is_text(&page, path);
        assert!(page.text.contains("enqueued: text&#60;i&#62;"), "{path}: {}", page.text);
        assert!(!page.text.contains(">queue:") && !page.text.contains("of queue:"), "{path}: {}", page.text);
    }
}

fn when_something_fires_once_is_told_from_now() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let once = Trigger::once(Utc::now() + TimeDelta::minutes(30)).unwrap();
    client.ensure(&Schedule::new("once", TEXT, &String::new(), once).unwrap()).run().unwrap();
    let page = get(&client, "/schedules").text;
    let when = page.split("data-label=\"When\">").nth(1).unwrap().split("</td>").next().unwrap();
    assert!(when.starts_with("<span>once, <time datetime=\"2") && when.contains(">in "), "{when}");
    assert!(!when.contains("once, at") && when.contains(" UTC\""), "exactly on demand: {when}");
}

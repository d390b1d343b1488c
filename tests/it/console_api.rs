//! The console's JSON API: what it answers, to whom, and what its document says of that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use chrono::{TimeDelta, Utc};
use firetime::console::{NewToken, Options, Role, User, Users, router};
use firetime::{Client, ExecutionFilter, Schedule, Trigger};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::console::{Answer, HOSTILE, TEXT, TOKEN, ask, encoded, hostile, last, sent};
use crate::support::database::ServerKind;
use crate::support::scheduler::{NUMBER, TEXT as NOTE, builder, client, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn())] = &[
        ("answers_have_the_fields_that_the_document_tells", answers_have_the_fields_of_the_document),
        ("each_path_of_the_document_is_there_and_no_other", each_path_of_the_document_is_there),
        ("lists_have_pages_without_gaps", lists_have_pages_without_gaps),
        ("filters_narrow_lists", filters_narrow_lists),
        ("an_edit_tells_what_it_comes_to_and_is_made_with_yes", an_edit_tells_what_it_comes_to),
        ("an_edit_sets_every_field_and_takes_it_away", an_edit_sets_every_field_and_takes_it_away),
        ("an_edit_that_cannot_be_changes_nothing", an_edit_that_cannot_be_changes_nothing),
        ("a_change_of_many_tells_what_it_means_and_is_made_with_yes", a_change_of_many_tells_what_it_means),
        ("a_change_of_many_that_cannot_be_changes_nothing", a_change_of_many_that_cannot_be),
        ("wide_changes_need_their_role", wide_changes_need_their_role),
        ("the_ledger_is_verified", the_ledger_is_verified),
        ("each_verb_needs_its_role_and_is_in_the_audit", each_verb_needs_its_role),
        ("a_token_opens_the_api_and_nothing_else_does", a_token_opens_the_api),
        ("a_cookie_alone_orders_nothing", a_cookie_alone_orders_nothing),
        ("troubles_are_problems_that_say_what_to_do", troubles_are_problems),
        ("hidden_payloads_are_in_no_answer_and_on_no_page", hidden_payloads_are_nowhere),
        ("what_decoders_quote_of_a_hidden_payload_is_nowhere", what_decoders_quote_is_nowhere),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("console_api::{name}"), *test));
    }
}

struct Api(Router);

impl Api {
    fn new(client: &Client, options: Options) -> Self {
        Self(router(client.clone(), options))
    }

    /// Of somebody whom the application knows.
    fn of(client: &Client, role: Role) -> Self {
        Self::new(client, Options::new().user(move |_| Some(User::new("ann", role))))
    }

    fn send(&self, method: Method, path: &str, lines: &[(&str, &str)], body: &Value) -> Answer {
        let request =
            Request::builder().method(method).uri(format!("/api/v1{path}")).header("host", "localhost");
        let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        sent(self.0.clone(), request.body(Body::from(body.to_string())).unwrap())
    }

    fn ask(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], &Value::Null)
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let answer = self.ask(path);
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        assert_eq!(answer.headers["content-type"], "application/json", "{path}");
        serde_json::from_str(&answer.text).unwrap()
    }

    /// What an order is answered that is taken.
    #[track_caller]
    fn posted(&self, path: &str, order: &Value) -> Value {
        let answer = self.post(path, order);
        assert_eq!(answer.status, StatusCode::OK, "{order}: {}", answer.text);
        serde_json::from_str(&answer.text).unwrap()
    }

    fn order(&self, order: &Value) -> Answer {
        self.post("/change", order)
    }

    fn post(&self, path: &str, order: &Value) -> Answer {
        let cookie = format!("firetime_token={TOKEN}");
        let lines = [("content-type", "application/json"), ("cookie", &cookie), ("x-firetime-token", TOKEN)];
        self.send(Method::POST, path, &lines, order)
    }
}

fn problem(answer: &Answer) -> Value {
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{}", answer.text);
    let problem: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(problem["status"], answer.status.as_u16(), "{problem}");
    problem
}

/// A question for each schema, in a database where each has an answer.
fn questions(client: &Client, task: &str) -> Vec<(String, &'static str)> {
    let schedule = encoded(&[("name", HOSTILE)]);
    let id = client.executions(&ExecutionFilter::default()).unwrap()[0].id;
    vec![
        ("/schedules".to_owned(), "schedule"),
        (format!("/schedule?{schedule}"), "schedule_details"),
        ("/executions".to_owned(), "execution"),
        (format!("/execution?id={id}"), "execution_details"),
        (format!("/why?execution={id}"), "why"),
        ("/jobs".to_owned(), "job"),
        ("/nodes".to_owned(), "node"),
        ("/audit".to_owned(), "audit"),
        ("/outcomes?by=job".to_owned(), "outcomes"),
        ("/verify?since=2d".to_owned(), "verification"),
        (format!("/task?id={task}"), "task"),
    ]
}

fn names(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap_or_else(|| panic!("{object}")).keys().cloned().collect()
}

/// Whether a value is of a type, or one of the types, of a schema.
fn is_of(value: &Value, schema: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "array" => value.as_array().is_some_and(|list| list.iter().all(|it| is_of(it, &schema["items"]))),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    };
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(is),
        // Anything, or another schema.
        Value::Null => true,
        kind => is(kind),
    }
}

#[track_caller]
fn assert_fields(answer: &Value, schema: &Value) {
    let told = &schema["properties"];
    assert_eq!(names(answer), names(told), "{answer}");
    for (name, value) in answer.as_object().unwrap() {
        assert!(is_of(value, &told[name]), "{name}: {value} is not {}", told[name]);
    }
}

fn answers_have_the_fields_of_the_document() {
    let (database, client) = hostile();
    database.batch(&format!(
        "INSERT INTO QRTZ_NODE (uuid, application, jobs, beat_time, silent_after) VALUES ('a', '{0}', '[]', 1, 2); \
         INSERT INTO QRTZ_OUTCOME (application, hours, from_time, job, node, begun, lateness_max, succeeded, failed, \
         timed_out, abandoned) VALUES ('{0}', 1, 0, 'text<i>', 'a', 9, 2500, 9, 0, 0, 0)",
        crate::support::scheduler::APPLICATION
    ));
    let api = Api::new(&client, Options::new());
    let document = api.get("/openapi.json");
    let bulk = api.posted("/bulk", &json!({ "each": "retry", "filter": { "tag": "<u>" }, "yes": false }));
    assert_fields(&bulk, &document["components"]["schemas"]["bulk_answer"]);
    let bulk = json!({ "each": "pause", "filter": { "q": "script" }, "yes": true });
    let begun = api.posted("/bulk", &bulk);
    assert_fields(&begun, &document["components"]["schemas"]["bulk_answer"]);
    let edited = api.posted("/edit", &json!({ "schedule": HOSTILE, "set": { "priority": 7 } }));
    assert_fields(&edited, &document["components"]["schemas"]["edited"]);
    let mut paths = BTreeSet::new();
    for (path, schema) in questions(&client, begun["task"].as_str().unwrap()) {
        let answer = api.get(&path);
        paths.insert(path.split('?').next().unwrap().to_owned());
        let one = match &answer["items"] {
            Value::Array(items) => {
                assert_eq!(names(&answer), names(&json!({ "items": 0, "after": 0 })), "{path}");
                items.first().unwrap_or_else(|| panic!("{path} has none")).clone()
            }
            _ => answer,
        };
        assert_fields(&one, &document["components"]["schemas"][schema]);
    }
    let others = ["/change", "/edit", "/bulk", "/openapi.json"];
    let told = names(&document["paths"]).into_iter().filter(|it| !others.contains(&it.as_str()));
    assert_eq!(paths, told.collect(), "each path has been asked");
}

fn each_path_of_the_document_is_there() {
    let (_database, client) = hostile();
    let api = Api::new(&client, Options::new());
    let document = api.get("/openapi.json");
    for (path, verbs) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "delete"] {
            let answer = api.send(method.to_uppercase().parse().unwrap(), path, &[], &Value::Null);
            let is_there = answer.status != StatusCode::METHOD_NOT_ALLOWED;
            assert_ne!(answer.status, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(is_there, verbs.get(method).is_some(), "{method} {path}: {}", answer.text);
        }
        for parameter in verbs["get"]["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let answer = api.ask(&format!("{path}?{name}=~"));
            assert!(!answer.text.contains("no parameter"), "{path} {name}: {}", answer.text);
        }
        let answer = api.ask(&format!("{path}?nothing=1"));
        assert!(
            verbs.get("get").is_none() || path == "/openapi.json" || answer.text.contains("no parameter"),
            "{path}"
        );
    }
    for none in ["", "/", "/nothing", "/schedules/", "/now"] {
        assert_eq!(problem(&api.ask(none))["status"], 404, "{none}");
    }
}

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
        let nightly = firetime::Trigger::cron("0 30 2 * * ?", "UTC").unwrap();
        client.ensure(&firetime::Schedule::new(name, TEXT, &String::new(), nightly).unwrap()).run().unwrap();
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

fn an_edit_tells_what_it_comes_to() {
    let (database, client) = hostile();
    let api = Api::of(&client, Role::Admin);
    let mut order =
        json!({ "schedule": HOSTILE, "set": { "priority": 7, "time_limit": "90s" }, "reason": "why" });
    let plan = api.posted("/edit", &order);
    assert_eq!((plan["done"].as_bool(), plan["withdraws"].is_null()), (Some(false), true), "{plan}");
    let priority = json!({ "field": "priority", "was": "5", "becomes": "7" });
    let limit = json!({ "field": "time_limit", "was": "", "becomes": "90000 ms" });
    assert_eq!(plan["differences"], json!([priority, limit]));
    assert_eq!(last(&client).0, "ensure", "nothing is changed without yes");
    order["version"] = plan["version"].clone();
    order["yes"] = true.into();
    let done = api.posted("/edit", &order);
    assert!(
        done["done"] == true && done["said"].as_str().unwrap().ends_with("priority, time limit."),
        "{done}"
    );
    assert_eq!(
        (last(&client).0.as_str(), last(&client).1.as_str(), last(&client).2.as_str()),
        ("edit", "ann", "why")
    );
    let late = api.posted("/edit", &order);
    assert!(
        late["done"] == false && late["said"].as_str().unwrap().contains("somebody has changed"),
        "{late}"
    );
    order["version"] = Value::Null;
    assert!(api.posted("/edit", &order)["said"].as_str().unwrap().ends_with("is so already."));
    let start = Utc::now() - TimeDelta::minutes(10);
    let often = firetime::Trigger::every(Duration::from_secs(900)).unwrap().starting(start).unwrap();
    client.ensure(&firetime::Schedule::new("often", TEXT, &String::new(), often).unwrap()).run().unwrap();
    let back = start.timestamp_millis();
    let due = format!("prev_fire_time = {}, next_fire_time = {back}", back - 900_000);
    database.batch(&format!("UPDATE QRTZ_EXECUTE SET {due} WHERE name = 'often'"));
    let mut hourly = json!({ "schedule": "often", "set": { "trigger": { "every": "1h" } } });
    assert_eq!(api.posted("/edit", &hourly)["withdraws"], json!({ "count": 1, "from": back, "to": back }));
    hourly["yes"] = true.into();
    let withdrew = api.posted("/edit", &hourly);
    assert!(withdrew["said"].as_str().unwrap().contains("; it withdrew 1 due occurrence, of "), "{withdrew}");
    let hidden = Api::new(&client, Options::new().hide_payloads("text<i>"));
    let payload = hidden.posted("/edit", &json!({ "schedule": HOSTILE, "set": { "payload": "secret" } }));
    assert_eq!(
        payload["differences"],
        json!([{ "field": "payload", "was": "(hidden)", "becomes": "(hidden)" }])
    );
}

fn an_edit_sets_every_field_and_takes_it_away() {
    let (_database, client) = hostile();
    let api = Api::new(&client, Options::new());
    let edit = |set: Value| {
        let answer = api.posted("/edit", &json!({ "schedule": HOSTILE, "set": set, "yes": true }));
        assert_eq!(answer["done"], true, "{answer}");
        api.get(&format!("/schedule?{}", encoded(&[("name", HOSTILE)])))
    };
    let cron = edit(json!({ "trigger": { "cron": "0 30 2 * * ?", "zone": "Europe/Berlin" } }));
    assert_eq!(cron["trigger"], "cron 0 30 2 * * ? [Europe/Berlin]");
    assert_eq!(edit(json!({ "trigger": { "zone": "UTC" } }))["trigger"], "cron 0 30 2 * * ? [UTC]");
    let set = json!({
        "starts": 1_700_000_000_000_i64, "ends": "2099-01-31T10:05:00Z", "payload": null, "description": "so",
        "priority": -3, "misfire": "DO_NOTHING", "misfire_threshold": 90_000, "time_limit": "15m",
        "overlap": "QUEUE 3", "pause_after": 7, "expected_by": "2h"
    });
    let after = edit(set);
    let of = |field: &str| after[field].clone();
    assert_eq!((of("starts"), of("ends")), (json!(1_700_000_000_000_i64), json!(4_073_537_100_000_i64)));
    assert_eq!(
        [of("payload"), of("description"), of("misfire"), of("overlap")],
        ["null", "so", "DO_NOTHING", "QUEUE 3"]
    );
    assert_eq!([of("priority"), of("misfire_threshold"), of("time_limit")], [-3, 90_000, 900_000]);
    assert_eq!([of("pause_after"), of("expected_by")], [7, 7_200_000]);
    let fields = [
        "starts",
        "ends",
        "description",
        "misfire_threshold",
        "time_limit",
        "overlap",
        "pause_after",
        "expected_by",
    ];
    let none: serde_json::Map<String, Value> =
        fields.map(|it| (it.to_owned(), Value::Null)).into_iter().collect();
    let taken = edit(none.into());
    for field in ["starts", "ends", "time_limit", "pause_after", "expected_by"] {
        assert_eq!(taken[field], Value::Null, "{field}");
    }
    assert_eq!(
        (&taken["description"], &taken["overlap"], &taken["misfire_threshold"]),
        (&json!(""), &json!("SKIP"), &json!(60_000))
    );
    for (rule, words) in [
        (json!({ "every": "15m", "times": 7 }), "every 900000 ms, 7 times"),
        (json!({ "after": 90_000 }), "90000 ms after each run"),
        (json!({ "at": "2099-01-31T10:05:00Z" }), "once"),
    ] {
        assert_eq!(edit(json!({ "trigger": rule }))["trigger"], words);
    }
}

fn an_edit_that_cannot_be_changes_nothing() {
    let (_database, client) = hostile();
    let api = Api::new(&client, Options::new());
    let rule = |rule: Value| json!({ "trigger": rule });
    for (set, said) in [
        (json!({ "prioritiy": 7 }), "unknown field `prioritiy`, expected one of `trigger`"),
        (json!({ "misfire": 7 }), "expected a string"),
        (json!({ "misfire": "SKIP" }), "FIRE_ONCE"),
        (json!({ "overlap": "QUEUE" }), "QUEUE 3"),
        (json!({ "time_limit": "long" }), "time_limit: Write a whole number with its unit"),
        (json!({ "ends": "soon" }), "ends: "),
        (json!({ "ends": 99_999_999_999_999_999_i64 }), "beyond the calendar"),
        (json!({ "starts": null }), "another start"),
        (json!({ "description": "a\nb" }), "control character"),
        (rule(json!({})), "one of cron, every, after and at"),
        (rule(json!({ "cron": "0 0 2 * * ?", "every": "1h" })), "one of cron, every, after and at"),
        (rule(json!({ "every": "1h", "zone": "UTC" })), "a zone goes with cron"),
        (rule(json!({ "cron": "0 0 25 * * ?" })), "25"),
        (rule(json!({ "zone": "UTC" })), "cron expression"),
    ] {
        let answer = api.post("/edit", &json!({ "schedule": HOSTILE, "set": set, "yes": true }));
        let problem = problem(&answer);
        assert!(
            problem["status"] == 400 && problem["detail"].as_str().unwrap().contains(said),
            "{set}: {problem}"
        );
    }
    for (order, status) in [
        (json!([]), 400),
        (json!({ "set": {} }), 400),
        (json!({ "schedule": HOSTILE, "give_back": ["colour"] }), 400),
        (json!({ "schedule": "x", "set": { "priority": 7 }, "yes": true }), 404),
    ] {
        assert_eq!(problem(&api.post("/edit", &order))["status"], status, "{order}");
    }
    assert_eq!(last(&client).0, "ensure");
}

fn a_change_of_many_tells_what_it_means() {
    let (_database, client) = hostile();
    client.enqueue_many(TEXT, &vec![String::new(); 6]).run().unwrap();
    let api = Api::of(&client, Role::Operator);
    let filter = json!({ "job": "text<i>", "state": ["PENDING", "FAILED"], "until": 4_000_000_000_000_i64 });
    let mut order = json!({ "each": "cancel", "filter": filter, "reason": "paid" });
    let told = api.posted("/bulk", &order);
    assert_eq!((told["done"].as_bool(), told["items"].as_array().unwrap().len()), (Some(false), 7), "{told}");
    assert!(told["will"][0].as_str().unwrap().contains("7 executions have not begun"), "{told}");
    client.enqueue_many(TEXT, &vec![String::new(); 2]).run().unwrap();
    order["newest"] = told["newest"].clone();
    order["yes"] = true.into();
    let begun = api.posted("/bulk", &order);
    assert_eq!(begun["said"], "Cancel: 7 executions, one by one.", "{begun}");
    let task = format!("/task?id={}", begun["task"].as_str().unwrap());
    let ended = until("the task has ended", || Some(api.get(&task)).filter(|it| it["ended"] == true));
    assert_eq!(
        (&ended["changed"], &ended["left"], &ended["why"], &ended["by"]),
        (&json!(7), &json!(0), &json!(""), &json!("ann"))
    );
    let pending = ExecutionFilter { states: vec![firetime::ExecutionState::Pending], ..Default::default() };
    assert_eq!(client.executions(&pending).unwrap().len(), 2, "what came later is left");
    let stop = api.order(&json!({ "verb": "stop", "task": begun["task"] }));
    assert!(stop.text.contains("it has ended"), "{}", stop.text);
    let none = json!({ "each": "resume", "filter": { "state": "paused" }, "yes": true });
    let none = api.posted("/bulk", &none);
    assert_eq!((&none["done"], &none["task"]), (&json!(false), &Value::Null), "{none}");
}

fn a_change_of_many_that_cannot_be() {
    let (_database, client) = hostile();
    let api = Api::new(&client, Options::new());
    for (order, said) in [
        (json!({ "each": "cancel", "filter": {}, "yes": true }), "the filter is empty"),
        (json!({ "each": "cancel", "filter": { "job": " " }, "yes": true }), "the filter is empty"),
        (json!({ "each": "cancel", "yes": true }), "missing field `filter`"),
        (json!({ "each": "remove", "filter": { "q": "a" }, "yes": true }), "write one of cancel, retry"),
        (
            json!({ "each": "pause", "filter": { "tag": "a" }, "yes": true }),
            "no field \"tag\"; it has q, job",
        ),
        (json!({ "each": "cancel", "filter": { "jbo": "a" }, "yes": true }), "no field \"jbo\""),
        (json!({ "each": "cancel", "filter": { "job": 7 }, "yes": true }), "is a text"),
        (json!({ "each": "cancel", "filter": { "state": "LOST" }, "yes": true }), "LOST"),
        (json!({ "each": "cancel", "filter": { "job": "a" }, "yse": true }), "unknown field `yse`"),
    ] {
        let problem = problem(&api.post("/bulk", &order));
        assert!(
            problem["status"] == 400 && problem["detail"].as_str().unwrap().contains(said),
            "{order}: {problem}"
        );
    }
    assert_eq!(last(&client).0, "ensure");
}

fn wide_changes_need_their_role() {
    use Role::{Admin, Operator};
    let (_database, client) = hostile();
    let edit = json!({ "schedule": HOSTILE, "set": { "priority": 7 }, "yes": true });
    let bulk = json!({ "each": "pause", "filter": { "q": "x" }, "yes": true });
    for (path, order, needed) in [("/edit", &edit, Admin), ("/bulk", &bulk, Operator)] {
        for &role in Role::ALL {
            for is_sure in [false, true] {
                let mut order = order.clone();
                order["yes"] = is_sure.into();
                let status = Api::of(&client, role).post(path, &order).status;
                let wanted = if role < needed { StatusCode::FORBIDDEN } else { StatusCode::OK };
                assert_eq!(status, wanted, "{path} {role} {is_sure}");
            }
        }
        let api = Api::of(&client, Admin);
        let json = [("content-type", "application/json")];
        assert_eq!(
            api.send(Method::POST, path, &json, order).status,
            StatusCode::FORBIDDEN,
            "a cookie alone"
        );
        let text = [("content-type", "text/plain")];
        assert_eq!(api.send(Method::POST, path, &text, order).status, StatusCode::BAD_REQUEST);
        let read_only = Api::new(&client, Options::new().read_only(true));
        assert_eq!(read_only.post(path, order).status, StatusCode::FORBIDDEN);
    }
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

fn each_verb_needs_its_role() {
    use Role::{Admin, Operator};
    let (_database, client) = hostile();
    let id = client.executions(&ExecutionFilter::default()).unwrap()[0].id;
    let next = client.schedules().unwrap()[0].next.unwrap().to_rfc3339();
    let past = "2025-01-31T02:30:00Z";
    let verbs: [(Value, Role, Option<bool>); 12] = [
        (json!({ "verb": "skip", "schedule": HOSTILE, "at": next }), Operator, Some(true)),
        (json!({ "verb": "pause", "schedule": HOSTILE, "reason": "stock-taking" }), Operator, Some(true)),
        (json!({ "verb": "pause", "schedule": HOSTILE }), Operator, Some(false)),
        (json!({ "verb": "resume", "schedule": HOSTILE }), Operator, Some(true)),
        (json!({ "verb": "pause", "job": "text<i>" }), Operator, Some(true)),
        (json!({ "verb": "pause", "application": true }), Operator, Some(true)),
        (json!({ "verb": "drain", "node": "x" }), Operator, None),
        (json!({ "verb": "run", "schedule": HOSTILE }), Operator, Some(true)),
        (json!({ "verb": "rerun", "schedule": HOSTILE, "at": past }), Operator, Some(false)),
        (json!({ "verb": "cancel", "execution": id }), Operator, Some(true)),
        (json!({ "verb": "retry", "execution": id }), Operator, Some(true)),
        (json!({ "verb": "remove", "schedule": HOSTILE, "also": true }), Admin, Some(true)),
    ];
    for (order, needed, is_done) in &verbs {
        for &role in Role::ALL {
            let answer = Api::of(&client, role).order(order);
            if role < *needed {
                assert_eq!(problem(&answer)["status"], 403, "{order} {role}: {}", answer.text);
            } else if role == *needed {
                let told: Value = serde_json::from_str(&answer.text).unwrap();
                assert_eq!(told["done"].as_bool(), *is_done, "{order}: {}", answer.text);
            }
            let wants_audit = role == *needed && *is_done == Some(true);
            assert!(!wants_audit || last(&client).1 == "ann", "{order}: {:?}", last(&client));
        }
    }
    assert_eq!(client.schedules().unwrap().len(), 0);
    let paused = client
        .audit(&firetime::AuditFilter { verb: Some("pause".to_owned()), ..Default::default() })
        .unwrap();
    assert!(paused.iter().any(|it| it.reason == "stock-taking"), "{paused:?}");
}

fn a_token_opens_the_api() {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    let (_database, client) = hostile();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    let new = [NewToken::generate().unwrap(), NewToken::generate().unwrap()];
    write(&file, format!("token deploy operator {}\ntoken look viewer {}", new[0].hash, new[1].hash))
        .unwrap();
    set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let api = Api::new(&client, Options::new().users(Users::open(&file).unwrap()));
    let [deploy, look] = new.map(|new| format!("Bearer {}", new.token));
    let get = |line: &str| api.send(Method::GET, "/jobs", &[("authorization", line)], &Value::Null);
    assert_eq!((get(&deploy).status, get(&look).status), (StatusCode::OK, StatusCode::OK));
    for wrong in ["", "Bearer", "Bearer firetime_", "Basic x", &deploy[..40], &deploy.replace("Bearer ", "")]
    {
        let answer = get(wrong);
        assert_eq!(problem(&answer)["status"], 401, "{wrong}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"firetime\"", "{wrong}");
    }
    let order = json!({ "verb": "pause", "schedule": HOSTILE });
    let send = |line: &str| {
        let lines = [("authorization", line), ("content-type", "application/json")];
        api.send(Method::POST, "/change", &lines, &order).status
    };
    assert_eq!((send(&look), send("")), (StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED));
    assert_eq!(client.schedules().unwrap()[0].state, "active");
    assert_eq!(send(&deploy), StatusCode::OK, "no page elsewhere knows its token");
    assert_eq!((last(&client).0.as_str(), last(&client).1.as_str()), ("pause", "deploy"));
    write(&file, "# nobody").unwrap();
    assert_eq!(get(&deploy).status, StatusCode::UNAUTHORIZED, "its line is gone");
}

/// Browsers add cookies, and what a proxy knows, to what a page elsewhere makes them send.
fn a_cookie_alone_orders_nothing() {
    let (_database, client) = hostile();
    let cookie = format!("firetime_token={TOKEN}");
    let json = ("content-type", "application/json");
    let order = json!({ "verb": "pause", "schedule": HOSTILE });
    for api in [Api::of(&client, Role::Admin), Api::new(&client, Options::new())] {
        let status = |lines: &[(&str, &str)]| api.send(Method::POST, "/change", lines, &order).status;
        let other = TOKEN.replace('0', "1");
        for lines in [
            &[json][..],
            &[json, ("cookie", &cookie)],
            &[json, ("x-firetime-token", TOKEN)],
            &[json, ("cookie", &cookie), ("x-firetime-token", &other)],
            &[json, ("cookie", &cookie), ("x-firetime-token", TOKEN), ("sec-fetch-site", "cross-site")],
            &[json, ("cookie", &cookie), ("x-firetime-token", TOKEN), ("origin", "http://evil.example")],
        ] {
            assert_eq!(status(lines), StatusCode::FORBIDDEN, "{lines:?}");
        }
        let form = [("cookie", cookie.as_str()), ("x-firetime-token", TOKEN), ("content-type", "text/plain")];
        assert_eq!(status(&form), StatusCode::BAD_REQUEST, "a form of a page elsewhere can send this kind");
    }
    assert_eq!(client.schedules().unwrap()[0].state, "active");
    assert_eq!(Api::of(&client, Role::Admin).order(&order).status, StatusCode::OK);
}

fn troubles_are_problems() {
    let (_database, client) = hostile();
    let api = Api::new(&client, Options::new());
    for (path, status, said) in [
        ("/schedules?limit=0", 400, "from 1 to 1000"),
        ("/schedules?naem=x", 400, "/api/v1/schedules has no parameter \"naem\": it has q, job"),
        ("/schedule", 400, "name is missing"),
        ("/schedule?name=x", 404, "no schedule"),
        ("/execution?id=x", 400, "an execution's id is a number"),
        ("/execution?id=999999", 404, "999999"),
        ("/executions?state=LOST", 400, "LOST"),
        ("/executions?since=soon", 400, "no instant"),
        ("/executions?since=99999999999999999", 400, "beyond the calendar"),
        ("/executions?after=x", 400, "follows"),
        ("/audit?after=7", 400, "follows"),
        ("/jobs?limit=0", 400, "from 1 to 1000"),
        ("/verify", 400, "since is missing"),
        ("/verify?since=1h&until=2h", 400, "the range begins"),
        ("/verify?since=1h&schedule=x", 404, "no schedule"),
        ("/task", 400, "id is missing"),
        ("/task?id=x", 404, "The audit has"),
        ("/why", 400, "or for an execution"),
        ("/why?schedule=x", 400, "at is missing"),
        ("/why?schedule=x&execution=1", 400, "or for an execution"),
        ("/outcomes?by=day", 400, "by hour, job or node"),
        ("/nothing", 404, "/api/v1/openapi.json"),
    ] {
        let problem = problem(&api.ask(path));
        assert!(
            problem["status"] == status && problem["detail"].as_str().unwrap().contains(said),
            "{path}: {problem}"
        );
    }
    for (order, status, said) in [
        (json!([]), 400, "no JSON object"),
        (json!({}), 400, "write one of pause, resume"),
        (json!({ "verb": "rm" }), 400, "\"rm\" is no verb"),
        (json!({ "verb": "pause" }), 400, "of what"),
        (json!({ "verb": "pause", "schedule": "x" }), 404, "no schedule"),
        (json!({ "verb": "pause", "schedule": HOSTILE, "resaon": "x" }), 400, "no field \"resaon\""),
        (json!({ "verb": "pause", "schedule": [HOSTILE] }), 400, "is a text, a number, true or false"),
        (json!({ "verb": "skip", "schedule": HOSTILE, "at": "noon" }), 400, "A fire time is written as"),
    ] {
        let problem = problem(&api.order(&order));
        assert!(
            problem["status"] == status && problem["detail"].as_str().unwrap().contains(said),
            "{order}: {problem}"
        );
    }
    assert_eq!(client.schedules().unwrap()[0].state, "active");
    let elsewhere = api.send(Method::GET, "/jobs", &[("x-forwarded-host", "a")], &Value::Null);
    assert_eq!(elsewhere.status, StatusCode::OK);
    let request = Request::get("/api/v1/jobs").header("host", "evil.example").body(Body::empty()).unwrap();
    assert_eq!(problem(&sent(api.0.clone(), request))["status"], 403);
    let read_only = Api::new(&client, Options::new().read_only(true));
    assert_eq!(problem(&read_only.order(&json!({ "verb": "pause", "schedule": HOSTILE })))["status"], 403);
}

fn hidden_payloads_are_nowhere() {
    let (database, client) = hostile();
    let secret = |what: &str| format!("{{\"iban\":\"DE89{what}\",\"plain\":\"shown{what}\"}}");
    let id = client.executions(&ExecutionFilter::default()).unwrap()[0].id;
    database.batch(&format!(
        "UPDATE QRTZ_RUN SET payload = '{}', result = '{}', checkpoint = '{}' WHERE id = {id}",
        secret("own"),
        secret("result"),
        secret("checkpoint")
    ));
    let edited = serde_json::value::RawValue::from_string(secret("edited")).unwrap();
    client.edit(HOSTILE).payload(&edited).run().unwrap();
    database.batch(&format!(
        "INSERT INTO QRTZ_SAID (execution_id, application, said_lines, changed_time) VALUES ({id}, '{}', '{}', 1)",
        crate::support::scheduler::APPLICATION,
        json!([[1, 0, 1, "INFO", "paid DE89own"]])
    ));
    let schedule = encoded(&[("name", HOSTILE)]);
    let paths = [
        format!("/execution?id={id}"),
        format!("/schedule?{schedule}"),
        "/audit".to_owned(),
        format!("/api/v1/execution?id={id}"),
        format!("/api/v1/schedule?{schedule}"),
        "/api/v1/audit".to_owned(),
    ];
    let all = |options: &Options| -> BTreeMap<String, String> {
        let text = |path: &String| {
            let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
            let answer = sent(router(client.clone(), options.clone()), request);
            assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
            answer.text
        };
        paths.iter().map(|path| (path.clone(), text(path))).collect()
    };
    let count =
        |texts: &BTreeMap<String, String>, word: &str| texts.values().filter(|it| it.contains(word)).count();
    let open = all(&Options::new());
    for word in ["DE89own", "DE89result", "DE89checkpoint", "DE89edited", "shownown", "paid DE89own"] {
        assert!(count(&open, word) >= 2, "{word}: a page and an answer show it");
    }
    let masked = all(&Options::new().mask("text<i>", "iban"));
    assert_eq!(count(&masked, "DE89"), 0, "{masked:?}");
    assert!(count(&masked, "shownown") >= 2 && count(&masked, "shownedited") >= 2, "{masked:?}");
    let hidden = all(&Options::new().hide_payloads("text<i>"));
    assert_eq!((count(&hidden, "DE89"), count(&hidden, "shown")), (0, 0), "{hidden:?}");
    assert_eq!(count(&hidden, "(hidden)"), paths.len(), "{hidden:?}");
    let other = all(&Options::new().hide_payloads("another").mask("another", "iban"));
    assert!(count(&other, "DE89own") >= 2);
    assert_eq!(other["/audit"].matches("DE89").count(), 0, "a schedule may have had that job");
}

fn what_decoders_quote_is_nowhere() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let secret = |what: &str| format!("DE89{what}");
    let every = Trigger::every(Duration::from_secs(90)).unwrap();
    client.ensure(&Schedule::new("nightly", NOTE, &secret("first"), every).unwrap()).run().unwrap();
    client.edit("nightly").payload(&secret("edited")).run().unwrap();
    let id = client.enqueue(NOTE, &secret("own")).run().unwrap().id();
    let node = builder(&database).handler(NUMBER, |_, _| Ok(())).start().unwrap();
    let next = until("both are left alone", || {
        let schedule = client.schedule("nightly").unwrap().schedule;
        let has_said = !client.execution(id).unwrap().last().error.is_empty();
        schedule.next.filter(|_| has_said && !schedule.left_alone.is_empty())
    });
    let at = next.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let paths = [
        "/now".to_owned(),
        "/schedules".to_owned(),
        "/schedule?name=nightly".to_owned(),
        format!("/schedule?name=nightly&at={at}"),
        "/executions".to_owned(),
        format!("/execution?id={id}"),
        "/api/v1/schedules".to_owned(),
        "/api/v1/schedule?name=nightly".to_owned(),
        "/api/v1/executions".to_owned(),
        format!("/api/v1/execution?id={id}"),
        format!("/api/v1/why?execution={id}"),
        format!("/api/v1/why?schedule=nightly&at={at}"),
    ];
    let hidden = || Options::new().hide_payloads("text");
    for path in &paths {
        let shown = |options: Options| {
            let answer = ask(&client, options, path, &[("host", "localhost")]);
            assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
            answer.text.matches("DE89").count()
        };
        assert!(shown(Options::new()) > 0, "{path}: it is shown unless somebody hides it");
        assert_eq!(shown(hidden()), 0, "{path}");
        // The payload itself has no such field, and is shown.
        let has_payload = path.contains("name=") || path.contains("?id=");
        assert!(has_payload || shown(Options::new().mask("text", "iban")) == 0, "{path}");
    }
    let why = ask(&client, hidden(), paths.last().unwrap(), &[("host", "localhost")]).text;
    assert!(why.contains("its payload cannot be decoded on any live node: (hidden)"), "{why}");
    assert!(why.contains(r#"{"known":"(hidden)","what":"audit"}"#), "{why}");
    assert!(node.shutdown(Duration::from_secs(10)));
}

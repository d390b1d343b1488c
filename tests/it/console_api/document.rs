//! The document: what it tells is what is answered.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("answers_have_the_fields_that_the_document_tells", answers_have_the_fields_of_the_document),
    ("each_path_of_the_document_is_there_and_no_other", each_path_of_the_document_is_there),
];

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

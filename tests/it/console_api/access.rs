//! Who may ask and order, and what is said to those who may not, or ask amiss.

use super::*;
use firetime::ScheduleState;

pub const TESTS: &[(&str, fn())] = &[
    ("wide_changes_need_their_role", wide_changes_need_their_role),
    ("each_verb_needs_its_role_and_is_in_the_audit", each_verb_needs_its_role),
    ("a_token_opens_the_api_and_nothing_else_does", a_token_opens_the_api),
    ("a_cookie_alone_orders_nothing", a_cookie_alone_orders_nothing),
    ("troubles_are_problems_that_say_what_to_do", troubles_are_problems),
];

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
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Active);
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
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Active);
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
        ("/executions?after=x", 400, "no place in a list of executions"),
        ("/audit?after=7", 400, "no place in a list of changes"),
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
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Active);
    let elsewhere = api.send(Method::GET, "/jobs", &[("x-forwarded-host", "a")], &Value::Null);
    assert_eq!(elsewhere.status, StatusCode::OK);
    let request = Request::get("/api/v1/jobs").header("host", "evil.example").body(Body::empty()).unwrap();
    assert_eq!(problem(&sent(api.0.clone(), request))["status"], 403);
    let read_only = Api::new(&client, Options::new().read_only(true));
    assert_eq!(problem(&read_only.order(&json!({ "verb": "pause", "schedule": HOSTILE })))["status"], 403);
}

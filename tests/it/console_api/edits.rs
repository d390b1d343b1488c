//! Edits.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("an_edit_tells_what_it_comes_to_and_is_made_with_yes", an_edit_tells_what_it_comes_to),
    ("an_edit_sets_every_field_and_takes_it_away", an_edit_sets_every_field_and_takes_it_away),
    ("an_edit_that_cannot_be_changes_nothing", an_edit_that_cannot_be_changes_nothing),
];

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
    let back = behind(&database, &client);
    let mut hourly = json!({ "schedule": "often", "set": { "trigger": { "every": "1h" } } });
    assert_eq!(api.posted("/edit", &hourly)["withdraws"], json!({ "count": 1, "first": back, "last": back }));
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

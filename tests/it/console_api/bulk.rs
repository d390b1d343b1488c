//! Changes of many.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("a_change_of_many_tells_what_it_means_and_is_made_with_yes", a_change_of_many_tells_what_it_means),
    ("a_change_of_many_that_cannot_be_changes_nothing", a_change_of_many_that_cannot_be),
];

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

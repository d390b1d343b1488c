//! Changes of one thing: the question before, what it says, and the audit.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("each_verb_does_it_and_is_in_the_audit", each_verb_does_it_and_is_in_the_audit),
    ("verbs_that_end_something_say_first_what_they_will_do", verbs_that_end_something_say_first),
    ("a_verb_acts_on_the_name_with_its_spaces", a_verb_acts_on_the_name_with_its_spaces),
];

fn each_verb_does_it_and_is_in_the_audit() {
    let (_database, client) = hostile();
    let by = |verb: &str, why: &str| (verb.to_owned(), "<b>ann</b>".to_owned(), why.to_owned());
    let of = |verb: &str, more: &[(&str, &str)]| {
        let mut fields = vec![("verb", verb), ("schedule", HOSTILE), ("back", "now")];
        fields.extend(more);
        told(&client, &fields)
    };
    assert!(of("pause", &[("reason", "stock-taking")]).ends_with(" is paused."));
    assert_eq!(
        (client.schedules().unwrap()[0].state.as_str(), last(&client)),
        ("paused", by("pause", "stock-taking"))
    );
    assert!(of("pause", &[]).starts_with("Nothing was changed: "));
    assert!(of("resume", &[]).ends_with(" is resumed."));
    assert_eq!(last(&client), by("resume", ""));
    assert!(of("run", &[]).contains(" runs once more: execution "));
    assert_eq!(last(&client), by("trigger", ""));
    let next = client.schedules().unwrap()[0].next.unwrap();
    assert!(of("skip", &[("at", &next.to_rfc3339())]).contains(" skips "));
    assert_eq!(last(&client), by("skip", ""));
    assert!(of("skip", &[("at", &next.to_rfc3339())]).starts_with("Nothing was changed: "));
    ensure(&client, "nightly", TEXT, Trigger::cron(NIGHTLY, "UTC").unwrap());
    let rerun = [("verb", "rerun"), ("schedule", "nightly"), ("at", "2025-01-31T02:30:00Z"), ("back", "now")];
    assert!(told(&client, &rerun).ends_with("1 execution ordered."));
    assert_eq!(last(&client), by("backfill", ""));
    assert!(told(&client, &rerun).starts_with("Nothing was changed: "), "it waits");
    client.remove("nightly").run().unwrap();
    let waits =
        client.executions(&ExecutionFilter { tag: Some("<u>".to_owned()), ..Default::default() }).unwrap();
    let id = waits[0].id.to_string();
    let execution = |verb: &str| told(&client, &[("verb", verb), ("execution", &id), ("back", "now")]);
    assert!(execution("cancel").contains(" is cancelled: it had not begun."));
    assert_eq!(last(&client), by("cancel", ""));
    assert!(execution("cancel").starts_with("Nothing was changed: "));
    assert!(execution("retry").contains(" tries "));
    assert_eq!(last(&client), by("retry", ""));
    for (target, name) in [("job", "text<i>"), ("application", "this")] {
        let verb = |verb: &str| told(&client, &[("verb", verb), (target, name), ("back", "now")]);
        assert!(verb("pause").ends_with(" is paused."));
        assert_eq!(last(&client), by("pause", ""));
        assert!(verb("resume").ends_with(" is resumed."));
        assert_eq!(last(&client), by("resume", ""));
    }
    assert!(told(&client, &[("verb", "drain"), ("node", "x"), ("back", "now")]).contains("no node&#39;s id"));
    assert!(of("remove", &[]).ends_with(" is removed."));
    assert_eq!((client.schedules().unwrap().len(), last(&client)), (0, by("remove", "")));
    assert!(of("run", &[]).contains("no schedule"), "what the client refuses is told");
}

fn verbs_that_end_something_say_first() {
    let (_database, client) = hostile();
    let next = client.schedules().unwrap()[0].next.unwrap().to_rfc3339();
    let id = client.executions(&ExecutionFilter::default()).unwrap()[0].id.to_string();
    let asks: [(&[(&str, &str)], &str); 5] = [
        (&[("verb", "pause"), ("schedule", HOSTILE)], "Nothing of it is claimed from now on"),
        (&[("verb", "skip"), ("schedule", HOSTILE), ("at", &next)], "does not run"),
        (&[("verb", "remove"), ("schedule", HOSTILE)], "It withdraws nothing that is due"),
        (&[("verb", "cancel"), ("execution", &id)], "It has not begun, and will not"),
        (&[("verb", "pause"), ("job", "text<i>")], "1 active schedule and what is enqueued wait"),
    ];
    for (fields, sentence) in asks {
        let page = get(&client, &format!("/confirm?{}", encoded(fields)));
        assert_is_text(&page, sentence);
        assert!(page.text.contains(sentence) && page.text.contains("name=\"token\""), "{}", page.text);
    }
    assert_eq!(get(&client, "/confirm?verb=rm").status, StatusCode::BAD_REQUEST);
    assert_eq!(get(&client, "/confirm?verb=cancel&execution=999").status, StatusCode::NOT_FOUND);
    assert_eq!(last(&client).0, "ensure", "nothing was changed");
}

fn a_verb_acts_on_the_name_with_its_spaces() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    for name in ["report", "report "] {
        ensure(&client, name, TEXT, Trigger::cron(NIGHTLY, "UTC").unwrap());
    }
    let page = get(&client, "/schedule?name=report+");
    assert!(page.text.contains("name=\"schedule\" value=\"report \""), "{}", page.text);
    told(&client, &[("verb", "remove"), ("schedule", "report "), ("back", "now")]);
    let left: Vec<String> = client.schedules().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(left, ["report"]);
}

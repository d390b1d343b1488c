//! What is hidden from everybody.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("hidden_payloads_are_in_no_answer_and_on_no_page", hidden_payloads_are_nowhere),
    ("what_decoders_quote_of_a_hidden_payload_is_nowhere", what_decoders_quote_is_nowhere),
];

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
    assert!(node.shutdown(Duration::from_secs(10)).is_clean());
}

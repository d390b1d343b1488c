//! Times in the zone that somebody picks, and pictures of them.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("a_zone_in_the_address_is_kept_in_a_cookie", a_zone_in_the_address_is_kept_in_a_cookie),
    ("a_schedule_is_shown_by_its_own_clock_if_that_is_picked", a_schedule_by_its_own_clock),
    ("a_zone_that_nobody_knows_is_refused", a_zone_that_nobody_knows_is_refused),
    ("what_is_written_is_read_by_the_clock_that_is_shown", what_is_written_is_read_by_the_clock),
    ("the_last_executions_are_drawn_with_their_figures_in_words", the_last_executions_are_drawn),
];

fn a_zone_in_the_address_is_kept_in_a_cookie() {
    let (_database, client) = nightly("Asia/Kolkata");
    let utc = get(&client, "/schedule?name=nightly");
    assert!(utc.text.contains(" 21:00:00.000 UTC"), "{}", utc.text);
    let tokyo = get(&client, "/schedule?name=nightly&zone=Asia%2FTokyo");
    assert!(
        tokyo.text.contains(" 06:00:00.000 JST") && tokyo.text.contains("times in Asia/Tokyo"),
        "{}",
        tokyo.text
    );
    assert!(
        tokyo.text.contains("name=\"name\" value=\"nightly\""),
        "the form keeps the page: {}",
        tokyo.text
    );
    let cookies = tokyo.headers.get_all("set-cookie").iter().map(|it| it.to_str().unwrap());
    let kept = cookies.filter_map(|it| it.strip_prefix("firetime_zone=")).next().unwrap();
    assert!(kept.starts_with("Asia/Tokyo; ") && kept.contains("Max-Age="), "{kept}");
    let lines = [("host", "localhost"), ("cookie", "firetime_zone=Asia/Tokyo")];
    let again = ask(&client, Options::new(), "/schedule?name=nightly", &lines);
    assert!(again.text.contains(" 06:00:00.000 JST"), "{}", again.text);
    let cookies =
        again.headers.get_all("set-cookie").iter().filter(|it| it.to_str().unwrap().contains("zone"));
    assert_eq!(cookies.count(), 0, "it is kept as it is");
}

fn a_schedule_by_its_own_clock() {
    let (_database, client) = nightly("Asia/Kolkata");
    let own = get(&client, "/schedule?name=nightly&zone=schedule");
    assert!(
        own.text.contains(" 02:30:00.000 IST") && own.text.contains("times in Asia/Kolkata"),
        "{}",
        own.text
    );
    assert!(get(&client, "/schedules?zone=schedule").text.contains("times in UTC"));
}

fn a_zone_that_nobody_knows_is_refused() {
    let (_database, client) = nightly("Asia/Kolkata");
    for page in ["/now?zone=Mars", "/schedule?name=nightly&zone=%3Ci%3E"] {
        let page = get(&client, page);
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{}", page.text);
        assert!(page.text.contains("is no time zone") && !page.text.contains("<i>"), "{}", page.text);
        assert!(!page.headers.get_all("set-cookie").iter().any(|it| it.to_str().unwrap().contains("zone")));
    }
}

fn what_is_written_is_read_by_the_clock() {
    let (_database, client) = nightly("Asia/Kolkata");
    let fields = [
        ("verb", "runfor"),
        ("schedule", "nightly"),
        ("instant", "2099-01-31 10:05"),
        ("zone", "Asia/Tokyo"),
    ];
    let page = get(&client, &format!("/confirm?{}", encoded(&fields)));
    assert!(page.text.contains("Run nightly for 2099-01-31 10:05:00.000 JST?"), "{}", page.text);
    assert!(
        page.text.contains("name=\"instant\" value=\"2099-01-31T01:05:00Z\""),
        "what was shown is what is run"
    );
}

fn the_last_executions_are_drawn() {
    const HOUR: i64 = 3_600_000;
    let (database, client) = nightly("Asia/Kolkata");
    assert!(!get(&client, "/schedule?name=nightly").text.contains("class=\"plot\""));
    let night = 1_796_000_400_000;
    for (number, late, took, state) in
        [(0, 3, 20, "SUCCEEDED"), (1, 5, 40, "SUCCEEDED"), (2, 2_000, 90_000, "FAILED")]
    {
        let due = night - number * 24 * HOUR;
        database.batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, due_time, \
             started_time, finished_time) SELECT application, id, generation, {due}, 1, '{state}', {due}, {}, {} \
             FROM QRTZ_EXECUTE WHERE name = 'nightly'",
            due + late,
            due + late + took
        ));
    }
    let page = get(&client, "/schedule?name=nightly").text;
    for said in [
        "<desc id=\"late-words\">median 5 ms, 95 of 100 within 2.0 s, at worst 2.0 s</desc>",
        "<desc id=\"took-words\">median 40 ms, 95 of 100 within 1 min 30 s, at worst 1 min 30 s</desc>",
        "<circle class=\"bad\"",
        ">10 ms</text>",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    database.batch(&format!(
        "INSERT INTO QRTZ_OUTCOME (application, hours, from_time, job, node, begun, lateness_sum, lateness_max, \
         succeeded) VALUES ('{APPLICATION}', 1, {}, 'text', 'a', 4, 400, 2500, 4)",
        client.now().unwrap().timestamp_millis() / HOUR * HOUR
    ));
    let now = get(&client, "/now").text;
    assert!(now.contains("they began 100 ms late on average, 2.5 s at worst"), "{now}");
    assert!(now.contains("on average 100 ms, at worst 2.5 s</title>"), "{now}");
}

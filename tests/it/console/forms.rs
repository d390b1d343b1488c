//! Which forms are taken.

use super::*;
use firetime::ScheduleState;

pub const TESTS: &[(&str, fn())] = &[
    ("a_form_without_its_token_changes_nothing", a_form_without_its_token_changes_nothing),
    ("forms_that_are_too_long_are_refused", forms_that_are_too_long_are_refused),
    ("what_is_no_form_is_refused", what_is_no_form_is_refused),
    ("a_change_that_takes_too_long_may_have_been_made", a_change_that_takes_too_long_may_have_been_made),
    ("a_form_that_does_not_come_is_given_up", a_form_that_does_not_come_is_given_up),
    ("forms_of_a_page_by_plain_http_are_taken", forms_of_a_page_by_plain_http_are_taken),
];

/// A page elsewhere can make a browser send a form, but not one that repeats the token.
fn a_form_without_its_token_changes_nothing() {
    let (_database, client) = hostile();
    let cookie = format!("a=b; firetime_token={TOKEN}");
    let other = TOKEN.replace('0', "1");
    let status = |token: &str, lines: &[(&str, &str)]| {
        let fields = [("verb", "pause"), ("schedule", HOSTILE), ("token", token)];
        post(&client, Options::new(), &fields, lines).status
    };
    for (token, lines) in [
        ("", &[("cookie", cookie.as_str())][..]),
        (&other, &[("cookie", &cookie)]),
        (TOKEN, &[]),
        ("", &[("cookie", "firetime_token=")]),
        (TOKEN, &[("cookie", &cookie), ("sec-fetch-site", "cross-site")]),
        (TOKEN, &[("cookie", &cookie), ("sec-fetch-site", "same-site")]),
        (TOKEN, &[("cookie", &cookie), ("origin", "http://evil.example")]),
        (TOKEN, &[("cookie", &cookie), ("origin", "null")]),
    ] {
        assert_eq!(status(token, lines), StatusCode::FORBIDDEN, "{token} {lines:?}");
    }
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Active);
    let own = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin"), ("origin", "null")];
    assert_eq!(status(TOKEN, &own), StatusCode::SEE_OTHER);
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Paused);
    let page = get(&client, "/now");
    let token = page.headers["set-cookie"].to_str().unwrap();
    assert!(token.starts_with("firetime_token=") && token.ends_with("; HttpOnly; SameSite=Lax"), "{token}");
    let value = token["firetime_token=".len()..].split(';').next().unwrap();
    assert!(get(&client, "/confirm?verb=drain&node=x").text.contains("name=\"token\""));
    assert_ne!(get(&client, "/now").headers["set-cookie"], token, "another browser holds another {value}");
}

fn forms_that_are_too_long_are_refused() {
    let (_database, client) = hostile();
    let long = "x".repeat(17 * 1_024);
    let answer = post(&client, Options::new(), &[("verb", "pause"), ("reason", &long)], &[]);
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

fn what_is_no_form_is_refused() {
    let (_database, client) = hostile();
    let fields = encoded(&[("verb", "pause"), ("schedule", HOSTILE), ("token", TOKEN)]);
    let request = Request::post("/change").header("host", "localhost").header("content-type", "text/plain");
    let request = request.header("cookie", format!("firetime_token={TOKEN}"));
    let answer = sent(router(client.clone(), Options::new()), request.body(Body::from(fields)).unwrap());
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Active);
}

/// Whoever loses patience with a change does not know whether it is made, and this one is.
fn a_change_that_takes_too_long_may_have_been_made() {
    let (_database, client) = hostile();
    let cookie = format!("firetime_token={TOKEN}");
    let fields = encoded(&[("verb", "pause"), ("schedule", HOSTILE), ("token", TOKEN)]);
    let impatient = Options::new().patience(Duration::ZERO);
    let request = Request::post("/change").header("host", "localhost").header("content-type", FORM);
    let request = request.header("cookie", cookie).body(Body::from(fields)).unwrap();
    let (runtime, held) = busy_runtime();
    let answer = sent_on(&runtime, router(client.clone(), impatient), request);
    drop(held);
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{}", answer.text);
    assert!(answer.text.contains("It may have been carried out") && answer.text.contains("href=\"audit\""));
    assert!(!answer.text.contains("The database is away"), "{}", answer.text);
    until("the pause", || (client.schedules().unwrap()[0].state == ScheduleState::Paused).then_some(()));
}

/// A form of which nothing comes.
struct Never;

impl hyper::body::Body for Never {
    type Data = hyper::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

fn a_form_that_does_not_come_is_given_up() {
    let (_database, client) = hostile();
    let request = Request::post("/change").header("host", "localhost").header("content-type", FORM);
    let request = request.header("cookie", format!("firetime_token={TOKEN}"));
    let pages = router(client, Options::new().patience(Duration::ZERO));
    let answer = sent(pages, request.body(Body::new(Never)).unwrap());
    assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT, "{}", answer.text);
}

/// Browsers say there where a form comes from, as the console asks them to, and nothing else.
fn forms_of_a_page_by_plain_http_are_taken() {
    let (_database, client) = hostile();
    let (cookie, host) = (format!("firetime_token={TOKEN}"), "ops.example.org:8088");
    let status = |origin: &str| {
        let fields = encoded(&[("verb", "pause"), ("schedule", HOSTILE), ("token", TOKEN)]);
        let request = Request::post("/change").header("host", host).header("content-type", FORM);
        let request = request.header("cookie", &cookie).header("origin", origin);
        let pages = router(client.clone(), Options::new().host("ops.example.org"));
        sent(pages, request.body(Body::from(fields)).unwrap()).status
    };
    for other in ["http://ops.example.org", "http://ops.example.org:80880", "http://evil.example", "null"] {
        assert_eq!(status(other), StatusCode::FORBIDDEN, "{other}");
    }
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Active);
    assert_eq!(status("http://ops.example.org:8088"), StatusCode::SEE_OTHER);
}

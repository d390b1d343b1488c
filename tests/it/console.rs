//! The console's pages and forms, as a service without a server.

mod bulk;
mod edit;
mod run;
mod shown;
mod zone;

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use chrono::{TimeDelta, Utc};
use firetime::console::{Options, Role, User, router};
use firetime::{AuditFilter, Client, ExecutionFilter, Job, Schedule, Trigger};
use libtest_mimic::Trial;
use tower::ServiceExt;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, client, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn())] = &[
        ("each_page_shows_hostile_names_as_text", each_page_shows_hostile_names_as_text),
        ("every_answer_tells_browsers_what_to_refuse", every_answer_tells_browsers_what_to_refuse),
        ("hosts_that_nobody_allowed_are_refused", hosts_that_nobody_allowed_are_refused),
        ("a_database_that_is_away_is_a_banner", a_database_that_is_away_is_a_banner),
        ("each_verb_does_it_and_is_in_the_audit", each_verb_does_it_and_is_in_the_audit),
        ("verbs_that_end_something_say_first_what_they_will_do", verbs_that_end_something_say_first),
        ("a_form_without_its_token_changes_nothing", a_form_without_its_token_changes_nothing),
        ("a_console_that_only_shows_changes_nothing", a_console_that_only_shows_changes_nothing),
        ("users_whom_the_login_knows_are_in_the_audit", users_whom_the_login_knows_are_in_the_audit),
        ("each_role_may_give_the_orders_of_its_own_alone", each_role_may_give_the_orders_of_its_own_alone),
        ("admins_alone_edit", admins_alone_edit),
        ("forms_that_are_too_long_are_refused", forms_that_are_too_long_are_refused),
        ("what_is_no_form_is_refused", what_is_no_form_is_refused),
        ("a_page_that_takes_too_long_is_given_up", a_page_that_takes_too_long_is_given_up),
        ("a_change_that_takes_too_long_may_have_been_made", a_change_that_takes_too_long_may_have_been_made),
        ("a_form_that_does_not_come_is_given_up", a_form_that_does_not_come_is_given_up),
        ("forms_of_a_page_by_plain_http_are_taken", forms_of_a_page_by_plain_http_are_taken),
        ("failures_are_told_by_their_end", failures_are_told_by_their_end),
        ("a_failure_that_was_tried_again_needs_nobody", a_failure_that_was_tried_again_needs_nobody),
        ("what_is_not_looked_at_is_told", what_is_not_looked_at_is_told),
        ("a_node_is_silent_once_its_row_says_so", a_node_is_silent_once_its_row_says_so),
        ("the_last_day_is_counted_by_hour_and_by_job", the_last_day_is_counted_by_hour_and_by_job),
        ("a_verb_acts_on_the_name_with_its_spaces", a_verb_acts_on_the_name_with_its_spaces),
        ("what_was_enqueued_is_named_so", what_was_enqueued_is_named_so),
        ("when_something_fires_once_is_told_from_now", when_something_fires_once_is_told_from_now),
        ("instants_beyond_the_calendar_are_refused", instants_beyond_the_calendar_are_refused),
        #[cfg(feature = "cli")]
        ("the_program_listens_on_this_machine_alone", the_program_listens_on_this_machine_alone),
        ("filters_and_pages_of_schedules_are_in_the_address", filters_and_pages_of_schedules),
        ("filters_and_pages_of_executions_are_in_the_address", filters_and_pages_of_executions),
        ("an_hour_of_the_grid_tells_why", an_hour_of_the_grid_tells_why),
        ("links_keep_the_prefix_it_is_mounted_under", links_keep_the_prefix_it_is_mounted_under),
    ];
    for (name, test) in [tests, bulk::TESTS, edit::TESTS, run::TESTS, shown::TESTS, zone::TESTS].concat() {
        trials.push(trial(format!("console::{name}"), test));
    }
}

/// Begins markup, ends an attribute, climbs out of a folder, and splits an address.
pub const HOSTILE: &str = "<script>alert(1)</script>\"'&../..?a=b#%2e";
pub const TEXT: Job<String> = Job::new("text<i>");

/// Every page, of what [`hostile`] has made.
fn pages(client: &Client) -> Vec<String> {
    let name = encoded(&[("name", HOSTILE)]);
    let execution = client.executions(&ExecutionFilter::default()).map_or(1, |found| found[0].id);
    let at = (Utc::now() + TimeDelta::minutes(3)).format("%Y-%m-%dT%H:%M").to_string();
    vec![
        "/now".to_owned(),
        "/schedules".to_owned(),
        format!("/schedules?{}", encoded(&[("q", HOSTILE), ("job", "text<i>")])),
        format!("/schedule?{name}"),
        format!("/schedule?{name}&at={at}"),
        format!("/edit?{name}"),
        format!("/missed?{name}"),
        "/bulk?each=cancel".to_owned(),
        "/bulk?each=pause".to_owned(),
        "/executions".to_owned(),
        format!("/executions?{}", encoded(&[("tag", "<u>"), ("key", "<s>"), ("job", "text<i>")])),
        format!("/execution?id={execution}"),
        "/jobs".to_owned(),
        "/nodes".to_owned(),
        "/audit".to_owned(),
        format!("/audit?{}", encoded(&[("actor", "<b>ann</b>"), ("target", HOSTILE)])),
    ]
}

/// What came back.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

/// Asks a console that is made anew, with these headers, a browser's host among them.
pub fn ask(client: &Client, options: Options, path: &str, lines: &[(&str, &str)]) -> Answer {
    let request =
        lines.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
    sent(router(client.clone(), options), request.body(Body::empty()).unwrap())
}

pub fn sent(pages: axum::Router, request: Request<Body>) -> Answer {
    sent_on(&runtime(), pages, request)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Calls that have not begun end with their runtime.
fn sent_on(runtime: &tokio::runtime::Runtime, pages: axum::Router, request: Request<Body>) -> Answer {
    runtime.block_on(async move {
        let answer = pages.oneshot(request).await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = to_bytes(answer.into_body(), 4 * 1_024 * 1_024).await.unwrap();
        Answer { status, headers, text: String::from_utf8(body.to_vec()).unwrap() }
    })
}

fn get(client: &Client, path: &str) -> Answer {
    ask(client, Options::new(), path, &[("host", "localhost:8088")])
}

/// A database in which everything that people may name is hostile.
pub fn hostile() -> (Database, Client) {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database).acting_as("<b>ann</b>");
    let trigger = Trigger::every(Duration::from_secs(90)).unwrap();
    let schedule = Schedule::new(HOSTILE, TEXT, &HOSTILE.to_owned(), trigger).unwrap();
    client.ensure(&schedule.description(HOSTILE)).run().unwrap();
    let due = Utc::now() - TimeDelta::minutes(5);
    client.enqueue(TEXT, &HOSTILE.to_owned()).at(due).tag("<u>").key("<s>").run().unwrap();
    (database, client)
}

/// A schedule that fires at half past two by the clock of a zone.
fn nightly(zone: &str) -> (Database, Client) {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let trigger = Trigger::cron("0 30 2 * * ?", zone).unwrap();
    client.ensure(&Schedule::new("nightly", TEXT, &String::new(), trigger).unwrap()).run().unwrap();
    (database, client)
}

#[track_caller]
fn assert_is_text(page: &Answer, of: &str) {
    assert_eq!(page.status, StatusCode::OK, "{of}: {}", page.text);
    for tag in ["<script>alert", "<i>", "<u>", "<s>", "<b>ann"] {
        assert!(!page.text.contains(tag), "{tag} in {of}: {}", page.text);
    }
}

fn each_page_shows_hostile_names_as_text() {
    let (_database, client) = hostile();
    let mut hostile = 0;
    for path in pages(&client) {
        let page = get(&client, &path);
        assert_is_text(&page, &path);
        let head = page.text.split("</head>").next().unwrap();
        assert_eq!((head.matches("<title>").count(), page.text.matches("<h1>").count()), (1, 1), "{path}");
        hostile += usize::from(page.text.contains("text&#60;i&#62;"));
        assert!(!page.text.contains(" onclick") && !page.text.contains("javascript:"), "{path}");
    }
    assert!(hostile >= 9, "pages name the job: {hostile}");
}

fn every_answer_tells_browsers_what_to_refuse() {
    let (_database, client) = hostile();
    let others = ["/nothing", "/assets/console.css", "/assets/icon.svg"];
    for path in pages(&client).iter().map(String::as_str).chain(others) {
        let answer = get(&client, path);
        let has = |name: &str, word: &str| answer.headers[name].to_str().unwrap().contains(word);
        let policy = "content-security-policy";
        assert!(has(policy, "default-src 'none'") && has(policy, "frame-ancestors 'none'"), "{path}");
        assert!(
            !has(policy, "unsafe") && !answer.text.contains(" style=") && !answer.text.contains("<style")
        );
        assert!(has("x-content-type-options", "nosniff") && has("referrer-policy", "same-origin"), "{path}");
        assert!(has("x-frame-options", "DENY"), "{path}");
        let kept = if path.starts_with("/assets") { "max-age" } else { "no-store" };
        assert!(has("cache-control", kept), "{path}");
    }
    assert_eq!(get(&client, "/nothing").status, StatusCode::NOT_FOUND);
}

/// A page elsewhere may point its own name at this address.
fn hosts_that_nobody_allowed_are_refused() {
    let (_database, client) = hostile();
    let status = |options: Options, lines: &[(&str, &str)]| ask(&client, options, "/now", lines).status;
    assert_eq!(status(Options::new(), &[]), StatusCode::BAD_REQUEST);
    for host in ["evil.example", "10.1.2.3:8088", "localhost.evil.example"] {
        assert_eq!(status(Options::new(), &[("host", host)]), StatusCode::FORBIDDEN, "{host}");
    }
    let allowed = Options::new().host("Ops.example.org");
    assert_eq!(status(allowed.clone(), &[("host", "ops.example.org:443")]), StatusCode::OK);
    assert_eq!(status(allowed, &[("host", "evil.example")]), StatusCode::FORBIDDEN);
}

/// The addresses of the links that say this, as browsers read them.
fn links(page: &Answer, words: &str) -> Vec<String> {
    let links =
        page.text.split("<a ").skip(1).filter(|link| link.split("</a>").next().unwrap().contains(words));
    let to =
        |link: &str| link.split("href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&#38;", "&");
    links.map(|link| format!("/{}", to(link))).collect()
}

/// How many rows a page has whose first cell leads somewhere.
fn rows(page: &Answer) -> usize {
    page.text.matches("<tr><td><a ").count() + page.text.matches("<tr><td class=\"name\"><a ").count()
}

fn filters_and_pages_of_schedules() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let nightly = || Trigger::cron("0 30 2 * * ?", "UTC").unwrap();
    for number in 0..120 {
        let job = if number % 2 == 0 { TEXT } else { Job::new("other") };
        let schedule = Schedule::new(&format!("s{number:03}"), job, &String::new(), nightly()).unwrap();
        client.ensure(&schedule).run().unwrap();
    }
    client.pause("s007").reason("stock-taking").run().unwrap();
    let count = |path: &str| rows(&get(&client, path));
    assert_eq!((count("/schedules?q=S00"), count("/schedules?job=other&q=s00")), (10, 5));
    assert_eq!((count("/schedules?state=paused"), count("/schedules?state=error")), (1, 0));
    assert!(
        get(&client, "/schedules?state=paused").text.contains("stock-taking"),
        "the reason is in the row"
    );
    let (mut path, mut seen) = ("/schedules?job=text%3Ci%3E".to_owned(), 0);
    loop {
        let page = get(&client, &path);
        seen += rows(&page);
        match &links(&page, "Next page")[..] {
            [next] => next.clone_into(&mut path),
            _ => break,
        }
    }
    assert_eq!(seen, 60);
    assert_eq!(links(&get(&client, &path), "First page"), ["/schedules?job=text%3Ci%3E"]);
}

fn filters_and_pages_of_executions() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let payloads: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    client.enqueue_many(TEXT, &payloads).run().unwrap();
    let due = Utc::now() - TimeDelta::hours(5);
    let tagged = client.enqueue(TEXT, &String::new()).at(due).tag("urgent").key("k").run().unwrap().id();
    client.cancel(tagged).reason("paid").run().unwrap();
    let count = |path: &str| rows(&get(&client, path));
    for one in ["tag=urgent", "key=k", "state=CANCELLED&state=FAILED", "until=4h", "reason=cancelled"] {
        assert_eq!(count(&format!("/executions?{one}")), 1, "{one}");
    }
    for none in ["schedule=x", "group=x", "state=RUNNING", "node=abc", "cause=rerun", "since=2099-01-01"] {
        assert_eq!(count(&format!("/executions?{none}")), 0, "{none}");
    }
    for wrong in ["state=LOST", "since=soon", "after=x", "reason=because", "node=x%0Ay"] {
        let page = get(&client, &format!("/executions?{wrong}"));
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert!(page.text.contains("role=\"alert\""), "{wrong}: {}", page.text);
    }
    for order in ["", "&oldest=1"] {
        let page = get(&client, &format!("/executions?job=text%3Ci%3E{order}"));
        let next = links(&page, "Next page");
        assert_eq!((rows(&page), rows(&get(&client, &next[0]))), (50, 11), "{order}");
        assert!(next[0].contains("after=") && next[0].contains("job=text%3Ci%3E"), "{next:?}");
    }
}

/// A cell leads to the sentences about its hour, each with what repairs it.
fn an_hour_of_the_grid_tells_why() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let every = Trigger::every(Duration::from_secs(120)).unwrap();
    client.ensure(&Schedule::new("often", TEXT, &String::new(), every).unwrap()).run().unwrap();
    let next = client.schedules().unwrap()[0].next.unwrap();
    client.skip("often", next).reason("no stock").run().unwrap();
    let page = get(&client, "/schedule?name=often");
    let cells = links(&page, "skipped");
    assert!(cells[0].ends_with("#why"), "{cells:?}");
    let why = get(&client, cells[0].trim_end_matches("#why"));
    assert!(why.text.contains("no stock") && why.text.contains("class=\"why\""), "{}", why.text);
    assert!(why.text.contains("Run it for ") && why.text.contains("c-picked"), "{}", why.text);
}

pub const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
pub const FORM: &str = "application/x-www-form-urlencoded";

pub fn encoded(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Sends a form as a browser does that holds the token; `lines` add headers.
fn post(client: &Client, options: Options, fields: &[(&str, &str)], lines: &[(&str, &str)]) -> Answer {
    let request = Request::post("/change").header("host", "localhost:8088").header("content-type", FORM);
    let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    sent(router(client.clone(), options), request.body(Body::from(encoded(fields))).unwrap())
}

/// What a change said, which the next page shows.
fn told(client: &Client, fields: &[(&str, &str)]) -> String {
    let cookie = format!("firetime_token={TOKEN}");
    let mut fields = fields.to_vec();
    fields.push(("token", TOKEN));
    let answer = post(client, Options::new(), &fields, &[("cookie", &cookie)]);
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{fields:?}: {}", answer.text);
    let said = answer.headers["set-cookie"].to_str().unwrap();
    assert!(said.contains("HttpOnly") && said.contains("SameSite=Strict"), "{said}");
    let said = said.split(';').next().unwrap();
    let to = format!("/{}", answer.headers["location"].to_str().unwrap());
    let page = ask(client, Options::new(), &to, &[("host", "localhost"), ("cookie", said)]);
    let begin = page.text.find("role=\"status\">").unwrap_or_else(|| panic!("{to}: {}", page.text));
    page.text[begin + 14..].split("</p>").next().unwrap().to_owned()
}

/// The verb that the audit has last, by whom and why.
pub fn last(client: &Client) -> (String, String, String) {
    let last = client.audit(&AuditFilter { limit: 1, ..AuditFilter::default() }).unwrap().remove(0);
    (last.verb, last.actor, last.reason)
}

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
    let nightly = Trigger::cron("0 30 2 * * ?", "UTC").unwrap();
    client.ensure(&Schedule::new("nightly", TEXT, &String::new(), nightly).unwrap()).run().unwrap();
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
    assert_eq!(client.schedules().unwrap()[0].state, "active");
    let own = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin"), ("origin", "null")];
    assert_eq!(status(TOKEN, &own), StatusCode::SEE_OTHER);
    assert_eq!(client.schedules().unwrap()[0].state, "paused");
    let page = get(&client, "/now");
    let token = page.headers["set-cookie"].to_str().unwrap();
    assert!(token.starts_with("firetime_token=") && token.ends_with("; HttpOnly; SameSite=Lax"), "{token}");
    let value = token["firetime_token=".len()..].split(';').next().unwrap();
    assert!(get(&client, "/confirm?verb=drain&node=x").text.contains("name=\"token\""));
    assert_ne!(get(&client, "/now").headers["set-cookie"], token, "another browser holds another {value}");
}

fn a_console_that_only_shows_changes_nothing() {
    let (_database, client) = hostile();
    let cookie = format!("firetime_token={TOKEN}");
    let fields = [("verb", "pause"), ("schedule", HOSTILE), ("token", TOKEN)];
    let read_only = || Options::new().read_only(true);
    assert_eq!(post(&client, read_only(), &fields, &[("cookie", &cookie)]).status, StatusCode::FORBIDDEN);
    assert_eq!(client.schedules().unwrap()[0].state, "active");
    let host = [("host", "localhost")];
    let confirm = format!("/confirm?{}", encoded(&fields[..2]));
    assert_eq!(ask(&client, read_only(), &confirm, &host).status, StatusCode::FORBIDDEN);
    for path in pages(&client) {
        let page = ask(&client, read_only(), &path, &host);
        assert!(!page.text.contains("method=\"post\"") && !page.text.contains("href=\"confirm"), "{path}");
        assert!(page.text.contains("shows only"), "{path}");
    }
}

fn users_whom_the_login_knows_are_in_the_audit() {
    let (_database, client) = hostile();
    let cookie = format!("firetime_token={TOKEN}");
    let fields = [("verb", "pause"), ("schedule", HOSTILE), ("token", TOKEN)];
    let known = || {
        Options::new().user(|request| {
            let name = request.headers.get("x-user")?.to_str().ok()?;
            Some(User::new(name, Role::Operator))
        })
    };
    let status = |lines: &[(&str, &str)]| post(&client, known(), &fields, lines).status;
    assert_eq!(status(&[("cookie", &cookie)]), StatusCode::FORBIDDEN, "nobody knows who that is");
    assert_eq!(status(&[("cookie", &cookie), ("x-user", "")]), StatusCode::FORBIDDEN);
    assert_eq!(status(&[("cookie", &cookie), ("x-user", "bea")]), StatusCode::SEE_OTHER);
    assert_eq!((last(&client).0.as_str(), last(&client).1.as_str()), ("pause", "bea"));
    let page = ask(&client, known(), "/now", &[("host", "localhost"), ("x-user", "<b>ann</b>")]);
    assert!(page.text.contains("&#60;b&#62;ann"), "{}", page.text);
}

/// Every verb in the hands of every role: sent, and as a form or a link on any page.
fn each_role_may_give_the_orders_of_its_own_alone() {
    use Role::{Admin, Operator, Viewer};
    let (_database, client) = hostile();
    let as_role = |role: Role| Options::new().user(move |_| Some(User::new("ann", role)));
    let cookie = format!("firetime_token={TOKEN}");
    let (at, gone) = ("2025-01-31T02:30:00Z", "999999");
    let verbs: [(&[(&str, &str)], Role); 14] = [
        (&[("verb", "pause"), ("schedule", "x")], Operator),
        (&[("verb", "pause"), ("job", "x")], Operator),
        (&[("verb", "pause"), ("node", "x")], Operator),
        (&[("verb", "pause"), ("application", "this")], Operator),
        (&[("verb", "resume"), ("schedule", "x")], Operator),
        (&[("verb", "resume"), ("application", "this")], Operator),
        (&[("verb", "drain"), ("node", "x")], Operator),
        (&[("verb", "run"), ("schedule", "x")], Operator),
        (&[("verb", "skip"), ("schedule", "x"), ("at", at)], Operator),
        (&[("verb", "rerun"), ("schedule", "x"), ("at", at)], Operator),
        (&[("verb", "cancel"), ("execution", gone)], Operator),
        (&[("verb", "retry"), ("execution", gone)], Operator),
        (&[("verb", "bulk"), ("each", "pause"), ("q", "x")], Operator),
        (&[("verb", "remove"), ("schedule", "x")], Admin),
    ];
    for (fields, needed) in verbs {
        for &role in Role::ALL {
            let mut form = fields.to_vec();
            form.push(("token", TOKEN));
            let answer = post(&client, as_role(role), &form, &[("cookie", &cookie)]);
            let confirm = format!("/confirm?{}", encoded(fields));
            let confirmed = ask(&client, as_role(role), &confirm, &[("host", "localhost")]).status;
            let (is_refused, of) = (role < needed, format!("{fields:?} {role}: {}", answer.text));
            assert_eq!(answer.status == StatusCode::FORBIDDEN, is_refused, "{of}");
            assert_eq!(confirmed == StatusCode::FORBIDDEN, is_refused, "{of}");
            assert!(is_refused || answer.status == StatusCode::SEE_OTHER, "{of}");
        }
    }
    let shown = |role: Role, words: &str| {
        let pages = pages(&client).into_iter();
        pages
            .filter(|path| ask(&client, as_role(role), path, &[("host", "localhost")]).text.contains(words))
            .count()
    };
    for (words, roles) in [
        ("verb=pause", [false, true, true]),
        ("verb=remove", [false, false, true]),
        (">Edit<", [false, false, true]),
    ] {
        assert_eq!([Viewer, Operator, Admin].map(|role| shown(role, words) > 0), roles, "{words}");
    }
    let remove = format!("/confirm?{}", encoded(&[("verb", "remove"), ("schedule", HOSTILE)]));
    let said = ask(&client, as_role(Operator), &remove, &[("host", "localhost")]).text;
    assert!(said.contains("This is for the role admin, and yours is operator."), "{said}");
}

fn admins_alone_edit() {
    use Role::Admin;
    let (_database, client) = hostile();
    let as_role = |role: Role| Options::new().user(move |_| Some(User::new("ann", role)));
    let cookie = format!("firetime_token={TOKEN}");
    let edit = format!("/edit?{}", encoded(&[("name", HOSTILE)]));
    let form = ask(&client, as_role(Admin), &edit, &[("host", "localhost")]).text;
    let field = |name: &str| {
        form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap().split('"').next().unwrap()
    };
    let names = ["version", "read", "was"];
    let fields = names.map(|name| (name, field(name))).into_iter();
    let fields: Vec<_> =
        [("verb", "edit"), ("name", HOSTILE), ("token", TOKEN)].into_iter().chain(fields).collect();
    for &role in Role::ALL {
        let sent = post(&client, as_role(role), &fields, &[("cookie", &cookie)]).status;
        let shown = ask(&client, as_role(role), &edit, &[("host", "localhost")]).status;
        assert_eq!([sent, shown].map(|it| it == StatusCode::FORBIDDEN), [role < Admin; 2], "{role}");
    }
}

fn what_is_no_form_is_refused() {
    let (_database, client) = hostile();
    let fields = encoded(&[("verb", "pause"), ("schedule", HOSTILE), ("token", TOKEN)]);
    let request = Request::post("/change").header("host", "localhost").header("content-type", "text/plain");
    let request = request.header("cookie", format!("firetime_token={TOKEN}"));
    let answer = sent(router(client.clone(), Options::new()), request.body(Body::from(fields)).unwrap());
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(client.schedules().unwrap()[0].state, "active");
}

/// A runtime on whose only blocking thread no call begins before the sender is dropped.
fn busy_runtime() -> (tokio::runtime::Runtime, std::sync::mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let (held, freed) = std::sync::mpsc::channel::<()>();
    let runtime = runtime.unwrap();
    runtime.spawn_blocking(move || freed.recv());
    (runtime, held)
}

fn a_page_that_takes_too_long_is_given_up() {
    let (_database, client) = hostile();
    let (runtime, _held) = busy_runtime();
    let request = Request::get("/now").header("host", "localhost").body(Body::empty()).unwrap();
    let page = sent_on(&runtime, router(client, Options::new().patience(Duration::ZERO)), request);
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(page.text.contains("The database is away"), "{}", page.text);
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
    until("the pause", || (client.schedules().unwrap()[0].state == "paused").then_some(()));
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
    assert_eq!(client.schedules().unwrap()[0].state, "active");
    assert_eq!(status("http://ops.example.org:8088"), StatusCode::SEE_OTHER);
}

/// An execution that was due hours ago, and ended so many minutes ago in this state; none if it has not.
fn ended(database: &Database, client: &Client, state: &str, minutes: Option<i64>) -> i64 {
    let due = Utc::now() - TimeDelta::hours(5);
    let id = client.enqueue(TEXT, &String::new()).at(due).run().unwrap().id();
    let at = minutes.map_or(-1, |ago| (Utc::now() - TimeDelta::minutes(ago)).timestamp_millis());
    let set = format!("state = '{state}', finished_time = {at}");
    database.batch(&format!("UPDATE QRTZ_RUN SET {set} WHERE id = {id}"));
    id.get()
}

/// A long run fails hours after its fire time, and one that is old may have ended just now.
fn failures_are_told_by_their_end() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    ended(&database, &client, "FAILED", Some(120));
    let now = get(&client, "/now").text;
    assert!(now.contains("nothing failed in the last hour") && !now.contains("Show them"), "{now}");
    let failed = ended(&database, &client, "FAILED", Some(5));
    let runs_on = ended(&database, &client, "TIMED_OUT", None);
    database.batch(&format!("INSERT INTO QRTZ_STUCK VALUES ({runs_on}, '{APPLICATION}', '')"));
    let now = get(&client, "/now");
    assert!(now.text.contains("failed 2 times in the last hour"), "{}", now.text);
    let to = &links(&now, "Show them")[0];
    for path in [to.as_str(), "/executions?failed=lately"] {
        let page = get(&client, path);
        assert_eq!(rows(&page), 2, "{path}: {}", page.text);
        for id in [failed, runs_on] {
            assert!(page.text.contains(&format!("execution?id={id}\"")), "{path}: {}", page.text);
        }
    }
    assert_eq!(links(&now, "failed in the last hour"), ["/executions?failed=lately"]);
}

fn a_failure_that_was_tried_again_needs_nobody() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let tried = ["FAILED", "ABANDONED"].map(|state| ended(&database, &client, state, Some(5)));
    let needs = || get(&client, "/now").text;
    let again = || get(&client, "/executions").text.matches("Try again").count();
    assert!(needs().contains("failed 2 times in the last hour"), "{}", needs());
    assert_eq!(again(), 2);
    for id in tried {
        client.retry(id).run().unwrap();
    }
    assert!(needs().contains("nothing failed in the last hour"), "{}", needs());
    assert_eq!((again(), rows(&get(&client, "/executions?failed=lately"))), (0, 0));
    // The later attempt fails as well: its occurrence failed once.
    let now = Utc::now().timestamp_millis();
    let set = format!("state = 'FAILED', finished_time = {now}");
    database.batch(&format!("UPDATE QRTZ_RUN SET {set} WHERE attempt = 2"));
    assert!(needs().contains("failed 2 times in the last hour"), "{}", needs());
    assert_eq!(again(), 2);
}

fn what_is_not_looked_at_is_told() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    client.enqueue_many(TEXT, &vec![String::new(); 1_000]).run().unwrap();
    let due = (Utc::now() - TimeDelta::minutes(5)).timestamp_millis();
    let failed = format!("UPDATE QRTZ_RUN SET state = 'FAILED', finished_time = {due}");
    let waits = "1,000 or more executions wait for too long";
    assert!(!get(&client, "/now").text.contains(waits), "they wait for less than a minute");
    database.batch(&format!("UPDATE QRTZ_RUN SET due_time = {due}"));
    let now = get(&client, "/now").text;
    assert!(now.contains(waits) && now.contains("More may need you"), "{now}");
    database.batch(&format!("{failed} WHERE id <= 110"));
    let now = get(&client, "/now").text;
    assert!(now.contains("; 110 failed in the last hour") && !now.contains(waits), "{now}");
    database.batch(&failed);
    let now = get(&client, "/now").text;
    assert!(now.contains("1,000 or more executions failed in the last two days"), "{now}");
}

fn a_node_is_silent_once_its_row_says_so() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    for (span, silence, is_silent) in
        [(120_000, 60, false), (5_000, 10, true), (-1, 10, false), (-1, 60, true)]
    {
        let beat = (Utc::now() - TimeDelta::seconds(silence)).timestamp_millis();
        database.batch(&format!(
            "DELETE FROM QRTZ_NODE; INSERT INTO QRTZ_NODE (uuid, application, jobs, beat_time, silent_after) \
             VALUES ('a', '{APPLICATION}', '[]', {beat}, {span})"
        ));
        let said = get(&client, "/now").text.contains("no heartbeat for");
        assert_eq!(said, is_silent, "{span} {silence}");
    }
}

fn the_last_day_is_counted_by_hour_and_by_job() {
    const HOUR: i64 = 3_600_000;
    let (database, client) = hostile();
    assert!(get(&client, "/now").text.contains("no attempt has ended"));
    let hour = client.now().unwrap().timestamp_millis() / HOUR * HOUR;
    for (ago, counts) in [(0, "7, 0, 0, 0"), (5, "1200, 3, 1, 2"), (23, "1, 0, 0, 0"), (24, "500, 500, 0, 0")]
    {
        database.batch(&format!(
            "INSERT INTO QRTZ_OUTCOME (application, hours, from_time, job, node, begun, lateness_max, succeeded, \
             failed, timed_out, abandoned) VALUES ('{APPLICATION}', 1, {}, 'text<i>', 'a', 9, 2500, {counts})",
            hour - ago * HOUR
        ));
    }
    let now = get(&client, "/now").text;
    let told = "1,208 attempts succeeded, 3 failed, 1 timed out, 2 abandoned";
    assert!(now.contains(told), "{now}");
    for bar in [
        "1,200 attempts succeeded, 3 failed, 1 timed out, 2 abandoned</title><rect class=\"ran\" x=\"540\" y=\"7\" width=\"24\" \
         height=\"53\" rx=\"2\"/><rect class=\"bad\" x=\"540\" y=\"4\" width=\"24\" height=\"3\" rx=\"2\"/>",
        "7 attempts succeeded</title><rect class=\"ran\" x=\"690\" y=\"57\" width=\"24\" height=\"3\" rx=\"2\"/>",
        "1 attempt succeeded</title><rect class=\"ran\" x=\"0\" ",
    ] {
        assert!(now.contains(bar), "{bar}: {now}");
    }
    let jobs = get(&client, "/jobs").text;
    assert!(jobs.contains(told) && jobs.contains(">+2.5 s<"), "{jobs}");
}

fn a_verb_acts_on_the_name_with_its_spaces() {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let nightly = || Trigger::cron("0 30 2 * * ?", "UTC").unwrap();
    for name in ["report", "report "] {
        client.ensure(&Schedule::new(name, TEXT, &String::new(), nightly()).unwrap()).run().unwrap();
    }
    let page = get(&client, "/schedule?name=report+");
    assert!(page.text.contains("name=\"schedule\" value=\"report \""), "{}", page.text);
    told(&client, &[("verb", "remove"), ("schedule", "report "), ("back", "now")]);
    let left: Vec<String> = client.schedules().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(left, ["report"]);
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

fn instants_beyond_the_calendar_are_refused() {
    let (_database, client) = hostile();
    let last = chrono::DateTime::<Utc>::MAX_UTC.to_rfc3339();
    let page = get(&client, &format!("/schedule?{}", encoded(&[("name", HOSTILE), ("at", &last)])));
    assert_eq!(page.status, StatusCode::BAD_REQUEST, "{}", page.text);
    let rerun = [("verb", "rerun"), ("schedule", HOSTILE), ("at", &last), ("back", "now")];
    assert!(told(&client, &rerun).contains("beyond the calendar"));
}

#[cfg(feature = "cli")]
fn the_program_listens_on_this_machine_alone() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};

    let (database, _client) = hostile();
    let console = |listen: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firetime"));
        command
            .args(["console", "--read-only", "--listen", listen])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.env("FIRETIME_DATABASE_URL", &database.url).env("FIRETIME_APPLICATION", APPLICATION);
        command
    };
    for public in ["0.0.0.0:0", "[::]:0", "10.0.0.1:8088"] {
        let mut refused = console(public).spawn().unwrap();
        let mut served = String::new();
        BufReader::new(refused.stdout.take().unwrap()).read_line(&mut served).unwrap();
        if !served.is_empty() {
            refused.kill().unwrap();
        }
        let refused = refused.wait_with_output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{public}: {said}");
        assert!(said.contains("--users FILE") && said.contains("ssh -L"), "{public}: {said}");
    }
    let mut served = console("127.0.0.1:0").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("the console is at http://").unwrap().trim_end_matches('/');
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /now HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("shows only"), "{answer}");
    served.kill().unwrap();
    served.wait().unwrap();
}

fn forms_that_are_too_long_are_refused() {
    let (_database, client) = hostile();
    let long = "x".repeat(17 * 1_024);
    let answer = post(&client, Options::new(), &[("verb", "pause"), ("reason", &long)], &[]);
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

fn a_database_that_is_away_is_a_banner() {
    let (database, client) = hostile();
    let pages = pages(&client);
    let file = database.url.strip_prefix("sqlite:").unwrap();
    let options = || Options::new().patience(Duration::from_millis(300));
    let ask = |path: &str| ask(&client, options(), path, &[("host", "localhost")]);
    std::fs::rename(file, format!("{file}.gone")).unwrap();
    for path in &pages {
        let page = ask(path);
        assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", page.text);
        assert!(page.text.contains("The database is away") && page.text.contains("role=\"alert\""), "{path}");
        assert!(page.text.contains("</html>"), "{path}: {}", page.text);
    }
    assert!(ask("/now").text.contains("id=\"live\""), "it is made anew once the database is back");
    std::fs::rename(format!("{file}.gone"), file).unwrap();
    until("a page once it is back", || (ask("/now").status == StatusCode::OK).then_some(()));
}

/// Each link leads on from its page as browsers read it.
fn links_keep_the_prefix_it_is_mounted_under() {
    let (_database, client) = hostile();
    let pages = || axum::Router::new().nest("/ops/firetime", router(client.clone(), Options::new()));
    let get = |path: &str| {
        let request = Request::get(path).header("host", "localhost");
        sent(pages(), request.body(Body::empty()).unwrap())
    };
    let moved = get("/ops/firetime");
    assert_eq!(moved.status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(moved.headers["location"], "./firetime/now");
    let beside = self::pages(&client).into_iter().map(|path| format!("/ops/firetime{path}"));
    for path in beside.chain(["/ops/firetime/nothing/at/all".to_owned()]) {
        let (path, page) = (path.as_str(), get(&path));
        let links = page.text.split("href=\"").skip(1).chain(page.text.split("action=\"").skip(1));
        let links: Vec<String> =
            links.map(|it| it.split('"').next().unwrap().replace("&#38;", "&")).collect();
        assert!(links.len() > 5, "{path}: {}", page.text);
        for link in links.iter().filter(|link| !link.starts_with('#')) {
            let to = resolved(path, link);
            assert!(to.starts_with("/ops/firetime/"), "{path}: {link} leads to {to}");
            // A form lacks its fields here.
            let status = if ["change", "confirm", "edit", "missed"].contains(&&**link) {
                StatusCode::OK
            } else {
                get(&to).status
            };
            assert!(status == StatusCode::OK || to == path, "{path}: {link} leads to {to}: {status}");
        }
    }
}

/// Where a relative link leads.
fn resolved(page: &str, link: &str) -> String {
    if link.is_empty() {
        return page.to_owned();
    }
    let (path, query) =
        link.split_once('?').map_or((link, String::new()), |(path, query)| (path, format!("?{query}")));
    assert!(!path.starts_with('/') && !path.contains("://"), "{link}");
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    format!("{}{query}", parts.join("/"))
}

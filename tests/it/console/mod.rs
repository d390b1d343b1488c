//! The console's pages and forms, as a service without a server.

mod bulk;
mod edit;
mod forms;
mod lists;
mod needs;
mod pages;
mod roles;
mod run;
mod shown;
mod verbs;
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
    for (name, test) in [
        bulk::TESTS,
        edit::TESTS,
        forms::TESTS,
        lists::TESTS,
        needs::TESTS,
        pages::TESTS,
        roles::TESTS,
        run::TESTS,
        shown::TESTS,
        verbs::TESTS,
        zone::TESTS,
    ]
    .concat()
    {
        trials.push(trial(format!("console::{name}"), test));
    }
}

/// Begins markup, ends an attribute, climbs out of a folder, and splits an address.
pub const HOSTILE: &str = "<script>alert(1)</script>\"'&../..?a=b#%2e";

pub const TEXT: Job<String> = Job::new("text<i>");

/// Every page, of what [`hostile`] has made.
fn pages(client: &Client) -> Vec<String> {
    let name = encoded(&[("name", HOSTILE)]);
    let execution = client.executions(&ExecutionFilter::default()).map_or(1, |found| found[0].id.get());
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
    ensure(&client, "nightly", TEXT, Trigger::cron(NIGHTLY, zone).unwrap());
    (database, client)
}

/// A schedule that fires once in so many seconds.
fn often(seconds: u64) -> (Database, Client) {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    ensure(&client, "often", TEXT, Trigger::every(Duration::from_secs(seconds)).unwrap());
    (database, client)
}

/// Makes the schedule `often`, which is ten minutes behind, and tells since when, in milliseconds.
pub fn behind(database: &Database, client: &Client) -> i64 {
    let start = Utc::now() - TimeDelta::minutes(10);
    let every = Trigger::every(Duration::from_secs(900)).unwrap().starting(start).unwrap();
    ensure(client, "often", TEXT, every);
    let back = start.timestamp_millis();
    let due = format!("prev_fire_time = {}, next_fire_time = {back}", back - 900_000);
    database.batch(&format!("UPDATE QRTZ_EXECUTE SET {due} WHERE name = 'often'"));
    back
}

/// Half past two.
pub const NIGHTLY: &str = "0 30 2 * * ?";

/// Makes a schedule.
pub fn ensure(client: &Client, name: &str, job: Job<String>, trigger: Trigger) {
    client.ensure(&Schedule::new(name, job, &String::new(), trigger).unwrap()).run().unwrap();
}

#[track_caller]
fn assert_is_text(page: &Answer, of: &str) {
    assert_eq!(page.status, StatusCode::OK, "{of}: {}", page.text);
    for tag in ["<script>alert", "<i>", "<u>", "<s>", "<b>ann"] {
        assert!(!page.text.contains(tag), "{tag} in {of}: {}", page.text);
    }
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

/// A runtime on whose only blocking thread no call begins before the sender is dropped.
fn busy_runtime() -> (tokio::runtime::Runtime, std::sync::mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let (held, freed) = std::sync::mpsc::channel::<()>();
    let runtime = runtime.unwrap();
    runtime.spawn_blocking(move || freed.recv());
    (runtime, held)
}

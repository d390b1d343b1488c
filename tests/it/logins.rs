//! Who the console lets in, and as whom: its own logins, a proxy's header, tokens of programs.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use firetime::Client;
use firetime::console::{NewToken, Options, Role, TrustedHeader, Users, router};
use libtest_mimic::Trial;

use crate::console::{Answer, FORM, HOSTILE, encoded, hostile, last, sent};
use crate::support::database::Database;
use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn())] = &[
        ("people_log_in_and_out", people_log_in_and_out),
        ("pages_are_for_those_who_have_logged_in", pages_are_for_those_who_have_logged_in),
        ("a_login_leads_to_a_page_of_the_console", a_login_leads_to_a_page_of_the_console),
        ("a_login_has_an_id_that_nobody_knew_before", a_login_has_an_id_that_nobody_knew_before),
        ("a_form_from_elsewhere_logs_nobody_in_or_out", a_form_from_elsewhere_logs_nobody_in_or_out),
        ("cookies_are_out_of_reach_of_scripts_and_plain_http", cookies_are_out_of_reach),
        ("too_many_failed_logins_have_to_wait", too_many_failed_logins_have_to_wait),
        ("a_right_password_frees_nobody_elses_tries", a_right_password_frees_nobody_elses_tries),
        ("a_right_password_frees_no_address", a_right_password_frees_no_address),
        ("a_login_ends_with_its_time", a_login_ends_with_its_time),
        ("a_login_ends_with_its_line_in_the_file", a_login_ends_with_its_line_in_the_file),
        ("a_session_has_the_role_of_its_user", a_session_has_the_role_of_its_user),
        ("a_header_is_believed_of_the_proxy_alone", a_header_is_believed_of_the_proxy_alone),
        ("programs_ask_with_a_token", programs_ask_with_a_token),
        ("a_console_without_a_name_is_called_console_in_the_audit", a_console_without_a_name),
        #[cfg(feature = "postgres")]
        ("a_standby_makes_everybody_a_viewer", a_standby_makes_everybody_a_viewer),
        #[cfg(feature = "cli")]
        ("the_program_makes_the_secrets_of_a_users_file", the_program_makes_the_secrets),
        #[cfg(feature = "cli")]
        ("the_program_listens_elsewhere_once_people_log_in", the_program_listens_elsewhere),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("logins::{name}"), *test));
    }
}

/// Quick to compare: of the password `right`, and of `new`.
pub const RIGHT: &str =
    "$argon2id$v=19$m=8,t=1,p=1$dj8nq9ADmvOrtE9WAT44Bg$diizZ+QWSfBTLSk1xoYeL2USyGM7n2OLOIXFsk95ryo";
pub const NEW: &str =
    "$argon2id$v=19$m=8,t=1,p=1$d7IjdABhFTV43VgJ8vF92w$aRzcEtffpFqnxjizOZD70orkBOSitb3JQV8wcImtPoI";

/// A console with a users file.
pub struct Site {
    _database: Database,
    pub client: Client,
    folder: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Self {
        let (_database, client) = hostile();
        let site = Self { _database, client, folder: tempfile::tempdir().unwrap() };
        site.write(
            &["user ann admin", "user olga operator", "user victor viewer"].map(|it| format!("{it} {RIGHT}")),
        );
        site
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("users")
    }

    pub fn write(&self, lines: &[String]) {
        fs::write(self.file(), lines.join("\n")).unwrap();
        fs::set_permissions(self.file(), Permissions::from_mode(0o600)).unwrap();
    }

    pub fn options(&self) -> Options {
        Options::new().users(Users::open(self.file()).unwrap())
    }

    pub fn pages(&self, options: Options) -> Router {
        router(self.client.clone(), options)
    }

    fn browser(&self) -> Browser {
        Browser::new(self.pages(self.options()))
    }

    fn state(&self) -> String {
        self.client.schedules().unwrap()[0].state.to_string()
    }
}

/// Keeps cookies as a browser does.
#[derive(Clone)]
pub struct Browser {
    pages: Router,
    cookies: BTreeMap<String, String>,
    lines: Vec<(&'static str, String)>,
    /// Where its connection comes from, if the server tells.
    from: Option<SocketAddr>,
}

impl Browser {
    pub fn new(pages: Router) -> Self {
        Self { pages, cookies: BTreeMap::new(), lines: Vec::new(), from: None }
    }

    fn from(self, address: &str) -> Self {
        Self { from: Some(address.parse().unwrap()), ..self }
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.lines.push((name, value.to_owned()));
        self
    }

    /// The line that has its cookies.
    pub fn cookie(&self) -> String {
        let pairs: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }

    fn ask(&mut self, request: axum::http::request::Builder, body: String) -> Answer {
        let request = request.header("host", "localhost:8088").header("cookie", self.cookie());
        let request = self.lines.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let mut request = request.body(Body::from(body)).unwrap();
        if let Some(from) = self.from {
            request.extensions_mut().insert(ConnectInfo(from));
        }
        let answer = sent(self.pages.clone(), request);
        for line in answer.headers.get_all("set-cookie") {
            let line = line.to_str().unwrap();
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            match line.contains("Max-Age=0") {
                true => drop(self.cookies.remove(name)),
                false => drop(self.cookies.insert(name.to_owned(), value.to_owned())),
            }
        }
        answer
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.ask(Request::get(path), String::new())
    }

    /// Sends a form that it was given: with the token of its cookie.
    pub fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.cookies.get("firetime_token").cloned().unwrap_or_default();
        let mut fields = fields.to_vec();
        fields.push(("token", &token));
        self.send(path, &fields)
    }

    fn send(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask(Request::post(path).header("content-type", FORM), encoded(fields))
    }

    fn try_password(&mut self, name: &str, password: &str) -> Answer {
        self.get("/login");
        self.post("/login", &[("name", name), ("password", password)])
    }

    pub fn logged_in(mut self, name: &str) -> Self {
        let answer = self.try_password(name, "right");
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{name}: {}", answer.text);
        self
    }

    fn pause(&mut self) -> StatusCode {
        self.post("/change", &[("verb", "pause"), ("schedule", HOSTILE)]).status
    }

    /// Whether it has to log in.
    fn is_out(&mut self) -> bool {
        let answer = self.get("/now");
        answer.status == StatusCode::SEE_OTHER && location(&answer) == "login?to=now"
    }
}

fn location(answer: &Answer) -> &str {
    answer.headers["location"].to_str().unwrap()
}

fn people_log_in_and_out() {
    let site = Site::new();
    let mut browser = site.browser();
    assert!(browser.is_out());
    let form = browser.get("/login");
    assert!(form.status == StatusCode::OK && form.text.contains("type=\"password\""), "{}", form.text);
    assert!(!form.text.contains("href=\"now\""), "strangers see no pages");
    for (name, password) in [("ann", "wrong"), ("ann", ""), ("eve", "right"), ("<b>", "x")] {
        let answer = browser.try_password(name, password);
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{name}");
        assert!(answer.text.contains("The name or the password is wrong."), "{}", answer.text);
        assert!(!answer.text.contains("<b>") && browser.is_out(), "{name}");
    }
    let mut browser = browser.logged_in("ann");
    let page = browser.get("/now");
    assert!(page.status == StatusCode::OK && page.text.contains("<span>ann</span>"), "{}", page.text);
    assert!(page.text.contains("action=\"logout\""), "{}", page.text);
    assert_eq!(browser.pause(), StatusCode::SEE_OTHER);
    assert_eq!((last(&site.client).0.as_str(), last(&site.client).1.as_str()), ("pause", "ann"));
    let mut copy = browser.clone();
    assert_eq!(location(&browser.post("/logout", &[])), "login");
    assert!(!browser.cookies.contains_key("firetime_session") && browser.is_out());
    assert!(copy.is_out(), "the id is worth nothing any more, whoever kept it");
}

fn pages_are_for_those_who_have_logged_in() {
    let site = Site::new();
    let mut browser = site.browser();
    for path in ["/", "/now", "/schedule?name=a", "/confirm?verb=pause", "/nothing", "/audit", "/a/b/c"] {
        let answer = browser.get(path);
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}: {}", answer.text);
        assert!(location(&answer).contains("login"), "{path}");
    }
    assert_eq!(location(&browser.get("/a/b/c")), "../../login");
    assert_eq!(browser.get("/assets/console.css").status, StatusCode::OK);
    for path in ["/assets/nothing.js", "/assets/a/b", "/assets/"] {
        let answer = browser.get(path);
        assert_eq!(
            (answer.status, &*answer.text),
            (StatusCode::NOT_FOUND, ""),
            "it names no application: {path}"
        );
    }
    browser.get("/login");
    assert_eq!(browser.pause(), StatusCode::FORBIDDEN);
    assert_eq!(site.state(), "active");
    browser.cookies.insert("firetime_session".to_owned(), "0".repeat(64));
    assert!(browser.is_out());
    let nobody = Browser::new(site.pages(Options::new())).get("/login");
    assert_eq!(nobody.status, StatusCode::NOT_FOUND, "there is nobody who could log in");
}

fn a_login_leads_to_a_page_of_the_console() {
    let site = Site::new();
    let mut browser = site.browser();
    let wanted = browser.get("/schedules?state=paused&q=a+b");
    assert_eq!(location(&wanted), "login?to=schedules%3Fstate%3Dpaused%26q%3Da%2Bb");
    let form = browser.get(&format!("/{}", location(&wanted)));
    assert!(form.text.contains("name=\"to\" value=\"schedules?state=paused&#38;q=a+b\""), "{}", form.text);
    let to = |to: &str| {
        let mut browser = site.browser();
        browser.get("/login");
        let answer = browser.post("/login", &[("name", "ann"), ("password", "right"), ("to", to)]);
        location(&answer).to_owned()
    };
    assert_eq!(to("schedules?state=paused&q=a+b"), "schedules?state=paused&q=a+b");
    for elsewhere in
        ["", "https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", "logout"]
    {
        assert_eq!(to(elsewhere), "now", "{elsewhere}");
    }
}

/// Somebody may have planted an id in the browser, and know it.
fn a_login_has_an_id_that_nobody_knew_before() {
    let site = Site::new();
    let mut browser = site.browser();
    let planted = "ab".repeat(32);
    browser.cookies.insert("firetime_session".to_owned(), planted.clone());
    let token = browser.get("/login").headers["set-cookie"].clone();
    let mut browser = browser.logged_in("ann");
    let first = browser.cookies["firetime_session"].clone();
    assert!(first != planted && first.len() == 64, "{first}");
    assert!(
        !token.to_str().unwrap().contains(&browser.cookies["firetime_token"]),
        "forms have a new token too"
    );
    let mut thief = site.browser();
    for id in [&planted, ""] {
        let pages = browser.pages.clone();
        thief = Browser { pages, ..thief };
        thief.cookies.insert("firetime_session".to_owned(), id.to_owned());
        assert!(thief.is_out(), "{id}");
    }
    assert!(!browser.is_out());
    let mut again = browser.clone().logged_in("olga");
    assert_ne!(again.cookies["firetime_session"], first);
    assert!(!again.is_out() && browser.is_out(), "the login before it has ended");
}

/// Else a page elsewhere could log people in as somebody who then sees what they do.
fn a_form_from_elsewhere_logs_nobody_in_or_out() {
    let site = Site::new();
    let mut browser = site.browser();
    browser.get("/login");
    let fields = [("name", "ann"), ("password", "right"), ("token", "x")];
    assert_eq!(browser.send("/login", &fields).status, StatusCode::FORBIDDEN);
    let mut cross = browser.clone().with("sec-fetch-site", "cross-site");
    assert_eq!(cross.post("/login", &fields[..2]).status, StatusCode::FORBIDDEN);
    assert!(browser.is_out() && cross.is_out());
    let mut browser = browser.logged_in("ann");
    assert_eq!(browser.send("/logout", &[("token", "x")]).status, StatusCode::FORBIDDEN);
    assert_eq!(browser.get("/logout").status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(!browser.is_out());
    assert_eq!(
        browser.send("/change", &[("verb", "pause"), ("schedule", HOSTILE)]).status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(site.state(), "active", "a session alone changes nothing");
}

fn cookies_are_out_of_reach() {
    let site = Site::new();
    let all = |mut browser: Browser| {
        let mut lines: Vec<String> = Vec::new();
        let mut keep = |answer: Answer| {
            let cookies = answer.headers.get_all("set-cookie").into_iter();
            lines.extend(cookies.map(|line| line.to_str().unwrap().to_owned()));
        };
        keep(browser.get("/login"));
        keep(browser.post("/login", &[("name", "ann"), ("password", "right")]));
        keep(browser.post("/change", &[("verb", "pause"), ("schedule", HOSTILE)]));
        keep(browser.get("/now"));
        keep(browser.post("/logout", &[]));
        assert_eq!(lines.len(), 6, "{lines:?}");
        lines
    };
    let is_secure = |lines: Vec<String>| {
        for line in &lines {
            assert!(line.contains("; HttpOnly; SameSite="), "{line}");
            assert!(!line.contains("SameSite=None") && !line.contains("Domain="), "{line}");
        }
        let secure = lines.iter().filter(|line| line.contains("; Secure")).count();
        assert!(secure == 0 || secure == lines.len(), "{lines:?}");
        secure > 0
    };
    assert!(!is_secure(all(site.browser())));
    assert!(is_secure(all(Browser::new(site.pages(site.options().https(true))))));
    let https = |from: &str| all(site.browser().with("x-forwarded-proto", "https").from(from));
    assert!(is_secure(https("127.0.0.1:5000")) && !is_secure(https("10.0.0.1:5000")));
    assert!(!is_secure(all(site.browser().with("x-forwarded-proto", "https"))), "nobody knows the peer");
}

fn too_many_failed_logins_have_to_wait() {
    let site = Site::new();
    let pages = site.pages(site.options());
    let from = |address: &str| Browser::new(pages.clone()).from(address);
    for name in ["ann", "eve"] {
        for place in 0..5 {
            let answer = from(&format!("10.0.0.{place}:1")).try_password(name, "wrong");
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{name}");
        }
        let answer = from("10.0.0.99:1").try_password(name, "right");
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{name}, whether there is one or not");
        let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!(
            (1..=31).contains(&wait) && answer.text.contains(&format!("try again in {wait} s")),
            "{wait}"
        );
    }
    from("10.0.0.99:1").logged_in("olga");
    let mut same = from("10.0.1.1:1");
    let statuses: Vec<StatusCode> =
        (0..21).map(|n| same.try_password(&format!("x{n}"), "x").status).collect();
    assert_eq!(statuses.iter().filter(|it| **it == StatusCode::FORBIDDEN).count(), 20, "{statuses:?}");
    assert_eq!(same.try_password("olga", "right").status, StatusCode::TOO_MANY_REQUESTS);
    // Behind a proxy those count whom it names.
    let mut proxied = from("127.0.0.1:1").with("x-forwarded-for", "1.2.3.4, 10.0.1.1");
    assert_eq!(proxied.try_password("olga", "right").status, StatusCode::TOO_MANY_REQUESTS);
    from("127.0.0.1:1").with("x-forwarded-for", "10.0.1.1, 10.0.1.2").logged_in("olga");
}

fn a_right_password_frees_nobody_elses_tries() {
    let site = Site::new();
    let pages = site.pages(site.options());
    let mut browser = Browser::new(pages).from("10.0.0.1:1");
    for _ in 0..5 {
        assert_eq!(browser.try_password("ann", "wrong").status, StatusCode::FORBIDDEN);
        assert_eq!(browser.try_password("olga", "right").status, StatusCode::SEE_OTHER);
    }
    for _ in 0..20 {
        assert_eq!(
            browser.try_password("olga", "right").status,
            StatusCode::SEE_OTHER,
            "who is right never waits"
        );
    }
    assert_eq!(browser.try_password("ann", "right").status, StatusCode::TOO_MANY_REQUESTS);
}

/// Otherwise one address could guess as often as it likes, as long as somebody logs in from another.
fn a_right_password_frees_no_address() {
    let site = Site::new();
    let pages = site.pages(site.options());
    let from = |address: &str| Browser::new(pages.clone()).from(address);
    let (mut guesser, mut other) = (from("10.0.0.1:1"), from("10.0.0.2:1"));
    for n in 0..20 {
        assert_eq!(guesser.try_password(&format!("x{n}"), "x").status, StatusCode::FORBIDDEN, "{n}");
        assert_eq!(other.try_password("olga", "right").status, StatusCode::SEE_OTHER, "{n}");
    }
    assert_eq!(guesser.try_password("y", "x").status, StatusCode::TOO_MANY_REQUESTS);
    // Nor its own wrong tries, if it knows one password.
    let mut insider = from("10.0.0.3:1");
    for n in 0..20 {
        assert_eq!(insider.try_password(&format!("z{n}"), "x").status, StatusCode::FORBIDDEN, "{n}");
        let status = insider.try_password("olga", "right").status;
        assert_eq!(status, if n < 19 { StatusCode::SEE_OTHER } else { StatusCode::TOO_MANY_REQUESTS });
    }
}

fn a_login_ends_with_its_time() {
    let site = Site::new();
    let long = Duration::from_secs(3_600);
    let is_out = |idle: Duration, whole: Duration| {
        let pages = site.pages(site.options().login_lasts_idle(idle).login_lasts(whole));
        let mut browser = Browser::new(pages).logged_in("ann");
        assert!(browser.cookies.contains_key("firetime_session"));
        let refused = browser.pause() == StatusCode::FORBIDDEN;
        assert_eq!(browser.is_out(), refused);
        refused
    };
    assert!(!is_out(long, long));
    assert!(is_out(Duration::ZERO, long), "nobody was there for long enough");
    assert!(is_out(long, Duration::ZERO), "it has lasted long enough");
}

fn a_login_ends_with_its_line_in_the_file() {
    let site = Site::new();
    let mut browser = site.browser().logged_in("ann");
    let line = |role: &str, hash: &str| site.write(&[format!("user ann {role} {hash}")]);
    let shows_only = |browser: &mut Browser| browser.get("/now").text.contains("shows only");
    assert!(!shows_only(&mut browser));
    line("viewer", RIGHT);
    assert!(!browser.is_out() && shows_only(&mut browser), "the role is another at once");
    assert_eq!(browser.pause(), StatusCode::FORBIDDEN);
    line("admin", NEW);
    assert!(browser.is_out(), "the password is another");
    assert_eq!(browser.try_password("ann", "right").status, StatusCode::FORBIDDEN);
    assert_eq!(browser.try_password("ann", "new").status, StatusCode::SEE_OTHER);
    assert!(!browser.is_out());
    line("admin", "oops");
    assert!(browser.is_out(), "nobody is known while the file is wrong");
    site.write(&[format!("user olga admin {RIGHT}")]);
    assert!(browser.is_out(), "the user is gone");
}

fn a_session_has_the_role_of_its_user() {
    let site = Site::new();
    for (name, pauses, removes) in [("victor", false, false), ("olga", true, false), ("ann", true, true)] {
        let mut browser = site.browser().logged_in(name);
        assert_eq!(browser.pause() == StatusCode::SEE_OTHER, pauses, "{name}");
        let removal = browser.post("/change", &[("verb", "remove"), ("schedule", "none")]);
        assert_eq!(removal.status == StatusCode::SEE_OTHER, removes, "{name}: {}", removal.text);
    }
}

fn a_header_is_believed_of_the_proxy_alone() {
    let site = Site::new();
    let header = || TrustedHeader::new("X-User", Role::Viewer).unwrap().role_header("X-Role").unwrap();
    let trusting = || Options::new().trust(header());
    let ask = |options: Options, from: Option<&str>, lines: &[(&'static str, &str)]| {
        let browser = Browser::new(site.pages(options));
        let browser = from.into_iter().fold(browser, Browser::from);
        lines.iter().fold(browser, |browser, (name, value)| browser.with(name, value)).get("/now")
    };
    let (proxy, other) = (Some("127.0.0.1:4000"), Some("10.0.0.1:4000"));
    let page = ask(trusting(), proxy, &[("x-user", "zoe")]);
    assert!(page.status == StatusCode::OK && page.text.contains("<span>zoe</span>"), "{}", page.text);
    assert!(page.text.contains("shows only") && !page.text.contains("logout"), "{}", page.text);
    let admin = [("x-user", "zoe"), ("x-role", "admin")];
    assert!(!ask(trusting(), proxy, &admin).text.contains("shows only"));
    for from in [other, None] {
        for lines in [&admin[..], &[("x-user", "zoe")], &[("x-role", "admin")], &[]] {
            let answer = ask(trusting(), from, lines);
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{from:?} {lines:?}: {}", answer.text);
        }
    }
    assert_eq!(ask(trusting(), proxy, &[]).status, StatusCode::FORBIDDEN, "it names nobody");
    assert_eq!(ask(trusting(), proxy, &[("x-user", "")]).status, StatusCode::FORBIDDEN);
    let named = || trusting().proxy("10.0.0.1".parse().unwrap());
    assert_eq!(ask(named(), other, &admin).status, StatusCode::OK);
    assert_eq!(ask(named(), proxy, &admin).status, StatusCode::FORBIDDEN, "it is not that one");
    // Beside logins of its own, and without any.
    assert_eq!(ask(site.options().trust(header()), other, &admin).status, StatusCode::FORBIDDEN);
    assert_eq!(ask(site.options().trust(header()), other, &[]).status, StatusCode::SEE_OTHER);
    assert_eq!(ask(site.options(), proxy, &admin).status, StatusCode::SEE_OTHER, "nobody trusts the header");
    let mut browser = Browser::new(site.pages(trusting())).from("127.0.0.1:4000");
    browser = browser.with("x-user", "zoe").with("x-role", "operator");
    browser.get("/now");
    assert_eq!(browser.pause(), StatusCode::SEE_OTHER);
    assert_eq!(last(&site.client).1, "zoe");
}

fn programs_ask_with_a_token() {
    let site = Site::new();
    let new = NewToken::generate().unwrap();
    site.write(&[format!("token deploy viewer {}", new.hash)]);
    let ask = |line: &str| site.browser().with("authorization", line).get("/now");
    let page = ask(&format!("Bearer {}", new.token));
    assert!(page.status == StatusCode::OK && page.text.contains("<span>deploy</span>"), "{}", page.text);
    for wrong in [NewToken::generate().unwrap().token, "firetime_".to_owned()] {
        assert_eq!(ask(&format!("Bearer {wrong}")).status, StatusCode::UNAUTHORIZED);
    }
    // That of another login, such as a proxy's.
    assert_eq!(ask("Basic YW5uOnJpZ2h0").status, StatusCode::SEE_OTHER);
    assert_eq!(ask("Bearer eyJhbGciOiJIUzI1NiJ9").status, StatusCode::SEE_OTHER);
}

fn a_console_without_a_name() {
    let (database, _client) = hostile();
    let client = Client::connect(crate::support::scheduler::APPLICATION, &database.url).unwrap();
    assert_eq!(client.actor(), None);
    let mut browser = Browser::new(router(client.clone(), Options::new()));
    browser.get("/now");
    assert_eq!(browser.pause(), StatusCode::SEE_OTHER);
    assert_eq!(last(&client).1, "console");
}

/// Its sessions may not write, as those of a standby.
#[cfg(feature = "postgres")]
fn a_standby_makes_everybody_a_viewer() {
    use crate::support::database::ServerKind;

    let database = ServerKind::Postgres.fresh();
    let writing = crate::support::scheduler::client(&database);
    let trigger = firetime::Trigger::every(Duration::from_secs(90)).unwrap();
    let schedule = firetime::Schedule::new(HOSTILE, crate::console::TEXT, &String::new(), trigger).unwrap();
    writing.ensure(&schedule).run().unwrap();
    let url = format!("{}?options=-cdefault_transaction_read_only%3Don", database.url);
    let reading = Client::connect(crate::support::scheduler::APPLICATION, &url).unwrap();
    assert_eq!((writing.is_read_only().unwrap(), reading.is_read_only().unwrap()), (false, true));
    let path = format!("/schedule?{}", encoded(&[("name", HOSTILE)]));
    for (client, is_standby) in [(writing, false), (reading, true)] {
        let mut browser = Browser::new(router(client.clone(), Options::new()));
        let page = browser.get(&path);
        assert_eq!(
            page.text.contains("the database is a standby, or read-only"),
            is_standby,
            "{}",
            page.text
        );
        assert_eq!(page.text.contains("verb=remove"), !is_standby, "{}", page.text);
        let confirm = browser.get(&format!("/confirm?verb=pause&{}", encoded(&[("schedule", HOSTILE)])));
        assert_eq!(confirm.status == StatusCode::FORBIDDEN, is_standby, "{}", confirm.text);
        let answer = browser.post("/change", &[("verb", "run"), ("schedule", HOSTILE)]);
        assert_eq!(answer.status == StatusCode::FORBIDDEN, is_standby, "{}", answer.text);
        assert_eq!(answer.text.contains("wait until this one is promoted"), is_standby, "{}", answer.text);
    }
}

#[cfg(feature = "cli")]
fn the_program_makes_the_secrets() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let run = |arguments: &[&str], typed: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_firetime"));
        program.arg("console").args(arguments).stdin(Stdio::piped());
        let mut program = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        program.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = program.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, hash, said) = run(&["hash-password"], "right and long\nmore");
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let (code, made, _) = run(&["new-token", "deploy", "--role", "operator"], "");
    assert_eq!(code, Some(0));
    let (token, line) = made.trim_end().split_once('\n').unwrap();
    assert!(line.starts_with("token deploy operator sha256:"), "{line}");
    let site = Site::new();
    site.write(&[format!("user ann admin {hash}"), line.to_owned()]);
    assert_eq!(site.browser().try_password("ann", "right and long").status, StatusCode::SEE_OTHER);
    let page = site.browser().with("authorization", &format!("Bearer {token}")).get("/now");
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert_eq!(run(&["hash-password"], "\n").0, Some(2), "no password");
    assert_eq!(run(&["hash-password", "secret"], "").0, Some(2), "a password is no argument");
    assert_eq!(run(&["new-token", "two words"], "").0, Some(2));
    assert_eq!(run(&["new-token", "x", "--role", "root"], "").0, Some(2));
}

#[cfg(feature = "cli")]
fn the_program_listens_elsewhere() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};

    let (database, _client) = hostile();
    let site = Site::new();
    let file = site.file().display().to_string();
    let console = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firetime"));
        command.args(["console", "--listen", "0.0.0.0:0"]).args(arguments);
        command.env("FIRETIME_DATABASE_URL", &database.url);
        command.env("FIRETIME_APPLICATION", crate::support::scheduler::APPLICATION);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let asked = |arguments: &[&str], more: &str| {
        let mut served = console(arguments);
        let mut line = String::new();
        BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("the console is at http://0.0.0.0:").unwrap().trim_end_matches('/');
        let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{address}")).unwrap();
        write!(stream, "GET /now HTTP/1.1\r\nhost: localhost\r\n{more}connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        served.kill().unwrap();
        served.wait().unwrap();
        answer
    };
    let answer = asked(&["--users", &file], "");
    assert!(answer.starts_with("HTTP/1.1 303") && answer.contains("location: login?to=now"), "{answer}");
    let zoe = "x-user: zoe\r\n";
    let answer = asked(&["--trust-header", "X-User", "--role", "operator"], zoe);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("<span>zoe</span>"), "{answer}");
    assert!(!answer.contains("shows only"), "{answer}");
    let answer = asked(&["--trust-header", "X-User", "--proxy", "10.9.9.9"], zoe);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    fs::set_permissions(site.file(), Permissions::from_mode(0o644)).unwrap();
    for (arguments, said) in [
        (&["--users", file.as_str()][..], "chmod o-rwx"),
        (&["--trust-header", "no header"], "no header's name"),
        (&["--users", "/nowhere/users"], "reading the users file"),
    ] {
        let mut refused = console(arguments);
        let mut served = String::new();
        BufReader::new(refused.stdout.take().unwrap()).read_line(&mut served).unwrap();
        if !served.is_empty() {
            refused.kill().unwrap();
        }
        let refused = refused.wait_with_output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && error.contains(said), "{arguments:?}: {error}");
    }
}

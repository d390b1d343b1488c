//! Whoever looks at an open page and may do so no more loses it, and looking on keeps no login alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::StatusCode;
use firetime::console::{NewToken, Options, Role, User};
use libtest_mimic::Trial;

use crate::live::{Page, run};
use crate::logins::{Browser, NEW, RIGHT, Site};
use crate::trial;

/// A stream that nobody ends lasts two minutes.
const SOON: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(3_600);

pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn())] = &[
        ("an_open_page_ends_with_its_login", an_open_page_ends_with_its_login),
        ("an_open_page_ends_with_its_users_role", an_open_page_ends_with_its_users_role),
        ("an_open_page_ends_with_a_programs_token", an_open_page_ends_with_a_programs_token),
        ("an_open_page_ends_with_the_applications_login", an_open_page_ends_with_the_applications_login),
        ("an_open_page_ends_when_nobody_has_come_for_long", an_open_page_ends_when_nobody_has_come),
        ("pages_that_are_opened_anew_keep_no_login_alive", pages_that_are_opened_anew_keep_no_login_alive),
        ("a_stream_of_nobody_says_so_and_shows_nothing", a_stream_of_nobody_says_so),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("onlookers::{name}"), *test));
    }
}

/// The last event of an open page before it ends, after this.
#[track_caller]
fn last_after(
    pages: &Router,
    lines: &[(&str, &str)],
    change: impl FnOnce() + Send + 'static,
) -> Option<String> {
    let mut last = None;
    run(async {
        let (status, _, mut page) = Page::open_as(pages, "schedules", lines).await;
        assert_eq!((status, page.event().await.0.as_str()), (StatusCode::OK, "parts"));
        tokio::task::spawn_blocking(change).await.unwrap();
        let changed = Instant::now();
        let told = tokio::time::timeout(SOON, page.last()).await.expect("the stream ends");
        assert!(changed.elapsed() < SOON);
        last = told;
    });
    last
}

fn an_open_page_ends_with_its_login() {
    let site = Site::new();
    let pages = site.pages(site.options());
    let mut browser = Browser::new(pages.clone()).logged_in("ann");
    let cookie = browser.cookie();
    let log_out = move || drop(browser.post("/logout", &[]));
    assert_eq!(last_after(&pages, &[("cookie", &cookie)], log_out).as_deref(), Some("out"));
}

/// A new role makes it another page, which the browser opens; another password ends the login.
fn an_open_page_ends_with_its_users_role() {
    let site = Arc::new(Site::new());
    let pages = site.pages(site.options());
    let cookie = Browser::new(pages.clone()).logged_in("ann").cookie();
    let line = |role: &str, hash: &str| {
        let (site, line) = (Arc::clone(&site), format!("user ann {role} {hash}"));
        move || site.write(&[line])
    };
    let lines = [("cookie", cookie.as_str())];
    assert_ne!(last_after(&pages, &lines, line("viewer", RIGHT)).as_deref(), Some("out"));
    assert_eq!(last_after(&pages, &lines, line("viewer", NEW)).as_deref(), Some("out"));
}

fn an_open_page_ends_with_a_programs_token() {
    let site = Arc::new(Site::new());
    let new = NewToken::generate().unwrap();
    site.write(&[format!("token wall viewer {}", new.hash)]);
    let pages = site.pages(site.options());
    let line = format!("Bearer {}", new.token);
    let site = Arc::clone(&site);
    let remove = move || site.write(&["# nobody".to_owned()]);
    assert_eq!(last_after(&pages, &[("authorization", &line)], remove).as_deref(), Some("out"));
}

fn an_open_page_ends_with_the_applications_login() {
    let site = Site::new();
    let role = Arc::new(AtomicUsize::new(2));
    let known = Arc::clone(&role);
    let user = move |_: &axum::http::request::Parts| {
        Some(User::new("ann", *Role::ALL.get(known.load(Ordering::SeqCst))?))
    };
    let pages = site.pages(Options::new().user(user));
    for now in [0, 7] {
        let role = Arc::clone(&role);
        let last = last_after(&pages, &[], move || role.store(now, Ordering::SeqCst));
        assert_ne!(last.as_deref(), Some("out"), "it is opened anew, as what they may see");
    }
}

fn an_open_page_ends_when_nobody_has_come() {
    let site = Site::new();
    let pages = site.pages(site.options().login_lasts_idle(Duration::from_secs(5)).login_lasts(LONG));
    let cookie = Browser::new(pages.clone()).logged_in("ann").cookie();
    assert_eq!(last_after(&pages, &[("cookie", &cookie)], || {}).as_deref(), Some("out"));
}

/// A browser does so after each of the ends that a stream has.
fn pages_that_are_opened_anew_keep_no_login_alive() {
    let site = Site::new();
    let pages = site.pages(site.options().login_lasts_idle(Duration::from_secs(3)).login_lasts(LONG));
    let cookie = Browser::new(pages.clone()).logged_in("ann").cookie();
    run(async {
        let (begun, mut told) = (Instant::now(), Vec::new());
        while told.last().is_none_or(|last| last != "out") {
            assert!(begun.elapsed() < SOON, "it is still alive after {} pages", told.len());
            let (_, _, mut page) = Page::open_as(&pages, "now", &[("cookie", &cookie)]).await;
            told.push(page.event().await.0);
        }
        assert_eq!(told[0], "parts", "it was logged in");
    });
}

fn a_stream_of_nobody_says_so() {
    let site = Site::new();
    let pages = site.pages(site.options());
    run(async {
        let (status, headers, mut page) = Page::open_as(&pages, "schedules", &[]).await;
        assert_eq!((status, &headers["x-accel-buffering"]), (StatusCode::OK, &"no".parse().unwrap()));
        let (name, data) = page.event().await;
        assert_eq!(name, "out");
        assert!(data["said"].as_str().unwrap().contains("not logged in"), "{data}");
        assert_eq!(page.last().await, None);
    });
}

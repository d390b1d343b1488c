//! The console in a browser: headless Chromium against live clusters on SQLite and PostgreSQL.
//!
//! `scripts/test.sh` runs it as a part of its own. With `FIRETIME_PICTURES=FOLDER` it makes pictures of every
//! page instead (`scripts/console-pictures.sh`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::type_complexity,
    reason = "tests look at the real clock, make threads, print figures and list themselves in a table"
)]

mod accessible;
mod browser;
#[allow(dead_code, reason = "the cluster tests cut more")]
mod chaos;
mod crowd;
#[path = "../it/support/database.rs"]
#[allow(dead_code, reason = "the cluster tests ask for more")]
mod database;
mod demo;
mod hostile;
mod keyboard;
mod login;
mod opens;
mod outage;
mod page;
mod pictures;
mod shop;
mod verbs;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};

use browser::Browser;
use database::ServerKind;
use page::Page;

/// So long anything may take that a test waits for.
pub const SOON: Duration = Duration::from_secs(30);

/// One browser for all tests: each has a tab with cookies of its own.
static BROWSER: Mutex<Option<Browser>> = Mutex::new(None);

/// A new tab.
pub fn tab() -> Page {
    BROWSER.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Browser::start).page()
}

fn main() {
    let conclusion = match std::env::var_os("FIRETIME_PICTURES") {
        Some(folder) => {
            pictures::make(folder.as_ref());
            None
        }
        None => Some(libtest_mimic::run(&Arguments::from_args(), trials())),
    };
    drop(BROWSER.lock().unwrap_or_else(PoisonError::into_inner).take());
    if let Some(conclusion) = conclusion {
        conclusion.exit();
    }
}

fn trials() -> Vec<Trial> {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("every_page_opens_in_every_width", opens::every_page_opens_in_every_width),
        ("schedules_are_steered_by_clicking", verbs::schedules_are_steered_by_clicking),
        (
            "executions_are_cancelled_and_tried_again_by_clicking",
            verbs::executions_are_cancelled_and_tried_again_by_clicking,
        ),
        ("jobs_and_nodes_are_steered_by_clicking", verbs::jobs_and_nodes_are_steered_by_clicking),
        ("schedules_are_edited_by_clicking", verbs::schedules_are_edited_by_clicking),
        ("many_are_changed_by_clicking", verbs::many_are_changed_by_clicking),
        (
            "all_schedules_of_a_filter_are_paused_and_resumed_by_clicking",
            verbs::all_schedules_of_a_filter_are_paused_and_resumed_by_clicking,
        ),
        ("what_was_missed_is_run_from_its_cell", verbs::what_was_missed_is_run_from_its_cell),
        ("a_schedule_is_paused_by_the_keyboard_alone", keyboard::a_schedule_is_paused_by_the_keyboard_alone),
        ("scripts_are_not_needed", keyboard::scripts_are_not_needed),
        ("people_log_in_and_out", login::people_log_in_and_out),
        ("hostile_names_are_text", hostile::hostile_names_are_text),
        (
            "an_open_page_hears_of_changes_and_of_an_outage",
            outage::an_open_page_hears_of_changes_and_of_an_outage,
        ),
        ("two_hundred_open_pages_make_no_start_late", crowd::two_hundred_open_pages_make_no_start_late),
        ("a_page_tells_of_an_outage_and_is_well_again", outage::a_page_tells_of_an_outage_and_is_well_again),
    ];
    let mut trials = Vec::new();
    for kind in [ServerKind::Sqlite, ServerKind::Postgres] {
        let mut add = |name: &str, test: fn(ServerKind)| {
            trials.push(Trial::test(format!("{}::{name}", kind.name()), move || {
                test(kind);
                Ok(())
            }));
        };
        tests.iter().for_each(|(name, test)| add(name, *test));
    }
    trials.push(Trial::test("the_demo_is_seen_in_the_console", || {
        demo::the_demo_is_seen_in_the_console();
        Ok(())
    }));
    trials.push(Trial::test("every_link_leads_to_a_page", || {
        opens::every_link_leads_to_a_page(ServerKind::Sqlite);
        Ok(())
    }));
    // Without axe the test is not there: scripts/test.sh says so.
    if std::env::var_os(accessible::FILE).is_some() {
        trials.push(Trial::test("axe_finds_nothing_serious", || {
            accessible::axe_finds_nothing_serious(ServerKind::Sqlite);
            Ok(())
        }));
    }
    trials
}

/// Looks again and again until there is what it looks for.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

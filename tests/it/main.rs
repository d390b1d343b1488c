//! The tests that need more than one module: clusters of processes on real databases, a scheduler's life,
//! the program, the architecture.
//!
//! Tests of a database are named after it (`sqlite::...`, `postgres::...`, `mariadb::...`). PostgreSQL and
//! MariaDB are those that `scripts/with-servers.sh` starts; without them their tests fail and say so.

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
    reason = "tests look at the real clock, print figures, and list themselves in tables"
)]
#![cfg_attr(
    not(all(
        feature = "postgres",
        feature = "mysql",
        feature = "sqlite",
        feature = "tokio",
        feature = "cli"
    )),
    allow(unused, reason = "many cases need one of these")
)]

mod architecture;
mod arguments;
mod chaos;
mod cluster;
#[cfg(feature = "cli")]
mod command;
#[cfg(all(feature = "sqlite", feature = "console"))]
mod console;
#[cfg(all(feature = "sqlite", feature = "console"))]
mod console_api;
mod control;
mod cron;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod distant;
#[cfg(all(feature = "sqlx", feature = "tokio-postgres", feature = "diesel-async"))]
mod drivers;
mod edited;
#[cfg(all(feature = "sqlite", feature = "tokio"))]
mod examples;
mod leftovers;
mod life;
#[cfg(all(feature = "sqlite", feature = "console"))]
mod live;
#[cfg(all(feature = "sqlite", feature = "console"))]
mod logins;
#[cfg(feature = "mysql")]
mod members;
#[cfg(all(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "tokio"))]
mod misuse;
mod news;
mod observed;
#[cfg(all(feature = "sqlite", feature = "console"))]
mod onlookers;
mod payloads;
mod poison;
#[cfg(all(feature = "cli", feature = "testing"))]
mod replayed;
mod requests;
mod rerun;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod roles;
mod rules;
mod saying;
mod secrets;
mod support;
mod synced;
#[cfg(feature = "tokio")]
mod tasks;
#[cfg(feature = "cli")]
mod terminal;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tls;
mod verified;
mod waited;
mod why;
mod why_in_chaos;

use libtest_mimic::{Arguments, Trial};

fn main() {
    // A node process of a cluster test is this binary again.
    if support::node::is_wanted() {
        return support::node::main();
    }
    if leftovers::is_wanted() {
        return leftovers::main();
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    add_single(&mut trials);
    for database in support::database::all() {
        chaos::add(&mut trials, database);
        cluster::add(&mut trials, database);
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        distant::add(&mut trials, database);
        #[cfg(all(feature = "sqlite", feature = "console", any(feature = "postgres", feature = "mysql")))]
        live::add_far(&mut trials, database);
        leftovers::add(&mut trials, database);
        #[cfg(all(feature = "sqlx", feature = "tokio-postgres", feature = "diesel-async"))]
        drivers::add(&mut trials, database);
        life::add(&mut trials, database);
        observed::add(&mut trials, database);
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        roles::add(&mut trials, database);
        news::add(&mut trials, database);
        payloads::add(&mut trials, database);
        rules::add(&mut trials, database);
        saying::add(&mut trials, database);
        synced::add(&mut trials, database);
        rerun::add(&mut trials, database);
        #[cfg(all(feature = "cli", feature = "testing"))]
        replayed::add(&mut trials, database);
        waited::add(&mut trials, database);
        why::add(&mut trials, database);
        why_in_chaos::add(&mut trials, database);
        verified::add(&mut trials, database);
        #[cfg(feature = "tokio")]
        tasks::add(&mut trials, database);
        control::add(&mut trials, database);
        poison::add(&mut trials, database);
        requests::add(&mut trials, database);
        #[cfg(feature = "cli")]
        command::add(&mut trials, database);
        #[cfg(feature = "cli")]
        terminal::add(&mut trials, database);
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        tls::add(&mut trials, database);
        secrets::add(&mut trials, database);
        edited::add(&mut trials, database);
        arguments::add(&mut trials, database);
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// What is there once, not on each database.
fn add_single(trials: &mut Vec<Trial>) {
    architecture::add(trials);
    #[cfg(all(feature = "sqlite", feature = "tokio"))]
    examples::add(trials);
    #[cfg(all(feature = "sqlite", feature = "console"))]
    add_consoles(trials);
    #[cfg(all(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "tokio"))]
    misuse::add(trials);
    cron::add(trials);
    chaos::add_own(trials);
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    chaos::add_together(trials);
}

#[cfg(all(feature = "sqlite", feature = "console"))]
fn add_consoles(trials: &mut Vec<Trial>) {
    console::add(trials);
    console_api::add(trials);
    live::add(trials);
    logins::add(trials);
    onlookers::add(trials);
}

/// A test called `name`.
fn trial(name: String, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

//! Texts that steer terminals, from rows and from the command line: what the program prints is text, and its
//! JSON is JSON.

use std::process::{Command, Output};

use chrono::{TimeDelta, Utc};
use firetime::{Client, ExecutionFilter, Job, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::trial;

const APPLICATION: &str = "terminal";
const TEXT: Job<String> = Job::new("text");
/// Clears a screen, begins a line, hides and turns what follows, and needs quotes in SQL, JSON and a shell.
const NASTY: &str = "a'\"\\`$(b)\u{1b}[2J\u{1b}]0;title\u{7}\r\nERROR made up\u{9b}1m\u{202e}\u{200b}é☕";

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("rows_steer_no_terminal", rows_steer_no_terminal),
        ("errors_of_handlers_steer_no_terminal", errors_of_handlers_steer_no_terminal),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::terminal::{name}", kind.name()), move || test(kind)));
    }
    if kind.name() == "sqlite" {
        let others: [(&str, fn()); 3] = [
            ("terminal::arguments_steer_no_terminal", arguments_steer_no_terminal),
            ("terminal::names_out_of_range_are_refused", names_out_of_range_are_refused),
            ("terminal::a_local_time_needs_its_offset", a_local_time_needs_its_offset),
        ];
        trials.extend(others.map(|(name, test)| trial(name.to_owned(), test)));
    }
}

fn firetime(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firetime"));
    command.args(arguments).env_remove("FIRETIME_DATABASE_URL").env_remove("FIRETIME_APPLICATION");
    command
}

fn on(database: &Database, arguments: &[&str]) -> Output {
    let mut command = firetime(arguments);
    command.env("FIRETIME_DATABASE_URL", &database.url).env("FIRETIME_APPLICATION", APPLICATION);
    command.output().unwrap()
}

/// What is shown, which may hold line feeds and nothing else that is no text.
fn shown(output: &[u8]) -> String {
    let text = String::from_utf8(output.to_vec()).unwrap();
    let steers = |c: char| c != '\n' && (c.is_control() || ['\u{202e}', '\u{200b}'].contains(&c));
    assert!(!text.contains(steers), "{text:?}");
    text
}

fn table(database: &Database, what: &str) -> String {
    let output = on(database, &[what]);
    assert!(output.status.success(), "{}", shown(&output.stderr));
    shown(&output.stdout)
}

fn json(database: &Database, what: &str) -> Vec<serde_json::Value> {
    let output = on(database, &[what, "--output", "json"]);
    assert!(output.status.success(), "{}", shown(&output.stderr));
    serde_json::from_str(&shown(&output.stdout)).unwrap()
}

/// A schedule that has run, its node still to be seen.
fn ran(kind: ServerKind, error: Option<&'static str>) -> (Database, Client) {
    let database = kind.fresh();
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let scheduler = Scheduler::builder(APPLICATION, &database.url)
        .handler(TEXT, move |_, _| {
            tell.lock().unwrap().send(()).ok();
            error.map_or(Ok(()), |error| Err(error.into()))
        })
        .start()
        .unwrap();
    let client = scheduler.client();
    let soon = Trigger::once(Utc::now() + TimeDelta::milliseconds(100)).unwrap();
    client.ensure(&Schedule::new("s", TEXT, &String::new(), soon).unwrap()).run().unwrap();
    told.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    assert!(scheduler.shutdown(std::time::Duration::from_secs(30)).is_clean());
    (database, client)
}

fn rows_steer_no_terminal(kind: ServerKind) {
    let (database, client) = ran(kind, None);
    let literal = |text: &str| {
        let text = text.replace('\'', "''");
        if kind.name() == "mariadb" { text.replace('\\', "\\\\") } else { text }
    };
    let jobs = literal(&serde_json::to_string(&[NASTY]).unwrap());
    let nasty = literal(NASTY);
    database.batch(&format!("UPDATE QRTZ_EXECUTE SET name = '{nasty}', reason = '{nasty}', cron = '{nasty}', job_type = 'CRON', zone_id = '{nasty}'"));
    database.batch(&format!("UPDATE QRTZ_JOB SET job_class = '{nasty}'"));
    database
        .batch(&format!("UPDATE QRTZ_NODE SET host_name = '{nasty}', host_ip = '{nasty}', jobs = '{jobs}'"));
    database.batch(&format!("UPDATE QRTZ_RUN SET reason = '{nasty}', error = '{nasty}', result = '{nasty}'"));

    for what in ["schedules", "executions", "nodes"] {
        let table = table(&database, what);
        assert_eq!(table.lines().count(), 2, "{what}: {table}");
        assert!(table.contains(r"\u{1b}[2J") && table.contains("é☕"), "{table}");
        assert_eq!(json(&database, what).len(), 1);
    }
    assert_eq!(json(&database, "schedules")[0]["name"], NASTY);
    assert_eq!(json(&database, "executions")[0]["error"], NASTY);
    assert_eq!(json(&database, "nodes")[0]["jobs"][0], NASTY);
    assert_eq!(client.schedules().unwrap()[0].name, NASTY, "the library gives what is there");

    database.batch("UPDATE QRTZ_RUN SET state = 'RUNNING'");
    if kind.name() == "postgres" {
        database.batch(
            "INSERT INTO QRTZ_CLAIM (first_run, last_run, application, node) SELECT id, id, application, node FROM QRTZ_RUN",
        );
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/ops/claimed.sh");
    // A server's shell often has no locale; the clients would choose their character set by it.
    let output =
        Command::new(script).env("FIRETIME_DATABASE_URL", &database.url).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("RUNNING") && text.contains("made up"), "{text}");
    assert!(!text.contains(|c: char| c != '\n' && c != '\t' && c.is_control()), "{text:?}");
}

fn errors_of_handlers_steer_no_terminal(kind: ServerKind) {
    let (database, client) = ran(kind, Some(NASTY));
    let table = table(&database, "executions");
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.contains(r"\u{1b}[2J") && table.contains("made up"), "{table}");
    assert_eq!(json(&database, "executions")[0]["error"], NASTY);
    assert_eq!(client.executions(&ExecutionFilter::default()).unwrap()[0].error, NASTY);
}

fn arguments_steer_no_terminal() {
    // The second has nothing that a name may not have.
    [NASTY, "a'\"\\\u{202e}\u{200b}\u{feff}b"]
        .iter()
        .for_each(|nasty| arguments_steer_no_terminal_with(nasty));
}

fn arguments_steer_no_terminal_with(nasty: &str) {
    let option = format!("--{nasty}");
    let lines: &[&[&str]] = &[
        &[nasty],
        &[&option],
        &["--application", nasty, "schedules"],
        &["--application", "x", "--database-url-file", nasty, "schedules"],
        &["--log-config", nasty, "--application", "x", "schedules"],
        &["--application", "x", "executions", "--state", nasty],
        &["--application", "x", "executions", "--node", nasty],
        &["--application", "x", "executions", "--since", nasty],
        &["--application", "x", "executions", "--limit", nasty],
        &["--application", "x", "executions", "--output", nasty],
        &["cron", nasty],
        &["cron", "next", nasty],
        &["cron", "next", "@daily", "--zone", nasty],
        &["cron", "next", "@daily", "--after", nasty],
        &["cron", "next", "--file", nasty],
        &["demo", "--keep", nasty, "surplus"],
    ];
    for line in lines {
        let url = "sqlite:/nowhere/x.db";
        let output = firetime(line).env("FIRETIME_DATABASE_URL", url).output().unwrap();
        assert!(!output.status.success(), "{line:?}");
        let said = shown(&output.stdout) + &shown(&output.stderr);
        assert!(!said.is_empty() && !said.lines().any(|line| line.starts_with("ERROR")), "{line:?}: {said}");
    }
    for url in [nasty, &format!("sqlite:/nowhere/{nasty}.db"), &format!("{nasty}://me@host/x")] {
        let line = ["--application", "x", "-vvv", "schedules"];
        let output = firetime(&line).env("FIRETIME_DATABASE_URL", url).output().unwrap();
        assert!(!output.status.success() && !shown(&output.stderr).is_empty());
    }
    for line in [&["--help"][..], &["schedules", "--help"], &["--version"]] {
        let output = firetime(line).env("FIRETIME_APPLICATION", nasty).output().unwrap();
        assert!(output.status.success());
        assert!(!shown(&output.stdout).contains("a'\""), "an environment's values are its own");
    }
}

fn names_out_of_range_are_refused() {
    let long = "é".repeat(51);
    for (name, word) in [("", "--application"), (long.as_str(), "51 characters"), ("a\nb", "control")] {
        let output = firetime(&["--application", name, "schedules"])
            .env("FIRETIME_DATABASE_URL", "sqlite:/nowhere/x.db")
            .output()
            .unwrap();
        let said = shown(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name:?}: {said}");
        assert!(said.contains(word), "{said}");
    }
    // Quotes and wildcards are letters like any other.
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("x.db").display());
    firetime::migrate(&url).unwrap();
    for name in ["'", "\"", "'; DROP TABLE QRTZ_EXECUTE; --", "%", "*", "\\", "$HOME"] {
        let output = firetime(&["--application", name, "schedules", "--output", "json"])
            .env("FIRETIME_DATABASE_URL", &url)
            .output()
            .unwrap();
        let said = shown(&output.stderr);
        assert_eq!((output.status.code(), shown(&output.stdout).as_str()), (Some(4), ""), "{name}: {said}");
        assert!(said.contains(&format!("{name:?}")), "{said}");
    }
}

/// On 26 October 2025 Berlin's clocks showed half past two twice.
fn a_local_time_needs_its_offset() {
    let since = ["--application", "x", "executions", "--since", "2025-10-26T02:30:00"];
    let after = ["cron", "next", "@daily", "--zone", "Europe/Berlin", "--after", "2025-10-26T02:30:00"];
    for line in [&since[..], &after[..]] {
        let output = firetime(line).env("FIRETIME_DATABASE_URL", "sqlite:/nowhere/x.db").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(shown(&output.stderr).contains("offset"), "{}", shown(&output.stderr));
    }
    let next = |after: &str| {
        let line =
            ["cron", "next", "0 0 * * * ?", "--zone", "Europe/Berlin", "--count", "1", "--after", after];
        shown(&firetime(&line).output().unwrap().stdout)
    };
    assert!(next("2025-10-26T02:30:00+02:00").contains("2025-10-26 01:00:00.000"));
    assert!(next("2025-10-26T02:30:00+01:00").contains("2025-10-26 02:00:00.000"));
}

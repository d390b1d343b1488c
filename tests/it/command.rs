//! The program and the operators' script, as people use them.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use chrono::Utc;
use firetime::{Client, Paused, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::node::{APPLICATION, Line, Nodes, WORK};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("it_shows_schedules_nodes_and_executions", it_shows_schedules_nodes_and_executions),
        ("it_never_shows_a_password", it_never_shows_a_password),
        ("it_changes_what_it_is_told_to_and_says_who_did", it_changes_what_it_is_told_to_and_says_who_did),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::command::{name}", kind.name()), move || test(kind)));
    }
    if kind.name() == "sqlite" {
        trials.push(trial(
            "sqlite::command::the_demos_verdict_is_clean".to_owned(),
            the_demos_verdict_is_clean,
        ));
        trials.push(trial(
            "command::cron_next_answers_line_by_line".to_owned(),
            cron_next_answers_line_by_line,
        ));
        trials.push(trial(
            "command::looking_makes_no_database_file".to_owned(),
            looking_makes_no_database_file,
        ));
        trials.push(trial("command::a_wrong_use_ends_with_code_2".to_owned(), a_wrong_use_ends_with_code_2));
        let small: [(&str, fn(ServerKind)); 3] = [
            ("command::a_mistyped_name_is_no_empty_table", a_mistyped_name_is_no_empty_table),
            ("command::a_cut_off_list_says_so", a_cut_off_list_says_so),
            ("command::why_a_schedule_does_not_fire_is_shown", why_a_schedule_does_not_fire_is_shown),
        ];
        trials.extend(small.map(|(name, test)| trial(name.to_owned(), move || test(kind))));
    }
}

fn firetime(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firetime"));
    command.args(arguments).env_remove("FIRETIME_DATABASE_URL").env_remove("FIRETIME_APPLICATION");
    command
}

fn on(database: &Database, arguments: &[&str]) -> Output {
    firetime(arguments)
        .env("FIRETIME_DATABASE_URL", &database.url)
        .env("FIRETIME_APPLICATION", APPLICATION)
        .output()
        .unwrap()
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// What it says on standard error as it refuses.
fn refused(output: &Output, code: i32) -> String {
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), ""));
    text(&output.stderr)
}

/// An operator's session, beside nodes that are not there: nothing of it is run.
fn it_changes_what_it_is_told_to_and_says_who_did(kind: ServerKind) {
    let database = kind.fresh();
    succeeded(&on(&database, &["migrate"]));
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let nightly = Trigger::cron("0 0 0 1 1 ? 2090-2099", "UTC").unwrap();
    client.ensure(&Schedule::new("nightly", WORK, &60_000, nightly).unwrap()).run().unwrap();
    let said = |line: &[&str]| succeeded(&on(&database, line));
    let by_ann = ["--actor", "ann", "--reason", "stock-taking"];

    let pause = [&["schedules", "pause", "nightly"], &by_ann[..]].concat();
    assert_eq!(said(&pause), "nightly: paused\n");
    assert_eq!(said(&pause), "nightly: nothing was changed, it is paused\n");
    let run = said(&["schedules", "run", "nightly", "--payload", "7"]);
    let id = run.strip_prefix("nightly: execution ").unwrap().split(' ').next().unwrap().to_owned();
    assert!(run.ends_with("waits for a node\n"), "{run}");
    assert_eq!(said(&["executions", "cancel", &id]), format!("execution {id}: cancelled before it began\n"));
    let again = format!("execution {id}: nothing was changed, it is cancelled\n");
    assert_eq!(said(&["executions", "cancel", &id]), again);
    assert!(said(&["executions", "retry", &id]).ends_with("waits for a node\n"));
    let again = format!("execution {id}: nothing was changed, another attempt has followed it\n");
    assert_eq!(said(&["executions", "retry", &id]), again);
    let first = "2090-01-01T00:00:00Z";
    let skipped = said(&["schedules", "skip", "nightly", first]);
    assert!(skipped.starts_with("nightly: skipped; it fires next at 2091-01-01 00:00:00"), "{skipped}");
    let late = said(&["schedules", "skip", "nightly", first]);
    assert!(late.starts_with("nightly: nothing was changed: it fires next at 2091"), "{late}");
    assert_eq!(said(&["schedules", "resume", "nightly"]), "nightly: resumed\n");

    let preview = refused(&on(&database, &["schedules", "remove", "nightly"]), 2);
    assert!(preview.contains("2091-01-01") && preview.contains("--yes"), "{preview}");
    assert_eq!(client.schedules().unwrap().len(), 1);
    let mistyped = refused(&on(&database, &["schedules", "remove", "nihgtly", "--yes"]), 4);
    assert!(mistyped.contains("nightly"), "{mistyped}");
    assert_eq!(said(&["schedules", "remove", "nightly", "--yes"]), "nightly: removed\n");
    let wrong = refused(&on(&database, &["executions", "cancel", "nightly"]), 2);
    assert!(wrong.contains("no execution's id"), "{wrong}");
    let wrong = refused(&on(&database, &["schedules", "run", "x", "--payload", "text"]), 2);
    assert!(wrong.contains("JSON"), "{wrong}");

    let json = said(&["audit", "--output", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let verbs: Vec<&str> = rows.iter().map(|row| row["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["remove", "resume", "skip", "retry", "cancel", "trigger", "pause", "ensure"]);
    assert_eq!(rows.iter().filter(|row| row["actor"] == "ann").count(), 1);
    let paused = said(&["audit", "--verb", "pause", "--target", "nightly"]);
    assert!(paused.contains("ann") && paused.contains("stock-taking"), "{paused}");
}

fn it_shows_schedules_nodes_and_executions(kind: ServerKind) {
    let database = kind.fresh();
    succeeded(&on(&database, &["migrate"]));
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let soon = Trigger::once(Utc::now() + chrono::TimeDelta::seconds(2)).unwrap();
    client.ensure(&Schedule::new("long-\u{2615}", WORK, &60_000, soon).unwrap()).run().unwrap();
    let mut nodes = Nodes::start(&database.url, 1);
    while !matches!(nodes.next(Duration::from_secs(30)), (0, Line::Began { .. })) {}

    let schedules = succeeded(&on(&database, &["schedules"]));
    assert!(schedules.contains("long-\u{2615}") && schedules.contains("complete"), "{schedules}");
    let node = client.nodes().unwrap()[0].id.clone();
    assert!(succeeded(&on(&database, &["nodes"])).contains(&node));
    let running =
        succeeded(&on(&database, &["executions", "--state", "claimed,running", "--node", &node[..8]]));
    assert!(running.contains("long-\u{2615}"), "{running}");
    let json = succeeded(&on(&database, &["executions", "--since", "1h", "--output", "json"]));
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    let row = rows.as_array().map_or(&rows, |rows| &rows[0]);
    assert_eq!(row["state"], "RUNNING", "{json}");
    let named = succeeded(&on(&database, &["executions", "--schedule", "long-\u{2615}"]));
    assert!(named.contains("running"), "{named}");
    let none = succeeded(&on(&database, &["executions", "--state", "failed", "--output", "json"]));
    assert!(!none.contains("RUNNING"), "{none}");

    // What the operators' script prints with nothing but the database's own client.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/ops/claimed.sh");
    let claimed = Command::new(script).env("FIRETIME_DATABASE_URL", &database.url).output().unwrap();
    let claimed = succeeded(&claimed);
    assert!(claimed.contains(&node) && claimed.contains("RUNNING"), "{claimed}");
    nodes.kill(0);
}

fn it_never_shows_a_password(kind: ServerKind) {
    let urls = match kind.name() {
        "postgres" => {
            vec!["postgres://me:hunter2@127.0.0.1:1/x", "postgres://me:hunter2@127.0.0.1:1/x?nonsense=1"]
        }
        "mariadb" => vec!["mysql://me:hunter2@127.0.0.1:1/x"],
        _ => vec!["oracle://me:hunter2@127.0.0.1:1/x", "me:hunter2@127.0.0.1"],
    };
    for url in urls {
        let mut command = firetime(&["-vvv", "--application", "x", "schedules"]);
        let fallback = firetime(&["-vvv", "schedules", "--application", "x"]);
        let mut output = command.env("FIRETIME_DATABASE_URL", url).output().unwrap();
        if output.status.code() == Some(2) {
            let mut command = fallback;
            output = command.env("FIRETIME_DATABASE_URL", url).output().unwrap();
        }
        assert!(!output.status.success());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains("hunter2") && !said.is_empty(), "{said}");
    }
    // To the operators' script a mistyped URL looks like a file's name.
    for url in ["postgres:/me:hunter2@127.0.0.1/x", "sqlite://me:hunter2@x", "me:hunter2@127.0.0.1"] {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/ops/claimed.sh");
        let output = Command::new(script).env("FIRETIME_DATABASE_URL", url).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("no such SQLite file"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

fn the_demos_verdict_is_clean() {
    let output = firetime(&["demo"]).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    assert!(said.contains("SIGKILL") && said.contains("clean"), "{said}");
}

fn cron_next_answers_line_by_line() {
    let mut child = firetime(&["cron", "next", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let questions: &[u8] =
        b"0 0 12 * * ?\tUTC\t0\t2\n0 0 0 1 1 ? 2030\tUTC\t0\t5\n* * *\tUTC\t0\t1\n\xff\xfe\tUTC\t0\t1\n\
        0 0 12 * * ?\tMars/Olympus\t0\t1\n0 0 12 * * ?\tUTC\t99999999999999999999\t1\n";
    child.stdin.take().unwrap().write_all(questions).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert_eq!(lines[0], "ok\t43200000\t129600000");
    assert_eq!(lines[1], "ok\t1893456000000\tend");
    for line in &lines[2..] {
        assert!(line.starts_with("err\t"), "{line}");
    }
}

fn looking_makes_no_database_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mistyped.db");
    let url = format!("sqlite:{}", file.display());
    let output =
        firetime(&["schedules", "--application", "x"]).env("FIRETIME_DATABASE_URL", url).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("there is no database file"), "{}", text(&output.stderr));
    assert!(!file.exists());
}

fn far_off(name: &str) -> Schedule {
    Schedule::new(name, WORK, &0, Trigger::cron("0 0 3 1 1 ? 2090", "UTC").unwrap()).unwrap()
}

/// A database with the schedule `nightly`, and a node that has gone.
fn small_database(kind: ServerKind) -> (Database, Client) {
    let database = kind.fresh();
    let scheduler =
        Scheduler::builder(APPLICATION, &database.url).handler(WORK, |_, _| Ok(())).start().unwrap();
    let client = scheduler.client();
    client.ensure(&far_off("nightly")).run().unwrap();
    assert!(scheduler.shutdown(Duration::from_secs(30)));
    (database, client)
}

fn a_mistyped_name_is_no_empty_table(kind: ServerKind) {
    let (database, client) = small_database(kind);
    let mistyped = APPLICATION[1..].to_owned();
    let node = client.nodes().unwrap()[0].id.clone();
    let absent = if node.starts_with('0') { "1111" } else { "0000" };
    let cases: [(&[&str], &str); 5] = [
        (&["nodes", "--application", &mistyped], APPLICATION),
        (&["schedules", "--application", &mistyped, "--output", "json"], APPLICATION),
        (&["executions", "--application", &mistyped], APPLICATION),
        (&["executions", "--schedule", "nihgtly"], "nightly"),
        (&["executions", "--node", absent], &node),
    ];
    for (arguments, nearest) in cases {
        let output = on(&database, arguments);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(4), ""), "{said}");
        assert!(said.contains(&format!("{nearest:?}")), "{arguments:?}: {said}");
    }
    let nothing = succeeded(&on(&database, &["executions", "--schedule", "nightly", "--output", "json"]));
    assert_eq!(nothing, "[]\n", "it has not fired yet");
}

fn a_cut_off_list_says_so(kind: ServerKind) {
    let (database, _client) = small_database(kind);
    database.batch(
        "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, due_time) \
         SELECT application, id, 0, 1700000000000, 1, 'SUCCEEDED', 0 FROM QRTZ_EXECUTE UNION ALL \
         SELECT application, id, 0, 1700000001000, 1, 'SUCCEEDED', 0 FROM QRTZ_EXECUTE",
    );
    for (limit, rows, cut) in [("1", 1, true), ("2", 2, false)] {
        let output = on(&database, &["executions", "--limit", limit, "--output", "json"]);
        let shown: Vec<serde_json::Value> = serde_json::from_str(&succeeded(&output)).unwrap();
        assert_eq!(shown.len(), rows);
        assert_eq!(text(&output.stderr).contains("the newest 1, there are more"), cut, "{limit}");
    }
}

fn why_a_schedule_does_not_fire_is_shown(kind: ServerKind) {
    let (database, client) = small_database(kind);
    let shown = || succeeded(&on(&database, &["schedules"]));
    assert!(shown().contains("no live node has a handler for its job"), "{}", shown());
    assert_eq!(client.schedules().unwrap()[0].nodes, 0);
    assert_eq!(client.pause("nightly").actor("Ada").reason("stock-taking").run().unwrap(), Paused::Paused);
    assert!(shown().contains("Ada") && shown().contains("stock-taking"), "{}", shown());
    let json = succeeded(&on(&database, &["schedules", "--output", "json"]));
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&rows[0]["paused_by"], &rows[0]["nodes"]), (&"Ada".into(), &0.into()), "{json}");
    let scheduler =
        Scheduler::builder(APPLICATION, &database.url).handler(WORK, |_, _| Ok(())).start().unwrap();
    assert_eq!(client.schedules().unwrap()[0].nodes, 1);
    assert!(scheduler.shutdown(Duration::from_secs(30)));
}

fn a_wrong_use_ends_with_code_2() {
    for arguments in [
        &["executions"][..],
        &["frobnicate"],
        &["cron", "next"],
        &["executions", "--state", "nonsense", "--application", "x"],
    ] {
        let output =
            firetime(arguments).env("FIRETIME_DATABASE_URL", "sqlite:/nowhere/x.db").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty());
    }
}

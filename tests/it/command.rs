//! The program and the operators' script, as people use them.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use chrono::Utc;
use firetime::{
    Client, Context, ExecutionFilter, ExecutionState, HandlerError, Paused, Schedule, Scheduler, Trigger,
    Triggered,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::node::{APPLICATION, Line, Nodes, WORK};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("it_shows_schedules_nodes_and_executions", it_shows_schedules_nodes_and_executions),
        ("it_never_shows_a_password", it_never_shows_a_password),
        ("it_makes_shows_pauses_and_drains", it_makes_shows_pauses_and_drains),
        (
            "the_scripts_tell_what_is_late_what_failed_and_what_can_be_stopped",
            the_scripts_tell_what_is_late_what_failed_and_what_can_be_stopped,
        ),
        ("it_changes_what_it_is_told_to_and_says_who_did", it_changes_what_it_is_told_to_and_says_who_did),
        ("it_says_whether_an_application_is_healthy", it_says_whether_an_application_is_healthy),
        ("a_definition_is_replaced_on_demand_alone", a_definition_is_replaced_on_demand_alone),
        ("a_change_of_one_field_keeps_all_others", a_change_of_one_field_keeps_all_others),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::command::{name}", kind.name()), move || test(kind)));
    }
    if kind.name() != "sqlite" {
        let name = format!("{}::command::the_demos_verdict_is_clean", kind.name());
        trials.push(trial(name, move || the_demos_verdict_is_clean_on(&kind.fresh())));
    } else {
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
        let small: [(&str, fn(ServerKind)); 6] = [
            ("command::a_payload_is_stored_as_it_is_written", a_payload_is_stored_as_it_is_written),
            ("command::a_mistyped_name_is_no_empty_table", a_mistyped_name_is_no_empty_table),
            ("command::its_page_is_true", its_page_is_true),
            ("command::a_cut_off_list_says_so", a_cut_off_list_says_so),
            (
                "command::what_was_expected_and_has_not_come_is_shown",
                what_was_expected_and_has_not_come_is_shown,
            ),
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

pub fn on(database: &Database, arguments: &[&str]) -> Output {
    firetime(arguments)
        .env("FIRETIME_DATABASE_URL", &database.url)
        .env("FIRETIME_APPLICATION", APPLICATION)
        .output()
        .unwrap()
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

pub fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// What it says on standard error as it refuses.
fn refused(output: &Output, code: i32) -> String {
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), ""));
    text(&output.stderr)
}

/// Of an occurrence of "nightly" that was skipped, and of an execution that was cancelled.
fn it_says_why(database: &Database, skipped: &str, cancelled: &str) {
    let said = |line: &[&str]| succeeded(&on(database, line));
    let why = said(&["why", "nightly", skipped]);
    assert!(why.starts_with("\"nightly\" of 2090-01-01 00:00:00.000 UTC was skipped: "), "{why}");
    assert!(why.contains("\nattempt 1 ") && why.contains("\ntrigger "), "{why}");
    let why = said(&["why", "--execution", cancelled, "--output", "json"]);
    let begin = "{\"fate\":\"cancelled\",\"reason\":\"cancelled\",\"because\":{\"kind\":\"cancelled\",";
    assert!(why.starts_with(begin), "{why}");
    refused(&on(database, &["why"]), 2);
    let mistyped = refused(&on(database, &["why", "nihgtly"]), 4);
    assert!(mistyped.contains("nightly"), "{mistyped}");
}

/// Beforehand it says what that would end, and then what it did.
fn it_removes(database: &Database, client: &Client) {
    let said = |line: &[&str]| succeeded(&on(database, line));
    let preview = refused(&on(database, &["schedules", "remove", "nightly"]), 2);
    assert!(preview.contains("2091-01-01") && preview.contains("--yes"), "{preview}");
    assert_eq!(client.schedules().unwrap().len(), 1);
    let mistyped = refused(&on(database, &["schedules", "remove", "nihgtly", "--yes"]), 4);
    assert!(mistyped.contains("nightly"), "{mistyped}");
    let run = ["schedules", "run", "nightly", "--at", "1d"];
    (0..2).for_each(|_| drop(said(&run)));
    let pending = ExecutionFilter {
        schedule: Some("nightly".into()),
        states: vec![firetime::ExecutionState::Pending],
        ..ExecutionFilter::default()
    };
    let waiting = client.executions(&pending).unwrap().len();
    let dry = said(&["schedules", "remove", "nightly", "--dry-run"]);
    let would = format!(
        " {waiting} wait and would be cancelled, 0 run and would end normally; it would withdraw nothing"
    );
    assert!(dry.starts_with("nightly: nothing was changed: it (") && dry.contains(&would), "{dry}");
    let removed = said(&["schedules", "remove", "nightly", "--yes"]);
    let did =
        format!("nightly: removed; it cancelled {waiting} executions that waited, and withdrew nothing\n");
    assert_eq!(removed, did);
}

/// A whole ledger, a certificate of it, and what somebody changed since.
fn it_verifies(database: &Database) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("month.json");
    let file = file.to_str().unwrap();
    let whole = succeeded(&on(database, &["verify", "--since", "30d"]));
    assert!(whole.starts_with("fire times from ") && whole.contains("\nwhole: every occurrence "), "{whole}");
    succeeded(&on(database, &["verify", "--certificate", file]));
    let there = refused(&on(database, &["verify", "--certificate", file]), 2);
    assert!(there.contains("month.json is there already"), "{there}");
    succeeded(&on(database, &["verify", "--against", file]));
    database.batch("UPDATE QRTZ_TRIGGER SET begun_time = begun_time - 1");
    let found = on(database, &["verify", "--against", file, "--output", "json"]);
    assert_eq!(found.status.code(), Some(3));
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["flaws"][0]["kind"], "changed", "{found}");
    let mistyped = refused(&on(database, &["verify", "nihgtly"]), 4);
    assert!(mistyped.contains("nightly"), "{mistyped}");
    // As a node of a shorter retention leaves it.
    let values = format!("('{APPLICATION}', 4000000000000)");
    database.batch(&format!("INSERT INTO QRTZ_APP (application, ledger_from) VALUES {values}"));
    let gone = refused(&on(database, &["verify", "--against", file]), 4);
    assert!(gone.contains("retention has removed") && gone.contains("backup"), "{gone}");
    database.batch("DELETE FROM QRTZ_APP");
    std::fs::write(file, "{}").unwrap();
    let none = refused(&on(database, &["verify", "--against", file]), 2);
    assert!(none.contains("month.json is no certificate of `firetime verify`: "), "{none}");
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
    let keyed = client.enqueue(WORK, &1).key("order-1").tag("spring").run().unwrap().id().to_string();
    let other = refused(&on(&database, &["executions", "cancel", &keyed, "--key", "order-5"]), 4);
    let has = format!("nothing was changed: execution {keyed} has the key \"order-1\"; its tags: spring");
    assert!(other.contains(&has), "{other}");
    let cancelled = said(&["executions", "cancel", &keyed, "--key", "order-1", "--tag", "spring"]);
    assert_eq!(cancelled, format!("execution {keyed}: cancelled before it began\n"));
    let with_headers = ["--at", "1d", "--header", "tenant=7", "--header", "note=a=b"];
    let enqueued = said(&[&["jobs", "enqueue", WORK.name()], &with_headers[..]].concat());
    let id = enqueued.strip_prefix("execution ").unwrap().split(' ').next().unwrap();
    let shown = said(&["executions", "show", id]);
    assert!(shown.contains("note=a=b, tenant=7"), "{shown}");
    let wrong = refused(&on(&database, &["jobs", "enqueue", WORK.name(), "--header", "tenant"]), 2);
    assert!(wrong.contains("NAME=TEXT"), "{wrong}");
    let first = "2090-01-01T00:00:00Z";
    let skipped = said(&["schedules", "skip", "nightly", first]);
    assert!(skipped.starts_with("nightly: skipped; it fires next at 2091-01-01 00:00:00"), "{skipped}");
    let late = said(&["schedules", "skip", "nightly", first]);
    assert!(late.starts_with("nightly: nothing was changed: it fires next at 2091"), "{late}");
    it_says_why(&database, first, &keyed);
    it_verifies(&database);
    assert_eq!(said(&["schedules", "resume", "nightly"]), "nightly: resumed\n");

    it_removes(&database, &client);
    let wrong = refused(&on(&database, &["executions", "cancel", "nightly"]), 2);
    assert!(wrong.contains("nightly"), "{wrong}");
    let wrong = refused(&on(&database, &["schedules", "run", "x", "--payload", "text"]), 2);
    assert!(wrong.contains("JSON"), "{wrong}");

    let json = said(&["audit", "--output", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let verbs: Vec<&str> = rows.iter().map(|row| row["verb"].as_str().unwrap()).collect();
    assert_eq!(
        verbs,
        [
            "remove", "trigger", "trigger", "resume", "skip", "cancel", "retry", "cancel", "trigger",
            "pause", "ensure"
        ]
    );
    assert_eq!(rows.iter().filter(|row| row["actor"] == "ann").count(), 1);
    let paused = said(&["audit", "--verb", "pause", "--target", "nightly"]);
    assert!(paused.contains("ann") && paused.contains("stock-taking"), "{paused}");
}

/// It was replaced by whoever added it again, with a field left out.
fn a_definition_is_replaced_on_demand_alone(kind: ServerKind) {
    let database = kind.fresh();
    succeeded(&on(&database, &["migrate"]));
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let add = ["schedules", "add", "yearly", "--job", WORK.name(), "--cron", "0 0 0 1 1 ? 2090-2099"];
    let add = |more: &[&str]| on(&database, &[&add[..], more].concat());
    let whole = ["--payload", "7", "--time-limit", "5m", "--description", "new year", "--pause-after", "3"];
    let whole = [&whole[..], &["--expected-by", "2h"]].concat();
    assert!(succeeded(&add(&whole)).ends_with("yearly: created\n"));
    assert!(succeeded(&add(&whole)).ends_with("yearly: nothing was changed, it is so\n"));
    let differs = "  payload: 7 -> 8\n  description: new year -> none\n  time limit: 300000 ms -> none\n  \
                   pause after: 3 -> none\n  expected by: 7200000 ms -> none\n";
    for more in [&["--payload", "8"][..], &["--payload", "8", "--replace"]] {
        let output = add(more);
        let (shown, said) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.code() == Some(2) && shown.ends_with(differs), "{shown}");
        assert!(said.contains("nothing was changed") && said.contains("--replace --yes"), "{said}");
        assert_eq!(client.schedule("yearly").unwrap().payload, "7");
    }
    let mistyped = ["schedules", "add", "yearly", "--job", "wrok", "--every", "1d"];
    assert_eq!(on(&database, &mistyped).status.code(), Some(2));
    assert_eq!(client.jobs().unwrap().len(), 1);
    let replaced = succeeded(&add(&["--payload", "8", "--replace", "--yes"]));
    assert!(replaced.ends_with(&format!("yearly: changed\n{differs}")), "{replaced}");
    let again = succeeded(&add(&["--payload", "8", "--replace", "--yes"]));
    assert!(again.ends_with("yearly: nothing was changed, it is so\n"), "{again}");
}

fn a_change_of_one_field_keeps_all_others(kind: ServerKind) {
    let database = kind.fresh();
    succeeded(&on(&database, &["migrate"]));
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let said = |line: &[&str]| succeeded(&on(&database, &[&["schedules", "set"], line].concat()));
    // As an application has defined it, with more than the program can.
    let hourly = Trigger::every(Duration::from_secs(3_600)).unwrap().times(300).unwrap();
    let payload =
        serde_json::value::RawValue::from_string(r#"{"b": 1.0, "a": 12345678901234567890123}"#.to_owned());
    let job = firetime::Job::new("copy");
    client.ensure(&Schedule::new("hourly", job, &payload.unwrap(), hourly).unwrap()).run().unwrap();
    let before = client.schedule("hourly").unwrap();
    let dry = said(&["hourly", "--time-limit", "90s", "--misfire", "do_nothing", "--dry-run"]);
    let differs = "  misfire: FIRE_ONCE -> DO_NOTHING\n  time limit: none -> 90000 ms\n";
    assert_eq!(dry, format!("{differs}  would withdraw nothing\nnothing was changed\n"));
    let changed = said(&["hourly", "--time-limit", "90s", "--misfire", "do_nothing"]);
    assert_eq!(changed, format!("hourly: changed\n{differs}"));
    assert_eq!(said(&["hourly", "--time-limit", "90s"]), "hourly: nothing was changed, it is so\n");
    assert_eq!(
        said(&["hourly", "--expected-by", "10m"]),
        "hourly: changed\n  expected by: none -> 600000 ms\n"
    );
    assert_eq!(
        said(&["hourly", "--expected-by", "0s"]),
        "hourly: changed\n  expected by: 600000 ms -> none\n"
    );
    assert_eq!(
        said(&["hourly", "--clear=time-limit,overlap,end"]),
        "hourly: changed\n  time limit: 90000 ms -> none\n"
    );
    let both = ["schedules", "set", "hourly", "--clear=time-limit", "--time-limit", "1m"];
    assert!(refused(&on(&database, &both), 2).contains("--time-limit sets what --clear takes away"));
    let start = refused(&on(&database, &["schedules", "set", "hourly", "--clear=start"]), 2);
    assert!(start.contains("its interval counts from its start"), "{start}");
    let after = client.schedule("hourly").unwrap();
    assert_eq!((&after.payload, &after.rule, after.starts), (&before.payload, &before.rule, before.starts));
    assert_eq!((after.next_five, after.overlap), (before.next_five, before.overlap));
    let often = said(&["hourly", "--every", "1d"]);
    assert!(often.contains("trigger: every 3600000 ms, 300 times -> every 86400000 ms\n"), "{often}");

    let berlin =
        firetime::Cron::parse("0 30 2 * * ?", "Europe/Berlin").unwrap().with_gap(firetime::Gap::Skip);
    let nightly = Schedule::new("nightly", WORK, &7, Trigger::Cron(berlin)).unwrap();
    client.ensure(&nightly.priority(-3)).run().unwrap();
    let was = "cron 0 30 2 * * ? [Europe/Berlin], gap SKIP";
    let later = said(&["nightly", "--cron", "0 45 2 * * ?"]);
    assert!(
        later.ends_with(&format!("changed\n  trigger: {was} -> {}\n", was.replace("30", "45"))),
        "{later}"
    );
    let moved = said(&["nightly", "--zone", "UTC"]);
    assert!(moved.ends_with("-> cron 0 45 2 * * ? [UTC], gap SKIP\n"), "{moved}");
    assert_eq!(client.schedule("nightly").unwrap().priority, -3);
    let wrong = refused(&on(&database, &["schedules", "set", "hourly", "--zone", "UTC"]), 2);
    assert!(wrong.contains("cron expression"), "{wrong}");
    assert!(
        refused(&on(&database, &["schedules", "set", "nihgtly", "--payload", "1"]), 4).contains("nightly")
    );
}

/// From the making of a schedule to its end, with a live node.
fn it_makes_shows_pauses_and_drains(kind: ServerKind) {
    let database = kind.fresh();
    succeeded(&on(&database, &["migrate"]));
    let scheduler =
        Scheduler::builder(APPLICATION, &database.url).handler(WORK, |_, _| Ok(())).start().unwrap();
    let client = scheduler.client();
    let node = client.nodes().unwrap()[0].id.clone();
    let said = |line: &[&str]| succeeded(&on(&database, line));

    let add = ["schedules", "add", "yearly", "--job", WORK.name(), "--payload", "7", "--cron"];
    let add = [&add[..], &["0 0 0 1 1 ? 2090-2099", "--description", "new year"]].concat();
    let dry = said(&[&add[..], &["--dry-run"]].concat());
    assert!(dry.contains("2090-01-01 00:00:00.000") && dry.contains("2094-01-01"), "{dry}");
    assert!(client.schedules().unwrap().is_empty());
    assert!(said(&add).ends_with("yearly: created\n"));
    assert!(said(&add).ends_with("yearly: nothing was changed, it is so\n"));
    let nobodys = on(&database, &["schedules", "add", "x", "--job", "nobody's", "--at", "1d"]);
    assert!(text(&nobodys.stderr).contains("no live node"), "{}", text(&nobodys.stderr));

    for kind in [&["jobs"][..], &["apps"]] {
        let name: &[&str] = if kind == ["jobs"] { &[WORK.name()] } else { &[] };
        let called = name.first().copied().unwrap_or(APPLICATION);
        let line = |verb, more: &[&'static str]| [kind, &[verb], name, more].concat();
        let paused = said(&line("pause", &["--until", "1d", "--reason", "stock-taking", "--actor", "ann"]));
        assert!(paused.starts_with(&format!("{called}: paused until 20")), "{paused}");
        assert_eq!(said(&line("pause", &[])), format!("{called}: nothing was changed, it is paused\n"));
        let listed = said(kind);
        assert!(listed.contains("stock-taking") && listed.contains("ann"), "{listed}");
        assert_eq!(said(&line("resume", &[])), format!("{called}: resumed\n"));
    }
    what_is_run_by_hand_is_shown_whole(&database, &client, &node);

    let drained = said(&["nodes", "drain", &node[..8], "--reason", "new kernel"]);
    assert!(drained.contains("will drain"), "{drained}");
    let ended = Instant::now() + Duration::from_secs(60);
    while !said(&["nodes"]).contains(" drained ") {
        assert!(Instant::now() < ended, "it does not drain");
    }
    assert!(said(&["nodes", "resume", &node]).ends_with(": resumed\n"));
    refused(&on(&database, &["nodes", "drain", "zz"]), 4);
    refused(&on(&database, &["jobs", "pause", "wrok"]), 4);
    let audit = said(&["audit", "--verb", "drain"]);
    assert!(audit.contains(&node) && audit.contains("new kernel"), "{audit}");
    assert!(scheduler.shutdown(Duration::from_secs(30)).is_clean());
}

fn what_is_run_by_hand_is_shown_whole(database: &Database, client: &Client, node: &str) {
    let said = |line: &[&str]| succeeded(&on(database, line));
    let run = said(&["schedules", "run", "yearly", "--payload", "8", "--reason", "early", "--actor", "ann"]);
    let id = run.strip_prefix("yearly: execution ").unwrap().split(' ').next().unwrap().to_owned();
    let ended = Instant::now() + Duration::from_secs(30);
    while client.executions(&ExecutionFilter::default()).unwrap()[0].state != ExecutionState::Succeeded {
        assert!(Instant::now() < ended, "it does not run");
        std::thread::yield_now();
    }
    let shown = said(&["executions", "show", &id]);
    for part in ["by hand", "ann", "early", "8", "succeeded", node] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = said(&["schedules", "show", "yearly"]);
    for part in ["new year", "2090-01-01 00:00:00.000, 2091", "payload", "7", "1 succeeded", "by hand (ann)"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = said(&["schedules", "show", "yearly", "--output", "json"]);
    let whole: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&whole["name"], &whole["counts"]["SUCCEEDED"]), (&"yearly".into(), &1.into()), "{json}");
    refused(&on(database, &["schedules", "show", "yaerly"]), 4);
    refused(&on(database, &["executions", "show", "7000000000"]), 4);

    let bulk = ["executions", "cancel", "--schedule", "yearly", "--state", "pending"];
    assert!(said(&bulk).contains("no such execution to cancel"));
    for verb in ["cancel", "retry"] {
        refused(&on(database, &["executions", verb, "7000000000"]), 4);
    }
    let later = said(&["schedules", "run", "yearly", "--at", "1d"]);
    assert!(later.contains("waits"), "{later}");
    assert!(
        refused(&on(database, &bulk), 2).contains("there is 1 execution to cancel; say --yes to cancel it")
    );
    let preview = refused(&on(database, &["schedules", "remove", "yearly", "--cancel-running"]), 2);
    assert!(preview.contains("1 wait") && preview.contains("0 run and would be asked to end"), "{preview}");
    assert!(said(&[&bulk[..], &["--yes"]].concat()).ends_with("of yearly: cancelled before it began\n"));
    let csv = said(&["executions", "--output", "csv"]);
    assert!(csv.starts_with("ID,SCHEDULE,JOB,") && csv.lines().count() == 3, "{csv}");

    let enqueue = ["jobs", "enqueue", WORK.name(), "--at", "1d", "--key", "k", "--output", "json"];
    let answer = |line: &[&str]| serde_json::from_str::<serde_json::Value>(&said(line)).unwrap();
    let created = answer(&enqueue);
    let id = created["id"].as_i64().unwrap();
    assert_eq!(client.execution(id).unwrap().execution.key.as_deref(), Some("k"));
    let again = [answer(&enqueue), answer(&[&enqueue[..], &["--replace"]].concat())];
    let words = [&created, &again[0], &again[1]].map(|answer| answer["answer"].as_str().unwrap());
    assert_eq!(words, ["created", "existing", "replaced"]);
    assert!(again.iter().all(|answer| answer["id"] == id), "{again:?}");
}

/// A number with more digits than a machine's came back as another.
fn a_payload_is_stored_as_it_is_written(kind: ServerKind) {
    const LONG: &str = "123456789012345678901234567890";
    let database = kind.fresh();
    succeeded(&on(&database, &["migrate"]));
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let said = |line: &[&str]| succeeded(&on(&database, &[line, &["--payload", LONG]].concat()));
    said(&["schedules", "add", "yearly", "--job", WORK.name(), "--cron", "0 0 0 1 1 ? 2090-2099"]);
    assert_eq!(client.schedule("yearly").unwrap().payload, LONG);
    succeeded(&on(&database, &["schedules", "set", "yearly", "--payload", " {\"a\": 1e400} "]));
    assert_eq!(client.schedule("yearly").unwrap().payload, "{\"a\": 1e400}");
    said(&["schedules", "run", "yearly"]);
    said(&["jobs", "enqueue", WORK.name()]);
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let payloads = rows.iter().map(|row| client.execution(row.id).unwrap().payload);
    assert_eq!(payloads.collect::<Vec<_>>(), [Some(LONG.to_owned()), Some(LONG.to_owned())]);
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

fn script(name: &str, database: &Database, arguments: &[&str]) -> Output {
    let path = format!("{}/scripts/ops/{name}.sh", env!("CARGO_MANIFEST_DIR"));
    Command::new(path).args(arguments).env("FIRETIME_DATABASE_URL", &database.url).output().unwrap()
}

/// What the operators' scripts say with nothing but the database's own client.
fn the_scripts_tell_what_is_late_what_failed_and_what_can_be_stopped(kind: ServerKind) {
    let database = kind.fresh();
    let start = |fails: bool| {
        let handler = move |_: &_, _| if fails { Err("no paper".into()) } else { Ok(()) };
        Scheduler::builder(APPLICATION, &database.url).handler(WORK, handler).start().unwrap()
    };
    let first = start(true);
    let client = first.client();
    let node = client.nodes().unwrap()[0].id.clone();
    client.ensure(&far_off("nightly")).run().unwrap();
    client.trigger("nightly").run().unwrap();
    let ended = Instant::now() + Duration::from_secs(30);
    while client.executions(&ExecutionFilter::default()).unwrap()[0].state != ExecutionState::Failed {
        assert!(Instant::now() < ended, "it does not run");
        std::thread::yield_now();
    }
    let copies = "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, \
                  due_time, finished_time, error) SELECT application, execute_id, generation, scheduled_time, \
                  attempt + 1, state, due_time, finished_time, error FROM QRTZ_RUN";
    database.batch(copies);
    let failed = succeeded(&script("failed", &database, &["--hours", "2"]));
    let lines: Vec<&str> = failed.lines().filter(|line| line.contains("no paper")).collect();
    let [line] = lines[..] else { panic!("{failed}") };
    assert!(line.trim_matches(['|', ' ']).starts_with("2 ") && line.contains("FAILED"), "{failed}");
    let each = succeeded(&script("failed", &database, &["--each"]));
    assert!(each.matches("no paper").count() == 2 && each.contains(&node), "{each}");

    let alone = script("safe-to-stop", &database, &[&node[..8]]);
    let said = text(&alone.stdout);
    assert!(alone.status.code() == Some(3) && said.contains("no other node runs job work"), "{said}");
    let second = start(false);
    assert_eq!(succeeded(&script("safe-to-stop", &database, &[&node])), format!("safe to stop {node}\n"));
    refused(&script("safe-to-stop", &database, &["zz"]), 2);
    assert!(
        first.shutdown(Duration::from_secs(30)).is_clean()
            && second.shutdown(Duration::from_secs(30)).is_clean()
    );

    assert!(!succeeded(&script("late", &database, &[])).contains("nightly"));
    client.trigger("nightly").at(Utc::now() - chrono::TimeDelta::minutes(5)).run().unwrap();
    client.pause(firetime::Target::job(WORK.name())).run().unwrap();
    let is_late = |database: &Database, arguments: &[&str]| {
        let output = script("late", database, arguments);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let late = is_late(&database, &[]);
    assert!(late.contains("nightly") && late.contains("job paused"), "{late}");
    assert!(client.resume(firetime::Target::job(WORK.name())).run().is_ok());
    database.batch("UPDATE QRTZ_EXECUTE SET next_fire_time = 1700000000000");
    // Also by a URL of several hosts, the first of which does not answer; a file's has none.
    let several = database.clone().at(database.url.replace('@', "@127.0.0.1:1,"));
    let late = is_late(&several, &["--all"]);
    assert!(late.contains("schedule") && late.contains("2023-11-14 22:13:20.000"), "{late}");
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
    let said = verdict(&mut firetime(&["demo"]));
    assert!(!said.contains("Look at"), "{said}");
}

/// The demo on a database that it is given, without firetime's tables.
pub fn the_demos_verdict_is_clean_on(database: &Database) {
    let on = |arguments: &[&str]| {
        let mut command = firetime(arguments);
        command.env("FIRETIME_DATABASE_URL", &database.url);
        command
    };
    let said = verdict(&mut on(&["demo", "--database"]));
    let (_, look) = said.rsplit_once("firetime ").unwrap();
    let look: Vec<_> = look.split_whitespace().chain(["--output", "csv"]).collect();
    let rows = succeeded(&on(&look).output().unwrap());
    assert!(rows.contains("every-second") && rows.contains("succeeded"), "{rows}");
}

fn verdict(demo: &mut Command) -> String {
    let output = demo.output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", text(&output.stderr));
    assert!(said.contains("SIGKILL") && said.contains("\nclean, after "), "{said}");
    said
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
    assert!(scheduler.shutdown(Duration::from_secs(30)).is_clean());
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
        assert_eq!(text(&output.stderr).contains("the first 1, there are more"), cut, "{limit}");
        let last = shown.last().unwrap()["id"].to_string();
        let rest = succeeded(&on(&database, &["executions", "--after", &last, "--output", "jsonl"]));
        assert_eq!(rest.lines().count(), 2 - rows);
    }
}

/// The row of a node that has gone stands for one that lives: nothing moves while it is looked at.
fn it_says_whether_an_application_is_healthy(kind: ServerKind) {
    let (database, client) = small_database(kind);
    let unhealthy = || {
        let output = on(&database, &["check"]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let alone = unhealthy();
    let nobody = "problem: job work: no live node that claims has a handler for it; 1 active schedule: start";
    assert!(alone.contains("no live node claims anything") && alone.contains(nobody), "{alone}");
    let now = client.now().unwrap().timestamp_millis();
    let node = |columns: &str| database.batch(&format!("UPDATE QRTZ_NODE SET {columns}"));
    let lives = || node(&format!("ended_time = -1, state = 'Y', beat_time = {now}, lanes = ''"));
    let stuck = serde_json::to_string(&[firetime::LaneHealth::default()]).unwrap();
    let stuck = format!("lanes = '{}'", stuck.replace("\"stuck\":0", "\"stuck\":2"));
    lives();
    assert_eq!(succeeded(&on(&database, &["check"])), "healthy: live nodes: 1, schedules: 1\n");
    for (columns, problem) in [
        (&*format!("beat_time = {}", now - 60_000), "no heartbeat for 1 min"),
        (&*stuck, "2 handlers run on beyond their time limits"),
        ("state = 'D'", "note: node"),
    ] {
        node(columns);
        let found = unhealthy();
        assert!(found.contains(problem), "{found}");
        lives();
    }
    client.pause("nightly").run().unwrap();
    client.pause(firetime::Target::application()).actor("ann").reason("new disks").run().unwrap();
    let paused = unhealthy();
    assert!(paused.contains("paused by ann (new disks) since 20"), "{paused}");
    client.resume(firetime::Target::application()).run().unwrap();
    let paused = succeeded(&on(&database, &["check"]));
    assert!(paused.contains("healthy; 1 schedule paused by ") && paused.contains(" since 20"), "{paused}");
    assert!(succeeded(&on(&database, &["schedules"])).contains(" paused "), "it has no next fire time");
    client.resume("nightly").run().unwrap();

    let ago = client.now().unwrap() - chrono::TimeDelta::minutes(5);
    client.enqueue(WORK, &1).at(ago).run().unwrap();
    client.pause(firetime::Target::job(WORK.name())).run().unwrap();
    let held = succeeded(&on(&database, &["check"]));
    assert!(held.contains("note: job work: paused by"), "{held}");
    client.resume(firetime::Target::job(WORK.name())).run().unwrap();
    let late = unhealthy();
    assert!(late.contains("problem: job work: 1 execution waits, up to 5 min"), "{late}");
    database.batch("UPDATE QRTZ_EXECUTE SET next_fire_time = 1700000000000 WHERE name = 'nightly'");
    let overdue = unhealthy();
    assert!(overdue.contains("1 schedule is overdue, nightly for"), "{overdue}");
    database.batch("UPDATE QRTZ_EXECUTE SET state = 'ERROR', reason = 'no cron' WHERE name = 'nightly'");
    let output = on(&database, &["check", "--output", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let json: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let found = json["findings"].as_array().unwrap();
    assert!(
        json["healthy"] == false && found.iter().any(|it| it["problem"] == "in error: no cron"),
        "{json}"
    );
    assert_eq!(on(&database, &["check", "--application", "shpo"]).status.code(), Some(4));
}

fn what_was_expected_and_has_not_come_is_shown(kind: ServerKind) {
    let (database, _client) = small_database(kind);
    let checked = || text(&on(&database, &["check"]).stdout);
    database.batch(
        "INSERT INTO QRTZ_EXPECTED (id, application, unmet_time) SELECT id, application, 1700000000000 \
         FROM QRTZ_EXECUTE WHERE name = 'nightly'",
    );
    assert!(!checked().contains("not succeeded in time"), "nobody waits for it");
    database.batch("UPDATE QRTZ_EXECUTE SET expected_by = 600000 WHERE name = 'nightly'");
    let problem =
        "problem: schedule nightly: its occurrence of 2023-11-14 22:13:20 UTC has not succeeded in time";
    assert!(checked().contains(problem), "{}", checked());
    let shown = succeeded(&on(&database, &["schedules", "show", "nightly"]));
    assert!(shown.contains("600000 ms") && shown.contains("2023-11-14 22:13:20.000"), "{shown}");
}

fn why_a_schedule_does_not_fire_is_shown(kind: ServerKind) {
    let (database, client) = small_database(kind);
    let shown = || succeeded(&on(&database, &["schedules"]));
    assert!(shown().contains("no live node has a handler for its job"), "{}", shown());
    assert_eq!(client.schedules().unwrap()[0].nodes, 0);
    client.enqueue(WORK, &1).run().unwrap();
    database.batch("UPDATE QRTZ_JOB SET nobody_time = 1700000000000");
    let nobody = "no live node has a handler for its job since 2023-11-14 22:13:20.000";
    let executions = || succeeded(&on(&database, &["executions"]));
    let jobs = || succeeded(&on(&database, &["jobs"]));
    let waiting = client.executions(&firetime::ExecutionFilter::default()).unwrap()[0].id.to_string();
    let why = succeeded(&on(&database, &["why", "--execution", &waiting]));
    assert!(shown().contains(nobody) && executions().contains(nobody), "{} {}", shown(), executions());
    assert!(jobs().contains("no live node has a handler for it since 2023-11-14 22:13:20.000"), "{}", jobs());
    assert!(why.contains("has a handler for job \"work\", since 2023-11-14 22:13:20.000 UTC"), "{why}");
    let checked = text(&on(&database, &["check"]).stdout);
    assert!(checked.contains("has a handler for it since 2023-11-14 22:13:20 UTC; 1 active"), "{checked}");
    assert_eq!(client.pause("nightly").actor("Ada").reason("stock-taking").run().unwrap(), Paused::Paused);
    assert!(shown().contains("Ada") && shown().contains("stock-taking"), "{}", shown());
    let json = succeeded(&on(&database, &["schedules", "--output", "json"]));
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&rows[0]["paused_by"], &rows[0]["nodes"]), (&"Ada".into(), &0.into()), "{json}");
    let scheduler =
        Scheduler::builder(APPLICATION, &database.url).handler(WORK, |_, _| Ok(())).start().unwrap();
    assert_eq!(client.schedules().unwrap()[0].nodes, 1);
    assert!(scheduler.shutdown(Duration::from_secs(30)).is_clean());
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

/// The first cells of a table's rows, in `docs/cli.md` under this heading; without quotes.
fn documented(heading: &str) -> BTreeSet<String> {
    let page = include_str!("../../docs/cli.md");
    let section =
        page.split("\n#").find(|section| section.trim_start_matches('#').trim().starts_with(heading));
    let rows = section
        .unwrap_or_else(|| panic!("no {heading:?}"))
        .lines()
        .filter_map(|line| line.strip_prefix("| "));
    let cells = rows.skip(2).filter_map(|row| row.split(" |").next());
    cells.map(|cell| cell.trim_matches('`').to_owned()).collect()
}

/// The commands below this one, as their help lists them.
fn commands(path: &[&str], all: &mut BTreeSet<String>) {
    let help = succeeded(&firetime(&[path, &["--help"]].concat()).output().unwrap());
    let Some((_, listed)) = help.split_once("\nCommands:\n") else { return };
    let names = listed.lines().take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        let path = [path, &[name]].concat();
        all.insert(path.join(" "));
        commands(&path, all);
    }
}

fn say_something(context: &Context, _: u64) -> Result<(), HandlerError> {
    context.log("something");
    Ok(())
}

/// The commands, the exit codes and the keys of the JSON that `docs/cli.md` tells of are those there are.
fn its_page_is_true(kind: ServerKind) {
    let is_word =
        |word: &&str| !word.starts_with('-') && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let path = |row: &String| row.split(' ').take_while(is_word).collect::<Vec<_>>().join(" ");
    let told: BTreeSet<String> = documented("Commands").iter().map(path).collect();
    let mut all = BTreeSet::new();
    commands(&[], &mut all);
    // What only groups others is not told of.
    all.remove("cron");
    assert_eq!(told, all);
    let help = succeeded(&firetime(&["--help"]).output().unwrap());
    let codes = help.split_once("Exit codes:\n").unwrap().1.lines();
    let codes = codes.filter_map(|line| line.trim().split_once("  ")).map(|(code, _)| code.to_owned());
    assert_eq!(documented("Exit codes"), codes.collect());

    let database = kind.fresh();
    let scheduler =
        Scheduler::builder(APPLICATION, &database.url).handler(WORK, say_something).start().unwrap();
    let client = scheduler.client();
    client.ensure(&far_off("nightly")).run().unwrap();
    let Triggered::Pending(execution) = client.trigger("nightly").run().unwrap() else {
        panic!("it is active")
    };
    let keys = |line: &[&str]| -> BTreeSet<String> {
        let json = succeeded(&on(&database, &[line, &["--output", "json"]].concat()));
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let row = value.get(0).unwrap_or(&value).as_object().unwrap();
        row.keys().cloned().collect()
    };
    for listing in ["nodes", "jobs", "apps", "schedules", "executions", "audit"] {
        assert_eq!(keys(&[listing]), documented(&format!("`{listing}`")), "{listing}");
    }
    let whole =
        |listing: &str| &documented(&format!("`{listing} show`")) | &documented(&format!("`{listing}`"));
    assert_eq!(keys(&["schedules", "show", "nightly"]), whole("schedules"));
    assert_eq!(keys(&["executions", "show", &execution.to_string()]), whole("executions"));
    let said = client.enqueue(WORK, &0).run().unwrap().id();
    let logs = ["executions", "logs", &said.to_string(), "--follow", "--output", "jsonl"];
    let line: serde_json::Value = serde_json::from_str(&succeeded(&on(&database, &logs))).unwrap();
    let keys_of_line: BTreeSet<String> = line.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys_of_line, documented("`executions logs`"));
    assert_eq!(keys(&["check"]), documented("`check`"));
    assert_eq!(keys(&["outcomes"]), documented("`outcomes`"));
    let by_all = succeeded(&on(&database, &["outcomes", "--by", "hour,job,node", "--output", "csv"]));
    let line = by_all.lines().nth(1).unwrap_or_default();
    let node = scheduler.node().to_string();
    assert!(line.contains(&format!(",{},{node},", WORK.name())), "{by_all}");
    let other = ["outcomes", "--job", "other", "--output", "json"];
    assert_eq!(succeeded(&on(&database, &other)), "[]\n");
    let refused = on(&database, &["outcomes", "--by", "week"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("hour, job, node"), "{}", text(&refused.stderr));
    assert_eq!(keys(&["jobs", "enqueue", WORK.name(), "--at", "1d"]), documented("`jobs enqueue`"));
    assert!(scheduler.shutdown(Duration::from_secs(30)).is_clean());
}

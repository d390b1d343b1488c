//! What was missed is run: as nodes run it, in a caller's transaction, and by the program.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{
    AuditFilter, Cause, Client, ErrorKind, ExecutionFilter, ExecutionState, HandlerError, Job, Overlap,
    Reran, RerunCancelled, RerunFate, Retry, Schedule, Trigger,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, SOON, builder, client, hanging, teller, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("what_was_missed_runs_once_and_in_order", what_was_missed_runs_once_and_in_order),
        ("a_rerun_is_cancelled_as_a_whole", a_rerun_is_cancelled_as_a_whole),
        ("a_backfill_runs_what_was_before_the_schedule", a_backfill_runs_what_was_before_the_schedule),
        #[cfg(feature = "cli")]
        ("the_program_shows_first_and_runs_with_yes", the_program_shows_first_and_runs_with_yes),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::rerun::{name}", kind.name()), move || test(kind)));
    }
}

const IMPORT: Job<()> = Job::new("import");

/// The schedule "import" was paused while all of its occurrences came due, so many: they are SKIPPED. Their
/// fire times.
fn skipped(client: &Client, job: Job<()>, count: u32) -> Vec<DateTime<Utc>> {
    let interval = Duration::from_millis(50);
    let often = Trigger::every(interval).unwrap().times(count.into()).unwrap();
    client.ensure(&Schedule::new("import", job, &(), often).unwrap().overlap(Overlap::Skip)).run().unwrap();
    let first = client.schedules().unwrap()[0].next.unwrap();
    client.pause("import").run().unwrap();
    let fire_times: Vec<DateTime<Utc>> = (0..count).map(|n| first + interval * n).collect();
    let last = fire_times.last().copied().unwrap();
    until("all have come due", || (client.now().unwrap() > last).then_some(()));
    client.resume("import").run().unwrap();
    fire_times
}

/// Two nodes; the second occurrence fails at first, and the others wait for its retry.
fn what_was_missed_runs_once_and_in_order(kind: ServerKind) {
    let retried = IMPORT.retry(Retry::fixed(Duration::from_millis(500)).at_most(1));
    let database = kind.fresh();
    let client = client(&database).acting_as("ann");
    let fire_times = skipped(&client, retried, 5);
    let (tell, told) = teller();
    let fails = std::sync::Arc::new(AtomicBool::new(true));
    let second = fire_times[1];
    let nodes = [(); 2].map(|()| {
        let (tell, fails) = (tell.clone(), fails.clone());
        let import = move |context: &firetime::Context, ()| -> Result<(), HandlerError> {
            let covers = context.covers()?;
            tell.lock().unwrap().send((context.fire_time(), context.cause().clone(), covers)).unwrap();
            match context.fire_time() == second && fails.swap(false, Ordering::Relaxed) {
                true => Err("not yet".into()),
                false => Ok(()),
            }
        };
        builder(&database).handler(retried, import).start().unwrap()
    });
    let missed = || client.rerun("import").state(ExecutionState::Skipped).state_reason("paused");
    let plan = missed().plan().unwrap();
    assert_eq!(plan.occurrences.iter().map(|it| it.fire_time).collect::<Vec<_>>(), fire_times);
    assert_eq!(plan.count(RerunFate::Run), 5);
    let answer = missed().pace(Duration::from_millis(1)).reason("the pause was a mistake").run().unwrap();
    let Reran::Ordered { origin, count: 5, rest_from: None, .. } = answer else { panic!("{answer:?}") };
    let begun = [0, 1, 1, 2, 3, 4].map(|n: usize| {
        let (fire_time, cause, covers) = told.recv_timeout(SOON).unwrap();
        assert_eq!(fire_time, fire_times[n], "occurrence {n}");
        let prev = n.checked_sub(1).map(|n| fire_times[n]);
        assert_eq!((covers.since, covers.until, covers.left_out.total()), (prev, fire_time, 0));
        cause
    });
    let (actor, reason) = ("ann".to_owned(), "the pause was a mistake".to_owned());
    assert_eq!((&begun[0], &begun[2]), (&Cause::Rerun { actor, reason }, &Cause::Retry));
    until("all have succeeded", || (missed().plan().unwrap().count(RerunFate::Succeeded) == 5).then_some(()));
    let Reran::Nothing { unknown, rest_from: None, .. } = missed().run().unwrap() else { panic!() };
    assert_eq!(unknown, []);
    let why = client.why_at("import", second).unwrap().sentence;
    let since = "; ann (\"the pause was a mistake\") had it run again as execution ";
    assert!(
        why.contains(" was skipped: ") && why.contains(since) && why.contains(", which succeeded at "),
        "{why}"
    );
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let rerun = rows.iter().find(|row| row.origin == origin && row.fire_time == Some(fire_times[0])).unwrap();
    assert_eq!((rerun.cause.as_str(), rerun.cause.asked().unwrap().0), ("rerun", "ann"));
    let why = client.why(rerun.id).unwrap().sentence;
    assert!(why.contains(", for which ann (\"the pause was a mistake\") had \"import\" of "), "{why}");
    let audit = AuditFilter { verb: Some("rerun".to_owned()), ..AuditFilter::default() };
    assert_eq!(client.audit(&audit).unwrap().iter().map(|row| row.id).collect::<Vec<_>>(), [origin]);
    assert!(nodes.iter().all(|node| node.shutdown(SOON).is_clean()));
    assert!(told.try_recv().is_err(), "nothing twice");
}

fn a_rerun_is_cancelled_as_a_whole(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database).acting_as("ann");
    let fire_times = skipped(&client, IMPORT, 4);
    let (open, hang) = hanging();
    let scheduler = builder(&database).handler(IMPORT, hang).start().unwrap();
    let Reran::Ordered { origin, .. } = client.rerun("import").run().unwrap() else {
        panic!("four are left")
    };
    let of_it = |state: ExecutionState| {
        let filter = ExecutionFilter { states: vec![state], ..ExecutionFilter::default() };
        let rows = client.executions(&filter).unwrap();
        rows.into_iter().filter(|row| row.origin == origin).collect::<Vec<_>>()
    };
    let runs = || of_it(ExecutionState::Running).pop();
    let first = until("the first runs", || runs().filter(|row| row.started.is_some()));
    assert_eq!(first.fire_time, Some(fire_times[0]), "the others wait for its end");
    let answer = client.cancel_rerun(origin).reason("too many").run().unwrap();
    assert!(matches!(answer, RerunCancelled::Cancelled { cancelled: 3, asked: 1, .. }), "{answer:?}");
    assert_eq!(of_it(ExecutionState::Cancelled).len(), 3);
    let cancelled = of_it(ExecutionState::Cancelled)[0].id;
    let why = client.why(cancelled).unwrap().sentence;
    assert!(
        why.contains("was cancelled before it began at ") && why.contains("by ann (\"too many\")"),
        "{why}"
    );
    assert_eq!(client.cancel_rerun(origin).run().unwrap(), RerunCancelled::AlreadyEnded);
    drop(open);
    assert!(scheduler.shutdown(SOON).is_clean());
    assert_eq!(client.cancel_rerun(origin + 1_000).run().unwrap_err().kind(), ErrorKind::NotFound);
}

fn a_backfill_runs_what_was_before_the_schedule(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let nightly = Trigger::cron("0 30 2 * * ?", "UTC").unwrap();
    client.ensure(&Schedule::new("import", IMPORT, &(), nightly).unwrap()).run().unwrap();
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let range = at("2025-01-01T00:00:00Z")..at("2025-01-04T00:00:00Z");
    let request = || client.backfill("import", range.clone()).pace(Duration::from_millis(1));
    let plan = request().plan().unwrap();
    let expected = ["2025-01-01T02:30:00Z", "2025-01-02T02:30:00Z", "2025-01-03T02:30:00Z"].map(at);
    assert_eq!(plan.occurrences.iter().map(|it| it.fire_time).collect::<Vec<_>>(), expected);
    assert!(matches!(request().run().unwrap(), Reran::Ordered { count: 3, .. }));
    let (tell, told) = teller();
    let import = move |context: &firetime::Context, ()| -> Result<(), HandlerError> {
        let covers = context.covers()?;
        tell.lock().unwrap().send((covers.since, context.fire_time())).unwrap();
        Ok(())
    };
    let scheduler = builder(&database).handler(IMPORT, import).start().unwrap();
    let day = TimeDelta::days(1);
    for fire_time in expected {
        assert_eq!(told.recv_timeout(SOON).unwrap(), (Some(fire_time - day), fire_time));
    }
    until("all have succeeded", || {
        (request().plan().unwrap().count(RerunFate::Succeeded) == 3).then_some(())
    });
    let why = client.why_at("import", expected[0]).unwrap().sentence;
    assert!(why.contains("made its schedule at ") && why.contains("which succeeded at "), "{why}");
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// An operator's session, beside nodes that are not there: nothing of it is run.
#[cfg(feature = "cli")]
fn the_program_shows_first_and_runs_with_yes(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let fire_times = skipped(&client, IMPORT, 3);
    let since = fire_times[1].to_rfc3339();
    let of_skipped = ["rerun", "--schedule", "import", "--state", "skipped", "--state-reason", "paused"];
    let of_skipped = [&of_skipped[..], &["--since", &since]].concat();
    let shown = on(&database, &of_skipped);
    let (out, said) = (text(&shown.stdout), text(&shown.stderr));
    assert_eq!(shown.status.code(), Some(2), "{said}");
    assert!(out.starts_with("FIRE TIME (UTC)") && out.matches("would be run").count() == 2, "{out}");
    assert_eq!(out.matches("skipped paused").count(), 2, "{out}");
    let refusal = "nothing was changed: 2 occurrences would be run; say --yes to run them";
    assert!(said.contains(refusal), "{said}");
    let last = fire_times[2].to_rfc3339();
    let one = [&of_skipped[..7], &["--since", &last]].concat();
    let said = text(&on(&database, &one).stderr);
    assert!(said.contains(": 1 occurrence would be run; say --yes to run it"), "{said}");
    a_misspelt_reason_is_refused(&database);
    let by = ["--yes", "--pace", "10s", "--actor", "ann", "--reason", "why"];
    let run = on(&database, &[&of_skipped[..], &by[..]].concat());
    let out = text(&run.stdout);
    assert!(run.status.success() && out.starts_with("import: 2 executions wait for a node; "), "{out}");
    let origin = out.split("--cancel ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let rerun: Vec<_> = rows.iter().filter(|row| row.origin.to_string() == origin).collect();
    assert!(rerun.len() == 2 && rerun.iter().all(|row| row.cause.asked() == Some(("ann", "why"))));
    assert_eq!((rerun[0].due.unwrap() - rerun[1].due.unwrap()).abs(), TimeDelta::seconds(10));
    let again = on(&database, &[&of_skipped[..], &["--output", "json"]].concat());
    let plan: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((again.status.code(), &plan["occurrences"][0]["fate"]), (Some(2), &"open".into()));
    let was = ["state", "reason"].map(|key| plan["occurrences"][0][key].as_str());
    assert_eq!(was, [Some("SKIPPED"), Some("paused")]);
    let again = on(&database, &[&of_skipped[..], &["--yes", "--output", "json"]].concat());
    let told: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    let none: Option<i64> = None;
    let nothing = serde_json::json!({"answer": "nothing", "origin": none, "count": 0, "unknown": [], "rest_from": none});
    assert_eq!(told, nothing);
    let cancelled = on(&database, &["rerun", "--cancel", &origin]);
    let out = text(&cancelled.stdout);
    assert_eq!(out, format!("rerun {origin}: 2 executions were cancelled, 0 run and are asked to end\n"));
    let cancelled = on(&database, &["rerun", "--cancel", &origin, "--output", "json"]);
    let told: serde_json::Value = serde_json::from_slice(&cancelled.stdout).unwrap();
    assert_eq!(told, serde_json::json!({"answer": "already_ended", "cancelled": 0, "asked": 0}));
    let backfill = ["backfill", "--schedule", "import", "--since", "1d"];
    let shown = on(&database, &backfill);
    let said = text(&shown.stderr);
    assert!(said.contains("nothing was changed: 3 occurrences would be run"), "{said}");
    let run = on(&database, &[&backfill[..], &["--yes", "--output", "json"]].concat());
    let told: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&told["answer"], &told["count"]), (&"ordered".into(), &3.into()));
    for (line, code) in [
        (&["rerun", "--cancel", "1000000"][..], 4),
        (&["rerun", "--schedule", "imports"], 4),
        (&["backfill", "--schedule", "import", "--since", "1h", "--until", "2h"], 2),
    ] {
        assert_eq!(on(&database, line).status.code(), Some(code), "{line:?}");
    }
}

#[cfg(feature = "cli")]
fn a_misspelt_reason_is_refused(database: &Database) {
    let misspelt = on(database, &["rerun", "--schedule", "import", "--state-reason", "pause"]);
    let said = text(&misspelt.stderr);
    assert_eq!(misspelt.status.code(), Some(2), "{said}");
    assert!(said.contains("no reason \"pause\"; there are misfire, "), "{said}");
}

fn on(database: &Database, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firetime"))
        .args(arguments)
        .env("FIRETIME_DATABASE_URL", &database.url)
        .env("FIRETIME_APPLICATION", APPLICATION)
        .output()
        .unwrap()
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

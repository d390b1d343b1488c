//! An application's past is played again by the program: without a change it comes to the same, and with one
//! it tells the difference; the database stays as it is.

use std::process::{Command, Output};
use std::time::Duration;

use firetime::{ExecutionFilter, HandlerError, Job, Overlap, Retry, Schedule, Trigger};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, SOON, builder, client, until};
use crate::trial;

const WORK: Job<()> = Job::new("work");
const MAIL: Job<u64> = Job::new("mail").retry(Retry::fixed(Duration::from_millis(1)).at_most(2));

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let name = "what_has_run_is_played_again_with_a_change";
    trials.push(trial(format!("{}::replayed::{name}", kind.name()), move || replay(kind)));
}

fn ask(database: &Database, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firetime"))
        .args(["replay", "--application", APPLICATION, "--since", "2m"])
        .args(arguments)
        .env("FIRETIME_DATABASE_URL", &database.url)
        .output()
        .unwrap()
}

fn told(database: &Database, arguments: &[&str]) -> Value {
    let output = ask(database, &[arguments, &["--output", "json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn of<'a>(replayed: &'a Value, name: &str) -> &'a Value {
    replayed["schedules"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap()
}

fn replay(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let scheduler = builder(&database)
        .handler(WORK, |_, ()| Ok(()))
        .handler(MAIL, |context, number: u64| -> Result<(), HandlerError> {
            if number == 0 && context.attempt() == 1 { Err("no such host".into()) } else { Ok(()) }
        })
        .start()
        .unwrap();
    let often = Trigger::every(Duration::from_millis(100)).unwrap().times(9).unwrap();
    let often = Schedule::new("often", WORK, &(), often).unwrap().overlap(Overlap::Allow);
    client.ensure(&often).run().unwrap();
    for number in 0..2 {
        client.enqueue(MAIL, &number).run().unwrap();
    }
    // Nine, two, and another attempt.
    let ended = || client.executions(&ExecutionFilter::default()).unwrap().into_iter();
    until("all runs", || (ended().filter(|it| it.finished.is_some()).count() == 12).then_some(()));
    assert!(scheduler.shutdown(SOON).is_clean());
    let before = ended().collect::<Vec<_>>();

    let same = told(&database, &["--nodes", "2"]);
    for (name, ran, failed) in [("often", 9, 0), ("queue:mail", 2, 1)] {
        let it = of(&same, name);
        for tally in ["recorded", "unchanged", "changed"] {
            assert_eq!((&it[tally]["ran"], &it[tally]["failed"]), (&ran.into(), &failed.into()), "{same:#}");
        }
    }
    let seldom = told(&database, &["--every", "often=10m"]);
    let often = of(&seldom, "often");
    assert_eq!((&often["unchanged"]["ran"], &often["changed"]["ran"]), (&9.into(), &1.into()), "{seldom:#}");
    let shown = ask(&database, &["--cron", "often=0 0 0 1 1 ? 2199"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    let words: Vec<_> = shown.lines().filter(|line| line.starts_with("often")).collect();
    assert!(words.len() == 1 && words[0].contains("9 -> 0"), "{shown}");
    assert!(shown.contains("11 of the 11 runs of then succeed again"), "{shown}");

    for (arguments, said) in [
        (["--cron", "oftn=0 0 0 * * ?"], "there is no schedule \"oftn\"; there is only \"often\""),
        (["--every", "often"], "write a name, =, and what it would have had"),
        (["--time-limit", "none=1h"], "there is no job \"none\""),
        (["--outage", "2026-01-02T00:00:00Z..2026-01-01T00:00:00Z"], "it ends before it begins"),
    ] {
        let refused = ask(&database, &arguments);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && text.contains(said), "{arguments:?}: {text}");
    }
    assert_eq!(ended().collect::<Vec<_>>(), before);
}

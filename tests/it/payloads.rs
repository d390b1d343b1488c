//! What waits in a database is decoded with the handlers of a release before that release runs.

use chrono::{TimeDelta, Utc};
use firetime::{Builder, ErrorKind, ExecutionFilter, Job, Schedule, Scheduler, Trigger, Undecodable};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, NUMBER, TEXT, client};
use crate::trial;

/// Another job, that the release has no handler for.
const GONE: Job<u64> = Job::new("gone");
/// What the release has beside [`NUMBER`]; it was called "send" before, and its payloads were texts.
const SHIP: Job<Vec<u8>> = Job::new("ship")
    .aliases(&["send"])
    .upgrade(|old| Ok(serde_json::from_value::<String>(old)?.into_bytes()));
const SEND: Job<String> = Job::new("send");

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("what_a_release_cannot_run_is_found_before_it", what_a_release_cannot_run_is_found_before_it),
        ("a_check_is_bounded_however_much_waits", a_check_is_bounded_however_much_waits),
        ("a_check_of_what_cannot_start_is_refused", a_check_of_what_cannot_start_is_refused),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::payloads::{name}", kind.name()), move || test(kind)));
    }
}

fn release(database: &Database) -> Builder {
    Scheduler::builder(APPLICATION, &database.url).handler(NUMBER, |_, _| Ok(())).handler(SHIP, |_, _| Ok(()))
}

fn what_a_release_cannot_run_is_found_before_it(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let tomorrow = Utc::now() + TimeDelta::days(1);
    let ensure = |name: &str, payload: &str| {
        let schedule = Schedule::new(name, TEXT, &payload.to_owned(), Trigger::once(tomorrow).unwrap());
        client.ensure(&schedule.unwrap()).run().unwrap();
    };
    let number = Schedule::new("number", NUMBER, &7, Trigger::once(tomorrow).unwrap()).unwrap();
    client.ensure(&number).run().unwrap();
    ensure("words", "no number");
    ensure("paused", "none either");
    client.pause("paused").run().unwrap();
    ensure("removed", "nor this");
    client.remove("removed").run().unwrap();
    client.enqueue(NUMBER, &1).run().unwrap();
    client.enqueue(SEND, &"upgraded".to_owned()).run().unwrap();
    client.enqueue(SEND, &"upgraded".to_owned()).at(tomorrow).run().unwrap();
    client.enqueue_many(GONE, &[1; 300]).run().unwrap();
    let enqueued = client.enqueue(TEXT, &"a word".to_owned()).at(tomorrow).run().unwrap().id();
    let cancelled = client.enqueue(TEXT, &"a word".to_owned()).run().unwrap().id();
    client.cancel(cancelled).run().unwrap();
    let executions = client.executions(&ExecutionFilter { limit: 1_000, ..Default::default() }).unwrap();

    let release = release(&database);
    let found = release.check_payloads().unwrap();
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    let reason = |text: &str| format!("invalid type: string \"{text}\", expected u64 at line 1 column");
    let expected = [
        format!("schedule \"paused\" of job \"text\": {}", reason("none either")),
        format!("schedule \"words\" of job \"text\": {}", reason("no number")),
        format!("execution {enqueued} of job \"text\": {}", reason("a word")),
        "job \"gone\": no handler for what waits of it".to_owned(),
    ];
    assert_eq!(shown.len(), expected.len(), "{shown:#?}");
    for line in &expected {
        assert!(shown.iter().any(|shown| shown.starts_with(line)), "{line}: {shown:#?}");
    }
    assert!(found.iter().any(|it| matches!(it, Undecodable::Job { job, .. } if job == "gone")));
    // It has only read, and the same builder starts a node.
    assert_eq!(client.nodes().unwrap(), []);
    assert_eq!(client.jobs().unwrap().iter().filter(|job| job.name == "ship").count(), 0);
    let after = client.executions(&ExecutionFilter { limit: 1_000, ..Default::default() }).unwrap();
    assert_eq!(after, executions);
    assert!(release.start().unwrap().shutdown(crate::support::scheduler::SOON).is_clean());
}

fn a_check_is_bounded_however_much_waits(kind: ServerKind) {
    let database = kind.fresh();
    client(&database).enqueue_many(TEXT, &vec!["word".to_owned(); 1_300]).run().unwrap();
    let found = release(&database).check_payloads().unwrap();
    assert_eq!(found.len(), 1_000);
    assert!(found.iter().all(|it| matches!(it, Undecodable::Execution { job, .. } if job == "text")));
}

fn a_check_of_what_cannot_start_is_refused(kind: ServerKind) {
    let database = kind.fresh();
    let refused = |builder: Builder| builder.check_payloads().unwrap_err().kind();
    assert_eq!(refused(release(&database)), ErrorKind::Schema, "it creates no tables");
    assert_eq!(refused(Scheduler::builder(APPLICATION, &database.url)), ErrorKind::Config, "no handler");
    assert_eq!(refused(release(&database).handler(TEXT, |_, _| Ok(()))), ErrorKind::Config, "two for one");
}

//! The ledger is verified: it is whole after all that nodes and operators do, and each row that somebody
//! removes, doubles or changes by hand is found.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{
    Client, ErrorKind, ExecutionFilter, ExecutionState, FlawKind, HandlerError, Job, Retry, Schedule,
    Trigger, Triggered, Verification,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{SOON, builder, client, until};
use crate::trial;

const WORK: Job<()> = Job::new("work");
const BAD: Job<()> = Job::new("bad").retry(Retry::fixed(Duration::from_millis(1)).at_most(2));

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_ledger_is_whole_after_runs_and_operators", a_ledger_is_whole_after_runs_and_operators),
        ("what_somebody_changes_by_hand_is_found", what_somebody_changes_by_hand_is_found),
        #[cfg(feature = "cli")]
        ("a_certificate_tells_what_has_changed_since", a_certificate_tells_what_has_changed_since),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::verified::{name}", kind.name()), move || test(kind)));
    }
}

/// How many planned occurrences ended so.
fn ended(verified: &Verification, state: &str, reason: &str) -> u64 {
    let ends = verified.occurrences.iter().filter(|it| (it.state.as_str(), &*it.reason) == (state, reason));
    ends.map(|it| it.occurrences).sum()
}

/// Runs a job until a schedule has so many executions in this state.
fn run_until(database: &Database, schedule: &str, state: ExecutionState, count: usize) {
    let client = client(database);
    let scheduler = builder(database)
        .handler(WORK, |_, ()| Ok(()))
        .handler(BAD, |_, ()| -> Result<(), HandlerError> { Err("no".into()) })
        .start()
        .unwrap();
    let (schedule, states) = (Some(schedule.to_owned()), vec![state]);
    let filter = ExecutionFilter { schedule, states, ..ExecutionFilter::default() };
    until("enough executions", || (client.executions(&filter).unwrap().len() >= count).then_some(()));
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_ledger_is_whole_after_runs_and_operators(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database).acting_as("ann");
    let often = || Trigger::every(Duration::from_millis(200)).unwrap();
    let cron = || Trigger::cron("* * * * * ?", "Europe/Berlin").unwrap();
    for (name, job, trigger) in [
        ("often", WORK, often()),
        ("bad", BAD, often()),
        ("cron", WORK, cron()),
        ("delayed", WORK, Trigger::fixed_delay(Duration::from_millis(100)).unwrap()),
        ("once", WORK, Trigger::once(Utc::now()).unwrap()),
        ("removed", WORK, often()),
    ] {
        client.ensure(&Schedule::new(name, job, &(), trigger).unwrap()).run().unwrap();
    }
    run_until(&database, "bad", ExecutionState::Failed, 6);
    // Nobody runs anything from here on: it is due, held back, edited and removed.
    client.pause("often").run().unwrap();
    let due = client.schedule("cron").unwrap().schedule.next.unwrap();
    until("some are due", || (client.now().unwrap() > due + TimeDelta::seconds(1)).then_some(()));
    let hourly = Trigger::cron("0 0 * * * ?", "UTC").unwrap();
    client.ensure(&Schedule::new("cron", WORK, &(), hourly).unwrap()).run().unwrap();
    client.remove("removed").run().unwrap();
    client.resume("often").run().unwrap();
    let Triggered::Pending(_) = client.trigger("often").run().unwrap() else { panic!("it runs") };
    let ordered = client.now().unwrap();
    until("its fire time has passed", || (client.now().unwrap() > ordered).then_some(()));

    let verified = client.verify(..).run().unwrap();
    assert!(verified.is_whole(), "{verified:#?}");
    assert_eq!((verified.schedules, verified.by_hand, verified.is_cut_short), (6, 1, false));
    for (state, reason) in
        [("SUCCEEDED", ""), ("SKIPPED", "paused"), ("WITHDRAWN", "edited"), ("WITHDRAWN", "removed")]
    {
        assert!(ended(&verified, state, reason) > 0, "{state} {reason}: {verified:#?}");
    }
    assert!(verified.waiting > 0, "of the schedule that fails: {verified:#?}");
    let one = client.verify(..).schedule("once").run().unwrap();
    assert_eq!((one.schedules, one.demanded(), ended(&one, "SUCCEEDED", "")), (1, 1, 1));
    let later = client.verify(Utc::now() - TimeDelta::days(1)..Utc::now() - TimeDelta::hours(23));
    assert_eq!(later.run().unwrap().demanded(), 0);
    assert_eq!(client.verify(..).schedule("weekly").run().unwrap_err().kind(), ErrorKind::NotFound);
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let backwards = client.verify(at("2026-02-03T04:05:06Z")..at("2026-01-02T03:04:05Z")).run().unwrap_err();
    assert_eq!(backwards.kind(), ErrorKind::Config);
    let message = backwards.to_string();
    assert!(message.contains("2026-02-03 04:05:06") && message.contains("2026-01-02 03:04:05"), "{message}");
    let ahead = client.verify(Utc::now() + TimeDelta::days(1)..).run().unwrap_err();
    assert!(ahead.to_string().contains("but ends now"), "{ahead}");
}

/// The kinds of what is wrong with a schedule.
fn kinds(client: &Client, schedule: &str) -> BTreeSet<String> {
    let verified = client.verify(..).schedule(schedule).run().unwrap();
    verified.flaws.iter().map(|flaw| format!("{:?}", flaw.kind)).collect()
}

/// A copy of a row, but for what comes in its places.
macro_rules! copied {
    ($scheduled:literal, $attempt:literal) => {
        concat!(
            "INSERT INTO QRTZ_RUN (scheduled_time, attempt, execute_id, generation, origin, due_time, state, \
             application, fence, claimed_time, started_time, finished_time, prev_fire_time, \
             following_fire_time, node) SELECT ",
            $scheduled,
            ", ",
            $attempt,
            ", execute_id, generation, origin, due_time, state, application, fence, claimed_time, started_time, \
             finished_time, prev_fire_time, following_fire_time, node FROM QRTZ_RUN WHERE id = {id}"
        )
    };
}

/// A schedule's name, what is done to the third row of its ledger, and what is then found.
const HANDS: &[(&str, &str, FlawKind)] = &[
    ("removed", "DELETE FROM QRTZ_RUN WHERE id = {id}", FlawKind::Missing),
    ("attempted-twice", copied!("scheduled_time", "attempt + 1"), FlawKind::Twice),
    ("doubled", copied!("scheduled_time + 1", "attempt"), FlawKind::Unplanned),
    ("moved", "UPDATE QRTZ_RUN SET scheduled_time = scheduled_time + 7 WHERE id = {id}", FlawKind::Unplanned),
    ("renumbered", "UPDATE QRTZ_RUN SET attempt = 3 WHERE id = {id}", FlawKind::Attempts),
    (
        "unlinked",
        "UPDATE QRTZ_RUN SET prev_fire_time = prev_fire_time - 1 WHERE id = {id}",
        FlawKind::Unlinked,
    ),
    ("misspelt", "UPDATE QRTZ_RUN SET state = 'DONE' WHERE id = {id}", FlawKind::Contradiction),
    ("endless", "UPDATE QRTZ_RUN SET finished_time = -1 WHERE id = {id}", FlawKind::Contradiction),
    ("nowhere", "UPDATE QRTZ_RUN SET node = '' WHERE id = {id}", FlawKind::Contradiction),
    ("reopened", "UPDATE QRTZ_RUN SET state = 'RUNNING' WHERE id = {id}", FlawKind::Contradiction),
    ("regenerated", "UPDATE QRTZ_RUN SET generation = generation - 1 WHERE id = {id}", FlawKind::Missing),
    ("by-hand", "UPDATE QRTZ_RUN SET origin = 7 WHERE id = {id}", FlawKind::Missing),
    (
        "cursor",
        "UPDATE QRTZ_EXECUTE SET next_fire_time = next_fire_time + 400 WHERE name = 'cursor'",
        FlawKind::Unlinked,
    ),
    ("in-error", "UPDATE QRTZ_EXECUTE SET state = 'ERROR' WHERE name = 'in-error'", FlawKind::InError),
    (
        "history",
        "UPDATE QRTZ_TRIGGER SET repeat_interval = 70 WHERE execute_id = (SELECT execute_id FROM QRTZ_RUN \
         WHERE id = {id})",
        FlawKind::Missing,
    ),
    ("gone", "DELETE FROM QRTZ_EXECUTE WHERE name = 'gone'", FlawKind::Orphaned),
];

fn what_somebody_changes_by_hand_is_found(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    for (name, ..) in HANDS {
        let often = Trigger::every(Duration::from_millis(200)).unwrap();
        client.ensure(&Schedule::new(name, WORK, &(), often).unwrap()).run().unwrap();
    }
    run_until(&database, "gone", ExecutionState::Succeeded, 6);
    let before = client.verify(..).run().unwrap();
    assert!(before.is_whole(), "{before:#?}");
    let due = client.schedule("in-error").unwrap().schedule.next.unwrap();
    until("it is due", || (client.now().unwrap() > due).then_some(()));
    for (name, hand, kind) in HANDS {
        let filter = ExecutionFilter {
            schedule: Some((*name).to_owned()),
            states: vec![ExecutionState::Succeeded],
            ..ExecutionFilter::default()
        };
        let mut rows = client.executions(&filter).unwrap();
        rows.sort_by_key(|row| row.fire_time);
        database.batch(&hand.replace("{id}", &rows[2].id.to_string()));
        let found = match kind {
            FlawKind::Orphaned => {
                let flaws = client.verify(..).run().unwrap().flaws;
                flaws.iter().map(|flaw| format!("{:?}", flaw.kind)).collect()
            }
            _ => kinds(&client, name),
        };
        assert!(found.contains(&format!("{kind:?}")), "{name}: {found:?} {:#?}", client.verify(..).run());
    }
}

#[cfg(feature = "cli")]
fn a_certificate_tells_what_has_changed_since(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    for name in ["kept", "changed", "removed", "retimed", "gone"] {
        let often = Trigger::every(Duration::from_millis(200)).unwrap();
        client.ensure(&Schedule::new(name, WORK, &(), often).unwrap()).run().unwrap();
    }
    run_until(&database, "gone", ExecutionState::Succeeded, 6);
    // What ended less than a minute ago is not sealed.
    let (_, none) = client.verify(..).certify().unwrap();
    assert_eq!(none.rows, 0);
    database.batch(
        "UPDATE QRTZ_RUN SET finished_time = finished_time - 120000 WHERE finished_time >= 0; \
         UPDATE QRTZ_TRIGGER SET begun_time = begun_time - 120000",
    );
    let (verified, certificate) = client.verify(..).certify().unwrap();
    assert!(verified.is_whole() && certificate.is_whole, "{verified:#?}");
    assert!(certificate.rows >= 30, "{certificate:#?}");
    let again = client.verify_against(&certificate).unwrap();
    assert!(again.is_whole(), "{again:#?}");
    // What comes later changes nothing of it.
    run_until(&database, "gone", ExecutionState::Succeeded, 10);
    let again = client.verify_against(&certificate).unwrap();
    assert!(again.is_whole(), "{again:#?}");
    let of = |name: &str| format!("execute_id = (SELECT id FROM QRTZ_EXECUTE WHERE name = '{name}')");
    let oldest = |name: &str| {
        let filter = ExecutionFilter { schedule: Some(name.to_owned()), ..ExecutionFilter::default() };
        client.executions(&filter).unwrap().iter().map(|row| row.id).min().unwrap()
    };
    database.batch(&format!("UPDATE QRTZ_RUN SET error = 'never' WHERE id = {}", oldest("changed")));
    database.batch(&format!("DELETE FROM QRTZ_RUN WHERE id = {}", oldest("removed")));
    database.batch(&format!("UPDATE QRTZ_TRIGGER SET end_time = 9999999999999 WHERE {}", of("retimed")));
    database.batch(&format!("DELETE FROM QRTZ_RUN WHERE {}", of("gone")));
    database.batch("DELETE FROM QRTZ_EXECUTE WHERE name = 'gone'");
    let flaws = client.verify_against(&certificate).unwrap().flaws;
    let changed: BTreeSet<&str> = flaws
        .iter()
        .filter(|flaw| flaw.kind == FlawKind::Changed)
        .filter_map(|flaw| flaw.schedule.as_deref())
        .collect();
    assert_eq!(changed, BTreeSet::from(["changed", "removed", "retimed", "gone"]), "{flaws:#?}");
    let mut forged = certificate;
    forged.is_whole = !forged.is_whole;
    assert_eq!(client.verify_against(&forged).unwrap_err().kind(), ErrorKind::Config);
}

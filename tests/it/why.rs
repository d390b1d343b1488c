//! Why occurrences and executions ran, or did not.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{
    Client, ErrorKind, ExecutionFilter, ExecutionState, Fate, HandlerError, Job, MisfirePolicy, Schedule,
    Target, Trigger, Why,
};
use libtest_mimic::Trial;

use crate::support::database::ServerKind;
use crate::support::scheduler::{APPLICATION, SOON, builder, client, hanging, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("what_ran_and_what_failed_tells_where", what_ran_and_what_failed_tells_where),
        ("what_waits_tells_what_holds_it", what_waits_tells_what_holds_it),
        (
            "what_somebody_skipped_paused_or_removed_tells_who",
            what_somebody_skipped_paused_or_removed_tells_who,
        ),
        ("what_was_missed_or_would_overlap_tells_so", what_was_missed_or_would_overlap_tells_so),
        ("pages_of_a_fixed_delay_have_what_the_ledger_has", pages_of_a_fixed_delay),
        ("a_span_of_time_has_all_its_occurrences_by_pages", a_span_of_time_has_all_its_occurrences),
        ("an_unmet_expectation_is_told", an_unmet_expectation_is_told),
        #[cfg(feature = "cli")]
        ("the_program_tells_of_a_day", the_program_tells_of_a_day),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::why::{name}", kind.name()), move || test(kind)));
    }
}

#[track_caller]
fn tells(why: &Why, fate: Fate, reason: &str, words: &[&str]) {
    assert_eq!((why.fate, &*why.reason), (fate, reason), "{why:#?}");
    for word in words {
        assert!(why.sentence.contains(word), "{word:?} in {why:#?}");
    }
}

/// The first fire time of a schedule in this state.
fn fire_time(client: &Client, schedule: &str, state: ExecutionState) -> DateTime<Utc> {
    let (schedule, states) = (Some(schedule.to_owned()), vec![state]);
    let filter = ExecutionFilter { schedule, states, ..ExecutionFilter::default() };
    until("an execution in this state", || client.executions(&filter).unwrap().last()?.fire_time)
}

fn what_ran_and_what_failed_tells_where(kind: ServerKind) {
    const GOOD: Job<()> = Job::new("good");
    const BAD: Job<()> = Job::new("bad");
    let database = kind.fresh();
    let client = client(&database);
    let once = || Trigger::once(Utc::now()).unwrap();
    client.ensure(&Schedule::new("good", GOOD, &(), once()).unwrap()).run().unwrap();
    client.ensure(&Schedule::new("bad", BAD, &(), once()).unwrap()).run().unwrap();
    let scheduler = builder(&database)
        .handler(GOOD, |_, ()| Ok(()))
        .handler(BAD, |_, ()| -> Result<(), HandlerError> { Err("no route to mail".into()) })
        .start()
        .unwrap();
    let ran = client.why_at("good", fire_time(&client, "good", ExecutionState::Succeeded)).unwrap();
    tells(&ran, Fate::Succeeded, "", &["\"good\" of ", " ran on node ", " (+", ", and took "]);
    assert_eq!(ran.executions.len(), 1);
    assert_eq!(client.why(ran.executions[0]).unwrap().sentence, ran.sentence);
    let failed = client.why_at("bad", fire_time(&client, "bad", ExecutionState::Failed)).unwrap();
    tells(&failed, Fate::Failed, "", &["failed on node ", ": no route to mail; its job has no retries"]);
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn what_waits_tells_what_holds_it(kind: ServerKind) {
    const HANG: Job<()> = Job::new("hang").concurrency(1);
    let database = kind.fresh();
    let client = client(&database);
    let first = client.enqueue(HANG, &()).run().unwrap().id();
    tells(
        &client.why(first).unwrap(),
        Fate::Waiting,
        "no node",
        &["no live node has a handler for job \"hang\""],
    );
    let later = client.enqueue(HANG, &()).at(Utc::now() + TimeDelta::hours(1)).run().unwrap().id();
    tells(&client.why(later).unwrap(), Fate::Planned, "enqueued", &["is due at ", ", in 59 min"]);
    let (open, hang) = hanging();
    let scheduler = builder(&database).handler(HANG, hang).start().unwrap();
    let is_running = || client.execution(first).unwrap().execution.started.is_some().then_some(());
    until("the first runs", is_running);
    let second = client.enqueue(HANG, &()).run().unwrap().id();
    let full = format!("the only seat of job \"hang\" is taken by {first}");
    tells(&client.why(second).unwrap(), Fate::Waiting, "full", &[&full]);
    tells(&client.why(first).unwrap(), Fate::Running, "", &["has run since ", " on node "]);
    let ann = client.clone().acting_as("ann");
    ann.pause(Target::Job(HANG.name().to_owned())).reason("stocktaking").run().unwrap();
    let paused = "job \"hang\" is paused by ann (\"stocktaking\") since ";
    tells(&client.why(second).unwrap(), Fate::Waiting, "paused", &[paused]);
    ann.cancel(second).reason("not needed").run().unwrap();
    let by_ann = "was cancelled before it began at ";
    tells(&client.why(second).unwrap(), Fate::Cancelled, "cancelled", &[by_ann, "by ann (\"not needed\")"]);
    drop(open);
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// Nothing is run: an operator's changes alone.
fn what_somebody_skipped_paused_or_removed_tells_who(kind: ServerKind) {
    const WORK: Job<()> = Job::new("work");
    let database = kind.fresh();
    let client = client(&database).acting_as("ann");
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let nightly = Trigger::cron("0 0 2 * * ?", "UTC").unwrap();
    client.ensure(&Schedule::new("nightly", WORK, &(), nightly).unwrap()).run().unwrap();
    let next = client.schedule("nightly").unwrap().next_five;
    let why = |at| client.why_at("nightly", at).unwrap();
    tells(&why(next[0]), Fate::Planned, "", &[" will run in ", ", but no live node has a handler"]);
    tells(
        &why(at("2020-01-01T02:00:00Z")),
        Fate::NotDue,
        "not made yet",
        &["did not run: ann made its schedule at "],
    );
    let nearest = ["has no fire time there; the nearest are 2099-01-01 02:00:00.000 UTC and 2099-01-02"];
    tells(&why(at("2099-01-01T03:00:00Z")), Fate::NotDue, "no fire time", &nearest);
    client.skip("nightly", next[0]).reason("holiday").run().unwrap();
    tells(&why(next[0]), Fate::Skipped, "by hand", &["was skipped: ann (\"holiday\") skipped it"]);
    client.pause("nightly").reason("audit").run().unwrap();
    tells(&why(next[1]), Fate::WillBeSkipped, "paused", &["paused by ann (\"audit\") since "]);
    client.resume("nightly").run().unwrap();
    client.remove("nightly").run().unwrap();
    tells(&why(next[1]), Fate::NotDue, "removed", &["does not run: its schedule was removed by ann at "]);
    assert_eq!(client.why_at("weekly", next[0]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(client.why(1_000_000).unwrap_err().kind(), ErrorKind::NotFound);

    // A pause holds what comes due, and its end skips that.
    let often = Trigger::every(Duration::from_millis(500)).unwrap();
    client.ensure(&Schedule::new("often", WORK, &(), often).unwrap()).run().unwrap();
    client.pause("often").reason("stocktaking").run().unwrap();
    let held = client.schedule("often").unwrap().schedule.next.unwrap();
    until("its fire time has come", || (client.now().unwrap() > held).then_some(()));
    let why = client.why_at("often", held).unwrap();
    tells(
        &why,
        Fate::Waiting,
        "paused",
        &["will be skipped when the pause ends: ", "by ann (\"stocktaking\")"],
    );
    client.resume("often").run().unwrap();
    let due = client.schedule("often").unwrap().schedule.next.unwrap();
    until("its fire time has come", || (client.now().unwrap() > due).then_some(()));
    let hourly = Trigger::every(Duration::from_secs(3_600)).unwrap();
    client.ensure(&Schedule::new("often", WORK, &(), hourly).unwrap()).reason("too often").run().unwrap();
    let why = client.why_at("often", due).unwrap();
    tells(&why, Fate::Withdrawn, "edited", &["was withdrawn: ann (\"too often\") changed its trigger at "]);
    let why = client.why_at("often", held).unwrap();
    let words = ["schedule \"often\" was paused by ann (\"stocktaking\")", " from ", " until "];
    tells(&why, Fate::Skipped, "paused", &words);
}

fn what_was_missed_or_would_overlap_tells_so(kind: ServerKind) {
    const HANG: Job<()> = Job::new("hang");
    const LATE: Job<()> = Job::new("late");
    let database = kind.fresh();
    let client = client(&database);
    let missed = Utc::now() - TimeDelta::minutes(10);
    let late = Schedule::new("late", LATE, &(), Trigger::once(missed).unwrap()).unwrap();
    client.ensure(&late.misfire(MisfirePolicy::DoNothing)).run().unwrap();
    let often = Trigger::every(Duration::from_secs(1)).unwrap();
    client.ensure(&Schedule::new("often", HANG, &(), often).unwrap()).run().unwrap();
    let (open, hang) = hanging();
    let scheduler = builder(&database).handler(LATE, |_, ()| Ok(())).handler(HANG, hang).start().unwrap();
    let why = client.why_at("late", fire_time(&client, "late", ExecutionState::Skipped)).unwrap();
    tells(&why, Fate::Skipped, "misfire", &["it was missed by 10 min", "(DO_NOTHING)"]);
    let overlapped = fire_time(&client, "often", ExecutionState::Skipped);
    let why = client.why_at("often", overlapped).unwrap();
    tells(&why, Fate::Skipped, "overlap", &["was skipped: execution ", " had not ended, and has not yet"]);
    drop(open);
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// Of each trigger that it has had, and of those to come.
fn a_span_of_time_has_all_its_occurrences(kind: ServerKind) {
    const WORK: Job<()> = Job::new("work");
    let database = kind.fresh();
    let client = client(&database).acting_as("ann");
    let often = |millis| Trigger::every(Duration::from_millis(millis)).unwrap();
    let schedule = |trigger| Schedule::new("often", WORK, &(), trigger).unwrap();
    client.ensure(&schedule(often(100))).run().unwrap();
    let first = client.schedule("often").unwrap().schedule.next.unwrap();
    let third = first + TimeDelta::milliseconds(200);
    until("three have come due", || (client.now().unwrap() > third).then_some(()));
    client.ensure(&schedule(often(3_600_000))).run().unwrap();
    let next = client.schedule("often").unwrap().next_five[0];
    let page = client.why_between("often", first..next).unwrap();
    assert!(page.next.is_none() && page.answers.len() >= 3, "{page:#?}");
    assert!(page.answers.iter().all(|why| why.fate == Fate::Withdrawn), "{page:#?}");
    for (why, at) in page.answers.iter().zip((0..).map(|n| first + TimeDelta::milliseconds(100 * n))) {
        assert_eq!(why.at, Some(at));
        assert_eq!(*why, client.why_at("often", at).unwrap());
    }
    // That one has come.
    let next = next + TimeDelta::hours(1);
    let until = next + TimeDelta::hours(60);
    let page = client.why_between("often", next..until).unwrap();
    let is_planned = |why: &Why| why.fate == Fate::Planned;
    assert!(page.answers.len() == 50 && page.answers.iter().all(is_planned), "{page:#?}");
    assert_eq!(page.next, Some(next + TimeDelta::hours(50)));
    let rest = client.why_between("often", page.next.unwrap()..until).unwrap();
    assert_eq!((rest.answers.len(), rest.next), (10, None));
    let none = client.why_between("often", next + TimeDelta::seconds(1)..next + TimeDelta::seconds(2));
    assert_eq!(none.unwrap().answers, []);
    let unknown = client.why_between("weekly", first..next).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

/// Its fire times are those of the ledger, however many attempts were made at each.
fn pages_of_a_fixed_delay(kind: ServerKind) {
    const WORK: Job<()> = Job::new("work");
    let database = kind.fresh();
    let client = client(&database);
    let delay = Trigger::fixed_delay(Duration::from_secs(3_600)).unwrap();
    client.ensure(&Schedule::new("poll", WORK, &(), delay).unwrap()).run().unwrap();
    let id = client.schedule("poll").unwrap().schedule.id;
    let at = |n: i64| DateTime::from_timestamp_millis(1_700_000_000_000 + n * 3_600_000).unwrap();
    for (n, attempt) in (0..60).flat_map(|n| [(n, 1), (n, 2)]) {
        let (instant, state) = (at(n).timestamp_millis(), if attempt == 1 { "FAILED" } else { "SUCCEEDED" });
        let (application, node) = (APPLICATION, "n1");
        database.batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, due_time, state, \
             node, claimed_time, started_time, finished_time) VALUES ('{application}', {id}, 0, {instant}, \
             {attempt}, {instant}, '{state}', '{node}', {instant}, {instant}, {instant})"
        ));
    }
    let page = client.why_between("poll", at(3)..at(58)).unwrap();
    assert_eq!((page.answers.len(), page.next), (50, Some(at(53))));
    assert!(
        page.answers.iter().all(|why| why.fate == Fate::Succeeded && why.executions.len() == 2),
        "{page:#?}"
    );
    assert_eq!((page.answers[0].at, page.answers[49].at), (Some(at(3)), Some(at(52))));
    let rest = client.why_between("poll", at(53)..at(58)).unwrap();
    assert_eq!((rest.answers.len(), rest.next), (5, None));
}

fn an_unmet_expectation_is_told(kind: ServerKind) {
    const FAIL: Job<()> = Job::new("fail");
    let database = kind.fresh();
    let client = client(&database);
    let once = Trigger::once(Utc::now()).unwrap();
    let soon = Duration::from_millis(500);
    client.ensure(&Schedule::new("nightly", FAIL, &(), once).unwrap().expected_by(soon)).run().unwrap();
    let scheduler =
        builder(&database).handler(FAIL, |_, ()| -> Result<(), HandlerError> { Err("no".into()) });
    let scheduler = scheduler.start().unwrap();
    let at = fire_time(&client, "nightly", ExecutionState::Failed);
    let why = client.why_at("nightly", at).unwrap();
    let expected = why.expected.as_ref().unwrap();
    assert_eq!(
        (expected.within, expected.until - at, expected.met),
        (Duration::from_millis(500), TimeDelta::milliseconds(500), None)
    );
    let is_up = || {
        client.why_at("nightly", at).unwrap().evidence.into_iter().find(|it| it.known.ends_with("not met"))
    };
    assert_eq!(until("its time is up", is_up).what, "expected");
    assert!(scheduler.shutdown(SOON).is_clean());
}

#[cfg(feature = "cli")]
fn the_program_tells_of_a_day(kind: ServerKind) {
    use crate::command::{on, succeeded};

    const WORK: Job<()> = Job::new("work");
    let database = kind.fresh();
    let client = client(&database);
    let make = |name: &str, cron: &str| {
        let trigger = Trigger::cron(cron, "Asia/Kathmandu").unwrap();
        client.ensure(&Schedule::new(name, WORK, &(), trigger).unwrap()).run().unwrap();
    };
    make("nightly", "0 0 2 * * ?");
    make("hourly", "0 0 * * * ?");
    make("often", "0 0/10 * * * ?");
    make("monthly", "0 0 2 1 * ?");
    let why = |name: &str, more: &[&str]| {
        succeeded(&on(
            &database,
            &[&["--application", APPLICATION, "why", name, "2099-03-29"], more].concat(),
        ))
    };
    assert!(why("nightly", &[]).starts_with("\"nightly\" of 2099-03-28 20:15:00.000 UTC will run in "));
    let hourly = why("hourly", &[]);
    assert_eq!(hourly.lines().filter(|line| line.contains("planned")).count(), 24, "{hourly}");
    assert!(
        hourly.contains("2099-03-28 18:15:00.000") && hourly.contains("2099-03-29 17:15:00.000"),
        "{hourly}"
    );
    let often = why("often", &[]);
    assert!(often.contains("144    planned") && often.contains("The first 50 of 144 to come:"), "{often}");
    assert_eq!(often.lines().filter(|line| line.contains("will run in")).count(), 50, "{often}");
    assert!(
        why("monthly", &[]).contains("\"monthly\" has no fire time on 2099-03-29, from 2099-03-28 18:15")
    );
    let json: serde_json::Value = serde_json::from_str(&why("often", &["--output", "json"])).unwrap();
    assert_eq!((json["answers"].as_array().unwrap().len(), &json["next"]), (144, &serde_json::Value::Null));
    assert_eq!(json["answers"][0]["because"]["kind"], "nothing");
}

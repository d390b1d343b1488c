//! What an application may hand to the library: names with anything in them, texts too long, instants at the
//! ends of the calendar. Refusals say what, where and what to do, and leave everything as it was.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{
    Client, Ensured, Error, ErrorKind, ExecutionFilter, Job, Paused, Resumed, Schedule, ScheduleState,
    Trigger,
};
use libtest_mimic::Trial;

use crate::support::database::ServerKind;
use crate::trial;

const WORK: Job<u64> = Job::new("work");

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("names_may_hold_any_letter", names_may_hold_any_letter),
        (
            "what_cannot_be_stored_is_refused_before_it_is_tried",
            what_cannot_be_stored_is_refused_before_it_is_tried,
        ),
        ("instants_at_the_ends_of_the_calendar_are_taken_or_refused", instants_at_the_ends_of_the_calendar),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::arguments::{name}", kind.name()), move || test(kind)));
    }
    if kind.name() == "sqlite" {
        let name = "arguments::a_schedule_that_cannot_be_is_refused_when_it_is_made".to_owned();
        trials.push(trial(name, a_schedule_that_cannot_be_is_refused_when_it_is_made));
    }
}

fn client(kind: ServerKind) -> Client {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let client = Client::connect("it's \"arguments\" %", &database.url).unwrap();
    // A SQLite file lives as long as its handle.
    std::mem::forget(database);
    client
}

fn hourly(name: &str) -> Result<Schedule, Error> {
    Schedule::new(name, WORK, &1, Trigger::cron("@hourly", "UTC").unwrap())
}

/// The message of an error about the configuration.
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let said = error.to_string();
    assert!(said.len() < 500 && !said.contains(char::is_control), "{said:?}");
    said
}

fn a_schedule_that_cannot_be_is_refused_when_it_is_made() {
    assert!(refused(hourly("")).contains("schedule name is empty: write 1 to 200"));
    assert!(refused(hourly(&"☕".repeat(201))).contains("schedule name has 201 characters, 200 are allowed"));
    for control in ["\0", "a\nb", "\u{1b}[2J", "\u{9b}", "\t", "\u{7f}"] {
        assert!(refused(hourly(control)).contains("schedule name has control characters"), "{control:?}");
    }
    assert!(refused(hourly(&("x".repeat(199) + "\u{1b}"))).contains("at character 200"));
    let jobs: [Job<u64>; 3] = [Job::new(""), Job::new("a\u{1b}b"), Job::new(const { str_of::<201>() })];
    for job in jobs {
        let trigger = Trigger::cron("@hourly", "UTC").unwrap();
        assert!(refused(Schedule::new("s", job, &1, trigger)).contains("job name"), "{job:?}");
    }
    const MAP: Job<BTreeMap<(u8, u8), u8>> = Job::new("map");
    let trigger = Trigger::cron("@hourly", "UTC").unwrap();
    let said = refused(Schedule::new("s", MAP, &BTreeMap::from([((1, 2), 3)]), trigger));
    assert!(said.contains("\"s\"") && said.contains("payload"), "{said}");
}

/// A text of `N` letters.
const fn str_of<const N: usize>() -> &'static str {
    match str::from_utf8(&[b'x'; N]) {
        Ok(text) => text,
        Err(_) => "",
    }
}

fn names_may_hold_any_letter(kind: ServerKind) {
    let client = client(kind);
    let longest = "☕".repeat(200);
    let names = [
        "'",
        "\"",
        "`",
        "\\",
        "\\'",
        "%",
        "_",
        "?",
        "$1",
        "; DROP TABLE QRTZ_EXECUTE; --",
        "é",
        "e\u{301}",
        " blank ",
        "blank",
        "\u{202e}turned",
        "NULL",
        &longest,
    ];
    for name in names {
        assert_eq!(client.ensure(&hourly(name).unwrap()).run().unwrap(), Ensured::Created, "{name}");
        assert_eq!(client.ensure(&hourly(name).unwrap()).run().unwrap(), Ensured::Unchanged, "{name}");
        assert_eq!(
            client.pause(name).actor("it's me").reason("\"why\" \\ % ☕").run().unwrap(),
            Paused::Paused
        );
        assert_eq!(client.pause(name).run().unwrap(), Paused::NotActive(ScheduleState::Paused));
    }
    let rows = client.schedules().unwrap();
    assert_eq!(rows.len(), names.len());
    for name in names {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!((row.state.as_str(), row.reason.as_str()), ("paused", "\"why\" \\ % ☕"));
        assert_eq!(client.resume(name).run().unwrap(), Resumed::Resumed, "{name}");
        assert_eq!(client.resume(name).run().unwrap(), Resumed::NotPaused(ScheduleState::Active), "{name}");
    }
}

fn what_cannot_be_stored_is_refused_before_it_is_tried(kind: ServerKind) {
    let client = client(kind);
    client.ensure(&hourly("s").unwrap()).run().unwrap();
    let long = |letters: usize| "é".repeat(letters);
    for name in ["", "\0", "a\u{1b}b", &long(201)] {
        assert!(refused(client.pause(name).actor("me").reason("why").run()).contains("schedule name"));
        assert!(refused(client.resume(name).run()).contains("schedule name"));
    }
    for name in ["t", "S", "s ", &long(200)] {
        for error in [client.pause(name).run().unwrap_err(), client.resume(name).run().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.to_string().contains(name));
        }
    }
    let said = refused(client.pause("s").actor(&long(201)).reason("why").run());
    assert!(said.contains("the actor has 201 characters, 200"), "{said}");
    let said = refused(client.pause("s").actor("me").reason(&long(501)).run());
    assert!(said.contains("the reason has 501 characters, 500"), "{said}");
    assert!(refused(client.pause("s").actor("me\0").run()).contains("control"));
    assert!(refused(client.pause("s").actor("me").reason("\u{1b}[2J").run()).contains("control"));
    let filter = |node: &str| ExecutionFilter { node: Some(node.to_owned()), ..ExecutionFilter::default() };
    for node in ["\0", "a\nb", &long(37)] {
        assert!(refused(client.executions(&filter(node))).contains("node"));
    }
    for node in ["%", "_", "!", "'", ""] {
        assert!(client.executions(&filter(node)).unwrap().is_empty());
    }
    let all = ExecutionFilter {
        limit: usize::MAX,
        since: Some(DateTime::<Utc>::MIN_UTC),
        ..ExecutionFilter::default()
    };
    assert!(client.executions(&all).unwrap().is_empty());
    let row = &client.schedules().unwrap()[0];
    assert_eq!((row.state.as_str(), row.version), ("active", 0), "nothing was changed");
    let paused = client.pause("s").actor(&long(200)).reason(&long(500)).run().unwrap();
    assert_eq!(paused, Paused::Paused, "what fits is stored");
}

fn instants_at_the_ends_of_the_calendar(kind: ServerKind) {
    let client = client(kind);
    let (first, last) = (DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC);
    let epoch = DateTime::UNIX_EPOCH;
    let every = |span| Trigger::every(span).unwrap();
    let taken = [
        hourly("from the beginning").unwrap().starting(first),
        hourly("from before the epoch").unwrap().starting(epoch - TimeDelta::milliseconds(1)),
        hourly("to the end").unwrap().ending(last),
        Schedule::new("ages", WORK, &1, every(Duration::MAX)).unwrap(),
        Schedule::new("later", WORK, &1, every(Duration::from_secs(1))).unwrap().starting(last),
        hourly("never a misfire").unwrap().misfire_threshold(Duration::MAX),
        hourly("always a misfire").unwrap().misfire_threshold(Duration::ZERO),
        hourly("first of all").unwrap().priority(i32::MAX),
        hourly("last of all").unwrap().priority(i32::MIN),
    ];
    for schedule in &taken {
        assert_eq!(client.ensure(schedule).run().unwrap(), Ensured::Created, "{schedule:?}");
        assert_eq!(client.ensure(schedule).run().unwrap(), Ensured::Unchanged, "{schedule:?}");
    }
    assert_eq!(client.schedules().unwrap().len(), taken.len());
    let refusals = [
        (hourly("s").unwrap().ending(first), "end"),
        (hourly("s").unwrap().ending(epoch - TimeDelta::milliseconds(1)), "end"),
        (hourly("s").unwrap().ending(epoch + TimeDelta::days(365)), "1973"),
        (hourly("s").unwrap().starting(last).ending(epoch), "before start"),
        (hourly("s").unwrap().starting(last).ending(last), "no fire time"),
        (Schedule::new("s", WORK, &1, Trigger::once(epoch).unwrap()).unwrap(), "1973"),
        (Schedule::new("s", WORK, &1, every(Duration::from_secs(1))).unwrap().starting(first), "1970"),
    ];
    for (schedule, word) in refusals {
        let said = refused(client.ensure(&schedule).run());
        assert!(said.contains("\"s\"") && said.contains(word), "{said}");
    }
    assert_eq!(client.schedules().unwrap().len(), taken.len(), "nothing was stored");
}

//! A cluster's rows edited by hand while it runs: the healthy schedule goes on, the others are quarantined
//! with their reason or left alone, and people still see everything.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use chrono::DateTime;
use firetime::{
    Client, Event, ExecutionFilter, ExecutionState, Job, Schedule, ScheduleState, Scheduler, Trigger,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::trial;

const WORK: Job<u64> = Job::new("work");
const SOON: Duration = Duration::from_secs(60);
const MIN: &str = "-9223372036854775808";
const MAX: &str = "9223372036854775807";

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let name = format!("{}::edited::rows_written_by_hand_disturb_no_other", kind.name());
    trials.push(trial(name, move || rows_written_by_hand_disturb_no_other(kind)));
    let name = format!("{}::edited::pages_show_rows_beyond_the_calendar_once", kind.name());
    trials.push(trial(name, move || pages_show_rows_beyond_the_calendar_once(kind)));
}

fn pages_show_rows_beyond_the_calendar_once(kind: ServerKind) {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let client = Client::connect("edited", &database.url).unwrap();
    let hourly = Trigger::every(Duration::from_secs(3_600)).unwrap();
    client.ensure(&Schedule::new("s", WORK, &1, hourly).unwrap()).run().unwrap();
    let times = [MIN, "-99999999999999999", "-2", "1700000000000", "1700000000001", "99999999999999999", MAX];
    for at in times {
        database.batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, due_time) \
             SELECT application, id, generation, {at}, 1, 'FAILED', 0 FROM QRTZ_EXECUTE WHERE name = 's'"
        ));
    }
    let all = ExecutionFilter::default;
    let schedule = || Some("s".to_owned());
    for (filter, count) in [
        (all(), Some(times.len())),
        (ExecutionFilter { schedule: schedule(), ..all() }, Some(times.len())),
        (ExecutionFilter { states: vec![ExecutionState::Failed], ..all() }, Some(times.len())),
        (ExecutionFilter { schedule: schedule(), since: Some(DateTime::UNIX_EPOCH), ..all() }, None),
        (ExecutionFilter { since: Some(DateTime::UNIX_EPOCH), ..all() }, None),
    ] {
        for (oldest_first, limit) in [(false, 1), (false, 2), (true, 1), (true, 3)] {
            let filter = ExecutionFilter { oldest_first, ..filter.clone() };
            let ids = |filter| client.executions(&filter).unwrap().into_iter().map(|it| (it.id, it.place()));
            let whole: Vec<_> = ids(filter.clone()).collect();
            assert!(count.is_none_or(|count| count == whole.len()) && whole.len() >= 3, "{filter:?}");
            let (mut paged, mut after) = (Vec::new(), None);
            while paged.len() <= whole.len() {
                let page: Vec<_> = ids(ExecutionFilter { after, limit, ..filter.clone() }).collect();
                let Some((_, last)) = page.last() else { break };
                after = Some(*last);
                paged.extend(page);
            }
            assert_eq!(paged, whole, "{filter:?} by pages of {limit}");
        }
    }
}

/// What is written into a row of its own, and a word of the reason it is quarantined for; none: it is left
/// alone.
fn edits() -> Vec<(String, Option<&'static str>)> {
    let overdue = "next_fire_time = 1700000000000";
    let mut edits: Vec<(String, Option<&'static str>)> = [
        ("state = 'RUNING'", "RUNING"),
        ("state = NULL", "state"),
        ("job_type = 'CALENDAR'", "CALENDAR"),
        ("job_type = NULL", "job_type"),
        ("prev_fire_time = NULL", "prev_fire_time"),
        ("next_fire_time = NULL", "next_fire_time"),
        ("start_time = NULL", "start_time"),
        ("prev_fire_time = next_fire_time", "not after"),
        ("next_fire_time = 1700000000", "seconds"),
        ("next_fire_time = -1", "without"),
        ("repeat_interval = 0", "interval"),
        ("repeat_interval = -5", "interval"),
        ("repeat_count = -2", "repeat count"),
        ("pid = 4711471147", "pid"),
        ("misfire = 'MAYBE'", "MAYBE"),
        ("shard = 16", "shard"),
    ]
    .map(|(edit, word)| (edit.to_owned(), Some(word)))
    .into();
    let cron = "job_type = 'CRON', zone_id = 'UTC', cron = ";
    edits.push((format!("{cron}'0 0 25 * * ?', {overdue}"), Some("25")));
    edits.push((
        format!("{cron}'@daily', {overdue}").replace("'UTC'", "'Mars/Olympus'"),
        Some("Mars/Olympus"),
    ));
    for column in ["version", "generation", "priority", "prev_fire_time"] {
        edits.extend([MIN, MAX].map(|end| (format!("{column} = {end}"), Some(column))));
    }
    for column in ["next_fire_time", "end_time", "threshold"] {
        edits.push((format!("{column} = {MIN}"), Some(column)));
        edits.push((format!("{column} = {MAX}"), None));
    }
    edits.push((format!("fence = {MAX}, {overdue}, threshold = {MAX}"), Some("")));
    edits.push((format!("time_triggered = {MAX}"), None));
    edits.push((format!("threshold = {MAX}, repeat_interval = 1, next_fire_time = 100000000000"), None));
    edits.push(("payload = 'not json'".to_owned(), None));
    edits.push((format!("payload = '{}'", "[".repeat(1_000_000)), None));
    edits
}

/// PENDING rows of the healthy schedule, each known by its origin, and what becomes of them.
fn pendings(database: &Database) -> BTreeMap<i64, &'static str> {
    const TOKEN: &str = "'00000000-0000-4000-8000-000000000001'";
    let (run, left) = ("SUCCEEDED", "PENDING");
    // Fire time, attempt, due time, token.
    let rows = [
        (["1700000000000", "1", "-1", TOKEN], run),
        (["1700000000000", "1", "-9223372036854775807", TOKEN], run),
        (["1700000000000", "4294967295", "0", TOKEN], run),
        (["-1", "1", "0", TOKEN], run),
        (["1700000000000", "1", MIN, TOKEN], left),
        (["1700000000000", "1", MAX, TOKEN], left),
        (["1700000000000", MIN, "0", TOKEN], left),
        (["1700000000000", MAX, "0", TOKEN], left),
        ([MIN, "1", "0", TOKEN], left),
        ([MAX, "1", "0", TOKEN], left),
        (["1700000000000", "1", "0", "''"], left),
        (["1700000000000", "1", "0", "'no uuid'"], left),
    ];
    let mut expected = BTreeMap::new();
    // Above this are enqueued executions, which belong to queues.
    let origins = [i64::MIN, (1 << 60) - 1].into_iter().chain(1..);
    for (origin, ([scheduled, attempt, due, token], becomes)) in origins.zip(rows) {
        database.batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, state, \
             due_time, claim_token) SELECT application, id, generation, {origin}, {scheduled}, {attempt}, \
             'PENDING', {due}, {token} FROM QRTZ_EXECUTE WHERE name = 'healthy'"
        ));
        expected.insert(origin, becomes);
    }
    expected
}

fn states(client: &Client, of: &BTreeMap<i64, &'static str>) -> BTreeMap<i64, &'static str> {
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let rows = rows.iter().filter(|row| of.contains_key(&row.origin));
    let known = |state: &str| ["SUCCEEDED", "PENDING"].into_iter().find(|it| *it == state).unwrap_or("other");
    rows.map(|row| (row.origin, known(row.state.as_str()))).collect()
}

fn rows_written_by_hand_disturb_no_other(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = channel();
    let (say, events) = channel();
    let (tell, say) = (Mutex::new(tell), Mutex::new(say));
    let scheduler = Scheduler::builder("edited", &database.url)
        .poll_interval(Duration::from_millis(500))
        .misfire_interval(Duration::from_millis(500))
        .handler(WORK, move |context, _| {
            Ok(tell.lock().unwrap().send(context.schedule().to_owned()).map_err(|_| "gone")?)
        })
        .on_event(move |event| drop(say.lock().unwrap().send(event.clone())))
        .start()
        .unwrap();
    let client = scheduler.client();
    let edits = edits();
    for n in 0..edits.len() {
        let hourly = Trigger::every(Duration::from_secs(3_600)).unwrap();
        let hourly = hourly.starting(chrono::Utc::now() + chrono::TimeDelta::hours(1)).unwrap();
        client.ensure(&Schedule::new(&format!("row-{n}"), WORK, &1, hourly).unwrap()).run().unwrap();
    }
    for (n, (edit, _)) in edits.iter().enumerate() {
        database.batch(&format!("UPDATE QRTZ_EXECUTE SET {edit} WHERE name = 'row-{n}'"));
    }
    let every_second = Trigger::cron("* * * * * ?", "UTC").unwrap();
    client.ensure(&Schedule::new("healthy", WORK, &2, every_second).unwrap()).run().unwrap();

    let wanted = edits.iter().filter(|(_, word)| word.is_some()).count();
    let (mut quarantined, deadline) = (BTreeMap::new(), Instant::now() + SOON);
    while quarantined.len() < wanted {
        let event =
            events.recv_timeout(deadline - Instant::now()).unwrap_or_else(|_| panic!("only {quarantined:?}"));
        match event {
            Event::Quarantined { schedule, reason, .. } => drop(quarantined.insert(schedule, reason)),
            Event::LoopPanicked { .. } | Event::Fenced { .. } => panic!("{event}"),
            Event::StoreFailed { .. } if !event.to_string().contains("claim") => panic!("{event}"),
            _ => {}
        }
    }
    let pendings = pendings(&database);
    let mut healthy = 0;
    while healthy < 5 || states(&client, &pendings) != pendings {
        let name = told.recv_timeout(SOON).unwrap();
        healthy += usize::from(name == "healthy");
        assert!(healthy < 60, "{:?} instead of {pendings:?}", states(&client, &pendings));
    }
    let rows = client.schedules().unwrap();
    for (n, (edit, word)) in edits.iter().enumerate() {
        let row = rows.iter().find(|row| row.name == format!("row-{n}")).unwrap();
        let reason_fits = word.is_none_or(|word| row.reason.contains(word) && !row.reason.is_empty());
        assert_eq!(
            (row.state == ScheduleState::Error, reason_fits),
            (word.is_some(), true),
            "{edit:.100}: {row:?}"
        );
    }
    assert!(client.executions(&ExecutionFilter::default()).unwrap().len() >= 5);
    assert_eq!(client.nodes().unwrap().len(), 1);
    assert!(scheduler.shutdown(SOON).is_clean());
}

//! A scheduler's life inside one process: start, run, fail, pause, stop.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use firetime::{
    Builder, Cause, Context, Enqueued, Ensured, ErrorKind, Event, ExecutionFilter, ExecutionState, Job, Lane,
    Overlap, Schedule, ScheduleState, Scheduler, Stopped, Trigger,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{
    APPLICATION, NUMBER, SOON, TEXT, builder, client, listen, once_now, states, teller, wait_for,
};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_handler_gets_its_payload_and_its_occurrence", a_handler_gets_its_payload_and_its_occurrence),
        ("a_panic_and_an_error_are_outcomes", a_panic_and_an_error_are_outcomes),
        ("what_is_enqueued_runs_once", what_is_enqueued_runs_once),
        ("what_nobody_can_decode_is_left_alone", what_nobody_can_decode_is_left_alone),
        ("what_was_stored_before_a_release_runs_after_it", what_was_stored_before_a_release_runs_after_it),
        ("a_one_shot_in_the_past_fires_once", a_one_shot_in_the_past_fires_once),
        ("shutdown_returns_by_its_deadline", shutdown_returns_by_its_deadline),
        (
            "a_shutdown_inside_a_handler_does_not_wait_for_it",
            a_shutdown_inside_a_handler_does_not_wait_for_it,
        ),
        ("a_dropped_scheduler_stops_claiming_and_says_so", a_dropped_scheduler_stops_claiming_and_says_so),
        (
            "a_static_lock_does_not_keep_a_second_scheduler_from_repairing",
            a_static_lock_does_not_keep_a_second_scheduler_from_repairing,
        ),
        ("a_schedule_that_is_weeks_behind_fires_soon", a_schedule_that_is_weeks_behind_fires_soon),
        ("a_node_is_not_its_ip_address", a_node_is_not_its_ip_address),
        ("a_start_that_cannot_work_is_refused", a_start_that_cannot_work_is_refused),
        ("occurrences_on_the_windows_edge_are_not_dropped", occurrences_on_the_windows_edge_are_not_dropped),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::life::{name}", kind.name()), move || test(kind)));
    }
    #[cfg(feature = "sqlite")]
    if kind == ServerKind::Sqlite {
        // Not named after the database: it runs while nothing else does.
        trials.push(trial("idle::jobs_start_on_time".to_owned(), jobs_start_on_time));
        let name = "sqlite::life::polls_stay_on_the_grid_for_two_minutes";
        trials.push(trial(name.to_owned(), polls_stay_on_the_grid_for_two_minutes));
        let name = "sqlite::life::slow_decoders_hold_up_no_other_job";
        trials.push(trial(name.to_owned(), slow_decoders_hold_up_no_other_job));
        let name = "sqlite::life::a_node_whose_file_was_replaced_stops_and_says_so";
        trials.push(trial(name.to_owned(), a_node_whose_file_was_replaced_stops_and_says_so));
    }
}

fn a_handler_gets_its_payload_and_its_occurrence(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(TEXT, move |context, text| {
            let began = Utc::now();
            tell.lock().unwrap().send((text, context.fire_time(), context.attempt(), began)).unwrap();
            Ok(())
        })
        .start()
        .unwrap();
    let at = Utc::now() + TimeDelta::milliseconds(300);
    let text = "naïve ☂ 'quoted' \"text\"".to_owned();
    let schedule = Schedule::new("greet", TEXT, &text, Trigger::once(at).unwrap()).unwrap();
    assert_eq!(scheduler.client().ensure(&schedule).run().unwrap(), Ensured::Created);
    let (payload, fire_time, attempt, began) = told.recv_timeout(SOON).unwrap();
    assert_eq!((payload, fire_time.timestamp_millis(), attempt), (text, at.timestamp_millis(), 1));
    assert!(began >= fire_time, "never early");
    assert!(scheduler.shutdown(SOON).is_clean());
    assert_eq!(states(&client(&database)), [("SUCCEEDED".to_owned(), 1)]);
}

/// By two nodes together, one of which it was enqueued with.
fn what_is_enqueued_runs_once(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let node = || {
        let tell = Arc::clone(&tell);
        let run = move |context: &Context, n: u64| {
            let cause = context.cause().clone();
            tell.lock().unwrap().send((n, context.schedule().to_owned(), cause)).unwrap();
            Ok(())
        };
        builder(&database).handler(NUMBER, run).start().unwrap()
    };
    let nodes = [node(), node()];
    let numbers: Vec<u64> = (0..200).collect();
    let ids = nodes[0].client().enqueue_many(NUMBER, &numbers).run().unwrap();
    let later = nodes[0].client().enqueue(NUMBER, &200).after(Duration::from_millis(200)).run().unwrap();
    assert!(matches!(later, Enqueued::Created(id) if !ids.contains(&id)));
    let mut seen: Vec<u64> = Vec::new();
    while seen.len() < 201 {
        let (n, schedule, cause) = told.recv_timeout(SOON).unwrap();
        assert_eq!((schedule.as_str(), cause), (&*format!("queue:{}", NUMBER.name()), Cause::Enqueued));
        seen.push(n);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..201).collect::<Vec<u64>>());
    assert!(nodes.iter().all(|node| node.shutdown(SOON).is_clean()) && told.try_recv().is_err());
    assert_eq!(states(&client(&database)), vec![("SUCCEEDED".to_owned(), 1); 201]);
}

fn a_panic_and_an_error_are_outcomes(kind: ServerKind) {
    let database = kind.fresh();
    let (with_events, events) =
        listen(builder(&database).threads(1, 1).handler(TEXT, |_, text| match text.as_str() {
            "panic" => panic!("as asked"),
            text => Err::<(), _>(format!("cannot do {text}").into()),
        }));
    let scheduler = with_events.start().unwrap();
    scheduler.client().ensure(&once_now("a", "panic")).run().unwrap();
    scheduler.client().ensure(&once_now("b", "this\0and\u{1b}[31mthat")).run().unwrap();
    for _ in 0..2 {
        wait_for(&events, |event| matches!(event, Event::Finished { error: Some(_), .. }).then_some(()));
    }
    assert!(scheduler.shutdown(SOON).is_clean());
    let rows = client(&database).executions(&ExecutionFilter::default()).unwrap();
    let error =
        |name: &str| rows.iter().find(|row| row.schedule == name).map(|row| row.error.clone()).unwrap();
    assert_eq!(error("a"), "panicked: as asked");
    assert!(error("b").starts_with("cannot do this"), "{}", error("b"));
    assert!(rows.iter().all(|row| row.state == ExecutionState::Failed));
}

fn what_nobody_can_decode_is_left_alone(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    client.ensure(&once_now("words", "not a number")).run().unwrap();
    let (with_events, events) = listen(builder(&database).handler(NUMBER, |_, _| Ok(())));
    let scheduler = with_events.start().unwrap();
    wait_for(&events, |event| match event {
        Event::Undecodable { schedule, .. } => (schedule.as_ref() == "words").then_some(()),
        _ => None,
    });
    wait_for(&events, |event| matches!(event, Event::Polled { tick: Some(_), planned: 0, .. }).then_some(()));
    assert!(states(&client).is_empty());
    let late = Instant::now() + SOON;
    let shown = || client.schedules().unwrap().remove(0);
    // Its next heartbeat says so.
    while shown().left_alone.is_empty() {
        assert!(Instant::now() < late);
    }
    let nowhere = "its payload cannot be decoded on any live node: invalid type: string \"not a number\"";
    assert_eq!((shown().state.as_str(), shown().left_alone.starts_with(nowhere)), ("active", true));
    // Enqueued, it is left to a node of another release.
    let id = client.enqueue(TEXT, &"nor this".to_owned()).run().unwrap().id();
    let left = wait_for(&events, |event| match event {
        Event::Finished { state: ExecutionState::Pending, error, .. } => error.clone(),
        _ => None,
    });
    let row = || client.execution(id).unwrap().attempts.remove(0);
    // The event precedes the row.
    while row().reason != "undecodable" {
        assert!(Instant::now() < late, "{:?}", row());
    }
    assert_eq!((row().state.as_str(), row().error), ("PENDING", left));
    let newer = builder(&database).handler(TEXT, |_, _| Ok(())).start().unwrap();
    while states(&client) != [("SUCCEEDED".to_owned(), 1), ("SUCCEEDED".to_owned(), 1)] {
        assert!(Instant::now() < late, "{:?}", states(&client));
    }
    assert!(scheduler.shutdown(SOON).is_clean() && newer.shutdown(SOON).is_clean());
}

/// The job has another name now, and its payload another type.
fn what_was_stored_before_a_release_runs_after_it(kind: ServerKind) {
    const NOW: Job<(String, u64)> =
        Job::new("now").aliases(&["text"]).upgrade(|old| Ok((serde_json::from_value(old)?, 0)));
    let database = kind.fresh();
    let client = client(&database);
    client.enqueue(TEXT, &"enqueued".to_owned()).run().unwrap();
    client.ensure(&once_now("words", "scheduled")).run().unwrap();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(NOW, move |context, payload| {
            Ok(tell.lock().unwrap().send((context.job().to_owned(), payload)).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    client.enqueue(NOW, &("new".to_owned(), 7)).run().unwrap();
    let mut ran: Vec<_> = (0..3).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    ran.sort();
    let expected = [("now", "new", 7), ("text", "enqueued", 0), ("text", "scheduled", 0)];
    assert_eq!(ran, expected.map(|(job, text, n)| (job.to_owned(), (text.to_owned(), n))));
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// A payload whose decoding takes 200 ms.
#[cfg(feature = "sqlite")]
struct Slow;

#[cfg(feature = "sqlite")]
impl<'de> serde::Deserialize<'de> for Slow {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // The decoder's own work: nothing is waited for.
        std::thread::sleep(Duration::from_millis(200));
        <()>::deserialize(from).map(|()| Self)
    }
}

/// A payload whose decoding never ends.
#[cfg(feature = "sqlite")]
struct Endless;

#[cfg(feature = "sqlite")]
impl<'de> serde::Deserialize<'de> for Endless {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        let (_open, never) = channel::<()>();
        never.recv().unwrap();
        Ok(Self)
    }
}

/// Payloads that take 20 s to be decoded come due at once, and one whose decoder does not return: a schedule
/// of another job goes on.
#[cfg(feature = "sqlite")]
fn slow_decoders_hold_up_no_other_job() {
    const BOUND: Duration = Duration::from_secs(8);
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database);
    let (tell, told) = teller();
    let (with_events, events) = listen(Scheduler::builder(APPLICATION, &database.url));
    let scheduler = with_events
        .handler(TEXT, move |_, _| Ok(tell.lock().unwrap().send(Instant::now()).map_err(|_| "gone")?))
        .handler(Job::<Slow>::new("slow"), |_, _| Ok(()))
        .handler(Job::<Endless>::new("endless"), |_, _| Ok(()))
        .start()
        .unwrap();
    let every_second = Trigger::every(Duration::from_secs(1)).unwrap();
    let others = Schedule::new("others", TEXT, &String::new(), every_second).unwrap();
    scheduler.client().ensure(&others).run().unwrap();
    let mut last = told.recv_timeout(SOON).unwrap();
    let soon = Trigger::once(Utc::now() + TimeDelta::seconds(2)).unwrap();
    for n in 0..100 {
        let slow = Schedule::new(&format!("slow-{n}"), Job::<()>::new("slow"), &(), soon.clone()).unwrap();
        client.ensure(&slow).run().unwrap();
    }
    client.ensure(&Schedule::new("endless", Job::<()>::new("endless"), &(), soon).unwrap()).run().unwrap();
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < 2 * BOUND {
        let next = told.recv_timeout(SOON).unwrap();
        longest = longest.max(next - last);
        last = next;
    }
    wait_for(&events, |event| match event {
        Event::Undecodable { schedule, .. } => (schedule.as_ref() == "endless").then_some(()),
        _ => None,
    });
    println!("the longest pause beside slow decoders: {longest:?}");
    assert!(longest <= BOUND, "{longest:?}");
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_one_shot_in_the_past_fires_once(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(TEXT, move |context, _| {
            Ok(tell.lock().unwrap().send(context.fire_time()).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let yesterday = Utc::now() - TimeDelta::days(1);
    let schedule = Schedule::new("past", TEXT, &String::new(), Trigger::once(yesterday).unwrap()).unwrap();
    scheduler.client().ensure(&schedule).run().unwrap();
    let fired = told.recv_timeout(SOON).unwrap();
    assert_eq!(fired.timestamp_millis(), yesterday.timestamp_millis());
    assert!(scheduler.shutdown(SOON).is_clean());
    assert_eq!(states(&client(&database)), [("SUCCEEDED".to_owned(), 1)]);
    assert_eq!(client(&database).schedules().unwrap()[0].state, ScheduleState::Complete);
}

fn shutdown_returns_by_its_deadline(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let scheduler = builder(&database)
        .handler(TEXT, move |context, _| {
            tell.lock().unwrap().send(context.clone()).unwrap();
            // Ends when the test lets go of the other side.
            released.lock().unwrap().recv().ok();
            Ok(())
        })
        .start()
        .unwrap();
    scheduler.client().ensure(&once_now("stuck", "")).run().unwrap();
    let context = told.recv_timeout(SOON).unwrap();
    assert!(!context.is_stopping());
    let begin = Instant::now();
    assert_eq!(scheduler.shutdown(Duration::from_millis(500)), Stopped::Unclean, "a job still runs");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(context.is_stopping());
    assert_eq!(scheduler.wait(), Stopped::Unclean, "and wait says the same");
    drop(release);
}

fn a_shutdown_inside_a_handler_does_not_wait_for_it(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let (give, given) = channel::<Arc<Scheduler>>();
    let given = Mutex::new(given);
    let scheduler = builder(&database)
        .handler(TEXT, move |_, _| {
            let scheduler = given.lock().unwrap().recv()?;
            let stopped = scheduler.shutdown(SOON);
            Ok(tell.lock().unwrap().send(stopped).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let scheduler = Arc::new(scheduler);
    give.send(Arc::clone(&scheduler)).unwrap();
    scheduler.client().ensure(&once_now("last", "")).run().unwrap();
    assert_eq!(told.recv_timeout(SOON / 2), Ok(Stopped::NotYet), "nobody can know yet whether it is clean");
    assert!(scheduler.wait().is_clean(), "the handler ended in time");
    assert_eq!(states(&client(&database)), [("SUCCEEDED".to_owned(), 1)]);
}

fn a_dropped_scheduler_stops_claiming_and_says_so(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let (with_events, events) = listen(builder(&database).handler(TEXT, move |context, _| {
        Ok(tell.lock().unwrap().send(context.fire_time()).map_err(|_| "gone")?)
    }));
    let scheduler = with_events.start().unwrap();
    let every = Trigger::every(Duration::from_millis(100)).unwrap();
    scheduler.client().ensure(&Schedule::new("tick", TEXT, &String::new(), every).unwrap()).run().unwrap();
    told.recv_timeout(SOON).unwrap();
    drop(scheduler);
    let dropped = Utc::now();
    wait_for(&events, |event| matches!(event, Event::Dropped).then_some(()));
    wait_for(&events, |event| matches!(event, Event::Stopped { clean: true, .. }).then_some(()));
    let last = told.try_iter().last();
    assert!(
        last.is_none_or(|last| last <= dropped + TimeDelta::milliseconds(200)),
        "{last:?} after {dropped}"
    );
}

/// Two nodes fired one schedule, each in a file of its own.
#[cfg(feature = "sqlite")]
fn a_node_whose_file_was_replaced_stops_and_says_so() {
    let database = ServerKind::Sqlite.fresh();
    let ticking = |database: &Database| {
        let (tell, told) = teller();
        let (builder, events) = listen(builder(database).handler(TEXT, move |context, _| {
            Ok(tell.lock().unwrap().send(context.fire_time()).map_err(|_| "gone")?)
        }));
        let scheduler = builder.start().unwrap();
        let every = Trigger::every(Duration::from_millis(200)).unwrap();
        let tick = Schedule::new("tick", TEXT, &String::new(), every).unwrap();
        assert_eq!(scheduler.client().ensure(&tick).run().unwrap(), Ensured::Created);
        told.recv_timeout(SOON).unwrap();
        (scheduler, events, told)
    };
    let (old, of_old, told_old) = ticking(&database);
    let file = database.url.strip_prefix("sqlite:").unwrap();
    for part in ["", "-wal", "-shm"] {
        std::fs::rename(format!("{file}{part}"), format!("{file}.away{part}")).unwrap();
    }
    let (new, _, told_new) = ticking(&database);
    let path = wait_for(&of_old, |event| match event {
        Event::DatabaseReplaced { path, .. } => Some(path.clone()),
        _ => None,
    });
    assert_eq!(path, file);
    assert_eq!(old.wait(), Stopped::GivenUp);
    let error = old.client().ensure(&once_now("other", "")).run().unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("replaced"), "{error}");
    assert_eq!(old.shutdown(SOON), Stopped::Unclean, "others were not told that it leaves");
    while told_old.try_recv().is_ok() {}
    while told_new.try_recv().is_ok() {}
    for _ in 0..5 {
        told_new.recv_timeout(SOON).unwrap();
    }
    assert!(told_old.try_recv().is_err(), "it goes on in the old file");
    assert!(new.shutdown(SOON).is_clean());
}

fn a_static_lock_does_not_keep_a_second_scheduler_from_repairing(kind: ServerKind) {
    let database = kind.fresh();
    let yesterday = Utc::now() - TimeDelta::days(1);
    let mut running = Vec::new();
    for application in ["one", "two"] {
        let (tell, told) = teller();
        let scheduler = Scheduler::builder(application, &database.url)
            .poll_interval(Duration::from_secs(1))
            .misfire_interval(Duration::from_secs(1))
            .handler(TEXT, move |_, text| Ok(tell.lock().unwrap().send(text).map_err(|_| "gone")?))
            .start()
            .unwrap();
        let past = Trigger::once(yesterday).unwrap();
        let schedule = Schedule::new("past", TEXT, &application.to_owned(), past).unwrap();
        scheduler.client().ensure(&schedule).run().unwrap();
        running.push((application, scheduler, told));
    }
    for (application, scheduler, told) in running {
        assert_eq!(told.recv_timeout(SOON).unwrap(), application);
        assert!(scheduler.shutdown(SOON).is_clean());
    }
}

/// As after two weeks without a node: with the default intervals it took three minutes.
fn a_schedule_that_is_weeks_behind_fires_soon(kind: ServerKind) {
    const WEEKS: i64 = 14 * 86_400_000;
    let database = kind.fresh();
    let every_second = Trigger::cron("* * * * * ?", "UTC").unwrap();
    let client = client(&database);
    client.ensure(&Schedule::new("behind", TEXT, &String::new(), every_second).unwrap()).run().unwrap();
    database.batch(&format!("UPDATE QRTZ_EXECUTE SET next_fire_time = next_fire_time - {WEEKS}"));
    let (tell, told) = teller();
    let handler =
        move |context: &Context, _| Ok(tell.lock().unwrap().send(context.fire_time()).map_err(|_| "gone")?);
    let begin = Utc::now();
    let builder = Scheduler::builder(APPLICATION, &database.url);
    let scheduler = builder.handler(TEXT, handler).start().unwrap();
    while told.recv_timeout(SOON).unwrap() < begin {}
    assert!(Utc::now() - begin < TimeDelta::seconds(30), "it took {}", Utc::now() - begin);
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_node_is_not_its_ip_address(kind: ServerKind) {
    let database = kind.fresh();
    let start = || builder(&database).handler(TEXT, |_, _| Ok(())).start().unwrap();
    let (one, two) = (start(), start());
    let nodes = one.client().nodes().unwrap();
    assert_eq!(nodes.len(), 2);
    assert_ne!(nodes[0].id, nodes[1].id);
    assert_eq!(nodes[0].host_name, nodes[1].host_name);
    assert!(one.shutdown(SOON).is_clean());
    let nodes = two.client().nodes().unwrap();
    assert_eq!(
        nodes.iter().filter(|node| node.ended.is_none()).count(),
        1,
        "only the one that stopped has ended"
    );
    assert!(two.shutdown(SOON).is_clean());
}

fn a_start_that_cannot_work_is_refused(kind: ServerKind) {
    let database = kind.fresh();
    let refused = |builder: Builder, word: &str| {
        let error = builder.start().unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        error.kind()
    };
    let handled =
        |application: &str| Scheduler::builder(application, &database.url).handler(TEXT, |_, _| Ok(()));
    assert_eq!(refused(handled(""), "empty"), ErrorKind::Config);
    assert_eq!(refused(handled("a\u{1b}[2Jb"), "control"), ErrorKind::Config);
    assert_eq!(refused(handled(&"x".repeat(51)), "51"), ErrorKind::Config);
    assert_eq!(refused(handled("app").handler(NUMBER, |_, _| Ok(())), "two handlers"), ErrorKind::Config);
    assert_eq!(refused(Scheduler::builder("app", &database.url), "no handler"), ErrorKind::Config);
    assert_eq!(refused(handled("app").threads(0, 4), "threads"), ErrorKind::Config);
    let of_a_lane = Scheduler::builder("app", &database.url).handler(TEXT.lane("slow"), |_, _| Ok(()));
    let of_a_lane = of_a_lane.lane("fast", Lane::threads(1, 1));
    assert_eq!(refused(of_a_lane, "this node has \"default\", \"fast\""), ErrorKind::Config);
    assert_eq!(refused(handled("app").death_after(Duration::from_secs(5)), "death_after"), ErrorKind::Config);
    assert_eq!(refused(handled("app").migrate(false), "migrate"), ErrorKind::Schema);
    let nowhere = Scheduler::builder("app", "oracle://nowhere/x").handler(TEXT, |_, _| Ok(()));
    assert_eq!(refused(nowhere, "oracle"), ErrorKind::Config);
}

/// 100 rows on every whole second: those on the windows' edges fire like the others.
fn occurrences_on_the_windows_edge_are_not_dropped(kind: ServerKind) {
    const SECONDS: i64 = 12;
    let database = kind.fresh();
    let client = client(&database);
    let from = (Utc::now().timestamp() + 8) * 1_000;
    let bound = |millis| chrono::DateTime::from_timestamp_millis(millis).unwrap();
    for n in 0..100 {
        let cron = Trigger::cron("* * * * * ?", "UTC").unwrap();
        let schedule = Schedule::new(&format!("row-{n}"), TEXT, &String::new(), cron)
            .unwrap()
            .starting(bound(from))
            .ending(bound(from + 1_000 * (SECONDS - 1)))
            .overlap(Overlap::Allow);
        client.ensure(&schedule).run().unwrap();
    }
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(TEXT, move |context, _| {
            let fired = (context.schedule().to_owned(), context.fire_time().timestamp_millis());
            Ok(tell.lock().unwrap().send(fired).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let mut fired: Vec<_> = (0..100 * SECONDS).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert!(scheduler.shutdown(SOON).is_clean());
    fired.extend(told.try_iter());
    fired.sort();
    let all = fired.len();
    fired.dedup();
    assert_eq!((all, fired.len()), (100 * usize::try_from(SECONDS).unwrap(), all));
}

#[cfg(feature = "sqlite")]
fn polls_stay_on_the_grid_for_two_minutes() {
    let database = ServerKind::Sqlite.fresh();
    let plain = Scheduler::builder(APPLICATION, &database.url).handler(TEXT, |_, _| Ok(()));
    let (with_events, events) = listen(plain);
    let scheduler = with_events.start().unwrap();
    let mut ticks = Vec::new();
    while ticks.len() < 25 {
        let (tick, now) = wait_for(&events, |event| match event {
            Event::Polled { tick: Some(tick), .. } => {
                Some((tick.timestamp_millis(), Utc::now().timestamp_millis()))
            }
            _ => None,
        });
        // The poll begins at its tick: what is added is the poll itself, not what earlier ones took.
        assert!((0..2_500).contains(&(now - tick)), "tick {tick} ended at {now}");
        ticks.push(tick);
    }
    assert!(ticks.windows(2).all(|two| two[1] - two[0] == 5_000), "{ticks:?}");
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// A loose bound for any machine; `scripts/bench.sh precision` measures the real figure.
#[cfg(feature = "sqlite")]
fn jobs_start_on_time() {
    let database = ServerKind::Sqlite.fresh();
    let (tell, told) = teller();
    let scheduler = Scheduler::builder(APPLICATION, &database.url)
        .handler(TEXT, move |context, _| {
            let late = (Utc::now() - context.fire_time()).num_milliseconds();
            Ok(tell.lock().unwrap().send(late).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let every = Trigger::every(Duration::from_millis(50)).unwrap().times(100).unwrap();
    let tick = Schedule::new("tick", TEXT, &String::new(), every).unwrap();
    scheduler.client().ensure(&tick.overlap(Overlap::Allow)).run().unwrap();
    let mut late: Vec<i64> = (0..100).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert!(scheduler.shutdown(SOON).is_clean());
    late.sort_unstable();
    // The first occurrences are due before the first poll sees the schedule.
    assert!(late[0] >= 0 && late[50] < 250, "{late:?}");
}

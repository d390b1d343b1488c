//! A scheduler's life inside one process: start, run, fail, pause, stop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use firetime::{
    Answer, AuditFilter, Builder, Cancellation, Cancelled, Cause, Client, Context, Draining, Ensured,
    ErrorKind, Event, ExecutionFilter, ExecutionState, ExecutionView, Job, Lane, Overlap, Paused, Removed,
    Resumed, Retried, Retry, Schedule, Scheduler, Skipped, Target, Trigger, Triggered,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::trial;

const TEXT: Job<String> = Job::new("text");
const NUMBER: Job<u64> = Job::new("text");
const APPLICATION: &str = "life";
const SOON: Duration = Duration::from_secs(30);

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_handler_gets_its_payload_and_its_occurrence", a_handler_gets_its_payload_and_its_occurrence),
        ("a_panic_and_an_error_are_outcomes", a_panic_and_an_error_are_outcomes),
        ("a_failure_is_retried_as_often_as_asked", a_failure_is_retried_as_often_as_asked),
        ("a_handlers_answers_are_stored_and_counted", a_handlers_answers_are_stored_and_counted),
        ("a_retry_starts_at_its_instant_on_another_node", a_retry_starts_at_its_instant_on_another_node),
        (
            "a_handler_that_hangs_is_timed_out_and_tried_again_once_it_returns",
            a_handler_that_hangs_is_timed_out,
        ),
        ("a_handler_that_snoozes_at_a_shutdown_goes_on_elsewhere", a_handler_that_snoozes_at_a_shutdown),
        ("a_slow_job_keeps_its_next_occurrences_away", a_slow_job_keeps_its_next_occurrences_away),
        ("a_fixed_delay_counts_from_the_end_of_a_run", a_fixed_delay_counts_from_the_end_of_a_run),
        ("a_full_lane_delays_no_job_of_another", a_full_lane_delays_no_job_of_another),
        ("a_slow_job_changes_to_the_automatic_lane", a_slow_job_changes_to_the_automatic_lane),
        ("a_job_runs_as_often_at_once_as_it_may", a_job_runs_as_often_at_once_as_it_may),
        ("a_schedule_that_fails_pauses_itself", a_schedule_that_fails_pauses_itself),
        ("what_nobody_can_decode_is_left_alone", what_nobody_can_decode_is_left_alone),
        ("a_one_shot_in_the_past_fires_once", a_one_shot_in_the_past_fires_once),
        ("a_pause_holds_and_a_resume_skips", a_pause_holds_and_a_resume_skips),
        ("requests_join_the_callers_transaction", requests_join_the_callers_transaction),
        ("a_request_in_an_old_transaction_ends", a_request_in_an_old_transaction_ends),
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
        ("a_handler_knows_what_its_execution_covers", a_handler_knows_what_its_execution_covers),
        ("a_node_is_not_its_ip_address", a_node_is_not_its_ip_address),
        ("a_schedule_runs_once_more_by_hand", a_schedule_runs_once_more_by_hand),
        ("a_removed_schedule_fires_no_more", a_removed_schedule_fires_no_more),
        ("a_running_job_hears_of_a_cancel", a_running_job_hears_of_a_cancel),
        ("a_node_drains_while_another_goes_on", a_node_drains_while_another_goes_on),
        ("a_jobs_pause_ends_by_itself", a_jobs_pause_ends_by_itself),
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

/// A node quick enough for tests.
fn builder(database: &Database) -> Builder {
    Scheduler::builder(APPLICATION, &database.url)
        .poll_interval(Duration::from_secs(1))
        .misfire_interval(Duration::from_secs(1))
}

fn client(database: &Database) -> Client {
    firetime::migrate(&database.url).unwrap();
    Client::connect(APPLICATION, &database.url).unwrap()
}

fn once_now(name: &str, payload: &str) -> Schedule {
    let soon = Utc::now() + TimeDelta::milliseconds(200);
    Schedule::new(name, TEXT, &payload.to_owned(), Trigger::once(soon).unwrap()).unwrap()
}

/// Events as they happen.
fn listen(builder: Builder) -> (Builder, Receiver<Event>) {
    let (tell, events) = channel();
    let tell = Mutex::new(tell);
    let builder = builder.on_event(move |event| drop(tell.lock().unwrap().send(event.clone())));
    (builder, events)
}

/// The first event of interest, or a panic.
fn wait_for<T>(events: &Receiver<Event>, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let event = events.recv_timeout(left).unwrap_or_else(|_| panic!("the event did not come"));
        if let Some(found) = wanted(&event) {
            return found;
        }
    }
}

/// Looks again and again until there is what it looks for.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// A handler's way of telling the test.
fn teller<T: Send + 'static>() -> (Arc<Mutex<Sender<T>>>, Receiver<T>) {
    let (tell, told) = channel();
    (Arc::new(Mutex::new(tell)), told)
}

fn states(client: &Client) -> Vec<(String, i64)> {
    let mut rows: Vec<(String, i64)> = client
        .executions(&ExecutionFilter::default())
        .unwrap()
        .into_iter()
        .map(|row| (row.state, row.attempt))
        .collect();
    rows.sort();
    rows
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
    assert!(scheduler.shutdown(SOON));
    assert_eq!(states(&client(&database)), [("SUCCEEDED".to_owned(), 1)]);
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
    assert!(scheduler.shutdown(SOON));
    let rows = client(&database).executions(&ExecutionFilter::default()).unwrap();
    let error =
        |name: &str| rows.iter().find(|row| row.schedule == name).map(|row| row.error.clone()).unwrap();
    assert_eq!(error("a"), "panicked: as asked");
    assert!(error("b").starts_with("cannot do this"), "{}", error("b"));
    assert!(rows.iter().all(|row| row.state == "FAILED"));
}

fn a_failure_is_retried_as_often_as_asked(kind: ServerKind) {
    const FLAKY: Job<String> = Job::new("flaky").retry(Retry::fixed(Duration::from_millis(100)).at_most(2));
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(FLAKY, move |context, _| {
            tell.lock().unwrap().send(context.attempt()).unwrap();
            Err::<(), _>("not yet".into())
        })
        .start()
        .unwrap();
    let soon = Trigger::once(Utc::now() + TimeDelta::milliseconds(200)).unwrap();
    let schedule = Schedule::new("flaky", FLAKY, &String::new(), soon).unwrap();
    scheduler.client().ensure(&schedule).run().unwrap();
    let attempts: Vec<u32> = (0..3).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert!(scheduler.shutdown(SOON));
    let failed = |attempt| ("FAILED".to_owned(), attempt);
    assert_eq!(states(&client(&database)), [failed(1), failed(2), failed(3)]);
}

/// A handler snoozes, asks for a retry of its own, and gives up: each is counted for itself.
fn a_handlers_answers_are_stored_and_counted(kind: ServerKind) {
    const PRINT: Job<String> = Job::new("print").retry(Retry::fixed(Duration::from_secs(60)).at_most(5));
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(PRINT, move |context, _| {
            let counted = (context.attempt(), context.failures(), context.snoozes());
            tell.lock().unwrap().send(counted).unwrap();
            let soon = Duration::from_millis(100);
            Ok(match counted {
                (1, 0, 0) => Answer::Snooze(soon),
                (1, 0, 1) => Answer::RetryIn(soon, "no paper".to_owned()),
                (2, 1, 1) => Answer::Snooze(soon),
                _ => Answer::GiveUp("no printer".to_owned()),
            })
        })
        .start()
        .unwrap();
    let soon = Trigger::once(Utc::now() + TimeDelta::milliseconds(200)).unwrap();
    let schedule = Schedule::new("print", PRINT, &String::new(), soon).unwrap();
    scheduler.client().ensure(&schedule).run().unwrap();
    let counted: Vec<(u32, u32, u32)> = (0..4).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert_eq!(counted, [(1, 0, 0), (1, 0, 1), (2, 1, 1), (2, 1, 2)]);
    assert!(scheduler.shutdown(SOON));
    let client = client(&database);
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let row = |row: &ExecutionView| (row.state.clone(), row.error.clone(), row.failures, row.snoozes);
    let failed = |error: &str, failures, snoozes| ("FAILED".to_owned(), error.to_owned(), failures, snoozes);
    assert_eq!(
        rows.iter().map(row).collect::<Vec<_>>(),
        [failed("no printer", 1, 2), failed("no paper", 0, 1)]
    );
    assert_eq!(rows[0].reason, "gave up");
    let job = client.jobs().unwrap().remove(0);
    assert_eq!((job.max_retries, job.retry_delay, job.retry_cap), (5, 60_000, 60_000));
}

/// The node that stored the failure is gone: the next one plans the retry with its first poll.
fn a_retry_starts_at_its_instant_on_another_node(kind: ServerKind) {
    const FLAKY: Job<String> = Job::new("flaky").retry(Retry::fixed(Duration::from_secs(3)).at_most(1));
    let database = kind.fresh();
    let node =
        || {
            let builder = builder(&database).poll_interval(Duration::from_secs(5));
            listen(builder.misfire_interval(Duration::from_secs(5)).handler(FLAKY, |context, _| {
                if context.attempt() == 1 { Err("not yet".into()) } else { Ok(()) }
            }))
        };
    let finished = |event: &Event| match event {
        Event::Finished { lateness, retry, .. } => Some((*lateness, *retry)),
        _ => None,
    };
    let (first, events) = node();
    let first = first.start().unwrap();
    let soon = Trigger::once(Utc::now() + TimeDelta::milliseconds(200)).unwrap();
    let schedule = Schedule::new("flaky", FLAKY, &String::new(), soon).unwrap();
    first.client().ensure(&schedule).run().unwrap();
    assert!(wait_for(&events, finished).1.is_some());
    assert!(first.shutdown(SOON));
    let (second, events) = node();
    let second = second.start().unwrap();
    let (lateness, _) = wait_for(&events, finished);
    assert!(lateness < Duration::from_secs(1), "{lateness:?}");
    assert!(second.shutdown(SOON));
}

/// The same attempt, by another node.
fn a_handler_that_snoozes_at_a_shutdown(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let handler = |tell: Arc<Mutex<Sender<(u32, u32)>>>| {
        move |context: &Context, _| {
            tell.lock().unwrap().send((context.attempt(), context.snoozes())).unwrap();
            if context.snoozes() > 0 {
                return Ok(Answer::Done);
            }
            let stops = || (context.cancellation() == Some(Cancellation::Shutdown)).then_some(());
            until("nobody stops the node", stops);
            Ok(Answer::Snooze(Duration::ZERO))
        }
    };
    let first = builder(&database).handler(TEXT, handler(Arc::clone(&tell))).start().unwrap();
    let now = Trigger::once(Utc::now()).unwrap();
    first.client().ensure(&Schedule::new("once", TEXT, &String::new(), now).unwrap()).run().unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), (1, 0));
    let second = builder(&database).handler(TEXT, handler(tell)).start().unwrap();
    assert!(first.shutdown(SOON), "it snoozes before the deadline");
    assert_eq!(told.recv_timeout(SOON).unwrap(), (1, 1), "no further attempt");
    assert!(second.shutdown(SOON));
    assert_eq!(states(&client(&database)), [("SUCCEEDED".to_owned(), 1)]);
}

/// Its job is mended, somebody resumes it, and it fires again.
fn a_schedule_that_fails_pauses_itself(kind: ServerKind) {
    let database = kind.fresh();
    let is_mended = Arc::new(AtomicBool::new(false));
    let works = Arc::clone(&is_mended);
    let handler = move |_: &Context, _| match works.load(Ordering::Relaxed) {
        true => Ok(Answer::Done),
        false => Ok(Answer::GiveUp("broken".to_owned())),
    };
    let (builder, events) = listen(builder(&database).handler(TEXT, handler));
    let scheduler = builder.start().unwrap();
    let client = scheduler.client();
    let every = Trigger::every(Duration::from_millis(300)).unwrap();
    let broken = Schedule::new("broken", TEXT, &String::new(), every).unwrap().pause_after(3);
    client.ensure(&broken).run().unwrap();
    let reason = wait_for(&events, |event| match event {
        Event::Contained { schedule, reason } if **schedule == *"broken" => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(reason, "3 occurrences in a row failed");
    let shown = client.schedule("broken").unwrap();
    let pause = (shown.schedule.state.as_str(), shown.schedule.paused_by.as_str());
    assert_eq!((pause, shown.schedule.reason), (("paused", "firetime"), reason.clone()));
    assert_eq!(shown.pause_after, Some(3));
    let filter = AuditFilter { verb: Some("pause".to_owned()), ..AuditFilter::default() };
    let audit = client.audit(&filter).unwrap();
    let made: Vec<_> =
        audit.iter().map(|it| (it.actor.as_str(), it.target.as_str(), it.reason.as_str())).collect();
    assert_eq!(made, [("firetime", "broken", reason.as_str())]);
    let failed = client.executions(&ExecutionFilter::default()).unwrap();
    assert!((3..=4).contains(&failed.len()), "one more at most: {failed:?}");

    is_mended.store(true, Ordering::Relaxed);
    assert_eq!(client.resume("broken").run().unwrap(), Resumed::Resumed);
    wait_for(&events, |event| match event {
        Event::Finished { state: ExecutionState::Succeeded, .. } => Some(()),
        _ => None,
    });
    assert!(scheduler.shutdown(SOON));
}

/// Two nodes, and a job that takes longer than its interval.
fn a_slow_job_keeps_its_next_occurrences_away(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let (let_go, runs) = channel::<()>();
    let (tell, runs) = (Arc::new(tell), Arc::new(Mutex::new(runs)));
    let node = || {
        let (tell, runs) = (Arc::clone(&tell), Arc::clone(&runs));
        let handler = move |context: &Context, _| {
            tell.lock().unwrap().send((context.execution(), context.fire_time())).unwrap();
            runs.lock().unwrap().recv()?;
            Ok(())
        };
        listen(builder(&database).handler(TEXT, handler))
    };
    let ((one, events), (other, others)) = (node(), node());
    let nodes = [one.start().unwrap(), other.start().unwrap()];
    let client = nodes[0].client();
    let every = Trigger::every(Duration::from_millis(200)).unwrap();
    client.ensure(&Schedule::new("slow", TEXT, &String::new(), every).unwrap()).run().unwrap();
    let (first, began) = told.recv_timeout(SOON).unwrap();
    let skipped = |event: &Event| match event {
        Event::Overlapped { holder, in_a_row: 8, .. } => Some(*holder),
        _ => None,
    };
    let holder = until("nobody tells of eight skips in a row", || {
        events.try_iter().chain(others.try_iter()).find_map(|event| skipped(&event))
    });
    assert_eq!(holder, first);
    assert!(told.try_recv().is_err(), "nothing runs beside the first");
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let skipped: Vec<&ExecutionView> = rows.iter().filter(|row| row.state == "SKIPPED").collect();
    assert!(
        skipped.iter().all(|row| row.reason == "overlap" && row.holder == Some(first.get())),
        "{skipped:?}"
    );
    assert!(skipped.len() >= 8, "{skipped:?}");
    let_go.send(()).unwrap();
    let (second, next) = told.recv_timeout(SOON).unwrap();
    assert!(second != first && next > began + TimeDelta::milliseconds(1_600), "{began} {next}");
    drop(let_go);
    assert!(nodes.iter().all(|node| node.shutdown(SOON)));
}

/// Two nodes with threads for all, and six executions that are due at once.
fn a_job_runs_as_often_at_once_as_it_may(kind: ServerKind) {
    const LIMITED: Job<String> = Job::new("limited").concurrency(2);
    let database = kind.fresh();
    let (tell, told) = teller();
    let (let_go, runs) = channel::<()>();
    let runs = Arc::new(Mutex::new(runs));
    let running = Arc::new(AtomicUsize::new(0));
    let node = || {
        let (tell, runs, running) = (Arc::clone(&tell), Arc::clone(&runs), Arc::clone(&running));
        let handler = move |_: &Context, _| {
            let others = running.fetch_add(1, Ordering::SeqCst);
            tell.lock().unwrap().send(others)?;
            let ended = runs.lock().unwrap().recv();
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(ended?)
        };
        builder(&database).handler(LIMITED, handler).start().unwrap()
    };
    let nodes = [node(), node()];
    let client = nodes[0].client();
    let soon = Utc::now() + TimeDelta::milliseconds(200);
    for n in 0..6 {
        let once = Schedule::new(&format!("s{n}"), LIMITED, &String::new(), Trigger::once(soon).unwrap());
        client.ensure(&once.unwrap()).run().unwrap();
    }
    let mut most = 0;
    for n in 0..6 {
        most = most.max(1 + told.recv_timeout(SOON).unwrap());
        if n > 0 {
            let_go.send(()).unwrap();
        }
    }
    assert_eq!(most, 2);
    drop(let_go);
    assert!(nodes.iter().all(|node| node.shutdown(SOON)));
}

/// Two nodes, and runs that fail, are retried, and take their time.
fn a_fixed_delay_counts_from_the_end_of_a_run(kind: ServerKind) {
    const DELAY: i64 = 300;
    const RETRIED: Job<()> = Job::new("retried").retry(Retry::fixed(Duration::from_millis(100)).at_most(1));
    let database = kind.fresh();
    let (tell, told) = teller();
    let node = || {
        let tell = Arc::clone(&tell);
        let handler = move |context: &Context, ()| {
            tell.lock().unwrap().send((context.fire_time(), context.attempt())).unwrap();
            if context.attempt() == 1 { Err("again".into()) } else { Ok(()) }
        };
        builder(&database).handler(RETRIED, handler).start().unwrap()
    };
    let nodes = [node(), node()];
    let client = nodes[0].client();
    let trigger = Trigger::fixed_delay(Duration::from_millis(DELAY.unsigned_abs())).unwrap();
    client.ensure(&Schedule::new("delayed", RETRIED, &(), trigger).unwrap()).run().unwrap();
    let began: Vec<(DateTime<Utc>, u32)> = (0..6).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert!(nodes.iter().all(|node| node.shutdown(SOON)));
    assert_eq!(began.iter().map(|it| it.1).collect::<Vec<_>>(), [1, 2, 1, 2, 1, 2]);
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let end = |at, attempt| {
        rows.iter()
            .find(|row| (row.fire_time, row.attempt) == (Some(at), attempt))
            .and_then(|row| row.finished)
    };
    for runs in began.chunks(2).collect::<Vec<_>>().windows(2) {
        let (first, next) = (runs[0][0].0, runs[1][0].0);
        assert_eq!(Some(next - TimeDelta::milliseconds(DELAY)), end(first, 2), "{began:?}");
    }
}

/// The slow lane's only thread is kept, and four more of its schedules are due each second.
fn a_full_lane_delays_no_job_of_another(kind: ServerKind) {
    const SLOW: Job<String> = Job::new("slow").lane("slow");
    const TICKS: u64 = 5;
    let database = kind.fresh();
    let ((tell, told), (begin, begun)) = (teller(), teller());
    let (let_go, kept) = channel::<()>();
    let kept = Mutex::new(kept);
    let (builder, events) = listen(builder(&database).threads(1, 1).queue(0));
    let scheduler = builder
        .lane("slow", Lane::threads(1, 1).queue(0))
        .handler(SLOW, move |_, _| {
            begin.lock().unwrap().send(std::thread::current().name().unwrap().to_owned())?;
            kept.lock().unwrap().recv().ok();
            Ok(())
        })
        .handler(TEXT, move |context, _| Ok(tell.lock().unwrap().send(context.fire_time())?))
        .start()
        .unwrap();
    let client = scheduler.client();
    let every = Trigger::every(Duration::from_secs(1)).unwrap();
    for n in 0..5 {
        let slow = Schedule::new(&format!("slow-{n}"), SLOW, &String::new(), every.clone()).unwrap();
        client.ensure(&slow.overlap(Overlap::Allow)).run().unwrap();
    }
    assert_eq!(begun.recv_timeout(SOON).unwrap(), "firetime-slow-1");
    let soon = (Utc::now() + TimeDelta::seconds(2)).timestamp_millis();
    let soon = every.anchored(soon).unwrap().times(TICKS).unwrap();
    client.ensure(&Schedule::new("tick", TEXT, &String::new(), soon).unwrap()).run().unwrap();
    let ticks: Vec<_> = (0..TICKS).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert!(
        ticks.windows(2).all(|two| two[1] - two[0] == TimeDelta::seconds(1)),
        "none is skipped: {ticks:?}"
    );
    for _ in 0..TICKS {
        let late = wait_for(&events, |event| match event {
            Event::Finished { attempt, lateness, .. } if &*attempt.schedule == "tick" => Some(*lateness),
            _ => None,
        });
        assert!(late < Duration::from_secs(1), "it waited for {late:?}");
    }
    let lanes = scheduler.health().lanes;
    let busy: Vec<_> = lanes.iter().map(|lane| (lane.name.as_str(), lane.busy, lane.threads)).collect();
    assert_eq!(busy, [("default", 0, 1), ("slow", 1, 1)], "the slow lane has been full all the time");
    drop(let_go);
    begun.recv_timeout(SOON).expect("the seat that became free is taken");
    assert!(scheduler.shutdown(SOON));
}

fn a_slow_job_changes_to_the_automatic_lane(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let (builder, events) = listen(builder(&database).threads(10, 10));
    let scheduler = builder
        .lane("slow", Lane::threads(1, 1).automatic())
        .handler(TEXT, move |_, text| {
            let began = Instant::now();
            while text == "slow" && began.elapsed() < Duration::from_millis(501) {
                std::thread::yield_now();
            }
            Ok(tell.lock().unwrap().send(std::thread::current().name().unwrap().to_owned())?)
        })
        .start()
        .unwrap();
    let client = scheduler.client();
    for n in 0..10 {
        client.ensure(&once_now(&format!("slow-{n}"), "slow")).run().unwrap();
    }
    let changed = wait_for(&events, |event| match event {
        Event::LaneChanged { job, lane } => Some((job.to_string(), lane.to_string())),
        _ => None,
    });
    assert_eq!(changed, ("text".to_owned(), "slow".to_owned()));
    let before: Vec<String> = (0..10).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert!(before.iter().all(|thread| thread.starts_with("firetime-job-")), "{before:?}");
    client.ensure(&once_now("after", "quick")).run().unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), "firetime-slow-1");
    assert!(scheduler.shutdown(SOON));
}

/// Its execution is TIMED_OUT while it hangs, and keeps its thread; the retry waits for its return.
fn a_handler_that_hangs_is_timed_out(kind: ServerKind) {
    const HANGS: Job<String> = Job::new("hangs").timeout(Duration::from_secs(600)).retry(Retry::fixed(SOON));
    let database = kind.fresh();
    let (tell, told) = teller();
    let (let_go, hang) = channel::<()>();
    let hang = Mutex::new(hang);
    let (builder, events) = listen(builder(&database).threads(1, 1).handler(HANGS, move |context, _| {
        assert_eq!((context.cancellation(), context.is_cancelled()), (None, false));
        hang.lock().unwrap().recv()?;
        tell.lock().unwrap().send((context.cancellation(), context.is_cancelled())).unwrap();
        // Whatever it says by now.
        Ok(())
    }));
    let scheduler = builder.heartbeat_interval(Duration::from_millis(500)).start().unwrap();
    assert!(scheduler.health().is_ready());
    let client = scheduler.client();
    let soon = Trigger::once(Utc::now() + TimeDelta::milliseconds(200)).unwrap();
    let schedule = Schedule::new("hangs", HANGS, &String::new(), soon).unwrap();
    client.ensure(&schedule.timeout(Duration::from_millis(300))).run().unwrap();
    let timed_out = |event: &Event| match event {
        Event::TimedOut { attempt } => Some(attempt.execution),
        _ => None,
    };
    let execution = wait_for(&events, timed_out);
    assert!(!scheduler.health().is_ready(), "its only thread hangs: {:?}", scheduler.health());
    let row = until("it is not shown as stuck", || {
        let row = client.execution(execution).unwrap().execution;
        (row.stuck && client.nodes().unwrap()[0].stuck == 1).then_some(row)
    });
    assert_eq!(
        (row.state.as_str(), row.error.as_str()),
        ("TIMED_OUT", "its time limit of 300 ms has passed")
    );
    assert!(matches!(client.retry(execution).run().unwrap(), Retried::NotRetryable(_)), "it runs on");
    assert_eq!(client.execution(execution).unwrap().attempts.len(), 1);
    let_go.send(()).unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), (Some(Cancellation::TimeLimit), true));
    let returned = |event: &Event| match event {
        Event::Finished { state, retry, .. } => Some((*state, retry.is_some())),
        _ => None,
    };
    assert_eq!(wait_for(&events, returned), (ExecutionState::TimedOut, true));
    until("its release is not stored", || scheduler.health().is_ready().then_some(()));
    assert!(scheduler.shutdown(SOON));
    let details = client.execution(execution).unwrap();
    let state = |row: &ExecutionView| (row.state.clone(), row.failures, row.stuck);
    let (first, retry) = (("TIMED_OUT".to_owned(), 0, false), ("PENDING".to_owned(), 1, false));
    assert_eq!(details.attempts.iter().map(state).collect::<Vec<_>>(), [first, retry]);
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
    assert!(scheduler.shutdown(SOON));
    assert!(states(&client).is_empty());
    assert_eq!(client.schedules().unwrap()[0].state, "active");
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
    assert!(scheduler.shutdown(SOON));
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
    assert!(scheduler.shutdown(SOON));
    assert_eq!(states(&client(&database)), [("SUCCEEDED".to_owned(), 1)]);
    assert_eq!(client(&database).schedules().unwrap()[0].state, "complete");
}

fn a_pause_holds_and_a_resume_skips(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(TEXT, move |context, _| {
            Ok(tell.lock().unwrap().send(context.fire_time()).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let client = scheduler.client();
    let every = Trigger::every(Duration::from_millis(100)).unwrap();
    let tick = Schedule::new("tick", TEXT, &String::new(), every).unwrap();
    client.ensure(&tick.overlap(Overlap::Allow)).run().unwrap();
    told.recv_timeout(SOON).unwrap();
    assert_eq!(client.pause("tick").actor("operator").reason("deploy").run().unwrap(), Paused::Paused);
    let paused_at = Utc::now();
    let ten_later = paused_at + TimeDelta::seconds(1);
    // What was claimed before the pause may still run; nothing planned after it does.
    while let Ok(fired) = told.recv_timeout((ten_later - Utc::now()).to_std().unwrap_or_default()) {
        assert!(fired <= paused_at, "fired {fired}, paused {paused_at}");
    }
    assert_eq!(client.schedules().unwrap()[0].state, "paused");
    assert_eq!(client.resume("tick").run().unwrap(), Resumed::Resumed);
    let fired = told.recv_timeout(SOON).unwrap();
    assert!(fired > ten_later - TimeDelta::milliseconds(100), "resumed with {fired}");
    assert!(scheduler.shutdown(SOON));
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let skipped: Vec<_> = rows.iter().filter(|row| row.state == "SKIPPED").collect();
    assert!(skipped.len() == 1 && skipped[0].reason == "paused" && skipped[0].count >= 9, "{skipped:?}");
}

/// Calls a function with a connection of the test's own, whatever its type.
macro_rules! on_own_connection {
    ($database:expr, $run:ident($($argument:expr),*)) => {
        match $database.kind {
            #[cfg(feature = "sqlite")]
            ServerKind::Sqlite => {
                let file = $database.url.trim_start_matches("sqlite:");
                $run(diesel::SqliteConnection::establish(file).unwrap(), $($argument),*)
            }
            #[cfg(feature = "postgres")]
            ServerKind::Postgres => {
                $run(diesel::PgConnection::establish(&$database.url).unwrap(), $($argument),*)
            }
            #[cfg(feature = "mysql")]
            ServerKind::Mariadb => {
                $run(diesel::MysqlConnection::establish(&$database.url).unwrap(), $($argument),*)
            }
        }
    };
}

/// Makes a schedule on the test's own connection, in a transaction that ends as asked.
fn ensure_in(database: &Database, client: &Client, schedule: &Schedule, commit: bool) {
    fn run<C: Connection + firetime::CallerConnection>(
        mut connection: C,
        client: &Client,
        schedule: &Schedule,
        commit: bool,
    ) {
        let result = connection.transaction(|connection| {
            assert_eq!(client.ensure(schedule).run_in(connection).unwrap(), Ensured::Created);
            every_verb_in(connection, client);
            if commit { Ok(()) } else { Err(diesel::result::Error::RollbackTransaction) }
        });
        assert_eq!(result.is_ok(), commit);
    }
    on_own_connection!(database, run(client, schedule, commit));
}

/// All that a client can ask for, on the schedule "yearly" that the same transaction has made.
fn every_verb_in(connection: &mut impl firetime::CallerConnection, client: &Client) {
    let again = client.trigger("yearly").payload(&"8").run_in(connection).unwrap();
    let Triggered::Pending(execution) = again else { panic!("{again:?}") };
    assert_eq!(client.cancel(execution).run_in(connection).unwrap(), Cancelled::Cancelled);
    let Retried::Pending(_) = client.retry(execution).run_in(connection).unwrap() else {
        panic!("not retried")
    };
    let next = chrono::DateTime::parse_from_rfc3339("2090-01-01T00:00:00Z").unwrap().to_utc();
    let skipped = client.skip("yearly", next).run_in(connection).unwrap();
    assert!(matches!(skipped, Skipped::Skipped { .. }), "{skipped:?}");
    assert_eq!(client.pause("yearly").until(next).run_in(connection).unwrap(), Paused::Paused);
    assert_eq!(client.resume("yearly").run_in(connection).unwrap(), Resumed::Resumed);
    assert_eq!(client.pause(Target::job("text")).run_in(connection).unwrap(), Paused::Paused);
    assert_eq!(client.resume(Target::job("text")).run_in(connection).unwrap(), Resumed::Resumed);
    let nobodys = client.pause("nobody's").run_in(connection).unwrap_err();
    assert_eq!(nobodys.kind(), ErrorKind::NotFound);
    let nodes = client.drain("8b0b4b0e-0c57-4c5e-9a53-0d2f8e1f7a11").run_in(connection).unwrap_err();
    assert_eq!(nodes.kind(), ErrorKind::NotFound);
    assert_eq!(client.remove("yearly").cancel_running().run_in(connection).unwrap(), Removed::Removed);
}

fn requests_join_the_callers_transaction(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let yearly = Trigger::cron("0 0 0 1 1 ? 2090-2099", "UTC").unwrap();
    let yearly = Schedule::new("yearly", TEXT, &String::new(), yearly).unwrap();
    let verbs = || {
        let rows = client.audit(&AuditFilter::default()).unwrap();
        rows.into_iter().rev().map(|row| row.verb).collect::<Vec<_>>()
    };
    ensure_in(&database, &client, &yearly, false);
    assert!(verbs().is_empty() && states(&client).is_empty(), "rolled back with the caller's transaction");
    ensure_in(&database, &client, &yearly, true);
    let expected =
        ["ensure", "trigger", "cancel", "retry", "skip", "pause", "resume", "pause", "resume", "remove"];
    assert_eq!(verbs(), expected);
    let cancelled = |attempt| ("CANCELLED".to_owned(), attempt);
    assert_eq!(states(&client), [cancelled(1), cancelled(2), ("SKIPPED".to_owned(), 1)]);
    assert!(client.schedules().unwrap().is_empty());
}

/// Somebody else resumes the job after the caller's transaction has seen it paused: the answer depends on how
/// the database isolates, but there is one.
fn a_request_in_an_old_transaction_ends(kind: ServerKind) {
    fn run<C: Connection + firetime::CallerConnection>(mut connection: C, client: &Client) {
        let ended = connection.transaction::<_, diesel::result::Error, _>(|connection| {
            connection.batch_execute("SELECT state FROM QRTZ_EXECUTE; SELECT state FROM QRTZ_JOB")?;
            assert_eq!(client.resume(Target::job("text")).run().unwrap(), Resumed::Resumed);
            match client.resume(Target::job("text")).run_in(connection) {
                Ok(answer) => assert!(matches!(answer, Resumed::NotPaused(_)), "{answer:?}"),
                Err(error) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable),
                        "{error:?}"
                    );
                }
            }
            Err(diesel::result::Error::RollbackTransaction)
        });
        assert_eq!(ended, Err::<(), _>(diesel::result::Error::RollbackTransaction));
    }
    let database = kind.fresh();
    let client = client(&database);
    let every = Trigger::every(Duration::from_millis(1)).unwrap();
    client.ensure(&Schedule::new("often", TEXT, &String::new(), every).unwrap()).run().unwrap();
    assert_eq!(client.pause(Target::job("text")).run().unwrap(), Paused::Paused);
    on_own_connection!(database, run(&client));
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
    assert!(!scheduler.shutdown(Duration::from_millis(500)), "a job still runs: not clean");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(context.is_stopping());
    assert!(!scheduler.wait(), "and wait says the same");
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
            let clean = scheduler.shutdown(SOON);
            Ok(tell.lock().unwrap().send(clean).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let scheduler = Arc::new(scheduler);
    give.send(Arc::clone(&scheduler)).unwrap();
    scheduler.client().ensure(&once_now("last", "")).run().unwrap();
    assert_eq!(told.recv_timeout(SOON / 2), Ok(false), "nobody can know yet whether it is clean");
    assert!(scheduler.wait(), "the handler ended in time");
    assert_eq!(states(&client(&database)), [("SUCCEEDED".to_owned(), 1)]);
}

/// Paused as it is, with a payload of its own or its schedule's, from the own client and from another
/// process's.
fn a_schedule_runs_once_more_by_hand(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(TEXT, move |context, text| {
            Ok(tell.lock().unwrap().send((text, context.cause().clone())).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let (own, elsewhere) = (scheduler.client(), client(&database).acting_as("bob"));
    let yearly = Trigger::cron("0 0 0 1 1 ?", "UTC").unwrap();
    own.ensure(&Schedule::new("yearly", TEXT, &"planned".to_owned(), yearly).unwrap()).run().unwrap();
    own.pause("yearly").run().unwrap();
    let next = own.schedules().unwrap()[0].next;
    let by_hand = |actor: &str, reason: &str| Cause::ByHand { actor: actor.into(), reason: reason.into() };
    let again = own.trigger("yearly").payload(&"own").actor("ann").reason("it was wrong").run().unwrap();
    assert!(matches!(again, Triggered::Pending(_)));
    assert_eq!(told.recv_timeout(SOON).unwrap(), ("own".to_owned(), by_hand("ann", "it was wrong")));
    elsewhere.trigger("yearly").at(Utc::now()).run().unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), ("planned".to_owned(), by_hand("bob", "")));
    elsewhere.trigger("yearly").payload(&7).run().unwrap();
    assert!(scheduler.shutdown(SOON));
    let row = &own.schedules().unwrap()[0];
    assert_eq!((row.state.as_str(), row.next), ("paused", next));
    assert!(states(&own).iter().filter(|(state, _)| state == "SUCCEEDED").count() == 2, "{:?}", states(&own));
    let audit = own.audit(&AuditFilter::default()).unwrap();
    let verbs: Vec<_> = audit.iter().map(|row| row.verb.as_str()).collect();
    assert_eq!(verbs, ["trigger", "trigger", "trigger", "pause", "ensure"]);
    assert!(audit.iter().skip(3).all(|row| row.actor.ends_with(&format!("/{}", std::process::id()))));
}

/// From this node's own client at once, from another process within a heartbeat; it is not retried.
fn a_running_job_hears_of_a_cancel(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(TEXT.retry(Retry::fixed(Duration::ZERO).at_most(2)), move |context, text| {
            tell.lock().unwrap().send(context.execution()).map_err(|_| "gone")?;
            until("it has not heard of the cancel", || context.is_cancelled().then_some(()));
            if text == "all the same" { Ok(()) } else { Err("was asked to end".into()) }
        })
        .start()
        .unwrap();
    let (own, elsewhere) = (scheduler.client(), client(&database).acting_as("bob"));
    for (name, by, state) in
        [("own", &own, "CANCELLED"), ("other", &elsewhere, "CANCELLED"), ("all the same", &own, "SUCCEEDED")]
    {
        own.ensure(&once_now(name, name)).run().unwrap();
        let execution = told.recv_timeout(SOON).unwrap();
        let begun = Instant::now();
        assert!(matches!(by.cancel(execution).run().unwrap(), Cancelled::Asked { .. }));
        let row = until("it has not ended, or nobody heard of the cancel", || {
            let rows = own.executions(&ExecutionFilter::default()).unwrap();
            let row = rows.into_iter().find(|row| row.id == execution.get()).unwrap();
            (row.state != "RUNNING" && row.cancel_seen.is_some()).then_some(row)
        });
        assert_eq!(row.state, state, "{row:?}");
        assert!(name == "other" || begun.elapsed() < Duration::from_secs(4), "its own client's, but {row:?}");
        assert_eq!(row.cancel_asked_by == "bob", name == "other");
        let again = by.cancel(execution).run().unwrap();
        assert!(matches!(again, Cancelled::AlreadyEnded(_)), "{again:?}");
    }
    assert_eq!(own.cancel(7_000_000_000).run().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(states(&own).len(), 3, "nothing was retried: {:?}", states(&own));
    assert!(scheduler.shutdown(SOON));
}

/// What a node that drains runs ends there; what comes due meanwhile runs elsewhere.
fn a_node_drains_while_another_goes_on(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let (open, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let first = builder(&database)
        .handler(TEXT, move |context, _| {
            tell.lock().unwrap().send(context.execution()).map_err(|_| "gone")?;
            Ok(gate.lock().unwrap().recv()?)
        })
        .start()
        .unwrap();
    let client = first.client();
    client.ensure(&once_now("long", "")).run().unwrap();
    let running = told.recv_timeout(SOON).unwrap();
    let drained = first.node().to_string();
    assert_eq!(client.drain(&drained).actor("ann").reason("new kernel").run().unwrap(), Draining::Begun);
    assert_eq!(client.drain(&drained).run().unwrap(), Draining::UnderWay);

    let (second, events) = listen(builder(&database).handler(TEXT, |_, _| Ok(())));
    let second = second.start().unwrap();
    client.ensure(&once_now("next", "")).run().unwrap();
    wait_for(&events, |event| matches!(event, Event::Finished { error: None, .. }).then_some(()));
    let state = || {
        let nodes = client.nodes().unwrap();
        let node = nodes.iter().find(|node| node.id == drained).unwrap();
        assert_eq!((node.paused_by.as_str(), node.reason.as_str()), ("ann", "new kernel"));
        node.state.clone()
    };
    assert_eq!(state(), "draining");
    open.send(()).unwrap();
    until("it does not drain", || (state() == "drained").then_some(()));
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let ran_here = |row: &&firetime::ExecutionView| row.node == drained;
    let here: Vec<_> = rows.iter().filter(ran_here).map(|row| (row.id, row.state.as_str())).collect();
    assert_eq!(here, [(running.get(), "SUCCEEDED")]);
    assert_eq!(client.drain(&drained).run().unwrap(), Draining::Drained);
    assert_eq!(client.resume(Target::node(&drained)).run().unwrap(), Resumed::Resumed);
    assert!(second.shutdown(SOON));
    open.send(()).unwrap();
    client.ensure(&once_now("again", "")).run().unwrap();
    told.recv_timeout(SOON).unwrap();
    assert!(first.shutdown(SOON));
}

fn a_jobs_pause_ends_by_itself(kind: ServerKind) {
    let database = kind.fresh();
    let (scheduler, events) = listen(builder(&database).handler(TEXT, |_, _| Ok(())));
    let scheduler = scheduler.start().unwrap();
    let client = scheduler.client();
    let every = Trigger::every(Duration::from_millis(200)).unwrap();
    client.ensure(&Schedule::new("often", TEXT, &String::new(), every).unwrap()).run().unwrap();
    wait_for(&events, |event| matches!(event, Event::Finished { .. }).then_some(()));
    let until = Utc::now() + TimeDelta::seconds(4);
    let pause = || client.pause(Target::job("text")).reason("out of paper");
    assert_eq!(
        pause().until(Utc::now() - TimeDelta::seconds(60)).run().unwrap_err().kind(),
        ErrorKind::Config
    );
    assert_eq!(pause().until(until).run().unwrap(), Paused::Paused);
    let job = client.jobs().unwrap().remove(0);
    assert_eq!((job.state.as_str(), job.reason.as_str()), ("paused", "out of paper"));
    let schedule = client.schedule("often").unwrap().schedule;
    assert_eq!((schedule.state.as_str(), schedule.held_by.as_str()), ("active", "job"));
    client.pause(Target::application()).run().unwrap();
    assert_eq!(client.schedules().unwrap()[0].held_by, "application");
    client.resume(Target::application()).run().unwrap();
    assert_eq!(job.paused_until.map(|at| at.timestamp_millis()), Some(until.timestamp_millis()));
    let ended = |event: &Event| match event {
        Event::PauseEnded { target_type, target } => Some((*target_type, target.to_string())),
        _ => None,
    };
    assert_eq!(wait_for(&events, ended), ("job", "text".to_owned()));
    wait_for(&events, |event| matches!(event, Event::Finished { .. }).then_some(()));
    assert!(scheduler.shutdown(SOON));
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let skipped: Vec<_> = rows.iter().filter(|row| row.state == "SKIPPED").collect();
    assert!(skipped.iter().all(|row| row.reason == "paused") && !skipped.is_empty(), "{rows:?}");
    let ended = AuditFilter { verb: Some("resume".to_owned()), ..AuditFilter::default() };
    let ended = client.audit(&ended).unwrap().remove(0);
    assert_eq!(
        (ended.actor.as_str(), ended.target.as_str(), ended.was.as_str()),
        ("firetime", "text", "paused")
    );
}

fn a_removed_schedule_fires_no_more(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(TEXT, move |context, text| {
            Ok(tell.lock().unwrap().send((text, context.fire_time())).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let tick = |payload: &str| {
        let every = Trigger::every(Duration::from_millis(100)).unwrap();
        Schedule::new("tick", TEXT, &payload.to_owned(), every).unwrap()
    };
    let (own, elsewhere) = (scheduler.client(), client(&database));
    own.ensure(&tick("first")).run().unwrap();
    told.recv_timeout(SOON).unwrap();
    assert_eq!(elsewhere.remove("tick").reason("enough").run().unwrap(), Removed::Removed);
    let removed = Utc::now();
    assert!(own.schedules().unwrap().is_empty());
    assert_eq!(own.ensure(&tick("second")).run().unwrap(), Ensured::Created);
    let is_second = |(text, _): &(String, _)| text == "second";
    let before: Vec<_> = std::iter::from_fn(|| Some(told.recv_timeout(SOON).unwrap()))
        .take_while(|it| !is_second(it))
        .collect();
    let late = before.iter().find(|(_, at)| *at > removed + TimeDelta::milliseconds(100));
    assert_eq!(late, None, "claimed at most 50 ms ahead");
    assert!(scheduler.shutdown(SOON));
    let last = own.executions(&ExecutionFilter::default()).unwrap();
    assert!(last.iter().all(|row| row.schedule == "tick"), "the ledger keeps its name");
    assert_eq!((last[0].generation, last.last().unwrap().generation), (1, 0));
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
    wait_for(&events, |event| matches!(event, Event::Stopped { clean: true }).then_some(()));
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
    std::fs::rename(file, format!("{file}.away")).unwrap();
    let (new, _, told_new) = ticking(&database);
    let path = wait_for(&of_old, |event| match event {
        Event::DatabaseReplaced { path } => Some(path.clone()),
        _ => None,
    });
    assert_eq!(path, file);
    assert!(!old.wait(), "it has given up");
    let error = old.client().ensure(&once_now("other", "")).run().unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("replaced"), "{error}");
    assert!(!old.shutdown(SOON), "others were not told that it leaves");
    while told_old.try_recv().is_ok() {}
    while told_new.try_recv().is_ok() {}
    for _ in 0..5 {
        told_new.recv_timeout(SOON).unwrap();
    }
    assert!(told_old.try_recv().is_err(), "it goes on in the old file");
    assert!(new.shutdown(SOON));
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
        assert!(scheduler.shutdown(SOON));
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
    assert!(scheduler.shutdown(SOON));
}

/// After ten days in which no node ran.
fn a_handler_knows_what_its_execution_covers(kind: ServerKind) {
    const DAYS: i64 = 10 * 86_400_000;
    let database = kind.fresh();
    let every_hour = Trigger::cron("0 0 * * * ?", "UTC").unwrap();
    let client = client(&database);
    client.ensure(&Schedule::new("behind", TEXT, &String::new(), every_hour).unwrap()).run().unwrap();
    database.batch(&format!("UPDATE QRTZ_EXECUTE SET next_fire_time = next_fire_time - {DAYS}"));
    let began = client.schedule("behind").unwrap().schedule.next.unwrap();
    let (tell, told) = teller();
    let handler = move |context: &Context, _| {
        let answer = (context.cause().clone(), context.fire_time(), context.covers()?);
        Ok(tell.lock().unwrap().send(answer).map_err(|_| "gone")?)
    };
    let scheduler = builder(&database).handler(TEXT, handler).start().unwrap();
    let (cause, fire_time, first) = told.recv_timeout(SOON).unwrap();
    assert_eq!((cause, first.from, first.until), (Cause::Misfire, None, fire_time));
    let missed = (fire_time - began).num_hours().unsigned_abs();
    assert!(missed >= 239, "{began} {fire_time}");
    assert_eq!((first.left_out.missed, first.left_out.total()), (missed, missed));
    // It waits for the end of the other.
    assert!(matches!(client.trigger("behind").run().unwrap(), Triggered::Pending(_)));
    let (_, by_hand, second) = told.recv_timeout(SOON).unwrap();
    assert_eq!((second.from, second.until, second.left_out.total()), (Some(first.until), by_hand, 0));
    assert!(scheduler.shutdown(SOON));
}

fn a_node_is_not_its_ip_address(kind: ServerKind) {
    let database = kind.fresh();
    let start = || builder(&database).handler(TEXT, |_, _| Ok(())).start().unwrap();
    let (one, two) = (start(), start());
    let nodes = one.client().nodes().unwrap();
    assert_eq!(nodes.len(), 2);
    assert_ne!(nodes[0].id, nodes[1].id);
    assert_eq!(nodes[0].host_name, nodes[1].host_name);
    assert!(one.shutdown(SOON));
    let nodes = two.client().nodes().unwrap();
    assert_eq!(
        nodes.iter().filter(|node| node.ended.is_none()).count(),
        1,
        "only the one that stopped has ended"
    );
    assert!(two.shutdown(SOON));
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
    assert!(scheduler.shutdown(SOON));
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
            Event::Polled { tick: Some(tick), .. } => Some((*tick, Utc::now().timestamp_millis())),
            _ => None,
        });
        // The poll begins at its tick: what is added is the poll itself, not what earlier ones took.
        assert!((0..2_500).contains(&(now - tick)), "tick {tick} ended at {now}");
        ticks.push(tick);
    }
    assert!(ticks.windows(2).all(|two| two[1] - two[0] == 5_000), "{ticks:?}");
    assert!(scheduler.shutdown(SOON));
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
    assert!(scheduler.shutdown(SOON));
    late.sort_unstable();
    // The first occurrences are due before the first poll sees the schedule.
    assert!(late[0] >= 0 && late[50] < 250, "{late:?}");
}

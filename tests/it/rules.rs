//! The rules of running: answers and retries, limits, overlap, containment, lanes, fixed delays.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{
    Answer, AuditFilter, Cancellation, Cause, Context, Event, ExecutionFilter, ExecutionState, ExecutionView,
    HandlerError, Job, Lane, Overlap, Resumed, Retried, Retry, Schedule, Trigger, Triggered,
};
use libtest_mimic::Trial;

use crate::support::database::ServerKind;
use crate::support::scheduler::{
    SOON, TEXT, builder, client, listen, once_now, states, teller, until, wait_for,
};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
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
        ("what_was_enqueued_in_a_lane_runs_there", what_was_enqueued_in_a_lane_runs_there),
        ("a_slow_job_changes_to_the_automatic_lane", a_slow_job_changes_to_the_automatic_lane),
        ("a_job_runs_as_often_at_once_as_it_may", a_job_runs_as_often_at_once_as_it_may),
        ("what_is_spread_begins_one_after_the_other", what_is_spread_begins_one_after_the_other),
        ("groups_are_bounded_and_take_turns", groups_are_bounded_and_take_turns),
        ("a_schedule_that_fails_pauses_itself", a_schedule_that_fails_pauses_itself),
        ("what_was_expected_and_did_not_come_is_told_once", what_was_expected_and_did_not_come_is_told),
        ("a_handler_knows_what_its_execution_covers", a_handler_knows_what_its_execution_covers),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::rules::{name}", kind.name()), move || test(kind)));
    }
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
    assert!(scheduler.shutdown(SOON).is_clean());
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
    assert!(scheduler.shutdown(SOON).is_clean());
    let client = client(&database);
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let row = |row: &ExecutionView| (row.state.to_string(), row.error.clone(), row.failures, row.snoozes);
    let failed = |error: &str, failures, snoozes| ("FAILED".to_owned(), error.to_owned(), failures, snoozes);
    assert_eq!(
        rows.iter().map(row).collect::<Vec<_>>(),
        [failed("no printer", 1, 2), failed("no paper", 0, 1)]
    );
    assert_eq!(rows[0].reason, "gave up");
    let job = client.jobs().unwrap().remove(0);
    assert_eq!(
        (job.max_retries, job.retry_delay, job.retry_cap),
        (5, Duration::from_secs(60), Duration::from_secs(60))
    );
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
    assert!(first.shutdown(SOON).is_clean());
    let (second, events) = node();
    let second = second.start().unwrap();
    let (lateness, _) = wait_for(&events, finished);
    assert!(lateness < Duration::from_secs(1), "{lateness:?}");
    assert!(second.shutdown(SOON).is_clean());
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
    assert!(first.shutdown(SOON).is_clean(), "it snoozes before the deadline");
    assert_eq!(told.recv_timeout(SOON).unwrap(), (1, 1), "no further attempt");
    assert!(second.shutdown(SOON).is_clean());
    assert_eq!(states(&client(&database)), [("SUCCEEDED".to_owned(), 1)]);
}

/// A handler that gives up until its job is mended.
fn broken_until(
    is_mended: &Arc<AtomicBool>,
) -> impl Fn(&Context, String) -> Result<Answer, HandlerError> + Send + Sync + 'static {
    let works = Arc::clone(is_mended);
    move |_, _| match works.load(Ordering::Relaxed) {
        true => Ok(Answer::Done),
        false => Ok(Answer::GiveUp("broken".to_owned())),
    }
}

/// Its job is mended, somebody resumes it, and it fires again.
fn a_schedule_that_fails_pauses_itself(kind: ServerKind) {
    let database = kind.fresh();
    let is_mended = Arc::new(AtomicBool::new(false));
    let (builder, events) = listen(builder(&database).handler(TEXT, broken_until(&is_mended)));
    let scheduler = builder.start().unwrap();
    let client = scheduler.client();
    let every = Trigger::every(Duration::from_millis(500)).unwrap();
    let broken = Schedule::new("broken", TEXT, &String::new(), every).unwrap().pause_after(3);
    client.ensure(&broken).run().unwrap();
    let reason = wait_for(&events, |event| match event {
        Event::Contained { schedule, reason, .. } if **schedule == *"broken" => Some(reason.clone()),
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
    // An occurrence that comes due before the last outcome is stored is SKIPPED (overlap).
    let filter = ExecutionFilter { states: vec![ExecutionState::Failed], ..ExecutionFilter::default() };
    let failed = client.executions(&filter).unwrap();
    assert!((3..=4).contains(&failed.len()), "one more at most: {failed:?}");

    is_mended.store(true, Ordering::Relaxed);
    assert_eq!(client.resume("broken").run().unwrap(), Resumed::Resumed);
    wait_for(&events, |event| match event {
        Event::Finished { state: ExecutionState::Succeeded, .. } => Some(()),
        _ => None,
    });
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// Its handler fails until it is mended; meanwhile occurrence after occurrence is not in time.
fn what_was_expected_and_did_not_come_is_told(kind: ServerKind) {
    let database = kind.fresh();
    let is_mended = Arc::new(AtomicBool::new(false));
    let (builder, events) = listen(builder(&database).handler(TEXT, broken_until(&is_mended)));
    let scheduler = builder.start().unwrap();
    let client = scheduler.client();
    let every = Trigger::every(Duration::from_millis(500)).unwrap();
    let span = Duration::from_millis(700);
    let fresh = Schedule::new("fresh", TEXT, &String::new(), every).unwrap().pause_after(0).expected_by(span);
    client.ensure(&fresh).run().unwrap();
    let told = |event: &Event| match event {
        Event::ExpectationUnmet { schedule, fire_time, expected_by, .. } if **schedule == *"fresh" => {
            assert_eq!(*expected_by, span);
            Some((true, *fire_time))
        }
        Event::ExpectationMet { schedule, fire_time, .. } if **schedule == *"fresh" => {
            Some((false, *fire_time))
        }
        _ => None,
    };
    let (is_unmet, first) = wait_for(&events, told);
    assert!(is_unmet);
    let shown = client.schedule("fresh").unwrap().schedule;
    assert_eq!((shown.expected_by, shown.unmet), (Some(span), Some(first)));
    is_mended.store(true, Ordering::Relaxed);
    assert_eq!(wait_for(&events, told), (false, first));
    assert_eq!(client.schedule("fresh").unwrap().schedule.unmet, None);
    let audit = client.audit(&AuditFilter { target: Some("fresh".to_owned()), ..AuditFilter::default() });
    let made: Vec<_> = audit.unwrap().into_iter().map(|it| (it.actor, it.verb)).collect();
    let made: Vec<_> = made.iter().rev().map(|(actor, verb)| (actor.as_str(), verb.as_str())).collect();
    assert_eq!(made[1..], [("firetime", "unmet"), ("firetime", "met")]);
    assert!(scheduler.shutdown(SOON).is_clean());
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
    let skipped: Vec<&ExecutionView> =
        rows.iter().filter(|row| row.state == ExecutionState::Skipped).collect();
    assert!(skipped.iter().all(|row| row.reason == "overlap" && row.holder == Some(first)), "{skipped:?}");
    assert!(skipped.len() >= 8, "{skipped:?}");
    let_go.send(()).unwrap();
    let (second, next) = told.recv_timeout(SOON).unwrap();
    assert!(second != first && next > began + TimeDelta::milliseconds(1_600), "{began} {next}");
    drop(let_go);
    assert!(nodes.iter().all(|node| node.shutdown(SOON).is_clean()));
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
    assert!(nodes.iter().all(|node| node.shutdown(SOON).is_clean()));
}

/// Two nodes with threads for all, and more than may begin within a second. How late a handler begins is the
/// machine's: by as much two of them are closer.
fn what_is_spread_begins_one_after_the_other(kind: ServerKind) {
    const CALL: Job<u32> = Job::new("call").rate(10, Duration::from_secs(1)).evenly();
    const MANY: u32 = 30;
    const APART: Duration = Duration::from_millis(100);
    let database = kind.fresh();
    let (tell, told) = teller();
    let tell = Arc::new(tell);
    let node = || {
        let tell = Arc::clone(&tell);
        let handler = move |_: &Context, _| Ok(tell.lock().unwrap().send(Instant::now())?);
        builder(&database).handler(CALL, handler).start().unwrap()
    };
    let nodes = [node(), node()];
    nodes[0].client().enqueue_many(CALL, &(0..MANY).collect::<Vec<_>>()).run().unwrap();
    let mut begins: Vec<Instant> = (0..MANY).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    begins.sort_unstable();
    let mut gaps: Vec<Duration> = begins.windows(2).map(|two| two[1] - two[0]).collect();
    gaps.sort_unstable();
    let all = begins[begins.len() - 1] - begins[0];
    println!(
        "{}: {MANY} in {all:?}, between {:?} and {:?} apart",
        kind.name(),
        gaps[0],
        gaps[gaps.len() - 1]
    );
    assert!(all > APART * (MANY - 2), "{all:?}");
    let median = gaps[gaps.len() / 2];
    assert!(median > APART * 9 / 10 && median < APART * 3 / 2, "{gaps:?}");
    assert!(nodes.iter().all(|node| node.shutdown(SOON).is_clean()));
}

/// Two nodes with threads for all, and a group with many executions before one with two.
fn groups_are_bounded_and_take_turns(kind: ServerKind) {
    const EXPORT: Job<String> = Job::new("export").group_by(String::clone).group_concurrency(1);
    const MANY: usize = 12;
    let database = kind.fresh();
    let (tell, told) = teller();
    let (let_go, runs) = channel::<()>();
    let runs = Arc::new(Mutex::new(runs));
    let running: [Arc<AtomicUsize>; 2] = Default::default();
    let node = || {
        let (tell, runs, running) = (Arc::clone(&tell), Arc::clone(&runs), running.clone());
        let handler = move |_: &Context, group: String| {
            let of_group = &running[usize::from(group == "small")];
            let others = of_group.fetch_add(1, Ordering::SeqCst);
            tell.lock().unwrap().send((group, others))?;
            // Until all may go on.
            runs.lock().unwrap().recv().ok();
            of_group.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        builder(&database).handler(EXPORT, handler).start().unwrap()
    };
    let nodes = [node(), node()];
    let client = nodes[0].client();
    let many = vec!["large".to_owned(); MANY];
    client.enqueue_many(EXPORT, &many).run().unwrap();
    client.enqueue_many(EXPORT, &["small".to_owned(), "small".to_owned()]).run().unwrap();
    let next = || {
        let (group, others) = told.recv_timeout(SOON).unwrap();
        assert_eq!(others, 0, "another of {group} runs");
        group
    };
    let mut began = vec![next(), next()];
    assert!(told.try_recv().is_err(), "one of each runs");
    drop(let_go);
    began.extend((2..MANY + 2).map(|_| next()));
    let small: Vec<usize> = (0..MANY + 2).filter(|n| began[*n] == "small").collect();
    assert!(small[0] <= 1 && small[1] < MANY, "{began:?}");
    assert!(client.executions(&ExecutionFilter::default()).unwrap().iter().all(|row| row.group.is_some()));
    assert!(nodes.iter().all(|node| node.shutdown(SOON).is_clean()));
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
    assert!(nodes.iter().all(|node| node.shutdown(SOON).is_clean()));
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

/// As does one whose node does not have the lane: in that of its job.
fn what_was_enqueued_in_a_lane_runs_there(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .lane("slow", Lane::threads(1, 1))
        .handler(TEXT, move |_, text| {
            let thread = std::thread::current().name().unwrap().to_owned();
            Ok(tell.lock().unwrap().send(format!("{text} on {}", thread.rsplit_once('-').unwrap().0))?)
        })
        .start()
        .unwrap();
    let client = scheduler.client();
    for (lane, thread) in [("slow", "firetime-slow"), ("default", "firetime-job"), ("no", "firetime-job")] {
        client.enqueue(TEXT, &lane.to_owned()).lane(lane).run().unwrap();
        assert_eq!(told.recv_timeout(SOON).unwrap(), format!("{lane} on {thread}"));
    }
    assert!(scheduler.shutdown(SOON).is_clean());
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
    let soon = Utc::now() + TimeDelta::seconds(2);
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
    // The thread of the other lane rests a moment after its last event.
    until("the slow lane has not been full all the time", || {
        let lanes = scheduler.health().lanes;
        let busy: Vec<_> = lanes.iter().map(|lane| (lane.name.as_str(), lane.busy, lane.threads)).collect();
        (busy == [("default", 0, 1), ("slow", 1, 1)]).then_some(())
    });
    drop(let_go);
    begun.recv_timeout(SOON).expect("the seat that became free is taken");
    assert!(scheduler.shutdown(SOON).is_clean());
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
        Event::LaneChanged { job, lane, .. } => Some((job.to_string(), lane.to_string())),
        _ => None,
    });
    assert_eq!(changed, ("text".to_owned(), "slow".to_owned()));
    let before: Vec<String> = (0..10).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert!(before.iter().all(|thread| thread.starts_with("firetime-job-")), "{before:?}");
    client.ensure(&once_now("after", "quick")).run().unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), "firetime-slow-1");
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// Its execution is TIMED_OUT while it hangs, and keeps its thread; the retry waits for its return.
fn a_handler_that_hangs_is_timed_out(kind: ServerKind) {
    const HANGS: Job<String> =
        Job::new("hangs").time_limit(Duration::from_secs(600)).retry(Retry::fixed(SOON));
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
    until("its first poll has not ended", || scheduler.health().is_ready().then_some(()));
    let client = scheduler.client();
    let soon = Trigger::once(Utc::now() + TimeDelta::milliseconds(200)).unwrap();
    let schedule = Schedule::new("hangs", HANGS, &String::new(), soon).unwrap();
    client.ensure(&schedule.time_limit(Duration::from_millis(300))).run().unwrap();
    let timed_out = |event: &Event| match event {
        Event::TimedOut { attempt, .. } => Some(attempt.execution),
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
    assert!(scheduler.shutdown(SOON).is_clean());
    let details = client.execution(execution).unwrap();
    let state = |row: &ExecutionView| (row.state.to_string(), row.failures, row.stuck);
    let (first, retry) = (("TIMED_OUT".to_owned(), 0, false), ("PENDING".to_owned(), 1, false));
    assert_eq!(details.attempts.iter().map(state).collect::<Vec<_>>(), [first, retry]);
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
    assert_eq!((cause, first.since, first.until), (Cause::Misfire, None, fire_time));
    let missed = (fire_time - began).num_hours().unsigned_abs();
    assert!(missed >= 239, "{began} {fire_time}");
    assert_eq!((first.left_out.missed, first.left_out.total()), (missed, missed));
    // It waits for the end of the other.
    assert!(matches!(client.trigger("behind").run().unwrap(), Triggered::Pending(_)));
    let (_, by_hand, second) = told.recv_timeout(SOON).unwrap();
    assert_eq!((second.since, second.until, second.left_out.total()), (Some(first.until), by_hand, 0));
    assert!(scheduler.shutdown(SOON).is_clean());
}

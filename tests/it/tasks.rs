//! Async handlers on a real scheduler: run, cancelled, limited, interrupted, and the calls that are awaited.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use firetime::{
    Cancellation, Cancelled, Client, Ensured, ErrorKind, Event, ExecutionFilter, ExecutionState,
    ExecutionView, HandlerError, Job, Lane, Overlap, Retry, Schedule, Scheduler, Stopped, Trigger, Triggered,
};
use libtest_mimic::Trial;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{
    APPLICATION, SOON, TEXT, builder, client, listen, once_now, teller, until, wait_for,
};
use crate::trial;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("one_thread_serves_a_scheduler_and_its_client", one_thread_serves_a_scheduler_and_its_client),
        ("hundreds_of_handlers_wait_at_once_on_two_threads", hundreds_of_handlers_wait_at_once),
        ("what_was_enqueued_in_a_lane_has_its_seats", what_was_enqueued_in_a_lane_has_its_seats),
        ("a_handler_that_is_to_end_is_told_and_dropped", a_handler_that_is_to_end_is_told_and_dropped),
        ("what_a_shutdown_interrupts_runs_elsewhere", what_a_shutdown_interrupts_runs_elsewhere),
        ("a_node_whose_runtime_ends_says_so_and_stops", a_node_whose_runtime_ends_says_so_and_stops),
        ("a_blocked_runtime_leaves_its_share_to_others", a_blocked_runtime_leaves_its_share_to_others),
        ("a_handler_shuts_its_own_scheduler_down", a_handler_shuts_its_own_scheduler_down),
        ("what_needs_a_runtime_says_so_without_one", what_needs_a_runtime_says_so_without_one),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::tasks::{name}", kind.name()), move || test(kind)));
    }
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// A handler that waits for the gate's next permit.
async fn pass(gate: Arc<Semaphore>) -> Result<(), HandlerError> {
    gate.acquire().await?.forget();
    Ok(())
}

fn rows(database: &Database) -> Vec<ExecutionView> {
    client(database).executions(&ExecutionFilter::default()).unwrap()
}

/// On a runtime of one thread: whatever blocked it would hang the test.
fn one_thread_serves_a_scheduler_and_its_client(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let scheduler = builder(&database)
            .async_handler(TEXT, move |context, text| {
                let tell = Arc::clone(&tell);
                async move {
                    sleep(Duration::from_millis(20)).await;
                    tell.lock().unwrap().send((text, context.attempt()))?;
                    Ok(())
                }
            })
            .start_async()
            .await
            .unwrap();
        let client = scheduler.client();
        assert_eq!(client.ensure(&once_now("one", "hello")).await.unwrap(), Ensured::Created);
        let said = tokio::task::spawn_blocking(move || told.recv_timeout(SOON).map(|it| (it, told)));
        let (said, told) = said.await.unwrap().unwrap();
        assert_eq!(said, ("hello".to_owned(), 1));
        // A request may be awaited on another task than the one that made it.
        let later = client.clone();
        let run = tokio::spawn(async move { later.trigger("one").payload(&"again").into_future().await });
        assert!(matches!(run.await.unwrap().unwrap(), Triggered::Pending(_)));
        let said = tokio::task::spawn_blocking(move || told.recv_timeout(SOON)).await.unwrap();
        assert_eq!(said.unwrap(), ("again".to_owned(), 1));
        let error = client.pause("nobody").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(scheduler.shutdown_async(SOON).await.is_clean());
        let other = Client::connect_async(APPLICATION, &database.url).await.unwrap();
        assert!(matches!(other.remove("one").await, Ok(firetime::Removed::Removed)));
    });
    assert!(rows(&database).iter().all(|row| row.state == ExecutionState::Succeeded));
}

/// The lane's one seat is taken, and the other's are not.
fn what_was_enqueued_in_a_lane_has_its_seats(kind: ServerKind) {
    let database = kind.fresh();
    let (gate, runtime) = (Arc::new(Semaphore::new(0)), threads());
    let (entered, (tell, told)) = (Arc::clone(&gate), teller());
    let scheduler = builder(&database)
        .lane("narrow", Lane::threads(1, 1).concurrency(1))
        .concurrency(2)
        .runtime(runtime.handle().clone())
        .async_handler(TEXT, move |_, text| {
            tell.lock().unwrap().send(text).unwrap();
            pass(Arc::clone(&entered))
        })
        .start()
        .unwrap();
    let client = scheduler.client();
    let narrow = |text: &str| client.enqueue(TEXT, &text.to_owned()).lane("narrow").run().unwrap();
    narrow("first");
    assert_eq!(told.recv_timeout(SOON).unwrap(), "first");
    narrow("second");
    for n in ["third", "fourth"] {
        client.enqueue(TEXT, &n.to_owned()).run().unwrap();
        assert_eq!(told.recv_timeout(SOON).unwrap(), n);
    }
    gate.add_permits(4);
    assert_eq!(told.recv_timeout(SOON).unwrap(), "second");
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// In a lane of its own beside one thread, which has nothing to do with them.
fn hundreds_of_handlers_wait_at_once(kind: ServerKind) {
    const WAITS: Job<String> = Job::new("waits").lane("many");
    const MANY: usize = 300;
    let database = kind.fresh();
    let (gate, runtime) = (Arc::new(Semaphore::new(0)), threads());
    let entered = Arc::clone(&gate);
    let scheduler = builder(&database)
        .lane("many", Lane::threads(1, 1).concurrency(MANY))
        .runtime(runtime.handle().clone())
        .async_handler(WAITS, move |_, _| pass(Arc::clone(&entered)))
        .start()
        .unwrap();
    let client = scheduler.client();
    let never = Trigger::once(Utc::now() + TimeDelta::days(1)).unwrap();
    let waits = Schedule::new("waits", WAITS, &String::new(), never).unwrap().overlap(Overlap::Allow);
    client.ensure(&waits).run().unwrap();
    for _ in 0..MANY + 20 {
        client.trigger("waits").run().unwrap();
    }
    let many = || scheduler.health().lanes.remove(1);
    until("they do not run", || (many().tasks == MANY).then_some(()));
    let lane = many();
    assert_eq!((lane.name.as_str(), lane.concurrency, lane.busy, lane.queued), ("many", MANY, 0, 0));
    gate.add_permits(MANY + 20);
    until("they do not end", || {
        let ended = ExecutionFilter { limit: MANY + 100, ..ExecutionFilter::default() };
        let rows = client.executions(&ended).unwrap();
        (rows.iter().filter(|row| row.state == ExecutionState::Succeeded).count() == MANY + 20).then_some(())
    });
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// By its time limit, and by hand: the first looks, and the second does not.
fn a_handler_that_is_to_end_is_told_and_dropped(kind: ServerKind) {
    const SLOW: Job<String> = Job::new("slow").grace(Duration::from_millis(200));
    const LIMITED: Job<String> = Job::new("limited")
        .time_limit(Duration::from_millis(300))
        .grace(LONG)
        .retry(Retry::fixed(Duration::from_millis(100)).at_most(1));
    let (database, runtime) = (kind.fresh(), threads());
    let (tell, told) = teller();
    let (builder, events) = listen(builder(&database).runtime(runtime.handle().clone()));
    let scheduler = builder
        .async_handler(LIMITED, move |context, _| {
            let tell = Arc::clone(&tell);
            async move {
                let why = context.cancelled().await;
                tell.lock().unwrap().send((context.attempt(), why))?;
                Ok(())
            }
        })
        .async_handler(SLOW, |_, _| async {
            sleep(LONG).await;
            Ok(())
        })
        .start()
        .unwrap();
    let client = scheduler.client();
    let soon = || Trigger::once(Utc::now() + TimeDelta::milliseconds(200)).unwrap();
    client.ensure(&Schedule::new("limited", LIMITED, &String::new(), soon()).unwrap()).run().unwrap();
    let limits = [told.recv_timeout(SOON).unwrap(), told.recv_timeout(SOON).unwrap()];
    assert_eq!(limits, [(1, Cancellation::TimeLimit), (2, Cancellation::TimeLimit)]);
    client.ensure(&Schedule::new("slow", SLOW, &String::new(), soon()).unwrap()).run().unwrap();
    let running = until("it does not run", || {
        let is_it = |row: &ExecutionView| row.schedule == "slow" && row.state == ExecutionState::Running;
        rows(&database).into_iter().find(is_it).map(|row| row.id)
    });
    until("it has not begun", || (scheduler.health().lanes[0].tasks == 1).then_some(()));
    assert!(matches!(client.cancel(running).run().unwrap(), Cancelled::Asked { .. }));
    let cancelled = wait_for(&events, |event| match event {
        Event::Finished { state: ExecutionState::Cancelled, error, .. } => error.clone(),
        _ => None,
    });
    assert!(cancelled.contains("ms after somebody asked for its end"), "{cancelled}");
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn what_a_shutdown_interrupts_runs_elsewhere(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let runtime = threads();
    let (builder, events) = listen(builder(&database).runtime(runtime.handle().clone()));
    let scheduler = builder
        .async_handler(TEXT, move |context, _| {
            let tell = Arc::clone(&tell);
            async move {
                tell.lock().unwrap().send(context.attempt())?;
                sleep(LONG).await;
                Ok(())
            }
        })
        .start()
        .unwrap();
    scheduler.client().ensure(&once_now("long", "")).run().unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), 1);
    assert!(
        scheduler.shutdown(Duration::from_secs(4)).is_clean(),
        "it is in order, with nothing left behind"
    );
    wait_for(&events, |event| matches!(event, Event::Interrupted { .. }).then_some(()));
    let row = rows(&database).remove(0);
    assert_eq!((row.state.as_str(), row.reason.as_str(), row.attempt), ("PENDING", "interrupted", 1));
    let (tell, told) = teller();
    let next = crate::support::scheduler::builder(&database)
        .handler(TEXT, move |context, _| Ok(tell.lock().unwrap().send(context.attempt())?))
        .start()
        .unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), 1);
    assert!(next.shutdown(SOON).is_clean());
    assert_eq!(rows(&database)[0].state, ExecutionState::Succeeded);
}

fn a_node_whose_runtime_ends_says_so_and_stops(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let runtime = threads();
    let (builder, events) = listen(builder(&database).runtime(runtime.handle().clone()));
    let scheduler = builder
        .async_handler(TEXT, move |_, _| {
            let tell = Arc::clone(&tell);
            async move {
                tell.lock().unwrap().send(())?;
                sleep(LONG).await;
                Ok(())
            }
        })
        .start()
        .unwrap();
    scheduler.client().ensure(&once_now("long", "")).run().unwrap();
    told.recv_timeout(SOON).unwrap();
    runtime.shutdown_background();
    wait_for(&events, |event| matches!(event, Event::RuntimeEnded).then_some(()));
    assert_eq!(scheduler.wait(), Stopped::GivenUp);
    until("it is not handed back", || {
        let row = rows(&database).remove(0);
        (row.state == ExecutionState::Pending && row.reason == "interrupted").then_some(())
    });
    assert_eq!(scheduler.shutdown(Duration::from_secs(5)), Stopped::Unclean, "others find its row dead");
}

/// The nodes beat and poll less often than the test waits.
fn a_blocked_runtime_leaves_its_share_to_others(kind: ServerKind) {
    const COUNT: usize = 24;
    let database = kind.fresh();
    let rarely = |runtime: &Runtime| {
        let (beat, poll, death) =
            (Duration::from_secs(40), Duration::from_secs(50), Duration::from_secs(100));
        let builder = Scheduler::builder(APPLICATION, &database.url).runtime(runtime.handle().clone());
        builder.poll_interval(poll).misfire_interval(poll).heartbeat_interval(beat).death_after(death)
    };
    let node = |builder: firetime::Builder| {
        let (tell, told) = teller();
        let run = move |_, _| {
            let tell = Arc::clone(&tell);
            async move { Ok(tell.lock().unwrap().send(())?) }
        };
        (builder.async_handler(TEXT, run).start().unwrap(), told)
    };
    let (blocked, free) =
        (Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap(), threads());
    let (gate, wait) = std::sync::mpsc::channel::<()>();
    blocked.spawn(async move { wait.recv().ok() });
    let (builder, events) = listen(rarely(&blocked));
    let (stuck, its) = node(builder);
    let (other, told) = node(rarely(&free));
    let client = client(&database);
    let enqueue = || client.enqueue_many(TEXT, &vec![String::new(); COUNT]).run().unwrap();
    enqueue();
    wait_for(&events, |event| matches!(event, Event::RuntimeBlocked).then_some(()));
    (0..COUNT).for_each(|_| told.recv_timeout(SOON).expect("nobody told it of what was handed back"));
    enqueue();
    (0..COUNT).for_each(|_| told.recv_timeout(SOON).expect("some are left to the node that is blocked"));
    let nodes = client.nodes().unwrap();
    let is_blocked = |lane: &firetime::LaneHealth| lane.is_blocked;
    let blocked_nodes: Vec<_> = nodes.iter().filter(|node| node.lanes.iter().any(is_blocked)).collect();
    assert_eq!(blocked_nodes.len(), 1);
    assert_eq!(blocked_nodes[0].jobs, ["text"], "it has a handler");
    gate.send(()).unwrap();
    until("it has no part again", || {
        enqueue();
        its.try_recv().ok()
    });
    assert!(stuck.shutdown(SOON).is_clean() && other.shutdown(SOON).is_clean());
}

fn a_handler_shuts_its_own_scheduler_down(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = teller();
    let (lend, scheduler) = std::sync::mpsc::channel::<Arc<Scheduler>>();
    let lent = Arc::new(std::sync::Mutex::new(scheduler));
    let runtime = threads();
    let scheduler = builder(&database)
        .runtime(runtime.handle().clone())
        .async_handler(TEXT, move |_, _| {
            let (tell, lent) = (Arc::clone(&tell), Arc::clone(&lent));
            async move {
                let scheduler = lent.lock().unwrap().recv()?;
                let stopped = scheduler.shutdown_async(SOON).await;
                tell.lock().unwrap().send(stopped)?;
                Ok(())
            }
        })
        .start()
        .unwrap();
    let scheduler = Arc::new(scheduler);
    lend.send(Arc::clone(&scheduler)).unwrap();
    scheduler.client().ensure(&once_now("last", "")).run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(Stopped::NotYet), "it cannot wait for itself");
    assert!(scheduler.wait().is_clean());
    assert_eq!(rows(&database)[0].state, ExecutionState::Succeeded);
}

fn what_needs_a_runtime_says_so_without_one(kind: ServerKind) {
    let database = kind.fresh();
    let handled = || builder(&database).async_handler(TEXT, |_, _| async { Ok(()) });
    let error = handled().start().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("Builder::runtime"), "{error}");
    let client = client(&database);
    let mut request = pin!(client.pause("one").into_future());
    let Poll::Ready(Err(error)) = request.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()))
    else {
        panic!("it waits for nobody")
    };
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("awaited outside of a tokio runtime"), "{error}");
}

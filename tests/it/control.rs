//! What a client asks for: pauses, drains, runs by hand, cancels, removals, also in its own transaction.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use diesel::prelude::*;
use firetime::{
    Activity, AuditFilter, Cancelled, Cause, Client, Draining, Edited, Ensured, ErrorKind, Event,
    ExecutionFilter, ExecutionState, Overlap, Paused, Removed, Reran, RerunCancelled, Resumed, Retried,
    Retry, Schedule, ScheduleState, Skipped, Target, Trigger, Triggered,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{
    SOON, TEXT, builder, client, listen, once_now, states, teller, until, wait_for,
};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_pause_holds_and_a_resume_skips", a_pause_holds_and_a_resume_skips),
        ("requests_join_the_callers_transaction", requests_join_the_callers_transaction),
        ("a_request_in_an_old_transaction_ends", a_request_in_an_old_transaction_ends),
        ("a_schedule_runs_once_more_by_hand", a_schedule_runs_once_more_by_hand),
        ("a_removed_schedule_fires_no_more", a_removed_schedule_fires_no_more),
        ("what_was_due_is_withdrawn_and_says_by_whom", what_was_due_is_withdrawn_and_says_by_whom),
        ("a_removal_says_that_it_is_made_though_the_cancels_are_not", a_removal_without_its_cancels),
        ("a_running_job_hears_of_a_cancel", a_running_job_hears_of_a_cancel),
        ("a_node_drains_while_another_goes_on", a_node_drains_while_another_goes_on),
        ("a_jobs_pause_ends_by_itself", a_jobs_pause_ends_by_itself),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::control::{name}", kind.name()), move || test(kind)));
    }
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
    // An occurrence claimed before the pause still runs, and a claim comes up to 50 ms before its fire time.
    let claimed_until = paused_at + TimeDelta::milliseconds(50);
    while let Ok(fired) = told.recv_timeout((ten_later - Utc::now()).to_std().unwrap_or_default()) {
        assert!(fired <= claimed_until, "fired {fired}, paused {paused_at}");
    }
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Paused);
    assert_eq!(client.resume("tick").run().unwrap(), Resumed::Resumed);
    let fired = told.recv_timeout(SOON).unwrap();
    assert!(fired > ten_later - TimeDelta::milliseconds(100), "resumed with {fired}");
    assert!(scheduler.shutdown(SOON).is_clean());
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let skipped: Vec<_> = rows.iter().filter(|row| row.state == ExecutionState::Skipped).collect();
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

pub(crate) use on_own_connection;

/// A connection on which a request blocks.
pub trait Blocking: firetime::CallerConnection {
    fn answered<T>(outcome: Self::Outcome<'_, T>) -> Result<T, firetime::Error>;
}

macro_rules! blocking {
    ($feature:literal, $connection:ty) => {
        #[cfg(feature = $feature)]
        impl Blocking for $connection {
            fn answered<T>(outcome: Result<T, firetime::Error>) -> Result<T, firetime::Error> {
                outcome
            }
        }
    };
}

blocking!("sqlite", diesel::SqliteConnection);
blocking!("postgres", diesel::PgConnection);
blocking!("mysql", diesel::MysqlConnection);

/// Makes a schedule on the test's own connection, in a transaction that ends as asked.
fn ensure_in(database: &Database, client: &Client, schedule: &Schedule, commit: bool) {
    fn run<C: Connection + Blocking>(mut connection: C, client: &Client, schedule: &Schedule, commit: bool) {
        let result = connection.transaction(|connection| {
            assert_eq!(C::answered(client.ensure(schedule).run_in(connection)).unwrap(), Ensured::Created);
            every_verb_in(connection, client);
            if commit { Ok(()) } else { Err(diesel::result::Error::RollbackTransaction) }
        });
        assert_eq!(result.is_ok(), commit);
    }
    on_own_connection!(database, run(client, schedule, commit));
}

/// All that a client can ask for, on the schedule "yearly" that the same transaction has made.
fn every_verb_in<C: Blocking>(connection: &mut C, client: &Client) {
    let edited = C::answered(client.edit("yearly").priority(7).run_in(connection)).unwrap();
    assert!(matches!(edited, Edited::Changed(_)), "{edited:?}");
    let again = C::answered(client.trigger("yearly").payload(&"8").run_in(connection)).unwrap();
    let Triggered::Pending(execution) = again else { panic!("{again:?}") };
    assert_eq!(C::answered(client.cancel(execution).run_in(connection)).unwrap(), Cancelled::Cancelled);
    let Retried::Pending(_) = C::answered(client.retry(execution).run_in(connection)).unwrap() else {
        panic!("not retried")
    };
    let next = chrono::DateTime::parse_from_rfc3339("2090-01-01T00:00:00Z").unwrap().to_utc();
    let past = |year| chrono::TimeZone::with_ymd_and_hms(&Utc, year, 1, 1, 0, 0, 0).unwrap();
    let backfill = client.backfill("yearly", past(2019)..past(2022));
    let Reran::Ordered { origin, count: 2, .. } = C::answered(backfill.run_in(connection)).unwrap() else {
        panic!("2020 and 2021")
    };
    let cancelled = C::answered(client.cancel_rerun(origin).run_in(connection)).unwrap();
    assert!(matches!(cancelled, RerunCancelled::Cancelled { cancelled: 2, asked: 0, .. }), "{cancelled:?}");
    let rerun = C::answered(client.rerun("yearly").run_in(connection)).unwrap();
    assert!(matches!(rerun, Reran::Nothing { rest_from: None, .. }), "none of its own has come: {rerun:?}");
    let skipped = C::answered(client.skip("yearly", next).run_in(connection)).unwrap();
    assert!(matches!(skipped, Skipped::Skipped { .. }), "{skipped:?}");
    assert_eq!(C::answered(client.pause("yearly").until(next).run_in(connection)).unwrap(), Paused::Paused);
    assert_eq!(C::answered(client.resume("yearly").run_in(connection)).unwrap(), Resumed::Resumed);
    assert_eq!(C::answered(client.pause(Target::job("text")).run_in(connection)).unwrap(), Paused::Paused);
    assert_eq!(C::answered(client.resume(Target::job("text")).run_in(connection)).unwrap(), Resumed::Resumed);
    let nobodys = C::answered(client.pause("nobody's").run_in(connection)).unwrap_err();
    assert_eq!(nobodys.kind(), ErrorKind::NotFound);
    let nodes =
        C::answered(client.drain("8b0b4b0e-0c57-4c5e-9a53-0d2f8e1f7a11").run_in(connection)).unwrap_err();
    assert_eq!(nodes.kind(), ErrorKind::NotFound);
    assert_eq!(
        C::answered(client.remove("yearly").cancel_running().run_in(connection)).unwrap(),
        Removed::Removed
    );
}

fn requests_join_the_callers_transaction(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let yearly = Trigger::cron("0 0 0 1 1 ? 2020,2021,2090-2099", "UTC").unwrap();
    let yearly = Schedule::new("yearly", TEXT, &String::new(), yearly).unwrap();
    let verbs = || {
        let rows = client.audit(&AuditFilter::default()).unwrap();
        rows.into_iter().rev().map(|row| row.verb).collect::<Vec<_>>()
    };
    ensure_in(&database, &client, &yearly, false);
    assert!(verbs().is_empty() && states(&client).is_empty(), "rolled back with the caller's transaction");
    ensure_in(&database, &client, &yearly, true);
    let expected = [
        "ensure", "edit", "trigger", "cancel", "retry", "backfill", "cancel", "skip", "pause", "resume",
        "pause", "resume", "remove",
    ];
    assert_eq!(verbs(), expected);
    let cancelled = |attempt| ("CANCELLED".to_owned(), attempt);
    let skipped = ("SKIPPED".to_owned(), 1);
    assert_eq!(states(&client), [cancelled(1), cancelled(1), cancelled(1), cancelled(2), skipped]);
    assert!(client.schedules().unwrap().is_empty());
}

/// Somebody else resumes the job after the caller's transaction has seen it paused: the answer depends on how
/// the database isolates, but there is one.
fn a_request_in_an_old_transaction_ends(kind: ServerKind) {
    fn run<C: Connection + Blocking>(mut connection: C, client: &Client) {
        let ended = connection.transaction::<_, diesel::result::Error, _>(|connection| {
            connection.batch_execute("SELECT state FROM QRTZ_EXECUTE; SELECT state FROM QRTZ_JOB")?;
            assert_eq!(client.resume(Target::job("text")).run().unwrap(), Resumed::Resumed);
            match C::answered(client.resume(Target::job("text")).run_in(connection)) {
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
    assert!(scheduler.shutdown(SOON).is_clean());
    let row = &own.schedules().unwrap()[0];
    assert_eq!((row.state.as_str(), row.next), ("paused", next));
    assert!(states(&own).iter().filter(|(state, _)| state == "SUCCEEDED").count() == 2, "{:?}", states(&own));
    let audit = own.audit(&AuditFilter::default()).unwrap();
    let verbs: Vec<_> = audit.iter().map(|row| row.verb.as_str()).collect();
    assert_eq!(verbs, ["trigger", "trigger", "trigger", "pause", "ensure"]);
    assert!(audit.iter().skip(3).all(|row| row.actor.ends_with(&format!("/{}", std::process::id()))));
}

/// From this node's own client at once, from another process within a heartbeat; it is not retried.
/// Its error said that nothing was changed.
fn a_removal_without_its_cancels(kind: ServerKind) {
    fn drop_cancels(mut connection: impl Connection) {
        connection.batch_execute("DROP TABLE QRTZ_CANCEL").unwrap();
    }
    let database = kind.fresh();
    let client = client(&database);
    let yearly = Trigger::cron("0 0 0 1 1 ?", "UTC").unwrap();
    client.ensure(&Schedule::new("yearly", TEXT, &String::new(), yearly).unwrap()).run().unwrap();
    on_own_connection!(database, drop_cancels());
    for _ in 0..2 {
        let error = client.remove("yearly").cancel_running().run().unwrap_err();
        assert!(error.to_string().starts_with("schedule \"yearly\" is removed, but"), "{error:#}");
    }
    assert_eq!(client.remove("yearly").run().unwrap(), Removed::AlreadyRemoved);
}

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
            let row = rows.into_iter().find(|row| row.id == execution).unwrap();
            (row.state != ExecutionState::Running && row.cancel_seen.is_some()).then_some(row)
        });
        assert_eq!(row.state.as_str(), state, "{row:?}");
        assert!(name == "other" || begun.elapsed() < Duration::from_secs(4), "its own client's, but {row:?}");
        assert_eq!(row.cancel_asked_by == "bob", name == "other");
        let again = by.cancel(execution).run().unwrap();
        assert!(matches!(again, Cancelled::AlreadyEnded(_)), "{again:?}");
    }
    assert_eq!(own.cancel(7_000_000_000).run().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(states(&own).len(), 3, "nothing was retried: {:?}", states(&own));
    assert!(scheduler.shutdown(SOON).is_clean());
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
        node.state
    };
    assert_eq!(state(), Activity::Draining);
    open.send(()).unwrap();
    until("it does not drain", || (state() == Activity::Drained).then_some(()));
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let ran_here = |row: &&firetime::ExecutionView| row.node.as_ref() == Some(&drained);
    let here: Vec<_> = rows.iter().filter(ran_here).map(|row| (row.id, row.state.as_str())).collect();
    assert_eq!(here, [(running, "SUCCEEDED")]);
    assert_eq!(client.drain(&drained).run().unwrap(), Draining::Drained);
    assert_eq!(client.resume(Target::node(&drained)).run().unwrap(), Resumed::Resumed);
    assert!(second.shutdown(SOON).is_clean());
    open.send(()).unwrap();
    client.ensure(&once_now("again", "")).run().unwrap();
    told.recv_timeout(SOON).unwrap();
    assert!(first.shutdown(SOON).is_clean());
}

fn a_jobs_pause_ends_by_itself(kind: ServerKind) {
    let database = kind.fresh();
    let (scheduler, events) = listen(builder(&database).handler(TEXT, |_, _| Ok(())));
    let scheduler = scheduler.start().unwrap();
    let client = scheduler.client();
    let every = Trigger::every(Duration::from_millis(200)).unwrap();
    let often = Schedule::new("often", TEXT, &String::new(), every).unwrap();
    client.ensure(&often.overlap(Overlap::Allow)).run().unwrap();
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
        Event::PauseEnded { target_type, target, .. } => Some((*target_type, target.to_string())),
        _ => None,
    };
    assert_eq!(wait_for(&events, ended), ("job", "text".to_owned()));
    wait_for(&events, |event| matches!(event, Event::Finished { .. }).then_some(()));
    assert!(scheduler.shutdown(SOON).is_clean());
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let skipped: Vec<_> = rows.iter().filter(|row| row.state == ExecutionState::Skipped).collect();
    assert!(skipped.iter().all(|row| row.reason == "paused") && !skipped.is_empty(), "{rows:?}");
    let ended = AuditFilter { verb: Some("resume".to_owned()), ..AuditFilter::default() };
    let ended = client.audit(&ended).unwrap().remove(0);
    assert_eq!(
        (ended.actor.as_str(), ended.target.as_str(), ended.was.as_str()),
        ("firetime", "text", "paused")
    );
}

/// No node runs. The caller's transaction is rolled back first, and then committed.
fn what_was_due_is_withdrawn_and_says_by_whom(kind: ServerKind) {
    fn run<C: Connection + Blocking>(mut connection: C, client: &Client) {
        let yearly = Trigger::cron("0 0 0 1 1 ? 2090-2099", "UTC").unwrap();
        let yearly = Schedule::new("edited", TEXT, &String::new(), yearly).unwrap();
        for rolls_back in [true, false] {
            let ended = connection.transaction::<_, diesel::result::Error, _>(|connection| {
                let edit = client.ensure(&yearly).actor("ann").run_in(connection);
                assert_eq!(C::answered(edit).unwrap(), Ensured::Changed);
                let removal = client.remove("removed").actor("bob").run_in(connection);
                assert_eq!(C::answered(removal).unwrap(), Removed::Removed);
                if rolls_back { Err(diesel::result::Error::RollbackTransaction) } else { Ok(()) }
            });
            assert_eq!(ended.is_err(), rolls_back);
            assert_eq!(states(client).is_empty(), rolls_back);
        }
    }
    let database = kind.fresh();
    let client = client(&database);
    let minute_ago = Utc::now() - TimeDelta::minutes(1);
    for name in ["edited", "removed"] {
        let once = Trigger::once(minute_ago).unwrap();
        client.ensure(&Schedule::new(name, TEXT, &String::new(), once).unwrap()).run().unwrap();
    }
    on_own_connection!(database, run(&client));
    let audit = client.audit(&AuditFilter::default()).unwrap();
    for (name, by) in [("edited", "ann"), ("removed", "bob")] {
        let filter = ExecutionFilter { schedule: Some(name.to_owned()), ..ExecutionFilter::default() };
        let rows = client.executions(&filter).unwrap();
        assert_eq!(rows.len(), 1, "{rows:?}");
        let row = &rows[0];
        assert_eq!((row.state.as_str(), row.reason.as_str(), row.count), ("WITHDRAWN", name, 1));
        assert_eq!(row.fire_time.map(|at| at.timestamp_millis()), Some(minute_ago.timestamp_millis()));
        let entry = audit.iter().find(|entry| Some(entry.id) == row.change).unwrap();
        assert_eq!((entry.target.as_str(), entry.actor.as_str()), (name, by));
    }
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
    assert!(scheduler.shutdown(SOON).is_clean());
    let last = own.executions(&ExecutionFilter::default()).unwrap();
    assert!(last.iter().all(|row| row.schedule == "tick"), "the ledger keeps its name");
    assert_eq!((last[0].generation, last.last().unwrap().generation), (1, 0));
}

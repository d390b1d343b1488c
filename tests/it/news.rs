//! What others change reaches a node before its next poll.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use firetime::{Builder, Context, Event, ExecutionFilter, ExecutionState, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, NUMBER, SOON, client, listen, teller, until, wait_for};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let name = format!("{}::news::what_others_change_does_not_wait_for_a_poll", kind.name());
    trials.push(trial(name, move || what_others_change_does_not_wait_for_a_poll(kind)));
    let name = format!("{}::news::what_a_node_hands_back_begins_at_once_elsewhere", kind.name());
    trials.push(trial(name, move || what_a_node_hands_back_begins_at_once_elsewhere(kind)));
    #[cfg(feature = "postgres")]
    if kind == ServerKind::Postgres {
        let name = "postgres::news::who_cannot_listen_asks_and_listens_again";
        trials.push(trial(name.to_owned(), who_cannot_listen_asks_and_listens_again));
    }
}

/// A node that polls less often than a test waits.
fn rarely_polling(database: &Database) -> Builder {
    const RARELY: Duration = Duration::from_secs(50);
    assert!(RARELY > SOON);
    Scheduler::builder(APPLICATION, &database.url).poll_interval(RARELY).misfire_interval(RARELY)
}

fn what_others_change_does_not_wait_for_a_poll(kind: ServerKind) {
    let (database, (tell, told)) = (kind.fresh(), teller());
    let run = move |_: &Context, n: u64| Ok(tell.lock().unwrap().send(n)?);
    let (builder, events) = listen(rarely_polling(&database).handler(NUMBER, run));
    let node = builder.start().unwrap();
    wait_for(&events, |event| matches!(event, Event::Polled { .. }).then_some(()));
    let other = client(&database);
    for n in 0..5 {
        other.enqueue(NUMBER, &n).run().unwrap();
        assert_eq!(told.recv_timeout(SOON), Ok(n));
    }
    other.enqueue_many(NUMBER, &[5]).after(Duration::from_millis(700)).run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(5));
    let soon = Trigger::once(Utc::now() + TimeDelta::milliseconds(500)).unwrap();
    other.ensure(&Schedule::new("soon", NUMBER, &6, soon).unwrap()).run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(6));
    let late = Trigger::once(Utc::now() + TimeDelta::days(1)).unwrap();
    other.ensure(&Schedule::new("late", NUMBER, &7, late).unwrap()).run().unwrap();
    other.trigger("late").run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(7));
    assert!(node.shutdown(SOON).is_clean());
}

/// The other node beats less often than the test waits, too.
fn what_a_node_hands_back_begins_at_once_elsewhere(kind: ServerKind) {
    const COUNT: u64 = 6;
    let database = kind.fresh();
    let rarely = || {
        let (beat, death) = (Duration::from_secs(40), Duration::from_secs(100));
        rarely_polling(&database).heartbeat_interval(beat).death_after(death)
    };
    let (gate, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let run = move |_: &Context, _: u64| Ok(wait.lock().unwrap().recv()?);
    let stops = rarely().threads(1, 1).queue(8).handler(NUMBER, run).start().unwrap();
    let client = client(&database);
    client.enqueue_many(NUMBER, &(0..COUNT).collect::<Vec<u64>>()).run().unwrap();
    until("it claims what it cannot run", || {
        let rows = client.executions(&ExecutionFilter::default()).unwrap();
        rows.iter().all(|row| row.state != ExecutionState::Pending).then_some(())
    });
    let (tell, told) = teller();
    let run = move |_: &Context, n: u64| Ok(tell.lock().unwrap().send(n)?);
    let (builder, events) = listen(rarely().handler(NUMBER, run));
    let other = builder.start().unwrap();
    wait_for(&events, |event| matches!(event, Event::Polled { .. }).then_some(()));
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| stops.shutdown(2 * SOON).is_clean());
        let begun: BTreeSet<u64> = (1..COUNT).map(|_| told.recv_timeout(SOON).unwrap()).collect();
        assert_eq!(begun.len() as u64, COUNT - 1);
        gate.send(()).unwrap();
        assert!(stopped.join().unwrap());
    });
    assert!(other.shutdown(SOON).is_clean());
}

#[cfg(feature = "postgres")]
fn who_cannot_listen_asks_and_listens_again() {
    let (database, (tell, told)) = (ServerKind::Postgres.fresh(), teller());
    let run = move |_: &Context, n: u64| Ok(tell.lock().unwrap().send(n)?);
    let (builder, events) = listen(rarely_polling(&database).handler(NUMBER, run));
    let node = builder.start().unwrap();
    let listens = |event: &Event| matches!(event, Event::Listening).then_some(());
    wait_for(&events, listens);
    database.batch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    wait_for(&events, |event| matches!(event, Event::NotListening { .. }).then_some(()));
    let other = client(&database);
    other.enqueue(NUMBER, &1).run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(1));
    wait_for(&events, listens);
    other.enqueue(NUMBER, &2).run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(2));
    assert!(node.shutdown(SOON).is_clean());
}

//! What others change reaches a node before its next poll.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use firetime::{Builder, Context, Event, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, NUMBER, SOON, client, listen, teller, wait_for};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let name = format!("{}::news::what_others_change_does_not_wait_for_a_poll", kind.name());
    trials.push(trial(name, move || what_others_change_does_not_wait_for_a_poll(kind)));
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
    assert!(node.shutdown(SOON));
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
    assert!(node.shutdown(SOON));
}

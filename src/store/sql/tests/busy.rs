//! SQLite beside a process that writes in a loop: the transactions of others come to their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::fixture::{AT, Database, LIMITS, application, definition};
use crate::domain::NodeId;
use crate::fixtures::new_node;
use crate::store::sql::open;
use crate::store::{Definition, HeartbeatReply, Result, Store};
use crate::time::Clock;

/// So long the loop goes on.
const LOOP: Duration = Duration::from_secs(5);
/// How long a call may take beside it.
const LONGEST: Duration = Duration::from_secs(1);

fn store(database: &Database) -> Arc<dyn Store> {
    open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap()
}

fn edit(store: &dyn Store, application: &str, name: &str, turn: i32) -> Result<bool> {
    let priority = turn % 10;
    store.ensure(&Definition { priority, ..definition(application, name) }).map(|_| true)
}

#[test]
fn a_process_that_writes_in_a_loop_starves_no_other() {
    let (database, application) = (Database::sqlite(), application());
    let (ours, looping) = (store(&database), store(&database));
    let node = new_node(NodeId::fresh(), &application, Vec::new(), AT);
    ours.register(&node).unwrap();
    let beats = || ours.beat(&node.beat(AT)).map(|reply| matches!(reply, HeartbeatReply::Alive { .. }));
    let (is_over, mut late) = (AtomicBool::new(false), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                edit(&*looping, &application, "theirs", turn).unwrap();
            }
        });
        let until = Instant::now() + LOOP;
        for turn in (0..).take_while(|_| Instant::now() < until) {
            let calls: [(&str, &dyn Fn() -> Result<bool>); 3] = [
                ("heartbeat", &beats),
                ("election", &|| ours.elect(&application, AT + i64::from(turn), 0).map(|_| true)),
                ("edit", &|| edit(&*ours, &application, "ours", turn)),
            ];
            for (name, call) in calls {
                let (asked, answer) = (Instant::now(), call());
                let took = asked.elapsed();
                if !matches!(answer, Ok(true)) || took > LONGEST {
                    late.push(format!("{name}: {answer:?} after {took:?}"));
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(late.is_empty(), "{late:#?}");
}

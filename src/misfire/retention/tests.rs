//! What a pass removes from the ledger, and when.

use std::time::Duration;

use super::*;
use crate::domain::ExecutionState;
use crate::fixtures::Changes;
use crate::fixtures::{claim, definition};
use crate::machine::{Operation, Step, Stepped};
use crate::misfire::calls::{Answer, Op};
use crate::misfire::tests::{TODAY, keeping, nothing_found, pass, polled};
use crate::misfire::{MisfireMachine, MisfireOutput};
use crate::store::memory::MemoryStore;
use crate::store::{ExecutionQuery, Verbs};
use crate::time::Window;
use crate::trigger::Trigger;

const HOUR: Millis = 3_600_000;

/// A database whose only execution ended three hours ago.
fn with_an_old_execution() -> MemoryStore {
    let now = TODAY - 3 * HOUR;
    let store = MemoryStore::new(now);
    store.ensure(&definition("s", Trigger::every(Duration::from_secs(1)).unwrap())).unwrap();
    let claimed = claim(&store, "s", true, now);
    store.settle(&[claimed.finish(crate::domain::Answer::Done, None, now)]).unwrap();
    store.set_time(TODAY);
    store
}

fn is_left(store: &MemoryStore) -> bool {
    let query = ExecutionQuery { states: vec![ExecutionState::Succeeded], limit: 9, ..Default::default() };
    !store.executions(&query).unwrap().is_empty()
}

#[test]
fn a_purge_goes_by_the_databases_clock() {
    let (store, mut machine) = (with_an_old_execution(), keeping(Some(4 * HOUR)));
    let a_year_ahead = Now { db: TODAY + 365 * 24 * HOUR, boot: Boot::at(0), apart: 0 };
    assert!(pass(&mut machine, a_year_ahead, &store).contains(&"purging the ledger"));
    assert!(is_left(&store));

    let mut machine = keeping(Some(4 * HOUR));
    store.set_time(TODAY + 2 * HOUR);
    let a_year_behind = Now { db: TODAY - 365 * 24 * HOUR, boot: Boot::at(0), apart: 0 };
    pass(&mut machine, a_year_behind, &store);
    assert!(!is_left(&store));
}

#[test]
fn a_pass_purges_after_its_repairs_and_walks_again_in_time() {
    let (store, mut machine) = (with_an_old_execution(), keeping(Some(2 * HOUR)));
    let now = Now { db: TODAY, boot: Boot::at(0), apart: 0 };
    let first = pass(&mut machine, now, &store);
    let steps =
        ["purging the ledger", "purging enqueued executions", "purging executions without a schedule"];
    assert!(first.ends_with(&steps), "{first:?}");
    assert_eq!(first.iter().filter(|name| **name == "purging the ledger").count(), 1);
    assert!(!is_left(&store));
    // A hundredth of two hours is 72 s.
    for (after, walks) in [(20_000, false), (71_000, false), (87_000, true)] {
        let later = pass(&mut machine, Now { db: TODAY + after, boot: Boot::at(after), apart: 0 }, &store);
        assert_eq!(later.contains(&"purging the ledger"), walks, "after {after} ms: {later:?}");
    }
}

#[test]
fn without_a_retention_nothing_is_purged() {
    let (store, mut machine) = (with_an_old_execution(), keeping(None));
    store.set_time(TODAY + 100 * 365 * 24 * HOUR);
    for boot in [0, 20_000] {
        let done = pass(&mut machine, Now { db: TODAY + boot, boot: Boot::at(boot), apart: 0 }, &store);
        assert!(!done.iter().any(|name| name.starts_with("purging")), "{done:?}");
    }
    assert!(is_left(&store));
}

/// A walk takes as long as it takes; meanwhile a pass begins with every interval.
#[test]
fn a_walk_that_is_interrupted_goes_on_where_it_stopped() {
    let interval = Window::default().election;
    let mut machine = keeping(Some(HOUR));
    let purged_after = |machine: &mut Stepped<MisfireMachine>, boot, next: Option<&str>| {
        let now = Now { db: TODAY + boot, boot: Boot::at(boot), apart: 0 };
        let mut names = Vec::new();
        loop {
            match machine.next(now) {
                Step::Do(Op::Purge(purge)) => {
                    let step = Purged { next: next.map(str::to_owned), ..Purged::default() };
                    machine.done(now, Ok(Answer::Purge(step)));
                    return (names, Some(purge.after));
                }
                Step::Do(op) => {
                    names.push(op.name());
                    machine.done(now, Ok(nothing_found(&op)));
                }
                Step::Tell(_) => {}
                Step::Wait(_) | Step::Stop => return (names, None),
            }
        }
    };
    machine.receive(Now { db: TODAY, boot: Boot::at(0), apart: 0 }, polled());
    machine.election.alone_at = Some(Boot::MAX);
    let (first, began_after) = purged_after(&mut machine, 0, Some("m"));
    assert_eq!((first.len(), began_after.as_deref()), (6, Some("")));
    assert_eq!(purged_after(&mut machine, interval - 1, Some("n")), (vec![], Some("m".to_owned())));
    let (again, went_on_after) = purged_after(&mut machine, interval, None);
    // The first pass alone looks for jobs that nobody can run.
    assert_eq!((&again[..], went_on_after.as_deref()), (&first[..5], Some("n")));
    let rest = vec!["purging enqueued executions", "purging executions without a schedule"];
    assert_eq!(purged_after(&mut machine, interval, None), (rest, None), "the end of the walk");
    assert_eq!(purged_after(&mut machine, 2 * interval, None), (vec![], None));
}

#[test]
fn only_a_purge_that_removed_something_is_told() {
    for (occurrences, schedules, nodes) in [(0, 0, 0), (3, 0, 0), (0, 2, 0), (0, 0, 1)] {
        let mut machine = keeping(Some(HOUR));
        let now = Now { db: TODAY, boot: Boot::at(0), apart: 0 };
        let purged = Purged { occurrences, schedules, nodes, next: None };
        machine.asked = Some(Asked::Purge(()));
        machine.done(now, Ok(Answer::Purge(purged)));
        let mut told = 0;
        while let Step::Tell(output) = machine.next(now) {
            let MisfireOutput::Event(Event::Purged { occurrences, schedules, nodes }) = output else {
                panic!("no purge")
            };
            told += occurrences + schedules + nodes;
        }
        assert_eq!(told, occurrences + schedules + nodes);
    }
    for executions in [0, 5] {
        let queues = Answer::PurgeQueues(PurgedQueues { executions, next: None });
        let orphans = Answer::PurgeOrphans(PurgedOrphans { executions, next: None });
        for (asked, purged) in [(Asked::PurgeQueues(()), queues), (Asked::PurgeOrphans(()), orphans)] {
            let (mut machine, now) = (keeping(Some(HOUR)), Now { db: TODAY, boot: Boot::at(0), apart: 0 });
            machine.asked = Some(asked);
            machine.done(now, Ok(purged));
            let told = machine.next(now);
            let is_event =
                matches!(told, Step::Tell(MisfireOutput::Event(Event::Purged { occurrences: 5, .. })));
            assert_eq!(is_event, executions == 5);
        }
    }
}

//! Retention: what a pass removes from the ledger, and when.

use super::passes::{keeping, pass};
use super::*;
use crate::model::Outcome;
use crate::pipeline::fixtures::{claim, definition};
use crate::schedule::Trigger;
use crate::store::ExecutionQuery;
use crate::store::memory::MemoryStore;

const HOUR: Millis = 3_600_000;

/// A database whose only execution ended three hours ago.
fn with_an_old_execution() -> MemoryStore {
    let now = TODAY - 3 * HOUR;
    let store = MemoryStore::new(now);
    store.ensure(&definition("s", Trigger::every(Duration::from_secs(1)).unwrap())).unwrap();
    let claimed = claim(&store, "s", true, now);
    store.settle(&[claimed.finish(Outcome::Succeeded, None, now)]).unwrap();
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
    let a_year_ahead = Now { db: TODAY + 365 * 24 * HOUR, boot: 0 };
    assert!(pass(&mut machine, a_year_ahead, &store).contains(&"purging the ledger"));
    assert!(is_left(&store));

    let mut machine = keeping(Some(4 * HOUR));
    store.set_time(TODAY + 2 * HOUR);
    let a_year_behind = Now { db: TODAY - 365 * 24 * HOUR, boot: 0 };
    pass(&mut machine, a_year_behind, &store);
    assert!(!is_left(&store));
}

#[test]
fn a_pass_purges_after_its_repairs_and_walks_again_in_time() {
    let (store, mut machine) = (with_an_old_execution(), keeping(Some(2 * HOUR)));
    let now = Now { db: TODAY, boot: 0 };
    let first = pass(&mut machine, now, &store);
    assert_eq!(first.last(), Some(&"purging the ledger"), "{first:?}");
    assert_eq!(first.iter().filter(|name| **name == "purging the ledger").count(), 1);
    assert!(!is_left(&store));
    // A hundredth of two hours is 72 s.
    for (after, walks) in [(20_000, false), (71_000, false), (87_000, true)] {
        let later = pass(&mut machine, Now { db: TODAY + after, boot: after }, &store);
        assert_eq!(later.contains(&"purging the ledger"), walks, "after {after} ms: {later:?}");
    }
}

#[test]
fn without_a_retention_nothing_is_purged() {
    let (store, mut machine) = (with_an_old_execution(), keeping(None));
    store.set_time(TODAY + 100 * 365 * 24 * HOUR);
    for boot in [0, 20_000] {
        let done = pass(&mut machine, Now { db: TODAY + boot, boot }, &store);
        assert_eq!(done.last(), Some(&"looking for broken rows"), "{done:?}");
    }
    assert!(is_left(&store));
}

#[test]
fn a_walk_that_is_cut_off_goes_on_where_it_stopped() {
    let mut machine = keeping(Some(HOUR));
    let begin = |machine: &mut MisfireMachine, boot| {
        machine.done(Now { db: TODAY, boot }, Ok(MisfireAnswer::Elected(true)));
        machine.todo.clear();
        match machine.next(Now { db: TODAY, boot }) {
            Step::Do(MisfireOp::Purge(purge)) => Some(purge.after),
            _ => None,
        }
    };
    assert_eq!(begin(&mut machine, 0), Some(String::new()));
    let step = Purged { occurrences: 0, next: Some("m".to_owned()) };
    machine.done(Now { db: TODAY, boot: BUDGET + 1 }, Ok(MisfireAnswer::Purged(step)));
    assert!(
        matches!(machine.next(Now { db: TODAY, boot: BUDGET + 1 }), Step::Wait(_)),
        "its time is used up"
    );
    assert_eq!(begin(&mut machine, 15_000), Some("m".to_owned()));
    let end = Purged { occurrences: 0, next: None };
    machine.done(Now { db: TODAY, boot: 15_001 }, Ok(MisfireAnswer::Purged(end)));
    assert_eq!(begin(&mut machine, 16_000), None);
}

#[test]
fn only_a_purge_that_removed_something_is_told() {
    for (occurrences, events) in [(0, 0), (3, 1)] {
        let mut machine = keeping(Some(HOUR));
        let now = Now { db: TODAY, boot: 0 };
        machine.done(now, Ok(MisfireAnswer::Purged(Purged { occurrences, next: None })));
        let mut told = 0;
        while let Step::Tell(output) = machine.next(now) {
            let MisfireOutput::Event(Event::Purged { occurrences }) = output else { panic!("no purge") };
            assert_eq!(occurrences, 3);
            told += 1;
        }
        assert_eq!(told, events);
    }
}

//! A claim looks at its schedule's slot without waiting for whoever writes the ledger.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fixture::{Database, application, definition, request};
use crate::domain::{Entry, NodeId, Overlap};
use crate::store::sql::session::statement::sql;
use crate::store::{Claim, Definition};

/// The holder's outcome is written and not committed: until it is, the slot is taken.
fn a_claim_does_not_wait_for_an_outcome_under_way(database: &Database) {
    let (store, application) = (database.store(), application());
    let exclusive = |name: &str| {
        let definition = definition(&application, name);
        store.ensure(&Definition { overlap: Some(Overlap::Skip), ..definition }).unwrap();
        Arc::new(store.find(&application, name).unwrap().unwrap())
    };
    let again = |name: &str| Arc::new(store.find(&application, name).unwrap().unwrap());
    let claim = |entry: &Arc<Entry>| store.claim(&[request(entry, NodeId::fresh())]).unwrap().remove(0);
    let Claim::Won(first) = claim(&exclusive("s")) else { panic!("the slot is free") };
    let mut other = database.session();
    other.batch("BEGIN").unwrap();
    let ended = "UPDATE QRTZ_RUN SET state = 'SUCCEEDED' WHERE id = ? AND state IN ('CLAIMED', 'RUNNING')";
    assert_eq!(other.execute(&sql(ended).bind(first.execution().0)).unwrap(), 1);
    for _ in 0..3 {
        let begun = Instant::now();
        let claim = claim(&again("s"));
        assert!(matches!(claim, Claim::Blocked(ref by) if by.holder == first.execution()), "{claim:?}");
        assert!(begun.elapsed() < Duration::from_millis(500), "it waited for {:?}", begun.elapsed());
    }
    other.batch("COMMIT").unwrap();
    assert!(matches!(claim(&again("s")), Claim::Won(_)));
}

/// What this connection inserted before is not taken for what the claim made.
fn a_blocked_claim_finds_nothing_that_was_inserted_before(database: &Database) {
    let (store, application) = (database.store(), application());
    let node = NodeId::fresh();
    let rules = [("a", Overlap::Allow), ("b", Overlap::Skip), ("c", Overlap::Skip)];
    for (name, rule) in rules {
        let definition = definition(&application, name);
        store.ensure(&Definition { overlap: Some(rule), ..definition }).unwrap();
    }
    let entry = |name: &str| Arc::new(store.find(&application, name).unwrap().unwrap());
    let claim = |names: &[&str]| {
        let requests: Vec<_> = names.iter().map(|name| request(&entry(name), node)).collect();
        store.claim(&requests).unwrap()
    };
    assert!(matches!(claim(&["a", "b"])[..], [Claim::Won(_), Claim::Won(_)]));
    assert!(matches!(claim(&["b"])[..], [Claim::Blocked(_)]));
    assert!(matches!(claim(&["a", "b", "c"])[..], [Claim::Won(_), Claim::Blocked(_), Claim::Won(_)]));
    assert!(matches!(claim(&["b", "c"])[..], [Claim::Blocked(_), Claim::Blocked(_)]));
    assert!(matches!(claim(&["a"])[..], [Claim::Won(_)]));
}

macro_rules! slots {
    ($database:ident, $feature:literal, $make:expr) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn a_claim_does_not_wait_for_an_outcome_under_way() {
                super::a_claim_does_not_wait_for_an_outcome_under_way(&$make);
            }

            #[test]
            fn a_blocked_claim_finds_nothing_that_was_inserted_before() {
                super::a_blocked_claim_finds_nothing_that_was_inserted_before(&$make);
            }
        }
    };
}

slots!(postgres, "postgres", Database::postgres());
slots!(mariadb, "mysql", Database::mariadb());

//! Prepared statements are found again: diesel keeps them by text, and batches are padded so that it repeats.

use std::sync::Arc;

use super::fixture::{AT, Database, LIMITS, definition, request, schedules};
use crate::domain::{Answer, Entry, NodeId};
use crate::fixtures::Changes;
use crate::store::sql::SqlStore;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::statement::sql;
use crate::store::{Claim, ClaimRequest, Store, StoreLimits, Verbs};
use crate::time::Clock;

/// Claims all, starts all, gives all back.
fn round(store: &SqlStore, entries: &[Arc<Entry>]) {
    let node = NodeId::fresh();
    let claimed = |entry| ClaimRequest { at_once: false, ..request(entry, node) };
    let claims = store.claim(&entries.iter().map(claimed).collect::<Vec<_>>()).unwrap();
    let won = claims.into_iter().map(|claim| match claim {
        Claim::Won(claimed) => claimed,
        other => panic!("{other:?}"),
    });
    let won: Vec<_> = won.collect();
    store.settle(&won.iter().map(|claimed| claimed.start(AT)).collect::<Vec<_>>()).unwrap();
    store.settle(&won.into_iter().map(|claimed| claimed.give_back(AT)).collect::<Vec<_>>()).unwrap();
}

/// How many statements the store's only connection has prepared.
fn prepared(store: &SqlStore) -> String {
    let question = match store.connections.target.dialect {
        Dialect::Postgres => "SELECT CAST(COUNT(*) AS TEXT) FROM pg_prepared_statements",
        _ => {
            "SELECT CAST(VARIABLE_VALUE AS CHAR) FROM information_schema.SESSION_STATUS \
             WHERE VARIABLE_NAME = 'COM_STMT_PREPARE'"
        }
    };
    store.read("count", |session| session.rows(&sql(question))?.remove(0).text()).unwrap()
}

fn batches_of_like_size_share_their_statements(database: &Database) {
    rounds_share_their_statements(database, |store| schedules(store, &super::application(), 5 + 9 + 16 + 5));
}

/// The notes about the claims of a job with bounds are a batch, too.
fn batches_of_a_bounded_job_share_their_statements(database: &Database) {
    rounds_share_their_statements(database, |store| {
        let application = super::application();
        let define = |number| {
            let mut definition = definition(&application, &format!("schedule-{number}"));
            definition.job.settings.policy.bounds.job.concurrency = Some(100);
            store.ensure(&definition).unwrap();
            Arc::new(store.find(&application, &definition.name).unwrap().unwrap())
        };
        (0..5 + 9 + 16 + 5).map(define).collect()
    });
}

fn rounds_share_their_statements(database: &Database, make: impl Fn(&SqlStore) -> Vec<Arc<Entry>>) {
    let limits = StoreLimits { connections: 1, ..LIMITS };
    let store = SqlStore::open(&database.url, limits, Arc::new(Clock::default())).unwrap();
    let entries = make(&store);
    let (first, rest) = entries.split_at(5);
    prepared(&store);
    round(&store, first);
    let (second, rest) = rest.split_at(9);
    // The first that finds executions of an earlier one to forget.
    round(&store, second);
    let before = prepared(&store);
    let (third, fourth) = rest.split_at(16);
    round(&store, third);
    round(&store, fourth);
    assert_eq!(prepared(&store), before);
}

/// What is the same for a whole batch is bound by itself: its length may change from one execution to the
/// next.
fn a_kept_statement_takes_a_longer_text(database: &Database) {
    let limits = StoreLimits { connections: 1, ..LIMITS };
    let store = SqlStore::open(&database.url, limits, Arc::new(Clock::default())).unwrap();
    let entries = schedules(&store, &super::application(), 2);
    let errors = [String::new(), "x".repeat(4_000)];
    for (entry, error) in entries.iter().zip(&errors) {
        let Ok([Claim::Won(claimed)]) =
            store.claim(&[request(entry, NodeId::fresh())]).map(<[Claim; 1]>::try_from).map(Result::unwrap)
        else {
            panic!("not won")
        };
        let execution = claimed.execution().0;
        store.settle(&[claimed.finish(Answer::Failed(error.clone()), None, AT)]).unwrap();
        let question = sql("SELECT error FROM QRTZ_RUN WHERE id = ?").bind(execution);
        let stored = store.read("look", |session| session.rows(&question)?.remove(0).text()).unwrap();
        assert_eq!(stored, *error);
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    #[test]
    fn a_kept_statement_takes_a_longer_text() {
        super::a_kept_statement_takes_a_longer_text(&super::Database::sqlite());
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    #[test]
    fn a_kept_statement_takes_a_longer_text() {
        super::a_kept_statement_takes_a_longer_text(&super::Database::postgres());
    }

    #[test]
    fn batches_of_like_size_share_their_statements() {
        super::batches_of_like_size_share_their_statements(&super::Database::postgres());
    }

    #[test]
    fn batches_of_a_bounded_job_share_their_statements() {
        super::batches_of_a_bounded_job_share_their_statements(&super::Database::postgres());
    }
}

#[cfg(feature = "mysql")]
mod mariadb {
    #[test]
    fn a_kept_statement_takes_a_longer_text() {
        super::a_kept_statement_takes_a_longer_text(&super::Database::mariadb());
    }

    #[test]
    fn batches_of_like_size_share_their_statements() {
        super::batches_of_like_size_share_their_statements(&super::Database::mariadb());
    }

    #[test]
    fn batches_of_a_bounded_job_share_their_statements() {
        super::batches_of_a_bounded_job_share_their_statements(&super::Database::mariadb());
    }
}

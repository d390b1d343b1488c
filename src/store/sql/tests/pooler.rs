//! Behind PgBouncer.

use std::sync::Arc;

use diesel::dsl::sql;
use diesel::sql_types::Text;
use diesel::{Connection, PgConnection, RunQueryDsl};

use super::fixture::{LIMITS, application, definition, request, server};
use crate::domain::{ErrorKind, NodeId};
use crate::store::sql::{check_schema, migrate, open};
use crate::store::{Claim, Store};
use crate::time::Clock;

fn pooled(mode: &str) -> String {
    format!("{}/{mode}", server("FIRETIME_TEST_PGBOUNCER_URL"))
}

#[test]
fn a_pooler_that_shares_sessions_is_refused_and_its_other_sessions_stay_as_they_were() {
    let url = pooled("transaction");
    let mut other = PgConnection::establish(&url).unwrap();
    for error in [migrate(&url).unwrap_err(), check_schema(&url).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("session mode"), "{error}");
    }
    let left = "current_setting('enable_seqscan') || ' ' || current_setting('statement_timeout') || ' ' \
                || (SELECT COUNT(*) FROM pg_prepared_statements WHERE name <> '')";
    let seen = other.transaction(|other| diesel::select(sql::<Text>(left)).get_result::<String>(other));
    assert_eq!(seen.unwrap(), "on 0 0");
}

#[test]
fn a_pooler_in_session_mode_is_not_noticed() {
    let url = pooled("session");
    migrate(&url).unwrap();
    check_schema(&url).unwrap();
    let store: Arc<dyn Store> = open(&url, LIMITS, Arc::new(Clock::default())).unwrap();
    let app = application();
    store.ensure(&definition(&app, "report")).unwrap();
    let entry = Arc::new(store.find(&app, "report").unwrap().unwrap());
    let claims = store.claim(&[request(&entry, NodeId::fresh())]).unwrap();
    assert!(matches!(claims[..], [Claim::Won(_)]), "{claims:?}");
}

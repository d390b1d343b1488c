//! Sequences that lag behind their tables, as after a failover of logical replication, which copies none.

use super::fixture::{Database, application, request, schedules};
use crate::domain::{ErrorKind, NodeId};
use crate::store::{Claim, ClaimRequest};

#[test]
fn a_taken_id_is_told_once_and_no_rows_fault() {
    let (server, name) = (Database::postgres(), format!("ft_sequences_{}", std::process::id()));
    let (database, node) = (server.beside(&name), NodeId::fresh());
    let claim = |application: &str, count| {
        let entries = schedules(database.store().as_ref(), application, count);
        let requests: Vec<ClaimRequest> = entries.iter().map(|entry| request(entry, node)).collect();
        database.store().claim(&requests)
    };
    for table in ["qrtz_claim", "qrtz_run"] {
        for _ in 0..3 {
            assert_eq!(claim(&application(), 10).unwrap().len(), 10);
        }
        let back = format!("SELECT setval(pg_get_serial_sequence('{table}', 'id'), 1, false)");
        database.session().batch(&back).unwrap();

        let application = application();
        let error = claim(&application, 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("have been moved on"), "{error}");
        let claims = claim(&application, 10).unwrap();
        assert!(claims.iter().all(|claim| matches!(claim, Claim::Won(_))), "{table}: {claims:?}");
    }
    drop(database);
    server.session().batch(&format!("DROP DATABASE {name} WITH (FORCE)")).unwrap();
}

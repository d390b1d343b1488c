//! Migrations on databases of their own: each test makes one and drops it.
#![allow(clippy::disallowed_methods, reason = "several nodes boot at once")]

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::store::sql::under_way::{Whose, under_way};

/// A database nobody else uses.
struct Own {
    url: String,
    admin: Option<(String, String)>,
    _dir: Option<tempfile::TempDir>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Own {
    fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("own.db").display());
        Self { url, admin: None, _dir: Some(dir) }
    }

    fn server(admin: String) -> Self {
        let name = format!("ft_migrate_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        run(&admin, &format!("CREATE DATABASE {name}"));
        let (rest, _) = admin.rsplit_once('/').unwrap();
        Self { url: format!("{rest}/{name}"), admin: Some((admin.clone(), name)), _dir: None }
    }

    fn session(&self) -> Box<dyn Session + Send> {
        Target::parse(&self.url).unwrap().connect(LIMITS).unwrap()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some((admin, name)) = &self.admin {
            run(admin, &format!("DROP DATABASE {name}"));
        }
    }
}

fn run(url: &str, text: &str) {
    Target::parse(url).unwrap().connect(LIMITS).unwrap().batch(text).unwrap();
}

fn several_boot_at_once(own: &Own) {
    let applied: Vec<usize> = std::thread::scope(|scope| {
        let boots: Vec<_> =
            (0..6).map(|_| scope.spawn(|| migrate(&own.url).unwrap().applied.len())).collect();
        boots.into_iter().map(|boot| boot.join().unwrap()).collect()
    });
    assert_eq!(applied.iter().sum::<usize>(), MIGRATIONS.len(), "{applied:?}");
    check_schema(&own.url).unwrap();
}

fn a_missing_schema_is_reported_and_left_missing(own: &Own) {
    for _ in 0..2 {
        let error = check_schema(&own.url).unwrap_err();
        assert_eq!(error.kind(), Kind::Schema);
        assert!(error.to_string().contains("firetime migrate"), "{error}");
    }
}

fn a_newer_schema_is_refused_and_left_alone(own: &Own) {
    migrate(&own.url).unwrap();
    run(&own.url, "INSERT INTO QRTZ_SCHEMA (version, name, applied_time) VALUES (999, 'later', 1)");
    for error in [migrate(&own.url).unwrap_err(), check_schema(&own.url).unwrap_err()] {
        assert_eq!(error.kind(), Kind::Schema);
        assert!(error.to_string().contains("999"), "{error}");
    }
    assert_eq!(installed(own.session().as_mut()).unwrap(), Some(999));
}

fn diesels_own_migrations_are_left_alone(own: &Own) {
    run(&own.url, "CREATE TABLE __diesel_schema_migrations (version VARCHAR(50) PRIMARY KEY, run_on BIGINT)");
    run(&own.url, "INSERT INTO __diesel_schema_migrations VALUES ('00000000000001', 7)");
    migrate(&own.url).unwrap();
    let rows = own.session().rows(&sql("SELECT run_on FROM __diesel_schema_migrations")).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(single(rows).unwrap(), 7);
}

/// Stops after each statement in turn; the next run mends it.
fn a_crash_between_two_statements_is_mended(make: impl Fn() -> Own) {
    let dialect = make().session().dialect();
    let statements = MIGRATIONS.iter().map(|migration| migration.statements(dialect).count()).sum::<usize>();
    assert!(statements >= 9, "{statements}");
    for stop in 0..statements {
        let own = make();
        let stopped = bring_up(own.session().as_mut(), &Hook { stop_after: Some(stop), ..Hook::default() });
        assert_eq!(stopped.unwrap_err().message, "stopped");
        let kept = kept(dialect, stop);
        assert_eq!(installed(own.session().as_mut()).unwrap(), kept.last().copied(), "after {stop}");
        assert_eq!(migrate(&own.url).unwrap().applied.len(), MIGRATIONS.len() - kept.len());
        assert_eq!(migrate(&own.url).unwrap().applied, []);
        for table in
            ["QRTZ_APP", "QRTZ_NODE", "QRTZ_JOB", "QRTZ_EXECUTE", "QRTZ_RUN", "qrtz_claimed", "qrtz_ledger"]
        {
            own.session().rows(&sql(format!("SELECT COUNT(*) FROM {table}"))).unwrap();
        }
    }
}

/// The versions that a run stopped after so many statements leaves behind: on MariaDB those it had ended.
fn kept(dialect: Dialect, stop: usize) -> Vec<i64> {
    let mut statements = 0;
    let ended = |migration: &&Migration| {
        statements += migration.statements(dialect).count();
        dialect == Dialect::Mysql && statements <= stop
    };
    MIGRATIONS.iter().take_while(ended).map(|migration| migration.version).collect()
}

/// A node that died before its database was brought up to date has left something behind.
fn what_was_under_way_in_version_1_is_found(own: &Own) {
    let mut session = own.session();
    let dialect = session.dialect();
    let [first, later @ ..] = MIGRATIONS else { panic!("no migrations") };
    first.statements(dialect).for_each(|statement| session.batch(statement).unwrap());
    // Version 1 had the view, too: over the whole ledger.
    for view in
        later.iter().flat_map(|it| it.statements(dialect)).filter(|it| it.contains("VIEW qrtz_claimed"))
    {
        session.batch(view.split(" AND r.id = ANY").next().unwrap()).unwrap();
    }
    session.batch(VERSIONS).unwrap();
    session.batch("INSERT INTO QRTZ_SCHEMA (version, name, applied_time) VALUES (1, 'tables', 1)").unwrap();
    session
        .batch(
            "INSERT INTO QRTZ_RUN (execute_id, generation, scheduled_time, attempt, due_time, state, application, \
             claim_token, node) VALUES (1, 0, 1, 1, 1, 'RUNNING', 'shop', 'token', 'died')",
        )
        .unwrap();
    assert_eq!(migrate(&own.url).unwrap().applied.len(), later.len());
    let shown = session.rows(&sql("SELECT COUNT(*) FROM qrtz_claimed")).unwrap();
    assert_eq!(single(shown).unwrap(), 1);
    assert_eq!(session.rows(&under_way(dialect, "shop", Whose::Nobody)).unwrap().len(), 1);
}

/// A change of a whole ledger takes longer than any other statement may.
fn a_migration_that_takes_longer_than_a_statement_may_is_finished(own: &Own, slow: &'static str) {
    let limits = Limits { call: 500, ..LIMITS };
    let mut session = Target::parse(&own.url).unwrap().connect(limits).unwrap();
    assert!(session.batch(slow).is_err(), "the session has a limit");
    let mut session = Target::parse(&own.url).unwrap().connect(limits).unwrap();
    let report = bring_up(session.as_mut(), &Hook { slow: Some(slow), ..Hook::default() }).unwrap();
    assert_eq!(report.applied.len(), MIGRATIONS.len());
}

macro_rules! migrations {
    ($database:ident, $feature:literal, $make:expr) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn several_boot_at_once() {
                super::several_boot_at_once(&$make);
            }

            #[test]
            fn a_missing_schema_is_reported_and_left_missing() {
                super::a_missing_schema_is_reported_and_left_missing(&$make);
            }

            #[test]
            fn a_newer_schema_is_refused_and_left_alone() {
                super::a_newer_schema_is_refused_and_left_alone(&$make);
            }

            #[test]
            fn diesels_own_migrations_are_left_alone() {
                super::diesels_own_migrations_are_left_alone(&$make);
            }

            #[test]
            fn what_was_under_way_in_version_1_is_found() {
                super::what_was_under_way_in_version_1_is_found(&$make);
            }

            #[test]
            fn a_crash_between_two_statements_is_mended() {
                super::a_crash_between_two_statements_is_mended(|| $make);
            }
        }
    };
}

migrations!(sqlite, "sqlite", Own::sqlite());
migrations!(
    postgres,
    "postgres",
    Own::server(crate::store::sql::tests::server("FIRETIME_TEST_POSTGRES_URL"))
);
migrations!(mariadb, "mysql", Own::server(crate::store::sql::tests::server("FIRETIME_TEST_MARIADB_URL")));

#[cfg(feature = "postgres")]
#[test]
fn a_migration_that_takes_longer_than_a_statement_may_is_finished_on_postgres() {
    let own = Own::server(crate::store::sql::tests::server("FIRETIME_TEST_POSTGRES_URL"));
    a_migration_that_takes_longer_than_a_statement_may_is_finished(&own, "SELECT pg_sleep(0.7)");
}

/// MariaDB counts a statement's limit in seconds.
#[cfg(feature = "mysql")]
#[test]
fn a_migration_that_takes_longer_than_a_statement_may_is_finished_on_mariadb() {
    let own = Own::server(crate::store::sql::tests::server("FIRETIME_TEST_MARIADB_URL"));
    let slow = "SELECT COUNT(*) FROM (SELECT 1 UNION SELECT 2 UNION SELECT 3) AS t WHERE SLEEP(0.7) = 0";
    a_migration_that_takes_longer_than_a_statement_may_is_finished(&own, slow);
}

/// One that runs reads a schedule and then changes it, in one transaction, while another brings the schema
/// up.
#[cfg(feature = "postgres")]
#[test]
fn version_3_and_a_transaction_of_a_running_node_wait_for_each_other_in_turn() {
    let own = Own::server(crate::store::sql::tests::server("FIRETIME_TEST_POSTGRES_URL"));
    let (mut running, mut observer) = (own.session(), own.session());
    running.batch(VERSIONS).unwrap();
    for before in &MIGRATIONS[..2] {
        before.statements(Dialect::Postgres).for_each(|statement| running.batch(statement).unwrap());
    }
    running.batch("INSERT INTO QRTZ_SCHEMA (version, name, applied_time) VALUES (2, 'claims', 1)").unwrap();
    running.batch("BEGIN; SELECT version FROM QRTZ_EXECUTE").unwrap();
    std::thread::scope(|scope| {
        let migrating = scope.spawn(|| migrate(&own.url));
        let waiting =
            sql("SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'qrtz_execute'::regclass");
        while single(observer.rows(&waiting).unwrap()).unwrap() == 0 {
            assert!(!migrating.is_finished(), "it waits for nothing");
        }
        running.batch("UPDATE QRTZ_EXECUTE SET version = version + 1; COMMIT").unwrap();
        assert_eq!(migrating.join().unwrap().unwrap().applied.len(), 1);
    });
}

#[cfg(feature = "postgres")]
#[test]
fn a_node_that_waits_for_anothers_migration_says_so() {
    let own = Own::server(crate::store::sql::tests::server("FIRETIME_TEST_POSTGRES_URL"));
    let (mut migrating, mut waiting) = (own.session(), own.session());
    exclusively(migrating.as_mut()).unwrap();
    waiting.batch("SET lock_timeout = 1").unwrap();
    let fault = exclusively(waiting.as_mut()).unwrap_err();
    assert_eq!(fault.nature, Nature::Busy);
    assert!(fault.message.contains("another node"), "{}", fault.message);
}

//! What an error means: nothing changed, unknown, or try again.
#![allow(clippy::disallowed_methods, reason = "tests race threads against a deadline")]

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fixture::{AT, Database, LIMITS, definition, request};
use crate::domain::headers::Headers;
use crate::domain::{Answer, Candidate, Entry, Error, ErrorKind, NodeId};
use crate::fixtures::Changes;
use crate::store::conformance::RowKey;
use crate::store::enqueue::{DueAt, EnqueueOrder};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::dialect::database::LOCK_WAIT;
use crate::store::sql::session::statement::{single, sql};
use crate::store::sql::{Session, SqlStore, claim};
use crate::store::{
    Applied, Claim, ClaimRequest, Claimed, Ensured, ExecutionChange, Heartbeat, HeartbeatReply, IfNotMade,
    Store, StoreLimits, Verbs,
};
use crate::time::Clock;

/// A store of its own with a schedule in an application of its own.
struct Case {
    store: SqlStore,
    application: String,
    entry: Arc<Entry>,
}

impl Case {
    fn new(database: &Database) -> Self {
        let limits = StoreLimits { connections: 1, ..LIMITS };
        let store = SqlStore::open(&database.url, limits, Arc::new(Clock::default())).unwrap();
        let application = super::application();
        store.ensure(&definition(&application, "report")).unwrap();
        let entry = Arc::new(store.find(&application, "report").unwrap().unwrap());
        Self { store, application, entry }
    }

    fn request(&self) -> ClaimRequest {
        request(&self.entry, NodeId::fresh())
    }

    /// On MariaDB others' inserts may hold a row's place in an index for a moment.
    fn run(&self) -> Claimed {
        let request = [self.request()];
        let mut claims = (0..100).map(|_| self.store.claim(&request).unwrap());
        won(claims.find(|claims| !matches!(claims[..], [Claim::Skipped])).unwrap())
    }

    /// Resolves without waiting for a lock, until it ends so: others may hold a row for a moment.
    fn resolve_until(&self, requests: &[ClaimRequest], ends: impl Fn(&[Claim]) -> bool) -> Vec<Claim> {
        let limit = Duration::from_millis(u64::try_from(LOCK_WAIT).unwrap());
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let begun = Instant::now();
            let claims = self.store.resolve(requests, IfNotMade::Claim).unwrap();
            assert!(begun.elapsed() < limit, "it waited for {:?}", begun.elapsed());
            if ends(&claims) {
                return claims;
            }
            assert!(Instant::now() < deadline, "{claims:?}");
        }
    }

    /// The number the server knows the store's only connection by.
    fn connection(&self) -> i64 {
        let question = match self.store.connections.target.dialect {
            Dialect::Postgres => "SELECT pg_backend_pid()",
            _ => "SELECT CONNECTION_ID()",
        };
        self.store.read("connection", |session| single(session.rows(&sql(question))?)).unwrap()
    }
}

fn won(mut claims: Vec<Claim>) -> Claimed {
    match claims.pop() {
        Some(Claim::Won(claimed)) if claims.is_empty() => claimed,
        other => panic!("one claim was to be won, not {other:?}"),
    }
}

fn kill(database: &Database, connection: i64) {
    let text = match database.dialect() {
        Dialect::Postgres => format!("SELECT pg_terminate_backend({connection})"),
        _ => format!("KILL {connection}"),
    };
    database.session().batch(&text).unwrap();
}

/// Whether the server sees the connection waiting for a lock.
fn is_waiting(observer: &mut dyn Session, connection: i64) -> bool {
    let question = match observer.dialect() {
        Dialect::Postgres => {
            "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = ? AND wait_event_type = 'Lock'"
        }
        _ => {
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ? \
             AND trx_state = 'LOCK WAIT'"
        }
    };
    if observer.dialect() == Dialect::Mysql {
        // InnoDB renews what this table shows only when nobody has looked for a tenth of a second.
        observer.batch("DO SLEEP(0.15)").unwrap();
    }
    single(observer.rows(&sql(question).bind(connection)).unwrap()).unwrap() == 1
}

/// As after the database's restart: the pool's only connection is dead, and nobody has noticed.
fn a_connection_the_server_closed_is_replaced(database: &Database) {
    let case = Case::new(database);
    kill(database, case.connection());
    assert_eq!(case.store.find(&case.application, "report").unwrap().unwrap(), *case.entry);
    kill(database, case.connection());
    assert_eq!(case.store.ensure(&definition(&case.application, "second")).unwrap(), Ensured::Created);
    kill(database, case.connection());
    let (node, application, lanes) = (NodeId::fresh(), case.application.clone(), Vec::new());
    let heartbeat = Heartbeat {
        node,
        application,
        lanes,
        left_alone: Vec::new(),
        withdraw: false,
        drained: false,
        tells: false,
        blocked: Vec::new(),
        now: AT,
    };
    assert!(
        matches!(case.store.beat(&heartbeat).unwrap(), HeartbeatReply::Ended),
        "an answer: there is no such node"
    );
}

/// A statement that is its own transaction may have been done although its connection died.
fn a_lone_change_on_a_connection_the_server_closed_is_not_repeated(database: &Database) {
    let case = Case::new(database);
    kill(database, case.connection());
    let pause = || case.store.pause(case.entry.id, case.entry.version, "test", "");
    assert_eq!(pause().unwrap_err().kind(), ErrorKind::Unknown);
    assert!(pause().unwrap());
}

fn a_connection_lost_before_the_commit_changed_nothing(database: &Database) {
    let case = Case::new(database);
    let claimed = case.run();
    // With its retry an outcome is a transaction; alone it is one statement, whose fate would be unknown.
    let outcome = claimed.finish(Answer::Failed("no".to_owned()), Some(AT), AT);
    let mut holder = database.session();
    holder.batch(database.dialect().begin()).unwrap();
    let lock =
        sql("SELECT id FROM QRTZ_RUN WHERE application = ? FOR UPDATE").bind(case.application.as_str());
    assert_eq!(holder.rows(&lock).unwrap().len(), 1);
    // The wait lasts a second, and the pool may choose another connection: not every try is caught waiting.
    let error =
        (0..10).find_map(|_| killed_while_waiting(database, &case, &outcome)).expect("never seen waiting");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    holder.batch("ROLLBACK").unwrap();
    assert_eq!(case.store.settle(&[outcome]).unwrap(), [Applied::Done]);
}

/// Ends the connection that waits for the row's lock; `None` if it was not seen waiting.
fn killed_while_waiting(database: &Database, case: &Case, outcome: &ExecutionChange) -> Option<Error> {
    let connection = case.connection();
    let mut observer = database.session();
    std::thread::scope(|scope| {
        let settling = scope.spawn(|| case.store.settle(std::slice::from_ref(outcome)).unwrap_err());
        let mut waiting = false;
        while !waiting && !settling.is_finished() {
            waiting = is_waiting(observer.as_mut(), connection);
        }
        if waiting {
            kill(database, connection);
        }
        let error = settling.join().unwrap();
        waiting.then_some(error)
    })
}

/// Waiting ends by the session's own limits, well before a watchdog would abandon the call.
fn a_lock_held_too_long_ends_the_wait(database: &Database) {
    let case = Case::new(database);
    let held = database.lock(RowKey::Schedule(case.entry.id));
    let begun = Instant::now();
    let paused = case.store.pause(case.entry.id, case.entry.version, "test", "").unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(paused.kind(), ErrorKind::Unavailable, "{paused}");
    assert!(paused.source().is_some_and(|cause| cause.is::<diesel::result::Error>()), "{paused:?}");
    drop(held);
    drop(case.run().give_back(AT));
}

/// MariaDB sends the first row before it waits for the second row's lock: the error comes halfway through the
/// result, and the same prepared statement, executed again, would wait for the rest of it for ever.
fn a_lock_held_too_long_halfway_through_a_result_ends_the_wait(database: &Database) {
    let case = Case::new(database);
    case.store.ensure(&definition(&case.application, "second")).unwrap();
    let second = case.store.find(&case.application, "second").unwrap().unwrap().id;
    let lock = || {
        let text = "SELECT id FROM QRTZ_EXECUTE WHERE id IN (?, ?) ORDER BY id FOR UPDATE";
        let rows = sql(text).bind(case.entry.id.0).bind(second.0);
        case.store.write("lock", |session| session.rows(&rows))
    };
    let held = database.lock(RowKey::Schedule(second));
    for _ in 0..2 {
        let begun = Instant::now();
        assert_eq!(lock().unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }
    drop(held);
    assert_eq!(lock().unwrap().len(), 2);
}

/// The rows of the rest of its batch do not wait for it, nor does the call.
fn a_lock_held_too_long_leaves_its_own_claim_in_doubt(database: &Database) {
    let case = Case::new(database);
    case.store.ensure(&definition(&case.application, "second")).unwrap();
    let second = Arc::new(case.store.find(&case.application, "second").unwrap().unwrap());
    let requests = [case.request(), request(&second, NodeId::fresh())];
    let held = database.lock(RowKey::Schedule(second.id));
    case.resolve_until(&requests, |claims| matches!(claims, [Claim::Won(_), Claim::Skipped]));
    drop(held);
    case.resolve_until(&requests, |claims| matches!(claims, [Claim::Won(_), Claim::Won(_)]));
}

/// The claim is under way: it has made its execution, and nobody sees it before its commit.
fn a_claim_that_has_not_committed_yet_stays_in_doubt(database: &Database, commits: bool) {
    let case = Case::new(database);
    let request = case.request();
    let Candidate::Planned(occurrence) = &request.candidate else { panic!("a planned one was asked for") };
    let mut session = database.session();
    session.batch(database.dialect().begin()).unwrap();
    let made = claim::win_planned(session.as_mut(), &[(&request, occurrence)]).unwrap();
    let requests = [request.clone()];
    let claims = case.store.resolve(&requests, IfNotMade::Claim).unwrap();
    assert!(matches!(claims[..], [Claim::Skipped]), "{claims:?}");
    session.batch(if commits { "COMMIT" } else { "ROLLBACK" }).unwrap();
    let claimed = won(case.resolve_until(&requests, |claims| !matches!(claims, [Claim::Skipped])));
    let is_the_same = made.values().any(|win| win.execution == claimed.execution());
    assert_eq!(is_the_same, commits);
}

/// The server dies between taking the COMMIT and answering it: a trigger does it, at the commit.
fn a_connection_lost_during_the_commit_is_unknown_until_resolved(database: &Database) {
    let case = Case::new(database);
    let mut session = database.session();
    let name = format!("dies_{}", case.application.replace('-', "_"));
    session
        .batch(&format!(
            "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER {name} AFTER INSERT ON QRTZ_RUN DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW WHEN (NEW.application = '{}') EXECUTE FUNCTION {name}()",
            case.application
        ))
        .unwrap();
    let request = case.request();
    let error = case.store.claim(std::slice::from_ref(&request)).unwrap_err();
    session.batch(&format!("DROP TRIGGER {name} ON QRTZ_RUN; DROP FUNCTION {name}()")).unwrap();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(error.to_string().contains("may have been made"), "{error}");
    let claimed = won(case.store.resolve(std::slice::from_ref(&request), IfNotMade::Claim).unwrap());
    let again = won(case.store.resolve(std::slice::from_ref(&request), IfNotMade::Claim).unwrap());
    assert_eq!(claimed.execution(), again.execution());
}

/// A syntax error, a column that must have a value, and a key that is taken.
fn what_the_database_says_is_the_cause_of_the_error(database: &Database) {
    let case = Case::new(database);
    let insert = "INSERT INTO QRTZ_SCHEMA (version, needs, name, applied_time) VALUES";
    for (text, kind) in [
        ("SELECT FROM WHERE".to_owned(), ErrorKind::Refused),
        (format!("{insert} (999, 1, NULL, 1)"), ErrorKind::Data),
        (format!("{insert} (1, 1, 'again', 1)"), ErrorKind::Data),
    ] {
        let wrong = sql(text);
        let error = case.store.alone("try", |session| session.execute(&wrong)).unwrap_err().during("look");
        assert_eq!(error.kind(), kind, "{error:#}");
        let cause = error.source().unwrap();
        assert!(cause.is::<diesel::result::Error>(), "{cause:?}");
        let (said, own) = (format!("{error:#}"), error.to_string());
        let lines: Vec<String> = cause.to_string().lines().map(|line| line.trim().to_owned()).collect();
        assert_eq!(said, format!("{own}: {}", lines.join("; ")));
        assert!(own.starts_with("look: try: ") && own.ends_with("nothing was changed"), "{own}");
    }
}

/// A client that has locked rows, written nothing and then gone silent keeps them no longer than a call may
/// take.
fn a_silent_clients_locks_end(database: &Database) {
    let case = Case::new(database);
    let id = case.entry.id.0;
    let lock = |session: &mut dyn Session| {
        session.batch(database.dialect().begin())?;
        session.rows(&sql("SELECT id FROM QRTZ_EXECUTE WHERE id = ? FOR UPDATE").bind(id))
    };
    let mut silent = database.session();
    database.dialect().database().limit(silent.as_mut(), LIMITS).unwrap();
    lock(silent.as_mut()).unwrap();
    let limit = Duration::from_millis(u64::try_from(LIMITS.call).unwrap());
    let deadline = Instant::now() + limit + Duration::from_secs(10);
    while lock(database.session().as_mut()).is_err() {
        assert!(Instant::now() < deadline, "still locked");
    }
    assert!(silent.batch("COMMIT").is_err(), "and it is told, should it speak again");
}

fn an_unreachable_server_is_told_soon_and_without_the_password(url: &str) {
    let store = SqlStore::open(url, LIMITS, Arc::new(Clock::default())).unwrap();
    let begun = Instant::now();
    let error = store.now().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let said = format!("{error:#}");
    assert!(error.source().is_some() && !said.contains("hunter2"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;

    #[test]
    fn what_the_database_says_is_the_cause_of_the_error() {
        super::what_the_database_says_is_the_cause_of_the_error(&Database::sqlite());
    }

    #[test]
    fn a_writer_that_holds_the_file_makes_others_unavailable_not_losers() {
        let database = Database::sqlite();
        let case = Case::new(&database);
        let mut holder = database.session();
        holder.batch("BEGIN IMMEDIATE").unwrap();
        let error = case.store.claim(&[case.request()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        holder.batch("ROLLBACK").unwrap();
        drop(case.run().give_back(AT));
    }

    /// The COMMIT fails, here by a check that SQLite puts off until then.
    #[test]
    fn a_commit_failure_is_not_swallowed_and_counted_as_won() {
        let database = Database::sqlite();
        let case = Case::new(&database);
        let mut session = database.session();
        session
            .batch(
                "CREATE TABLE parents (id INTEGER PRIMARY KEY); \
                 CREATE TABLE children (id INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED); \
                 CREATE TRIGGER orphans AFTER INSERT ON QRTZ_RUN BEGIN INSERT INTO children VALUES (1); END",
            )
            .unwrap();
        case.store.read("set up", |session| session.batch("PRAGMA foreign_keys = ON")).unwrap();
        let request = case.request();
        let error = case.store.claim(std::slice::from_ref(&request)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        assert_eq!(case.store.find(&case.application, "report").unwrap().unwrap(), *case.entry);

        session.batch("DROP TRIGGER orphans").unwrap();
        let claimed = won(case.store.resolve(std::slice::from_ref(&request), IfNotMade::Claim).unwrap());
        drop(claimed.give_back(AT));
    }

    /// A commit writes to the log first, which is a device that is always full. Only root may make one.
    #[test]
    fn a_commit_that_the_disk_has_no_room_for_is_refused() {
        use diesel::Connection;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db").display().to_string();
        let url = format!("sqlite:{path}");
        crate::store::sql::migrate(&url).unwrap();
        let (log, wanted) = (format!("{path}-wal"), definition("shop", "report"));
        let made = std::process::Command::new("mknod").args([&*log, "c", "1", "7"]).status();
        if !made.is_ok_and(|made| made.success()) {
            return;
        }
        let store = crate::store::sql::open(&url, LIMITS, Arc::new(Clock::default())).unwrap();
        let mut connection = diesel::SqliteConnection::establish(&path).unwrap();
        let definition = wanted.clone();
        let ensure = move |verbs: &dyn crate::store::Verbs| verbs.ensure(&definition);
        let own = crate::store::sql::joined(Arc::clone(&store), &mut connection, ensure);
        for refused in [store.ensure(&wanted).unwrap_err(), own.unwrap_err()] {
            assert_eq!(refused.kind(), ErrorKind::Refused, "{refused:#}");
            assert!(format!("{refused:#}").contains("nothing was changed"), "{refused:#}");
        }
        assert_eq!(store.find("shop", "report").unwrap(), None);
        drop((store, connection));
        std::fs::remove_file(&log).ok();
        let store = SqlStore::open(&url, LIMITS, Arc::new(Clock::default())).unwrap();
        assert_eq!(store.ensure(&wanted).unwrap(), Ensured::Created);
    }

    #[test]
    fn a_database_in_memory_is_ready_and_stays() {
        let store = SqlStore::open("sqlite::memory:", LIMITS, Arc::new(Clock::default())).unwrap();
        let threads: Vec<bool> = std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..4).map(|_| scope.spawn(|| store.nodes(None).is_ok())).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        assert_eq!(threads, [true; 4]);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_unavailable() {
        super::an_unreachable_server_is_told_soon_and_without_the_password("sqlite:/nowhere/at/all.db");
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::domain::Lineage;
    use crate::store::sql::Target;
    use crate::store::sql::claim::planned::{Found, by_first_column};
    use crate::store::sql::dialect::postgres::claims;
    use crate::store::sql::session::fault::FaultKind;
    use crate::time::SKIP_RETRY;

    #[test]
    fn a_silent_clients_locks_end() {
        super::a_silent_clients_locks_end(&Database::postgres());
    }

    #[test]
    fn what_the_database_says_is_the_cause_of_the_error() {
        super::what_the_database_says_is_the_cause_of_the_error(&Database::postgres());
    }

    /// Whatever the language of the server's messages.
    #[test]
    fn what_has_a_code_is_recognised_in_any_language() {
        use FaultKind::{Conflict, Duplicate, Lost, ReadOnly, Refused, Row};
        let database = Database::postgres();
        for (code, kind) in [
            ("40001", Conflict),
            ("23505", Duplicate),
            ("23502", Row),
            ("23503", Row),
            ("23514", Row),
            ("23P01", Row),
            ("25006", ReadOnly),
            ("08006", Lost),
            // Diesel hides these: only the time that a lock was waited for tells of them.
            ("40P01", Refused),
            ("55P03", Refused),
        ] {
            let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'nein' USING ERRCODE = '{code}'; END $$");
            assert_eq!(database.session().batch(&raise).unwrap_err().kind, kind, "{code}");
        }
    }

    /// And the session's other statements wait as long as ever.
    #[test]
    fn a_claim_waits_for_a_held_row_no_longer_than_it_would_leave_it_alone() {
        let database = Database::postgres();
        let case = Case::new(&database);
        let held = database.lock(RowKey::Schedule(case.entry.id));
        let begun = Instant::now();
        let claims = case.store.claim(&[case.request()]).unwrap();
        assert!(matches!(claims[..], [Claim::Skipped]), "{claims:?}");
        let limit = Duration::from_millis(u64::try_from(LOCK_WAIT).unwrap());
        assert!(begun.elapsed() < limit, "it waited for {:?}", begun.elapsed());
        drop(held);
        let claimed = case.run();
        let question = sql("SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'");
        let left = case.store.read("setting", |session| single(session.rows(&question)?)).unwrap();
        assert_eq!(left, LOCK_WAIT);
        drop(claimed.give_back(AT));
    }

    /// A claim that waits for a row until its holder, who changes it, has committed: the executions it won,
    /// with their fences.
    fn waited_for(change: &str) -> Found {
        let database = Database::postgres();
        let (case, mut holder) = (Case::new(&database), database.session());
        let id = case.entry.id.0;
        holder.batch("SET idle_in_transaction_session_timeout = 60000").unwrap();
        holder.batch(&format!("BEGIN; UPDATE QRTZ_EXECUTE SET {change} WHERE id = {id}")).unwrap();
        let mut waiting = claims::claim_waiting(&claim::want_for_test(&[case.request()]), false);
        let patient = waiting.text.replace(&format!("'{SKIP_RETRY}'"), "'60000'");
        assert_ne!(waiting.text, patient);
        waiting.text = patient;
        let mut session = database.session();
        session.batch("SET statement_timeout = 60000").unwrap();
        let backend = single(session.rows(&sql("SELECT pg_backend_pid()::bigint")).unwrap()).unwrap();
        let claim = std::thread::spawn(move || session.rows(&waiting).unwrap());
        let question = sql("SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND pid = ?").bind(backend);
        let deadline = Instant::now() + Duration::from_secs(30);
        while single(holder.rows(&question).unwrap()).unwrap() == 0 {
            assert!(Instant::now() < deadline, "it does not wait");
        }
        holder.batch("COMMIT").unwrap();
        by_first_column(claim.join().unwrap()).unwrap()
    }

    /// As of a session that was opened while the address led to a standby: the server leads elsewhere now.
    #[test]
    fn a_session_that_may_not_write_is_replaced() {
        let case = Case::new(&Database::postgres());
        let read_only = || {
            let set = "SET default_transaction_read_only = on";
            case.store.read("test", |session| session.batch(set)).unwrap();
        };
        read_only();
        let claimed = case.run();
        read_only();
        assert!(case.store.pause(case.entry.id, case.entry.version, "test", "").unwrap());
        read_only();
        let outcome = claimed.finish(Answer::Done, None, AT);
        assert_eq!(case.store.settle(&[outcome]).unwrap(), [Applied::Done]);
    }

    /// As of a node whose heartbeats lead to a promoted standby while its claims still lead to the primary.
    #[test]
    fn a_store_leaves_a_server_when_another_has_seen_it_replaced() {
        let target = Target::parse(&Database::postgres().url).unwrap();
        let open = || SqlStore::on(target.clone(), LIMITS, Arc::new(Clock::default())).unwrap();
        let (work, heart) = (open(), open());
        work.now().unwrap();
        heart.now().unwrap();
        let seen = heart.lineage().unwrap();
        target.follow(Lineage { timeline: seen.timeline + 1, ..seen }).unwrap();
        let error = work.now().unwrap_err();
        assert!(error.to_string().contains("the server was replaced"), "{error}");
    }

    /// As on a timeline that began with a promotion: the row's own fence may be one that was lost.
    #[test]
    fn a_claim_has_no_lower_fence_than_its_session() {
        let case = Case::new(&Database::postgres());
        let own = case.run();
        assert_eq!(own.fence(), 1, "a server that was never promoted counts from 1");
        let finished = own.finish(Answer::Done, None, AT);
        assert_eq!(case.store.settle(&[finished]).unwrap(), [Applied::Done]);
        let later = Case::new(&Database::postgres());
        let set = "SET firetime.fence_from = 1000000000000";
        later.store.read("test", |session| session.batch(set)).unwrap();
        assert_eq!(later.run().fence(), 1_000_000_000_000);
    }

    /// A copied table's sequence is behind its rows: that is no schedule's fault.
    #[test]
    fn an_id_that_is_there_already_fails_no_row() {
        let database = Database::postgres();
        let mut session = database.session();
        session.batch("BEGIN").unwrap();
        let insert = "INSERT INTO QRTZ_RUN (id, application, execute_id, generation, scheduled_time, \
             attempt, state, due_time, claim_token) VALUES (9000000000000000001, 'x', 1, 0, 1, 1, 'PENDING', \
             1, 'x'), (9000000000000000001, 'x', 2, 0, 1, 1, 'PENDING', 1, 'y')";
        let fault = session.batch(insert).unwrap_err();
        session.batch("ROLLBACK").unwrap();
        assert_eq!(fault.kind, FaultKind::TakenId, "{}", fault.message);
    }

    #[test]
    fn a_claim_that_waited_sees_what_the_holder_did() {
        let unmoved = waited_for("fence = fence + 6, payload = '1'");
        assert_eq!(unmoved.values().map(|win| win.fence).collect::<Vec<_>>(), [7]);
        assert!(waited_for("next_fire_time = next_fire_time + 1").is_empty());
        assert!(waited_for("version = version + 1").is_empty());
        assert!(waited_for("state = 'PAUSED'").is_empty());
    }

    #[test]
    fn a_connection_the_server_closed_is_replaced() {
        super::a_connection_the_server_closed_is_replaced(&Database::postgres());
    }

    #[test]
    fn a_lone_change_on_a_connection_the_server_closed_is_not_repeated() {
        super::a_lone_change_on_a_connection_the_server_closed_is_not_repeated(&Database::postgres());
    }

    #[test]
    fn a_connection_lost_before_the_commit_changed_nothing() {
        super::a_connection_lost_before_the_commit_changed_nothing(&Database::postgres());
    }

    #[test]
    fn a_lock_held_too_long_ends_the_wait() {
        super::a_lock_held_too_long_ends_the_wait(&Database::postgres());
    }

    #[test]
    fn a_lock_held_too_long_halfway_through_a_result_ends_the_wait() {
        super::a_lock_held_too_long_halfway_through_a_result_ends_the_wait(&Database::postgres());
    }

    #[test]
    fn a_lock_held_too_long_leaves_its_own_claim_in_doubt() {
        super::a_lock_held_too_long_leaves_its_own_claim_in_doubt(&Database::postgres());
    }

    #[test]
    fn a_claim_that_has_not_committed_yet_stays_in_doubt() {
        for commits in [true, false] {
            super::a_claim_that_has_not_committed_yet_stays_in_doubt(&Database::postgres(), commits);
        }
    }

    #[test]
    fn a_connection_lost_during_the_commit_is_unknown_until_resolved() {
        // Its trigger locks the table, against which other tests hold rows.
        let name = format!("dies_{}", NodeId::fresh().to_string().replace('-', "_"));
        let own = Database::postgres().beside(&name);
        super::a_connection_lost_during_the_commit_is_unknown_until_resolved(&own);
    }

    /// Rows are handed on before the last is there.
    #[test]
    fn a_result_that_breaks_off_is_an_error() {
        let dies = "CASE WHEN n = 3 THEN CAST(pg_terminate_backend(pg_backend_pid()) AS INT) ELSE n END";
        for (breaks, kind) in [("1 / (3 - n)", FaultKind::Refused), (dies, FaultKind::Lost)] {
            let question = sql(format!("SELECT {breaks} FROM generate_series(1, 100000) AS n"));
            let mut seen = 0;
            let outcome = Database::postgres().session().each(&question, &mut |_| {
                seen += 1;
                Ok(())
            });
            assert_eq!(outcome.unwrap_err().kind, kind);
            assert!((2..100_000).contains(&seen), "{seen}");
        }
    }

    #[test]
    fn an_unreachable_server_is_told_soon_and_without_the_password() {
        let url = "postgres://me:hunter2@127.0.0.1:1/nothing";
        super::an_unreachable_server_is_told_soon_and_without_the_password(url);
    }
}

#[cfg(feature = "mysql")]
mod mariadb {
    use super::super::fixture::{application, schedules};
    use super::*;
    use crate::store::sql::dialect::mariadb::claims::just_inserted;
    use crate::store::sql::session::fault::FaultKind;

    /// As a server may set them for all. With safe updates nothing was ever claimed.
    #[test]
    fn a_session_does_not_depend_on_the_servers_settings() {
        let database = Database::mariadb();
        let mut session = database.session();
        let ours = |session: &mut dyn Session| {
            let question = "SELECT CONCAT_WS(' ', @@sql_safe_updates, @@sql_select_limit, @@sql_big_selects, \
                            @@completion_type, @@sql_mode, @@time_zone, @@autocommit, @@tx_isolation)";
            session.rows(&sql(question)).unwrap().pop().unwrap().text().unwrap()
        };
        let before = ours(session.as_mut());
        session
            .batch(
                "SET SESSION sql_safe_updates = 1, sql_select_limit = 1, sql_big_selects = 0, \
                 completion_type = 2, sql_mode = 'ANSI_QUOTES', time_zone = '+05:00', autocommit = 0, \
                 tx_isolation = 'SERIALIZABLE'",
            )
            .unwrap();
        session.dialect().database().limit(session.as_mut(), LIMITS).unwrap();
        assert_eq!(ours(session.as_mut()), before);
    }

    /// InnoDB locks the place behind the last active row for whoever changes the paused ones, at its default
    /// isolation. Every batch with a schedule that was to move there waited, and was rolled back.
    #[test]
    fn a_held_place_in_an_index_holds_up_its_own_schedules_alone() {
        let (database, app) = (Database::mariadb(), application());
        let store = SqlStore::open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
        let entries = schedules(&store, &app, 40);
        let (paused, active) = entries.split_at(5);
        for entry in paused {
            assert!(store.pause(entry.id, entry.version, "", "").unwrap());
        }
        let mut holder = database.session();
        holder.batch("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").unwrap();
        holder.batch("START TRANSACTION").unwrap();
        let change =
            sql("UPDATE QRTZ_EXECUTE SET reason = 'seen' WHERE application = ? AND state = 'PAUSED'");
        assert_eq!(holder.execute(&change.bind(app.as_str())).unwrap(), paused.len());

        let requests: Vec<ClaimRequest> = active.iter().map(|it| request(it, NodeId::fresh())).collect();
        let claims = store.claim(&requests).unwrap();
        let is_won = |claim: &Claim| matches!(claim, Claim::Won(_));
        let won = claims.iter().filter(|claim| is_won(claim)).count();
        assert!((20..active.len()).contains(&won), "{won} of {}", active.len());
        assert!(claims.iter().all(|claim| is_won(claim) || matches!(claim, Claim::Skipped)), "{claims:?}");

        holder.batch("ROLLBACK").unwrap();
        let skipped = requests.iter().zip(&claims).filter(|(_, claim)| !is_won(claim));
        let skipped: Vec<ClaimRequest> = skipped.map(|(request, _)| request.clone()).collect();
        assert!(store.claim(&skipped).unwrap().iter().all(is_won));
    }

    #[test]
    fn a_silent_clients_locks_end() {
        super::a_silent_clients_locks_end(&Database::mariadb());
    }

    #[test]
    fn what_the_database_says_is_the_cause_of_the_error() {
        super::what_the_database_says_is_the_cause_of_the_error(&Database::mariadb());
    }

    /// Whatever the language of the server's messages.
    #[test]
    fn what_has_a_code_is_recognised_in_any_language() {
        use FaultKind::{Deadlock, Duplicate, ReadOnly, Refused, Row};
        let database = Database::mariadb();
        for (number, kind) in [
            (1213, Deadlock),
            (1062, Duplicate),
            (1048, Row),
            (1452, Row),
            (1792, ReadOnly),
            // Diesel hides this one.
            (1205, Refused),
        ] {
            let signal = sql(format!(
                "BEGIN NOT ATOMIC SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, \
                 MESSAGE_TEXT = 'nein'; END"
            ));
            assert_eq!(database.session().execute(&signal).unwrap_err().kind, kind, "{number}");
        }
    }

    #[test]
    fn a_connection_the_server_closed_is_replaced() {
        super::a_connection_the_server_closed_is_replaced(&Database::mariadb());
    }

    #[test]
    fn a_lone_change_on_a_connection_the_server_closed_is_not_repeated() {
        super::a_lone_change_on_a_connection_the_server_closed_is_not_repeated(&Database::mariadb());
    }

    #[test]
    fn a_connection_lost_before_the_commit_changed_nothing() {
        super::a_connection_lost_before_the_commit_changed_nothing(&Database::mariadb());
    }

    #[test]
    fn a_lock_held_too_long_ends_the_wait() {
        super::a_lock_held_too_long_ends_the_wait(&Database::mariadb());
    }

    #[test]
    fn a_lock_held_too_long_halfway_through_a_result_ends_the_wait() {
        super::a_lock_held_too_long_halfway_through_a_result_ends_the_wait(&Database::mariadb());
    }

    #[test]
    fn a_lock_held_too_long_leaves_its_own_claim_in_doubt() {
        super::a_lock_held_too_long_leaves_its_own_claim_in_doubt(&Database::mariadb());
    }

    #[test]
    fn a_claim_that_has_not_committed_yet_stays_in_doubt() {
        for commits in [true, false] {
            super::a_claim_that_has_not_committed_yet_stays_in_doubt(&Database::mariadb(), commits);
        }
    }

    /// Read back by the first id: what others commit meanwhile lies behind it as well.
    /// The server closes the connection for one, as if it could not be reached.
    #[test]
    fn more_than_the_server_takes_at_once_is_told_as_the_datas_fault() {
        let case = Case::new(&Database::mariadb());
        let long = format!("\"{}\"", "x".repeat(200_000));
        let order = |payloads| EnqueueOrder {
            application: case.application.clone(),
            job: definition(&case.application, "report").job,
            payloads,
            groups: Vec::new(),
            lane: String::new(),
            tags: Vec::new(),
            headers: Headers::new(),
            due: DueAt::After(0),
            priority: None,
            key: None,
            notifier: Arc::default(),
        };
        let error = case.store.enqueue(&order(vec![long.clone(); 100])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data, "{error:#}");
        assert!(error.to_string().contains("max_allowed_packet"), "{error:#}");
        assert_eq!(case.store.enqueue(&order(vec![long; 10])).unwrap().len(), 10);
    }

    #[test]
    fn what_others_won_meanwhile_is_not_mine() {
        let database = Database::mariadb();
        let (mine, theirs) = (Case::new(&database), Case::new(&database));
        let requests = [mine.request(), theirs.request()];
        let planned = requests.each_ref().map(|request| match &request.candidate {
            Candidate::Planned(occurrence) => (request, occurrence),
            Candidate::Pending(_) => panic!("a planned one was asked for"),
        });
        let mut session = database.session();
        session.batch("START TRANSACTION").unwrap();
        assert_eq!(claim::win_planned(session.as_mut(), &planned[..1]).unwrap().len(), 1);
        drop(theirs.run());
        let found = just_inserted(session.as_mut(), &planned).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), [&mine.entry.id.0]);
        session.batch("ROLLBACK").unwrap();
    }

    #[test]
    fn a_wrong_password_is_not_repeated() {
        let url = Database::mariadb().url.replace(":secret@", ":hunter2@");
        assert!(url.contains("hunter2"));
        super::an_unreachable_server_is_told_soon_and_without_the_password(&url);
    }

    #[test]
    fn an_unreachable_server_is_told_soon_and_without_the_password() {
        let url = "mysql://me:hunter2@127.0.0.1:1/nothing";
        super::an_unreachable_server_is_told_soon_and_without_the_password(url);
    }
}

//! The three databases as the conformance suite and the tests here see them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use crate::domain::{Boot, Candidate, Entry, ExecutionId, NodeId, Occurrence, Overlap, Timestamp, Token};
use crate::store::conformance::{DEADLINE, Fixture, RowKey};
use crate::store::sql::connection::target::Target;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::statement::{single, sql};
use crate::store::sql::{migrate, open};
use crate::store::{Claim, ClaimRequest, Definition, Result, Store, StoreLimits};
use crate::time::{Clock, Lease};
use crate::trigger::{Simple, Trigger};

/// A test server's URL.
pub(in crate::store::sql) fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} is not set: run the tests with scripts/with-servers.sh, or build without this \
                database"
        )
    })
}

/// As a node's loops have them: for tests of what happens when a call takes too long.
pub(super) const LIMITS: StoreLimits = StoreLimits { call: 3_000, connections: 8, spare: 1 };
/// For tests that say nothing about time: a slow machine may need more than a second to connect.
const PATIENT: StoreLimits = StoreLimits { call: 30_000, ..LIMITS };

/// An application name nobody else uses.
pub(in crate::store::sql) fn application() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("sql-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The first fire time of [`definition`]: 2033-05-18 03:33:20.125 UTC.
pub(super) const AT: Timestamp = Timestamp::at(2_000_000_000_125);

/// Every second from [`AT`], for ever.
pub(super) fn definition(application: &str, name: &str) -> Definition {
    let trigger = Trigger::Simple(Simple::new(Some(AT.millis()), 1_000, -1).unwrap());
    let (application, payload) = (application.to_owned(), "{}".to_owned());
    let overlap = Some(Overlap::Allow);
    Definition { application, payload, priority: 0, overlap, ..Definition::new(name, "work", trigger) }
}

/// So many of those.
pub(super) fn schedules(store: &dyn Store, application: &str, count: usize) -> Vec<Arc<Entry>> {
    let define = |number| {
        let definition = definition(application, &format!("schedule-{number}"));
        store.ensure(&definition).unwrap();
        Arc::new(store.find(application, &definition.name).unwrap().unwrap())
    };
    (0..count).map(define).collect()
}

/// A request for the occurrence the entry's cursor points at, for an idle thread.
pub(super) fn request(entry: &Arc<Entry>, node: NodeId) -> ClaimRequest {
    let candidate = Candidate::Planned(Occurrence::head(entry).unwrap());
    ClaimRequest {
        candidate,
        token: Token::fresh(),
        node,
        at_once: true,
        lease: Lease { until: Boot::MAX, apart: 0 },
        waited: None,
        now: AT + 5,
    }
}

/// Claims the occurrence the entry's cursor points at. Whoever looks through a small table may hold its row
/// for a moment: a skipped claim is made again.
pub(super) fn claim(store: &dyn Store, entry: &Arc<Entry>) -> Result<Claim> {
    let (request, deadline) = (request(entry, NodeId::fresh()), Instant::now() + DEADLINE);
    loop {
        match store.claim(std::slice::from_ref(&request))?.remove(0) {
            Claim::Skipped if Instant::now() < deadline => {}
            claim => return Ok(claim),
        }
    }
}

/// A migrated database with a store on it, and a way past the store.
pub(super) struct Database {
    pub url: String,
    store: Arc<dyn Store>,
    past: Mutex<Box<dyn Session + Send>>,
    _dir: Option<tempfile::TempDir>,
}

impl Database {
    /// A file of its own.
    pub fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("test.db").display());
        migrate(&url).unwrap();
        Self::on(url, Some(dir))
    }

    /// The server's database, which all tests share.
    pub fn postgres() -> Self {
        static URLS: OnceLock<[String; 2]> = OnceLock::new();
        Self::shared(&URLS, "FIRETIME_TEST_POSTGRES_URL")
    }

    /// A database of its own on the same server.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub fn beside(&self, name: &str) -> Self {
        self.session().batch(&format!("CREATE DATABASE {name}")).unwrap();
        let url = format!("{}/{name}", self.url.rsplit_once('/').unwrap().0);
        migrate(&url).unwrap();
        Self::on(url, None)
    }

    /// The server's database, which all tests share.
    pub fn mariadb() -> Self {
        static URLS: OnceLock<[String; 2]> = OnceLock::new();
        Self::shared(&URLS, "FIRETIME_TEST_MARIADB_URL")
    }

    /// Its store has the role of a node, with no grants but those that docs/deployments.md has.
    fn shared(slot: &OnceLock<[String; 2]>, variable: &str) -> Self {
        let migrated = || {
            let url = server(variable);
            migrate(&url).unwrap();
            let nodes = grant_nodes(&url);
            [url, nodes]
        };
        let [url, nodes] = slot.get_or_init(migrated).clone();
        Self { store: open(&nodes, PATIENT, Arc::new(Clock::default())).unwrap(), ..Self::on(url, None) }
    }

    /// The database of this URL.
    pub fn on(url: String, dir: Option<tempfile::TempDir>) -> Self {
        let store = open(&url, PATIENT, Arc::new(Clock::default())).unwrap();
        let past = Mutex::new(Target::parse(&url).unwrap().connect(PATIENT).unwrap());
        Self { url, store, past, _dir: dir }
    }

    pub fn session(&self) -> Box<dyn Session + Send> {
        Target::parse(&self.url).unwrap().connect(PATIENT).unwrap()
    }

    pub fn dialect(&self) -> Dialect {
        Target::parse(&self.url).unwrap().dialect
    }
}

/// Makes the role of a node as docs/deployments.md says; gives the database's URL for it.
fn grant_nodes(url: &str) -> String {
    let target = Target::parse(url).unwrap();
    let server = target.dialect.choose("SQLite", "PostgreSQL", "MariaDB");
    let title = format!("-- Nodes, clients and the program, on {server}.\n");
    let page = include_str!("../../../../docs/deployments.md");
    let block = page.split("```sql\n").find_map(|block| block.strip_prefix(&*title)).unwrap();
    let (role, (_, database)) = (application().replace('-', "_"), url.rsplit_once('/').unwrap());
    let statements = block.split("```").next().unwrap().replace("shop_node", &role);
    target.connect(PATIENT).unwrap().batch(&statements.replace("shop.", &format!("{database}."))).unwrap();
    let (start, rest) = url.split_once("://").unwrap();
    format!("{start}://{role}:secret@{}", rest.split_once('@').unwrap().1)
}

/// Rolls back when dropped.
struct Lock(Box<dyn Session + Send>);

impl Drop for Lock {
    fn drop(&mut self) {
        // The connection ends right after, and its transaction with it.
        drop(self.0.batch("ROLLBACK"));
    }
}

impl Database {
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Holds a row locked until the answer is dropped.
    pub fn lock(&self, row: RowKey<'_>) -> Box<dyn Send> {
        let dialect = self.dialect();
        assert!(dialect != Dialect::Sqlite, "SQLite has no row locks");
        let mut session = self.session();
        // The lock may be held for longer than a call may take.
        session
            .batch(match dialect {
                Dialect::Postgres => "SET idle_in_transaction_session_timeout = 60000",
                _ => "SET SESSION idle_transaction_timeout = 60",
            })
            .unwrap();
        session.batch(dialect.begin()).unwrap();
        let lock = format!("SELECT 1 AS held FROM {} WHERE {} FOR UPDATE", row.table(), row.condition());
        let held = session.rows(&sql(lock));
        assert_eq!(held.unwrap().len(), 1);
        Box::new(Lock(session))
    }

    fn set(&self, row: RowKey<'_>, column: &str, value: &str) {
        let (literal, bind) = match value.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            Some(text) => ("?", Some(text)),
            None => (value, None),
        };
        let update =
            sql(format!("UPDATE {} SET {column} = {literal} WHERE {}", row.table(), row.condition()));
        let update = match bind {
            Some(text) => update.bind(text),
            None => update,
        };
        assert_eq!(self.past.lock().unwrap().execute(&update).unwrap(), 1, "{update:?}");
    }

    fn get(&self, row: RowKey<'_>, column: &str) -> Option<String> {
        let text = if self.dialect() == Dialect::Mysql { "CHAR" } else { "TEXT" };
        let question = format!(
            "SELECT CAST({column} AS {text}) AS value FROM {} WHERE {}",
            row.table(),
            row.condition()
        );
        let mut rows = self.past.lock().unwrap().rows(&sql(&question)).unwrap();
        assert_eq!(rows.len(), 1, "{question}");
        rows.pop().unwrap().maybe_text().unwrap()
    }

    fn is_noted(&self, id: ExecutionId) -> bool {
        let question = sql("SELECT c.job_id FROM QRTZ_BOUNDED c WHERE c.execution_id = ?").bind(id.0);
        !self.past.lock().unwrap().rows(&question).unwrap().is_empty()
    }

    fn has_said(&self, id: ExecutionId) -> bool {
        let question = sql("SELECT s.execution_id FROM QRTZ_SAID s WHERE s.execution_id = ?").bind(id.0);
        !self.past.lock().unwrap().rows(&question).unwrap().is_empty()
    }

    fn tagged(&self, tag: &str) -> usize {
        let question = sql("SELECT t.origin FROM QRTZ_TAG t WHERE t.tag = ?").bind(tag);
        self.past.lock().unwrap().rows(&question).unwrap().len()
    }

    fn request(&self, application: &str, verb: &str, arguments: &str) -> i64 {
        let insert = sql("INSERT INTO QRTZ_REQUEST (application, verb, arguments) VALUES (?, ?, ?)");
        let mut session = self.past.lock().unwrap();
        session.execute(&insert.bind(application).bind(verb).bind(arguments)).unwrap();
        let last = sql("SELECT MAX(q.id) FROM QRTZ_REQUEST q WHERE q.application = ?").bind(application);
        single(session.rows(&last).unwrap()).unwrap()
    }

    fn has_request(&self, id: i64) -> bool {
        let question = sql("SELECT q.id FROM QRTZ_REQUEST q WHERE q.id = ?").bind(id);
        !self.past.lock().unwrap().rows(&question).unwrap().is_empty()
    }
}

macro_rules! fixture {
    ($feature:literal, $name:ident, $make:expr) => {
        #[cfg(feature = $feature)]
        pub(crate) struct $name(Database);

        #[cfg(feature = $feature)]
        impl Fixture for $name {
            fn open() -> Self {
                Self($make)
            }

            fn store(&self) -> Arc<dyn Store> {
                self.0.store()
            }

            fn lock(&self, row: RowKey<'_>) -> Box<dyn Send + '_> {
                self.0.lock(row)
            }

            fn set(&self, row: RowKey<'_>, column: &str, value: &str) {
                self.0.set(row, column, value);
            }

            fn get(&self, row: RowKey<'_>, column: &str) -> Option<String> {
                self.0.get(row, column)
            }

            fn is_noted(&self, id: ExecutionId) -> bool {
                self.0.is_noted(id)
            }

            fn has_said(&self, id: ExecutionId) -> bool {
                self.0.has_said(id)
            }

            fn tagged(&self, tag: &str) -> usize {
                self.0.tagged(tag)
            }

            fn request(&self, application: &str, verb: &str, arguments: &str) -> i64 {
                self.0.request(application, verb, arguments)
            }

            fn has_request(&self, id: i64) -> bool {
                self.0.has_request(id)
            }
        }
    };
}

fixture!("sqlite", Sqlite, Database::sqlite());
fixture!("postgres", Postgres, Database::postgres());
fixture!("mysql", Mariadb, Database::mariadb());

mod conformance {
    use super::*;
    use crate::store::conformance::conformance;

    #[cfg(feature = "sqlite")]
    conformance!(sqlite, Sqlite);
    #[cfg(feature = "postgres")]
    conformance!(postgres, Postgres);
    #[cfg(feature = "mysql")]
    conformance!(mariadb, Mariadb);

    mod row_locks {
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        use super::*;
        #[cfg(any(feature = "postgres", feature = "mysql"))]
        use crate::store::conformance::conformance_of_row_locks;

        #[cfg(feature = "postgres")]
        conformance_of_row_locks!(postgres, Postgres);
        #[cfg(feature = "mysql")]
        conformance_of_row_locks!(mariadb, Mariadb);
    }
}

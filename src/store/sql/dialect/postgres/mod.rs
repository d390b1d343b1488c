//! PostgreSQL: claims of one statement, and notes of them for its executions under way.

pub(crate) mod claims;
#[cfg(feature = "postgres")]
mod driver;
#[cfg(feature = "postgres")]
mod ear;
#[cfg(feature = "postgres")]
pub(crate) mod faults;
mod lineage;
pub(crate) mod notes;
#[cfg(feature = "postgres")]
mod pooler;

use std::sync::Arc;

#[cfg(feature = "postgres")]
use driver::{open, open_unshared};

use super::database::{Database, LOCK_WAIT, QuickClaim, SCHEMA_WAIT, schema_is_locked};
#[cfg(not(feature = "postgres"))]
use super::database::{switched_off as open, switched_off as open_unshared};
use super::{Dialect, STAYS_WHILE_IDLE};
#[cfg(all(feature = "postgres", feature = "tokio"))]
use crate::domain::Source;
#[cfg(feature = "postgres")]
use crate::store::news::Ear;
use crate::store::sql::claim::planned::{Found, PlannedRequest};
use crate::store::sql::connection::hosts::Pickiness;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::poll::due::{self, Among, Part};
use crate::store::sql::rows::open_executions::Whose;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Statement, Value, sql};
use crate::store::{ExecutionQuery, PollQuery, StoreLimits};
use crate::time::span;

pub(crate) struct Postgres;

impl Database for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn connect(&self, target: &Target, limits: StoreLimits) -> Step<Opened> {
        within_reach(target, limits, open)
    }

    fn connect_first(&self, target: &Target, limits: StoreLimits) -> Step<Opened> {
        within_reach(target, limits, open_unshared)
    }

    #[cfg(feature = "postgres")]
    fn listen(&self, target: &Target, limits: StoreLimits, application: &str) -> Step<Box<dyn Ear>> {
        ear::listen(target, limits, application)
    }

    fn limit(&self, session: &mut dyn Session, limits: StoreLimits) -> Step<()> {
        let call = limits.call.max(1);
        // Only a superuser may choose the language of messages; others keep theirs.
        if session.batch("SET lc_messages TO 'C'").is_err_and(|fault| fault.kind == FaultKind::Lost) {
            return Err(Fault::new(FaultKind::Lost, "the connection was lost while it was set up"));
        }
        // Every statement of ours finds its rows by index; a generic plan made while a table was empty would
        // read it from end to end until the next ANALYZE. None is worth compiling, or planning, anew each
        // time it runs. And a poll sorts up to a page of rows: by default PostgreSQL would sort that on
        // disk.
        //
        // A database without an encoding refuses a whole answer for one byte that is none of UTF-8; asked
        // for bytes, it leaves them to us.
        session.batch(&format!(
            "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
             SET enable_bitmapscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan; \
             SET work_mem = '32MB'; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') IN ('off', 'local'); \
             SELECT set_config('client_encoding', 'SQL_ASCII', false) \
             WHERE current_setting('server_encoding') = 'SQL_ASCII'; \
             SET lock_timeout = {LOCK_WAIT}; SET statement_timeout = {call}; \
             SET idle_in_transaction_session_timeout = {call}; {STAYS_WHILE_IDLE}; \
             SET default_transaction_isolation TO 'read committed'"
        ))
    }

    fn lift_limits(&self, session: &mut dyn Session) -> Step<()> {
        session.batch(&format!("SET statement_timeout = 0; SET lock_timeout = '{SCHEMA_WAIT}s'"))
    }

    fn lock_schema(&self, session: &mut dyn Session) -> Step<()> {
        session.batch(Dialect::Postgres.begin())?;
        // "firetime" as a number; the lock ends with the transaction. A refusal is the wait's end, in any
        // language.
        let refused = |fault: Fault| match fault.kind {
            FaultKind::Lost => fault,
            _ => Fault { cause: fault.cause, ..schema_is_locked() },
        };
        session.batch("SELECT pg_advisory_xact_lock(7379541834516)").map_err(refused)
    }

    #[cfg(all(feature = "postgres", feature = "tokio"))]
    fn coded(&self, code: &str, constraint: Option<&str>, cause: Source) -> Fault {
        faults::coded(code, constraint, cause)
    }

    fn quick_claim(&self) -> Option<QuickClaim> {
        Some(QuickClaim { begins: false, expecting_free: claims::waiting, skipping_held: claims::skipping })
    }

    fn claim(&self, session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
        claims::skipping(session, planned)
    }

    fn note(&self, session: &mut dyn Session, executions: Vec<i64>) -> Step<()> {
        notes::note(session, executions)
    }

    fn sweep(&self, session: &mut dyn Session, application: &str, whose: Whose) -> Step<()> {
        notes::sweep(session, application, whose)
    }

    fn move_sequences(&self, session: &mut dyn Session) -> Step<()> {
        for table in ["qrtz_job", "qrtz_execute", "qrtz_run", "qrtz_claim", "qrtz_audit", "qrtz_request"] {
            session.rows(&sql(format!(
                "SELECT setval(ids, highest) FROM \
                 (SELECT pg_get_serial_sequence('{table}', 'id')::regclass AS ids, (SELECT MAX(id) \
                 FROM {table}) AS highest) AS drawn WHERE highest > COALESCE(pg_sequence_last_value(ids), 0)"
            )))?;
        }
        Ok(())
    }

    fn open_executions(&self, application: &str, whose: Whose) -> Statement {
        notes::open_executions(application, whose)
    }

    fn open_states(&self, query: &ExecutionQuery) -> Statement {
        notes::open_states(query)
    }

    /// PostgreSQL seeks a list of values in an index only where its statistics say that this pays, and
    /// without statistics reads every row of the application instead. So each job and shard, or each name, is
    /// a seek of its own, and OFFSET keeps the planner from turning them into a join that begins with the
    /// schedules.
    fn due_rows(&self, query: &PollQuery, part: &Part<'_>, limit: usize) -> Statement {
        let (seeks, sought, among) = match part.among {
            Among::Shards(shards) => (
                "unnest(?) AS p(id) CROSS JOIN unnest(?) AS s(shard)",
                "x.state = 'EXECUTING' AND x.pid = p.id AND x.shard = s.shard \
                 AND x.next_fire_time >= ? AND x.next_fire_time < ?",
                Value::Ints(Arc::new(shards.to_vec())),
            ),
            Among::Names(names) => (
                "unnest(?) AS p(id) CROSS JOIN unnest(?) AS n(name)",
                "x.name = n.name",
                Value::Texts(Arc::new(names.to_vec())),
            ),
        };
        let question = due::begun()
            .push(&format!(
                "{seeks} CROSS JOIN LATERAL (SELECT x.* FROM QRTZ_EXECUTE x WHERE x.application = ? \
                 AND {sought} OFFSET 0) AS e JOIN QRTZ_JOB j ON j.id = e.pid \
                 WHERE e.pid = p.id AND e.state = 'EXECUTING'"
            ))
            .bind_all((
                Value::Ints(Arc::new(part.jobs.iter().map(|job| job.0).collect())),
                among,
                query.application.as_str(),
            ));
        let question = if part.is_named() { question } else { question.bind(query.from).bind(query.until) };
        due::ended(question, query, limit)
    }
}

/// A session with its limits set. libpq's own limit ends with the login: a network that goes silent after it
/// would keep the pool's thread for ever, and with it the hope of all who wait for a connection.
fn within_reach(
    target: &Target,
    limits: StoreLimits,
    open: fn(&Target, &str, Pickiness) -> Step<Opened>,
) -> Step<Opened> {
    target.hosts.first(span(limits.call), |address, wait, pickiness| {
        let (there, address) = (target.clone(), address.to_owned());
        target.reach.open(None, wait, move || {
            let mut session = there.watched(open(&there, &address, pickiness)?, limits)?;
            let clean = |fault| there.clean(fault);
            Postgres.limit(session.as_mut(), limits).map_err(clean)?;
            lineage::follow(session.as_mut(), &there, limits).map_err(clean)?;
            Ok(session)
        })
    })
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_server_that_goes_silent_after_the_login_is_given_up() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (end, silence) = channel::<()>();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1_000]).unwrap() > 0);
            // The login needs no password; ready for a statement.
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
            silence.recv_timeout(Duration::from_secs(20)).ok();
        });
        let url = format!("postgres://a@127.0.0.1:{port}/b?sslmode=disable&gssencmode=disable");
        let target = Target::parse(&url).unwrap();
        let fault =
            Postgres.connect(&target, StoreLimits { call: 500, connections: 1, spare: 1 }).err().unwrap();
        assert!(fault.message.contains("the server does not answer within "), "{fault:?}");
        drop(end);
        server.join().unwrap();
    }
}

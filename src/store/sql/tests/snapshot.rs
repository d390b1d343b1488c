//! While somebody holds an old snapshot open, PostgreSQL keeps the index entry that each claim leaves behind.

use super::fixture::Database;
use crate::domain::shards::Share;
use crate::domain::{NodeId, Timestamp};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::poll::{self, due};
use crate::store::sql::session::Session;
use crate::store::sql::session::statement::{Statement, sql};
use crate::store::{Page, PollQuery};

const CLAIMS: i64 = 300_000;
const START: Timestamp = Timestamp::at(3_000_000_000_000);
/// When the polls look: every schedule was due before and is due again after.
const NOW: Timestamp = START.saturating_add(1_000 * CLAIMS);

/// Each of [`CLAIMS`] schedules of a job moves on once, as claims move it, and as many PENDING executions are
/// claimed.
fn claimed_under_a_snapshot(database: &Database, application: &str) -> Box<dyn Session + Send> {
    let mut session = database.session();
    session.batch("SET statement_timeout = 0; SET lock_timeout = 0").unwrap();
    let job = sql("INSERT INTO QRTZ_JOB (application, job_class) VALUES (?, 'work')");
    session.execute(&job.bind(application)).unwrap();
    session
        .batch(&format!(
            "INSERT INTO QRTZ_EXECUTE (application, shard, name, pid, job_type, state, repeat_interval, \
             start_time, prev_fire_time, next_fire_time, payload) SELECT j.application, n % 16, \
             '{application}-' || n, j.id, 'SIMPLE', 'EXECUTING', 1000, {START}, -1, {START} + n * 1000, \
             '{{}}' FROM generate_series(CAST(1 AS BIGINT), {CLAIMS}) AS n, QRTZ_JOB j \
             WHERE j.application = '{application}'"
        ))
        .unwrap();
    session
        .batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, due_time, \
             state, claim_token) SELECT '{application}', n, 0, {START}, 1, {START} + n * 1000, 'PENDING', \
             'token' FROM generate_series(CAST(1 AS BIGINT), {CLAIMS}) AS n"
        ))
        .unwrap();
    let mut old = database.session();
    old.batch("SET idle_in_transaction_session_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    old.rows(&sql("SELECT 1 FROM QRTZ_APP LIMIT 1")).unwrap();
    session
        .batch(&format!(
            "UPDATE QRTZ_EXECUTE SET prev_fire_time = next_fire_time, \
             next_fire_time = next_fire_time + {} WHERE application = '{application}'",
            NOW - START + 60_000
        ))
        .unwrap();
    session
        .batch(&format!(
            "UPDATE QRTZ_RUN SET state = 'RUNNING', node = 'node' WHERE application = '{application}'"
        ))
        .unwrap();
    session.batch("VACUUM ANALYZE QRTZ_EXECUTE, QRTZ_RUN").unwrap();
    old
}

/// The blocks of the database's memory that a question reads, and the milliseconds it takes.
fn cost(session: &mut dyn Session, statement: &Statement) -> (i64, f64) {
    let text = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {}", statement.text);
    let rows = session.rows(&Statement { text, ..statement.clone() }).unwrap();
    let lines: Vec<String> = rows.into_iter().map(|mut row| row.text().unwrap()).collect();
    let behind = |line: &str, what: &str| -> Option<f64> {
        let (_, rest) = line.split_once(what)?;
        rest.split(|it: char| !it.is_ascii_digit() && it != '.').next()?.parse().ok()
    };
    let first = |what: &str| lines.iter().find_map(|line| behind(line, what));
    let read = first(" read=").unwrap_or(0.0);
    (first("shared hit=").unwrap_or(0.0) as i64 + read as i64, first("Execution Time: ").unwrap())
}

#[test]
fn a_poll_does_not_walk_over_the_entries_of_earlier_claims() {
    // Other tests need not walk over its rows.
    let (server, name) = (Database::postgres(), format!("ft_snapshot_{}", std::process::id()));
    let (database, application) = (server.beside(&name), super::application());
    let old = claimed_under_a_snapshot(&database, &application);
    let mut session = database.session();
    session.batch("SET statement_timeout = 0").unwrap();
    let jobs = poll::jobs(session.as_mut(), &application).unwrap();
    let query = |from| PollQuery {
        node: NodeId::fresh(),
        application: application.clone(),
        shares: vec![Share::whole(vec!["work".to_owned()])],
        names: Vec::new(),
        listed: vec!["work".to_owned()],
        from,
        pending_from: if from == Timestamp::EPOCH { Timestamp::MIN } else { NOW - 10_000 },
        until: NOW + 6_000,
        late: NOW - 2_000,
        page: Page::FIRST,
        limit: 1_000,
        drains: false,
    };
    let mut costs = |from: Timestamp| {
        let query = query(from);
        let parts = due::parts(&query, &jobs);
        let due = Dialect::Postgres.database().due_rows(&query, &parts[0], query.limit + 1);
        let misfires = poll::behind(&application, &(from..NOW - 60_000));
        let waiting = poll::waiting_rows(Dialect::Postgres, &query, &parts, &[poll::Queue::NONE]);
        [poll::look(Dialect::Postgres, &query), due, misfires, waiting].map(|it| cost(session.as_mut(), &it))
    };
    let (whole, begun) = (costs(Timestamp::EPOCH), costs(NOW - 60_000));
    println!("blocks and milliseconds of the look, the due, late and waiting rows: {whole:?}, now {begun:?}");
    for ((before, _), (now, _)) in whole.iter().zip(begun) {
        assert!(*before > CLAIMS / 200, "the entries of {CLAIMS} claims are gone: {before} blocks");
        assert!(20 * now <= *before, "{now} blocks instead of {before}");
    }
    drop((old, session, database));
    server.session().batch(&format!("DROP DATABASE {name} WITH (FORCE)")).unwrap();
}

//! Query plans: the statements of the hot path find their rows by index, never by reading a table.

use crate::store::columns::NO_TIME;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::fixture::{self, Database};
use crate::domain::shards::Share;
use crate::domain::{
    Boot, Bounds, Candidate, Cursor, Entry, ExecutionId, ExecutionState, JobId, JobPolicy, JobSpec, LeftOut,
    MisfirePolicy, NextFire, NodeId, Occurrence, Overlap, PauseAfter, Reason, ScheduleId, ScheduleState,
    Timestamp, Token,
};
use crate::fixtures::new_node;
use crate::store::change::PolicyChange;
use crate::store::enqueue::HIGHEST_BY_HAND;
use crate::store::expected::{ExpectedPage, ExpectedQuery, Expecting};
use crate::store::figures::FiguresQuery;
use crate::store::ledger::{LedgerRange, LinePlace, LineQuery, LinesBy};
use crate::store::nobody::{NobodyChange, NobodyMark};
use crate::store::outcomes::{NewOutcomes, OutcomeCounts};
use crate::store::rerun::{EndedSo, LedgerPart};
use crate::store::sql::claim::{self, bounds, planned};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::dialect::mariadb::claims as mariadb_claims;
use crate::store::sql::dialect::postgres::{claims, notes::ended};
use crate::store::sql::misfire::{expected, purge, streak, unreadable};
use crate::store::sql::poll::{self, due};
use crate::store::sql::rows::entry::Payload;
use crate::store::sql::rows::open_executions::Whose;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::{BatchRows, update};
use crate::store::sql::session::statement::{Statement, Value, single, sql};
use crate::store::sql::verbs::{change, node, outcomes as counted, rerun, said, sync};
use crate::store::sql::views::covers::Stretch;
use crate::store::sql::views::{awaited, covers, figures, history, ledger, place, waiting};
use crate::store::streak::Reach;
use crate::store::{
    Change, ClaimRequest, Definition, ExecutionChange, ExecutionQuery, ListPlace, NextAttempt, NodeEnd,
    OverdueQuery, Page, PauseChange, PollQuery, Purge, RemoveChange, Section, SeenSchedule, Transition,
    UnreadableQuery, UnreadableRow,
};
use crate::time::{Clock, Lease};
use crate::trigger::{Simple, Timing, Trigger};

/// Enough rows that a planner prefers an index, in an application of their own.
const ROWS: i64 = 20_000;
pub(super) const START: Timestamp = Timestamp::at(2_000_000_000_000);

/// A session without a node's time limits: many rows take a slow machine longer, and autovacuum gives its
/// lock up only after a second.
fn patient(database: &Database) -> Box<dyn Session + Send> {
    let mut session = database.session();
    session.dialect().database().lift_limits(session.as_mut()).unwrap();
    session
}

pub(super) fn filled(database: &Database) -> (Box<dyn Session + Send>, String) {
    // Two at once would store the same rows.
    static FILLING: Mutex<()> = Mutex::new(());
    let _filling = FILLING.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut session, application) = (patient(database), super::application());
    fill(session.as_mut(), &application, "work", 0);
    let (numbers, token) = (numbers(session.dialect(), 0), name(session.dialect(), &application));
    session
        .batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, \
             due_time, claim_token) SELECT '{application}', n, 0, {START}, 1, CASE WHEN n % 100 = 0 \
             THEN 'PENDING' ELSE 'SUCCEEDED' END, {START} + n, {token} FROM ({numbers}) AS numbers \
             WHERE NOT EXISTS (SELECT 1 FROM QRTZ_RUN r WHERE r.execute_id = n \
             AND r.scheduled_time = {START})"
        ))
        .unwrap();
    analyze(session.as_mut());
    (session, application)
}

pub(super) fn analyze(session: &mut dyn Session) {
    let text = session.dialect().choose(
        "ANALYZE",
        "ANALYZE",
        "ANALYZE TABLE QRTZ_EXECUTE, QRTZ_RUN, QRTZ_JOB, QRTZ_TAG, QRTZ_EXPECTED",
    );
    session.batch(text).unwrap();
}

/// [`ROWS`] numbers `n` from `after` on.
fn numbers(dialect: Dialect, after: i64) -> String {
    let last = after + ROWS;
    match dialect {
        Dialect::Postgres => format!("SELECT generate_series({after} + 1, {last}) AS n"),
        Dialect::Mysql => format!("SELECT {after} + seq AS n FROM seq_1_to_{ROWS}"),
        Dialect::Sqlite => format!(
            "WITH RECURSIVE c(n) AS (SELECT {after} + 1 UNION ALL SELECT n + 1 FROM c WHERE n < {last}) \
             SELECT n FROM c"
        ),
    }
}

/// One change each of those that are no batch of executions.
fn others() -> Vec<(&'static str, Change)> {
    let (by, reason) = (String::new(), "why".to_owned());
    let seen = SeenSchedule { id: ScheduleId(1), version: 0, state: "EXECUTING".to_owned(), next: None };
    let (application, why) = (String::new(), reason.clone());
    let removal = RemoveChange { application, seen: seen.clone(), reason: why.clone(), now: START };
    let broken = UnreadableRow { seen, name: "1".into(), reason: why };
    let becomes = JobPolicy { max_attempts: 7, ..JobPolicy::DEFAULT }.into();
    let end = |beat| Change::End(NodeEnd { node: NodeId::fresh(), beat, now: START });
    let mark = NobodyMark::default();
    let nobody = NobodyChange { job: JobId(1), seen: mark, becomes: mark };
    let pause = PauseChange { id: ScheduleId(1), version: 0, by, reason, until: None };
    vec![
        ("pause", Change::Pause(pause.clone())),
        ("contain", Change::Contain(pause)),
        ("quarantine", Change::Quarantine(broken)),
        ("remove", Change::Remove(removal)),
        (
            "policy",
            Change::Policy(PolicyChange {
                job: JobId(1),
                seen: JobPolicy::DEFAULT.into(),
                becomes,
                now: START,
            }),
        ),
        ("declare dead", end(Some(1))),
        ("leave", end(None)),
        ("nobody", Change::Nobody(nobody)),
    ]
}

/// The executions 1 to `count` begin.
fn starts(count: i64) -> Vec<Change> {
    changes(count, &Transition::Start)
}

/// They succeed.
fn outcomes(count: i64) -> Vec<Change> {
    changes(count, &Transition::Succeed)
}

fn changes(count: i64, transition: &Transition) -> Vec<Change> {
    let change =
        |id| ExecutionChange::of(ExecutionId(id), Token::fresh(), transition.clone(), Timestamp::EPOCH);
    (1..=count).map(|id| change(id).into()).collect()
}

/// What inserts the attempts that follow the executions 1 to `count`.
#[cfg(feature = "postgres")]
fn next_attempts(count: i64) -> Statement {
    let abandoned = changes(count, &Transition::Abandon(None));
    let executions = abandoned.iter().filter_map(|change| match change {
        Change::Execution(change) => Some(change),
        _ => None,
    });
    let next = NextAttempt { due: START, token: Token::fresh(), reason: Reason::Recovery };
    let attempts: Vec<_> = executions.map(|change| (change, next)).collect();
    change::insert_attempts(Dialect::Postgres, &attempts)
}

fn name(dialect: Dialect, application: &str) -> String {
    match dialect {
        Dialect::Mysql => format!("CONCAT('{application}-', n)"),
        _ => format!("'{application}-' || n"),
    }
}

/// [`ROWS`] schedules of `job`, one of 51, a second apart from [`START`] on.
fn fill(session: &mut dyn Session, application: &str, job: &str, after: i64) {
    for job in std::iter::once(job.to_owned()).chain((0..50).map(|number| format!("job-{number}"))) {
        for application in [application.to_owned(), format!("not-{application}")] {
            let insert = sql("INSERT INTO QRTZ_JOB (application, job_class) VALUES (?, ?)")
                .bind(application.as_str())
                .bind(job.as_str())
                .push(&session.dialect().or_leave("QRTZ_JOB", "job_class"));
            session.execute(&insert).unwrap();
        }
    }
    let (numbers, name) = (numbers(session.dialect(), after), name(session.dialect(), application));
    session
        .batch(&format!(
            "INSERT INTO QRTZ_EXECUTE (application, shard, name, pid, job_type, state, repeat_interval, \
             start_time, prev_fire_time, next_fire_time, payload) SELECT '{application}', n % 16, {name}, \
             (SELECT id FROM QRTZ_JOB WHERE application = '{application}' AND job_class = '{job}'), \
             'SIMPLE', 'EXECUTING', 1000, {START}, -1, {START} + n * 1000, '{{}}' FROM ({numbers}) AS numbers"
        ))
        .unwrap();
}

/// What a plan says of each table it reads, for those it reads from end to end.
pub(super) fn scans(session: &mut dyn Session, statement: &Statement) -> Vec<String> {
    let explain =
        |prefix: &str| Statement { text: format!("{prefix} {}", statement.text), ..statement.clone() };
    match session.dialect() {
        Dialect::Postgres => {
            let rows = session.rows(&explain("EXPLAIN")).unwrap();
            let lines = rows.into_iter().map(|mut row| row.text().unwrap()).collect::<Vec<_>>();
            // A scan of the few jobs is right.
            let whole = |line: &String| {
                ["qrtz_execute", "qrtz_run"]
                    .iter()
                    .any(|table| line.contains(&format!("Seq Scan on {table}")))
            };
            lines.into_iter().filter(whole).collect()
        }
        Dialect::Sqlite => {
            let rows = session.rows(&explain("EXPLAIN QUERY PLAN")).unwrap();
            let detail = |row: crate::store::sql::session::statement::Row| {
                let mut row = row;
                (0..3).for_each(|_| drop(row.int()));
                row.text().unwrap()
            };
            let lines = rows.into_iter().map(detail);
            let whole = |line: &String| {
                line.starts_with("SCAN")
                    && ["SCAN e", "SCAN r", "SCAN j", "QRTZ"].iter().any(|table| line.contains(table))
            };
            lines.filter(whole).collect()
        }
        Dialect::Mysql => {
            // id, select_type, table, type, possible_keys, key, …
            let rows = session.rows(&explain("EXPLAIN")).unwrap();
            let line = |row: crate::store::sql::session::statement::Row| {
                let mut row = row;
                drop(row.next());
                drop(row.next());
                (row.maybe_text().unwrap().unwrap_or_default(), row.maybe_text().unwrap().unwrap_or_default())
            };
            let lines = rows.into_iter().map(line);
            let whole = |(table, how): &(String, String)| {
                ["e", "r", "j", "QRTZ_RUN"].contains(&table.as_str())
                    && ["ALL", "index"].contains(&how.as_str())
            };
            lines.filter(whole).map(|(table, how)| format!("{table} {how}")).collect()
        }
    }
}

fn requests(count: i64) -> Vec<ClaimRequest> {
    let simple = Simple::new(Some(START.millis()), 1_000, -1).unwrap();
    let timing = Timing::new(Trigger::Simple(simple), None, None).unwrap();
    let request = |id| {
        let entry = Arc::new(Entry {
            id: ScheduleId(id),
            name: "n".into(),
            job: "work".into(),
            payload: "{}".into(),
            state: ScheduleState::Active,
            timing: timing.clone(),
            cursor: Cursor { prev: None, next: NextFire::At(START + id * 1_000) },
            version: 0,
            generation: 0,
            priority: 0,
            misfire: MisfirePolicy::FireOnce,
            threshold: 60_000,
            time_limit: None,
            bounds: Bounds::NONE,
            recover: true,
            overlap: Overlap::Skip,
            pause_after: PauseAfter::Deaths,
            is_queue: false,
        });
        let candidate = Candidate::Planned(Occurrence::head(&entry).unwrap());
        let (token, node) = (Token::fresh(), NodeId::fresh());
        ClaimRequest {
            candidate,
            token,
            node,
            at_once: false,
            lease: Lease { until: Boot::at(0), apart: 0 },
            waited: None,
            now: START,
        }
    };
    (1..=count).map(request).collect()
}

fn queues() -> [poll::Queue<'static>; 2] {
    [poll::Queue::NONE, poll::Queue { id: 7, shards: &[1, 3, 4, 8, 9, 12, 14, 15] }]
}

fn poll_of(application: &str) -> PollQuery {
    PollQuery {
        node: NodeId::fresh(),
        application: application.to_owned(),
        shares: vec![Share { jobs: vec!["work".to_owned()], shards: vec![1, 3, 4, 8, 9, 12, 14, 15] }],
        names: vec![format!("{application}-17"), format!("{application}-18")],
        listed: vec!["work".to_owned()],
        from: START,
        pending_from: Timestamp::MIN,
        until: START + 10_000,
        late: START + 2_000,
        page: Page::FIRST,
        limit: 1_000,
        drains: false,
    }
}

/// Rows of all parts at once, and of sections.
fn polls(dialect: Dialect, query: &PollQuery, parts: &[due::Part<'_>]) -> Vec<Statement> {
    let whole = parts.iter().map(|part| dialect.database().due_rows(query, part, query.limit + 1));
    let sections: Vec<Section> = parts.iter().flat_map(|part| part.sections(query)).collect();
    let sections = sections.chunks(64).take(1).map(|sections| section_rows(dialect, query, sections));
    whole.chain(sections).collect()
}

fn section_rows(dialect: Dialect, query: &PollQuery, sections: &[Section]) -> Statement {
    poll::section_rows(dialect, &query.application, sections, 20, Payload::Small)
}

fn the_hot_path_never_scans(database: &Database) {
    let (mut session, application) = filled(database);
    let dialect = database.dialect();
    let query = poll_of(&application);
    let purge = Purge { application: application.clone(), after: String::new(), keep: 0, limit: 1_000 };
    let after = ScheduleId(ROWS / 2);
    let broken = UnreadableQuery {
        application: application.clone(),
        after,
        step: 1_000,
        from: Timestamp::EPOCH,
        before: START,
        limit: 200,
        ahead: None,
    };
    let mut statements = vec![
        ("poll: look", poll::look(dialect, &query)),
        ("beat: look", node::live(dialect, &application, NodeId::fresh())),
        ("owned", dialect.database().open_executions(&application, Whose::Node(NodeId::fresh()))),
        ("stranded", dialect.database().open_executions(&application, Whose::Nobody)),
        ("look for broken rows", unreadable::suspects(dialect, &broken)),
        ("purge: look", purge::oldest(&purge, START)),
        ("purge: generations", purge::first_and_last(1, 0)),
        ("purge: read planned", purge::occurrences(1, 0, "= 0", START, 1_000)),
        ("purge: read asked for", purge::occurrences(1, 0, "> 0", START, 1_000)),
        ("covers: last success", covers::last_success(stretch(ScheduleId(1)))),
        ("covers: left out", covers::ends_after(stretch(ScheduleId(1)), None, LeftOut::MOST)),
        ("covers: first", covers::first_of(stretch(ScheduleId(1)))),
        ("covers: generation", covers::last_generation(Dialect::Postgres, ScheduleId(1), 1)),
        ("execution at", place::last_through(ScheduleId(1), 0, START)),
        ("fire times", place::first_times(ScheduleId(1), 0, &(Timestamp::EPOCH..START), 51)),
        ("page of stranded", node::stranded_page(dialect, &application, ExecutionId(0), 1_000)),
        ("sections behind", poll::behind(&application, &(Timestamp::EPOCH..START))),
        ("streak", streak::attempts(ScheduleId(7), 0, NO_TIME, Reach::FIRST)),
        (
            "what is awaited",
            awaited::question(dialect, &application, &(1..=200).map(ExecutionId).collect::<Vec<_>>()),
        ),
        ("what was said", said::said_of(&application, ExecutionId(1))),
        ("purge: what was said", said::forgotten(&application, START, 1_000)),
        ("sync: an owner's schedules", sync::owned(&application, "billing")),
        ("sync: other names", sync::named(&application, &["a", "b", "c"])),
        ("sync: rows that change", sync::locked(dialect, &(1..=300).collect::<Vec<_>>())),
        ("unstarted repairs", poll::unstarted_of(dialect, &application, (1..=4_000).collect())),
    ];
    statements.extend(purge::delete_for_test(dialect, 1, START).map(|it| ("purge: remove", it)));
    let jobs = poll::jobs(session.as_mut(), &application).unwrap();
    let parts = due::parts(&query, &jobs);
    statements.extend(polls(dialect, &query, &parts).into_iter().map(|statement| ("poll", statement)));
    statements.push(("poll: PENDING", poll::waiting_rows(dialect, &query, &parts, &queues())));
    let newest = PollQuery { page: Page { newest: true, ..Page::FIRST }, ..query.clone() };
    statements.push(("poll: newest PENDING", poll::waiting_rows(dialect, &newest, &parts, &queues())));
    if dialect == Dialect::Postgres {
        let all = sql("SELECT r.id FROM QRTZ_RUN r WHERE TRUE");
        let states = vec![ExecutionState::Pending, ExecutionState::Running];
        let asked = ExecutionQuery { states, schedule: Some("s".to_owned()), ..ExecutionQuery::default() };
        statements.push(("what people ask for", all.and(dialect.database().open_states(&asked))));
        statements.push(("ended claims", ended(&application, Whose::Nobody)));
    }
    if dialect == Dialect::Mysql {
        // As if it had inserted the newest row: behind the first of those above are nearly all there are.
        session.rows(&sql("SELECT LAST_INSERT_ID(MAX(id)) AS newest FROM QRTZ_RUN")).unwrap();
        statements.push(("find what a claim inserted", mariadb_claims::newest()));
    }
    for count in [1, 16, 200] {
        let want = claim::want_for_test(&requests(count));
        statements.extend(match dialect {
            Dialect::Postgres => vec![
                ("claim", claims::claim_waiting(&want, false)),
                ("claim what is free", claims::claim_skipping(&want, false)),
                ("claim with slots", claims::claim_waiting(&want, true)),
                ("claim what is free, with slots", claims::claim_skipping(&want, true)),
            ],
            Dialect::Sqlite => vec![
                ("claim", planned::move_cursors(dialect, &want)),
                ("claim with slots", planned::move_cursors_and_slots(dialect, &want)),
            ],
            Dialect::Mysql => vec![
                ("lock", mariadb_claims::lock_free(&want)),
                ("claim", planned::move_cursors(dialect, &want)),
                ("look at slots", mariadb_claims::taken_slots(&want)),
                ("take slots", planned::take_slots(dialect, &want)),
                ("take free slots", mariadb_claims::take_free_slots(&(1..=count).collect::<Vec<i64>>())),
            ],
        });
        statements.push(("settle", change::statement_for_test(dialect, &starts(count))));
    }
    let others = others().into_iter();
    statements.extend(others.map(|(name, change)| (name, change::statement_for_test(dialect, &[change]))));
    for (name, statement) in statements {
        assert_eq!(scans(session.as_mut(), &statement), Vec::<String>::new(), "{name}: {}", statement.text);
    }
    counts_read_their_executions_alone(session.as_mut());
    let by_name = sql("SELECT e.id FROM QRTZ_EXECUTE e WHERE e.payload = ?").bind("x");
    assert_ne!(scans(session.as_mut(), &by_name), Vec::<String>::new(), "a scan is not recognised as one");
}

/// The planned occurrences of a schedule's first generation, but for the last second.
fn stretch(schedule: ScheduleId) -> Stretch {
    Stretch { schedule, generation: 0, before: START + ROWS * 1_000 }
}

/// A schedule fires each second, and its last success is a while ago: what a handler asks reads what has been
/// left out since, not the ledger.
fn what_an_execution_covers_reads_what_is_left_out(database: &Database) {
    let (mut session, application) = (patient(database), super::application());
    let dialect = database.dialect();
    // No schedule has this id: others' ledgers are beside its own.
    let schedule = ScheduleId(-i64::from(NodeId::fresh().0.as_fields().0) - 2);
    for (origin, state) in [(0, "CASE WHEN n > 19900 THEN 'FAILED' ELSE 'SUCCEEDED' END"), (7, "'SUCCEEDED'")]
    {
        let numbers = numbers(dialect, 0);
        session
            .batch(&format!(
                "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, \
                 state, due_time, finished_time) SELECT '{application}', {}, 0, {origin}, \
                 {START} + n * 1000, 1, {state}, 0, 0 FROM ({numbers}) AS numbers",
                schedule.0
            ))
            .unwrap();
    }
    analyze(session.as_mut());
    let stretch = stretch(schedule);
    let success = START + 19_900_000;
    let mut found = session.rows(&covers::last_success(stretch)).unwrap();
    assert_eq!(found.pop().map(|mut row| row.instant().unwrap()), Some(success));
    let mut ends = session.rows(&covers::ends_after(stretch, Some(success), LeftOut::MOST)).unwrap();
    let mut end = ends.pop().unwrap();
    assert_eq!((end.text().unwrap().as_str(), end.text().unwrap().as_str()), ("FAILED", ""));
    assert_eq!(
        [end.int(), end.int(), end.int(), end.int()].map(Result::unwrap),
        [1, 1, 99, (success + 1_000).millis()]
    );
    let mut took = |after| {
        let begun = Instant::now();
        session.rows(&covers::last_success(stretch)).unwrap();
        session.rows(&covers::ends_after(stretch, Some(after), LeftOut::MOST)).unwrap();
        begun.elapsed()
    };
    let (few, many) = (took(success), took(START));
    let lately = LedgerPart { generation: 0, from: success, before: Timestamp::MAX };
    let failed = EndedSo { states: vec![ExecutionState::Failed], reason: None };
    println!("covers: database={dialect:?} left_out=99 took={few:?} left_out={ROWS} took={many:?}");
    for (name, statement, most) in [
        ("last success", covers::last_success(stretch), 1_000),
        ("left out", covers::ends_after(stretch, Some(success), LeftOut::MOST), 1_000),
        ("newest left out", covers::ends_after(stretch, None, 100), 1_000),
        ("all left out", covers::ends_after(stretch, None, LeftOut::MOST), 5 * ROWS),
        ("generation", covers::last_generation(dialect, schedule, 1), 1_000),
        ("what a rerun means", rerun::ended_in(schedule.0, lately, &failed, 1_001), 1_000),
        // All that was asked for by hand.
        ("earlier reruns", rerun::reruns_of(schedule.0, 0, (success, Timestamp::MAX)), 5 * ROWS),
        ("the last rerun", place::last_rerun(schedule, 0, success), 5 * ROWS),
    ] {
        let read = match dialect {
            Dialect::Sqlite => sought_by_time(session.as_mut(), &statement),
            _ => read(session.as_mut(), &statement),
        };
        assert!(read <= most, "{name} read {read} rows: {}", statement.text);
    }
}

/// SQLite does not tell how many rows it reads: 0 if each seek in the ledger names the schedule, and an
/// instant, a generation or an attempt after it.
fn sought_by_time(session: &mut dyn Session, statement: &Statement) -> i64 {
    let text = format!("EXPLAIN QUERY PLAN {}", statement.text);
    let rows = session.rows(&Statement { text, ..statement.clone() }).unwrap();
    let detail = |mut row: crate::store::sql::session::statement::Row| {
        (0..3).for_each(|_| drop(row.int()));
        row.text().unwrap()
    };
    let of_ledger = |line: &String| ["r", "l"].contains(&line.split_whitespace().nth(1).unwrap_or_default());
    let lines: Vec<String> = rows.into_iter().map(detail).filter(of_ledger).collect();
    let ends = ["scheduled_time<?)", "scheduled_time>? AND scheduled_time<?)", "attempt=?)", "generation<?)"];
    let sought = |line: &String| ends.iter().any(|end| line.contains(end));
    if !lines.is_empty() && lines.iter().all(sought) { 0 } else { 100_000 }
}

/// A million overdue rows of a job nobody runs would stop all others. Their questions count how many rows
/// they read.
fn the_rows_of_a_job_nobody_runs_are_not_read(database: &Database) {
    let (mut session, application) = (patient(database), super::application());
    (0..5).for_each(|n| fill(session.as_mut(), &application, "nobodys", n * ROWS));
    analyze(session.as_mut());
    let dialect = database.dialect();
    let late = START + 200_000_000;
    let shares = vec![Share::whole((0..50).map(|number| format!("job-{number}")).collect())];
    let query = PollQuery { shares, from: Timestamp::EPOCH, until: late, late, ..poll_of(&application) };
    let mut jobs = poll::jobs(session.as_mut(), &application).unwrap();
    let nobodys = jobs.remove("nobodys").unwrap();
    let ids: Vec<JobId> = jobs.values().copied().collect();
    let mut statements = vec![
        ("sections behind", poll::behind(&application, &(Timestamp::EPOCH..late))),
        ("overdue", section_rows(dialect, &query, &poll::sections(&ids, &(Timestamp::EPOCH..late))[..64])),
        ("look", poll::look(dialect, &query)),
    ];
    let parts = due::parts(&query, &jobs);
    statements.extend(polls(dialect, &query, &parts).into_iter().map(|statement| ("poll", statement)));
    let sections = poll::sections(&[nobodys], &(Timestamp::EPOCH..late));
    statements.push(("its own sections", section_rows(dialect, &query, &sections)));
    for (name, statement) in statements {
        let read = read(session.as_mut(), &statement);
        // A few for each of 51 jobs in 16 shards; beside them only the few jobs and nodes are read.
        assert!(read <= 4_000, "{name} read {read} rows: {}", statement.text);
    }
    let share = poll::section_rows(dialect, &application, &sections, 250, Payload::Small);
    let all = read(session.as_mut(), &share);
    assert!(
        all >= 2_000 || dialect == Dialect::Sqlite,
        "only {all} rows are counted where all are asked for"
    );
    if dialect == Dialect::Mysql {
        looking_for_misfires_reads_a_page(session.as_mut(), &application, late);
    }
}

/// Polls walked over all that waits, page by page: a million of a job nobody runs held up all others.
fn a_poll_leaves_other_jobs_queues_alone(database: &Database) {
    let (mut session, application) = (patient(database), super::application());
    let (dialect, origin) = (session.dialect(), HIGHEST_BY_HAND);
    let (numbers, token) = (numbers(dialect, 0), Token::fresh());
    for (job, state, most) in
        [("nobodys", "EXECUTING", ROWS), ("ours", "EXECUTING", 3), ("paused", "PAUSED", ROWS)]
    {
        for statement in [
            format!(
                "INSERT INTO QRTZ_JOB (application, job_class, state) \
                 VALUES ('{application}', '{job}', '{state}')"
            ),
            format!(
                "INSERT INTO QRTZ_EXECUTE (application, name, pid, job_type, state, shard, prev_fire_time, \
                 next_fire_time, payload) SELECT application, 'queue:{job}', id, 'QUEUE', 'COMPLETE', 0, -1, \
                 -1, '' FROM QRTZ_JOB WHERE application = '{application}' AND job_class = '{job}'"
            ),
            format!(
                "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, \
                 state, due_time, claim_token, payload) SELECT '{application}', e.id, 0, {origin} + n, \
                 {START}, 1, 'PENDING', {START} + n, '{token}', '1' FROM QRTZ_EXECUTE e, ({numbers}) AS \
                 numbers WHERE e.application = '{application}' AND e.name = 'queue:{job}' AND n <= {most}"
            ),
        ] {
            session.batch(&statement).unwrap();
        }
    }
    analyze(session.as_mut());
    let shares = vec![Share::whole(["ours", "paused"].map(str::to_owned).to_vec())];
    let until = START + 10 * ROWS;
    let first = PollQuery { shares, until, late: until, limit: 1_000, ..poll_of(&application) };
    let newest = PollQuery { page: Page { newest: true, ..Page::FIRST }, ..first.clone() };
    for query in [first, newest] {
        session.batch(dialect.begin()).unwrap();
        let before = runs_read(session.as_mut());
        let polled = poll::poll(session.as_mut(), &query, &Clock::default()).unwrap();
        let read = runs_read(session.as_mut()) - before;
        session.batch("COMMIT").unwrap();
        assert_eq!((polled.pendings.len(), polled.next), (3, None));
        assert_eq!(polled.earliest_pending, Some(START + 1));
        assert!(read < 500, "a poll read {read} rows");
    }
}

/// How many executions, on MariaDB rows, this transaction has read.
fn runs_read(session: &mut dyn Session) -> i64 {
    let read = sql("SELECT CAST(COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0) AS BIGINT) \
                    FROM pg_stat_xact_user_tables WHERE relid = CAST('qrtz_run' AS REGCLASS)");
    match session.dialect() {
        Dialect::Postgres => session.rows(&read).unwrap().remove(0).int().unwrap(),
        Dialect::Mysql => handler_reads(session),
        // It does not tell; a poll that reads others' executions comes to the end of its page.
        Dialect::Sqlite => 0,
    }
}

/// However many are overdue: a look that read them all would take longer than a call may.
fn looking_for_misfires_reads_a_page(session: &mut dyn Session, application: &str, before: Timestamp) {
    let policy = fixture::definition(application, "any").job.settings.policy;
    let jobs = vec![JobSpec::new("nobodys", policy)];
    node::register(session, &new_node(NodeId::fresh(), application, jobs, START)).unwrap();
    let application = application.to_owned();
    let mut sections = None;
    for _ in 0..3 {
        let query = OverdueQuery {
            application: application.clone(),
            from: Timestamp::EPOCH,
            before,
            sections,
            limit: 200,
        };
        let read = handler_reads(session);
        let page = poll::overdue(session, &query).unwrap();
        let read = handler_reads(session) - read;
        assert_eq!((page.entries.len(), page.next.len()), (192, 16));
        assert!(read <= 4_000, "a page of 200 read {read} rows");
        sections = Some(page.next);
    }
}

/// How many rows and index entries a question reads.
pub(super) fn read(session: &mut dyn Session, statement: &Statement) -> i64 {
    match session.dialect() {
        Dialect::Postgres => {
            let text = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {}", statement.text);
            let rows = session.rows(&Statement { text, ..statement.clone() }).unwrap();
            let lines: Vec<String> = rows.into_iter().map(|mut row| row.text().unwrap()).collect();
            let number = |line: &str, behind: &str| {
                let (_, rest) = line.split_once(behind)?;
                rest.split(|it: char| !it.is_ascii_digit()).next()?.parse::<i64>().ok()
            };
            let scanned = lines
                .iter()
                .filter(|line| line.contains("Scan using"))
                .filter_map(|line| Some(number(line, "rows=")?.max(1) * number(line, "loops=")?));
            let removed = lines.iter().filter_map(|line| number(line, "Rows Removed by Filter: "));
            scanned.sum::<i64>() + removed.sum::<i64>()
        }
        Dialect::Mysql => {
            let before = handler_reads(session);
            session.rows(statement).unwrap();
            handler_reads(session) - before
        }
        // It does not tell; by the plan each seek names the job.
        Dialect::Sqlite => {
            let text = format!("EXPLAIN QUERY PLAN {}", statement.text);
            let rows = session.rows(&Statement { text, ..statement.clone() }).unwrap();
            let detail = |mut row: crate::store::sql::session::statement::Row| {
                (0..3).for_each(|_| drop(row.int()));
                row.text().unwrap()
            };
            let of_schedules = |line: &String| line.split_whitespace().nth(1) == Some("e");
            let lines = rows.into_iter().map(detail).filter(of_schedules);
            let sought = |line: &String| {
                line.contains("QRTZ_EXECUTE_JOB_DUE (application=? AND pid=? AND shard=? AND next_fire_time")
                    || line.contains("sqlite_autoindex_QRTZ_EXECUTE_1 (application=? AND name=?)")
            };
            if lines.filter(|line| !sought(line)).count() == 0 { 0 } else { 100_000 }
        }
    }
}

fn handler_reads(session: &mut dyn Session) -> i64 {
    let status = sql("SELECT CAST(SUM(variable_value) AS SIGNED) FROM information_schema.session_status \
         WHERE variable_name IN ('HANDLER_READ_FIRST', 'HANDLER_READ_KEY', 'HANDLER_READ_NEXT', \
         'HANDLER_READ_PREV', 'HANDLER_READ_RND', 'HANDLER_ICP_ATTEMPTS')");
    session.rows(&status).unwrap().remove(0).int().unwrap()
}

/// Other groups' claims within the span of a rate may be many.
fn a_groups_bound_reads_that_group_alone(database: &Database) {
    let (mut session, application) = filled(database);
    let dialect = session.dialect();
    let (numbers, group) = (numbers(dialect, 0), name(dialect, "customer"));
    let job = format!("SELECT id FROM QRTZ_JOB WHERE application = '{application}' AND job_class = 'work'");
    let fill = format!(
        "INSERT INTO QRTZ_BOUNDED (job_id, group_key, execution_id, begin_time) \
         SELECT ({job}), {group}, n, {START} FROM ({numbers}) AS numbers"
    );
    session.batch(&fill).unwrap();
    analyze(session.as_mut());
    let job = session.rows(&sql(job)).unwrap().remove(0).int().unwrap();
    let noted = bounds::noted(dialect, JobId(job), Some(["customer-7", "customer-9"].into()));
    assert_eq!(session.rows(&noted).unwrap().len(), 2);
    let read = read(session.as_mut(), &noted);
    assert!(read < 50 || dialect == Dialect::Sqlite, "{read} rows: {}", noted.text);
}

/// However many others there are.
fn executions_are_found_by_tag_and_key_alone(database: &Database) {
    let (mut session, application) = filled(database);
    let (names, numbers) = (format!("'{application}', 'queue:work'"), numbers(session.dialect(), 0));
    let queue =
        format!("SELECT id FROM QRTZ_EXECUTE WHERE application = '{application}' AND name = 'queue:work'");
    let values = "'TOKEN', 0, 1, 1, 'SUCCEEDED', 1";
    for statement in [
        format!(
            "INSERT INTO QRTZ_EXECUTE (application, name, pid, job_type, state, shard, prev_fire_time, \
             next_fire_time, payload) SELECT {names}, id, 'QUEUE', 'COMPLETE', 0, -1, -1, '' FROM QRTZ_JOB \
             WHERE application = '{application}' AND job_class = 'work'"
        ),
        format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, claim_token, generation, scheduled_time, \
             attempt, state, due_time, origin) SELECT '{application}', id, {values}, 7 FROM QRTZ_EXECUTE \
             WHERE application = '{application}' AND name = 'queue:work'"
        ),
        format!("INSERT INTO QRTZ_TAG (tag, execute_id, origin) SELECT 'few', ({queue}), 7"),
        format!("INSERT INTO QRTZ_TAG (tag, execute_id, origin) SELECT 'theirs', ({queue}), 7"),
        format!(
            "INSERT INTO QRTZ_TAG (tag, execute_id, origin) SELECT 'theirs', 4000000000 + n, 7 \
             FROM ({numbers}) AS numbers"
        ),
        format!("INSERT INTO QRTZ_KEY (unique_key, execute_id, origin) SELECT 'k', ({queue}), 7"),
    ] {
        session.batch(&statement).unwrap();
    }
    analyze(session.as_mut());
    let open = [ExecutionState::Pending, ExecutionState::Claimed, ExecutionState::Running];
    let query = |tag: Option<&str>, key: Option<&str>, states: &[ExecutionState]| ExecutionQuery {
        application: Some(application.clone()),
        states: states.to_vec(),
        tag: tag.map(str::to_owned),
        key: key.map(str::to_owned),
        limit: 1_000,
        ..Default::default()
    };
    let after = Some(ListPlace { scheduled: Timestamp::MAX, id: i64::MAX });
    for (query, found) in [
        (query(Some("few"), None, &[]), 1),
        (ExecutionQuery { after, ..query(Some("few"), None, &[]) }, 1),
        // Other applications have many of it.
        (query(Some("theirs"), None, &[]), 1),
        (query(None, Some("k"), &[]), 1),
        (query(Some("few"), None, &[ExecutionState::Succeeded]), 1),
        (query(None, Some("k"), &open), 0),
        (ExecutionQuery { late: Some(Timestamp::at(1)), ..query(None, None, &[]) }, 0),
    ] {
        for statement in history::statements_for_test(session.as_mut(), &query) {
            assert_eq!(session.rows(&statement).unwrap().len(), found);
            assert_eq!(scans(session.as_mut(), &statement), Vec::<String>::new(), "{}", statement.text);
            let read = read(session.as_mut(), &statement);
            assert!(read < 100 || session.dialect() == Dialect::Sqlite, "{read} rows: {}", statement.text);
        }
    }
}

/// However many executions there are of the schedule, of the application, and before and behind.
fn a_page_of_a_list_reads_little_else(database: &Database) {
    let (mut session, application) = filled(database);
    let (dialect, first) = (session.dialect(), START + 1_000_000_000);
    let (numbers, group) = (numbers(dialect, 0), name(dialect, "g"));
    let schedule = "INSERT INTO QRTZ_EXECUTE (application, name, pid, state, payload) \
                    VALUES (?, 'listed', 0, 'COMPLETE', '')";
    session.execute(&sql(schedule).bind(application.as_str())).unwrap();
    let id = sql("SELECT id FROM QRTZ_EXECUTE WHERE application = ? AND name = 'listed'");
    let id = session.rows(&id.bind(application.as_str())).unwrap().remove(0).int().unwrap();
    session
        .batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, \
             cause, due_time, claim_token, group_key) SELECT '{application}', {id}, 0, {first} + n * 1000, \
             1, CASE WHEN n % 50 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END, \
             CASE WHEN n % 50 = 1 THEN 'retry' END, {first}, 'x', CASE WHEN n % 50 = 2 THEN {group} END \
             FROM ({numbers}) AS numbers"
        ))
        .unwrap();
    analyze(session.as_mut());
    let all = || ExecutionQuery { application: Some(application.clone()), limit: 50, ..Default::default() };
    let some = |text: &str| Some(text.to_owned());
    let at = |n: i64| Some(first + n * 1_000);
    let listed = ExecutionQuery { schedule: some("listed"), ..all() };
    for query in [
        all(),
        listed.clone(),
        ExecutionQuery { oldest: true, ..listed.clone() },
        ExecutionQuery { since: at(700), until: at(9_000), ..listed },
        ExecutionQuery { states: vec![ExecutionState::Failed], ..all() },
        ExecutionQuery { cause: some("retry"), ..all() },
        ExecutionQuery { group: some("g-7"), ..all() },
        ExecutionQuery { since: at(700), until: at(9_000), ..all() },
    ] {
        let (mut left, mut looked) = (50, 0);
        for statement in history::statements_for_test(session.as_mut(), &query) {
            if left > 0 {
                left -= session.rows(&statement).unwrap().len().min(left);
                looked += read(session.as_mut(), &statement);
            }
        }
        assert!(left == 0 || query.group.is_some(), "{query:?}");
        assert!(looked < 3_000 || dialect == Dialect::Sqlite, "{looked} rows: {query:?}");
    }
}

/// However many fire times lie before and behind: of all schedules, and of one that has a hundred triggers.
/// Each new count finds the execution that it names, and reads no other.
fn counts_read_their_executions_alone(session: &mut dyn Session) {
    let dialect = session.dialect();
    let first = single(session.rows(&sql("SELECT MIN(r.id) AS id FROM QRTZ_RUN r")).unwrap()).unwrap();
    for count in [1, 16] {
        let new = (0..count).map(|n| NewOutcomes {
            first: ExecutionId(first + n),
            hour: START,
            job: "work".into(),
            counts: OutcomeCounts::default(),
        });
        let insert = counted::insert(dialect, &new.collect::<Vec<_>>());
        assert_eq!(scans(session, &insert), [""; 0], "{}", insert.text);
        let read = if dialect == Dialect::Postgres { read(session, &insert) } else { 0 };
        assert!(read <= 3 * count, "{read} rows for {count}: {}", insert.text);
    }
}

fn a_short_range_of_the_ledger_is_read_alone(database: &Database) {
    let (mut session, application) = filled(database);
    let (dialect, first) = (session.dialect(), START + 50_000_000_000);
    let id = -i64::from(NodeId::fresh().0.as_fields().0) - 2;
    let numbers = numbers(dialect, 0);
    session
        .batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, \
             due_time, until_time) SELECT '{application}', CASE WHEN n % 2 = 0 THEN {id} ELSE {id} - 1 END, \
             n % 100, {first} + n * 1000, 1, \
             'SKIPPED', {first}, CASE WHEN n % 5000 = 0 THEN {first} + n * 1000 + 700 ELSE -1 END \
             FROM ({numbers}) AS numbers"
        ))
        .unwrap();
    analyze(session.as_mut());
    let (from, before) = (first + 5_000_300, first + 5_060_000);
    let range = LedgerRange { application: application.clone(), from, before, page: 20_000 };
    let mut query = LineQuery {
        by: LinesBy::FireTime,
        application,
        after: LinePlace::behind(ScheduleId(i64::MIN)),
        through: ScheduleId(i64::MAX),
        from,
        before,
        limit: 1_000,
    };
    for (schedule, rows, most) in [(None, 60, 500), (Some(id), 30, 1_500)] {
        if let Some(id) = schedule {
            (query.after, query.through) = (LinePlace::behind(ScheduleId(id - 1)), ScheduleId(id));
        }
        session.batch("BEGIN").unwrap();
        let before = runs_read(session.as_mut());
        let mut generation = schedule.map(|_| i64::MAX);
        while let Some(before) = generation {
            generation = covers::generation_before(session.as_mut(), ScheduleId(id), before).unwrap();
        }
        assert_eq!(ledger::lines_by(session.as_mut(), &range).unwrap(), LinesBy::FireTime);
        assert_eq!(ledger::lines(session.as_mut(), &query).unwrap().len(), rows);
        let read = runs_read(session.as_mut()) - before;
        session.batch("COMMIT").unwrap();
        assert!(read <= most, "{read} rows of {schedule:?}");
    }
    let all = LedgerRange { from: Timestamp::MIN, before: Timestamp::MAX, page: 100, ..range };
    assert_eq!(ledger::lines_by(session.as_mut(), &all).unwrap(), LinesBy::Key);
    let statements = [ledger::by_fire_time(dialect, &query), ledger::of_chain(&query, ScheduleId(id), 0)];
    for statement in statements.into_iter().filter(|_| dialect == Dialect::Sqlite) {
        assert_eq!(sought_by_time(session.as_mut(), &statement), 0, "{}", statement.text);
    }
}

/// However many schedules and executions there are.
fn a_page_of_payloads_reads_that_page_alone(database: &Database) {
    let (mut session, application) = filled(database);
    let dialect = database.dialect();
    let (numbers, token) = (numbers(dialect, 0), name(dialect, &application));
    let schedule = 2_000_000_000 + 100_000 * i64::from(std::process::id());
    session
        .batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, \
             due_time, claim_token) SELECT '{application}', {schedule} + n, 0, {START}, 1, 'PENDING', \
             {START} + n, {token} FROM ({numbers}) AS numbers"
        ))
        .unwrap();
    analyze(session.as_mut());
    let behind = format!("{application}-100");
    for statement in [
        waiting::schedules_page(dialect, &application, &behind, 50),
        waiting::executions_page(dialect, &application, 0, (START + 5_000, i64::MAX), 50),
    ] {
        assert_eq!(session.rows(&statement).unwrap().len(), 50);
        assert_eq!(scans(session.as_mut(), &statement), Vec::<String>::new(), "{}", statement.text);
        let read = read(session.as_mut(), &statement);
        assert!(read < 400 || dialect == Dialect::Sqlite, "{read} rows: {}", statement.text);
    }
}

/// However many schedules and executions there are; nor do they grow with them.
fn figures_do_not_read_the_ledger(database: &Database) {
    let (mut session, application) = filled(database);
    let dialect = database.dialect();
    let (numbers, token) = (numbers(dialect, 0), name(dialect, &application));
    let queue = 3_000_000_000 + 100_000 * i64::from(std::process::id());
    session
        .batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, \
             state, due_time, claim_token) SELECT '{application}', {queue}, 0, {HIGHEST_BY_HAND} + n, \
             {START}, 1, 'PENDING', {START} + n, {token} FROM ({numbers}) AS numbers"
        ))
        .unwrap();
    analyze(session.as_mut());
    let query = FiguresQuery { application, now: START + 1_000_000_000 };
    for statement in [
        figures::successes(&query),
        figures::planned(dialect, &query),
        figures::queues(dialect, &query),
        figures::enqueued(dialect, &query, queue),
    ] {
        session.rows(&statement).unwrap();
        assert_eq!(scans(session.as_mut(), &statement), Vec::<String>::new(), "{}", statement.text);
    }
    let all = figures::figures(session.as_mut(), &query).unwrap();
    let active: i64 = all.schedules.iter().map(|alike| alike.schedules).sum();
    assert_eq!((all.successes.len(), all.left_out), (1_000, active - 1_000));
    assert!(active >= ROWS);
}

/// However many schedules have an expectation, and however long their ledgers are.
fn what_was_expected_is_found_by_index(database: &Database) {
    let (mut session, application) = filled(database);
    session
        .batch(&format!(
            "INSERT INTO QRTZ_EXPECTED (id, application) SELECT e.id, e.application FROM QRTZ_EXECUTE e \
             WHERE e.application = '{application}' AND NOT EXISTS (SELECT 1 FROM QRTZ_EXPECTED x \
             WHERE x.id = e.id)"
        ))
        .unwrap();
    analyze(session.as_mut());
    let after = ScheduleId(i64::MIN);
    let query = ExpectedQuery { application, after, skip: 0, limit: 100, now: START + 1_000_000 };
    let of = Expecting {
        application: "nobody's".into(),
        id: ScheduleId(1),
        name: "1".into(),
        generation: 0,
        expected_by: 1,
        state: Some(ScheduleState::Active),
        is_contained: false,
        has_active_job: true,
        next: None,
        resumed: None,
        unmet: None,
    };
    for (statement, rows) in [
        (expected::page(&query), 100),
        (expected::page(&ExpectedQuery { skip: 50, ..query.clone() }), 100),
        (expected::newest(&of, START..query.now, 100), 1),
        (expected::by_hand(&of, START), 1),
        (expected::missed(&of, START - 1, query.now), 1),
    ] {
        assert_eq!(session.rows(&statement).unwrap().len(), rows, "{}", statement.text);
        assert_eq!(scans(session.as_mut(), &statement), Vec::<String>::new(), "{}", statement.text);
        let read = read(session.as_mut(), &statement);
        assert!(read < 1_000 || session.dialect() == Dialect::Sqlite, "{read} rows: {}", statement.text);
    }
}

/// Nine thousand attempts of each of three schedules have failed: one call asks about two of them, in steps.
fn what_never_succeeds_is_read_in_steps(database: &Database) {
    const FAILED: i64 = 9_000;
    let store = database.store();
    let (mut session, application) = (patient(database), super::application());
    let ids: Vec<ScheduleId> = (0..3)
        .map(|number| {
            let definition = fixture::definition(&application, &format!("schedule-{number}"));
            store.ensure(&Definition { expected_by: Some(1), ..definition }).unwrap();
            store.find(&application, &format!("schedule-{number}")).unwrap().unwrap().id
        })
        .collect();
    store.expect(&ids).unwrap();
    // Other tests store executions of the first generation of whichever schedules there are.
    session
        .batch(&format!("UPDATE QRTZ_EXECUTE SET generation = 1 WHERE application = '{application}'"))
        .unwrap();
    for ScheduleId(id) in &ids {
        let numbers = numbers(session.dialect(), 0);
        let token = name(session.dialect(), &application);
        session
            .batch(&format!(
                "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, \
                 due_time, finished_time, claim_token) \
                 SELECT '{application}', {id}, 1, {START} - n * 1000, 1, \
                 CASE WHEN n > {FAILED} THEN 'SUCCEEDED' ELSE 'FAILED' END, {START}, {START}, {token} \
                 FROM ({numbers}) AS numbers WHERE n <= {FAILED} + 1"
            ))
            .unwrap();
    }
    analyze(session.as_mut());
    let after = ScheduleId(i64::MIN);
    let query = ExpectedQuery { application, after, skip: 0, limit: 100, now: START };
    let first = store.expected(&query).unwrap();
    let unmet = |page: &ExpectedPage| -> Vec<(ScheduleId, Option<Timestamp>)> {
        page.found.iter().map(|it| (it.change.schedule, it.change.becomes)).collect()
    };
    let at = Some(START - FAILED * 1_000);
    assert_eq!((unmet(&first), first.next), (vec![(ids[0], at), (ids[1], at)], Some(ids[1])));
    let second = store.expected(&ExpectedQuery { after: ids[1], ..query.clone() }).unwrap();
    assert_eq!((unmet(&second), second.next), (vec![(ids[2], at)], None));
    // Of what is noted only the newest are looked at again and again.
    for found in first.found.iter().chain(&second.found) {
        assert!(store.note_expected(&query, found).unwrap().is_done());
    }
    let noted = store.expected(&query).unwrap();
    assert_eq!((unmet(&noted), noted.next), (vec![], None));
}

/// Among two million that wait, each took longer than a call may.
#[cfg(feature = "postgres")]
#[test]
fn executions_that_wait_are_read_only_if_asked_for() {
    use ExecutionState::{Claimed, Pending, Running};
    let (mut session, application) = (patient(&Database::postgres()), super::application());
    let (numbers, token) = (numbers(session.dialect(), 0), name(session.dialect(), &application));
    let (queue, origin) = (1_000_000_000 + i64::from(std::process::id()), HIGHEST_BY_HAND);
    session
        .batch(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, \
             state, due_time, claim_token) SELECT '{application}', {queue}, 0, {origin} + n, {START}, 1, \
             'PENDING', {START} + n, {token} FROM ({numbers}) AS numbers"
        ))
        .unwrap();
    analyze(session.as_mut());
    let query = |schedule: Option<&str>, states: &[ExecutionState]| ExecutionQuery {
        application: Some(application.clone()),
        schedule: schedule.map(str::to_owned),
        states: states.to_vec(),
        limit: 100,
        ..ExecutionQuery::default()
    };
    for query in [
        query(None, &[Claimed, Running]),
        query(Some("other"), &[Pending]),
        query(Some("other"), &[Pending, Running]),
    ] {
        for statement in history::statements_for_test(session.as_mut(), &query) {
            let read = read(session.as_mut(), &statement);
            // Other tests have claims.
            assert!(read < ROWS / 2, "{read} rows: {}", statement.text);
        }
    }
}

/// Bound as anything else than BIGINT, an id is compared row by row: every claim would read the whole table.
fn ids_are_bound_with_the_columns_own_type(database: &Database) {
    let mut session = database.session();
    let (question, expected) = match database.dialect() {
        Dialect::Postgres => ("SELECT CAST(pg_typeof(?) AS TEXT)", "bigint"),
        Dialect::Sqlite => ("SELECT typeof(?)", "integer"),
        // What a table made of it would hold.
        Dialect::Mysql => ("SELECT COLUMN_JSON(COLUMN_CREATE('id', ?))", "{\"id\":1}"),
    };
    let mut row = session.rows(&sql(question).bind(1_i64)).unwrap().remove(0);
    assert_eq!(row.text().unwrap(), expected);

    let claim = sql("").want(database.dialect(), &claim::want_for_test(&requests(1)));
    let start = change::statement_for_test(database.dialect(), &starts(1));
    if database.dialect() == Dialect::Mysql {
        // One text, whose parts have types of their own.
        for number in ["id", "prev_fire_time", "next_fire_time", "version"] {
            assert!(claim.text.contains(&format!("{number} BIGINT PATH")), "{}", claim.text);
        }
        assert!(start.text.contains("(id BIGINT PATH"), "{}", start.text);
    } else {
        let is_number = |bind: &Value| matches!(bind, Value::Int(_) | Value::Ints(_));
        let texts = claim.binds.iter().filter(|bind| !is_number(bind)).count();
        assert_eq!((texts, claim.binds.len()), (3, 10), "state, node and token are texts: {claim:?}");
        let starts_texts = start.binds.iter().filter(|bind| !is_number(bind)).count();
        assert_eq!((starts_texts, start.binds.len()), (2, 4), "state and token are: {start:?}");
    }
    the_hot_path_never_scans(database);
}

/// Keeps `BatchRows` and `update` honest for a table without rows to match.
fn a_padded_batch_matches_only_its_rows(database: &Database) {
    let mut session = database.session();
    let application = super::application();
    for id in 0..3 {
        let insert = sql("INSERT INTO QRTZ_APP (application, time_pre) VALUES (?, ?)");
        session
            .execute(&insert.bind(format!("{application}-{id}")).bind(9_000_000_000_000_i64 + id))
            .unwrap();
    }
    let want = BatchRows::new((0..3).map(|id| 9_000_000_000_000 + id))
        .texts("name", (0..3).map(|id| format!("{application}-{id}")));
    let condition = "a.time_pre = w.id AND a.application = w.name";
    let changed = update(database.dialect(), ("QRTZ_APP", "a"), &[("time_next", "7")], &want, condition);
    assert_eq!(session.execute(&changed).unwrap(), 3);
    assert_eq!(session.execute(&changed).unwrap(), 3, "matched rows are counted, changed or not");
}

/// The plan a prepared statement keeps, made when its tables were empty: what of it reads a table other than
/// by what is wanted. Where a table seems to have no rows, one look at all of them costs no more than a look
/// by index.
#[cfg(feature = "postgres")]
#[test]
fn a_plan_made_over_empty_tables_still_finds_rows_by_index() {
    let mut session = Database::postgres().session();
    for table in ["qrtz_execute", "qrtz_run", "qrtz_claim"] {
        session.batch(&format!("CREATE TEMP TABLE {table} (LIKE public.{table} INCLUDING ALL)")).unwrap();
    }
    session.batch("SET plan_cache_mode = force_generic_plan; SET jit_above_cost = 0").unwrap();
    let requests = requests(3);
    let want = claim::want_for_test(&requests);
    let tokens = ["a", "b", "c"].map(str::to_owned).into_iter();
    let pending = BatchRows::new(1..=3).texts("claim_token", tokens).same("state", "PENDING");
    let (application, after) = (super::application(), ScheduleId(0));
    let query = poll_of(&application);
    let broken = UnreadableQuery {
        application: application.clone(),
        after,
        step: 1_000,
        from: Timestamp::EPOCH,
        before: START,
        limit: 200,
        ahead: None,
    };
    let by_id = [
        claims::claim_waiting(&want, false),
        claims::claim_skipping(&want, false),
        claim::free_rows(Dialect::Postgres, &pending),
        planned::move_cursors(Dialect::Postgres, &want),
        change::statement_for_test(Dialect::Postgres, &starts(3)),
        change::statement_for_test(Dialect::Postgres, &outcomes(1)),
        next_attempts(3),
    ];
    let jobs = std::collections::HashMap::from([("work".to_owned(), JobId(1))]);
    let parts = due::parts(&query, &jobs);
    let stalled = poll::behind(&application, &(Timestamp::EPOCH..START));
    let with_slots = [claims::claim_waiting(&want, true), claims::claim_skipping(&want, true)];
    let others = [poll::look(Dialect::Postgres, &query), unreadable::suspects(Dialect::Postgres, &broken)]
        .into_iter()
        .chain([
            node::live(Dialect::Postgres, &application, NodeId::fresh()),
            Dialect::Postgres.database().open_executions(&application, Whose::Node(NodeId::fresh())),
            Dialect::Postgres.database().open_executions(&application, Whose::Nobody),
            ended(&application, Whose::Node(NodeId::fresh())),
            ended(&application, Whose::Nobody),
            covers::last_success(stretch(ScheduleId(1))),
            covers::ends_after(stretch(ScheduleId(1)), None, LeftOut::MOST),
            covers::last_generation(Dialect::Postgres, ScheduleId(1), 1),
            place::last_through(ScheduleId(1), 0, START),
            place::first_times(ScheduleId(1), 0, &(Timestamp::EPOCH..START), 51),
        ])
        .chain(polls(Dialect::Postgres, &query, &parts))
        .chain([poll::waiting_rows(Dialect::Postgres, &query, &parts, &queues()), stalled])
        .chain(with_slots);
    let by_id = by_id.into_iter().map(|it| (it, "Index Cond: ((id >= "));
    let all: Vec<_> = by_id.chain(others.map(|it| (it, "Index Cond: "))).collect();
    let mut by_instant = 0;
    // Empty tables, empty tables with statistics, and a ledger swollen by the dead rows of two updates.
    let large = format!(
        "INSERT INTO qrtz_run (application, execute_id, generation, origin, scheduled_time, attempt, state, \
         due_time, claim_token, node) SELECT '{application}', 1, 0, n, n, 1, 'SUCCEEDED', n, \
         CAST(gen_random_uuid() AS TEXT), 'node' FROM generate_series(1, 50000) AS n; \
         UPDATE qrtz_run SET state = 'FAILED', node = 'other'; UPDATE qrtz_run SET state = 'SUCCEEDED', \
         node = 'node'; ANALYZE qrtz_run"
    );
    let analyzed = ["SELECT 1", "ANALYZE qrtz_execute; ANALYZE qrtz_run; ANALYZE qrtz_claim", &large];
    let each =
        analyzed.iter().flat_map(|batch| all.iter().enumerate().map(move |(n, it)| (batch, n == 0, it)));
    for (batch, is_first, (statement, condition)) in each {
        session.batch(if is_first { batch } else { "SELECT 1" }).unwrap();
        let plan = kept_plan(session.as_mut(), statement);
        assert!(!plan.contains("JIT"), "in a large table it would be compiled at each execution\n{plan}");
        let reads = |node: &&str| {
            node.contains("Scan") && (node.contains(" on qrtz_execute") || node.contains(" on qrtz_run"))
        };
        for node in plan.split("->").filter(reads) {
            assert!(node.contains(*condition), "{}\n{plan}", statement.text);
            // By the instant too, or all that there is would be read for the little that is due.
            let sought = node.lines().find(|line| line.contains("Index Cond")).unwrap_or_default();
            if node.contains(" using qrtz_execute_application_pid_shard_next_fire_time_id_idx ") {
                // By the job and the shard too, or others' rows would be read.
                let conditions = ["next_fire_time <", "(pid = ", "(shard = "];
                let sought_by = |it: &&str| sought.contains(*it);
                assert!(conditions.iter().all(sought_by), "{}\n{plan}", statement.text);
                by_instant += 1;
            }
        }
    }
    assert!(by_instant >= 3, "the index that polls read is used by {by_instant}");
}

#[cfg(feature = "postgres")]
fn kept_plan(session: &mut dyn Session, statement: &Statement) -> String {
    let kind = |bind: &Value| match bind {
        Value::Int(_) | Value::NoNumber => "bigint",
        Value::Ints(_) => "bigint[]",
        Value::Texts(_) => "text[]",
        Value::Text(_) | Value::Null => "text",
    };
    let kinds: Vec<&str> = statement.binds.iter().map(kind).collect();
    let mut pieces = statement.text.split('?');
    let first = pieces.next().unwrap_or_default().to_owned();
    let numbered =
        pieces.enumerate().fold(first, |text, (index, piece)| format!("{text}${}{piece}", index + 1));
    session.batch(&format!("PREPARE kept ({}) AS {numbered}", kinds.join(", "))).unwrap();
    let nulls = vec!["NULL"; kinds.len()].join(", ");
    let rows = session.rows(&sql(format!("EXPLAIN EXECUTE kept ({nulls})"))).unwrap();
    session.batch("DEALLOCATE kept").unwrap();
    rows.into_iter().map(|mut row| row.text().unwrap() + "\n").collect()
}

macro_rules! plans {
    ($database:ident, $feature:literal, $make:expr) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn a_groups_bound_reads_that_group_alone() {
                super::a_groups_bound_reads_that_group_alone(&$make);
            }

            #[test]
            fn a_poll_leaves_other_jobs_queues_alone() {
                super::a_poll_leaves_other_jobs_queues_alone(&$make);
            }

            #[test]
            fn a_page_of_payloads_reads_that_page_alone() {
                super::a_page_of_payloads_reads_that_page_alone(&$make);
            }

            #[test]
            fn figures_do_not_read_the_ledger() {
                super::figures_do_not_read_the_ledger(&$make);
            }

            #[test]
            fn a_short_range_of_the_ledger_is_read_alone() {
                super::a_short_range_of_the_ledger_is_read_alone(&$make);
            }

            #[test]
            fn a_page_of_a_list_reads_little_else() {
                super::a_page_of_a_list_reads_little_else(&$make);
            }

            #[test]
            fn executions_are_found_by_tag_and_key_alone() {
                super::executions_are_found_by_tag_and_key_alone(&$make);
            }

            #[test]
            fn what_was_expected_is_found_by_index() {
                super::what_was_expected_is_found_by_index(&$make);
            }

            #[test]
            fn what_never_succeeds_is_read_in_steps() {
                super::what_never_succeeds_is_read_in_steps(&$make);
            }

            #[test]
            fn ids_are_bound_with_the_columns_own_type() {
                super::ids_are_bound_with_the_columns_own_type(&$make);
            }

            #[test]
            fn the_rows_of_a_job_nobody_runs_are_not_read() {
                super::the_rows_of_a_job_nobody_runs_are_not_read(&$make);
            }

            #[test]
            fn what_an_execution_covers_reads_what_is_left_out() {
                super::what_an_execution_covers_reads_what_is_left_out(&$make);
            }

            #[test]
            fn a_padded_batch_matches_only_its_rows() {
                super::a_padded_batch_matches_only_its_rows(&$make);
            }
        }
    };
}

plans!(sqlite, "sqlite", Database::sqlite());
plans!(postgres, "postgres", Database::postgres());
plans!(mariadb, "mysql", Database::mariadb());

/// Joined in a loop, four thousand schedules and as many executions took longer than a call may.
#[cfg(feature = "postgres")]
#[test]
fn what_gives_way_to_a_page_of_repairs_is_found_by_a_hash() {
    let (mut session, application) = filled(&Database::postgres());
    let question = poll::unstarted_of(Dialect::Postgres, &application, (1..=4_000).collect());
    let text = format!("EXPLAIN {}", question.text);
    let rows = session.rows(&Statement { text, ..question }).unwrap();
    let plan: Vec<String> = rows.into_iter().map(|mut row| row.text().unwrap()).collect();
    assert!(plan.iter().any(|line| line.contains("hashed SubPlan")), "{plan:#?}");
    assert!(!plan.iter().any(|line| line.contains("Nested Loop")), "{plan:#?}");
}

//! What an execution costs, counted: statements, allocations, and what PostgreSQL writes to its log. Whoever
//! makes it dearer hears of it here; docs/performance.md says what it was.

use std::sync::Arc;

use allocation_counter::measure;

use super::count;
use super::fixture::{AT, Database, LIMITS, application, definition, request, schedules};
use crate::domain::{Answer, Cursor, Entry, JobPolicy, JobSpec, NextFire, NodeId};
use crate::fixtures::new_node;
use crate::store::audit::{Attribution, AuditEntry};
use crate::store::sql::SqlStore;
use crate::store::sql::session::statement::{single, sql};
use crate::store::sync::SyncOrder;
use crate::store::{
    Author, Change, Claim, ClaimRequest, Claimed, Definition, Ensured, Move, RemoveChange, Repair, Store,
    Verbs,
};
use crate::time::Clock;
use crate::trigger::{Simple, Trigger};

/// In one batch on every database.
const EXECUTIONS: usize = 200;

fn requests(entries: &[Arc<Entry>]) -> Vec<ClaimRequest> {
    let node = NodeId::fresh();
    entries.iter().map(|entry| request(entry, node)).collect()
}

fn outcomes(claims: Vec<Claim>) -> Vec<Change> {
    let outcome = |claim| match claim {
        Claim::Won(mut claimed) => {
            claimed.begin(AT);
            Claimed::finish(claimed, Answer::Done, None, AT + 10).into()
        }
        other => panic!("{other:?}"),
    };
    claims.into_iter().map(outcome).collect()
}

/// The statements of a call, and its allocations per execution.
fn counted<T>(call: impl FnOnce() -> T) -> (T, (usize, u64)) {
    let (before, mut answer) = (count::statements(), None);
    let allocated = measure(|| answer = Some(call()));
    let cost = (count::statements() - before, allocated.count_total / EXECUTIONS as u64);
    (answer.unwrap(), cost)
}

/// A batch of claims, and of outcomes: at most so many statements, and so many allocations for each of it.
fn a_batch_costs(database: &Database, claims: (usize, u64), settlements: (usize, u64)) {
    count::begin();
    let limits = crate::store::StoreLimits { connections: 1, ..LIMITS };
    let store = SqlStore::open(&database.url, limits, Arc::new(Clock::default())).unwrap();
    let entries = schedules(&store, &application(), 4 * EXECUTIONS);
    // The first prepares its statements, and any may meet a lock of the tests beside this one and be tried
    // again.
    let mut least = [(usize::MAX, u64::MAX); 2];
    for batch in entries.chunks(EXECUTIONS) {
        let requests = requests(batch);
        let (won, claiming) = counted(|| store.claim(&requests).unwrap());
        let outcomes = outcomes(won);
        let (_, settling) = counted(|| store.apply(&outcomes).unwrap());
        least = [least[0].min(claiming), least[1].min(settling)];
    }
    println!("costs: claims={:?} outcomes={:?} (statements, allocations for each)", least[0], least[1]);
    for (cost, bound) in least.into_iter().zip([claims, settlements]) {
        assert!(cost.0 == bound.0 && cost.1 <= bound.1, "{cost:?}, not {bound:?}");
    }
}

/// However many handlers it has: a round trip for each job kept nodes far from their database from joining.
fn a_node_joins_in_a_few_statements(database: &Database) {
    const JOBS: usize = 300;
    count::begin();
    let limits = crate::store::StoreLimits { connections: 1, ..LIMITS };
    let store = SqlStore::open(&database.url, limits, Arc::new(Clock::default())).unwrap();
    let (app, spec) = (application(), definition("", "").job);
    let policy = |max_attempts| JobPolicy { max_attempts, ..spec.settings.policy };
    let join = |jobs: usize, tries: u32| {
        let job = |n| JobSpec::new(&format!("job {n}"), policy(tries));
        let jobs = (0..jobs).map(job).collect();
        let node = new_node(NodeId::fresh(), &app, jobs, AT);
        let before = count::statements();
        store.register(&node).unwrap();
        count::statements() - before
    };
    let of_one = [join(1, 1), join(1, 1), join(1, 2)];
    // SQLite takes two batches, and each begins again.
    let of_many = [join(JOBS, 2), join(JOBS, 2), join(JOBS, 3)];
    println!("costs: a node joins by {of_one:?} statements with one job, {of_many:?} with {JOBS}");
    assert!(of_many.into_iter().all(|statements| statements <= 14), "{of_many:?}");
    let question = sql("SELECT COUNT(*) FROM QRTZ_JOB WHERE application = ? AND max_attempts = 3");
    let rows = database.session().rows(&question.bind(app.as_str())).unwrap();
    assert_eq!(single(rows).unwrap(), i64::try_from(JOBS).unwrap());
}

/// Edits and removals that withdraw nothing pay nothing for those that do.
fn what_is_not_due_costs_no_statement(database: &Database) {
    count::begin();
    let limits = crate::store::StoreLimits { connections: 1, ..LIMITS };
    let store = SqlStore::open(&database.url, limits, Arc::new(Clock::default())).unwrap();
    let mut session = database.session();
    let mut cost = |is_due: bool, verb: &dyn Fn(&str, &Entry)| {
        let app = application();
        let mut of_one = |entry: &Arc<Entry>| {
            let next = if is_due { AT - 900_000_000_000 } else { AT };
            let set = sql("UPDATE QRTZ_EXECUTE SET next_fire_time = ? WHERE id = ?");
            session.execute(&set.bind(next).bind(entry.id.0)).unwrap();
            let before = count::statements();
            verb(&app, entry);
            count::statements() - before
        };
        // The first prepares its statements, and any may meet a lock of the tests beside this one.
        schedules(&store, &app, 6).iter().map(&mut of_one).min().unwrap()
    };
    let changed = |definition: &Definition| assert_eq!(store.ensure(definition).unwrap(), Ensured::Changed);
    let settings = |app: &str, entry: &Entry| {
        changed(&Definition { priority: 7, ..definition(app, &entry.name) });
    };
    let trigger = |app: &str, entry: &Entry| {
        let trigger = Trigger::Simple(Simple::new(Some(AT.millis()), 2_000, -1).unwrap());
        changed(&Definition { trigger, ..definition(app, &entry.name) });
    };
    let removal = |app: &str, entry: &Entry| {
        let seen = store.seen(app, &entry.name).unwrap().unwrap();
        let (application, now) = (app.to_owned(), AT - 1);
        let change = RemoveChange { application, seen, reason: String::new(), now };
        let audit = AuditEntry::of_schedule("remove", (app, &entry.name), ("", ""), &Attribution::default());
        assert!(store.apply_audited(Change::Remove(change), &audit).unwrap().is_done());
    };
    let [edits, removals] =
        [&trigger as &dyn Fn(&str, &Entry), &removal].map(|verb| [cost(false, verb), cost(true, verb)]);
    println!(
        "costs: statements of edits {edits:?}, of removals {removals:?}, if nothing is due, and if it is"
    );
    let of_settings = cost(true, &settings);
    assert_eq!(edits[0] - of_settings, 2, "the trigger's history: one period ends and another begins");
    // The row; of a removal, the trigger too; and where an INSERT does not tell its id, that of the audit.
    let more = if database.dialect().returns_inserted_rows() { [1, 2] } else { [2, 3] };
    assert_eq!([edits[1] - edits[0], removals[1] - removals[0]], more);
}

/// The history of their triggers is two statements for a batch, not for each schedule.
fn many_planned_anew_cost_what_one_does(database: &Database) {
    const MANY: usize = 50;
    count::begin();
    let limits = crate::store::StoreLimits { connections: 1, ..LIMITS };
    let store = SqlStore::open(&database.url, limits, Arc::new(Clock::default())).unwrap();
    let app = application();
    let entries = schedules(&store, &app, 3 * (1 + MANY));
    let to = Cursor { prev: None, next: NextFire::At(AT + 1_000) };
    let anew =
        |entry: &Arc<Entry>| Change::Repair(Repair { how: Move::Anew, ..Repair::of(entry, to, 0, AT) });
    let mut cost = |entries: &[Arc<Entry>]| {
        let changes: Vec<Change> = entries.iter().map(anew).collect();
        let before = count::statements();
        assert!(store.apply(&changes).unwrap().iter().all(|applied| applied.is_done()));
        count::statements() - before
    };
    // The first prepares its statements, and any may meet a lock of the tests beside this one.
    let (ones, many) = entries.split_at(3);
    let of_one = ones.chunks(1).map(&mut cost).min();
    let of_many = many.chunks(MANY).map(&mut cost).min();
    println!("costs: one is planned anew by {of_one:?} statements, {MANY} by {of_many:?}");
    // Many rows are locked by a statement of their own.
    assert!(of_many <= of_one.map(|of_one| of_one + 1), "{of_one:?}, {of_many:?}");
    let noted = sql("SELECT COUNT(*) FROM QRTZ_TRIGGER t JOIN QRTZ_EXECUTE e ON e.id = t.execute_id \
                     WHERE e.application = ? AND (t.generation = 0 AND t.ended_time = ? \
                     OR t.generation = 1 AND t.begun_time = ? AND t.ended_time = -1)");
    let noted = noted.bind_all((app.as_str(), AT, AT));
    let noted = single(database.session().rows(&noted).unwrap()).unwrap();
    assert_eq!(noted, 2 * i64::try_from(entries.len()).unwrap());
}

/// However many schedules it lists: the revision, the clock and the owner's rows are read, each once.
fn an_equal_sync_reads_three_times(database: &Database) {
    const SCHEDULES: usize = 300;
    count::begin();
    let limits = crate::store::StoreLimits { connections: 1, ..LIMITS };
    let store = SqlStore::open(&database.url, limits, Arc::new(Clock::default())).unwrap();
    let app = application();
    let author = Author::Owner("billing".to_owned());
    let listed = |n| Definition { author: author.clone(), ..definition(&app, &format!("s{n}")) };
    let order = SyncOrder {
        application: app.clone(),
        owner: "billing".to_owned(),
        revision: 1,
        definitions: (0..SCHEDULES).map(listed).collect(),
        adopts: false,
        by: Attribution::default(),
    };
    let sync = || {
        let before = count::statements();
        let answer = store.sync(&order).unwrap();
        assert_eq!(answer.schedules.len(), SCHEDULES);
        count::statements() - before
    };
    let (first, again) = (sync(), sync().min(sync()));
    println!("costs: a sync of {SCHEDULES} schedules takes {first} statements at first, and {again} then");
    assert_eq!(again, 3);
}

#[cfg(feature = "sqlite")]
mod sqlite {
    #[test]
    fn what_is_not_due_costs_no_statement() {
        super::what_is_not_due_costs_no_statement(&super::Database::sqlite());
    }

    #[test]
    fn an_equal_sync_reads_three_times() {
        super::an_equal_sync_reads_three_times(&super::Database::sqlite());
    }

    #[test]
    fn many_planned_anew_cost_what_one_does() {
        super::many_planned_anew_cost_what_one_does(&super::Database::sqlite());
    }

    #[test]
    fn a_node_joins_in_a_few_statements() {
        super::a_node_joins_in_a_few_statements(&super::Database::sqlite());
    }

    #[test]
    fn a_batch_costs_so_much() {
        super::a_batch_costs(&super::Database::sqlite(), (4, 10), (4, 4));
    }
}

#[cfg(feature = "mysql")]
mod mariadb {
    #[test]
    fn what_is_not_due_costs_no_statement() {
        super::what_is_not_due_costs_no_statement(&super::Database::mariadb());
    }

    #[test]
    fn an_equal_sync_reads_three_times() {
        super::an_equal_sync_reads_three_times(&super::Database::mariadb());
    }

    #[test]
    fn many_planned_anew_cost_what_one_does() {
        super::many_planned_anew_cost_what_one_does(&super::Database::mariadb());
    }

    #[test]
    fn a_node_joins_in_a_few_statements() {
        super::a_node_joins_in_a_few_statements(&super::Database::mariadb());
    }

    #[test]
    fn a_batch_costs_so_much() {
        super::a_batch_costs(&super::Database::mariadb(), (3, 6), (4, 2));
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::store::sql::dialect::Dialect;
    use crate::store::sql::dialect::postgres::claims;
    use crate::store::sql::session::Session;
    use crate::store::sql::session::statement::Statement;
    use crate::store::sql::{change, claim};

    #[test]
    fn what_is_not_due_costs_no_statement() {
        super::what_is_not_due_costs_no_statement(&Database::postgres());
    }

    #[test]
    fn an_equal_sync_reads_three_times() {
        super::an_equal_sync_reads_three_times(&Database::postgres());
    }

    #[test]
    fn many_planned_anew_cost_what_one_does() {
        super::many_planned_anew_cost_what_one_does(&Database::postgres());
    }

    #[test]
    fn a_node_joins_in_a_few_statements() {
        super::a_node_joins_in_a_few_statements(&Database::postgres());
    }

    #[test]
    fn a_batch_costs_so_much() {
        a_batch_costs(&Database::postgres(), (1, 5), (4, 2));
    }

    /// Bytes of the log for each execution; `None` if whole pages were written, as after a checkpoint.
    fn written(session: &mut dyn Session, statement: Statement) -> Option<usize> {
        let text = format!("EXPLAIN (ANALYZE, WAL, COSTS OFF, TIMING OFF) {}", statement.text);
        let rows = session.rows(&Statement { text, ..statement }).unwrap();
        let lines: Vec<String> = rows.into_iter().map(|mut row| row.text().unwrap()).collect();
        let bytes =
            |line: &String| Some(line.split_once("WAL: ")?.1.split_once("bytes=")?.1.parse().unwrap());
        let most: usize = lines.iter().filter_map(bytes).max().expect("a statement that writes");
        (!lines.iter().any(|line| line.contains("fpi="))).then_some(most / EXECUTIONS)
    }

    #[test]
    fn an_execution_writes_so_much_to_the_log() {
        let (database, node) = (Database::postgres(), NodeId::fresh());
        let store = database.store();
        let mut session = database.session();
        // Other tests on the server add to it now and then: the least of five counts.
        let costs = (0..5).filter_map(|_| {
            let entries = schedules(store.as_ref(), &application(), 2 * EXECUTIONS);
            let (first, second) = entries.split_at(EXECUTIONS);
            let requests: Vec<ClaimRequest> = first.iter().map(|entry| request(entry, node)).collect();
            let claim =
                written(session.as_mut(), claims::claim_waiting(&claim::want_for_test(&requests), false));
            let requests: Vec<ClaimRequest> = second.iter().map(|entry| request(entry, node)).collect();
            let outcomes = outcomes(store.claim(&requests).unwrap());
            let outcome = change::statement_for_test(Dialect::Postgres, &outcomes);
            claim.zip(written(session.as_mut(), outcome))
        });
        let least = costs.reduce(|(claim, outcome), it| (claim.min(it.0), outcome.min(it.1)));
        let (claim, outcome) = least.expect("once of five times no checkpoint right before");
        println!("costs: wal_bytes claim={claim} outcome={outcome}");
        // Of a claim's bytes 66 are its entry in the index of fire times (ADR 65).
        assert!(claim <= 1_000 && outcome <= 250, "{claim} and {outcome} bytes");
    }
}

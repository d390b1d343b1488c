//! The roles of docs/deployments.md, each with the grants that the page has.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{
    Builder, Cancelled, Client, Enqueued, ErrorKind, Event, ExecutionFilter, ExecutionState, Job, Paused,
    Resumed, Retried, Retry, Schedule, Scheduler, Synced, Trigger, Triggered,
};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, SOON, listen, once_now, teller, until, wait_for};
use crate::trial;

const WORK: Job<u64> = Job::new("work").retry(Retry::fixed(Duration::ZERO).at_most(1));
const TEXT: Job<String> = Job::new("text");
const HOUR: i64 = 3_600_000;
/// A payload of `WORK`; 1 fails once.
const FAILS_TWICE: u64 = 2;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    if kind.name() == "sqlite" {
        return;
    }
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_role_without_ddl_runs_nodes_and_clients", a_role_without_ddl_runs_nodes_and_clients),
        ("a_role_without_ddl_repairs_and_purges", a_role_without_ddl_repairs_and_purges),
        ("a_role_without_ddl_says_who_is_to_migrate", a_role_without_ddl_says_who_is_to_migrate),
        ("who_only_looks_sees_all_and_changes_nothing", who_only_looks_sees_all_and_changes_nothing),
        ("who_writes_requests_can_do_nothing_else", who_writes_requests_can_do_nothing_else),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::roles::{name}", kind.name()), move || test(kind)));
    }
    if kind.name() == "postgres" {
        let name = "postgres::roles::a_role_without_sequences_names_who_can_move_them".to_owned();
        trials.push(trial(name, move || a_role_without_sequences_names_who_can_move_them(kind)));
    }
}

const PAGE: &str = include_str!("../../docs/deployments.md");

/// A database that its owner has migrated.
fn migrated(kind: ServerKind) -> Database {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    database
}

/// Runs the page's statements for `whom`; gives the database as the new role sees it.
fn granted(owners: &Database, whom: &str) -> Database {
    let server = if owners.kind.name() == "postgres" { "PostgreSQL" } else { "MariaDB" };
    let title = format!("-- {whom}, on {server}.\n");
    let block = PAGE.split("```sql\n").find_map(|block| block.strip_prefix(&*title)).unwrap();
    let name = owners.url.rsplit('/').next().unwrap();
    let statements = block.split("```").next().unwrap();
    owners.batch(&statements.replace("shop_", &format!("{name}_")).replace("shop.", &format!("{name}.")));
    let suffix = match whom {
        NODES => "node",
        WRITERS => "web",
        _ => "view",
    };
    owners.as_role(&format!("{name}_{suffix}"))
}

const NODES: &str = "Nodes, clients and the program";
const VIEWERS: &str = "Who only looks";
const WRITERS: &str = "Who writes requests";

fn builder(database: &Database) -> Builder {
    Scheduler::builder(APPLICATION, &database.url)
        .migrate(false)
        .poll_interval(Duration::from_millis(500))
        .misfire_interval(Duration::from_millis(500))
}

/// First in half an hour.
fn hourly(payload: u64) -> Schedule {
    let every = Trigger::every(Duration::from_secs(3_600)).unwrap();
    Schedule::new("hourly", WORK, &payload, every).unwrap().starting(Utc::now() + TimeDelta::minutes(30))
}

fn no_ddl(database: &Database) {
    for statement in [
        "CREATE TABLE other (id BIGINT)",
        "CREATE INDEX other ON QRTZ_RUN (node)",
        "ALTER TABLE QRTZ_RUN ADD COLUMN other BIGINT",
        "DROP TABLE QRTZ_TAG",
        "DROP VIEW qrtz_late",
        "TRUNCATE TABLE QRTZ_RUN",
        "UPDATE QRTZ_AUDIT SET actor = 'nobody'",
        "UPDATE QRTZ_SCHEMA SET version = 7",
    ] {
        assert!(database.try_batch(statement).is_err(), "{statement}");
    }
}

fn a_role_without_ddl_runs_nodes_and_clients(kind: ServerKind) {
    let owners = migrated(kind);
    let database = granted(&owners, NODES);
    no_ddl(&database);
    let (tell, told) = teller();
    let (builder, events) = listen(builder(&database).handler(TEXT, |_, _| Ok(())).handler(
        WORK,
        move |context: &firetime::Context, n: u64| {
            tell.lock().unwrap().send((n, context.attempt())).unwrap();
            let fails = context.attempt() < if n == FAILS_TWICE { 3 } else { 2 };
            if n < 3 && fails { Err("not yet".into()) } else { Ok(()) }
        },
    ));
    let node = builder.start().unwrap();
    if kind.name() == "postgres" {
        wait_for(&events, |event| matches!(event, Event::Listening).then_some(()));
    }
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    client.enqueue(WORK, &1).key("one").tag("first").run().unwrap();
    assert_eq!((told.recv_timeout(SOON), told.recv_timeout(SOON)), (Ok((1, 1)), Ok((1, 2))));
    client.ensure(&once_now("once", "text")).run().unwrap();
    wait_for(&events, |event| match event {
        Event::Finished { attempt, error: None, .. } => (&*attempt.schedule == "once").then_some(()),
        _ => None,
    });
    let Enqueued::Created(later) =
        client.enqueue(WORK, &4).key("two").tag("later").after(Duration::from_secs(3_600)).run().unwrap()
    else {
        panic!("it is the first with this key")
    };
    let filter = ExecutionFilter { tag: Some("later".to_owned()), ..ExecutionFilter::default() };
    assert_eq!(client.executions(&filter).unwrap().len(), 1);
    assert_eq!(client.cancel(later).run().unwrap(), Cancelled::Cancelled);
    client.enqueue(WORK, &FAILS_TWICE).run().unwrap();
    let failed = wait_for(&events, |event| match event {
        Event::Finished { attempt, error: Some(_), .. } => (attempt.number == 2).then_some(attempt.execution),
        _ => None,
    });
    let is_stored =
        || (client.execution(failed).unwrap().last().state == ExecutionState::Failed).then_some(());
    until("its failure is not stored", is_stored);
    assert!(matches!(client.retry(failed).run().unwrap(), Retried::Pending(_)));
    let attempts: Vec<(u64, u32)> = (0..3).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3].map(|attempt| (FAILS_TWICE, attempt)));
    client.ensure(&hourly(3)).run().unwrap();
    assert_eq!(client.pause("hourly").run().unwrap(), Paused::Paused);
    assert_eq!(client.resume("hourly").run().unwrap(), Resumed::Resumed);
    client.trigger("hourly").run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok((3, 1)));
    client.remove("hourly").run().unwrap();
    for (revision, schedules) in [(1, vec![hourly(4)]), (2, vec![hourly(5)]), (3, Vec::new())] {
        let synced = client.sync("billing", revision, &schedules).allow_empty().run().unwrap();
        assert!(matches!(synced, Synced::Changed(_)), "{synced:?}");
    }
    assert!(node.shutdown(SOON).is_clean());
}

/// What was missed while no node ran, and what is older than the retention.
fn a_role_without_ddl_repairs_and_purges(kind: ServerKind) {
    let owners = migrated(kind);
    let database = granted(&owners, NODES);
    let (tell, told) = teller();
    let run =
        move |context: &firetime::Context, n: u64| Ok(tell.lock().unwrap().send((n, context.fire_time()))?);
    let first = builder(&database).handler(WORK, run.clone()).start().unwrap();
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    client.enqueue(WORK, &1).key("one").tag("first").run().unwrap();
    told.recv_timeout(SOON).unwrap();
    let once = Trigger::once(Utc::now()).unwrap();
    client.ensure(&Schedule::new("once", WORK, &2, once).unwrap()).run().unwrap();
    told.recv_timeout(SOON).unwrap();
    assert!(first.shutdown(SOON).is_clean());
    client.ensure(&hourly(3)).run().unwrap();
    let day = 24 * HOUR;
    owners.batch(&format!(
        "UPDATE QRTZ_RUN SET scheduled_time = scheduled_time - {day}, due_time = due_time - {day}, \
         finished_time = finished_time - {day}; UPDATE QRTZ_NODE SET ended_time = ended_time - {day}; \
         UPDATE QRTZ_EXECUTE SET next_fire_time = next_fire_time - {} WHERE name = 'hourly'",
        2 * HOUR
    ));
    let (second, events) =
        listen(builder(&database).retention(Some(Duration::from_secs(3_600))).handler(WORK, run));
    // Up to date, there is nothing to migrate.
    let second = second.migrate(true).start().unwrap();
    let missed: (u64, DateTime<Utc>) = told.recv_timeout(SOON).unwrap();
    assert!(missed.0 == 3 && missed.1 < Utc::now(), "{missed:?}");
    let (mut is_purged, mut is_repaired) = (false, false);
    while !is_purged || !is_repaired {
        wait_for(&events, |event| match event {
            Event::Purged { occurrences: 1, nodes: 1, .. } => {
                is_purged = true;
                Some(())
            }
            Event::Repaired { schedule, .. } => {
                is_repaired = &**schedule == "hourly";
                Some(())
            }
            Event::StoreFailed { operation, error, .. } => panic!("{operation}: {error:#}"),
            Event::LeaveFailed { error, .. } => panic!("{error:#}"),
            _ => None,
        });
    }
    assert!(second.shutdown(SOON).is_clean());
}

fn a_role_without_ddl_says_who_is_to_migrate(kind: ServerKind) {
    let owners = migrated(kind);
    let database = granted(&owners, NODES);
    let refused = |migrate: bool| {
        let builder = builder(&database).migrate(migrate).handler(TEXT, |_, _| Ok(()));
        let error = builder.start().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        error.to_string()
    };
    owners.batch("UPDATE QRTZ_SCHEMA SET version = 7000, needs = 7000");
    assert!(
        refused(false).contains("use a newer firetime") && refused(true).contains("use a newer firetime")
    );
    owners.batch("DELETE FROM QRTZ_SCHEMA");
    let says_how = |message: &str| message.contains("run `firetime migrate`");
    assert!(says_how(&refused(false)), "{}", refused(false));
    let may_not = refused(true);
    assert!(may_not.contains("may not change the schema") && says_how(&may_not), "{may_not}");
    assert!(firetime::migrate(&database.url).unwrap_err().to_string().contains("may not change the schema"));
    // Whom the owner has granted nothing yet sees no tables.
    firetime::migrate(&owners.url).unwrap();
    let role = database.url.split("://").nth(1).unwrap().split(':').next().unwrap();
    owners.batch(&match kind.name() {
        "postgres" => format!("REVOKE USAGE ON SCHEMA public FROM {role}, PUBLIC"),
        _ => format!("REVOKE SELECT ON QRTZ_SCHEMA FROM {role}@'%'"),
    });
    assert!(refused(false).contains("grants of docs/deployments.md"), "{}", refused(false));
}

fn who_only_looks_sees_all_and_changes_nothing(kind: ServerKind) {
    let owners = migrated(kind);
    let owner = Client::connect(APPLICATION, &owners.url).unwrap();
    let node = builder(&owners).handler(WORK, |_, _| Ok(())).start().unwrap();
    owner.ensure(&hourly(1)).run().unwrap();
    let Triggered::Pending(id) = owner.trigger("hourly").run().unwrap() else { panic!("it is not paused") };
    let ended = || (owner.execution(id).unwrap().last().state == ExecutionState::Succeeded).then_some(());
    until("it does not run", ended);

    let database = granted(&owners, VIEWERS);
    no_ddl(&database);
    let viewer = Client::connect(APPLICATION, &database.url).unwrap();
    assert_eq!(viewer.schedules().unwrap().len(), 1);
    assert_eq!(viewer.schedule("hourly").unwrap().counts.len(), 1);
    assert_eq!((viewer.nodes().unwrap().len(), viewer.jobs().unwrap().len()), (1, 1));
    assert_eq!(viewer.applications().unwrap().len(), 1);
    let filter = ExecutionFilter { tag: Some("none".to_owned()), ..ExecutionFilter::default() };
    assert_eq!(viewer.executions(&filter).unwrap().len(), 0);
    assert_eq!(viewer.executions(&ExecutionFilter::default()).unwrap().len(), 1);
    viewer.execution(id).unwrap();
    assert_eq!(viewer.audit(&firetime::AuditFilter::default()).unwrap().len(), 2);
    let refused = |error: Option<firetime::Error>| {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(format!("{error:#}").to_lowercase().contains("denied"), "{error:#}");
    };
    refused(viewer.pause("hourly").run().err());
    refused(viewer.trigger("hourly").run().err());
    refused(viewer.remove("hourly").run().err());
    refused(viewer.enqueue(WORK, &2).run().err());
    refused(
        viewer
            .ensure(&Schedule::new("other", WORK, &1, Trigger::once(Utc::now()).unwrap()).unwrap())
            .run()
            .err(),
    );
    refused(builder(&database).handler(WORK, |_, _| Ok(())).start().err());
    #[cfg(feature = "cli")]
    programs_look(&database, &owner.nodes().unwrap()[0].id);
    assert!(node.shutdown(SOON).is_clean());
}

fn who_writes_requests_can_do_nothing_else(kind: ServerKind) {
    let owners = migrated(kind);
    let database = granted(&owners, WRITERS);
    no_ddl(&database);
    let arguments = r#"{"job": "work", "payload": 5}"#;
    let values = format!("VALUES ('{APPLICATION}', 'enqueue', '{arguments}')");
    database.batch(&format!("INSERT INTO QRTZ_REQUEST (application, verb, arguments) {values}"));
    if kind.name() == "postgres" {
        database.batch(&format!("SELECT firetime_enqueue('{APPLICATION}', 'work', payload => '5')"));
    }
    for statement in [
        "SELECT arguments FROM QRTZ_REQUEST",
        "UPDATE QRTZ_REQUEST SET state = 'DONE'",
        "DELETE FROM QRTZ_REQUEST",
        "INSERT INTO QRTZ_REQUEST (application, verb, arguments, actor) VALUES ('a', 'b', 'c', 'somebody')",
        "INSERT INTO QRTZ_REQUEST (application, verb, arguments, state) VALUES ('a', 'b', 'c', 'DONE')",
        "SELECT id FROM QRTZ_RUN",
    ] {
        assert!(database.try_batch(statement).is_err(), "{statement}");
    }
    let (tell, told) = teller();
    let run = move |_: &firetime::Context, n: u64| Ok(tell.lock().unwrap().send(n)?);
    let node = builder(&granted(&owners, NODES)).handler(WORK, run).start().unwrap();
    let expected = if kind.name() == "postgres" { 2 } else { 1 };
    assert!((0..expected).all(|_| told.recv_timeout(SOON) == Ok(5)));
    let role = format!("{}_web", owners.url.rsplit('/').next().unwrap());
    let by_role = format!("WHERE actor LIKE '{role}%'");
    assert_eq!(owners.count("QRTZ_REQUEST", &by_role), expected);
    assert!(node.shutdown(SOON).is_clean());
}

#[cfg(feature = "cli")]
fn programs_look(database: &Database, node: &str) {
    use std::process::Command;
    let says = |command: &mut Command, code: i32| {
        let output = command.env("FIRETIME_DATABASE_URL", &database.url).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    let firetime = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firetime"));
        command.args(["--application", APPLICATION]).args(arguments);
        command
    };
    for line in [
        &["schedules"][..],
        &["schedules", "show", "hourly"],
        &["executions"],
        &["nodes"],
        &["jobs"],
        &["apps"],
        &["check"],
    ] {
        says(&mut firetime(line), 0);
    }
    assert!(says(&mut firetime(&["audit"]), 0).contains("hourly"));
    let script = |name| Command::new(format!("{}/scripts/ops/{name}.sh", env!("CARGO_MANIFEST_DIR")));
    for name in ["claimed", "late", "failed"] {
        says(&mut script(name), 0);
    }
    let alone = says(script("safe-to-stop").arg(node), 3);
    assert!(alone.contains("no other node runs job"), "{alone}");
}

fn a_role_without_sequences_names_who_can_move_them(kind: ServerKind) {
    let owners = migrated(kind);
    let database = granted(&owners, NODES);
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let later = || client.enqueue(WORK, &1).after(Duration::from_secs(3_600)).run();
    (0..3).for_each(|_| assert!(matches!(later().unwrap(), Enqueued::Created(_))));
    owners.batch("SELECT setval(pg_get_serial_sequence('qrtz_run', 'id'), 1, false)");
    let error = later().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("let their owner move them with setval"), "{error}");
    let statements = PAGE.split("```sql\n").find(|block| block.starts_with("SELECT setval")).unwrap();
    owners.batch(statements.split("```").next().unwrap());
    later().unwrap();
    // Who owns the sequences need not be told.
    let owner = Client::connect(APPLICATION, &owners.url).unwrap();
    owner.ensure(&hourly(1)).run().unwrap();
    owners.batch("SELECT setval(pg_get_serial_sequence('qrtz_audit', 'id'), 1, false)");
    let error = owner.pause("hourly").run().unwrap_err();
    assert!(error.to_string().contains("have been moved on"), "{error}");
    assert_eq!(owner.pause("hourly").run().unwrap(), Paused::Paused);
}

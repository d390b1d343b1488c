//! Schedules that live in code: two releases, two owners, and an operator with the program.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use firetime::{
    AuditFilter, Client, Edited, Ensured, ErrorKind, ExecutionFilter, ExecutionState, Schedule,
    ScheduleField, ScheduleState, Synced, Trigger,
};
use libtest_mimic::Trial;

use crate::control::{Blocking, on_own_connection};
use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, SOON, TEXT, builder, client, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_release_that_starts_once_more_undoes_nothing", a_release_that_starts_once_more_undoes_nothing),
        ("servers_that_start_at_once_agree", servers_that_start_at_once_agree),
        ("what_an_operator_owns_survives_restarts", what_an_operator_owns_survives_restarts),
        ("a_running_cluster_follows_a_sync", a_running_cluster_follows_a_sync),
        ("a_sync_joins_the_callers_transaction", a_sync_joins_the_callers_transaction),
        ("an_open_sync_holds_back_only_what_it_changes", an_open_sync_holds_back_only_what_it_changes),
        #[cfg(feature = "cli")]
        ("the_program_tells_whose_a_field_is", program::the_program_tells_whose_a_field_is),
        #[cfg(feature = "cli")]
        ("the_program_says_beforehand_what_it_withdraws", program::it_says_beforehand_what_it_withdraws),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::synced::{name}", kind.name()), move || test(kind)));
    }
}

/// A schedule far ahead.
fn yearly(name: &str, hour: u32) -> Schedule {
    let trigger = Trigger::cron(&format!("0 0 {hour} 1 1 ? 2090-2099"), "UTC").unwrap();
    Schedule::new(name, TEXT, &name.to_owned(), trigger).unwrap()
}

/// A schedule that fires five times a second.
fn often(name: &str) -> Schedule {
    let every = Trigger::every(Duration::from_millis(200)).unwrap();
    Schedule::new(name, TEXT, &name.to_owned(), every).unwrap()
}

fn names(client: &Client) -> Vec<(String, String)> {
    client.schedules().unwrap().into_iter().map(|row| (row.name, row.owner.unwrap_or_default())).collect()
}

fn named(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(name, owner)| ((*name).to_owned(), (*owner).to_owned())).collect()
}

fn a_release_that_starts_once_more_undoes_nothing(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let older = [yearly("daily", 2), yearly("weekly", 3)];
    let newer = [yearly("daily", 4), yearly("monthly", 5)];
    client.sync("shop", 1, &[yearly("orders", 1)]).run().unwrap();
    assert_eq!(client.ensure(&yearly("by-hand", 1)).run().unwrap(), Ensured::Created);
    assert!(matches!(client.sync("billing", 41, &older).run().unwrap(), Synced::Changed(_)));
    let sync = client.sync("billing", 42, &newer);
    let plan = sync.plan().unwrap();
    assert!(plan.created().eq(["monthly"]) && plan.changed().eq(["daily"]) && plan.removed().eq(["weekly"]));
    assert_eq!(sync.actor("ci").reason("release 42").run().unwrap(), Synced::Changed(plan));
    let expected =
        named(&[("by-hand", ""), ("daily", "billing"), ("monthly", "billing"), ("orders", "shop")]);
    assert_eq!(names(&client), expected);
    let audit = client.audit(&AuditFilter::default()).unwrap();
    for _ in 0..2 {
        assert!(matches!(client.sync("billing", 41, &older).run().unwrap(), Synced::Stale { known: 42, .. }));
        assert_eq!(client.sync("billing", 42, &newer).run().unwrap(), Synced::Unchanged);
    }
    assert_eq!(client.audit(&AuditFilter::default()).unwrap(), audit, "nothing was written");
    assert!(audit.iter().take(3).all(|row| (&*row.actor, &*row.reason) == ("ci", "release 42")), "{audit:?}");
    // Back to the older release is another release.
    assert!(matches!(client.sync("billing", 43, &older).run().unwrap(), Synced::Changed(_)));
    let taken = client.sync("billing", 44, &[yearly("orders", 9)]).adopt().run().unwrap_err();
    assert!(taken.kind() == ErrorKind::Config && taken.to_string().contains("\"shop\""), "{taken}");
    let expected = named(&[("by-hand", ""), ("daily", "billing"), ("orders", "shop"), ("weekly", "billing")]);
    assert_eq!(names(&client), expected);
    assert_eq!(client.schedule("daily").unwrap().owned_by.unwrap().revision, 43);
    let adopted = client.sync("own", 1, &[yearly("by-hand", 1)]).adopt().run().unwrap();
    let Synced::Changed(plan) = adopted else { panic!("{adopted:?}") };
    assert!(plan.changed().eq(["by-hand"]));
}

/// Six servers, of two releases.
fn servers_that_start_at_once_agree(kind: ServerKind) {
    let database = kind.fresh();
    client(&database);
    let start = Barrier::new(6);
    let older: Vec<Schedule> = (0..20).map(|n| yearly(&format!("s{n}"), 1)).collect();
    let newer: Vec<Schedule> = (10..30).map(|n| yearly(&format!("s{n}"), 2)).collect();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let (start, older, newer, database) = (&start, &older, &newer, &database);
            scope.spawn(move || {
                let client = Client::connect(APPLICATION, &database.url).unwrap();
                let sync = || {
                    if n % 2 == 0 {
                        client.sync("billing", 1, older)
                    } else {
                        client.sync("billing", 2, newer)
                    }
                };
                start.wait();
                // Who starts beside five others may be told to try again.
                until("a sync that is made", || match sync().run() {
                    Err(error) if error.is_retryable() => None,
                    synced => Some(synced.unwrap()),
                });
            });
        }
    });
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let rows = client.schedules().unwrap();
    assert_eq!(rows.len(), 20, "{rows:?}");
    assert!(
        rows.iter().all(|row| row.owner.as_deref() == Some("billing") && row.trigger.contains("0 0 2 1 1")),
        "{rows:?}"
    );
    assert_eq!(client.sync("billing", 2, &newer).run().unwrap(), Synced::Unchanged);
}

fn what_an_operator_owns_survives_restarts(kind: ServerKind) {
    let database = kind.fresh();
    let client = client(&database);
    let listed = |hour| [yearly("daily", hour), yearly("weekly", 3)];
    client.sync("billing", 1, &listed(2)).run().unwrap();
    client.pause("weekly").reason("stock-taking").run().unwrap();
    let ann = client.clone().acting_as("ann");
    let Edited::Changed(plan) = ann.edit("daily").cron("0 0 9 1 1 ? 2090-2099").priority(7).run().unwrap()
    else {
        panic!("it was changed")
    };
    assert_eq!(plan.by_hand, [ScheduleField::Trigger, ScheduleField::Priority]);
    for revision in [1, 2] {
        client.sync("billing", revision, &listed(2 + revision as u32)).run().unwrap();
        let daily = client.schedule("daily").unwrap();
        assert_eq!((daily.priority, daily.schedule.trigger.contains("0 0 9 1 1")), (7, true), "{daily:?}");
        assert_eq!(client.schedule("weekly").unwrap().schedule.state, ScheduleState::Paused);
    }
    let daily = client.schedule("daily").unwrap();
    let edits: Vec<_> = daily.edits.iter().map(|edit| (edit.field, edit.actor.as_str())).collect();
    assert_eq!(edits, [(ScheduleField::Trigger, "ann"), (ScheduleField::Priority, "ann")]);
    client.edit("daily").give_back(ScheduleField::Trigger).run().unwrap();
    assert!(client.schedule("daily").unwrap().schedule.trigger.contains("0 0 9 1 1"), "until the next sync");
    assert!(matches!(client.sync("billing", 1, &listed(2)).run().unwrap(), Synced::Stale { known: 2, .. }));
    assert!(matches!(client.sync("billing", 2, &listed(4)).run().unwrap(), Synced::Changed(_)));
    let daily = client.schedule("daily").unwrap();
    assert!(daily.schedule.trigger.contains("0 0 4 1 1") && daily.priority == 7, "{daily:?}");
    assert_eq!(daily.schedule.by_hand, [ScheduleField::Priority]);
    // An ensure in other code leaves that, too.
    client.ensure(&yearly("daily", 4).priority(3)).run().unwrap();
    assert_eq!(client.schedule("daily").unwrap().priority, 7);
    client.edit("daily").give_back_all().run().unwrap();
    client.sync("billing", 2, &listed(4)).run().unwrap();
    assert_eq!(client.schedule("daily").unwrap().priority, 5);
}

/// Under a node that runs them.
fn a_running_cluster_follows_a_sync(kind: ServerKind) {
    let database = kind.fresh();
    let (tell, told) = crate::support::scheduler::teller();
    let scheduler = builder(&database)
        .handler(TEXT, move |context, _| {
            Ok(tell.lock().unwrap().send(context.schedule().to_owned()).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let client = scheduler.client();
    let both = [often("one"), often("two")];
    client.sync("billing", 1, &both).run().unwrap();
    let heard = |name: &str| {
        let deadline = std::time::Instant::now() + SOON;
        while told.recv_timeout(deadline - std::time::Instant::now()).unwrap() != name {}
    };
    heard("one");
    heard("two");
    assert_eq!(
        client.sync("billing", 1, &both).run().unwrap(),
        Synced::Unchanged,
        "an interval stays anchored"
    );
    client.sync("billing", 2, &[often("two"), often("three")]).run().unwrap();
    heard("three");
    heard("two");
    // What had begun, or was claimed, has come; nothing of it follows.
    let count = || {
        let filter = ExecutionFilter { schedule: Some("one".to_owned()), ..ExecutionFilter::default() };
        client.executions(&filter).unwrap().len()
    };
    let after = count();
    (0..5).for_each(|_| heard("three"));
    assert_eq!(count(), after);
    assert!(scheduler.shutdown(SOON).is_clean());
    let verified = client.verify(..).run().unwrap();
    assert!(verified.flaws.is_empty() && verified.demanded() > 0, "{verified:?}");
}

fn a_sync_joins_the_callers_transaction(kind: ServerKind) {
    fn run<C: Connection + Blocking>(mut connection: C, client: &Client, commit: bool) {
        let result = connection.transaction(|connection| {
            let listed = [yearly("daily", 2), yearly("weekly", 3)];
            let synced = C::answered(client.sync("billing", 1, &listed).run_in(connection)).unwrap();
            assert!(matches!(synced, Synced::Changed(_)), "{synced:?}");
            let again = C::answered(client.sync("billing", 1, &listed).run_in(connection)).unwrap();
            assert_eq!(again, Synced::Unchanged);
            let refused = C::answered(client.sync("shop", 1, &listed).run_in(connection)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
            let fewer = C::answered(client.sync("billing", 2, &listed[..1]).run_in(connection)).unwrap();
            assert!(matches!(fewer, Synced::Changed(_)), "{fewer:?}");
            let older = C::answered(client.sync("billing", 1, &listed).run_in(connection)).unwrap();
            assert!(matches!(older, Synced::Stale { known: 2, .. }));
            if commit { Ok(()) } else { Err(diesel::result::Error::RollbackTransaction) }
        });
        assert_eq!(result.is_ok(), commit);
    }
    let database = kind.fresh();
    let client = client(&database);
    for commit in [false, true] {
        on_own_connection!(database, run(&client, commit));
        let expected = if commit { named(&[("daily", "billing")]) } else { Vec::new() };
        assert_eq!(names(&client), expected);
    }
}

/// A node goes on with the owner's other schedules, and with nobody's, while a caller's transaction that has
/// synced stays open. On SQLite such a transaction keeps all others from writing.
fn an_open_sync_holds_back_only_what_it_changes(kind: ServerKind) {
    fn run<C: Connection + Blocking>(mut connection: C, client: &Client, told: &Receiver<Fired>) {
        let times = |count: i32, names: &[&str], since: DateTime<Utc>| {
            let mut left: HashMap<&str, i32> = names.iter().map(|name| (*name, count)).collect();
            while left.values().any(|count| *count > 0) {
                let (name, at) = told.recv_timeout(SOON).unwrap();
                let count = left.get_mut(&*name).filter(|_| at > since);
                count.into_iter().for_each(|count| *count -= 1);
            }
        };
        times(1, &["one", "two", "nobodys"], DateTime::UNIX_EPOCH);
        let result = connection.transaction::<_, diesel::result::Error, _>(|connection| {
            let listed = [often("one").priority(7), often("two"), often("three")];
            let synced = C::answered(client.sync("billing", 2, &listed).run_in(connection)).unwrap();
            let Synced::Changed(plan) = synced else { panic!("{synced:?}") };
            assert!(plan.changed().eq(["one"]) && plan.created().eq(["three"]));
            times(3, &["two", "nobodys"], Utc::now());
            Ok(())
        });
        result.unwrap();
        times(1, &["one", "two", "three", "nobodys"], Utc::now());
    }
    let database = kind.fresh();
    if kind.name() == "sqlite" {
        return;
    }
    let (tell, told) = crate::support::scheduler::teller();
    let scheduler = builder(&database)
        .handler(TEXT, move |context, _| {
            let fired = (context.schedule().to_owned(), context.fire_time());
            Ok(tell.lock().unwrap().send(fired).map_err(|_| "gone")?)
        })
        .start()
        .unwrap();
    let client = scheduler.client();
    client.sync("billing", 1, &[often("one"), often("two")]).run().unwrap();
    client.ensure(&often("nobodys")).run().unwrap();
    on_own_connection!(database, run(&client, &told));
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// The schedule and the fire time of an execution.
type Fired = (String, DateTime<Utc>);

#[cfg(feature = "cli")]
mod program {
    use std::process::{Command, Output};

    use super::*;

    fn on(database: &Database, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firetime"));
        command.env("FIRETIME_DATABASE_URL", &database.url).env("FIRETIME_APPLICATION", APPLICATION);
        command.args(arguments).output().unwrap()
    }

    fn succeeded(database: &Database, arguments: &[&str]) -> String {
        let output = on(database, arguments);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    fn refused(database: &Database, arguments: &[&str]) -> String {
        let output = on(database, arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub fn the_program_tells_whose_a_field_is(kind: ServerKind) {
        let database = kind.fresh();
        let client = client(&database);
        let listed = [yearly("daily", 2)];
        client.sync("billing", 42, &listed).actor("ci").run().unwrap();
        let shown = succeeded(&database, &["schedules", "show", "daily"]);
        assert!(shown.contains("billing, revision 42, written ") && !shown.contains("by hand"), "{shown}");
        let set = ["schedules", "set", "daily", "--priority", "7", "--time-limit", "90s", "--actor", "ann"];
        let said = succeeded(&database, &set);
        let kept =
            "  by hand: priority, time limit; syncs of billing leave them so until --reset gives them back\n";
        assert!(said.ends_with(kept), "{said}");
        assert_eq!(client.sync("billing", 43, &listed).run().unwrap(), Synced::Unchanged);
        let shown = succeeded(&database, &["schedules", "show", "daily"]);
        assert!(shown.contains("7 (by hand: ann, 20"), "{shown}");
        let json = succeeded(&database, &["schedules", "show", "daily", "--output", "json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["owner"], &json["owned_by"]["revision"]), (&"billing".into(), &43.into()));
        assert_eq!(json["by_hand"], serde_json::json!(["priority", "time_limit"]));
        assert_eq!(json["edits"][1]["actor"], "ann");
        client.ensure(&yearly("nobodys", 1)).run().unwrap();
        let wide = succeeded(&database, &["schedules", "--output", "wide"]);
        assert!(wide.contains("priority, time limit") && wide.contains("nobodys"), "{wide}");
        for line in [&["schedules", "--owner", "billing"][..], &["schedules", "list", "--owner", "billing"]] {
            let owned = succeeded(&database, line);
            assert!(owned.contains("daily") && !owned.contains("nobodys"), "{owned}");
        }
        let given = succeeded(&database, &["schedules", "set", "daily", "--reset=time_limit"]);
        assert!(given.contains("given back: time limit; the next sync of billing"), "{given}");
        let nothing = succeeded(&database, &["schedules", "set", "daily", "--reset=time_limit"]);
        assert_eq!(nothing, "daily: nothing was changed, it is so\n");
        succeeded(&database, &["schedules", "set", "daily", "--reset"]);
        assert!(client.schedule("daily").unwrap().schedule.by_hand.is_empty());
        client.sync("billing", 43, &listed).run().unwrap();
        let daily = client.schedule("daily").unwrap();
        assert_eq!((daily.priority, daily.time_limit), (5, None));
        let error = refused(&database, &["schedules", "set", "daily", "--reset=colour"]);
        assert!(error.contains("colour"), "{error}");
        let removal = refused(&database, &["schedules", "remove", "daily"]);
        assert!(removal.contains("the next sync of \"billing\" makes it again"), "{removal}");
    }

    /// Ten seconds are due, and no node runs.
    pub fn it_says_beforehand_what_it_withdraws(kind: ServerKind) {
        let database = kind.fresh();
        let client = client(&database);
        let start = chrono::Utc::now() - chrono::TimeDelta::seconds(10);
        for name in ["set", "removed"] {
            let every = Trigger::every(Duration::from_secs(1)).unwrap().starting(start).unwrap();
            client.ensure(&Schedule::new(name, TEXT, &String::new(), every).unwrap()).run().unwrap();
            let back = start.timestamp_millis();
            let set = format!("prev_fire_time = {}, next_fire_time = {back}", back - 1_000);
            database.batch(&format!("UPDATE QRTZ_EXECUTE SET {set} WHERE name = '{name}'"));
        }
        let from = start.format("%Y-%m-%d %H:%M:%S%.3f").to_string();
        let wanted = format!(" due occurrences, from {from} to ");
        let unchanged = refused(&database, &["schedules", "set", "set", "--every", "1d"]);
        assert!(unchanged.contains("would withdraw 1") && unchanged.contains(&wanted), "{unchanged}");
        let dry = succeeded(&database, &["schedules", "set", "set", "--every", "1d", "--dry-run"]);
        assert!(dry.contains("  would withdraw 1") && dry.ends_with("nothing was changed\n"), "{dry}");
        let kept = refused(&database, &["schedules", "remove", "removed"]);
        assert!(kept.contains("it would withdraw 1") && kept.contains(&wanted), "{kept}");
        assert_eq!(client.executions(&ExecutionFilter::default()).unwrap(), [], "nothing was changed");
        assert!(client.remove("removed").withdraws().unwrap().unwrap().count >= 10);
        // What withdraws nothing needs no word.
        succeeded(&database, &["schedules", "set", "set", "--priority", "7"]);
        let said = succeeded(&database, &["schedules", "set", "set", "--every", "1d", "--yes"]);
        assert!(said.contains("  withdrew 1") && said.contains(&wanted), "{said}");
        let said = succeeded(&database, &["schedules", "remove", "removed", "--yes"]);
        let did = "removed: removed; it cancelled 0 executions that waited, and withdrew 1";
        assert!(said.starts_with(did) && said.ends_with(" due occurrences\n"), "{said}");
        let rows = client.executions(&ExecutionFilter::default()).unwrap();
        assert!(
            rows.len() == 2
                && rows.iter().all(|row| row.state == ExecutionState::Withdrawn && row.count >= 10),
            "{rows:?}"
        );
    }
}

//! `why` tells the truth about nodes that were killed, stopped or drained, about handlers that are missing or
//! hang, pauses, outages, overlaps, edits and full lanes: while these last, and afterwards.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{
    Activity, Because, Builder, Client, Fate, FullBound, IdleNode, Job, LateWait, MisfirePolicy, Schedule,
    ScheduleState, Trigger, Why,
};
use libtest_mimic::Trial;
use rustix::process::Signal;

use crate::chaos::cluster::{Cluster, QUICK, protocol};
use crate::chaos::job::{HELD, TICK};
use crate::chaos::proxy::Mode;
use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{SOON, builder, client, hanging, until};
use crate::trial;

/// How long the first attempt of what is to be killed takes, milliseconds.
const AGES: u64 = 600_000;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let everywhere: &[(&str, fn(ServerKind))] = &[
        ("a_drained_node_is_named_with_who_drained_it", a_drained_node),
        ("a_missing_handler_and_an_edit_of_what_waits_for_it_are_told", a_missing_handler_and_an_edit),
        ("a_pause_says_whose_it_is_and_until_when", a_pause),
        ("an_overlap_names_its_holder", an_overlap),
        ("a_hang_says_whether_its_handler_has_returned", a_hang),
        ("a_full_lane_is_told", a_full_lane),
        ("an_application_without_nodes_says_so", no_nodes),
        ("a_quarantined_schedule_says_since_when", a_quarantined_schedule),
    ];
    let by_processes: &[(&str, fn(ServerKind))] = &[
        ("a_killed_and_a_stopped_node_are_named_by_what_follows_them", a_killed_and_a_stopped_node),
        ("an_outage_says_how_late_and_by_which_policy", an_outage),
        ("a_cluster_that_died_whole_says_since_when_nobody_heard_of_it", a_silent_cluster),
    ];
    // SQLite has no connections to cut, and a process that dies there dies alike.
    let by_processes = if protocol(kind).is_some() { by_processes } else { &[] };
    for (name, test) in everywhere.iter().chain(by_processes) {
        trials.push(trial(format!("{}::why_in_chaos::{name}", kind.name()), move || test(kind)));
    }
}

/// Soon, but after the request that makes the schedule.
fn soon(millis: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis((Utc::now() + TimeDelta::milliseconds(millis)).timestamp_millis())
        .unwrap()
}

fn once(name: &str, job: Job<u64>, millis: u64, at: DateTime<Utc>) -> Schedule {
    Schedule::new(name, job, &millis, Trigger::once(at).unwrap()).unwrap()
}

#[track_caller]
fn is(why: &Why, fate: Fate, words: &[&str]) {
    assert_eq!(why.fate, fate, "{why:#?}");
    for word in words {
        assert!(why.sentence.contains(word), "{word:?} in {why:#?}");
    }
}

/// The answer, once the occurrence has come to this fate.
fn once_it_is(client: &Client, (name, at): (&str, DateTime<Utc>), fate: Fate) -> Why {
    until(&format!("{name} comes to {fate:?}"), || {
        Some(client.why_at(name, at).unwrap()).filter(|why| why.fate == fate)
    })
}

/// A node that tells what its lanes do each second.
fn quick(database: &Database) -> Builder {
    builder(database)
        .heartbeat_interval(Duration::from_secs(1))
        .store_timeout(Duration::from_secs(2))
        .death_after(Duration::from_secs(6))
}

/// One node is killed and another stopped, each while it runs something, and a third is there in the end.
fn a_killed_and_a_stopped_node(kind: ServerKind) {
    let mut cluster = Cluster::start("a_killed_and_a_stopped_node", kind, 1, QUICK);
    let client = cluster.client.clone();
    let begun = |cluster: &mut Cluster, name: &str| {
        let at = soon(500);
        client.ensure(&once(name, HELD, AGES, at)).run().unwrap();
        let node = cluster.await_begin(name);
        (at, node, cluster.node_id(node))
    };
    let (killed_at, killed, killed_id) = begun(&mut cluster, "killed");
    cluster.kill(killed);
    // Nobody knows of it yet.
    let why = client.why_at("killed", killed_at).unwrap();
    is(&why, Fate::Running, &["has run since ", &killed_id]);
    cluster.add(QUICK);
    cluster.await_ready();
    let (stopped_at, stopped, stopped_id) = begun(&mut cluster, "stopped");
    cluster.signal(stopped, Signal::STOP);
    is(&client.why_at("stopped", stopped_at).unwrap(), Fate::Running, &["has run since ", &stopped_id]);
    let last = cluster.add(QUICK);
    cluster.await_ready();
    for (name, at, dead) in [("killed", killed_at, killed_id), ("stopped", stopped_at, stopped_id)] {
        cluster.until(&format!("{name} ran again"), SOON, |cluster| {
            cluster.client.why_at(name, at).unwrap().fate == Fate::Succeeded
        });
        let why = client.why_at(name, at).unwrap();
        is(&why, Fate::Succeeded, &["as attempt 2 after node ", &dead, " died with attempt 1"]);
        let (first, second) = (why.executions[0], why.executions[1]);
        let Because::Recovery { after: Some(after), node: Some(node), .. } = &why.because else {
            panic!("{why:#?}")
        };
        assert_eq!((*after, node, why.executions.len()), (first, &dead, 2));
        let lost = &client.execution(second).unwrap().attempts[0];
        assert_eq!(
            (lost.state.as_str(), &*lost.reason, lost.node.as_ref()),
            ("ABANDONED", "node died", Some(&dead))
        );
        assert_ne!(client.execution(second).unwrap().execution.node, Some(dead));
    }
    let survivor = cluster.node_id(last);
    assert!(client.why_at("stopped", stopped_at).unwrap().sentence.contains(&survivor));
}

/// No node reaches the database while two fire times come and go.
fn an_outage(kind: ServerKind) {
    const THRESHOLD: i64 = 5_000;
    let mut cluster = Cluster::start("an_outage", kind, 2, QUICK);
    let client = cluster.client.clone();
    // No node has planned what comes due.
    cluster.set_all(Mode::Down);
    let at = soon(500);
    let threshold = Duration::from_millis(THRESHOLD.unsigned_abs());
    for (name, policy) in [("skipped", MisfirePolicy::DoNothing), ("made up", MisfirePolicy::FireOnce)] {
        let schedule = once(name, TICK, 10, at).misfire(policy).misfire_threshold(threshold);
        client.ensure(&schedule).run().unwrap();
    }
    let missed = at + TimeDelta::milliseconds(THRESHOLD + 200);
    cluster.until("it was missed", SOON, |_| Utc::now() > missed);
    let why = client.why_at("skipped", at).unwrap();
    is(&why, Fate::WillBeSkipped, &["was missed, and will be skipped by the misfire handler (DO_NOTHING)"]);
    let late = |why: &Why| match why.because {
        Because::Misfire { late: Some(late), policy: Some(policy), .. } => (late, policy),
        _ => panic!("{why:#?}"),
    };
    let (how_late, policy) = late(&why);
    assert!(how_late > threshold && policy == MisfirePolicy::DoNothing, "{why:#?}");
    let why = client.why_at("made up", at).unwrap();
    is(&why, Fate::Waiting, &["waits: no node that has a handler for job \"tick\" has been heard of since "]);
    cluster.set_all(Mode::Pass);
    let why = once_it_is(&client, ("skipped", at), Fate::Skipped);
    is(&why, Fate::Skipped, &["it was missed by ", "(DO_NOTHING)"]);
    let (how_late, policy) = late(&why);
    assert!(how_late > threshold && policy == MisfirePolicy::DoNothing, "{why:#?}");
    let why = once_it_is(&client, ("made up", at), Fate::Succeeded);
    is(&why, Fate::Succeeded, &["made up for after it was missed"]);
    let (how_late, policy) = late(&why);
    assert!(how_late > threshold && policy == MisfirePolicy::FireOnce, "{why:#?}");
}

/// All nodes are killed, and nobody is left to declare them dead.
fn a_silent_cluster(kind: ServerKind) {
    let mut cluster = Cluster::start("a_silent_cluster", kind, 2, QUICK);
    let client = cluster.client.clone();
    let mut ids = [cluster.node_id(0), cluster.node_id(1)];
    ids.sort();
    cluster.kill(0);
    cluster.kill(1);
    let at = soon(500);
    client.ensure(&once("nightly", TICK, 10, at)).run().unwrap();
    let is_told = || Some(client.why_at("nightly", at).unwrap()).filter(|why| why.reason == "no node");
    let why = until("nobody hears of them", is_told);
    is(&why, Fate::Waiting, &["waits: no node that has a handler for job \"tick\" has been heard of since "]);
    is(&why, Fate::Waiting, &[", and it waits for one: node ", &ids[0], &ids[1]]);
    let Because::NoNode { silent, idle, since, .. } = &why.because else { panic!("{why:#?}") };
    let mut named: Vec<&str> = silent.iter().map(|it| &*it.node).collect();
    named.sort_unstable();
    assert_eq!((named, idle.len(), *since), (vec![&*ids[0], &*ids[1]], 0, None));
    let nodes = client.nodes().unwrap();
    assert!(nodes.iter().all(|node| node.ended.is_none()), "no node is declared dead");
    let last = nodes.iter().filter_map(|node| node.last_beat).max().unwrap();
    let heard = last.format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string();
    is(&why, Fate::Waiting, &[&heard]);
    cluster.add(QUICK);
    cluster.await_ready();
    let ran = once_it_is(&client, ("nightly", at), Fate::Succeeded);
    assert!(ids.iter().all(|id| !ran.sentence.contains(id)), "{ran:#?}");
}

/// What was made before the first node.
fn no_nodes(kind: ServerKind) {
    const WORK: Job<u64> = Job::new("work");
    let database = kind.fresh();
    let client = client(&database);
    let at = soon(500);
    client.ensure(&once("nightly", WORK, 1, at)).run().unwrap();
    let why = client.why_at("nightly", at).unwrap();
    assert!(why.sentence.contains("; no node is known, and it waits for one"), "{why:#?}");
    let why = once_it_is(&client, ("nightly", at), Fate::Waiting);
    is(&why, Fate::Waiting, &["no live node has a handler for job \"work\"; no node is known"]);
    let Because::NoNode { silent, idle, .. } = &why.because else { panic!("{why:#?}") };
    assert_eq!((silent.len(), idle.len()), (0, 0));
    let scheduler = quick(&database).handler(WORK, |_, _| Ok(())).start().unwrap();
    once_it_is(&client, ("nightly", at), Fate::Succeeded);
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// Until somebody sets another trigger.
fn a_quarantined_schedule(kind: ServerKind) {
    const WORK: Job<u64> = Job::new("work");
    let database = kind.fresh();
    let client = client(&database);
    let at = soon(3_600_000);
    client.ensure(&once("nightly", WORK, 1, at)).run().unwrap();
    database.batch("UPDATE QRTZ_EXECUTE SET job_type = 'CALENDAR'");
    let before = client.now().unwrap();
    let scheduler = quick(&database).handler(WORK, |_, _| Ok(())).start().unwrap();
    let why = until("it is in error", || {
        Some(client.why_at("nightly", at).unwrap()).filter(|why| {
            why.reason == "quarantined" && {
                client.schedule("nightly").unwrap().schedule.state == ScheduleState::Error
            }
        })
    });
    let Because::Quarantined { error, since: Some(since), .. } = &why.because else { panic!("{why:#?}") };
    assert!(error.contains("CALENDAR") && *since >= before && *since <= client.now().unwrap(), "{why:#?}");
    let said = format!("its schedule is in error since {}", since.format("%Y-%m-%d %H:%M:%S%.3f UTC"));
    is(&why, Fate::NotDue, &[&said, error]);
    let shown = client.schedule("nightly").unwrap().schedule;
    assert_eq!((shown.quarantined, shown.paused), (Some(*since), None));
    let next = soon(500);
    client.ensure(&once("nightly", WORK, 1, next)).run().unwrap();
    let shown = client.schedule("nightly").unwrap().schedule;
    assert_eq!((shown.quarantined, shown.paused), (None, None));
    once_it_is(&client, ("nightly", next), Fate::Succeeded);
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_drained_node(kind: ServerKind) {
    const WORK: Job<u64> = Job::new("work");
    let database = kind.fresh();
    let ann = client(&database).acting_as("ann");
    let first = quick(&database).handler(WORK, |_, _| Ok(())).start().unwrap();
    let node = ann.nodes().unwrap().remove(0).id;
    ann.drain(&node).reason("a new kernel").run().unwrap();
    let state = || ann.nodes().unwrap().remove(0).state;
    until("it is drained", || (state() == Activity::Drained).then_some(()));
    let waits = ann.enqueue(WORK, &1).run().unwrap().id();
    let why = ann.why(waits).unwrap();
    is(&why, Fate::Waiting, &[&format!("node {node} is drained")]);
    let Because::NoNode { job, idle, .. } = &why.because else { panic!("{why:#?}") };
    let [IdleNode { node: idle, state, by: Some(by), .. }] = &idle[..] else { panic!("{why:#?}") };
    assert_eq!((&**job, idle, *state), ("work", &node, Activity::Drained));
    assert_eq!((&*by.actor, &*by.reason, by.at.is_some()), ("ann", "a new kernel", true));
    let second = quick(&database).handler(WORK, |_, _| Ok(())).start().unwrap();
    let ran = until("another node runs it", || {
        Some(ann.why(waits).unwrap()).filter(|why| why.fate == Fate::Succeeded)
    });
    assert!(!ran.sentence.contains(&node), "{ran:#?}");
    // Late or not: it had no node until the second joined.
    let joined = ann.nodes().unwrap().into_iter().find(|it| it.id != node).unwrap().started;
    for wait in ran.late.iter().flat_map(|late| &late.waits) {
        assert!(matches!(wait, LateWait::Node { until, .. } if Some(*until) == joined), "{ran:#?}");
    }
    assert!(first.shutdown(SOON).is_clean() && second.shutdown(SOON).is_clean());
}

/// Nobody can claim it, and then it is edited.
fn a_missing_handler_and_an_edit(kind: ServerKind) {
    const WORK: Job<u64> = Job::new("work");
    const ABSENT: Job<u64> = Job::new("absent");
    let database = kind.fresh();
    let client = client(&database);
    let scheduler = quick(&database).handler(WORK, |_, _| Ok(())).start().unwrap();
    let at = soon(500);
    client.ensure(&once("of nobody", ABSENT, 1, at)).run().unwrap();
    let why = once_it_is(&client, ("of nobody", at), Fate::Waiting);
    is(&why, Fate::Waiting, &["no live node has a handler for job \"absent\""]);
    let Because::NoNode { job, idle, .. } = &why.because else { panic!("{why:#?}") };
    assert_eq!((&**job, idle.len(), &*why.reason), ("absent", 0, "no node"));

    let bob = client.clone().acting_as("bob");
    bob.ensure(&once("of nobody", ABSENT, 1, soon(3_600_000))).reason("not today").run().unwrap();
    let why = client.why_at("of nobody", at).unwrap();
    is(&why, Fate::Withdrawn, &["bob (\"not today\") changed its trigger at "]);
    let Because::Edited { by: Some(by), .. } = &why.because else { panic!("{why:#?}") };
    assert_eq!((&*by.actor, &*by.reason, by.at.is_some()), ("bob", "not today", true));
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_pause(kind: ServerKind) {
    const WORK: Job<u64> = Job::new("work");
    let database = kind.fresh();
    let ann = client(&database).acting_as("ann");
    let scheduler = quick(&database).handler(WORK, |_, _| Ok(())).start().unwrap();
    let at = soon(1_000);
    ann.ensure(&once("nightly", WORK, 1, at)).run().unwrap();
    let end = soon(3_600_000);
    ann.pause("nightly").reason("stocktaking").until(end).run().unwrap();
    let why = once_it_is(&ann, ("nightly", at), Fate::Waiting);
    is(&why, Fate::Waiting, &["schedule \"nightly\" is paused by ann (\"stocktaking\") since "]);
    let of_pause = |why: &Why| match &why.because {
        Because::Paused { target_type, target, by: Some(by), until, .. } => {
            assert_eq!(
                (&**target_type, &**target, &*by.actor, &*by.reason),
                ("schedule", "nightly", "ann", "stocktaking")
            );
            (by.at, *until)
        }
        _ => panic!("{why:#?}"),
    };
    let (since, until) = of_pause(&why);
    assert_eq!((since.is_some(), until), (true, Some(end)));
    ann.clone().acting_as("bob").resume("nightly").run().unwrap();
    let why = ann.why_at("nightly", at).unwrap();
    is(&why, Fate::Skipped, &["was skipped: schedule \"nightly\" was paused by ann (\"stocktaking\") from "]);
    let (since, until) = of_pause(&why);
    assert!(since < Some(at) && until > Some(at) && until < Some(end), "{why:#?}");
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn an_overlap(kind: ServerKind) {
    const HANG: Job<()> = Job::new("hang");
    let database = kind.fresh();
    let client = client(&database);
    let (open, hang) = hanging();
    let scheduler = quick(&database).handler(HANG, hang).start().unwrap();
    let first = soon(500);
    let often = Trigger::every(Duration::from_secs(1)).unwrap().starting(first).unwrap();
    client.ensure(&Schedule::new("often", HANG, &(), often.times(2).unwrap()).unwrap()).run().unwrap();
    let second = first + TimeDelta::seconds(1);
    let why = once_it_is(&client, ("often", second), Fate::Skipped);
    let holder = client.why_at("often", first).unwrap().executions[0];
    is(&why, Fate::Skipped, &[&format!("execution {holder} of "), " had not ended, and has not yet"]);
    assert!(
        matches!(why.because, Because::Overlap { holder: Some(by), ended: None, .. } if by == holder),
        "{why:#?}"
    );
    drop(open);
    once_it_is(&client, ("often", first), Fate::Succeeded);
    let why = client.why_at("often", second).unwrap();
    let Because::Overlap { holder: Some(named), ended: Some(ended), .. } = why.because else {
        panic!("{why:#?}")
    };
    assert!(named == holder && ended > second, "{why:#?}");
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_hang(kind: ServerKind) {
    const HANG: Job<()> = Job::new("hang").time_limit(Duration::from_millis(300));
    let database = kind.fresh();
    let client = client(&database);
    let (open, hang) = hanging();
    let scheduler = quick(&database).handler(HANG, hang).start().unwrap();
    let id = client.enqueue(HANG, &()).run().unwrap().id();
    let has_ended = || Some(client.why(id).unwrap()).filter(|why| why.fate == Fate::TimedOut);
    let why = until("its time is up", has_ended);
    let on = client.nodes().unwrap().remove(0).id;
    is(&why, Fate::TimedOut, &[&format!("ran out of time on node {on}"), ": its handler has not returned"]);
    let Because::TimeLimit { node, since: Some(_), has_returned: false, .. } = &why.because else {
        panic!("{why:#?}")
    };
    assert_eq!(*node, Some(on));
    drop(open);
    let returned = until("its handler returns", || {
        has_ended().filter(|why| matches!(why.because, Because::TimeLimit { has_returned: true, .. }))
    });
    assert!(!returned.sentence.contains("not returned"), "{returned:#?}");
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// While all its seats are taken, and of one that then got a seat.
fn a_full_lane(kind: ServerKind) {
    const HANG: Job<()> = Job::new("hang");
    const WORK: Job<u64> = Job::new("work");
    let database = kind.fresh();
    let client = client(&database);
    let (open, hang) = hanging();
    let builder = quick(&database).threads(1, 1).queue(0);
    let scheduler = builder.handler(HANG, hang).handler(WORK, |_, _| Ok(())).start().unwrap();
    let first = client.enqueue(HANG, &()).run().unwrap().id();
    until("the first runs", || client.execution(first).unwrap().execution.started.is_some().then_some(()));
    let second = client.enqueue(WORK, &1).run().unwrap().id();
    let due = client.execution(second).unwrap().execution.due.unwrap();
    let is_told = || Some(client.why(second).unwrap()).filter(|why| why.reason == "full");
    let why = until("the second waits for a seat", is_told);
    is(&why, Fate::Waiting, &["lanes of all its nodes are full: node ", " runs 1 of 1 and has 0 queued, "]);
    let Because::Full { bound: FullBound::Lanes { nodes, .. }, .. } = &why.because else {
        panic!("{why:#?}")
    };
    let [node] = &nodes[..] else { panic!("{why:#?}") };
    assert_eq!((node.seats, node.busy, node.told.is_some()), (1, 1, true), "{why:#?}");

    let later = due + TimeDelta::milliseconds(2_000);
    until("it is late", || (client.now().unwrap() > later).then_some(()));
    drop(open);
    let ran = || Some(client.why(second).unwrap()).filter(|why| why.fate == Fate::Succeeded);
    let why = until("the second has run", ran);
    is(&why, Fate::Succeeded, &[" s: it waited ", " s for a seat of lane \"default\""]);
    let late = why.late.as_ref().unwrap();
    let [LateWait::Lane { lane, span, .. }] = &late.waits[..] else { panic!("{why:#?}") };
    assert!(
        &**lane == "default" && (Duration::from_millis(1_500)..=late.lateness).contains(span),
        "{why:#?}"
    );
    assert!(scheduler.shutdown(SOON).is_clean());
}

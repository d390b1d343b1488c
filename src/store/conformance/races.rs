//! Many threads at one row: exactly one of them wins, whatever their order.

use std::collections::HashMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::*;
use crate::domain::{Error, ErrorKind, NextFire, Reason, ScheduleState};
use crate::store::{Heartbeat, HeartbeatReply};

const THREADS: usize = 4;
const ROUNDS: usize = 12;

/// Runs `racer` in every thread at once; what each came back with.
pub(super) fn race<T: Send>(threads: usize, racer: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(threads);
    let go = |number| {
        start.wait();
        racer(number)
    };
    std::thread::scope(|scope| {
        let racers: Vec<_> = (0..threads).map(|number| scope.spawn(move || go(number))).collect::<Vec<_>>();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    })
}

/// Calls again when SQLite's file stayed too busy: a call waits for another's write for a second, and once
/// more, but a disk may stand still for longer. No other error, and none that comes at once, is the disk's.
pub(super) fn patiently<T>(call: impl Fn() -> crate::store::Result<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    let is_locked = |error: &Error| {
        error.kind() == ErrorKind::Unavailable && format!("{error:#}").ends_with("database is locked")
    };
    loop {
        let begun = Instant::now();
        let waited = || begun.elapsed() > Duration::from_millis(900) && Instant::now() < deadline;
        match call() {
            Err(error) if is_locked(&error) && waited() => {}
            answer => return answer.unwrap(),
        }
    }
}

impl Bench {
    /// Claims until every request is won or lost: a skipped one is tried again. The executions won, with
    /// their places in the batch.
    fn claim_all(&self, requests: &[ClaimRequest]) -> Vec<(usize, ExecutionId)> {
        let deadline = Instant::now() + DEADLINE;
        let mut open: Vec<usize> = (0..requests.len()).collect();
        let mut wins = Vec::new();
        while !open.is_empty() {
            assert!(Instant::now() < deadline, "still skipped: {open:?}");
            let batch: Vec<_> = open.iter().map(|at| requests[*at].clone()).collect();
            let claims = patiently(|| self.store.claim(&batch));
            let mut skipped = Vec::new();
            for (at, claim) in open.into_iter().zip(claims) {
                match claim {
                    Claim::Won(claimed) => wins.push((at, claimed.execution())),
                    Claim::Lost => {}
                    Claim::Skipped | Claim::Busy => skipped.push(at),
                    Claim::Blocked(_) | Claim::Full(_) => {}
                    Claim::Failed(error) => panic!("{at} failed: {error:#}"),
                }
            }
            open = skipped;
        }
        wins
    }
}

pub(crate) fn one_of_many_claimants_wins_each_occurrence(db: &Bench) {
    db.schedule("s");
    for round in 1..=ROUNDS {
        let entry = db.entry("s");
        let wins = race(THREADS, |_| db.claim_all(&[db.head(&entry)]).len());
        assert_eq!(wins.iter().sum::<usize>(), 1, "round {round}: {wins:?}");
        assert_eq!(db.executions().len(), round);
    }
    assert_eq!(db.entry("s").cursor.prev, Some(db.base + (ROUNDS as i64 - 1) * 1_000));
}

pub(crate) fn overlapping_batches_in_different_orders_win_each_row_once(db: &Bench) {
    let names: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
    for name in &names {
        db.schedule(name);
    }
    for round in 1..=ROUNDS {
        let entries: Vec<_> = names.iter().map(|name| db.entry(name)).collect();
        let tallies = race(THREADS, |number| {
            let mut mine = entries.clone();
            mine.rotate_left(number * 3 % entries.len());
            if number % 2 == 1 {
                mine.reverse();
            }
            mine.truncate(6);
            let requests: Vec<_> = mine.iter().map(|entry| db.head(entry)).collect();
            let wins = db.claim_all(&requests);
            wins.into_iter().map(|(at, _)| mine[at].id).collect::<Vec<_>>()
        });
        let mut wins: HashMap<ScheduleId, usize> = HashMap::new();
        for id in tallies.into_iter().flatten() {
            *wins.entry(id).or_default() += 1;
        }
        assert_eq!(wins.len(), names.len(), "round {round}: somebody asked for each");
        assert!(wins.values().all(|count| *count == 1), "round {round}: {wins:?}");
        assert_eq!(db.executions().len(), names.len() * round);
    }
}

pub(crate) fn one_of_many_claimants_wins_a_pending_execution(db: &Bench) {
    let first = db.pending("s");
    for round in 1..=ROUNDS {
        let pending = db.find_pending(first.id).expect("given back");
        let nodes: Vec<_> = (0..THREADS).map(|_| NodeId::fresh()).collect();
        let requests: Vec<_> = nodes
            .iter()
            .map(|node| ClaimRequest { node: *node, ..db.request(Candidate::Pending(pending.clone())) })
            .collect();
        let wins = race(THREADS, |number| db.claim_all(&requests[number..=number]).len());
        assert_eq!(wins.iter().sum::<usize>(), 1, "round {round}: {wins:?}");
        let winner = wins.iter().position(|count| *count == 1).unwrap();
        assert_eq!(db.execution(first.id).node, nodes[winner].to_string());
        let back = Transition::GiveBack(Token::fresh());
        let settlement = ExecutionChange::of(first.id, requests[winner].token, back, db.now);
        assert_eq!(db.settle(&settlement), Applied::Done);
    }
    assert_eq!(db.executions().len(), 1);
}

/// Over and over: the first time the connections are still being opened, one after the other.
pub(crate) fn two_first_starts_on_an_empty_app_table_both_join(db: &Bench) {
    for _ in 0..ROUNDS {
        all_join(db);
    }
}

/// The application is there, its new job is not: nothing lines the nodes up before they come to that.
pub(crate) fn two_starts_with_a_new_job_both_join(db: &Bench) {
    for round in 0..ROUNDS {
        let name = format!("new-{round}");
        let nodes: Vec<_> =
            (0..THREADS * 2).map(|_| db.new_node(NodeId::fresh(), &db.app, &[&name])).collect();
        race(nodes.len(), |number| patiently(|| db.store.register(&nodes[number])));
        assert_eq!(db.get(RowKey::Job(&db.app, &name), "state").as_deref(), Some("EXECUTING"));
    }
}

fn all_join(db: &Bench) {
    let app = fresh_name();
    let nodes: Vec<_> =
        (0..THREADS * 2).map(|_| db.new_node(NodeId::fresh(), &app, &["a", "b", "c"])).collect();
    race(nodes.len(), |number| patiently(|| db.store.register(&nodes[number])));
    assert_eq!(db.store.nodes(Some(&app)).unwrap().len(), nodes.len());
    let beat = Heartbeat {
        node: nodes[0].id,
        application: app.clone(),
        lanes: Vec::new(),
        left_alone: Vec::new(),
        withdraw: false,
        drained: false,
        tells: false,
        blocked: Vec::new(),
        now: db.now,
    };
    let HeartbeatReply::Alive { peers, .. } = db.store.beat(&beat).unwrap() else { panic!("it joined") };
    assert_eq!(peers.len(), nodes.len());
    assert_eq!(db.get(RowKey::App(&app), "state").as_deref(), Some("Y"));
    // One row per job: a second would make the schedule come twice.
    for name in ["a", "b", "c"] {
        let definition = Definition { application: app.clone(), job: job(name), ..db.definition(name) };
        assert_eq!(db.store.ensure(&definition).unwrap(), Ensured::Created);
        assert_eq!(db.get(RowKey::Job(&app, name), "state").as_deref(), Some("EXECUTING"));
    }
    let shares = vec![Share::whole(["a", "b", "c"].map(str::to_owned).to_vec())];
    let query = PollQuery { node: nodes[0].id, application: app, shares, ..db.query(Timestamp::MAX) };
    assert_eq!(db.store.poll(&query).unwrap().entries.len(), 3);
}

pub(crate) fn one_of_many_candidates_is_elected(db: &Bench) {
    let app = fresh_name();
    for round in 0..ROUNDS as i64 {
        let at = db.now + round * 15_000;
        let elected = race(THREADS, |_| patiently(|| db.store.elect(&app, at, 15_000)));
        assert_eq!(elected.iter().filter(|won| won.is_done()).count(), 1, "round {round}: {elected:?}");
    }
}

pub(crate) fn many_ensuring_at_once_leave_one_row(db: &Bench) {
    for round in 0..ROUNDS {
        // Each round brings a new schedule of a new job.
        let name = format!("s{round}");
        let definition = Definition { job: job(&name), ..db.definition(&name) };
        let ensured = race(THREADS, |_| patiently(|| db.store.ensure(&definition)));
        let created = ensured.iter().filter(|ensured| **ensured == Ensured::Created).count();
        assert_eq!(created, 1, "{ensured:?}");
        assert!(ensured.iter().all(|ensured| *ensured != Ensured::Changed), "{ensured:?}");
        assert_eq!(db.store.schedules(Some(&db.app)).unwrap().len(), round + 1);
        assert_eq!(db.entry(&name).cursor.next, NextFire::At(db.base));
    }
}

/// Whoever is first, the other sees it: a won claim after the pause, or a pause lost, would show.
pub(crate) fn a_claim_and_a_pause_of_one_row_never_both_come_first(db: &Bench) {
    for round in 0..ROUNDS {
        let entry = db.schedule(&format!("s{round}"));
        let results = race(2, |number| match number {
            0 => db.claim_all(&[db.head(&entry)]).len() == 1,
            _ => patiently(|| db.store.pause(entry.id, entry.version, "op", "why")),
        });
        assert!(results[1], "a claim leaves the version: the pause is never lost to it");
        let after = db.entry(&entry.name);
        assert_eq!(after.state, ScheduleState::Paused);
        let next = if results[0] { db.base + 1_000 } else { db.base };
        assert_eq!(after.cursor.next, NextFire::At(next));
        assert!(is_lost(&db.claim(&db.head(&after))), "nothing is claimed after the pause");
    }
}

/// Repair takes an execution from its node once, however many repair, and beside its own outcome.
pub(crate) fn one_of_many_revocations_wins(db: &Bench) {
    for round in 0..ROUNDS {
        let entry = db.schedule(&format!("s{round}"));
        let request = ClaimRequest { at_once: true, node: NodeId::fresh(), ..db.head(&entry) };
        let claimed = won(db.claim(&request));
        let id = claimed.execution();
        let outcome = succeeded(claimed, db.now);
        let stranded = db.stranded().into_iter().find(|stranded| stranded.id == id).unwrap();
        let results = race(THREADS, |number| {
            if number == 0 {
                return patiently(|| db.store.settle(std::slice::from_ref(&outcome))) == [Applied::Done];
            }
            let transition = Transition::Abandon(Some(NextAttempt::new(db.now, Reason::Recovery)));
            let revocation = Revocation { stranded: stranded.clone(), transition, now: db.now };
            patiently(|| db.store.revoke(std::slice::from_ref(&revocation))) == [true]
        });
        assert_eq!(results.iter().filter(|won| **won).count(), 1, "round {round}: {results:?}");
        let state = if results[0] { "SUCCEEDED" } else { "ABANDONED" };
        assert_eq!(db.execution(id).state, state);
        assert_eq!(db.pendings_of(entry.id).len(), usize::from(!results[0]));
    }
}

/// Planned or asked for: who claims first keeps all others away.
pub(crate) fn no_more_of_many_win_than_may_run_at_once(db: &Bench) {
    const MOST: usize = 2;
    let names: Vec<String> = (0..THREADS).map(|number| format!("limited-{number}")).collect();
    names.iter().for_each(|name| drop(db.limited(name, 2)));
    for round in 1..=ROUNDS {
        let heads = names.iter().map(|name| ClaimRequest { at_once: true, ..db.head(&db.entry(name)) });
        let requests: Vec<ClaimRequest> = heads.collect();
        let wins = race(THREADS, |number| db.claim_all(&requests[number..=number]));
        let won: Vec<(usize, ExecutionId)> =
            wins.iter().enumerate().filter_map(|(number, won)| Some((number, won.first()?.1))).collect();
        assert_eq!(won.len(), MOST, "round {round}: {won:?}");
        for (number, winner) in won {
            let end = ExecutionChange::of(winner, requests[number].token, Transition::Succeed, db.now);
            assert_eq!(db.settle(&end), Applied::Done);
        }
    }
}

pub(crate) fn one_of_many_takes_the_slot(db: &Bench) {
    let _ = db.exclusive("s", Overlap::Skip);
    for round in 1..=ROUNDS {
        let entry = db.entry("s");
        let candidate = |number: usize| match number % 2 {
            0 => Candidate::Planned(Occurrence::head(&entry).expect("it recurs")),
            _ => {
                let id = db.ordered(&db.run_order("s"));
                Candidate::Pending(db.find_pending(id).expect("asked for"))
            }
        };
        let request = |number| ClaimRequest { at_once: true, ..db.request(candidate(number)) };
        let requests: Vec<ClaimRequest> = (0..THREADS).map(request).collect();
        let wins = race(THREADS, |number| db.claim_all(&requests[number..=number]));
        let won = wins.iter().enumerate().filter_map(|(number, won)| Some((number, won.first()?.1)));
        let won: Vec<(usize, ExecutionId)> = won.collect();
        let [(number, winner)] = won[..] else { panic!("round {round}: {won:?}") };
        let end = ExecutionChange::of(winner, requests[number].token, Transition::Succeed, db.now);
        assert_eq!(db.settle(&end), Applied::Done);
    }
}

//! Faults of earlier schedulers of this design that a store could have.

use super::*;
use crate::domain::{Cursor, ExecutionState, NextFire, ScheduleState};
use crate::store::{Heartbeat, HeartbeatReply};

/// Moving the cursor was all a claim did: a crash before the end, and nobody knew of the occurrence any more.
pub(crate) fn a_claim_leaves_a_row_so_a_crash_loses_no_run(db: &Bench) {
    for (name, at_once) in [("waiting", false), ("started", true)] {
        let node = db.another_node();
        let entry = db.schedule(name);
        let id = drop_claimed(db.claim(&ClaimRequest { at_once, node, ..db.head(&entry) }));
        let beat = db.number(RowKey::Node(node), "beat");
        assert!(db.store.declare_dead(node, beat, db.now).unwrap());

        let stranded = db.stranded();
        let [found] = &stranded[..] else { panic!("one execution was stranded, not {stranded:?}") };
        assert_eq!((found.id, found.schedule), (id, entry.id));
        let revocation = crate::repair::recover(found.clone(), db.now, db.now);
        assert!(db.revoked(&revocation));
        let pendings = db.pendings_of(entry.id);
        let [again] = &pendings[..] else { panic!("it runs once more, not {pendings:?}") };
        assert_eq!(again.scheduled, db.base);
        drop_claimed(db.claim(&db.request(Candidate::Pending(again.clone()))));
    }
}

/// Two nodes with one address, one host name and one pid: each is itself, in life and in death.
pub(crate) fn a_node_is_not_its_ip_address(db: &Bench) {
    let (one, two) = (db.node, db.another_node());
    let labels = |id: NodeId| {
        let nodes = db.store.nodes(Some(&db.app)).unwrap();
        let node = nodes.into_iter().find(|node| node.id == id.to_string()).expect("it has a row");
        (node.host_ip, node.host_name, node.pid)
    };
    assert_eq!(labels(one), labels(two));
    let pulse = |node| {
        let application = db.app.clone();
        db.store
            .beat(&Heartbeat {
                node,
                application,
                lanes: Vec::new(),
                left_alone: Vec::new(),
                withdraw: false,
                drained: false,
                tells: false,
                blocked: Vec::new(),
                now: db.now,
            })
            .unwrap()
    };
    let beats = |node| db.number(RowKey::Node(node), "beat");
    let before = (beats(one), beats(two));
    let mine = won(db.claim(&ClaimRequest { node: one, ..db.head(&db.schedule("one's")) }));
    let other = won(db.claim(&ClaimRequest { node: two, ..db.head(&db.schedule("two's")) }));
    let HeartbeatReply::Alive { peers, owned } = pulse(one) else { panic!("it lives") };
    assert_eq!((peers.len(), (beats(one), beats(two))), (2, (before.0 + 1, before.1)));
    assert_eq!(owned.iter().map(|own| own.id).collect::<Vec<_>>(), [mine.execution()]);

    assert!(db.store.declare_dead(two, beats(two), db.now).unwrap());
    assert!(matches!(pulse(one), HeartbeatReply::Alive { .. }), "the other's death is not its own");
    assert!(matches!(pulse(two), HeartbeatReply::Ended), "the other's life is not its own");
    assert_eq!(db.stranded().iter().map(|row| row.id).collect::<Vec<_>>(), [other.execution()]);
}

/// Between the decision and the UPDATE somebody else paused the row, claimed it, or moved it and put it back.
pub(crate) fn repair_does_not_update_where_id_alone(db: &Bench) {
    let paused = db.schedule("paused");
    let repair = db.repair(&paused);
    assert!(db.store.pause(paused.id, paused.version, "op", "a moment ago").unwrap());
    assert!(!db.repaired(&repair));
    let row = db.schedule_row(paused.id);
    assert_eq!(
        (row.state.as_str(), row.pause.reason.as_str()),
        (ScheduleState::Paused.stored(), "a moment ago")
    );
    assert_eq!(db.entry("paused").cursor, paused.cursor);

    let claimed = db.schedule("claimed");
    let repair = db.repair(&claimed);
    drop_claimed(db.claim(&db.head(&claimed)));
    let after = db.entry("claimed");
    assert!(!db.repaired(&repair));
    assert_eq!(*db.entry("claimed"), *after);

    let moved = db.schedule("moved");
    let repair = db.repair(&moved);
    assert!(db.repaired(&Repair { to: moved.cursor, passed: 0, ..repair.clone() }));
    assert!(!db.repaired(&repair));
    assert_eq!(db.entry("moved").cursor, moved.cursor);
}

/// Claims in hand of a node that read the row before another fired it. Whatever the row was armed with since,
/// even the very time the claim asks for, they lose.
pub(crate) fn a_row_another_node_fired_and_rearmed_is_not_fired_again(db: &Bench) {
    let other = db.another_node();
    let fired = |name: &str| {
        let seen = db.schedule(name);
        let in_hand = db.head(&seen);
        let claimed = won(db.claim(&ClaimRequest { node: other, at_once: true, ..db.head(&seen) }));
        assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done);
        (seen, in_hand)
    };
    let loses = |name: &str, in_hand: &ClaimRequest| {
        let before = (db.entry(name), db.executions());
        assert!(is_lost(&db.claim(in_hand)), "{name}: fired again");
        assert!(is_lost(&db.resolve(in_hand)), "{name}: fired again");
        assert_eq!((db.entry(name), db.executions()), before);
    };
    let (_, in_hand) = fired("armed for the next time");
    loses("armed for the next time", &in_hand);

    let (seen, in_hand) = fired("armed for the same time");
    let row = RowKey::Schedule(seen.id);
    db.set(row, "prev_fire_time", &(db.base - 1_000).to_string());
    db.set(row, "next_fire_time", &db.base.to_string());
    loses("armed for the same time", &in_hand);

    let (seen, in_hand) = fired("armed by hand");
    db.rewind(&seen);
    db.set(RowKey::Schedule(seen.id), "next_fire_time", &(db.base + 500).to_string());
    loses("armed by hand", &in_hand);

    let (seen, in_hand) = fired("as it was, but newer");
    let repair = db.repair(&db.entry("as it was, but newer"));
    assert!(db.repaired(&Repair { to: seen.cursor, passed: 0, ..repair }));
    assert_eq!(db.entry("as it was, but newer").cursor, Cursor { prev: None, next: NextFire::At(db.base) });
    loses("as it was, but newer", &in_hand);

    let done = db.executions().into_iter().filter(|row| row.state == ExecutionState::Succeeded.as_str());
    assert_eq!(done.count(), 4, "each was fired once");
}

//! Nodes: registration, heartbeat, death, election.

use super::*;
use crate::domain::{Activity, Bound, Bounds, JobSettings, LaneHealth, Rate, Retry};
use crate::store::{Heartbeat, HeartbeatReply, LeftAlone, Peer};

fn left_alone() -> LeftAlone {
    LeftAlone { schedule: 7, version: 8, reason: "no \"field\"".to_owned() }
}

fn lanes() -> Vec<LaneHealth> {
    let slow = LaneHealth { name: "slow".into(), threads: 2, busy: 2, queued: 1, ..LaneHealth::default() };
    vec![
        LaneHealth { name: "default \u{1f980}".into(), threads: 16, stuck: 1, ..LaneHealth::default() },
        slow,
    ]
}

impl Bench {
    fn beat(&self, node: NodeId) -> HeartbeatReply {
        let lanes = lanes();
        let now = self.now + 5_000;
        self.store
            .beat(&Heartbeat {
                node,
                application: self.app.clone(),
                lanes,
                left_alone: vec![left_alone()],
                withdraw: false,
                drained: false,
                tells: false,
                blocked: Vec::new(),
                now,
            })
            .unwrap()
    }

    /// The node's beat as its peers see it.
    fn beat_of(&self, node: NodeId) -> i64 {
        self.number(RowKey::Node(node), "beat")
    }

    fn peers(&self, node: NodeId) -> Vec<Peer> {
        match self.beat(node) {
            HeartbeatReply::Alive { peers, .. } => peers,
            reply => panic!("{node} has not ended: {reply:?}"),
        }
    }
}

pub(crate) fn a_beat_adds_one(db: &Bench) {
    let before = db.beat_of(db.node);
    for more in 1..=3 {
        let peers = db.peers(db.node);
        assert_eq!(db.beat_of(db.node), before + more);
        assert_eq!(
            peers,
            [Peer { id: db.node, beat: before + more, jobs: vec![JOB.to_owned()], blocked: Vec::new() }]
        );
    }
}

pub(crate) fn a_beat_tells_of_peers_and_of_what_one_owns(db: &Bench) {
    let (other, gone) = (db.another_node(), db.another_node());
    db.store.leave(gone, db.now).unwrap();
    let mine = [db.claim_head(&db.schedule("a")), db.run_head(&db.schedule("b"))];
    drop_claimed(db.claim(&ClaimRequest { node: other, ..db.head(&db.schedule("c")) }));
    assert_eq!(db.settle(&succeeded(db.run_head(&db.schedule("d")), db.now)), Applied::Done);

    let HeartbeatReply::Alive { mut peers, mut owned } = db.beat(db.node) else { panic!("it lives") };
    peers.sort_by_key(|peer| peer.id);
    let mut expected = [db.node, other];
    expected.sort();
    assert_eq!(peers.iter().map(|peer| peer.id).collect::<Vec<_>>(), expected);
    owned.sort_by_key(|stranded| stranded.id);
    let owned: Vec<_> = owned.iter().map(|own| (own.id, own.token, own.state.as_str())).collect();
    let of = |claimed: &Claimed, state| (claimed.execution(), claimed.token(), state);
    assert_eq!(owned, [of(&mine[0], "CLAIMED"), of(&mine[1], "RUNNING")]);
}

pub(crate) fn a_beat_tells_what_each_peer_claims(db: &Bench) {
    let (other, off) = (NodeId::fresh(), db.another_node());
    db.join(other, &["a", "b"]);
    db.set(RowKey::Node(off), "state", "'N'");
    let jobs = |peers: &[Peer], node| peers.iter().find(|peer| peer.id == node).unwrap().jobs.clone();
    let peers = db.peers(db.node);
    assert_eq!(jobs(&peers, db.node), [JOB]);
    assert_eq!(jobs(&peers, other), ["a", "b"]);
    assert_eq!(jobs(&peers, off), [""; 0], "it is switched off");
}

/// The list of its jobs is that of its handlers, also for who lists the nodes.
pub(crate) fn a_beat_that_tells_says_what_a_node_cannot_run(db: &Bench) {
    let new = db.new_node(db.node, &db.app, &[]);
    let blocked = |tells, blocked: &[&str]| {
        let blocked = blocked.iter().map(|job| (*job).to_owned()).collect();
        let beat = Heartbeat { tells, blocked, ..new.beat(db.now) };
        let HeartbeatReply::Alive { peers, .. } = db.store.beat(&beat).unwrap() else { panic!("it lives") };
        assert_eq!((peers.len(), peers[0].jobs.as_slice()), (1, &[JOB.to_owned()][..]));
        assert_eq!(db.store.nodes(Some(&db.app)).unwrap()[0].jobs, [JOB]);
        peers[0].blocked.clone()
    };
    assert_eq!(blocked(true, &[JOB]), [JOB]);
    assert_eq!(blocked(false, &[]), [JOB], "as it was told last");
    assert_eq!(blocked(true, &[]), [""; 0]);
}

pub(crate) fn a_node_that_withdraws_claims_nothing_more(db: &Bench) {
    let node = db.another_node();
    let (application, lanes) = (db.app.clone(), Vec::new());
    let beat = Heartbeat {
        node,
        application,
        lanes,
        left_alone: Vec::new(),
        withdraw: true,
        drained: false,
        tells: false,
        blocked: Vec::new(),
        now: db.now,
    };
    assert!(matches!(db.store.beat(&beat).unwrap(), HeartbeatReply::Alive { .. }));
    let seen = |peers: &[Peer]| {
        peers.iter().filter(|peer| !peer.jobs.is_empty()).map(|peer| peer.id).collect::<Vec<_>>()
    };
    assert_eq!(seen(&db.peers(node)), [db.node], "and a later beat does not switch it on");
    assert!(!db.store.poll(&PollQuery { node, ..db.query(db.now) }).unwrap().node_enabled);
    assert!(db.poll(db.now).node_enabled);
}

pub(crate) fn an_ended_node_is_told_by_its_beat(db: &Bench) {
    let node = db.another_node();
    assert!(db.store.declare_dead(node, db.beat_of(node), db.now).unwrap());
    let before = db.beat_of(node);
    assert!(matches!(db.beat(node), HeartbeatReply::Ended));
    assert_eq!(db.beat_of(node), before);
    assert_eq!(db.peers(db.node).len(), 1);
}

pub(crate) fn an_unknown_node_is_told_by_its_beat(db: &Bench) {
    assert!(matches!(db.beat(NodeId::fresh()), HeartbeatReply::Ended));
}

pub(crate) fn death_is_guarded_by_the_beat(db: &Bench) {
    let node = db.another_node();
    let seen = db.beat_of(node);
    assert!(matches!(db.beat(node), HeartbeatReply::Alive { .. }));
    assert!(!db.store.declare_dead(node, seen, db.now).unwrap());
    assert!(matches!(db.beat(node), HeartbeatReply::Alive { .. }));
    let seen = db.beat_of(node);
    assert!(!db.store.declare_dead(NodeId::fresh(), seen, db.now).unwrap());
    assert!(db.store.declare_dead(node, seen, db.now).unwrap());
    assert!(!db.store.declare_dead(node, seen, db.now).unwrap(), "the second is not the one that did it");
}

pub(crate) fn a_node_leaves_once(db: &Bench) {
    let node = db.another_node();
    db.store.leave(node, db.now + 1).unwrap();
    db.store.leave(node, db.now + 2).unwrap();
    assert!(!db.store.declare_dead(node, db.beat_of(node), db.now + 3).unwrap());
    assert!(matches!(db.beat(node), HeartbeatReply::Ended));
    let rows = db.store.nodes(Some(&db.app)).unwrap();
    let row = rows.iter().find(|row| row.id == node.to_string()).unwrap();
    assert_eq!(row.ended, Some((db.now + 1, "stopped".to_owned())));
}

pub(crate) fn the_nodes_are_shown(db: &Bench) {
    let dead = db.another_node();
    assert!(db.store.declare_dead(dead, db.beat_of(dead), db.now + 7).unwrap());
    assert!(matches!(db.beat(db.node), HeartbeatReply::Alive { .. }));
    let rows = db.store.nodes(Some(&db.app)).unwrap();
    assert_eq!(rows.len(), 2);
    let find = |id: NodeId| rows.iter().find(|row| row.id == id.to_string()).unwrap();
    assert_eq!(find(dead).ended, Some((db.now + 7, "dead".to_owned())));
    let live = find(db.node);
    assert_eq!((live.host_ip.as_str(), live.host_name.as_str(), live.pid), ("192.0.2.1", "bench", 4_711));
    assert_eq!(
        (live.jobs.as_slice(), live.switch == Activity::Active, live.ended.is_none()),
        (&[JOB.to_owned()][..], true, true)
    );
    assert_eq!((live.lanes.as_slice(), find(dead).lanes.len()), (lanes().as_slice(), 0));
    assert_eq!(live.left_alone, [left_alone()]);
    assert_eq!((live.started, live.last_beat), (db.now, db.now + 5_000));
    assert!(db.store.nodes(None).unwrap().len() >= 2);
    assert!(db.store.nodes(Some(&fresh_name())).unwrap().is_empty());
}

const POLICY: JobPolicy = JobPolicy {
    recover: false,
    max_attempts: 9,
    retry: Retry::exponential(Duration::from_millis(1_500), Duration::from_secs(60)).jitter(30).at_most(4),
    time_limit: Some(Duration::from_secs(90)),
    bounds: Bounds {
        job: Bound { concurrency: Some(3), rate: Rate { count: 70, per: 60_000 } },
        group: Bound { concurrency: Some(2), rate: Rate { count: 9, per: 1_500 } },
    },
};

impl Bench {
    fn join_with_policy(&self) {
        let mut node = self.new_node(NodeId::fresh(), &self.app, &[]);
        node.jobs = vec![JobSpec::new(JOB, POLICY)];
        self.store.register(&node).unwrap();
    }
}

/// Repair reads policies from the database: a deployment that changes one must reach it.
pub(crate) fn a_job_keeps_the_policy_of_the_latest_node(db: &Bench) {
    let entry = db.schedule("s");
    drop_claimed(db.claim(&ClaimRequest { node: NodeId::fresh(), ..db.head(&entry) }));
    db.join_with_policy();
    assert_eq!(db.stranded()[0].policy, POLICY);
}

/// A client's definition with recovery made a job that must not run twice run twice.
pub(crate) fn a_definition_leaves_the_policy_of_a_node_alone(db: &Bench) {
    db.join_with_policy();
    let entry = db.schedule("s");
    drop_claimed(db.claim(&ClaimRequest { node: NodeId::fresh(), ..db.head(&entry) }));
    assert_eq!(db.stranded()[0].policy, POLICY, "created");
    let changed = Definition { priority: 9, ..db.definition("s") };
    for (definition, ended) in [(db.definition("s"), Ensured::Unchanged), (changed, Ensured::Changed)] {
        assert_eq!(db.store.ensure(&definition).unwrap(), ended);
        assert_eq!(db.stranded()[0].policy, POLICY, "{ended:?}");
    }
}

/// A client may define schedules of a job before any node has a handler for it.
pub(crate) fn a_definition_makes_the_missing_job_until_a_node_knows_better(db: &Bench) {
    let invented = JobPolicy { max_attempts: 7, ..POLICY };
    let job = JobSpec::new("other", invented);
    let entry = db.create(&Definition { job, ..db.definition("s") });
    let policy = || db.stranded()[0].policy;
    drop_claimed(db.claim(&ClaimRequest { node: NodeId::fresh(), ..db.head(&entry) }));
    assert_eq!(policy(), invented);
    let mut node = db.new_node(NodeId::fresh(), &db.app, &[]);
    node.jobs = vec![JobSpec::new("other", POLICY)];
    db.store.register(&node).unwrap();
    assert_eq!(policy(), POLICY);
}

/// A description is shown in the words of the node that joined last; a client's are for a missing job.
pub(crate) fn a_job_is_described_by_the_latest_node(db: &Bench) {
    let described = |name: &str, text: &str| {
        let settings = JobSettings { description: text.to_owned().into(), ..POLICY.into() };
        JobSpec { name: name.to_owned(), settings }
    };
    let join = |text: &str| {
        let mut node = db.new_node(NodeId::fresh(), &db.app, &[]);
        node.jobs = vec![described(JOB, text), described("beside", "")];
        db.store.register(&node).unwrap();
    };
    let shown = |name: &str| {
        let jobs = db.store.jobs(&db.app).unwrap();
        jobs.into_iter().find(|job| job.name == name).unwrap().settings
    };
    assert_eq!(shown(JOB).description, "");
    for text in ["Zieht Beiträge ein; it's monthly", "another", " Another ", ""] {
        join(text);
        assert_eq!((shown(JOB), shown("beside").description.as_ref()), (described(JOB, text).settings, ""));
    }
    for (name, text) in [("new", "a client's"), (JOB, "")] {
        let job = described(name, "a client's");
        assert_eq!(db.store.ensure(&Definition { job, ..db.definition(name) }).unwrap(), Ensured::Created);
        assert_eq!(shown(name).description, text);
    }
}

pub(crate) fn an_election_holds_for_its_interval(db: &Bench) {
    let elect = |at| db.store.elect(&db.app, db.now + at, 15_000).unwrap().is_done();
    assert!(elect(0));
    assert_eq!(db.number(RowKey::App(&db.app), "time_pre"), db.now.millis());
    assert_eq!(db.number(RowKey::App(&db.app), "time_next"), (db.now + 15_000).millis());
    assert!(!elect(0));
    assert!(!elect(14_999));
    assert!(elect(15_000));
    assert!(!elect(29_999));
    assert!(elect(90_000), "a late node finds the mark behind it");
}

pub(crate) fn an_election_mark_far_ahead_counts_as_due(db: &Bench) {
    let elect = || db.store.elect(&db.app, db.now, 15_000).unwrap().is_done();
    db.set(RowKey::App(&db.app), "time_next", &(db.now + 30_000).to_string());
    assert!(!elect());
    db.set(RowKey::App(&db.app), "time_next", &(db.now + 30_001).to_string());
    assert!(elect());
    assert_eq!(db.number(RowKey::App(&db.app), "time_next"), (db.now + 15_000).millis());
}

pub(crate) fn an_election_makes_the_missing_application(db: &Bench) {
    let app = fresh_name();
    assert!(db.store.elect(&app, db.now, 15_000).unwrap().is_done());
    assert!(!db.store.elect(&app, db.now + 1, 15_000).unwrap().is_done());
    assert_eq!(db.get(RowKey::App(&app), "state").as_deref(), Some("Y"));
}

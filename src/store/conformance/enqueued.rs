//! Executions that are enqueued: without a schedule, and each claimed under its own row alone.

use std::collections::BTreeSet;
use std::sync::Barrier;

use super::concurrency::concurrency;
use super::*;
use crate::domain::headers::{self, Headers};
use crate::domain::{Cause, ExecutionState, ScheduleState};
use crate::store::audit::Attribution;
use crate::store::enqueue::{DueAt, EnqueueOrder, Keyed, OnConflict, UniqueKey, first_origin, queue_of};
use crate::store::order::{Cancel, ExecutionOrder, KeyAndTags, Retry};
use crate::store::said::Said;
use crate::store::switch::{Scope, SwitchOrder, SwitchVerb, Switched};
use crate::store::{IfNotMade, QueuePlace, QueueWalk};

const DAY: Millis = 86_400_000;

impl Bench {
    pub(super) fn enqueue_order(&self, payloads: &[&str]) -> EnqueueOrder {
        EnqueueOrder {
            application: self.app.clone(),
            job: job(JOB),
            groups: Vec::new(),
            payloads: payloads.iter().map(|payload| (*payload).to_owned()).collect(),
            due: DueAt::Instant(self.base),
            priority: None,
            key: None,
            lane: String::new(),
            tags: Vec::new(),
            headers: Headers::new(),
            notifier: Arc::default(),
        }
    }

    fn keyed(&self, payload: &str, key: &str, on_conflict: OnConflict) -> Keyed {
        let unique = UniqueKey { key: key.to_owned(), per: None, on_conflict };
        let order = EnqueueOrder { key: Some(unique), ..self.enqueue_order(&[payload]) };
        self.store.enqueue_unique(&order).unwrap()
    }

    /// An execution with what is read of one alone.
    fn attempt(&self, id: ExecutionId) -> ExecutionRow {
        let query = ExecutionQuery { of: Some(id), limit: 9, ..Default::default() };
        self.store.executions(&query).unwrap().into_iter().find(|row| row.id == id.0).unwrap()
    }

    fn enqueue(&self, payloads: &[&str]) -> Vec<ExecutionId> {
        self.store.enqueue(&self.enqueue_order(payloads)).unwrap()
    }

    /// A request for an enqueued execution that waits.
    fn taken(&self, id: ExecutionId) -> ClaimRequest {
        self.request(Candidate::Pending(self.find_pending(id).expect("a poll brings it")))
    }

    fn run_enqueued(&self, id: ExecutionId) -> Claimed {
        won(self.claim(&ClaimRequest { at_once: true, ..self.taken(id) }))
    }

    /// Walks over all queues; how many executions it removes.
    pub(super) fn purge_queues(&self, keep: Millis, limit: usize) -> usize {
        let (application, mut after, mut removed) = (self.app.clone(), QueuePlace::FIRST, 0);
        for _ in 0..1_000 {
            let walk = QueueWalk { application: application.clone(), after, keep, limit };
            let purged = self.store.purge_queues(&walk).unwrap();
            removed += purged.executions;
            match purged.next {
                Some(next) => after = next,
                None => return removed,
            }
        }
        panic!("the walk has no end")
    }
}

pub(crate) fn an_enqueued_execution_has_no_schedule_and_is_claimed_like_any_other(db: &Bench) {
    let [id] = db.enqueue(&["7"])[..] else { panic!("one payload, one execution") };
    let row = db.execution(id);
    let said = (row.schedule.as_str(), row.job.as_str(), row.state.as_str(), row.reason.as_str());
    assert_eq!(said, ("queue:work", "work", "PENDING", "enqueued"));
    assert_eq!((row.attempt, row.due, row.scheduled, row.fence), (1, db.base, db.base, 0));
    let pending = db.find_pending(id).unwrap();
    assert_eq!((pending.payload.as_deref(), &pending.cause), (Some("7"), &Cause::Enqueued));
    assert!(pending.entry.is_queue && pending.entry.state == ScheduleState::Complete);
    let claimed = db.run_enqueued(id);
    assert_eq!((claimed.execution(), claimed.payload(), claimed.fence()), (id, "7", 1));
    assert_eq!(db.execution(id).state, "RUNNING");
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done);
    assert_eq!(db.execution(id).state, "SUCCEEDED");
    assert!(db.poll(Timestamp::MAX).pendings.is_empty());
}

pub(crate) fn many_are_stored_in_the_order_of_their_payloads(db: &Bench) {
    let payloads: Vec<String> = (0..2_500).map(|n| n.to_string()).collect();
    let texts: Vec<&str> = payloads.iter().map(String::as_str).collect();
    let ids = db.enqueue(&texts);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 2_500);
    let query = PollQuery { limit: 5_000, ..db.query(Timestamp::MAX) };
    let pendings = db.store.poll(&query).unwrap().pendings;
    let payload =
        |id: &ExecutionId| pendings.iter().find(|it| it.id == *id).and_then(|it| it.payload.clone());
    for n in [0, 1, 255, 256, 999, 1_000, 2_499] {
        assert_eq!(payload(&ids[n]).as_deref(), Some(texts[n]));
    }
    assert!(db.enqueue(&[]).is_empty());
}

pub(crate) fn an_enqueued_execution_is_due_when_it_is_said_to_be(db: &Bench) {
    let order = EnqueueOrder { due: DueAt::After(90_000), priority: Some(9), ..db.enqueue_order(&["1"]) };
    let [later] = db.store.enqueue(&order).unwrap()[..] else { panic!() };
    let row = db.execution(later);
    assert!((row.due - db.now - 90_000).abs() < 60_000 && row.due == row.scheduled, "{row:?}");
    let pending = db.find_pending(later).unwrap();
    assert_eq!((pending.priority, Candidate::Pending(pending.clone()).priority()), (Some(9), 9));
    let [plain] = db.enqueue(&["1"])[..] else { panic!() };
    let plain = db.find_pending(plain).unwrap();
    assert_eq!((plain.priority, Candidate::Pending(plain.clone()).priority()), (None, 5));
    assert!(db.poll(db.base).pendings.iter().all(|it| it.id != plain.id), "it is not due before its instant");
}

pub(crate) fn those_of_one_job_are_claimed_in_one_batch(db: &Bench) {
    let ids = db.enqueue(&["0", "1", "2"]);
    let planned = db.schedule("s");
    let mut requests: Vec<ClaimRequest> = ids.iter().map(|id| db.taken(*id)).collect();
    requests.insert(1, db.head(&planned));
    let claims = db.store.claim(&requests).unwrap();
    let won: Vec<ExecutionId> = claims.into_iter().map(drop_claimed).collect();
    assert_eq!([won[0], won[2], won[3]], ids[..]);
}

pub(crate) fn a_retry_keeps_payload_priority_and_fence(db: &Bench) {
    let order = EnqueueOrder { priority: Some(2), ..db.enqueue_order(&["7"]) };
    let [id] = db.store.enqueue(&order).unwrap()[..] else { panic!() };
    let first = db.run_enqueued(id);
    let failed = first.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let [retry] = &db.poll(Timestamp::MAX).pendings[..] else { panic!("one attempt follows") };
    assert_eq!((retry.attempt, retry.payload.as_deref(), retry.priority), (2, Some("7"), Some(2)));
    assert_eq!(&retry.cause, &Cause::Retry);
    let second = db.run_enqueued(retry.id);
    assert_eq!(second.fence(), 2, "it goes on from the first attempt's");
    let back = second.finish(Answer::Snooze(Duration::ZERO), None, db.now);
    assert_eq!(db.settle(&back), Applied::Done);
    assert_eq!(db.run_enqueued(retry.id).fence(), 3);
}

/// Not all by one node: a queue is one row, and lies in one shard.
pub(crate) fn each_shard_brings_its_own_enqueued_executions(db: &Bench) {
    let payloads = vec!["1"; 40];
    let ids: BTreeSet<ExecutionId> = db.enqueue(&payloads).into_iter().collect();
    let in_shards = |shards: std::ops::Range<i64>| {
        let share = Share { jobs: vec![JOB.to_owned()], shards: shards.collect() };
        let query = PollQuery { shares: vec![share], ..db.query(Timestamp::MAX) };
        db.store.poll(&query).unwrap().pendings.into_iter().map(|it| it.id).collect::<BTreeSet<_>>()
    };
    let (some, others) = (in_shards(0..5), in_shards(5..16));
    assert!(!some.is_empty() && !others.is_empty() && some.is_disjoint(&others), "{some:?} {others:?}");
    assert_eq!(some.union(&others).copied().collect::<BTreeSet<_>>(), ids);
    let share = Share { jobs: vec![JOB.to_owned()], shards: vec![0] };
    let query = PollQuery { shares: vec![share], names: vec![queue_of(JOB)], ..db.query(Timestamp::MAX) };
    assert_eq!(db.store.poll(&query).unwrap().pendings.len(), 40, "asked for by the queue's name");
}

pub(crate) fn an_enqueued_claim_loses_if_only_the_token_differs(db: &Bench) {
    let [id] = db.enqueue(&["1"])[..] else { panic!() };
    let request = db.taken(id);
    db.set(RowKey::Execution(id), "claim_token", &format!("'{}'", Token::fresh()));
    assert!(is_lost(&db.claim(&request)));
    assert_eq!(db.execution(id).state, "PENDING");
}

pub(crate) fn one_of_many_claimants_wins_an_enqueued_execution(db: &Bench) {
    const THREADS: usize = 4;
    let payloads = vec!["1"; 30];
    let ids = db.enqueue(&payloads);
    let pendings: Vec<Pending> = ids.iter().filter_map(|id| db.find_pending(*id)).collect();
    let start = Barrier::new(THREADS);
    let claim = |number: usize| {
        let mut mine = pendings.clone();
        mine.rotate_left(number * 7);
        let node = NodeId::fresh();
        let request = |it: Pending| ClaimRequest { node, ..db.request(Candidate::Pending(it)) };
        let requests: Vec<ClaimRequest> = mine.into_iter().map(request).collect();
        start.wait();
        let claims = db.store.claim(&requests).unwrap();
        claims
            .into_iter()
            .filter_map(|claim| match claim {
                Claim::Won(claimed) => Some(claimed.execution()),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let wins: Vec<ExecutionId> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || claim(n))).collect();
        racers.into_iter().flat_map(|racer| racer.join().unwrap()).collect()
    });
    assert_eq!(wins.len(), wins.iter().collect::<BTreeSet<_>>().len(), "{wins:?}");
    let claimed = db.executions().iter().filter(|row| row.state == "CLAIMED").count();
    assert!(claimed == wins.len() && claimed > 0, "{claimed} of {}", wins.len());
}

pub(crate) fn an_enqueued_claim_that_was_given_up_is_lost_however_late_it_comes(db: &Bench) {
    let [id] = db.enqueue(&["1"])[..] else { panic!() };
    let request = db.taken(id);
    let claims = db.store.resolve(std::slice::from_ref(&request), IfNotMade::Prevent).unwrap();
    assert!(matches!(claims[..], [Claim::Lost]), "{claims:?}");
    assert!(is_lost(&db.claim(&request)));
    drop_claimed(db.claim(&db.taken(id)));
}

pub(crate) fn an_unknown_claim_of_enqueued_executions_is_settled_by_itself(db: &Bench) {
    let ids = db.enqueue(&["0", "1", "2"]);
    let requests: Vec<ClaimRequest> = ids.iter().map(|id| db.taken(*id)).collect();
    drop_claimed(db.claim(&requests[0]));
    drop_claimed(db.claim(&db.taken(ids[1])));
    let claims = db.resolve_all(&requests);
    assert!(matches!(claims[..], [Claim::Won(_), Claim::Lost, Claim::Won(_)]), "{claims:?}");
}

pub(crate) fn an_enqueued_execution_of_a_dead_node_is_taken_back(db: &Bench) {
    let [id] = db.enqueue(&["7"])[..] else { panic!() };
    let dead = db.another_node();
    let claimed = db.claim(&ClaimRequest { node: dead, at_once: true, ..db.taken(id) });
    drop_claimed(claimed);
    assert!(db.applied(&Change::End(crate::store::NodeEnd { node: dead, beat: None, now: db.now })));
    let [stranded] = &db.stranded()[..] else { panic!("one") };
    assert_eq!((stranded.id, &*stranded.name, &*stranded.job), (id, "queue:work", JOB));
    assert!(db.revoked(&crate::repair::recover(stranded.clone(), db.now, db.now)));
    assert_eq!(db.execution(id).state, ExecutionState::Abandoned.as_str());
    let [again] = &db.poll(Timestamp::MAX).pendings[..] else { panic!("one attempt follows") };
    assert_eq!((again.attempt, again.payload.as_deref(), &again.cause), (2, Some("7"), &Cause::Recovery));
}

pub(crate) fn no_more_enqueued_executions_of_a_job_run_than_may(db: &Bench) {
    let mut node = db.new_node(NodeId::fresh(), &db.app, &[]);
    let policy = JobPolicy { bounds: concurrency(2), ..JobPolicy::DEFAULT };
    node.jobs = vec![JobSpec::new(JOB, policy)];
    db.store.register(&node).unwrap();
    let ids = db.enqueue(&["0", "1", "2"]);
    let requests: Vec<ClaimRequest> = ids.iter().map(|id| db.taken(*id)).collect();
    let claims = db.store.claim(&requests).unwrap();
    assert!(matches!(claims[..], [Claim::Won(_), Claim::Won(_), Claim::Full(_)]), "{claims:?}");
}

pub(crate) fn a_paused_job_holds_its_enqueued_executions(db: &Bench) {
    let [id] = db.enqueue(&["1"])[..] else { panic!() };
    let (application, scope) = (db.app.clone(), Scope::Job(JOB.to_owned()));
    let (verb, by) = (SwitchVerb::Pause { until: None }, Attribution::default());
    let pause = SwitchOrder { application, scope, verb, by };
    assert_eq!(db.store.switch(&pause).unwrap(), Switched::Done);
    assert_eq!(db.find_pending(id), None);
}

/// Also of a job whose name leaves no room in the audit.
pub(crate) fn an_enqueued_execution_that_has_not_begun_is_cancelled(db: &Bench) {
    let order = EnqueueOrder { job: job(&"j".repeat(200)), ..db.enqueue_order(&["1"]) };
    let [id] = db.store.enqueue(&order).unwrap()[..] else { panic!() };
    let order = ExecutionOrder::new(db.app.clone(), id, Attribution::default());
    assert_eq!(db.store.cancel(&order).unwrap(), Cancel::Done);
    assert_eq!(db.execution(id).state, "CANCELLED");
}

pub(crate) fn ended_ones_leave_with_the_retention_and_open_ones_stay(db: &Bench) {
    let ids = db.enqueue(&["0", "1", "2", "3", "4"]);
    let old = db.now - 3 * DAY;
    for id in &ids[..4] {
        let claimed = db.run_enqueued(*id);
        let answer = if *id == ids[1] { Answer::Failed("no".to_owned()) } else { Answer::Done };
        let retry = (*id == ids[1]).then_some(db.base);
        assert_eq!(db.settle(&claimed.finish(answer, retry, db.now)), Applied::Done);
    }
    let second = db.executions().into_iter().find(|row| row.attempt == 2).expect("a retry");
    for (n, row) in db.executions().iter().enumerate() {
        // They were enqueued long ago, and all but one ended then.
        let age = first_origin(old, n as u128);
        let key = RowKey::Execution(ExecutionId(row.id));
        if row.attempt == 1 {
            db.set(key, "origin", &age.to_string());
        }
        if ExecutionState::Succeeded.as_str() == row.state && row.id != ids[3].0 {
            db.set(key, "finished_time", &old.to_string());
            db.set(key, "scheduled_time", &old.to_string());
        }
    }
    let origin = db.execution(ids[1]).origin;
    db.set(RowKey::Execution(ExecutionId(second.id)), "origin", &origin.to_string());
    assert_eq!(db.purge_queues(4 * DAY, 2), 0);
    assert_eq!(db.purge_queues(DAY, 2), 2, "0 and 2 ended long ago");
    let left: BTreeSet<i64> = db.executions().iter().map(|row| row.id).collect();
    assert!([ids[1], ids[3], ids[4]].iter().all(|id| left.contains(&id.0)) && left.len() == 4, "{left:?}");
    assert_eq!(db.purge_queues(DAY, 100), 0);
}

/// The ids of executions, ascending.
fn found(db: &Bench, query: ExecutionQuery) -> Vec<ExecutionId> {
    let query = ExecutionQuery { application: Some(db.app.clone()), limit: 100, ..query };
    let mut ids: Vec<_> =
        db.store.executions(&query).unwrap().iter().map(|row| ExecutionId(row.id)).collect();
    ids.sort();
    ids
}

fn tagged(db: &Bench, tag: &str) -> Vec<ExecutionId> {
    found(db, ExecutionQuery { tag: Some(tag.to_owned()), ..Default::default() })
}

pub(crate) fn those_with_a_tag_are_found_by_it_until_they_leave(db: &Bench) {
    let texts = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
    let enqueue = |payloads: &[&str], tags: &[&str]| {
        let order = EnqueueOrder { tags: texts(tags), ..db.enqueue_order(payloads) };
        db.store.enqueue(&order).unwrap()
    };
    let both = enqueue(&["0", "1"], &["import", "order \"17\", ü"]);
    let one = enqueue(&["2"], &["import"]);
    let none = enqueue(&["3"], &[]);
    assert_eq!(db.execution(both[1]).tags, ["import", "order \"17\", ü"]);
    assert!(db.execution(none[0]).tags.is_empty());
    assert_eq!(tagged(db, "import"), [&both[..], &one[..]].concat());
    assert_eq!(tagged(db, "order \"17\", ü"), both);
    assert!(tagged(db, "impor").is_empty() && tagged(db, "").is_empty());
    let failed = db.run_enqueued(both[0]).finish(Answer::Failed("no".to_owned()), Some(db.base), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(tagged(db, "order \"17\", ü").len(), 3, "all attempts have it");
    assert_eq!(db.settle(&succeeded(db.run_enqueued(one[0]), db.now)), Applied::Done);
    // Others' tests have databases of their own, or tags.
    let kept = |tag: &str| db.fixture.tagged(&format!("{}-{tag}", db.app));
    let [own] = enqueue(&["4"], &[&format!("{}-a", db.app), &format!("{}-b", db.app)])[..] else { panic!() };
    assert_eq!((kept("a"), kept("b")), (1, 1));
    assert_eq!(db.settle(&succeeded(db.run_enqueued(own), db.now)), Applied::Done);
    assert_eq!((db.purge_queues(-DAY, 100), tagged(db, "import").len()), (2, 3));
    assert_eq!((kept("a"), kept("b")), (0, 0));
}

pub(crate) fn one_is_found_by_its_job_key_or_group(db: &Bench) {
    let order = EnqueueOrder { groups: vec!["ada".to_owned()], ..db.enqueue_order(&["1"]) };
    let [grouped] = db.store.enqueue(&order).unwrap()[..] else { panic!() };
    let Keyed::Created(first) = db.keyed("2", "k", OnConflict::Existing) else { panic!() };
    let by_key = |job: Option<&str>| {
        let (job, key) = (job.map(str::to_owned), Some("k".to_owned()));
        found(db, ExecutionQuery { job, key, ..Default::default() })
    };
    assert_eq!((by_key(None), by_key(Some(JOB)), by_key(Some("other"))), (vec![first], vec![first], vec![]));
    assert_eq!(db.settle(&succeeded(db.run_enqueued(first), db.now)), Applied::Done);
    assert_eq!(by_key(None), [first], "nobody has taken it since");
    let Keyed::Created(second) = db.keyed("3", "k", OnConflict::Existing) else { panic!() };
    assert_eq!(by_key(None), [second]);
    let group =
        |group: &str| found(db, ExecutionQuery { group: Some(group.to_owned()), ..Default::default() });
    assert_eq!((group("ada"), group("bob")), (vec![grouped], vec![]));
    let job = |job: &str| found(db, ExecutionQuery { job: Some(job.to_owned()), ..Default::default() });
    assert_eq!((job(JOB), job("other")), (vec![grouped, first, second], vec![]));
}

pub(crate) fn a_lane_is_kept_and_another_replaces_it(db: &Bench) {
    let unique = UniqueKey { key: "k".to_owned(), per: None, on_conflict: OnConflict::Replace };
    let order = EnqueueOrder {
        key: Some(unique),
        lane: "slow".to_owned(),
        tags: vec!["a".to_owned(), "b".to_owned()],
        ..db.enqueue_order(&["1"])
    };
    let Keyed::Created(id) = db.store.enqueue_unique(&order).unwrap() else { panic!() };
    let lane = || db.find_pending(id).unwrap().lane;
    assert_eq!((lane().as_deref(), db.execution(id).lane.as_deref()), (Some("slow"), Some("slow")));
    let other = EnqueueOrder { lane: String::new(), tags: vec!["b".to_owned(), "c".to_owned()], ..order };
    assert_eq!(db.store.enqueue_unique(&other).unwrap(), Keyed::Replaced(id));
    assert_eq!((lane(), db.execution(id).lane), (None, None));
    assert_eq!((tagged(db, "a"), tagged(db, "b"), tagged(db, "c")), (vec![], vec![id], vec![id]));
    let other = EnqueueOrder { lane: "fast".to_owned(), ..other };
    assert_eq!(db.store.enqueue_unique(&other).unwrap(), Keyed::Replaced(id));
    let failed = db.run_enqueued(id).finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let [retry] = &db.poll(Timestamp::MAX).pendings[..] else { panic!("one attempt follows") };
    assert_eq!(retry.lane.as_deref(), Some("fast"));
}

/// Each attempt has them, and another request's replace them.
pub(crate) fn headers_come_with_each_attempt(db: &Bench) {
    let headers = |all: &[(&str, &str)]| -> Headers {
        all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    };
    let one = headers(&[("tenant", "B\u{e4}ckerei \"7\""), ("traceparent", "00-1-2-01")]);
    let key = UniqueKey { key: "k".to_owned(), per: None, on_conflict: OnConflict::Replace };
    let order = EnqueueOrder { headers: one.clone(), key: Some(key), ..db.enqueue_order(&["1"]) };
    let Keyed::Created(id) = db.store.enqueue_unique(&order).unwrap() else { panic!("it is new") };
    let read = |column: Option<&str>| headers::read(column);
    let pending = || db.find_pending(id).unwrap().headers;
    assert_eq!((read(pending().as_deref()), db.attempt(id).headers), (one.clone(), one.clone()));
    let none = EnqueueOrder { headers: Headers::new(), ..order.clone() };
    assert_eq!(db.store.enqueue_unique(&none).unwrap(), Keyed::Replaced(id));
    assert_eq!((pending(), db.attempt(id).headers), (None, Headers::new()));
    assert_eq!(db.store.enqueue_unique(&order).unwrap(), Keyed::Replaced(id));
    let claimed = db.run_enqueued(id);
    assert_eq!(read(claimed.headers()), one);
    let failed = claimed.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let [retry] = &db.poll(Timestamp::MAX).pendings[..] else { panic!("one attempt follows") };
    assert_eq!(read(retry.headers.as_deref()), one);
    let by_hand = db.store.cancel(&ExecutionOrder::new(db.app.clone(), retry.id, Attribution::default()));
    assert_eq!(by_hand.unwrap(), Cancel::Done);
    let again = ExecutionOrder::new(db.app.clone(), retry.id, Attribution::default());
    let Retry::Pending(again) = db.store.retry(&again).unwrap() else { panic!("it may be tried again") };
    assert_eq!(db.attempt(again).headers, one);
    let many = EnqueueOrder { headers: one.clone(), ..db.enqueue_order(&["1", "2"]) };
    let many = db.store.enqueue(&many).unwrap();
    assert!(many.iter().all(|id| db.attempt(*id).headers == one));
    let [plain] = db.enqueue(&["1"])[..] else { panic!() };
    assert_eq!(db.run_enqueued(plain).headers(), None);
}

pub(crate) fn a_queue_is_no_schedule(db: &Bench) {
    db.enqueue(&["1"]);
    assert!(db.store.schedules(Some(&db.app)).unwrap().is_empty());
    assert!(db.store.schedule(&db.app, &queue_of(JOB)).unwrap().is_none());
    assert_eq!(db.store.count_by_job(&db.app, 10).unwrap(), [(JOB.to_owned(), 0)]);
    assert!(db.polled(Timestamp::MAX).is_empty() && db.overdue(Timestamp::MAX).is_empty());
    assert_eq!(db.unreadable(), []);
}

pub(crate) fn a_held_enqueued_execution_is_skipped_and_the_others_win(db: &Bench) {
    let ids = db.enqueue(&["0", "1", "2"]);
    let requests: Vec<ClaimRequest> = ids.iter().map(|id| db.taken(*id)).collect();
    let held = db.lock_row(RowKey::Execution(ids[1]));
    let claims = db.store.claim(&requests).unwrap();
    assert!(matches!(claims[..], [Claim::Won(_), Claim::Skipped, Claim::Won(_)]), "{claims:?}");
    let claims = db.store.resolve(&requests, IfNotMade::Claim).unwrap();
    assert!(matches!(claims[..], [Claim::Won(_), Claim::Skipped, Claim::Won(_)]), "{claims:?}");
    drop(held);
    let free = |claims: &[Claim]| matches!(claims, [Claim::Won(_), Claim::Won(_), Claim::Won(_)]);
    db.resolve_until(&requests, free);
}

/// From its storing until it has ended for good: also while it runs, and while it waits for its retry.
pub(crate) fn a_key_is_kept_until_its_execution_has_ended_for_good(db: &Bench) {
    let Keyed::Created(id) = db.keyed("1", "k", OnConflict::Existing) else { panic!("it is new") };
    assert_eq!(db.keyed("2", "k", OnConflict::Existing), Keyed::Existing(id), "it waits");
    assert!(matches!(db.keyed("2", "other", OnConflict::Existing), Keyed::Created(_)));
    let first = db.run_enqueued(id);
    assert_eq!(db.keyed("2", "k", OnConflict::Replace), Keyed::Existing(id), "it runs");
    let failed = first.finish(Answer::Failed("no".to_owned()), Some(db.base), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let Keyed::Existing(retry) = db.keyed("2", "k", OnConflict::Replace) else { panic!("its retry waits") };
    assert_ne!(retry, id);
    let second = db.run_enqueued(retry);
    assert_eq!((second.payload(), second.attempt()), ("1", 2));
    assert_eq!(db.settle(&succeeded(second, db.now)), Applied::Done);
    let Keyed::Created(next) = db.keyed("2", "k", OnConflict::Existing) else { panic!("it has ended") };
    assert_eq!(db.find_pending(next).unwrap().payload.as_deref(), Some("2"));
}

pub(crate) fn what_waits_is_replaced_and_its_claim_under_way_is_lost(db: &Bench) {
    let Keyed::Created(id) = db.keyed("1", "k", OnConflict::Existing) else { panic!("it is new") };
    let before = db.taken(id);
    assert_eq!(db.keyed("2", "k", OnConflict::Replace), Keyed::Replaced(id));
    assert!(is_lost(&db.claim(&before)), "it would run with the payload of before");
    assert_eq!(db.run_enqueued(id).payload(), "2");
}

/// A replaced execution keeps its id and its key, and each attempt has the tags of its execution.
pub(crate) fn a_cancel_of_another_key_or_tag_changes_nothing(db: &Bench) {
    let remind = |tag: &str| {
        let key = UniqueKey { key: "k".to_owned(), per: None, on_conflict: OnConflict::Replace };
        let order = EnqueueOrder { key: Some(key), tags: vec![tag.to_owned()], ..db.enqueue_order(&["1"]) };
        db.store.enqueue_unique(&order).unwrap()
    };
    let cancel = |execution, key: Option<&str>, tag: &str| {
        let order = ExecutionOrder::new(db.app.clone(), execution, Attribution::default());
        let wanted = KeyAndTags { key: key.map(str::to_owned), tags: vec![tag.to_owned()] };
        db.store.cancel(&ExecutionOrder { wanted, ..order }).unwrap()
    };
    let has =
        |tag: &str| Cancel::Differs(KeyAndTags { key: Some("k".to_owned()), tags: vec![tag.to_owned()] });
    let Keyed::Created(id) = remind("order-1") else { panic!("it is new") };
    assert_eq!(remind("order-5"), Keyed::Replaced(id));
    assert_eq!(cancel(id, None, "order-1"), has("order-5"));
    assert_eq!(cancel(id, Some("K"), "order-5"), has("order-5"));
    assert_eq!(db.execution(id).state, "PENDING");
    let failed = db.run_enqueued(id).finish(Answer::Failed("no".to_owned()), Some(db.base), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(cancel(id, None, "order-1"), has("order-5"), "it has ended, its retry waits");
    let Keyed::Existing(retry) = db.keyed("2", "k", OnConflict::Existing) else { panic!("it has the key") };
    let runs = db.run_enqueued(retry);
    assert_eq!(cancel(retry, Some("k"), "order-1"), has("order-5"));
    assert_eq!(db.execution(retry).cancel, None);
    let asked = Cancel::Asked { node: db.node.to_string(), is_new: true };
    assert_eq!(cancel(id, Some("k"), "order-5"), asked);
    assert_eq!(db.settle(&succeeded(runs, db.now)), Applied::Done);
    assert_eq!(cancel(id, Some("k"), "order-5"), Cancel::Ended(Some(ExecutionState::Succeeded)));
    let [plain] = db.enqueue(&["1"])[..] else { panic!() };
    assert_eq!(cancel(plain, Some("k"), "order-5"), Cancel::Differs(KeyAndTags::default()));
}

pub(crate) fn a_key_counts_within_its_period(db: &Bench) {
    let at = |due: Timestamp| {
        let unique = UniqueKey { key: "k".to_owned(), per: Some(DAY), on_conflict: OnConflict::Existing };
        let order = db.enqueue_order(&["1"]);
        let order = EnqueueOrder { due: DueAt::Instant(due), key: Some(unique), ..order };
        db.store.enqueue_unique(&order).unwrap()
    };
    let midnight = db.base - db.base.millis() % DAY;
    let Keyed::Created(today) = at(midnight) else { panic!("it is new") };
    assert_eq!(at(midnight + DAY - 1), Keyed::Existing(today));
    assert!(matches!(at(midnight + DAY), Keyed::Created(_)), "the next day");
}

pub(crate) fn a_retry_by_hand_needs_its_key(db: &Bench) {
    let order = |execution| ExecutionOrder::new(db.app.clone(), execution, Attribution::default());
    let Keyed::Created(first) = db.keyed("1", "k", OnConflict::Existing) else { panic!("it is new") };
    assert_eq!(db.store.cancel(&order(first)).unwrap(), Cancel::Done);
    let Keyed::Created(second) = db.keyed("2", "k", OnConflict::Existing) else { panic!("it was cancelled") };
    assert_eq!(db.store.retry(&order(first)).unwrap(), Retry::KeyTaken(second));
    let of_another = ExecutionOrder { application: fresh_name(), ..order(first) };
    assert_eq!(db.store.retry(&of_another).unwrap(), Retry::Unknown);
    assert_eq!(db.store.cancel(&order(second)).unwrap(), Cancel::Done);
    let Retry::Pending(again) = db.store.retry(&order(first)).unwrap() else { panic!("nobody has its key") };
    assert_eq!(db.keyed("3", "k", OnConflict::Existing), Keyed::Existing(again));
    assert_eq!(db.store.retry(&order(second)).unwrap(), Retry::KeyTaken(again));
}

pub(crate) fn one_of_many_that_enqueue_one_key_stores_it(db: &Bench) {
    const THREADS: usize = 10;
    db.enqueue(&["0"]);
    let start = Barrier::new(THREADS);
    let enqueue = || {
        start.wait();
        db.keyed("1", "k", OnConflict::Existing)
    };
    let answers: Vec<Keyed> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..THREADS).map(|_| scope.spawn(enqueue)).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    let created = answers.iter().filter(|answer| matches!(answer, Keyed::Created(_))).count();
    assert_eq!((created, db.executions().len()), (1, 2), "{answers:?}");
}

/// The outcome and the attempt that follows it are stored together: who asks meanwhile sees one or the other.
pub(crate) fn a_key_stays_with_an_execution_that_fails_meanwhile(db: &Bench) {
    for round in 0..20 {
        let key = format!("k-{round}");
        let Keyed::Created(id) = db.keyed("1", &key, OnConflict::Existing) else { panic!("it is new") };
        let running = db.run_enqueued(id);
        let failed = running.finish(Answer::Failed("no".to_owned()), Some(db.base), db.now);
        let start = Barrier::new(2);
        let answer = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                start.wait();
                db.keyed("2", &key, OnConflict::Existing)
            });
            start.wait();
            assert_eq!(db.settle(&failed), Applied::Done);
            other.join().unwrap()
        });
        assert!(matches!(answer, Keyed::Existing(_)), "round {round}: {answer:?}");
    }
}

pub(crate) fn one_with_more_attempts_than_a_page_is_removed_whole(db: &Bench) {
    let [id] = db.enqueue(&["1"])[..] else { panic!() };
    let (mut next, mut ids) = (id, Vec::new());
    for attempt in 1..=5 {
        ids.push(next);
        let running = db.run_enqueued(next);
        let retry = (attempt < 5).then_some(db.now);
        let failed = running.finish(Answer::Failed("no".to_owned()), retry, db.now);
        assert_eq!(db.settle(&failed), Applied::Done);
        next = db.poll(Timestamp::MAX).pendings.first().map_or(next, |pending| pending.id);
    }
    let old = db.now - 3 * DAY;
    for id in ids {
        for (column, value) in [
            ("origin", first_origin(old, 1)),
            ("finished_time", old.millis()),
            ("scheduled_time", old.millis()),
        ] {
            db.set(RowKey::Execution(id), column, &value.to_string());
        }
    }
    assert_eq!((db.purge_queues(DAY, 2), db.executions().len()), (1, 0));
}

pub(crate) fn a_keyed_execution_says_its_key(db: &Bench) {
    let Keyed::Created(id) = db.keyed("1", "customer-7", OnConflict::Existing) else { panic!("it is new") };
    let [plain] = db.enqueue(&["1"])[..] else { panic!() };
    assert_eq!((db.execution(id).key.as_deref(), db.execution(plain).key), (Some("customer-7"), None));
}

pub(crate) fn what_an_enqueued_execution_said_goes_with_it(db: &Bench) {
    let [id] = db.enqueue(&["7"])[..] else { panic!("one payload, one execution") };
    let claimed = db.run_enqueued(id);
    let (token, fence) = (claimed.token(), claimed.fence());
    let said = Said { execution: id, token, fence, lines: Vec::new(), progress: None, now: db.now };
    assert_eq!(db.store.say(&[said]).unwrap(), [Applied::Done]);
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done);
    assert!(db.has_said(id));
    db.purge_queues(-DAY, 100);
    assert!(!db.has_said(id));
}

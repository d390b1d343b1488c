//! Jobs of which only so many executions run at once, on all nodes.

use super::*;
use crate::domain::{Bound, BoundScope, Bounds, Full, MOST_AHEAD, Rate};
use crate::repair::recover;
use crate::store::enqueue::EnqueueOrder;

const LIMITED: &str = "limited";

/// So many executions of a job at once; 0 is no bound.
pub(super) fn concurrency(most: u32) -> Bounds {
    let concurrency = Some(most).filter(|most| *most > 0);
    Bounds { job: Bound { concurrency, ..Bound::NONE }, group: Bound::NONE }
}

impl Bench {
    /// A schedule of a job of which so many executions may run at once.
    pub(super) fn limited(&self, name: &str, most: u32) -> Arc<Entry> {
        self.limit(most);
        let job = JobSpec::new(LIMITED, JobPolicy::DEFAULT);
        self.create(&Definition { job, ..self.definition(name) })
    }

    fn limit(&self, most: u32) {
        self.bound(concurrency(most));
    }

    fn bound(&self, bounds: Bounds) {
        let mut node = self.new_node(NodeId::fresh(), &self.app, &[]);
        let policy = JobPolicy { bounds, ..JobPolicy::DEFAULT };
        node.jobs = vec![JobSpec::new(LIMITED, policy)];
        self.store.register(&node).unwrap();
    }

    fn run(&self, entry: &Arc<Entry>) -> Claim {
        self.claim(&ClaimRequest { at_once: true, ..self.head(entry) })
    }

    fn poll_limited(&self) -> Vec<Pending> {
        let query =
            PollQuery { shares: vec![Share::whole(vec![LIMITED.to_owned()])], ..self.query(Timestamp::MAX) };
        self.store.poll(&query).unwrap().pendings
    }

    fn limited_pending(&self, id: ScheduleId) -> Pending {
        self.poll_limited().into_iter().find(|pending| pending.entry.id == id).expect("it is PENDING")
    }
}

fn is_full(claim: &Claim) -> bool {
    matches!(claim, Claim::Full(Full { scope: BoundScope::Job, until: None }))
}

pub(crate) fn no_more_of_a_job_run_than_may(db: &Bench) {
    let entries = ["a", "b", "c", "d"].map(|name| db.limited(name, 2));
    assert_eq!(entries[0].bounds, concurrency(2));
    let requests: Vec<ClaimRequest> = entries[..3].iter().map(|entry| db.head(entry)).collect();
    let mut claims = db.store.claim(&requests).unwrap();
    assert!(is_full(&claims.pop().unwrap()), "the last of three");
    let [first, second] = <[Claim; 2]>::try_from(claims).unwrap().map(won);
    assert_eq!(first.entry().id, entries[0].id);
    assert!(is_full(&db.run(&entries[3])), "CLAIMED ones count");
    assert_eq!((db.entry("d"), db.executions().len()), (Arc::clone(&entries[3]), 2), "nothing was written");
    for (claimed, next) in [first, second].into_iter().zip(&entries[2..]) {
        assert_eq!(db.settle(&claimed.start(db.now)), Applied::Done);
        assert!(is_full(&db.run(next)), "RUNNING ones count");
        assert_eq!(db.settle(&claimed.finish(Answer::Done, None, db.now)), Applied::Done);
        drop_claimed(db.run(next));
    }
}

pub(crate) fn an_end_and_a_hand_back_make_room(db: &Bench) {
    let (one, other) = (db.limited("a", 1), db.limited("b", 1));
    let first = db.claim_head(&one);
    assert!(is_full(&db.run(&other)));
    assert_eq!(db.settle(&first.give_back(db.now)), Applied::Done);
    let second = won(db.run(&other));
    let pending = db.limited_pending(one.id);
    assert!(is_full(&db.claim(&db.request(Candidate::Pending(pending.clone())))));
    let failed = second.finish(Answer::Failed("no".to_owned()), None, db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    drop_claimed(db.claim(&db.request(Candidate::Pending(pending))));
}

/// Whatever is in its way keeps no place from the next.
pub(crate) fn one_that_cannot_be_claimed_keeps_no_other_away(db: &Bench) {
    let (_, other) = (db.limited("a", 2), db.limited("b", 2));
    let job = JobSpec::new(LIMITED, JobPolicy::DEFAULT);
    let skips = Definition { job, overlap: Some(Overlap::Skip), ..db.definition("a") };
    assert_eq!(db.store.ensure(&skips).unwrap(), Ensured::Changed);
    drop_claimed(db.run(&db.entry("a")));
    let claims = db.store.claim(&[db.head(&db.entry("a")), db.head(&other)]).unwrap();
    let [first, second] = <[Claim; 2]>::try_from(claims).unwrap();
    assert!(matches!(first, Claim::Blocked(_)), "{first:?}");
    assert_eq!(won(second).entry().id, other.id);
}

pub(crate) fn a_handler_beyond_its_limit_takes_room(db: &Bench) {
    let (one, other) = (db.limited("a", 1), db.limited("b", 1));
    let first = won(db.run(&one));
    assert_eq!(db.settle(&first.time_out(1, db.now)), Applied::Done);
    assert!(is_full(&db.run(&other)));
    assert_eq!(db.settle(&first.release(None, db.now)), Applied::Done);
    drop_claimed(db.run(&other));
}

pub(crate) fn a_pending_execution_counts_like_a_planned_one(db: &Bench) {
    let (one, other) = (db.limited("a", 1), db.limited("b", 1));
    let first = won(db.run(&one));
    let failed = first.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let retry = db.request(Candidate::Pending(db.limited_pending(one.id)));
    let requests = [retry.clone(), db.head(&other)];
    let claims = db.store.claim(&requests).unwrap();
    assert_eq!(claims.iter().map(is_full).collect::<Vec<_>>(), [false, true]);
    let retried = claims.into_iter().next().map(won).unwrap();
    assert_eq!(retried.attempt(), 2);
    assert!(is_full(&db.run(&other)));
}

pub(crate) fn other_jobs_are_claimed_beside_a_full_one(db: &Bench) {
    let (one, other) = (db.limited("a", 1), db.limited("b", 1));
    drop_claimed(db.run(&one));
    let (first, last) = (db.schedule("free"), db.schedule("too"));
    let claims = db.store.claim(&[db.head(&first), db.head(&other), db.head(&last)]).unwrap();
    assert_eq!(claims.iter().map(is_full).collect::<Vec<_>>(), [false, true, false]);
    let ids: Vec<ScheduleId> =
        claims.into_iter().filter(|claim| !is_full(claim)).map(|claim| won(claim).entry().id).collect();
    assert_eq!(ids, [first.id, last.id]);
}

pub(crate) fn the_executions_of_a_dead_node_take_room_until_they_are_taken_back(db: &Bench) {
    let (one, other) = (db.limited("a", 1), db.limited("b", 1));
    let request = ClaimRequest { at_once: true, node: NodeId::fresh(), ..db.head(&one) };
    drop_claimed(db.claim(&request));
    assert!(is_full(&db.run(&other)));
    let stranded = db.stranded().remove(0);
    assert!(db.revoked(&recover(stranded, db.now, db.now)));
    drop_claimed(db.run(&other));
    let again = db.request(Candidate::Pending(db.limited_pending(one.id)));
    assert!(is_full(&db.claim(&again)));
}

/// It could land when there is no room any more.
pub(crate) fn a_claim_in_doubt_of_a_job_with_a_limit_is_given_up(db: &Bench) {
    let entry = db.limited("a", 1);
    let (made, unmade) = (db.head(&entry), db.head(&db.limited("b", 1)));
    drop_claimed(db.claim(&made));
    drop_claimed(db.resolve(&made));
    assert!(is_lost(&db.resolve(&unmade)));
    assert!(!matches!(db.claim(&unmade), Claim::Won(_)), "its call came too late");
}

pub(crate) fn the_latest_limit_counts(db: &Bench) {
    let entries = ["a", "b", "c", "d"].map(|name| db.limited(name, 1));
    drop_claimed(db.run(&entries[0]));
    assert!(is_full(&db.run(&entries[1])));
    db.limit(2);
    drop_claimed(db.run(&entries[1]));
    assert!(is_full(&db.run(&entries[2])));
    db.limit(0);
    drop_claimed(db.run(&entries[2]));
    assert_eq!(db.entry("d").bounds, Bounds::NONE);
    drop_claimed(db.run(&db.entry("d")));
}

/// Another's claim counts under the row just now: that is none of other jobs' business, nor is it waited for.
pub(crate) fn a_held_row_of_a_job_keeps_its_own_claims_waiting_and_no_others(db: &Bench) {
    let (limited, other) = (db.limited("a", 2), db.schedule("b"));
    let requests = [db.head(&limited), db.head(&other)];
    let held = db.lock_row(RowKey::Job(&db.app, LIMITED));
    let begun = Instant::now();
    let claims = db.store.claim(&requests).unwrap();
    assert!(matches!(claims[..], [Claim::Busy, Claim::Won(_)]), "{claims:?}");
    assert!(begun.elapsed() < Duration::from_secs(1), "it waited for {:?}", begun.elapsed());
    drop(held);
    let deadline = Instant::now() + DEADLINE;
    while !matches!(db.claim(&requests[0]), Claim::Won(_)) {
        assert!(Instant::now() < deadline, "the row is free");
    }
}

const HOUR: Millis = 3_600_000;

impl Bench {
    /// Executions of the job with bounds, each of a group; an empty one is none.
    fn enqueue_grouped(&self, bounds: Bounds, groups: &[&str]) -> Vec<ExecutionId> {
        self.bound(bounds);
        let payloads = vec!["1"; groups.len()];
        let order = EnqueueOrder {
            job: JobSpec::new(LIMITED, JobPolicy::DEFAULT),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..self.enqueue_order(&payloads)
        };
        self.store.enqueue(&order).unwrap()
    }

    fn waiting_of(&self, id: ExecutionId) -> ClaimRequest {
        let pending =
            self.poll_limited().into_iter().find(|pending| pending.id == id).expect("it is PENDING");
        ClaimRequest { at_once: true, ..self.request(Candidate::Pending(pending)) }
    }

    fn claim_each(&self, ids: &[ExecutionId]) -> Vec<Claim> {
        let requests: Vec<ClaimRequest> = ids.iter().map(|id| self.waiting_of(*id)).collect();
        self.store.claim(&requests).unwrap()
    }

    /// As if it had been claimed so long ago.
    fn claimed_ago(&self, id: ExecutionId, span: Millis) {
        let row = RowKey::Bounded(id);
        self.set(row, "begin_time", &(self.number(row, "begin_time") - span).to_string());
    }
}

fn group_concurrency(most: u32) -> Bounds {
    Bounds { job: Bound::NONE, group: concurrency(most).job }
}

fn per_hour(count: u32) -> Bound {
    Bound { concurrency: None, rate: Rate { count, per: HOUR } }
}

/// Whether each was won, and of which bound there was no room.
fn endings(claims: &[Claim]) -> Vec<Option<bool>> {
    let ending = |claim: &Claim| match claim {
        Claim::Won(_) => None,
        Claim::Full(Full { scope, .. }) => Some(*scope == BoundScope::Group),
        other => panic!("{other:?}"),
    };
    claims.iter().map(ending).collect()
}

pub(crate) fn no_more_of_a_group_run_than_may(db: &Bench) {
    let ids = db.enqueue_grouped(group_concurrency(1), &["a", "a", "b", "", ""]);
    assert_eq!(db.waiting_of(ids[2]).candidate.group().map(|group| &**group), Some("b"));
    let mut claims = db.claim_each(&ids);
    assert_eq!(endings(&claims), [None, Some(true), None, None, None]);
    assert_eq!(endings(&db.claim_each(&ids[1..2])), [Some(true)]);
    let first = won(claims.remove(0));
    let failed = first.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(endings(&db.claim_each(&ids[1..2])), [None]);
    let retry = db.poll_limited().into_iter().find(|it| it.attempt == 2).expect("a retry follows");
    assert_eq!(retry.group.as_deref(), Some("a"), "an attempt that follows is of its group");
    assert_eq!(endings(&[db.claim(&db.request(Candidate::Pending(retry)))]), [Some(true)]);
}

pub(crate) fn what_counts_is_noted_as_long_as_it_counts(db: &Bench) {
    let is_noted = |id: ExecutionId| db.fixture.is_noted(id);
    let ids = db.enqueue_grouped(group_concurrency(1), &["a", "b", "", "c"]);
    let mut claims = db.claim_each(&ids[..3]);
    assert_eq!([is_noted(ids[0]), is_noted(ids[1]), is_noted(ids[2])], [true, true, false]);
    assert_eq!(db.settle(&succeeded(won(claims.remove(0)), db.now)), Applied::Done);
    assert_eq!(endings(&db.claim_each(&ids[3..])), [None]);
    db.bound(Bounds { job: Bound::NONE, group: per_hour(1) });
    assert_eq!(db.purge_queues(-24 * HOUR, 100), 0, "it counts for an hour");
    assert!(is_noted(ids[1]) && is_noted(ids[3]));
    db.bound(group_concurrency(1));
    assert_eq!(db.purge_queues(-24 * HOUR, 100), 1);
    assert_eq!([is_noted(ids[0]), is_noted(ids[1]), is_noted(ids[3])], [false, true, true]);
}

/// A batch that is full of one group holds those of the others behind it.
pub(crate) fn a_group_without_room_keeps_no_other_away(db: &Bench) {
    let bounds = Bounds { job: concurrency(3).job, ..group_concurrency(1) };
    let ids = db.enqueue_grouped(bounds, &["a", "a", "a", "b", "c", "d"]);
    let endings = endings(&db.claim_each(&ids));
    assert_eq!(endings, [None, Some(true), Some(true), None, None, Some(false)]);
}

pub(crate) fn no_more_begin_within_a_span_than_may(db: &Bench) {
    let ids = db.enqueue_grouped(Bounds { job: per_hour(2), group: Bound::NONE }, &["", "", "", ""]);
    let mut claims = db.claim_each(&ids[..3]);
    let Some(Claim::Full(Full { scope: BoundScope::Job, until: Some(until) })) = claims.pop() else {
        panic!("{claims:?}")
    };
    let first = won(claims.remove(0));
    let until = |claim: Timestamp| (claim + HOUR - until).abs() < 60_000;
    assert!(until(Timestamp::at(db.number(RowKey::Bounded(ids[0]), "begin_time"))));
    assert_eq!(db.settle(&succeeded(first, db.now)), Applied::Done);
    assert_eq!(endings(&db.claim_each(&ids[2..3])), [Some(false)], "one that has ended counts");
    db.claimed_ago(ids[0], HOUR + MOST_AHEAD);
    assert_eq!(endings(&db.claim_each(&ids[2..])), [None, Some(false)]);
}

/// As far as a claim is made ahead: it begins when it is due.
pub(crate) fn what_is_claimed_ahead_counts_from_when_it_begins(db: &Bench) {
    let ids = db.enqueue_grouped(Bounds { job: per_hour(2), group: Bound::NONE }, &["", ""]);
    let mut requests = [db.waiting_of(ids[0]), db.waiting_of(ids[1])];
    let Candidate::Pending(late) = &mut requests[0].candidate else { panic!("it was enqueued") };
    late.due = db.base - 2 * HOUR;
    assert_eq!(endings(&db.store.claim(&requests).unwrap()), [None, None]);
    let [late, ahead] = [ids[0], ids[1]].map(|id| db.number(RowKey::Bounded(id), "begin_time"));
    assert_eq!(ahead - late, MOST_AHEAD);
}

pub(crate) fn each_group_has_a_rate_of_its_own(db: &Bench) {
    let bounds = Bounds { job: per_hour(3), group: per_hour(1) };
    let ids = db.enqueue_grouped(bounds, &["a", "a", "b", "", ""]);
    let endings = endings(&db.claim_each(&ids));
    assert_eq!(endings, [None, Some(true), None, None, Some(false)]);
}

/// It has not begun. Another claim of it counts from then on.
pub(crate) fn one_that_was_handed_back_counts_once(db: &Bench) {
    let ids = db.enqueue_grouped(Bounds { job: per_hour(1), group: Bound::NONE }, &["", ""]);
    let first = won(db.claim_each(&ids[..1]).remove(0));
    assert_eq!(db.settle(&first.give_back(db.now)), Applied::Done);
    assert_eq!(endings(&db.claim_each(&ids[1..])), [Some(false)]);
    db.claimed_ago(ids[0], HOUR - 60_000);
    assert_eq!(endings(&db.claim_each(&ids[..1])), [Some(false)], "nor does it go before others");
    db.claimed_ago(ids[0], HOUR + MOST_AHEAD);
    assert_eq!(endings(&db.claim_each(&ids[..1])), [None]);
    db.claimed_ago(ids[0], HOUR - 60_000);
    assert_eq!(endings(&db.claim_each(&ids[1..])), [Some(false)]);
}

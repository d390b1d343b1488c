//! Outcomes of attempts, counted in the transactions that store them.

use super::*;
use crate::domain::Answer;
use crate::store::outcomes::{HOUR, OutcomeCounts, OutcomeFold, OutcomeQuery, OutcomeSpan, beginning};
use crate::store::{Completed, Purge, Transition};

const DAY: Millis = 24 * HOUR;

impl Bench {
    fn outcome_query(&self) -> OutcomeQuery {
        OutcomeQuery::all(&self.app)
    }

    fn outcomes(&self, query: &OutcomeQuery) -> Vec<(OutcomeSpan, OutcomeCounts)> {
        self.store.outcomes(query).unwrap()
    }

    /// How many have ended in each of the counted states.
    fn counted(&self) -> [i64; 5] {
        let all = self.outcomes(&self.outcome_query());
        all.first().map_or([0; 5], |(_, counts)| std::array::from_fn(|n| counts.sums[n]))
    }

    fn fold_outcomes(&self, now: Timestamp, limit: usize) -> bool {
        self.store.fold_outcomes(&OutcomeFold { application: self.app.clone(), now, limit }).unwrap()
    }

    /// An execution of a schedule of its own that runs since `self.now`.
    fn running(&self, name: &str) -> Claimed {
        let mut claimed = self.run_head(&self.schedule(name));
        claimed.begin(self.now);
        claimed
    }
}

fn fails() -> Answer {
    Answer::Failed("no".to_owned())
}

pub(crate) fn attempts_are_counted_by_their_outcomes(db: &Bench) {
    let at = db.now + 200;
    let ended = [
        succeeded(db.running("a"), at),
        succeeded(db.running("b"), at),
        db.running("c").finish(fails(), Some(at), at),
        db.running("d").time_out(5, at),
        db.running("e").finish(Answer::Cancelled("asked".to_owned()), None, at),
        db.running("f").finish(Answer::GiveUp("never".to_owned()), None, at),
    ];
    assert_eq!(db.store.settle(&ended).unwrap(), [Applied::Done; 6]);
    let back = db.running("g").give_back(at);
    assert_eq!(db.settle(&back), Applied::Done, "which is no outcome");
    let unbegun = db.run_head(&db.schedule("h")).finish(Answer::Cancelled("asked".to_owned()), None, at);
    assert_eq!(db.settle(&unbegun), Applied::Done, "its handler never began");
    assert_eq!(db.counted(), [2, 2, 1, 1, 0]);
    let all = db.outcomes(&db.outcome_query());
    let (span, counts) = &all[0];
    assert_eq!((all.len(), counts.sums[5], counts.sums[7], counts.longest[1]), (1, 6, 6 * 200, 200));
    let hour = beginning(at, HOUR);
    let expected = OutcomeSpan { from: hour, until: hour + HOUR, job: String::new(), node: String::new() };
    assert_eq!(*span, expected);
    assert_eq!(db.outcomes(&OutcomeQuery { application: fresh_name(), ..db.outcome_query() }), []);
}

/// The lateness is that of the handler behind the instant at which the attempt was due.
pub(crate) fn how_late_a_handler_began_is_counted(db: &Bench) {
    for late in [3, 40] {
        let mut claimed = db.run_head(&db.schedule(&late.to_string()));
        let due = claimed.due();
        claimed.begin(due + late);
        assert_eq!(db.settle(&succeeded(claimed, due + late + 7)), Applied::Done);
    }
    let [(_, counts)] = &db.outcomes(&db.outcome_query())[..] else { panic!("one line") };
    assert_eq!((counts.sums[5..].to_vec(), counts.longest), (vec![2, 43, 14], [40, 7]));
}

pub(crate) fn an_outcome_said_twice_is_counted_once(db: &Bench) {
    let [one, two] = ["a", "b"].map(|name| succeeded(db.running(name), db.now));
    for _ in 0..2 {
        assert_eq!(db.settle(&one), Applied::Done);
    }
    assert_eq!(db.counted(), [1, 0, 0, 0, 0]);
    // A batch of which an earlier call has stored a part: all of it, or in smaller parts.
    let both = [one, two];
    let is_stored = db.store.settle(&both).is_ok();
    for part in both.iter().filter(|_| !is_stored) {
        assert_eq!(db.settle(part), Applied::Done);
    }
    assert_eq!(db.counted(), [2, 0, 0, 0, 0]);
}

/// Others have taken one of a batch: the rest is counted.
pub(crate) fn a_lost_outcome_is_not_counted(db: &Bench) {
    let lost = db.running("a");
    let counted = lost.start(db.now).counted;
    let abandon = ExecutionChange::of(lost.execution(), lost.token(), Transition::Abandon(None), db.now);
    assert!(db.applied(&ExecutionChange { counted, ..abandon }.into()));
    let ended = [succeeded(lost, db.now), succeeded(db.running("b"), db.now)];
    assert_eq!(db.store.settle(&ended).unwrap(), [Applied::Lost, Applied::Done]);
    assert_eq!(db.counted(), [1, 0, 0, 0, 1]);
}

pub(crate) fn an_outcome_of_the_handlers_own_transaction_is_counted_once(db: &Bench) {
    let claimed = db.running("a");
    assert_eq!(db.store.complete(&claimed.complete(db.now)).unwrap(), Completed::Done);
    assert_eq!(db.settle(&claimed.confirm(db.now)), Applied::Done);
    drop(claimed);
    assert_eq!(db.counted(), [1, 0, 0, 0, 0]);
}

pub(crate) fn outcomes_are_told_apart_by_hour_job_and_node(db: &Bench) {
    let (start, node) = (beginning(db.now, HOUR), db.node.to_string());
    for (n, after) in [0, 0, HOUR, 2 * HOUR].into_iter().enumerate() {
        assert_eq!(db.settle(&succeeded(db.running(&n.to_string()), start + after)), Applied::Done);
    }
    let begins = |query: OutcomeQuery| -> Vec<(Millis, i64)> {
        db.outcomes(&query).iter().map(|(span, counts)| (span.from - start, counts.total())).collect()
    };
    let by_hour = OutcomeQuery { by_hour: true, ..db.outcome_query() };
    assert_eq!(begins(by_hour.clone()), [(0, 2), (HOUR, 1), (2 * HOUR, 1)]);
    assert_eq!(begins(OutcomeQuery { limit: 2, ..by_hour.clone() }), [(HOUR, 1), (2 * HOUR, 1)]);
    let within = OutcomeQuery { from: start + HOUR, until: start + 2 * HOUR, ..by_hour };
    assert_eq!(begins(within), [(HOUR, 1)]);
    let told = OutcomeQuery { by_job: true, by_node: true, ..db.outcome_query() };
    let of = |query: &OutcomeQuery| -> Vec<(String, String, i64)> {
        let told = db.outcomes(query).into_iter();
        told.map(|(span, counts)| (span.job, span.node, counts.total())).collect()
    };
    assert_eq!(of(&told), [(JOB.to_owned(), node.clone(), 4)]);
    assert_eq!(of(&OutcomeQuery { node: Some(node), ..db.outcome_query() })[0].2, 4);
    for other in [Some("other".to_owned()), None] {
        let (job, node) = (other.clone(), other.is_none().then(|| "other".to_owned()));
        assert_eq!(of(&OutcomeQuery { job, node, ..told.clone() }), []);
    }
}

/// In steps, and each outcome once, whatever was added up before.
pub(crate) fn adding_up_changes_no_count(db: &Bench) {
    let by_hour = OutcomeQuery { by_hour: true, by_job: true, by_node: true, ..db.outcome_query() };
    for n in 0..3 {
        assert_eq!(db.settle(&succeeded(db.running(&n.to_string()), db.now)), Applied::Done);
        let before = db.outcomes(&by_hour);
        assert!(!db.fold_outcomes(db.now, 2));
        assert_eq!(db.outcomes(&by_hour), before);
    }
    for n in 3..5 {
        assert_eq!(db.settle(&succeeded(db.running(&n.to_string()), db.now)), Applied::Done);
    }
    assert!(db.fold_outcomes(db.now, 1), "one is left");
    while db.fold_outcomes(db.now, 1) {}
    let [(_, counts)] = &db.outcomes(&by_hour)[..] else { panic!("one line") };
    assert_eq!(counts.total(), 5);
}

pub(crate) fn hours_of_the_past_become_days_without_nodes(db: &Bench) {
    let day = beginning(db.now, DAY);
    for (n, at) in [day, day + HOUR, day + DAY].into_iter().enumerate() {
        assert_eq!(db.settle(&succeeded(db.running(&n.to_string()), at)), Applied::Done);
    }
    let by_hour = OutcomeQuery { by_hour: true, by_node: true, ..db.outcome_query() };
    let told = || -> Vec<(Millis, Millis, bool, i64)> {
        let all = db.outcomes(&by_hour).into_iter();
        let told = |(span, counts): (OutcomeSpan, OutcomeCounts)| {
            (span.from - day, span.until - span.from, span.node.is_empty(), counts.total())
        };
        all.map(told).collect()
    };
    let hours = [(0, HOUR, false, 1), (HOUR, HOUR, false, 1), (DAY, HOUR, false, 1)];
    for now in [day, day + 3 * DAY - 1] {
        db.fold_outcomes(now, 10);
        assert_eq!(told(), hours);
    }
    db.fold_outcomes(day + 3 * DAY, 10);
    assert_eq!(told(), [(0, DAY, true, 2), (DAY, HOUR, false, 1)]);
}

pub(crate) fn counts_go_with_the_ledger(db: &Bench) {
    let now = db.store.now().unwrap();
    for (name, at) in [("old", now - 10 * DAY), ("new", now)] {
        assert_eq!(db.settle(&succeeded(db.running(name), at)), Applied::Done);
    }
    db.fold_outcomes(now, 10);
    db.fold_outcomes(now, 10);
    let purge = |keep| Purge { application: db.app.clone(), after: String::new(), keep, limit: 100 };
    db.store.purge(&purge(20 * DAY)).unwrap();
    assert_eq!(db.counted(), [2, 0, 0, 0, 0]);
    db.store.purge(&purge(5 * DAY)).unwrap();
    assert_eq!(db.counted(), [1, 0, 0, 0, 0]);
}

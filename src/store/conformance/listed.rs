//! Lists of executions: in a test few rows are many already, so that each list is also read in the way that
//! is meant for millions.

use super::covers::failure;
use super::*;
use crate::domain::{Answer, ExecutionState};
use crate::store::{EnqueueOrder, ListPlace};

use ExecutionState::{Claimed as ClaimedState, Failed, Pending as PendingState, Running, Skipped, Succeeded};

/// Two schedules, one of them with two triggers, a rerun, orders by hand, and enqueued ones in groups.
fn filled(db: &Bench) -> Vec<ExecutionRow> {
    db.played("++0--+000-+");
    let (_, rerun) = db.reran(&db.rerun_all());
    assert_eq!(db.settle(&succeeded(db.begins(&rerun[1]), db.now)), Applied::Done);
    let edited = Definition { trigger: every(db.second(30), 1_000, -1), ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    for answer in [Answer::Done, failure(), Answer::Done] {
        db.ends(answer);
    }
    let other = db.create(&Definition { trigger: every(db.base, 2_000, -1), ..db.definition("other") });
    let failed = db.run_head(&other).finish(failure(), Some(db.base), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    drop(db.run_head(&db.entry("other")));
    let grouped = |group: &str, tag: &str| EnqueueOrder {
        groups: vec![group.to_owned(); 4],
        tags: vec![tag.to_owned(), "all".to_owned()],
        ..db.enqueue_order(&["1", "2", "3", "4"])
    };
    for (group, tag) in [("ada", "one"), ("bob", "one"), ("ada", "two")] {
        let ids = db.store.enqueue(&grouped(group, tag)).unwrap();
        let pending = db.find_pending(ids[1]).expect("it waits");
        let begun = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) }));
        assert_eq!(db.settle(&succeeded(begun, db.now)), Applied::Done);
    }
    let rows = db.executions();
    assert!(rows.len() > 30, "{}", rows.len());
    rows
}

impl Bench {
    fn of_own(&self, query: ExecutionQuery) -> ExecutionQuery {
        ExecutionQuery { application: Some(self.app.clone()), limit: 1_000, ..query }
    }
}

fn is_listed(query: &ExecutionQuery, row: &ExecutionRow) -> bool {
    let text = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    let until = row.until.unwrap_or(row.scheduled);
    text(&query.schedule, &row.schedule)
        && text(&query.job, &row.job)
        && text(&query.group, row.group.as_deref().unwrap_or_default())
        && text(&query.reason, &row.reason)
        && text(&query.cause, row.cause.as_str())
        && query.tag.as_ref().is_none_or(|tag| row.tags.contains(tag))
        && (query.states.is_empty() || query.states.iter().any(|state| state.as_str() == row.state))
        && query.since.is_none_or(|since| row.scheduled >= since || until >= since)
        && query.until.is_none_or(|until| row.scheduled < until)
        && query.ended_since.is_none_or(|since| row.finished.is_some_and(|at| at >= since))
        && query.ended_until.is_none_or(|until| row.finished.is_some_and(|at| at < until))
}

fn is_last(query: &ExecutionQuery, row: &ExecutionRow, rows: &[ExecutionRow]) -> bool {
    let occurrence = |row: &ExecutionRow| (row.schedule.clone(), row.generation, row.origin, row.scheduled);
    let follows = |it: &ExecutionRow| occurrence(it) == occurrence(row) && it.attempt > row.attempt;
    !query.last || !rows.iter().any(follows)
}

/// Each list is what a look at all rows gives, whole and page by page, from both ends.
pub(crate) fn a_list_is_the_same_in_whatever_way_it_is_read(db: &Bench) {
    let rows = filled(db);
    let some = |text: &str| Some(text.to_owned());
    let none = ExecutionQuery::default;
    let (since, until) = (Some(db.second(4)), Some(db.second(9)));
    let queries = [
        none(),
        ExecutionQuery { schedule: some("s"), ..none() },
        ExecutionQuery { schedule: some("s"), since, until, ..none() },
        ExecutionQuery { schedule: some("s"), since: Some(db.second(7)), ..none() },
        ExecutionQuery { schedule: some("other"), ..none() },
        ExecutionQuery { schedule: some("none"), ..none() },
        ExecutionQuery { job: some(JOB), ..none() },
        ExecutionQuery { job: some(JOB), since, ..none() },
        ExecutionQuery { job: some("none"), ..none() },
        ExecutionQuery { group: some("ada"), ..none() },
        ExecutionQuery { group: some("ada"), states: vec![PendingState], ..none() },
        ExecutionQuery { tag: some("one"), ..none() },
        ExecutionQuery { tag: some("all"), until, ..none() },
        ExecutionQuery { tag: some("two"), group: some("ada"), ..none() },
        ExecutionQuery { states: vec![Failed], ..none() },
        ExecutionQuery { states: vec![Failed, Skipped], ..none() },
        ExecutionQuery { states: vec![Failed, Skipped], since, ..none() },
        ExecutionQuery { states: vec![Failed, Skipped], schedule: some("s"), ..none() },
        ExecutionQuery { states: vec![Skipped], reason: some("misfire"), ..none() },
        ExecutionQuery { states: vec![Skipped], reason: some("overlap"), ..none() },
        ExecutionQuery { states: vec![Succeeded, Failed], ..none() },
        ExecutionQuery { states: vec![PendingState], ..none() },
        ExecutionQuery { states: vec![ClaimedState, Running], ..none() },
        ExecutionQuery { cause: some("rerun"), ..none() },
        ExecutionQuery { cause: some("planned"), since, until, ..none() },
        ExecutionQuery { since, until, ..none() },
        ExecutionQuery { since: Some(db.second(7)), ..none() },
        ExecutionQuery { until, ..none() },
        ExecutionQuery { since: until, until: since, ..none() },
        ExecutionQuery { ended_since: Some(db.now), ..none() },
        ExecutionQuery { ended_since: Some(db.now + 1), ..none() },
        ExecutionQuery { ended_until: Some(db.now), ..none() },
        ExecutionQuery { ended_until: Some(db.now + 1), ..none() },
        ExecutionQuery { states: vec![Failed, Skipped], ended_since: Some(db.now), ..none() },
        ExecutionQuery { schedule: some("s"), ended_since: Some(Timestamp::EPOCH), ..none() },
        ExecutionQuery { last: true, ..none() },
        ExecutionQuery { last: true, states: vec![Failed, Skipped], ..none() },
    ];
    for query in queries {
        for oldest in [false, true] {
            let query = db.of_own(ExecutionQuery { oldest, ..query.clone() });
            let listed = rows.iter().filter(|row| is_listed(&query, row));
            let mut expected: Vec<&ExecutionRow> = listed.filter(|row| is_last(&query, row, &rows)).collect();
            expected.sort_by(|a, b| query.order(a.place(), b.place()));
            let expected: Vec<i64> = expected.into_iter().map(|row| row.id).collect();
            let listed = |query: &ExecutionQuery| db.store.executions(query).unwrap();
            let whole: Vec<i64> = listed(&query).iter().map(|row| row.id).collect();
            assert_eq!(whole, expected, "{query:?}");
            let (mut paged, mut after): (Vec<i64>, Option<ListPlace>) = (Vec::new(), None);
            loop {
                let page = listed(&ExecutionQuery { after, limit: 4, ..query.clone() });
                after = page.last().map(ExecutionRow::place).or(after);
                paged.extend(page.iter().map(|row| row.id));
                if page.len() < 4 {
                    break;
                }
            }
            assert_eq!(paged, expected, "page by page: {query:?}");
        }
    }
}

/// The one shown last may have left with the retention.
pub(crate) fn a_page_begins_behind_one_that_is_gone(db: &Bench) {
    filled(db);
    let query = db.of_own(ExecutionQuery { schedule: Some("s".to_owned()), ..ExecutionQuery::default() });
    let listed = db.store.executions(&query).unwrap();
    let place = ListPlace { id: listed[3].id + 1, ..listed[3].place() };
    let rest = db.store.executions(&ExecutionQuery { after: Some(place), ..query }).unwrap();
    assert_eq!(rest, listed[3..]);
}

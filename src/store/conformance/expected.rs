//! Schedules that are to succeed within a span of each fire time. Theirs is ten seconds here.

use super::*;
use crate::domain::ScheduleState;
use crate::repair::{decide, pass_paused, resume};
use crate::store::PauseChange;
use crate::store::audit::AuditQuery;
use crate::store::change::ExpectedChange;
use crate::store::expected::{Expectation, ExpectedPage, ExpectedQuery};
use crate::store::figures::FiguresQuery;
use crate::store::order::RunOrder;

const SPAN: Millis = 10_000;

impl Bench {
    fn expecting(&self) -> Definition {
        Definition { expected_by: Some(SPAN), ..self.definition("s") }
    }

    /// The schedule `s`, which is expected to succeed from now on.
    fn expected(&self) -> Arc<Entry> {
        let entry = self.create(&self.expecting());
        self.store.expect(&[entry.id]).unwrap();
        entry
    }

    fn expected_query(&self, now: Timestamp) -> ExpectedQuery {
        let after = ScheduleId(i64::MIN);
        ExpectedQuery { application: self.app.clone(), after, skip: 0, limit: 100, now }
    }

    fn expected_page(&self, now: Timestamp) -> ExpectedPage {
        self.store.expected(&self.expected_query(now)).unwrap()
    }

    /// What is found of the schedule `s` at an instant after its first fire time.
    fn found_after(&self, after: Millis) -> Option<Expectation> {
        let page = self.expected_page(self.base + after);
        assert!(page.found.len() <= 1 && page.gone.is_empty() && page.next.is_none(), "{page:?}");
        page.found.into_iter().next()
    }

    /// The occurrence that is found not to have succeeded, counted from the first.
    fn unmet_after(&self, after: Millis) -> Option<Millis> {
        let found = self.found_after(after)?;
        assert_eq!((&*found.name, found.expected_by, found.change.seen), ("s", SPAN, None));
        found.change.becomes.map(|at| at - self.base)
    }

    fn noted_after(&self, found: &Expectation, after: Millis) -> bool {
        let query = self.expected_query(self.base + after);
        self.store.note_expected(&query, found).unwrap().is_done()
    }

    /// The next occurrence ends so.
    fn next_ends(&self, answer: Answer) {
        let finish = self.run_head(&self.entry("s")).finish(answer, None, self.now);
        assert_eq!(self.settle(&finish), Applied::Done);
    }

    fn next_fails(&self) {
        self.next_ends(Answer::Failed("no".to_owned()));
    }

    fn pauses(&self, by: &str) {
        let Entry { id, version, .. } = *self.entry("s");
        let pause = PauseChange { id, version, by: by.to_owned(), reason: String::new(), until: None };
        assert!(self.applied(&Change::Pause(pause)));
    }

    /// Who recorded what of expectations, the oldest first.
    fn recorded(&self) -> Vec<(String, String, String)> {
        let query = AuditQuery { application: self.app.clone(), limit: 100, ..AuditQuery::default() };
        let rows = self.store.audit(&query).unwrap().into_iter().rev();
        rows.filter(|row| row.actor == "firetime").map(|row| (row.verb, row.was, row.became)).collect()
    }

    fn expects(&self) -> bool {
        self.poll(self.now).expects
    }

    /// The schedules that a walk behind this one finds to be expected.
    fn walked(&self, entry: &Entry) -> Vec<ScheduleId> {
        let query = UnreadableQuery {
            application: self.app.clone(),
            after: ScheduleId(entry.id.0 - 1),
            step: 1_000,
            from: Timestamp::MIN,
            before: Timestamp::MIN,
            limit: 100,
            ahead: None,
        };
        self.store.unreadable(&query).unwrap().expecting
    }
}

pub(crate) fn the_walk_finds_schedules_with_an_expectation_until_they_have_a_row(db: &Bench) {
    let entry = db.create(&db.expecting());
    db.create(&db.definition("t"));
    assert_eq!((db.walked(&entry), db.expects()), (vec![entry.id], false));
    let none = db.schedule("u");
    db.store.expect(&[entry.id, none.id, ScheduleId(i64::MAX)]).unwrap();
    db.store.expect(&[entry.id]).unwrap();
    assert_eq!((db.walked(&entry), db.expects()), (vec![], true));
    assert_eq!(db.expected_page(db.now), ExpectedPage::default());
}

pub(crate) fn what_never_began_is_noted_once_and_met_by_the_first_success(db: &Bench) {
    let entry = db.expected();
    assert_eq!(db.unmet_after(SPAN - 1), None);
    assert_eq!(db.unmet_after(SPAN), Some(0), "nobody has claimed it");
    let unmet = db.found_after(SPAN + 5_000).unwrap();
    assert_eq!(unmet.change.becomes, Some(db.base), "the first counts");
    assert!(db.noted_after(&unmet, SPAN + 5_000));
    assert!(!db.noted_after(&unmet, SPAN + 5_000), "another node has noted it");
    db.next_fails();
    assert_eq!(db.found_after(60_000), None);
    let figures = db.store.figures(&FiguresQuery { application: db.app.clone(), now: db.now }).unwrap();
    assert_eq!((figures.unmet, db.schedule_row(entry.id).unmet), (1, Some(db.base)));
    db.next_ends(Answer::Done);
    let met = db.found_after(60_000).unwrap();
    assert_eq!((met.change.seen, met.change.becomes), (Some(db.base), None));
    assert!(db.noted_after(&met, 60_000) && !db.noted_after(&met, 60_000));
    assert_eq!(db.schedule_row(entry.id).unmet, None);
    let at = db.base.utc().unwrap().format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string();
    let recorded = [("unmet", "", &*at), ("met", &*at, "")];
    let recorded = recorded.map(|(verb, was, became)| (verb.to_owned(), was.to_owned(), became.to_owned()));
    assert_eq!(db.recorded(), recorded);
    assert_eq!(db.unmet_after(2_000 + SPAN - 1), None);
    assert_eq!(db.unmet_after(2_000 + SPAN), Some(2_000), "the next that nobody claims");
}

/// Whatever becomes of it: it failed, runs still, waits for its retry, or was skipped.
pub(crate) fn whatever_else_became_of_an_occurrence_it_has_not_succeeded(db: &Bench) {
    db.expected();
    db.next_fails();
    assert_eq!(db.unmet_after(SPAN - 1), None);
    assert_eq!(db.unmet_after(SPAN), Some(0));
    db.next_ends(Answer::Done);
    assert_eq!(db.unmet_after(SPAN), None, "a later one has succeeded");
    let running = db.run_head(&db.entry("s"));
    assert_eq!(db.unmet_after(2_000 + SPAN), Some(2_000));
    let retry = running.finish(Answer::Failed("no".to_owned()), Some(db.base), db.now);
    assert_eq!(db.settle(&retry), Applied::Done);
    assert_eq!(db.unmet_after(2_000 + SPAN), Some(2_000), "its retry waits");
    let pending = db.pendings_of(db.entry("s").id).remove(0);
    let again = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) }));
    assert_eq!(db.settle(&again.finish(Answer::Done, None, db.now)), Applied::Done);
    assert_eq!(db.unmet_after(2_000 + SPAN), None, "its retry has succeeded");
}

/// A span of many is one that is unmet, of the first.
pub(crate) fn what_a_misfire_policy_skipped_has_not_succeeded(db: &Bench) {
    let misfire = MisfirePolicy::DoNothing;
    let entry = db.create(&Definition { misfire, ..db.expecting() });
    db.store.expect(&[entry.id]).unwrap();
    let skips = decide(&entry, &[], db.base + 90_500, 10_000).unwrap();
    assert!(skips.skips().any(|(_, count)| count > 10), "{skips:?}");
    assert!(db.repaired(&skips));
    assert_eq!(db.unmet_after(90_500), Some(0));
}

pub(crate) fn what_a_pause_held_back_or_somebody_skipped_nobody_waits_for(db: &Bench) {
    let entry = db.expected();
    assert!(db.repaired(&pass_paused(&entry, db.base + 2_500).unwrap()));
    assert_eq!(db.unmet_after(3_000 + SPAN - 1), None);
    assert_eq!(db.unmet_after(3_000 + SPAN), Some(3_000), "the next is waited for");
    let id = db.executions()[0].id;
    db.set(RowKey::Execution(ExecutionId(id)), "reason", "'overlap'");
    assert_eq!(db.unmet_after(2_000 + SPAN), Some(0));
    db.set(RowKey::Execution(ExecutionId(id)), "reason", "'by hand'");
    assert_eq!(db.unmet_after(2_000 + SPAN), None);
}

pub(crate) fn a_run_by_hand_is_a_success_like_others(db: &Bench) {
    db.expected();
    let id = db.ordered(&RunOrder { at: Some(db.base + 5), ..db.run_order("s") });
    let pending = db.find_pending(id).unwrap();
    let by_hand = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) }));
    assert_eq!(db.unmet_after(SPAN), Some(0), "it runs");
    assert_eq!(db.settle(&by_hand.finish(Answer::Done, None, db.now)), Applied::Done);
    assert_eq!(db.unmet_after(SPAN), None);
}

pub(crate) fn of_what_somebody_has_paused_nothing_is_unmet(db: &Bench) {
    db.expected();
    db.next_fails();
    let row = RowKey::Job(&db.app, JOB);
    db.set(row, "state", "'PAUSED'");
    assert_eq!(db.unmet_after(SPAN), None, "its job is paused");
    db.set(row, "state", "'EXECUTING'");
    db.pauses("ann");
    assert_eq!(db.unmet_after(SPAN), None);
    let paused = db.entry("s");
    assert!(db.repaired(&resume(&paused, db.base + 1_500).unwrap()));
    assert_eq!(db.unmet_after(SPAN + 1_999), None, "a resume begins anew");
    assert_eq!(db.unmet_after(SPAN + 2_000), Some(2_000));
    db.next_fails();
    db.pauses("firetime");
    assert_eq!(db.entry("s").state, ScheduleState::Paused);
    assert_eq!(db.unmet_after(SPAN + 2_000), Some(2_000), "it has paused itself");
}

pub(crate) fn what_has_succeeded_since_it_was_found_is_not_noted(db: &Bench) {
    db.expected();
    let found = db.found_after(SPAN).unwrap();
    db.next_ends(Answer::Done);
    assert!(!db.noted_after(&found, SPAN));
    assert_eq!(db.recorded(), []);
}

pub(crate) fn what_nobody_waits_for_any_more_loses_its_row(db: &Bench) {
    let entry = db.expected();
    db.store.expect_no_longer(&db.app, &[entry.id]).unwrap();
    assert!(db.expects(), "something is expected of it");
    assert_eq!(db.store.ensure(&db.definition("s")).unwrap(), Ensured::Changed);
    assert_eq!(db.expected_page(db.base + SPAN).gone, [entry.id]);
    db.store.expect_no_longer("another", &[entry.id]).unwrap();
    assert!(db.expects(), "it is another application's");
    db.store.expect_no_longer(&db.app, &[entry.id]).unwrap();
    assert!(!db.expects());
    assert_eq!(db.store.ensure(&db.expecting()).unwrap(), Ensured::Changed);
    assert_eq!(db.walked(&entry), [entry.id]);
    db.store.expect(&[entry.id]).unwrap();
    db.remove("s");
    let page = db.expected_page(db.base + SPAN);
    assert_eq!((page.found, page.gone), (vec![], vec![entry.id]));
}

pub(crate) fn schedules_with_an_expectation_come_in_pages_by_id(db: &Bench) {
    let ids: Vec<ScheduleId> = ["a", "b", "c"]
        .map(|name| db.create(&Definition { name: name.to_owned(), ..db.expecting() }).id)
        .into();
    db.store.expect(&ids).unwrap();
    let (mut after, mut found) = (ScheduleId(i64::MIN), Vec::new());
    for more in [true, false] {
        let query = ExpectedQuery { after, limit: 2, ..db.expected_query(db.base + SPAN) };
        let page = db.store.expected(&query).unwrap();
        found.extend(page.found.into_iter().map(|it| it.change.schedule));
        assert_eq!(page.next.is_some(), more);
        after = page.next.unwrap_or(after);
    }
    assert_eq!(found, ids);
}

pub(crate) fn a_note_of_what_was_expected_loses_if_only_the_last_one_differs(db: &Bench) {
    let entry = db.expected();
    let (seen, becomes) = (Some(db.base), Some(db.base + 1));
    let of = |application: &str, seen, becomes| {
        Change::Expected(ExpectedChange {
            application: application.into(),
            schedule: entry.id,
            seen,
            becomes,
        })
    };
    let note = |seen, becomes| of(&db.app, seen, becomes);
    assert!(!db.applied(&of("another", None, seen)), "it is another application's");
    assert!(db.applied(&note(None, seen)));
    let row = RowKey::Expected(entry.id);
    let altered = (db.base - 1).to_string();
    db.set(row, "unmet_time", &altered);
    assert!(!db.applied(&note(seen, becomes)));
    assert_eq!(db.number(row, "unmet_time"), (db.base - 1).millis(), "the loser wrote");
    db.set(row, "unmet_time", &db.base.to_string());
    assert!(db.applied(&note(seen, becomes)));
}

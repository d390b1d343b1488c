//! Schedules that are to succeed within a span of each fire time: the elected node looks which have not,
//! whatever became of their occurrences, never begun included.
//!
//! The walk of [`quarantine`](super::quarantine) finds schedules with an expectation and makes their rows in
//! QRTZ_EXPECTED. Polls say whether there are such rows; only then a pass looks.
//! [`verdict`](crate::store::expected::verdict) decides.

use super::calls::{Asked, Call};
use crate::domain::{Event, ScheduleId};
use crate::store::expected::{Expectation, ExpectedPage, ExpectedQuery};
use crate::time::{Now, span};

/// Before the id of every schedule.
const FIRST: ScheduleId = ScheduleId(i64::MIN);
/// Schedules per page.
const PAGE: usize = 1_000;

/// Where the look at the schedules with an expectation stands. A page that fails is asked for again by the
/// next pass, half as long: what was looked at before it is not looked at once more. A schedule that fails
/// alone is left to the next round: it holds up none behind it.
pub(super) struct Expected {
    after: ScheduleId,
    /// So many behind `after` have failed alone.
    skip: usize,
    page: usize,
}

impl Expected {
    pub(super) fn new() -> Self {
        Self { after: FIRST, skip: 0, page: PAGE }
    }

    fn query(&self, application: &str, after: ScheduleId, now: Now) -> ExpectedQuery {
        let (application, skip) = (application.to_owned(), self.skip);
        ExpectedQuery { application, after, skip, limit: self.page, now: now.db }
    }

    /// The next page of the schedules with an expectation.
    pub(super) fn search(&self, application: &str, now: Now) -> Call {
        Asked::find_expected(self.query(application, self.after, now), ())
    }

    /// The calls that follow a page.
    pub(super) fn found(&mut self, application: &str, page: ExpectedPage, now: Now) -> Vec<Call> {
        let ExpectedPage { found, gone, next } = page;
        (self.after, self.skip, self.page) = (next.unwrap_or(FIRST), 0, (self.page * 2).min(PAGE));
        let note =
            |it: Expectation| Asked::note_expected(self.query(application, FIRST, now), it.clone(), it);
        let gone = (!gone.is_empty()).then(|| Asked::expect_no_longer(application.to_owned(), gone, ()));
        let next = next.map(|_| self.search(application, now));
        found.into_iter().map(note).chain(gone).chain(next).collect()
    }

    pub(super) fn failed(&mut self) {
        self.skip += usize::from(self.page == 1);
        self.page = (self.page / 2).max(1);
    }
}

pub(super) fn told(noted: Expectation) -> Event {
    let Expectation { name: schedule, expected_by, change } = noted;
    match (change.becomes, change.seen) {
        (Some(unmet), _) => {
            let fire_time = unmet.utc().unwrap_or_default();
            Event::ExpectationUnmet { schedule, fire_time, expected_by: span(expected_by) }
        }
        (None, seen) => {
            let fire_time = seen.and_then(|unmet| unmet.utc()).unwrap_or_default();
            Event::ExpectationMet { schedule, fire_time }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, REPORT, at, in_a_pass, nothing_found};
    use super::*;
    use crate::domain::{Error, ErrorKind, Timestamp};
    use crate::machine::{Step, Stepped};
    use crate::misfire::calls::{Answer, Op};
    use crate::misfire::{MisfireInput, MisfireMachine, MisfireOutput, PollReport};
    use crate::store::change::ExpectedChange;
    use crate::store::{Applied, UnreadablePage};

    fn expectation(id: i64, seen: Option<Timestamp>, becomes: Option<Timestamp>) -> Expectation {
        let change = ExpectedChange { application: "app".into(), schedule: ScheduleId(id), seen, becomes };
        Expectation { name: format!("s{id}").into(), expected_by: 600_000, change }
    }

    /// A pass whose polls have said so, with these answers; its operations about expectations, and its
    /// events.
    fn pass(expects: bool, answer: impl FnMut(&Op) -> Option<Result<Answer, Error>>) -> Vec<String> {
        pass_of(&mut in_a_pass(None), at(0), expects, answer)
    }

    fn pass_of(
        machine: &mut Stepped<MisfireMachine>,
        mut now: Now,
        expects: bool,
        mut answer: impl FnMut(&Op) -> Option<Result<Answer, Error>>,
    ) -> Vec<String> {
        machine.receive(now, MisfireInput::Polled(PollReport { expects, any_late: false, ..REPORT }));
        let mut seen = Vec::new();
        loop {
            match machine.next(now) {
                Step::Do(op) => {
                    use crate::machine::Operation;
                    let known = answer(&op);
                    seen.extend(known.is_some().then(|| op.name().to_owned()));
                    machine.done(now, known.unwrap_or_else(|| Ok(nothing_found(&op))));
                }
                Step::Tell(MisfireOutput::Event(event)) => seen.push(event.to_string()),
                Step::Tell(_) => {}
                Step::Wait(until) if until <= now.boot + 1_000 => now.boot = until,
                Step::Wait(_) | Step::Stop => return seen,
            }
        }
    }

    const LOOK: &str = "looking for what was expected";
    const NOTE: &str = "noting what was expected";

    #[test]
    fn nothing_is_asked_where_nothing_is_expected() {
        let asked = |op: &Op| matches!(op, Op::FindExpected(_)).then(|| Ok(nothing_found(op)));
        assert_eq!(pass(false, asked), [""; 0]);
        assert_eq!(pass(true, asked), [LOOK]);
    }

    #[test]
    fn each_of_a_page_is_noted_and_told_and_the_next_page_follows() {
        let unmet = Some(NOW - 700_000);
        let pages = |op: &Op| match op {
            Op::FindExpected(query) if query.after == FIRST => {
                let found = vec![expectation(1, None, unmet), expectation(2, unmet, None)];
                let page = ExpectedPage { found, gone: vec![ScheduleId(3)], next: Some(ScheduleId(3)) };
                Some(Ok(Answer::FindExpected(page)))
            }
            Op::FindExpected(query) => {
                assert_eq!(query.after, ScheduleId(3));
                Some(Ok(Answer::FindExpected(ExpectedPage::default())))
            }
            Op::NoteExpected(..) => Some(Ok(Answer::NoteExpected(Applied::Done))),
            Op::ExpectNoLonger(_, gone) => {
                assert_eq!(*gone, [ScheduleId(3)]);
                Some(Ok(Answer::ExpectNoLonger(())))
            }
            _ => None,
        };
        let told =
            "schedule \"s1\": its occurrence of 1970-01-01 00:06:40.000 UTC has not succeeded within 600 s";
        let met =
            "schedule \"s2\" has succeeded, its occurrence of 1970-01-01 00:06:40.000 UTC was not in time";
        assert_eq!(pass(true, pages), [LOOK, NOTE, told, NOTE, met, "forgetting what was expected", LOOK]);
    }

    #[test]
    fn who_loses_the_note_tells_nothing_and_a_look_that_fails_ends_nothing() {
        let lost = |op: &Op| match op {
            Op::FindExpected(_) => {
                let found = vec![expectation(1, None, Some(NOW))];
                Some(Ok(Answer::FindExpected(ExpectedPage { found, ..ExpectedPage::default() })))
            }
            Op::NoteExpected(..) => Some(Ok(Answer::NoteExpected(Applied::Lost))),
            _ => None,
        };
        assert_eq!(pass(true, lost), [LOOK, NOTE]);
        let fails = |op: &Op| match op {
            Op::FindExpected(_) => Some(Err(Error::new(ErrorKind::Unavailable, "away"))),
            Op::FindNobody(_) => Some(Ok(nothing_found(op))),
            _ => None,
        };
        let names = pass(true, fails);
        assert!(names.contains(&LOOK.to_owned()), "{names:?}");
        assert_eq!(names.iter().filter(|it| *it == LOOK).count(), 1, "{names:?}");
    }

    /// The third page takes too long, however often it is asked for as a whole.
    #[test]
    fn a_page_that_fails_is_asked_for_again_half_as_long_and_none_before_it() {
        let (mut machine, mut asked) = (in_a_pass(None), Vec::new());
        for turn in 0..4 {
            pass_of(&mut machine, at(turn * 15_000), true, |op| {
                let Op::FindExpected(ExpectedQuery { after, limit, .. }) = *op else { return None };
                asked.push((after.0.max(0), limit));
                let next = match after {
                    FIRST => Some(ScheduleId(1_000)),
                    ScheduleId(1_000) => Some(ScheduleId(2_000)),
                    ScheduleId(2_000) if limit > 300 => {
                        return Some(Err(Error::new(ErrorKind::Unavailable, "too long")));
                    }
                    ScheduleId(2_000) => Some(ScheduleId(2_250)),
                    _ => None,
                };
                Some(Ok(Answer::FindExpected(ExpectedPage { next, ..ExpectedPage::default() })))
            });
        }
        let expected = [(0, 1_000), (1_000, 1_000), (2_000, 1_000), (2_000, 500), (2_000, 250), (2_250, 500)];
        assert_eq!(asked[..6], expected);
        assert_eq!(asked[6..], [(0, 1_000), (1_000, 1_000), (2_000, 1_000)]);
    }

    /// Of the schedules 1 to 4, 2 and 3 take too long by themselves.
    #[test]
    fn a_schedule_that_fails_alone_holds_up_none_behind_it_and_is_asked_about_again() {
        let (mut machine, mut answered, mut tried) = (in_a_pass(None), Vec::new(), Vec::new());
        let mut events = Vec::new();
        for turn in 0..40 {
            events.extend(pass_of(&mut machine, at(turn * 15_000), true, |op| {
                let Op::FindExpected(ExpectedQuery { after, skip, limit, .. }) = *op else { return None };
                let rows: Vec<i64> = (1..=4).filter(|id| *id > after.0).skip(skip).take(limit).collect();
                if rows.contains(&2) || rows.contains(&3) {
                    tried.push(rows);
                    return Some(Err(Error::new(ErrorKind::Unavailable, "too long")));
                }
                let next = rows.last().filter(|_| rows.len() == limit).copied().map(ScheduleId);
                answered.extend(rows);
                Some(Ok(Answer::FindExpected(ExpectedPage { next, ..ExpectedPage::default() })))
            }));
        }
        assert!(answered.starts_with(&[1, 4, 1, 4]), "{answered:?}");
        let alone = |id: i64| tried.iter().filter(|rows| **rows == [id]).count();
        assert!(alone(2) >= 2 && alone(3) >= 2, "{tried:?}");
        assert!(events.iter().any(|it| it.contains(LOOK) && it.contains("too long")), "it is told");
    }

    #[test]
    fn what_the_walk_finds_is_expected_from_then_on() {
        let walk = |op: &Op| match op {
            Op::FindUnreadable(_) => {
                let expecting = vec![ScheduleId(7)];
                let (broken, ahead) = (Vec::new(), Vec::new());
                Some(Ok(Answer::FindUnreadable(UnreadablePage { broken, ahead, expecting, next: None })))
            }
            Op::Expect(schedules) => {
                assert_eq!(*schedules, [ScheduleId(7)]);
                Some(Ok(Answer::Expect(())))
            }
            _ => None,
        };
        assert_eq!(pass(false, walk), ["looking for broken rows", "noting what is expected"]);
    }
}

//! Jobs that nobody can run: the elected node tells of each at first sight, and then once an hour.
//!
//! Polls notice, in what they ask anyway, that some active job is listed by no live node. Only then does a
//! pass look which jobs these are and whether they have something to run. Since when nobody can run a job,
//! and when a node told of that last, is in the job's row: an election of another node begins nothing anew.

use super::calls::{Asked, Call};
use crate::domain::{Boot, Event, Millis, Timestamp};
use crate::store::Change;
use crate::store::nobody::{NobodyChange, NobodyMark, NobodyQuery, UnservedJob};
use crate::time::{Now, span};

/// What goes on is told again after this.
const TOLD_EVERY: Millis = 3_600_000;
/// What goes on is looked at so often.
const LOOKS_EVERY: Millis = 60_000;
/// So long nobody can run a job before that is told: a node that is started anew is back by then.
const GRACE: Millis = LOOKS_EVERY;

pub(super) struct Nobody {
    /// The last look may have found something, or there was none yet.
    suspects: bool,
    /// While there is something to find, no look before this.
    next_look: Boot,
}

impl Nobody {
    pub(super) fn new() -> Self {
        Self { suspects: true, next_look: Boot::MIN }
    }

    /// The look of a pass: with some job that is listed by no live node once a minute, and once more when
    /// there is none any longer.
    pub(super) fn search(&mut self, application: &str, is_unlisted: bool, now: Now) -> Option<Call> {
        if !is_unlisted && !self.suspects || is_unlisted && now.boot < self.next_look {
            return None;
        }
        self.suspects = is_unlisted;
        self.next_look = now.boot.saturating_add(LOOKS_EVERY);
        let query = NobodyQuery { application: application.to_owned(), now: now.db };
        Some(Asked::find_nobody(query, ()))
    }

    /// The look failed: the next pass looks again.
    pub(super) fn failed(&mut self) {
        (self.suspects, self.next_look) = (true, Boot::MIN);
    }
}

/// What a found job's row is to say; nothing if it says so already.
pub(super) fn note(found: &UnservedJob, now: Timestamp) -> Option<Call> {
    let becomes = mark(found, now)?;
    let change = NobodyChange { job: found.id, seen: found.seen, becomes };
    let event = becomes.told.filter(|told| found.seen.told != Some(*told)).map(|_| told(found, now));
    Some(Asked::note_nobody(Change::Nobody(change), event.map(Box::new)))
}

fn mark(found: &UnservedJob, now: Timestamp) -> Option<NobodyMark> {
    let NobodyMark { since, told } = found.seen;
    let is_nobodys = found.schedules > 0 || found.waiting > 0;
    let Some(since) = since.filter(|_| is_nobodys) else {
        let becomes = NobodyMark { since: is_nobodys.then_some(now), told: None };
        return (becomes != found.seen).then_some(becomes);
    };
    let is_due = match told {
        None => now - since >= GRACE,
        // A mark ahead of the clock was made by another clock.
        Some(told) => now - told >= TOLD_EVERY || told - now >= TOLD_EVERY,
    };
    is_due.then_some(NobodyMark { since: Some(since), told: Some(now) })
}

fn told(found: &UnservedJob, now: Timestamp) -> Event {
    let since = found.seen.since.unwrap_or(now);
    Event::NobodyCanRun {
        job: found.name.clone(),
        schedules: found.schedules.unsigned_abs(),
        waiting: found.waiting.unsigned_abs(),
        lasting: span(now - since),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, REPORT, at, in_a_pass, nothing_found, run};
    use super::*;
    use crate::domain::JobId;
    use crate::machine::{Step, Stepped};
    use crate::misfire::calls::{Answer, Op};
    use crate::misfire::{MisfireInput, MisfireMachine, PollReport};
    use crate::store::Applied;

    fn job(schedules: i64, since: Option<Timestamp>, told: Option<Timestamp>) -> UnservedJob {
        let seen = NobodyMark { since, told };
        UnservedJob { id: JobId(7), name: "report".into(), schedules, waiting: 0, seen }
    }

    fn marked(schedules: i64, since: Option<Timestamp>, told: Option<Timestamp>) -> Option<NobodyMark> {
        mark(&job(schedules, since, told), NOW)
    }

    #[test]
    fn it_is_noted_at_first_sight_and_told_once_a_restart_would_be_over() {
        let since = |at: Timestamp| Some(NobodyMark { since: Some(at), told: None });
        let told = |at: Timestamp| Some(NobodyMark { since: Some(at), told: Some(NOW) });
        assert_eq!(marked(1, None, None), since(NOW));
        assert_eq!(marked(1, Some(NOW - (GRACE - 1)), None), None);
        assert_eq!(marked(1, Some(NOW - GRACE), None), told(NOW - GRACE));
    }

    #[test]
    fn it_is_told_again_after_an_hour_by_whichever_clock() {
        let since = NOW - 10 * TOLD_EVERY;
        let again = Some(NobodyMark { since: Some(since), told: Some(NOW) });
        for (told, expected) in [
            (NOW, None),
            (NOW - (TOLD_EVERY - 1), None),
            (NOW - TOLD_EVERY, again),
            (NOW + (TOLD_EVERY - 1), None),
            (NOW + TOLD_EVERY, again),
        ] {
            assert_eq!(marked(1, Some(since), Some(told)), expected, "{told:?}");
        }
    }

    #[test]
    fn what_is_over_is_forgotten_once() {
        assert_eq!(marked(0, Some(NOW - 1), Some(NOW)), Some(NobodyMark::default()));
        assert_eq!(marked(0, Some(NOW - 1), None), Some(NobodyMark::default()));
        assert_eq!(marked(0, None, None), None);
    }

    /// The passes of a node whose polls say so, and what they note and tell.
    fn pass(
        machine: &mut Stepped<MisfireMachine>,
        unlisted: bool,
        after: Millis,
        applied: Applied,
    ) -> String {
        machine.receive(at(after), MisfireInput::Polled(PollReport { unlisted, any_late: false, ..REPORT }));
        let mut told = String::new();
        loop {
            match machine.next(at(after)) {
                Step::Do(op) => {
                    let answer = match &op {
                        Op::FindNobody(_) => {
                            told.push_str("looks ");
                            Answer::FindNobody(vec![job(2, Some(NOW - GRACE), None)])
                        }
                        Op::NoteNobody(_) => Answer::NoteNobody(applied),
                        op => nothing_found(op),
                    };
                    machine.done(at(after), Ok(answer));
                }
                Step::Tell(super::super::MisfireOutput::Event(event)) => told.push_str(&event.to_string()),
                Step::Tell(_) => {}
                Step::Wait(_) | Step::Stop => return told,
            }
        }
    }

    const TOLD: &str = "looks no live node that claims has a handler for job \"report\", for 60 s now: \
                        active schedules: 2, executions that wait: 0";

    #[test]
    fn a_pass_looks_once_a_minute_while_polls_say_so_and_once_behind() {
        let mut machine = in_a_pass(None);
        assert_eq!(pass(&mut machine, true, 0, Applied::Done), TOLD);
        assert_eq!(pass(&mut machine, true, LOOKS_EVERY - 1, Applied::Done), "");
        assert_eq!(pass(&mut machine, true, LOOKS_EVERY, Applied::Done), TOLD);
        assert_eq!(pass(&mut machine, false, LOOKS_EVERY + 1, Applied::Done), TOLD, "it may be over");
        assert_eq!(pass(&mut machine, false, 10 * LOOKS_EVERY, Applied::Done), "");
    }

    #[test]
    fn who_loses_the_note_tells_nothing() {
        assert_eq!(pass(&mut in_a_pass(None), true, 0, Applied::Lost), "looks ");
    }

    /// It is not known whether a mark of an earlier process is true.
    #[test]
    fn the_first_pass_of_a_node_looks() {
        let mut machine = in_a_pass(None);
        assert_eq!(pass(&mut machine, false, 0, Applied::Done), TOLD);
        assert_eq!(pass(&mut machine, false, LOOKS_EVERY, Applied::Done), "");
    }

    #[test]
    fn a_look_that_fails_is_taken_again_with_the_next_pass() {
        let mut machine = in_a_pass(None);
        machine
            .receive(at(0), MisfireInput::Polled(PollReport { unlisted: true, any_late: false, ..REPORT }));
        let names = run(&mut machine, at(0), |op| match op {
            Op::FindNobody(_) => {
                Err(crate::domain::Error::new(crate::domain::ErrorKind::Unavailable, "away"))
            }
            op => Ok(nothing_found(&op)),
        });
        assert!(names.contains(&"looking for jobs that nobody can run"), "{names:?}");
        assert_eq!(pass(&mut machine, true, 15_000, Applied::Done), TOLD);
    }
}

//! Pauses that end by themselves: of schedules, jobs, nodes and the application.
//!
//! Before the pause of a job or the application ends, the cursors of its schedules pass what it held back.

use super::calls::{Asked, Call};
use crate::domain::{Activity, Entry, ScheduleState, Timestamp};
use crate::repair::resume;
use crate::store::audit::{Attribution, AuditEntry};
use crate::store::switch::{EndedPause, PassedQuery, SeenSwitch, SwitchChange, SwitchRow};
use crate::store::{Change, Move};

/// Schedules per search.
const PER_SEARCH: usize = 500;

pub(super) fn search(application: &str) -> Call {
    Asked::find_ended_pauses(application.to_owned(), ())
}

/// The first call for a pause whose time is up.
pub(super) fn end(pause: EndedPause, application: &str, now: Timestamp) -> Option<Call> {
    match pause {
        EndedPause::Schedule(entry) => end_of_schedule(&entry, application, now),
        EndedPause::Switch(seen) => {
            let job = match &seen.row {
                SwitchRow::Node(_) => return Some(end_of_switch(seen, application)),
                SwitchRow::Job(_, name) => Some(name.clone()),
                SwitchRow::Application(_) => None,
            };
            let application = application.to_owned();
            let query = PassedQuery { application, job, before: now + 1, limit: PER_SEARCH };
            Some(find_passed(query, seen))
        }
    }
}

/// The arrears of a long pause take several repairs; the last one ends the pause.
fn end_of_schedule(entry: &Entry, application: &str, now: Timestamp) -> Option<Call> {
    let repair = resume(entry, now)?;
    if repair.how != Move::Resume {
        return Some(Asked::pass_on(Box::new(Change::Repair(repair)), ()));
    }
    let states = (entry.state.as_str(), ScheduleState::Active.as_str());
    let audit = AuditEntry::of_schedule("resume", (application, &entry.name), states, &by_itself());
    Some(end_with(Change::Repair(repair), audit))
}

/// Its pause has held back nothing more.
pub(super) fn end_of_switch(seen: SeenSwitch, application: &str) -> Call {
    let audit = seen.entry(application, "resume", Activity::Active, &by_itself());
    end_with(Change::Switch(SwitchChange::on(seen)), audit)
}

/// How the end of a pause that nobody ends is recorded.
fn by_itself() -> Attribution {
    Attribution { actor: "firetime".to_owned(), reason: "the pause's time is up".to_owned() }
}

fn end_with(change: Change, audit: AuditEntry) -> Call {
    Asked::end_pause(Box::new(change), audit.clone(), audit)
}

/// The search for schedules that a pause has held back.
pub(super) fn find_passed(query: PassedQuery, seen: SeenSwitch) -> Call {
    Asked::find_passed(query.clone(), (query, seen))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, REPORT, at, in_a_pass, nothing_found, run};
    use super::*;
    use crate::domain::{Event, JobId, MisfirePolicy};
    use crate::fixtures::{behind, cron};
    use crate::machine::{Step, Stepped};
    use crate::misfire::calls::{Answer, Op};
    use crate::misfire::{MisfireInput, MisfireMachine, MisfireOutput, PollReport};
    use crate::store::Applied;

    const JOB: &str = "job";

    fn paused_job() -> EndedPause {
        let (row, state) = (SwitchRow::Job(JobId(1), JOB.to_owned()), "PAUSED".to_owned());
        EndedPause::Switch(SeenSwitch { row, state, since: Some(NOW) })
    }

    /// A pass of a node, switched on or not, that finds this pause over, and so many schedules held back by
    /// it.
    fn pass(
        node_enabled: bool,
        ended: EndedPause,
        mut held_back: usize,
    ) -> (Vec<&'static str>, Stepped<MisfireMachine>) {
        let mut machine = in_a_pass(None);
        let report = PollReport { node_enabled, pause_ended: true, any_late: false, ..REPORT };
        machine.receive(at(0), MisfireInput::Polled(report));
        let names = run(&mut machine, at(0), |op| {
            Ok(match op {
                Op::FindEndedPauses(..) => Answer::FindEndedPauses(vec![ended.clone()]),
                Op::FindPassed(_) => {
                    let some = std::mem::take(&mut held_back);
                    let entry = behind(MisfirePolicy::FireOnce, 30_000);
                    Answer::FindPassed(vec![entry; some])
                }
                Op::Repair(changes) => Answer::Repair(vec![Applied::Done; changes.len()]),
                Op::PassOn(_) => Answer::PassOn(()),
                Op::EndPause(..) => Answer::EndPause(Applied::Done),
                op => nothing_found(&op),
            })
        });
        (names, machine)
    }

    #[test]
    fn what_a_pause_held_back_is_passed_before_it_ends() {
        let (names, _) = pass(true, paused_job(), 2);
        let expected = [
            "electing the misfire handler",
            "looking for ended pauses",
            "looking for what a pause held back",
            "repairing misfires",
            "looking for what a pause held back",
            "ending a pause",
            "looking for executions of dead nodes",
        ];
        assert_eq!(names[..expected.len()], expected);
    }

    /// It may be the only one.
    #[test]
    fn a_node_that_is_switched_off_ends_pauses_and_does_nothing_else() {
        let node = SwitchRow::Node(crate::domain::NodeId::fresh());
        let paused = EndedPause::Switch(SeenSwitch { row: node, state: "N".to_owned(), since: Some(NOW) });
        let (names, _) = pass(false, paused, 0);
        assert_eq!(names, ["electing the misfire handler", "looking for ended pauses", "ending a pause"]);
    }

    #[test]
    fn the_end_of_a_pause_is_told_and_wakes_the_poll() {
        let mut machine = in_a_pass(None);
        machine.receive(at(0), MisfireInput::Polled(PollReport { pause_ended: true, ..REPORT }));
        let mut told = Vec::new();
        loop {
            match machine.next(at(0)) {
                Step::Do(Op::FindEndedPauses(..)) => {
                    machine.done(at(0), Ok(Answer::FindEndedPauses(vec![paused_job()])));
                }
                Step::Do(Op::FindPassed(_)) => machine.done(at(0), Ok(Answer::FindPassed(Vec::new()))),
                Step::Do(Op::EndPause(change, audit)) => {
                    assert!(matches!(
                        *change,
                        Change::Switch(SwitchChange { becomes: Activity::Active, .. })
                    ));
                    assert_eq!((audit.verb, audit.by.actor.as_str()), ("resume", "firetime"));
                    machine.done(at(0), Ok(Answer::EndPause(Applied::Done)));
                }
                Step::Do(op) => machine.done(at(0), Ok(nothing_found(&op))),
                Step::Tell(MisfireOutput::Event(Event::PauseEnded { target_type, target })) => {
                    told.push(format!("{target_type} {target}"));
                }
                Step::Tell(MisfireOutput::WakePoll) => told.push("wake".to_owned()),
                Step::Tell(_) => {}
                Step::Wait(_) | Step::Stop => break,
            }
        }
        assert_eq!(told, ["job job", "wake"]);
    }

    #[test]
    fn a_long_pause_of_a_schedule_ends_in_several_steps() {
        let paused = Entry { state: ScheduleState::Paused, ..cron(1, "* * * * * ?", NOW) };
        assert!(matches!(end_of_schedule(&paused, "app", NOW), Some((Op::EndPause(..), _))));
        let far = NOW + 1_000 * 200_000;
        assert!(matches!(end_of_schedule(&paused, "app", far), Some((Op::PassOn(_), _))));
        assert!(end_of_schedule(&behind(MisfirePolicy::FireOnce, 30_000), "app", NOW).is_none());
    }
}

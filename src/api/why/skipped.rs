//! Occurrences that were not run on purpose, or that an edit or a removal withdrew.

use super::because::{Because, Who};
use super::facts::{FIRETIME, Facts};
use super::fate::Fate;
use super::told::{Told, told};
use crate::api::words::{between, by_whom, instant, known};
use crate::api::{AuditView, ExecutionView};
use crate::domain::{MisfirePolicy, Reason};

pub(super) fn skipped(facts: &Facts, last: &ExecutionView) -> Told {
    let is_reason = |reason: Reason| last.reason == reason.as_str();
    let (because, said) = if is_reason(Reason::Paused) {
        of_pause(facts, last)
    } else if is_reason(Reason::Overlap) || is_reason(Reason::HolderLate) {
        of_holder(facts, last, is_reason(Reason::Overlap))
    } else if is_reason(Reason::Misfire) {
        of_misfire(facts, last)
    } else if is_reason(Reason::ByHand) {
        let named = last.fire_time.map(|at| format!("next {at}"));
        let skip = facts.change("skip", |it| Some(&it.was) == named.as_ref());
        let who = skip.map_or_else(|| "somebody".to_owned(), by_whom);
        (Because::ByHand { by: skip.map(Who::of) }, format!("{who} skipped it"))
    } else if is_reason(Reason::Superseded) {
        (Because::Superseded, "a later repair took its place".to_owned())
    } else if last.reason.is_empty() {
        (Because::Nothing, "the ledger does not say why".to_owned())
    } else {
        (Because::Other { word: last.reason.clone() }, last.reason.clone())
    };
    told(Fate::Skipped, because, format!("was skipped: {said}"))
}

/// What kept the slot.
fn of_holder(facts: &Facts, last: &ExecutionView, has_begun: bool) -> (Because, String) {
    let id = last.holder.map_or_else(|| "another execution".to_owned(), |id| format!("execution {id}"));
    let found = facts.holder.as_ref();
    let holder = found.map_or(id.clone(), |it| format!("{id} of {}", known(it.fire_time)));
    if !has_begun {
        let said = format!("{holder}, which was due before, had not begun");
        return (Because::HolderLate { holder: last.holder }, said);
    }
    let ended = found.and_then(|it| it.finished);
    let until = ended.map_or_else(|| ", and has not yet".to_owned(), |at| format!(" before {}", instant(at)));
    let said = format!("{holder} had not ended{until}, and executions of it must not overlap");
    (Because::Overlap { holder: last.holder, ended }, said)
}

fn of_misfire(facts: &Facts, last: &ExecutionView) -> (Because, String) {
    let at = facts.at.or(last.fire_time);
    let late = between(at, last.finished).map_or_else(String::new, |late| format!(" by {late}"));
    let because = facts.misfire(at, last.finished);
    let policy = match &because {
        Because::Misfire { policy, .. } => *policy,
        _ => None,
    };
    let rule = match policy {
        Some(MisfirePolicy::FireOnce) => ": of what is missed the latest alone runs (FIRE_ONCE)",
        Some(MisfirePolicy::DoNothing) => ": what is missed does not run (DO_NOTHING)",
        Some(MisfirePolicy::FireAll) => ": more was missed than is made up for (FIRE_ALL)",
        None => "",
    };
    (because, format!("it was missed{late}{rule}"))
}

fn of_pause(facts: &Facts, last: &ExecutionView) -> (Because, String) {
    let (target_type, target) = (String::new(), String::new());
    let nobody = Because::Paused { target_type, target, by: None, until: None };
    let said = || "it was paused, by somebody whom the audit does not know".to_owned();
    pause_of(facts, last).unwrap_or_else(|| (nobody, said()))
}

/// The pause that held it until its row was written.
fn pause_of(facts: &Facts, last: &ExecutionView) -> Option<(Because, String)> {
    let at = facts.at.or(last.fire_time);
    let (begin, end) = facts.pause_at(at, last.finished)?;
    let (what, who) = (format!("{} {:?}", begin.target_type, begin.target), by_whom(begin));
    let until = end.map_or_else(String::new, |end| format!(" until {}", known(end.made)));
    let said = match begin.made <= at {
        true => format!("{what} was paused by {who} from {}{until}", known(begin.made)),
        false => {
            let since = known(begin.made);
            format!("it was due and not claimed when {what} was paused by {who}, from {since}{until}")
        }
    };
    Some((paused_by(begin, end.and_then(|end| end.made)), said))
}

fn paused_by(begin: &AuditView, until: Option<chrono::DateTime<chrono::Utc>>) -> Because {
    if begin.actor == FIRETIME {
        let (schedule, streak) = (begin.target.clone(), begin.reason.clone());
        return Because::Contained { schedule, streak, since: begin.made, until };
    }
    let (target_type, target) = (begin.target_type.clone(), begin.target.clone());
    Because::Paused { target_type, target, by: Some(Who::of(begin)), until }
}

/// Nobody claimed it before its schedule's trigger was changed, or the schedule removed.
pub(super) fn withdrawn(facts: &Facts, last: &ExecutionView) -> Told {
    let change = facts.changes.iter().find(|it| Some(it.id) == last.change);
    let who = change.map_or_else(|| "somebody whom the audit no longer knows".to_owned(), by_whom);
    let by = change.map(Who::of);
    let (because, what) = match last.reason == Reason::Removed.as_str() {
        true => (Because::Removed { by }, "removed its schedule"),
        false => (Because::Edited { by }, "changed its trigger"),
    };
    let pause = pause_of(facts, last).map_or_else(String::new, |(_, pause)| format!("; {pause}"));
    let at = known(last.finished);
    let said = format!("was withdrawn: {who} {what} at {at}, before a node had claimed it{pause}");
    told(Fate::Withdrawn, because, said)
}

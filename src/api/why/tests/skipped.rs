use super::*;
use crate::domain::{ExecutionId, ExecutionState};

#[test]
fn what_a_pause_skipped_says_whose_pause() {
    let pause = change("pause", "schedule", at(1, 0), "active");
    let resume = change("resume", "schedule", at(3, 0), "paused");
    let facts = |changes| Facts { changes, ..with(vec![skipped("paused")]) };
    let from = format!(
        "{IT} was skipped: schedule \"nightly\" was paused by ann (\"stocktaking\") from \
         2026-11-29 01:00:00.000 UTC"
    );
    let until = format!("{from} until 2026-11-29 03:00:00.000 UTC");
    says(&facts(vec![resume, pause.clone()]), Fate::Skipped, "paused", &until);
    let later = change("pause", "job", at(4, 0), "active");
    says(&facts(vec![later, pause.clone()]), Fate::Skipped, "paused", &from);
    // Another's resume ends it not, and what ended long before held nothing.
    let others = change("resume", "job", at(2, 30_000), "paused");
    says(&facts(vec![others, pause.clone()]), Fate::Skipped, "paused", &from);
    let ended = change("resume", "schedule", at(1, 30_000), "paused");
    let unknown = explain(&facts(vec![ended, pause.clone()])).sentence;
    assert!(unknown.ends_with("by somebody whom the audit does not know"), "{unknown}");
    // Of two that lasted the one that had begun.
    let second = AuditView { actor: "bob".to_owned(), ..change("pause", "job", at(2, 40_000), "active") };
    says(&facts(vec![second.clone(), pause]), Fate::Skipped, "paused", &from);
    let late = explain(&facts(vec![second])).sentence;
    let said = "it was due and not claimed when job \"nightly\" was paused by bob (\"stocktaking\"), from ";
    assert!(late.contains(said), "{late}");
    let nobody = format!("{IT} was skipped: it was paused, by somebody whom the audit does not know");
    says(&facts(vec![]), Fate::Skipped, "paused", &nobody);
}

#[test]
fn what_would_have_overlapped_names_the_other() {
    let overlapped = |reason: &str| ExecutionView { holder: Some(ExecutionId(6)), ..skipped(reason) };
    let before = at(-22, 0);
    let holder =
        ExecutionView { id: ExecutionId(6), fire_time: Some(before), finished: None, ..ran("RUNNING", "") };
    let facts = |reason: &str, holder| Facts { holder, ..with(vec![overlapped(reason)]) };
    let said = format!(
        "{IT} was skipped: execution 6 of 2026-11-28 02:00:00.000 UTC had not ended, and has not yet, and \
         executions of it must not overlap"
    );
    says(&facts("overlap", Some(holder.clone())), Fate::Skipped, "overlap", &said);
    let late = format!(
        "{IT} was skipped: execution 6 of 2026-11-28 02:00:00.000 UTC, which was due before, had not begun"
    );
    says(&facts("holder late", Some(holder)), Fate::Skipped, "holder late", &late);
    let gone = explain(&facts("overlap", None)).sentence;
    assert!(gone.contains("execution 6 had not ended"), "{gone}");
}

#[test]
fn what_was_missed_says_how_late_and_by_which_policy() {
    let said = format!(
        "{IT} was skipped: it was missed by 1 h: of what is missed the latest alone runs (FIRE_ONCE)"
    );
    says(&with(vec![skipped("misfire")]), Fate::Skipped, "misfire", &said);
}

#[test]
fn a_skip_by_hand_is_found_in_the_audit_by_its_fire_time() {
    let of = |fire_time: DateTime<Utc>| change("skip", "schedule", at(3, 0), &format!("next {fire_time}"));
    let other = AuditView { actor: "bob".to_owned(), ..of(at(26, 0)) };
    let facts = |changes| Facts { changes, ..with(vec![skipped("by hand")]) };
    let said = |who: &str| format!("{IT} was skipped: {who} skipped it");
    let both = facts(vec![other.clone(), of(two())]);
    says(&both, Fate::Skipped, "by hand", &said("ann (\"stocktaking\")"));
    says(&facts(vec![other]), Fate::Skipped, "by hand", &said("somebody"));
}

#[test]
fn a_span_stands_for_its_fire_times_alone() {
    let span = ExecutionView {
        fire_time: Some(at(-22, 0)),
        last_fire_time: Some(at(2, 0)),
        count: 2,
        ..skipped("misfire")
    };
    let asked = |at| Facts { at: Some(at), ..with(vec![span.clone()]) };
    assert_eq!(explain(&asked(at(2, 0))).fate, Fate::Skipped);
    let between = explain(&asked(at(-1, 0)));
    assert_eq!((between.fate, between.executions.len()), (Fate::NotDue, 0));
    // By a trigger of then, perhaps.
    let edited = vec![retimed(at(5, 0))];
    assert_eq!(explain(&Facts { changes: edited, ..asked(at(-1, 0)) }).fate, Fate::Skipped);
}

#[test]
fn what_was_withdrawn_says_by_whom() {
    let edit = change("ensure", "schedule", at(3, 0), "cron 0 0 2 * * ? UTC");
    let run =
        ExecutionView { state: ExecutionState::Withdrawn.into(), change: Some(edit.id), ..skipped("edited") };
    let said = |who: &str, what: &str| {
        format!(
            "{IT} was withdrawn: {who} {what} at 2026-11-29 03:00:00.000 UTC, before a node had claimed it"
        )
    };
    let facts = Facts { changes: vec![edit], ..with(vec![run.clone()]) };
    says(&facts, Fate::Withdrawn, "edited", &said("ann (\"stocktaking\")", "changed its trigger"));
    let removed = ExecutionView { reason: "removed".to_owned(), ..run };
    let gone = said("somebody whom the audit no longer knows", "removed its schedule");
    says(&Facts { plan: None, ..with(vec![removed]) }, Fate::Withdrawn, "removed", &gone);
}

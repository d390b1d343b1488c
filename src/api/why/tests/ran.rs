use super::*;
use crate::domain::{Cause, ExecutionId, ExecutionState, Word};

#[test]
fn what_ran_says_where_and_how_late() {
    let why = says(
        &with(vec![ran("SUCCEEDED", "")]),
        Fate::Succeeded,
        "",
        &format!("{IT} ran on {ON} (+3 ms), and took 1.2 s"),
    );
    assert_eq!(why.executions, [ExecutionId(7)]);
    assert_eq!(why.evidence[0].what, "attempt 1");
}

#[test]
fn an_occurrence_says_what_became_of_its_rerun() {
    let order = change("rerun", "schedule", at(4, 0), "");
    let rerun = ExecutionView { id: ExecutionId(9), origin: order.id, ..ran("SUCCEEDED", "") };
    let of =
        |rerun| Facts { rerun: Some(rerun), changes: vec![order.clone()], ..with(vec![skipped("misfire")]) };
    let said = |became: &str| {
        format!(
            "{IT} was skipped: it was missed by 1 h: of what is missed the latest alone runs (FIRE_ONCE); ann \
             (\"stocktaking\") had it run again as execution 9, which {became}"
        )
    };
    let ended = said("succeeded at 2026-11-29 02:00:01.203 UTC");
    let why = says(&of(rerun.clone()), Fate::Skipped, "misfire", &ended);
    assert_eq!(why.executions, [ExecutionId(7)]);
    assert!(why.evidence.iter().any(|it| it.what == "its rerun, execution 9"), "{why:?}");
    let unfinished =
        |state: &str| ExecutionView { finished: None, state: Word::read(state), ..rerun.clone() };
    says(&of(unfinished("PENDING")), Fate::Skipped, "misfire", &said("waits"));
    says(&of(unfinished("RUNNING")), Fate::Skipped, "misfire", &said("runs"));
    let forgotten = Facts { changes: Vec::new(), ..of(rerun) };
    assert!(
        explain(&forgotten).sentence.contains("somebody whom the audit no longer knows had it run again")
    );
}

#[test]
fn a_rerun_says_who_asked_for_it() {
    let rerun = |it: ExecutionView| ExecutionView { origin: 5, ..it };
    let first = ExecutionView {
        cause: Cause::Rerun { actor: "ann".to_owned(), reason: "a gap".to_owned() },
        error: "no route".to_owned(),
        ..rerun(ran("FAILED", ""))
    };
    let second =
        ExecutionView { id: ExecutionId(8), attempt: 2, cause: Cause::Retry, ..rerun(ran("SUCCEEDED", "")) };
    let said = |id: i64, became: &str| {
        format!(
            "execution {id}, for which ann (\"a gap\") had \"nightly\" of 2026-11-29 02:00:00.000 UTC run \
             again, {became}"
        )
    };
    let of = |attempts| Facts { at: None, ..with(attempts) };
    let ran = said(
        8,
        &format!(
            "ran on {ON} (+3 ms), and took 1.2 s, as attempt 2 after attempt 1 failed on {ON}: no route"
        ),
    );
    says(&of(vec![first.clone(), second]), Fate::Succeeded, "retry", &ran);
    let cancel = AuditView {
        was: "rerun 5: 3 waited, 0 ran".to_owned(),
        ..change("cancel", "schedule", at(4, 0), "")
    };
    let cancelled = ExecutionView {
        finished: Some(at(4, 0)),
        started: None,
        state: ExecutionState::Cancelled.into(),
        reason: "cancelled".to_owned(),
        ..first
    };
    let facts = Facts { changes: vec![cancel], ..of(vec![cancelled]) };
    let ended = "was cancelled before it began at 2026-11-29 04:00:00.000 UTC, by ann (\"stocktaking\")";
    says(&facts, Fate::Cancelled, "cancelled", &said(7, ended));
}

#[test]
fn a_second_attempt_says_what_became_of_the_first() {
    let died = ExecutionView { node: Some("n0".to_owned()), ..ran("ABANDONED", "node died") };
    let cause = Cause::Recovery;
    let second = ExecutionView { id: ExecutionId(8), attempt: 2, cause, ..ran("SUCCEEDED", "") };
    let why = says(
        &with(vec![died, second.clone()]),
        Fate::Succeeded,
        "recovery",
        &format!("{IT} ran on {ON} (+3 ms), and took 1.2 s, as attempt 2 after node n0 died with attempt 1"),
    );
    assert_eq!(why.executions, [ExecutionId(7), ExecutionId(8)]);
    let failed = ExecutionView { error: "no route\nat mail.rs:7".to_owned(), ..ran("FAILED", "") };
    let cause = Cause::Retry;
    let why = explain(&with(vec![failed, ExecutionView { cause, ..second }]));
    assert!(
        why.sentence.ends_with(&format!("as attempt 2 after attempt 1 failed on {ON}: no route")),
        "{why:?}"
    );
}

#[test]
fn what_runs_says_since_when_and_whether_its_node_is_gone() {
    let running = ExecutionView { finished: None, ..ran("RUNNING", "") };
    let since = format!("{IT} has run since 2026-11-29 02:00:00.003 UTC (+3 ms) on {ON}");
    says(&with(vec![running.clone()]), Fate::Running, "", &since);
    let ended = NodeView { ended: Some(at(2, 9)), ..node(NODE) };
    let facts = Facts { nodes: vec![ended], ..with(vec![running.clone()]) };
    assert!(explain(&facts).sentence.ends_with(", which has ended: it will be taken back"));
    let asked = ExecutionView { cancel_asked: Some(at(2, 9)), cancel_asked_by: "ann".to_owned(), ..running };
    let why = explain(&with(vec![asked]));
    assert!(why.sentence.ends_with(", and ann asked for its end at 2026-11-29 02:00:00.009 UTC"), "{why:?}");
}

#[test]
fn what_failed_says_why_no_attempt_follows() {
    let failed = |reason: &str, failures| ExecutionView {
        error: "no route".to_owned(),
        failures,
        ..ran("FAILED", reason)
    };
    let of = |run, max_retries| Facts { job: Some(JobView { max_retries, ..job() }), ..with(vec![run]) };
    let said = |what: &str| format!("{IT} failed on {ON}: no route; {what}");
    says(&of(failed("", 0), 0), Fate::Failed, "", &said("its job has no retries"));
    says(&of(failed("", 3), 3), Fate::Failed, "", &said("none of its 3 retries is left"));
    let gave_up = said("its handler said that no retry would help");
    says(&of(failed("gave up", 0), 3), Fate::Failed, "gave up", &gave_up);
}

#[test]
fn what_was_lost_with_its_node_says_so() {
    let died = ran("ABANDONED", "attempts exhausted");
    let said = format!("{IT} was lost: {ON} died while it ran there");
    let most = format!("{said}, as attempt 1: its job allows 2 attempts that cost their nodes");
    says(&with(vec![died.clone()]), Fate::Abandoned, "attempts exhausted", &most);
    let facts = Facts { job: Some(JobView { recover: false, ..job() }), ..with(vec![died]) };
    says(
        &facts,
        Fate::Abandoned,
        "attempts exhausted",
        &format!("{said}, and its job is not run again after that"),
    );
}

#[test]
fn what_ran_out_of_time_says_whether_it_runs_on() {
    let stuck = ExecutionView { stuck: true, finished: None, ..ran("TIMED_OUT", "") };
    let said = format!(
        "{IT} ran out of time on {ON}, begun at 2026-11-29 02:00:00.003 UTC: its handler has not returned"
    );
    says(&with(vec![stuck]), Fate::TimedOut, "time limit", &said);
}

#[test]
fn what_was_cancelled_says_by_whom() {
    let cancelled = skipped("cancelled");
    let cancelled = ExecutionView { state: ExecutionState::Cancelled.into(), ..cancelled };
    let facts = |changes| Facts { changes, ..with(vec![cancelled.clone()]) };
    let said = format!("{IT} was cancelled before it began at 2026-11-29 03:00:00.000 UTC, by");
    let by_ann = facts(vec![change("cancel", "execution", at(3, 0), "PENDING")]);
    says(&by_ann, Fate::Cancelled, "cancelled", &format!("{said} ann (\"stocktaking\")"));
    says(
        &facts(vec![]),
        Fate::Cancelled,
        "cancelled",
        &format!("{said} somebody whom the audit no longer knows"),
    );
}

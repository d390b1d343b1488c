use super::*;
use crate::api::why::expected::Expected;

/// "nightly", which is to succeed within an hour.
fn expecting(attempts: Vec<ExecutionView>) -> Facts {
    let view = ScheduleView { expected_by: Some(Duration::from_secs(3_600)), ..schedule() };
    let plan = noon().plan.map(|plan| Plan { view, ..plan });
    Facts { plan, ..with(attempts) }
}

#[track_caller]
fn told(facts: &Facts, met: Option<DateTime<Utc>>, words: &str) {
    let why = explain(facts);
    assert_eq!(why.expected, Some(Expected { within: Duration::from_secs(3_600), until: at(3, 0), met }));
    let known = why.evidence.iter().find(|it| it.what == "expected").map(|it| it.known.clone()).unwrap();
    assert_eq!(known, format!("within 1 h, until 2026-11-29 03:00:00.000 UTC: {words}"));
}

#[test]
fn an_expectation_is_met_late_or_not_at_all() {
    let ended = |at| expecting(vec![ExecutionView { finished: Some(at), ..ran("SUCCEEDED", "") }]);
    told(&ended(at(2, 5_000)), Some(at(2, 5_000)), "met at 2026-11-29 02:00:05.000 UTC");
    let late = "met 30 min too late, at 2026-11-29 03:30:00.000 UTC";
    told(&ended(at(3, 1_800_000)), Some(at(3, 1_800_000)), late);
    let failed = expecting(vec![ran("FAILED", "")]);
    told(&failed, None, "not met");
    told(&Facts { now: at(2, 60_000), ..failed }, None, "its time is not up");
    let never = Facts { attempts: Vec::new(), ..expecting(Vec::new()) };
    assert_eq!(explain(&never).expected, None, "it is not known what became of it");
    assert_eq!(explain(&with(vec![ran("FAILED", "")])).expected, None);
}

#[test]
fn a_later_success_ends_what_was_unmet() {
    let met = |made| vec![change("met", "schedule", made, "2026-11-29 02:00:00")];
    let missed = |made| Facts { changes: met(made), ..expecting(vec![skipped("misfire")]) };
    told(&missed(at(4, 0)), Some(at(4, 0)), "met 1 h too late, at 2026-11-29 04:00:00.000 UTC");
    told(&missed(at(1, 0)), None, "not met");
}

#[test]
fn nobody_waits_for_what_was_paused_or_skipped_by_hand() {
    for reason in ["paused", "by hand"] {
        assert_eq!(explain(&expecting(vec![skipped(reason)])).expected, None, "{reason}");
    }
    assert!(explain(&expecting(vec![skipped("overlap")])).expected.is_some());
}

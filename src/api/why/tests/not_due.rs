use super::*;
use crate::domain::ScheduleState;

#[test]
fn an_instant_without_a_fire_time_names_the_nearest() {
    let facts = Facts { at: Some(at(3, 0)), ..noon() };
    let said = "\"nightly\" of 2026-11-29 03:00:00.000 UTC is not due: its trigger, cron 0 0 2 * * ? UTC, \
                has no fire time there; the nearest are 2026-11-29 02:00:00.000 UTC and \
                2026-11-30 02:00:00.000 UTC";
    says(&facts, Fate::NotDue, "no fire time", said);
}

#[test]
fn what_is_to_come_will_run_or_be_skipped() {
    let tomorrow = Facts { at: Some(at(26, 0)), ..noon() };
    let it = "\"nightly\" of 2026-11-30 02:00:00.000 UTC";
    says(&tomorrow, Fate::Planned, "", &format!("{it} will run in 14 h"));
    let paused = |until| {
        let (state, by) = (ScheduleState::Paused.into(), "ann".to_owned());
        let view = ScheduleView { state, paused_by: by, paused_until: until, ..schedule() };
        let plan = noon().plan.map(|plan| Plan { view, ..plan });
        Facts { plan, at: Some(at(26, 0)), ..noon() }
    };
    let why = explain(&paused(None));
    assert_eq!((why.fate, &*why.reason), (Fate::WillBeSkipped, "paused"));
    assert!(
        why.sentence.ends_with("schedule \"nightly\" is paused by ann, until somebody resumes it"),
        "{why:?}"
    );
    assert_eq!(explain(&paused(Some(at(20, 0)))).fate, Fate::Planned);
    assert_eq!(explain(&paused(Some(at(27, 0)))).fate, Fate::WillBeSkipped);
    let nobody = Facts { nodes: Vec::new(), ..tomorrow };
    assert!(explain(&nobody).sentence.contains("will run in 14 h, but no live node has a handler"));
}

#[test]
fn what_nobody_recorded_is_not_guessed() {
    assert_eq!(explain(&noon()).fate, Fate::Unknown);
    let made = Facts { changes: vec![change("ensure", "schedule", at(9, 0), "")], ..noon() };
    let said = format!(
        "{IT} did not run: ann (\"stocktaking\") made its schedule at 2026-11-29 09:00:00.000 UTC, after that"
    );
    says(&made, Fate::NotDue, "not made yet", &said);
    let edited = Facts { changes: vec![retimed(at(9, 0))], ..noon() };
    let said = format!(
        "{IT} is not in the ledger: its trigger was another until 2026-11-29 09:00:00.000 UTC, \
         when ann (\"stocktaking\") changed it"
    );
    says(&edited, Fate::Unknown, "edited", &said);
    // By the fields that it names: a description may look like a trigger.
    let settings = AuditView {
        fields: vec![ScheduleField::Description],
        ..change("ensure", "schedule", at(9, 0), "cron 0 0 4 * * ? UTC")
    };
    assert_eq!(explain(&Facts { changes: vec![settings.clone()], ..noon() }).reason, "");
    // Later edits hide none.
    let (first, second) = (retimed(at(7, 0)), retimed(at(8, 0)));
    let why = explain(&Facts { changes: vec![settings, second, first], ..noon() });
    assert!(why.sentence.contains("its trigger was another until 2026-11-29 07:00"), "{why:?}");
}

/// What a policy was is not known once an edit has set another.
#[test]
fn a_misfire_names_its_policy_unless_that_was_another() {
    let of = |fields| {
        let edit = AuditView { fields, ..change("edit", "schedule", at(4, 0), "description=misfire=") };
        explain(&Facts { changes: vec![edit], ..with(vec![skipped("misfire")]) }).because
    };
    let policy = |because| match because {
        Because::Misfire { policy, .. } => policy,
        _ => panic!("{because:?}"),
    };
    assert_eq!(policy(of(vec![ScheduleField::Description])), Some(MisfirePolicy::FireOnce));
    assert_eq!(policy(of(vec![ScheduleField::Misfire])), None);
}

/// The trigger of then says which instants were fire times, not that of now.
#[test]
fn the_trigger_of_then_is_told_from_its_history() {
    let period = |generation, trigger: &str, begun: DateTime<Utc>, end: Option<DateTime<Utc>>| {
        let timing = Timing::new(Trigger::cron(trigger, "UTC").unwrap(), None, None).unwrap();
        let end = end.map(|at| TriggerEnd { at: at.into(), last: None, state: "EXECUTING".to_owned() });
        TriggerPeriod {
            generation,
            begun: begun.into(),
            first: Some(begun.into()),
            when: When::of(&timing),
            end,
        }
    };
    let old = at(-48, 0);
    let triggers =
        vec![period(0, "0 0 4 * * ?", old, Some(at(9, 0))), period(1, "0 0 2 * * ?", at(9, 0), None)];
    let of = |attempts| Facts { triggers: triggers.clone(), ..with(attempts) };
    let said = format!(
        "{IT} was not due: its trigger, cron 0 0 4 * * ? [UTC] until 2026-11-29 09:00:00.000 UTC, has no fire \
         time there"
    );
    says(&of(Vec::new()), Fate::NotDue, "no fire time", &said);
    // One that it had, and of which no row is left.
    let four = Facts { at: Some(at(4, 0)), changes: vec![retimed(at(9, 0))], ..of(Vec::new()) };
    let why = explain(&four);
    assert_eq!((why.fate, &*why.reason), (Fate::Unknown, "edited"), "{why:?}");
    assert!(why.sentence.contains("its trigger was cron 0 0 4 * * ? [UTC] until "), "{why:?}");
    // Nor does a span of that trigger stand for it.
    let span =
        ExecutionView { fire_time: Some(at(-20, 0)), last_fire_time: Some(at(4, 0)), ..skipped("misfire") };
    says(&of(vec![span.clone()]), Fate::NotDue, "no fire time", &said);
    let inside = Facts { at: Some(at(-20, 0)), ..of(vec![ExecutionView { fire_time: Some(old), ..span }]) };
    assert_eq!(explain(&inside).fate, Fate::Skipped);
    // The nearest fire times of the trigger of now do not lie before its first.
    let why = explain(&Facts { at: Some(at(20, 0)), ..of(Vec::new()) });
    assert!(why.sentence.ends_with("; the next is 2026-11-30 02:00:00.000 UTC"), "{why:?}");
}

#[test]
fn a_removed_schedule_runs_no_more() {
    let removal = change("remove", "schedule", at(1, 0), "active");
    let facts = Facts { plan: None, changes: vec![removal], ..noon() };
    let said = format!(
        "{IT} does not run: its schedule was removed by ann (\"stocktaking\") at 2026-11-29 01:00:00.000 UTC"
    );
    says(&facts, Fate::NotDue, "removed", &said);
    assert_eq!(explain(&Facts { at: Some(at(0, 0)), ..facts }).fate, Fate::Unknown);
    // Made again, and with another trigger since.
    let again =
        |was: &str| AuditView { became: String::new(), ..change("ensure", "schedule", at(9, 0), was) };
    for was in ["", "cron 0 0 4 * * ? UTC"] {
        let changes = vec![again(was), change("remove", "schedule", at(1, 0), "active")];
        let why = explain(&Facts { changes, ..noon() });
        assert_eq!((why.fate, &*why.reason), (Fate::NotDue, "removed"), "{why:?}");
        assert!(why.sentence.contains(", and made again at 2026-11-29 09:00:00.000 UTC by ann"), "{why:?}");
    }
}

/// From the last second of a cron that fires each second of one hour a year ago.
#[test]
fn the_last_fire_time_before_is_found_far_back_or_not_at_all() {
    let of = |expression: &str| {
        let timing = Timing::new(Trigger::cron(expression, "UTC").unwrap(), None, None).ok();
        let view = ScheduleView { trigger: "it".to_owned(), ..schedule() };
        let plan = Some(Plan { view, timing, misfire: None, left_by: Vec::new() });
        explain(&Facts { plan, at: Some(at(12, TimeDelta::hours(1).num_milliseconds() / 3)), ..noon() })
            .sentence
    };
    assert!(
        of("* * 3 1 1 ?").contains("nearest are 2026-01-01 03:59:59.000 UTC and 2027-01-01 03:00:00.000 UTC")
    );
    let once_ever = of("0 0 0 1 1 ? 2030");
    assert!(once_ever.ends_with("; the next is 2030-01-01 00:00:00.000 UTC"), "{once_ever}");
}

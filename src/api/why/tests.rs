use chrono::{DateTime, TimeDelta, Utc};

use super::answer::{Fate, Why};
use super::explain::explain;
use super::facts::{Facts, Plan};
use crate::api::{ApplicationView, AuditView, ExecutionView, JobView, NodeView, RateView, ScheduleView};
use crate::domain::{LaneHealth, MisfirePolicy};
use crate::store::columns::When;
use crate::store::ledger::{TriggerEnd, TriggerPeriod};
use crate::trigger::{Timing, Trigger};

fn at(hour: i64, millis: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_795_910_400_000 + hour * 3_600_000 + millis).unwrap()
}

/// The fire time of "nightly" on 2026-11-29.
fn two() -> DateTime<Utc> {
    at(2, 0)
}

const NODE: &str = "n1";

fn planned(state: &str, reason: &str) -> ExecutionView {
    ExecutionView {
        id: 7,
        application: "shop".to_owned(),
        schedule: "nightly".to_owned(),
        job: "report".to_owned(),
        state: state.to_owned(),
        reason: reason.to_owned(),
        cause: "planned".to_owned(),
        asked_by: String::new(),
        asked_why: String::new(),
        generation: 0,
        origin: 0,
        fire_time: Some(two()),
        until: None,
        count: 1,
        attempt: 1,
        failures: 0,
        snoozes: 0,
        stuck: false,
        holder: None,
        key: None,
        group: None,
        lane: None,
        tags: Vec::new(),
        fence: 1,
        due: Some(two()),
        node: String::new(),
        claimed: None,
        started: None,
        finished: None,
        error: String::new(),
        cancel_asked: None,
        cancel_asked_by: String::new(),
        cancel_asked_why: String::new(),
        cancel_seen: None,
        nobody_since: None,
    }
}

/// One that began 3 ms late on the node, and ended 1.2 s after that.
fn ran(state: &str, reason: &str) -> ExecutionView {
    let (node, started, finished) = (NODE.to_owned(), Some(at(2, 3)), Some(at(2, 1_203)));
    ExecutionView { node, claimed: started, started, finished, ..planned(state, reason) }
}

fn skipped(reason: &str) -> ExecutionView {
    ExecutionView { finished: Some(at(3, 0)), ..planned("SKIPPED", reason) }
}

fn node(id: &str) -> NodeView {
    NodeView {
        id: id.to_owned(),
        application: "shop".to_owned(),
        host_ip: String::new(),
        host_name: "host-a".to_owned(),
        pid: 41,
        state: "active".to_owned(),
        paused_by: String::new(),
        reason: String::new(),
        paused: None,
        paused_until: None,
        beat: 1,
        jobs: vec!["report".to_owned()],
        threads: 4,
        busy: 0,
        queued: 0,
        stuck: 0,
        lanes: Vec::new(),
        started: Some(at(0, 0)),
        last_beat: Some(at(11, 58_000)),
        ended: None,
        end_reason: String::new(),
    }
}

fn job() -> JobView {
    JobView {
        name: "report".to_owned(),
        state: "active".to_owned(),
        nodes: 1,
        schedules: 1,
        recover: true,
        max_attempts: 2,
        max_retries: 0,
        retry_delay: 0,
        retry_cap: 0,
        retry_jitter: 0,
        time_limit: None,
        concurrency: None,
        rate: None,
        group_concurrency: None,
        group_rate: None,
        description: String::new(),
        paused_by: String::new(),
        reason: String::new(),
        paused: None,
        paused_until: None,
        nobody_since: None,
    }
}

fn schedule() -> ScheduleView {
    ScheduleView {
        id: 1,
        application: "shop".to_owned(),
        name: "nightly".to_owned(),
        job: "report".to_owned(),
        nodes: 1,
        state: "active".to_owned(),
        trigger: "cron 0 0 2 * * ? UTC".to_owned(),
        description: String::new(),
        prev: Some(two()),
        next: Some(at(26, 0)),
        misfire_threshold: 60_000,
        expected_by: None,
        unmet: None,
        triggered: 1,
        version: 1,
        reason: String::new(),
        paused_by: String::new(),
        paused: None,
        paused_until: None,
        held_by: String::new(),
        left_alone: String::new(),
        owner: String::new(),
        by_hand: Vec::new(),
        nobody_since: None,
    }
}

/// The cluster at noon, with one node, and "nightly", which fires at two.
fn noon() -> Facts {
    let timing = Timing::new(Trigger::cron("0 0 2 * * ?", "UTC").unwrap(), None, None).ok();
    Facts {
        now: at(12, 0),
        name: "nightly".to_owned(),
        at: Some(two()),
        plan: Some(Plan {
            view: schedule(),
            timing,
            misfire: Some(MisfirePolicy::FireOnce),
            left_by: Vec::new(),
        }),
        attempts: Vec::new(),
        nodes: vec![node(NODE)],
        job: Some(job()),
        application: Some(ApplicationView {
            name: "shop".to_owned(),
            state: "active".to_owned(),
            paused_by: String::new(),
            reason: String::new(),
            paused: None,
            paused_until: None,
        }),
        holder: None,
        rerun: None,
        triggers: Vec::new(),
        under_way: Vec::new(),
        changes: Vec::new(),
    }
}

fn with(attempts: Vec<ExecutionView>) -> Facts {
    Facts { attempts, ..noon() }
}

fn change(verb: &str, target_type: &str, made: DateTime<Utc>, was: &str) -> AuditView {
    AuditView {
        id: made.timestamp_millis(),
        application: "shop".to_owned(),
        made: Some(made),
        actor: "ann".to_owned(),
        verb: verb.to_owned(),
        target_type: target_type.to_owned(),
        target: "nightly".to_owned(),
        was: was.to_owned(),
        became: "cron 0 0 2 * * ? UTC".to_owned(),
        reason: "stocktaking".to_owned(),
    }
}

#[track_caller]
fn says(facts: &Facts, fate: Fate, reason: &str, sentence: &str) -> Why {
    let why = explain(facts);
    assert_eq!((why.fate, &*why.reason, &*why.sentence), (fate, reason, sentence));
    why
}

const ON: &str = "node n1 (host-a, process 41)";
const IT: &str = "\"nightly\" of 2026-11-29 02:00:00.000 UTC";

#[test]
fn what_ran_says_where_and_how_late() {
    let why = says(
        &with(vec![ran("SUCCEEDED", "")]),
        Fate::Succeeded,
        "",
        &format!("{IT} ran on {ON} (+3 ms), and took 1.2 s"),
    );
    assert_eq!(why.executions, [7]);
    assert_eq!(why.evidence[0].what, "attempt 1");
}

#[test]
fn an_occurrence_says_what_became_of_its_rerun() {
    let order = change("rerun", "schedule", at(4, 0), "");
    let rerun = ExecutionView { id: 9, origin: order.id, ..ran("SUCCEEDED", "") };
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
    assert_eq!(why.executions, [7]);
    assert!(why.evidence.iter().any(|it| it.what == "its rerun, execution 9"), "{why:?}");
    let unfinished = |state: &str| ExecutionView { finished: None, state: state.to_owned(), ..rerun.clone() };
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
        cause: "rerun".to_owned(),
        asked_by: "ann".to_owned(),
        asked_why: "a gap".to_owned(),
        error: "no route".to_owned(),
        ..rerun(ran("FAILED", ""))
    };
    let second =
        ExecutionView { id: 8, attempt: 2, cause: "retry".to_owned(), ..rerun(ran("SUCCEEDED", "")) };
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
        state: "CANCELLED".to_owned(),
        reason: "cancelled".to_owned(),
        ..first
    };
    let facts = Facts { changes: vec![cancel], ..of(vec![cancelled]) };
    let ended = "was cancelled before it began at 2026-11-29 04:00:00.000 UTC, by ann (\"stocktaking\")";
    says(&facts, Fate::Cancelled, "cancelled", &said(7, ended));
}

#[test]
fn a_second_attempt_says_what_became_of_the_first() {
    let died = ExecutionView { node: "n0".to_owned(), ..ran("ABANDONED", "node died") };
    let cause = "recovery".to_owned();
    let second = ExecutionView { id: 8, attempt: 2, cause, ..ran("SUCCEEDED", "") };
    let why = says(
        &with(vec![died, second.clone()]),
        Fate::Succeeded,
        "recovery",
        &format!("{IT} ran on {ON} (+3 ms), and took 1.2 s, as attempt 2 after node n0 died with attempt 1"),
    );
    assert_eq!(why.executions, [7, 8]);
    let failed = ExecutionView { error: "no route\nat mail.rs:7".to_owned(), ..ran("FAILED", "") };
    let cause = "retry".to_owned();
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
    let cancelled = ExecutionView { state: "CANCELLED".to_owned(), ..cancelled };
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
    let overlapped = |reason: &str| ExecutionView { holder: Some(6), ..skipped(reason) };
    let before = at(-22, 0);
    let holder = ExecutionView { id: 6, fire_time: Some(before), finished: None, ..ran("RUNNING", "") };
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
    let span =
        ExecutionView { fire_time: Some(at(-22, 0)), until: Some(at(2, 0)), count: 2, ..skipped("misfire") };
    let asked = |at| Facts { at: Some(at), ..with(vec![span.clone()]) };
    assert_eq!(explain(&asked(at(2, 0))).fate, Fate::Skipped);
    let between = explain(&asked(at(-1, 0)));
    assert_eq!((between.fate, between.executions.len()), (Fate::NotDue, 0));
    // By a trigger of then, perhaps.
    let edited = vec![change("ensure", "schedule", at(5, 0), "cron 0 0 * * * ? UTC")];
    assert_eq!(explain(&Facts { changes: edited, ..asked(at(-1, 0)) }).fate, Fate::Skipped);
}

fn pending() -> ExecutionView {
    let (reason, cause) = ("retry".to_owned(), "retry".to_owned());
    ExecutionView { id: 8, attempt: 2, reason, cause, ..planned("PENDING", "") }
}

#[test]
fn a_retry_waits_for_its_time() {
    let failed = ExecutionView { error: "no route".to_owned(), ..ran("FAILED", "") };
    let retry = ExecutionView { due: Some(at(12, 90_000)), ..pending() };
    let said = format!(
        "{IT} is due at 2026-11-29 12:01:30.000 UTC, in 1 min 30 s, as attempt 2 after attempt 1 \
         failed on {ON}: no route"
    );
    says(&with(vec![failed, retry]), Fate::Planned, "retry", &said);
}

#[test]
fn what_waits_names_what_holds_it() {
    let waiting = |facts: Facts, reason: &str, said: &str| {
        says(
            &Facts { attempts: vec![pending()], ..facts },
            Fate::Waiting,
            reason,
            &format!("{IT} waits: {said}"),
        );
    };
    let job_of_nobody = Some(JobView { nobody_since: Some(at(4, 0)), ..job() });
    let none =
        Facts { nodes: vec![NodeView { ended: Some(at(3, 0)), ..node(NODE) }], job: job_of_nobody, ..noon() };
    waiting(
        none,
        "no node",
        "no live node has a handler for job \"report\", since 2026-11-29 04:00:00.000 UTC; the last one that \
         had ended at 2026-11-29 03:00:00.000 UTC",
    );
    let drained = Facts { nodes: vec![NodeView { state: "drained".to_owned(), ..node(NODE) }], ..noon() };
    waiting(drained, "no node", "no node that has a handler for it claims: node n1 is drained");
    let job_paused = JobView {
        state: "paused".to_owned(),
        paused_by: "ann".to_owned(),
        paused_until: Some(at(13, 0)),
        ..job()
    };
    waiting(
        Facts { job: Some(job_paused), ..noon() },
        "paused",
        "job \"report\" is paused by ann, until 2026-11-29 13:00:00.000 UTC",
    );
    let bounded = Facts {
        job: Some(JobView { concurrency: Some(2), rate: None::<RateView>, ..job() }),
        under_way: vec![ExecutionView { id: 41, ..pending() }, ExecutionView { id: 42, ..pending() }],
        ..noon()
    };
    waiting(bounded, "full", "all 2 seats of job \"report\" are taken by 41 and 42");
    let lane = LaneHealth { threads: 4, busy: 4, queued: 9, ..LaneHealth::default() };
    let full =
        NodeView { busy: 4, queued: 9, lanes: vec![lane], last_beat: Some(at(12, -2_000)), ..node(NODE) };
    waiting(
        Facts { nodes: vec![full], ..noon() },
        "full",
        "lanes of all its nodes are full: node n1 runs 4 of 4 and has 9 queued, 2.0 s ago",
    );
}

#[test]
fn seats_of_a_group_are_its_own() {
    let group = |name: &str| Some(name.to_owned());
    let of = |id, name| ExecutionView { id, group: group(name), ..pending() };
    let facts = Facts {
        job: Some(JobView { group_concurrency: Some(1), ..job() }),
        under_way: vec![of(41, "other"), of(42, "seven")],
        ..with(vec![ExecutionView { group: group("seven"), ..pending() }])
    };
    says(
        &facts,
        Fate::Waiting,
        "full",
        &format!("{IT} waits: the only seat of group \"seven\" is taken by 42"),
    );
    let free = Facts { under_way: vec![of(41, "other")], ..facts };
    assert!(explain(&free).sentence.contains("nothing that is known holds it"));
}

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
        let (state, by) = ("paused".to_owned(), "ann".to_owned());
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
fn what_came_due_and_was_not_claimed_waits() {
    let open = |facts: Facts| {
        let view = |plan: Plan| Plan { view: ScheduleView { next: Some(two()), ..plan.view }, ..plan };
        Facts { plan: facts.plan.map(view), ..facts }
    };
    let late = format!("{IT} has been due for 10 h, and nothing that is known holds it");
    says(&open(noon()), Fate::Waiting, "", &late);
    let error = ScheduleView { state: "error".to_owned(), reason: "bad cron".to_owned(), ..schedule() };
    let broken = Facts { plan: noon().plan.map(|plan| Plan { view: error, ..plan }), ..noon() };
    says(
        &open(broken),
        Fate::Waiting,
        "quarantined",
        &format!("{IT} waits: its schedule is in error: bad cron"),
    );
}

#[test]
fn what_nobody_recorded_is_not_guessed() {
    assert_eq!(explain(&noon()).fate, Fate::Unknown);
    let made = Facts { changes: vec![change("ensure", "schedule", at(9, 0), "")], ..noon() };
    let said = format!(
        "{IT} did not run: ann (\"stocktaking\") made its schedule at 2026-11-29 09:00:00.000 UTC, after that"
    );
    says(&made, Fate::NotDue, "not made yet", &said);
    let edited =
        Facts { changes: vec![change("ensure", "schedule", at(9, 0), "cron 0 0 4 * * ? UTC")], ..noon() };
    let said = format!(
        "{IT} is not in the ledger: its trigger was cron 0 0 4 * * ? UTC until 2026-11-29 09:00:00.000 UTC, \
         when ann (\"stocktaking\") changed it"
    );
    says(&edited, Fate::Unknown, "edited", &said);
    let settings = change("ensure", "schedule", at(9, 0), "priority=5");
    assert_eq!(explain(&Facts { changes: vec![settings.clone()], ..noon() }).reason, "");
    // Later edits hide none, and the first says what the trigger was.
    let first = change("ensure", "schedule", at(7, 0), "cron 0 0 5 * * ? UTC");
    let second = change("ensure", "schedule", at(8, 0), "cron 0 0 6 * * ? UTC");
    let why = explain(&Facts { changes: vec![settings, second, first], ..noon() });
    assert!(why.sentence.contains("its trigger was cron 0 0 5 * * ? UTC until 2026-11-29 07:00"), "{why:?}");
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
    // Nor does a span of that trigger stand for it.
    let span = ExecutionView { fire_time: Some(at(-20, 0)), until: Some(at(4, 0)), ..skipped("misfire") };
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

#[test]
fn what_was_withdrawn_says_by_whom() {
    let edit = change("ensure", "schedule", at(3, 0), "cron 0 0 2 * * ? UTC");
    let run = ExecutionView { state: "WITHDRAWN".to_owned(), holder: Some(edit.id), ..skipped("edited") };
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

#[test]
fn what_is_missed_does_not_wait() {
    let open = |misfire: &str, asked| {
        let timing = Timing::new(Trigger::cron("0 0 * * * ?", "UTC").unwrap(), None, None).ok();
        let view = ScheduleView { next: Some(two()), ..schedule() };
        let plan = Some(Plan { view, timing, misfire: misfire.parse().ok(), left_by: Vec::new() });
        explain(&Facts { plan, at: Some(asked), nodes: Vec::new(), now: at(12, 90_000), ..noon() })
    };
    let why = open("DO_NOTHING", at(3, 0));
    assert_eq!((why.fate, &*why.reason), (Fate::WillBeSkipped, "misfire"));
    let said = "was missed, and will be skipped by the misfire handler (DO_NOTHING); no live node";
    assert!(why.sentence.contains(said), "{why:?}");
    assert_eq!(open("FIRE_ONCE", at(3, 0)).fate, Fate::WillBeSkipped);
    assert_eq!(
        (open("FIRE_ONCE", at(12, 0)).fate, open("FIRE_ALL", at(3, 0)).fate),
        (Fate::Waiting, Fate::Waiting)
    );
}

/// Only the cursor tells its next fire time.
#[test]
fn a_fixed_delay_waits_where_its_cursor_stands() {
    let delay = Trigger::fixed_delay(std::time::Duration::from_secs(90)).unwrap();
    let timing = Timing::new(delay, Some(0), None).ok();
    let view = ScheduleView { next: Some(two()), ..schedule() };
    let plan = Some(Plan { view, timing, misfire: Some(MisfirePolicy::FireOnce), left_by: Vec::new() });
    let facts = Facts { plan, ..noon() };
    assert_eq!(explain(&facts).fate, Fate::Waiting);
    assert_eq!(explain(&Facts { at: Some(at(3, 0)), ..facts }).reason, "no fire time");
}

/// A pause of its schedule holds what is planned alone.
#[test]
fn what_is_asked_for_by_hand_does_not_wait_for_the_schedules_pause() {
    let (state, paused_by) = ("paused".to_owned(), "ann".to_owned());
    let view = ScheduleView { state, paused_by, ..schedule() };
    let plan = noon().plan.map(|plan| Plan { view, ..plan });
    let by_hand = ExecutionView { origin: 5, cause: "by hand".to_owned(), ..planned("PENDING", "by hand") };
    let paused = Facts { plan, at: None, ..with(vec![by_hand]) };
    assert!(explain(&paused).sentence.contains("nothing that is known holds it"));
    assert_eq!(explain(&Facts { attempts: vec![pending()], ..paused }).reason, "paused");
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

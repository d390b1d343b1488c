use super::*;
use crate::domain::{Activity, Cause, ExecutionId, ScheduleState};

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
    waiting(
        Facts { nodes: Vec::new(), ..noon() },
        "no node",
        "no live node has a handler for job \"report\"; no node is known, and it waits for one",
    );
    let drained = Facts { nodes: vec![NodeView { state: Activity::Drained, ..node(NODE) }], ..noon() };
    waiting(drained, "no node", "no node that has a handler for it claims: node n1 is drained");
    let job_paused = JobView {
        state: Activity::Paused,
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
        under_way: vec![
            ExecutionView { id: ExecutionId(41), ..pending() },
            ExecutionView { id: ExecutionId(42), ..pending() },
        ],
        ..noon()
    };
    waiting(bounded, "full", "all 2 seats of job \"report\" are taken by 41 and 42");
    let lane = |name: &str, busy| LaneHealth {
        name: name.to_owned(),
        threads: 4,
        busy,
        queued: 9,
        ..LaneHealth::default()
    };
    let of = |lanes| NodeView { lanes, last_beat: Some(at(12, -2_000)), ..node(NODE) };
    let full = of(vec![lane("default", 4)]);
    waiting(
        Facts { nodes: vec![full], ..noon() },
        "full",
        "lanes of all its nodes are full: node n1 runs 4 of 4 and has 9 queued, 2.0 s ago",
    );
}

#[test]
fn seats_of_a_group_are_its_own() {
    let group = |name: &str| Some(name.to_owned());
    let of = |id, name| ExecutionView { id: ExecutionId(id), group: group(name), ..pending() };
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
fn what_came_due_and_was_not_claimed_waits() {
    let open = |facts: Facts| {
        let view = |plan: Plan| Plan { view: ScheduleView { next: Some(two()), ..plan.view }, ..plan };
        Facts { plan: facts.plan.map(view), ..facts }
    };
    let late = format!("{IT} has been due for 10 h, and nothing that is known holds it");
    says(&open(noon()), Fate::Waiting, "", &late);
    let quarantined = Some(at(1, 0));
    let (state, reason) = (ScheduleState::Error.into(), "bad cron".to_owned());
    let error = ScheduleView { state, reason, quarantined, ..schedule() };
    let broken = Facts { plan: noon().plan.map(|plan| Plan { view: error.clone(), ..plan }), ..noon() };
    says(
        &open(broken),
        Fate::Waiting,
        "quarantined",
        &format!("{IT} waits: its schedule is in error since 2026-11-29 01:00:00.000 UTC: bad cron"),
    );
    let of = |quarantined, asked| {
        let view = ScheduleView { next: Some(asked), quarantined, ..error.clone() };
        let plan = noon().plan.map(|plan| Plan { view, ..plan });
        explain(&Facts { plan, at: Some(asked), ..noon() })
    };
    let since = |quarantined| Because::Quarantined { error: "bad cron".to_owned(), since: quarantined };
    assert_eq!(of(quarantined, at(26, 0)).because, since(quarantined));
    let by_hand = of(None, two());
    assert_eq!(by_hand.because, since(None));
    assert!(by_hand.sentence.ends_with("in error: bad cron"), "{by_hand:?}");
    // Before a node has seen it.
    let plan = noon().plan.map(|plan| Plan { timing: None, ..plan });
    let unseen = explain(&Facts { plan, at: Some(at(3, 0)), ..noon() });
    assert_eq!((unseen.fate, &*unseen.reason), (Fate::NotDue, "quarantined"));
    assert!(unseen.sentence.ends_with("no node has put it into error yet"), "{unseen:?}");
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

/// No node has been declared dead yet, or there is none left that could.
#[test]
fn a_silent_cluster_says_since_when() {
    let quiet = |id: &str, heard| NodeView { last_beat: Some(heard), ..node(id) };
    let of = |nodes| explain(&Facts { nodes, ..with(vec![pending()]) });
    let why = of(vec![quiet("n1", at(11, 30_000)), quiet("n2", at(11, 31_000))]);
    let said = "no node that has a handler for job \"report\" has been heard of since 2026-11-29 11:00:31.000 \
                UTC, and it waits for one: node n1 (host-a, process 41) and node n2 (host-a, process 41)";
    assert_eq!((&*why.reason, why.sentence), ("no node", format!("{IT} waits: {said}")));
    let Because::NoNode { silent, idle, .. } = why.because else { panic!("{:?}", why.because) };
    let heard: Vec<_> = silent.iter().map(|it| (&*it.node, it.heard)).collect();
    assert_eq!(heard, [("n1", Some(at(11, 30_000))), ("n2", Some(at(11, 31_000)))]);
    assert!(idle.is_empty());
    // To the millisecond, and only if it says from when on.
    let last = at(12, -10_000);
    assert_eq!(of(vec![quiet("n1", last)]).reason, "retry");
    assert_eq!(of(vec![quiet("n1", last - TimeDelta::milliseconds(1))]).reason, "no node");
    assert_eq!(of(vec![NodeView { silent_after: None, ..quiet("n1", at(1, 0)) }]).reason, "retry");
    // One of which somebody hears is enough, if it claims.
    assert_eq!(of(vec![quiet("n1", at(1, 0)), node("n2")]).reason, "retry");
    let drained = NodeView { state: Activity::Drained, ..node("n2") };
    let both = of(vec![quiet("n1", at(11, 0)), drained]);
    assert!(both.sentence.ends_with("node n1 (host-a, process 41); node n2 is drained"), "{both:?}");
    let Because::NoNode { silent, idle, .. } = both.because else { panic!("{:?}", both.because) };
    assert_eq!((silent.len(), idle.len()), (1, 1));
    // An occurrence to come, and an execution that runs on a silent node, name the node as well.
    let tomorrow = Facts { at: Some(at(26, 0)), nodes: vec![quiet("n1", at(11, 0))], ..noon() };
    let sentence = explain(&tomorrow).sentence;
    assert!(sentence.contains("will run in 14 h, but no node that has a handler for job"), "{sentence}");
    let runs = ExecutionView { finished: None, ..ran("RUNNING", "") };
    let sentence = explain(&Facts { nodes: vec![quiet("n1", at(11, 0))], ..with(vec![runs]) }).sentence;
    assert!(
        sentence.ends_with(&format!("{ON}, which has not been heard of since 2026-11-29 11:00:00.000 UTC")),
        "{sentence}"
    );
}

/// A pause of its schedule holds what is planned alone.
#[test]
fn what_is_asked_for_by_hand_does_not_wait_for_the_schedules_pause() {
    let (state, paused_by) = (ScheduleState::Paused.into(), "ann".to_owned());
    let view = ScheduleView { state, paused_by, ..schedule() };
    let plan = noon().plan.map(|plan| Plan { view, ..plan });
    let by_hand = ExecutionView {
        origin: 5,
        cause: Cause::ByHand { actor: String::new(), reason: String::new() },
        ..planned("PENDING", "by hand")
    };
    let paused = Facts { plan, at: None, ..with(vec![by_hand]) };
    assert!(explain(&paused).sentence.contains("nothing that is known holds it"));
    assert_eq!(explain(&Facts { attempts: vec![pending()], ..paused }).reason, "paused");
}

/// Of what was enqueued in a lane that one alone counts.
#[test]
fn a_lane_in_which_it_was_enqueued_is_full_by_itself() {
    let lane =
        |name: &str, busy| LaneHealth { name: name.to_owned(), threads: 4, busy, ..LaneHealth::default() };
    let lanes = vec![lane("default", 0), lane("slow", 4)];
    let node = NodeView { lanes, last_beat: Some(at(12, -2_000)), ..node(NODE) };
    let of = |lane: Option<&str>| {
        let waits = ExecutionView { lane: lane.map(str::to_owned), ..pending() };
        explain(&Facts { nodes: vec![node.clone()], ..with(vec![waits]) })
    };
    let why = of(Some("slow"));
    let said = "lane \"slow\" is full on all its nodes: node n1 runs 4 of 4 and has 0 queued, 2.0 s ago";
    assert_eq!((&*why.reason, why.sentence), ("full", format!("{IT} waits: {said}")));
    assert_eq!((&*of(Some("default")).reason, &*of(None).reason), ("retry", "retry"));
}

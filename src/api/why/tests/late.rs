use super::*;
use crate::api::why::late::{Late, LateWait};
use crate::domain::{Activity, Cause, ExecutionId, ExecutionState};

/// One that was due at two, claimed and begun so many milliseconds later.
fn begun(claimed: i64, started: i64) -> ExecutionView {
    ExecutionView { claimed: Some(at(2, claimed)), started: Some(at(2, started)), ..ran("SUCCEEDED", "") }
}

fn late(facts: &Facts) -> Option<Late> {
    explain(facts).late
}

#[track_caller]
fn waited(facts: &Facts, by: u64, waits: Vec<LateWait>) {
    assert_eq!(late(facts), Some(Late { lateness: Duration::from_millis(by), waits }));
}

#[test]
fn a_late_begin_says_for_which_seat_it_waited() {
    let run = |text: &str| {
        let run = ExecutionView { waited_for: Some(text.to_owned()), ..begun(41_190, 41_200) };
        with(vec![ExecutionView { finished: Some(at(2, 42_200)), ..run }])
    };
    let said = |why: &str| format!("{IT} ran on {ON} (+41.2 s: {why}), and took 1.0 s");
    let lane = said("it waited 40.1 s for a seat of lane \"slow\"");
    says(&run("lane slow 40100"), Fate::Succeeded, "", &lane);
    // Of a due time before it was snoozed.
    waited(&run("lane slow 41201"), 41_200, Vec::new());
    waited(
        &run("lane slow 40100"),
        41_200,
        vec![LateWait::Lane { lane: "slow".to_owned(), span: Duration::from_millis(40_100) }],
    );
    says(&run("job 40100"), Fate::Succeeded, "", &said("it waited 40.1 s for a seat of its job"));
    let rate = said("it waited 3.0 s for the rate of its group");
    says(&run("group rate 3000"), Fate::Succeeded, "", &rate);
    // What nobody has recorded is not guessed.
    let unknown = format!("{IT} ran on {ON} (+41.2 s), and took 1.0 s");
    says(&run("?"), Fate::Succeeded, "", &unknown);
    waited(&run("?"), 41_200, Vec::new());
    let failed =
        ExecutionView { state: ExecutionState::Failed.into(), ..run("job 40100").attempts.remove(0) };
    assert_eq!(late(&with(vec![failed])).map(|late| late.waits.len()), Some(1));
}

#[test]
fn what_begins_within_a_second_is_not_late() {
    assert_eq!(late(&with(vec![begun(3, 999)])), None);
    assert_eq!(
        late(&with(vec![begun(999, 1_000)])),
        Some(Late { lateness: Duration::from_millis(1_000), waits: Vec::new() })
    );
    let made_up = ExecutionView { cause: Cause::Misfire, ..begun(90_000, 90_000) };
    assert_eq!(late(&with(vec![made_up])), None, "its reason says how late it was found");
}

#[test]
fn what_was_claimed_in_time_waited_in_its_nodes_queue() {
    let queued = with(vec![begun(3, 5_003)]);
    waited(&queued, 5_003, vec![LateWait::Queue { span: Duration::from_millis(5_000) }]);
    let said = explain(&queued).sentence;
    assert!(said.contains("(+5.0 s: it waited 5.0 s in its node's queue)"), "{said}");
    let both = ExecutionView { waited_for: Some("job 2000".to_owned()), ..begun(2_000, 4_000) };
    let waits = vec![
        LateWait::Bound { of: "job".to_owned(), span: Duration::from_millis(2_000) },
        LateWait::Queue { span: Duration::from_millis(2_000) },
    ];
    waited(&with(vec![both]), 4_000, waits);
}

#[test]
fn a_time_without_a_node_is_told_from_the_nodes_rows() {
    let run = begun(600_000, 600_001);
    let of = |nodes| Facts { nodes, ..with(vec![run.clone()]) };
    let lived = |id: &str, from: DateTime<Utc>, until: Option<DateTime<Utc>>| NodeView {
        started: Some(from),
        ended: until,
        end_reason: until.map_or_else(String::new, |_| "stopped".to_owned()),
        ..node(id)
    };
    let gap = |since, until| vec![LateWait::Node { since, until }];
    // It was due before any node, and between two of them.
    let (ended, joined) = (at(2, 60_000), at(2, 590_000));
    waited(&of(vec![lived(NODE, joined, None)]), 600_001, gap(two(), joined));
    let two_lives = || vec![lived("n0", at(0, 0), Some(ended)), lived(NODE, joined, None)];
    waited(&of(two_lives()), 600_001, gap(ended, joined));
    let said = "(+10 min: no node that claimed had a handler for it from 2026-11-29 02:01:00.000 UTC until \
                2026-11-29 02:09:50.000 UTC)";
    assert!(explain(&of(two_lives())).sentence.contains(said), "{}", explain(&of(two_lives())).sentence);
    // One that was killed lived until its last beat; one that is drained claims nothing.
    let mut killed = two_lives();
    killed[0] =
        NodeView { last_beat: Some(at(2, 30_000)), end_reason: "dead".to_owned(), ..killed[0].clone() };
    waited(&of(killed), 600_001, gap(at(2, 30_000), joined));
    let drained = NodeView { state: Activity::Drained, paused: Some(ended), ..lived("n0", at(0, 0), None) };
    waited(&of(vec![drained, lived(NODE, joined, None)]), 600_001, gap(ended, joined));
    // A third was there all the time, or of another job.
    let third = lived("n2", at(0, 0), None);
    let mut all = two_lives();
    all.push(third.clone());
    waited(&of(all), 600_001, Vec::new());
    let mut others = two_lives();
    others.push(NodeView { jobs: vec!["other".to_owned()], ..third });
    waited(&of(others), 600_001, gap(ended, joined));
}

#[test]
fn a_pause_that_ended_before_the_claim_is_told() {
    let of_job = |verb: &str, at| AuditView { target: "report".to_owned(), ..change(verb, "job", at, "") };
    let run = |origin| ExecutionView { origin, ..begun(600_000, 600_001) };
    let changes = vec![of_job("resume", at(2, 500_000)), of_job("pause", at(1, 0))];
    let paused = Facts { changes, ..with(vec![run(0)]) };
    let wait = LateWait::PauseEnd {
        target_type: "job".to_owned(),
        target: "report".to_owned(),
        actor: "ann".to_owned(),
        until: at(2, 500_000),
    };
    waited(&paused, 600_001, vec![wait]);
    assert!(explain(&paused).sentence.contains("job \"report\" was paused by ann until 2026-11-29 02:08:20"));
    let before = Facts { changes: vec![of_job("resume", two()), of_job("pause", at(1, 0))], ..paused };
    waited(&before, 600_001, Vec::new());
    // Its schedule's pause does not hold what was asked for by hand.
    let of_schedule = |verb: &str, at| change(verb, "schedule", at, "");
    let changes = vec![of_schedule("resume", at(2, 500_000)), of_schedule("pause", at(1, 0))];
    waited(&Facts { changes, at: None, ..with(vec![run(7)]) }, 600_001, Vec::new());
}

#[test]
fn what_had_to_wait_for_another_of_its_schedule_names_that() {
    let run = ExecutionView { holder: Some(ExecutionId(6)), ..begun(3_000, 3_000) };
    waited(&with(vec![run]), 3_000, vec![LateWait::Holder { holder: ExecutionId(6) }]);
}

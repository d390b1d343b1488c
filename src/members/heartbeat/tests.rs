//! Tests of leases, to the millisecond, and of the machine with prepared answers.

use super::*;
use crate::domain::{ErrorKind, ExecutionId, ExecutionState, JobPolicy, ScheduleId, Timestamp, Token};
use crate::fixtures::{NoLanes, calls_while_down, new_node};
use crate::machine::{Operation, Stepped};
use crate::store::Stranded;

fn peer(beat: i64) -> Peer {
    Peer { id: NodeId::fresh(), beat, jobs: Vec::new(), blocked: Vec::new() }
}

/// Neither while it beats nor while it tries to join again.
#[test]
fn no_hot_loop_while_the_database_is_down() {
    let now = Now { db: Timestamp::at(1_000_000), boot: Boot::at(1_000_000), apart: 0 };
    for (kind, registered) in [
        (ErrorKind::Unavailable, true),
        (ErrorKind::Unknown, true),
        (ErrorKind::Refused, true),
        (ErrorKind::Unknown, false),
    ] {
        let mut machine = machine(now);
        if !registered {
            machine.rebirth();
        }
        let calls = calls_while_down(&mut machine.machine, now.db, kind, || None);
        assert!((20..=70).contains(&calls), "{calls} calls in a minute");
    }
}

fn machine(now: Now) -> Stepped<HeartbeatMachine<NoLanes>> {
    node(Window::default(), now)
}

fn node(window: Window, now: Now) -> Stepped<HeartbeatMachine<NoLanes>> {
    node_with(window, now, LaneReport::default)
}

fn node_with<F: Fn() -> LaneReport + Send + 'static>(
    window: Window,
    now: Now,
    lanes: F,
) -> Stepped<HeartbeatMachine<F>> {
    let node = new_node(NodeId::fresh(), "app", Vec::new(), now.db);
    Stepped::new(HeartbeatMachine::new(node, window, Arc::default(), Arc::default(), lanes, now))
}

#[test]
fn a_node_that_stops_claiming_says_so_at_once() {
    let now = Now { db: Timestamp::at(1_000_000), boot: Boot::at(1_000_000), apart: 0 };
    let mut machine = machine(now);
    assert!(matches!(machine.next(now), Step::Wait(_)));
    machine.receive(now, HeartbeatInput::Withdraw);
    let mut now = now;
    for _ in 0..2 {
        let Step::Do(Op::Beat(beat)) = machine.next(now) else { panic!("it has something to say") };
        assert!(beat.withdraw && beat.tells);
        machine.done(now, Err(Error::new(ErrorKind::Unavailable, "down")));
        assert!(matches!(machine.next(now), Step::Tell(_)));
        now.boot = machine.hold;
    }
}

/// What a heartbeat that was sent before shows may have been claimed since.
#[test]
fn a_node_has_drained_once_a_later_heartbeat_shows_that_it_owns_nothing() {
    let mut now = Now { db: Timestamp::at(1_000_000), boot: Boot::at(1_000_000), apart: 0 };
    let mut machine = machine(now);
    let (token, held) = (Token::fresh(), Arc::clone(&machine.own_tokens));
    held.add(token);
    let mut beat = |machine: &mut Stepped<HeartbeatMachine<NoLanes>>, meanwhile: Option<HeartbeatInput>| {
        now.boot += machine.window.beat;
        let said = loop {
            match machine.next(now) {
                Step::Do(Op::Beat(beat)) => break beat.drained,
                Step::Tell(_) => {}
                _ => panic!("a heartbeat is due"),
            }
        };
        meanwhile.into_iter().for_each(|input| machine.receive(now, input));
        now.boot += 10;
        let pulse = HeartbeatReply::Alive { peers: Vec::new(), owned: Vec::new() };
        machine.done(now, Ok(Answer::Beat((pulse, None))));
        said
    };
    assert!(!beat(&mut machine, Some(HeartbeatInput::Drain(true))));
    assert!(!beat(&mut machine, None), "the last was sent before it was told to");
    held.remove(token);
    assert!(!beat(&mut machine, Some(HeartbeatInput::Drain(true))), "it answered for a claim");
    assert!(beat(&mut machine, None));
    assert!(beat(&mut machine, Some(HeartbeatInput::Drain(false))), "until it is told otherwise");
    assert!(!beat(&mut machine, Some(HeartbeatInput::Drain(true))), "it begins anew");
    assert!(!beat(&mut machine, None));
    assert!(beat(&mut machine, None));
}

#[test]
fn revocations_that_are_refused_do_not_pile_up() {
    let mut now = Now { db: Timestamp::at(1_000_000), boot: Boot::at(1_000_000), apart: 0 };
    let mut machine = machine(now);
    let policy = crate::api::Job::<()>::new("job").spec().settings.policy;
    let stranded = |n| Stranded {
        id: ExecutionId(n),
        schedule: ScheduleId(n),
        name: "nightly".into(),
        job: "report".into(),
        state: ExecutionState::Running,
        token: Token::fresh(),
        attempt: 1,
        failures: 0,
        deaths: 0,
        is_cancelled: false,
        delay: None,
        policy,
    };
    let owned: Vec<Stranded> = (0..100).map(stranded).collect();
    let mut heartbeats = 0;
    let until = now.boot + 600_000;
    while now.boot < until {
        match machine.next(now) {
            Step::Do(Op::Beat(_)) => {
                heartbeats += 1;
                let pulse = HeartbeatReply::Alive { peers: Vec::new(), owned: owned.clone() };
                machine.done(now, Ok(Answer::Beat((pulse, None))));
            }
            Step::Do(_) => machine.done(now, Err(Error::new(ErrorKind::Refused, "disk full"))),
            Step::Tell(_) => {}
            Step::Wait(at) => now.boot = at,
            Step::Stop => panic!("stopped"),
        }
    }
    assert!(machine.todo.len() <= owned.len(), "{} tasks for {} executions", machine.todo.len(), owned.len());
    assert!(heartbeats <= 121, "{heartbeats} heartbeats in ten minutes");
}

#[test]
fn who_lives_is_told_with_every_confirmed_heartbeat() {
    let now = Now { db: Timestamp::at(1_000_000), boot: Boot::at(1_000_000), apart: 0 };
    let mut machine = machine(now);
    let other = Peer { jobs: vec!["work".to_owned()], ..peer(7) };
    machine.replied(HeartbeatReply::Alive { peers: vec![other.clone()], owned: Vec::new() }, now, now);
    let members = machine.outbox.iter().find_map(|output| match output {
        HeartbeatOutput::Members(members) => Some(members.clone()),
        _ => None,
    });
    assert_eq!(members, Some(vec![Member { id: other.id, jobs: other.jobs, blocked: Vec::new() }]));
}

/// The tests' machine begins here on both clocks.
const BEGIN: Millis = 1_000_000;

fn at(after: Millis) -> Now {
    Now { db: Timestamp::at(2 * BEGIN + after), boot: Boot::at(BEGIN + after), apart: 0 }
}

/// A node whose first heartbeat was confirmed at the beginning.
fn beating(window: Window) -> Stepped<HeartbeatMachine<NoLanes>> {
    node(window, at(0))
}

type Next = Step<Op, HeartbeatOutput>;

#[test]
fn a_promotion_between_two_heartbeats_is_told_once() {
    let mut machine = beating(Window::default());
    let copies = [1, 1, 2, 2].map(|timeline| Some(Lineage::new(7, timeline)));
    let told = copies.into_iter().enumerate().map(|(n, lineage)| {
        let after = 5_000 * (n + 1) as Millis;
        assert!(matches!(machine.next(at(after)), Step::Do(Op::Beat(_))));
        machine.done(at(after), Ok(Answer::Beat((alive(Vec::new()), lineage))));
        let (seen, _) = all(&mut machine, after);
        seen.iter()
            .filter(|step| {
                matches!(step, Step::Tell(HeartbeatOutput::Event(Event::DatabasePromoted { was, is }))
                    if (was.timeline, is.timeline) == (1, 2))
            })
            .count()
    });
    assert_eq!(told.collect::<Vec<_>>(), [0, 0, 1, 0]);
}

/// Goes to the next heartbeat and answers it `after` the beginning.
fn beat<F: Fn() -> LaneReport + Send + 'static>(
    machine: &mut Stepped<HeartbeatMachine<F>>,
    after: Millis,
    pulse: HeartbeatReply,
) {
    assert!(matches!(machine.next(at(after)), Step::Do(Op::Beat(_))), "no heartbeat after {after} ms");
    machine.done(at(after), Ok(Answer::Beat((pulse, None))));
}

fn alive(peers: Vec<Peer>) -> HeartbeatReply {
    HeartbeatReply::Alive { peers, owned: Vec::new() }
}

/// What comes until the machine waits, and until when (after the beginning) it does.
fn all<F: Fn() -> LaneReport + Send + 'static>(
    machine: &mut Stepped<HeartbeatMachine<F>>,
    after: Millis,
) -> (Vec<Next>, Millis) {
    let mut seen = Vec::new();
    loop {
        assert!(seen.len() < 100, "it never rests");
        match machine.next(at(after)) {
            Step::Wait(until) => return (seen, until - Boot::at(BEGIN)),
            Step::Do(op) => {
                let answer = match &op {
                    Op::Register(_) => Answer::Register(()),
                    Op::Beat(_) => Answer::Beat((alive(Vec::new()), None)),
                    Op::DeclareDead(_) => Answer::DeclareDead(Applied::Done),
                    Op::Revoke(_) => Answer::Revoke(()),
                    Op::SawCancels(_) => Answer::SawCancels(()),
                    Op::Retract(..) => Answer::Retract(()),
                    Op::Leave(..) => Answer::Leave(()),
                };
                seen.push(Step::Do(op));
                machine.done(at(after), Ok(answer));
            }
            step => {
                let stopped = matches!(step, Step::Stop);
                seen.push(step);
                if stopped {
                    return (seen, Millis::MAX);
                }
            }
        }
    }
}

#[test]
fn a_lease_is_counted_from_the_heartbeats_sending() {
    let mut machine = beating(Window::default());
    assert!(matches!(machine.next(at(4_999)), Step::Wait(until) if until == Boot::at(BEGIN + 5_000)));
    assert!(matches!(machine.next(at(5_000)), Step::Do(Op::Beat(_))));
    machine.done(at(7_500), Ok(Answer::Beat((alive(Vec::new()), None))));
    let (seen, until) = all(&mut machine, 7_500);
    let [Step::Tell(HeartbeatOutput::Lease(lease)), Step::Tell(HeartbeatOutput::Members(_))] = &seen[..]
    else {
        panic!("{} steps", seen.len())
    };
    assert_eq!((*lease, until), (Lease { until: Boot::at(BEGIN + 5_000 + 21_000), apart: 0 }, 10_000));
}

/// Paused after it was sent: the answer says nothing of now.
#[test]
fn a_heartbeat_sent_before_a_pause_of_the_machine_gives_no_lease() {
    let mut machine = beating(Window::default());
    assert!(matches!(machine.next(at(5_000)), Step::Do(Op::Beat(_))));
    let paused = Now { apart: 20_000, ..at(5_010) };
    machine.done(paused, Ok(Answer::Beat((alive(Vec::new()), None))));
    let Step::Tell(HeartbeatOutput::Lease(lease)) = machine.next(paused) else { panic!("no lease") };
    assert!(lease.is_doubtful(paused));
    machine.receive(paused, HeartbeatInput::Beat);
    assert!(matches!(all(&mut machine, 5_010).0[1], Step::Do(Op::Beat(_))), "it asks again at once");
}

/// Beats keep their own rhythm.
#[test]
fn a_late_heartbeat_does_not_pull_the_next_closer() {
    let mut machine = beating(Window::default());
    beat(&mut machine, 9_000, alive(Vec::new()));
    assert_eq!(all(&mut machine, 9_000).1, 14_000);
}

#[test]
fn a_node_declares_others_dead_and_never_itself() {
    let mut machine = beating(Window::default());
    let (own, other) = (Peer { id: machine.node.id, ..peer(1) }, peer(1));
    let mut declared = Vec::new();
    for n in 1..=6 {
        beat(&mut machine, 5_000 * n, alive(vec![own.clone(), other.clone()]));
        declared.extend(all(&mut machine, 5_000 * n).0.into_iter().filter_map(|step| match step {
            Step::Do(Op::DeclareDead(end)) => Some((n, end)),
            Step::Tell(HeartbeatOutput::Event(Event::NodeDied { node })) => {
                assert_eq!(node, other.id);
                None
            }
            _ => None,
        }));
    }
    let end = NodeEnd { node: other.id, beat: Some(other.beat), now: at(30_000).db };
    assert_eq!(declared, [(6, end)]);
}

fn owned(id: i64) -> Stranded {
    Stranded {
        id: ExecutionId(id),
        schedule: ScheduleId(1),
        name: "nightly".into(),
        job: "report".into(),
        state: ExecutionState::Claimed,
        token: Token::fresh(),
        attempt: 1,
        failures: 0,
        deaths: 0,
        is_cancelled: false,
        delay: None,
        policy: JobPolicy::DEFAULT,
    }
}

/// What the node gives up until it waits.
fn given_up<F: Fn() -> LaneReport + Send + 'static>(
    machine: &mut Stepped<HeartbeatMachine<F>>,
    after: Millis,
) -> Vec<(ExecutionId, ExecutionState)> {
    let revoked = |step| match step {
        Step::Do(Op::Revoke(change)) => Some((change.execution, change.becomes())),
        _ => None,
    };
    all(machine, after).0.into_iter().filter_map(revoked).collect()
}

#[test]
fn what_a_node_owns_and_does_not_hold_is_given_up() {
    let mut machine = beating(Window::default());
    let (held, orphan) = (owned(1), owned(2));
    machine.own_tokens.add(held.token);
    beat(&mut machine, 5_000, HeartbeatReply::Alive { peers: Vec::new(), owned: vec![held, orphan] });
    assert_eq!(given_up(&mut machine, 5_000), [(ExecutionId(2), ExecutionState::Pending)]);
}

/// The database looked before the outcome was stored, the node when it heard of it: a busy one gave up
/// hundreds in vain.
#[test]
fn what_ended_while_the_database_was_asked_is_not_given_up() {
    let mut machine = beating(Window::default());
    let (ending, brief, orphan) = (owned(1), owned(2), owned(3));
    machine.own_tokens.add(ending.token);
    assert!(matches!(machine.next(at(5_000)), Step::Do(Op::Beat(_))));
    machine.own_tokens.remove(ending.token);
    machine.own_tokens.add(brief.token);
    machine.own_tokens.remove(brief.token);
    let answer = HeartbeatReply::Alive { peers: Vec::new(), owned: vec![ending.clone(), brief, orphan] };
    machine.done(at(5_010), Ok(Answer::Beat((answer, None))));
    assert_eq!(given_up(&mut machine, 5_010), [(ExecutionId(3), ExecutionState::Pending)]);

    beat(&mut machine, 10_000, HeartbeatReply::Alive { peers: Vec::new(), owned: vec![ending] });
    let still_there = [(ExecutionId(1), ExecutionState::Pending)];
    assert_eq!(given_up(&mut machine, 10_000), still_there, "it was let go before it was asked for");
}

#[test]
fn a_node_that_was_ended_holds_nothing_and_joins_under_a_new_name() {
    let mut machine = beating(Window::default());
    let (was, token) = (machine.node.id, Token::fresh());
    let held = Arc::clone(&machine.own_tokens);
    held.add(token);
    beat(&mut machine, 5_000, HeartbeatReply::Ended);
    assert!(!held.contains(token));
    assert_eq!(machine.standing.node(), was);
    let will_be = was.next_incarnation();
    let (seen, until) = all(&mut machine, 5_000);
    let [
        Step::Tell(HeartbeatOutput::Lease(Lease::NONE)),
        Step::Tell(HeartbeatOutput::Event(Event::Fenced { old, new })),
        Step::Do(Op::Register(node)),
        Step::Tell(HeartbeatOutput::Reborn(reborn)),
        Step::Tell(HeartbeatOutput::Event(Event::Joined { node: joined })),
        Step::Do(Op::Beat(first)),
        Step::Tell(HeartbeatOutput::Lease(_)),
        Step::Tell(HeartbeatOutput::Members(_)),
    ] = &seen[..]
    else {
        panic!("{} steps", seen.len())
    };
    assert_eq!((*old, [*new, node.id, *reborn, *joined, first.node]), (was, [will_be; 5]));
    assert_eq!(machine.standing.node(), will_be);
    assert_eq!((node.application.as_str(), until), ("app", 10_000));
}

/// Told once, and again only if it is asked for anew.
/// However long heartbeats take: otherwise nobody would be declared dead meanwhile.
#[test]
fn requests_to_cancel_come_behind_the_tasks_of_an_answer() {
    let mut machine = beating(Window::default());
    let Step::Do(Op::Beat(_)) = machine.next(at(5_000)) else { panic!("a heartbeat is due") };
    machine.receive(at(5_100), HeartbeatInput::CancelAsked);
    let reply = HeartbeatReply::Alive { peers: Vec::new(), owned: vec![owned(1)] };
    machine.done(at(5_500), Ok(Answer::Beat((reply, None))));
    let asked = |step: Next| if let Step::Do(op) = step { Some(op.name()) } else { None };
    let asks: Vec<&str> = all(&mut machine, 5_500).0.into_iter().filter_map(asked).collect();
    assert_eq!(asks, ["settling an execution nobody holds", "heartbeat"]);
    machine.receive(at(5_510), HeartbeatInput::CancelAsked);
    assert_eq!(all(&mut machine, 5_510).1, 5_500 + NEWS_EVERY, "and keep their distance");
}

/// The others are known at once, and a rivalry that goes on costs a heartbeat in a second.
#[test]
fn contested_claims_bring_a_heartbeat_forward() {
    let mut machine = beating(Window::default());
    machine.receive(at(100), HeartbeatInput::Contested);
    assert!(matches!(machine.next(at(100)), Step::Do(Op::Beat(_))));
    let reply = HeartbeatReply::Alive { peers: Vec::new(), owned: Vec::new() };
    machine.done(at(101), Ok(Answer::Beat((reply, None))));
    machine.receive(at(1_099), HeartbeatInput::Contested);
    assert_eq!(all(&mut machine, 1_099).1, 5_100, "the next one");
    machine.receive(at(1_100), HeartbeatInput::Contested);
    assert!(matches!(machine.next(at(1_100)), Step::Do(Op::Beat(_))));
}

/// At once, but for hand-backs that follow each other.
#[test]
fn what_is_handed_back_is_told_until_a_heartbeat_is_confirmed() {
    let mut machine = beating(Window::default());
    let tells = |machine: &mut Stepped<HeartbeatMachine<NoLanes>>, after, is_confirmed: bool| {
        let Step::Do(Op::Beat(beat)) = machine.next(at(after)) else { panic!("a heartbeat is due") };
        let failure = || Error::new(ErrorKind::Unavailable, "down");
        machine.done(
            at(after),
            is_confirmed.then(|| Answer::Beat((alive(Vec::new()), None))).ok_or_else(failure),
        );
        while let Step::Tell(_) = machine.next(at(after)) {}
        beat.tells
    };
    machine.receive(at(3_000), HeartbeatInput::HandedBack);
    assert!(tells(&mut machine, 3_000, false));
    assert!(tells(&mut machine, 4_000, true), "the first may have told nobody");
    machine.receive(at(4_100), HeartbeatInput::HandedBack);
    assert_eq!(all(&mut machine, 4_100).1, 5_000);
    assert!(tells(&mut machine, 5_000, true));
    assert!(!tells(&mut machine, 10_000, true), "they have heard of it");
}

/// A node without handlers that run stops within milliseconds.
#[test]
fn a_node_tells_of_what_it_handed_back_before_it_leaves() {
    for (is_confirmed, hands_back) in [(true, true), (false, true), (true, false)] {
        let mut machine = beating(Window::default());
        machine.receive(at(1_000), HeartbeatInput::Withdraw);
        beat(&mut machine, 1_000, alive(Vec::new()));
        all(&mut machine, 1_000);
        if hands_back {
            machine.receive(at(1_010), HeartbeatInput::HandedBack);
        }
        machine.receive(at(1_020), HeartbeatInput::Stop { leave: true });
        let mut after = 1_020;
        if hands_back {
            let Step::Do(Op::Beat(told)) = machine.next(at(after)) else { panic!("it has told nobody") };
            assert!(told.tells && told.withdraw);
            let failure = Error::new(ErrorKind::Unavailable, "down");
            let answer =
                if is_confirmed { Ok(Answer::Beat((alive(Vec::new()), None))) } else { Err(failure) };
            machine.done(at(after), answer);
            after = 2_020;
        }
        let mut steps = std::iter::from_fn(|| Some(machine.next(at(after))));
        let next = steps.find(|step| !matches!(step, Step::Tell(_)));
        assert!(matches!(next, Some(Step::Do(Op::Leave(..)))), "it tries once");
    }
}

/// Its row shows in each answer, so that whatever wrote it last does not stay.
#[test]
fn the_jobs_of_a_blocked_lane_are_told_until_the_answer_shows_them() {
    let lanes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let shown = Arc::clone(&lanes);
    let lanes_of = move || LaneReport { lanes: Vec::new(), blocked: shown.lock().unwrap().clone() };
    let mut machine = node_with(Window::default(), at(0), lanes_of);
    let own = Peer { id: machine.node.id, ..peer(1) };
    let mut beats = |after, input: Option<HeartbeatInput>, shows: Option<&[&str]>| {
        input.into_iter().for_each(|input| machine.receive(at(after), input));
        let Step::Do(Op::Beat(beat)) = machine.next(at(after)) else { panic!("a heartbeat is due") };
        let answer = shows.map(|blocked| {
            let blocked = blocked.iter().map(|job| (*job).to_owned()).collect();
            Answer::Beat((alive(vec![Peer { blocked, ..own.clone() }]), None))
        });
        machine.done(at(after), answer.ok_or_else(|| Error::new(ErrorKind::Unknown, "no answer")));
        while let Step::Tell(_) = machine.next(at(after)) {}
        (beat.tells, beat.blocked)
    };
    let job = || vec!["job".to_owned()];
    let changed = || Some(HeartbeatInput::LaneChanged);
    assert_eq!(beats(5_000, None, Some(&[])), (false, Vec::new()));
    *lanes.lock().unwrap() = job();
    assert_eq!(beats(6_000, changed(), None), (true, job()), "at once");
    assert_eq!(beats(7_000, None, Some(&["job"])), (true, job()), "as nobody knows whether it was told");
    assert_eq!(beats(12_000, None, Some(&["job"])), (false, job()));
    lanes.lock().unwrap().clear();
    assert_eq!(beats(12_500, changed(), Some(&[])), (true, Vec::new()));
    assert_eq!(beats(17_500, None, Some(&["job"])), (false, Vec::new()));
    assert_eq!(beats(22_500, None, Some(&[])), (true, Vec::new()), "a beat that was late has written it");
    assert_eq!(beats(27_500, None, Some(&[])), (false, Vec::new()));
}

#[test]
fn a_node_that_tells_brings_the_heartbeats_of_others_forward() {
    let mut machine = beating(Window::default());
    machine.receive(at(50), HeartbeatInput::MemberTold);
    assert_eq!(all(&mut machine, 50).1, 100);
    assert!(matches!(machine.next(at(100)), Step::Do(Op::Beat(beat)) if !beat.tells));
}

#[test]
fn a_cancel_is_noted_as_seen_when_it_is_heard_of() {
    let mut machine = beating(Window::default());
    let (asked, beside) = (Stranded { is_cancelled: true, ..owned(1) }, owned(2));
    [asked.token, beside.token].into_iter().for_each(|token| machine.own_tokens.add(token));
    let standing = Arc::clone(&machine.standing);
    let seen = |machine: &mut Stepped<HeartbeatMachine<NoLanes>>, at, owned| {
        beat(machine, at, HeartbeatReply::Alive { peers: Vec::new(), owned });
        let steps = all(machine, at).0;
        let seen = steps.into_iter().filter_map(|step| match step {
            Step::Do(Op::SawCancels(ids)) => Some(ids),
            _ => None,
        });
        seen.collect::<Vec<_>>()
    };
    assert_eq!(seen(&mut machine, 5_000, vec![asked.clone(), beside.clone()]), [[ExecutionId(1)]]);
    let tokens = [asked.token, beside.token];
    let is_cancelled = |n: usize| standing.is_cancelled(ExecutionId(n as i64), tokens[n - 1]);
    assert!(is_cancelled(1) && !is_cancelled(2));
    assert!(seen(&mut machine, 10_000, vec![asked, beside.clone()]).is_empty());
    assert!(seen(&mut machine, 15_000, vec![beside]).is_empty());
    assert!(!is_cancelled(1));
}

/// A heartbeat at once, whose answer is a new list of what to do.
#[test]
fn a_cancel_is_noted_as_heard_although_another_heartbeat_comes_first() {
    let mut machine = beating(Window::default());
    let asked = Stranded { is_cancelled: true, ..owned(1) };
    machine.own_tokens.add(asked.token);
    let op = |machine: &mut Stepped<HeartbeatMachine<NoLanes>>| loop {
        match machine.next(at(5_000)) {
            Step::Do(op) => return op,
            Step::Tell(_) => {}
            Step::Wait(_) | Step::Stop => panic!("there is something to do"),
        }
    };
    for _ in 0..2 {
        machine.receive(at(5_000), HeartbeatInput::Beat);
        assert!(matches!(op(&mut machine), Op::Beat(_)));
        let reply = HeartbeatReply::Alive { peers: Vec::new(), owned: vec![asked.clone()] };
        machine.done(at(5_000), Ok(Answer::Beat((reply, None))));
    }
    assert!(matches!(op(&mut machine), Op::SawCancels(ids) if ids == [ExecutionId(1)]));
    machine.done(at(5_000), Ok(Answer::SawCancels(())));
    assert!(all(&mut machine, 5_000).0.iter().all(|step| !matches!(step, Step::Do(_))), "once");
}

/// Others work on the new file by now, and would not hear that it leaves.
#[test]
fn a_node_whose_database_was_replaced_holds_no_lease_and_ends() {
    let mut machine = beating(Window::default());
    beat(&mut machine, 5_000, HeartbeatReply::DatabaseReplaced("jobs.db".to_owned()));
    let now = Now { db: Timestamp::at(5_000), boot: Boot::at(5_000), apart: 0 };
    assert!(matches!(machine.next(now), Step::Tell(HeartbeatOutput::Lease(Lease::NONE))));
    assert!(
        matches!(machine.next(now), Step::Tell(HeartbeatOutput::DatabaseReplaced(path)) if path == "jobs.db")
    );
    assert!(matches!(machine.next(now), Step::Stop));
}

/// Its row may be there although the answer was lost, and would keep home shards until it is declared dead.
#[test]
fn a_registration_in_doubt_is_ended_before_the_next() {
    let mut machine = beating(Window::default());
    beat(&mut machine, 5_000, HeartbeatReply::Ended);
    let mut asked = |after, answer: Result<Answer, Error>| loop {
        match machine.next(at(after)) {
            Step::Do(op) => {
                machine.done(at(after), answer);
                break match op {
                    Op::Register(node) => ("joins", node.id),
                    Op::Retract(id, _) => ("leaves", id),
                    other => panic!("{}", other.name()),
                };
            }
            Step::Tell(_) => {}
            _ => panic!("it rests after {after} ms"),
        }
    };
    let lost = || Err(Error::new(ErrorKind::Unknown, "cut"));
    let (_, first) = asked(5_000, lost());
    assert_eq!(asked(6_000, lost()), ("leaves", first));
    assert_eq!(asked(7_000, Ok(Answer::Retract(()))), ("leaves", first));
    let second = first.next_incarnation();
    assert_eq!(asked(7_000, lost()), ("joins", second));
    machine.receive(at(8_000), HeartbeatInput::Stop { leave: true });
    let seen = all(&mut machine, 8_000).0;
    assert!(seen.iter().any(|step| matches!(step, Step::Do(Op::Leave(id, _)) if *id == second)));
    assert!(matches!(seen.last(), Some(Step::Stop)));
}

#[test]
fn a_failed_heartbeat_is_repeated_soon() {
    for (beat, pause) in [(5_000, 1_000), (2_000, 400)] {
        let mut machine = beating(Window { beat, ..Window::default() });
        assert!(matches!(machine.next(at(beat)), Step::Do(Op::Beat(_))));
        machine.done(at(beat), Err(Error::new(ErrorKind::Unavailable, "down")));
        let (seen, until) = all(&mut machine, beat);
        assert!(matches!(seen[..], [Step::Tell(HeartbeatOutput::Event(Event::StoreFailed { .. }))]));
        assert_eq!(until, beat + pause);
        assert!(matches!(machine.next(at(until)), Step::Do(Op::Beat(_))));
    }
}

#[test]
fn a_node_that_stops_leaves_if_nothing_of_it_runs_any_more() {
    for leave in [true, false] {
        let mut machine = beating(Window::default());
        machine.receive(at(0), HeartbeatInput::Stop { leave });
        let seen = all(&mut machine, 0).0;
        let left = match &seen[..] {
            [Step::Do(Op::Leave(id, _)), Step::Tell(HeartbeatOutput::Left), Step::Stop] => {
                *id == machine.node.id
            }
            _ => false,
        };
        let silent = matches!(seen[..], [Step::Stop]);
        assert_eq!((left, silent), (leave, !leave));
    }
    let mut machine = beating(Window::default());
    machine.receive(at(0), HeartbeatInput::Stop { leave: true });
    assert!(matches!(machine.next(at(0)), Step::Do(Op::Leave(..))));
    machine.done(at(0), Err(Error::new(ErrorKind::Unavailable, "down")));
    let Step::Tell(HeartbeatOutput::Event(Event::LeaveFailed { .. })) = machine.next(at(0)) else {
        panic!("it says that it has left");
    };
    assert!(matches!(machine.next(at(0)), Step::Stop));
}

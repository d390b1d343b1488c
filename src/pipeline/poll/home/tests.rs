use super::*;
use crate::fixtures::simple;
use crate::pipeline::poll::calls::Answer;
use crate::pipeline::poll::tests::{
    answer, asked, at, beside_another, machine, planned, shards, until_asked,
};
use crate::pipeline::poll::timetable::FIRST_EXTRA_PAUSE;
use crate::pipeline::poll::{PollInput, PollOutput};

fn me() -> NodeId {
    NodeId(uuid::Uuid::nil())
}

#[test]
fn what_this_process_changed_is_asked_for_whatever_its_shard_until_its_owner_has_polled() {
    let mut machine = beside_another(Timestamp::at(1_000_000));
    for n in 0..=CHANGED {
        machine.receive(at(Timestamp::at(1_000_000)), PollInput::Changed(format!("schedule-{n}")));
    }
    machine.receive(at(Timestamp::at(1_000_000)), PollInput::Changed("schedule-7".to_owned()));
    let (mut now, query) = asked(&mut machine, Timestamp::at(1_000_000));
    assert_eq!((now, query.names.len()), (Timestamp::at(1_000_000), CHANGED));
    assert_eq!(query.names.last().map(String::as_str), Some("schedule-7"));
    assert!(!query.names.contains(&"schedule-0".to_owned()), "the oldest is left to its owner");
    let mut until = now;
    while !query.names.is_empty() {
        machine.done(at(now), Ok(Answer::Page(answer(now, Vec::new()))));
        let query;
        (now, query) = asked(&mut machine, now);
        if query.names.is_empty() {
            break;
        }
        until = now;
    }
    assert!((1_005_000..1_010_000).contains(&until.millis()), "until {until}");
}

/// Its owner may be dead.
#[test]
fn a_late_occurrence_of_another_nodes_schedule_is_planned_though_its_slot_became_free_here() {
    const NOW: Timestamp = Timestamp::at(1_000_000);
    for (due, is_planned) in [(NOW + 500, false), (NOW - 2_000, false), (NOW - 2_001, true)] {
        let mut machine = beside_another(NOW);
        let mut names = (0..).map(|n| format!("schedule-{n}"));
        let name = names.find(|name| !machine.home.is_home(name)).unwrap();
        machine.receive(at(NOW), PollInput::Freed(name.as_str().into()));
        let (now, query) = asked(&mut machine, NOW);
        assert_eq!((now, &query.names), (NOW, &vec![name.clone()]));
        let entry = Entry { name: name.into(), ..simple(1, due, 1_000, 0, None) };
        machine.done(at(now), Ok(Answer::Page(answer(now, vec![entry]))));
        let (_, told) = until_asked(&mut machine, now);
        assert_eq!(planned(told).occurrences.len(), usize::from(is_planned), "due {} ms ago", NOW - due);
    }
}

#[test]
fn a_node_that_leaves_or_a_new_name_brings_a_poll_and_other_shards() {
    let mut machine = beside_another(Timestamp::at(1_000_000));
    let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    machine.done(at(now), Ok(Answer::Page(answer(now, Vec::new()))));
    let members = machine.home.members.clone();
    machine.receive(at(now), PollInput::Members(members));
    assert!(!machine.timetable.wanted, "nothing has changed");
    machine.receive(
        at(now),
        PollInput::Members(vec![Member { id: me(), jobs: Vec::new(), blocked: Vec::new() }]),
    );
    let (again, query) = asked(&mut machine, now);
    assert_eq!((again, shards(&query).len()), (now + FIRST_EXTRA_PAUSE, 16));
    machine.receive(at(now), PollInput::Reborn(NodeId(uuid::Uuid::from_u128(2))));
    assert_eq!(machine.home.members, [], "one's old name is no other node");
}

/// A poll that was sent before brings executions that another node plans by now.
#[test]
fn new_shares_are_told_at_once_and_behind_a_poll_for_the_old_ones() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    let other =
        Member { id: NodeId(uuid::Uuid::from_u128(2)), jobs: vec!["job".to_owned()], blocked: Vec::new() };
    machine.receive(at(now), PollInput::Members(vec![other]));
    machine.done(at(now), Ok(Answer::Page(answer(now, Vec::new()))));
    let (_, told) = until_asked(&mut machine, now);
    let steps: Vec<&str> = told
        .iter()
        .filter_map(|it| match it {
            PollOutput::Home(shares) => Some(if is_whole(shares) { "all" } else { "some" }),
            PollOutput::Planned(_) => Some("planned"),
            _ => None,
        })
        .collect();
    assert_eq!(steps, ["some", "planned", "some"]);
}

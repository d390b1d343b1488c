use super::*;

#[test]
fn a_terminal_execution_never_changes() {
    for from in ExecutionState::ALL.iter().filter(|state| state.is_terminal()) {
        assert!(ExecutionState::ALL.iter().all(|to| !from.can_become(*to)), "{from:?}");
    }
}

/// The diagram's arrows.
#[test]
fn an_execution_changes_along_the_arrows_alone() {
    use ExecutionState::*;
    let arrows = [
        (Pending, [Claimed, Running, Skipped, Cancelled].as_slice()),
        (Claimed, &[Pending, Running]),
        (Running, &[Pending, Succeeded, Failed, TimedOut, Cancelled, Abandoned]),
    ];
    for (from, targets) in arrows {
        for to in ExecutionState::ALL {
            assert_eq!(from.can_become(*to), targets.contains(to), "{from:?} -> {to:?}");
        }
        assert!(!from.is_terminal());
    }
}

#[test]
fn people_read_active_where_the_database_says_executing() {
    for state in ScheduleState::ALL {
        let shown = if *state == ScheduleState::Active { "ACTIVE" } else { state.as_str() };
        assert_eq!(state.label().to_uppercase(), shown);
    }
}

#[test]
fn an_id_is_shown_as_its_row_holds_it() {
    assert_eq!((ScheduleId(7).get(), ExecutionId(8).get()), (7, 8));
    assert_eq!(format!("{} {}", ScheduleId(7), ExecutionId(8)), "7 8");
    let text = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let node: NodeId = text.parse().unwrap();
    assert_eq!((node.to_string().as_str(), Token(node.0).to_string().as_str()), (text, text));
    assert_eq!(node.next_incarnation().to_string(), text.replace("0c8", "0c9"));
}

#[test]
fn the_last_try_is_not_followed_by_another() {
    let policy = |tries, delay| JobPolicy {
        recover: true,
        max_attempts: 1,
        max_tries: tries,
        retry_delay: Duration::from_millis(delay),
    };
    let due = [1, 2, 3, 4].map(|attempt| policy(3, 70).retry_at(attempt, 1_000));
    assert_eq!(due, [Some(1_070), Some(1_070), None, None]);
    assert_eq!(policy(2, u64::MAX).retry_at(1, 1_000), Some(Millis::MAX));
}

#[test]
fn every_state_reads_back_from_its_text() {
    for state in ExecutionState::ALL {
        assert_eq!(state.as_str().parse(), Ok(*state));
    }
    assert!("RUNING".parse::<ExecutionState>().is_err());
}

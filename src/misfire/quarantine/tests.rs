//! The walk in search of unreadable rows.

use super::*;
use crate::domain::{Cursor, Entry, Error, ErrorKind, MisfirePolicy, NextFire};
use crate::fixtures::behind;
use crate::machine::{Operation, Step, Stepped};
use crate::misfire::MisfireMachine;
use crate::misfire::calls::{Answer, Op};
use crate::misfire::tests::{NOW, TODAY, at, keeping, nothing_found, polled, run};
use crate::store::Applied;
use crate::store::{CursorAhead, SeenSchedule, UnreadablePage, UnreadableRow};

/// However many rows there are, a pass walks over a step of them; once at the end, it begins anew.
#[test]
fn the_search_for_broken_rows_goes_on_where_the_last_pass_left_it() {
    let mut machine = keeping(None);
    let mut begun_after = Vec::new();
    for next in [Some(ScheduleId(7)), Some(ScheduleId(9)), None, None] {
        machine.receive(at(0), polled());
        run(&mut machine, at(0), |op| {
            let Op::FindUnreadable(query) = op else { return Ok(nothing_found(&op)) };
            begun_after.push(query.after);
            Ok(Answer::FindUnreadable(UnreadablePage {
                broken: Vec::new(),
                ahead: Vec::new(),
                expecting: Vec::new(),
                next,
            }))
        });
    }
    assert_eq!(begun_after, [FIRST, ScheduleId(7), ScheduleId(9), FIRST]);
}

/// What a pass found and could not finish is looked for by the next, not by the next walk.
#[test]
fn a_step_whose_rows_were_not_all_quarantined_is_walked_again() {
    let seen = |id| SeenSchedule { id: ScheduleId(id), version: 0, state: String::new(), next: None };
    let broken = |id| UnreadableRow { seen: seen(id), name: "broken".into(), reason: String::new() };
    for goes_well in [true, false] {
        let (mut machine, mut begun_after) = (keeping(None), Vec::new());
        for round in 0..3 {
            let now = at(15_000 * round);
            machine.receive(now, polled());
            run(&mut machine, now, |op| match op {
                Op::FindUnreadable(query) => {
                    begun_after.push(query.after.0);
                    let next = Some(ScheduleId(query.after.0.max(0) + 10));
                    let broken = vec![broken(1), broken(2)];
                    Ok(Answer::FindUnreadable(UnreadablePage {
                        broken,
                        ahead: Vec::new(),
                        expecting: Vec::new(),
                        next,
                    }))
                }
                Op::Quarantine(_) if goes_well => Ok(Answer::Quarantine(Applied::Lost)),
                Op::Quarantine(_) => Err(Error::new(ErrorKind::Unknown, "away")),
                op => Ok(nothing_found(&op)),
            });
        }
        let walked_on = if goes_well { [i64::MIN, 10, 20] } else { [i64::MIN; 3] };
        assert_eq!(begun_after, walked_on);
    }
}

/// A pass at this many milliseconds of the boot clock; from which instant it looks for cursors ahead.
fn looks_ahead_of(machine: &mut Stepped<MisfireMachine>, boot: Millis, db: Timestamp) -> Option<Timestamp> {
    let (now, mut ahead) = (Now { db, boot: Boot::at(boot), apart: 0 }, None);
    machine.receive(now, polled());
    run(machine, now, |op| {
        if let Op::FindUnreadable(query) = &op {
            ahead = query.ahead;
        }
        Ok(nothing_found(&op))
    });
    ahead
}

#[test]
fn a_clock_is_believed_once_it_has_run_steadily() {
    let mut machine = keeping(None);
    let mut ahead = |boot, db| looks_ahead_of(&mut machine, boot, db);
    assert_eq!(ahead(0, TODAY), None);
    assert_eq!(ahead(STEADY - 1, TODAY + STEADY - 1), None);
    assert_eq!(
        ahead(STEADY, TODAY + STEADY + OFFSET_JUMP),
        Some(TODAY + STEADY + OFFSET_JUMP + CURSOR_AHEAD)
    );
    // Slewed that much every time, but never stepped.
    assert!(ahead(STEADY + 1, TODAY + STEADY + 2 * OFFSET_JUMP).is_some());
    for (begun, step) in [(400_000, 24 * 3_600_000), (800_000, 0)] {
        assert_eq!(ahead(begun, TODAY + begun + step), None, "it has stepped");
        assert_eq!(ahead(begun + STEADY - 1, TODAY + begun + step + STEADY - 1), None);
        assert!(ahead(begun + STEADY, TODAY + begun + step + STEADY).is_some());
    }
}

/// All schedules may be ahead alike.
#[test]
fn a_pass_finds_all_pages_of_cursors_ahead() {
    let (mut machine, mut pages, mut written) = (keeping(None), 3, 0);
    machine.quarantine.clock.is_trusted = true;
    machine.receive(at(0), polled());
    run(&mut machine, at(0), |op| {
        Ok(match op {
            Op::FindUnreadable(_) => {
                pages -= 1;
                let cursor = Cursor { prev: Some(NOW + 100_000), next: NextFire::At(NOW + 101_000) };
                let entry = Entry { cursor, ..behind(MisfirePolicy::FireOnce, 1_000) };
                let ahead = vec![CursorAhead { entry, seen: NOW }; 10];
                let next = (pages > 0).then_some(ScheduleId(9));
                Answer::FindUnreadable(UnreadablePage {
                    broken: Vec::new(),
                    ahead,
                    expecting: Vec::new(),
                    next,
                })
            }
            Op::Repair(changes) => {
                written += changes.len();
                Answer::Repair(vec![Applied::Done; changes.len()])
            }
            op => nothing_found(&op),
        })
    });
    assert_eq!((pages, written), (0, 30));
}

/// The database's clock steps back between the search and the writing: all cursors look ahead then.
#[test]
fn a_clock_that_steps_in_a_pass_is_believed_no_more() {
    let cursor = Cursor { prev: Some(NOW + 100_000), next: NextFire::At(NOW + 101_000) };
    let entry = Entry { cursor, ..behind(MisfirePolicy::FireOnce, 1_000) };
    // When the clock steps: not at all, as the election is answered, or as the search is.
    for steps_at in [None, Some("electing the misfire handler"), Some("looking for broken rows")] {
        let (mut machine, mut written) = (keeping(None), 0);
        let mut now = Now { db: NOW - STEADY, boot: Boot::at(0), apart: 0 };
        machine.receive(now, polled());
        run(&mut machine, now, |op| Ok(nothing_found(&op)));
        now = Now { db: NOW, boot: Boot::at(STEADY), apart: 0 };
        machine.receive(now, polled());
        loop {
            let op = match machine.next(now) {
                Step::Do(op) => op,
                Step::Tell(_) => continue,
                Step::Wait(_) | Step::Stop => break,
            };
            if steps_at == Some(op.name()) {
                now.db = now.db - 24 * 3_600_000;
            }
            let answer = match op {
                Op::FindUnreadable(query) => {
                    let ahead = vec![CursorAhead { entry: entry.clone(), seen: NOW }];
                    let ahead = if query.ahead.is_some() { ahead } else { Vec::new() };
                    Answer::FindUnreadable(UnreadablePage {
                        broken: Vec::new(),
                        ahead,
                        expecting: Vec::new(),
                        next: None,
                    })
                }
                Op::Repair(changes) => {
                    written += changes.len();
                    Answer::Repair(vec![Applied::Done; changes.len()])
                }
                op => nothing_found(&op),
            };
            machine.done(now, Ok(answer));
        }
        assert_eq!(written, usize::from(steps_at.is_none()), "{steps_at:?}");
    }
}

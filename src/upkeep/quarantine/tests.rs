//! The walk in search of unreadable rows.

use super::*;
use crate::domain::{Error, ErrorKind};
use crate::machine::Machine;
use crate::store::Applied;
use crate::store::UnreadableRow;
use crate::upkeep::MisfireAnswer;
use crate::upkeep::tests::{at, keeping, nothing_found, polled, run};

/// However many rows there are, a pass walks over a step of them; once at the end, it begins anew.
#[test]
fn the_search_for_broken_rows_goes_on_where_the_last_pass_left_it() {
    let mut machine = keeping(None);
    let mut begun_after = Vec::new();
    for next in [Some(ScheduleId(7)), Some(ScheduleId(9)), None, None] {
        machine.receive(at(0), polled());
        run(&mut machine, at(0), |op| {
            let MisfireOp::FindUnreadable(query) = op else { return Ok(nothing_found(&op)) };
            begun_after.push(query.after);
            Ok(MisfireAnswer::Unreadable(UnreadablePage { broken: Vec::new(), next }))
        });
    }
    assert_eq!(begun_after, [FIRST, ScheduleId(7), ScheduleId(9), FIRST]);
}

/// What a pass found and could not finish is looked for by the next, not by the next walk.
#[test]
fn a_step_whose_rows_were_not_all_quarantined_is_walked_again() {
    let broken = |id| UnreadableRow {
        id: ScheduleId(id),
        name: "broken".into(),
        version: 0,
        state: String::new(),
        reason: String::new(),
    };
    for goes_well in [true, false] {
        let (mut machine, mut begun_after) = (keeping(None), Vec::new());
        for round in 0..3 {
            let now = at(15_000 * round);
            machine.receive(now, polled());
            run(&mut machine, now, |op| match op {
                MisfireOp::FindUnreadable(query) => {
                    begun_after.push(query.after.0);
                    let next = Some(ScheduleId(query.after.0.max(0) + 10));
                    Ok(MisfireAnswer::Unreadable(UnreadablePage { broken: vec![broken(1), broken(2)], next }))
                }
                MisfireOp::Quarantine(row) if goes_well => Ok(MisfireAnswer::Quarantined(row, Applied::Lost)),
                MisfireOp::Quarantine(_) => Err(Error::new(ErrorKind::Unknown, "away")),
                op => Ok(nothing_found(&op)),
            });
        }
        let walked_on = if goes_well { [i64::MIN, 10, 20] } else { [i64::MIN; 3] };
        assert_eq!(begun_after, walked_on);
    }
}

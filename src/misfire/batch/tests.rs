//! The size of batches, and those that fail.

use super::*;
use crate::domain::{Entry, Error, ErrorKind, MOST_PASSED, MisfirePolicy, ScheduleId};
use crate::fixtures::{behind, cron};
use crate::misfire::calls::{Answer, Op};
use crate::misfire::tests::{NOW, at, batch, in_a_pass, overdue_rows, repaired, repairs, run};
use crate::store::{Applied, OverduePage, Repair};

/// One transaction for each schedule, and so much time for each pass: hours of catching up after an outage.
#[test]
fn catching_up_goes_on_batch_by_batch_until_all_is_done() {
    let mut machine = in_a_pass(None);
    machine.found_overdue(overdue_rows(1..=3_000), at(0));
    let (mut batches, mut schedules, mut boot) = (0, 0, 0);
    loop {
        let batch = batch(&mut machine, at(boot));
        if batch.is_empty() {
            break;
        }
        (batches, schedules, boot) = (batches + 1, schedules + batch.len(), boot + 100);
        repaired(&mut machine, &batch, at(boot));
    }
    assert_eq!(schedules, 3_000);
    assert!(batches <= 6, "{batches} transactions");
}

#[test]
fn a_batch_that_is_slow_is_followed_by_a_smaller_one_and_a_quick_one_by_a_larger() {
    let mut machine = in_a_pass(None);
    machine.found_overdue(overdue_rows(1..=3_000), at(0));
    let mut sizes = Vec::new();
    let mut boot = 0;
    for took in [SLOW + 1, SLOW + 1, SLOW, QUICK, QUICK - 1, QUICK - 1, 0] {
        let batch = batch(&mut machine, at(boot));
        boot += took;
        sizes.push(batch.len());
        repaired(&mut machine, &batch, at(boot));
    }
    let change = |pair: &[usize]| (10 * pair[1] + pair[0] / 2) / pair[0];
    assert_eq!(sizes.windows(2).map(change).collect::<Vec<_>>(), [5, 5, 10, 10, 20, 20], "tenths: {sizes:?}");
}

/// "Fire all" makes up to a thousand executions of each schedule: a batch is bounded by its rows.
#[test]
fn a_batch_is_bounded_by_the_rows_it_writes() {
    let mut machine = in_a_pass(None);
    let row = |id| Entry { id: ScheduleId(id), ..behind(MisfirePolicy::FireAll, 100) };
    let entries = (1..=20).map(row).collect();
    machine.found_overdue(OverduePage { entries, ..overdue_rows([]) }, at(0));
    run(&mut machine, at(0), |op| {
        let Op::Repair(changes) = op else { panic!("no repair") };
        let repairs = repairs(changes);
        let rows: usize = repairs.iter().map(Repair::writes).sum();
        assert!(rows <= MOST_ROWS || repairs.len() == 1, "{rows} rows");
        Ok(Answer::Repair(vec![Applied::Lost; repairs.len()]))
    });
    assert!(machine.pass.is_empty());
}

/// Crons of each second, a day behind: to search their occurrences takes far longer than to write the
/// repairs.
#[test]
fn a_batch_is_bounded_by_the_occurrences_it_searches() {
    let mut machine = in_a_pass(None);
    let a_day_later = Now { db: NOW + 86_400_000, ..at(0) };
    let entries = (1..=10).map(|id| cron(id, "* * * * * ?", NOW)).collect();
    machine.found_overdue(OverduePage { entries, ..overdue_rows([]) }, a_day_later);
    let mut repaired = 0;
    run(&mut machine, a_day_later, |op| {
        let Op::Repair(changes) = op else { panic!("no repair") };
        let repairs = repairs(changes);
        let passed: u64 = repairs.iter().map(|repair| repair.passed).sum();
        assert!(passed < 2 * MOST_PASSED, "{passed} occurrences");
        repaired += repairs.len();
        Ok(Answer::Repair(vec![Applied::Lost; repairs.len()]))
    });
    assert_eq!(repaired, 10);
}

#[test]
fn one_row_that_is_refused_is_found_by_halves_and_keeps_no_other_from_repair() {
    for kind in [ErrorKind::Data, ErrorKind::Refused, ErrorKind::Unavailable, ErrorKind::Unknown] {
        let mut machine = in_a_pass(None);
        machine.found_overdue(overdue_rows(1..=100), at(0));
        let (mut boot, mut done, mut calls) = (0, Vec::new(), 0);
        loop {
            let batch = batch(&mut machine, at(boot));
            if batch.is_empty() {
                if machine.pass.is_empty() {
                    break;
                }
                boot = machine.hold.millis();
                continue;
            }
            calls += 1;
            if batch.contains(&42) {
                machine.done(at(boot - NOW.millis()), Err(Error::new(kind, "refused")));
            } else {
                repaired(&mut machine, &batch, at(boot - NOW.millis()));
                done.extend(batch);
            }
        }
        let others: Vec<i64> = (1..=100).filter(|id| *id != 42).collect();
        assert_eq!(done, others, "{kind:?}");
        assert!(calls < 40, "{kind:?}: {calls} transactions");
    }
}

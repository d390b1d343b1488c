//! A batch of planned claims on PostgreSQL: one statement, which is its own transaction.

use super::notes::NOTE;
use crate::store::sql::claim::planned::{
    Found, PlannedRequest, WAITED, by_first_column, claimable, have_slots, insert_of, moves, planned_want,
    slot_is_free,
};
use crate::store::sql::dialect::{Dialect, assigned};
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::BatchRows;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Statement, sql};
use crate::time::SKIP_RETRY;

/// Claims the rows, and waits a moment for each that is held. PostgreSQL's messages may be localised, so any
/// refusal may mean that the wait was over: the next try skips held rows.
pub(crate) fn waiting(session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
    let won =
        session.rows(&claim_waiting(&planned_want(planned), have_slots(planned))).map_err(
            |fault| match fault.kind {
                FaultKind::Refused => Fault { kind: FaultKind::Busy, ..fault },
                _ => fault,
            },
        );
    by_first_column(won?)
}

/// Claims the rows that nobody holds.
pub(super) fn skipping(session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
    by_first_column(session.rows(&claim_skipping(&planned_want(planned), have_slots(planned)))?)
}

/// PostgreSQL's claim, a transaction of its own, with which the setting ends. Each row that somebody holds is
/// waited for, but not for long; to lock all rows before they are changed would cost a sixth of the
/// statement.
pub(crate) fn claim_waiting(want: &BatchRows, has_slots: bool) -> Statement {
    sql(format!(
        "WITH patience AS (SELECT set_config('lock_timeout', '{SKIP_RETRY}', true)), \
         moved AS (UPDATE QRTZ_EXECUTE AS e SET {} FROM patience, ",
        assigned("", &moves(Dialect::Postgres, has_slots))
    ))
    .want(Dialect::Postgres, want)
    .push(&guarded_and_inserted(want, has_slots))
}

/// PostgreSQL's claim of what nobody holds. The UPDATE repeats the guard: a row may have changed between the
/// statement's snapshot and its lock.
pub(crate) fn claim_skipping(want: &BatchRows, has_slots: bool) -> Statement {
    let free = Dialect::Postgres.lock_free("e");
    sql("WITH locked AS (SELECT w.* FROM ").want(Dialect::Postgres, want).push(&format!(
        " JOIN QRTZ_EXECUTE e ON {}{free}), moved AS (UPDATE QRTZ_EXECUTE AS e SET {} FROM locked AS w{}",
        claimable(Dialect::Postgres),
        assigned("", &moves(Dialect::Postgres, has_slots)),
        guarded_and_inserted(want, has_slots)
    ))
}

/// The end of PostgreSQL's claim, behind what its UPDATE is from.
fn guarded_and_inserted(want: &BatchRows, has_slots: bool) -> String {
    let waited = if want.has(WAITED) { ", w.waited" } else { "" };
    let free = if has_slots { format!(" AND {}", slot_is_free(Dialect::Postgres)) } else { String::new() };
    format!(
        " WHERE {}{free} RETURNING e.application, e.id, e.generation, w.next_fire_time, w.token, e.fence, \
         w.node, w.claimed, w.started, w.prev_fire_time, w.following{waited}), \
         won AS ({} moved AS w RETURNING execute_id, id, fence, application, node), \
         noted AS ({} MIN(id), MAX(id), application, node FROM won GROUP BY application, node) \
         SELECT execute_id, id, fence FROM won",
        claimable(Dialect::Postgres),
        insert_of("w", want),
        NOTE
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::session::statement::Row;

    /// Refuses whatever it is asked.
    struct Refusing(FaultKind);

    impl Session for Refusing {
        fn dialect(&self) -> Dialect {
            Dialect::Postgres
        }

        fn rows(&mut self, _: &Statement) -> Step<Vec<Row>> {
            Err(Fault::new(self.0, "nein"))
        }

        fn execute(&mut self, _: &Statement) -> Step<usize> {
            unreachable!("a claim is a question")
        }

        fn each(&mut self, _: &Statement, _: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
            unreachable!("a claim's rows come together")
        }

        fn batch(&mut self, _: &str) -> Step<()> {
            unreachable!("a claim is a question")
        }
    }

    /// Only what changed nothing and may be about a lock is tried again: otherwise a claim would be made
    /// twice, or a row that can never be claimed would be asked for again and again.
    #[test]
    fn a_refusal_that_may_be_about_a_lock_is_one() {
        use FaultKind::{Busy, Conflict, Duplicate, Lost, ReadOnly, Refused, Undecodable, Unknown};
        for kind in [Busy, Refused, ReadOnly, Conflict, Duplicate, Lost, FaultKind::Row, Undecodable, Unknown]
        {
            let fault = waiting(&mut Refusing(kind), &[]).unwrap_err();
            assert_eq!(fault.kind, if kind == Refused { Busy } else { kind });
        }
    }
}

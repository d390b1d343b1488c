//! Executions whose schedule's row somebody deleted.
//!
//! They lie in the gaps between the ids of schedules. A gap costs a seek in the index of QRTZ_RUN, and where
//! ids follow each other there is none.

use super::purge;
use crate::domain::{ScheduleId, Timestamp};
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, sql};
use crate::store::sql::session::{Session, now};
use crate::store::sql::verbs::said;
use crate::store::{OrphanWalk, PurgedOrphans};

/// How many schedules a step passes.
const PAGE: usize = 512;
/// How many gaps one statement looks into: always as many, for its text is prepared.
const GAPS: usize = 64;

pub(crate) fn purge(session: &mut dyn Session, walk: &OrphanWalk) -> Step<PurgedOrphans> {
    let before = now(session)?.saturating_sub(walk.keep);
    let page =
        sql("SELECT id FROM QRTZ_EXECUTE WHERE id > ? ORDER BY id LIMIT ?").bind(walk.after.0).bind(PAGE);
    let ids: Vec<i64> = session.all(&page, Row::int)?;
    let last = if ids.len() < PAGE { None } else { ids.last().copied().map(ScheduleId) };
    let Some(orphan) = first_between(session, walk.after.0, &ids, last.is_none())? else {
        return Ok(PurgedOrphans { executions: 0, next: last });
    };
    let executions = remove(session, walk, orphan, before)?;
    said::forget(session, &walk.application, before, 2 * walk.limit)?;
    let done = if executions < walk.limit { orphan } else { orphan.saturating_sub(1) };
    Ok(PurgedOrphans { executions, next: Some(ScheduleId(done)) })
}

/// The first schedule's id after `after` that executions have and no row of these ids; behind the last of
/// them only if that is the table's end.
fn first_between(session: &mut dyn Session, after: i64, ids: &[i64], to_end: bool) -> Step<Option<i64>> {
    let ends = ids.iter().copied().chain(to_end.then_some(i64::MAX));
    let begins = std::iter::once(after).chain(ids.iter().copied());
    let gaps: Vec<(i64, i64)> =
        begins.zip(ends).filter(|(begin, end)| end.saturating_sub(*begin) > 1).collect();
    for gaps in gaps.chunks(GAPS) {
        let none = std::iter::repeat((0, 0));
        let seek = |question: Statement, (begin, end): (i64, i64)| {
            let union = if question.text.is_empty() { "" } else { " UNION ALL " };
            question
                .push(&format!(
                    "{union}SELECT (SELECT execute_id FROM QRTZ_RUN WHERE execute_id > ? AND execute_id < ? \
                     ORDER BY execute_id LIMIT 1) AS orphan"
                ))
                .bind_all((begin, end))
        };
        let question = gaps.iter().copied().chain(none).take(GAPS).fold(sql(""), seek);
        let orphans: Vec<Option<i64>> = session.all(&question, Row::maybe_int)?;
        if let Some(orphan) = orphans.into_iter().flatten().next() {
            return Ok(Some(orphan));
        }
    }
    Ok(None)
}

/// Removes the executions of a schedule without a row that are old enough; how many.
fn remove(session: &mut dyn Session, walk: &OrphanWalk, orphan: i64, before: Timestamp) -> Step<usize> {
    let old = |statement: Statement| {
        statement
            .push(
                " AND (state = 'PENDING' AND due_time < ? OR state NOT IN ('PENDING', 'CLAIMED', 'RUNNING') \
                 AND finished_time >= 0 AND finished_time < ?)",
            )
            .bind_all((before, before))
    };
    let question = sql("SELECT id FROM QRTZ_RUN WHERE execute_id = ? AND application = ?");
    let question =
        old(question.bind(orphan).bind(walk.application.as_str())).push(" LIMIT ?").bind(walk.limit);
    let ids: Vec<i64> = session.all(&question, Row::int)?;
    purge::remove(session, &ids, |_, ids| {
        let delete = sql("DELETE FROM QRTZ_RUN WHERE NOT EXISTS \
                          (SELECT 1 FROM QRTZ_EXECUTE e WHERE e.id = QRTZ_RUN.execute_id)");
        old(delete).push(" AND id IN ").list(ids.to_vec())
    })
}

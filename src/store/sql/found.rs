//! The executions that claims have won, as statements find them.

use super::batch::Want;
use super::fault::{Fault, Step};
use super::session::Session;
use super::statement::{Row, sql};

use rustc_hash::FxHashMap;

/// By a key, an execution with its fence.
pub(super) type Found = FxHashMap<i64, (i64, i64)>;

/// What `find` finds for each batch of `rows`, of a size that one statement takes.
pub(super) fn in_batches<R>(
    session: &mut dyn Session,
    rows: &[R],
    find: impl Fn(&mut dyn Session, &[R]) -> Step<Found>,
) -> Step<Found> {
    let mut found = Found::default();
    for rows in rows.chunks(session.dialect().batch()) {
        found.extend(find(session, rows)?);
    }
    Ok(found)
}

/// Reads rows of three numbers: a key, an execution, its fence.
pub(super) fn by_first_column(rows: Vec<Row>) -> Step<Found> {
    let no_fence = |_| Fault::undecodable("the schedule's fence is no number or can grow no more".to_owned());
    rows.into_iter().map(|mut row| Ok((row.int()?, (row.int()?, row.int().map_err(no_fence)?)))).collect()
}

/// The executions that carry the wanted tokens: by the column `by`, their ids and fences.
pub(super) fn mine(session: &mut dyn Session, want: &Want, by: &str, condition: &str) -> Step<Found> {
    let dialect = session.dialect();
    let question =
        sql(format!("SELECT {by}, r.id AS execution, r.fence FROM ")).want(dialect, want).push(&format!(
            " {} QRTZ_RUN r ON {condition} AND r.claim_token = w.token AND r.state IN ('CLAIMED', 'RUNNING')",
            dialect.join()
        ));
    by_first_column(session.rows(&question)?)
}

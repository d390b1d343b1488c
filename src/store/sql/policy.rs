//! Jobs' policies as statements read them.

use super::fault::Step;
use super::statement::Row;
use crate::domain::{Bounds, JobPolicy};
use crate::store::columns::JobColumn;

/// The policy of a job `alias`, as [`policy`] reads it; its row may be missing.
pub(super) fn policy_columns(alias: &str) -> String {
    let read = |column: JobColumn| {
        let (name, otherwise) = (column.name(), column.value(&JobPolicy::NO_JOB));
        format!("COALESCE({alias}.{name}, {otherwise}) AS {name}")
    };
    JobColumn::ALL.map(read).join(", ")
}

/// Reads those columns.
pub(super) fn policy(row: &mut Row) -> Step<JobPolicy> {
    let mut policy = JobPolicy::DEFAULT;
    for column in JobColumn::ALL {
        column.set(&mut policy, row.loose_int()?);
    }
    Ok(policy)
}

/// The bounds of a job `alias`, as [`bounds`] reads them: in one column that is NULL for most, as each row of
/// a poll brings it.
pub(super) fn bounds_columns(alias: &str) -> String {
    let columns: Vec<String> =
        JobColumn::bounds().map(|column| format!("{alias}.{}", column.name())).collect();
    let (any, all) = (columns.join(" <> 0 OR "), columns.join(", "));
    format!("CASE WHEN {any} <> 0 THEN CONCAT_WS(',', {all}) END AS bounds")
}

/// Reads that column.
pub(super) fn bounds(row: &mut Row) -> Step<Bounds> {
    let mut policy = JobPolicy::DEFAULT;
    if let Some(text) = row.maybe_text()? {
        for (column, value) in JobColumn::bounds().zip(text.split(',')) {
            column.set(&mut policy, value.parse().unwrap_or(0));
        }
    }
    Ok(policy.bounds)
}

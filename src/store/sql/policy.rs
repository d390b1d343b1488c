//! Jobs' policies as statements read them.

use super::fault::Step;
use super::statement::Row;
use crate::domain::{Bounds, JobPolicy};
use crate::store::columns::{BOUNDS, Column, POLICY, policy_value, set_bounds, set_policy};

/// The policy of a job `alias`, as [`policy`] reads it; its row may be missing.
pub(super) fn policy_columns(alias: &str) -> String {
    let read = |column: Column| {
        let (name, otherwise) = (column.name(), policy_value(&JobPolicy::NO_JOB, column));
        format!("COALESCE({alias}.{name}, {otherwise}) AS {name}")
    };
    POLICY.map(read).join(", ")
}

/// Reads those columns.
pub(super) fn policy(row: &mut Row) -> Step<JobPolicy> {
    let mut policy = JobPolicy::DEFAULT;
    for column in POLICY {
        set_policy(&mut policy, column, row.loose_int()?);
    }
    Ok(policy)
}

/// The bounds of a job `alias`, as [`bounds`] reads them: in one column that is NULL for most, as each row of
/// a poll brings it.
pub(super) fn bounds_columns(alias: &str) -> String {
    let columns = BOUNDS.map(|column| format!("{alias}.{}", column.name()));
    let (any, all) = (columns.join(" <> 0 OR "), columns.join(", "));
    format!("CASE WHEN {any} <> 0 THEN CONCAT_WS(',', {all}) END AS bounds")
}

/// Reads that column.
pub(super) fn bounds(row: &mut Row) -> Step<Bounds> {
    let mut bounds = Bounds::NONE;
    if let Some(text) = row.maybe_text()? {
        for (column, value) in BOUNDS.into_iter().zip(text.split(',')) {
            set_bounds(&mut bounds, column, value.parse().unwrap_or(0));
        }
    }
    Ok(bounds)
}

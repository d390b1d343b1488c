//! Jobs' policies as statements read them.

use super::fault::Step;
use super::statement::Row;
use crate::domain::JobPolicy;
use crate::store::columns::{Column, POLICY, policy_value, set_policy};

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

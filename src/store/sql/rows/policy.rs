//! Jobs' settings as statements read them.

use crate::domain::{Bounds, JobPolicy, JobSettings};
use crate::store::columns::{Datum, JobColumn};
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::Row;

/// These columns of a job `alias`, as [`settings`] reads them; of a policy also if the job's row is missing.
pub(crate) fn settings_columns(alias: &str, columns: impl IntoIterator<Item = JobColumn>) -> String {
    let missing = JobSettings::from(JobPolicy::NO_JOB);
    let read = |column: JobColumn| match (column.name(), column.value(&missing)) {
        (name, Datum::Number(otherwise)) => format!("COALESCE({alias}.{name}, {otherwise}) AS {name}"),
        (name, _) => format!("{alias}.{name}"),
    };
    columns.into_iter().map(read).collect::<Vec<_>>().join(", ")
}

/// Reads these columns; the others are as by default.
pub(crate) fn settings(row: &mut Row, columns: impl IntoIterator<Item = JobColumn>) -> Step<JobSettings> {
    let mut settings = JobSettings::from(JobPolicy::DEFAULT);
    for column in columns {
        column.set(&mut settings, (&row.next()?).into());
    }
    Ok(settings)
}

/// The bounds of a job `alias`, as [`bounds`] reads them: in one column that is NULL for most, as each row of
/// a poll brings it.
pub(crate) fn bounds_columns(alias: &str) -> String {
    let columns: Vec<String> =
        JobColumn::bounds().map(|column| format!("{alias}.{}", column.name())).collect();
    let (any, all) = (columns.join(" <> 0 OR "), columns.join(", "));
    format!("CASE WHEN {any} <> 0 THEN CONCAT_WS(',', {all}) END AS bounds")
}

/// Reads that column.
pub(crate) fn bounds(row: &mut Row) -> Step<Bounds> {
    let mut settings = JobSettings::from(JobPolicy::DEFAULT);
    if let Some(text) = row.maybe_text()? {
        for (column, value) in JobColumn::bounds().zip(text.split(',')) {
            column.set(&mut settings, Datum::Number(value.parse().unwrap_or(0)));
        }
    }
    Ok(settings.policy.bounds)
}

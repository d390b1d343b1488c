//! The counts of outcomes, written where outcomes are stored.

use crate::store::ExecutionChange;
use crate::store::outcomes::{NewOutcomes, OutcomeCounts, count};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::BatchRows;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Statement, sql};

/// Counts what these changes, which this transaction has made, have ended.
pub(crate) fn note(session: &mut dyn Session, done: &[&ExecutionChange]) -> Step<()> {
    for some in count(done).chunks(session.dialect().batch()) {
        session.execute(&insert(session.dialect(), some))?;
    }
    Ok(())
}

/// The application and the node are those of the first execution, whose row this transaction has changed. A
/// figure for people must not keep an outcome from being stored: one that is there already is left.
pub(crate) fn insert(dialect: Dialect, outcomes: &[NewOutcomes]) -> Statement {
    let want = BatchRows::new(outcomes.iter().map(|it| it.first.0))
        .texts("job", outcomes.iter().map(|it| it.job.to_string()))
        .times("from_time", outcomes.iter().map(|it| it.hour));
    let want = with_counts(want, &outcomes.iter().map(|it| it.counts).collect::<Vec<_>>());
    let (columns, counts) = (columns(""), columns("w."));
    let insert = format!(
        "INSERT INTO QRTZ_OUTCOME_NEW (application, first_run, from_time, job, node, {columns}) \
         SELECT r.application, w.id, w.from_time, w.job, r.node, {counts} FROM "
    );
    // SQLite needs a WHERE to tell what follows from a join's ON.
    sql(insert).want(dialect, &want).push(&format!(
        " {} {} ON {} WHERE w.id > 0{}",
        dialect.join(),
        dialect.by_id("QRTZ_RUN", "r"),
        dialect.seek("r.id", "w.id"),
        dialect.or_leave("QRTZ_OUTCOME_NEW", "first_run")
    ))
}

/// The columns of counts, in the order of [`OutcomeCounts`], each behind `prefix`.
pub(crate) fn columns(prefix: &str) -> String {
    let columns = OutcomeCounts::SUMS.iter().chain(&OutcomeCounts::LONGEST);
    columns.map(|column| format!("{prefix}{column}")).collect::<Vec<_>>().join(", ")
}

pub(crate) fn with_counts(want: BatchRows, counts: &[OutcomeCounts]) -> BatchRows {
    let sums = OutcomeCounts::SUMS.iter().enumerate();
    let want = sums.fold(want, |want, (n, column)| want.ints(column, counts.iter().map(|it| it.sums[n])));
    let longest = OutcomeCounts::LONGEST.iter().enumerate();
    longest.fold(want, |want, (n, column)| want.ints(column, counts.iter().map(|it| it.longest[n])))
}

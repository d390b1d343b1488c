//! Counts of outcomes are added up: new ones by the hour, and hours of the past by the day.

use crate::domain::Timestamp;
use crate::store::outcomes::{HOUR, OutcomeCounts, OutcomeFold, OutcomeKey, add_up, hours_from};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::{BatchRows, delete};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, single, sql};
use crate::store::sql::verbs::outcomes::{columns, with_counts};

type Counted = (OutcomeKey, OutcomeCounts);

/// The columns by which outcomes are added up.
const KEY: &str = "application, hours, from_time, job, node";

/// Whether a step would find something: a transaction that finds nothing costs four statements.
pub(crate) fn has_any(session: &mut dyn Session, fold: &OutcomeFold) -> Step<bool> {
    let question = sql("SELECT CASE WHEN EXISTS (SELECT 1 FROM QRTZ_OUTCOME_NEW WHERE application = ?) \
         OR EXISTS (SELECT 1 FROM QRTZ_OUTCOME WHERE application = ? AND hours = 1 AND from_time < ?) \
         THEN 1 ELSE 0 END AS has_any");
    let application = fold.application.as_str();
    single(session.rows(&question.bind_all((application, application, hours_from(fold.now))))?)
        .map(|found| found > 0)
}

/// One step; whether more may be left. All rows that it has read are removed, or none is: another node may be
/// at it, too.
pub(crate) fn fold(session: &mut dyn Session, fold: &OutcomeFold) -> Step<bool> {
    let old: Vec<Counted> = session.all(&old(fold), counted)?;
    if !old.is_empty() {
        remove(session, &old, |dialect, some| delete_hours(dialect, &fold.application, some))?;
        add(session, &fold.application, old.iter().map(|(key, counts)| (key.day(), *counts)))?;
    }
    let new: Vec<(i64, Counted)> = session.all(&new(fold), |row| Ok((row.int()?, counted(row)?)))?;
    if !new.is_empty() {
        remove(session, &new, |dialect, some| delete_new(dialect, &fold.application, some))?;
        add(session, &fold.application, new.iter().map(|(_, counted)| counted.clone()))?;
    }
    Ok(old.len() == fold.limit || new.len() == fold.limit)
}

/// Removes what is counted in spans that ended before.
pub(crate) fn purge(session: &mut dyn Session, application: &str, before: Timestamp) -> Step<()> {
    for hours in [1_i64, 24] {
        let delete = sql("DELETE FROM QRTZ_OUTCOME WHERE application = ? AND hours = ? AND from_time <= ?");
        session.execute(&delete.bind(application).bind(hours).bind(before.saturating_sub(hours * HOUR)))?;
    }
    Ok(())
}

/// The new counts.
fn new(fold: &OutcomeFold) -> Statement {
    let columns = columns("n.");
    sql(format!(
        "SELECT n.first_run, n.from_time, n.job, n.node, {columns} FROM QRTZ_OUTCOME_NEW n \
         WHERE n.application = ? ORDER BY n.application, n.first_run LIMIT ?"
    ))
    .bind(fold.application.as_str())
    .bind(fold.limit)
}

/// Hours that become parts of their days.
fn old(fold: &OutcomeFold) -> Statement {
    let columns = columns("o.");
    sql(format!(
        "SELECT o.from_time, o.job, o.node, {columns} FROM QRTZ_OUTCOME o WHERE o.application = ? \
         AND o.hours = 1 AND o.from_time < ? ORDER BY o.application, o.hours, o.from_time LIMIT ?"
    ))
    .bind_all((fold.application.as_str(), hours_from(fold.now), fold.limit))
}

fn counted(row: &mut Row) -> Step<Counted> {
    let (from, job, node) = (row.instant()?, row.text()?, row.text()?);
    Ok((OutcomeKey::hour(from, job.into(), node.into()), counts(row)?))
}

pub(crate) fn counts(row: &mut Row) -> Step<OutcomeCounts> {
    let mut counts = OutcomeCounts::default();
    for count in counts.sums.iter_mut().chain(&mut counts.longest) {
        *count = row.int()?;
    }
    Ok(counts)
}

fn remove<T>(session: &mut dyn Session, rows: &[T], delete: impl Fn(Dialect, &[T]) -> Statement) -> Step<()> {
    let dialect = session.dialect();
    let removed = rows.chunks(dialect.batch()).map(|page| session.execute(&delete(dialect, page)));
    match removed.sum::<Step<usize>>()? {
        removed if removed == rows.len() => Ok(()),
        _ => Err(Fault::new(FaultKind::Conflict, "counts of outcomes are no longer as they were read")),
    }
}

fn delete_new(dialect: Dialect, application: &str, new: &[(i64, Counted)]) -> Statement {
    let want = BatchRows::new(new.iter().map(|(first, _)| *first)).same("application", application);
    let condition = format!("n.application = w.application AND {}", dialect.seek("n.first_run", "w.id"));
    delete(dialect, ("QRTZ_OUTCOME_NEW", "n"), &want, &condition)
}

fn delete_hours(dialect: Dialect, application: &str, hours: &[Counted]) -> Statement {
    let want = keyed(application, hours);
    let counts = OutcomeCounts::SUMS.map(|column| format!(" AND o.{column} = w.{column}")).concat();
    let condition = format!(
        "o.application = w.application AND o.hours = w.hours AND {} AND o.job = w.job AND o.node = w.node\
         {counts}",
        dialect.seek("o.from_time", "w.from_time"),
    );
    delete(dialect, ("QRTZ_OUTCOME", "o"), &want, &condition)
}

fn keyed(application: &str, counted: &[Counted]) -> BatchRows {
    let want = BatchRows::of_length(counted.len())
        .times("from_time", counted.iter().map(|(key, _)| key.from))
        .ints("hours", counted.iter().map(|(key, _)| key.hours))
        .texts("job", counted.iter().map(|(key, _)| key.job.to_string()))
        .texts("node", counted.iter().map(|(key, _)| key.node.to_string()))
        .same("application", application);
    with_counts(want, &counted.iter().map(|(_, counts)| *counts).collect::<Vec<_>>())
}

fn add(session: &mut dyn Session, application: &str, counted: impl Iterator<Item = Counted>) -> Step<()> {
    let sums: Vec<Counted> = add_up(counted).into_iter().collect();
    let dialect = session.dialect();
    for some in sums.chunks(dialect.batch()) {
        let insert = format!("INSERT INTO QRTZ_OUTCOME ({KEY}, {}) SELECT ", columns(""));
        let values = format!("w.application, w.hours, w.from_time, w.job, w.node, {} FROM ", columns("w."));
        let or_add = dialect.or_add("QRTZ_OUTCOME", KEY, &OutcomeCounts::SUMS, &OutcomeCounts::LONGEST);
        // SQLite pads a batch with rows that begin at -1.
        let statement = sql(insert + &values).want(dialect, &keyed(application, some));
        session.execute(&statement.push(&format!(" WHERE w.from_time <> -1{or_add}")))?;
    }
    Ok(())
}

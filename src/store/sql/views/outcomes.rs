//! Outcomes of attempts, by hour, job and node: those that are added up, and the newest.

use crate::domain::Timestamp;
use crate::store::outcomes::{HOUR, OutcomeCounts, OutcomeQuery, OutcomeSpan};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::misfire::outcomes::counts;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Statement, sql};
use crate::store::sql::verbs::outcomes::columns;

pub(crate) fn outcomes(
    session: &mut dyn Session,
    query: &OutcomeQuery,
) -> Step<Vec<(OutcomeSpan, OutcomeCounts)>> {
    let mut outcomes: Vec<_> = session.all(&question(session.dialect(), query), |row| {
        let (from, until, job, node) = (row.instant()?, row.instant()?, row.text()?, row.text()?);
        Ok((OutcomeSpan { from, until, job, node }, counts(row)?))
    })?;
    outcomes.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(outcomes)
}

fn question(dialect: Dialect, query: &OutcomeQuery) -> Statement {
    let told = [(query.by_job, "t.job"), (query.by_node, "t.node")];
    let shown = told.map(|(is_told, column)| if is_told { column } else { "''" });
    let by_hour = query.by_hour.then_some("t.from_time, t.hours");
    let group: Vec<&str> = by_hour.into_iter().chain(told.iter().filter(|it| it.0).map(|it| it.1)).collect();
    let group = if group.is_empty() { String::new() } else { format!(", {}", group.join(", ")) };
    let sums = OutcomeCounts::SUMS.map(|column| dialect.sum(&format!("t.{column}"))).join(", ");
    let longest = OutcomeCounts::LONGEST.map(|column| format!("MAX(t.{column})")).join(", ");
    let columns = columns("");
    let begin = format!(
        "SELECT MIN(t.from_time) AS begins, MAX(t.from_time + t.hours * {HOUR}) AS ends, {} AS of_job, \
         {} AS of_node, {sums}, {longest} FROM (",
        shown[0], shown[1]
    );
    let part = |table: &str, hours: &str, spans: &str, from: Timestamp| {
        sql(format!(
            "SELECT application, {hours} AS hours, from_time, job, node, {columns} FROM {table} \
             WHERE application = ?{spans} AND from_time >= ? AND from_time < ?"
        ))
        .bind_all((query.application.as_str(), from, query.until))
        .given(" AND job = ?", query.job.as_deref())
        .given(" AND node = ?", query.node.as_deref())
    };
    sql(begin)
        .and(part("QRTZ_OUTCOME", "hours", " AND hours = 24", query.first_day()))
        .push(" UNION ALL ")
        .and(part("QRTZ_OUTCOME", "hours", " AND hours = 1", query.first_hour()))
        .push(" UNION ALL ")
        .and(part("QRTZ_OUTCOME_NEW", "1", "", query.first_hour()))
        .push(&format!(") t GROUP BY t.application{group} ORDER BY begins DESC, of_job, of_node LIMIT ?"))
        .bind(query.limit)
}

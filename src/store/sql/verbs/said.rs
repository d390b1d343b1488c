//! What handlers say, in QRTZ_SAID.

use std::collections::{HashMap, HashSet};

use crate::domain::{ExecutionId, Progress, Timestamp};
use crate::store::columns::{Column, NONE};
use crate::store::said::{Said, SaidBy, SaidRow};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::{BatchRows, delete};
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, sql};
use crate::store::{Applied, guard};

/// The most bytes of lines that one statement is given, beyond its first row.
const LARGEST: usize = 1_000_000;
/// The columns behind the key that a later saying replaces.
const REPLACED: &[&str] = &["said_lines", "progress_done", "progress_total", "changed_time"];

/// Stores what runs say. Their executions' rows are locked meanwhile, so that nobody takes one over: another
/// run would say something that this one does not know. One that others hold is left for later.
pub(crate) fn say(session: &mut dyn Session, said: &[Said]) -> Step<Vec<Applied>> {
    let dialect = session.dialect();
    let mut sorted: Vec<&Said> = said.iter().collect();
    sorted.sort_by_key(|it| it.execution);
    let mut free: HashMap<i64, String> = HashMap::new();
    let mut held: HashSet<i64> = HashSet::new();
    for some in sorted.chunks(dialect.batch()) {
        let lock = dialect.lock_free("r");
        free.extend(session.all::<_, Vec<_>>(&own(dialect, some, &lock), key)?);
        if dialect.has_row_locks() && some.iter().any(|it| !free.contains_key(&it.execution.0)) {
            held.extend(session.all::<_, Vec<_>>(&own(dialect, some, ""), key)?.into_iter().map(|it| it.0));
        }
    }
    sorted.retain(|it| free.contains_key(&it.execution.0));
    for some in sorted.chunks(dialect.batch()) {
        let mut rows = stored(session, some)?;
        let mut row = |it: &&Said| {
            let row = rows.remove(&it.execution.0).unwrap_or_default().and(it);
            (it.execution.0, free.get(&it.execution.0).cloned().unwrap_or_default(), row.text(), row)
        };
        let rows: Vec<NewRow> = some.iter().map(&mut row).collect();
        let mut rest = &rows[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(fitting(rest));
            session.execute(&insert(dialect, now))?;
            rest = later;
        }
    }
    let applied = |it: &Said| match it.execution.0 {
        id if free.contains_key(&id) => Applied::Done,
        id if held.contains(&id) => Applied::Held,
        _ => Applied::Lost,
    };
    Ok(said.iter().map(applied).collect())
}

/// An execution's id, its application, its lines as JSON, and the rest of its row.
type NewRow = (i64, String, String, SaidRow);

fn key(row: &mut Row) -> Step<(i64, String)> {
    Ok((row.int()?, row.loose_text()?))
}

/// The executions that are still their runs' own.
fn own(dialect: Dialect, said: &[&Said], lock: &str) -> Statement {
    let want = BatchRows::new(said.iter().map(|it| it.execution.0))
        .texts("claim_token", said.iter().map(|it| it.token.to_string()));
    let compared = |column: Column| match column {
        Column::Id => dialect.seek("r.id", "w.id"),
        Column::State => "r.state IN ('RUNNING', 'SUCCEEDED', 'TIMED_OUT')".to_owned(),
        other => format!("r.{name} = w.{name}", name = other.name()),
    };
    let condition: Vec<String> = guard::SAY.columns().map(compared).collect();
    sql("SELECT r.id, r.application FROM ").want(dialect, &want).push(&format!(
        " {} QRTZ_RUN r ON {}{lock}",
        dialect.join(),
        condition.join(" AND ")
    ))
}

answer! {
    /// What is stored of an execution.
    struct Stored() {
        execution: i64 = "s.execution_id", Row::int;
        said: SaidRow = "s.said_lines, s.progress_done, s.progress_total, s.changed_time", said_row;
    }
}

fn said_row(row: &mut Row) -> Step<SaidRow> {
    let lines = SaidRow::lines(&row.loose_text()?);
    let [done, total] = [row.loose_int()?, row.loose_int()?].map(|it| u64::try_from(it).ok());
    let progress = done.zip(total).map(|(done, total)| Progress::new(done, total));
    Ok(SaidRow { lines, progress, changed: row.time()?.unwrap_or_default() })
}

fn stored(session: &mut dyn Session, said: &[&Said]) -> Step<HashMap<i64, SaidRow>> {
    let dialect = session.dialect();
    let want = BatchRows::new(said.iter().map(|it| it.execution.0));
    let question = sql(format!("SELECT {} FROM ", Stored::columns())).want(dialect, &want).push(&format!(
        " {} QRTZ_SAID s ON {}",
        dialect.join(),
        dialect.seek("s.execution_id", "w.id")
    ));
    let rows: Vec<Stored> = session.all(&question, Stored::read)?;
    Ok(rows.into_iter().map(|it| (it.execution, it.said)).collect())
}

/// How many of these rows one statement is given.
fn fitting(rows: &[NewRow]) -> usize {
    let mut size = 0;
    let fits = rows.iter().take_while(|(_, _, lines, _)| {
        size += lines.len();
        size <= LARGEST
    });
    fits.count().max(1)
}

fn insert(dialect: Dialect, rows: &[NewRow]) -> Statement {
    let count = |of: fn(&Progress) -> u64| {
        rows.iter().map(move |(.., row)| {
            row.progress.as_ref().map_or(NONE, |it| i64::try_from(of(it)).unwrap_or(i64::MAX))
        })
    };
    let want = BatchRows::new(rows.iter().map(|(id, ..)| *id))
        .texts("application", rows.iter().map(|(_, application, ..)| application.clone()))
        .texts("said_lines", rows.iter().map(|(_, _, lines, _)| lines.clone()))
        .ints("progress_done", count(|it| it.done))
        .ints("progress_total", count(|it| it.total))
        .times("changed_time", rows.iter().map(|(.., row)| row.changed));
    let insert = "INSERT INTO QRTZ_SAID (execution_id, application, said_lines, progress_done, \
                  progress_total, changed_time) SELECT w.id, w.application, w.said_lines, w.progress_done, \
                  w.progress_total, w.changed_time FROM ";
    // SQLite needs a WHERE to tell what follows from a join's ON; its padding rows are no executions.
    sql(insert)
        .want(dialect, &want)
        .push(&format!(" WHERE w.id > 0{}", dialect.or_set("execution_id", REPLACED)))
}

/// What all attempts at the occurrence of an execution have said, by attempt; those that said nothing, too.
pub(crate) fn said(
    session: &mut dyn Session,
    application: &str,
    execution: ExecutionId,
) -> Step<Vec<SaidBy>> {
    session.all(&said_of(application, execution), |row| {
        let (execution, attempt) = (ExecutionId(row.int()?), row.loose_int()?);
        Ok(SaidBy { execution, attempt, said: said_row(row)? })
    })
}

pub(crate) fn said_of(application: &str, execution: ExecutionId) -> Statement {
    let question =
        sql("SELECT r.id, r.attempt, s.said_lines, s.progress_done, s.progress_total, s.changed_time \
                        FROM QRTZ_RUN r LEFT JOIN QRTZ_SAID s ON s.execution_id = r.id \
                        WHERE r.application = ?");
    let same = |question: Statement, column: &str| {
        let same = format!(" AND r.{column} = (SELECT x.{column} FROM QRTZ_RUN x WHERE x.id = ?)");
        question.push(&same).bind(execution.0)
    };
    let question = question.bind(application);
    let columns = ["execute_id", "generation", "origin", "scheduled_time"];
    columns.into_iter().fold(question, same).push(" ORDER BY r.attempt, r.id")
}

/// Removes what was last said before, of executions that are gone; at most so many rows.
pub(crate) fn forget(
    session: &mut dyn Session,
    application: &str,
    before: Timestamp,
    limit: usize,
) -> Step<()> {
    let dialect = session.dialect();
    let ids: Vec<i64> = session.all(&forgotten(application, before, limit), Row::int)?;
    for some in ids.chunks(dialect.batch()) {
        let want = BatchRows::new(some.iter().copied());
        let condition = dialect.seek("s.execution_id", "w.id")
            + " AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN r WHERE r.id = s.execution_id)";
        session.execute(&delete(dialect, ("QRTZ_SAID", "s"), &want, &condition))?;
    }
    Ok(())
}

pub(crate) fn forgotten(application: &str, before: Timestamp, limit: usize) -> Statement {
    sql("SELECT s.execution_id FROM QRTZ_SAID s WHERE s.application = ? AND s.changed_time < ? \
         AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN r WHERE r.id = s.execution_id) \
         ORDER BY s.application, s.changed_time LIMIT ?")
    .bind_all((application, before, limit))
}

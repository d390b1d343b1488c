//! Outcomes: each guarded by id, token and state, batched by kind.
//!
//! A batch that changed fewer rows than it has reads them back: what is already so under one's own token was
//! done by an earlier call whose answer was lost; anything else has been revoked.

use super::connection::Dialect;
use super::session::{Fault, Session};
use super::statement::{self, Statement, Value, Want, guarded, join, sql, update};
use crate::model::{ExecutionState, LONGEST_ERROR};
use crate::store::guard::{self, Column, Guard};
use crate::store::{Change, Reason, Settled, Settlement};

/// Whether it takes a single statement, which is its own transaction: starts alone, or outcomes without a retry.
/// (SQLite would begin it as a read.)
pub(super) fn is_one_statement(dialect: Dialect, settlements: &[Settlement]) -> bool {
    let all = |is: fn(&Change) -> bool| settlements.iter().all(|it| is(&it.change));
    let starts = all(|change| matches!(change, Change::Start { .. }));
    let outcomes = all(|change| matches!(change, Change::Finish { retry: None, .. }));
    let few = settlements.len() <= statement::batch(dialect);
    dialect != Dialect::Sqlite && few && (starts || outcomes)
}

pub(super) fn settle(session: &mut dyn Session, settlements: &[Settlement]) -> Result<Vec<Settled>, Fault> {
    let mut order: Vec<usize> = (0..settlements.len()).collect();
    order.sort_by_key(|index| settlements[*index].execution);
    let mut settled = vec![Settled::Revoked; settlements.len()];
    // Starts first: a batch may hold a start and an outcome of one execution.
    for kind in [start, finish, give_back] {
        let of_kind: Vec<(usize, Row)> =
            order.iter().filter_map(|index| Some((*index, kind(&settlements[*index])?))).collect();
        for batch in of_kind.chunks(statement::batch(session.dialect())) {
            let done = change(session, batch.iter().map(|(_, row)| row))?;
            for ((index, _), done) in batch.iter().zip(done) {
                if done {
                    settled[*index] = Settled::Done;
                }
            }
        }
    }
    Ok(settled)
}

/// One settlement as a row of `w`.
struct Row {
    kind: &'static Kind,
    values: Vec<Value>,
    /// The state and token the execution has afterwards.
    becomes: (ExecutionState, String),
    follow_up: Option<Vec<Value>>,
}

struct Kind {
    columns: &'static [&'static str],
    sets: &'static [(&'static str, &'static str)],
    guard: Guard,
    /// The states the guard allows. Bound, not written out: PostgreSQL would take the index of open executions for them,
    /// which it believes to be small, and read it once per row.
    states: &'static str,
}

const CLAIMED: &str = ExecutionState::Claimed.as_str();
const RUNNING: &str = ExecutionState::Running.as_str();

const START: Kind = Kind {
    columns: &["id", "claim_token", "now", "state"],
    sets: &[("state", "'RUNNING'"), ("started_time", "w.now")],
    guard: guard::START,
    states: "r.state = w.state",
};

const FINISH: Kind = Kind {
    columns: &["id", "claim_token", "becomes", "error", "now", "state"],
    sets: &[("state", "w.becomes"), ("error", "w.error"), ("finished_time", "w.now")],
    guard: guard::OUTCOME,
    states: "r.state = w.state",
};

const GIVE_BACK: Kind = Kind {
    columns: &["id", "claim_token", "fresh", "reason", "state", "begun"],
    sets: &[
        ("state", "'PENDING'"),
        ("claim_token", "w.fresh"),
        ("reason", "w.reason"),
        ("node", "''"),
        ("claimed_time", "-1"),
        ("started_time", "-1"),
    ],
    guard: guard::OUTCOME,
    states: "r.state IN (w.state, w.begun)",
};

fn start(settlement: &Settlement) -> Option<Row> {
    let Change::Start { now } = &settlement.change else { return None };
    let token = settlement.token.to_string();
    Some(Row {
        kind: &START,
        values: vec![settlement.execution.0.into(), token.as_str().into(), (*now).into(), CLAIMED.into()],
        becomes: (ExecutionState::Running, token),
        follow_up: None,
    })
}

fn finish(settlement: &Settlement) -> Option<Row> {
    let Change::Finish { state, error, retry, now } = &settlement.change else { return None };
    let (id, token) = (settlement.execution.0, settlement.token.to_string());
    let follow_up = retry.map(|(due, fresh)| {
        let reason = Reason::Retry.as_str();
        vec![
            id.into(),
            token.as_str().into(),
            state.as_str().into(),
            due.into(),
            fresh.to_string().into(),
            reason.into(),
        ]
    });
    let error = tidy(error.as_deref().unwrap_or_default());
    Some(Row {
        kind: &FINISH,
        values: vec![
            id.into(),
            token.as_str().into(),
            state.as_str().into(),
            error.into(),
            (*now).into(),
            RUNNING.into(),
        ],
        becomes: (*state, token),
        follow_up,
    })
}

fn give_back(settlement: &Settlement) -> Option<Row> {
    let Change::GiveBack { fresh, reason, now: _ } = &settlement.change else { return None };
    let (id, token, fresh) = (settlement.execution.0, settlement.token.to_string(), fresh.to_string());
    Some(Row {
        kind: &GIVE_BACK,
        values: vec![
            id.into(),
            token.into(),
            fresh.as_str().into(),
            reason.as_str().into(),
            CLAIMED.into(),
            RUNNING.into(),
        ],
        becomes: (ExecutionState::Pending, fresh),
        follow_up: None,
    })
}

/// Changes a batch of one kind; answers for each row whether it is so now.
fn change<'a>(
    session: &mut dyn Session,
    batch: impl ExactSizeIterator<Item = &'a Row> + Clone,
) -> Result<Vec<bool>, Fault> {
    let Some(kind) = batch.clone().next().map(|row| row.kind) else { return Ok(Vec::new()) };
    let want = Want::new(kind.columns, batch.clone().map(|row| row.values.clone()).collect());
    let changed = session.execute(&guarded_update(session.dialect(), kind, &want))?;
    let done = if changed == want.len() {
        vec![true; want.len()]
    } else {
        let now = read_back(session, &want)?;
        let so = |row: &Row| {
            let (state, token) = &row.becomes;
            let id = row.values.first();
            now.iter().any(|(other, is, under)| id == Some(other) && is == state.as_str() && under == token)
        };
        batch.clone().map(so).collect()
    };
    let follow_ups: Vec<Vec<Value>> =
        batch.zip(&done).filter(|(_, done)| **done).filter_map(|(row, _)| row.follow_up.clone()).collect();
    follow_up(session, follow_ups)?;
    Ok(done)
}

fn guarded_update(dialect: Dialect, kind: &Kind, want: &Want) -> Statement {
    let compared = kind.guard.columns().map(|column| match column {
        Column::State => kind.states.to_owned(),
        column => format!("r.{name} = w.{name}", name = column.name()),
    });
    let condition = compared.collect::<Vec<_>>().join(" AND ");
    update(dialect, ("QRTZ_RUN", "r"), kind.sets, want, &condition)
}

#[cfg(test)]
pub(super) fn start_for_test(dialect: Dialect, count: i64) -> Statement {
    let rows = (1..=count).map(|id| vec![id.into(), "token".into(), 0_i64.into(), CLAIMED.into()]).collect();
    guarded_update(dialect, &START, &Want::new(START.columns, rows))
}

#[cfg(test)]
pub(super) fn outcomes_for_test(dialect: Dialect, settlements: &[Settlement]) -> Statement {
    let rows = settlements.iter().filter_map(finish).map(|row| row.values).collect();
    guarded_update(dialect, &FINISH, &Want::new(FINISH.columns, rows))
}

fn read_back(session: &mut dyn Session, want: &Want) -> Result<Vec<(Value, String, String)>, Fault> {
    let dialect = session.dialect();
    let question = sql("SELECT r.id, r.state, r.claim_token FROM ")
        .want(dialect, want)
        .push(&format!(" {} QRTZ_RUN r ON r.id = w.id", join(dialect)));
    session.rows(&question)?.into_iter().map(|mut row| Ok((row.next()?, row.text()?, row.text()?))).collect()
}

/// Inserts the next attempt after executions in the given state under the given token, unless it is
/// there already: id, token, state, due, the new row's token, its reason.
pub(super) fn follow_up(session: &mut dyn Session, rows: Vec<Vec<Value>>) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let dialect = session.dialect();
    let want = Want::new(&["id", "claim_token", "state", "due", "fresh", "reason"], rows);
    let insert = sql(
        "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, until_time, \
                      occurrences, attempt, state, reason, due_time, claim_token, prev_fire_time, \
                      following_fire_time) \
                      SELECT r.application, r.execute_id, r.generation, r.origin, r.scheduled_time, r.until_time, \
                      r.occurrences, r.attempt + 1, 'PENDING', w.reason, w.due, w.fresh, r.prev_fire_time, \
                      r.following_fire_time FROM ",
    );
    // Somebody wrote an attempt that no poll can read the next of: it ends here. And SQLite needs a WHERE to tell the
    // join's ON from that of ON CONFLICT.
    let insert = insert.want(dialect, &want).push(&format!(
        " {} QRTZ_RUN r ON {} WHERE r.attempt BETWEEN 0 AND 4294967294{}",
        join(dialect),
        guarded(&guard::SETTLED, "r"),
        dialect.or_leave("QRTZ_RUN", "attempt")
    ));
    session.execute(&insert)?;
    Ok(())
}

/// An error's text as it may be stored: no NUL, and not too long.
fn tidy(text: &str) -> String {
    text.chars().filter(|character| *character != '\0').take(LONGEST_ERROR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_text_loses_its_nuls_and_its_end() {
        assert_eq!(tidy("a\0b"), "ab");
        assert_eq!(tidy(&"ü".repeat(5_000)).chars().count(), 4_000);
    }
}

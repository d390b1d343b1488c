//! Outcomes: each guarded by id, token and state, batched by kind.
//!
//! A batch that changed fewer rows than it has reads them back: what is already so under one's own token was
//! done by an earlier call whose answer was lost; anything else has been revoked.

use std::collections::HashMap;

use super::connection::Dialect;
use super::session::{Fault, Session};
use super::statement::{self, Statement, Value, Want, guarded, join, seek, sql, update};
#[cfg(test)]
use crate::domain::ExecutionId;
use crate::domain::{ExecutionState, LONGEST_ERROR, Millis, Token};
use crate::store::guard::{self, Column, Guard};
use crate::store::{Change, Reason, Settled, Settlement};

/// Whether it takes a single statement, which is its own transaction: starts alone, or outcomes without a
/// retry. (SQLite would begin it as a read.)
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
    for kind in [&START, &FINISH, &GIVE_BACK] {
        let of_kind: Vec<usize> =
            order.iter().copied().filter(|index| (kind.is)(&settlements[*index].change)).collect();
        for batch in of_kind.chunks(statement::batch(session.dialect())) {
            let rows: Vec<&Settlement> = batch.iter().map(|index| &settlements[*index]).collect();
            for (index, done) in batch.iter().zip(change(session, kind, &rows)?) {
                if done {
                    settled[*index] = Settled::Done;
                }
            }
        }
    }
    Ok(settled)
}

struct Kind {
    is: fn(&Change) -> bool,
    /// What it reads beside the guard's columns.
    with: fn(Want, &[&Settlement]) -> Want,
    sets: &'static [(&'static str, &'static str)],
    guard: Guard,
    /// The state the guard allows, and another one.
    states: (&'static str, Option<&'static str>),
}

const CLAIMED: &str = ExecutionState::Claimed.as_str();
const RUNNING: &str = ExecutionState::Running.as_str();

const START: Kind = Kind {
    is: |change| matches!(change, Change::Start { .. }),
    with: |want, rows| want.ints("now", nows(rows)),
    sets: &[("state", "'RUNNING'"), ("started_time", "w.now")],
    guard: guard::START,
    states: (CLAIMED, None),
};

const FINISH: Kind = Kind {
    is: |change| matches!(change, Change::Finish { .. }),
    with: |want, rows| {
        want.ints("now", nows(rows))
            .alike("becomes", rows.iter().map(|row| becomes(row).0.as_str()))
            .alike("error", rows.iter().map(|row| error(row)))
    },
    sets: &[
        ("state", "w.becomes"),
        ("error", "w.error"),
        ("finished_time", "w.now"),
        // Why a failed attempt was made is not why it failed.
        (
            "reason",
            "CASE WHEN w.becomes = 'FAILED' AND r.reason IN ('retry', 'recovery', 'given back') THEN '' ELSE r.reason END",
        ),
    ],
    guard: guard::OUTCOME,
    states: (RUNNING, None),
};

const GIVE_BACK: Kind = Kind {
    is: |change| matches!(change, Change::GiveBack { .. }),
    with: |want, rows| {
        want.texts("fresh", rows.iter().map(|row| becomes(row).1.to_string()))
            .alike("reason", rows.iter().map(|row| reason(row)))
    },
    sets: &[
        ("state", "'PENDING'"),
        ("claim_token", "w.fresh"),
        ("reason", "w.reason"),
        ("node", "''"),
        ("claimed_time", "-1"),
        ("started_time", "-1"),
    ],
    guard: guard::OUTCOME,
    states: (CLAIMED, Some(RUNNING)),
};

fn nows<'a>(rows: &'a [&Settlement]) -> impl Iterator<Item = Millis> + 'a {
    rows.iter().map(|row| match row.change {
        Change::Start { now } | Change::Finish { now, .. } | Change::GiveBack { now, .. } => now,
    })
}

fn error(settlement: &Settlement) -> String {
    match &settlement.change {
        Change::Finish { error: Some(error), .. } => tidy(error),
        _ => String::new(),
    }
}

fn reason(settlement: &Settlement) -> &'static str {
    match &settlement.change {
        Change::GiveBack { reason, .. } => reason.as_str(),
        _ => "",
    }
}

/// The state and token the execution has afterwards.
fn becomes(settlement: &Settlement) -> (ExecutionState, Token) {
    match settlement.change {
        Change::Start { .. } => (ExecutionState::Running, settlement.token),
        Change::Finish { state, .. } => (state, settlement.token),
        Change::GiveBack { fresh, .. } => (ExecutionState::Pending, fresh),
    }
}

/// The attempt that follows, as a row for [`follow_up`].
fn next_attempt(settlement: &Settlement) -> Option<Vec<Value>> {
    let Change::Finish { state, retry: Some((due, fresh)), .. } = &settlement.change else { return None };
    Some(vec![
        settlement.execution.0.into(),
        settlement.token.to_string().into(),
        state.as_str().into(),
        (*due).into(),
        fresh.to_string().into(),
        Reason::Retry.as_str().into(),
    ])
}

/// Changes a batch of one kind; answers for each row whether it is so now.
fn change(session: &mut dyn Session, kind: &Kind, batch: &[&Settlement]) -> Result<Vec<bool>, Fault> {
    let want = kind.want(batch);
    let changed = session.execute(&guarded_update(session.dialect(), kind, &want))?;
    let done = if changed == want.len() {
        vec![true; want.len()]
    } else {
        let now = read_back(session, &want)?;
        let so = |row: &&Settlement| {
            let (state, token) = becomes(row);
            now.get(&row.execution.0)
                .is_some_and(|(is, under)| is == state.as_str() && *under == token.to_string())
        };
        batch.iter().map(so).collect()
    };
    let done_rows = batch.iter().zip(&done).filter(|(_, done)| **done);
    follow_up(session, &done_rows.filter_map(|(row, _)| next_attempt(row)).collect::<Vec<_>>())?;
    Ok(done)
}

impl Kind {
    fn want(&self, batch: &[&Settlement]) -> Want {
        let want = Want::new(batch.iter().map(|row| row.execution.0))
            .texts("claim_token", batch.iter().map(|row| row.token.to_string()))
            .same("state", self.states.0);
        let want = match self.states.1 {
            Some(other) => want.same("other", other),
            None => want,
        };
        (self.with)(want, batch)
    }
}

fn guarded_update(dialect: Dialect, kind: &Kind, want: &Want) -> Statement {
    let compared = kind.guard.columns().map(|column| match column {
        Column::State if kind.states.1.is_some() => "r.state IN (w.state, w.other)".to_owned(),
        Column::Id => seek(dialect, "r.id", "w.id"),
        column => format!("r.{name} = w.{name}", name = column.name()),
    });
    let condition = compared.collect::<Vec<_>>().join(" AND ");
    update(dialect, ("QRTZ_RUN", "r"), kind.sets, want, &condition)
}

#[cfg(test)]
pub(super) fn start_for_test(dialect: Dialect, count: i64) -> Statement {
    let change = Change::Start { now: 0 };
    let start = |id| Settlement { execution: ExecutionId(id), token: Token::fresh(), change: change.clone() };
    let starts: Vec<Settlement> = (1..=count).map(start).collect();
    guarded_update(dialect, &START, &START.want(&starts.iter().collect::<Vec<_>>()))
}

#[cfg(test)]
pub(super) fn outcomes_for_test(dialect: Dialect, settlements: &[Settlement]) -> Statement {
    guarded_update(dialect, &FINISH, &FINISH.want(&settlements.iter().collect::<Vec<_>>()))
}

/// By execution, its state and token.
fn read_back(session: &mut dyn Session, want: &Want) -> Result<HashMap<i64, (String, String)>, Fault> {
    let dialect = session.dialect();
    let question = sql("SELECT r.id, r.state, r.claim_token FROM ")
        .want(dialect, &want.of(&["id"]))
        .push(&format!(" {} QRTZ_RUN r ON {}", join(dialect), seek(dialect, "r.id", "w.id")));
    session.rows(&question)?.into_iter().map(|mut row| Ok((row.int()?, (row.text()?, row.text()?)))).collect()
}

/// Inserts the next attempt after executions in the given state under the given token, unless it is
/// there already: id, token, state, due, the new row's token, its reason.
pub(super) fn follow_up(session: &mut dyn Session, rows: &[Vec<Value>]) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let dialect = session.dialect();
    let want = Want::of_rows(&["id", "claim_token", "state", "due", "fresh", "reason"], rows);
    let insert = sql(
        "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, until_time, \
                      occurrences, attempt, state, reason, due_time, claim_token, prev_fire_time, \
                      following_fire_time) \
                      SELECT r.application, r.execute_id, r.generation, r.origin, r.scheduled_time, r.until_time, \
                      r.occurrences, r.attempt + 1, 'PENDING', w.reason, w.due, w.fresh, r.prev_fire_time, \
                      r.following_fire_time FROM ",
    );
    // Somebody wrote an attempt that no poll can read the next of: it ends here. And SQLite needs a WHERE to
    // tell the join's ON from that of ON CONFLICT.
    let insert = insert.want(dialect, &want).push(&format!(
        " {} QRTZ_RUN r ON {} WHERE r.attempt BETWEEN 0 AND 4294967294{}",
        join(dialect),
        guarded(dialect, &guard::SETTLED, "r"),
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

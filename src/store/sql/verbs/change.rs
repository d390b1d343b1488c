//! The table of changes in SQL: one UPDATE for a batch of one kind, its guard beside it.
//!
//! A batch that changed fewer rows than it has reads them back where the rule allows: a row that is already
//! so under one's own token was changed by an earlier call whose answer was lost.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::{outcomes, run_end, triggers, withdrawn};
use crate::domain::{
    Attempt, ExecutionId, LONGEST_ERROR, Reason, ScheduleId, ScheduleState, Timestamp, Token,
};
use crate::store::change::{LedgerColumns, Seen, WithdrawChange};
use crate::store::columns::{Column, Datum};
use crate::store::outcomes::is_counted;
use crate::store::repairs::called;
use crate::store::rules::{ChangeKind, ChangeValue, HeldRow, Rule, Set, Table};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::{BatchRows, guarded, update};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, answer, single, sql};
use crate::store::transition::{NextAttempt, RunEnd};
use crate::store::{
    Applied, Change, Completed, ExecutionChange, LedgerRow, Move, RemoveChange, Repair, Withdrawn, guard,
};

/// The most characters stored of a reason or an actor.
const LONGEST_REASON: usize = 500;

/// The second of two states from which a change is allowed, in a batch.
const OTHER_STATE: &str = "other";

/// Whether it takes a single statement, which is its own transaction.
pub(crate) fn is_one_statement(dialect: Dialect, changes: &[Change]) -> bool {
    let Some(first) = changes.first().map(Change::kind) else { return false };
    let alike = changes.iter().all(|it| it.kind() == first && !has_follow_ups(it));
    let few = changes.len() <= size(dialect, first);
    alike && few && !locks(first.rule(), changes.len())
}

fn has_follow_ups(change: &Change) -> bool {
    let is_stuck = matches!(change.kind(), ChangeKind::TimeOut | ChangeKind::Release);
    let plans = matches!(change, Change::Execution(change) if change.ends_run().is_some());
    let writes = matches!(change, Change::Repair(_) | Change::Remove(_));
    is_stuck || plans || counts(change) || change.next_attempt().is_some() || writes
}

/// The changes of one transaction.
pub(crate) fn apply(session: &mut dyn Session, changes: &[Change]) -> Step<Vec<Applied>> {
    let applied = apply_all(session, changes)?;
    for (change, _) in changes.iter().zip(&applied).filter(|(_, applied)| applied.is_done()) {
        let Change::Remove(removal) = change else { continue };
        if let Some(withdrawal) = withdrawn::by(session, removal)? {
            withdrawn::insert(session, &removal.application, &withdrawal, None)?;
        }
    }
    Ok(applied)
}

/// The changes, with all that follows them but what removals withdraw.
pub(super) fn apply_all(session: &mut dyn Session, changes: &[Change]) -> Step<Vec<Applied>> {
    let held = run_end::lock(session, changes)?;
    let mut applied = vec![Applied::Lost; changes.len()];
    let mut outcomes: Vec<&ExecutionChange> = Vec::new();
    let mut order: Vec<usize> = Vec::with_capacity(changes.len());
    for (index, change) in changes.iter().enumerate() {
        match run_end::held(change, &held) {
            Some(held) => applied[index] = held,
            None => order.push(index),
        }
    }
    order.sort_by_key(|index| (changes[*index].kind(), place(&changes[*index])));
    for alike in order.chunk_by(|one, other| changes[*one].kind() == changes[*other].kind()) {
        let kind = changes[alike[0]].kind();
        for some in alike.chunks(size(session.dialect(), kind)) {
            let rows: Vec<&Change> = some.iter().map(|index| &changes[*index]).collect();
            for (index, made) in some.iter().zip(change(session, kind.rule(), &rows)?) {
                applied[*index] = (made != Made::Not).into();
                if let (Made::Now, Change::Execution(outcome)) = (made, &changes[*index]) {
                    outcomes.push(outcome);
                }
            }
        }
    }
    let done = |index: &&usize| applied[**index].is_done();
    let done: Vec<&Change> = order.iter().filter(done).map(|index| &changes[*index]).collect();
    follow(session, &done)?;
    outcomes::note(session, &outcomes)?;
    Ok(applied)
}

/// Stores that an execution has succeeded, unless somebody has asked for its end.
pub(crate) fn complete(session: &mut dyn Session, outcome: &ExecutionChange) -> Step<Completed> {
    let asked = sql("SELECT COUNT(*) FROM QRTZ_CANCEL WHERE execution_id = ?").bind(outcome.execution.0);
    if single(session.rows(&asked)?)? > 0 {
        return Ok(Completed::Cancelled);
    }
    checkpoint(session, outcome).map(Completed::from)
}

/// Stores how far a handler has come.
pub(crate) fn checkpoint(session: &mut dyn Session, checkpoint: &ExecutionChange) -> Step<Applied> {
    let applied = apply(session, &[checkpoint.clone().into()])?;
    Ok(applied.into_iter().next().unwrap_or(Applied::Lost))
}

/// The most rows of a statement: one where the guard compares another thing for each row, or names rows by
/// another key than their id, by which locked rows are told apart.
fn size(dialect: Dialect, kind: ChangeKind) -> usize {
    let is_loose = matches!(kind, ChangeKind::Quarantine | ChangeKind::Remove);
    if is_loose || !has_id(kind.rule()) { 1 } else { dialect.batch() }
}

fn has_id(rule: &Rule) -> bool {
    rule.guard.every().any(|column| column == Column::Id)
}

/// Whether its rows are locked first, so that it is known which of them change.
fn locks(rule: &Rule, rows: usize) -> bool {
    rule.held == HeldRow::Leave || (!rule.repeats && rows > 1)
}

/// Whether a change is made, and by which call.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    Not,
    /// By an earlier call, whose answer was lost.
    Before,
    Now,
}

/// Changes a batch of one kind; answers for each row whether it is so now.
fn change(session: &mut dyn Session, rule: &Rule, rows: &[&Change]) -> Step<Vec<Made>> {
    let made = |is_so: bool, made: Made| if is_so { made } else { Made::Not };
    let (dialect, want) = (session.dialect(), want(rule, rows));
    if locks(rule, rows.len()) {
        let free: HashSet<i64> = change_free(session, rule, rows, want)?.into_iter().collect();
        let is_made = |row: &&Change| free.contains(&number(row, Column::Id));
        return Ok(rows.iter().map(|row| made(is_made(row), Made::Now)).collect());
    }
    if rule.only_asks() {
        let so = read_back(session, rows, &want)?;
        return Ok(so.into_iter().map(|is_so| made(is_so, Made::Before)).collect());
    }
    let changed = session.execute(&guarded_update(dialect, rule, rows, &want))?;
    if changed == want.len() {
        return Ok(vec![Made::Now; rows.len()]);
    }
    if !rule.repeats {
        return Ok(vec![Made::Not; rows.len()]);
    }
    let so = read_back(session, rows, &want)?;
    let all = so.iter().filter(|is_so| **is_so).count();
    if (1..all).contains(&changed) && rows.iter().any(|row| counts(row)) {
        let told_apart =
            "an earlier call has stored some of these outcomes: they are stored in smaller parts";
        return Err(Fault::new(FaultKind::Refused, told_apart));
    }
    let by = if changed == 0 { Made::Before } else { Made::Now };
    Ok(so.into_iter().map(|is_so| made(is_so, by)).collect())
}

/// Whether it is counted once it is made.
fn counts(change: &Change) -> bool {
    matches!(change, Change::Execution(change) if is_counted(change))
}

/// Changes the rows that are as they were seen and, where the rule says so, that nobody holds; gives their
/// ids. They are locked in id order.
fn change_free(session: &mut dyn Session, rule: &Rule, rows: &[&Change], want: BatchRows) -> Step<Vec<i64>> {
    let (dialect, (table, alias)) = (session.dialect(), named(rule.table));
    let compared: Vec<&str> = rule.guard.every().map(Column::name).chain([OTHER_STATE]).collect();
    let lock = if rule.held == HeldRow::Leave { dialect.lock_free(alias) } else { dialect.lock(alias) };
    let lock = sql(format!("SELECT {alias}.id FROM ")).want(dialect, &want.of(&compared)).push(&format!(
        " {} {table} {alias} ON {}{lock}",
        dialect.join(),
        condition(dialect, rule, rows)
    ));
    let free: Vec<i64> = session.all(&lock, Row::int)?;
    let want = want.only(&free);
    if want.len() > 0 && session.execute(&guarded_update(dialect, rule, rows, &want))? != want.len() {
        return Err(Fault::new(
            FaultKind::Conflict,
            "an UPDATE of locked rows changed another number of rows",
        ));
    }
    Ok(free)
}

fn guarded_update(dialect: Dialect, rule: &Rule, rows: &[&Change], want: &BatchRows) -> Statement {
    let (table, alias) = named(rule.table);
    let assigned = |(column, set): &(Column, Set)| (column.name(), assigned(dialect, alias, *column, *set));
    let sets: Vec<(&str, String)> = rule.assignments().map(assigned).collect();
    update(dialect, (table, alias), &sets, want, &condition(dialect, rule, rows))
}

/// A table's name, and that of its rows in a statement.
fn named(table: Table) -> (&'static str, &'static str) {
    match table {
        Table::Application => ("QRTZ_APP", "a"),
        Table::Node => ("QRTZ_NODE", "n"),
        Table::Job => ("QRTZ_JOB", "j"),
        Table::Schedule => ("QRTZ_EXECUTE", "e"),
        Table::Expected => ("QRTZ_EXPECTED", "x"),
        Table::Execution => ("QRTZ_RUN", "r"),
    }
}

fn assigned(dialect: Dialect, alias: &str, column: Column, set: Set) -> String {
    let old = format!("{alias}.{}", column.name());
    match set {
        Set::Word(word) => format!("'{word}'"),
        Set::NoTime => "-1".to_owned(),
        Set::Give(value) => format!("w.{}", value.name()),
        Set::Unless(none, value) => {
            let none = if let Datum::Number(none) = none { none.to_string() } else { "''".to_owned() };
            format!("NULLIF(w.{}, {none})", value.name())
        }
        Set::Clock => dialect.clock().to_owned(),
        Set::OneMore => format!("{old} + 1"),
        Set::Tally => format!("COALESCE({old}, 0) + 1"),
        Set::Recount => {
            let old = dialect.loosely(&old);
            format!("CASE WHEN {old} BETWEEN 0 AND 9223372036854775806 THEN {old} + 1 ELSE 0 END")
        }
        Set::More(value) => {
            let more = format!("{old} + w.{}", value.name());
            format!("CASE WHEN {old} < 9000000000000000000 THEN {more} ELSE {old} END")
        }
        Set::CompleteWithoutNext => format!(
            "CASE WHEN w.to_next = -1 AND {old} IN ('EXECUTING', 'PAUSED') THEN 'COMPLETE' ELSE {old} END"
        ),
        Set::EmptyOn(state, reasons) => {
            let reasons: Vec<String> =
                reasons.iter().map(|reason| format!("'{}'", reason.as_str())).collect();
            let (state, reasons) = (state.as_str(), reasons.join(", "));
            format!("CASE WHEN w.becomes = '{state}' AND {old} IN ({reasons}) THEN '' ELSE {old} END")
        }
    }
}

/// The guard: that a row is as `w` saw it.
fn condition(dialect: Dialect, rule: &Rule, rows: &[&Change]) -> String {
    let (_, alias) = named(rule.table);
    let compared = |column: Column| {
        let (is, was) = (format!("{alias}.{}", column.name()), format!("w.{}", column.name()));
        match rows.first().map(|row| row.seen(column)) {
            _ if column == Column::State && rule.from.len() > 1 => {
                format!("{is} IN ({was}, w.{OTHER_STATE})")
            }
            Some(Seen::Loosely(_)) => format!("{} = {was}", dialect.loosely(&is)),
            Some(Seen::NoState) => {
                let known: Vec<String> =
                    ScheduleState::ALL.iter().map(|state| format!("'{}'", state.stored())).collect();
                format!("COALESCE({is}, '') NOT IN ({})", known.join(", "))
            }
            Some(Seen::Not(state)) => format!("{is} <> '{}'", state.stored()),
            _ if column == Column::Id => dialect.seek(&is, &was),
            _ => format!("{is} = {was}"),
        }
    };
    rule.guard.columns().map(compared).collect::<Vec<_>>().join(" AND ")
}

/// What a batch compares and assigns.
fn want(rule: &Rule, rows: &[&Change]) -> BatchRows {
    let is_text = |column| matches!(rows.first().map(|row| datum(row, column)), Some(Datum::Text(_)));
    let want = rule.guard.every().fold(BatchRows::of_length(rows.len()), |want, column| match column {
        Column::State if rule.from.len() > 1 => rule
            .from
            .iter()
            .zip(["state", OTHER_STATE])
            .fold(want, |want, (state, name)| want.same(name, state.as_str())),
        Column::ClaimToken | Column::Uuid | Column::Application => {
            want.texts(column.name(), rows.iter().map(|row| as_text(datum(row, column)).into_owned()))
        }
        _ if column == Column::State || is_text(column) => {
            want.alike(column.name(), rows.iter().map(|row| as_text(datum(row, column))))
        }
        _ => want.ints(column.name(), rows.iter().map(|row| number(row, column))),
    });
    rule.brings().fold(want, |want, value| brought(want, value, rows))
}

fn brought(want: BatchRows, value: ChangeValue, rows: &[&Change]) -> BatchRows {
    let name = value.name();
    let brought = || rows.iter().map(|row| row.brings(value));
    match brought().next() {
        _ if is_own_text(value) => want.texts(name, brought().map(|text| as_text(text).into_owned())),
        Some(Datum::Text(_)) => {
            let longest = match value {
                ChangeValue::Error => LONGEST_ERROR,
                ChangeValue::Why | ChangeValue::PausedBy => LONGEST_REASON,
                _ => usize::MAX,
            };
            want.alike(name, brought().map(|text| tidy(as_text(text), longest)))
        }
        _ => want.ints(name, brought().map(as_number)),
    }
}

/// Whether the texts of a batch differ from row to row, and are stored whole.
fn is_own_text(value: ChangeValue) -> bool {
    use ChangeValue::{Checkpoint, Fresh, Headers, Payload, Result};
    matches!(value, Fresh | Headers | Payload | Checkpoint | Result)
}

/// The number that a change saw in a column, if it is one.
fn number(change: &Change, column: Column) -> i64 {
    match change.seen(column) {
        Seen::Same(value) => as_number(value),
        Seen::Loosely(value) => value,
        Seen::NoState | Seen::Not(_) => no_number(),
    }
}

/// What a change saw in a column; nothing where it is not compared with one value.
fn datum(change: &Change, column: Column) -> Datum<'_> {
    if let Seen::Same(value) = change.seen(column) { value } else { Datum::Null }
}

/// Where a change comes among those of its kind: rows are locked in id order.
fn place(change: &Change) -> i64 {
    if has_id(change.rule()) { number(change, Column::Id) } else { 0 }
}

fn as_number(value: Datum<'_>) -> i64 {
    if let Datum::Number(number) = value { number } else { no_number() }
}

/// A rule compares or assigns a value of another type: it is wrong, which a test must see.
fn no_number() -> i64 {
    let in_a_test = cfg!(test);
    assert!(!in_a_test, "a change has no number where its rule needs one");
    0
}

fn as_text(value: Datum<'_>) -> Cow<'_, str> {
    match value {
        Datum::Text(text) => text.into(),
        Datum::Uuid(uuid) => uuid.hyphenated().to_string().into(),
        Datum::Null | Datum::Number(_) => "".into(),
    }
}

/// A text as it may be stored: no NUL, and not too long.
fn tidy(text: Cow<'_, str>, longest: usize) -> Cow<'_, str> {
    if !text.contains('\0') && text.len() <= longest {
        return text;
    }
    text.chars().filter(|character| *character != '\0').take(longest).collect()
}

/// Whether each execution is already so, under its own token.
fn read_back(session: &mut dyn Session, rows: &[&Change], want: &BatchRows) -> Step<Vec<bool>> {
    let dialect = session.dialect();
    let question = sql("SELECT r.id, r.state, r.claim_token FROM ")
        .want(dialect, &want.of(&["id"]))
        .push(&format!(" {} QRTZ_RUN r ON {}", dialect.join(), dialect.seek("r.id", "w.id")));
    let now: HashMap<i64, (String, String)> =
        session.all(&question, |row| Ok((row.int()?, (row.text()?, row.text()?))))?;
    let is_so = |row: &&Change| {
        let Change::Execution(change) = row else { return false };
        now.get(&change.execution.0).is_some_and(|(state, token)| {
            state == change.becomes().as_str() && *token == change.token_after().to_string()
        })
    };
    Ok(rows.iter().map(is_so).collect())
}

/// Writes the rows that follow changes: next attempts, and the ledger of moved cursors.
fn follow(session: &mut dyn Session, done: &[&Change]) -> Step<()> {
    let (mut attempts, mut repairs, mut ends) = (Vec::new(), Vec::<&Repair>::new(), Vec::new());
    for change in done {
        match change {
            Change::Execution(change) => {
                ends.extend(change.ends_run().map(|_| change));
                attempts.extend(change.transition.next().map(|next| (change, next)));
                stuck(session, change)?;
            }
            Change::Repair(repair) => repairs.push(repair),
            Change::Remove(RemoveChange { application, seen, now, .. }) => {
                triggers::end_where_it_stands(session, seen.id, &seen.state, *now)?;
                let waiting = waiting(session, application, seen.id)?;
                withdraw(session, &waiting, *now)?;
            }
            Change::AfterRun(_)
            | Change::Pause(_)
            | Change::Contain(_)
            | Change::Quarantine(_)
            | Change::Replace(_)
            | Change::Withdraw(_)
            | Change::Policy(_)
            | Change::Switch(_)
            | Change::PauseEnd(_)
            | Change::Nobody(_)
            | Change::Expected(_)
            | Change::End(_) => {}
        }
    }
    for attempts in attempts.chunks(session.dialect().batch()) {
        session.execute(&insert_attempts(session.dialect(), attempts))?;
    }
    for some in ends.chunks(session.dialect().batch()) {
        let ended = run_end::ended(session, some)?;
        let plans: Vec<Change> = ended.iter().map(|it| Change::AfterRun(it.plan.clone())).collect();
        make(session, &plans)?;
        run_end::record(session, &ended)?;
    }
    let anew: Vec<&Repair> = repairs.iter().copied().filter(|repair| repair.how == Move::Anew).collect();
    triggers::plan_anew(session, &anew)?;
    supersede(session, &repairs)?;
    let row = |repair: &&'_ Repair| repair.rows.len();
    let mut rows: Vec<(&Repair, &LedgerRow)> = Vec::with_capacity(repairs.iter().map(row).sum());
    for repair in repairs {
        rows.extend(repair.rows.iter().map(|row| (repair, row)));
    }
    for rows in rows.chunks(session.dialect().batch()) {
        insert_ledger(session, rows)?;
    }
    Ok(())
}

/// Notes that a handler runs on although its time is up, or that it does no longer.
fn stuck(session: &mut dyn Session, change: &ExecutionChange) -> Step<()> {
    let statement = match change.kind() {
        ChangeKind::TimeOut => {
            let insert = "INSERT INTO QRTZ_STUCK (execution_id, application, node) \
                          SELECT r.id, r.application, r.node FROM QRTZ_RUN r WHERE r.id = ?";
            let leave = session.dialect().or_leave("QRTZ_STUCK", "execution_id");
            sql(insert).bind(change.execution.0).push(&leave)
        }
        ChangeKind::Release => sql("DELETE FROM QRTZ_STUCK WHERE execution_id = ?").bind(change.execution.0),
        _ => return Ok(()),
    };
    session.execute(&statement).map(drop)
}

/// The PENDING executions of a schedule. They are read without a lock: on MariaDB a caller's transaction at
/// REPEATABLE READ would lock the gaps between them, too, where others' claims and executions are inserted.
pub(crate) fn waiting(
    session: &mut dyn Session,
    application: &str,
    schedule: ScheduleId,
) -> Step<Vec<ExecutionId>> {
    let question = sql(format!(
        "SELECT r.id FROM QRTZ_RUN r WHERE r.application = ? AND r.state = 'PENDING'{} AND r.queue = 0 \
         AND r.execute_id = ?",
        session.dialect().pending()
    ));
    session.all(&question.bind_all((application, schedule)), |row| row.int().map(ExecutionId))
}

/// The PENDING executions of a removed schedule end with it; how many did. Its row is locked: none is
/// claimed meanwhile. One that a caller's older snapshot does not show is left to the misfire handler, like
/// those that become PENDING later.
pub(crate) fn withdraw(session: &mut dyn Session, waiting: &[ExecutionId], now: Timestamp) -> Step<usize> {
    let changes = waiting.iter().map(|id| Change::Withdraw(WithdrawChange { execution: *id, now }));
    make(session, &changes.collect::<Vec<_>>())
}

answer! {
    struct WithdrawnRow() {
        execution: ExecutionId = "p.id", |row| row.int().map(ExecutionId);
        token: Option<Token> = "p.claim_token", Row::token;
        number: i64 = "p.attempt", Row::loose_int;
        schedule: ScheduleId = "p.execute_id", |row| row.int().map(ScheduleId);
        is_removed: bool = "CASE WHEN e.state = 'REMOVED' THEN 1 ELSE 0 END AS removed", Row::flag;
        name: String = "e.name", Row::loose_text;
        job: String = "j.job_class", Row::loose_text;
        delay: Option<i64> =
            "CASE WHEN e.job_type = 'DELAY' THEN e.repeat_interval END AS delay", Row::maybe_int;
    }
}

/// The PENDING executions of removed schedules, and those that were asked to cancel. Enqueued ones have no
/// schedule that might have been removed.
pub(crate) fn withdrawn(session: &mut dyn Session, application: &str, limit: usize) -> Step<Vec<Withdrawn>> {
    let question = sql(format!(
        "SELECT {} \
         FROM (SELECT r.id, r.claim_token, r.attempt, r.execute_id FROM QRTZ_RUN r \
         WHERE r.application = ? AND r.state = 'PENDING'{pending} AND r.queue = 0 \
         UNION SELECT r.id, r.claim_token, r.attempt, r.execute_id FROM QRTZ_CANCEL c \
         JOIN QRTZ_RUN r ON r.id = c.execution_id WHERE c.application = ? \
         AND r.state = 'PENDING'{pending}) AS p LEFT JOIN QRTZ_EXECUTE e ON e.id = p.execute_id \
         LEFT JOIN QRTZ_JOB j ON j.id = e.pid WHERE e.state = 'REMOVED' \
         OR EXISTS (SELECT 1 FROM QRTZ_CANCEL c WHERE c.execution_id = p.id) LIMIT ?",
        WithdrawnRow::columns(),
        pending = session.dialect().pending()
    ));
    let question = question.bind_all((application, application, limit));
    let rows: Vec<WithdrawnRow> = session.all(&question, WithdrawnRow::read)?;
    let withdrawn = |row: WithdrawnRow| {
        let WithdrawnRow { execution, schedule, .. } = row;
        let number = u32::try_from(row.number).unwrap_or(u32::MAX);
        let attempt =
            Attempt { execution, schedule: called(&row.name, schedule), job: row.job.into(), number };
        let reason = if row.is_removed { Reason::Removed } else { Reason::Cancelled };
        let plans = row.delay.map(|delay| RunEnd { schedule, delay });
        // One without a readable token was written by hand and stays.
        Some(Withdrawn { attempt, token: row.token?, reason, plans })
    };
    Ok(rows.into_iter().filter_map(withdrawn).collect())
}

/// Inserts the attempts that follow executions as this transaction has left them, unless they are there
/// already.
pub(crate) fn insert_attempts(dialect: Dialect, attempts: &[(&ExecutionChange, NextAttempt)]) -> Statement {
    let (changes, next) =
        (|| attempts.iter().map(|(change, _)| *change), || attempts.iter().map(|(_, next)| next));
    let want = BatchRows::new(changes().map(|change| change.execution.0))
        .texts("claim_token", changes().map(|change| change.token_after().to_string()))
        .texts("state", changes().map(|change| change.becomes().as_str().to_owned()))
        .times("due", next().map(|next| next.due))
        .texts("fresh", next().map(|next| next.token.to_string()))
        .texts("reason", next().map(|next| next.reason.as_str().to_owned()))
        .same("most", i64::from(u32::MAX - 1));
    let insert = insert_again("w.reason", "w.reason", "w.due", "w.fresh").push(" FROM ");
    // Somebody wrote an attempt that no poll can read the next of, or asked to cancel: it ends here. And
    // SQLite needs a WHERE to tell the join's ON from that of ON CONFLICT. No condition is on `r` alone, and
    // the one on attempts is none for an index: else PostgreSQL might begin with `r`, and read all of the
    // unique key that ends with attempts.
    insert.want(dialect, &want).push(&format!(
        " {} QRTZ_RUN r ON {} WHERE (r.attempt BETWEEN 0 AND w.most) IS TRUE \
         AND NOT EXISTS (SELECT 1 FROM QRTZ_CANCEL c WHERE c.execution_id = w.id){}",
        dialect.join(),
        guarded(dialect, &guard::SETTLED, "r"),
        dialect.or_leave("QRTZ_RUN", "attempt")
    ))
}

/// Begins to insert the attempt that follows `r`: where that comes from is to be appended.
pub(crate) fn insert_again(reason: &str, cause: &str, due: &str, token: &str) -> Statement {
    sql(format!(
        "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, until_time, \
         occurrences, attempt, state, reason, due_time, claim_token, prev_fire_time, following_fire_time, \
         payload, cause, failures, snoozes, priority, fence, unique_key, key_period, group_key, lane, tags, \
         headers, checkpoint) \
         SELECT r.application, r.execute_id, r.generation, r.origin, r.scheduled_time, r.until_time, \
         r.occurrences, r.attempt + 1, 'PENDING', {reason}, {due}, {token}, r.prev_fire_time, \
         r.following_fire_time, r.payload, {cause}, CASE WHEN r.state IN ('FAILED', 'TIMED_OUT') \
         THEN COALESCE(r.failures, 0) + 1 ELSE r.failures END, r.snoozes, r.priority, r.fence, r.unique_key, \
         r.key_period, r.group_key, r.lane, r.tags, r.headers, r.checkpoint"
    ))
}

/// The unstarted work of earlier misfire repairs gives way to that of these. What began meanwhile stays.
fn supersede(session: &mut dyn Session, repairs: &[&Repair]) -> Step<()> {
    let give_way = repairs.iter().flat_map(|repair| {
        repair.supersede.iter().map(|unstarted| Change::from(unstarted.supersede(repair.now)))
    });
    make(session, &give_way.collect::<Vec<_>>()).map(drop)
}

/// Makes changes of one kind whose losses do not matter; how many.
pub(crate) fn make(session: &mut dyn Session, changes: &[Change]) -> Step<usize> {
    let mut made = 0;
    for some in changes.chunks(session.dialect().batch()) {
        let rows: Vec<&Change> = some.iter().collect();
        let rule = some[0].rule();
        made += session.execute(&guarded_update(session.dialect(), rule, &rows, &want(rule, &rows)))?;
    }
    Ok(made)
}

fn insert_ledger(session: &mut dyn Session, rows: &[(&Repair, &LedgerRow)]) -> Step<()> {
    let dialect = session.dialect();
    let columns: Vec<LedgerColumns> = rows.iter().map(|(repair, row)| repair.columns_of(row)).collect();
    let lines = || columns.iter();
    let want = BatchRows::new(lines().map(|it| it.id))
        .times("at", lines().map(|it| it.at))
        .times("until", lines().map(|it| it.until))
        .ints("occurrences", lines().map(|it| it.occurrences))
        .texts("state", lines().map(|it| it.state.as_str().to_owned()))
        .texts("reason", lines().map(|it| it.reason.as_str().to_owned()))
        .texts("cause", lines().map(|it| it.cause.map_or("", Reason::as_str).to_owned()))
        .ints("holder", lines().map(|it| it.holder.map_or(0, |holder| holder.0)))
        .times("due", lines().map(|it| it.due))
        .texts("token", lines().map(|it| it.token.map(|token| token.to_string()).unwrap_or_default()))
        .times("finished", lines().map(|it| it.finished))
        .times("behind", lines().map(|it| it.prev))
        .times("following", lines().map(|it| it.following));
    let insert =
        sql("INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, until_time, \
                      occurrences, attempt, state, reason, due_time, claim_token, finished_time, \
                      prev_fire_time, following_fire_time, cause, holder) \
                      SELECT e.application, e.id, e.generation, w.at, w.until, w.occurrences, 1, w.state, \
                      w.reason, w.due, w.token, w.finished, w.behind, w.following, \
                      NULLIF(w.cause, ''), NULLIF(w.holder, 0) FROM ");
    let inserted = session.execute(&insert.want(dialect, &want).push(&format!(
        " {} {} ON {}",
        dialect.join(),
        dialect.by_id("QRTZ_EXECUTE", "e"),
        dialect.seek("e.id", "w.id")
    )))?;
    if inserted == want.len() {
        Ok(())
    } else {
        Err(Fault::undecodable(format!("{inserted} ledger rows were made instead of {}", want.len())))
    }
}

/// The statement that changes these rows, which are of one kind.
#[cfg(test)]
pub(crate) fn statement_for_test(dialect: Dialect, changes: &[Change]) -> Statement {
    let (rows, rule): (Vec<&Change>, _) = (changes.iter().collect(), changes[0].rule());
    guarded_update(dialect, rule, &rows, &want(rule, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_loses_its_nuls_and_its_end() {
        assert_eq!(tidy("a\0b".into(), LONGEST_ERROR), "ab");
        assert_eq!(tidy("ü".repeat(5_000).into(), LONGEST_ERROR).chars().count(), 4_000);
    }
}

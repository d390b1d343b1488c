//! Reruns: what the ledger says of a schedule's occurrences, the executions made of that, and their end.

use std::collections::HashMap;

use super::order::{ask, last_behind, touch};
use super::{audit, change, named};
use crate::domain::{ExecutionId, NextFire, Reason, ScheduleId, Timestamp, Token};
use crate::store::columns::When;
use crate::store::order::ExecutionOrder;
use crate::store::rerun::{
    BACKFILL, EndedRow, EndedSo, Ledger, LedgerPart, RERUN, Reran, RerunCancel, RerunCancelled, RerunFate,
    RerunOccurrence, RerunOrder, RerunPlan, RerunPreview, RerunSchedule, StoodAs, preview,
};
use crate::store::sql::rows::open_executions::in_states;
use crate::store::sql::session::batch::BatchRows;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, answer, listed, sql};
use crate::store::sql::session::{Session, now};
use crate::store::sql::views::covers::{FIRST_CAUSE, Stretch, first_of, generation_before};
use crate::store::{Applied, Change, ExecutionChange, Transition};
use crate::trigger::Timing;

answer! {
    /// The schedule of an order.
    struct Found() {
        id: i64 = "e.id", Row::int;
        state: String = "e.state", Row::loose_text;
        generation: i64 = "e.generation", Row::loose_int;
        next: Option<Timestamp> = "e.next_fire_time", Row::time;
        when: When = listed("e.", When::COLUMNS), |row| When::read(|| row.next());
    }
}

/// What an order would do now.
pub(crate) fn plan(session: &mut dyn Session, order: &RerunOrder) -> Step<RerunPreview> {
    match found(session, order, "")? {
        Some(found) => previewed(session, &found, order),
        None => Ok(RerunPreview::Unknown),
    }
}

/// Makes the executions. The schedule's row is locked first: of two requests one comes first, and the other
/// finds its executions.
pub(crate) fn rerun(session: &mut dyn Session, order: &RerunOrder) -> Step<Reran> {
    let lock = session.dialect().lock("e");
    let Some(found) = found(session, order, &lock)? else { return Ok(Reran::Unknown) };
    let plan = match previewed(session, &found, order)?.decided() {
        Ok(plan) => plan,
        Err(answer) => return Ok(answer),
    };
    touch(session, "QRTZ_EXECUTE", found.id, &order.application)?;
    let origin = audit::record_with_id(session, &order.entry(&plan))?;
    insert(session, (found.id, origin), order, &plan)?;
    Ok(Reran::Ordered { origin, plan })
}

fn found(session: &mut dyn Session, order: &RerunOrder, lock: &str) -> Step<Option<Found>> {
    let name = (&*order.application, &*order.schedule);
    let Some(named) = named::schedule(session, name, lock)? else { return Ok(None) };
    let question = sql(format!("SELECT {} FROM QRTZ_EXECUTE e WHERE ", Found::columns()));
    session.one(&question.and(named).push(lock), Found::read)
}

fn previewed(session: &mut dyn Session, found: &Found, order: &RerunOrder) -> Step<RerunPreview> {
    let schedule = RerunSchedule {
        state: &found.state,
        generation: found.generation,
        next: NextFire::stored(found.next),
        timing: found.when.timing().ok(),
    };
    let now = now(session)?;
    preview(&mut OfSchedule { session, id: found.id }, &schedule, &order.wanted, now)
}

fn insert(
    session: &mut dyn Session,
    (schedule, origin): (i64, i64),
    order: &RerunOrder,
    plan: &RerunPlan,
) -> Step<()> {
    let (dialect, now) = (session.dialect(), now(session)?);
    let due: Vec<(&RerunOccurrence, Timestamp)> =
        plan.run().enumerate().map(|(n, occurrence)| (occurrence, order.due(now, n))).collect();
    for some in due.chunks(dialect.batch()) {
        let want = BatchRows::new(some.iter().map(|_| schedule))
            .times("at", some.iter().map(|(it, _)| it.at))
            .times("behind", some.iter().map(|(it, _)| it.prev))
            .times("due", some.iter().map(|(_, due)| *due))
            .texts("token", some.iter().map(|_| Token::fresh().to_string()))
            .same("origin", origin)
            .same("word", Reason::Rerun.as_str());
        let insert =
            sql("INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, \
                          attempt, state, reason, cause, due_time, claim_token, prev_fire_time) \
                          SELECT e.application, e.id, e.generation, w.origin, w.at, 1, 'PENDING', w.word, \
                          w.word, w.due, w.token, w.behind FROM ");
        let inserted = session.execute(&insert.want(dialect, &want).push(&format!(
            " {} {} ON {}",
            dialect.join(),
            dialect.by_id("QRTZ_EXECUTE", "e"),
            dialect.seek("e.id", "w.id")
        )))?;
        if inserted != want.len() {
            let problem = format!("{inserted} executions of a rerun were made instead of {}", want.len());
            return Err(Fault::undecodable(problem));
        }
    }
    Ok(())
}

/// The ledger of one schedule.
struct OfSchedule<'a> {
    session: &'a mut dyn Session,
    id: i64,
}

answer! {
    EndedRow() {
        at = "r.scheduled_time", Row::instant;
        until = "r.until_time", Row::time;
        count = "r.occurrences", Row::loose_int;
        prev = "r.prev_fire_time", Row::time;
        fate = "r.state, CASE WHEN r.finished_time < 0 THEN 0 ELSE 1 END AS finished", fate;
        was = "r.state AS stood, r.reason", was;
    }
}

fn fate(row: &mut Row) -> Step<RerunFate> {
    let (state, has_finished) = (row.loose_text()?, row.flag()?);
    Ok(RerunFate::of(&state, has_finished))
}

fn was(row: &mut Row) -> Step<StoodAs> {
    Ok(StoodAs { state: row.loose_text()?, reason: row.loose_text()? })
}

/// That `r` is the last attempt at its occurrence. As a count: PostgreSQL would plan a join for a few rows.
const IS_LAST: &str = "(SELECT COUNT(*) FROM QRTZ_RUN l WHERE l.execute_id = r.execute_id \
     AND l.generation = r.generation AND l.origin = r.origin AND l.scheduled_time = r.scheduled_time \
     AND l.attempt = r.attempt + 1) = 0";

impl Ledger for OfSchedule<'_> {
    type Fault = Fault;

    fn generation_before(&mut self, generation: i64) -> Step<Option<(i64, Option<Timestamp>)>> {
        let schedule = ScheduleId(self.id);
        let Some(generation) = generation_before(self.session, schedule, generation)? else {
            return Ok(None);
        };
        let all = Stretch { schedule, generation, before: Timestamp::MAX };
        let first = self.session.one(&first_of(all), Row::maybe_instant)?.flatten();
        Ok(Some((generation, first)))
    }

    fn trigger_of(&mut self, generation: i64) -> Step<Option<Timing>> {
        let question = sql(format!(
            "SELECT {} FROM QRTZ_TRIGGER t WHERE t.execute_id = ? AND t.generation = ?",
            listed("t.", When::COLUMNS)
        ));
        let question = question.bind_all((self.id, generation));
        let when = self.session.one(&question, |row| When::read(|| row.next()))?;
        Ok(when.and_then(|when| when.timing().ok()))
    }

    fn ended(&mut self, part: LedgerPart, so: &EndedSo, most: usize) -> Step<Vec<EndedRow>> {
        self.session.all(&ended_in(self.id, part, so, most), EndedRow::read)
    }

    fn reaching_in(&mut self, part: LedgerPart, so: &EndedSo) -> Step<Option<EndedRow>> {
        let row = self.session.one(&reaching_in(self.id, part), EndedRow::read)?;
        let is_so = |row: &EndedRow| {
            so.states.iter().any(|it| it.as_str() == row.was.state)
                && so.reason.as_ref().is_none_or(|wanted| *wanted == row.was.reason)
        };
        Ok(row.filter(is_so).filter(|row| row.until.is_some_and(|until| until >= part.from)))
    }

    fn planned_at(
        &mut self,
        generation: i64,
        times: &[Timestamp],
    ) -> Step<Vec<(Timestamp, RerunFate, StoodAs)>> {
        let mut found = Vec::new();
        for some in times.chunks(self.session.dialect().batch()) {
            let question = sql("SELECT r.scheduled_time, r.state, CASE WHEN r.finished_time < 0 THEN 0 \
                                ELSE 1 END AS finished, r.state AS stood, r.reason FROM QRTZ_RUN r \
                                WHERE r.execute_id = ? AND r.generation = ? AND r.origin = 0 \
                                AND r.scheduled_time IN ");
            let question = question.bind_all((self.id, generation)).list(some.iter().copied());
            let question = question.push(&format!(" AND {IS_LAST}"));
            let read = |row: &mut Row| Ok((row.instant()?, fate(row)?, was(row)?));
            let rows: Vec<_> = self.session.all(&question, read)?;
            found.extend(rows);
        }
        Ok(found)
    }

    fn reruns(
        &mut self,
        generation: i64,
        (first, last): (Timestamp, Timestamp),
    ) -> Step<Vec<(Timestamp, RerunFate)>> {
        self.session.all(&reruns_of(self.id, generation, (first, last)), |row| {
            let (at, has_succeeded, is_open) = (row.instant()?, row.flag()?, row.flag()?);
            Ok((at, RerunFate::of_all(has_succeeded, is_open)))
        })
    }
}

pub(crate) fn ended_in(schedule: i64, part: LedgerPart, so: &EndedSo, most: usize) -> Statement {
    let question = sql(format!(
        "SELECT {} FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin = 0 \
         AND r.scheduled_time >= ? AND r.scheduled_time < ?",
        EndedRow::columns()
    ));
    let question = question.bind_all((schedule, part.generation, part.from, part.before));
    in_states(question, &so.states)
        .given(" AND r.reason = ?", so.reason.as_deref())
        .push(&format!(" AND {IS_LAST} ORDER BY r.generation, r.origin, r.scheduled_time, r.attempt LIMIT ?"))
        .bind(most)
}

/// The row before a part, its state and reason first.
fn reaching_in(schedule: i64, part: LedgerPart) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_RUN r WHERE r.execute_id = ? \
         AND r.generation = ? AND r.origin = 0 AND r.scheduled_time < ? \
         ORDER BY r.generation DESC, r.origin DESC, r.scheduled_time DESC, r.attempt DESC LIMIT 1",
        EndedRow::columns()
    ))
    .bind_all((schedule, part.generation, part.from))
}

pub(crate) fn reruns_of(schedule: i64, generation: i64, (first, last): (Timestamp, Timestamp)) -> Statement {
    sql(format!(
        "SELECT r.scheduled_time, MAX(CASE WHEN r.state = 'SUCCEEDED' THEN 1 ELSE 0 END) AS succeeded, \
         MAX(CASE WHEN r.state IN ('PENDING', 'CLAIMED', 'RUNNING') \
         OR (r.state = 'TIMED_OUT' AND r.finished_time < 0) THEN 1 ELSE 0 END) AS is_open \
         FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin > 0 \
         AND r.scheduled_time >= ? AND r.scheduled_time <= ? AND {FIRST_CAUSE} = '{}' \
         GROUP BY r.scheduled_time",
        Reason::Rerun.as_str()
    ))
    .bind_all((schedule, generation, first, last))
}

answer! {
    /// An execution of a rerun that has not ended.
    struct OpenRerun() {
        id: i64 = "r.id", Row::int;
        has_begun: bool = "CASE WHEN r.state IN ('PENDING', 'CLAIMED') THEN 0 ELSE 1 END AS begun", Row::flag;
        token: Option<Token> = "r.claim_token", Row::token;
    }
}

/// Cancels the executions of a rerun that have not begun, and asks for the end of those that run. Their rows
/// are locked, so that they neither begin nor end meanwhile. An outcome that came first may have inserted a
/// retry: they are looked for until no other is found, nor one that the caller's snapshot lacks.
pub(crate) fn cancel(session: &mut dyn Session, order: &RerunCancel) -> Step<RerunCancelled> {
    let audited = rerun_of(session, order)?;
    let found = audited.map_or_else(|| waiting_rerun(session, order), |found| Ok(Some(found)))?;
    let Some((name, schedule)) = found else { return Ok(RerunCancelled::Unknown) };
    let Some(generation) = generation_of(session, schedule, order.origin)? else {
        return Ok(RerunCancelled::Ended);
    };
    let (mut known, mut cancelled, mut asked) = (Vec::new(), 0, 0);
    loop {
        let mut open = open_of(session, (schedule, generation, order.origin))?;
        open.retain(|it| !known.contains(&it.id));
        if open.is_empty() {
            if has_another(session, (schedule, generation, order.origin))? {
                continue;
            }
            break;
        }
        known.extend(open.iter().map(|it| it.id));
        for it in open.iter().filter(|it| it.has_begun) {
            let by = order.by.clone();
            let one = ExecutionOrder::new(order.application.clone(), ExecutionId(it.id), by);
            asked += usize::from(ask(session, &one)?);
        }
        cancelled += cancel_waiting(session, &open)?;
    }
    if cancelled + asked == 0 {
        return Ok(RerunCancelled::Ended);
    }
    audit::record(session, &order.entry(&name, (cancelled, asked)))?;
    Ok(RerunCancelled::Done { cancelled, asked })
}

/// Whether another attempt at an execution of a rerun has been inserted since they were looked for. It is a
/// conflict if the caller's snapshot is older than that: nothing but a lock would show the attempt.
fn has_another(session: &mut dyn Session, place: (i64, i64, i64)) -> Step<bool> {
    let (dialect, lock) = (session.dialect(), session.dialect().lock_to_see("r"));
    if lock.is_empty() {
        return Ok(false);
    }
    // Whatever inserts an attempt changes the row before it. None follows a success.
    let columns = "SELECT r.id, r.state, r.claim_token, r.touched FROM QRTZ_RUN r WHERE ";
    let read = |row: &mut Row| Ok((row.int()?, (row.loose_text()?, row.loose_text()?, row.maybe_int()?)));
    let shown = sql(columns).push("r.execute_id = ? AND r.generation = ? AND r.origin = ?").bind_all(place);
    let shown: HashMap<i64, _> = session.all(&shown, read)?;
    let mut ids: Vec<i64> = shown.keys().copied().collect();
    ids.sort_unstable();
    for some in ids.chunks(dialect.batch()) {
        let present = sql(columns).push("r.state <> 'SUCCEEDED' AND r.id IN ").list(some.iter().copied());
        let present = present.push(&format!(" {}{lock}", dialect.in_order("r.id")));
        let present: Vec<(i64, _)> = session.all(&present, read)?;
        for (id, _) in present.into_iter().filter(|(id, is)| shown.get(id) != Some(is)) {
            let behind = last_behind(session, ExecutionId(id), &dialect.lock_to_see("l"))?;
            let Some(ExecutionId(attempt)) = behind.filter(|it| !shown.contains_key(&it.0)) else { continue };
            let visible = sql("SELECT r.id FROM QRTZ_RUN r WHERE r.id = ?").bind(attempt);
            if session.one(&visible, Row::int)?.is_none() {
                let problem = format!("execution {attempt} was made since the caller's transaction began");
                return Err(Fault::new(FaultKind::Conflict, problem));
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Cancels those that have not begun, which are locked. One without a readable token was written by hand and
/// stays.
fn cancel_waiting(session: &mut dyn Session, open: &[OpenRerun]) -> Step<usize> {
    let now = now(session)?;
    let cancel = |it: &OpenRerun| {
        let cancel = Transition::Cancel(Reason::Cancelled);
        Some(Change::from(ExecutionChange::of(ExecutionId(it.id), it.token?, cancel, now)))
    };
    let changes: Vec<Change> = open.iter().filter(|it| !it.has_begun).filter_map(cancel).collect();
    if change::apply(session, &changes)?.iter().any(|applied| *applied != Applied::Done) {
        return Err(Fault::new(FaultKind::Conflict, "an execution that is locked has changed"));
    }
    Ok(changes.len())
}

/// The name and the id of the schedule of a rerun, by its entry in the audit.
fn rerun_of(session: &mut dyn Session, order: &RerunCancel) -> Step<Option<(String, i64)>> {
    let question = sql("SELECT e.name, e.id FROM QRTZ_AUDIT a JOIN QRTZ_EXECUTE e \
                        ON e.application = a.application AND e.name = a.target \
                        WHERE a.id = ? AND a.application = ? AND a.verb IN (?, ?)");
    let question = question.bind_all((order.origin, order.application.as_str(), RERUN, BACKFILL));
    session.one(&question, |row| Ok((row.loose_text()?, row.int()?)))
}

/// The same by an execution that waits: a slow pace may outlast the audit's entry.
fn waiting_rerun(session: &mut dyn Session, order: &RerunCancel) -> Step<Option<(String, i64)>> {
    let question = sql(format!(
        "SELECT e.name, e.id FROM QRTZ_RUN r JOIN QRTZ_EXECUTE e ON e.id = r.execute_id \
         WHERE r.application = ? AND r.state = 'PENDING'{} AND r.queue = 0 AND r.origin = ? \
         AND {FIRST_CAUSE} = '{}' LIMIT 1",
        session.dialect().pending(),
        Reason::Rerun.as_str()
    ));
    let question = question.bind_all((order.application.as_str(), order.origin));
    session.one(&question, |row| Ok((row.loose_text()?, row.int()?)))
}

/// The generation that a rerun's executions belong to; none if they are gone.
fn generation_of(session: &mut dyn Session, schedule: i64, origin: i64) -> Step<Option<i64>> {
    let mut last = i64::MAX;
    while let Some(generation) = generation_before(session, ScheduleId(schedule), last)? {
        let question = sql("SELECT r.id FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? \
                            AND r.origin = ? LIMIT 1");
        if session.one(&question.bind_all((schedule, generation, origin)), Row::int)?.is_some() {
            return Ok(Some(generation));
        }
        last = generation;
    }
    Ok(None)
}

fn open_of(
    session: &mut dyn Session,
    (schedule, generation, origin): (i64, i64, i64),
) -> Step<Vec<OpenRerun>> {
    const IS_OPEN: &str = "(r.state IN ('PENDING', 'CLAIMED', 'RUNNING') \
         OR (r.state = 'TIMED_OUT' AND r.finished_time < 0))";
    // They are read without a lock first: on MariaDB one on a part of the key would also lock the gap where
    // the schedule's next claim inserts its row.
    let dialect = session.dialect();
    let question = sql(format!(
        "SELECT r.id FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? AND r.origin = ? \
         AND {IS_OPEN} ORDER BY r.id"
    ));
    let ids: Vec<i64> = session.all(&question.bind_all((schedule, generation, origin)), Row::int)?;
    let mut open = Vec::with_capacity(ids.len());
    for ids in ids.chunks(dialect.batch()) {
        let question = sql(format!("SELECT {} FROM QRTZ_RUN r WHERE r.id IN ", OpenRerun::columns()));
        let still = format!(" AND {IS_OPEN} {}{}", dialect.in_order("r.id"), dialect.lock("r"));
        let some: Vec<OpenRerun> =
            session.all(&question.list(ids.iter().copied()).push(&still), OpenRerun::read)?;
        open.extend(some);
    }
    Ok(open)
}

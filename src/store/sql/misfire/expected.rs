//! Schedules that are to succeed within a span of each fire time.

use std::ops::Range;

use crate::domain::{ExecutionState, Millis, ScheduleId, ScheduleState, Timestamp};
use crate::store::Applied;
use crate::store::expected::{
    EXCUSES, Expectation, ExpectedPage, ExpectedQuery, Expecting, MOST_BY_HAND, Record, verdict,
};
use crate::store::repairs::called;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, sql};
use crate::store::sql::verbs::switch::apply_audited;

/// The ledger is asked about so many schedules in one call: after an outage all are in question.
const MOST_ASKED: usize = 50;
/// And about no other once so many rows were looked at: each schedule may have many attempts without success.
const MOST_READ: usize = 10_000;
/// The newest attempts at first looked at of a schedule.
const FIRST_STEP: usize = 100;
/// The attempts that one statement looks at behind those.
const STEP: usize = 1_000;

/// The ledger is asked about those alone that are not well by what their own rows say.
pub(crate) fn expected(session: &mut dyn Session, query: &ExpectedQuery) -> Step<ExpectedPage> {
    let rows: Vec<ExpectingRow> = session.all(&page(query), ExpectingRow::read)?;
    let next = rows.last().filter(|_| rows.len() == query.limit).map(|row| ScheduleId(row.id));
    let mut page = ExpectedPage { next, ..ExpectedPage::default() };
    let (mut asked, mut read, mut last) = (0, 0, query.after);
    for row in rows {
        if asked == MOST_ASKED || read >= MOST_READ {
            page.next = Some(last);
            break;
        }
        let (id, newest) = (ScheduleId(row.id), row.newest);
        last = id;
        match row.expecting(&query.application) {
            Some(of) if of.is_in_question(newest, query.now) => {
                let (record, looked_at) = record(session, &of, query.now)?;
                (asked, read) = (asked + 1, read + looked_at);
                page.found.extend(verdict(&of, record, query.now));
            }
            Some(_) => {}
            None => page.gone.push(id),
        }
    }
    Ok(page)
}

/// What has succeeded since the schedule was looked at keeps it from being noted, however long that is ago:
/// the process may have been stopped in between.
pub(crate) fn note(session: &mut dyn Session, query: &ExpectedQuery, found: &Expectation) -> Step<Applied> {
    let after = ScheduleId(found.change.schedule.0 - 1);
    let again = expected(session, &ExpectedQuery { after, skip: 0, limit: 1, ..query.clone() })?;
    if again.found.first() != Some(found) {
        return Ok(Applied::Lost);
    }
    let (change, audit) = found.note(&query.application);
    apply_audited(session, &change, &audit)
}

pub(crate) fn expect(session: &mut dyn Session, schedules: &[ScheduleId]) -> Step<()> {
    let insert = "INSERT INTO QRTZ_EXPECTED (id, application) SELECT e.id, e.application \
                  FROM QRTZ_EXECUTE e WHERE e.expected_by IS NOT NULL AND e.state <> 'REMOVED' AND e.id IN ";
    let leave = session.dialect().or_leave("QRTZ_EXPECTED", "id");
    session.execute(&sql(insert).list(schedules.iter().map(|id| id.0)).push(&leave)).map(drop)
}

pub(crate) fn expect_no_longer(
    session: &mut dyn Session,
    application: &str,
    schedules: &[ScheduleId],
) -> Step<()> {
    let delete = "DELETE FROM QRTZ_EXPECTED WHERE NOT EXISTS (SELECT 1 FROM QRTZ_EXECUTE e \
                  WHERE e.id = QRTZ_EXPECTED.id AND e.state <> 'REMOVED' AND e.expected_by IS NOT NULL) \
                  AND QRTZ_EXPECTED.application = ? AND QRTZ_EXPECTED.id IN ";
    session.execute(&sql(delete).bind(application).list(schedules.iter().map(|id| id.0))).map(drop)
}

answer! {
    struct ExpectingRow() {
        id: i64 = "x.id", Row::int;
        is_there: bool =
            "CASE WHEN e.id IS NULL OR e.state = 'REMOVED' THEN 0 ELSE 1 END AS there", Row::flag;
        name: String = "e.name", Row::loose_text;
        generation: i64 = "e.generation", Row::loose_int;
        expected_by: Option<Millis> = "e.expected_by", Row::maybe_int;
        state: Option<ScheduleState> = "e.state", Row::state;
        is_contained: bool = "CASE WHEN e.paused_by = 'firetime' THEN 1 ELSE 0 END AS contained", Row::flag;
        has_active_job: bool =
            "CASE WHEN j.state = 'EXECUTING' THEN 1 ELSE 0 END AS job_is_active", Row::flag;
        next: Option<Timestamp> = "e.next_fire_time", Row::time;
        resumed: Option<Timestamp> = "e.resumed_time", Row::time;
        unmet: Option<Timestamp> = "x.unmet_time", Row::time;
        /// What became of the newest occurrence whose time is up: by the ledger's unique key.
        newest: Option<ExecutionState> = "(SELECT r.state FROM QRTZ_RUN r WHERE r.execute_id = e.id \
            AND r.generation = e.generation AND r.origin = 0 AND r.scheduled_time <= ? - e.expected_by \
            ORDER BY r.generation DESC, r.origin DESC, r.scheduled_time DESC, r.attempt DESC LIMIT 1) \
            AS newest", Row::word;
    }
}

impl ExpectingRow {
    /// None if nothing is expected any more.
    fn expecting(self, application: &str) -> Option<Expecting> {
        let (id, expected_by) = (ScheduleId(self.id), self.expected_by.filter(|_| self.is_there)?);
        Some(Expecting {
            application: application.into(),
            id,
            name: called(&self.name, id),
            generation: self.generation,
            expected_by,
            state: self.state,
            is_contained: self.is_contained,
            has_active_job: self.has_active_job,
            next: self.next,
            resumed: self.resumed,
            unmet: self.unmet,
        })
    }
}

pub(crate) fn page(query: &ExpectedQuery) -> Statement {
    let application = query.application.as_str();
    let question = sql(format!(
        "SELECT {} FROM QRTZ_EXPECTED x LEFT JOIN QRTZ_EXECUTE e ON e.id = x.id \
         LEFT JOIN QRTZ_JOB j ON j.id = e.pid WHERE x.application = ? AND x.id > ",
        ExpectingRow::columns()
    ));
    let question = question.bind_all((query.now, application));
    // As an OFFSET of the question itself it would ask the ledger about those that are left out.
    let question = match query.skip.checked_sub(1) {
        None => question.push("?").bind(query.after),
        Some(between) => question
            .push(
                "COALESCE((SELECT y.id FROM QRTZ_EXPECTED y WHERE y.application = ? AND y.id > ? \
                 ORDER BY y.id LIMIT 1 OFFSET ?), ?)",
            )
            .bind_all((application, query.after, between, i64::MAX)),
    };
    question.push(" ORDER BY x.id LIMIT ?").bind(query.limit)
}

answer! {
    /// The newest attempts: how many were looked at, the first fire time among them, and the last of a
    /// success.
    struct Newest() {
        looked_at: i64 = "COUNT(*) AS looked_at", Row::int;
        oldest: Option<Timestamp> = "MIN(s.scheduled_time) AS oldest", Row::maybe_instant;
        success: Option<Timestamp> =
            "MAX(CASE WHEN s.state = 'SUCCEEDED' THEN s.scheduled_time END) AS success", Row::maybe_instant;
    }
}

/// What the ledger has of a schedule, and how many of its attempts were looked at for that: in steps, as
/// mostly one of the newest has succeeded.
fn record(session: &mut dyn Session, of: &Expecting, now: Timestamp) -> Step<(Record, usize)> {
    let (since, most) = (of.since(), of.most_attempts());
    let (mut before, mut looked_at, mut planned) = (Timestamp::MAX, 0, None);
    // Success may lie before what was looked at.
    let cut = loop {
        let step = if looked_at == 0 { FIRST_STEP } else { STEP.min(most - looked_at) };
        let Some(found) = session.one(&newest(of, since..before, step), Newest::read)? else { break None };
        let rows = usize::try_from(found.looked_at).unwrap_or(step);
        (looked_at, planned) = (looked_at + rows, found.success);
        match found.oldest.filter(|_| rows == step) {
            None => break None,
            oldest if planned.is_some() || looked_at >= most => break oldest,
            Some(oldest) => before = oldest,
        }
    };
    let by_hand = session.one(&by_hand(of, since), Row::maybe_instant)?.flatten();
    let success = planned.max(by_hand);
    if of.unmet.is_some() {
        return Ok((Record { success, missed: None }, looked_at));
    }
    let behind = success.max(cut).unwrap_or(since - 1);
    let missed = session.one(&missed(of, behind, now), Row::instant)?;
    Ok((Record { success, missed }, looked_at))
}

pub(crate) fn newest(of: &Expecting, due: Range<Timestamp>, most: usize) -> Statement {
    sql(format!(
        "SELECT {} FROM (SELECT r.scheduled_time, r.state FROM QRTZ_RUN r WHERE r.execute_id = ? \
         AND r.generation = ? AND r.origin = 0 AND r.scheduled_time >= ? AND r.scheduled_time < ? \
         ORDER BY r.scheduled_time DESC, r.attempt DESC LIMIT ?) AS s",
        Newest::columns()
    ))
    .bind_all((of.id, of.generation, due.start, due.end, most))
}

pub(crate) fn by_hand(of: &Expecting, since: Timestamp) -> Statement {
    sql("SELECT MAX(CASE WHEN s.state = 'SUCCEEDED' AND s.scheduled_time >= ? THEN s.scheduled_time END) \
         AS success FROM (SELECT r.scheduled_time, r.state FROM QRTZ_RUN r WHERE r.execute_id = ? \
         AND r.generation = ? AND r.origin > 0 \
         ORDER BY r.origin DESC, r.scheduled_time DESC, r.attempt DESC LIMIT ?) AS s")
    .bind_all((since, of.id, of.generation, MOST_BY_HAND))
}

pub(crate) fn missed(of: &Expecting, behind: Timestamp, now: Timestamp) -> Statement {
    let excuses = EXCUSES.map(|reason| format!("'{}'", reason.as_str())).join(", ");
    sql(format!(
        "SELECT r.scheduled_time FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = ? \
         AND r.origin = 0 AND r.scheduled_time > ? AND r.scheduled_time <= ? AND r.state <> 'WITHDRAWN' \
         AND (r.state <> 'SKIPPED' OR r.reason NOT IN ({excuses})) \
         ORDER BY r.scheduled_time, r.attempt LIMIT 1"
    ))
    .bind_all((of.id, of.generation, behind, of.cutoff(now)))
}

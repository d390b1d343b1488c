//! The ledger of a whole database, for the judge of simulations.

use super::fixture::LIMITS;
use crate::sim::judge::Execution;
use crate::store::sql::connection::target::Target;
use crate::store::sql::session::statement::{Row, sql};

pub(crate) fn ledger(url: &str) -> Vec<Execution> {
    let question =
        sql("SELECT r.id, COALESCE(e.name, ''), r.generation, r.origin, r.scheduled_time, r.until_time, \
         r.occurrences, r.attempt, r.state, r.reason, r.fence, r.node, r.due_time, r.claimed_time, \
         r.finished_time, r.prev_fire_time, r.following_fire_time FROM QRTZ_RUN r LEFT JOIN QRTZ_EXECUTE e \
         ON e.id = r.execute_id");
    let mut session = Target::parse(url).unwrap().connect(LIMITS).unwrap();
    session.rows(&question).unwrap().into_iter().map(execution).collect()
}

fn execution(mut row: Row) -> Execution {
    Execution {
        id: row.int().unwrap(),
        schedule: row.text().unwrap(),
        generation: row.int().unwrap(),
        origin: row.int().unwrap(),
        group: None,
        scheduled: row.int().unwrap(),
        until: some(&mut row),
        count: row.int().unwrap(),
        attempt: row.int().unwrap().try_into().unwrap(),
        state: row.text().unwrap(),
        reason: row.text().unwrap(),
        fence: row.int().unwrap(),
        node: row.text().unwrap(),
        due: row.int().unwrap(),
        claimed: some(&mut row),
        finished: some(&mut row),
        prev: some(&mut row),
        following: some(&mut row),
        holder: None,
    }
}

fn some(row: &mut Row) -> Option<i64> {
    Some(row.int().unwrap()).filter(|time| *time != -1)
}

//! What the database could do if there were no scheduler: the bare batch claim, on one connection.

use std::time::Instant;

use chrono::Utc;

use crate::Result;
use crate::load;
use crate::server::{Server, ServerKind};

const BATCH: usize = 256;

/// Rows per second: batches of the rows of a backlog, each one transaction of a guarded UPDATE and the INSERT
/// of a plain log row for each row moved. A batch is one round trip.
pub fn rows_per_second(server: &Server, rows: usize) -> Result<f64> {
    let database = server.fresh()?;
    firetime::migrate(&database.url)?;
    let due = Utc::now() + chrono::TimeDelta::hours(1);
    load::backlog(&database, rows, due)?;
    let mut connection = database.connect()?;
    connection.batch(
        "CREATE TABLE bench_log (execute_id BIGINT NOT NULL, fire_time BIGINT NOT NULL, moved_time BIGINT NOT NULL, \
         PRIMARY KEY (execute_id, fire_time))",
    )?;
    database.settle()?;
    let first = connection.number("SELECT MIN(id) AS n FROM QRTZ_EXECUTE")?;
    let last = connection.number("SELECT MAX(id) AS n FROM QRTZ_EXECUTE")?;
    let began = Instant::now();
    for from in (first..=last).step_by(BATCH) {
        connection.batch(&batch(server.kind, from, due.timestamp_millis()))?;
    }
    let took = began.elapsed().as_secs_f64();
    let moved = connection.number("SELECT COUNT(*) AS n FROM bench_log")?;
    if usize::try_from(moved)? != rows {
        return Err(format!("the bare batch claim moved {moved} of {rows} rows").into());
    }
    #[expect(clippy::cast_precision_loss, reason = "a million at most")]
    Ok(rows as f64 / took)
}

fn batch(kind: ServerKind, from: i64, due: i64) -> String {
    let begin = match kind {
        ServerKind::Sqlite => "BEGIN IMMEDIATE",
        ServerKind::Postgres | ServerKind::Mariadb => "BEGIN",
    };
    let range = format!("id BETWEEN {from} AND {}", from + BATCH as i64 - 1);
    format!(
        "{begin}; \
         UPDATE QRTZ_EXECUTE SET state = 'COMPLETE', prev_fire_time = next_fire_time, next_fire_time = -1, \
                fence = fence + 1 \
          WHERE {range} AND state = 'EXECUTING' AND prev_fire_time = -1 AND next_fire_time = {due}; \
         INSERT INTO bench_log (execute_id, fire_time, moved_time) \
         SELECT id, prev_fire_time, {due} FROM QRTZ_EXECUTE \
          WHERE {range} AND state = 'COMPLETE' AND prev_fire_time = {due}; \
         COMMIT"
    )
}

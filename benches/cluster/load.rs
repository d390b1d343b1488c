//! The schedules of a workload.

use std::ops::Range;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{Client, Overlap, Schedule, Trigger};

use crate::Result;
use crate::arguments::{Arguments, Workload};
use crate::node::{APPLICATION, NOTHING};
use crate::server::{Database, ServerKind};

/// So many of a backlog are made by the library. The others are their copies, written by one statement.
const ORIGINALS: usize = 64;

/// Copies are dealt out to the shards in turn, 1,250 of 20,000 to each; by the hash of their names it would
/// be 1,225 to 1,275.
const SHARD: &str = "n % 16";

/// The columns of a copy, but for its name.
const SAME: &str = "application, shard, pid, job_type, state, cron, zone_id, repeat_count, repeat_interval, \
    time_triggered, prev_fire_time, next_fire_time, start_time, end_time, payload, version, \
    generation, fence, priority, misfire, threshold, dst_gap, dst_fold, reason, paused_by, paused_until";

/// The schedule number `n` is called this and `n`.
const NAME: &str = "bench-";

pub fn number_of(name: &str) -> usize {
    name.strip_prefix(NAME).and_then(|number| number.parse().ok()).unwrap_or(usize::MAX)
}

/// How overdue the schedules of a catch-up are when loading begins: twice the misfire threshold.
const OVERDUE: TimeDelta = TimeDelta::seconds(120);

/// How long before the first fire time loading begins, for loading and the nodes' start.
pub fn lead(arguments: &Arguments) -> TimeDelta {
    let schedules = i64::try_from(arguments.schedules()).unwrap_or(i64::MAX);
    let among = i64::try_from(arguments.among).unwrap_or(i64::MAX);
    let loading = match arguments.workload {
        Workload::Backlog => (schedules + among) / 10,
        Workload::Catchup => return -OVERDUE,
        Workload::Precision => schedules * 6,
        Workload::Enqueue | Workload::Bulk | Workload::Waiting => 0,
    };
    TimeDelta::milliseconds(14_000 + loading)
}

/// Makes the workload's schedules; the first fires at `start`.
pub fn load(database: &Database, arguments: &Arguments, start: DateTime<Utc>) -> Result<()> {
    match arguments.workload {
        Workload::Backlog => {
            backlog(database, arguments.schedules(), start)?;
            among(database, arguments.among)
        }
        Workload::Catchup => backlog(database, arguments.schedules(), start),
        Workload::Precision => precision(database, arguments, start),
        Workload::Enqueue | Workload::Bulk | Workload::Waiting => Ok(()),
    }
}

/// One-shot schedules, all due at `start`.
pub fn backlog(database: &Database, count: usize, start: DateTime<Utc>) -> Result<()> {
    let client = Client::connect(APPLICATION, &database.url)?;
    for n in 0..count.min(ORIGINALS) {
        client.ensure(&Schedule::new(&format!("{NAME}{n}"), NOTHING, &(), Trigger::once(start)?)?).run()?;
    }
    if count > ORIGINALS {
        database.connect()?.batch(&insert(database.kind, NAME, ORIGINALS..count, SAME))?;
    }
    Ok(())
}

/// So many more that are due a year later.
fn among(database: &Database, count: usize) -> Result<()> {
    const YEAR: i64 = 365 * 24 * 3_600_000;
    if count == 0 {
        return Ok(());
    }
    let later = |values: String, column| values.replace(column, &format!("{column} + {YEAR}"));
    let values = ["next_fire_time", "start_time"].into_iter().fold(SAME.to_owned(), later);
    database.connect()?.batch(&insert(database.kind, "later-", 0..count, &values))
}

/// Copies of the first schedules, called `name` and their number; `values` are those of the columns [`SAME`].
fn insert(kind: ServerKind, name: &str, numbers: Range<usize>, values: &str) -> String {
    let Range { start, end } = numbers;
    let values = values.replace("shard", SHARD);
    let deep = match kind {
        ServerKind::Mariadb => format!("SET SESSION max_recursive_iterations = {end};"),
        ServerKind::Postgres | ServerKind::Sqlite => String::new(),
    };
    format!(
        "{deep} INSERT INTO QRTZ_EXECUTE (name, {SAME}) \
         WITH RECURSIVE numbers(n) AS (SELECT {start} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {end}) \
         SELECT CONCAT('{name}', n), {values} FROM numbers \
           JOIN QRTZ_EXECUTE e ON e.application = '{APPLICATION}' AND e.name = CONCAT('{NAME}', n % {ORIGINALS})"
    )
}

/// Schedules that fire every second, spread over the second: separate claims, not one batch.
fn precision(database: &Database, arguments: &Arguments, start: DateTime<Utc>) -> Result<()> {
    let client = Client::connect(APPLICATION, &database.url)?;
    let (count, seconds) = (i64::try_from(arguments.schedules())?, i64::try_from(arguments.seconds())?);
    for n in 0..count {
        let first = start + TimeDelta::milliseconds(1_000 * n / count);
        let last = first + TimeDelta::seconds(seconds - 1);
        let trigger = Trigger::every(Duration::from_secs(1))?.starting(first)?;
        let schedule = Schedule::new(&format!("{NAME}{n}"), NOTHING, &(), trigger)?.ending(last);
        let rule = if arguments.allow { Overlap::Allow } else { Overlap::Skip };
        client.ensure(&schedule.overlap(rule)).run()?;
    }
    Ok(())
}

//! Runs beside a pulse: a schedule of another job, due each second, that must go on whatever happens beside
//! it.

use std::time::Duration;

use firetime::{Job, Schedule, Trigger};
use serde::Serialize;

use super::cluster::{Cluster, Listener, PATIENT, Settled, Setup, now};
use super::hand::Hand;
use super::is_served;
use super::job::{BULKY, PULSE, TICK, UNLISTED, failure};
use super::load::instant;
use super::runs::{CONNECTIONS, LOG_LINES};
use crate::support::database::ServerKind;
use crate::support::poison_jobs::peak_memory;

const SECOND: Duration = Duration::from_secs(1);
/// A poll interval and a store call.
const PULSE_GAP: i64 = 8_000;
const PULSE_GOES_ON: &str =
    "while the database works, a schedule starts at most one poll and one store call late";
/// Megabytes of a node.
const MEMORY: i64 = 192;
/// Overdue schedules begin within this: 15 s until the handler's next pass, then some 700 of them a second.
const CATCH_UP: i64 = 45_000;

impl Cluster {
    /// The pulse's first and last instant.
    fn pulse_span(&self) -> (i64, i64) {
        let times = &self.load.times[PULSE.name()];
        (times[0], times[times.len() - 1])
    }

    /// The pulse never paused for long, but for the time in which the database did not work.
    pub fn check_pulse(&mut self, settled: &Settled, outage: Option<(i64, i64)>) {
        let (first, last) = self.pulse_span();
        let (down, up) = outage.unwrap_or((last, last));
        let gap = |span| settled.longest_gap(PULSE.name(), span);
        let gap = gap((first, down)).max(gap((up, last)));
        self.report.promise(PULSE_GOES_ON, "pulse_gap_ms", gap, PULSE_GAP);
    }

    /// Lets time pass until the pulse's last start.
    fn watch_pulse(&mut self) {
        const SLACK: i64 = 1_000;
        let (first, last) = self.pulse_span();
        while now() < last {
            self.during(SECOND);
            let silent = now() - self.last_pulse.max(first);
            assert!(silent < PULSE_GAP + SLACK, "{}: no start for {silent} ms: {PULSE_GOES_ON}", self.name);
        }
    }

    fn check_memory(&mut self, peak: i64) {
        self.report.promise("a node's memory stays bounded", "memory_mb", peak, MEMORY);
    }

    /// Nobody was declared dead, and no attempt was given up.
    fn check_lives(&self, settled: &Settled) {
        assert_eq!(settled.history.dead.len(), 0, "{}: a node that lives was declared dead", self.name);
        settled.assert_none_abandoned();
    }

    /// The most memory any node ever held, megabytes.
    fn peak_memory(&self) -> i64 {
        let peaks = self.pids.iter().map(|pid| peak_memory(&pid.to_string()).unwrap());
        i64::try_from(peaks.max().unwrap() >> 20).unwrap()
    }

    /// `count` one-shots at `at`, written by one statement.
    fn mass<P: Serialize>(&mut self, job: Job<P>, payload: &P, count: usize, at: i64) {
        const COPIED: &str = "shard, version, generation, fence, priority, threshold, time_triggered, \
            paused_until, pid, prev_fire_time, end_time, repeat_count, repeat_interval, state, application, \
            job_type, cron, zone_id, payload, misfire, dst_gap, dst_fold";
        // Copied long before it is due.
        let trigger = Trigger::once(instant(now() + 3_600_000)).unwrap();
        self.client.ensure(&Schedule::new("template", job, payload, trigger).unwrap()).run().unwrap();
        let numbers = match self.kind.name() {
            "postgres" => format!("generate_series(1, {count}) AS n"),
            "mariadb" => format!("(SELECT seq AS n FROM seq_1_to_{count}) AS numbers"),
            _ => format!(
                "(WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {count}) \
                 SELECT n FROM up) AS numbers"
            ),
        };
        // What no node lists is not in the list of what must run.
        let is_listed = job.name() != UNLISTED.name();
        let name = if is_listed { job.name() } else { "~" };
        let copied = COPIED.replace("shard", "n % 16");
        self.hand
            .run(&format!(
                "INSERT INTO QRTZ_EXECUTE (name, start_time, next_fire_time, {COPIED}) \
                 SELECT CONCAT('{name}-', n), {at}, {at}, {copied} FROM QRTZ_EXECUTE, {numbers} \
                 WHERE name = 'template'; \
                 DELETE FROM QRTZ_EXECUTE WHERE name = 'template'"
            ))
            .unwrap();
        if is_listed {
            self.load.times.extend((1..=count).map(|n| (format!("{name}-{n}"), vec![at])));
        }
    }
}

/// A job fails with a long text while the database refuses writes, for less than the misfire threshold: no
/// pulse waits for the misfire handler.
pub fn a_failure_while_writes_are_refused_stays_small(kind: ServerKind) {
    let mut cluster = Cluster::start("refused_failures", kind, 1, PATIENT);
    let from = now() + 3_000;
    cluster.load.pulse(&cluster.client, from, from + 85_000);
    // Between two pulses: its outcome alone is tried again and again.
    cluster.load.failing(&cluster.client, 1, from + 6_500, 5_000);
    cluster.await_begin("failing");
    let down = now();
    cluster.refuse_writes(true);
    while now() < down + 45_000 && cluster.peak_memory() <= MEMORY {
        cluster.during(SECOND);
    }
    cluster.refuse_writes(false);
    cluster.heal();
    let peak = cluster.peak_memory();
    let settled = cluster.settle(false);
    let texts = cluster.hand.rows("error", "FROM QRTZ_RUN WHERE state = 'FAILED'").concat();
    cluster.check_memory(peak);
    cluster.check_pulse(&settled, Some((down, cluster.healed)));
    let is_lost = i64::from(texts != [failure()]);
    cluster.report.promise("the text of an error is stored as it is", "texts_lost", is_lost, 0);
    cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
    cluster.check_lives(&settled);
    cluster.conclude(&settled);
}

/// For 20 s the ledger cannot grow: a server's full disk, in its own words.
pub fn a_full_disk_of_the_server_loses_nothing(kind: ServerKind) {
    let (fill, free) = match kind.name() {
        "postgres" => (
            "CREATE FUNCTION chaos_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'could not extend file \"base/1/2\": No space left on device' \
             USING ERRCODE = 'disk_full'; END $$; \
             CREATE TRIGGER chaos_full BEFORE INSERT ON QRTZ_RUN FOR EACH ROW EXECUTE FUNCTION chaos_full()",
            "DROP TRIGGER chaos_full ON QRTZ_RUN",
        ),
        _ => (
            "CREATE TRIGGER chaos_full BEFORE INSERT ON QRTZ_RUN FOR EACH ROW SIGNAL SQLSTATE 'HY000' \
             SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table ''QRTZ_RUN'' is full'",
            "DROP TRIGGER chaos_full",
        ),
    };
    let mut cluster = Cluster::start("server_disk_full", kind, 3, PATIENT);
    let from = now() + 3_000;
    cluster.load.pulse(&cluster.client, from, from + 45_000);
    cluster.load.ticks(&cluster.client, 24, from, from + 45_000);
    cluster.await_begin("tick");
    cluster.during(3 * SECOND);
    cluster.hand.run(fill).unwrap();
    let down = now();
    cluster.during(20 * SECOND);
    cluster.hand.run(free).unwrap();
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.check_pulse(&settled, Some((down, cluster.healed)));
    cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
    assert!(cluster.said("full") + cluster.said("No space left") > 0, "nobody met the full disk");
    cluster.check_lives(&settled);
    cluster.conclude(&settled);
}

/// Somebody holds the rows of three schedules for longer than their misfire threshold.
pub fn a_long_lock_on_some_rows_holds_up_no_others(kind: ServerKind) {
    let mut cluster = Cluster::start("row_lock", kind, 3, PATIENT);
    let from = now() + 3_000;
    cluster.load.pulse(&cluster.client, from, from + 90_000);
    cluster.load.ticks(&cluster.client, 12, from, from + 90_000);
    cluster.await_begin("tick");
    let mut other = Hand::open(kind, &cluster.admin_url()).unwrap();
    // MariaDB keeps every row that it reads: only this way it reads no others.
    other.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").unwrap();
    other.run("BEGIN").unwrap();
    let held = "FROM QRTZ_EXECUTE WHERE application = 'it' AND name IN ('tick-00', 'tick-04', 'tick-08')";
    assert_eq!(other.rows("id", &format!("{held} FOR UPDATE")).len(), 3);
    cluster.during(75 * SECOND);
    other.run("ROLLBACK").unwrap();
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.check_pulse(&settled, None);
    cluster.check_lives(&settled);
    cluster.conclude(&settled);
}

/// Somebody holds a whole table, as a change of its schema does: that of the schedules, then the ledger.
pub fn a_long_lock_on_a_table_loses_nothing(kind: ServerKind) {
    let (lock, release) = match kind.name() {
        "postgres" => ("BEGIN; LOCK TABLE TABLE_NAME IN ACCESS EXCLUSIVE MODE", "ROLLBACK"),
        _ => ("LOCK TABLES TABLE_NAME WRITE", "UNLOCK TABLES"),
    };
    for table in ["QRTZ_EXECUTE", "QRTZ_RUN"] {
        let mut cluster = Cluster::start(&format!("table_lock_{table}"), kind, 3, PATIENT);
        let from = now() + 3_000;
        cluster.load.pulse(&cluster.client, from, from + 60_000);
        cluster.load.ticks(&cluster.client, 12, from, from + 60_000);
        cluster.await_begin("tick");
        cluster.during(3 * SECOND);
        let mut other = Hand::open(kind, &cluster.admin_url()).unwrap();
        let down = now();
        other.run(&lock.replace("TABLE_NAME", table)).unwrap();
        cluster.during(40 * SECOND);
        other.run(release).unwrap();
        cluster.heal();
        let settled = cluster.settle(false);
        cluster.check_pulse(&settled, Some((down, cluster.healed)));
        cluster.report.measure("connections", settled.connections, CONNECTIONS);
        cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
        cluster.check_lives(&settled);
        cluster.conclude(&settled);
    }
}

/// A node's logger and observer panic at each event: what they write to has no reader any more.
pub fn a_log_without_a_reader_stops_no_node(kind: ServerKind) {
    let mut cluster = Cluster::start("log_gone", kind, 1, Setup { listener: Listener::Pipe, ..PATIENT });
    cluster.log_readers.clear();
    listened_to(&mut cluster, 12_000);
}

/// A node's observer does not return for 20 s.
pub fn an_observer_that_blocks_stops_no_node(kind: ServerKind) {
    let from = now() + 10_000;
    let listener = Listener::Blocked { from, until: from + 20_000 };
    let mut cluster = Cluster::start("observer_blocked", kind, 1, Setup { listener, ..PATIENT });
    listened_to(&mut cluster, 35_000);
}

fn listened_to(cluster: &mut Cluster, millis: i64) {
    let from = now() + 2_000;
    cluster.load.pulse(&cluster.client, from, from + millis);
    cluster.load.failing(&cluster.client, 4, from + 1_000, 10);
    cluster.heal();
    cluster.watch_pulse();
    let settled = cluster.settle(false);
    cluster.check_pulse(&settled, None);
    cluster.check_lives(&settled);
    cluster.conclude(&settled);
}

/// 2,000 schedules with payloads of 200 KB are due at the same instant.
pub fn large_payloads_due_at_once_hold_up_no_others(kind: ServerKind) {
    let mut cluster = Cluster::start("large_payloads", kind, 2, PATIENT);
    let from = now() + 3_000;
    cluster.load.pulse(&cluster.client, from, from + 45_000);
    cluster.mass(BULKY, &"x".repeat(200_000), 2_000, from + 15_000);
    cluster.heal();
    cluster.watch_pulse();
    let peak = cluster.peak_memory();
    let settled = cluster.settle(false);
    cluster.check_memory(peak);
    cluster.check_pulse(&settled, None);
    cluster.check_lives(&settled);
    cluster.conclude(&settled);
}

/// Schedules of a job that no node lists are overdue.
pub fn overdue_schedules_of_no_node_hold_up_no_others(kind: ServerKind) {
    unlisted("unlisted", kind, 100_000, 12_000);
}

pub fn a_million_overdue_schedules_of_no_node_hold_up_no_others(kind: ServerKind) {
    unlisted("a_million_unlisted", kind, 1_000_000, 45_000);
}

fn unlisted(name: &str, kind: ServerKind, count: usize, millis: i64) {
    let mut cluster = Cluster::new(name, kind);
    cluster.mass(UNLISTED, &0, count, now() - 120_000);
    for _ in 0..2 {
        cluster.add(PATIENT);
    }
    cluster.await_ready();
    let from = now() + 2_000;
    cluster.load.pulse(&cluster.client, from, from + millis);
    cluster.heal();
    cluster.watch_pulse();
    let peak = cluster.peak_memory();
    let settled = cluster.settle(false);
    cluster.check_memory(peak);
    cluster.check_pulse(&settled, None);
    cluster.check_lives(&settled);
    cluster.conclude(&settled);
}

/// 20,000 schedules (on SQLite 2,000) are two minutes overdue when the database comes back.
pub fn thousands_overdue_after_an_outage_begin_soon(kind: ServerKind) {
    let mut cluster = Cluster::start("catch_up", kind, 3, PATIENT);
    let from = now() + 3_000;
    cluster.load.pulse(&cluster.client, from, from + 60_000);
    cluster.await_begin(PULSE.name());
    let down = now();
    let count = if is_served(kind) { 20_000 } else { 2_000 };
    // On SQLite the outage would be a transaction of the very connection that writes the schedules.
    if is_served(kind) {
        cluster.take_away();
        cluster.during(6 * SECOND);
    }
    cluster.mass(TICK, &1, count, now() - 120_000);
    if is_served(kind) {
        cluster.bring_back();
    }
    cluster.heal();
    let settled = cluster.settle(false);
    let promise = "what is overdue after an outage has begun within 45 s";
    let caught_up = settled.last_begun("tick", cluster.healed);
    cluster.report.promise(promise, "catch_up_ms", caught_up, CATCH_UP);
    cluster.check_pulse(&settled, Some((down, cluster.healed)));
    cluster.check_lives(&settled);
    cluster.conclude(&settled);
}

/// One node after the other is asked to stop and replaced, while jobs run.
pub fn nodes_that_stop_in_order_leave_nothing_behind(kind: ServerKind) {
    const NODES: usize = 3;
    let mut cluster = Cluster::start("stops", kind, NODES, PATIENT);
    let from = now() + 3_000;
    cluster.load.pulse(&cluster.client, from, from + 20_000);
    cluster.load.ticks(&cluster.client, 24, from, from + 20_000);
    cluster.load.held(&cluster.client, 30, from + 2_000, 2_000);
    cluster.await_begin("held");
    for node in 0..NODES {
        let (took, is_clean) = cluster.shut_down(node);
        assert!(is_clean, "{}: a node asked to stop did not end cleanly within {took} ms", cluster.name);
        cluster.add(PATIENT);
        cluster.await_ready();
    }
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.check_pulse(&settled, None);
    cluster.check_lives(&settled);
    let again = settled.history.executions.iter().find(|it| it.attempt > 1);
    assert!(again.is_none(), "{}: a stop in order costs no attempt: {again:?}", cluster.name);
    cluster.conclude(&settled);
}

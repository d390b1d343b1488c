//! The ledger of a test's cluster, and what holds the rest, where a test expected something else.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use crate::api::{
    Check, Client, ExecutionFilter, ExecutionView, FindingKind, JobView, ScheduleView, Standing,
};
use crate::domain::{Activity, ExecutionState, ScheduleState};

/// So many waiting executions are told of, in all and of a job.
const TOLD: usize = 5;
/// So many waiting executions are looked at.
const MOST: usize = 10_000;
/// So many executions are shown.
const SHOWN: usize = 200;

/// The executions in these states, or all, for people, and what does not run.
pub(super) fn picture(client: &Client, states: &[ExecutionState]) -> String {
    let states = states.to_vec();
    let filter =
        ExecutionFilter { states, oldest_first: true, limit: SHOWN + 1, ..ExecutionFilter::default() };
    let all = listed(client, &filter);
    let mut text = String::new();
    if all.is_empty() {
        text.push_str("  (empty)\n");
    }
    for it in all.iter().take(SHOWN) {
        let at = shown(it.fire_time);
        let (id, schedule, attempt, state) = (it.id, &it.schedule, it.attempt, &it.state);
        let why = if it.error.is_empty() { &it.reason } else { &it.error };
        let payload = client.execution(it.id).ok().and_then(|details| details.payload).unwrap_or_default();
        writeln!(text, "  {id:>4}  {at}  {schedule} {payload}  attempt {attempt}  {state}  {why}").ok();
    }
    if all.len() > SHOWN {
        text.push_str("  ...\n");
    }
    text + &reasons(client)
}

/// An instant, UTC; one beyond the calendar is a question mark.
pub(super) fn shown(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(|| "?".to_owned(), |at| at.format("%F %T%.3f").to_string())
}

/// The store in memory refuses no list.
pub(super) fn listed(client: &Client, filter: &ExecutionFilter) -> Vec<ExecutionView> {
    client.executions(filter).unwrap_or_default()
}

/// The schedules that should have fired and did not, though nothing holds them.
pub(super) fn overdue(client: &Client) -> Vec<String> {
    let (Ok(schedules), Ok(now)) = (client.schedules(), client.now()) else { return Vec::new() };
    let fires = |it: &ScheduleView| Standing::Active.is_of(it, now) && it.held_by.is_empty();
    let overdue = schedules.iter().filter(|it| fires(it) && it.overdue(now).is_some());
    overdue.map(|it| format!("schedule {:?} since {}", it.name, shown(it.next))).collect()
}

/// What holds what waits or does not fire, a line each, with a heading; empty if nothing does.
fn reasons(client: &Client) -> String {
    let Ok(check) = client.check() else { return String::new() };
    let mut lines = without_handlers(client, &check);
    let findings = check.findings.iter().filter(|it| holds(it.kind));
    lines.extend(findings.map(|it| format!("{} {:?}: {}", it.target_type, it.target, it.problem)));
    let is_handled = |name: &str| check.jobs.iter().any(|job| job.name == name && job.nodes > 0);
    let waiting = pending(client, None).into_iter().filter(|it| is_handled(&it.job)).take(TOLD);
    lines.extend(waiting.filter_map(|it| Some(client.why(it.id).ok()?.sentence)));
    if lines.is_empty() {
        return String::new();
    }
    format!("what does not run, and why:\n  {}\n", lines.join("\n  "))
}

/// Whether a finding says why something does not run.
fn holds(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::ApplicationPaused
            | FindingKind::NodeSilent
            | FindingKind::NodeHeld
            | FindingKind::JobPaused
            | FindingKind::ScheduleError
            | FindingKind::ScheduleContained
            | FindingKind::ScheduleLeftAlone
            | FindingKind::SchedulePaused
    )
}

/// That there is no node, or the jobs that none of them has a handler for, with what would run.
fn without_handlers(client: &Client, check: &Check) -> Vec<String> {
    if check.nodes.is_empty() {
        return vec!["no node has joined".to_owned()];
    }
    if check.live().next().is_none() {
        return vec!["no node lives: all that have joined have ended".to_owned()];
    }
    let has_handler = |job: &JobView| check.live().any(|node| node.jobs.contains(&job.name));
    let lacking = check.jobs.iter().filter(|job| job.state == Activity::Active && !has_handler(job));
    let schedules = client.schedules().unwrap_or_default();
    let line = |job: &JobView| {
        let of_job = schedules.iter().filter(|it| it.job == job.name && it.state == ScheduleState::Active);
        let schedules = of_job.map(|it| format!("schedule {:?}", it.name));
        let executions =
            pending(client, Some(&job.name)).into_iter().map(|it| format!("execution {}", it.id));
        let idle: Vec<_> = schedules.chain(executions).take(TOLD).collect();
        (!idle.is_empty())
            .then(|| format!("no node has a handler for job {:?} ({})", job.name, idle.join(", ")))
    };
    lacking.filter_map(line).collect()
}

/// The first executions of a job that wait, or of all.
fn pending(client: &Client, job: Option<&str>) -> Vec<ExecutionView> {
    let filter = ExecutionFilter {
        job: job.map(str::to_owned),
        states: vec![ExecutionState::Pending],
        oldest_first: true,
        limit: MOST,
        ..ExecutionFilter::default()
    };
    listed(client, &filter)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use crate::api::{Builder, Job, Schedule};
    use crate::testing::TestCluster;
    use crate::trigger::Trigger;

    const REPORT: Job<()> = Job::new("report");
    const OTHER: Job<()> = Job::new("other");
    const HOUR: Duration = Duration::from_secs(3_600);

    fn fine(node: Builder) -> Builder {
        node.handler(REPORT, |_, ()| Ok(()))
    }

    fn hourly<P: serde::Serialize>(cluster: &TestCluster, job: Job<P>, payload: &P) {
        let trigger = Trigger::cron("0 0 * * * ?", "UTC").unwrap();
        let schedule = Schedule::new("hourly", job, payload, trigger).unwrap();
        cluster.client().ensure(&schedule).run().unwrap();
    }

    fn said(cluster: &TestCluster, asked: impl FnOnce(&TestCluster)) -> String {
        let panic = catch_unwind(AssertUnwindSafe(|| asked(cluster))).expect_err("it is as was expected");
        *panic.downcast::<String>().unwrap()
    }

    #[test]
    fn a_cluster_without_nodes_says_so() {
        let mut cluster = TestCluster::new("shop");
        hourly(&cluster, REPORT, &());
        cluster.advance(2 * HOUR);
        let text = said(&cluster, |it| it.ran("hourly").times(2));
        assert!(text.ends_with("what does not run, and why:\n  no node has joined\n"), "{text}");
        cluster.node(fine).unwrap();
        cluster.run_due();
        cluster.kill(0);
        cluster.advance(2 * HOUR);
        let text = said(&cluster, TestCluster::nothing_waits);
        assert!(text.contains("overdue: schedule \"hourly\" since 2026-01-01 03:00:00.000"), "{text}");
        assert!(text.contains(": no heartbeat for 2 h"), "{text}");
    }

    #[test]
    fn a_schedule_whose_job_nobody_runs_is_no_quiet_one() {
        let mut cluster = TestCluster::new("shop");
        cluster.node(|node| node.handler(OTHER, |_, ()| Ok(()))).unwrap();
        hourly(&cluster, REPORT, &());
        cluster.nothing_waits();
        cluster.advance(2 * HOUR);
        let waits = said(&cluster, TestCluster::nothing_waits);
        assert!(
            waits.starts_with("expected nothing to wait, but overdue: schedule \"hourly\" since "),
            "{waits}"
        );
        for text in [waits, said(&cluster, |it| it.ran("hourly").times(2))] {
            assert!(
                text.contains("\n  no node has a handler for job \"report\" (schedule \"hourly\")\n"),
                "{text}"
            );
        }
        // Somebody wants it so.
        cluster.client().pause("hourly").run().unwrap();
        cluster.nothing_waits();
        let text = said(&cluster, |it| it.ran("hourly").times(2));
        assert!(text.contains("\n  schedule \"hourly\": paused by test"), "{text}");
    }

    #[test]
    fn an_execution_that_waits_says_for_what() {
        let mut cluster = TestCluster::new("shop");
        cluster.node(fine).unwrap();
        cluster.client().enqueue(OTHER, &()).run().unwrap();
        cluster.client().enqueue(REPORT, &()).after(HOUR).run().unwrap();
        cluster.run_due();
        let text = said(&cluster, |it| it.ran("queue:other").times(1));
        assert!(text.contains("\n  no node has a handler for job \"other\" (execution "), "{text}");
        assert!(text.contains(" of job \"report\" is due at 2026-01-01 01:00:00.000 UTC"), "{text}");
    }

    #[test]
    fn what_cannot_be_decoded_is_told() {
        const NUMBER: Job<u32> = Job::new("report");
        let mut cluster = TestCluster::new("shop");
        cluster.node(fine).unwrap();
        hourly(&cluster, NUMBER, &7);
        cluster.advance(2 * HOUR);
        let text = said(&cluster, |it| it.ran("hourly").times(2));
        assert!(text.contains("\n  schedule \"hourly\": its payload cannot be decoded"), "{text}");
        assert!(text.contains("invalid type: integer `7`"), "{text}");
    }
}

//! A test under faults: handlers under what the engine survives, by a seed that replays.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::TestCluster;
use super::effects::Effects;
use super::fire::Line;
use super::picture::{picture, shown};
use crate::domain::{ExecutionId, ExecutionState};

/// So many effects are told of.
const TOLD: usize = 5;
/// So many lines are shown of each.
const LINES: usize = 60;

/// Runs a test once for each seed, while nodes die, stand still and shut down under handlers, store calls
/// fail, are lost or are not heard of, and the database's clock is set: whether your handlers keep what they
/// promise then, too. A handler that may be run twice, as each may be after a death, is to do nothing twice.
///
/// A node dies or stands still where a handler begins, after each effect that it tells, and where it has
/// returned and its outcome is not yet stored; while it [sleeps](super::TestTime::sleep); and with no handler
/// under way. Under each seed a node dies at the end of one of the first eight handlers, so that a test whose
/// handlers tell no effects still sees one of them run twice: let it run at least eight executions.
///
/// The test makes its nodes and its executions, says what handlers do by [`Effects::happened`] and what is
/// expected by [`Effects::expect`], and [advances](TestCluster::advance). When it returns, the faults
/// [end](TestCluster::heal), and what waits is run. Then each effect that was expected must have happened
/// once, and every other one once at most.
///
/// Two deaths use up the attempts of an execution: give a job that must not be left undone more
/// ([`Job::max_attempts`](crate::Job::max_attempts)).
/// Another node comes in the place of each that is gone, with the same configuration and handlers; what
/// handlers share in memory stays, as a service outside would. The store answers handlers and clients always.
///
/// # Panics
/// With the first seed under which something happened twice or never, and with what led to it. The same seed
/// does it again.
///
/// ```
/// use firetime::Job;
/// use firetime::testing::under_faults;
/// use std::collections::BTreeSet;
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// const CHARGE: Job<u64> = Job::new("charge").max_attempts(20);
///
/// under_faults("shop", 0..3, |cluster, effects| {
///     // The bank takes each key once.
///     let (keys, charged) = (Arc::new(Mutex::new(BTreeSet::new())), effects.clone());
///     let charge = move |_: &firetime::Context, order: u64| {
///         if keys.lock().unwrap().insert(order) {
///             charged.happened(format!("charge {order}"));
///         }
///         Ok(())
///     };
///     for _ in 0..2 {
///         cluster.node(|node| node.handler(CHARGE, charge.clone())).unwrap();
///     }
///     for order in 0..20 {
///         effects.expect(format!("charge {order}"));
///         cluster.client().enqueue(CHARGE, &order).run().unwrap();
///         cluster.advance(Duration::from_secs(60));
///     }
/// });
/// ```
pub fn under_faults(
    application: &str,
    seeds: impl IntoIterator<Item = u64>,
    test: impl Fn(&mut TestCluster, &Effects),
) {
    for seed in seeds {
        let mut cluster = TestCluster::under_fire(application, seed);
        let effects = cluster.fire.effects.clone();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            test(&mut cluster, &effects);
            cluster.heal();
        }));
        let again = format!("the same again: under_faults({application:?}, [{seed}], ..)");
        if let Err(panic) = ended {
            report(&again);
            resume_unwind(panic);
        }
        let wrong = cluster.wrong();
        assert!(wrong.is_empty(), "under the faults of seed {seed}:\n{wrong}{again}");
    }
}

#[expect(clippy::print_stderr, reason = "a test that fails tells how to see it again")]
fn report(again: &str) {
    eprintln!("{again}");
}

impl TestCluster {
    /// What happened twice or never, and what led to it.
    fn wrong(&self) -> String {
        let (repeated, missing) = (self.fire.effects.repeated(), self.fire.effects.missing());
        let mut text = String::new();
        for (what, within) in repeated.iter().take(TOLD) {
            writeln!(text, "{what:?} happened {} times", within.len()).ok();
            self.write_history(&mut text, within);
        }
        for what in missing.iter().take(TOLD) {
            writeln!(text, "{what:?} never happened").ok();
        }
        if !missing.is_empty() {
            self.write_unexpected(&mut text);
            let others: Vec<_> =
                ExecutionState::ALL.iter().copied().filter(|it| *it != ExecutionState::Succeeded).collect();
            write!(text, "what has not succeeded:\n{}", picture(&self.client(), &others)).ok();
        }
        let untold = repeated.len().saturating_sub(TOLD) + missing.len().saturating_sub(TOLD);
        if untold > 0 {
            writeln!(text, "and {untold} more").ok();
        }
        text
    }

    /// What handlers told and nobody expected: what never happened may be among it under another name.
    fn write_unexpected(&self, text: &mut String) {
        let unexpected = self.fire.effects.unexpected();
        if unexpected.is_empty() {
            return;
        }
        let first: Vec<_> = unexpected.iter().take(TOLD).map(|what| format!("{what:?}")).collect();
        let untold = unexpected.len() - first.len();
        let more = if untold > 0 { format!(" and {untold} more") } else { String::new() };
        writeln!(text, "happened and was not expected: {}{more}", first.join(", ")).ok();
    }

    /// What these executions did, and what became of their nodes meanwhile.
    fn write_history(&self, text: &mut String, executions: &[ExecutionId]) {
        let history = self.fire.history();
        let is_theirs = |line: &Line| line.execution.is_some_and(|it| executions.contains(&it));
        let theirs = || history.iter().enumerate().filter(|(_, line)| is_theirs(line));
        let (Some((first, _)), Some((last, _))) = (theirs().next(), theirs().next_back()) else { return };
        let nodes: Vec<_> = theirs().map(|(_, line)| line.node).collect();
        let is_meant = |line: &&Line| {
            let is_of_node = line.execution.is_none() && (line.node.is_none() || nodes.contains(&line.node));
            is_of_node || is_theirs(line)
        };
        let mut lines = history[first..=last].iter().filter(is_meant);
        for Line { at, node, execution, text: what } in lines.by_ref().take(LINES) {
            let at = shown(at.utc());
            let who = node.map_or_else(|| "database".to_owned(), |node| format!("node {node}"));
            let of = execution.map_or_else(String::new, |it| format!("execution {it}: "));
            writeln!(text, "  {at}  {who:<8}  {of}{what}").ok();
        }
        let untold = lines.count();
        if untold > 0 {
            writeln!(text, "  and {untold} more").ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::api::{Job, Schedule};
    use crate::domain::{HandlerError, Overlap};
    use crate::node::context::Context;
    use crate::trigger::Trigger;

    const CHARGE: Job<u64> = Job::new("charge").max_attempts(20);
    const REPORT: Job<()> = Job::new("report").max_attempts(20);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Charges orders; with keys, the bank takes each once.
    fn charges(cluster: &mut TestCluster, effects: &Effects, has_keys: bool) {
        let (keys, charged, time) = (Arc::new(Mutex::new(BTreeSet::new())), effects.clone(), cluster.time());
        let charge = move |_: &Context, order: u64| {
            time.sleep(Duration::from_secs(20));
            if !has_keys || keys.lock().unwrap().insert(order) {
                charged.happened(format!("charge {order}"));
            }
            Ok(())
        };
        charged_by_three_nodes(cluster, effects, 0..30, charge);
    }

    /// An order is enqueued every two minutes, and expected to be charged.
    fn charged_by_three_nodes(
        cluster: &mut TestCluster,
        effects: &Effects,
        orders: Range<u64>,
        charge: impl Fn(&Context, u64) -> Result<(), HandlerError> + Clone + Send + Sync + 'static,
    ) {
        for _ in 0..3 {
            cluster.node(|node| node.handler(CHARGE, charge.clone())).unwrap();
        }
        for order in orders {
            effects.expect(format!("charge {order}"));
            cluster.client().enqueue(CHARGE, &order).run().unwrap();
            cluster.advance(2 * MINUTE);
        }
    }

    fn said_of(seed: u64, has_keys: bool) -> Option<String> {
        let test = |cluster: &mut TestCluster, effects: &Effects| charges(cluster, effects, has_keys);
        let ended = catch_unwind(|| under_faults("shop", [seed], test));
        ended.err().map(|panic| *panic.downcast::<String>().unwrap())
    }

    #[test]
    fn a_handler_that_does_things_twice_is_found_by_a_seed_that_replays() {
        let said: Vec<_> = (0..8).map(|seed| said_of(seed, false)).collect();
        assert!(said.iter().flatten().count() > 3, "{said:#?}");
        let seed = said.iter().position(Option::is_some).unwrap();
        let history = said[seed].as_ref().unwrap();
        assert!(history.contains(" happened 2 times\n"), "{history}");
        assert!(history.contains("queue:charge, attempt 2: its handler begins"), "{history}");
        assert!(history.ends_with(&format!("under_faults(\"shop\", [{seed}], ..)")), "{history}");
        assert_eq!(said_of(seed as u64, false), said[seed]);
    }

    /// It tells nothing: what it has done shows in the test's own assertion.
    #[test]
    fn a_handler_that_counts_is_run_twice_under_each_seed() {
        for seed in 0..20 {
            let counts: Arc<Mutex<Vec<u64>>> = Arc::default();
            let counted = || {
                under_faults("shop", [seed], |cluster, _| {
                    let count = Arc::clone(&counts);
                    let charge = move |_: &Context, order: u64| {
                        count.lock().unwrap().push(order);
                        Ok(())
                    };
                    cluster.node(|node| node.handler(CHARGE, charge)).unwrap();
                    // Under some seeds the one node is away until the test has returned.
                    for order in 0..8 {
                        cluster.client().enqueue(CHARGE, &order).run().unwrap();
                        cluster.advance(MINUTE);
                    }
                    cluster.heal();
                    cluster.ran("queue:charge").times(8);
                });
            };
            counted();
            let first = std::mem::take(&mut *counts.lock().unwrap());
            assert!(first.len() > 8, "seed {seed}: {first:?}");
            counted();
            assert_eq!(first, *counts.lock().unwrap(), "seed {seed}");
        }
    }

    #[test]
    fn no_node_dies_at_the_end_of_a_handler_once_it_is_healed() {
        for seed in 0..8 {
            let count = Arc::new(AtomicU32::new(0));
            under_faults("shop", [seed], |cluster, _| {
                let counts = Arc::clone(&count);
                let charge = move |_: &Context, _: u64| {
                    counts.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                };
                cluster.node(|node| node.handler(CHARGE, charge)).unwrap();
                cluster.heal();
                for order in 0..10 {
                    cluster.client().enqueue(CHARGE, &order).run().unwrap();
                    cluster.run_due();
                }
            });
            assert_eq!(count.load(Ordering::Relaxed), 10, "seed {seed}");
        }
    }

    #[test]
    fn a_handler_with_keys_is_found_innocent() {
        for seed in 0..8 {
            assert_eq!(said_of(seed, true), None);
        }
    }

    /// Its schedule fires hourly for a day.
    #[test]
    fn each_occurrence_of_a_schedule_is_run_under_faults() {
        under_faults("shop", 0..4, |cluster, effects| {
            let reported = effects.clone();
            let report = move |context: &Context, ()| {
                // As a table with a unique key takes it.
                let what = context.fire_time().to_rfc3339();
                if reported.times(&what) == 0 {
                    reported.happened(&what);
                }
                Ok(())
            };
            for _ in 0..2 {
                cluster.node(|node| node.handler(REPORT, report.clone())).unwrap();
            }
            let hourly = Schedule::new("hourly", REPORT, &(), Trigger::cron("0 0 * * * ?", "UTC").unwrap());
            // Taken over late, a run may meet the next one: with `Overlap::Skip` that would be skipped.
            let hourly = hourly.unwrap().overlap(Overlap::Queue(3));
            cluster.client().ensure(&hourly).run().unwrap();
            (1..=24).for_each(|hour| effects.expect((cluster.now() + hour * 60 * MINUTE).to_rfc3339()));
            cluster.advance(24 * 60 * MINUTE);
        });
    }

    /// Its program without the line that keeps a charge from happening twice.
    #[test]
    fn the_guide_shows_what_its_program_says() {
        let program = |cluster: &mut TestCluster, effects: &Effects| {
            let charged = effects.clone();
            let charge = move |_: &Context, order: u64| {
                charged.happened(format!("charge {order}"));
                Ok(())
            };
            charged_by_three_nodes(cluster, effects, 0..20, charge);
        };
        let said = catch_unwind(|| under_faults("shop", 0..5, program)).unwrap_err();
        let said = said.downcast::<String>().unwrap();
        let page = include_str!("../../docs/guide/testing.md");
        assert!(page.contains(&format!("```text\n{said}\n```")), "docs/guide/testing.md is to show:\n{said}");
    }

    #[test]
    fn what_happens_under_another_name_is_told_with_what_never_does() {
        let test = |cluster: &mut TestCluster, effects: &Effects| {
            let told = effects.clone();
            let count = move |_: &Context, order: u64| {
                told.happened(format!("count-{order}"));
                Ok(())
            };
            cluster.node(|node| node.handler(CHARGE, count)).unwrap();
            for order in 0..7 {
                effects.expect(format!("count {order}"));
                cluster.client().enqueue(CHARGE, &order).run().unwrap();
            }
        };
        let said = catch_unwind(|| under_faults("shop", [1], test)).unwrap_err();
        let said = said.downcast::<String>().unwrap();
        assert!(
            said.contains("\"count 4\" never happened\nhappened and was not expected: \"count-0\", "),
            "{said}"
        );
        assert!(said.contains(" and 2 more\n"), "{said}");
    }

    #[test]
    fn what_never_happens_is_told() {
        let test = |_: &mut TestCluster, effects: &Effects| effects.expect("a mail");
        let said = catch_unwind(|| under_faults("shop", [3], test)).unwrap_err();
        let said = said.downcast::<String>().unwrap();
        assert!(said.starts_with("under the faults of seed 3:\n\"a mail\" never happened\n"), "{said}");
    }
}

//! An operator at work while nodes die: runs by hand, cancels, retries, skips, pauses, drains and removes,
//! and what each answer promised is judged by what the jobs did.

use std::time::Duration;

use firetime::{
    Activity, Cancelled, Draining, ExecutionFilter, ExecutionId, ExecutionState, Paused, Removed, Resumed,
    Retried, Skipped, Target, Triggered,
};

use super::cluster::{Cluster, QUICK, now};
use super::dice::Dice;
use super::job::TICK;
use super::judge::{Cancel, Order, Pause, Switch};
use crate::support::database::ServerKind;
use crate::support::node::APPLICATION;

/// Within this a node knows that something is paused: a poll, a slow one, and some to spare.
const KNOWN: i64 = 5_000;
const SECOND: Duration = Duration::from_secs(1);

pub fn an_operators_answers_hold_while_nodes_die(kind: ServerKind) {
    let mut cluster = Cluster::start("operator", kind, 3, QUICK);
    let from = now() + 2_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 34_000);
    cluster.await_begin("tick");
    let mut dice = Dice::fresh();
    println!("{}: FIRETIME_CHAOS_SEED={}", cluster.name, dice.seed);
    cluster.work(&mut dice, 4);
    let asked = now();
    let remove = cluster.client.remove("tick-23").actor("chaos").run().unwrap();
    assert_eq!(remove, Removed::Removed);
    cluster.deeds.ended.insert("tick-23".to_owned(), (asked, now()));
    cluster.deeds.removals.push(Pause { schedule: "tick-23".to_owned(), from: now(), until: i64::MAX });
    cluster.pause_for(Target::job(TICK.name()), Some(TICK.name()), 8, &mut dice);
    cluster.kill(0);
    cluster.work(&mut dice, 3);
    cluster.pause_for(Target::application(), None, 7, &mut dice);
    cluster.drain(1, &mut dice);
    cluster.add(QUICK);
    cluster.work(&mut dice, 3);
    cluster.heal();
    let settled = cluster.settle(false);
    let deeds = &cluster.deeds;
    for (what, count) in [
        ("orders", deeds.orders.as_ref().map_or(0, Vec::len)),
        ("cancels", deeds.cancels.len()),
        ("retries", deeds.retries.len()),
        ("skips", deeds.skips.len()),
    ] {
        assert!(count > 0, "none of {what}");
        cluster.report.note(what, count.try_into().unwrap());
    }
    // Two pauses with their resumes, a removal, a drain with its resume.
    let made = cluster.deeds.answered() + 7;
    let recorded =
        cluster.hand.rows("COUNT(*)", "FROM QRTZ_AUDIT WHERE verb <> 'ensure' AND actor <> 'firetime'");
    assert_eq!(recorded[0][0], made.to_string(), "each answered change is recorded once");
    cluster.conclude(&settled);
}

impl Cluster {
    /// So many seconds of an operator's work, five deeds a second.
    fn work(&mut self, dice: &mut Dice, seconds: usize) {
        for _ in 0..5 * seconds {
            match dice.below(4) {
                0 => self.order(dice),
                1 => self.cancel(dice),
                2 => self.retry(dice),
                _ => self.skip(dice),
            }
            self.during(SECOND / 5);
        }
    }

    fn any_tick(dice: &mut Dice) -> String {
        // The last is removed.
        format!("tick-{:02}", dice.below(23))
    }

    fn order(&mut self, dice: &mut Dice) {
        let answer = self.client.trigger(&Self::any_tick(dice)).payload(&300).run().unwrap();
        if let Triggered::Pending(execution) = answer {
            let order = Order { execution: execution.get(), payload: None };
            self.deeds.orders.get_or_insert_default().push(order);
        }
    }

    /// One of the executions in these states.
    fn any_execution(&self, dice: &mut Dice, states: &[ExecutionState]) -> Option<ExecutionId> {
        let filter = ExecutionFilter { states: states.to_vec(), limit: 50, ..ExecutionFilter::default() };
        let rows = self.client.executions(&filter).unwrap();
        (!rows.is_empty()).then(|| rows[dice.below(rows.len())].id)
    }

    fn cancel(&mut self, dice: &mut Dice) {
        let open = [ExecutionState::Pending, ExecutionState::Claimed, ExecutionState::Running];
        let Some(execution) = self.any_execution(dice, &open) else { return };
        let at = now();
        let answer = self.client.cancel(execution).run().unwrap();
        if let Cancelled::Cancelled | Cancelled::Asked { .. } = answer {
            self.deeds.cancels.push(Cancel { execution: execution.get(), at });
        }
    }

    fn retry(&mut self, dice: &mut Dice) {
        let ended = [ExecutionState::Cancelled, ExecutionState::Abandoned, ExecutionState::Failed];
        let Some(execution) = self.any_execution(dice, &ended) else { return };
        if let Retried::Pending(attempt) = self.client.retry(execution).run().unwrap() {
            self.deeds.retries.insert(attempt.get());
        }
    }

    fn skip(&mut self, dice: &mut Dice) {
        let name = Self::any_tick(dice);
        let schedules = self.client.schedules().unwrap();
        let Some(next) = schedules.iter().find(|it| it.name == name).and_then(|it| it.next) else { return };
        if let Skipped::Skipped { .. } = self.client.skip(&name, next).run().unwrap() {
            self.deeds.skips.push((name, next.timestamp_millis()));
        }
    }

    /// Pauses a job or the application for so many seconds, and works on meanwhile.
    fn pause_for(&mut self, target: Target, job: Option<&str>, seconds: usize, dice: &mut Dice) {
        assert_eq!(self.client.pause(target.clone()).run().unwrap(), Paused::Paused);
        let from = now();
        let switch = Switch { job: job.map(str::to_owned), from, known: from + KNOWN, ..Switch::default() };
        self.work(dice, seconds);
        let asked = now();
        assert_eq!(self.client.resume(target).run().unwrap(), Resumed::Resumed);
        let passes = Some((switch.known, asked));
        self.deeds.switches.push(Switch { until: asked, passes, ..switch });
    }

    /// Drains a node until nothing of it is left, and lets it claim again.
    fn drain(&mut self, node: usize, dice: &mut Dice) {
        let id = self.node_id(node);
        assert_eq!(self.client.drain(&id).run().unwrap(), Draining::Begun, "{APPLICATION}");
        let from = now();
        self.work(dice, 6);
        self.until("the node has drained", Duration::from_secs(20), |cluster| {
            let nodes = cluster.client.nodes().unwrap();
            nodes.iter().any(|node| node.id == id && node.state == Activity::Drained)
        });
        let left = self
            .hand
            .rows("id", &format!("FROM QRTZ_RUN WHERE node = '{id}' AND state IN ('CLAIMED', 'RUNNING')"));
        assert!(left.is_empty(), "it has drained, and holds {left:?}");
        let until = now();
        assert_eq!(self.client.resume(Target::node(&id)).run().unwrap(), Resumed::Resumed);
        let (node, known) = (Some(id), from + KNOWN);
        self.deeds.switches.push(Switch { node, from, known, until, drains: true, ..Switch::default() });
    }
}

//! The figures a run's history gives, all in milliseconds.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::{Cluster, Settled};
use super::history::Audited;
use super::judge::{Change, Effect, Execution, Resume};

fn is_owned(state: Option<&String>) -> bool {
    state.is_some_and(|it| matches!(it.as_str(), "CLAIMED" | "RUNNING"))
}

impl Settled {
    /// When each execution was first claimed, and by whom.
    fn claims(&self) -> BTreeMap<i64, (i64, &str)> {
        let mut claims = BTreeMap::new();
        for it in self.changes.iter().filter(|it| is_owned(it.change.to.as_ref())) {
            claims.entry(it.change.execution).or_insert((it.change.at, it.comes_to.as_str()));
        }
        claims
    }

    fn begins(&self, execution: i64) -> impl Iterator<Item = &Effect> {
        self.history.effects.iter().filter(move |it| it.execution == execution)
    }

    /// The execution that began latest of those that nobody had claimed when the node was killed, due within
    /// the next 20 s, and how late. A claim that was on its way then is the node's own, even if the database
    /// made it afterwards. What queues behind an execution of the dead node waits for its repair.
    pub fn pick_up(&self, node: &str, killed: i64) -> (i64, &Execution) {
        let claims = self.claims();
        let is_unclaimed = |id: &i64| claims[id].0 > killed && claims[id].1 != node;
        let held = self.history.executions.iter().filter(|it| {
            let claim = claims.get(&it.id);
            claim.is_some_and(|claim| claim.1 == node) && it.finished.is_none_or(|at| at > killed)
        });
        let held: BTreeSet<&str> = held.map(|it| it.schedule.as_str()).collect();
        let due = self.history.executions.iter().filter(|it| {
            let waits = it.reason == "queued" && held.contains(it.schedule.as_str());
            let is_run = it.attempt == 1 && it.state != "SKIPPED" && !waits;
            is_run && it.due < killed + 20_000 && is_unclaimed(&it.id)
        });
        let begin = |id| self.begins(id).map(|it| it.at).min().unwrap_or(i64::MAX);
        let late = |it: &Execution| begin(it.id).saturating_sub(it.due.max(killed));
        due.map(|it| (late(it), it)).max_by_key(|(late, _)| *late).unwrap()
    }

    /// How long it took from `killed` until all that the node held was taken back and, unless it was given up
    /// for good, begun anew; and how much that was.
    pub fn settled(&self, node: &str, killed: i64) -> (i64, i64) {
        let taken = self.changes.iter().filter(|it| {
            it.was_at == node
                && it.change.at > killed
                && is_owned(it.change.from.as_ref())
                && !is_owned(it.change.to.as_ref())
                // An outcome that was on its way.
                && it.change.to.as_deref() != Some("SUCCEEDED")
        });
        let mut latest = 0;
        let mut count = 0;
        for it in taken {
            let row = self.history.executions.iter().find(|row| row.id == it.change.execution).unwrap();
            let same = self.history.effects.iter().filter(|effect| {
                (effect.schedule.as_str(), effect.scheduled) == (row.schedule.as_str(), row.scheduled)
            });
            let again = same.map(|effect| effect.at).filter(|at| *at >= it.change.at).min();
            latest = latest.max(again.unwrap_or(i64::MAX) - killed);
            count += 1;
        }
        (latest, count)
    }

    /// How long after `back` the first occurrence claimed since then began.
    pub fn resumed(&self, back: i64) -> i64 {
        let claims = self.claims();
        let since = self
            .history
            .effects
            .iter()
            .filter(|it| claims.get(&it.execution).is_some_and(|(at, _)| *at > back));
        since.map(|it| it.at).min().unwrap() - back
    }

    /// How many attempts went on from a checkpoint of the attempt before.
    pub fn gone_on(&self) -> i64 {
        let checkpoints = &self.history.checkpoints;
        let goes_on = |it: &&Resume| {
            checkpoints.iter().any(|from| Some(from.value) == it.value && from.execution != it.execution)
        };
        self.history.resumes.iter().filter(goes_on).count().try_into().unwrap()
    }

    /// Of how many checkpoints nobody heard whether they were stored.
    pub fn unanswered(&self) -> i64 {
        self.history.checkpoints.iter().filter(|it| it.heard.is_none()).count().try_into().unwrap()
    }

    /// How many steps were done, each of which asks for a checkpoint.
    pub fn steps(&self) -> i64 {
        self.history.checkpoints.len().try_into().unwrap()
    }

    /// No attempt was given up and made again: where no node died, each is told its fate.
    pub fn assert_none_abandoned(&self) {
        let abandoned = self.history.executions.iter().find(|it| it.state == "ABANDONED");
        assert!(abandoned.is_none(), "no node died, and yet: {abandoned:?}");
    }

    /// The longest time within the span in which no occurrence of the schedule began.
    pub fn longest_gap(&self, schedule: &str, (from, until): (i64, i64)) -> i64 {
        let begins = self.history.effects.iter().filter(|it| it.schedule == schedule).map(|it| it.at);
        let mut instants: Vec<i64> = begins.filter(|at| (from..until).contains(at)).collect();
        instants.extend([from, until]);
        instants.sort_unstable();
        instants.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    }

    /// The longest time within the span in which nothing began.
    pub fn longest_pause(&self, (from, until): (i64, i64)) -> i64 {
        let begins = self.history.effects.iter().map(|it| it.at).filter(|at| (from..until).contains(at));
        let mut instants: Vec<i64> = begins.chain([from, until]).collect();
        instants.sort_unstable();
        instants.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    }

    /// How long after `since` the last occurrence began of the schedules whose names start so.
    pub fn last_begun(&self, name: &str, since: i64) -> i64 {
        let begins = self.history.effects.iter().filter(|it| it.schedule.starts_with(name));
        begins.map(|it| it.at).max().unwrap() - since
    }

    /// How early the earliest and how late the latest began, of all.
    pub fn lateness(&self) -> (i64, i64) {
        let late = self.history.effects.iter().map(|it| it.at - it.scheduled);
        (late.clone().min().unwrap(), late.max().unwrap())
    }
}

/// A claim that was under way when its node was killed counts as the node's, not as work that nobody had
/// claimed.
pub fn a_claim_under_way_at_the_kill_is_not_picked_up() {
    const KILLED: i64 = 10_000;
    let change = |at, execution, was_at: &str, comes_to: &str, to: &str| Audited {
        change: Change { at, apart: 0, execution, from: None, to: Some(to.to_owned()) },
        was_at: was_at.to_owned(),
        comes_to: comes_to.to_owned(),
    };
    let execution = |id| Execution { id, attempt: 1, due: KILLED + 500, ..Execution::default() };
    let begun = |execution, at| Effect { execution, at, ..Effect::default() };
    let mut settled = Settled::default();
    settled.changes = vec![
        change(KILLED + 5, 1, "", "killed", "RUNNING"),
        change(KILLED + 42_000, 1, "killed", "", "PENDING"),
        change(KILLED + 42_100, 1, "", "other", "RUNNING"),
        change(KILLED + 2_500, 2, "", "other", "RUNNING"),
    ];
    settled.history.executions = vec![execution(1), execution(2)];
    settled.history.effects = vec![begun(1, KILLED + 42_101), begun(2, KILLED + 2_501)];
    assert_eq!(settled.pick_up("killed", KILLED).0, 2_001);
    // One that is queued waits for the dead node's execution of its schedule, but for no other.
    settled.changes.push(change(KILLED + 42_200, 3, "", "other", "RUNNING"));
    settled.history.effects.push(begun(3, KILLED + 42_200));
    let queued = |schedule: &str| Execution {
        schedule: schedule.to_owned(),
        reason: "queued".to_owned(),
        ..execution(3)
    };
    settled.history.executions.push(queued(""));
    assert_eq!(settled.pick_up("killed", KILLED).0, 2_001);
    settled.history.executions[2] = queued("another");
    assert_eq!(settled.pick_up("killed", KILLED).0, 41_700);
}

impl Cluster {
    /// The most lines a node's log got per minute between two instants.
    pub fn log_lines(&self, from: i64, to: i64) -> i64 {
        let stamp = |line: &str| line.split(' ').next().and_then(|it| it.parse::<i64>().ok());
        let lines = |node| {
            let log = self.log(node);
            i64::try_from(log.lines().filter_map(stamp).filter(|at| (from..to).contains(at)).count()).unwrap()
        };
        (0..self.pids.len()).map(lines).max().unwrap() * 60_000 / (to - from)
    }

    /// In how many lines of all logs these words are.
    pub fn said(&self, words: &str) -> usize {
        (0..self.pids.len()).map(|node| self.log(node).matches(words).count()).sum()
    }
}

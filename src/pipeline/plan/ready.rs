//! Due items by line and group, in the order in which they are claimed. Pure.
//!
//! Each job has a line, and another for its executions that were enqueued in another lane. Lines take turns,
//! and so do the groups within a line: the one that has waited longest for a seat is next. So a line or a
//! group with many due items does not hold up the others.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::item::ItemKey;
use crate::domain::{
    BoundOf, Bounds, Candidate, DEFAULT_PRIORITY, ExecutionId, Millis, ScheduleId, Timestamp,
};
use crate::pipeline::lanes::LaneId;

/// A point of priority counts as so long a wait: the higher goes first, and the lower does not wait for ever.
const POINT: Millis = 600_000;

/// The order in which the due items of a group are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Its due time, put forward by its priority.
    order: Timestamp,
    pub due: Timestamp,
    pub priority: Reverse<i32>,
    pub id: i64,
    pub key: ItemKey,
}

/// The group of an item; none for what belongs to none.
pub(super) type Group = Option<Arc<str>>;

pub(super) fn rank(key: ItemKey, candidate: &Candidate) -> Rank {
    let (ItemKey::Schedule(ScheduleId(id)) | ItemKey::Execution(ExecutionId(id))) = key;
    let (due, priority) = (candidate.due(), candidate.priority());
    let order = due.saturating_sub((i64::from(priority) - i64::from(DEFAULT_PRIORITY)) * POINT);
    Rank { order, due, priority: Reverse(priority), id, key }
}

impl Rank {
    /// When its group has something due: others that were due before it may be behind it.
    fn is_due_from(&self) -> Timestamp {
        self.due.min(self.order)
    }
}

/// The line in which an item waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LineKey {
    pub job: Arc<str>,
    /// Of executions that were enqueued in this lane.
    pub lane: Option<LaneId>,
}

#[derive(Default)]
pub(super) struct Ready {
    lines: FxHashMap<LineKey, Line>,
    /// How many seats had been given away when each line got its last one.
    served: FxHashMap<LineKey, u64>,
    seats: u64,
    /// The groups of each job that have no room.
    held: FxHashMap<Arc<str>, FxHashSet<Group>>,
}

impl Ready {
    pub(super) fn insert(&mut self, key: &LineKey, group: &Group, rank: Rank) {
        let is_held = self.is_held(&key.job, group);
        let line = match self.lines.get_mut(key) {
            Some(line) => line,
            None => self.lines.entry(key.clone()).or_default(),
        };
        line.change(group, is_held, |turn| turn.due.insert(rank));
    }

    pub(super) fn remove(&mut self, key: &LineKey, group: &Group, rank: &Rank) {
        self.change(key, group, |turn| turn.due.remove(rank));
    }

    /// How many items of a group are due.
    pub(super) fn count_of(&self, key: &LineKey, group: &Group) -> usize {
        self.lines.get(key).and_then(|line| line.groups.get(group)).map_or(0, |turn| turn.due.len())
    }

    /// Whether a group that counts has something due.
    pub(super) fn has_some(&self, counts: impl Fn(&LineKey, &Group) -> bool) -> bool {
        self.lines.iter().any(|(key, line)| line.groups.keys().any(|group| counts(key, group)))
    }

    /// When the first item of the lines that count is due.
    pub(super) fn first_due(&self, counts: impl Fn(&LineKey) -> bool) -> Option<Timestamp> {
        let lines = self.lines.iter().filter(|(key, _)| counts(key));
        lines.filter_map(|(_, line)| line.heads.first()).map(Rank::is_due_from).min()
    }

    /// The next due item of a line, of the groups that `admits` does not refuse; and its group.
    pub(super) fn next_of(
        &self,
        key: &LineKey,
        now: Timestamp,
        admits: impl Fn(&Group) -> bool,
    ) -> Option<(Rank, Group)> {
        let mut turns = self.lines.get(key)?.turns.iter();
        let (_, rank, group) = turns.find(|(_, rank, group)| rank.due <= now && admits(group))?;
        Some((*rank, group.clone()))
    }

    /// The lines that count and have due items: first the line that has waited longest for a seat, of equals
    /// the one that has been due longest. (By due time alone, batches of one seat would all go to one line.)
    pub(super) fn lines_due(&self, now: Timestamp, counts: impl Fn(&LineKey) -> bool) -> VecDeque<LineKey> {
        let lines = self.lines.iter().filter(|(key, _)| counts(key));
        let firsts = lines.filter_map(|(key, line)| Some((*line.heads.first()?, key)));
        let served = |key: &LineKey| self.served.get(key).copied().unwrap_or_default();
        let due = firsts.filter(|(rank, _)| rank.due <= now).map(|(rank, key)| (served(key), rank, key));
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        due.into_iter().map(|(_, _, key)| key.clone()).collect()
    }

    /// Takes out an item that gets a seat; when its group got its last one before.
    pub(super) fn take(&mut self, key: &LineKey, group: &Group, rank: &Rank) -> u64 {
        self.seats += 1;
        self.served.insert(key.clone(), self.seats);
        let seats = self.seats;
        let taken = self.change(key, group, |turn| {
            turn.due.remove(rank);
            std::mem::replace(&mut turn.served, seats)
        });
        taken.unwrap_or_default()
    }

    /// The item that had got this seat is back: its group was not served.
    pub(super) fn take_back(&mut self, key: &LineKey, group: &Group, before: u64) {
        self.change(key, group, |turn| turn.served = turn.served.min(before));
    }

    /// Changes the turn of a group that has one.
    fn change<T>(&mut self, key: &LineKey, group: &Group, change: impl FnOnce(&mut Turn) -> T) -> Option<T> {
        let is_held = self.is_held(&key.job, group);
        let line = self.lines.get_mut(key).filter(|line| line.groups.contains_key(group))?;
        let changed = line.change(group, is_held, change);
        if line.groups.is_empty() {
            self.lines.remove(key);
        }
        Some(changed)
    }

    /// The group has no room: none of its items is next.
    pub(super) fn hold(&mut self, job: &Arc<str>, group: &Group) {
        if self.held.entry(Arc::clone(job)).or_default().insert(group.clone()) {
            self.lines_of(job).for_each(|line| line.unlist(group));
        }
    }

    /// The group may have room.
    pub(super) fn free(&mut self, job: &str, group: &Group) {
        let Some(held) = self.held.get_mut(job) else { return };
        let was_held = held.remove(group);
        if held.is_empty() {
            self.held.remove(job);
        }
        if was_held {
            self.lines_of(job).for_each(|line| line.list(group));
        }
    }

    /// Any group may.
    pub(super) fn free_all(&mut self) {
        for (job, groups) in std::mem::take(&mut self.held) {
            self.lines_of(&job).for_each(|line| groups.iter().for_each(|group| line.list(group)));
        }
    }

    fn lines_of(&mut self, job: &str) -> impl Iterator<Item = &mut Line> {
        self.lines.iter_mut().filter(move |(key, _)| &*key.job == job).map(|(_, line)| line)
    }

    /// A sabotage: no turns are kept.
    #[cfg(test)]
    pub(super) fn forget_turns(&mut self) {
        self.served.clear();
    }

    /// Everything, earliest first.
    pub(super) fn into_keys(self) -> Vec<ItemKey> {
        let turns = self.lines.into_values().flat_map(|line| line.groups.into_values());
        let mut all: Vec<Rank> = turns.flat_map(|turn| turn.due).collect();
        all.sort_unstable();
        all.into_iter().map(|rank| rank.key).collect()
    }

    fn is_held(&self, job: &str, group: &Group) -> bool {
        !self.held.is_empty() && self.held.get(job).is_some_and(|groups| groups.contains(group))
    }
}

/// The due items of a line. Most jobs have no groups: their line has one turn.
#[derive(Default)]
struct Line {
    groups: FxHashMap<Group, Turn>,
    /// The groups that have room and the first item of each: first who has waited longest for a seat, of
    /// equals the longest due.
    turns: BTreeSet<(u64, Rank, Group)>,
    /// Those first items.
    heads: BTreeSet<Rank>,
}

/// The due items of a group.
struct Turn {
    due: BTreeSet<Rank>,
    /// How many seats had been given away when it got its last one. It begins level with the one that has
    /// waited longest.
    served: u64,
}

impl Turn {
    fn place(&self) -> Option<(u64, Rank)> {
        self.due.first().map(|rank| (self.served, *rank))
    }
}

impl Line {
    fn change<T>(&mut self, group: &Group, is_held: bool, change: impl FnOnce(&mut Turn) -> T) -> T {
        let turn = match self.groups.get_mut(group) {
            Some(turn) => turn,
            None => {
                let served = self.turns.first().map_or(0, |(served, ..)| *served);
                self.groups.entry(group.clone()).or_insert(Turn { due: BTreeSet::new(), served })
            }
        };
        let before = turn.place();
        let changed = change(turn);
        let after = turn.place();
        if after.is_none() {
            self.groups.remove(group);
        }
        if before != after && !is_held {
            self.take_out(before, group);
            self.put_in(after, group);
        }
        changed
    }

    fn list(&mut self, group: &Group) {
        self.put_in(self.groups.get(group).and_then(Turn::place), group);
    }

    fn unlist(&mut self, group: &Group) {
        self.take_out(self.groups.get(group).and_then(Turn::place), group);
    }

    fn put_in(&mut self, place: Option<(u64, Rank)>, group: &Group) {
        if let Some((served, rank)) = place {
            self.turns.insert((served, rank, group.clone()));
            self.heads.insert(rank);
        }
    }

    fn take_out(&mut self, place: Option<(u64, Rank)>, group: &Group) {
        if let Some((served, rank)) = place {
            self.turns.remove(&(served, rank, group.clone()));
            self.heads.remove(&rank);
        }
    }
}

/// The items of a batch of claims: at most one of each schedule, and no more of a job with bounds, and of
/// each of its groups, than can be claimed.
pub(super) struct Batch {
    most: usize,
    schedules: FxHashSet<ScheduleId>,
    /// Items that were put aside, because it holds one of their schedule already.
    pub(super) passed: Vec<(LineKey, Group, Rank)>,
    counts: FxHashMap<BoundOf, u32>,
    /// The groups of which it holds enough.
    enough: FxHashMap<Arc<str>, FxHashSet<Group>>,
}

/// Whether a batch holds another item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    Yes,
    /// One of its schedule is there.
    NoneOfSchedule,
    /// It may hold one of another group.
    NoneOfGroup,
    NoneOfJob,
}

impl Batch {
    /// One of at most so many items; four times as many are looked at.
    pub(super) fn new(most: usize) -> Self {
        let (schedules, passed) = (FxHashSet::default(), Vec::new());
        Self { most, schedules, passed, counts: FxHashMap::default(), enough: FxHashMap::default() }
    }

    /// Whether it holds items of a job with bounds.
    pub(super) fn is_bounded(&self) -> bool {
        !self.counts.is_empty()
    }

    pub(super) fn has_enough(&self, job: &str, group: &Group) -> bool {
        !self.enough.is_empty() && self.enough.get(job).is_some_and(|groups| groups.contains(group))
    }

    pub(super) fn admit(&mut self, job: &Arc<str>, group: &Group, candidate: &Candidate) -> Admitted {
        if self.schedules.len() + self.passed.len() >= 4 * self.most {
            return Admitted::NoneOfJob;
        }
        let exclusive = candidate.exclusive();
        if exclusive.is_some_and(|schedule| self.schedules.contains(&schedule)) {
            return Admitted::NoneOfSchedule;
        }
        let admitted = self.count(job, group, &candidate.entry().bounds);
        self.schedules.extend(exclusive.filter(|_| admitted == Admitted::Yes));
        admitted
    }

    fn count(&mut self, job: &Arc<str>, group: &Group, bounds: &Bounds) -> Admitted {
        if bounds.is_none() {
            return Admitted::Yes;
        }
        let of_job = BoundOf { job: Arc::clone(job), group: None };
        let count = |of: &BoundOf| self.counts.get(of).copied().unwrap_or_default();
        if count(&of_job) >= bounds.job.most() {
            return Admitted::NoneOfJob;
        }
        if group.is_some() {
            let of_group = BoundOf { job: Arc::clone(job), group: group.clone() };
            if count(&of_group) >= bounds.group.most() {
                self.enough.entry(Arc::clone(job)).or_default().insert(group.clone());
                return Admitted::NoneOfGroup;
            }
            *self.counts.entry(of_group).or_default() += 1;
        }
        *self.counts.entry(of_job).or_default() += 1;
        Admitted::Yes
    }
}

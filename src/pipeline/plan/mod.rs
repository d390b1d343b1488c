//! The claims that this node plans: for each schedule a chain of occurrences, of which one link is armed at a
//! time, and the PENDING executions. Pure.

mod item;
mod ready;
mod waits;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use self::item::ItemKey;
use self::item::ItemKind;
use self::ready::{Admitted, Batch, Group, LineKey, Rank, Ready, rank};
use self::waits::Waits;
use super::lanes::{LaneId, LaneSet, Lanes};
use super::poll::{Covered, PollPlan};
use super::wheel::{Due, Handle, Refused, Wheel};
use crate::domain::shards::{self, Share};
use crate::domain::{
    Boot, BoundOf, Candidate, DEFAULT_PRIORITY, ExecutionId, Occurrence, Pending, ScheduleId, SeatWait,
    Timestamp,
};
use crate::time::CLAIM_AHEAD;

/// A full plan still takes items of a small group: one whose due items are fewer than the cap divided by
/// this.
const PARTS: usize = 256;

#[derive(Debug)]
enum ItemPlace {
    Wheel(Handle),
    Ready,
    InFlight,
    /// Until its schedule's slot is free, or the next poll.
    Parked,
}

#[derive(Debug)]
struct Item {
    candidate: Candidate,
    place: ItemPlace,
    /// The instant of its last change here: a poll sent before knows less.
    touched: Boot,
    /// It has already been tried a second time after a lock.
    retried: bool,
    /// While it is in flight: its group's turn before, which comes back if the claim fails.
    turn: u64,
    /// While it is in flight: for which seat it had waited.
    waited: Option<Box<SeatWait>>,
}

pub(crate) struct Plan {
    items: FxHashMap<ItemKey, Box<Item>>,
    /// The links behind an item inside the window; most have none.
    rests: FxHashMap<ItemKey, VecDeque<Occurrence>>,
    /// Items whose last link was won: when, and its due time. A poll sent before still
    /// brings it.
    ended: FxHashMap<ItemKey, (Boot, Timestamp)>,
    wheel: Wheel<ItemKind>,
    ready: Ready,
    pub(super) lanes: Lanes,
    /// Lanes without a seat: what is due in them waits, and is not looked at, until one is free.
    full: LaneSet,
    /// Jobs whose bounds leave no room.
    full_jobs: FxHashSet<Arc<str>>,
    /// Since when something due has waited for a seat.
    waits: Waits,
    /// Occurrences that are not tried before they are due, and when that is.
    deferred: BTreeSet<(Timestamp, ItemKey)>,
    /// By schedule, the execution that keeps its slot, and those that wait for it.
    parked: FxHashMap<ScheduleId, (ExecutionId, BTreeSet<Rank>)>,
    cap: usize,
    /// Bytes of the items' payloads.
    bytes: usize,
    /// Rows were cut off, or the cap refused something: a poll is needed once there is room.
    overflowed: bool,
    /// How many items, and bytes of them, there were after the last poll.
    brought: (usize, usize),
}

impl Plan {
    pub(crate) fn new(now: Timestamp, cap: usize, lanes: Lanes) -> Self {
        Self {
            items: FxHashMap::default(),
            rests: FxHashMap::default(),
            ended: FxHashMap::default(),
            wheel: Wheel::new(now.millis(), cap),
            ready: Ready::default(),
            lanes,
            full: LaneSet::NONE,
            full_jobs: FxHashSet::default(),
            waits: Waits::default(),
            deferred: BTreeSet::new(),
            parked: FxHashMap::default(),
            cap,
            bytes: 0,
            overflowed: false,
            brought: (0, 0),
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// A sabotage: the next batch begins with the job that has been due longest.
    #[cfg(test)]
    pub(crate) fn forget_turns(&mut self) {
        self.ready.forget_turns();
    }

    /// The lane in which a candidate runs here.
    pub(crate) fn lane_of(&self, candidate: &Candidate) -> LaneId {
        self.lane_of_line(&self.line_of(candidate))
    }

    fn line_of(&self, candidate: &Candidate) -> LineKey {
        let job = Arc::clone(&candidate.entry().job);
        let lane = candidate.lane().and_then(|lane| self.lanes.other(lane, &job));
        LineKey { job, lane }
    }

    /// The line and the group in which it waits for a seat.
    fn place_of(&self, candidate: &Candidate) -> (LineKey, Group) {
        (self.line_of(candidate), candidate.group().cloned())
    }

    fn lane_of_line(&self, line: &LineKey) -> LaneId {
        line.lane.unwrap_or_else(|| self.lanes.of(&line.job))
    }

    /// A lane has a free seat.
    pub(crate) fn seat_freed(&mut self, lane: LaneId) {
        self.full.remove(lane);
    }

    /// Whether no lane has a seat.
    pub(crate) fn is_starved(&self) -> bool {
        self.lanes.are_all(self.full)
    }

    /// There is no room for more executions of a job or a group: they wait until it is freed, or the next
    /// poll.
    pub(crate) fn hold(&mut self, of: &BoundOf) {
        match of.group {
            Some(_) => self.ready.hold(&of.job, &of.group),
            None => drop(self.full_jobs.insert(Arc::clone(&of.job))),
        }
    }

    /// A claim found no room in a bound, as earlier ones since then; whether time alone makes some.
    pub(crate) fn waits_for(&mut self, of: &BoundOf, is_rate: bool, since: Timestamp) {
        self.waits.bound_is_full(of, is_rate, since);
    }

    /// Nobody knows what due items wait for now: claims fail, or may not be made.
    pub(crate) fn forget_waits(&mut self) {
        self.waits = Waits::default();
    }

    /// For which seat an item in flight had waited.
    pub(crate) fn waited(&self, key: ItemKey) -> Option<&SeatWait> {
        self.items.get(&key)?.waited.as_deref()
    }

    /// Ends the waits of lanes, jobs and groups for which nothing waits any more.
    fn end_waits(&mut self) {
        if self.waits.is_empty() {
            return;
        }
        let mut waits = std::mem::take(&mut self.waits);
        let of_lane = |lane| self.ready.has_some(|line, _| self.lane_of_line(line) == lane);
        let of_bound = |of: &BoundOf| {
            self.ready
                .has_some(|line, group| line.job == of.job && (of.group.is_none() || *group == of.group))
        };
        waits.retain(of_lane, of_bound);
        self.waits = waits;
    }

    /// There may be room.
    pub(crate) fn free(&mut self, of: &BoundOf) {
        match of.group {
            Some(_) => self.ready.free(&of.job, &of.group),
            None => drop(self.full_jobs.remove(&of.job)),
        }
    }

    /// Whether the due items of a line wait for a seat, or for the end of other executions.
    fn waits(&self, line: &LineKey) -> bool {
        let has_no_seat = !self.full.is_empty() && self.full.contains(self.lane_of_line(line));
        has_no_seat || !self.full_jobs.is_empty() && self.full_jobs.contains(&line.job)
    }

    /// The next instant at which something becomes due or has done so; nothing that waits for a seat.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.first_ready().or_else(|| self.wheel.next_due().map(Timestamp::at))
    }

    /// The next instant at which something becomes due that is not tried before.
    pub(crate) fn next_deferred(&self) -> Option<Timestamp> {
        self.deferred.first().map(|(due, _)| *due)
    }

    /// Whether something is due by `until` and waits for no seat; only what [`Plan::advance`] has reached
    /// counts.
    pub(crate) fn has_due(&self, until: Timestamp) -> bool {
        self.first_ready().is_some_and(|due| due <= until)
    }

    fn first_ready(&self) -> Option<Timestamp> {
        self.ready.first_due(|line| !self.waits(line))
    }

    /// Whether rows were cut off and half of the items brought, or of their bytes, are done; asks once. A
    /// poll that brought nothing to do is not followed by another before the next tick.
    pub(crate) fn wants_poll(&mut self) -> bool {
        let (items, bytes) = self.brought;
        let half_done = 2 * self.items.len() <= items || 2 * self.bytes <= bytes;
        let wants = self.overflowed && items > 0 && half_done;
        self.overflowed &= !wants;
        wants
    }

    /// Drops everything but claims in flight, and starts the wheel anew at `now`.
    pub(crate) fn clear(&mut self, now: Timestamp) {
        self.items.retain(|_, item| matches!(item.place, ItemPlace::InFlight));
        self.bytes = self.items.values().map(|item| size(&item.candidate)).sum();
        self.rests.clear();
        self.ready = Ready::default();
        self.parked.clear();
        self.deferred.clear();
        self.forget_waits();
        self.wheel = Wheel::new(now.millis(), self.cap);
    }

    /// Ends the plan: what was never claimed is handed back, earliest first; it stays as it is in the
    /// database.
    pub(crate) fn drain(&mut self) -> Vec<Candidate> {
        let ready = std::mem::take(&mut self.ready).into_keys().into_iter();
        let waiting = self.wheel.drain().into_iter().map(|(due, kind)| kind.key(due.id));
        let parked = std::mem::take(&mut self.parked).into_values().flat_map(|(_, parked)| parked);
        let keys: Vec<ItemKey> = ready.chain(waiting).chain(parked.map(|rank| rank.key)).collect();
        self.rests.clear();
        keys.into_iter().filter_map(|key| self.take_out(key)).map(|item| item.candidate).collect()
    }

    /// Takes a poll's result in: new rows join, rows whose version or cursor differs are replaced, others are
    /// extended. Rows it does not bring leave: they are gone, paused, another node's now, or cut off and come
    /// again; unless it did not look as far. Claims in flight stay, without what follows them, and so do
    /// PENDING executions that changed since the poll was sent.
    pub(crate) fn take(&mut self, planned: PollPlan, boot: Boot) {
        let is_short = planned.is_short();
        if !is_short {
            self.overflowed |= !planned.complete;
            self.free_all();
        }
        self.ended.retain(|_, (ended, _)| *ended > planned.sent);
        let chains = chains(planned.occurrences);
        let schedules = chains.keys().map(|id| ItemKey::Schedule(*id));
        let seen =
            schedules.chain(planned.pendings.iter().map(|pending| ItemKey::Execution(pending.id))).collect();
        self.forget_unseen(&seen, planned.covered, planned.sent);
        for (id, chain) in chains {
            self.take_chain(id, chain, planned.sent, boot);
        }
        for pending in planned.pendings {
            self.take_pending(pending, planned.sent, boot);
        }
        if !is_short {
            self.brought = (self.items.len(), self.bytes);
        }
        self.end_waits();
    }

    /// Tries all items again that wait for a seat, a place or a slot.
    fn free_all(&mut self) {
        self.full = LaneSet::NONE;
        self.full_jobs.clear();
        self.ready.free_all();
        let parked: Vec<ScheduleId> = self.parked.keys().copied().collect();
        parked.into_iter().for_each(|schedule| self.unpark(schedule));
    }

    fn take_chain(&mut self, id: ScheduleId, mut chain: VecDeque<Occurrence>, sent: Boot, boot: Boot) {
        let key = ItemKey::Schedule(id);
        if let Some(item) = self.items.get(&key) {
            let Candidate::Planned(head) = &item.candidate else { return };
            let same_version = chain.front().is_some_and(|it| it.entry.version == head.entry.version);
            let same_cursor = chain.front().is_some_and(|it| it.at == head.at && it.prev == head.prev);
            if item.is_newer_than(sent) || (same_version && same_cursor) {
                if same_version {
                    let due = item.candidate.due();
                    self.extend(key, due, chain);
                }
                return;
            }
            self.forget(key);
        }
        if let Some((_, last)) = self.ended.get(&key) {
            chain.retain(|link| link.at > *last);
        }
        if let Some(head) = chain.pop_front() {
            self.insert(key, Candidate::Planned(head), chain, boot);
        }
    }

    fn take_pending(&mut self, pending: Pending, sent: Boot, boot: Boot) {
        let key = ItemKey::Execution(pending.id);
        if let Some(item) = self.items.get(&key) {
            let same = matches!(&item.candidate, Candidate::Pending(old) if old.token == pending.token);
            if same || item.is_newer_than(sent) {
                return;
            }
            self.forget(key);
        }
        if !self.ended.contains_key(&key) {
            self.insert(key, Candidate::Pending(pending), VecDeque::new(), boot);
        }
    }

    /// Leaves enqueued executions that are not of these shares to the next poll, which brings those that are
    /// late.
    pub(crate) fn leave_others(&mut self, shares: &[Share]) {
        let is_others = |item: &Item| match &item.candidate {
            Candidate::Pending(it) if it.entry.is_queue && !matches!(item.place, ItemPlace::InFlight) => {
                let shard = shards::of_origin(it.origin);
                let is_in = |share: &Share| {
                    share.jobs.iter().any(|job| **job == *it.entry.job) && share.shards.contains(&shard)
                };
                !shares.iter().any(is_in)
            }
            _ => false,
        };
        let others: Vec<ItemKey> =
            self.items.iter().filter(|(_, item)| is_others(item)).map(|(key, _)| *key).collect();
        others.into_iter().for_each(|key| self.forget(key));
    }

    fn forget_unseen(&mut self, seen: &FxHashSet<ItemKey>, covered: Covered, sent: Boot) {
        let reached = |item: &Item| match &item.candidate {
            Candidate::Planned(_) => covered.schedules,
            Candidate::Pending(pending) => covered.has(pending),
        };
        // A PENDING execution may have been made since. A schedule was there before: the poll would
        // have brought it, also if one of its occurrences was claimed meanwhile.
        let is_gone = |item: &Item| match &item.candidate {
            Candidate::Planned(_) => !matches!(item.place, ItemPlace::InFlight),
            Candidate::Pending(_) => !item.is_newer_than(sent),
        };
        let unseen = self.items.iter().filter(|(key, item)| !seen.contains(key) && reached(item));
        let unseen: Vec<(ItemKey, bool)> = unseen.map(|(key, item)| (*key, is_gone(item))).collect();
        for (key, is_gone) in unseen {
            if is_gone {
                self.forget(key);
            } else {
                self.rests.remove(&key);
            }
        }
    }

    /// Leaves it to the next poll.
    pub(crate) fn forget(&mut self, key: ItemKey) {
        self.rests.remove(&key);
        let Some(item) = self.take_out(key) else { return };
        match item.place {
            ItemPlace::Wheel(handle) => {
                self.wheel.cancel(handle);
            }
            ItemPlace::Ready => {
                let (line, group) = self.place_of(&item.candidate);
                self.ready.remove(&line, &group, &rank(key, &item.candidate));
            }
            ItemPlace::Parked => {
                if let Some((_, parked)) = self.parked.get_mut(&item.candidate.entry().id) {
                    parked.remove(&rank(key, &item.candidate));
                }
            }
            ItemPlace::InFlight => {}
        }
    }

    fn take_out(&mut self, key: ItemKey) -> Option<Box<Item>> {
        let item = self.items.remove(&key)?;
        self.bytes -= size(&item.candidate);
        Some(item)
    }

    fn insert(&mut self, key: ItemKey, candidate: Candidate, rest: VecDeque<Occurrence>, boot: Boot) {
        if self.items.len() >= self.cap && !self.passes_the_cap(&candidate) {
            self.overflowed = true;
            return;
        }
        let due = candidate.due();
        let item = Item {
            candidate,
            place: ItemPlace::InFlight,
            touched: boot,
            retried: false,
            turn: 0,
            waited: None,
        };
        self.bytes += size(&item.candidate);
        self.items.insert(key, Box::new(item));
        if !rest.is_empty() {
            self.rests.insert(key, rest);
        }
        self.arm(key, due);
    }

    /// Whether the candidate has a high priority, or is of a small group: the backlog of others, which fills
    /// the plan, must leave it a place.
    fn passes_the_cap(&self, candidate: &Candidate) -> bool {
        let due = || {
            let (line, group) = self.place_of(candidate);
            self.ready.count_of(&line, &group)
        };
        let is_of_small_group = || candidate.group().is_some() && due() < (self.cap / PARTS).max(1);
        self.items.len() < 2 * self.cap && (candidate.priority() > DEFAULT_PRIORITY || is_of_small_group())
    }

    /// Puts an item where it waits until `due`: into the wheel, or among the ready when that has come.
    fn arm(&mut self, key: ItemKey, due: Timestamp) {
        let Some(item) = self.items.get(&key) else { return };
        let rank = rank(key, &item.candidate);
        let (at, priority, id) = (due.millis(), rank.priority.0, rank.id);
        let place = match self.wheel.insert(Due { at, priority, id }, ItemKind::of(key)) {
            Ok(handle) => ItemPlace::Wheel(handle),
            Err(Refused::Elapsed(_)) => return self.make_ready(key),
            // The plan holds the same cap, so this is not reached; if it were, a later poll brings the row
            // again.
            Err(Refused::Full(_)) => {
                self.overflowed = true;
                self.rests.remove(&key);
                self.take_out(key);
                return;
            }
        };
        self.put(key, place);
    }

    fn put(&mut self, key: ItemKey, place: ItemPlace) {
        if let Some(item) = self.items.get_mut(&key) {
            item.place = place;
        }
    }

    fn make_ready(&mut self, key: ItemKey) {
        let Some(item) = self.items.get(&key) else { return };
        let (line, group) = self.place_of(&item.candidate);
        self.ready.insert(&line, &group, rank(key, &item.candidate));
        self.put(key, ItemPlace::Ready);
    }

    /// Moves what has become due among the ready.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        while self.deferred.first().is_some_and(|(due, _)| due.saturating_add(CLAIM_AHEAD) <= now) {
            self.deferred.pop_first();
        }
        for (due, kind) in self.wheel.advance(now.millis()) {
            self.make_ready(kind.key(due.id));
        }
    }

    /// Due items at `now`, lane by lane and in order, at most one per schedule and any number of enqueued
    /// ones, as long as `permit` grants one for their lane; while there are more, each job gets its share,
    /// and each group of a job. Each is in flight until [`Plan::won`], [`Plan::lost`], [`Plan::skipped`],
    /// [`Plan::again`] or [`Plan::forget`].
    pub(crate) fn pick<P>(
        &mut self,
        now: Timestamp,
        most: usize,
        mut permit: impl FnMut(LaneId) -> Option<P>,
    ) -> Vec<(ItemKey, Candidate, P)> {
        let (mut ranks, mut permits) = (Vec::new(), Vec::new());
        let (mut granting, mut refusing) = (LaneSet::NONE, LaneSet::NONE);
        let (mut batch, present) = (Batch::new(most), now.saturating_sub(CLAIM_AHEAD));
        let mut turns = self.ready.lines_due(now, |line| !self.waits(line));
        while let Some(line) = turns.pop_front().filter(|_| ranks.len() < most) {
            let lane = self.lane_of_line(&line);
            if refusing.contains(lane) {
                continue;
            }
            let Some((rank, group)) = self.next_of(&line, now, &mut batch) else {
                continue;
            };
            let Some(granted) = permit(lane) else {
                refusing.insert(lane);
                self.waits.lane_is_full(lane, present);
                continue;
            };
            granting.insert(lane);
            let before = self.ready.take(&line, &group, &rank);
            let waited = self.wait_of(lane, &line, group, (rank.due, present));
            if let Some(item) = self.items.get_mut(&rank.key) {
                item.turn = before;
                item.waited = waited.map(Box::new);
            }
            ranks.push((lane, rank));
            permits.push((lane, granted));
            turns.push_back(line);
        }
        batch.passed.iter().for_each(|(line, group, rank)| self.ready.insert(line, group, *rank));
        self.full.add(refusing, granting);
        self.end_waits();
        let seated = seat(ranks, permits, batch.is_bounded());
        let picked = seated.filter_map(|(rank, permit)| {
            let item = self.items.get_mut(&rank.key)?;
            item.place = ItemPlace::InFlight;
            Some((rank.key, item.candidate.clone(), permit))
        });
        picked.collect()
    }

    /// For which seat an item of this line and group had to wait since it was due.
    fn wait_of(
        &self,
        lane: LaneId,
        line: &LineKey,
        group: Group,
        (due, now): (Timestamp, Timestamp),
    ) -> Option<SeatWait> {
        if self.waits.is_empty() {
            return None;
        }
        let name = || self.lanes.name(lane);
        self.waits.of((due, now), (lane, name), BoundOf { job: Arc::clone(&line.job), group })
    }

    /// The next due item of a line that can be claimed in this batch. Those that cannot are put aside.
    fn next_of(&mut self, line: &LineKey, now: Timestamp, batch: &mut Batch) -> Option<(Rank, Group)> {
        loop {
            let (rank, group) = self.ready.next_of(line, now, |group| !batch.has_enough(&line.job, group))?;
            let Some(item) = self.items.get(&rank.key) else {
                self.ready.remove(line, &group, &rank);
                continue;
            };
            let schedule = item.candidate.entry().id;
            if self.is_blocked(rank.key, schedule) {
                self.ready.remove(line, &group, &rank);
                self.park(rank, schedule);
                continue;
            }
            match batch.admit(&line.job, &group, &item.candidate) {
                Admitted::Yes => return Some((rank, group)),
                Admitted::NoneOfSchedule => {
                    self.ready.remove(line, &group, &rank);
                    batch.passed.push((line.clone(), group, rank));
                }
                Admitted::NoneOfGroup => {}
                Admitted::NoneOfJob => return None,
            }
        }
    }

    /// The claim was won: its occurrence is over and the next link is armed.
    pub(crate) fn won(&mut self, key: ItemKey, boot: Boot) {
        let over = self.over(key, boot, Self::arm);
        self.ended.extend(over.map(|due| (key, (boot, due))));
    }

    /// The occurrence was passed over. The next link is not tried before it is due: it may well overlap, too.
    pub(crate) fn passed(&mut self, key: ItemKey, boot: Boot) {
        let over = self.over(key, boot, Self::defer);
        self.ended.extend(over.map(|due| (key, (boot, due))));
    }

    /// The claim was lost: another has run its occurrence, and the next link is armed.
    pub(crate) fn lost(&mut self, key: ItemKey, boot: Boot) {
        self.over(key, boot, Self::arm);
    }

    /// Arms the next link. If there is none the item leaves the plan, and the answer is its due time.
    fn over(
        &mut self,
        key: ItemKey,
        boot: Boot,
        arm: fn(&mut Self, ItemKey, Timestamp),
    ) -> Option<Timestamp> {
        let Some(next) = self.following(key) else {
            return self.take_out(key).map(|item| item.candidate.due());
        };
        let item = self.items.get_mut(&key)?;
        let (was, due) = (item.candidate.due(), next.at);
        item.touched = boot;
        item.retried = false;
        item.candidate = Candidate::Planned(next);
        arm(self, key, due);
        (!self.items.contains_key(&key)).then_some(was)
    }

    /// Its row was locked by another: once more after a moment, then left to the next poll.
    pub(crate) fn skipped(&mut self, key: ItemKey, retry_at: Timestamp, boot: Boot) {
        let Some(item) = self.items.get_mut(&key) else { return };
        item.touched = boot;
        if std::mem::replace(&mut item.retried, true) {
            self.forget(key);
        } else {
            self.arm(key, retry_at);
        }
    }

    /// A planned occurrence would overlap another execution before it is due: it is tried again once it is.
    pub(crate) fn wait(&mut self, key: ItemKey, boot: Boot) {
        if let Some(item) = self.items.get_mut(&key) {
            item.touched = boot;
            let due = item.candidate.due();
            self.defer(key, due);
        }
    }

    /// Arms an item that is not to be tried before it is due. The wheel is ahead by as much as claims are.
    fn defer(&mut self, key: ItemKey, due: Timestamp) {
        self.deferred.insert((due, key));
        self.arm(key, due.saturating_add(CLAIM_AHEAD));
    }

    /// A PENDING execution waits, as do all others of its schedule but the one that keeps the slot, until the
    /// slot is free or the next poll: many of them must not be in the way of the slot keeper's retry.
    pub(crate) fn block(&mut self, key: ItemKey, holder: ExecutionId) {
        let Some(item) = self.items.get(&key) else { return };
        let (schedule, rank) = (item.candidate.entry().id, rank(key, &item.candidate));
        self.parked.entry(schedule).or_insert_with(|| (holder, BTreeSet::new())).0 = holder;
        self.park(rank, schedule);
    }

    /// Whether somebody waits for a slot.
    pub(crate) fn awaits_slots(&self) -> bool {
        !self.parked.is_empty()
    }

    /// The slot of this schedule may be free: who waits for it is due.
    pub(crate) fn unpark(&mut self, schedule: ScheduleId) {
        let parked = self.parked.remove(&schedule).map(|(_, parked)| parked).unwrap_or_default();
        for key in parked.into_iter().map(|rank| rank.key) {
            self.again(key);
        }
    }

    fn is_blocked(&self, key: ItemKey, schedule: ScheduleId) -> bool {
        match (key, self.parked.get(&schedule)) {
            (ItemKey::Execution(id), Some((holder, _))) => id != *holder,
            _ => false,
        }
    }

    fn park(&mut self, rank: Rank, schedule: ScheduleId) {
        if let (Some(item), Some((_, parked))) =
            (self.items.get_mut(&rank.key), self.parked.get_mut(&schedule))
        {
            item.place = ItemPlace::Parked;
            parked.insert(rank);
        }
    }

    /// The claim was certainly not made: it is due as before.
    pub(crate) fn again(&mut self, key: ItemKey) {
        if let Some(item) = self.items.get(&key) {
            let (due, turn) = (item.candidate.due(), item.turn);
            let (line, group) = self.place_of(&item.candidate);
            self.arm(key, due);
            self.ready.take_back(&line, &group, turn);
        }
    }

    /// Appends the links beyond what is already planned, the last of which may be the item itself, due at
    /// `due`.
    fn extend(&mut self, key: ItemKey, due: Timestamp, chain: VecDeque<Occurrence>) {
        let known = self.rests.get(&key).and_then(VecDeque::back).map_or(due, |last| last.at);
        let beyond: VecDeque<Occurrence> = chain.into_iter().filter(|it| it.at > known).collect();
        if !beyond.is_empty() {
            self.rests.entry(key).or_default().extend(beyond);
        }
    }

    /// Takes out the link behind an item.
    fn following(&mut self, key: ItemKey) -> Option<Occurrence> {
        let rest = self.rests.get_mut(&key)?;
        let next = rest.pop_front();
        if rest.is_empty() {
            self.rests.remove(&key);
        }
        next
    }
}

impl Item {
    fn is_newer_than(&self, sent: Boot) -> bool {
        matches!(self.place, ItemPlace::InFlight) || self.touched > sent
    }
}

fn size(candidate: &Candidate) -> usize {
    candidate.entry().payload.len()
}

/// Time-ordered occurrences, by schedule.
fn chains(occurrences: Vec<Occurrence>) -> FxHashMap<ScheduleId, VecDeque<Occurrence>> {
    let mut chains: FxHashMap<ScheduleId, VecDeque<Occurrence>> = FxHashMap::default();
    for occurrence in occurrences {
        // Most chains have one link.
        chains.entry(occurrence.entry.id).or_insert_with(|| VecDeque::with_capacity(1)).push_back(occurrence);
    }
    chains
}

/// Pairs the items of each lane with its permits, of which the first are its best seats. They go to the first
/// items in order; where bounds may leave no room for all, to those whose turn it is.
fn seat<P>(
    mut ranks: Vec<(LaneId, Rank)>,
    mut permits: Vec<(LaneId, P)>,
    is_bounded: bool,
) -> impl Iterator<Item = (Rank, P)> {
    match is_bounded {
        true => ranks.sort_by_key(|(lane, _)| *lane),
        false => ranks.sort_unstable(),
    }
    if !permits.is_sorted_by_key(|(lane, _)| *lane) {
        permits.sort_by_key(|(lane, _)| *lane);
    }
    ranks.into_iter().zip(permits).map(|((_, rank), (_, permit))| (rank, permit))
}

#[cfg(test)]
mod tests;

//! Executions of a schedule that must not overlap: none do, nothing is skipped for another that had ended,
//! and what waits for the slot does not wait for nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Effect, Execution, History, Millis, Part, Plan, Verdict, is_over, is_owned};

/// An occurrence of a schedule: its generation, origin and fire time.
type Occurrence = (i64, i64, Millis);

#[derive(Clone, Copy)]
struct Keeper {
    occurrence: Occurrence,
    until: Millis,
    /// It waits, and keeps the slot from its own generation alone.
    waits: bool,
}

impl Keeper {
    /// Whether it keeps another occurrence away, if `latest` is the schedule's last generation: what waits
    /// may belong to an earlier one by then.
    fn keeps_away(&self, other: Occurrence, latest: i64) -> bool {
        self.occurrence != other && !(self.waits && self.occurrence.0 < latest)
    }
}

/// Who keeps the slot of a schedule, change by change.
#[derive(Default)]
struct Slot {
    /// The executions that keep it, until when if that is known.
    open: BTreeMap<i64, Keeper>,
    /// The spans in which somebody kept it, in order.
    kept: Vec<(Millis, Millis)>,
    since: Millis,
}

impl Slot {
    fn take(&mut self, at: Millis, id: i64, occurrence: Occurrence, waits: bool) {
        self.expire(at);
        if self.open.is_empty() {
            self.since = at;
        }
        self.open.insert(id, Keeper { occurrence, until: Millis::MAX, waits });
    }

    fn free(&mut self, at: Millis, id: i64) {
        if self.open.remove(&id).is_some() && self.open.is_empty() {
            self.kept.push((self.since, at));
        }
    }

    /// Ends what kept it until an instant that has passed.
    fn expire(&mut self, at: Millis) {
        let ended: Vec<(i64, Millis)> = self
            .open
            .iter()
            .map(|(id, keeper)| (*id, keeper.until))
            .filter(|(_, until)| *until <= at)
            .collect();
        ended.into_iter().for_each(|(id, until)| self.free(until, id));
    }

    /// When it was kept last before this.
    fn last_kept(&self, at: Millis) -> Millis {
        if self.open.is_empty() { self.kept.last().map_or(Millis::MIN, |(_, until)| *until) } else { at }
    }
}

pub(super) fn overlaps(history: &History, parts: &BTreeMap<&str, Part<'_>>, verdict: &mut Verdict) {
    for plan in history.plans.iter().filter(|plan| plan.exclusive) {
        let Some(part) = parts.get(plan.schedule.as_str()) else { continue };
        runs(history, part, verdict);
        slots(history, plan, part, verdict);
        reasons(history, part, verdict);
    }
    let may_overlap: BTreeSet<&str> =
        history.plans.iter().filter(|it| !it.exclusive).map(|it| it.schedule.as_str()).collect();
    let skipped = |row: &&Execution| row.is_overlapped() && may_overlap.contains(row.schedule.as_str());
    if let Some(row) = history.executions.iter().find(skipped) {
        verdict.blame(format!("skipped, although it may overlap: {row:?}"));
    }
}

/// No two handlers ran at once, but for one that was taken from its node as it ran: the other has a higher
/// fence.
fn runs(history: &History, part: &Part<'_>, verdict: &mut Verdict) {
    let mut effects = part.effects.clone();
    effects.sort_by_key(|it| it.at);
    let is_taken = |it: &Effect| {
        part.rows.get(&it.execution).is_some_and(|row| {
            let is_released = row.state == "TIMED_OUT" && history.dead.contains(&row.node);
            let has_died = row.state == "ABANDONED" || row.reason == "attempts exhausted";
            row.fence != it.fence || has_died || is_released
        })
    };
    let mut last: Option<&Effect> = None;
    for effect in effects {
        let overlapped = last.filter(|it| it.over().is_some_and(|ended| ended > effect.at));
        if let Some(other) = overlapped.filter(|it| !is_taken(it) || it.fence > effect.fence) {
            verdict.blame(format!("ran beside another of its schedule: {other:?} {effect:?}"));
        }
        if overlapped.is_none_or(|it| it.over() < effect.over()) {
            last = Some(effect);
        }
    }
}

/// The ledger says so too, whoever made the execution.
fn slots(history: &History, plan: &Plan, part: &Part<'_>, verdict: &mut Verdict) {
    let rows = &part.rows;
    let latest = plan.generations.keys().next_back().copied().unwrap_or(0);
    let mut slot = Slot::default();
    let mut claimed: BTreeSet<i64> = BTreeSet::new();
    let mut skipped: Vec<&Execution> = Vec::new();
    let mut ended: BTreeMap<i64, Millis> = BTreeMap::new();
    let own = part.changes.iter().filter_map(|change| Some((change, *rows.get(&change.execution)?)));
    for (change, row) in own {
        let (at, occurrence) = (change.at, (row.generation, row.origin, row.scheduled));
        match change.to.as_deref() {
            Some(to) if is_owned(to) => {
                if !change.from.as_deref().is_some_and(is_owned) {
                    slot.expire(at);
                    let other = slot.open.iter().find(|(_, keeper)| keeper.keeps_away(occurrence, latest));
                    if let Some((other, _)) = other {
                        verdict.blame(format!("claimed at {at}, while {other} kept the slot: {row:?}"));
                    }
                    idle(history, &slot, at, row, verdict);
                }
                claimed.insert(row.id);
                slot.take(at, row.id, occurrence, false);
            }
            // It goes on later, or follows one that has just ended.
            Some("PENDING") if claimed.contains(&row.id) => slot.take(at, row.id, occurrence, true),
            Some("PENDING") if row.attempt > 1 && !history.retries.contains(&row.id) => {
                slot.take(at, row.id, occurrence, true);
            }
            Some("TIMED_OUT") => {
                let until = runs_until(history, row).max(at);
                ended.insert(row.id, until);
                if let Some(keeper) = slot.open.get_mut(&row.id) {
                    keeper.until = until;
                }
            }
            Some("SKIPPED") if change.from.is_none() && row.is_overlapped() => skipped.push(row),
            Some(to) if is_over(to) => {
                ended.insert(row.id, at);
                slot.free(at, row.id);
            }
            _ => {}
        }
    }
    for row in skipped {
        let holder = row.holder.and_then(|id| rows.get(&id));
        let end = holder.and_then(|holder| ended.get(&holder.id)).copied().unwrap_or(Millis::MAX);
        let is_other = holder.is_some_and(|it| it.scheduled != row.scheduled || it.origin != 0);
        if !is_other || end.saturating_add(ahead_or_behind(history)) < row.scheduled {
            verdict.blame(format!("skipped for {:?}, which ended at {end}: {row:?}", row.holder));
        }
    }
    slot.expire(history.read);
    if history.changes.is_empty() {
        // Nobody kept them: the handlers' log says when the schedule was run last.
        let ended = part.effects.iter().filter_map(|effect| effect.ended);
        slot.kept.extend(ended.max().map(|until| (until, until)));
    }
    for row in rows.values().filter(|row| row.state == "PENDING") {
        idle(history, &slot, history.read, row, verdict);
    }
}

/// The reason of a skip says whether its holder had begun, as far as that is known: if the holder stayed
/// CLAIMED, or RUNNING, from before the skipped fire time on.
fn reasons(history: &History, part: &Part<'_>, verdict: &mut Verdict) {
    let mut owned: BTreeMap<i64, (Millis, &str)> = BTreeMap::new();
    for change in &part.changes {
        match change.to.as_deref().filter(|to| is_owned(to)) {
            Some(to) => drop(owned.insert(change.execution, (change.at, to))),
            None => drop(owned.remove(&change.execution)),
        }
        let row = part.rows.get(&change.execution).filter(|row| change.from.is_none() && row.is_overlapped());
        let Some(row) = row else { continue };
        let Some((since, state)) = row.holder.and_then(|id| owned.get(&id)) else { continue };
        let was_due = since.saturating_add(ahead_or_behind(history)) < row.scheduled;
        if was_due && (*state == "CLAIMED") != (row.reason == "holder late") {
            verdict.blame(format!("skipped for {:?}, which was {state} since {since}: {row:?}", row.holder));
        }
    }
}

/// Since when a claim that is made now could have been made.
fn idle(history: &History, slot: &Slot, at: Millis, row: &Execution, verdict: &mut Verdict) {
    let could = slot.last_kept(at).max(row.due).max(history.healed);
    if at - could > history.bounds.freed {
        verdict.blame(format!("waited for {} ms for a slot that was free: {row:?}", at - could));
    }
}

/// Until when the handler of one that ran out of time keeps the slot; it is released, at any time, once its
/// node was declared dead.
fn runs_until(history: &History, row: &Execution) -> Millis {
    let own = history.last_run(row);
    match own.map(|it| it.ended) {
        _ if history.dead.contains(&row.node) => Millis::MIN,
        Some(Some(ended)) => ended,
        Some(None) if history.live.contains(&row.node) => Millis::MAX,
        _ => Millis::MIN,
    }
}

/// How far the database's clock may have been from true time.
fn ahead_or_behind(history: &History) -> Millis {
    history.clock.iter().map(|(_, ahead)| ahead.abs()).max().unwrap_or(0) + history.bounds.early
}

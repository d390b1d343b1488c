//! The one checker: judges the history of a run by the rules that must hold after any fault.
//!
//! It knows nothing but its [`History`], which the simulator and the tests of real processes fill in: the
//! ledger, the schedules, the times an oracle expects, the log the jobs kept outside the database, every
//! change of an execution's row, the pauses. Only the standard library is used, so the integration tests
//! include this very file. All instants are database time, milliseconds.

mod attempts;
mod checkpoints;
mod concurrency;
mod containment;
mod covers;
mod delays;
mod expected;
mod fences;
mod history;
mod keys;
mod outcomes;
mod overlaps;
mod requests;
mod reruns;
mod syncs;
mod transactions;
mod withdrawn;

use std::collections::{BTreeMap, BTreeSet};

pub use self::history::*;
pub use self::outcomes::COUNTED;

/// The end of a pause has been carried out this soon.
const ENDING: Millis = 10_000;
/// A repair under FIRE_ALL runs so many, and skips the rest.
const MOST_FIRED: usize = 1_000;

/// Judges a history.
pub fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict { attempts: history.executions.len(), ..Verdict::default() };
    let parts = history.by_schedule();
    let mut ledgers: BTreeMap<&str, Vec<&Execution>> = BTreeMap::new();
    for row in &history.executions {
        ledgers.entry(&row.schedule).or_default().push(row);
    }
    for plan in &history.plans {
        let rows = ledgers.remove(plan.schedule.as_str()).unwrap_or_default();
        occurrences(history, plan, &rows, &mut verdict);
        attempts::attempts(history, plan, &rows, &mut verdict);
    }
    for rows in ledgers.values() {
        verdict.blame(format!("an execution of no schedule: {:?}", rows[0]));
    }
    transitions(history, &mut verdict);
    removals(history, &mut verdict);
    skips(history, &mut verdict);
    pauses(history, &mut verdict);
    removed(history, &mut verdict);
    cancels(history, &mut verdict);
    orders(history, &mut verdict);
    keys::keys(history, &mut verdict);
    requests::requests(history, &mut verdict);
    syncs::syncs(history, &mut verdict);
    reruns::reruns(history, &mut verdict);
    switches(history, &mut verdict);
    attempts::limits(history, &mut verdict);
    attempts::graces(history, &mut verdict);
    overlaps::overlaps(history, &parts, &mut verdict);
    concurrency::concurrency(history, &mut verdict);
    covers::covers(history, &mut verdict);
    containment::containment(history, &parts, &mut verdict);
    expected::expected(history, &parts, &mut verdict);
    outcomes::outcomes(history, &mut verdict);
    effects(history, &mut verdict);
    transactions::transactions(history, &mut verdict);
    checkpoints::checkpoints(history, &mut verdict);
    payloads(history, &mut verdict);
    nodes(history, &mut verdict);
    punctuality(history, &mut verdict);
    fences::fences(history, &mut verdict);
    bounds(history, &mut verdict);
    verdict
}

/// Within a generation the ledger follows the expected times one by one, without a gap, as far as the cursor.
fn occurrences(history: &History, plan: &Plan, all: &[&Execution], verdict: &mut Verdict) {
    let mut generations: BTreeMap<i64, Vec<&Execution>> =
        plan.generations.keys().map(|generation| (*generation, Vec::new())).collect();
    for row in all.iter().filter(|row| row.origin == 0 && row.attempt == 1) {
        generations.entry(row.generation).or_default().push(row);
    }
    let mut behind = None;
    let mut following = None;
    for (generation, mut rows) in generations {
        if let Some(delay) = plan.delays.get(&generation) {
            (behind, following) =
                delays::follow(history, (plan, generation), delay, all, (behind, following), verdict);
            continue;
        }
        rows.sort_by_key(|row| row.scheduled);
        let expected = plan.generations.get(&generation).map_or(&[][..], Vec::as_slice);
        // A one-shot moved to or before the last fire time begins without one.
        behind = behind.filter(|at| expected.first().is_none_or(|first| at < first));
        behind = behind.filter(|_| !plan.unpreceded.contains(&generation));
        let (mut left, mut withdrawal) = (expected, None);
        following = expected.first().copied();
        for row in rows {
            if row.prev != behind {
                verdict.blame(format!(
                    "{}: its cursor came from {:?}, not {behind:?}: {row:?}",
                    plan.schedule, row.prev
                ));
            }
            let covered = left.iter().take_while(|at| **at <= row.last()).count();
            if left.first() != Some(&row.scheduled) || covered as i64 != row.count {
                verdict.blame(format!("{}: expected {:?} next: {row:?}", plan.schedule, left.first()));
            }
            left = &left[covered..];
            following = left.first().copied();
            if row.following != following {
                verdict.blame(format!("{}: its cursor did not go to {following:?}: {row:?}", plan.schedule));
            }
            if row.is_withdrawn() {
                // The cursor was not moved over it.
                withdrawal = Some(row);
                verdict.withdrawn += covered;
                continue;
            }
            behind = Some(row.last());
            if row.state == "SKIPPED" {
                verdict.skipped += covered;
                verdict.overlapped += if row.is_overlapped() { covered } else { 0 };
            } else {
                verdict.fired += 1;
            }
        }
        withdrawn::generation((plan, generation), withdrawal, following, verdict);
    }
    cursor(history, plan, following, verdict);
}

/// The row's cursor stands where its ledger ends, is not behind, and COMPLETE says that nothing is left. A
/// removed schedule has none.
fn cursor(history: &History, plan: &Plan, following: Option<Millis>, verdict: &mut Verdict) {
    if plan.state == REMOVED {
        return;
    }
    if plan.next != following {
        verdict.blame(format!(
            "{}: next is {:?}, the ledger ends before {following:?}",
            plan.schedule, plan.next
        ));
    }
    if !matches!(plan.state.as_str(), "COMPLETE" | "EXECUTING") {
        verdict.blame(format!("{}: left {}", plan.schedule, plan.state));
    }
    if (plan.state == "COMPLETE") != plan.next.is_none() {
        verdict.blame(format!("{}: {} with next {:?}", plan.schedule, plan.state, plan.next));
    }
    let overdue = history.bounds.begun.zip(plan.next).filter(|(bound, next)| {
        plan.state == "EXECUTING" && history.read - (*next).max(history.healed) > *bound
    });
    if overdue.is_some() {
        verdict.blame(format!("{}: due at {:?} and nobody moved it", plan.schedule, plan.next));
    }
}

/// The changes that nodes and clients make.
pub fn is_legal(from: Option<&str>, to: Option<&str>) -> bool {
    match (from, to) {
        (None, Some(to)) => matches!(to, "PENDING" | "CLAIMED" | "RUNNING" | "SKIPPED" | WITHDRAWN),
        (Some(from), None) => is_over(from),
        (Some("PENDING"), Some(to)) => matches!(to, "CLAIMED" | "RUNNING" | "SKIPPED" | "CANCELLED"),
        (Some("CLAIMED"), Some(to)) => matches!(to, "PENDING" | "RUNNING" | "CANCELLED"),
        (Some("RUNNING"), Some(to)) => {
            matches!(to, "PENDING" | "SUCCEEDED" | "FAILED" | "TIMED_OUT" | "CANCELLED" | "ABANDONED")
        }
        _ => false,
    }
}

/// Only legal changes, each from where the one before left the row; a further attempt begins behind an ended
/// one.
fn transitions(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let snoozed: BTreeSet<i64> =
        history.effects.iter().filter(|it| it.snoozed.is_some()).map(|it| it.execution).collect();
    let mut chains = BTreeMap::new();
    let mut states: BTreeMap<i64, &str> = BTreeMap::new();
    for change in history.changes.iter().filter(|change| change.from != change.to) {
        let (from, to) = (change.from.as_deref(), change.to.as_deref());
        if !is_legal(from, to) || states.get(&change.execution).copied() != from {
            verdict.blame(format!("an illegal change: {change:?}"));
        }
        match to {
            Some(to) => drop(states.insert(change.execution, to)),
            None => drop(states.insert(change.execution, REMOVED)),
        }
        let Some(row) = rows.get(&change.execution).filter(|_| from.is_none()) else { continue };
        // A snooze moves what the row says.
        let is_granted = row.attempt > 1 && !history.retries.contains(&row.id) && !snoozed.contains(&row.id);
        if is_granted && row.due > change.at + history.bounds.again {
            verdict.blame(format!("another attempt, but not for long: {row:?}"));
        }
        let by_hand = row.origin != 0 || row.state == "SKIPPED" && row.reason == "by hand";
        if !by_hand && row.last() > change.at + history.bounds.early {
            verdict.blame(format!("accounted for at {}, before its time: {row:?}", change.at));
        }
        let chain =
            chains.entry((&row.schedule, row.generation, row.origin, row.scheduled)).or_insert(row.id);
        let before = states.get(chain).filter(|state| row.id != *chain && !is_over(state));
        if before.is_some() {
            verdict.blame(format!("a further attempt before the last had ended: {row:?}"));
        }
        *chain = row.id;
    }
    let told = history.executions.iter().filter(|_| !history.changes.is_empty());
    let ends = |row: &&Execution| [Some(&*row.state), Some(REMOVED)].contains(&states.get(&row.id).copied());
    for row in told.filter(|row| !ends(row)) {
        verdict.blame(format!("its changes do not end there: {row:?}"));
    }
}

/// What is removed has ended long ago, and nothing planned before it in the same generation is left. What was
/// enqueued is removed by itself.
fn removals(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let mut removed: BTreeMap<i64, Millis> = BTreeMap::new();
    for change in history.changes.iter().filter(|change| change.to.is_none()) {
        removed.insert(change.execution, change.at);
        let Some(row) = rows.get(&change.execution) else { continue };
        let ended = row.finished.map(|finished| finished.max(row.scheduled));
        if ended.is_none_or(|ended| change.at - ended < history.kept - 2 * history.bounds.early) {
            verdict.blame(format!("removed at {}, too soon: {row:?}", change.at));
        }
    }
    tried_again_when_removed(history, &rows, &removed, verdict);
    let mut chains: BTreeMap<_, Vec<&Execution>> = BTreeMap::new();
    for row in history.executions.iter().filter(|_| !removed.is_empty()) {
        let chain = match row.origin {
            origin if row.schedule.starts_with(QUEUE) => origin,
            origin => i64::from(origin != 0),
        };
        chains.entry((&row.schedule, row.generation, chain)).or_default().push(row);
    }
    for rows in chains.values_mut() {
        rows.sort_by_key(|row| (row.origin, row.scheduled, row.attempt));
        let mut is_left = rows.iter().skip_while(|row| removed.contains_key(&row.id));
        if let Some(row) = is_left.find(|row| removed.contains_key(&row.id)) {
            verdict.blame(format!("removed before what was planned earlier: {row:?}"));
        }
        verdict.removed += rows.iter().filter(|row| removed.contains_key(&row.id)).count();
    }
}

/// No attempt follows one that was removed before: an occurrence is removed as a whole.
fn tried_again_when_removed(
    history: &History,
    rows: &BTreeMap<i64, &Execution>,
    removed: &BTreeMap<i64, Millis>,
    verdict: &mut Verdict,
) {
    let occurrence = |row: &Execution| (row.schedule.clone(), row.generation, row.origin, row.scheduled);
    let gone = removed.iter().filter_map(|(id, at)| Some((occurrence(rows.get(id)?), *at)));
    let gone: BTreeMap<_, Millis> = gone.collect();
    for change in history.changes.iter().filter(|change| change.from.is_none() && !gone.is_empty()) {
        let Some(row) = rows.get(&change.execution).filter(|row| row.attempt > 1) else { continue };
        if gone.get(&occurrence(row)).is_some_and(|at| *at < change.at) {
            verdict.blame(format!("tried again, although what it follows was removed: {row:?}"));
        }
    }
}

/// Nothing is skipped without a reason: it was late beyond its threshold and its policy says so, or a pause
/// ended.
fn skips(history: &History, verdict: &mut Verdict) {
    let plans: BTreeMap<&str, &Plan> =
        history.plans.iter().map(|plan| (plan.schedule.as_str(), plan)).collect();
    let made: BTreeMap<i64, Millis> = history
        .changes
        .iter()
        .filter(|change| change.from.is_none())
        .map(|change| (change.execution, change.at))
        .collect();
    let mut together: BTreeMap<(&str, Millis), Vec<&Execution>> = BTreeMap::new();
    for row in history.executions.iter().filter(|row| row.attempt == 1 && !row.is_withdrawn()) {
        if let Some(at) = made.get(&row.id) {
            together.entry((&row.schedule, *at)).or_default().push(row);
        }
    }
    for ((schedule, at), rows) in &together {
        let Some(plan) = plans.get(schedule) else { continue };
        let skipped = |reason: &str| rows.iter().find(|row| row.state == "SKIPPED" && row.reason == reason);
        if let Some(row) = skipped("paused") {
            let ended =
                |it: &Pause| it.schedule == row.schedule && (it.until..=it.until + ENDING).contains(at);
            let held_back = |it: &Switch| {
                it.holds_back(Some(&plan.job))
                    && (it.from..=it.until.saturating_add(history.bounds.call)).contains(at)
            };
            if !history.pauses.iter().any(ended) && !history.switches.iter().any(held_back) {
                verdict.blame(format!("skipped at {at} for a pause nobody made: {row:?}"));
            }
        }
        if let Some(row) = skipped("by hand")
            && !history.skips.iter().any(|(name, at)| name == schedule && *at == row.scheduled)
        {
            verdict.blame(format!("skipped, and nobody asked for it: {row:?}"));
        }
        let Some(row) = skipped("misfire") else { continue };
        let first = rows.iter().map(|row| row.scheduled).min().unwrap_or(*at);
        if at - first < plan.threshold - 2 * history.bounds.early {
            verdict.blame(format!("skipped at {at}, less than {} ms late: {row:?}", plan.threshold));
        }
        let runs_last = rows.iter().any(|it| Some(it.scheduled) == row.following && it.state != "SKIPPED")
            || rows.iter().any(|it| Some(it.scheduled) == row.following && it.reason == "superseded");
        if plan.misfire == "FIRE_ONCE" && !runs_last || plan.misfire == "FIRE_ALL" && rows.len() < MOST_FIRED
        {
            verdict.blame(format!("skipped against its policy, {}: {row:?}", plan.misfire));
        }
    }
}

/// While a schedule is paused nothing planned is claimed, and a pause is no misfire.
fn pauses(history: &History, verdict: &mut Verdict) {
    let planned: BTreeMap<i64, &Execution> =
        history.executions.iter().filter(|row| row.origin == 0).map(|row| (row.id, row)).collect();
    let is_new = |change: &Change| {
        change.to.as_deref().is_some_and(is_owned) && !change.from.as_deref().is_some_and(is_owned)
            || change.from.is_none()
                && planned.get(&change.execution).is_some_and(|row| row.reason == "misfire")
    };
    for claim in history.changes.iter().filter(|change| is_new(change)) {
        let Some(row) = planned.get(&claim.execution) else { continue };
        let during = |pause: &&Pause| {
            pause.schedule == row.schedule && pause.from < claim.at && claim.at < pause.until
        };
        if let Some(pause) = history.pauses.iter().find(during) {
            verdict.blame(format!("claimed or repaired at {} in {pause:?}: {row:?}", claim.at));
        }
    }
}

/// Nothing of a removed schedule is claimed or repaired; nothing is cancelled that nobody asked for, and
/// nothing follows what somebody did.
fn removed(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let is_new = |change: &Change| {
        let is_repair = || rows.get(&change.execution).is_some_and(|row| row.reason == "misfire");
        change.to.as_deref().is_some_and(is_owned) && !change.from.as_deref().is_some_and(is_owned)
            || change.from.is_none() && is_repair()
    };
    for change in &history.changes {
        let Some(row) = rows.get(&change.execution) else { continue };
        let mut removals = history.removals.iter().filter(|it| it.schedule == row.schedule);
        if change.to.as_deref() == Some("CANCELLED") {
            let with_it = row.reason == "removed" && removals.any(|it| it.from <= change.at);
            let asks = |it: &Cancel| it.execution == row.id && it.at <= change.at;
            let is_of_claim = |it: &Cancel| row.claimed.is_some_and(|claimed| claimed <= it.at);
            let is_lost = history.lost_cancels.iter().any(|it| asks(it) && is_of_claim(it));
            if !with_it && !is_lost && !history.cancels.iter().any(asks) {
                verdict.blame(format!("cancelled at {} for no reason: {row:?}", change.at));
            }
        } else if let Some(removal) = removals.find(|it| it.from < change.at && change.at < it.until)
            && is_new(change)
        {
            verdict.blame(format!("claimed or repaired at {} in {removal:?}: {row:?}", change.at));
        }
    }
}

/// No attempt follows one that was asked to end before.
fn cancels(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let key = |row: &Execution| (row.schedule.clone(), row.generation, row.origin, row.scheduled);
    let mut asked = BTreeMap::new();
    for (cancel, row) in history.cancels.iter().filter_map(|it| Some((it, *rows.get(&it.execution)?))) {
        asked.insert((key(row), row.attempt), cancel.at);
    }
    for change in history.changes.iter().filter(|change| change.from.is_none()) {
        let Some(row) = rows.get(&change.execution).filter(|row| row.attempt > 1) else { continue };
        if history.retries.contains(&row.id) {
            continue;
        }
        if asked.get(&(key(row), row.attempt - 1)).is_some_and(|at| *at < change.at) {
            verdict.blame(format!("another attempt although somebody cancelled the one before: {row:?}"));
        }
    }
}

/// What was asked for is there, once, and is run with its own payload; nothing else is beside the plan.
fn orders(history: &History, verdict: &mut Verdict) {
    let Some(orders) = &history.orders else { return };
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let ordered: BTreeMap<i64, &Order> = orders.iter().map(|order| (order.execution, order)).collect();
    let mut payloads: BTreeMap<(&str, i64), &str> = BTreeMap::new();
    for order in orders {
        match rows.get(&order.execution) {
            Some(row) if row.origin != 0 && row.attempt == 1 => {
                payloads.extend(order.payload.as_ref().map(|own| ((&*row.schedule, row.origin), &**own)));
            }
            row => verdict.blame(format!("asked for, and this came of it: {order:?} {row:?}")),
        }
    }
    for row in history.executions.iter().filter(|row| row.origin != 0 && row.attempt == 1) {
        if !ordered.contains_key(&row.id) {
            verdict.blame(format!("neither planned nor asked for: {row:?}"));
        }
    }
    for effect in &history.effects {
        let own = rows.get(&effect.execution).and_then(|row| payloads.get(&(&*row.schedule, row.origin)));
        if own.is_some_and(|own| *own != effect.payload) {
            verdict.blame(format!("run with another payload than its own, {own:?}: {effect:?}"));
        }
    }
}

/// Who is switched off claims nothing once a poll has told it, and nobody repairs the schedules of a job or
/// an application that is.
fn switches(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let jobs: BTreeMap<&str, &str> =
        history.plans.iter().map(|plan| (plan.schedule.as_str(), plan.job.as_str())).collect();
    let job_of = |row: &Execution| jobs.get(row.schedule.as_str()).copied();
    for off in &history.switches {
        // Rows have the database's time, switches the true one.
        let is_during =
            |at: Millis| off.known + history.ahead(at) < at && at + history.bounds.early < off.until;
        let is_meant = |row: &&Execution| match &off.node {
            Some(node) => *node == row.node,
            None => off.holds_back(job_of(row)),
        };
        let claimed = |row: &&Execution| row.claimed.is_some_and(is_during);
        if let Some(row) = history.executions.iter().find(|row| is_meant(row) && claimed(row)) {
            verdict.blame(format!("claimed although switched off: {off:?} {row:?}"));
        }
        // Whenever it was asked for.
        let made = |change: &&Change| {
            let is_claim = change.from.is_none() && change.to.as_deref().is_some_and(is_owned);
            is_claim && off.known + history.bounds.call < change.at && is_during(change.at)
        };
        let is_of =
            |change: &&Change| rows.get(&change.execution).is_some_and(|row| off.holds_back(job_of(row)));
        let mut claims = history.changes.iter().filter(is_of);
        if let Some(change) = claims.find(made) {
            verdict.blame(format!("claimed although switched off: {off:?} {change:?}"));
        }
        let repaired = |change: &&Change| change.from.is_none() && is_during(change.at);
        let mut repairs = history.changes.iter().filter(|change| is_of(change) && repaired(change));
        if let Some(change) =
            repairs.find(|it| rows.get(&it.execution).is_some_and(|row| row.reason == "misfire"))
        {
            verdict.blame(format!("repaired although switched off: {off:?} {change:?}"));
        }
        let is_held_back = |row: &&Execution| {
            let is_passed = off.passes.is_some_and(|(from, to)| from < row.scheduled && row.scheduled < to);
            let is_planned = row.origin == 0 && row.attempt == 1;
            is_passed && is_planned && off.holds_back(job_of(row)) && row.claimed >= Some(off.until)
        };
        if let Some(row) = history.executions.iter().find(is_held_back) {
            verdict.blame(format!("run although a pause had held it back: {off:?} {row:?}"));
        }
        let begins = |effect: &&Effect| {
            // A row names the node of its last claim.
            let row = rows.get(&effect.execution).filter(|row| row.fence == effect.fence);
            let is_here = row.is_some_and(&is_meant);
            off.drains && is_here && is_during(effect.at)
        };
        if let Some(effect) = history.effects.iter().find(begins) {
            verdict.blame(format!("begun on a node that drains: {off:?} {effect:?}"));
        }
    }
}

/// Each attempt begins at most once, before it is taken away, and ends in an outcome of its own.
fn effects(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let settled: BTreeMap<i64, Millis> =
        history.changes.iter().filter(|it| it.to.is_some()).map(|it| (it.execution, it.at)).collect();
    let mut begun: BTreeMap<i64, Vec<&Effect>> = BTreeMap::new();
    for effect in &history.effects {
        begun.entry(effect.execution).or_default().push(effect);
    }
    for (id, effects) in &begun {
        let Some(row) = rows.get(id) else {
            verdict.blame(format!("begun without a row: {:?}", effects[0]));
            continue;
        };
        if effects.iter().any(|it| (it.scheduled, it.attempt) != (row.scheduled, row.attempt)) {
            verdict.blame(format!("begun as another than its row says: {effects:?} {row:?}"));
        }
        let went_back =
            |it: &Effect| it.snoozed.is_some() && it.committed.is_empty() && goes_back(history, it);
        let is_last = |it: &Effect| it.fence == row.fence && !went_back(it);
        let own_due = |it: &Effect| if is_last(it) { row.due } else { row.scheduled };
        let early = |it: &&Effect| it.at + history.ahead(it.at) < own_due(it).max(row.scheduled);
        if effects.iter().any(early) {
            verdict.blame(format!("begun before it was due: {effects:?} {row:?}"));
        }
        // A lower fence: the row was taken back and claimed anew before this one began.
        let taken = settled.get(id).copied().or(row.finished);
        let is_late = |it: &Effect| it.fence != row.fence || row.state == "ABANDONED" && taken < Some(it.at);
        let late = effects.iter().filter(|it| is_late(it) && !went_back(it)).count();
        let snoozed: Vec<&&Effect> =
            effects.iter().filter(|it| it.fence != row.fence && went_back(it)).collect();
        let is_too_soon = |snooze: &&&Effect| {
            let after = effects.iter().filter(|it| it.fence > snooze.fence);
            after.into_iter().any(|it| Some(it.at + history.ahead(it.at)) < snooze.snoozed)
        };
        if let Some(snooze) = snoozed.iter().find(|it| is_too_soon(it)) {
            verdict.blame(format!("gone on with before its snooze was over: {snooze:?} {row:?}"));
        }
        if effects.len() - late - snoozed.len() > 1 {
            verdict.blame(format!("begun more than once: {effects:?} {row:?}"));
        }
        if history.stopped {
            verdict.excused += late;
        } else if late > 0 {
            verdict.blame(format!("begun after it was taken away: {effects:?} {row:?}"));
        }
    }
    let by_handler = |row: &&Execution| {
        matches!(row.state.as_str(), "SUCCEEDED" | "FAILED") && row.reason != "attempts exhausted"
    };
    for row in history.executions.iter().filter(by_handler) {
        let own = begun.get(&row.id).into_iter().flatten().find(|it| it.fence == row.fence);
        let before = |ended: Millis| settled.get(&row.id).is_none_or(|at| ended <= *at);
        if own.is_none_or(|it| !it.over().is_some_and(before)) {
            verdict.blame(format!("an outcome that is not its own: {own:?} {row:?}"));
        }
    }
}

/// Whether the row became PENDING once this run of it had ended. Nobody kept the changes: taken for granted.
fn goes_back(history: &History, effect: &Effect) -> bool {
    let mut changes = history.changes.iter().filter(|it| it.execution == effect.execution);
    let went = |it: &Change| {
        let is_return = it.from.as_deref() == Some("RUNNING") && it.to.as_deref() == Some("PENDING");
        is_return && effect.ended <= Some(it.at)
    };
    effect.ended.is_some() && (history.changes.is_empty() || changes.any(went))
}

/// What was claimed as planned, and never given back, runs with the payload that held when it was claimed.
fn payloads(history: &History, verdict: &mut Verdict) {
    let plans: BTreeMap<&str, &Plan> =
        history.plans.iter().map(|plan| (plan.schedule.as_str(), plan)).collect();
    let mut claimed: BTreeMap<i64, Millis> = BTreeMap::new();
    for change in &history.changes {
        match (&change.from, change.to.as_deref()) {
            (None, Some("CLAIMED" | "RUNNING")) => drop(claimed.insert(change.execution, change.at)),
            (_, Some("PENDING")) => drop(claimed.remove(&change.execution)),
            _ => {}
        }
    }
    let by_hand: BTreeSet<i64> =
        history.executions.iter().filter(|row| row.origin != 0).map(|row| row.id).collect();
    for effect in history.effects.iter().filter(|effect| !by_hand.contains(&effect.execution)) {
        let Some(plan) = plans.get(effect.schedule.as_str()) else { continue };
        let Some(at) = claimed.get(&effect.execution) else { continue };
        // An edit of the same instant may have come before or after.
        let mut held = plan.payloads.iter().filter(|(since, _)| since <= at).rev();
        let latest = held.next();
        let before = held.next().filter(|_| latest.is_some_and(|(since, _)| since == at));
        let fits = |known: &(Millis, String)| known.1 == effect.payload;
        if latest.is_some_and(|it| !fits(it)) && !before.is_some_and(fits) {
            verdict.blame(format!("run with another payload than {latest:?}: {effect:?}"));
        }
    }
}

/// A stopped or slow database kills nobody, and nothing is taken from a node that lives.
fn nodes(history: &History, verdict: &mut Verdict) {
    for node in history.dead.difference(&history.doomed) {
        verdict.blame(format!("node {node} was declared dead for no reason"));
    }
    for span in history.unnoticed.iter().filter(|span| **span > history.bounds.noticed) {
        verdict.blame(format!("a death was not noticed within {span} ms"));
    }
    for row in &history.executions {
        // The commit of its outcome may be lost: the node has stored it and let it go.
        let is_lost = history.lost.iter().any(|it| (it.execution, it.fence) == (row.id, row.fence));
        if row.state == "ABANDONED" && history.live.contains(&row.node) && !is_lost {
            verdict.blame(format!("taken from a node that lives: {row:?}"));
        }
    }
}

/// A schedule beside misbehaving neighbours goes on.
fn punctuality(history: &History, verdict: &mut Verdict) {
    for plan in &history.plans {
        let Some(bound) = plan.punctual else { continue };
        let own = history.executions.iter().filter(|row| row.schedule == plan.schedule);
        for row in own.filter(|row| row.state == "SKIPPED") {
            verdict.blame(format!("stopped by its neighbours: {row:?}"));
        }
        let own = history.effects.iter().filter(|effect| effect.schedule == plan.schedule);
        for effect in own.filter(|effect| effect.attempt == 1 && effect.at - effect.scheduled > bound) {
            verdict.blame(format!("begun {} ms late: {effect:?}", effect.at - effect.scheduled));
        }
    }
}

/// Once faults have stopped nothing stays behind.
fn bounds(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let since = |at: Millis| at.max(history.healed);
    for row in history.executions.iter().filter(|row| is_owned(&row.state)) {
        if history.read - since(row.claimed.unwrap_or(row.due)) > history.bounds.settled {
            verdict.blame(format!("still held: {row:?}"));
        }
    }
    let Some(bound) = history.bounds.begun else { return };
    // What waits for a slot, or for a place among those of its job that may run, is not late.
    let is_limited = |plan: &Plan| [plan.concurrency, plan.group_concurrency] != [Limit::default(); 2];
    let waits = |plan: &&Plan| plan.exclusive || is_limited(plan);
    let exclusive: BTreeSet<&str> =
        history.plans.iter().filter(waits).map(|it| it.schedule.as_str()).collect();
    let waits = |row: &Execution| exclusive.contains(row.schedule.as_str());
    for row in history.executions.iter().filter(|row| row.state == "PENDING" && !waits(row)) {
        if history.read - since(row.due) > bound {
            verdict.blame(format!("due and nobody took it: {row:?}"));
        }
    }
    let after = history.effects.iter().filter(|effect| effect.at > history.healed);
    for effect in after.filter(|effect| !exclusive.contains(effect.schedule.as_str())) {
        let due = rows.get(&effect.execution).map_or(effect.scheduled, |row| row.due);
        if effect.at - since(due) > bound {
            verdict.blame(format!("begun {} ms late: {effect:?}", effect.at - since(due)));
        }
    }
}

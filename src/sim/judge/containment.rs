//! Schedules paused for failures in a row: soon enough to spare further nodes, and after no fewer failures
//! than it takes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::history::{Change, Execution, History, Millis, Part, Plan, Verdict, is_owned};

/// So many deaths in a row pause any schedule that may be paused at all.
const MOST_DEATHS: u32 = 2;

/// An attempt's state, and whether its handler is gone if it ran out of time.
type Stood = (String, bool);

/// The attempts at planned occurrences of a schedule, as they stood at some instant.
struct Ledger<'a> {
    history: &'a History,
    rows: &'a BTreeMap<i64, &'a Execution>,
    /// When somebody asked for the end of each.
    cancelled: BTreeMap<i64, Millis>,
    /// Those that went back to PENDING while they ran: on which node that was is not known any more.
    moved_on: BTreeSet<i64>,
    /// By generation and fire time, and by number.
    occurrences: BTreeMap<(i64, Millis), BTreeMap<u32, (i64, Stood)>>,
    generation: i64,
}

/// How many occurrences in a row failed, and on how many nodes they died.
#[derive(Clone, Copy, Default)]
struct Streak {
    failures: u32,
    deaths: u32,
    /// The newest, up to a failure.
    deaths_in_a_row: u32,
}

impl Streak {
    fn is_due(self, pause_after: Option<u32>) -> bool {
        let limit = pause_after.unwrap_or(u32::MAX);
        limit > 0 && (self.deaths_in_a_row >= MOST_DEATHS || self.failures + self.deaths >= limit)
    }
}

impl Ledger<'_> {
    fn note(&mut self, change: &Change) {
        let Some(row) = self.rows.get(&change.execution) else { return };
        self.generation = self.generation.max(row.generation);
        let attempts = self.occurrences.entry((row.generation, row.scheduled)).or_default();
        match &change.to {
            None => drop(attempts.remove(&row.attempt)),
            Some(state) => {
                let is_over = change.from.as_deref() == Some("TIMED_OUT");
                attempts.insert(row.attempt, (row.id, (state.clone(), is_over)));
            }
        }
    }

    /// That of the latest generation since an instant, at the least; or as a pause at `paused` may have
    /// counted it: with what is about to be taken from a dead node, and before a cancel at that instant.
    fn streak(&self, since: Millis, paused: Option<Millis>) -> Streak {
        let (mut failures, mut nodes, mut deaths_in_a_row) = (0, BTreeSet::new(), 0);
        let own = self
            .occurrences
            .range((self.generation, since.saturating_add(1))..(self.generation + 1, i64::MIN));
        for (id, (state, is_over)) in own.rev().filter_map(|(_, attempts)| attempts.values().next_back()) {
            let Some(row) = self.rows.get(id) else { continue };
            let may_be_dead = self.history.dead.contains(&row.node) || self.moved_on.contains(id);
            let is_dying = paused.is_some() && may_be_dead;
            let counted = paused.unwrap_or(Millis::MAX);
            let is_cancelled = self.cancelled.get(id).is_some_and(|asked| *asked < counted);
            let death = match state.as_str() {
                "SUCCEEDED" => break,
                _ if is_cancelled => continue,
                "ABANDONED" => true,
                "FAILED" => row.reason == "attempts exhausted",
                "TIMED_OUT" if *is_over => row.reason == "node died",
                "TIMED_OUT" | "RUNNING" if is_dying => true,
                _ => continue,
            };
            if death {
                let is_new = nodes.insert(row.node.as_str());
                deaths_in_a_row += u32::from(is_new && failures == 0);
            } else {
                failures += 1;
            }
        }
        Streak { failures, deaths: u32::try_from(nodes.len()).unwrap_or(u32::MAX), deaths_in_a_row }
    }
}

/// What becomes of a schedule, change by change.
struct Watch<'a> {
    history: &'a History,
    plan: &'a Plan,
    ledger: Ledger<'a>,
    /// When it paused itself, and that was not looked at yet.
    pauses: VecDeque<Millis>,
    is_watched: bool,
    /// When it was to be paused last, if only until a change at that instant.
    due_at: Millis,
}

impl Watch<'_> {
    /// When the last pause had ended by then.
    fn resumed(&self, at: Millis) -> Millis {
        let own = self.history.pauses.iter().filter(|it| it.schedule == self.plan.schedule && it.until <= at);
        own.map(|it| it.until).max().unwrap_or(-1)
    }

    fn is_due(&self, at: Millis) -> bool {
        self.ledger.streak(self.resumed(at), Some(at)).is_due(self.plan.pause_after)
    }

    /// The pauses before an instant had a reason.
    fn justify(&mut self, until: Millis, verdict: &mut Verdict) {
        while let Some(at) = self.pauses.pop_front_if(|at| *at < until) {
            if self.due_at != at && !self.is_due(at) {
                verdict.blame(format!(
                    "{}: paused itself at {at}, and had failed too seldom",
                    self.plan.schedule
                ));
            }
        }
    }

    /// It should have been paused: for deaths before the last of them was stored, unless executions ran side
    /// by side.
    fn claim(&mut self, row: &Execution, at: Millis, verdict: &mut Verdict) {
        self.ledger.generation = self.ledger.generation.max(row.generation);
        let Streak { failures, deaths, deaths_in_a_row } = self.ledger.streak(self.resumed(at), None);
        let limit = self.plan.pause_after.unwrap_or(u32::MAX);
        let beside = if self.plan.exclusive { 0 } else { 2 };
        let by_deaths = deaths_in_a_row >= MOST_DEATHS.min(limit) + beside;
        let by_all = failures + deaths >= limit.saturating_add(self.history.bounds.contained);
        if limit > 0 && (by_deaths || by_all) {
            verdict.blame(format!("{}: claimed, and should have been paused: {row:?}", self.plan.schedule));
        }
    }

    fn note(&mut self, change: &Change) {
        // A pause at this instant may have counted what held until this change.
        let was_due = self.is_watched && self.is_due(change.at);
        self.ledger.note(change);
        if was_due || self.is_watched && self.is_due(change.at) {
            self.due_at = change.at;
        }
    }
}

pub(super) fn containment(history: &History, parts: &BTreeMap<&str, Part<'_>>, verdict: &mut Verdict) {
    // Nobody kept the changes: taken for granted.
    if history.changes.is_empty() {
        return;
    }
    let none = Part::default();
    for plan in &history.plans {
        let part = parts.get(plan.schedule.as_str()).unwrap_or(&none);
        schedule(history, plan, part, verdict);
    }
}

fn schedule(history: &History, plan: &Plan, part: &Part<'_>, verdict: &mut Verdict) {
    let planned = part.rows.iter().filter(|(_, row)| row.origin == 0);
    let rows = &planned.map(|(id, row)| (*id, *row)).collect();
    let own = history.contained.iter().filter(|(name, _)| *name == plan.schedule);
    let pauses: VecDeque<Millis> = own.map(|(_, at)| *at).collect();
    let cancelled = history.cancels.iter().map(|it| (it.execution, it.at)).collect();
    let went_back =
        |it: &&&Change| (it.from.as_deref(), it.to.as_deref()) == (Some("RUNNING"), Some("PENDING"));
    let moved_on = part.changes.iter().filter(went_back).map(|it| it.execution).collect();
    let ledger = Ledger { history, rows, cancelled, moved_on, occurrences: BTreeMap::new(), generation: 0 };
    let is_watched = !pauses.is_empty();
    let mut watch = Watch { history, plan, ledger, pauses, is_watched, due_at: Millis::MIN };
    for change in &part.changes {
        let Some(row) = rows.get(&change.execution) else { continue };
        watch.justify(change.at, verdict);
        let is_new = change.from.is_none() && change.to.as_deref().is_some_and(is_owned);
        if is_new && row.attempt == 1 {
            watch.claim(row, change.at, verdict);
        }
        watch.note(change);
    }
    watch.justify(Millis::MAX, verdict);
}

//! What was expected: an occurrence that has not succeeded in time is noted as unmet once, and as met once,
//! neither too soon; none of which somebody waits for stays without a note. And jobs that nobody can run:
//! each is told, and again an hour later.

use std::collections::BTreeMap;

use super::history::{
    Change, Execution, ExpectationNote, History, Millis, Part, Plan, REMOVED, Unserved, Verdict,
};

/// Once all is well, a note is made this soon: a pass each 15 s, and an election before it.
const NOTED: Millis = 60_000;
/// A pass that knows nothing yet of a pause of the application ends this soon.
const A_PASS: Millis = 15_000;
/// A job that nobody can run is told again after this,
const TOLD_EVERY: Millis = 3_600_000;
/// and for the first time within this.
const TOLD: Millis = 150_000;

pub(super) fn expected(history: &History, parts: &BTreeMap<&str, Part<'_>>, verdict: &mut Verdict) {
    // Nobody kept the changes, or some are lost: taken for granted.
    if history.changes.is_empty() || !history.promotions.is_empty() {
        return;
    }
    let none = Part::default();
    let mut notes: BTreeMap<&str, Vec<&ExpectationNote>> = BTreeMap::new();
    for note in &history.expectations {
        notes.entry(&note.schedule).or_default().push(note);
    }
    for plan in &history.plans {
        let Some(expected_by) = plan.expected_by else { continue };
        let part = parts.get(plan.schedule.as_str()).unwrap_or(&none);
        let mut watch =
            Watch { history, plan, part, expected_by, unmet: None, generation: 0, noted: Millis::MIN };
        for note in notes.remove(plan.schedule.as_str()).unwrap_or_default() {
            watch.note(note, verdict);
        }
        watch.end(verdict);
    }
    for note in notes.into_values().flatten() {
        verdict.blame(format!("noted, though nothing is expected: {note:?}"));
    }
    told(history, verdict);
    history.unserved.iter().for_each(|job| unserved(history, job, verdict));
}

/// What is noted of a schedule, note by note.
struct Watch<'a> {
    history: &'a History,
    plan: &'a Plan,
    part: &'a Part<'a>,
    expected_by: Millis,
    unmet: Option<Millis>,
    /// That of the last note, and when it was made.
    generation: i64,
    noted: Millis,
}

impl<'a> Watch<'a> {
    fn note(&mut self, note: &ExpectationNote, verdict: &mut Verdict) {
        (self.generation, self.noted) = (note.generation, note.at);
        let fault = if note.is_met { self.fault_of_met(note) } else { self.fault_of_unmet(note) };
        if let Some(fault) = fault {
            verdict.blame(format!("{}: {fault}: {note:?}", self.plan.schedule));
        }
        verdict.unmet += usize::from(!note.is_met);
        self.unmet = (!note.is_met).then_some(note.fire_time);
    }

    fn fault_of_met(&self, note: &ExpectationNote) -> Option<String> {
        if self.unmet != Some(note.fire_time) {
            return Some(format!("met, and what was unmet is {:?}", self.unmet));
        }
        let succeeded = self.succeeded(note.fire_time);
        succeeded.is_none_or(|at| at > note.at).then(|| "met, and nothing has succeeded".to_owned())
    }

    fn fault_of_unmet(&self, note: &ExpectationNote) -> Option<String> {
        let early = self.history.bounds.early;
        if self.unmet.is_some() {
            return Some(format!("unmet since {:?}, and noted again", self.unmet));
        }
        if note.fire_time + self.expected_by > note.clock + early {
            return Some("unmet before its time was up".to_owned());
        }
        if self.succeeded(note.fire_time).is_some_and(|at| at < note.at) {
            return Some("unmet, though it had succeeded".to_owned());
        }
        let is_listed = !self.plan.delays.contains_key(&note.generation);
        let times = self.plan.generations.get(&note.generation).filter(|_| is_listed);
        if times.is_some_and(|times| !times.contains(&note.fire_time)) {
            return Some("unmet, and nobody planned it".to_owned());
        }
        let excused = self.planned().filter(|row| stands_for(row, note.fire_time) && is_excused(row));
        let mut excused = excused.filter(|row| self.made(row).is_some_and(|at| at < note.at));
        if let Some(row) = excused.next() {
            return Some(format!("unmet, and nobody waits for it: {row:?}"));
        }
        self.held_back(note.at).map(|by| format!("unmet, and held back by {by}"))
    }

    /// What somebody had paused or removed at this instant.
    fn held_back(&self, at: Millis) -> Option<String> {
        let is_own = |it: &&super::history::Pause| it.schedule == self.plan.schedule;
        let by_itself = |from: Millis| {
            let mut own = self.history.contained.iter().filter(|(name, _)| *name == self.plan.schedule);
            own.any(|(_, since)| *since == from)
        };
        let pauses = self.history.pauses.iter().filter(|it| !by_itself(it.from));
        let mut held = pauses.chain(&self.history.removals).filter(is_own);
        let pause = held.find(|it| it.from < at && at < it.until).map(|it| format!("{it:?}"));
        let switches = self.history.switches.iter().filter(|it| it.holds_back(Some(&self.plan.job)));
        let mut off = switches.filter(|it| {
            // A job's state is read with the note, the application's is known from polls.
            let known = if it.job.is_some() { it.from } else { it.known + A_PASS + self.history.bounds.call };
            known < at && at < it.until
        });
        pause.or_else(|| off.next().map(|it| format!("{it:?}")))
    }

    /// The planned executions of the generation that was last looked at.
    fn planned(&self) -> impl Iterator<Item = &'a Execution> {
        let generation = self.generation;
        let rows = self.part.rows.values().copied();
        rows.filter(move |row| row.origin == 0 && row.generation == generation)
    }

    /// When this occurrence, or a later one, of the generation succeeded first.
    fn succeeded(&self, fire_time: Millis) -> Option<Millis> {
        let is_later = |change: &&&Change| {
            let row = self.part.rows.get(&change.execution);
            row.is_some_and(|row| row.generation == self.generation && row.scheduled >= fire_time)
        };
        let successes = self.part.changes.iter().filter(|it| it.to.as_deref() == Some("SUCCEEDED"));
        successes.filter(is_later).map(|it| it.at).min()
    }

    fn made(&self, row: &Execution) -> Option<Millis> {
        let mut changes = self.part.changes.iter().filter(|it| it.execution == row.id);
        changes.next().map(|it| it.at)
    }

    /// Once all has been well for a while, each occurrence that has not succeeded is noted, and none else.
    fn end(&mut self, verdict: &mut Verdict) {
        let Self { history, plan, .. } = *self;
        let generations = plan.generations.keys().chain(plan.delays.keys());
        self.generation = generations.max().copied().unwrap_or(0);
        let settled = history.read - NOTED;
        if plan.state == REMOVED || settled < history.healed {
            return;
        }
        if let Some(unmet) = self.unmet {
            if self.succeeded(unmet).is_some_and(|at| at < settled) {
                verdict.blame(format!("{}: unmet since {unmet}, and no note that it was met", plan.schedule));
            }
            return;
        }
        let missed = self.missed(settled).filter(|_| self.noted < settled);
        if let Some(at) = missed.filter(|at| self.succeeded(*at).is_none()) {
            verdict.blame(format!("{}: {at} is unmet, and nobody noted it", plan.schedule));
        }
    }

    /// An occurrence whose time was up by then, behind all pauses, and which had not succeeded by itself.
    fn missed(&self, settled: Millis) -> Option<Millis> {
        let Self { history, plan, .. } = self;
        let pauses = history.pauses.iter().filter(|it| it.schedule == plan.schedule).map(|it| it.until);
        let switches = history.switches.iter().filter(|it| it.holds_back(Some(&plan.job)));
        let ends = pauses.chain(switches.map(|it| it.until.saturating_add(1_000)));
        let resumed = ends.max().map_or(Millis::MIN, |at| at.saturating_add(history.bounds.early));
        let is_up = |at: Millis| at > resumed && at + self.expected_by < settled;
        let rows = self.planned().filter(|row| !is_excused(row)).map(|row| row.scheduled);
        let next = plan.next.filter(|_| plan.state == "EXECUTING");
        let succeeded = |change: &&&Change| change.to.as_deref() == Some("SUCCEEDED") && change.at < settled;
        let successes = self.part.changes.iter().filter(succeeded);
        let successes = successes.filter_map(|change| self.part.rows.get(&change.execution));
        let own = successes.filter(|row| row.generation == self.generation);
        let success = own.map(|row| row.scheduled).max();
        rows.chain(next).filter(|at| is_up(*at) && success.is_none_or(|success| *at > success)).min()
    }
}

/// Whether a row accounts for this occurrence.
fn stands_for(row: &Execution, at: Millis) -> bool {
    (row.scheduled..=row.last()).contains(&at)
}

/// Nobody waits for what somebody skipped, paused or edited away.
fn is_excused(row: &Execution) -> bool {
    let is_wish = ["paused", "by hand"].contains(&row.reason.as_str());
    row.is_withdrawn() || row.state == "SKIPPED" && is_wish
}

/// Operators hear of each note once at most: not if its answer was lost.
fn told(history: &History, verdict: &mut Verdict) {
    let mut left: BTreeMap<(&str, Millis, bool), usize> = BTreeMap::new();
    for note in &history.expectations {
        *left.entry((&note.schedule, note.fire_time, note.is_met)).or_default() += 1;
    }
    for (schedule, fire_time, is_met) in &history.told {
        match left.get_mut(&(schedule.as_str(), *fire_time, *is_met)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => verdict.blame(format!("{schedule}: told more often than noted: {fire_time} met={is_met}")),
        }
    }
}

/// It is told soon, and not again within an hour.
fn unserved(history: &History, job: &Unserved, verdict: &mut Verdict) {
    let Unserved { job, since, told } = job;
    if told.windows(2).any(|two| two[1] - two[0] < TOLD_EVERY - 2 * history.bounds.early) {
        verdict.blame(format!("nobody can run {job}, and that is told again within the hour: {told:?}"));
    }
    if told.is_empty() && history.read - (*since).max(history.healed) > TOLD {
        verdict.blame(format!("nobody can run {job} since {since}, and nobody tells"));
    }
}

//! Jobs with bounds: no more executions of a job, or of a group, run at once, are claimed, or are to begin
//! within a span of time than may, and none waits for a place that is free.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Change, Effect, Execution, History, Limit, Millis, Plan, Verdict, is_owned};

/// By so much later places that become free with time may be given away, to have several of them together.
const PACE: Millis = 100;
/// The most that an execution is claimed ahead.
const MOST_AHEAD: Millis = 300;

pub(super) fn concurrency(history: &History, verdict: &mut Verdict) {
    let plans: BTreeMap<&str, &Plan> =
        history.plans.iter().map(|plan| (plan.schedule.as_str(), plan)).collect();
    let of_jobs =
        history.plans.iter().map(|plan| (plan.job.as_str(), [plan.concurrency, plan.group_concurrency]));
    let of_jobs: BTreeMap<&str, [Limit; 2]> =
        of_jobs.filter(|(_, limits)| *limits != [Limit::default(); 2]).collect();
    for (job, limits) in of_jobs {
        let is_of = |row: &&Execution| plans.get(row.schedule.as_str()).is_some_and(|plan| plan.job == job);
        let rows: BTreeMap<i64, &Execution> =
            history.executions.iter().filter(is_of).map(|row| (row.id, row)).collect();
        claims(history, (job, limits), &rows, &plans, verdict);
        let groups: BTreeSet<&str> = rows.values().filter_map(|row| row.group.as_deref()).collect();
        runs(history, job, limits[0], &rows, verdict);
        for group in groups {
            let of_group = rows.iter().filter(|(_, row)| row.group.as_deref() == Some(group));
            runs(history, job, limits[1], &of_group.map(|(id, row)| (*id, *row)).collect(), verdict);
        }
    }
}

/// The last claim of an execution.
struct Claim {
    execution: i64,
    at: Millis,
    /// When it was to begin: a claim ahead is for its fire time.
    begins: Millis,
    /// How far the database's clock was from true time.
    apart: Millis,
}

impl Claim {
    fn new(change: &Change, row: &Execution) -> Self {
        let Change { execution, at, apart, .. } = *change;
        Self { execution, at, begins: (row.scheduled - apart).clamp(at, at + MOST_AHEAD), apart }
    }
}

/// The executions that share a limit.
struct Places {
    limit: Limit,
    held: BTreeSet<i64>,
    /// Those beyond their time limits, and until when.
    stuck: BTreeMap<i64, Millis>,
    claimed: Vec<Claim>,
    /// No place was free before.
    full_until: Millis,
}

impl Places {
    fn new(limit: Limit) -> Self {
        let (held, stuck, claimed) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        Self { limit, held, stuck, claimed, full_until: Millis::MIN }
    }

    fn is_full(&self) -> bool {
        self.limit.most.is_some_and(|most| self.held.len() + self.stuck.len() >= most)
    }

    /// Handlers that have returned by then.
    fn advance(&mut self, at: Millis) {
        let was_full = self.is_full();
        let returned: Vec<(i64, Millis)> =
            self.stuck.iter().map(|(id, until)| (*id, *until)).filter(|(_, until)| *until <= at).collect();
        for (id, until) in returned {
            self.full_until = if was_full { self.full_until.max(until) } else { self.full_until };
            self.stuck.remove(&id);
        }
    }

    /// Those claimed in the span before, or to begin around it, while the database's clock went on steadily.
    fn lately(&self, claim: &Claim, per: Millis) -> usize {
        let steady = self.claimed.iter().rev().take_while(|it| it.apart == claim.apart);
        let others: Vec<&Claim> = steady.filter(|it| it.execution != claim.execution).collect();
        let claimed = others.iter().filter(|it| claim.at - it.at < per).count();
        claimed.max(others.iter().filter(|it| (claim.begins - it.begins).abs() < per).count())
    }

    /// Takes a place; what was wrong with that.
    fn take(&mut self, claim: Claim) -> Option<String> {
        let wrong = self.is_full().then(|| format!("claimed beside {:?} that ran", self.held));
        self.held.insert(claim.execution);
        let Some((count, per)) = self.limit.rate else { return wrong };
        let (at, lately) = (claim.at, self.lately(&claim, per));
        let too_many = || (lately >= count).then(|| format!("claimed as {lately} had been within {per} ms"));
        let wrong = wrong.or_else(too_many);
        self.claimed.retain(|it| it.execution != claim.execution);
        self.claimed.push(claim);
        if let Some(first) = self.claimed.len().checked_sub(count).and_then(|at| self.claimed.get(at)) {
            // Whoever changes the clock, the count ends two spans later.
            let until = if lately + 1 >= count { first.begins + per } else { at + 2 * per + MOST_AHEAD };
            self.full_until = self.full_until.max(until + PACE);
        }
        wrong
    }

    fn leave(&mut self, id: i64, at: Millis) {
        let was_full = self.is_full();
        if self.held.remove(&id) && was_full {
            self.full_until = self.full_until.max(at);
        }
    }
}

/// The ledger, change by change: which executions hold a place, and since when one is free.
fn claims(
    history: &History,
    (job, limits): (&str, [Limit; 2]),
    rows: &BTreeMap<i64, &Execution>,
    plans: &BTreeMap<&str, &Plan>,
    verdict: &mut Verdict,
) {
    let mut of_job = Places::new(limits[0]);
    let mut of_groups: BTreeMap<&str, Places> = BTreeMap::new();
    for change in &history.changes {
        let Some(row) = rows.get(&change.execution) else { continue };
        of_job.advance(change.at);
        let mut shared = vec![&mut of_job];
        if let Some(group) = row.group.as_deref() {
            shared.push(of_groups.entry(group).or_insert_with(|| Places::new(limits[1])));
            shared[1].advance(change.at);
        }
        match change.to.as_deref() {
            Some(to) if is_owned(to) => {
                if shared[0].held.contains(&row.id) {
                    continue;
                }
                let could = shared.iter().map(|places| places.full_until).max().unwrap_or(Millis::MIN);
                let could = could.max(row.due).max(history.healed);
                for places in shared {
                    if let Some(wrong) = places.take(Claim::new(change, row)) {
                        verdict.blame(format!("{job}: {wrong}: {row:?}"));
                    }
                }
                let may_overlap = plans.get(row.schedule.as_str()).is_some_and(|plan| !plan.exclusive);
                if may_overlap && change.at - could > history.bounds.freed {
                    let waited = change.at - could;
                    verdict.blame(format!("{job}: waited {waited} ms for a place that was free: {row:?}"));
                }
            }
            to => {
                for places in shared {
                    if to == Some("TIMED_OUT") {
                        places.stuck.insert(row.id, runs_until(history, row).max(change.at));
                    }
                    places.leave(row.id, change.at);
                }
            }
        }
    }
}

/// When the handler of one that ran out of time was gone: for those of a dead node, at any time.
fn runs_until(history: &History, row: &Execution) -> Millis {
    let own = history.last_run(row);
    let is_known = !history.dead.contains(&row.node);
    own.filter(|_| is_known).and_then(|it| it.ended).unwrap_or(Millis::MIN)
}

/// What the handlers saw, but for those that were taken from their nodes as they ran.
fn runs(history: &History, job: &str, limit: Limit, rows: &BTreeMap<i64, &Execution>, verdict: &mut Verdict) {
    let Some(most) = limit.most else { return };
    let is_own = |it: &&Effect| {
        let row = rows.get(&it.execution).filter(|row| row.fence == it.fence);
        row.is_some_and(|row| !history.dead.contains(&row.node))
    };
    let mut effects: Vec<&Effect> = history.effects.iter().filter(is_own).collect();
    effects.sort_by_key(|it| it.at);
    let mut running: Vec<&Effect> = Vec::new();
    for effect in effects {
        running.retain(|it| it.over().is_some_and(|over| over > effect.at));
        if running.len() >= most {
            verdict.blame(format!("{job}: ran beside {most} others: {running:?} {effect:?}"));
        }
        running.push(effect);
    }
}

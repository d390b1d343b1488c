//! The schedules of a simulation: what is asked of the cluster, and what must come of it, worked out from the
//! instants alone.

mod operator;
mod releases;
mod reruns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::faults::Faults;
use super::jobs::{self, APPLICATION};
use super::judge::{self, Pause};
use crate::domain::{JobSpec, Millis, MisfirePolicy, Overlap, PauseAfter, ScheduleState, Timestamp};
use crate::store::enqueue::queue_of;
use crate::store::{Definition, Ensured, Store};
use crate::testing::dice::Dice;
use crate::trigger::{Delay, Simple, Trigger};

/// Short ones too, so that claims and repairs meet.
const THRESHOLDS: [Millis; 4] = [60_000, 10_000, 15_000, 20_000];

/// Of schedules that recur, in turn.
const OVERLAPS: [Overlap; 5] =
    [Overlap::Allow, Overlap::Skip, Overlap::Allow, Overlap::Queue(2), Overlap::Replace];

/// After how many failures in a row schedules pause themselves, in turn, where some always fail.
const PAUSES: [Option<u32>; 4] = [None, Some(3), Some(1), Some(0)];

struct Made {
    definition: Definition,
    /// The expected times of each generation; none of those whose times count from the ends of runs.
    generations: BTreeMap<i64, Vec<Millis>>,
    /// Generations of schedules made again before the last fire time of the removed ones.
    unpreceded: BTreeSet<i64>,
    delays: BTreeMap<i64, judge::Delay>,
    /// When generations ended, by the database's clock.
    ended: BTreeMap<i64, Millis>,
    punctual: Option<Millis>,
    /// Its payloads, and since when.
    payloads: Vec<(Millis, String)>,
    paused: Option<Millis>,
    /// It has paused itself since.
    is_contained: bool,
    /// Since when it has been removed.
    removed: Option<Millis>,
}

/// A request of another program.
struct Written {
    id: i64,
    /// Of one that enqueues, its payload.
    payload: Option<String>,
    key: Option<String>,
}

pub(super) struct Plans {
    made: Vec<Made>,
    dice: Dice,
    ends: Millis,
    /// The removals that have ended: schedules were made again.
    removals: Vec<Pause>,
    /// What was asked for beside what is planned.
    orders: Vec<judge::Order>,
    keyed: Vec<judge::Keyed>,
    reruns: Vec<judge::Rerun>,
    /// What other programs have written.
    written: Vec<Written>,
    /// The newest release of each owner's code, and what was synced.
    releases: [i64; 2],
    syncs: Vec<judge::Sync>,
    cancels: Vec<judge::Cancel>,
    skips: Vec<(String, Millis)>,
    retries: BTreeSet<i64>,
    /// Schedules that paused themselves, and when.
    contained: Vec<(String, Millis)>,
    /// Retention would remove a one-shot's row, and what was expected of it with the row.
    one_shots: bool,
    /// How many schedules of a million always fail, and how many are expected to succeed in time.
    fails: Millis,
    expects: Millis,
}

impl Plans {
    pub(super) fn new(dice: Dice, ends: Millis, faults: Faults) -> Self {
        Self {
            made: Vec::new(),
            dice,
            ends,
            removals: Vec::new(),
            orders: Vec::new(),
            keyed: Vec::new(),
            reruns: Vec::new(),
            written: Vec::new(),
            releases: [2; 2],
            syncs: Vec::new(),
            cancels: Vec::new(),
            skips: Vec::new(),
            retries: BTreeSet::new(),
            contained: Vec::new(),
            one_shots: faults.forgets == 0,
            fails: faults.fails,
            expects: faults.expects,
        }
    }

    /// The `n`th schedule: of each kind of trigger, job and policy in turn.
    pub(super) fn add(&mut self, n: usize, now: Millis, store: &dyn Store) {
        let start = now + 1_000 + self.dice.below(5_000);
        if n % 7 == 6 {
            self.add_delayed(n, start, store);
            self.keep_apart(OVERLAPS[n % OVERLAPS.len()], store);
            return self.expect(store);
        }
        let (trigger, times) = self.trigger(n.is_multiple_of(2), start);
        self.make(n, start, trigger, times, store);
        self.keep_apart(OVERLAPS[n % OVERLAPS.len()], store);
        let is_asked = self.fails > 0;
        let payload = (is_asked && self.dice.happens(self.fails)).then_some(jobs::FAILS);
        self.pause_after(if is_asked { PAUSES[n % PAUSES.len()] } else { Some(0) }, payload, store);
        self.expect(store);
    }

    /// Whether schedules may be expected to succeed in time.
    pub(super) fn expects(&self) -> bool {
        self.expects > 0
    }

    /// The schedule made last may be expected to succeed within some seconds of each fire time.
    fn expect(&mut self, store: &dyn Store) {
        if self.expects() && self.dice.happens(self.expects) {
            let made = self.made.last_mut().unwrap();
            made.definition.expected_by = Some(1_000 * (2 + self.dice.below(20)));
            store.ensure(&made.definition).unwrap();
        }
    }

    /// One that fires again some time after each run.
    fn add_delayed(&mut self, n: usize, start: Millis, store: &dyn Store) {
        let delay = 1_000 * (1 + self.dice.below(7));
        self.make(n, start, Trigger::Delay(Delay::new(Some(start), delay).unwrap()), Vec::new(), store);
        let (made, ends) = (self.made.last_mut().unwrap(), self.ends);
        made.delays.insert(0, judge::Delay { first: Some(start), delay, ends });
        // All that was missed is one, as long as no run puts off the next.
        if made.definition.misfire == MisfirePolicy::FireAll {
            made.definition.misfire = MisfirePolicy::FireOnce;
        }
    }

    /// The executions of the schedule made last are kept apart by this rule.
    fn keep_apart(&mut self, rule: Overlap, store: &dyn Store) {
        let made = self.made.last_mut().unwrap();
        made.definition.overlap = Some(rule);
        store.ensure(&made.definition).unwrap();
    }

    /// The schedule made last pauses itself after so many failures, and may have a payload of its own.
    fn pause_after(&mut self, count: Option<u32>, payload: Option<&str>, store: &dyn Store) {
        let made = self.made.last_mut().unwrap();
        made.definition.pause_after = PauseAfter::of(count);
        if let Some(payload) = payload {
            made.definition.payload = payload.to_owned();
            made.payloads = vec![(Millis::MIN, payload.to_owned())];
        }
        store.ensure(&made.definition).unwrap();
    }

    /// A schedule of the job that is given up after two deaths, with this payload, every so many seconds.
    pub(super) fn add_harmful(
        &mut self,
        n: usize,
        (start, seconds): (Millis, Millis),
        (pause_after, payload): (Option<u32>, &str),
        store: &dyn Store,
    ) {
        let interval = 1_000 * seconds;
        let times: Vec<Millis> = std::iter::successors(Some(start), |at| Some(at + interval))
            .take_while(|at| *at <= self.ends)
            .collect();
        let trigger = Trigger::Simple(Simple::new(Some(start), interval, times.len() as i64 - 1).unwrap());
        self.make(3 * n + 1, start, trigger, times, store);
        self.keep_apart(Overlap::Skip, store);
        self.pause_after(pause_after, Some(payload), store);
    }

    pub(super) fn add_every_second(&mut self, n: usize, start: Millis, store: &dyn Store) {
        let trigger = Trigger::cron("* * * * * ?", "UTC").unwrap();
        let times = (start..=self.ends).step_by(1_000).collect();
        self.make(3 * n, start, trigger, times, store);
    }

    /// One that fires every so many seconds, is caught up with in full, and whose handler takes so long.
    pub(super) fn add_steady(
        &mut self,
        n: usize,
        (start, seconds): (Millis, u64),
        takes: Millis,
        rule: Overlap,
        store: &dyn Store,
    ) {
        let interval = Duration::from_secs(seconds);
        let trigger = Trigger::every(interval).unwrap().anchored_ms(start).unwrap();
        let times = (start..=self.ends).step_by(1_000 * seconds as usize).collect();
        self.make(12 * n, start, trigger, times, store);
        let made = self.made.last_mut().unwrap();
        made.definition.payload = jobs::exactly(takes);
        made.definition.misfire = MisfirePolicy::FireAll;
        made.payloads = vec![(Millis::MIN, made.definition.payload.clone())];
        self.keep_apart(rule, store);
    }

    /// One occurrence, which no policy skips.
    pub(super) fn add_once(&mut self, n: usize, at: Millis, store: &dyn Store) {
        let fires = [0, 6][n % 2];
        self.make(n * 9 + fires, at, Trigger::Simple(Simple::new(Some(at), 0, 0).unwrap()), vec![at], store);
    }

    /// Nothing may stop the one made last for longer than `bound`.
    pub(super) fn keep_punctual(&mut self, bound: Millis) {
        self.made.last_mut().unwrap().punctual = Some(bound);
    }

    /// A one-shot with a payload of so many bytes, of the job that all nodes run.
    pub(super) fn add_large(&mut self, n: usize, at: Millis, bytes: usize, store: &dyn Store) {
        self.add_with(3 * n, at, format!("\"{}\"", "x".repeat(bytes)), store);
    }

    /// A one-shot whose payload takes so long to be decoded, of another job than the first schedule's.
    pub(super) fn add_slow(&mut self, n: usize, at: Millis, takes: Millis, store: &dyn Store) {
        self.add_with(3 * n + 2, at, jobs::slow(takes), store);
    }

    /// One-shots of the two jobs that are not the first schedule's, whose handlers take up to two seconds.
    pub(super) fn add_long(&mut self, n: usize, at: Millis, store: &dyn Store) {
        self.add_with(3 * n + 1 + n % 2, at, jobs::long(2_000), store);
    }

    /// A one-shot of the job with a lane of its own, whose handler takes up to two seconds.
    pub(super) fn add_of_a_lane(&mut self, n: usize, at: Millis, store: &dyn Store) {
        self.add_with(3 * n + 1, at, jobs::long(2_000), store);
    }

    fn add_with(&mut self, n: usize, at: Millis, payload: String, store: &dyn Store) {
        let trigger =
            Trigger::every(Duration::from_secs(1)).unwrap().anchored_ms(at).unwrap().times(1).unwrap();
        self.make(n, at, trigger, vec![at], store);
        let made = self.made.last_mut().unwrap();
        made.definition.payload = payload;
        made.payloads = vec![(Millis::MIN, made.definition.payload.clone())];
        assert_eq!(store.ensure(&made.definition).unwrap(), Ensured::Changed);
    }

    /// So many one-shots of a job that no node runs.
    pub(super) fn add_nobodys(&self, count: usize, at: Millis, store: &dyn Store) {
        let job = crate::domain::JobSpec { name: jobs::NOBODYS.to_owned(), ..jobs::all()[0].clone() };
        let trigger =
            Trigger::every(Duration::from_secs(1)).unwrap().anchored_ms(at).unwrap().times(1).unwrap();
        let definition =
            Definition { job, trigger, start: Some(Timestamp::at(at)), ..self.made[0].definition.clone() };
        for n in 0..count {
            store.ensure(&Definition { name: format!("nobodys-{n}"), ..definition.clone() }).unwrap();
        }
    }

    /// A schedule of a job that no node runs, which fires for the first time when all is over.
    pub(super) fn add_hourly_of_nobody(&self, store: &dyn Store) {
        let hourly = Trigger::every(Duration::from_secs(3_600)).unwrap();
        let hourly = hourly.anchored_ms(self.ends + 3_600_000).unwrap();
        let definition = Definition::new("hourly", jobs::NOBODYS, hourly);
        store.ensure(&Definition { application: APPLICATION.to_owned(), ..definition }).unwrap();
    }

    /// A trigger from `start` to the end, counted or cron, with its times.
    fn trigger(&mut self, counted: bool, start: Millis) -> (Trigger, Vec<Millis>) {
        let seconds = 1 + self.dice.below(7);
        let interval = 1_000 * seconds;
        if counted {
            let count = (self.ends - start) / interval + 1;
            let every = Trigger::every(Duration::from_millis(interval.unsigned_abs())).unwrap();
            let trigger = every.anchored_ms(start).unwrap().times(count.unsigned_abs()).unwrap();
            (trigger, (0..count).map(|k| start + k * interval).collect())
        } else {
            let whole = (start..=self.ends).skip_while(|at| at % 1_000 != 0).step_by(1_000);
            let times = whole.filter(|at| (at / 1_000 % 60) % seconds == 0).collect();
            (Trigger::cron(&format!("0/{seconds} * * * * ?"), "UTC").unwrap(), times)
        }
    }

    /// A trigger that may lie wholly in the past: once, or thrice.
    fn short_trigger(&mut self, now: Millis) -> (Trigger, Vec<Millis>) {
        let start = (now + 5_000 - self.dice.below(30_000)).min(self.ends - 2_000);
        let (interval, count) = if self.dice.one_in(2) && self.one_shots { (0, 1) } else { (1_000, 3) };
        let simple = Simple::new(Some(start), interval, count - 1).unwrap();
        (Trigger::Simple(simple), (0..count).map(|k| start + k * interval).collect())
    }

    fn make(&mut self, n: usize, start: Millis, trigger: Trigger, times: Vec<Millis>, store: &dyn Store) {
        let definition = Definition {
            application: APPLICATION.to_owned(),
            job: jobs::all()[n % 3].clone(),
            start: Some(Timestamp::at(start)),
            end: Some(Timestamp::at(self.ends)),
            misfire: MisfirePolicy::ALL[n / 3 % MisfirePolicy::ALL.len()],
            threshold: THRESHOLDS[n % THRESHOLDS.len()],
            overlap: Some(Overlap::Allow),
            ..Definition::new(&format!("schedule-{n}"), "", trigger)
        };
        store.ensure(&definition).unwrap();
        let payloads = vec![(Millis::MIN, definition.payload.clone())];
        self.made.push(Made {
            definition,
            generations: [(0, times)].into(),
            unpreceded: BTreeSet::new(),
            delays: BTreeMap::new(),
            ended: BTreeMap::new(),
            payloads,
            paused: None,
            is_contained: false,
            removed: None,
            punctual: None,
        });
    }

    /// The schedules as they stand, with what was expected of them.
    pub(super) fn outcome(&self, store: &dyn Store) -> Vec<judge::Plan> {
        let rows: BTreeMap<String, _> =
            store.schedules(None).unwrap().into_iter().map(|row| (row.name.clone(), row)).collect();
        let plan = |made: &Made| {
            let (policy, row) = (made.definition.job.settings.policy, rows.get(&made.definition.name));
            // What is removed is in no listing.
            let state = row.map_or(ScheduleState::Removed.stored().to_owned(), |row| row.state.clone());
            assert_eq!(row.is_none(), made.removed.is_some(), "{state}");
            judge::Plan {
                schedule: made.definition.name.clone(),
                job: made.definition.job.name.clone(),
                generations: made.generations.clone(),
                unpreceded: made.unpreceded.clone(),
                delays: made.delays.clone(),
                ended: made.ended.iter().map(|(generation, at)| (*generation, (*at, *at))).collect(),
                payloads: made.payloads.clone(),
                recovers: policy.recover,
                deaths: policy.max_attempts,
                retries: policy.retry.at_most,
                limit: policy.time_limit.map(crate::time::millis),
                concurrency: jobs::limit_of(&policy.bounds.job),
                group_concurrency: jobs::limit_of(&policy.bounds.group),
                expected_by: made.definition.expected_by,
                exclusive: made.definition.overlap().has_slot(),
                pause_after: made.definition.pause_after.column(),
                misfire: made.definition.misfire.as_str().to_owned(),
                threshold: made.definition.threshold,
                punctual: made.punctual,
                state,
                next: row.and_then(|row| row.next).map(Timestamp::millis),
            }
        };
        let queue = |job: &JobSpec| judge::Plan {
            schedule: queue_of(&job.name),
            job: job.name.clone(),
            recovers: job.settings.policy.recover,
            deaths: job.settings.policy.max_attempts,
            retries: job.settings.policy.retry.at_most,
            limit: job.settings.policy.time_limit.map(crate::time::millis),
            concurrency: jobs::limit_of(&job.settings.policy.bounds.job),
            group_concurrency: jobs::limit_of(&job.settings.policy.bounds.group),
            state: ScheduleState::Complete.stored().to_owned(),
            ..judge::Plan::default()
        };
        self.made.iter().map(plan).chain(jobs::all().iter().map(queue)).collect()
    }
}

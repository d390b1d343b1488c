//! What a run's cluster has to do, and what must come of it, worked out from the instants alone.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use firetime::{Client, Job, MisfirePolicy, Overlap, Schedule, Trigger};

use super::cluster::now;
use super::job::{FAILING, HELD, PAID, PULSE, SAVED, TICK};
use super::judge::Delay;

/// A first fire time that lies far enough ahead: on a slow machine the request that makes the schedule would
/// otherwise come after it.
fn ahead(time: i64) -> i64 {
    time.max(now() + 1_500)
}

pub fn instant(millis: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(millis).unwrap()
}

/// Fire times by schedule.
#[derive(Default)]
pub struct Load {
    pub times: BTreeMap<String, Vec<i64>>,
    /// Those that count from the ends of runs instead.
    pub delays: BTreeMap<String, Delay>,
}

impl Load {
    /// `count` schedules every 1 to 3 s between `from` and `to`: simple and cron, ended by count or by time,
    /// under each misfire policy and overlap rule; and for each dozen one that fires so long after each run.
    /// Their jobs take 10 ms.
    pub fn ticks(&mut self, client: &Client, count: i64, from: i64, to: i64) {
        const POLICIES: [MisfirePolicy; 3] =
            [MisfirePolicy::FireOnce, MisfirePolicy::DoNothing, MisfirePolicy::FireAll];
        const RULES: [Overlap; 4] = [Overlap::Allow, Overlap::Skip, Overlap::Allow, Overlap::Queue(2)];
        for n in 0..count {
            let name = format!("tick-{n:02}");
            let seconds = 1 + n % 3;
            let step = 1_000 * seconds;
            let start = ahead(from + 37 * n);
            let every = Trigger::every(Duration::from_millis(step.unsigned_abs())).unwrap();
            let anchored = || every.clone().starting(instant(start)).unwrap();
            let new = |trigger| Schedule::new(&name, TICK, &10, trigger).unwrap();
            let (schedule, times): (_, Vec<i64>) = match n / 3 % 3 {
                0 => {
                    let count = (to - start) / step;
                    let times = (0..count).map(|k| start + k * step).collect();
                    (new(anchored().times(count.unsigned_abs()).unwrap()), times)
                }
                1 => {
                    let times = (0..).map(|k| start + k * step).take_while(|at| *at <= to).collect();
                    (new(anchored()).ending(instant(to)), times)
                }
                _ => {
                    let cron = Trigger::cron(&format!("0/{seconds} * * * * ?"), "Asia/Kathmandu").unwrap();
                    // `seconds` divides 60, and the zone's offset is whole minutes.
                    let times = (start..=to).filter(|at| at % step == 0).collect();
                    (new(cron).starting(instant(start)).ending(instant(to)), times)
                }
            };
            let policy = POLICIES[usize::try_from(n % 3).unwrap()];
            let rule = RULES[usize::try_from(n % 4).unwrap()];
            client.ensure(&schedule.misfire(policy).overlap(rule)).run().unwrap();
            self.times.insert(name, times);
        }
        (0..count / 12).for_each(|n| self.delayed(client, n, from, to));
    }

    fn delayed(&mut self, client: &Client, n: i64, from: i64, to: i64) {
        let (name, delay, start) = (format!("delayed-{n:02}"), 1_000 + 500 * n, ahead(from + 53 * n));
        let trigger = Trigger::fixed_delay(Duration::from_millis(delay.unsigned_abs())).unwrap();
        let trigger = trigger.starting(instant(start)).unwrap();
        let schedule = Schedule::new(&name, TICK, &10, trigger).unwrap().ending(instant(to));
        client.ensure(&schedule).run().unwrap();
        self.times.insert(name.clone(), Vec::new());
        self.delays.insert(name, Delay { first: Some(start), delay, ends: to });
    }

    /// One schedule each second, of a job of its own.
    pub fn pulse(&mut self, client: &Client, from: i64, to: i64) {
        let times: Vec<i64> = (from..=to).step_by(1_000).collect();
        let every = Trigger::every(Duration::from_secs(1)).unwrap().starting(instant(from)).unwrap();
        let trigger = every.times(times.len() as u64).unwrap();
        client.ensure(&Schedule::new(PULSE.name(), PULSE, &10, trigger).unwrap()).run().unwrap();
        self.times.insert(PULSE.name().to_owned(), times);
    }

    /// `count` one-shots at `at` that fail after `millis`.
    pub fn failing(&mut self, client: &Client, count: usize, at: i64, millis: u64) {
        self.once(client, FAILING.name(), FAILING, count, at, millis);
    }

    /// `count` one-shots at `at`, whose first attempt takes `millis`.
    pub fn held(&mut self, client: &Client, count: usize, at: i64, millis: u64) {
        self.once(client, "held", HELD, count, at, millis);
    }

    /// `count` one-shots, one each `gap` ms from `at` on, that complete in transactions of their own, each
    /// step of which takes `millis`.
    pub fn paid(&mut self, client: &Client, count: usize, (at, gap): (i64, usize), millis: u64) {
        for (n, at) in (at..).step_by(gap).take(count).enumerate() {
            self.one(client, &format!("{}-{n:03}", PAID.name()), PAID, at, millis);
        }
    }

    /// `count` one-shots at `at` that store how far they have come after each step, which takes `millis`.
    pub fn saved(&mut self, client: &Client, count: usize, at: i64, millis: u64) {
        self.once(client, SAVED.name(), SAVED, count, at, millis);
    }

    /// `count` quick one-shots at `at`.
    pub fn quick(&mut self, client: &Client, name: &str, count: usize, at: i64) {
        self.once(client, name, TICK, count, at, 10);
    }

    fn once(&mut self, client: &Client, name: &str, job: Job<u64>, count: usize, at: i64, millis: u64) {
        (0..count).for_each(|n| self.one(client, &format!("{name}-{n:02}"), job, at, millis));
    }

    fn one(&mut self, client: &Client, name: &str, job: Job<u64>, at: i64, millis: u64) {
        let trigger = Trigger::once(instant(at)).unwrap();
        client.ensure(&Schedule::new(name, job, &millis, trigger).unwrap()).run().unwrap();
        self.times.insert(name.to_owned(), vec![at]);
    }
}

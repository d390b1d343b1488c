//! The poll loop: on a grid of the epoch, with the database's clock measured on the way.
//!
//! A poll brings what is due in the node's home shards, page by page. Of the others' it brings what is late, and only
//! if something is and the node has no backlog of its own: an owner that lives works through its own in the same order,
//! and whoever helps it takes from the same end.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::clock::{Now, Offset};
use crate::error::Error;
use crate::event::Event;
use crate::machine::{Machine, Operation, Step};
use crate::model::{Entry, Millis, NodeId, Occurrence, Pending, ScheduleId};
use crate::pipeline::expand::expand;
use crate::shards::{self, Member, SHARDS, Share};
use crate::store::{Page, PollQuery, Polled, Store};
use crate::window::{GRACE, OFFSET_JUMP, OFFSET_WARNING, Window};

/// The most schedules and pending executions one poll plans.
pub(crate) const POLL_LIMIT: usize = 50_000;
/// Rows per page: one store call.
const PAGE: usize = 5_000;
/// The most schedules and pending executions of others' shards one poll brings,
const OTHERS: usize = 1_000;
/// while fewer than this of the node's own are late.
const BACKLOG: usize = 256;
/// The most schedules a poll brings because they were changed here.
const CHANGED: usize = 64;
/// After a failed poll nothing is tried for this long.
const FAILURE_PAUSE: Millis = 1_000;
/// Extra polls are at least this far apart.
const EXTRA_PAUSE: Millis = 100;

/// Ticks on multiples of `period` plus `phase`: the next one comes from the grid, never from "now + period".
#[derive(Debug)]
pub(crate) struct Ticker {
    period: Millis,
    phase: Millis,
    next: Millis,
}

impl Ticker {
    /// The first tick is the first of the grid after `now`.
    pub(crate) fn new(period: Millis, phase: Millis, now: Millis) -> Self {
        let mut ticker = Self { period, phase: phase.rem_euclid(period), next: 0 };
        ticker.next = ticker.last_at(now) + period;
        ticker
    }

    pub(crate) fn next(&self) -> Millis {
        self.next
    }

    /// The tick that has come by `now` and how many before it were left out; `None` before the next tick.
    ///
    /// After a clock that stepped back by more than a period the grid is taken up again from `now`.
    pub(crate) fn tick(&mut self, now: Millis) -> Option<(Millis, u64)> {
        if self.next > now.saturating_add(self.period) {
            self.next = self.last_at(now) + self.period;
        }
        if now < self.next {
            return None;
        }
        let tick = self.last_at(now);
        let skipped = (tick - self.next) / self.period;
        self.next = tick + self.period;
        Some((tick, u64::try_from(skipped).unwrap_or(0)))
    }

    fn last_at(&self, now: Millis) -> Millis {
        now - (now - self.phase).rem_euclid(self.period)
    }
}

/// Tells which rows this node can run: the jobs it knows, the payloads it can decode.
pub(crate) trait Catalog: Send + Sync + 'static {
    fn jobs(&self) -> Vec<String>;
    fn decodes(&self, job: &str, payload: &str) -> Result<(), String>;
}

pub(crate) enum PollInput {
    /// Poll between two ticks.
    Wake,
    /// This process changed the schedule of this name: see to it at once, whatever its shard.
    Changed(String),
    /// Who lives, and what each claims.
    Members(Vec<Member>),
    /// The node joined again under a new name.
    Reborn(NodeId),
    Stop,
}

pub(crate) enum PollOutput {
    /// What to do next, for dispatch.
    Planned(Planned),
    /// For the misfire handler: the states of application and node, the election mark, and whether anything is late.
    Seen {
        app: bool,
        node: bool,
        election: Option<Millis>,
        late: bool,
    },
    /// Database time is the host's time plus this from now on.
    Offset(Millis),
    /// Drop what is planned: the clock it was planned by is gone.
    Jumped,
    Event(Event),
}

/// A poll's result, expanded.
#[derive(Debug)]
pub(crate) struct Planned {
    pub occurrences: Vec<Occurrence>,
    pub pendings: Vec<Pending>,
    /// False when the memory cap cut rows off.
    pub complete: bool,
    /// Nothing may be claimed: the application or the node is switched off.
    pub enabled: bool,
    /// Boot-clock instant at which the poll was sent: what changed later is not in it.
    pub sent: Millis,
}

#[derive(Clone)]
pub(crate) struct PollOp(pub PollQuery);

impl Operation for PollOp {
    type Answer = Polled;

    fn name(&self) -> &'static str {
        "poll"
    }

    fn perform(self, store: &dyn Store) -> Result<Polled, Error> {
        store.poll(&self.0)
    }
}

/// The poll under way: what it asked for and what its pages have brought so far.
struct Asked {
    tick: Option<Millis>,
    sent: Millis,
    until: Millis,
    late: Millis,
    home: Vec<Share>,
    names: Vec<String>,
    stage: Stage,
    page: Page,
    /// The memory cap cut nothing off.
    complete: bool,
    entries: Vec<Arc<Entry>>,
    pendings: Vec<Pending>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Home,
    /// What is late in the shards of others.
    Others,
}

impl Asked {
    fn room(&self) -> bool {
        self.entries.len().max(self.pendings.len()) < POLL_LIMIT
    }

    /// Whether there are others to help, and no backlog at home.
    fn helps(&self) -> bool {
        let entries =
            self.entries.iter().filter(|entry| entry.cursor.next.is_some_and(|next| next < self.late));
        let pendings = self.pendings.iter().filter(|pending| pending.due < self.late);
        self.complete && !is_whole(&self.home) && entries.count() + pendings.count() < BACKLOG
    }
}

fn is_whole(home: &[Share]) -> bool {
    home.iter().all(|share| share.shards.len() == SHARDS)
}

pub(crate) struct PollMachine {
    node: NodeId,
    application: String,
    catalog: Arc<dyn Catalog>,
    window: Window,
    ticker: Ticker,
    /// An extra poll is wanted.
    wanted: bool,
    /// Not before this boot-clock instant.
    hold: Millis,
    asked: Option<Asked>,
    offset: Offset,
    applied: Millis,
    outbox: Vec<PollOutput>,
    refused: HashMap<ScheduleId, i64>,
    members: Vec<Member>,
    /// What is home here: everything, while nobody else is known.
    home: Vec<Share>,
    /// Schedules changed here, and until when (boot clock) they are looked after here: by then their owner has polled.
    changed: VecDeque<(String, Millis)>,
    stopping: bool,
}

impl PollMachine {
    pub(crate) fn new(
        node: NodeId,
        application: String,
        catalog: Arc<dyn Catalog>,
        window: Window,
        applied: Millis,
        now: Now,
    ) -> Self {
        let phase = phase_of(node, window.poll);
        let home = vec![Share::whole(catalog.jobs())];
        Self {
            node,
            application,
            catalog,
            window,
            ticker: Ticker::new(window.poll, phase, now.db),
            wanted: true,
            hold: now.boot,
            asked: None,
            offset: Offset::default(),
            applied,
            outbox: Vec::new(),
            refused: HashMap::new(),
            members: Vec::new(),
            home,
            changed: VecDeque::new(),
            stopping: false,
        }
    }

    fn ask(&mut self, now: Now, tick: Option<Millis>) -> PollOp {
        self.wanted = false;
        let until = self.window.end(self.ticker.next() - self.window.poll).max(now.db + self.window.lead);
        self.changed.retain(|(_, ends)| now.boot < *ends);
        let names = if is_whole(&self.home) { VecDeque::new() } else { self.changed.clone() };
        let asked = Asked {
            tick,
            sent: now.boot,
            until,
            late: now.db - GRACE,
            home: self.home.clone(),
            names: names.into_iter().map(|(name, _)| name).collect(),
            stage: Stage::Home,
            page: Page::FIRST,
            complete: false,
            entries: Vec::new(),
            pendings: Vec::new(),
        };
        let op = self.page(&asked);
        self.asked = Some(asked);
        op
    }

    fn page(&self, asked: &Asked) -> PollOp {
        let (shares, names, until, limit) = match asked.stage {
            Stage::Home => (asked.home.clone(), asked.names.clone(), asked.until, PAGE),
            Stage::Others => (asked.home.iter().map(Share::others).collect(), Vec::new(), asked.late, OTHERS),
        };
        PollOp(PollQuery {
            node: self.node,
            application: self.application.clone(),
            shares,
            names,
            until,
            late: asked.late,
            page: asked.page,
            limit,
        })
    }

    /// Takes a page in. There is another if this one says so and memory allows it; behind the last, what is late
    /// elsewhere.
    fn brought(&mut self, now: Now, mut asked: Asked, mut polled: Polled) {
        self.measure(&polled);
        let entries = std::mem::take(&mut polled.entries);
        let pendings = std::mem::take(&mut polled.pendings);
        self.take_in(now, &mut asked, entries, pendings);
        match (asked.stage, polled.next) {
            (Stage::Home, Some(page)) if asked.room() => self.asked = Some(Asked { page, ..asked }),
            (Stage::Home, next) => {
                asked.complete = next.is_none();
                if polled.late && asked.helps() {
                    self.asked = Some(Asked { stage: Stage::Others, page: Page::FIRST, ..asked });
                } else {
                    self.planned(now, asked, &polled);
                }
            }
            (Stage::Others, _) => self.planned(now, asked, &polled),
        }
    }

    fn take_in(&mut self, now: Now, asked: &mut Asked, entries: Vec<Arc<Entry>>, pendings: Vec<Pending>) {
        let least = self.window.least_threshold();
        // What was changed here has been brought whatever its shard.
        let others = asked.stage == Stage::Others;
        let known = |entry: &Entry| others && asked.names.iter().any(|name| **name == *entry.name);
        let plannable = |entry: &Arc<Entry>| !known(entry) && !entry.is_misfired(now.db, least);
        let entries = entries.into_iter().filter(plannable);
        asked.entries.extend(entries.filter(|entry| self.understood(entry)));
        let pendings = pendings.into_iter().filter(|pending| !known(&pending.entry));
        asked.pendings.extend(pendings.filter(|pending| self.understood(&pending.entry)));
    }

    /// Who lives has changed, or one's own name: so may what is home.
    fn resettle(&mut self) {
        let home = shards::home(self.node, &self.catalog.jobs(), &self.members);
        self.wanted |= home != self.home;
        self.home = home;
    }

    fn jumped(&mut self) {
        self.wanted = true;
        self.outbox.push(PollOutput::Jumped);
        self.outbox.push(PollOutput::Event(Event::ClockJumped));
    }

    fn measure(&mut self, polled: &Polled) {
        let offset = self.offset.observe(polled.time);
        let step = offset - self.applied;
        if step != 0 {
            self.applied = offset;
            self.outbox.push(PollOutput::Offset(offset));
        }
        if step.abs() > OFFSET_JUMP {
            self.jumped();
        }
        if offset.abs() > OFFSET_WARNING {
            self.outbox.push(PollOutput::Event(Event::ClockOffset { millis: offset }));
        }
    }

    /// Leaves out what no handler here can decode, saying so once per version.
    fn understood(&mut self, entry: &Arc<Entry>) -> bool {
        let Err(reason) = self.catalog.decodes(&entry.job, &entry.payload) else { return true };
        if self.refused.insert(entry.id, entry.version) != Some(entry.version) {
            let schedule = Arc::clone(&entry.name);
            self.outbox.push(PollOutput::Event(Event::Undecodable { schedule, reason }));
        }
        false
    }

    fn planned(&mut self, now: Now, asked: Asked, polled: &Polled) {
        let (app, node) = (polled.app_enabled, polled.node_enabled);
        let (election, late) = (polled.election, polled.late);
        self.hold = now.boot + EXTRA_PAUSE;
        let occurrences = expand(&asked.entries, now.db, asked.until, self.window.least_threshold());
        self.outbox.push(PollOutput::Event(Event::Polled {
            tick: asked.tick,
            planned: occurrences.len(),
            pending: asked.pendings.len(),
        }));
        self.outbox.push(PollOutput::Seen { app, node, election, late });
        self.outbox.push(PollOutput::Planned(Planned {
            occurrences,
            pendings: asked.pendings,
            complete: asked.complete,
            enabled: app && node,
            sent: asked.sent,
        }));
    }
}

/// A node's place on the grid: nodes started together do not poll together.
fn phase_of(node: NodeId, period: Millis) -> Millis {
    let spread = i64::try_from(node.0.as_u128() % 1_000_000).unwrap_or(0);
    spread % period
}

impl Machine for PollMachine {
    type Op = PollOp;
    type Input = PollInput;
    type Output = PollOutput;

    fn next(&mut self, now: Now) -> Step<PollOp, PollOutput> {
        if !self.outbox.is_empty() {
            return Step::Tell(self.outbox.remove(0));
        }
        if self.stopping {
            return Step::Stop;
        }
        if let Some(asked) = &self.asked {
            return Step::Do(self.page(asked));
        }
        if now.boot < self.hold {
            return Step::Wait(self.hold);
        }
        match self.ticker.tick(now.db) {
            Some((tick, skipped)) => {
                if skipped > 0 {
                    self.outbox.push(PollOutput::Event(Event::TicksSkipped { count: skipped }));
                }
                Step::Do(self.ask(now, Some(tick)))
            }
            None if self.wanted => Step::Do(self.ask(now, None)),
            None => Step::Wait(now.boot_at(self.ticker.next())),
        }
    }

    fn done(&mut self, now: Now, answer: Result<Polled, Error>) {
        let Some(asked) = self.asked.take() else { return };
        match answer {
            Ok(polled) => self.brought(now, asked, polled),
            Err(error) => {
                self.hold = now.boot + FAILURE_PAUSE;
                self.wanted = true;
                self.outbox.push(PollOutput::Event(Event::StoreFailed { operation: "poll", error }));
            }
        }
    }

    fn receive(&mut self, now: Now, input: PollInput) {
        match input {
            PollInput::Wake => self.wanted = true,
            PollInput::Changed(name) => {
                self.wanted = true;
                self.changed.retain(|(known, _)| *known != name);
                self.changed.push_back((name, now.boot + 2 * self.window.poll));
                if self.changed.len() > CHANGED {
                    self.changed.pop_front();
                }
            }
            PollInput::Members(members) => {
                self.members = members;
                self.resettle();
            }
            PollInput::Reborn(node) => {
                self.members.retain(|member| member.id != self.node);
                self.node = node;
                self.wanted = true;
                self.resettle();
            }
            PollInput::Stop => self.stopping = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TimeSample;
    use crate::error::Kind;
    use crate::pipeline::fixtures::{calls_while_down, cron};

    const PERIOD: Millis = 5_000;

    struct Strict;

    impl Catalog for Strict {
        fn jobs(&self) -> Vec<String> {
            vec!["job".to_owned()]
        }

        fn decodes(&self, _job: &str, payload: &str) -> Result<(), String> {
            if payload == "null" { Ok(()) } else { Err("no such field".to_owned()) }
        }
    }

    fn at(time: Millis) -> Now {
        Now { db: time, boot: time }
    }

    fn machine(now: Millis) -> PollMachine {
        // A node whose phase on the grid is 0.
        PollMachine::new(
            NodeId(uuid::Uuid::nil()),
            "app".to_owned(),
            Arc::new(Strict),
            Window::default(),
            0,
            at(now),
        )
    }

    fn answer(now: Millis, entries: Vec<Entry>) -> Polled {
        Polled {
            time: TimeSample { asked: now, database: now, answered: now },
            app_enabled: true,
            node_enabled: true,
            election: None,
            late: false,
            entries: entries.into_iter().map(Arc::new).collect(),
            pendings: Vec::new(),
            next: None,
        }
    }

    /// Runs until the next poll is asked for; gives when, and what was told on the way.
    fn until_asked(machine: &mut PollMachine, mut now: Millis) -> (Millis, Vec<PollOutput>) {
        let mut told = Vec::new();
        loop {
            match machine.next(at(now)) {
                Step::Do(_) => return (now, told),
                Step::Tell(output) => told.push(output),
                Step::Wait(until) => now = now.max(until),
                Step::Stop => panic!("stopped"),
            }
        }
    }

    fn ticks(told: &[PollOutput]) -> impl Iterator<Item = Millis> {
        told.iter().filter_map(|output| match output {
            PollOutput::Event(Event::Polled { tick, .. }) => *tick,
            _ => None,
        })
    }

    #[test]
    fn polls_stay_on_the_grid_over_100_hours_of_random_delays() {
        const HOURS: Millis = 100 * 3_600_000;
        let begin = 1_767_225_601_234;
        let mut machine = machine(begin);
        let phase = machine.ticker.phase;
        let (mut now, mut seed, mut on_grid, mut skipped) = (begin, 1_u64, 0, 0);
        while now < begin + HOURS {
            let (asked, told) = until_asked(&mut machine, now);
            for tick in ticks(&told) {
                assert_eq!((tick - phase).rem_euclid(PERIOD), 0, "off the grid");
                on_grid += 1;
            }
            for output in &told {
                if let PollOutput::Event(Event::TicksSkipped { count }) = output {
                    skipped += *count;
                }
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Mostly a few milliseconds, now and then longer than a period.
            let delay = if (seed >> 33) % 50 == 0 { (seed >> 40) % 17_000 } else { (seed >> 40) % 900 };
            now = asked + i64::try_from(delay).unwrap();
            machine.done(at(now), Ok(answer(now, Vec::new())));
        }
        let periods = u64::try_from(HOURS / PERIOD).unwrap();
        assert!(skipped > 100, "the delays never overran");
        assert!(
            periods.abs_diff(on_grid + skipped) <= 4,
            "{on_grid} polled + {skipped} left out of {periods}"
        );
    }

    #[test]
    fn an_overrun_leaves_ticks_out_and_says_so() {
        let mut ticker = Ticker::new(PERIOD, 0, 1);
        assert_eq!(ticker.tick(4_999), None);
        assert_eq!(ticker.tick(5_003), Some((5_000, 0)));
        assert_eq!(ticker.tick(21_000), Some((20_000, 2)));
        assert_eq!(ticker.next(), 25_000);
    }

    #[test]
    fn extra_polls_never_move_the_grid() {
        let mut machine = machine(1_000_000);
        let (first, _) = until_asked(&mut machine, 1_000_000);
        assert_eq!(first, 1_000_000, "a node polls at once when it starts");
        machine.done(at(first), Ok(answer(first, Vec::new())));
        let grid = machine.ticker.next();
        machine.receive(at(first + 500), PollInput::Wake);
        let (extra, _) = until_asked(&mut machine, first + 500);
        assert!(extra < grid);
        machine.done(at(extra), Ok(answer(extra, Vec::new())));
        assert_eq!(until_asked(&mut machine, extra).0, grid);
    }

    #[test]
    fn a_backward_clock_step_does_not_sleep_for_hours() {
        let day = 86_400_000;
        let mut ticker = Ticker::new(PERIOD, 0, day);
        assert_eq!(ticker.tick(day - 3_600_000), None);
        assert_eq!(ticker.next(), day - 3_600_000 + PERIOD);

        let mut machine = machine(day);
        let (asked, _) = until_asked(&mut machine, day);
        machine.done(at(asked), Ok(answer(asked, Vec::new())));
        let (asked, _) = until_asked(&mut machine, asked);
        let time = TimeSample { asked, database: asked - 3_600_000, answered: asked };
        machine.done(at(asked), Ok(Polled { time, ..answer(asked, Vec::new()) }));
        // The correction comes before what was planned by it, and so does word that the plan is gone.
        let (mut boot, mut step, mut told) = (asked, 0, Vec::new());
        let again = loop {
            match machine.next(Now { db: boot + step, boot }) {
                Step::Do(_) => break boot,
                Step::Tell(PollOutput::Offset(offset)) => step = offset,
                Step::Tell(PollOutput::Jumped) => told.push("jumped"),
                Step::Tell(PollOutput::Planned(_)) => told.push("planned"),
                Step::Tell(_) => {}
                Step::Wait(until) => boot = until,
                Step::Stop => panic!("stopped"),
            }
        };
        assert_eq!((step, told), (-3_600_000, vec!["jumped", "planned"]));
        assert!(again <= asked + PERIOD, "polled again after {} ms", again - asked);
    }

    #[test]
    fn no_hot_loop_while_the_database_is_down() {
        for kind in [Kind::Unavailable, Kind::Unknown, Kind::Refused] {
            let calls = calls_while_down(&mut machine(1_000_000), 1_000_000, kind, || Some(PollInput::Wake));
            assert!((20..=75).contains(&calls), "{calls} polls in a minute");
        }
    }

    #[test]
    fn overdue_rows_are_visible_to_the_poll() {
        let mut machine = machine(1_000_000);
        let (now, _) = until_asked(&mut machine, 1_000_000);
        machine.done(at(now), Ok(answer(now, vec![cron(1, "0 * * * * ?", now - 30_000)])));
        let (_, told) = until_asked(&mut machine, now);
        let planned = told.iter().find_map(|output| match output {
            PollOutput::Planned(planned) => planned.occurrences.first(),
            _ => None,
        });
        assert_eq!(planned.map(|it| it.at), Some(now - 30_000));
    }

    #[test]
    fn a_payload_nobody_here_can_decode_is_left_alone_and_said_once() {
        let mut machine = machine(1_000_000);
        let mut odd = cron(1, "* * * * * ?", 1_001_000);
        odd.payload = Arc::from("{}");
        let mut said = 0;
        let mut now = 1_000_000;
        for _ in 0..3 {
            now = until_asked(&mut machine, now).0;
            machine.done(at(now), Ok(answer(now, vec![odd.clone()])));
            let (_, told) = until_asked(&mut machine, now);
            said +=
                told.iter().filter(|it| matches!(it, PollOutput::Event(Event::Undecodable { .. }))).count();
            let planned =
                told.iter().any(|it| matches!(it, PollOutput::Planned(plan) if !plan.occurrences.is_empty()));
            assert!(!planned);
        }
        assert_eq!(said, 1);
    }

    fn me() -> NodeId {
        NodeId(uuid::Uuid::nil())
    }

    /// Beside one other node.
    fn beside_another(now: Millis) -> PollMachine {
        let mut machine = machine(now);
        let other = Member { id: NodeId(uuid::Uuid::from_u128(1)), jobs: vec!["job".to_owned()] };
        machine.receive(at(now), PollInput::Members(vec![other]));
        machine
    }

    /// What the next poll asks for, and when.
    fn asked(machine: &mut PollMachine, mut now: Millis) -> (Millis, PollQuery) {
        loop {
            match machine.next(at(now)) {
                Step::Do(op) => return (now, op.0),
                Step::Tell(_) => {}
                Step::Wait(until) => now = now.max(until),
                Step::Stop => panic!("stopped"),
            }
        }
    }

    fn late(now: Millis, entries: Vec<Entry>) -> Polled {
        Polled { late: true, ..answer(now, entries) }
    }

    fn shards(query: &PollQuery) -> Vec<i64> {
        query.shares.iter().flat_map(|share| share.shards.clone()).collect()
    }

    #[test]
    fn what_is_late_in_others_shards_is_asked_for_behind_ones_own() {
        let mut machine = beside_another(1_000_000);
        let (now, home) = asked(&mut machine, 1_000_000);
        assert_eq!((shards(&home).len(), home.until > now), (8, true));
        machine.done(at(now), Ok(late(now, Vec::new())));
        let (now, others) = asked(&mut machine, now);
        let mut all = [shards(&home), shards(&others)].concat();
        all.sort_unstable();
        assert_eq!(all, (0..16).collect::<Vec<_>>());
        assert_eq!((others.until, others.page), (now - GRACE, Page::FIRST));
        machine.done(at(now), Ok(late(now, vec![cron(1, "0 * * * * ?", now - 3_000)])));
        let (_, told) = until_asked(&mut machine, now);
        let planned =
            told.iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
        assert_eq!(planned.map(|planned| (planned.occurrences.len(), planned.complete)), Some((1, true)));
    }

    #[test]
    fn others_shards_are_left_alone_while_nothing_is_late_or_one_is_alone_or_behind() {
        let backlog = |count| (0..count).map(|id| cron(id, "0 * * * * ?", 990_000)).collect::<Vec<_>>();
        let cases = [
            (beside_another(1_000_000), answer(1_000_000, backlog(255)), false),
            (machine(1_000_000), late(1_000_000, backlog(255)), false),
            (beside_another(1_000_000), late(1_000_000, backlog(255)), true),
            (beside_another(1_000_000), late(1_000_000, backlog(256)), false),
        ];
        for (n, (mut machine, polled, asks)) in cases.into_iter().enumerate() {
            let (now, _) = asked(&mut machine, 1_000_000);
            machine.done(at(now), Ok(polled));
            let (_, told) = until_asked(&mut machine, now);
            let planned = told.iter().any(|output| matches!(output, PollOutput::Planned(_)));
            assert_eq!(planned, !asks, "case {n}");
        }
    }

    #[test]
    fn what_this_process_changed_is_asked_for_whatever_its_shard_until_its_owner_has_polled() {
        let mut machine = beside_another(1_000_000);
        for n in 0..=CHANGED {
            machine.receive(at(1_000_000), PollInput::Changed(format!("schedule-{n}")));
        }
        machine.receive(at(1_000_000), PollInput::Changed("schedule-7".to_owned()));
        let (mut now, query) = asked(&mut machine, 1_000_000);
        assert_eq!((now, query.names.len()), (1_000_000, CHANGED));
        assert_eq!(query.names.last().map(String::as_str), Some("schedule-7"));
        assert!(!query.names.contains(&"schedule-0".to_owned()), "the oldest is left to its owner");
        let mut until = now;
        while !query.names.is_empty() {
            machine.done(at(now), Ok(answer(now, Vec::new())));
            let query;
            (now, query) = asked(&mut machine, now);
            if query.names.is_empty() {
                break;
            }
            until = now;
        }
        assert!((1_005_000..1_010_000).contains(&until), "until {until}");
    }

    /// It was brought by its name already: twice in the plan it would be claimed twice.
    #[test]
    fn what_was_changed_here_and_is_late_elsewhere_is_planned_once() {
        let mut machine = beside_another(1_000_000);
        let entry = cron(1, "0 * * * * ?", 990_000);
        machine.receive(at(1_000_000), PollInput::Changed(entry.name.to_string()));
        let (now, _) = asked(&mut machine, 1_000_000);
        machine.done(at(now), Ok(late(now, vec![entry.clone()])));
        let (now, _) = asked(&mut machine, now);
        machine.done(at(now), Ok(late(now, vec![entry])));
        let (_, told) = until_asked(&mut machine, now);
        let planned =
            told.iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
        assert_eq!(planned.map(|planned| planned.occurrences.len()), Some(1));
    }

    #[test]
    fn a_node_that_leaves_or_a_new_name_brings_a_poll_and_other_shards() {
        let mut machine = beside_another(1_000_000);
        let (now, _) = asked(&mut machine, 1_000_000);
        machine.done(at(now), Ok(answer(now, Vec::new())));
        let members = machine.members.clone();
        machine.receive(at(now), PollInput::Members(members));
        assert!(!machine.wanted, "nothing has changed");
        machine.receive(at(now), PollInput::Members(vec![Member { id: me(), jobs: Vec::new() }]));
        let (again, query) = asked(&mut machine, now);
        assert_eq!((again, shards(&query).len()), (now + EXTRA_PAUSE, 16));
        machine.receive(at(now), PollInput::Reborn(NodeId(uuid::Uuid::from_u128(2))));
        assert_eq!(machine.members, [], "one's old name is no other node");
    }
}

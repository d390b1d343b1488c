//! The poll loop: on a grid of the epoch, with the database's clock measured on the way.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clock::{Now, Offset, Steady};
use crate::error::Error;
use crate::event::Event;
use crate::machine::{Machine, Operation, Step};
use crate::model::{Entry, Millis, NodeId, Occurrence, Pending, ScheduleId};
use crate::pipeline::expand::expand;
use crate::store::{PollQuery, Polled, Store};
use crate::window::{OFFSET_JUMP, OFFSET_WARNING, Window};

/// The most schedules and pending executions one poll brings into memory.
pub(crate) const POLL_LIMIT: usize = 50_000;
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
    /// The node joined again under a new name.
    Reborn(NodeId),
    Stop,
}

pub(crate) enum PollOutput {
    /// What to do next, for dispatch.
    Planned(Planned),
    /// For the misfire handler: the states of application and node.
    Enabled { app: bool, node: bool },
    /// Database time is the wall clock plus this from now on.
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

/// What is being asked of the database right now.
#[derive(Clone, Copy)]
struct Asked {
    tick: Option<Millis>,
    sent: Millis,
    until: Millis,
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
    steady: Steady,
    outbox: Vec<PollOutput>,
    refused: HashMap<ScheduleId, i64>,
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
            steady: Steady::default(),
            outbox: Vec::new(),
            refused: HashMap::new(),
            stopping: false,
        }
    }

    fn ask(&mut self, now: Now, tick: Option<Millis>) -> PollOp {
        self.wanted = false;
        let until = self.window.end(self.ticker.next() - self.window.poll).max(now.db + self.window.lead);
        self.asked = Some(Asked { tick, sent: now.boot, until });
        PollOp(PollQuery {
            node: self.node,
            application: self.application.clone(),
            jobs: self.catalog.jobs(),
            until,
            limit: POLL_LIMIT,
        })
    }

    fn jumped(&mut self) {
        self.offset.reset();
        self.wanted = true;
        self.outbox.push(PollOutput::Jumped);
        self.outbox.push(PollOutput::Event(Event::ClockJumped));
    }

    fn measure(&mut self, polled: &Polled) {
        let offset = self.offset.observe(polled.time);
        let step = offset - self.applied;
        if step != 0 {
            self.applied = offset;
            self.steady.shifted(step);
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

    fn planned(&mut self, now: Now, asked: Asked, mut polled: Polled) {
        polled.entries.retain(|entry| self.understood(entry));
        polled.pendings.retain(|pending| self.understood(&pending.entry));
        let occurrences = expand(&polled.entries, now.db, asked.until);
        self.outbox.push(PollOutput::Event(Event::Polled {
            tick: asked.tick,
            planned: occurrences.len(),
            pending: polled.pendings.len(),
        }));
        self.outbox.push(PollOutput::Enabled { app: polled.app_enabled, node: polled.node_enabled });
        self.outbox.push(PollOutput::Planned(Planned {
            occurrences,
            pendings: polled.pendings,
            complete: polled.complete,
            enabled: polled.app_enabled && polled.node_enabled,
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
        // A correction of ours reaches the clock only when it is told: look for steps after that.
        if self.outbox.is_empty() && self.steady.jumped(now) {
            self.jumped();
        }
        if !self.outbox.is_empty() {
            return Step::Tell(self.outbox.remove(0));
        }
        if self.stopping {
            return Step::Stop;
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
            Ok(polled) => {
                self.hold = now.boot + EXTRA_PAUSE;
                self.measure(&polled);
                self.planned(now, asked, polled);
            }
            Err(error) => {
                self.hold = now.boot + FAILURE_PAUSE;
                self.wanted = true;
                self.outbox.push(PollOutput::Event(Event::StoreFailed { operation: "poll", error }));
            }
        }
    }

    fn receive(&mut self, _now: Now, input: PollInput) {
        match input {
            PollInput::Wake => self.wanted = true,
            PollInput::Reborn(node) => {
                self.node = node;
                self.wanted = true;
            }
            PollInput::Stop => self.stopping = true,
        }
    }
}

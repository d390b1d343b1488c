//! The poll loop: on a grid of the epoch, with the database's clock measured on the way.
//!
//! A poll brings what is due in the node's home shards, page by page. Of the others' it brings what is late, and only
//! if something is and the node has no backlog of its own: an owner that lives works through its own in the same order,
//! and whoever helps it takes from the same end.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::clock::{Micros, Now, Offset};
use crate::error::Error;
use crate::event::Event;
use crate::machine::{Machine, Operation, Step};
use crate::model::{Entry, Millis, NodeId, Occurrence, Pending, ScheduleId};
use crate::pipeline::expand::expand;
use crate::shards::{self, Member, SHARDS, Share};
use crate::store::{Page, PollQuery, Polled, Store};
use crate::window::{GRACE, OFFSET_JUMP, Window, span};

/// The most schedules and pending executions one poll plans.
pub(crate) const POLL_LIMIT: usize = 50_000;
/// Rows per page: one store call.
const PAGE: usize = 25_000;
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
    /// This node stored a retry that is due then, database time.
    Retry(Millis),
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
    Offset(Micros),
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
    /// The earliest retry stored here that is due before the next tick and that no poll was asked for yet.
    retry: Option<Millis>,
    /// Not before this boot-clock instant.
    hold: Millis,
    asked: Option<Asked>,
    offset: Offset,
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
        offset: Offset,
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
            retry: None,
            hold: now.boot,
            asked: None,
            offset,
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
        self.retry = None;
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

    /// When an extra poll brings a retry in time to wait for its instant.
    fn extra_at(&self) -> Millis {
        self.retry.map_or(Millis::MAX, |due| due - EXTRA_PAUSE)
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
        let before = self.offset.least();
        let was_set = self.offset.observe(polled.time);
        let step = self.offset.least() - before;
        if step != 0 {
            self.outbox.push(PollOutput::Offset(self.offset.least()));
        }
        if was_set && step.abs() > 1_000 * OFFSET_JUMP {
            self.jumped();
        }
        if let Some(millis) = self.offset.warning() {
            self.outbox.push(PollOutput::Event(Event::ClockOffset { millis }));
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
            took: span(now.boot - asked.sent),
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
            None if self.wanted || self.extra_at() <= now.db => Step::Do(self.ask(now, None)),
            None => Step::Wait(now.boot_at(self.extra_at().min(self.ticker.next()))),
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
            PollInput::Retry(due) if due < self.ticker.next() => {
                self.retry = Some(self.retry.map_or(due, |other| other.min(due)));
            }
            // The poll of the next tick brings it in time.
            PollInput::Retry(_) => {}
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
mod tests;

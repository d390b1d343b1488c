//! Wheel, permit, claim, pool: shortly before a planned occurrence comes due, reserve a seat, claim it, hand
//! it over.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::ahead::Ahead;
use super::holds::Holds;
use super::lanes::{LaneId, Lanes};
use super::overlapping::{Failed, Overlapping};
use super::plan::{ItemKey, Plan};
use super::poll::{POLL_LIMIT, PollPlan};
use super::pool::Seat;
use super::start::Ready;
use crate::domain::{
    BoundOf, Candidate, Entry, Error, ErrorKind, Event, Full, Millis, NodeId, ScheduleId, Token,
};
use crate::machine::{Machine, Operation, Step};
use crate::members::Held;
use crate::repair::overlapped;
use crate::store::{
    Applied, Blocked, Change, Claim, ClaimRequest, Claimed, ExecutionChange, SeenSchedule, Store,
    UnreadableRow,
};
use crate::time::{CLAIM_AHEAD, Lease, Now, SKIP_RETRY, Steady};

/// The most claims in one transaction.
const BATCH: usize = 500;
/// While somebody waits in the pool it is looked after this often.
const TEND: Millis = 250;
/// After a failed claim nothing is tried for this long.
const FAILURE_PAUSE: Millis = 500;
/// How often it is asked what became of claims whose rows others hold.
const DOUBT_PAUSE: Millis = 1_000;
/// So many schedules whose claim failed alone are remembered.
const MOST_SUSPECTS: usize = 10_000;

/// Seats in the pools of the lanes: one is reserved before each claim, so nothing claimed can be refused.
pub(crate) trait Seats: Send + 'static {
    /// Gives the seat back when dropped.
    type Permit: Send + 'static;

    fn reserve(&mut self, lane: LaneId) -> Option<Self::Permit>;

    fn seat(permit: &Self::Permit) -> Seat;

    /// Lets the pools grow for those who wait; hands back who waited too long.
    fn tick(&mut self, boot: Millis) -> Vec<Claimed>;

    /// Hands back all who wait.
    fn empty(&mut self) -> Vec<Claimed>;

    /// Whether that is needed: somebody waits for a thread, or has a permit and may wait soon.
    fn is_awaited(&self) -> bool;
}

pub(crate) enum DispatchInput {
    Planned(PollPlan),
    /// The newest lease: while it holds, claims are made under it.
    Lease(Lease),
    /// A seat of this lane has become free after one was refused.
    SeatFreed(LaneId),
    /// A run of a job has ended that may have to change lanes.
    Ran {
        job: Arc<str>,
        took: Millis,
    },
    /// The slot of this schedule has become free.
    SlotFreed(ScheduleId),
    /// An execution of a job with bounds has ended: its job and its group have room.
    Freed(BoundOf),
    /// The node drains: who waits in the pool goes back.
    HandBack,
    /// Drop the plan: the clock stepped.
    Jumped,
    /// The node joined again under a new name; what the old one held is no longer ours.
    Reborn(NodeId),
    Stop,
}

pub(crate) enum DispatchOutput<P> {
    Won(Vec<Ready<P>>),
    GiveBack(ExecutionChange),
    WakePoll,
    /// The lease is in doubt: a heartbeat at once.
    WakeHeart,
    Event(Event),
}

#[derive(Clone)]
pub(crate) enum ClaimOp {
    Claim(Arc<Vec<ClaimRequest>>),
    /// What became of these; what was not claimed is claimed now, if that is still allowed.
    Resolve(Arc<Vec<ClaimRequest>>, bool),
    Quarantine(UnreadableRow),
    /// These occurrences would overlap: they are skipped, or wait.
    PassOver(Arc<Vec<Change>>),
}

pub(crate) enum ClaimAnswer {
    Claims(Vec<Claim>),
    /// The row, and whether it was still as it was seen.
    Quarantined(UnreadableRow, Applied),
    PassedOver(Vec<Applied>),
}

impl Operation for ClaimOp {
    type Answer = ClaimAnswer;

    fn name(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Resolve(..) => "resolving an unknown commit",
            Self::Quarantine(_) => "quarantine",
            Self::PassOver(_) => "passing over what would overlap",
        }
    }

    fn perform(self, store: &dyn Store) -> Result<ClaimAnswer, Error> {
        match self {
            Self::Claim(requests) => store.claim(&requests).map(ClaimAnswer::Claims),
            Self::Resolve(requests, claims) => store.resolve(&requests, claims).map(ClaimAnswer::Claims),
            Self::Quarantine(broken) => {
                let change = Change::Quarantine(broken.clone());
                store.apply_one(change).map(|applied| ClaimAnswer::Quarantined(broken, applied))
            }
            Self::PassOver(changes) => store.apply(&changes).map(ClaimAnswer::PassedOver),
        }
    }
}

/// Claims that were asked for, or asked about; each with the seat it would fill, if it has one.
struct InFlight<P> {
    requests: Arc<Vec<ClaimRequest>>,
    seats: Vec<(ItemKey, Option<P>)>,
    resolving: bool,
}

/// A claim that may have been made: nobody knows yet.
struct Doubt<P> {
    request: ClaimRequest,
    slot: ItemKey,
    permit: Option<P>,
}

impl<P> Default for InFlight<P> {
    fn default() -> Self {
        Self { requests: Arc::default(), seats: Vec::new(), resolving: false }
    }
}

pub(crate) struct DispatchMachine<S: Seats> {
    plan: Plan,
    ahead: Ahead,
    seats: S,
    node: NodeId,
    held: Arc<Held>,
    lease: Lease,
    enabled: bool,
    in_flight: InFlight<S::Permit>,
    /// Claims whose commit is unknown, and when they are asked about.
    doubtful: VecDeque<Doubt<S::Permit>>,
    resolve_at: Millis,
    /// Nothing has been learnt of the last of them yet: nothing else is claimed before.
    unresolved: bool,
    hold: Millis,
    tend_at: Millis,
    steady: Steady,
    /// Schedules whose claim failed alone, each with its version and how many claims had been won by then.
    suspects: HashMap<ScheduleId, (i64, u64)>,
    wins: u64,
    broken: VecDeque<UnreadableRow>,
    overlapping: Overlapping,
    /// Schedules whose slots became free while claims were under way, which may not have seen that.
    freed: FxHashSet<ScheduleId>,
    /// Jobs with bounds of which an execution ended meanwhile, likewise.
    freed_jobs: FxHashSet<Arc<str>>,
    /// When jobs and groups without room are tried again.
    holds: Holds,
    outbox: VecDeque<DispatchOutput<S::Permit>>,
    stopping: bool,
}

impl<S: Seats> DispatchMachine<S> {
    pub(crate) fn new(
        node: NodeId,
        held: Arc<Held>,
        lease: Lease,
        (lanes, seats): (Lanes, S),
        now: Now,
    ) -> Self {
        Self {
            plan: Plan::new(now.db, 2 * POLL_LIMIT, lanes),
            ahead: Ahead::default(),
            seats,
            node,
            held,
            lease,
            enabled: false,
            in_flight: InFlight::default(),
            doubtful: VecDeque::new(),
            resolve_at: Millis::MIN,
            unresolved: false,
            hold: now.boot,
            tend_at: Millis::MIN,
            steady: Steady::default(),
            suspects: HashMap::new(),
            wins: 0,
            broken: VecDeque::new(),
            overlapping: Overlapping::default(),
            freed: FxHashSet::default(),
            freed_jobs: FxHashSet::default(),
            holds: Holds::new(node),
            outbox: VecDeque::new(),
            stopping: false,
        }
    }

    /// How many items wait in the plan.
    #[cfg(test)]
    pub(crate) fn planned(&self) -> usize {
        self.plan.len()
    }

    #[cfg(test)]
    pub(crate) fn forget_turns(&mut self) {
        self.plan.forget_turns();
    }

    #[cfg(test)]
    pub(crate) fn forget_holds(&mut self) {
        self.holds = Holds::new(self.node);
    }

    fn drop_plan(&mut self, now: Now) {
        self.plan.clear(now.db);
        self.outbox.push_back(DispatchOutput::WakePoll);
    }

    /// Lets the pool look after those who wait in it; gives the boot-clock instant of the next look.
    fn tend(&mut self, now: Now) -> Option<Millis> {
        if now.boot >= self.tend_at {
            self.tend_at = now.boot + TEND;
            for claimed in self.seats.tick(now.boot) {
                self.give_back(claimed, now);
            }
        }
        self.seats.is_awaited().then_some(self.tend_at)
    }

    fn give_back(&mut self, claimed: Claimed, now: Now) {
        self.outbox.push_back(DispatchOutput::Event(Event::GivenBack { attempt: claimed.named() }));
        self.outbox.push_back(DispatchOutput::GiveBack(claimed.give_back(now.db)));
    }

    fn may_claim(&self, now: Now) -> bool {
        let settled = !self.unresolved
            && self.broken.is_empty()
            && self.overlapping.is_empty()
            && !self.is_to_resolve(now);
        settled && self.enabled && !self.stopping && self.lease.holds(now) && now.boot >= self.hold
    }

    /// The next batch, each request with a seat; none if no occurrence is due soon enough or no seat is free.
    /// Occurrences due a little later come along.
    fn batch(&mut self, now: Now) -> Option<Arc<Vec<ClaimRequest>>> {
        if !self.may_claim(now) {
            return None;
        }
        self.plan.advance(now.db + CLAIM_AHEAD);
        if !self.plan.has_due(now.db + self.ahead.lead()) {
            return None;
        }
        let seats = &mut self.seats;
        let picked = self.plan.pick(now.db + CLAIM_AHEAD, BATCH, |lane| seats.reserve(lane));
        if picked.is_empty() {
            return None;
        }
        let mut token = Token::fresh();
        let mut requests = Vec::with_capacity(picked.len());
        let mut seats = Vec::with_capacity(picked.len());
        for (slot, candidate, permit) in picked {
            requests.push(self.request(candidate, token, S::seat(&permit), now));
            seats.push((slot, Some(permit)));
            token = token.next();
        }
        let waits = |it: &ClaimRequest| {
            matches!(it.candidate, Candidate::Pending(_)) && it.candidate.entry().overlap.has_slot()
        };
        self.held.await_slots(self.plan.awaits_slots() || requests.iter().any(waits));
        self.in_flight = InFlight { requests: Arc::new(requests), seats, resolving: false };
        Some(Arc::clone(&self.in_flight.requests))
    }

    fn is_to_resolve(&self, now: Now) -> bool {
        !self.doubtful.is_empty() && now.boot >= self.resolve_at
    }

    /// The next claims to be asked about, the last that came into doubt first; at most one per schedule.
    fn doubts(&mut self, now: Now) -> Arc<Vec<ClaimRequest>> {
        let mut schedules = HashSet::new();
        let (mut requests, mut seats) = (Vec::new(), Vec::new());
        for mut doubt in std::mem::take(&mut self.doubtful) {
            let exclusive = doubt.request.candidate.exclusive();
            let is_asked =
                requests.len() < BATCH && exclusive.is_none_or(|schedule| schedules.insert(schedule));
            if !is_asked {
                self.doubtful.push_back(doubt);
                continue;
            }
            if doubt.permit.is_none() && !self.stopping && doubt.request.lease.holds(now) {
                // Whether it counts as begun was decided for the seat it had: only a thread is never worse.
                let lane = self.plan.lane_of(&doubt.request.candidate);
                doubt.permit = self.seats.reserve(lane).filter(|permit| S::seat(permit) == Seat::Thread);
            }
            requests.push(doubt.request);
            seats.push((doubt.slot, doubt.permit));
        }
        self.in_flight = InFlight { requests: Arc::new(requests), seats, resolving: true };
        Arc::clone(&self.in_flight.requests)
    }

    /// Its row is held, and may be for long: its seat is for others meanwhile.
    fn still_in_doubt(&mut self, request: &ClaimRequest, slot: ItemKey) {
        self.doubtful.push_back(Doubt { request: request.clone(), slot, permit: None });
    }

    fn request(&self, candidate: Candidate, token: Token, seat: Seat, now: Now) -> ClaimRequest {
        // Should the node die before it begins, it counts as begun: not for what may run only once, and not
        // for what has met a death before.
        let expendable = candidate.entry().recover
            && match &candidate {
                Candidate::Planned(_) => true,
                Candidate::Pending(pending) => pending.entry.is_queue && pending.attempt == 1,
            };
        let begins_now = seat == Seat::Thread && candidate.due() <= now.db;
        let at_once = begins_now || seat != Seat::Place && expendable;
        self.held.add(token);
        ClaimRequest { candidate, token, node: self.node, at_once, lease: self.lease, now: now.db }
    }

    fn claimed(&mut self, claims: Vec<Claim>, now: Now) {
        let InFlight { requests, seats, resolving } = std::mem::take(&mut self.in_flight);
        if resolving {
            self.unresolved = false;
            self.resolve_at = now.boot + DOUBT_PAUSE;
        }
        let mut won = Vec::with_capacity(claims.len());
        let many = claims.len() > 1;
        let (before, mut failure) = (self.wins, None);
        for ((request, seat), claim) in requests.iter().zip(seats).zip(claims) {
            if let Claim::Failed(error) = &claim {
                failure.get_or_insert_with(|| error.clone());
            }
            match claim {
                Claim::Skipped if resolving => self.still_in_doubt(request, seat.0),
                claim => won.extend(self.ended(request, seat, claim, now)),
            }
        }
        if self.overlapping.is_empty() {
            self.freed.clear();
        }
        self.freed_jobs.clear();
        self.held.await_slots(self.plan.awaits_slots());
        if let Some(error) = failure {
            // Nothing could be claimed: the next claims would fare no better.
            if many && self.wins == before {
                self.hold = now.boot + FAILURE_PAUSE;
            }
            self.outbox.push_back(DispatchOutput::Event(Event::StoreFailed { operation: "claim", error }));
        }
        if !won.is_empty() {
            // Before what is told of the others: observers take their time.
            self.outbox.push_front(DispatchOutput::Won(won));
        }
    }

    fn ended(
        &mut self,
        request: &ClaimRequest,
        (slot, permit): (ItemKey, Option<S::Permit>),
        claim: Claim,
        now: Now,
    ) -> Option<Ready<S::Permit>> {
        if !self.holds.is_empty() {
            self.settle_holds(&request.candidate, &claim);
        }
        match claim {
            Claim::Won(claimed) => {
                self.plan.won(slot, now.boot);
                self.wins += 1;
                self.suspects.remove(&request.candidate.entry().id);
                self.overlapping.claimed(request.candidate.entry().id);
                // A claim that comes in after the stop finds nobody to run it.
                let permit = permit.filter(|_| claimed.may_start(now) && !self.stopping);
                let Some(permit) = permit else {
                    self.give_back(claimed, now);
                    return None;
                };
                return Some(Ready { due: request.candidate.due(), permit, claimed });
            }
            Claim::Lost => {
                let schedule = Arc::clone(&request.candidate.entry().name);
                self.outbox.push_back(DispatchOutput::Event(Event::ClaimLost { schedule }));
                self.plan.lost(slot, now.boot);
            }
            // The plan's time is ahead.
            Claim::Skipped => self.plan.skipped(slot, now.db + SKIP_RETRY + CLAIM_AHEAD, now.boot),
            Claim::Blocked(blocked) => self.blocked(slot, request, blocked, now),
            Claim::Full(Full { of_group, until }) => {
                self.plan.again(slot);
                let of = bound_of(&request.candidate, of_group);
                if until.is_some() || !self.freed_jobs.contains(&of.job) {
                    self.plan.hold(&of);
                    self.holds.full(of, until.map(|until| now.boot_at(until)), now.boot);
                }
            }
            Claim::Busy => {
                self.plan.again(slot);
                let of = bound_of(&request.candidate, false);
                self.plan.hold(&of);
                self.holds.busy(of, now.boot);
            }
            Claim::Failed(error) => self.failed(slot, request.candidate.entry(), &error),
        }
        self.held.remove(request.token);
        None
    }

    /// Whoever counted a job with bounds was in nobody's way, and whoever claimed found room.
    fn settle_holds(&mut self, candidate: &Candidate, claim: &Claim) {
        let settled: &[bool] = match claim {
            Claim::Busy | Claim::Full(Full { of_group: false, .. }) => &[],
            Claim::Won(_) => &[false, true],
            _ => &[false],
        };
        for of in settled.iter().map(|of_group| bound_of(candidate, *of_group)) {
            if self.holds.settle(&of) {
                self.plan.free(&of);
            }
        }
    }

    /// Another execution of its schedule has not ended.
    fn blocked(&mut self, slot: ItemKey, request: &ClaimRequest, blocked: Blocked, now: Now) {
        match &request.candidate {
            Candidate::Pending(pending) => {
                self.plan.block(slot, blocked.holder);
                if self.freed.contains(&pending.entry.id) {
                    self.plan.unpark(pending.entry.id);
                }
            }
            // It was asked for before its time, and that one may have ended by then. The plan's time is
            // ahead.
            Candidate::Planned(occurrence) if request.now < occurrence.at => {
                self.plan.wait(slot, now.boot);
            }
            Candidate::Planned(occurrence) => {
                let pass = overlapped(occurrence, blocked, now.db);
                self.overlapping.add(slot, &occurrence.entry, pass);
            }
        }
    }

    /// What would have overlapped was passed over, or had changed meanwhile.
    fn passed_over(&mut self, applied: &[Applied], now: Now) {
        for ((slot, pass), applied) in self.overlapping.take().into_iter().zip(applied) {
            let event = if applied.is_done() {
                self.plan.passed(slot, now.boot);
                let told = self.overlapping.passed(&pass, now.boot);
                // One that had not begun has ended with its cancel; or the slot became free meanwhile.
                let may_begin = pass.repair.replaces.is_some() || self.freed.contains(&pass.entry.id);
                if may_begin && self.overlapping.freed(pass.entry.id) {
                    self.outbox.push_back(DispatchOutput::WakePoll);
                }
                told
            } else {
                // Its row was held, or has changed: once more after a moment, then left to the next poll.
                self.plan.skipped(slot, now.db + SKIP_RETRY + CLAIM_AHEAD, now.boot);
                None
            };
            self.outbox.extend(event.map(DispatchOutput::Event));
        }
        self.freed.clear();
    }

    /// A row that makes its claim fail alone, and once more after others were won, would fail for ever: it
    /// goes into quarantine. While none is won, all rows may fail for what holds of the ledger: they are left
    /// to the next poll.
    fn failed(&mut self, slot: ItemKey, entry: &Entry, error: &Error) {
        self.plan.forget(slot);
        if self.suspects.len() >= MOST_SUSPECTS {
            self.suspects.clear();
        }
        let (version, wins) = *self.suspects.entry(entry.id).or_insert((entry.version, self.wins));
        if version != entry.version {
            self.suspects.insert(entry.id, (entry.version, self.wins));
        }
        if version != entry.version || wins == self.wins {
            return;
        }
        self.suspects.remove(&entry.id);
        let (id, version, state) = (entry.id, entry.version, entry.state.as_str().to_owned());
        let (seen, name) = (SeenSchedule { id, version, state }, Arc::clone(&entry.name));
        self.broken.push_back(UnreadableRow { seen, name, reason: error.to_string() });
    }

    fn failed_call(&mut self, error: Error, now: Now) {
        self.hold = now.boot + FAILURE_PAUSE;
        // A call that brought claims says nothing of what is passed over in one of its own.
        if self.in_flight.seats.is_empty() {
            match self.overlapping.failed(error.kind() == ErrorKind::Data) {
                Failed::ApartNext => self.hold = now.boot,
                Failed::Alone(slot, pass) => self.failed(slot, &pass.entry, &error),
                Failed::All(slots) => slots.into_iter().for_each(|slot| self.plan.again(slot)),
            }
        }
        let InFlight { requests, seats, resolving } = std::mem::take(&mut self.in_flight);
        let claims = seats.len();
        if resolving {
            // What else is to be claimed has its turn first, unless it waits for this.
            self.resolve_at = if self.unresolved { self.hold } else { now.boot + DOUBT_PAUSE };
            self.doubt(&requests, seats);
        } else if claims > 0 && error.is_unknown() {
            self.unresolved = true;
            self.resolve_at = self.hold;
            self.doubt(&requests, seats);
            self.outbox.push_back(DispatchOutput::Event(Event::CommitUnknown { claims }));
        } else {
            for (request, (slot, _)) in requests.iter().zip(seats) {
                self.held.remove(request.token);
                self.plan.again(slot);
            }
        }
        self.outbox.push_back(DispatchOutput::Event(Event::StoreFailed { operation: "claim", error }));
    }

    /// These are asked about first.
    fn doubt(&mut self, requests: &[ClaimRequest], seats: Vec<(ItemKey, Option<S::Permit>)>) {
        for (request, (slot, permit)) in requests.iter().zip(seats).rev() {
            let permit = permit.filter(|_| self.unresolved);
            self.doubtful.push_front(Doubt { request: request.clone(), slot, permit });
        }
    }

    /// When to look again if nothing else happens.
    fn rest_until(&mut self, now: Now, tend: Option<Millis>) -> Millis {
        let due = if !self.may_claim(now) {
            Some(self.hold).filter(|hold| *hold > now.boot)
        } else if self.plan.is_starved() {
            None
        } else {
            let ahead = self.plan.next_due().map(|at| at.saturating_sub(self.ahead.lead()));
            ahead.into_iter().chain(self.plan.next_deferred()).min().map(|at| now.boot_at(at))
        };
        let resolve = (!self.doubtful.is_empty()).then_some(self.resolve_at);
        [due, resolve, tend, self.holds.next_at()].into_iter().flatten().min().unwrap_or(Millis::MAX)
    }
}

/// The bound that a candidate shares with its job or its group.
fn bound_of(candidate: &Candidate, of_group: bool) -> BoundOf {
    let group = candidate.group().filter(|_| of_group).cloned();
    BoundOf { job: Arc::clone(&candidate.entry().job), group }
}

impl<S: Seats> Machine for DispatchMachine<S> {
    type Op = ClaimOp;
    type Input = DispatchInput;
    type Output = DispatchOutput<S::Permit>;

    fn next(&mut self, now: Now) -> Step<ClaimOp, Self::Output> {
        if self.steady.jumped(now) {
            self.drop_plan(now);
        }
        if self.lease.is_doubtful(now) {
            self.lease = Lease::NONE;
            self.outbox.push_back(DispatchOutput::WakeHeart);
        }
        let tend = self.tend(now);
        self.holds.due(now.boot).iter().for_each(|of| self.plan.free(of));
        // Send the next claim before handing over the won ones, so that the database works while they run.
        // Events go first: an observer may block, and no claim may wait behind it.
        let only_won = self.outbox.iter().all(|output| matches!(output, DispatchOutput::Won(_)));
        if only_won && let Some(requests) = self.batch(now) {
            self.ahead.asked(now.boot);
            return Step::Do(ClaimOp::Claim(requests));
        }
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.is_to_resolve(now) {
            return Step::Do(ClaimOp::Resolve(self.doubts(now), self.enabled));
        }
        if self.unresolved {
            return Step::Wait(self.resolve_at);
        }
        if !self.overlapping.is_empty() {
            return Step::Do(ClaimOp::PassOver(self.overlapping.changes()));
        }
        if let Some(broken) = self.broken.pop_front() {
            return Step::Do(ClaimOp::Quarantine(broken));
        }
        if self.stopping {
            return if self.doubtful.is_empty() { Step::Stop } else { Step::Wait(self.resolve_at) };
        }
        if self.may_claim(now) && self.plan.wants_poll() {
            return Step::Tell(DispatchOutput::WakePoll);
        }
        Step::Wait(self.rest_until(now, tend))
    }

    fn meanwhile(&mut self) -> Option<Self::Output> {
        self.outbox.pop_front()
    }

    fn done(&mut self, now: Now, answer: Result<ClaimAnswer, Error>) {
        self.ahead.answered(now.boot);
        match answer {
            Ok(ClaimAnswer::Claims(claims)) => self.claimed(claims, now),
            Ok(ClaimAnswer::Quarantined(broken, Applied::Done)) => {
                let event = Event::Quarantined { schedule: broken.name, reason: broken.reason };
                self.outbox.push_back(DispatchOutput::Event(event));
            }
            Ok(ClaimAnswer::Quarantined(..)) => {}
            Ok(ClaimAnswer::PassedOver(applied)) => self.passed_over(&applied, now),
            Err(error) => self.failed_call(error, now),
        }
    }

    fn receive(&mut self, now: Now, input: DispatchInput) {
        match input {
            DispatchInput::Planned(planned) if planned.enabled => {
                self.enabled = true;
                let (sent, is_short) = (planned.sent, planned.is_short());
                self.plan.take(planned, now.boot);
                if !is_short {
                    self.overlapping.polled(sent);
                }
            }
            DispatchInput::Planned(_) => {
                self.enabled = false;
                self.plan.clear(now.db);
            }
            DispatchInput::Lease(lease) => self.lease = lease,
            DispatchInput::SeatFreed(lane) => self.plan.seat_freed(lane),
            DispatchInput::Ran { job, took } => {
                let changed = self.plan.ran(&job, took, now.boot);
                let changed = changed.map(|lane| Event::LaneChanged { job, lane });
                self.outbox.extend(changed.map(DispatchOutput::Event));
            }
            DispatchInput::SlotFreed(schedule) => {
                self.plan.unpark(schedule);
                if !self.in_flight.seats.is_empty() || !self.overlapping.is_empty() {
                    self.freed.insert(schedule);
                }
                if self.overlapping.freed(schedule) {
                    self.outbox.push_back(DispatchOutput::WakePoll);
                }
            }
            DispatchInput::Freed(of) => {
                let job = Arc::clone(&of.job);
                for of in [BoundOf { job: Arc::clone(&job), group: None }, of] {
                    if !self.holds.is_timed(&of) {
                        self.plan.free(&of);
                    }
                }
                if !self.in_flight.seats.is_empty() {
                    self.freed_jobs.insert(job);
                }
            }
            DispatchInput::HandBack => {
                for claimed in self.seats.empty() {
                    self.give_back(claimed, now);
                }
            }
            DispatchInput::Jumped => self.plan.clear(now.db),
            DispatchInput::Reborn(node) => {
                self.node = node;
                self.lease = Lease::NONE;
                self.drop_plan(now);
            }
            DispatchInput::Stop => {
                self.stopping = true;
                let planned = self.plan.drain().len();
                self.outbox.push_back(DispatchOutput::Event(Event::LeftToOthers { planned }));
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Dispatch: shortly before a planned occurrence is due, reserves a seat for it, claims it, and hands it to
//! the start stage.

mod ahead;
mod calls;
mod claims;
mod doubts;
mod holds;
mod messages;
mod overlapping;
mod suspects;

use std::collections::VecDeque;
use std::sync::Arc;

use self::ahead::Ahead;
#[cfg(test)]
pub(crate) use self::calls::Op as ClaimOp;
use self::calls::{Answer, Answered, Asked, CLAIM, Op, join};
use self::claims::{BATCH, FAILURE_PAUSE, Sent, bound_of, counts_as_begun, waits_for_slot};
use self::doubts::Doubts;
use self::holds::Holds;
pub(crate) use self::messages::{DispatchInput, DispatchOutput, Seats};
use self::overlapping::{Failed, Overlapping, PassedItem};
use self::suspects::Suspects;
use super::lanes::Lanes;
use super::plan::{ItemKey, Plan};
use super::poll::POLL_LIMIT;
use super::pool::Seat;
use super::start::Won;
use crate::domain::{
    Boot, BoundOf, BoundScope, Candidate, Error, ErrorKind, Event, Full, Millis, NodeId, SeatKind, Token,
};
use crate::machine::{Machine, Step};
use crate::members::OwnTokens;
use crate::repair::overlapped;
use crate::store::{Applied, Blocked, Claim, ClaimRequest, Claimed, IfNotMade};
use crate::time::{CLAIM_AHEAD, Lease, Now, SKIP_RETRY, Steady};

/// How often the pool is checked while an execution waits in it.
const TEND: Millis = 250;

pub(crate) struct DispatchMachine<S: Seats> {
    plan: Plan,
    ahead: Ahead,
    seats: S,
    node: NodeId,
    own_tokens: Arc<OwnTokens>,
    lease: Lease,
    enabled: bool,
    doubts: Doubts<S::Permit>,
    /// Nothing is claimed before this after a call has failed.
    paused_until: Boot,
    tend_at: Boot,
    steady: Steady,
    suspects: Suspects,
    overlapping: Overlapping,
    /// When jobs and groups without room are tried again.
    holds: Holds,
    outbox: VecDeque<DispatchOutput<S::Permit>>,
    stopping: bool,
}

impl<S: Seats> DispatchMachine<S> {
    pub(crate) fn new(
        node: NodeId,
        own_tokens: Arc<OwnTokens>,
        lease: Lease,
        lanes: Lanes,
        seats: S,
        now: Now,
    ) -> Self {
        Self {
            plan: Plan::new(now.db, 2 * POLL_LIMIT, lanes),
            ahead: Ahead::default(),
            seats,
            node,
            own_tokens,
            lease,
            enabled: false,
            doubts: Doubts::new(),
            paused_until: now.boot,
            tend_at: Boot::MIN,
            steady: Steady::default(),
            suspects: Suspects::default(),
            overlapping: Overlapping::default(),
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

    /// Lets the pool look after those who wait in it; gives the instant of the next look.
    fn tend(&mut self, now: Now) -> Option<Boot> {
        if now.boot >= self.tend_at {
            self.tend_at = now.boot + TEND;
            for claimed in self.seats.tick(now.boot) {
                self.give_back(claimed, now);
            }
        }
        self.seats.is_awaited().then_some(self.tend_at)
    }

    fn give_back(&mut self, claimed: Claimed, now: Now) {
        self.emit(Event::GivenBack { attempt: claimed.named() });
        self.outbox.push_back(DispatchOutput::GiveBack(claimed.give_back(now.db)));
    }

    fn may_claim(&self, now: Now) -> bool {
        let settled = self.doubts.blocks_until().is_none()
            && !self.suspects.has_broken()
            && self.overlapping.is_empty()
            && !self.doubts.are_due(now.boot);
        settled && self.enabled && !self.stopping && self.lease.holds(now) && now.boot >= self.paused_until
    }

    /// The next batch, each request with a seat; none if no occurrence is due soon enough or no seat is free.
    /// Occurrences due a little later come along.
    fn batch(&mut self, now: Now) -> Option<Sent<S::Permit>> {
        if !self.may_claim(now) {
            if !self.lease.holds(now) {
                self.plan.forget_waits();
            }
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
        for (item, candidate, permit) in picked {
            let waited = self.plan.waited(item).cloned();
            requests.push(ClaimRequest { waited, ..self.request(candidate, token, S::seat(&permit), now) });
            seats.push((item, Some(permit)));
            token = token.next();
        }
        self.own_tokens.await_slots(self.plan.awaits_slots() || requests.iter().any(waits_for_slot));
        Some(Sent { at: now.boot, requests: Arc::new(requests), seats })
    }

    fn request(&self, candidate: Candidate, token: Token, seat: Seat, now: Now) -> ClaimRequest {
        let at_once = counts_as_begun(&candidate, seat, now.db);
        self.own_tokens.add(token);
        let (node, lease) = (self.node, self.lease);
        ClaimRequest { candidate, token, node, at_once, lease, waited: None, now: now.db }
    }

    /// The next claims whose commit is unknown.
    fn ask_doubts(&mut self, now: Now) -> Sent<S::Permit> {
        let (plan, seats, may_start) = (&self.plan, &mut self.seats, !self.stopping);
        self.doubts.ask(now.boot, |request| {
            // The request says for its old seat whether it counts as begun; only a thread is right for both.
            let lane = plan.lane_of(&request.candidate);
            let permit = if may_start && request.lease.holds(now) { seats.reserve(lane) } else { None };
            permit.filter(|permit| S::seat(permit) == Seat::Thread)
        })
    }

    /// Takes in the fates of claims that were asked about.
    fn resolved(&mut self, sent: Sent<S::Permit>, claims: Vec<Claim>, now: Now) {
        self.doubts.answered(now.boot);
        let all = sent.requests.iter().zip(sent.seats).zip(claims);
        let (open, ended): (Vec<_>, Vec<_>) = all.partition(|(_, claim)| matches!(claim, Claim::Skipped));
        open.into_iter().for_each(|((request, (item, _)), _)| self.doubts.remains(request, item));
        self.take_in(ended.into_iter(), now);
    }

    /// Takes in what became of these.
    fn take_in<'a>(
        &mut self,
        ended: impl ExactSizeIterator<Item = ((&'a ClaimRequest, (ItemKey, Option<S::Permit>)), Claim)>,
        now: Now,
    ) {
        let (many, mut has_won, mut failure) = (ended.len() > 1, false, None);
        let mut is_contested = false;
        let mut won = Vec::with_capacity(ended.len());
        for ((request, seat), claim) in ended {
            has_won |= matches!(claim, Claim::Won(_));
            is_contested |= matches!(claim, Claim::Lost) && request.candidate.entry().is_queue;
            if let Claim::Failed(error) = &claim {
                failure.get_or_insert_with(|| error.clone());
            }
            won.extend(self.ended(request, seat, claim, now));
        }
        self.own_tokens.await_slots(self.plan.awaits_slots());
        if is_contested {
            self.outbox.push_back(DispatchOutput::Contested);
        }
        if let Some(error) = failure {
            // Nothing could be claimed: the next claims would fare no better.
            if many && !has_won {
                self.paused_until = now.boot + FAILURE_PAUSE;
            }
            self.emit(Event::StoreFailed { operation: CLAIM, error });
        }
        if !won.is_empty() {
            // Before the events of the others: an observer may block.
            self.outbox.push_front(DispatchOutput::Won(won));
        }
    }

    fn ended(
        &mut self,
        request: &ClaimRequest,
        (item, permit): (ItemKey, Option<S::Permit>),
        claim: Claim,
        now: Now,
    ) -> Option<Won<S::Permit>> {
        if !self.holds.is_empty() {
            self.settle_holds(&request.candidate, &claim);
        }
        match claim {
            Claim::Won(claimed) => {
                self.plan.won(item, now.boot);
                self.suspects.won(request.candidate.entry().id);
                self.overlapping.claimed(request.candidate.entry().id);
                // A claim that comes in after the stop finds nobody to run it.
                let Some(permit) = permit.filter(|_| claimed.may_start(now) && !self.stopping) else {
                    self.give_back(claimed, now);
                    return None;
                };
                return Some(Won { due: request.candidate.due(), permit, claimed });
            }
            Claim::Lost => {
                let schedule = Arc::clone(&request.candidate.entry().name);
                self.emit(Event::ClaimLost { schedule });
                self.plan.lost(item, now.boot);
            }
            // The plan's time is ahead.
            Claim::Skipped => self.plan.skipped(item, now.db + SKIP_RETRY + CLAIM_AHEAD, now.boot),
            Claim::Blocked(blocked) => self.blocked(item, request, blocked, now),
            Claim::Full(Full { scope, until }) => {
                let of = self.hold_back(item, &request.candidate, scope);
                let of_scope = [SeatKind::Bound(scope), SeatKind::Rate(scope)];
                let waited = request.waited.as_ref().filter(|wait| of_scope.contains(&wait.seat));
                let earlier = waited.map_or(0, |wait| wait.span);
                self.plan.waits_for(&of, until.is_some(), request.now - earlier);
                self.holds.full(of, until.map(|until| now.boot_at(until)), now.boot);
            }
            Claim::Busy => {
                let of = self.hold_back(item, &request.candidate, BoundScope::Job);
                self.holds.busy(of, now.boot);
            }
            Claim::Failed(error) => {
                self.plan.forget(item);
                self.suspects.failed(request.candidate.entry(), &error);
            }
        }
        self.own_tokens.remove(request.token);
        None
    }

    /// Holds the candidate's job or group back, and returns which.
    fn hold_back(&mut self, item: ItemKey, candidate: &Candidate, scope: BoundScope) -> BoundOf {
        self.plan.again(item);
        let of = bound_of(candidate, scope);
        self.plan.hold(&of);
        of
    }

    /// Any answer but Busy, or Full of the job, ends the hold of its job; a won claim also ends its group's.
    fn settle_holds(&mut self, candidate: &Candidate, claim: &Claim) {
        let settled: &[BoundScope] = match claim {
            Claim::Busy | Claim::Full(Full { scope: BoundScope::Job, .. }) => &[],
            Claim::Won(_) => &[BoundScope::Job, BoundScope::Group],
            _ => &[BoundScope::Job],
        };
        for of in settled.iter().map(|scope| bound_of(candidate, *scope)) {
            if self.holds.settle(&of) {
                self.plan.free(&of);
            }
        }
    }

    /// Another execution of its schedule has not ended.
    fn blocked(&mut self, item: ItemKey, request: &ClaimRequest, blocked: Blocked, now: Now) {
        match &request.candidate {
            Candidate::Pending(_) => self.plan.block(item, blocked.holder),
            // It was asked for before its time, and that one may have ended by then. The plan's time is
            // ahead.
            Candidate::Planned(occurrence) if request.now < occurrence.at => {
                self.plan.wait(item, now.boot);
            }
            Candidate::Planned(occurrence) => {
                let pass = overlapped(occurrence, blocked, now.db);
                self.overlapping.add(item, &occurrence.entry, pass);
            }
        }
    }

    /// Occurrences that would have overlapped were passed over, or had changed meanwhile.
    fn passed_over(&mut self, passes: Vec<PassedItem>, applied: &[Applied], now: Now) {
        for ((item, pass), applied) in passes.into_iter().zip(applied) {
            if applied.is_done() {
                self.plan.passed(item, now.boot);
                self.outbox.extend(pass.skipped().map(DispatchOutput::Event));
                let told = self.overlapping.passed(&pass, now.boot);
                if self.overlapping.lets_begin(&pass) {
                    self.outbox.push_back(DispatchOutput::WakePoll);
                }
                self.outbox.extend(told.map(DispatchOutput::Event));
            } else {
                // Its row was held, or has changed: once more after a moment, then left to the next poll.
                self.plan.skipped(item, now.db + SKIP_RETRY + CLAIM_AHEAD, now.boot);
            }
        }
    }

    fn failed(&mut self, asked: Asked<S::Permit>, error: Error, now: Now) {
        let operation = asked.name();
        self.paused_until = now.boot + FAILURE_PAUSE;
        self.plan.forget_waits();
        match asked {
            Asked::Claim(sent) if error.is_unknown() => {
                let claims = sent.seats.len();
                self.doubts.begin(sent, now.boot);
                self.emit(Event::CommitUnknown { claims });
            }
            Asked::Claim(Sent { requests, seats, .. }) => {
                for (request, (item, _)) in requests.iter().zip(seats) {
                    self.own_tokens.remove(request.token);
                    self.plan.again(item);
                }
            }
            Asked::Resolve(sent) => self.doubts.failed(sent, now.boot),
            Asked::Quarantine(_) => {}
            Asked::PassOver(passes) => {
                match self.overlapping.failed(passes, error.kind() == ErrorKind::Data) {
                    Failed::ApartNext => self.paused_until = now.boot,
                    Failed::Alone(item, pass) => {
                        self.plan.forget(item);
                        self.suspects.failed(&pass.entry, &error);
                    }
                    Failed::All(items) => items.into_iter().for_each(|item| self.plan.again(item)),
                }
            }
        }
        self.emit(Event::StoreFailed { operation, error });
    }

    fn emit(&mut self, event: Event) {
        self.outbox.push_back(DispatchOutput::Event(event));
    }

    /// When to look again if nothing else happens.
    fn rest_until(&mut self, now: Now, tend: Option<Boot>) -> Boot {
        let due = if !self.may_claim(now) {
            Some(self.paused_until).filter(|until| *until > now.boot)
        } else if self.plan.is_starved() {
            None
        } else {
            let ahead = self.plan.next_due().map(|at| at.saturating_sub(self.ahead.lead()));
            ahead.into_iter().chain(self.plan.next_deferred()).min().map(|at| now.boot_at(at))
        };
        let instants = [due, self.doubts.next_at(), tend, self.holds.next_at()];
        instants.into_iter().flatten().min().unwrap_or(Boot::MAX)
    }
}

impl<S: Seats> Machine for DispatchMachine<S> {
    type Op = Op;
    type Asked = Asked<S::Permit>;
    type Input = DispatchInput;
    type Output = DispatchOutput<S::Permit>;

    fn next(&mut self, now: Now) -> Step<(Op, Self::Asked), Self::Output> {
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
        if only_won && let Some(sent) = self.batch(now) {
            return Step::Do(Asked::claim(Arc::clone(&sent.requests), sent));
        }
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.doubts.are_due(now.boot) {
            let sent = self.ask_doubts(now);
            let if_not_made = if self.enabled { IfNotMade::Claim } else { IfNotMade::Prevent };
            return Step::Do(Asked::resolve(Arc::clone(&sent.requests), if_not_made, sent));
        }
        if let Some(until) = self.doubts.blocks_until() {
            return Step::Wait(until);
        }
        if !self.overlapping.is_empty() {
            let (changes, passes) = self.overlapping.ask();
            return Step::Do(Asked::pass_over(changes, passes));
        }
        if let Some(row) = self.suspects.pop_broken() {
            return Step::Do(Asked::quarantine(row.clone(), row));
        }
        if self.stopping {
            return self.doubts.next_at().map_or(Step::Stop, Step::Wait);
        }
        if self.may_claim(now) && self.plan.wants_poll() {
            return Step::Tell(DispatchOutput::WakePoll);
        }
        Step::Wait(self.rest_until(now, tend))
    }

    fn meanwhile(&mut self) -> Option<Self::Output> {
        self.outbox.pop_front()
    }

    fn done(&mut self, now: Now, asked: Self::Asked, answer: Result<Answer, Error>) {
        if let Asked::Claim(sent) = &asked {
            self.ahead.took(now.boot - sent.at);
        }
        match join(asked, answer) {
            Ok(Answered::Claim(Sent { requests, seats, .. }, claims)) => {
                self.take_in(requests.iter().zip(seats).zip(claims), now);
            }
            Ok(Answered::Resolve(sent, claims)) => self.resolved(sent, claims, now),
            Ok(Answered::Quarantine(row, Applied::Done)) => {
                self.emit(Event::Quarantined { schedule: row.name, reason: row.reason });
            }
            Ok(Answered::Quarantine(..)) => {}
            Ok(Answered::PassOver(passes, applied)) => self.passed_over(passes, &applied, now),
            Err((asked, error)) => self.failed(asked, error, now),
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
                let changed = self.plan.lanes.ran(&job, took, now.boot);
                let changed = changed.map(|lane| Event::LaneChanged { job, lane });
                self.outbox.extend(changed.map(DispatchOutput::Event));
            }
            DispatchInput::SlotFreed(schedule) => {
                self.plan.unpark(schedule);
                if self.overlapping.slot_freed(schedule) {
                    self.outbox.push_back(DispatchOutput::WakePoll);
                }
            }
            DispatchInput::Freed(of) => {
                for of in [BoundOf { job: Arc::clone(&of.job), group: None }, of] {
                    if !self.holds.is_timed(&of) {
                        self.plan.free(&of);
                    }
                }
            }
            DispatchInput::HandBack => {
                for claimed in self.seats.empty() {
                    self.give_back(claimed, now);
                }
            }
            DispatchInput::Home(shares) => self.plan.leave_others(&shares),
            DispatchInput::Jumped => self.plan.clear(now.db),
            DispatchInput::Reborn(node) => {
                self.node = node;
                self.lease = Lease::NONE;
                self.drop_plan(now);
            }
            DispatchInput::Stop => {
                self.stopping = true;
                let planned = self.plan.drain().len();
                self.emit(Event::LeftToOthers { planned });
            }
        }
    }
}

#[cfg(test)]
mod tests;

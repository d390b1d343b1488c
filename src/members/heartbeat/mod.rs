//! The machine that joins, beats, declares silent nodes dead, and leaves.
//!
//! A confirmed heartbeat gives its node a lease: for [`Window::lease`] from when it was sent, by the boot
//! clock, the node may start executions that it has claimed. The boot clock stands still while a hypervisor
//! pauses the machine. The wall clock, once it is set right, shows the pause: the two clocks have drifted
//! apart. Then no lease from before the pause holds, and executions claimed under it go back.

mod calls;

use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(test)]
pub(crate) use self::calls::Op as HeartbeatOp;
use self::calls::{Answer, Answered, Asked, Op, Sent, join};
use super::observer::Observer;
use super::{OwnTokens, Standing};
use crate::domain::shards::Member;
use crate::domain::{Boot, Error, Event, ExecutionId, LaneReport, Lineage, Millis, NodeId};
use crate::machine::{Machine, Step};
use crate::repair::recover;
use crate::store::{Applied, Heartbeat, HeartbeatReply, LeftAlone, NewNode, NodeEnd, Peer, Stranded};
use crate::time::{Lease, Now, Window};

/// The least time between two heartbeats, however often executions are asked to end or other nodes tell.
const NEWS_EVERY: Millis = 100;
/// The least time between two heartbeats that contested claims or hand-backs bring forward.
const OWN_NEWS_EVERY: Millis = 1_000;

pub(crate) enum HeartbeatInput {
    /// A heartbeat at once: the lease is in doubt.
    Beat,
    /// Another node may have joined: a heartbeat's answer tells.
    Contested,
    /// Somebody asked for the end of an execution, perhaps of this node's: a heartbeat's answer tells.
    CancelAsked,
    /// Another node has told that it leaves, has handed back executions, or can run other jobs: a heartbeat's
    /// answer tells.
    MemberTold,
    /// Executions of this node are free for others again, who are told with a heartbeat.
    HandedBack,
    /// A lane is blocked, or is so no more: the others are told with a heartbeat.
    LaneChanged,
    /// The schedules that the node leaves to others now.
    LeftAlone(Vec<LeftAlone>),
    /// The node drains: nothing is claimed, what waits is handed back; or it does so no more.
    Drain(bool),
    /// Nothing more will be claimed: the others are told with a heartbeat at once.
    Withdraw,
    /// Stop beating; with `leave`, end the node's row: nothing of it runs any more.
    Stop { leave: bool },
}

pub(crate) enum HeartbeatOutput {
    Lease(Lease),
    /// This node goes on under a new name.
    Reborn(NodeId),
    /// Who lives, this node included, and what each claims.
    Members(Vec<Member>),
    /// This node's row says that it has left.
    Left,
    /// The SQLite file at this path is no longer the one that this node has open.
    DatabaseReplaced(String),
    Event(Event),
}

/// Whether the node's name is in the database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Membership {
    Joined,
    NotYet,
    /// Its registration failed, and the row may exist after all: it is ended, and the node joins under
    /// another name.
    InDoubt,
}

/// How far a node has come that was told to drain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    No,
    /// It knows since this instant.
    Begun(Boot),
    /// Since then a heartbeat's answer has shown that it owns nothing.
    Done,
}

/// The live nodes as shards are shared out among them.
pub(crate) fn members(peers: &[Peer]) -> Vec<Member> {
    let member = |peer: &Peer| Member { id: peer.id, jobs: peer.jobs.clone(), blocked: peer.blocked.clone() };
    peers.iter().map(member).collect()
}

pub(crate) struct HeartbeatMachine<F> {
    /// This incarnation, as it registers.
    node: NewNode,
    window: Window,
    own_tokens: Arc<OwnTokens>,
    standing: Arc<Standing>,
    lanes: F,
    /// The jobs that it cannot run, as the last reply shows them in its row.
    blocked: Vec<String>,
    left_alone: Vec<LeftAlone>,
    membership: Membership,
    observer: Observer,
    /// The copy of the database that answered last.
    lineage: Option<Lineage>,
    next_beat: Boot,
    /// When the last heartbeat was sent.
    sent: Boot,
    /// The instant of an early heartbeat, after somebody asked an execution to end or a node seems to have
    /// joined. It waits until the last reply's tasks are done, so that many of these cannot delay a death.
    hurry: Option<Boot>,
    /// Contested claims bring no other one before this.
    contested: Boot,
    hold: Boot,
    todo: VecDeque<(Op, Asked)>,
    /// Executions whose cancel this node has heard of; the next heartbeat tells the database so.
    heard: Vec<ExecutionId>,
    outbox: VecDeque<HeartbeatOutput>,
    withdrawn: bool,
    /// The others are to be told of something by the next heartbeat.
    tells: bool,
    drain: Drain,
    stopping: bool,
    left: bool,
}

impl<F: Fn() -> LaneReport + Send + 'static> HeartbeatMachine<F> {
    /// A node that has registered and whose first heartbeat was confirmed.
    pub(crate) fn new(
        node: NewNode,
        window: Window,
        own_tokens: Arc<OwnTokens>,
        standing: Arc<Standing>,
        lanes: F,
        now: Now,
    ) -> Self {
        standing.joined(node.id);
        Self {
            node,
            window,
            own_tokens,
            standing,
            lanes,
            blocked: Vec::new(),
            left_alone: Vec::new(),
            membership: Membership::Joined,
            observer: Observer::default(),
            lineage: None,
            next_beat: now.boot + window.beat,
            sent: now.boot,
            hurry: None,
            contested: Boot::MIN,
            hold: Boot::MIN,
            todo: VecDeque::new(),
            heard: Vec::new(),
            outbox: VecDeque::new(),
            withdrawn: false,
            tells: false,
            drain: Drain::No,
            stopping: false,
            left: false,
        }
    }

    fn hurry(&mut self, at: Boot) {
        self.hurry = Some(self.hurry.map_or(at, |other| other.min(at)));
    }

    /// What it has seen of the others is gone.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        self.observer = Observer::default();
    }

    fn call(&mut self, now: Now) -> Option<(Op, Asked)> {
        let has_last_words = self.stopping && self.tells && self.membership == Membership::Joined;
        if self.stopping && !has_last_words {
            return Some(Asked::leave(self.node.id, now.db, ()));
        }
        match self.membership {
            Membership::Joined => {}
            Membership::NotYet => {
                self.node.now = now.db;
                return Some(Asked::register(self.node.clone(), ()));
            }
            Membership::InDoubt => return Some(Asked::retract(self.node.id, now.db, ())),
        }
        let hurries = self.todo.is_empty() && self.hurry.is_some_and(|at| now.boot >= at);
        if now.boot < self.next_beat && !hurries && !has_last_words {
            return self.todo.pop_front();
        }
        self.hurry = None;
        // Beats keep their own rhythm; one that came late does not pull the next ones closer together.
        (self.next_beat, self.sent) = (now.boot + self.window.beat, now.boot);
        self.own_tokens.asking();
        let (LaneReport { lanes, blocked }, left_alone) = ((self.lanes)(), self.left_alone.clone());
        let tells = std::mem::take(&mut self.tells) || blocked != self.blocked;
        let (withdraw, drained) = (self.withdrawn, self.drain == Drain::Done);
        let beat = self.node.beat(now.db);
        let beat = Heartbeat { lanes, left_alone, withdraw, drained, tells, blocked, ..beat };
        Some(Asked::beat(beat, Sent { at: now, tells }))
    }

    fn replied(&mut self, reply: HeartbeatReply, sent: Now, now: Now) {
        match reply {
            HeartbeatReply::Alive { peers, owned } => {
                self.renew(sent, now);
                if let Some(own) = peers.iter().find(|peer| peer.id == self.node.id) {
                    self.blocked.clone_from(&own.blocked);
                }
                self.outbox.push_back(HeartbeatOutput::Members(members(&peers)));
                self.advance_drain(&owned, sent, now);
                // The reply is the whole truth: tasks of earlier ones that failed are in it again.
                self.todo.clear();
                self.declare_dead(peers, sent, now);
                self.hear_cancels(&owned);
                let orphans = self.own_tokens.orphans(owned).into_iter();
                let revocations = orphans.map(|it| recover(it, now.db, now.db).change());
                self.todo.extend(revocations.map(|change| Asked::revoke(change, ())));
            }
            HeartbeatReply::Ended => self.rebirth(),
            HeartbeatReply::DatabaseReplaced(path) => {
                self.outbox.push_back(HeartbeatOutput::Lease(Lease::NONE));
                self.outbox.push_back(HeartbeatOutput::DatabaseReplaced(path));
                self.left = true;
            }
        }
    }

    /// The lease counts from when the confirmed heartbeat was sent.
    fn renew(&mut self, sent: Now, now: Now) {
        let lease = Lease::new(sent, self.window.lease());
        self.standing.renew(&lease, now);
        self.outbox.push_back(HeartbeatOutput::Lease(lease));
    }

    /// A drain ends once a heartbeat sent after its begin finds nothing of this node's.
    fn advance_drain(&mut self, owned: &[Stranded], sent: Now, now: Now) {
        if let Drain::Begun(since) = self.drain
            && since < sent.boot
            && owned.is_empty()
            && self.own_tokens.is_empty()
        {
            self.drain = Drain::Done;
            self.next_beat = now.boot;
        }
    }

    /// Other nodes whose beats have stood still for long enough are to be declared dead.
    fn declare_dead(&mut self, peers: Vec<Peer>, sent: Now, now: Now) {
        let others: Vec<Peer> = peers.into_iter().filter(|peer| peer.id != self.node.id).collect();
        let dead = self.observer.observe(&others, sent.boot, now.boot, &self.window);
        let end = |peer: &Peer| NodeEnd { node: peer.id, beat: Some(peer.beat), now: now.db };
        self.todo.extend(dead.into_iter().map(|peer| Asked::declare_dead(end(&peer), peer)));
    }

    /// Tells handlers of cancels, and the database that this node has heard of them.
    fn hear_cancels(&mut self, owned: &[Stranded]) {
        let asked = owned.iter().filter(|it| it.is_cancelled).map(|it| (it.id, it.token));
        let new = self.standing.ask(asked.collect());
        let heard = owned.iter().filter(|it| new.contains(&it.id)).map(Stranded::named);
        let heard = heard.map(|attempt| HeartbeatOutput::Event(Event::CancelHeard { attempt }));
        self.outbox.extend(heard);
        self.heard.extend(new);
        if !self.heard.is_empty() {
            self.todo.push_front(Asked::saw_cancels(self.heard.clone(), ()));
        }
    }

    /// Tells of a promotion since the last heartbeat.
    fn follow(&mut self, lineage: Option<Lineage>) {
        let Some(is) = lineage else { return };
        if let Some(was) = self.lineage.replace(is).filter(|was| *was != is) {
            self.outbox.push_back(HeartbeatOutput::Event(Event::DatabasePromoted { was, is }));
        }
    }

    /// Others ended this incarnation: it holds nothing any more and joins again as another.
    fn rebirth(&mut self) {
        self.outbox.push_back(HeartbeatOutput::Lease(Lease::NONE));
        let old = self.node.id;
        self.node.id = old.next_incarnation();
        self.membership = Membership::NotYet;
        self.own_tokens.clear();
        self.heard.clear();
        self.blocked.clear();
        self.standing.end();
        self.drain = Drain::No;
        self.todo.clear();
        self.observer.failed();
        self.outbox.push_back(HeartbeatOutput::Event(Event::Fenced { old, new: self.node.id }));
    }

    fn failed(&mut self, asked: &Asked, error: Error, now: Now) {
        self.hold = now.boot + (self.window.beat / 5).min(1_000);
        if !matches!(asked, Asked::DeclareDead(_) | Asked::Revoke(()) | Asked::SawCancels(())) {
            self.next_beat = self.next_beat.min(self.hold);
        }
        match asked {
            Asked::Register(()) => self.membership = Membership::InDoubt,
            Asked::Beat(sent) => {
                self.observer.failed();
                self.tells |= sent.tells && !self.stopping;
            }
            Asked::Leave(()) => {
                self.left = true;
                self.outbox.push_back(HeartbeatOutput::Event(Event::LeaveFailed { error }));
                return;
            }
            Asked::Retract(()) | Asked::DeclareDead(_) | Asked::Revoke(()) | Asked::SawCancels(()) => {}
        }
        let operation = asked.name();
        self.outbox.push_back(HeartbeatOutput::Event(Event::StoreFailed { operation, error }));
    }
}

impl<F: Fn() -> LaneReport + Send + 'static> Machine for HeartbeatMachine<F> {
    type Op = Op;
    type Asked = Asked;
    type Input = HeartbeatInput;
    type Output = HeartbeatOutput;

    fn next(&mut self, now: Now) -> Step<(Op, Asked), HeartbeatOutput> {
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.left {
            return Step::Stop;
        }
        if now.boot < self.hold {
            return Step::Wait(self.hold);
        }
        match self.call(now) {
            Some(call) => Step::Do(call),
            None => Step::Wait(self.hurry.map_or(self.next_beat, |at| at.min(self.next_beat))),
        }
    }

    fn done(&mut self, now: Now, asked: Asked, answer: Result<Answer, Error>) {
        match join(asked, answer) {
            Ok(Answered::Register((), ())) => {
                self.membership = Membership::Joined;
                self.standing.joined(self.node.id);
                self.next_beat = now.boot;
                self.outbox.push_back(HeartbeatOutput::Reborn(self.node.id));
                self.outbox.push_back(HeartbeatOutput::Event(Event::Joined { node: self.node.id }));
            }
            Ok(Answered::Retract((), ())) => {
                self.node.id = self.node.id.next_incarnation();
                self.membership = Membership::NotYet;
            }
            Ok(Answered::Beat(sent, (reply, lineage))) => {
                self.follow(lineage);
                self.replied(reply, sent.at, now);
            }
            Ok(Answered::DeclareDead(peer, Applied::Done)) => {
                self.outbox.push_back(HeartbeatOutput::Event(Event::NodeDied { node: peer.id }));
            }
            Ok(Answered::DeclareDead(..) | Answered::Revoke(..)) => {}
            Ok(Answered::SawCancels((), ())) => self.heard.clear(),
            Ok(Answered::Leave((), ())) => {
                self.left = true;
                self.outbox.push_back(HeartbeatOutput::Left);
            }
            Err((asked, error)) => self.failed(&asked, error, now),
        }
    }

    fn receive(&mut self, now: Now, input: HeartbeatInput) {
        match input {
            HeartbeatInput::Beat => self.next_beat = self.next_beat.min(now.boot),
            HeartbeatInput::CancelAsked | HeartbeatInput::MemberTold | HeartbeatInput::LaneChanged => {
                self.hurry(now.boot.max(self.sent + NEWS_EVERY))
            }
            HeartbeatInput::Contested if now.boot >= self.contested => {
                self.contested = now.boot + OWN_NEWS_EVERY;
                self.hurry(now.boot);
            }
            HeartbeatInput::Contested => {}
            HeartbeatInput::HandedBack => {
                self.tells = true;
                let pause = if self.withdrawn { NEWS_EVERY } else { OWN_NEWS_EVERY };
                self.hurry(now.boot.max(self.sent + pause));
            }
            HeartbeatInput::LeftAlone(schedules) => self.left_alone = schedules,
            HeartbeatInput::Drain(drains) => {
                self.standing.note_drain(drains);
                match drains {
                    false => self.drain = Drain::No,
                    true if self.drain == Drain::No => self.drain = Drain::Begun(now.boot),
                    true => {}
                }
            }
            HeartbeatInput::Withdraw => {
                (self.withdrawn, self.tells) = (true, true);
                self.next_beat = self.next_beat.min(now.boot);
            }
            HeartbeatInput::Stop { leave } => {
                self.stopping = true;
                self.left = !leave;
            }
        }
    }
}

#[cfg(test)]
mod tests;

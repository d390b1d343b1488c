//! A machine between `next` and `done`: the simulator's thread.

use std::collections::VecDeque;

use super::faults::Faults;
use super::operations::{CALL, Rows};
use super::sabotage::Sabotage;
use super::wire::Wire;
use crate::domain::{Boot, Error, ErrorKind, Millis, ScheduleId};
use crate::machine::{Machine, Operation, Step};
use crate::testing::dice::Dice;
use crate::time::Now;

/// How long after it was asked a database may still perform a call that the watchdog has given up on.
const LATEST: Millis = 3_900;

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Performed after `0` ms, answered after another `1` ms.
    Answered(Millis, Millis),
    /// Certainly not performed.
    Unavailable,
    /// Performed after `0` ms, but the answer never comes.
    AnswerLost(Millis),
    /// Not performed, and nobody can tell.
    Lost,
    /// The watchdog gives up on it; the database performs it all the same, `0` ms after it was asked for.
    Overrun(Millis),
}

impl Fate {
    pub(super) fn thrown(dice: &mut Dice, faults: &Faults, away: Away) -> Self {
        let quick = (1 + dice.below(4), 1 + dice.below(3));
        if away != Away::No {
            dice.struck += 1;
            return match dice.below(3) {
                _ if away == Away::Down => Self::Unavailable,
                0 => Self::Unavailable,
                1 => Self::Lost,
                // A network gone silent: the call reaches the database, and nobody hears.
                _ => Self::Overrun(dice.below(LATEST)),
            };
        }
        if dice.strikes(faults.slow) {
            return Self::Answered(dice.below(1_500), dice.below(1_400));
        }
        if !dice.strikes(faults.calls) {
            return Self::Answered(quick.0, quick.1);
        }
        match dice.below(4) {
            0 => Self::Unavailable,
            1 => Self::Lost,
            2 => Self::AnswerLost(quick.0),
            _ => Self::Overrun(dice.below(LATEST)),
        }
    }
}

impl Fate {
    /// The fate of a call that costs the database `work` ms more: past its limit the watchdog gives up on it.
    fn after(self, work: Millis) -> Self {
        match self {
            Self::Answered(after, then) if after + work + then > CALL => Self::Overrun(after + work),
            Self::Answered(after, then) => Self::Answered(after + work, then),
            other => other,
        }
    }
}

/// Whether a node reaches the database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Away {
    No,
    /// Calls fail, and some are performed all the same.
    Silent,
    /// The server is down: each call is refused.
    Down,
}

/// What surrounds a machine for one step.
pub(super) struct Scene<'a> {
    /// True time: what the database does goes by it.
    pub time: Millis,
    /// What the process's clocks say.
    pub now: Now,
    pub wire: &'a Wire<'a>,
    pub dice: &'a mut Dice,
    pub faults: &'a Faults,
    /// Whether the database is away for this node.
    pub away: Away,
    /// The database refuses all writes.
    pub refuses: bool,
    pub pace: Pace,
}

/// What store calls cost the database beside the time that faults make them take.
#[derive(Clone, Copy, Default)]
pub(super) struct Pace {
    pub call: Millis,
    pub row: Millis,
}

enum Doing<M: Machine> {
    Waiting {
        until: Boot,
    },
    Sent {
        call: (M::Op, M::Asked),
        since: Millis,
        at: Millis,
        then: Millis,
        heard: bool,
        locked: Vec<ScheduleId>,
    },
    Answering {
        asked: M::Asked,
        answer: Result<Answer<M>, Error>,
        at: Millis,
    },
}

type Answer<M> = <<M as Machine>::Op as Operation>::Answer;

/// An operation the watchdog gave up on, or whose process has died, that will be performed yet.
struct Late<O> {
    op: O,
    at: Millis,
    locked: Vec<ScheduleId>,
}

pub(super) struct Actor<M: Machine> {
    pub machine: M,
    doing: Doing<M>,
    /// As in the driver, a machine receives nothing while an operation is under way.
    inbox: VecDeque<M::Input>,
    late: Vec<Late<M::Op>>,
    stopped: bool,
}

impl<M: Machine> Actor<M>
where
    M::Op: Clone + Rows,
{
    pub(super) fn new(machine: M) -> Self {
        Self {
            machine,
            doing: Doing::Waiting { until: Boot::MIN },
            inbox: VecDeque::new(),
            late: Vec::new(),
            stopped: false,
        }
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// The instant at which something happens here, if the boot clock is `lag` behind true time.
    pub(super) fn next_at(&self, lag: Millis) -> Millis {
        let own = match &self.doing {
            _ if self.stopped => Millis::MAX,
            Doing::Waiting { until } => until.saturating_add(lag).millis(),
            Doing::Sent { at, .. } | Doing::Answering { at, .. } => *at,
        };
        self.late_at().min(own)
    }

    /// The next instant at which the database performs something that was sent, whether or not its process
    /// lives.
    pub(super) fn sent_at(&self) -> Millis {
        match &self.doing {
            Doing::Sent { at, .. } => self.late_at().min(*at),
            _ => self.late_at(),
        }
    }

    /// The instant at which something given up on is performed.
    fn late_at(&self) -> Millis {
        self.late.iter().map(|late| late.at).min().unwrap_or(Millis::MAX)
    }

    pub(super) fn receive(&mut self, input: M::Input) {
        self.inbox.push_back(input);
        if let Doing::Waiting { until } = &mut self.doing {
            *until = Boot::MIN;
        }
    }

    /// Its process has died: what it had sent may reach the database yet.
    pub(super) fn die(&mut self, dice: &mut Dice) {
        self.stopped = true;
        let doing = std::mem::replace(&mut self.doing, Doing::Waiting { until: Boot::MAX });
        if let Doing::Sent { call: (op, _), at, locked, .. } = doing
            && (dice.one_in(2) || !locked.is_empty())
        {
            self.late.push(Late { op, at, locked });
        }
    }

    /// While its process is stopped the database goes on with what it was sent.
    pub(super) fn perform_sent(&mut self, time: Millis, wire: &Wire<'_>) {
        self.perform_late(time, wire);
        if matches!(&self.doing, Doing::Sent { at, .. } if *at <= time) {
            self.perform_asked(time, wire);
        }
    }

    fn perform_asked(&mut self, time: Millis, wire: &Wire<'_>) {
        let doing = std::mem::replace(&mut self.doing, Doing::Waiting { until: Boot::MAX });
        let Doing::Sent { call: (op, asked), since, then, heard, locked, .. } = doing else { return };
        wire.unlock(&locked);
        let answer = op.perform(&wire.under_way(time - since, then));
        let lost = || Err(Error::new(ErrorKind::Unknown, "the answer was lost"));
        let takes = answer.as_ref().map_or(0, M::Op::takes);
        let heard = heard && takes < CALL;
        let at = time + then + takes.min(CALL);
        self.doing = Doing::Answering { asked, answer: if heard { answer } else { lost() }, at };
    }

    /// Performs what was given up on, even if its process has died since.
    fn perform_late(&mut self, time: Millis, wire: &Wire<'_>) {
        if self.late_at() > time {
            return;
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|late| late.at <= time);
        self.late = later;
        for late in due {
            wire.unlock(&late.locked);
            drop(late.op.perform(wire));
        }
    }

    /// Everything this machine does at this instant; what it tells is appended to `told`.
    pub(super) fn run(&mut self, scene: &mut Scene<'_>, told: &mut Vec<M::Output>) {
        let (time, now) = (scene.time, scene.now);
        self.perform_late(time, scene.wire);
        while !self.stopped {
            match std::mem::replace(&mut self.doing, Doing::Waiting { until: Boot::MAX }) {
                sent @ Doing::Sent { at, .. } if at <= time => {
                    self.doing = sent;
                    self.perform_asked(time, scene.wire);
                }
                Doing::Answering { asked, answer, at } if at <= time => {
                    self.machine.done(now, asked, answer);
                    self.doing = Doing::Waiting { until: Boot::MIN };
                }
                Doing::Waiting { until } if until <= now.boot => self.step(scene, told),
                unchanged => {
                    self.doing = unchanged;
                    return;
                }
            }
        }
    }

    fn step(&mut self, scene: &mut Scene<'_>, told: &mut Vec<M::Output>) {
        self.inbox.drain(..).for_each(|input| self.machine.receive(scene.now, input));
        match self.machine.next(scene.now) {
            Step::Do(call) => {
                told.extend(std::iter::from_fn(|| self.machine.meanwhile()));
                self.doing = self.send(call, scene);
            }
            Step::Tell(output) => {
                told.push(output);
                self.doing = Doing::Waiting { until: Boot::MIN };
            }
            Step::Wait(until) => self.doing = Doing::Waiting { until: until.max(scene.now.boot + 1) },
            Step::Stop => self.stopped = true,
        }
    }

    /// Sends a call. A slow one either holds its rows locked until it is performed, or is slow on its way
    /// there.
    fn send(&mut self, (op, asked): (M::Op, M::Asked), scene: &mut Scene<'_>) -> Doing<M> {
        let time = scene.time;
        let failed = |asked, kind, after| Doing::Answering {
            asked,
            answer: Err(Error::new(kind, "as the dice fell")),
            at: time + after,
        };
        if scene.refuses && op.writes() {
            return failed(asked, ErrorKind::Refused, 2);
        }
        let timeless = scene.wire.is(Sabotage::DecodeAllAtOnce);
        if let Some(takes) = op.decoding(timeless) {
            if takes > CALL && !timeless {
                self.late.push(Late { op, at: time + takes, locked: Vec::new() });
                return failed(asked, ErrorKind::Unknown, CALL);
            }
            let locked = Vec::new();
            return Doing::Sent {
                call: (op, asked),
                since: time,
                at: time + takes,
                then: 0,
                heard: true,
                locked,
            };
        }
        let rows = Millis::try_from(op.written()).unwrap_or(Millis::MAX);
        let work = scene.pace.call + rows.saturating_mul(scene.pace.row);
        let fate = Fate::thrown(scene.dice, scene.faults, scene.away).after(work);
        let locked = match fate {
            Fate::Answered(after, _) | Fate::Overrun(after) if after > work + 10 && scene.dice.one_in(2) => {
                scene.wire.lock(&op.rows())
            }
            _ => Vec::new(),
        };
        match fate {
            Fate::Answered(after, then) => {
                Doing::Sent { call: (op, asked), since: time, at: time + after, then, heard: true, locked }
            }
            Fate::AnswerLost(after) => Doing::Sent {
                call: (op, asked),
                since: time,
                at: time + after,
                then: 5,
                heard: false,
                locked,
            },
            Fate::Unavailable => failed(asked, ErrorKind::Unavailable, 50),
            Fate::Lost => failed(asked, ErrorKind::Unknown, 50),
            Fate::Overrun(after) => {
                self.late.push(Late { op, at: time + after, locked });
                failed(asked, ErrorKind::Unknown, CALL)
            }
        }
    }
}

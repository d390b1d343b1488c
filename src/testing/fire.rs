//! What goes wrong in a cluster under faults, by a seed, and what is told of it.

use std::ops::Range;

use super::dice::Dice;
use super::effects::Effects;
use crate::domain::{Boot, Error, ErrorKind, ExecutionId, Millis, Timestamp};
use crate::store::Store;

const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;

/// The sure death of each seed comes at the end of one of so many handlers, the first ones.
const SPARED: Millis = 8;

/// What a machine is surrounded by.
pub(super) struct World<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) fire: &'a mut Fire,
}

/// What becomes of a store call.
pub(super) enum CallFate {
    Answered,
    /// Not performed.
    Failed(Error),
    /// Performed, and nobody hears of it.
    Unheard(Error),
}

/// What becomes of a node, now that a handler has begun, has done something or has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFate {
    GoesOn,
    Dies,
    /// It stands still for so long, as if stopped by a signal.
    Freezes(Millis),
}

/// What goes wrong by itself.
pub(super) enum Strike {
    Node(usize, NodeFate),
    ShutDown(usize),
    /// The database's clock is wrong by so much from now on.
    Clock(Millis),
    Nothing,
}

/// One thing that happened, for people.
pub(super) struct Line {
    pub(super) at: Timestamp,
    /// None for the database.
    pub(super) node: Option<usize>,
    pub(super) execution: Option<ExecutionId>,
    pub(super) text: String,
}

/// The faults of a test, and its history.
#[derive(Default)]
pub(super) struct Fire {
    burning: Option<Burning>,
    /// After so many handlers more a node surely dies at the end of one.
    spares: Option<Millis>,
    /// When the database is away, whatever the dice say.
    away: Vec<Range<Timestamp>>,
    /// Kept if there are faults.
    history: Option<Vec<Line>>,
    pub(super) effects: Effects,
}

struct Burning {
    dice: Dice,
    strikes_at: Boot,
    is_away_until: Boot,
}

impl Fire {
    pub(super) fn of_seed(seed: u64, at: Timestamp) -> Self {
        let mut dice = Dice::new(seed, 0);
        let strikes_at = Boot::at(at.millis()) + dice.below(MINUTE);
        let spares = dice.below(SPARED);
        let burning = Burning { dice, strikes_at, is_away_until: Boot::MIN };
        Self { burning: Some(burning), spares: Some(spares), history: Some(Vec::new()), ..Self::default() }
    }

    /// The database is away in these spans.
    pub(super) fn put_away(&mut self, spans: Vec<Range<Timestamp>>) {
        self.away = spans;
    }

    /// From now on nothing goes wrong by the dice.
    pub(super) fn end(&mut self) {
        self.burning = None;
    }

    /// Cancels the death at the end of a handler, if it is still to come.
    pub(super) fn spare(&mut self) {
        self.spares = None;
    }

    /// When something goes wrong next by itself.
    pub(super) fn next_at(&self) -> Boot {
        self.burning.as_ref().map_or(Boot::MAX, |it| it.strikes_at)
    }

    pub(super) fn history(&self) -> &[Line] {
        self.history.as_deref().unwrap_or_default()
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> Line) {
        if let Some(history) = &mut self.history {
            history.push(line());
        }
    }

    pub(super) fn fate_of_call(&mut self, at: Boot) -> CallFate {
        if self.away.iter().any(|span| span.contains(&Timestamp::at(at.millis()))) {
            return CallFate::Failed(away());
        }
        let Some(Burning { dice, is_away_until, .. }) = &mut self.burning else { return CallFate::Answered };
        let is_away = at < *is_away_until;
        if !is_away && !dice.one_in(100) {
            return CallFate::Answered;
        }
        let unknown =
            || Error::new(ErrorKind::Unknown, "the database's answer was lost: a fault of the test");
        match dice.below(3) {
            0 => CallFate::Failed(away()),
            1 => CallFate::Failed(unknown()),
            _ => CallFate::Unheard(unknown()),
        }
    }

    /// What becomes of a node between two steps of a handler.
    pub(super) fn fate_of_node(&mut self) -> NodeFate {
        let Some(Burning { dice, .. }) = &mut self.burning else { return NodeFate::GoesOn };
        match dice.below(50) {
            0 => NodeFate::Dies,
            1 => standstill(dice),
            _ => NodeFate::GoesOn,
        }
    }

    /// What becomes of a node whose handler has returned, before the outcome is stored.
    pub(super) fn fate_at_end(&mut self) -> NodeFate {
        let fate = if self.spares == Some(0) { NodeFate::Dies } else { self.fate_of_node() };
        let has_died = matches!(fate, NodeFate::Dies);
        self.spares = self.spares.filter(|_| !has_died).map(|more| more - 1);
        fate
    }

    /// Lets something go wrong among so many nodes, if it is time.
    pub(super) fn strike(&mut self, at: Timestamp, nodes: usize) -> Strike {
        let boot = Boot::at(at.millis());
        let Some(burning) = self.burning.as_mut().filter(|it| it.strikes_at <= boot) else {
            return Strike::Nothing;
        };
        let dice = &mut burning.dice;
        burning.strikes_at = boot + 30 * SECOND + dice.below(10 * MINUTE);
        let victim = Millis::try_from(nodes).ok().filter(|nodes| *nodes > 0).map(|nodes| dice.below(nodes));
        let victim = victim.and_then(|it| usize::try_from(it).ok());
        match (dice.below(10), victim) {
            (0..=2, Some(node)) => Strike::Node(node, NodeFate::Dies),
            (3..=4, Some(node)) => Strike::Node(node, standstill(dice)),
            (5..=6, Some(node)) => Strike::ShutDown(node),
            (7, _) => Strike::Clock(dice.below(20 * SECOND) - 10 * SECOND),
            _ => {
                let span = 5 * SECOND + dice.below(3 * MINUTE);
                burning.is_away_until = boot + span;
                let text = format!("cannot be reached for {} s", span / SECOND);
                self.tell(|| Line { at, node: None, execution: None, text });
                Strike::Nothing
            }
        }
    }

    /// After so long another node comes in the place of one that is gone; none without faults.
    pub(super) fn absence(&mut self) -> Option<Millis> {
        self.history.as_ref()?;
        Some(self.burning.as_mut().map_or(0, |it| 5 * SECOND + it.dice.below(10 * MINUTE)))
    }
}

/// Shorter, or longer, than others need to find it dead.
fn standstill(dice: &mut Dice) -> NodeFate {
    NodeFate::Freezes(MINUTE + dice.below(14 * MINUTE))
}

fn away() -> Error {
    Error::new(ErrorKind::Unavailable, "the database cannot be reached: a fault of the test")
}

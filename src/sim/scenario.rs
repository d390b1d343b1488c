//! A scenario: everything in one simulation follows from it, and it fits on a line.

use std::fmt;
use std::str::FromStr;

use super::faults::Faults;
use crate::domain::Millis;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scenario {
    pub seed: u64,
    pub nodes: usize,
    pub schedules: usize,
    /// How long schedules fire and faults happen; then the cluster settles.
    pub span: Millis,
    pub faults: Faults,
}

impl Scenario {
    /// A cluster under fire; its size and the kind of its misery depend on the seed.
    pub(super) fn under_fire(seed: u64) -> Self {
        match seed % 10 {
            3 => Self::of(Faults::STARVED, seed),
            5 => Self::of(Faults { clocks: 0, ..Faults::MANY }, seed),
            7 => Self::of(Faults::STORM, seed),
            9 => Self::of(Faults::FORGETFUL, seed),
            _ => Self::of(Faults::MANY, seed),
        }
    }

    /// The same on several members that fall behind.
    pub(super) fn on_members(seed: u64) -> Self {
        let lags = |faults| Faults { lags: 200_000, moves: 100_000, ..faults };
        let faults = match seed % 12 {
            0 => Faults::AGED,
            2 => Faults::PAUSED,
            3 => lags(Faults::STARVED),
            4 => lags(Faults::STORM),
            5 => lags(Faults::FORGETFUL),
            6 => Faults::ASKING,
            7 => Faults::CANCELLED,
            8 => Faults::RETRIED,
            9 => Faults::DRAINING,
            10 => Faults::BEHIND,
            _ => Faults::LAGGING,
        };
        Self::of(faults, seed)
    }

    pub(super) fn of(faults: Faults, seed: u64) -> Self {
        let nodes = 3 + usize::try_from(seed % 3).unwrap();
        Self { seed, nodes, schedules: 20, span: 900_000, faults }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, nodes, schedules, span, .. } = self;
        write!(f, "seed={seed} nodes={nodes} schedules={schedules} span={span}")?;
        self.faults.clone().each().into_iter().try_for_each(|(name, rate)| write!(f, " {name}={rate}"))
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut scenario = Self { seed: 0, nodes: 3, schedules: 20, span: 900_000, faults: Faults::NONE };
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} has no ="))?;
            let number: u64 = value.parse().map_err(|error| format!("{word}: {error}"))?;
            let millis = Millis::try_from(number).map_err(|error| format!("{word}: {error}"));
            let count = usize::try_from(number).map_err(|error| format!("{word}: {error}"));
            match name {
                "seed" => scenario.seed = number,
                "nodes" => scenario.nodes = count?,
                "schedules" => scenario.schedules = count?,
                "span" => scenario.span = millis?,
                _ => match scenario.faults.each().into_iter().find(|(fault, _)| *fault == name) {
                    Some((_, rate)) => *rate = millis?,
                    None => return Err(format!("{name} is not known")),
                },
            }
        }
        Ok(scenario)
    }
}

//! Chance that replays: a seed must come to the same on every machine and with every version.

use crate::domain::Millis;

/// A small generator (SplitMix64). Each use has a stream of its own, so that leaving one kind of fault out
/// does not change the others.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
    /// How often [`Dice::strikes`] said yes.
    #[cfg(test)]
    pub(crate) struck: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let state = seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        let mut dice = Self {
            state,
            #[cfg(test)]
            struck: 0,
        };
        dice.state = dice.roll();
        dice
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// At least 0 and below `bound`.
    pub(crate) fn below(&mut self, bound: Millis) -> Millis {
        i64::try_from(self.roll() % bound.unsigned_abs()).unwrap_or(0)
    }

    pub(crate) fn one_in(&mut self, n: Millis) -> bool {
        self.below(n) == 0
    }

    #[cfg(test)]
    pub(crate) fn happens(&mut self, per_million: Millis) -> bool {
        self.below(1_000_000) < per_million
    }

    /// Whether a fault happens; counted.
    #[cfg(test)]
    pub(crate) fn strikes(&mut self, per_million: Millis) -> bool {
        let strikes = self.happens(per_million);
        self.struck += u64::from(strikes);
        strikes
    }
}

//! Chance with a seed (SplitMix64).

pub struct Dice {
    pub seed: u64,
    state: u64,
}

/// Names the seed to use.
const SEED: &str = "FIRETIME_CHAOS_SEED";

impl Dice {
    /// By the seed asked for, or by the clock.
    pub fn fresh() -> Self {
        let asked = std::env::var(SEED).ok().map(|it| it.parse().unwrap());
        let seed = asked.unwrap_or_else(|| super::cluster::now().unsigned_abs());
        Self { seed, state: seed }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}

//! Instants. Those of the boot clock have a type of their own, so that they cannot be mixed with others.

use std::ops::{Add, Sub};

/// Epoch milliseconds UTC, in database time; and any span.
pub(crate) type Millis = i64;

/// An instant of the boot clock: milliseconds since the machine booted, suspend included. Two of them are a
/// span apart; [`Now`](crate::time::Now) converts between it and database time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Boot(Millis);

impl Boot {
    /// Before every reading of the clock.
    pub(crate) const MIN: Self = Self(Millis::MIN);
    /// After every reading of the clock.
    pub(crate) const MAX: Self = Self(Millis::MAX);

    pub(crate) const fn at(millis: Millis) -> Self {
        Self(millis)
    }

    pub(crate) const fn millis(self) -> Millis {
        self.0
    }

    pub(crate) const fn saturating_add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span))
    }

    pub(crate) const fn saturating_sub(self, span: Millis) -> Self {
        Self(self.0.saturating_sub(span))
    }

    /// The span from `earlier` to this instant, saturating.
    pub(crate) const fn saturating_since(self, earlier: Self) -> Millis {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Millis> for Boot {
    type Output = Self;

    fn add(self, span: Millis) -> Self {
        Self(self.0 + span)
    }
}

impl Sub<Millis> for Boot {
    type Output = Self;

    fn sub(self, span: Millis) -> Self {
        Self(self.0 - span)
    }
}

impl Sub for Boot {
    type Output = Millis;

    fn sub(self, earlier: Self) -> Millis {
        self.0 - earlier.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_lie_between_instants_and_end_where_the_numbers_do() {
        let at = Boot::at(1_000);
        let later = at + 20;
        assert_eq!((later, later - 20, later - at, at - later), (Boot::at(1_020), at, 20, -20));
        assert_eq!((at.saturating_add(5), at.saturating_sub(5)), (Boot::at(1_005), Boot::at(995)));
        assert_eq!((later.saturating_since(at), later.millis()), (20, 1_020));
        assert_eq!((Boot::MAX.saturating_add(1), Boot::MIN.saturating_sub(1)), (Boot::MAX, Boot::MIN));
        assert_eq!(at.saturating_since(Boot::MIN), Millis::MAX);
    }
}

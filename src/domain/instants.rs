//! Instants of the two clocks, each of a type of its own, and the spans between instants of one clock.

use chrono::{DateTime, Utc};
use std::fmt;
use std::ops::{Add, Sub};

/// A span in milliseconds.
pub(crate) type Millis = i64;

/// An instant of database time: epoch milliseconds UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Timestamp(Millis);

/// An instant of the boot clock: milliseconds since the machine booted, suspend included.
/// [`Now`](crate::time::Now) converts between it and database time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Boot(Millis);

macro_rules! instant {
    ($instant:ident) => {
        impl $instant {
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

        impl Add<Millis> for $instant {
            type Output = Self;

            fn add(self, span: Millis) -> Self {
                Self(self.0 + span)
            }
        }

        #[cfg(test)]
        impl std::ops::AddAssign<Millis> for $instant {
            fn add_assign(&mut self, span: Millis) {
                *self = *self + span;
            }
        }

        impl Sub<Millis> for $instant {
            type Output = Self;

            fn sub(self, span: Millis) -> Self {
                Self(self.0 - span)
            }
        }

        impl Sub for $instant {
            type Output = Millis;

            fn sub(self, earlier: Self) -> Millis {
                self.0 - earlier.0
            }
        }
    };
}

instant!(Timestamp);
instant!(Boot);

impl Timestamp {
    /// Epoch millisecond 0: no row holds an earlier instant, only -1 for none.
    pub(crate) const EPOCH: Self = Self(0);

    /// The instant as public items have it, if that calendar reaches so far.
    pub(crate) fn utc(self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_millis(self.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self(at.timestamp_millis())
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

    #[test]
    fn an_instant_beyond_the_calendar_has_no_date() {
        let at = Timestamp::at(100_000_000_000);
        assert_eq!(at.utc().map(Timestamp::from), Some(at));
        assert_eq!((at.to_string().as_str(), Timestamp::MAX.utc()), ("100000000000", None));
    }
}

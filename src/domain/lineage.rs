//! The lineage of a database: which copy of it answers.

use std::fmt;

/// A PostgreSQL server among the copies of one database: its cluster's system identifier, and its timeline,
/// which grows with each promotion of a standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lineage {
    /// The same for a primary and all its standbys; another after a dump was restored elsewhere.
    pub system: i64,
    /// 1 for a server that was never promoted.
    pub timeline: i64,
}

/// Fences of one timeline begin so far above those of the one before: a schedule has fewer claims on each.
#[cfg(any(feature = "sql", feature = "testing", test))]
const FENCES_OF_A_TIMELINE: i64 = 1_000_000_000_000;

#[cfg(any(feature = "sql", feature = "testing", test))]
impl Lineage {
    pub(crate) fn new(system: i64, timeline: i64) -> Self {
        Self { system, timeline }
    }

    /// The lowest fence of a claim on this timeline. A promotion may lose claims that the former primary had
    /// made; theirs are all lower.
    pub(crate) fn fence_from(self) -> i64 {
        (self.timeline - 1).max(0).saturating_mul(FENCES_OF_A_TIMELINE)
    }

    /// Whether another copy was promoted before this one's server: it has been replaced.
    #[cfg(any(feature = "sql", test))]
    pub(crate) fn is_behind(self, seen: Self) -> bool {
        self.system == seen.system && self.timeline < seen.timeline
    }
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // PostgreSQL shows it without a sign.
        write!(f, "timeline {} of system {}", self.timeline, self.system.cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timeline_has_higher_fences() {
        assert_eq!(Lineage::new(7, 1).fence_from(), 0);
        assert!(Lineage::new(7, 3).fence_from() > Lineage::new(7, 2).fence_from());
        assert_eq!(Lineage::new(7, i64::MAX).fence_from(), i64::MAX);
    }

    #[test]
    fn only_an_older_timeline_of_the_same_system_is_behind() {
        let seen = Lineage::new(7, 3);
        assert!(Lineage::new(7, 2).is_behind(seen));
        assert!(!seen.is_behind(seen) && !Lineage::new(7, 4).is_behind(seen));
        assert!(!Lineage::new(8, 1).is_behind(seen));
    }

    #[test]
    fn a_system_is_shown_as_postgresql_shows_it() {
        assert_eq!(Lineage::new(-1, 2).to_string(), "timeline 2 of system 18446744073709551615");
    }
}

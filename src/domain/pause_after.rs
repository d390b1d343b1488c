//! The rule for a schedule whose occurrences fail or kill their nodes one after the other.

use std::num::NonZeroU32;

/// When a schedule pauses itself, after planned occurrences in a row that failed for good or killed their
/// nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PauseAfter {
    /// After two that killed their nodes; a failure between them ends the streak.
    #[default]
    Deaths,
    /// After so many of both kinds, and after two that killed their nodes.
    Streak(NonZeroU32),
    Never,
}

impl PauseAfter {
    /// The rule that a schedule's column says.
    pub(crate) fn of(column: Option<u32>) -> Self {
        column.map_or(Self::Deaths, |count| NonZeroU32::new(count).map_or(Self::Never, Self::Streak))
    }

    pub(crate) fn column(self) -> Option<u32> {
        match self {
            Self::Deaths => None,
            Self::Streak(count) => Some(count.get()),
            Self::Never => Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_column() {
        for column in [None, Some(0), Some(1), Some(1_000)] {
            assert_eq!(PauseAfter::of(column).column(), column);
        }
        assert_eq!((PauseAfter::of(None), PauseAfter::of(Some(0))), (PauseAfter::Deaths, PauseAfter::Never));
    }
}

//! How long before its due instant a claim is sent, by how long claims have taken. Pure.

use crate::domain::Millis;
use crate::time::{CLAIM_AHEAD, LEAST_LEAD};

/// The time that a claim takes beside the database's answer: waking up, and handing over.
const SLACK: Millis = 5;

/// The lead of claims. A claim is sent once an occurrence is due within the lead, and takes along all that
/// are due within [`CLAIM_AHEAD`], which then need no claim of their own.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The longest that a claim took of late: a long one counts at once and is forgotten by and by.
    longest: Millis,
}

impl Ahead {
    /// A claim was answered, or failed, after so long.
    pub(super) fn took(&mut self, took: Millis) {
        self.longest = took.max(7 * self.longest / 8);
    }

    pub(super) fn lead(&self) -> Millis {
        self.longest.saturating_add(SLACK).clamp(LEAST_LEAD, CLAIM_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(claims: &[Millis]) -> Millis {
        let mut ahead = Ahead::default();
        claims.iter().for_each(|took| ahead.took(*took));
        ahead.lead()
    }

    #[test]
    fn the_lead_follows_what_claims_take_within_its_bounds() {
        assert_eq!(after(&[]), LEAST_LEAD);
        assert_eq!(after(&[1, 2, 1]), LEAST_LEAD);
        assert_eq!(after(&[30]), 30 + SLACK);
        assert_eq!(after(&[3_000]), CLAIM_AHEAD);
    }

    #[test]
    fn one_slow_claim_counts_at_once_and_is_forgotten_by_and_by() {
        assert!((31 + SLACK..40 + SLACK).contains(&after(&[40, 1])));
        assert_eq!(after(&[&[40][..], &[1; 20]].concat()), LEAST_LEAD);
    }
}

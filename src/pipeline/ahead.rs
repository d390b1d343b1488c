//! How long before its due instant a claim is sent, by how long claims have taken. Pure.

use crate::domain::Millis;
use crate::time::{CLAIM_AHEAD, LEAST_LEAD};

/// What a claim takes beside the database's answer: waking up, and handing over.
const SLACK: Millis = 5;

/// A claim takes in all that comes due within [`CLAIM_AHEAD`], but it is not sent before the first of it is
/// due within the lead: so the next ones need none of their own.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    asked: Option<Millis>,
    /// The longest that a claim took of late: a long one counts at once and is forgotten by and by.
    took: Millis,
}

impl Ahead {
    /// A claim is sent at this boot-clock instant.
    pub(crate) fn asked(&mut self, boot: Millis) {
        self.asked = Some(boot);
    }

    /// Whatever was asked for is answered, or has failed.
    pub(crate) fn answered(&mut self, boot: Millis) {
        if let Some(asked) = self.asked.take() {
            self.took = (boot - asked).max(7 * self.took / 8);
        }
    }

    pub(crate) fn lead(&self) -> Millis {
        self.took.saturating_add(SLACK).clamp(LEAST_LEAD, CLAIM_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(claims: &[Millis]) -> Millis {
        let mut ahead = Ahead::default();
        for took in claims {
            ahead.asked(1_000);
            ahead.answered(1_000 + took);
        }
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

    #[test]
    fn what_was_not_a_claim_does_not_count() {
        let mut ahead = Ahead::default();
        ahead.answered(1_000);
        assert_eq!(ahead.lead(), LEAST_LEAD);
    }
}

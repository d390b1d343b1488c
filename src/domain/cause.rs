//! Why an attempt is made.

use super::Reason;

/// Why an execution is run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Its fire time has come.
    Planned,
    /// Its fire time was missed, and the schedule's misfire policy runs it.
    Misfire,
    /// Somebody asked for it: [`Client::trigger`](crate::Client::trigger).
    ByHand {
        /// Who.
        actor: String,
        /// Why, as far as it was said.
        reason: String,
    },
    /// The attempt before it failed.
    Retry,
    /// The node of the attempt before it died.
    Recovery,
}

impl Cause {
    /// Of a PENDING execution: by what its row gives as the reason, and by who asked for it. One that was
    /// handed back has lost its reason: a further attempt counts as a retry then.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has such rows"))]
    pub(crate) fn of_pending(reason: &str, attempt: u32, order: Option<(String, String)>) -> Self {
        match order {
            _ if reason == Reason::Recovery.as_str() && attempt > 1 => Self::Recovery,
            _ if attempt > 1 => Self::Retry,
            Some((actor, reason)) => Self::ByHand { actor, reason },
            None if reason == Reason::Misfire.as_str() => Self::Misfire,
            None => Self::Planned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_an_attempt_is_the_latest() {
        let ann = || Some(("ann".to_owned(), "why".to_owned()));
        let by_hand = Cause::ByHand { actor: "ann".to_owned(), reason: "why".to_owned() };
        for (reason, attempt, order, cause) in [
            ("", 1, None, Cause::Planned),
            ("given back", 1, None, Cause::Planned),
            ("recovery", 1, None, Cause::Planned),
            ("misfire", 1, None, Cause::Misfire),
            ("by hand", 1, ann(), by_hand.clone()),
            ("given back", 1, ann(), by_hand),
            ("retry", 2, ann(), Cause::Retry),
            ("recovery", 2, ann(), Cause::Recovery),
            ("given back", 3, None, Cause::Retry),
        ] {
            assert_eq!(Cause::of_pending(reason, attempt, order), cause, "{reason} {attempt}");
        }
    }
}

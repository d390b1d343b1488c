//! The cause of an attempt.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::Reason;

/// Why an execution is run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Its fire time has come.
    Planned,
    /// Its fire time was missed, and the schedule's misfire policy runs it;
    /// [`Context::covers`](crate::Context::covers) says what it stands for.
    Misfire,
    /// Somebody asked for it: [`Client::trigger`](crate::Client::trigger).
    ByHand {
        /// Who.
        actor: String,
        /// Why, as far as it was said.
        reason: String,
    },
    /// Somebody had the occurrence of this fire time run again, or made up for:
    /// [`Client::rerun`](crate::Client::rerun), [`Client::backfill`](crate::Client::backfill).
    Rerun {
        /// Who.
        actor: String,
        /// Why, as far as it was said.
        reason: String,
    },
    /// It was enqueued: [`Client::enqueue`](crate::Client::enqueue).
    Enqueued,
    /// The attempt before it failed.
    Retry,
    /// The node of the attempt before it died.
    Recovery,
    /// A word that this release does not know: a newer one has written it.
    Other {
        /// The word.
        word: String,
    },
}

impl Cause {
    /// Its word: `planned`, `misfire`, `by hand`, `rerun`, `enqueued`, `retry` or `recovery`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Planned => "planned",
            Self::Misfire => Reason::Misfire.as_str(),
            Self::ByHand { .. } => Reason::ByHand.as_str(),
            Self::Rerun { .. } => Reason::Rerun.as_str(),
            Self::Enqueued => Reason::Enqueued.as_str(),
            Self::Retry => Reason::Retry.as_str(),
            Self::Recovery => Reason::Recovery.as_str(),
            Self::Other { word } => word,
        }
    }

    /// Who asked for it, and why as far as they said; none if nobody did, by hand or for a rerun.
    #[must_use]
    pub fn asked(&self) -> Option<(&str, &str)> {
        match self {
            Self::ByHand { actor, reason } | Self::Rerun { actor, reason } => Some((actor, reason)),
            _ => None,
        }
    }

    /// Whether somebody asked for it beside what was planned, and it is no attempt that follows another.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.asked().is_some()
    }

    /// What a row says: its word, none for a planned execution, and who asked for it. Retention may have
    /// removed who that was.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has such rows"))]
    pub(crate) fn read(word: Option<&str>, order: Option<(String, String)>) -> Self {
        let is = |reason: Reason| word == Some(reason.as_str());
        match order {
            _ if is(Reason::Misfire) => Self::Misfire,
            _ if is(Reason::Retry) => Self::Retry,
            _ if is(Reason::Recovery) => Self::Recovery,
            _ if is(Reason::Enqueued) => Self::Enqueued,
            order if is(Reason::ByHand) => {
                let (actor, reason) = order.unwrap_or_default();
                Self::ByHand { actor, reason }
            }
            order if is(Reason::Rerun) => {
                let (actor, reason) = order.unwrap_or_default();
                Self::Rerun { actor, reason }
            }
            _ => word
                .filter(|word| *word != Self::Planned.as_str())
                .map_or(Self::Planned, |word| Self::Other { word: word.to_owned() }),
        }
    }
}

/// Its word, and who asked for it: `{"cause": "by hand", "asked_by": "ann", "asked_why": "stocktaking"}`.
impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (actor, reason) = self.asked().unwrap_or_default();
        let mut fields = serializer.serialize_struct("Cause", 3)?;
        fields.serialize_field("cause", self.as_str())?;
        fields.serialize_field("asked_by", actor)?;
        fields.serialize_field("asked_why", reason)?;
        fields.end()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_reads_back_from_its_word() {
        let ann = ("ann".to_owned(), "why".to_owned());
        let by_hand = Cause::ByHand { actor: "ann".to_owned(), reason: "why".to_owned() };
        let rerun = Cause::Rerun { actor: "ann".to_owned(), reason: "why".to_owned() };
        let others = [Cause::Planned, Cause::Misfire, Cause::Enqueued, Cause::Retry, Cause::Recovery];
        for cause in others.into_iter().chain([by_hand, rerun]) {
            assert_eq!(Cause::read(Some(cause.as_str()), Some(ann.clone())), cause);
        }
        assert_eq!(Cause::read(None, None), Cause::Planned);
        assert_eq!(Cause::read(Some("by tide"), None).as_str(), "by tide");
        let nobody = Cause::ByHand { actor: String::new(), reason: String::new() };
        assert_eq!(Cause::read(Some("by hand"), None), nobody);
    }
}

//! What the parts of an answer are made of.

use super::because::Because;
use super::fate::Fate;

/// What became of it, why, and the sentence without its subject.
pub(super) type Told = (Fate, Because, String);

pub(super) fn told(fate: Fate, because: Because, predicate: impl Into<String>) -> Told {
    (fate, because, predicate.into())
}

//! The changes of a past that is played again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::domain::Timestamp;
use crate::trigger::Trigger;

/// The changes of a replay; none by default.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) triggers: BTreeMap<String, Trigger>,
    pub(super) time_limits: BTreeMap<String, Duration>,
    pub(super) nodes: Option<usize>,
    pub(super) outages: Vec<Range<Timestamp>>,
}

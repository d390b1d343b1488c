//! The keys of the plan's items.

use crate::domain::{ExecutionId, ScheduleId};

/// The schedule or the execution that an item of the plan is to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ItemKey {
    Schedule(ScheduleId),
    Execution(ExecutionId),
}

/// The part of an item's key beside its id, which the wheel holds already.
#[derive(Clone, Copy, Debug)]
pub(super) enum ItemKind {
    Schedule,
    Execution,
}

impl ItemKind {
    pub(super) fn of(key: ItemKey) -> Self {
        match key {
            ItemKey::Schedule(_) => Self::Schedule,
            ItemKey::Execution(_) => Self::Execution,
        }
    }

    pub(super) fn key(self, id: i64) -> ItemKey {
        match self {
            Self::Schedule => ItemKey::Schedule(ScheduleId(id)),
            Self::Execution => ItemKey::Execution(ExecutionId(id)),
        }
    }
}

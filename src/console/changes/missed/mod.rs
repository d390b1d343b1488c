//! Reruns of a schedule's missing occurrences.

mod order;
pub(crate) mod page;

pub(crate) use self::order::MissedOrder;
pub(crate) use self::page::attempts;

//! Reruns of what is missing of a schedule.

mod order;
pub(crate) mod page;

pub(crate) use self::order::MissedOrder;
pub(crate) use self::page::attempts;

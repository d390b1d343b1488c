//! Changes of all that a filter means.

mod executions;
mod meant;
mod order;
pub(crate) mod page;
mod schedules;
mod tasks;
mod verb;

pub(crate) use self::executions::states;
pub(crate) use self::meant::meant;
pub(crate) use self::order::{BulkOrder, Item, Meant};
pub(crate) use self::tasks::{End, Tasks, What};
pub(crate) use self::verb::BulkVerb;

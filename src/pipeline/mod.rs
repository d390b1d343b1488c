//! The flow, one way: poll -> expand -> wheel -> permit -> claim -> start -> pool -> complete.

pub(crate) mod complete;
pub(crate) mod dispatch;
pub(crate) mod expand;
pub(crate) mod lanes;
pub(crate) mod plan;
pub(crate) mod poll;
pub(crate) mod pool;
pub(crate) mod start;
pub(crate) mod wheel;

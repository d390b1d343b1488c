//! The flow, one way: poll -> expand -> wheel -> permit -> claim -> pool -> complete.

pub(crate) mod poll;
pub(crate) mod expand;
pub(crate) mod plan;
pub(crate) mod wheel;
pub(crate) mod dispatch;
pub(crate) mod pool;
pub(crate) mod complete;

#[cfg(test)]
pub(crate) mod fixtures;

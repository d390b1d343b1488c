//! Pages that keep themselves up to date.

pub(crate) mod asker;
mod parts;
pub(crate) mod stream;
pub(crate) mod streams;
mod watch;

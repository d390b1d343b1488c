//! The only reader of time, and every span of the protocol.

mod clock;
mod window;

pub(crate) use clock::*;
pub(crate) use window::*;

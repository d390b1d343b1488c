//! firetime: several app servers run one schedule as if there were one.

mod clock;
mod driver;
mod error;
mod event;
mod job;
mod machine;
mod misfire;
mod model;
mod node;
mod pipeline;
pub mod schedule;
#[cfg(test)]
mod sim;
mod store;
mod window;

pub use error::{Error, Kind};
pub use schedule::Trigger;

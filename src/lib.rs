//! firetime: several app servers run one schedule as if there were one.

mod clock;
mod error;
mod machine;
mod model;
pub mod schedule;
mod store;
mod window;

#[cfg(feature = "sql")]
pub use store::{CallerConnection, MigrationReport};

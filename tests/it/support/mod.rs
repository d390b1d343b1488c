//! What the tests stand on.

pub mod database;
pub mod node;
pub mod poison_jobs;
pub mod scheduler;

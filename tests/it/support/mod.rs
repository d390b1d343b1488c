//! What the tests stand on.

pub mod database;
pub mod node;

//! The integration tests: one binary, run on every database.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

fn main() {}

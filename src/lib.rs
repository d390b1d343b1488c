//! firetime: several app servers run one schedule as if there were one.

pub mod schedule;

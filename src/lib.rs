//! firetime: several app servers run one schedule as if there were one.

#[doc(hidden)] // Public for the benches only.
pub mod pipeline;

//! The stages an occurrence passes through, in flow order.

pub mod wheel;

pub mod pool;

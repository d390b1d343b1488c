//! The `firetime` program.

fn main() {}

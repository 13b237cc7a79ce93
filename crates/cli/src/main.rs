//! The program `longshore`.
fn main() {}

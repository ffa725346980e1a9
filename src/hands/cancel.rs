//! Calling an operation off while it runs: the same wish that ends a launch.

pub use crate::run::Cancel;

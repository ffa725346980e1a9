//! The mechanism under `sbx`: paths, mounts, system calls and processes.
//!
//! This crate holds all of the project's `unsafe` code and knows nothing of policy.
//! It is handed plain values and does exactly what they say.

pub mod path;

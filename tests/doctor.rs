//! `sbx doctor`: simulated hosts as snapshots, and the real one attacked.

#![expect(unreachable_pub, dead_code, reason = "the support module is shared by several test programs")]

#[path = "doctor/hosts.rs"]
mod hosts;
#[path = "doctor/program.rs"]
mod program;
mod support;

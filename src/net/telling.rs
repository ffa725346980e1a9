//! A connection that was let through, told of when it ends.
//!
//! Answers for there being an event for each, also when the launch ends first. Invariant: it is told once.

use super::relay::Meter;
use super::report::Report;
use crate::capability::Target;

/// A connection under way.
pub(super) struct Telling<'a> {
    report: &'a Report,
    target: &'a Target,
    meter: &'a Meter,
    told: bool,
}

impl<'a> Telling<'a> {
    pub(super) fn new(report: &'a Report, target: &'a Target, meter: &'a Meter) -> Self {
        Self { report, target, meter, told: false }
    }

    /// It ended, having been carried in this way.
    pub(super) fn ended(mut self, how: &str, end: &str) {
        self.told = true;
        self.report.connection(self.target, how, self.meter.passed(), end);
    }

    /// It was refused, and that is told already.
    pub(super) fn told(mut self) {
        self.told = true;
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !self.told {
            self.report.connection(self.target, "unfinished", self.meter.passed(), self.report.cut());
        }
    }
}

//! A request that was let through, told of when it ends.
//!
//! Answers for there being one event for each, however it ends: with its answer, without one, or with the launch.
//! Invariant: nothing is dialled for a request, and nothing of it sent, before this is made; and none is made where it
//! could not be told of.

use super::refusal::Refusal;
use crate::capability::Target;
use crate::net::relay::Meter;
use crate::net::report::{Passed, Report, UNKEPT};
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// A request under way; the meter counts what passes for it, or for its whole connection.
pub(super) struct Underway<M: Deref<Target = Meter>> {
    report: Report,
    meter: M,
    before: Passed,
    target: Target,
    method: String,
    path: String,
    /// None until there is an answer.
    status: AtomicU16,
    end: OnceLock<&'static str>,
    /// Whether it was refused after all, which is told already.
    refused: AtomicBool,
}

impl<M: Deref<Target = Meter>> Underway<M> {
    /// Begins a request, or says why none may begin on any connection, new or old.
    pub(super) fn begin(
        report: &Report,
        meter: M,
        target: &Target,
        (method, path): (&str, &str),
    ) -> Result<Self, Refusal> {
        if report.is_unkept() {
            return Err(Refusal::unreachable(&format!("{target} cannot be reached: {UNKEPT}")));
        }
        Ok(Self {
            report: report.clone(),
            before: meter.passed(),
            meter,
            target: target.clone(),
            method: method.to_owned(),
            path: path.to_owned(),
            status: AtomicU16::new(0),
            end: OnceLock::new(),
            refused: AtomicBool::new(false),
        })
    }

    /// The answer begins.
    pub(super) fn answers(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// The status of the answer that was passed on last; zero before.
    pub(super) fn status(&self) -> u16 {
        self.status.load(Ordering::Relaxed)
    }

    /// Whether something of an answer was passed on.
    pub(super) fn is_answered(&self) -> bool {
        self.status() != 0
    }

    pub(super) fn method(&self) -> &str {
        &self.method
    }

    /// How it ends; without this it broke off.
    pub(super) fn ends(&self, how: &'static str) {
        let _ = self.end.set(how);
    }

    /// It was refused for where it leads, and that is told already.
    pub(super) fn told(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl<M: Deref<Target = Meter>> Drop for Underway<M> {
    fn drop(&mut self) {
        if self.refused.load(Ordering::Relaxed) {
            return;
        }
        let status = Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0);
        let end = self.end.get().copied().unwrap_or_else(|| self.report.cut());
        let passed = self.meter.passed().since(self.before);
        self.report.request(&self.target, (&self.method, &self.path), (status, end), passed);
    }
}

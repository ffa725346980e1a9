//! `sbx doctor`: what works here, what does not, and what to do about it.

use super::{CliError, Exit, Ui, registered};
use crate::capability::Risk;
use crate::doctor::{Fares, Finding, HostFacts, Level, Report, files, fix, records, tools, try_backend};
use crate::run::{Setting, SettingError};
use clap::Args;
use sbx_platform::{Backend, Guarantee};
use std::fmt::Write;
use std::path::Path;

/// What to examine.
///
/// Starts a sandbox with every backend and attacks it from inside; reads kernel settings, records and sbx's own files.
/// Nothing is changed without --fix. The exit status is 1 when there is a warning or worse.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Put right what can be put right safely: permissions that let other users change sbx's files.
    #[arg(long)]
    fix: bool,
    /// Also say what is as it should be.
    #[arg(long, short)]
    verbose: bool,
}

impl Doctor {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let (setting, broken) = Setting::despite_errors()?;
        let fixed = if self.fix { fix(&setting) } else { Vec::new() };
        let backends = Backend::ALL.into_iter().map(|backend| {
            ui.progress(&format!("trying {backend} …"));
            try_backend(backend)
        });
        let backends = backends.collect();
        ui.progress("");
        let program = std::env::current_exe().unwrap_or_else(|_| "/usr/bin/sbx".into());
        let report =
            Report::of(HostFacts::read(Path::new("/")), sbx_platform::landlock(), backends, &program)
                .and(broken.iter().map(configuration).collect())
                .and(records(&setting))
                .and(files(&setting))
                .and(tools(&setting))
                .and(registered::findings(&setting));
        if ui.json {
            ui.answer_json(&report.to_json(&fixed))?;
        } else {
            fixed.iter().try_for_each(|line| ui.answer(format!("fixed: {line}")))?;
            ui.answer(text(ui, &report, self.verbose))?;
        }
        Ok(if report.worst() >= Level::Warning { Exit::Denied } else { Exit::Fine })
    }
}

/// A configuration that keeps everything from running is a finding too; the rest is examined without it.
fn configuration(error: &SettingError) -> Finding {
    let message = format!("nothing is run until the configuration is mended: {error}");
    Finding::new("files", "configuration", Level::Error, message)
}

/// The report for people.
fn text(ui: &Ui, report: &Report, verbose: bool) -> String {
    let mut text = String::new();
    for area in ["host", "backends", "records", "files", "clients"] {
        let _ = writeln!(text, "{}", ui.bold(area));
        if area == "backends" {
            matrix(ui, report, &mut text);
        }
        let of_area = report.findings.iter().filter(|finding| finding.area == area);
        let mut shown = 0;
        for finding in of_area.filter(|finding| verbose || finding.level > Level::Fine || area == "backends")
        {
            one(ui, finding, &mut text);
            shown += 1;
        }
        if shown == 0 {
            let _ = writeln!(text, "  {}", ui.by_risk(Risk::Low, "fine"));
        }
        text.push('\n');
    }
    let count = |level| report.findings.iter().filter(|finding| finding.level == level).count();
    let _ = write!(
        text,
        "{} errors, {} warnings, {} notes",
        count(Level::Error),
        count(Level::Warning),
        count(Level::Note)
    );
    text
}

fn one(ui: &Ui, finding: &Finding, text: &mut String) {
    let word = format!("{:<8}", finding.level.name());
    let word = match finding.level {
        Level::Fine => ui.by_risk(Risk::Low, &word),
        Level::Note => ui.dim(&word),
        Level::Warning => ui.by_risk(Risk::Medium, &word),
        Level::Error => ui.by_risk(Risk::High, &word),
    };
    let _ = writeln!(text, "  {word} {}", finding.message);
    if let Some(place) = &finding.place {
        let _ = writeln!(text, "           {}", ui.dim(&format!("at {}:{}", place.file, place.line)));
    }
    for line in &finding.fix {
        let _ = writeln!(text, "           fix: {line}");
    }
}

/// Guarantees down, backends across.
fn matrix(ui: &Ui, report: &Report, text: &mut String) {
    let working: Vec<_> = report.backends.iter().filter(|tried| tried.failure.is_none()).collect();
    for tried in &report.backends {
        if let Some(failure) = &tried.failure {
            let _ = writeln!(text, "  {:<10} does not work: {failure}", tried.backend.name());
        }
    }
    if working.is_empty() {
        return;
    }
    let _ = write!(text, "  {:<16}", "");
    for tried in &working {
        let _ = write!(text, " {:<9}", tried.backend.name());
    }
    text.push('\n');
    for guarantee in Guarantee::ALL {
        let mut line = format!("  {:<16}", guarantee.name());
        for tried in &working {
            let Some(fares) = tried.fares(*guarantee) else { continue };
            let word = format!("{:<9}", fares.name());
            let _ = write!(
                line,
                " {}",
                match fares {
                    Fares::Held => ui.by_risk(Risk::Low, &word),
                    Fares::Given => word,
                    Fares::Missing => ui.by_risk(Risk::Medium, &word),
                    Fares::Broken => ui.by_risk(Risk::High, &word),
                }
            );
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

//! Reads the values of secrets, outside, when a launch begins.

use super::launch::RunError;
use super::own_programs::OwnPrograms;
use crate::capability::Target;
use crate::manifest::{EnvRule, Injection, SecretSource, read_bounded};
use crate::net::{Secret, Value};
use crate::policy::Policy;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long a command may take to give a value.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest value.
const LONGEST: u64 = 16 << 10;

/// The secrets of a policy, each with the variable that its placeholder is put in. One whose variable is not set
/// is left out, as any variable is.
pub(super) fn secrets(policy: &Policy) -> Result<Vec<(String, Secret)>, RunError> {
    let mut found = Vec::new();
    for rule in &policy.sections().env {
        let Some(injection) = &rule.inject else { continue };
        let failed = |cause: io::Error| RunError::Secret { name: rule.name.clone(), cause };
        let Some(bytes) = read(rule, injection, policy).map_err(failed)? else { continue };
        let value = Value::new(bytes).ok_or_else(|| {
            failed(io::Error::new(io::ErrorKind::InvalidData, "its value cannot stand in a header"))
        })?;
        let target = Target::parse(&injection.host)
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let format = injection.format.as_deref();
        let secret = Secret::new(&rule.name, target, &injection.header, format, value);
        found.push((rule.name.clone(), secret));
    }
    Ok(found)
}

fn read(rule: &EnvRule, injection: &Injection, policy: &Policy) -> io::Result<Option<Vec<u8>>> {
    match &injection.from {
        SecretSource::Environment(name) => {
            let name = name.as_deref().unwrap_or(&rule.name);
            Ok(std::env::var_os(name).map(|value| value.as_encoded_bytes().to_vec()))
        }
        SecretSource::File(path) => {
            let path = path
                .strip_prefix("~/")
                .map_or_else(|| Path::new(path).to_path_buf(), |rest| policy.facts().home.join(rest));
            file(&policy.facts().cwd.join(path), policy).map(Some)
        }
        SecretSource::Command(argv) => run(argv, policy).map(Some),
    }
}

/// What a regular file says, unless the agent could have chosen which file that is.
fn file(path: &Path, policy: &Policy) -> io::Result<Vec<u8>> {
    let own = OwnPrograms::of(policy, &policy.facts().cwd).map_err(io::Error::other)?;
    if own.is_written(path) {
        let message = format!(
            "{} lies where the agent may write, or is reached through a link that does",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let most = usize::try_from(LONGEST).unwrap_or(usize::MAX);
    let read = read_bounded(path, most).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(read.text().as_bytes().to_vec())
}

/// What a command prints, run as the caller's own programs are.
fn run(argv: &[String], policy: &Policy) -> io::Result<Vec<u8>> {
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let cwd = &policy.facts().cwd;
    let own = OwnPrograms::of(policy, cwd).map_err(io::Error::other)?;
    let file = match program.contains('/') {
        true => Some(cwd.join(program)).filter(|file| own.is_own(file)),
        false => own.find(OsStr::new(program)),
    };
    let file = file.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("{program} is not one of your own programs{}", own.left_out()),
        )
    })?;
    let mut child = own.command(&file).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let begun = Instant::now();
    // A value fits into a pipe, so the command can end before it is read.
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                let _ = (child.kill(), child.wait());
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut value = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        io::Read::read_to_end(&mut io::Read::take(stdout, LONGEST), &mut value)?;
    }
    if !status.success() {
        return Err(io::Error::other(format!("{program} ended with {status}")));
    }
    Ok(value)
}

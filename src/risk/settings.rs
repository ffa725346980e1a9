//! Settings of git, given as options, in variables or for good, whose value a shell runs.

use super::command::Command;
use super::expand::Value;
use super::flatten::Walk;
use super::options::option_values;

/// Settings of git whose value a shell runs.
fn runs_setting(key: &str, value: &str) -> bool {
    let key = key.to_ascii_lowercase();
    value.starts_with('!')
        || matches!(
            key.as_str(),
            "core.sshcommand"
                | "core.pager"
                | "core.editor"
                | "core.fsmonitor"
                | "core.askpass"
                | "core.gitproxy"
                | "diff.external"
                | "sequence.editor"
                | "credential.helper"
                | "gpg.program"
                | "uploadpack.packobjectshook"
        )
        || (key.starts_with("pager.")
            || key.ends_with(".textconv")
            || key.ends_with(".cmd")
            || key.ends_with(".clean")
            || key.ends_with(".smudge"))
}

impl Walk<'_> {
    /// `git -c key=value` with a value that a shell runs.
    pub(super) fn git_settings(&mut self, command: &Command) {
        let mut values = option_values(command.argv.get(1..).unwrap_or_default(), &["-c", "--config"]);
        values.extend(self.git_variables(command));
        let words: Vec<&str> = command.argv.iter().map(|arg| arg.text.as_str()).collect();
        if let Some(at) = words.iter().position(|word| *word == "config")
            && let Some([key, value]) = words.get(words.len().saturating_sub(2).max(at + 1)..)
        {
            values.push((format!("{key}={value}"), true));
        }
        let transports = command
            .argv
            .iter()
            .filter_map(|arg| Some((arg.text.strip_prefix("ext::")?.replace("% ", " "), arg.known)));
        for (text, known) in transports.collect::<Vec<_>>() {
            self.text_within(&text, known, command, "git ext");
        }
        for (setting, known) in values {
            let Some((key, value)) = setting.split_once('=') else { continue };
            let by = format!("git {key}");
            if runs_setting(key, value) {
                self.text_within(value.trim_start_matches('!'), known, command, &by);
            } else if key.to_ascii_lowercase().starts_with("alias.") {
                // A command of git's own, by another name.
                self.text_within(&format!("git {value}"), known, command, &by);
            }
        }
    }

    /// Settings that are handed over in variables: `GIT_CONFIG_KEY_0` with `GIT_CONFIG_VALUE_0`.
    fn git_variables(&self, command: &Command) -> Vec<(String, bool)> {
        let own = command.variables.iter().map(|(name, arg)| (name.as_str(), arg.text.clone()));
        let shell = self.variables.iter().filter_map(|(name, value)| match value {
            Value::Known(texts) => Some((name.as_str(), texts.concat())),
            Value::Guess(text) => Some((name.as_str(), text.clone())),
            Value::Computed | Value::Unset => None,
        });
        let all: Vec<(&str, String)> =
            own.chain(shell).filter(|(name, _)| name.starts_with("GIT_CONFIG_")).take(64).collect();
        let mut settings = Vec::new();
        for (name, key) in &all {
            if let Some(number) = name.strip_prefix("GIT_CONFIG_KEY_") {
                let wanted = format!("GIT_CONFIG_VALUE_{number}");
                let value = all.iter().find(|(name, _)| *name == wanted);
                settings.extend(value.map(|(_, value)| (format!("{key}={value}"), true)));
            }
            if *name == "GIT_CONFIG_PARAMETERS" {
                settings.extend(key.split('\'').map(|part| (part.to_owned(), true)));
            }
        }
        settings
    }
}

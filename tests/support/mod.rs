//! A world of its own for each test: home, project, search path, no colour, no terminal.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The program under test: the one cargo built, or the one named by `SBX_TEST_BIN`.
pub fn program() -> PathBuf {
    std::env::var_os("SBX_TEST_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_sbx")), PathBuf::from)
}

/// This repository's files: where cargo compiled them, or the copy named by `SBX_TEST_SOURCE`.
pub fn source_dir() -> PathBuf {
    std::env::var_os("SBX_TEST_SOURCE")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// A home and a project below one temporary directory, removed at the end.
#[derive(Debug)]
pub struct TestEnv {
    base: PathBuf,
}

impl TestEnv {
    /// An empty home and a project with a `.git` directory.
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temp = std::env::temp_dir().canonicalize().expect("a temporary directory");
        let base = temp.join(format!("sbx-cli-{}-{number}", std::process::id()));
        let env = Self { base };
        std::fs::create_dir_all(env.home()).expect("a home");
        std::fs::create_dir_all(env.project().join(".git")).expect("a project");
        let run = std::fs::Permissions::from_mode(0o700);
        std::fs::create_dir_all(env.base.join("run")).expect("a run-time directory");
        std::fs::set_permissions(env.base.join("run"), run).expect("a mode");
        env
    }

    /// `$HOME`.
    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// The working directory.
    pub fn project(&self) -> PathBuf {
        self.base.join("project")
    }

    /// A user's record.
    pub fn record(&self, name: &str) -> PathBuf {
        self.home().join(".config/sbx/agents").join(name)
    }

    /// Writes a file with its directories.
    pub fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.base.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// Writes a user's record.
    pub fn write_record(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.write(self.record(name), bytes)
    }

    /// A command in this world.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let bin = crate::support::program();
        let dir = bin.parent().expect("a directory").display().to_string();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", format!("{dir}:/usr/local/bin:/usr/bin:/bin"))
            .env("XDG_RUNTIME_DIR", self.base.join("run"))
            .env("NO_COLOR", "1")
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// `sbx` in this world.
    pub fn sbx_command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = self.command(program());
        command.args(args);
        command
    }

    /// What `sbx` answers, as text: stdout, stderr after `[stderr]`, and the status.
    pub fn sbx<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        self.shown(&self.sbx_command(args).output().expect("sbx starts"))
    }

    /// The same with a line of shell, in which `sbx` is the program under test.
    pub fn sh(&self, line: &str) -> String {
        self.shown(&self.command("sh").args(["-c", line]).output().expect("sh starts"))
    }

    /// What `sbx` answers to a text on its stdin.
    pub fn sbx_with_input(&self, args: &[&str], input: &[u8]) -> String {
        let mut child = self.spawn(args, Stdio::piped());
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        let feeder = std::thread::spawn(move || {
            // The program may have seen enough before the end.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().expect("sbx ends");
        feeder.join().expect("the feeder ends");
        self.shown(&output)
    }

    /// Starts `sbx` without waiting for it.
    pub fn spawn(&self, args: &[&str], stdin: Stdio) -> Child {
        let mut command = self.sbx_command(args);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("sbx starts")
    }

    /// The JSON that `sbx` answers, whatever its status.
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.sbx_command(args).output().expect("sbx starts");
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).unwrap_or_else(|error| {
            unreachable!("sbx {args:?} did not answer in JSON: {error}\n{text}{}", self.shown(&output))
        })
    }

    /// Output with this world's places replaced by `[HOME]` and `[PROJECT]`.
    pub fn shown(&self, output: &Output) -> String {
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.stderr.is_empty() {
            let _ = write!(text, "[stderr]\n{}", String::from_utf8_lossy(&output.stderr));
        }
        let status = output.status.code().map_or_else(|| output.status.to_string(), |code| code.to_string());
        let _ = writeln!(text, "[exit {status}]");
        self.anonymous(&text)
    }

    /// A text with this world's places, and hashes that hold them, replaced.
    pub fn anonymous(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let mut from = 0;
        while let Some(at) = text[from..].find("sha256:").map(|at| from + at + "sha256:".len()) {
            let end = text[at..].find(|c: char| !c.is_ascii_hexdigit()).map_or(text.len(), |len| at + len);
            text.replace_range(at..end, "[HASH]");
            from = at;
        }
        text.replace(&self.home().display().to_string(), "[HOME]")
            .replace(&self.project().display().to_string(), "[PROJECT]")
            .replace(&self.base.display().to_string(), "[BASE]")
    }

    /// Every file below the home and the project, to see that nothing was written.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        collect(&self.base, &mut files);
        files.sort();
        files.iter().map(|file| self.anonymous(&file.display().to_string())).collect()
    }
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), files),
            _ => files.push(entry.path()),
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

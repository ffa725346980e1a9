//! A directory of its own, a home of its own, and the built binary.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) struct Bench {
    dir: PathBuf,
}

pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program under test: the one cargo built, or the one named by `SBX_TEST_BIN`.
fn program() -> String {
    std::env::var("SBX_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_sbx").to_owned())
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Bench {
    pub(crate) fn new(name: &str) -> Self {
        Self::below("/var/tmp", name)
    }

    pub(crate) fn below(base: &str, name: &str) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = Path::new(base).join(format!("sbx-fence-{name}-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("work")).expect("a directory");
        std::fs::create_dir_all(dir.join("home")).expect("a home");
        Self { dir }
    }

    fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// The name of what the work directory lies in.
    pub(crate) fn above(&self) -> String {
        self.dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub(crate) fn home(&self) -> String {
        self.dir.join("home").to_str().expect("a plain path").to_owned()
    }

    /// Reads, writes, deletes and runs anything in the directory, with more sections.
    pub(crate) fn open_record(&self, sections: &str) {
        let grants = "capabilities:\n  - proc.exec: {in: ROOT}\n  - proc.eval: {in: ROOT}\n  - fs.read: {in: ROOT}\n  \
                      - fs.write: {in: ROOT}\n  - fs.delete: {in: ROOT}\n";
        self.record(&format!("{grants}{sections}"));
    }

    pub(crate) fn record(&self, text: &str) {
        self.record_at(&text.replace("ROOT", self.work().to_str().expect("a plain path")));
    }

    pub(crate) fn record_at(&self, text: &str) {
        self.write("agent.yml", text);
    }

    /// A record of the user's own, which grants can be given to.
    pub(crate) fn own_record(&self, name: &str, text: &str) {
        let dir = self.dir.join("home/.config/sbx/agents");
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join(format!("{name}.md")), format!("---\n{text}---\n")).expect("a record");
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.work().join(name), text).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).expect("a file")
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        std::fs::symlink_metadata(self.work().join(name)).is_ok()
    }

    pub(crate) fn subdir(&self, name: &str) -> String {
        let path = self.work().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        path.to_str().expect("text").to_owned()
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.work()).expect("a directory");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.join("home"))
            .env("SECRET", "SECRET-value")
            .env("GRANTED", "yes")
            .env("LD_PRELOAD_DECOY", "SECRET");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = self.command(&program());
        command.args(arguments);
        finish(&mut command, input)
    }

    /// Runs a command behind a backend, with a descriptor of the caller's as its standard input.
    pub(crate) fn handing(
        &self,
        (backend, accepted): (&str, &str),
        argv: &[&str],
        input: std::os::fd::OwnedFd,
    ) -> Run {
        let mut command = self.command(&program());
        command.args(["exec", "--agent", "agent.yml", "--backend", backend]);
        command.args(Some(accepted).filter(|accepted| !accepted.is_empty())).arg("--").args(argv);
        ended(&command.stdin(Stdio::from(input)).output().expect("sbx starts"))
    }

    pub(crate) fn exec(&self, argv: &[&str]) -> Run {
        self.run(&[&["exec", "--agent", "agent.yml", "--"], argv].concat(), "")
    }

    pub(crate) fn sh(&self, script: &str) -> Run {
        self.exec(&["sh", "-c", script])
    }

    /// Whether these tests are run by root.
    pub(crate) fn is_root(&self) -> bool {
        self.shell_line("id -u").stdout.trim() == "0"
    }

    /// A line for the shell outside, in which `SBX` is the binary.
    pub(crate) fn shell_line(&self, line: &str) -> Run {
        let mut command = self.command("/bin/sh");
        command.arg("-c").arg(line.replace("SBX", &program()));
        finish(&mut command, "")
    }

    pub(crate) fn spawn(&self, script: &str) -> Child {
        let mut command = self.command(&program());
        command.args(["exec", "--agent", "agent.yml", "--", "sh", "-c", script]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sbx starts")
    }

    /// A number of seconds that no other process sleeps.
    pub(crate) fn marker(&self) -> String {
        let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
        format!("300.{}{nanos}", std::process::id())
    }

    /// No process with the marker is left, after a moment to die in.
    pub(crate) fn assert_gone(&self, marker: &str) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if !is_running(marker) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(!is_running(marker), "a process with {marker} is left");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn finish(command: &mut Command, input: &str) -> Run {
    use std::io::Write;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    ended(&child.wait_with_output().expect("it ends"))
}

fn ended(output: &std::process::Output) -> Run {
    Run {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn is_running(marker: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("a process list");
    processes.filter_map(Result::ok).any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.windows(marker.len()).any(|window| window == marker.as_bytes())
    })
}

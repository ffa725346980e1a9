//! `sbx why`: what is decided and what the kernel says are the same, over verbs, paths, commands and backends.

#![expect(unreachable_pub, dead_code, reason = "the support module is shared by several test programs")]

mod support;

use serde_json::Value;
use std::path::PathBuf;
use support::TestEnv;

/// A home outside `/tmp`, which is private scratch behind the fence.
fn world() -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    let base = PathBuf::from("/var/tmp").canonicalize().expect("a directory for large temporary files");
    let dir = base.join(
        format!("sbx-why-test-{}-{:?}", std::process::id(), std::thread::current().id())
            .replace(['(', ')'], ""),
    );
    let _ = std::fs::remove_dir_all(&dir);
    for below in ["work/lib/deep", "work/.git/hooks", "far", "closed"] {
        std::fs::create_dir_all(dir.join(below)).expect("directories");
    }
    for file in
        ["work/a.txt", "work/lib/b.rs", "work/lib/deep/c.md", "work/.git/config", "far/d.txt", "closed/e.txt"]
    {
        std::fs::write(dir.join(file), "text\n").expect("a file");
    }
    let record = format!(
        "---\ncapabilities:\n  - fs.read: {{in: {0}/work}}\n  - fs.write: {{in: {0}/work, paths: [lib]}}\n  \
         - fs.delete: {{in: {0}/work/lib/deep}}\n  - fs.write: {{in: {0}/far}}\n  \
         - proc.exec: {{in: {0}/work, cmds: [cat, ls]}}\n---\n",
        dir.display()
    );
    env.write_record("w.md", record);
    (env, dir)
}

fn why(env: &TestEnv, dir: &std::path::Path, backend: &str, question: &[&str]) -> Value {
    let at = dir.join("work").display().to_string();
    env.json(&[&["--json", "why", "--agent", "w", "--backend", backend, "--in", &at], question].concat())
}

#[test]
fn permissions_of_files_that_are_in_the_way_are_no_difference() {
    let (env, dir) = world();
    let far = dir.join("far");
    let closed =
        if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
            std::os::unix::fs::chown(&far, Some(1234), Some(1234))
        } else {
            std::fs::set_permissions(&far, std::os::unix::fs::PermissionsExt::from_mode(0o555))
        };
    closed.expect("it is ours to close");
    for backend in ["native", "bwrap", "landlock"] {
        let answer = why(&env, &dir, backend, &["fs.write", &far.join("new.txt").display().to_string()]);
        assert_eq!(answer["tried"]["verdict"], "expected", "{backend}: {answer:#}");
        let said = answer.to_string();
        assert!(said.contains("the permissions of the file system are in the way"), "{backend}: {answer:#}");
    }
    let _ = std::fs::set_permissions(&far, std::os::unix::fs::PermissionsExt::from_mode(0o755));
    let _ = std::fs::remove_dir_all(dir);
}

#[test]
fn decided_and_tried_agree_over_every_verb_and_place() {
    let (env, dir) = world();
    let places = [
        "work",
        "work/a.txt",
        "work/lib",
        "work/lib/b.rs",
        "work/lib/new.rs",
        "work/lib/deep",
        "work/lib/deep/c.md",
        "work/.git/config",
        "work/.git/hooks/pre-commit",
        "far/d.txt",
        "far/new.txt",
        "closed",
        "closed/e.txt",
    ];
    let (mut yes, mut no) = (0, 0);
    for backend in ["native", "bwrap", "landlock"] {
        for verb in ["fs.read", "fs.write", "fs.delete"] {
            for place in places {
                let path = dir.join(place).display().to_string();
                let answer = why(&env, &dir, backend, &[verb, &path]);
                let verdict = answer["tried"]["verdict"].as_str().unwrap_or_default();
                assert_ne!(verdict, "differ", "{backend} {verb} {place}: {answer:#}");
                if verdict == "agree" {
                    let done = answer["tried"]["done"] == true;
                    assert_eq!(done, answer["decided"]["decision"] == "allow", "{answer:#}");
                    *(if done { &mut yes } else { &mut no }) += 1;
                }
            }
        }
    }
    assert!(yes > 30 && no > 40, "{yes} yes, {no} no");
    assert!(!dir.join("work/lib/new.rs").exists() && !dir.join("far/new.txt").exists(), "nothing is left");
    assert!(
        dir.join("work/lib/deep/c.md").exists() && dir.join("work/lib/b.rs").exists(),
        "nothing is taken"
    );
    let names = std::fs::read_dir(dir.join("work/lib")).expect("the directory").count();
    assert_eq!(names, 2, "nothing is left in a directory either");
    std::fs::remove_dir_all(dir).expect("removed");
}

#[test]
fn commands_are_asked_about_without_being_run() {
    let (env, dir) = world();
    let listed = why(&env, &dir, "native", &["proc.exec", "--", "cat", "a.txt"]);
    let other = why(&env, &dir, "native", &["proc.exec", "--", "touch", "made"]);
    for (answer, done) in [(&listed, true), (&other, false)] {
        let tried = &answer["tried"];
        assert_eq!((&tried["verdict"], &tried["done"]), (&"agree".into(), &done.into()), "{answer:#}");
    }
    assert_eq!(listed["decided"]["decision"], "allow");
    assert_eq!(other["decided"]["decision"], "deny");
    assert!(!dir.join("work/made").exists());
    std::fs::remove_dir_all(dir).expect("removed");
}

/// A name is looked for where a launch looks for it: in the directories of the system's own programs too, and on the
/// caller's path where the record passes it in.
#[test]
fn a_command_is_the_one_that_a_launch_would_run() {
    let (env, dir) = world();
    let own = dir.join("far/bin");
    std::fs::create_dir_all(&own).expect("a directory");
    std::fs::copy("/bin/true", own.join("own-tool")).expect("a program");
    let record = |scope: &str, section: &str| {
        format!(
            "---\ncapabilities:\n  - proc.exec: {{in: {0}/work{scope}}}\n  - fs.read: {{in: {0}/far}}\n{section}---\n",
            dir.display()
        )
    };
    env.write_record("p.md", record("", ""));
    env.write_record("q.md", record(", cmds: [own-tool]", "env: [PATH]\n"));
    let at = dir.join("work").display().to_string();
    let path = format!("{}:/usr/bin", own.display());
    let run = |args: &[&str]| env.sbx_command(args).env("PATH", &path).output().expect("it runs");
    let asked = |agent: &str, program: &str| {
        let why = run(&["--json", "why", "--agent", agent, "--in", &at, "proc.exec", "--", program]);
        let answer: Value = serde_json::from_slice(&why.stdout).expect("an answer");
        let ran = run(&["exec", "--agent", agent, "--in", &at, "--", program, "--version"]);
        let tried = &answer["tried"];
        assert!(tried["object"].is_null() || tried["verdict"] == "agree", "{answer:#}");
        (tried["object"].clone(), ran.status.code() == Some(0))
    };
    let (object, ran) = asked("p", "ldconfig");
    assert!(ran && object.as_str().is_some_and(|file| file.ends_with("sbin/ldconfig")), "{object}");
    assert_eq!(asked("p", "own-tool"), (Value::Null, false));
    let file = own.join("own-tool").display().to_string();
    assert_eq!(asked("q", "own-tool"), (Value::from(file), true));
    assert_eq!(asked("q", "ldconfig"), (Value::Null, false));
    std::fs::remove_dir_all(dir).expect("removed");
}

/// The gateway of a trial judges and dials nothing: the listener hears of nobody.
#[test]
fn hosts_are_asked_about_without_being_reached() {
    let (env, dir) = world();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    let own = listener.local_addr().expect("an address").to_string();
    let alias = own.replace("127.0.0.1", "localhost");
    env.write_record(
        "w.md",
        format!(
            "---\ncapabilities:\n  - net.get: {{hosts: [\"*.example.org\", \"{own}\", 10.0.0.7, \"*\"]}}\n  \
             - net.post: {{hosts: [\"api.example.org:8443\"]}}\n  - net.put: {{hosts: [\"api.example.org:8443\"]}}\n  \
             - net.delete: {{hosts: [\"api.example.org:8443\"]}}\n---\n"
        ),
    );
    for backend in ["native", "bwrap", "landlock"] {
        for (verb, target, expected) in [
            ("net.get", "https://www.example.org/a?b", "allow agree"),
            ("net.post", "www.example.org", "deny agree"),
            ("net.get", "api.example.org:8443", "allow agree"),
            ("net.post", "api.example.org:8443", "allow agree"),
            ("net.delete", "api.example.org:8444", "deny agree"),
            ("net.get", own.as_str(), "allow agree"),
            ("net.post", own.as_str(), "deny agree"),
            ("net.get", alias.as_str(), "deny expected"),
            ("net.get", "127.0.0.1:1", "deny agree"),
            ("net.get", "10.0.0.7", "allow agree"),
            ("net.get", "10.0.0.8", "deny agree"),
            ("net.get", "169.254.169.254", "deny agree"),
            ("net.get", "[2606:4700::1]:8080", "allow agree"),
        ] {
            let answer = why(&env, &dir, backend, &[verb, target]);
            let decided = answer["decided"]["decision"].as_str().unwrap_or_default();
            let tried = answer["tried"]["verdict"].as_str().unwrap_or_default();
            assert_eq!(format!("{decided} {tried}"), expected, "{backend} {verb} {target} {answer:#}");
        }
    }
    assert!(listener.accept().is_err(), "somebody was reached");
    std::fs::remove_dir_all(dir).expect("removed");
}

/// Where only some ports are listened on, others are reached by whoever asks the proxy, and the answer says so.
#[test]
fn a_host_that_only_the_proxy_leads_to_is_told_as_such() {
    let (env, dir) = world();
    env.write_record("w.md", "---\ncapabilities:\n  - net.get: {hosts: [\"*\"]}\n---\n");
    for backend in ["native", "bwrap"] {
        for (target, verdict, directly) in
            [("example.org:443", "agree", true), ("example.org:9999", "expected", false)]
        {
            let asked = ["--json", "why", "--agent", "w", "--backend", backend, "net.get", target];
            let output = env.sbx_command(&asked).env("SBX_TEST_NO_RULES", "1").output().expect("sbx runs");
            let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
            let tried = &answer["tried"];
            assert_eq!(tried["verdict"], verdict, "{backend} {target} {answer:#}");
            assert_eq!((&tried["done"], &tried["by_proxy"]), (&directly.into(), &true.into()), "{answer:#}");
            assert_eq!(tried["why"].to_string().contains("net-ports"), !directly, "{answer:#}");
        }
    }
    std::fs::remove_dir_all(dir).expect("removed");
}

/// Without any grant there is no network at all, and the answer is the same.
#[test]
fn without_a_grant_no_host_is_reached() {
    let (env, dir) = world();
    for backend in ["native", "bwrap", "landlock"] {
        let answer = why(&env, &dir, backend, &["net.get", "example.org"]);
        assert_eq!((&answer["tried"]["verdict"], &answer["tried"]["done"]), (&"agree".into(), &false.into()));
    }
    std::fs::remove_dir_all(dir).expect("removed");
}

#[test]
fn the_answer_says_both_and_the_status_tells() {
    let (env, dir) = world();
    let path = |name: &str| dir.join(name).display().to_string();
    let shown = env.sbx(&["why", "--agent", "w", "fs.read", &path("work/a.txt")]);
    assert!(
        shown.starts_with("decided  allowed: fs.read")
            && shown.contains("behind native: done\nthey agree\n[exit 0]"),
        "{shown}"
    );
    let shown = env.sbx(&["why", "--agent", "w", "fs.delete", &path("work/a.txt")]);
    assert!(shown.contains("scope_violation") && shown.contains("they agree\n[exit 1]"), "{shown}");
    let shown = env.sbx(&["why", "--agent", "w", "fs.read", "/usr/bin/env"]);
    assert!(
        shown.contains("they differ, as they should: every process is shown")
            && shown.ends_with("[exit 1]\n"),
        "{shown}"
    );
    let shown = env.sbx(&["why", "--agent", "w", "fs.read", "/etc/passwd"]);
    assert!(shown.contains("they differ, as they should: every process has such a file"), "{shown}");
    let shown = env.sbx(&["why", "--agent", "w", "fs.read", &path("work/nothing")]);
    assert!(shown.contains("tried    not: there is nothing at"), "{shown}");
    std::fs::remove_dir_all(dir).expect("removed");
}

/// A pipe that nobody writes to, a device that never ends: both are answered, and nothing is left.
#[test]
fn what_would_wait_for_ever_is_answered() {
    let (env, dir) = world();
    let pipe = dir.join("work/lib/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let temp = dir.join("temp");
    // What a trial left that was killed; no process has that number.
    std::fs::create_dir_all(temp.join("sbx-why-2147483647")).expect("a directory");
    for (verb, path) in
        [("fs.read", pipe.as_path()), ("fs.write", &pipe), ("fs.read", std::path::Path::new("/dev/zero"))]
    {
        let path = path.display().to_string();
        let mut sbx = env.sbx_command(&["--json", "why", "--agent", "w", verb, &path]);
        let mut child =
            sbx.env("TMPDIR", &temp).stdout(std::process::Stdio::piped()).spawn().expect("sbx starts");
        let begun = std::time::Instant::now();
        while child.try_wait().expect("a child").is_none() {
            if begun.elapsed() > std::time::Duration::from_secs(60) {
                let _ = (child.kill(), child.wait());
                unreachable!("{verb} {path} does not end");
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    assert_eq!(std::fs::read_dir(&temp).expect("a directory").count(), 0, "something is left");
    std::fs::remove_dir_all(dir).expect("removed");
}

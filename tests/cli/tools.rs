//! `sbx tools` as commands: what is offered, what is refused, what comes out, and what is left behind.

use crate::support::TestEnv;
use expect_test::expect;
use std::path::Path;
use std::time::{Duration, Instant};

const RECORD: &str = "---
id: w
capabilities:
  - fs.read: {in: $PROJECT}
  - fs.write: {in: $PROJECT}
  - proc.exec: {in: $PROJECT, cmds: [cat, head, sleep, yes, echo, env, printf]}
  - proc.eval: {in: $PROJECT}
tools:
  greet: echo hello ${who}
  cat: {run: [cat, --, '${file}'], params: {file: {type: path, allowed_prefix: $PROJECT}}}
  wait: {run: [sleep, '300'], persistent: true}
  flood: {run: [yes], persistent: true}
  daemon: {run: '(setsid sleep 301.MARK &) ; echo up; sleep 302.MARK', persistent: true}
  keep: {run: 'cat $SESSION_DIR/f 2>/dev/null; echo ${word} >$SESSION_DIR/f'}
  slow: {run: 'echo begun; (setsid sleep 303.MARK &); sleep 304.MARK', timeoutMs: 300}
  much: {run: [yes]}
  curl: {run: [curl, 'https://a.example/'], net: [a.example]}
---
";

const HEAD: &str = "name = \"text.head\"
kind = \"command\"
binary = \"head\"
args = [\"-n\", \"{{lines}}\", \"--\", \"{{file}}\"]
[params.lines]
type = \"int\"
min = 1
max = 3
default = \"2\"
[params.file]
type = \"path\"
allowed_prefix = \"$PROJECT\"
";

pub(crate) fn world() -> TestEnv {
    let env = TestEnv::new();
    // How long things sleep tells the processes of one test from those of another.
    env.write_record("w.md", RECORD.replace("MARK", &digits(&env)));
    env.write("home/.config/sbx/tools/head.toml", HEAD);
    env.write("project/notes.txt", "one\ntwo\nthree\n");
    // What ships is not what these tests are about.
    env.write("home/.config/sbx/config.yml", "builtin_tools: []\n");
    env
}

/// A part of a number of seconds that only this test sleeps.
fn digits(env: &TestEnv) -> String {
    env.home().display().to_string().chars().filter(char::is_ascii_digit).collect()
}

/// Whether a process of this test sleeps that long.
fn runs(env: &TestEnv, sleep: &str) -> bool {
    let argument = format!("{sleep}.{}", digits(env));
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

/// Waits for something, for a bounded time.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_list_says_what_each_tool_needs_and_why_it_is_not_offered() {
    let env = world();
    expect![[r#"
        cat                  high    record  proc.exec{patterns=[cat -- *]}  [HOME]/.config/sbx/agents/w.md:10
        curl                 high    record  proc.exec{patterns=[curl https://a.example/]} net.get{hosts=[a.example]}  [HOME]/.config/sbx/agents/w.md:17
          not offered: `curl` needs proc.exec{patterns=[curl https://a.example/]}: w holds only proc.exec{in=$PROJECT,cmds=[cat,head,sleep,yes,echo,env,printf]}
        daemon               high    record  proc.eval  [HOME]/.config/sbx/agents/w.md:13
        flood                high    record  proc.exec{patterns=[yes]}  [HOME]/.config/sbx/agents/w.md:12
        greet                high    record  proc.eval  [HOME]/.config/sbx/agents/w.md:9
        keep                 high    record  proc.eval  [HOME]/.config/sbx/agents/w.md:14
        much                 high    record  proc.exec{patterns=[yes]}  [HOME]/.config/sbx/agents/w.md:16
        slow                 high    record  proc.eval  [HOME]/.config/sbx/agents/w.md:15
        text.head            high    user  proc.exec{patterns=[head -n * -- *]}  [HOME]/.config/sbx/tools/head.toml:1
        wait                 high    record  proc.exec{patterns=[sleep 300]}  [HOME]/.config/sbx/agents/w.md:11
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["tools", "list", "-a", "w"]));
    expect![[r#"
        text.head            high    user  proc.exec{patterns=[head -n * -- *]}  [HOME]/.config/sbx/tools/head.toml:1
          argv         head -n ${lines} -- ${file}
          value        file: a path below $PROJECT, without `..`
          value        lines: a whole number from 1 to 3, else "2"
          time         60s
          output       text, 1048576 and 1048576 bytes kept
          network      none
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["tools", "show", "-a", "w", "text.head"]));
}

#[test]
fn values_are_checked_and_passed_whole() {
    let env = world();
    expect![[r#"
        one
        two
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "text.head", "file=notes.txt"]));
    expect![[r#"
        hello $(id); `id` "x" 'y' *
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "greet", "who=$(id); `id` \"x\" 'y' *"]));
    expect![[r#"
        [stderr]
        invalid_params: text.head: `lines`: more than the most; wanted a whole number from 1 to 3, given "4"
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "text.head", "file=notes.txt", "lines=4"]));
    expect![[r#"
        [stderr]
        invalid_params: cat: `file`: a path leads out of its prefix; wanted a path below $PROJECT, without `..`, given "/etc/passwd"
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "cat", "file=/etc/passwd"]));
    expect![[r#"
        [stderr]
        invalid_params: greet: `who`: the command would read the value as an option; wanted a value that does not begin with `-`, unless the template puts it after `--` or `--option=`, given "-n"
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "greet", "who=-n"]));
    expect![[r#"
        [stderr]
        invalid_params: greet: `who`: a placeholder of the command has no value; wanted a value for it
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "greet"]));
    expect![[r#"
        [stderr]
        capability_absent: `curl` needs proc.exec{patterns=[curl https://a.example/]}: w holds only proc.exec{in=$PROJECT,cmds=[cat,head,sleep,yes,echo,env,printf]}
          smallest grant: sbx agents grant w 'proc.exec{in=[PROJECT],patterns=[curl https://a.example/]}'
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "curl"]));
    expect![[r#"
        [stderr]
        unknown_tool: there is no tool `grete`
          hint: did you mean `greet`?
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "grete"]));
    expect![[r#"
        [stderr]
        wrong_kind: wait: it is left running: start it
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "wait"]));
}

#[test]
fn a_link_out_of_the_prefix_is_refused() {
    let env = world();
    std::os::unix::fs::symlink("/etc/passwd", env.project().join("link")).expect("a link");
    std::os::unix::fs::symlink("/etc", env.project().join("dir")).expect("a link");
    for file in ["link", "dir/passwd", "../home/x", "./../x"] {
        let shown = env.sbx(&["tools", "run", "-a", "w", "cat", &format!("file={file}")]);
        assert!(shown.contains("invalid_params") && shown.ends_with("[exit 1]\n"), "{shown}");
    }
}

#[test]
fn time_and_output_are_bounded_and_nothing_is_left() {
    let env = world();
    let begun = Instant::now();
    expect![[r#"
        begun
        [stderr]
        limit_exceeded: slow: the wall limit was reached; everything was ended
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "run", "-a", "w", "slow"]));
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(!runs(&env, "303") && !runs(&env, "304"));
    let flooded = env.json(&["--json", "tools", "run", "-a", "w", "much"]);
    assert_eq!(
        (flooded["code"].as_str(), flooded["stdout_truncated"].as_bool()),
        (Some("limit_exceeded"), Some(true))
    );
    assert_eq!(flooded["stdout"].as_str().map(str::len), Some(1 << 20));
}

#[test]
fn a_broken_definition_is_told_with_its_place() {
    let env = world();
    env.write(
        "home/.config/sbx/tools/bad.toml",
        "name = \"bad\"\nkind = \"command\"\nbinary = \"ls\"\nargs = [\"{{x}}\"]\n",
    );
    env.write("project/lines.yml", "a: echo \"${x}\"\nb: eval ${x}\nc: {rnu: ls}\nd: ls ${x}\n");
    expect![[r#"
        error[bad_tool]: the placeholder `x` names no parameter
         --> [HOME]/.config/sbx/tools/bad.toml:4:8
          |
        4 | args = ["{{x}}"]
          |        ^^^^^^^^^
        [HOME]/.config/sbx/tools/head.toml: text.head
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "validate"]));
    expect![[r#"
        error[bad_tool]: the placeholder ${x} stands in quotes, where the shell would read its value: `${x}` at character 7 of the line
         --> [PROJECT]/lines.yml:1:4
          |
        1 | a: echo "${x}"
          |    ^^^^^^^^^^^
          = help: write the placeholder as a word of its own, or use a list: no shell reads that

        error[bad_tool]: `eval` reads its words as shell text: `eval` at character 1 of the line
         --> [PROJECT]/lines.yml:2:4
          |
        2 | b: eval ${x}
          |    ^^^^^^^^^
          = help: write the placeholder as a word of its own, or use a list: no shell reads that

        error[bad_tool]: the command does not say what to `run`
         --> [PROJECT]/lines.yml:3:4
          |
        3 | c: {rnu: ls}
          |    ^^^^^^^^^

        error[bad_tool]: there is no key `rnu` here
         --> [PROJECT]/lines.yml:3:5
          |
        3 | c: {rnu: ls}
          |     ^^^
          = help: the keys are name, description, enabled, kind, run, binary, args_mode, args, allowed_subcommands, api, params, constraints, timeout, timeoutMs, timeout_ms, timeout_seconds, cwd, env, net, output, persistent, read_only, max_stdout_bytes, max_stderr_bytes
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["tools", "validate", "lines.yml"]));
    let shown = env.sbx(&["tools", "run", "-a", "w", "text.head", "file=notes.txt"]);
    assert!(shown.starts_with("one\ntwo\n") && shown.contains("bad.toml"), "{shown}");
}

#[test]
fn a_session_holds_its_processes_and_its_directory() {
    let env = world();
    let sbx = |args: &[&str]| env.sbx(&[&["tools"], args].concat());
    let first = env.json(&["--json", "tools", "start", "-a", "w", "--session", "s", "daemon"]);
    let again = env.json(&["--json", "tools", "start", "-a", "w", "--session", "s", "daemon"]);
    assert_eq!((first["pid"].as_u64(), first["running"].as_bool()), (again["pid"].as_u64(), Some(true)));
    soon("it prints", || {
        env.json(&["--json", "tools", "status", "--session", "s", "daemon"])["stdout"] == "up\n"
    });
    soon("its daemon runs", || runs(&env, "301"));
    sbx(&["start", "-a", "w", "--session", "s", "flood"]);
    soon("the flood is bounded", || {
        let status = env.json(&["--json", "tools", "status", "--session", "s", "flood"]);
        status["stdout"].as_str().is_some_and(|text| text.len() == 64 << 10)
    });
    assert_eq!(sbx(&["run", "-a", "w", "--session", "s", "keep", "word=a"]), "[exit 0]\n");
    assert_eq!(sbx(&["run", "-a", "w", "--session", "s", "keep", "word=b"]), "a\n[exit 0]\n");
    let other = sbx(&["start", "-a", "builder", "--session", "s", "wait"]);
    assert!(other.contains("is w's"), "{other}");
    assert!(sbx(&["stop", "--session", "s", "daemon"]).ends_with("[exit 0]\n"));
    assert!(!runs(&env, "301") && !runs(&env, "302"));
    let gone = sbx(&["status", "--session", "s", "daemon"]);
    assert!(gone.contains("no_such_process"), "{gone}");
    assert_eq!(sbx(&["status"]), "s\n[exit 0]\n");
    sbx(&["stop", "--session", "s", "--all"]);
    soon("the session ends", || sbx(&["status"]) == "[exit 0]\n");
    soon("nothing is left of it", || !session_dirs(&env).exists());
}

/// What each backend has to be let off before it takes the record of these tests.
const BACKENDS: [(&str, &str); 3] = [
    ("native", ""),
    ("bwrap", "exec-only,teardown-killed"),
    (
        "landlock",
        "fs-hidden,fs-metadata,loopback,terminals,pid-hidden,private-tmp,exec-only,pids-limit,teardown-killed",
    ),
];

#[test]
fn tools_run_and_stay_behind_every_backend() {
    for (backend, accepted) in BACKENDS {
        let env = world();
        let behind = |verb: &str, rest: &[&str]| {
            let mut words = vec!["--json", "tools", verb, "-a", "w", "--session", "s", "--backend", backend];
            let let_off = format!("--allow-degraded={accepted}");
            words.extend(Some(let_off.as_str()).filter(|_| !accepted.is_empty()));
            words.extend(rest);
            env.json(&words)
        };
        let ran = behind("run", &["greet", "who=$(id); you"]);
        assert_eq!(ran["stdout"], "hello $(id); you\n", "{backend}: {ran}");
        let slow = behind("run", &["slow"]);
        assert_eq!(slow["code"], "limit_exceeded", "{backend}: {slow}");
        assert!(!runs(&env, "303") && !runs(&env, "304"), "{backend}");
        let kept = [behind("run", &["keep", "word=a"]), behind("run", &["keep", "word=b"])];
        assert_eq!(kept[1]["stdout"], "a\n", "{backend}: {kept:?}");
        let started = behind("start", &["daemon"]);
        assert_eq!(started["running"], true, "{backend}: {started}");
        soon("its daemon runs", || runs(&env, "301"));
        env.sbx(&["tools", "stop", "--session", "s", "--all"]);
        soon("all of it ends", || !runs(&env, "301") && !runs(&env, "302"));
    }
}

/// Where the session's state was.
pub(crate) fn session_dirs(env: &TestEnv) -> std::path::PathBuf {
    env.home().with_file_name("run").join("sbx/sessions/s")
}

#[test]
fn a_killed_supervisor_takes_everything_with_it_and_its_state_is_recognised() {
    let env = world();
    let start = || env.json(&["--json", "tools", "start", "-a", "w", "--session", "s", "daemon"]);
    let first = start();
    soon("its daemon runs", || runs(&env, "301"));
    env.sbx(&["tools", "run", "-a", "w", "--session", "s", "keep", "word=a"]);
    let recorded =
        std::fs::read_to_string(session_dirs(&env).join("directory")).expect("the session's directory");
    assert!(Path::new(&recorded).join("f").exists());
    let supervisor = supervisor_of(&env);
    let killed = env.command("kill").args(["-KILL", &supervisor.to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    soon("all are gone", || !runs(&env, "301") && !runs(&env, "302"));
    assert!(env.sbx(&["tools", "status"]).starts_with("[exit 0]"), "stale state is not a session");
    assert!(!Path::new(&recorded).exists(), "the directory is removed");
    assert_ne!(start()["pid"], first["pid"]);
    env.sbx(&["tools", "stop", "--session", "s", "--all"]);
}

/// The supervisor of this world's session.
fn supervisor_of(env: &TestEnv) -> u32 {
    let home = env.home();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let found = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        has(&read("cmdline"), "supervise") && has(&read("environ"), &format!("HOME={}", home.display()))
    });
    found.expect("a supervisor")
}

#[test]
fn an_idle_session_ends_by_itself() {
    let env = world();
    env.sbx(&["tools", "start", "-a", "w", "--session", "s", "--idle", "1s", "daemon"]);
    soon("it ends", || !session_dirs(&env).exists());
    assert_eq!(env.sbx(&["tools", "status"]), "[exit 0]\n");
}

#[test]
fn many_clients_at_once_share_one_session() {
    let env = world();
    let mut clients: Vec<_> = (0..8)
        .map(|_| {
            env.spawn(
                &["--json", "tools", "start", "-a", "w", "--session", "s", "wait"],
                std::process::Stdio::null(),
            )
        })
        .collect();
    let mut pids = Vec::new();
    for client in clients.drain(..) {
        let output = client.wait_with_output().expect("an end");
        let body: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| unreachable!("{}", env.shown(&output)));
        pids.push(body["pid"].as_u64().expect("a number"));
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "{pids:?}");
    env.sbx(&["tools", "stop", "--session", "s", "--all"]);
}

#[test]
fn sixteen_run_and_no_more() {
    let env = world();
    let tools: String =
        (0..17).map(|at| format!("  t{at}: {{run: [sleep, '305'], persistent: true}}\n")).collect();
    env.write("project/more.yml", format!("tools:\n{tools}"));
    env.sbx(&["tools", "add", "-a", "w", "--session", "s", "more.yml"]);
    for at in 0..16 {
        let shown = env.sbx(&["tools", "start", "-a", "w", "--session", "s", &format!("t{at}")]);
        assert!(shown.contains("running"), "{shown}");
    }
    let last = env.sbx(&["tools", "start", "-a", "w", "--session", "s", "t16"]);
    assert!(last.contains("limit_exceeded"), "{last}");
    env.sbx(&["tools", "stop", "--session", "s", "t0"]);
    assert!(env.sbx(&["tools", "start", "-a", "w", "--session", "s", "t16"]).contains("running"));
    env.sbx(&["tools", "stop", "--session", "s", "--all"]);
}

#[test]
fn planted_state_is_not_used() {
    let env = world();
    let run = env.home().with_file_name("run");
    let start = ["tools", "start", "-a", "w", "--session", "s", "wait"];
    // A link where the state would be.
    std::os::unix::fs::symlink(env.project(), run.join("sbx")).expect("a link");
    let shown = env.sbx(&start);
    assert!(shown.contains("cannot use") && shown.ends_with("[exit 2]\n"), "{shown}");
    std::fs::remove_file(run.join("sbx")).expect("removed");
    // A directory that others can enter.
    std::fs::create_dir_all(run.join("sbx/sessions/s")).expect("a directory");
    let shown = env.sbx(&start);
    assert!(shown.contains("open to other users") && shown.ends_with("[exit 2]\n"), "{shown}");
    std::fs::remove_dir_all(run.join("sbx")).expect("removed");
    // A run-time directory that others can write to.
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&run, mode(0o777)).expect("a mode");
    let shown = env.sbx(&start);
    assert!(shown.contains("nobody else can write to") && shown.ends_with("[exit 2]\n"), "{shown}");
    for name in ["../s", "a/b", "", ".x"] {
        let shown = env.sbx(&["tools", "status", "--session", name]);
        assert!(shown.contains("not a session's name"), "{shown}");
    }
}

#[test]
fn layers_stand_in_for_one_another_and_never_widen() {
    let env = world();
    env.write(
        "project/mine.yml",
        "tools:\n  greet: echo session ${who}\n  rm: {run: [rm, x]}\n  leak: {run: [env], env: [SECRET]}\n",
    );
    env.sbx(&["tools", "add", "-a", "w", "--session", "s", "mine.yml"]);
    let run = |args: &[&str]| env.sbx(&[&["tools", "run", "-a", "w", "--session", "s"], args].concat());
    assert_eq!(run(&["greet", "who=x"]), "session x\n[exit 0]\n");
    assert!(run(&["rm"]).contains("capability_absent"));
    assert!(run(&["leak"]).contains("does not pass on"));
    env.sbx(&["tools", "stop", "--session", "s", "--all"]);
    assert_eq!(env.sbx(&["tools", "run", "-a", "w", "greet", "who=x"]), "hello x\n[exit 0]\n");
}

/// Values that mean something to shells, options, paths and encodings.
const PIECES: &[&str] = &[
    "$(id)",
    "`id`",
    "${HOME}",
    "$1",
    "$@",
    "'",
    "\"",
    "\\",
    ";",
    "&&",
    "|",
    ">",
    "<",
    "*",
    "?",
    "[a]",
    "~",
    "#",
    "\n",
    "\r",
    "\t",
    " ",
    "  ",
    "!",
    "{a,b}",
    "é",
    "€",
    "\u{1b}[31m",
    "-",
    "--",
    "=",
    "a",
    "0",
    "%s",
    "%n",
    "\u{85}",
    "\u{202e}",
    "x\u{0301}",
    "$",
    "",
];

#[test]
fn what_reaches_the_child_is_the_template_with_the_values_byte_for_byte() {
    let env = world();
    env.write_record(
        "v.md",
        "---\nsandbox: {root: $PROJECT}\ncapabilities: [proc.exec, proc.eval]\ntools:
  list: {run: [printf, '%s\\0', --, '${a}', 'x${b}y', '--z=${a}${b}']}
  line: \"printf '%s\\\\0' -- ${a} x${b}y --z=${a}${b} <a\"\n---\n",
    );
    env.write("project/a", "");
    let mut state = 0x5eed_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).expect("small")
    };
    for round in 0..60 {
        let mut value = || (0..next(6)).map(|_| PIECES[next(PIECES.len())]).collect::<String>();
        let (a, b) = (value(), value());
        let wanted = format!("{a}\0x{b}y\0--z={a}{b}\0");
        let values = serde_json::json!({ "a": a, "b": b }).to_string();
        for tool in ["list", "line"] {
            let got = env.json(&["--json", "tools", "run", "-a", "v", tool, "--values-json", &values]);
            let stdout = got["stdout"].as_str().unwrap_or_default();
            let stdout = stdout.strip_prefix("--\0").unwrap_or_default();
            assert_eq!(stdout, wanted, "{tool} in round {round}: {values}\n{got:#}");
        }
    }
}

#[test]
fn an_operation_of_sbx_itself_does_not_wait_for_a_pipe() {
    let env = TestEnv::new();
    let tools = "  note: {kind: internal, api: fs.write, params: {path: path, content: text}}\n  show: {kind: internal, api: fs.read, params: {path: path}}\n";
    let record = format!(
        "id: w\ncapabilities:\n  - fs.read: {{in: $PROJECT}}\n  - fs.write: {{in: $PROJECT}}\ntools:\n{tools}"
    );
    env.write_record("w.yml", record);
    let pipe = env.project().join("pipe");
    assert!(env.command("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for call in [["show", "path=pipe", "path=pipe"], ["note", "path=pipe", "content=x"]] {
        let mut sbx = env.sbx_command(&[&["tools", "run", "--agent", "w"], call.as_slice()].concat());
        let mut child = sbx.stderr(std::process::Stdio::null()).spawn().expect("sbx starts");
        let begun = Instant::now();
        while child.try_wait().expect("a child").is_none() {
            if begun.elapsed() > Duration::from_secs(60) {
                let _ = (child.kill(), child.wait());
                unreachable!("{call:?} does not end");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!child.wait().expect("a status").success(), "{call:?}");
    }
}

#[test]
fn operations_of_sbx_itself_run_behind_the_fence() {
    let tools = "  note: {kind: internal, api: fs.write, params: {path: path, content: text}}\n  show: {kind: internal, api: fs.read, params: {path: path}, max_stdout_bytes: 5}\n  names: {kind: internal, api: fs.list, params: {path: path}}\n  drop: {kind: internal, api: fs.delete, params: {path: path}}\n";
    for (backend, accepted) in BACKENDS {
        let env = TestEnv::new();
        let verbs: String =
            ["read", "write", "delete"].map(|verb| format!("  - fs.{verb}: {{in: $PROJECT}}\n")).concat();
        env.write_record("w.yml", format!("id: w\ncapabilities:\n{verbs}tools:\n{tools}"));
        env.write("outside/secret", "not for w");
        let secret = env.home().with_file_name("outside/secret");
        let run = |broken: bool, tool: &str, values: &[&str]| {
            let let_off = format!("--allow-degraded={accepted}");
            let mut words = vec!["--json", "tools", "run", "-a", "w", "--backend", backend];
            words.extend(Some(let_off.as_str()).filter(|_| !accepted.is_empty()));
            words.push(tool);
            words.extend(values);
            let mut sbx = env.sbx_command(&words);
            if broken {
                sbx.env("SBX_TEST_BROKEN_MATCHER", "1");
            }
            let output = sbx.output().expect("sbx runs");
            serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("an answer")
        };
        let told = run(false, "note", &["path=n.txt", "content=hello world"]);
        assert_eq!(told["exit_code"], 0, "{backend}: {told}");
        let told = run(false, "show", &["path=n.txt"]);
        assert_eq!((&told["value"], &told["stdout_truncated"]), (&"hello".into(), &true.into()), "{backend}");
        assert_eq!(run(false, "names", &["path=."])["stdout"], ".git\nn.txt", "{backend}");
        let path = format!("path={}", secret.display());
        assert_eq!(run(false, "show", &[&path])["code"], "scope_violation", "{backend}");
        // A matcher that says yes to everything still meets the kernel.
        for (tool, values) in
            [("show", vec![path.as_str()]), ("note", vec![&path, "content=x"]), ("drop", vec![&path])]
        {
            let told = run(true, tool, &values);
            assert_eq!(told["code"], "not_done", "{backend} {tool}: {told}");
        }
        assert_eq!(std::fs::read_to_string(&secret).expect("it is there"), "not for w", "{backend}");
        assert_eq!(run(false, "drop", &["path=n.txt"])["exit_code"], 0, "{backend}");
        assert_eq!(run(false, "show", &["path=n.txt"])["code"], "not_done", "{backend}");
        env.write("project/raw", [0xff_u8, 0xfe]);
        let told = run(false, "show", &["path=raw"]);
        assert_eq!((&told["value"], &told["encoding"]), (&"//4=".into(), &"base64".into()), "{backend}");
    }
}

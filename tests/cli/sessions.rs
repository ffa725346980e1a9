//! What a session keeps, who reaches it, and what a review hears of.

use crate::support::program;
use crate::tools::{session_dirs, world};

#[test]
fn a_session_keeps_the_last_good_tools_of_a_file_that_an_edit_breaks() {
    let env = world();
    let file = "home/.config/sbx/tools/nap.toml";
    let nap = "name = \"nap\"\nkind = \"command\"\nbinary = \"sleep\"\nargs = [\"300\"]\npersistent = true\n";
    env.write(file, nap);
    let sbx = |args: &[&str]| env.sbx(&[&["tools"], args].concat());
    let start = || sbx(&["start", "-a", "w", "--session", "s", "nap"]);
    assert!(start().ends_with("[exit 0]\n"));
    assert!(sbx(&["stop", "--session", "s", "nap"]).ends_with("[exit 0]\n"));
    env.write(file, "name = ");
    let again = start();
    assert!(again.contains("last good tools are kept") && again.ends_with("[exit 0]\n"), "{again}");
    sbx(&["stop", "--session", "s", "--all"]);
}

#[test]
fn a_fenced_process_does_not_reach_its_session() {
    let env = world();
    let run = env.home().with_file_name("run");
    // Everything that can be granted is: what holds is that the state of sessions is not a place to grant.
    let record = format!(
        "---\nid: v\ncapabilities:\n  - fs.read: {{in: {run}}}\n  - fs.write: {{in: {run}}}\n  - proc.eval: {{in: $PROJECT}}\n  - fs.read: {{in: $PROJECT}}\n---\n",
        run = run.display()
    );
    env.write_record("v.md", record);
    env.sbx(&["tools", "start", "-a", "w", "--session", "s", "wait"]);
    let socket = session_dirs(&env).join("socket");
    assert!(socket.exists(), "{}", socket.display());
    let connect = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('{}'); print('reached')",
        socket.display()
    );
    // Outside the fence the same words do reach it, so that a wrong path would not pass for a wall.
    let outside = env.command("python3").args(["-c", &connect]).output().expect("python3");
    assert!(String::from_utf8_lossy(&outside.stdout).contains("reached"), "{outside:?}");
    for agent in ["w", "v"] {
        let told = env.sbx(&["eval", "-a", agent, &format!("python3 -c \"{connect}\"")]);
        assert!(!told.contains("reached"), "{agent}: {told}");
    }
    env.sbx(&["tools", "stop", "--session", "s", "--all"]);
}

#[test]
fn a_review_hears_of_records_that_are_not_trusted() {
    let env = world();
    env.write("project/.sbx/agents/helper.md", "---\nid: helper\ntools: {t: echo hi}\n---\n");
    let told = env.sbx(&["tools", "list", "--all"]);
    assert!(told.contains("helper.md: a project's record that is not trusted"), "{told}");
}

#[test]
fn a_session_keeps_nothing_of_whoever_began_it() {
    let env = world();
    let begin = "exec 9>&1 1>/dev/null; exec \"$0\" tools start -a w --session s --idle 60s daemon";
    let mut begun = env.command("sh");
    let begun = begun.args(["-c", begin]).arg(program()).stdout(std::process::Stdio::piped());
    let begun = begun.spawn().expect("a shell");
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        tell.send(begun.wait_with_output().is_ok_and(|output| output.status.success()))
    });
    let ended = told.recv_timeout(std::time::Duration::from_secs(20));
    env.sbx(&["tools", "stop", "--session", "s", "--all"]);
    assert_eq!(ended, Ok(true), "the pipe of whoever began it is closed with it");
}

//! Servers that lie in a place the agent may write: what they lead to is not shown, and what lies beside them is not run
//! outside.

use crate::support::TestEnv;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// A record that may read, write and run in the project.
fn record(env: &TestEnv, more: &str) {
    let root = env.project();
    let root = root.display();
    let grants = ["fs.read", "fs.write", "proc.exec"].map(|verb| format!("  - {verb}: {{in: {root}}}\n"));
    env.write_record("tester.yml", format!("id: tester\ncapabilities:\n{}{more}", grants.concat()));
}

fn program(env: &TestEnv, path: &str, text: &str) {
    let file = env.write(path, text);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// What `sbx mcp wrap` and the server say.
fn wrapped(env: &TestEnv, path: Option<&Path>, command: &[&str]) -> String {
    let lead = ["mcp", "wrap", "--agent", "tester", "--"];
    let mut sbx = env.sbx_command(&lead.iter().chain(command).copied().collect::<Vec<_>>());
    if let Some(path) = path {
        sbx.env("PATH", path);
    }
    let output = sbx.output().expect("sbx starts");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_script_chooses_no_interpreter_that_shows_its_surroundings() {
    let env = TestEnv::new();
    record(&env, "");
    let secret = env.write("secret.txt", "not for servers");
    let own = env.project().join("python3");
    let python = std::fs::canonicalize("/usr/bin/python3").expect("python");
    std::fs::copy(python, &own).expect("a copy");
    let script = format!(
        "#!{}\nimport sys\nsys.stderr.write('began\\n')\nsys.stderr.write(open({:?}).read())\n",
        own.display(),
        secret
    );
    program(&env, "project/server", &script);
    let said = wrapped(&env, None, &["./server"]);
    assert!(said.contains("began") && !said.contains("not for servers"), "{said}");
    // Nor one that lies elsewhere.
    program(&env, "tools/bin/python3", "#!/bin/sh\necho was run >&2\n");
    let line = format!("#!{}\n", env.home().with_file_name("tools/bin/python3").display());
    program(&env, "project/server", &line);
    let said = wrapped(&env, None, &["./server"]);
    assert!(said.contains("which the record does not open") && !said.contains("was run"), "{said}");
}

#[test]
fn a_link_in_a_writable_place_shows_nothing_of_where_it_leads() {
    let env = TestEnv::new();
    record(&env, "");
    env.write("other/package.json", "{}");
    let outside = env.write("other/index.js", "console.error('ran outside')");
    symlink(outside, env.project().join("server.js")).expect("a link");
    let said = wrapped(&env, None, &["node", "server.js"]);
    assert!(said.contains("which the record does not open") && !said.contains("ran outside"), "{said}");
}

#[test]
fn a_package_that_is_the_home_is_not_shown_whole() {
    let env = TestEnv::new();
    record(&env, "");
    env.write("home/package.json", "{}");
    let secret = env.write("home/secret.txt", "not for servers");
    let server = env.write(
        "home/server.js",
        format!("console.error('began'); console.error(require('fs').readFileSync({secret:?}, 'utf8'))"),
    );
    let said = wrapped(&env, None, &["node", server.to_str().expect("text")]);
    assert!(said.contains("began") && !said.contains("not for servers"), "{said}");
}

#[test]
fn the_users_tools_are_not_looked_for_where_an_agent_writes() {
    let env = TestEnv::new();
    let (bin, mark) = (env.project().join("bin"), env.home().join("owned"));
    let text = format!("#!/bin/sh\n: > {}\necho token\n", mark.display());
    for name in ["npx", "uv", "token"] {
        program(&env, &format!("project/bin/{name}"), &text);
    }
    record(&env, "");
    for command in [["npx", "-y", "thing"].as_slice(), &["uvx", "thing"]] {
        let said = wrapped(&env, Some(&bin), command);
        assert!(said.contains("is not installed (not looked for in"), "{said}");
        assert!(!mark.exists(), "{command:?} was run outside");
    }
    let inject = "  - net.get: {hosts: [api.test]}\n\
                  env:\n  TOKEN: {from: {command: [token]}, inject: {host: api.test, header: Authorization}}\n";
    record(&env, inject);
    let mut sbx = env.sbx_command(&["exec", "--agent", "tester", "--", "/bin/true"]);
    let output = sbx.env("PATH", &bin).output().expect("sbx starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("token is not one of your own programs"), "{said}");
    assert!(!mark.exists(), "the command for a secret was found in the project");
}

#[test]
fn a_name_means_the_file_that_it_means_inside() {
    let env = TestEnv::new();
    let root = env.project();
    let text = format!(
        "id: tester\ncapabilities:\n  - fs.read: {{in: {0}}}\n  - proc.exec: {{in: {0}, cmds: [echo, other]}}\n",
        root.display()
    );
    env.write_record("tester.yml", text);
    for name in ["echo", "other"] {
        program(&env, &format!("home/bin/{name}"), "#!/bin/sh\necho another >&2\n");
    }
    let path = format!("{}:/usr/bin:/bin", env.home().join("bin").display());
    let said = wrapped(&env, Some(Path::new(&path)), &["echo", "hello"]);
    assert!(!said.contains("another") && !said.contains("denied"), "{said}");
    let said = wrapped(&env, Some(Path::new(&path)), &["other"]);
    assert!(said.contains("may not proc.exec") && said.contains("home/bin/other"), "{said}");
    assert!(!said.contains("another"), "{said}");
}

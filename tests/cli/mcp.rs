//! `sbx mcp` as its users meet it.

use crate::support::TestEnv;
use expect_test::expect;

#[test]
fn a_server_is_added_to_a_client_with_its_comments_kept() {
    let env = TestEnv::new();
    env.write(
        "home/.codex/config.toml",
        "# mine\nmodel = \"x\" # good\n\n[mcp_servers.old]\ncommand = \"old\"\n",
    );
    let install = "sbx mcp install --client codex --agent scout --name files";
    expect![[r##"
        # mine
        model = "x" # good

        [mcp_servers.old]
        command = "old"

        [mcp_servers.files]
        command = "sbx"
        args = ["mcp", "wrap", "--agent", "scout", "--name", "files", "--", "npx", "-y", "files"]
        [exit 0]
    "##]]
    .assert_eq(&env.sh(&format!("{install} --print -- npx -y files | sed 's|\"/[^\"]*/sbx\"|\"sbx\"|'")));
    expect![[r#"
        [stderr]
        files: added
        [HOME]/.codex/config.toml written; before: [HOME]/.codex/config.toml.sbx-backup
        files: same
        [HOME]/.codex/config.toml is as it was
        [exit 0]
    "#]]
    .assert_eq(&env.sh(&format!("{install} -- npx -y files; {install} -- npx -y files")));
}

#[test]
fn without_a_server_sbx_itself_is_added_and_never_wrapped() {
    let env = TestEnv::new();
    let install = "sbx mcp install --client codex --agent scout";
    expect![[r#"
        [mcp_servers.sbx]
        command = "sbx"
        args = ["mcp", "serve", "--agent", "scout"]
        [exit 0]
    "#]]
    .assert_eq(&env.sh(&format!("{install} --print | sed 's|\"/[^\"]*/sbx\"|\"sbx\"|'")));
    expect![[r#"
        [stderr]
        sbx: added
        [HOME]/.codex/config.toml written
        sbx: same
        [HOME]/.codex/config.toml is as it was
        sbx: skipped: it is sbx itself, which fences every call
        [HOME]/.codex/config.toml is as it was
        [exit 0]
    "#]]
    .assert_eq(&env.sh(&format!("{install}; {install}; {install} --wrap-existing")));
}

#[test]
fn what_cannot_be_installed_is_said() {
    let env = TestEnv::new();
    env.write("project/.vscode/mcp.json", "{\"servers\": {\"a\": 1,}, oops}\n");
    expect![[r#"
        [stderr]
        error: there is no client `emacs`
          hint: they are claude-code, claude-desktop, codex, cursor, vscode, gemini
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["mcp", "install", "--client", "emacs", "--agent", "scout"]));
    expect![[r#"
        [stderr]
        error: [PROJECT]/.vscode/mcp.json cannot be edited: line 1: a string was expected
          hint: put it right first; nothing was changed
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&[
        "mcp",
        "install",
        "--client",
        "vscode",
        "--project",
        "--agent",
        "scout",
        "--name",
        "x",
        "--",
        "x",
    ]));
    expect![[r#"
        [stderr]
        error: a server needs an agent whose authority it gets
          hint: add --agent NAME
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["mcp", "install", "--client", "codex"]));
    expect![[r#"
        [stderr]
        error: there is no agent `nobody`
          hint: `sbx agents list` shows every agent
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["mcp", "install", "--client", "codex", "--agent", "nobody"]));
    expect![[r#"
        [stderr]
        error: `a__b` cannot be a server's name
          hint: clients put `__` between the names of server and tool
        [exit 2]
    "#]]
    .assert_eq(
        &env.sbx(&["mcp", "install", "--client", "codex", "--agent", "scout", "--name", "a__b", "--", "x"]),
    );
}

#[test]
fn a_server_that_may_not_run_does_not_start() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        sbx: all tools/actions permitted (there is no allowlist)
        error: capability_absent: fetcher may not proc.exec true: it does not hold proc.exec
          smallest grant: sbx agents grant fetcher 'proc.exec{in=[PROJECT],cmds=[true]}'
        [exit 126]
    "#]]
    .assert_eq(&env.sbx(&["mcp", "wrap", "--agent", "fetcher", "--", "true"]));
    env.write_record("bad.yml", "id: bad\nmcp: {allowed_tools: [\"!x\", \"*.y\"], tols: 1}\n");
    expect![[r#"
        [stderr]
        error: the record has errors
        error[bad_section]: `!x` allows nothing: an allowlist has no exceptions; leave out what is not to be allowed
         --> [HOME]/.config/sbx/agents/bad.yml:2:23
          |
        2 | mcp: {allowed_tools: ["!x", "*.y"], tols: 1}
          |                       ^^^^

        error[bad_section]: `*.y` allows nothing: a `*` stands alone or after a tool's name, as in `tool.*`
         --> [HOME]/.config/sbx/agents/bad.yml:2:29
          |
        2 | mcp: {allowed_tools: ["!x", "*.y"], tols: 1}
          |                             ^^^^^

        error[unknown_key]: `mcp` has no key `tols`
         --> [HOME]/.config/sbx/agents/bad.yml:2:37
          |
        2 | mcp: {allowed_tools: ["!x", "*.y"], tols: 1}
          |                                     ^^^^
          = help: `mcp` takes allowed_tools, case, actions, arguments, pins, preset, requires
        [exit 125]
    "#]].assert_eq(&env.sbx(&["mcp", "wrap", "--agent", "bad", "--", "true"]));
    env.write("project/list.yml", "allowed_tools: [observe.*, missing_quote");
    expect![[r#"
        [stderr]
        error: the allowlist has errors
        error[yaml]: this is not valid YAML: while parsing a flow sequence, expected ',' or ']'
         --> [PROJECT]/list.yml:1:41
          |
        1 | allowed_tools: [observe.*, missing_quote
          |                                         ^
        [exit 125]
    "#]]
    .assert_eq(&env.sbx(&["mcp", "wrap", "--agent", "builder", "--allowlist", "list.yml", "--", "true"]));
    expect![[r#"
        [stderr]
        error: pnpm dlx cannot be taken apart: it keeps packages where sbx does not look for them; use npx
          hint: `--no-resolve` runs the command as it is, inside the fence
        [exit 125]
    "#]]
    .assert_eq(&env.sbx(&["mcp", "wrap", "--agent", "builder", "--", "pnpm", "dlx", "x"]));
}

//! `sbx hook install` as its users meet it.

use crate::support::TestEnv;
use expect_test::expect;

#[test]
fn a_hook_is_put_into_a_clients_settings_with_its_comments_kept() {
    let env = TestEnv::new();
    env.write(
        "home/.claude/settings.json",
        "{\n  // mine\n  \"model\": \"x\",\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]} // own\n    ]\n  }\n}\n",
    );
    let install = "sbx hook install --client claude-code --agent builder";
    let shown = "sed 's|\"/[^\"]*/sbx\"|\"sbx\"|'";
    expect![[r#"
        -      {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]} // own
        +      {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}, // own
        +      {
        +        "hooks": [
        +          {
        +            "type": "command",
        +            "command": "sbx",
        +            "args": [
        +              "hook",
        +              "claude-code",
        +              "--agent",
        +              "builder"
        +            ],
        +            "timeout": 5,
        +            "onFailure": "block"
        +          }
        +        ]
        +      }
        [stderr]
        PreToolUse: added
        [HOME]/.claude/settings.json is as it was
        [exit 0]
    "#]]
    .assert_eq(&env.sh(&format!("{install} --dry-run | {shown}")));
    expect![[r#"
        [stderr]
        PreToolUse: added
        [HOME]/.claude/settings.json written; before: [HOME]/.claude/settings.json.sbx-backup
        PreToolUse: same
        [HOME]/.claude/settings.json is as it was
        PreToolUse: removed
        [HOME]/.claude/settings.json written; before: [HOME]/.claude/settings.json.sbx-backup-1
        [exit 0]
    "#]]
    .assert_eq(&env.sh(&format!("{install}; {install}; sbx hook install --client claude-code --uninstall")));
    expect![[r#"
        {
          // mine
          "model": "x",
          "hooks": {
            "PreToolUse": [
              {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]} // own
            ]
          }
        }
        [exit 0]
    "#]]
    .assert_eq(&env.sh("cat ~/.claude/settings.json"));
}

#[test]
fn each_client_gets_the_form_it_knows() {
    let env = TestEnv::new();
    let shown = |client: &str, more: &str| {
        env.sh(&format!(
            "sbx hook install --client {client} --agent builder {more} --print | sed 's|/[^\" ]*/sbx|/bin/sbx|'"
        ))
    };
    expect![[r#"
        {
          "hooks": {
            "PreToolUse": [
              {
                "hooks": [
                  {
                    "type": "command",
                    "command": "/bin/sbx hook codex --agent builder --pass '*'",
                    "timeout": 5
                  }
                ]
              }
            ]
          }
        }
        [stderr]
        note: Codex runs a hook once you have trusted it: it asks at its next start
        note: Codex lets a call run when a hook does not start or takes too long; `sbx doctor` looks for that
        [exit 0]
    "#]]
    .assert_eq(&shown("codex", "--pass '*'"));
    expect![[r#"
        {
          "version": 1,
          "hooks": {
            "preToolUse": [
              {
                "command": "/bin/sbx hook cursor --agent builder",
                "timeout": 5,
                "failClosed": true
              }
            ],
            "beforeShellExecution": [
              {
                "command": "/bin/sbx hook cursor --agent builder",
                "timeout": 5,
                "failClosed": true
              }
            ],
            "beforeMCPExecution": [
              {
                "command": "/bin/sbx hook cursor --agent builder",
                "timeout": 5,
                "failClosed": true
              }
            ],
            "beforeReadFile": [
              {
                "command": "/bin/sbx hook cursor --agent builder",
                "timeout": 5,
                "failClosed": true
              }
            ]
          }
        }
        [exit 0]
    "#]]
    .assert_eq(&shown("cursor", ""));
    expect![[r#"
        {
          "hooks": {
            "PreToolUse": [
              {
                "type": "command",
                "command": "/bin/sbx hook vscode --agent builder --ask",
                "timeout": 5
              }
            ]
          }
        }
        [stderr]
        note: VS Code lets a call run when a hook does not start; `sbx doctor` looks for that
        [exit 0]
    "#]]
    .assert_eq(&shown("vscode", "--ask"));
    expect![[r#"
        {
          "hooks": {
            "BeforeTool": [
              {
                "hooks": [
                  {
                    "name": "sbx",
                    "type": "command",
                    "command": "/bin/sbx hook gemini --agent builder",
                    "timeout": 5000
                  }
                ]
              }
            ]
          }
        }
        [stderr]
        note: Gemini lets a call run when a hook does not start; `sbx doctor` looks for that
        [exit 0]
    "#]]
    .assert_eq(&shown("gemini", ""));
}

#[test]
fn what_cannot_be_put_in_is_said() {
    let env = TestEnv::new();
    env.write("project/.cursor/hooks.json", "{\"version\": 1, \"hooks\": {\"preToolUse\": {}}}\n");
    expect![[r#"
        [stderr]
        error: there is no client `emacs`
          hint: they are claude-code, codex, cursor, vscode, gemini
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["hook", "install", "--client", "emacs", "--agent", "builder"]));
    expect![[r#"
        [stderr]
        error: a hook needs an agent whose authority the client's tools get
          hint: add --agent NAME
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["hook", "install", "--client", "codex"]));
    expect![[r#"
        [stderr]
        error: there is no agent `nobody`
          hint: `sbx agents list` shows every agent
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["hook", "install", "--client", "codex", "--agent", "nobody"]));
    expect![[r#"
        [stderr]
        error: codex cannot ask the user by a hook
          hint: leave out --ask
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["hook", "install", "--client", "codex", "--agent", "builder", "--ask"]));
    expect![[r#"
        [stderr]
        error: [PROJECT]/.cursor/hooks.json cannot be edited: `hooks.preToolUse` is not a list
          hint: put it right first; nothing was changed
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["hook", "install", "--client", "cursor", "--project", "--agent", "builder"]));
}

#[test]
fn a_projects_file_that_leads_out_of_it_is_not_written() {
    let env = TestEnv::new();
    env.write("home/victim.json", "{}\n");
    env.write("home/dir/kept", "");
    std::fs::create_dir_all(env.project().join(".claude")).expect("a directory");
    let link = |to: &str, at: &str| {
        std::os::unix::fs::symlink(env.home().join(to), env.project().join(at)).expect("a link");
    };
    link("victim.json", ".claude/settings.json");
    link("dir", ".cursor");
    for client in ["claude-code", "cursor"] {
        let told = env.sbx(&["hook", "install", "--client", client, "--agent", "builder", "--project"]);
        assert!(told.contains("leads out of the project") && told.contains("[exit 2]"), "{told}");
    }
    assert_eq!(std::fs::read_to_string(env.home().join("victim.json")).expect("it stands"), "{}\n");
    assert!(!env.home().join("dir/hooks.json").exists());
}

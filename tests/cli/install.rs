//! `sbx mcp install`: the files of clients, exactly.

use crate::support::{TestEnv, program};
use expect_test::{Expect, expect};

/// A client's file in which a server is wrapped, one is added, and all is taken back; each twice.
fn edits(client: &str, project: bool, path: &str, before: &str, wrapped: &Expect, added: &Expect) {
    let env = TestEnv::new();
    let file = env.write(path, before);
    let text = || std::fs::read_to_string(&file).expect("a file");
    let own = program().display().to_string();
    let list = if project { "--project " } else { "" };
    let install = |what: &str| env.sh(&format!("sbx mcp install --client {client} {list}{what}"));
    let shown = |text: &str| text.replace(&own, "sbx");

    let told = install("--agent scout --wrap-existing");
    assert!(told.contains("files: changed") && told.contains("sbx-backup"), "{client}: {told}");
    wrapped.assert_eq(&shown(&text()));
    let backup = format!("{}.sbx-backup", file.display());
    assert_eq!(std::fs::read_to_string(backup).expect("a backup"), before, "{client}");
    let once = text();
    assert!(install("--agent scout --wrap-existing").contains("is as it was"), "{client}");
    assert_eq!(text(), once, "{client}: the same again changes nothing");
    let told = install("--unwrap");
    assert!(told.contains("files: changed"), "{client}: {told}");
    assert_eq!(text(), before, "{client}: all is as it was");
    assert!(install("--unwrap").contains("is as it was"), "{client}");

    let add = "--agent scout --name tree -- uvx tree --all";
    assert!(install(add).contains("tree: added"), "{client}");
    added.assert_eq(&shown(&text()));
    assert!(install(add).contains("tree: same"), "{client}");
}

#[test]
fn a_record_is_named_so_that_it_is_found_from_anywhere() {
    let env = TestEnv::new();
    env.write("project/me.yml", "id: me\n");
    let told = env.sh("sbx mcp install --client codex --agent ./me.yml --print; sbx mcp install --client codex --agent me.yml --name a --print -- b");
    let record = env.project().join("me.yml");
    let named = format!("\"--agent\", \"{}\"", env.anonymous(&record.display().to_string()));
    assert_eq!(told.matches(&named).count(), 2, "{told}");
}

#[test]
fn vscode_lists_servers_with_their_type() {
    let before = r#"{
  // of this project
  "inputs": [{ "id": "key", "type": "promptString" }],
  "servers": {
    "files": {
      "type": "stdio",
      "command": "npx", // the newest
      "args": ["-y", "files", "${workspaceFolder}"],
      "envFile": "${workspaceFolder}/.env",
      "dev": { "watch": "src/**" },
    },
    "web": { "type": "http", "url": "https://a.example/mcp" },
  },
}
"#;
    let (wrapped, added) = (
        expect![[r#"
            {
              // of this project
              "inputs": [{ "id": "key", "type": "promptString" }],
              "servers": {
                "files": {
                  "type": "stdio",
                  "command": "sbx", // the newest
                  "args": ["mcp", "wrap", "--agent", "scout", "--name", "files", "--", "npx", "-y", "files", "${workspaceFolder}"],
                  "envFile": "${workspaceFolder}/.env",
                  "dev": { "watch": "src/**" },
                },
                "web": { "type": "http", "url": "https://a.example/mcp" },
              },
            }
        "#]],
        expect![[r#"
            {
              // of this project
              "inputs": [{ "id": "key", "type": "promptString" }],
              "servers": {
                "files": {
                  "type": "stdio",
                  "command": "npx", // the newest
                  "args": ["-y", "files", "${workspaceFolder}"],
                  "envFile": "${workspaceFolder}/.env",
                  "dev": { "watch": "src/**" },
                },
                "web": { "type": "http", "url": "https://a.example/mcp" },
                "tree": {
                  "type": "stdio",
                  "command": "sbx",
                  "args": [
                    "mcp",
                    "wrap",
                    "--agent",
                    "scout",
                    "--name",
                    "tree",
                    "--",
                    "uvx",
                    "tree",
                    "--all"
                  ]
                }
              },
            }
        "#]],
    );
    edits("vscode", true, "project/.vscode/mcp.json", before, &wrapped, &added);
}

#[test]
fn claude_desktop_has_one_list_for_the_user() {
    let before = r#"{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "files", "/w"],
      "env": { "KEY": "value" }
    }
  }
}
"#;
    let (wrapped, added) = (
        expect![[r#"
            {
              "globalShortcut": "Ctrl+Space",
              "mcpServers": {
                "files": {
                  "command": "sbx",
                  "args": ["mcp", "wrap", "--agent", "scout", "--name", "files", "--", "npx", "-y", "files", "/w"],
                  "env": { "KEY": "value" }
                }
              }
            }
        "#]],
        expect![[r#"
            {
              "globalShortcut": "Ctrl+Space",
              "mcpServers": {
                "files": {
                  "command": "npx",
                  "args": ["-y", "files", "/w"],
                  "env": { "KEY": "value" }
                },
                "tree": {
                  "command": "sbx",
                  "args": [
                    "mcp",
                    "wrap",
                    "--agent",
                    "scout",
                    "--name",
                    "tree",
                    "--",
                    "uvx",
                    "tree",
                    "--all"
                  ]
                }
              }
            }
        "#]],
    );
    let path = "home/.config/Claude/claude_desktop_config.json";
    edits("claude-desktop", false, path, before, &wrapped, &added);
}

#[test]
fn claude_code_keeps_lists_of_single_projects_too() {
    let before = r#"{
  "numStartups": 7,
  "mcpServers": {
    "files": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "files"],
      "timeout": 60000,
      "alwaysLoad": false
    }
  },
  "projects": {
    "/w/a": { "mcpServers": { "db": { "command": "dbd", "args": ["--ro"] } }, "history": ["x"] },
    "/w/b": {}
  }
}
"#;
    let (wrapped, added) = (
        expect![[r#"
            {
              "numStartups": 7,
              "mcpServers": {
                "files": {
                  "type": "stdio",
                  "command": "sbx",
                  "args": ["mcp", "wrap", "--agent", "scout", "--name", "files", "--", "npx", "-y", "files"],
                  "timeout": 60000,
                  "alwaysLoad": false
                }
              },
              "projects": {
                "/w/a": { "mcpServers": { "db": { "command": "sbx", "args": ["mcp", "wrap", "--agent", "scout", "--name", "db", "--", "dbd", "--ro"] } }, "history": ["x"] },
                "/w/b": {}
              }
            }
        "#]],
        expect![[r#"
            {
              "numStartups": 7,
              "mcpServers": {
                "files": {
                  "type": "stdio",
                  "command": "npx",
                  "args": ["-y", "files"],
                  "timeout": 60000,
                  "alwaysLoad": false
                },
                "tree": {
                  "type": "stdio",
                  "command": "sbx",
                  "args": [
                    "mcp",
                    "wrap",
                    "--agent",
                    "scout",
                    "--name",
                    "tree",
                    "--",
                    "uvx",
                    "tree",
                    "--all"
                  ]
                }
              },
              "projects": {
                "/w/a": { "mcpServers": { "db": { "command": "dbd", "args": ["--ro"] } }, "history": ["x"] },
                "/w/b": {}
              }
            }
        "#]],
    );
    edits("claude-code", false, "home/.claude.json", before, &wrapped, &added);
    let before = "{\n  \"mcpServers\": {\n    \"files\": { \"command\": \"npx\", \"args\": [\"-y\", \"files\"] }\n  }\n}\n";
    let (wrapped, added) = (
        expect![[r#"
            {
              "mcpServers": {
                "files": { "command": "sbx", "args": ["mcp", "wrap", "--agent", "scout", "--name", "files", "--", "npx", "-y", "files"] }
              }
            }
        "#]],
        expect![[r#"
            {
              "mcpServers": {
                "files": { "command": "npx", "args": ["-y", "files"] },
                "tree": {
                  "type": "stdio",
                  "command": "sbx",
                  "args": [
                    "mcp",
                    "wrap",
                    "--agent",
                    "scout",
                    "--name",
                    "tree",
                    "--",
                    "uvx",
                    "tree",
                    "--all"
                  ]
                }
              }
            }
        "#]],
    );
    edits("claude-code", true, "project/.mcp.json", before, &wrapped, &added);
}

#[test]
fn gemini_keeps_servers_among_its_settings() {
    let before = r#"{
  "theme": "Dark",
  // what is trusted
  "mcp": { "allowed": ["files"] },
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "files"],
      "env": { "KEY": "$KEY" },
      "trust": false,
      "includeTools": ["read"]
    }
  }
}
"#;
    let (wrapped, added) = (
        expect![[r#"
            {
              "theme": "Dark",
              // what is trusted
              "mcp": { "allowed": ["files"] },
              "mcpServers": {
                "files": {
                  "command": "sbx",
                  "args": ["mcp", "wrap", "--agent", "scout", "--name", "files", "--", "npx", "-y", "files"],
                  "env": { "KEY": "$KEY" },
                  "trust": false,
                  "includeTools": ["read"]
                }
              }
            }
        "#]],
        expect![[r#"
            {
              "theme": "Dark",
              // what is trusted
              "mcp": { "allowed": ["files"] },
              "mcpServers": {
                "files": {
                  "command": "npx",
                  "args": ["-y", "files"],
                  "env": { "KEY": "$KEY" },
                  "trust": false,
                  "includeTools": ["read"]
                },
                "tree": {
                  "command": "sbx",
                  "args": [
                    "mcp",
                    "wrap",
                    "--agent",
                    "scout",
                    "--name",
                    "tree",
                    "--",
                    "uvx",
                    "tree",
                    "--all"
                  ]
                }
              }
            }
        "#]],
    );
    edits("gemini", false, "home/.gemini/settings.json", before, &wrapped, &added);
}

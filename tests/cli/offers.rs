//! `sbx skills` and `sbx provider-tools`.

use crate::support::TestEnv;
use expect_test::expect;

fn with_skills() -> TestEnv {
    let env = TestEnv::new();
    env.write(
        "home/.claude/skills/reader/SKILL.md",
        "---\nname: reader\ndescription: reads files\nallowed-tools: Read, Grep\n---\nReads.\n",
    );
    env.write(
        "home/.claude/skills/writer/SKILL.md",
        "---\nname: writer\ndescription: writes files\nallowed-tools: Read, Write, Bash(git:*)\n---\nWrites.\n",
    );
    env.write(
        "home/.claude/skills/odd/SKILL.md",
        "---\nname: odd\ndescription: uses an odd tool\nallowed-tools: Read, Frobnicate\n---\nFrobs.\n",
    );
    env
}

#[test]
fn a_list_leaves_out_what_the_agent_cannot_use() {
    let env = with_skills();
    expect![[r#"
        odd                       uses an odd tool
        reader                    reads files
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["skills", "list", "--agent", "scout"]));
    expect![[r#"
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["skills", "list", "--agent", "fetcher"]));
    expect![[r#"
        [
          {
            "name": "odd",
            "description": "uses an odd tool"
          },
          {
            "name": "reader",
            "description": "reads files"
          },
          {
            "name": "writer",
            "description": "writes files"
          }
        ]
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["skills", "list", "--agent", "builder", "--json"]));
}

#[test]
fn check_says_what_is_held_and_what_is_missing() {
    let env = with_skills();
    expect![[r#"
        held     fs.read
        missing  fs.write
                 scout does not hold fs.write
        missing  proc.exec{patterns=[git:*]}
                 scout holds only proc.exec{in=$PROJECT,cmds=[rg,grep,ls,cat,head,tail,wc,sort,uniq,cut,tr,jq,file,stat,diff,du,tree,basename,dirname,realpath,true,echo],patterns=[git status *,git log *,git diff *,git show *,git blame *,git ls-files *,git rev-parse *,git describe *,git shortlog *,git grep *]}
        scout cannot use writer
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["skills", "check", "writer", "--agent", "scout"]));
    expect![[r#"
        held     fs.read
        held     fs.write
        held     proc.exec{patterns=[git:*]}
        builder can use writer
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["skills", "check", "writer", "--agent", "builder"]));
    expect![[r#"
        held     fs.read
        scout can use odd
        [stderr]
        `Frobnicate` stands for no capability that sbx knows; it is not checked
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["skills", "check", "odd", "--agent", "scout"]));
    expect![[r#"
        {
          "skill": "writer",
          "requires": [
            "fs.read",
            "fs.write",
            "proc.exec{patterns=[git:*]}"
          ],
          "unknown_tools": [],
          "missing": [
            {
              "requirement": "fs.write",
              "reason": "scout does not hold fs.write"
            },
            {
              "requirement": "proc.exec{patterns=[git:*]}",
              "reason": "scout holds only proc.exec{in=$PROJECT,cmds=[rg,grep,ls,cat,head,tail,wc,sort,uniq,cut,tr,jq,file,stat,diff,du,tree,basename,dirname,realpath,true,echo],patterns=[git status *,git log *,git diff *,git show *,git blame *,git ls-files *,git rev-parse *,git describe *,git shortlog *,git grep *]}"
            }
          ],
          "usable": false
        }
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["skills", "check", "writer", "--agent", "scout", "--json"]));
}

#[test]
fn a_skill_is_named_by_its_file_too() {
    let env = with_skills();
    let file = env.home().join(".claude/skills/reader/SKILL.md").display().to_string();
    expect![[r#"
        held     fs.read
        scout can use reader
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["skills", "check", &file, "--agent", "scout"]));
}

#[test]
fn a_missing_or_broken_skill_exits_2() {
    let env = with_skills();
    expect![[r#"
        [stderr]
        error: there is no skill `none`
          hint: name its SKILL.md, or give --dir
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["skills", "check", "none", "--agent", "scout"]));
    env.write("home/.claude/skills/bad/SKILL.md", "---\nname: [\n---\n");
    expect![[r#"
        [stderr]
        error: the skill has errors
        error[yaml]: this is not valid YAML: while parsing a node, did not find expected node content
         --> [HOME]/.claude/skills/bad/SKILL.md:3:1
          |
        3 | ---
          | ^
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["skills", "check", "bad", "--agent", "scout"]));
    expect![[r#"
        odd                       uses an odd tool
        reader                    reads files
        [stderr]
        error: the skill has errors
        error[yaml]: this is not valid YAML: while parsing a node, did not find expected node content
         --> [HOME]/.claude/skills/bad/SKILL.md:3:1
          |
        3 | ---
          | ^
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["skills", "list", "--agent", "scout"]));
}

#[test]
fn provider_tools_are_narrowed_to_the_hosts_of_net_get() {
    let env = TestEnv::new();
    env.write_record(
        "a.md",
        "---\ncapabilities:\n  - net.get: {hosts: [docs.example.com, \"*.example.org\"]}\n---\n",
    );
    expect![[r#"
        anthropic  web_search        only docs.example.com, example.org
          searches the web; results come only from the allowed domains
          docs.example.com: the provider may include its sub-domains
        anthropic  web_fetch         only docs.example.com, example.org
          fetches pages of the allowed domains
          docs.example.com: the provider may include its sub-domains
        openai     web_search        only docs.example.com, example.org
          searches the web; results come only from the allowed domains
          docs.example.com: the provider may include its sub-domains
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["provider-tools", "--agent", "a"]));
    expect![[r#"
        [
          {
            "provider": "openai",
            "tool": "web_search",
            "offered": true,
            "allowed_domains": [
              "docs.example.com",
              "example.org"
            ],
            "notes": [
              "searches the web; results come only from the allowed domains",
              "docs.example.com: the provider may include its sub-domains"
            ]
          }
        ]
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["provider-tools", "--agent", "a", "--provider", "openai", "--json"]));
}

#[test]
fn provider_tools_that_nothing_narrows_are_offered_only_when_named() {
    let env = TestEnv::new();
    env.write_record("a.md", "---\ncapabilities: []\n---\n");
    expect![[r#"
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["provider-tools", "--agent", "a"]));
    expect![[r#"
        anthropic  web_search        not offered
          searches the web; results come only from the allowed domains
          a holds no net.get on a domain
        anthropic  web_fetch         not offered
          fetches pages of the allowed domains
          a holds no net.get on a domain
        anthropic  code_execution    not offered
          runs code on the provider's machines, with what the conversation holds
          nothing can narrow it: name `code_execution` under `provider_tools` to offer it
        anthropic  mcp_connector     not offered
          lets the provider call servers that this machine never sees
          nothing can narrow it: name `mcp_connector` under `provider_tools` to offer it
        openai     web_search        not offered
          searches the web; results come only from the allowed domains
          a holds no net.get on a domain
        openai     code_interpreter  not offered
          runs code on the provider's machines
          nothing can narrow it: name `code_interpreter` under `provider_tools` to offer it
        openai     file_search       not offered
          reads whatever was uploaded to the provider
          nothing can narrow it: name `file_search` under `provider_tools` to offer it
        openai     computer_use      not offered
          operates a desktop
          nothing can narrow it: name `computer_use` under `provider_tools` to offer it
        gemini     google_search     not offered
          searches the web; it cannot be limited to domains
          nothing can narrow it: name `google_search` under `provider_tools` to offer it
        gemini     url_context       not offered
          fetches any page; it cannot be limited to domains
          nothing can narrow it: name `url_context` under `provider_tools` to offer it
        gemini     code_execution    not offered
          runs code on the provider's machines
          nothing can narrow it: name `code_execution` under `provider_tools` to offer it
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["provider-tools", "--agent", "a", "--all"]));
    env.write_record("b.md", "---\ncapabilities: []\nprovider_tools: [code_execution]\n---\n");
    expect![[r#"
        anthropic  code_execution    unrestricted
          runs code on the provider's machines, with what the conversation holds
        gemini     code_execution    unrestricted
          runs code on the provider's machines
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["provider-tools", "--agent", "b"]));
}

#[test]
fn an_unknown_provider_exits_2_and_an_unknown_tool_is_a_finding() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: there is no provider `anthrpic`
          hint: sbx knows anthropic, openai, gemini
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["provider-tools", "--agent", "fetcher", "--provider", "anthrpic"]));
    env.write_record("b.md", "---\ncapabilities: []\nprovider_tools: [code_exec]\n---\n");
    expect![[r#"
        warning[bad_section]: no provider has a tool `code_exec` that must be named
         --> [HOME]/.config/sbx/agents/b.md
          = did you mean `code_execution`?
          = help: `sbx provider-tools --all` lists them

        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["agents", "lint", "b"]));
}

//! A project's record: refused until looked at, and again after every change.

use crate::support::TestEnv;
use expect_test::expect;

const HELPER: &str = "---\ncapabilities:\n  - net.post: {hosts: [evil.example]}\n  - fs.read: {in: /srv}\n  - fs.read\nenv: [TOKEN, {KEY: {inject: {host: api.example, header: X-Key}}}]\nlisten: [8080]\naccept_degraded: [fs-glob]\nprovider_tools: [code_execution]\n---\n";

fn with_project_record() -> TestEnv {
    let env = TestEnv::new();
    env.write("project/.sbx/agents/helper.md", HELPER);
    env
}

#[test]
fn an_untrusted_record_is_listed_but_refused_with_the_way_to_trust_it() {
    let env = with_project_record();
    expect![[r#"
        builder  built-in  high    edits, builds and tests the current project, without network
        fetcher  built-in  medium  fetches from the public internet, and nothing else
        scout    built-in  high    reads the current project and runs read-only tools in it
        helper   project   high      (not trusted)
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "list"]));
    expect![[r#"
        [stderr]
        error: [PROJECT]/.sbx/agents/helper.md is a project's record that you have not trusted in its present form
          hint: look at what it grants, then: sbx agents trust [PROJECT]/.sbx/agents/helper.md
        [exit 2]
    "#]].assert_eq(&env.sbx(&["check", "--agent", "helper", "fs.read", "x"]));
    expect![[r#"
        [stderr]
        error: [PROJECT]/.sbx/agents/helper.md is a project's record that you have not trusted in its present form
          hint: look at what it grants, then: sbx agents trust [PROJECT]/.sbx/agents/helper.md
        [exit 2]
    "#]].assert_eq(&env.sbx(&["check", "--agent", ".sbx/agents/helper.md", "fs.read", "x"]));
    expect![[r#"
        [stderr]
        error: [PROJECT]/.sbx/agents/helper.md is a project's record that you have not trusted in its present form
          hint: look at what it grants, then: sbx agents trust [PROJECT]/.sbx/agents/helper.md
        [exit 2]
    "#]].assert_eq(&env.sbx(&["agents", "grant", "helper", "records.read", "--yes"]));
}

#[test]
fn trust_shows_what_the_record_would_grant_highest_risk_first() {
    let env = with_project_record();
    expect![[r#"
        [stderr]
        helper would hold:
        high    net.post{hosts=[evil.example]}  [PROJECT]/.sbx/agents/helper.md:3
        medium  fs.read{in=/srv}  in [PROJECT]  (clamped)  [PROJECT]/.sbx/agents/helper.md:4
        medium  fs.read  in [PROJECT]  [PROJECT]/.sbx/agents/helper.md:5
        environment: TOKEN, KEY (only for api.example)
        listens on port: 8080
        does without: fs-glob
        on the provider's side: code_execution
        warning[root_clamped]: the grant `in` /srv lies outside [PROJECT] of the project directory and was narrowed to that
         --> [PROJECT]/.sbx/agents/helper.md:4:5
          |
        4 |   - fs.read: {in: /srv}
          |     ^^^^^^^^^^^^^^^^^^^
          = help: a deeper root can only narrow; widen the outer one first
        error: this needs a yes, and there is no terminal to ask on
          hint: add --yes
        [exit 2]
    "#]].assert_eq(&env.sbx(&["agents", "trust", ".sbx/agents/helper.md"]));
    assert_eq!(env.files(), ["[PROJECT]/.sbx/agents/helper.md"]);
    expect![[r#"
        trusted [PROJECT]/.sbx/agents/helper.md
        [stderr]
        helper would hold:
        high    net.post{hosts=[evil.example]}  [PROJECT]/.sbx/agents/helper.md:3
        medium  fs.read{in=/srv}  in [PROJECT]  (clamped)  [PROJECT]/.sbx/agents/helper.md:4
        medium  fs.read  in [PROJECT]  [PROJECT]/.sbx/agents/helper.md:5
        environment: TOKEN, KEY (only for api.example)
        listens on port: 8080
        does without: fs-glob
        on the provider's side: code_execution
        warning[root_clamped]: the grant `in` /srv lies outside [PROJECT] of the project directory and was narrowed to that
         --> [PROJECT]/.sbx/agents/helper.md:4:5
          |
        4 |   - fs.read: {in: /srv}
          |     ^^^^^^^^^^^^^^^^^^^
          = help: a deeper root can only narrow; widen the outer one first
        [exit 0]
    "#]].assert_eq(&env.sbx(&["agents", "trust", ".sbx/agents/helper.md", "--yes"]));
    expect![[r#"
        [PROJECT]/.sbx/agents/helper.md is already trusted as it is
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "trust", ".sbx/agents/helper.md"]));
}

#[test]
fn a_trusted_record_is_used_with_the_project_as_its_outermost_root() {
    let env = with_project_record();
    env.sbx(&["agents", "trust", ".sbx/agents/helper.md", "--yes"]);
    expect![[r#"
        high    net.post{hosts=[evil.example]}  [PROJECT]/.sbx/agents/helper.md:3
        medium  fs.read{in=/srv}  in [PROJECT]  (clamped)  [PROJECT]/.sbx/agents/helper.md:4
        medium  fs.read  in [PROJECT]  [PROJECT]/.sbx/agents/helper.md:5
        [stderr]
        warning[root_clamped]: the grant `in` /srv lies outside [PROJECT] of the project directory and was narrowed to that
         --> [PROJECT]/.sbx/agents/helper.md:4:5
          |
        4 |   - fs.read: {in: /srv}
          |     ^^^^^^^^^^^^^^^^^^^
          = help: a deeper root can only narrow; widen the outer one first
        [exit 0]
    "#]].assert_eq(&env.sbx(&["agents", "capabilities", "helper"]));
    expect![[r#"
        scope_violation: helper may not fs.read /srv/x
          nearest grant: fs.read{in=/srv} at [PROJECT]/.sbx/agents/helper.md:4
          why not: /srv/x lies outside [PROJECT]
          hint: no grant reaches /srv/x: the project directory keeps the agent below [PROJECT]
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["check", "--agent", "helper", "fs.read", "/srv/x"]));
}

#[test]
fn a_changed_record_must_be_trusted_again() {
    let env = with_project_record();
    env.sbx(&["agents", "trust", ".sbx/agents/helper.md", "--yes"]);
    env.write("project/.sbx/agents/helper.md", HELPER.replace("evil.example", "worse.example"));
    expect![[r#"
        [stderr]
        error: [PROJECT]/.sbx/agents/helper.md is a project's record that you have not trusted in its present form
          hint: look at what it grants, then: sbx agents trust [PROJECT]/.sbx/agents/helper.md
        [exit 2]
    "#]].assert_eq(&env.sbx(&["check", "--agent", "helper", "fs.read", "x"]));
    // The old text is still the one that was trusted.
    env.write("project/.sbx/agents/helper.md", HELPER);
    expect![[r#"
        allowed: fs.read [PROJECT]/x
          by medium  fs.read{in=/srv}  in [PROJECT]  (clamped)  [PROJECT]/.sbx/agents/helper.md:4
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["check", "--agent", "helper", "fs.read", "x"]));
}

#[test]
fn a_users_own_change_to_a_trusted_record_keeps_it_trusted() {
    let env = with_project_record();
    env.sbx(&["agents", "trust", ".sbx/agents/helper.md", "--yes"]);
    expect![[r#"
        revoked net.post in [PROJECT]/.sbx/agents/helper.md
        [stderr]
        take net.post away from [PROJECT]/.sbx/agents/helper.md
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "revoke", "helper", "net.post", "--yes"]));
    expect![[r#"
        allowed: fs.read [PROJECT]/x
          by medium  fs.read{in=/srv}  in [PROJECT]  (clamped)  [PROJECT]/.sbx/agents/helper.md:3
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["check", "--agent", "helper", "fs.read", "x"]));
}

#[test]
fn a_projects_record_never_shadows_a_name() {
    let env = TestEnv::new();
    let greedy = "---\ncapabilities:\n  - proc.exec: {in: /}\n---\n";
    let scout = env.write("project/.sbx/agents/scout.md", greedy);
    env.write("project/.sbx/agents/mine.md", greedy);
    env.write_record("mine.md", "---\ncapabilities: []\n---\n");
    for file in [".sbx/agents/scout.md", ".sbx/agents/mine.md"] {
        env.sbx(&["agents", "trust", file, "--yes"]);
    }
    let shown = env.json(&["--json", "agents", "show", "scout"]);
    assert_eq!(shown["from"], "built-in");
    let shown = env.json(&["--json", "agents", "show", "mine"]);
    assert_eq!(shown["from"], "user");
    // By its path it is itself, held to its project.
    let shown = env.json(&["--json", "agents", "show", &scout.display().to_string()]);
    assert_eq!(shown["grants"][0]["root"], env.project().display().to_string());
}

#[test]
fn a_record_of_the_users_own_needs_no_trust() {
    let env = TestEnv::new();
    let file = env.write_record("a.md", "---\ncapabilities: []\n---\n");
    expect![[r#"
        [stderr]
        error: [HOME]/.config/sbx/agents/a.md is not a project's record and needs no trust
          hint: a project's records lie in its `.sbx/agents` directory
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "trust", &file.display().to_string(), "--yes"]));
    expect![[r#"
        [stderr]
        error: cannot read [PROJECT]/missing.md
          caused by: No such file or directory (os error 2)
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "trust", "missing.md", "--yes"]));
}

#[test]
fn a_link_out_of_the_users_directory_into_a_project_is_still_the_projects_record() {
    let env = with_project_record();
    std::fs::create_dir_all(env.home().join(".config/sbx/agents")).expect("directories");
    std::os::unix::fs::symlink(env.project().join(".sbx/agents/helper.md"), env.record("linked.md"))
        .expect("a link");
    expect![[r#"
        [stderr]
        error: [PROJECT]/.sbx/agents/helper.md is a project's record that you have not trusted in its present form
          hint: look at what it grants, then: sbx agents trust [PROJECT]/.sbx/agents/helper.md
        [exit 2]
    "#]].assert_eq(&env.sbx(&["agents", "show", "linked"]));
}

#[test]
fn a_broken_record_cannot_be_trusted() {
    let env = TestEnv::new();
    env.write("project/.sbx/agents/bad.md", "---\nlimits: {wal: 1s}\n---\n");
    expect![[r#"
        [stderr]
        error: the record has errors
        error[unknown_key]: `limits` has no key `wal`
         --> [PROJECT]/.sbx/agents/bad.md:2:10
          |
        2 | limits: {wal: 1s}
          |          ^^^
          = did you mean `wall`?
          = help: `limits` takes wall, cpu, memory, pids, files, file_size, tmp, output
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "trust", ".sbx/agents/bad.md", "--yes"]));
}

#[test]
fn lint_reads_an_untrusted_record_without_using_it() {
    let env = with_project_record();
    expect![[r#"
        warning[inert]: KEY is for api.example, which no net.* grant reaches
         --> [PROJECT]/.sbx/agents/helper.md
          = help: grant it: `net.get: {hosts: [api.example]}`, or take the rule out

        warning[root_clamped]: the grant `in` /srv lies outside [PROJECT] of the project directory and was narrowed to that
         --> [PROJECT]/.sbx/agents/helper.md:4:5
          |
        4 |   - fs.read: {in: /srv}
          |     ^^^^^^^^^^^^^^^^^^^
          = help: a deeper root can only narrow; widen the outer one first

        [exit 1]
    "#]].assert_eq(&env.sbx(&["agents", "lint", "helper"]));
}

//! What is printed after a refusal: it names the fence's own refusals only, and what it suggests works when pasted.

use crate::bench::{Bench, Run};

/// Reads and runs in the project, and nothing else.
const READER: &str = "capabilities:\n  - fs.read: {in: $PROJECT}\n  - proc.exec: {in: $PROJECT}\n";
/// What the built-in builder holds of files.
const BUILDER: &str = "capabilities:\n  - fs.read: {in: $PROJECT}\n  - fs.write: {in: $PROJECT}\n  \
                       - fs.delete: {in: $PROJECT}\n  - proc.exec: {in: $PROJECT}\n";
/// The most times that somebody pastes what is printed.
const ROUNDS: usize = 8;

fn project(name: &str, record: &str) -> Bench {
    let bench = Bench::new(name);
    bench.own_record("mine", record);
    bench.shell_line(
        "git init -q . && git config user.name a && git config user.email a@b && echo a > f && mkdir sub empty && echo b > .envrc",
    );
    bench
}

/// The commands that are printed to be pasted.
fn commands(run: &Run) -> Vec<String> {
    let lines =
        run.stderr.lines().filter_map(|line| line.find("sbx agents grant").map(|at| line[at..].to_owned()));
    lines.collect()
}

/// Runs a command, pastes what is suggested, and again, until it succeeds. The last run, and how many it took.
fn pasted(bench: &Bench, options: &str, command: &str) -> (Run, usize) {
    for round in 0.. {
        let run = bench.shell_line(&format!("SBX exec --agent mine {options} -- {command}"));
        let suggested = commands(&run);
        if run.status == 0 || suggested.is_empty() || round == ROUNDS {
            return (run, round);
        }
        // git asks its user to take away what a run left that could not take it away itself.
        bench.shell_line("find .git -name '*.lock' -delete");
        for command in suggested {
            let given = bench.shell_line(&format!("{} --yes", command.replacen("sbx", "SBX", 1)));
            assert_eq!(given.status, 0, "{command}: {}", given.stderr);
        }
    }
    unreachable!("rounds end")
}

#[test]
fn what_is_suggested_works_when_it_is_pasted() {
    for (command, most) in [
        ("touch new", 1),
        ("sh -c 'echo x > sub/new'", 1),
        ("rm f", 1),
        ("rmdir empty", 1),
        ("mv f g", 2),
        ("mv f sub/f", 2),
        ("mkdir d", 1),
        ("mkdir -p d/e/h", 1),
        ("cp f g", 1),
        ("cp f .envrc", 1),
        ("ln f g", 1),
        ("ln -s f g", 1),
        ("sed -i s/a/b/ f", 2),
        ("sed -i s/a/b/ .envrc", 3),
        ("touch -d yesterday f", 1),
        ("sh -c 'echo x >> f'", 1),
        ("git add f", 3),
        ("git commit -q --allow-empty -m x", 4),
        ("git config a.b c", 3),
    ] {
        let bench = project("pasted", READER);
        let (run, rounds) = pasted(&bench, "--explain", command);
        assert_eq!(run.status, 0, "{command} after {rounds}: {}", run.stderr);
        assert!(rounds > 0 && rounds <= most, "{command} took {rounds}");
    }
}

#[test]
fn what_replaces_a_protected_file_gets_both_grants_at_once() {
    for command in ["git config a.b c", "git remote add o /x", "mv f .envrc", "sed -i s/b/c/ .envrc"] {
        let bench = project("replaced", BUILDER);
        let (run, rounds) = pasted(&bench, "", command);
        assert_eq!((run.status, rounds), (0, 1), "{command}: {}", run.stderr);
    }
}

#[test]
fn what_would_have_failed_without_a_fence_is_no_refusal() {
    let bench = project("unrefused", BUILDER);
    for command in
        ["mkdir -p $PWD/src/a/b", "readlink /etc", "rm -f nothing", "ls nothing", "cat sub", "rmdir sub/no"]
    {
        let run = bench.shell_line(&format!("SBX exec --agent mine --explain -- {command}"));
        assert!(!run.stderr.contains("sbx: refused"), "{command}: {}", run.stderr);
    }
}

#[test]
fn a_link_that_leads_out_of_the_project_is_explained() {
    let bench = project("leading-out", BUILDER);
    bench.shell_line("mkdir ../outside && echo seen > ../outside/f && ln -s ../outside/f lnk");
    let (run, rounds) = pasted(&bench, "--explain", "cat lnk");
    assert_eq!((run.stdout.as_str(), rounds), ("seen\n", 1), "{}", run.stderr);
}

#[test]
fn what_the_user_could_not_do_either_gets_no_grant() {
    let bench = project("beyond", BUILDER);
    bench.shell_line("mkdir ../closed && echo x > ../closed/f && chmod 0 ../closed/f && chmod 555 ../closed");
    if bench.is_root() {
        return;
    }
    for (command, doing) in [
        ("cat ../closed/f", "read that"),
        ("ls -l ../closed/f", "read that"),
        ("touch ../closed/new", "do that"),
        ("rm ../closed/f", "do that"),
    ] {
        let run = bench.shell_line(&format!("SBX exec --agent mine --explain -- {command}"));
        assert!(commands(&run).is_empty(), "{command}: {}", run.stderr);
        assert!(
            run.stderr.contains(&format!("hint: you cannot {doing} yourself: Permission denied")),
            "{command}: {}",
            run.stderr
        );
    }
    let run = bench.shell_line("SBX exec --agent mine -- touch /usr/lib/sbx-new");
    assert!(run.status != 0 && !run.stderr.contains("sbx: refused"), "{}", run.stderr);
    bench.shell_line("chmod 755 ../closed");
}

#[test]
fn a_repository_that_lies_elsewhere_is_one_remark() {
    let linked = "git -C repo commit -q --allow-empty -m x && git -C repo worktree add -q ../tree";
    let apart = "git init -q --separate-git-dir=$PWD/store tree && git -C tree commit -q --allow-empty -m x";
    let submodule = "git -C repo commit -q --allow-empty -m x && git init -q top && \
                     git -C top -c protocol.file.allow=always submodule --quiet add $PWD/repo s";
    for (made, tree) in [(linked, "tree"), (apart, "tree"), (submodule, "top/s")] {
        let bench = Bench::new("elsewhere");
        bench.own_record("mine", BUILDER);
        let run = bench.shell_line(&format!(
            "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git init -q repo; {made}"
        ));
        assert_eq!(run.status, 0, "{made}: {}", run.stderr);
        let script = "echo x > new && git status --short && git add new && git -c user.name=a -c user.email=a@b commit -qm y";
        let launch = |options: &str| {
            bench.shell_line(&format!("cd {tree} && SBX exec --agent mine {options} -- sh -c '{script}'"))
        };
        let told = launch("");
        assert!(
            told.stderr.contains("the repository of this working tree lies outside"),
            "{made}: {}",
            told.stderr
        );
        assert_eq!(commands(&told).len(), 3, "{made}: {}", told.stderr);
        let explained = launch("--explain");
        assert_eq!(commands(&explained), commands(&told), "{made}: {}", explained.stderr);
        for command in commands(&told) {
            assert_eq!(bench.shell_line(&format!("{} --yes", command.replacen("sbx", "SBX", 1))).status, 0);
        }
        let run = launch("");
        assert_eq!(run.status, 0, "{made}: {}", run.stderr);
        let run = bench.shell_line(&format!("cd {tree} && SBX exec --agent mine -- git nonsense"));
        assert!(run.status != 0 && !run.stderr.contains("lies outside"), "{made}: {}", run.stderr);
    }
}

#[test]
fn a_git_that_lacks_the_users_own_settings_is_told_of() {
    let bench = project("settings", BUILDER);
    bench.shell_line("git config --unset user.name; git config --unset user.email; printf '[user]\\nname=a\\nemail=a@b\\n' > $HOME/.gitconfig");
    let (run, rounds) = pasted(&bench, "", "git commit -q --allow-empty -m x");
    assert_eq!((run.status, rounds), (0, 1), "{}", run.stderr);
    let run = bench.shell_line("SBX exec --agent mine -- git nonsense");
    assert!(!run.stderr.contains("settings of git"), "{}", run.stderr);
}

#[test]
fn settings_of_git_are_missed_only_by_what_would_read_them() {
    let bench = project("unmissed", BUILDER);
    bench.shell_line("printf '[user]\\nname=a\\nemail=a@b\\n[alias]\\nco=checkout\\n' > $HOME/.gitconfig; git add f; git init -q sub");
    let told = |command: &str| {
        let run = bench.shell_line(&format!("SBX exec --agent mine -- {command}"));
        assert_ne!(run.status, 0, "{command}: {}", run.stderr);
        run.stderr.contains("settings of git")
    };
    for command in ["git diff --cached --quiet", "git nonsense", "git commit -q", "git push"] {
        assert!(!told(command), "{command}");
    }
    // An alias is known there only, and so may be the name that another repository wants.
    for command in [
        "git co main",
        "git -C sub commit --allow-empty -qm x",
        "sh -c 'cd sub; git commit --allow-empty -qm x'",
    ] {
        assert!(told(command), "{command}");
    }
}

#[test]
fn a_file_of_the_users_own_that_was_looked_for_in_the_private_home_gets_its_grant() {
    let bench = project("looked-for", BUILDER);
    bench.shell_line("printf '[user]\\nname=a\\n' > $HOME/.gitconfig");
    let run = bench.shell_line("SBX exec --agent mine --explain -- git log");
    assert_ne!(run.status, 0, "{}", run.stderr);
    let granted = |command: &String| command.contains("/home,paths=[.gitconfig]}");
    assert!(commands(&run).iter().any(granted), "{}", run.stderr);
    assert!(!run.stderr.contains("you cannot read that yourself"), "{}", run.stderr);
    if !bench.is_root() {
        bench.shell_line("chmod 0 $HOME/.gitconfig");
        let run = bench.shell_line("SBX exec --agent mine --explain -- git log");
        let said = "hint: you cannot read that yourself: Permission denied";
        assert!(!commands(&run).iter().any(granted) && run.stderr.contains(said), "{}", run.stderr);
    }
}

#[test]
fn programs_that_read_the_outcome_are_told_of_refusals_too() {
    let bench = project("machines", BUILDER);
    let status = bench.shell_line("SBX exec --agent mine --status-fd 3 -- touch .envrc 3>status; cat status");
    assert_eq!(commands(&status).len(), 1, "{}", status.stderr);
    let json = bench.shell_line("SBX exec --agent mine --json -- touch .envrc");
    assert_eq!((json.status, json.stderr.as_str()), (1, ""));
    for told in [&status.stdout, &json.stdout] {
        let told: serde_json::Value = serde_json::from_str(told).expect("JSON");
        let refused = told["refused"].as_array().expect("a list");
        assert_eq!((refused.len(), &refused[0]["code"]), (1, &"scope_violation".into()), "{told:#}");
        assert_eq!(refused[0]["command"], commands(&status)[0].as_str(), "{told:#}");
        assert_eq!(told["closed_calls"], serde_json::json!([]));
    }
    let told = bench.shell_line("SBX exec --agent mine --json -- sh -c 'touch .envrc; true'").stdout;
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert!(told["refused"].is_null(), "{told:#}");
    assert!(
        told["remarks"][0].as_str().is_some_and(|remark| remark.contains(".envrc is protected")),
        "{told:#}"
    );
}

#[test]
fn many_names_in_a_protected_directory_are_one_refusal_that_names_it() {
    let bench = project("many", BUILDER);
    bench.shell_line(
        "git init -q cl; cd cl/.git/hooks; rm -f *; touch a b c d; cd ../../..; echo '{}' > cl/.mcp.json",
    );
    let run = bench.shell_line("SBX exec --agent mine -- rm -rf cl");
    let given = commands(&run);
    assert_eq!(given.len(), 3, "{}", run.stderr);
    assert!(given.iter().any(|command| command.contains("paths=[cl/.git/hooks]")), "{}", run.stderr);
    assert!(run.stderr.contains("hint: 3 more were refused in "), "{}", run.stderr);
    assert!(!run.stderr.contains(" more refused"), "{}", run.stderr);
    let (run, rounds) = pasted(&bench, "", "rm -rf cl");
    assert_eq!((run.status, rounds, bench.exists("cl")), (0, 1, false), "{}", run.stderr);
}

#[test]
fn how_many_refusals_are_not_told_is_said() {
    let bench = project("untold", BUILDER);
    let script = "for n in $(seq 25); do mkdir d$n; echo x > d$n/.envrc; done; false";
    bench.shell_line(&format!("sh -c '{script}'"));
    let said = |options: &str, line: &str| {
        let run =
            bench.shell_line(&format!("SBX exec --agent mine {options} -- sh -c 'rm -f d*/.envrc; false'"));
        assert!(run.stderr.lines().any(|told| told == line), "{}", run.stderr);
    };
    said("", "sbx: and 22 more refused; --explain tells more");
    said("--explain", "sbx: and 5 more refused");
    let told = bench.shell_line("SBX exec --agent mine --json -- sh -c 'rm -f d*/.envrc; false'").stdout;
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((told["refused"].as_array().map(Vec::len), &told["refused_more"]), (Some(20), &5.into()));
}

#[test]
fn a_program_that_needs_a_network_and_has_none_is_told_so() {
    let bench = project("networkless", BUILDER);
    let said = "sbx: mine holds no net.*: the command had no network\n";
    for command in ["curl -s http://example.com", "sh -c 'cd sub && git fetch https://example.com/x'"] {
        let run = bench.shell_line(&format!("SBX exec --agent mine -- {command}"));
        assert!(run.status != 0 && run.stderr.contains(said), "{command}: {}", run.stderr);
    }
    for command in [
        "git nonsense",
        "false",
        "grep http://x f",
        "git clone . ../x",
        "git fetch ../x",
        "git push origin a:b",
    ] {
        let run = bench.shell_line(&format!("SBX exec --agent mine -- {command}"));
        assert!(run.status != 0 && !run.stderr.contains("no network"), "{command}: {}", run.stderr);
    }
}

#[test]
fn a_project_named_by_a_link_is_where_the_link_leads() {
    let bench = project("linked", BUILDER);
    let run = bench.shell_line("ln -s work ../lp; cd / && SBX exec --agent mine --project \"$HOME/../lp\" --in \"$HOME/../lp\" -- cat f");
    assert_eq!((run.status, run.stdout.as_str()), (0, "a\n"), "{}", run.stderr);
}

#[test]
fn a_home_inside_the_project_is_named() {
    let bench = project("housed", BUILDER);
    let run = bench.shell_line("mkdir hh; HOME=$PWD/hh SBX exec --agent builder --project $PWD -- true");
    assert_eq!(run.status, 126);
    assert!(run.stderr.contains("/work contains your home directory"), "{}", run.stderr);
    assert!(run.stderr.contains("set HOME to a directory outside"), "{}", run.stderr);
}

#[test]
fn what_a_shell_tries_as_a_matter_of_course_is_told_only_after_a_failure() {
    let bench = project("course", BUILDER);
    let socket = "python3 -c 'import socket, sys; \ntry: socket.socket(socket.AF_UNIX)\nexcept OSError: sys.exit(STATUS)'";
    let run = |status: &str| {
        bench.shell_line(&format!("SBX exec --agent mine --explain -- {}", socket.replace("STATUS", status)))
    };
    assert!(!run("0").stderr.contains("the system call socket"), "{}", run("0").stderr);
    assert!(run("3").stderr.contains("the system call socket"), "{}", run("3").stderr);
}

#[test]
fn a_command_that_cannot_begin_says_what_is_wrong_with_it() {
    let bench = project("beginning", BUILDER);
    for (arguments, status, said) in [
        ("--in f -- true", 125, "/f is not a directory"),
        ("-- /bin/nosuch", 127, "there is no file /bin/nosuch\n"),
        ("-- ''", 127, "the first word of the command is empty"),
    ] {
        let run = bench.shell_line(&format!("SBX exec --agent mine {arguments}"));
        assert_eq!(run.status, status, "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{arguments}: {}", run.stderr);
    }
    let gone =
        |line: &str| bench.shell_line(&format!("W=$PWD; mkdir -p gone; cd gone; rmdir $W/gone; {line}"));
    let run = gone("SBX exec --agent mine --in $W -- cat f");
    assert_eq!((run.status, run.stdout.as_str()), (0, "a\n"), "{}", run.stderr);
    assert_eq!(gone("SBX agents list").status, 0);
    let run = gone("SBX exec --agent mine -- cat f");
    assert!(run.status == 125 && run.stderr.contains("cannot tell the working directory"), "{}", run.stderr);
}

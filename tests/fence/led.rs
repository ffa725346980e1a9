//! What is led elsewhere: git by its own files, the list of programs by what lies under their names.

use crate::attacks::{BACKENDS, attack};
use crate::bench::Bench;

const AUTHOR: &str = "-c user.name=a -c user.email=a@b";

#[test]
fn a_repository_by_another_name_is_protected() {
    for backend in BACKENDS {
        let bench = Bench::new("bare");
        bench.shell_line(&format!(
            "git init -q --bare .bare && echo 'gitdir: ./.bare' > .git && cd .bare && T=$(git mktree </dev/null) && \
             git update-ref HEAD $(git {AUTHOR} commit-tree -m x $T) && git worktree add -q ../tree"
        ));
        let config = bench.read(".bare/config");
        bench.open_record("");
        let script = format!(
            "git config -f .bare/config core.fsmonitor evil; echo evil > .bare/hooks/post-checkout; \
             echo evil > .bare/worktrees/tree/commondir; mv .bare/hooks .bare/away; \
             git -C tree {AUTHOR} commit -q --allow-empty -m y && echo fine"
        );
        let run = attack(&bench, backend, &script);
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert_eq!(bench.read(".bare/config"), config, "{backend:?}");
        assert_eq!(bench.read(".bare/worktrees/tree/commondir"), "../..\n", "{backend:?}");
        assert!(!bench.exists(".bare/hooks/post-checkout") && bench.exists(".bare/hooks"), "{backend:?}");
    }
}

#[test]
fn what_the_settings_of_a_repository_name_is_protected() {
    for backend in BACKENDS {
        let bench = Bench::new("named");
        bench.shell_line(
            "git init -q . && mkdir .githooks && echo known > .githooks/pre-commit && echo > shared.cfg && \
             git config core.hooksPath .githooks && git config include.path ../shared.cfg",
        );
        bench.open_record("");
        let script = "echo evil > .githooks/pre-commit; echo evil > .githooks/pre-push; echo evil >> shared.cfg; \
                      mv .githooks away; echo ok > other && echo fine";
        let run = attack(&bench, backend, script);
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert_eq!(
            (bench.read(".githooks/pre-commit").as_str(), bench.read("shared.cfg").as_str()),
            ("known\n", "\n")
        );
        assert!(!bench.exists(".githooks/pre-push"), "{backend:?}");
    }
}

#[test]
fn what_is_named_through_links_is_protected_where_it_lies() {
    for backend in BACKENDS {
        let bench = Bench::new("linked");
        bench.shell_line(
            "git init -q . && mkdir scripts inner tools far && for f in scripts/pre-commit inner/watch inner/real.cfg tools/hook \
             far/post-merge; do echo known > $f; done && ln -s scripts .githooks-real && mkdir .githooks && \
             ln -s ../scripts/pre-commit .githooks/pre-commit && ln -s inner/real.cfg inc.cfg && ln -s inner/watch watch && \
             ln -s tools .led && rm -r .git/hooks && mkdir ours && ln -s ../far/post-merge ours/post-merge && ln -s ../ours .git/hooks && \
             git config core.hooksPath .githooks && git config --add core.hooksPath .led && git config include.path ../inc.cfg && \
             git config core.fsmonitor $PWD/watch && mkdir filters && echo known > filters/clean && chmod +x filters/clean && \
             git config filter.tidy.clean 'filters/clean %f'",
        );
        bench.open_record("");
        let script = "for f in scripts/pre-commit inner/watch inner/real.cfg tools/hook tools/new far/post-merge ours/new filters/clean; do \
                      echo evil > $f; mv $f away 2> /dev/null; done; echo ok > scripts/other && echo ok > inner/other && echo fine";
        let run = attack(&bench, backend, script);
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        for file in [
            "scripts/pre-commit",
            "inner/watch",
            "inner/real.cfg",
            "tools/hook",
            "far/post-merge",
            "filters/clean",
        ] {
            assert_eq!(bench.read(file), "known\n", "{backend:?} {file}");
        }
        assert!(!bench.exists("tools/new") && !bench.exists("ours/new"), "{backend:?}");
    }
}

#[test]
fn a_submodules_repository_is_protected_below_a_worktree_too() {
    for backend in BACKENDS {
        let bench = Bench::new("sub");
        bench.shell_line(&format!(
            "git init -q lib && git -C lib {AUTHOR} commit -q --allow-empty -m l && git init -q . && \
             git -c protocol.file.allow=always submodule --quiet add ./lib sub && git {AUTHOR} commit -q -m s && \
             git worktree add -q tree && cd tree && git -c protocol.file.allow=always submodule --quiet update --init"
        ));
        let config = bench.read(".git/worktrees/tree/modules/sub/config");
        bench.open_record("");
        let script = format!(
            "cd .git/worktrees/tree/modules/sub; echo evil > hooks/post-checkout; git config -f config core.fsmonitor evil; \
             echo evil >> config; mv hooks away; cd ../../../../..; git -C tree/sub {AUTHOR} commit -q --allow-empty -m y && \
             git -C tree/sub status --short && echo fine"
        );
        let run = attack(&bench, backend, &script);
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert_eq!(bench.read(".git/worktrees/tree/modules/sub/config"), config, "{backend:?}");
        let hooks = ".git/worktrees/tree/modules/sub/hooks";
        assert!(bench.exists(hooks) && !bench.exists(&format!("{hooks}/post-checkout")), "{backend:?}");
    }
}

#[test]
fn a_listed_program_is_not_made_another() {
    let bench = Bench::new("listed");
    let record = "capabilities:\n  - proc.exec: {in: ROOT, cmds: [ROOT/tool.sh, ls, cp, mv]}\n  - fs.read: {in: ROOT}\n  \
                  - fs.write: {in: ROOT}\n  - fs.delete: {in: ROOT}\nenv: [PATH]\n";
    bench.record(record);
    bench.write("tool.sh", "#!/bin/sh\necho honest\n");
    bench.write("evil", "#!/usr/bin/python3\nprint('another')\n");
    bench.subdir("bin");
    bench.shell_line("chmod +x tool.sh evil");
    bench.exec(&["cp", "evil", "tool.sh"]);
    bench.exec(&["mv", "evil", "tool.sh"]);
    let denied = bench.shell_line("SBX fs write -a agent.yml tool.sh < evil");
    assert!(denied.stderr.contains("a program that the record lists"), "{}", denied.stderr);
    assert_eq!(bench.exec(&["./tool.sh"]).stdout, "honest\n");
    // Nor is what leads to one.
    bench.subdir("d");
    bench.shell_line("cp tool.sh d/tool.sh");
    bench.record(&record.replace("ROOT/tool.sh", "ROOT/d/tool.sh"));
    bench.exec(&["mv", "d", "e"]);
    assert!(bench.exists("d/tool.sh") && !bench.exists("e"));
    bench.record(record);
    // A name is not looked for where the agent could have put something.
    let run = bench.shell_line(
        "export PATH=$PWD/bin:$PATH; SBX exec -a agent.yml -- cp -p evil bin/ls; SBX exec -a agent.yml -- ls bin",
    );
    assert_eq!(run.stdout, "ls\n", "{}", run.stderr);
}

#[test]
fn what_leads_to_a_listed_program_and_what_it_is_made_of_stay() {
    let bench = Bench::new("parts");
    bench.record(
        "capabilities:\n  - proc.exec: {in: ROOT, cmds: [ROOT/bin/tool, ROOT/bin/missing, ROOT/check, cp, mv, ln]}\n  \
         - fs.read: {in: ROOT}\n  - fs.write: {in: ROOT}\n  - fs.delete: {in: ROOT}\n",
    );
    bench.shell_line(
        "mkdir -p bin real venv/bin && printf '#!/bin/sh\necho honest\n' > real/lister && ln -s ../real/lister bin/tool && \
         ln -s /bin/sh venv/bin/sh && printf '#!%s/venv/bin/sh\necho checked\n' \"$PWD\" > check && \
         chmod +x real/lister check",
    );
    for attack in [
        ["ln", "-sfn", "/usr/bin/env", "bin/tool"],
        ["cp", "-f", "/usr/bin/env", "bin/missing"],
        ["ln", "-sfn", "/usr/bin/env", "venv/bin/sh"],
    ] {
        assert_ne!(bench.exec(&attack).status, 0, "{attack:?}");
    }
    for attack in [["mv", "venv", "old"], ["mv", "real", "old"], ["mv", "bin", "old"]] {
        assert_ne!(bench.exec(&attack).status, 0, "{attack:?}");
    }
    assert!(!bench.exists("bin/missing") && !bench.exists("old"));
    assert_eq!(bench.exec(&["cp", "check", "other"]).status, 0);
    let (tool, check) = (bench.exec(&["./bin/tool"]), bench.exec(&["./check"]));
    assert_eq!((tool.stdout.as_str(), check.stdout.as_str()), ("honest\n", "checked\n"), "{}", tool.stderr);
}

#[test]
fn every_link_to_own_settings_stays() {
    for backend in BACKENDS {
        let bench = Bench::new("chain");
        bench.open_record("");
        bench.shell_line(
            "mkdir -p dot ../home/.config/sbx && echo 'audit: {on_failure: closed}' > dot/cfg && ln -s cfg dot/link && \
             ln -s $PWD/dot/link ../home/.config/sbx/config.yml",
        );
        let script = "echo 'backend: landlock' > dot/evil; ln -sfn evil dot/link; mv dot/link dot/away; mv dot away; \
                      rm dot/link; echo fine";
        let run = attack(&bench, backend, script);
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert_eq!(bench.shell_line("readlink dot/link").stdout, "cfg\n", "{backend:?}");
    }
}

#[test]
fn hooks_and_settings_that_lie_elsewhere_stay() {
    for backend in BACKENDS {
        let bench = Bench::new("elsewhere");
        bench.shell_line(
            "git init -q . && mkdir scripts .vscode && echo known > scripts/pre-commit && \
             ln -s ../../scripts/pre-commit .git/hooks/pre-commit && echo known > tasks && ln -s ../tasks .vscode/tasks.json && \
             printf '[core]\n\thooksPath = .shared\n' > shared.cfg && git config include.path ../shared.cfg && \
             printf '[core]\n\thooksPath = .users\n' > ../home/.gitconfig",
        );
        bench.open_record("");
        let script = "for f in scripts/pre-commit tasks .shared/pre-commit .users/pre-commit; do mkdir -p ${f%/*}; \
                      echo evil > $f; done; mv scripts away; echo ok > scripts/other && echo fine";
        let run = attack(&bench, backend, script);
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        for kept in ["scripts/pre-commit", "tasks"] {
            assert_eq!(bench.read(kept), "known\n", "{backend:?} {kept}");
        }
        assert!(!bench.exists(".shared/pre-commit") && !bench.exists(".users/pre-commit"), "{backend:?}");
    }
}

#[test]
fn a_secret_is_not_read_from_where_the_agent_writes() {
    let bench = Bench::new("token");
    bench.open_record(
        "env:\n  TOKEN:\n    inject: {host: 'a.example', header: X-Key}\n    from: {file: 'ROOT/.token'}\n",
    );
    let record = bench.read("agent.yml").replace("env:", "  - net.get: {hosts: [a.example]}\nenv:");
    bench.record(&record);
    for made in ["echo tok > .token", "mkfifo .token", "ln -s /dev/zero .token", "ln -s ../home/x .token"] {
        bench.shell_line(&format!("rm -f .token; {made}"));
        let run = bench.exec(&["true"]);
        assert_eq!(run.status, 125, "{made}");
        assert!(run.stderr.contains("lies where the agent may write"), "{made}: {}", run.stderr);
    }
}

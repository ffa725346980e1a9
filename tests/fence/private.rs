//! Private places: names that are protected elsewhere may be made there, and get nowhere from there.

use crate::attacks::{BACKENDS, attack};
use crate::bench::Bench;

/// Says the number of the error, or that it went well, of a call of `rename` or `renameat2`.
const MOVES: &str = "import ctypes, errno, os, sys\n\
     libc = ctypes.CDLL(None, use_errno=True)\n\
     def move(a, b, flags=0):\n\
     \x20   done = libc.renameat2(-100, a.encode(), -100, b.encode(), flags)\n\
     \x20   print('moved' if done == 0 else errno.errorcode[ctypes.get_errno()], flush=True)\n\
     tmp = os.environ['TMPDIR']\n";

#[test]
fn what_ends_with_the_launch_holds_any_name() {
    for backend in BACKENDS {
        let bench = Bench::new("private");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "set -e; git config --global user.email a@b; git config --global user.email; \
             mkdir ~/.ssh ~/.gnupg ~/.config ~/.config/git; echo x > ~/.bashrc; echo x > ~/.ssh/config; \
             echo x > $TMPDIR/.npmrc; echo x >> $TMPDIR/.npmrc; mkdir $TMPDIR/.vscode; mv ~/.ssh ~/.gnupg/; chmod 600 ~/.bashrc; \
             git init -q $TMPDIR/r; git -C $TMPDIR/r config core.hooksPath x; echo > $TMPDIR/r/.git/hooks/pre-commit; \
             rm -r $TMPDIR/r ~/.gnupg ~/.bashrc; echo fine",
        );
        assert_eq!(run.stdout, "a@b\nfine\n", "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn nothing_comes_out_of_a_private_place_under_a_protected_name() {
    for backend in BACKENDS {
        let bench = Bench::new("out");
        bench.shell_line("git init -q repo && mkdir sub");
        bench.write("moves.py", MOVES);
        bench.open_record("");
        let script = "mkdir -p $TMPDIR/x/.git/hooks $TMPDIR/x/.vscode; echo evil > $TMPDIR/x/.envrc; \
             echo evil > $TMPDIR/x/.git/hooks/pre-commit; printf '[core]\\nfsmonitor = x\\n' > $TMPDIR/x/.git/config; \
             cp -r $TMPDIR/x ~/x; \
             for from in $TMPDIR/x ~/x; do mv $from/.envrc .envrc; mv $from/.vscode .vscode; mv $from/.vscode sub/.vscode; \
             ln $from/.envrc sub/.envrc; ln -s $from/.envrc .envrc; ln -s $from/.vscode .vscode; \
             mv -T $from/.git/hooks/pre-commit repo/.git/hooks/pre-commit; mv $from/.git/config repo/.git/config; \
             mv $from/.git .git; mv $from . ; rm -rf x/.envrc; done; false";
        attack(&bench, backend, script);
        for name in [".envrc", ".vscode", "sub/.envrc", "sub/.vscode", "x/.git/hooks/pre-commit"] {
            assert!(!bench.exists(name), "{backend:?}: {name}");
        }
        for config in [".git/config", "x/.git/config", "repo/.git/config"] {
            assert!(
                !bench.exists(config) || !bench.read(config).contains("fsmonitor"),
                "{backend:?}: {config}"
            );
        }
        assert!(!bench.exists(".git/hooks/pre-commit") && !bench.exists("repo/.git/hooks/pre-commit"));
    }
}

#[test]
fn no_directory_is_moved_between_a_private_place_and_one_that_lasts() {
    for backend in BACKENDS {
        let bench = Bench::new("between");
        bench.shell_line("mkdir sub plain");
        bench.open_record("");
        let script = "os.makedirs(tmp + '/x/.git/hooks'); open(tmp + '/x/.git/hooks/pre-commit', 'w').write('evil')\n\
             os.mkdir('new')\n\
             move(tmp + '/x', 'x'); move(tmp + '/x', 'new', 2); move('new', tmp + '/x', 2); move('plain', tmp + '/x/plain')\n\
             move(tmp + '/x', tmp + '/y'); move('plain', 'new/plain')\n";
        bench.write("try.py", &format!("{MOVES}{script}"));
        let run = attack(&bench, backend, "python3 try.py");
        assert_eq!(run.stdout, "EXDEV\nEXDEV\nEXDEV\nEXDEV\nmoved\nmoved\n", "{backend:?}: {}", run.stderr);
        assert!(!bench.exists("x") && !bench.exists("new/.git") && bench.exists("new/plain"), "{backend:?}");
    }
}

#[test]
fn a_project_in_a_private_place_is_guarded_and_stays_where_it_is() {
    for backend in BACKENDS {
        let bench = Bench::below("/tmp", "within");
        bench.open_record("");
        let above = bench.above();
        let script = format!(
            "echo evil > .envrc; mkdir .vscode; cd /tmp; mkdir {above}/.vscode other; mv {above} away; mv {above}/work away; \
             mv -T {above} other; mv --exchange {above} other; for d in */work */*/work; do echo evil > $d/.envrc; done; \
             ln -s {above} link; echo evil > link/work/.envrc; cd /proc/self/cwd/{above}/work && mkdir .idea; false"
        );
        attack(&bench, backend, &script);
        assert_eq!(bench.files(), ["agent.yml"], "{backend:?}");
    }
}

#[test]
fn private_directories_inside_a_project_are_the_projects() {
    let (backend, accepted) = BACKENDS[2];
    let bench = Bench::new("inside");
    bench.open_record("");
    bench.subdir("tmp");
    let run = bench.shell_line(&format!(
        "TMPDIR=$PWD/tmp SBX exec --agent agent.yml --backend {backend} {accepted} -- \
         sh -c 'case $TMPDIR in $PWD/*) echo inside;; esac; echo evil > $TMPDIR/.envrc; mkdir $TMPDIR/x && mv $TMPDIR/x y && echo moved'"
    ));
    assert_eq!(run.stdout, "inside\nmoved\n", "{}", run.stderr);
    assert!(run.stderr.contains(".envrc"), "{}", run.stderr);
}

#[test]
fn the_machines_own_name_is_known_inside() {
    let script = "import socket; print(*socket.gethostbyname_ex(socket.gethostname())[2], socket.getfqdn())";
    // Without namespaces it is the host's own.
    for backend in &BACKENDS[..2] {
        let bench = Bench::new("name");
        bench.open_record("");
        let run = attack(&bench, *backend, &format!("python3 -c '{script}'"));
        assert_eq!(run.stdout, "127.0.0.1 localhost\n", "{backend:?}: {}", run.stderr);
    }
}

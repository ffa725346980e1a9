//! Small openings that an attack once found, each tried again behind every backend that promises to hold it.

use crate::attacks::BACKENDS;
use crate::bench::Bench;

/// A record that reads all, and takes names away below `lib`.
const TAKES: &str =
    "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n  - fs.delete: {in: ROOT/lib}\n";

fn python(bench: &Bench, (backend, accepted): (&str, &str), script: &str) -> crate::bench::Run {
    bench.write("try.py", script);
    bench.shell_line(&format!("SBX exec --agent agent.yml --backend {backend} {accepted} -- python3 try.py"))
}

#[test]
fn where_names_are_only_taken_away_owners_and_versions_stay() {
    let script = "import fcntl, os\n\
        def refused(act):\n  \
          try: act(); return False\n  \
          except OSError: return True\n\
        f = os.open('lib/f', os.O_RDONLY)\n\
        own = (os.getuid(), os.getgid())\n\
        print([refused(act) for act in (lambda: os.chown('lib/f', *own), lambda: os.fchown(f, -1, -1), \
          lambda: os.lchown('lib/f', -1, -1), lambda: fcntl.ioctl(f, 0x40087602, bytes(8)))])\n\
        os.remove('lib/f')\n";
    for backend in &BACKENDS[..2] {
        let bench = Bench::new("owners");
        bench.subdir("lib");
        bench.write("lib/f", "f");
        bench.record(TAKES);
        let run = python(&bench, *backend, script);
        assert_eq!(run.stdout, "[True, True, True, True]\n", "{backend:?}: {}", run.stderr);
        assert!(!bench.exists("lib/f"), "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn of_settings_that_cannot_be_put_in_place_nothing_is_left() {
    let script = "import os\n\
        os.makedirs('new/.git')\n\
        open('new/.git/config.lock', 'w').write('[core]\\n\\tbare = false\\n')\n\
        try: os.rename('new/.git/config.lock', 'new/.git/config')\n\
        except OSError as error: print(error.strerror)\n\
        print(sorted(os.listdir('new/.git')))\n";
    for backend in BACKENDS {
        let bench = Bench::new("staged");
        bench.record(
            "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n  - fs.write: {in: ROOT}\n",
        );
        let run = python(&bench, backend, script);
        assert_eq!(run.stdout, "Permission denied\n['config.lock']\n", "{backend:?}: {}", run.stderr);
        bench.open_record("");
        let run = python(&bench, backend, &script.replace("new/", "own/"));
        assert_eq!(run.stdout, "['config']\n", "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn what_is_protected_is_put_down_again_only_where_git_does_so() {
    let script = "import os, shutil\n\
        for name in ('.git/config', '.envrc', '.git/hooks/post-merge'):\n  \
          shutil.copy(name, 'copy')\n  \
          try: os.rename('copy', name); print(name, 'as it was')\n  \
          except OSError as error: print(name, error.strerror)\n";
    let told = ".git/config as it was\n.envrc Permission denied\n.git/hooks/post-merge Permission denied\n";
    for backend in BACKENDS {
        let bench = Bench::new("again");
        bench.shell_line(
            "git init -q .; echo a > .envrc; mkdir -p .git/hooks; echo b > .git/hooks/post-merge",
        );
        bench.open_record("");
        let run = python(&bench, backend, script);
        assert_eq!(run.stdout, told, "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn what_may_be_written_and_not_read_gets_no_other_name() {
    let record = "capabilities:\n  - proc.exec: {in: ROOT/in}\n  - fs.write: {in: ROOT/far}\n  - fs.read: {in: ROOT/far, paths: [\"seen/*\"]}\n";
    let script = "import os\n\
        for source in ('far/secret', 'far/seen/known'):\n  \
          try: os.link('../' + source, '../far/seen/new'); print(source, 'linked')\n  \
          except OSError as error: print(source, error.strerror)\n";
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("renamed");
        bench.shell_line("mkdir -p in far/seen; echo s > far/secret; echo k > far/seen/known");
        bench.record(record);
        bench.write("in/try.py", script);
        let run = bench.shell_line(&format!(
            "SBX exec --agent agent.yml --in in --backend {backend} {accepted} -- python3 try.py"
        ));
        assert!(
            run.stdout.starts_with("far/secret Permission denied\n"),
            "{backend}: {} {}",
            run.stdout,
            run.stderr
        );
    }
}

#[test]
fn nothing_is_kept_among_the_devices() {
    let script = "import os\n\
        try: os.open('/dev', os.O_TMPFILE | os.O_RDWR); print('made')\n\
        except OSError: print('refused')\n\
        os.write(os.open('/dev/null', os.O_WRONLY), b'x'); open('/dev/shm/x', 'w').write('x')\n";
    for backend in &BACKENDS[..2] {
        let bench = Bench::new("devices");
        bench.open_record("");
        let run = python(&bench, *backend, script);
        assert_eq!((run.stdout.as_str(), run.status), ("refused\n", 0), "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn names_in_private_directories_are_bounded_too() {
    let bench = Bench::new("names");
    bench.open_record("limits: {tmp: 1M}\n");
    let script = "import os\nmade = 0\n\
        try:\n  \
          for at in range(20000): os.symlink('x' * 100, f'/tmp/{at}'); made = at\n\
        except OSError as error: print(error.strerror, 1000 < made < 6000)\n";
    let run = python(&bench, BACKENDS[0], script);
    assert_eq!(run.stdout, "No space left on device True\n", "{}", run.stderr);
}

//! Acts with two paths, with links, and on programs: what they come to for `decide`.
//!
//! A move takes a name away at one place and makes one at another. A hard link makes a name, which may open no more
//! than the name it is made from. A link says nothing by itself: what counts is where it leads.

use super::acts::{Act, Verdict};
use super::world::{DIRS, Dice, FILES, World};
use sbx::{Decision, Request, decide};
use std::path::{Path, PathBuf};

const KINDS: &[&str] = &[
    "rename",
    "rename",
    "rename",
    "replace",
    "link",
    "link",
    "symlink",
    "led",
    "led",
    "led",
    "read-led",
    "write-led",
    "make-led",
    "rmdir",
    "cut",
    "resize",
    "empty",
    "touch",
];

/// Programs by name, and copies of programs that lie about.
const PROGRAMS: &[&str] = &["true", "id", "cat", "env", "uname", "basename"];
pub(crate) const TOOLS: &[&str] = &["work/lib/tool", "work/docs/tool", "work/lib/script", "far/tool"];
const PATTERNS: &[&str] = &["true *", "id -u", "un?me *", "env:*", "cat /dev/null"];
const ARGUMENTS: &[&str] = &["", "-u", "/dev/null", "--help"];

pub(crate) fn acts(dir: &Path, dice: &mut Dice) -> Vec<Act> {
    (0..40).map(|number| act(dir, number, dice)).collect()
}

fn act(dir: &Path, number: usize, dice: &mut Dice) -> Act {
    let place = |dice: &mut Dice| dir.join(dice.pick(DIRS));
    let end = *dice.pick(&["md", "txt"]);
    let victim = place(dice).join(format!("victim-{number}.{end}"));
    // As often as not within one directory, where all of it can be expected to work.
    let parent = match dice.roll(2) {
        0 => victim.parent().map(Path::to_path_buf).unwrap_or_default(),
        _ => place(dice),
    };
    let new = parent.join(format!("new-{number}.{end}"));
    let standing = place(dice).join(dice.pick(FILES));
    match *dice.pick(KINDS) {
        "rename" => Act::new("rename", victim, true).and(new),
        "replace" => Act::new("rename", victim, true).and(parent.join(format!("other-{number}.{end}"))),
        "link" => Act::new("link", victim, true).and(new),
        "symlink" => Act::new("symlink", standing, true).and(new),
        "led" => {
            // Below the root, where links can be seen; one from a protected place has its target protected too.
            let sub = dice.pick(&DIRS[..4]);
            let at = dir.join(sub).join(format!("led-{number}"));
            match *dice.pick(&["read", "write", "truncate", "make"]) {
                "make" => Act::new("make", at, false).and(new),
                verb => Act::new(verb, at, true).and(standing),
            }
        }
        "make-led" => {
            Act::new("make-led", place(dice).join(format!("target-{number}.{end}")), false).and(new)
        }
        verb @ ("read-led" | "write-led") => Act::new(verb, standing, true).and(new),
        "rmdir" => Act::new("rmdir", victim, true),
        verb => Act::new(verb, standing, true),
    }
}

/// What must stand before an act is tried.
pub(crate) fn prepare(act: &Act) {
    let file = |path: &Path| std::fs::write(path, "x").expect("a victim");
    match (act.verb, act.more.first()) {
        ("delete" | "link", _) => file(&act.path),
        ("rmdir", _) => std::fs::create_dir(&act.path).expect("a victim"),
        ("rename", Some(to)) => {
            file(&act.path);
            if to.file_name().is_some_and(|name| name.to_string_lossy().starts_with("other-")) {
                file(to);
            }
        }
        (_, Some(target)) if act.is_led() => std::os::unix::fs::symlink(target, &act.path).expect("a link"),
        _ => {}
    }
}

impl World {
    /// What `decide` comes to for any act.
    pub(crate) fn judge(&self, act: &Act) -> Verdict {
        let single = |verb, path: &Path| self.decide(&Act::new(verb, path, path.exists()));
        let Some(second) = act.more.first() else {
            return match act.verb {
                "exec" => self.judge_program(act),
                // Both are done to a file that was opened to be read.
                "empty" | "touch" => single("write", &act.path).both(single("read", &act.path)),
                _ => self.decide(act),
            };
        };
        match act.verb {
            "exec" => self.judge_program(act),
            "rename" => {
                let replaced = if self.replaces(second) { single("delete", second) } else { Verdict::Allow };
                let moved = single("delete", &act.path).both(single("create", second)).both(replaced);
                if self.is_expected(&act.path, second) { moved } else { moved.loosely() }
            }
            "link" => match self.gains(&act.path, second) {
                true => Verdict::Deny,
                // What may be written and not read gets no other name.
                false if single("read", &act.path) == Verdict::Deny => single("create", second).loosely(),
                false if self.is_expected(&act.path, second) => single("create", second),
                false => single("create", second).loosely(),
            },
            "symlink" => single("create", second),
            "read-led" => single("create", second).both(single("read", &act.path)),
            "write-led" => single("create", second).both(single("write", &act.path)),
            "make-led" => single("create", second).both(single("create", &act.path)),
            "make" => single("create", second),
            verb => single(verb, second),
        }
    }

    fn replaces(&self, to: &Path) -> bool {
        to.file_name().is_some_and(|name| name.to_string_lossy().starts_with("other-"))
    }

    /// Whether the kernel lets something go from one name to the other where `decide` does. Between two directories it
    /// asks for the right to write in both, for no gain whatsoever, and for one mount: `.git` has its own.
    fn is_expected(&self, old: &Path, new: &Path) -> bool {
        if old.parent() == new.parent() {
            return true;
        }
        let may_write = self.decide(&Act::new("create", old, false)) == Verdict::Allow;
        let in_git = [old, new].iter().any(|path| path.components().any(|part| part.as_os_str() == ".git"));
        let root = self.dir().join("work");
        let read = !new.starts_with(&root) || old.starts_with(&root);
        let covered = self.policy().grants().iter().all(|one| !one.allows_path(new) || one.allows_path(old));
        may_write && !in_git && read && covered
    }

    /// Whether a file could be used in more ways by another name.
    fn gains(&self, old: &Path, new: &Path) -> bool {
        let opens = |verb, path: &Path| self.decide(&Act::new(verb, path, true)) != Verdict::Deny;
        ["read", "write"].into_iter().any(|verb| opens(verb, new) && !opens(verb, old))
    }

    fn judge_program(&self, act: &Act) -> Verdict {
        let asks = |arguments: &[PathBuf]| {
            let argv = std::iter::once(&act.path).chain(arguments).map(|word| word.as_os_str().to_owned());
            let request = Request::exec(argv).in_dir(self.dir().join("work"));
            matches!(decide(self.policy(), &request), Decision::Allow(_))
        };
        if asks(&act.more) {
            return Verdict::Allow;
        }
        let others = ARGUMENTS.iter().map(|word| vec![PathBuf::from(word)]).chain([Vec::new()]);
        if others.into_iter().any(|arguments| asks(&arguments)) {
            return Verdict::DenyMaybeWider;
        }
        Verdict::Deny
    }
}

/// A record that lists what may run, and some places.
pub(crate) fn listing(dir: &Path, dice: &mut Dice) -> String {
    let quoted =
        |items: Vec<String>| items.iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ");
    let mut cmds = vec![dir.join("work/probe").display().to_string()];
    for _ in 0..dice.roll(4) {
        cmds.push((*dice.pick(PROGRAMS)).to_owned());
    }
    for _ in 0..dice.roll(3) {
        cmds.push(dir.join(dice.pick(TOOLS)).display().to_string());
    }
    let patterns: Vec<String> = (0..dice.roll(3)).map(|_| (*dice.pick(PATTERNS)).to_owned()).collect();
    let root = dir.join("work").display().to_string();
    let mut text = format!("capabilities:\n  - proc.exec: {{in: {root}, cmds: [{}]}}\n", quoted(cmds));
    if !patterns.is_empty() {
        text += &format!("  - proc.exec: {{in: {root}, patterns: [{}]}}\n", quoted(patterns));
    }
    text
}

/// Running programs that are listed and others, and changing them.
pub(crate) fn running(dir: &Path, dice: &mut Dice) -> Vec<Act> {
    let one = |_| match dice.roll(5) {
        0 => Act::new("write", dir.join(dice.pick(TOOLS)), true),
        1 | 2 => Act::new("exec", dir.join(dice.pick(TOOLS)), true),
        _ => {
            let act = Act::new("exec", *dice.pick(PROGRAMS), true);
            match *dice.pick(ARGUMENTS) {
                "" => act,
                argument => act.and(argument),
            }
        }
    };
    (0..40).map(one).collect()
}

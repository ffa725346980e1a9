//! What a fenced process can and cannot do.

use std::fs;
use std::net::TcpListener;

use sbx_platform::Guarantee as G;
use sbx_platform::plan::{Access, Code, Exec, MountOp, Place, Rights};

use crate::support::Verdict::{self, Failed, Passed, Withheld};
use crate::support::{World, same};

type Case = fn(&World) -> Verdict;

/// Every case with the sentence it checks.
pub(crate) const ALL: &[(&str, Case)] = &[
    ("what is shown is readable, what is not shown does not exist", reading),
    ("a readable place is not writable", read_only),
    ("without the right to remove nothing is unlinked or renamed away", removing),
    ("a private directory above lends no right to remove", removing_below),
    ("metadata outside stays as it is", metadata),
    ("only listed files are executed", exec_only),
    ("there is no network", no_network),
    ("sockets in visible places are out of reach", visible_sockets),
    ("descriptors are 0, 1 and 2", descriptors),
    ("the environment is the plan's", environment),
    ("processes outside are not seen", processes),
    ("protected paths that exist stay as they are", protected_existing),
    ("protected paths that do not exist are not made", protected_absent),
    ("protected paths leave ordinary work alone", protected_ordinary),
    ("a new mask holds for all threads at once", masks),
    ("a writable place inside a readable one", nested),
    ("odd names", odd_names),
    ("a source reached through a link is refused", linked_source),
    ("the private directory is private", private_tmp),
    ("changes of a copied place are seen inside and gone at the end", copied),
];

fn reading(world: &World) -> Verdict {
    let (note, key) = (world.read("note"), world.secret("key"));
    same!("shown", world.says(&["read", note.to_str().unwrap()]), "note");
    let hidden = world.says(&["read", key.to_str().unwrap()]);
    if hidden != "errno 2" && hidden != "errno 13" {
        return Failed(format!("hidden file: {hidden}"));
    }
    if let Some(lacking) = world.lacks(&[G::FsHidden]) {
        return Withheld(lacking);
    }
    same!("stat of a hidden file", world.says(&["stat", key.to_str().unwrap()]), "errno 2");
    Passed
}

fn read_only(world: &World) -> Verdict {
    let (note, new) = (world.read("note"), world.read("new"));
    for act in [["write", note.to_str().unwrap()], ["write", new.to_str().unwrap()]] {
        let said = world.says(&act);
        if said != "errno 30" && said != "errno 13" {
            return Failed(format!("{act:?}: {said}"));
        }
    }
    same!("content", fs::read_to_string(note).unwrap(), "note");
    Passed
}

fn removing(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::FsDelete]) {
        return Withheld(lacking);
    }
    fs::write(world.work("kept"), "kept").unwrap();
    let rights = Rights::READ | Rights::LIST | Rights::WRITE;
    let acts =
        ["then", "write", "new", ";", "remove", "kept", ";", "rename", "kept", "gone", ";", "remove", "new"];
    let plan = world.with_rights(world.plan(&acts), rights);
    same!("without", world.says_under(&plan), "ok errno 13 errno 13 errno 13");
    same!("with", world.says(&["then", "rename", "kept", "gone", ";", "remove", "gone"]), "ok ok");
    Passed
}

fn removing_below(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::FsDelete, G::PrivateTmp]) {
        return Withheld(lacking);
    }
    fs::write(world.work("kept"), "kept").unwrap();
    let acts =
        ["then", "write", "new", ";", "remove", "kept", ";", "rename", "new", "kept", ";", "append", "kept"];
    let mut plan = world.with_rights(world.plan(&acts), Rights::READ | Rights::LIST | Rights::WRITE);
    let above = world.work("");
    let above = above.ancestors().nth(2).unwrap();
    let private =
        MountOp::Tmpfs { dest: above.into(), size: Some(1 << 20), mode: 0o700, code: Code::Refused };
    plan.mounts.insert(0, private);
    plan.rights.push(Place { path: above.into(), rights: Rights::WRITE | Rights::REMOVE });
    same!("answers", world.says_under(&plan), "ok errno 13 errno 13 ok");
    Passed
}

fn metadata(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::FsMetadata]) {
        return Withheld(lacking);
    }
    let note = world.read("note");
    same!("shown", world.says(&["chmod", note.to_str().unwrap()]), "errno 30");
    same!("hidden", world.says(&["chmod", world.secret("key").to_str().unwrap()]), "errno 2");
    Passed
}

fn exec_only(world: &World) -> Verdict {
    let script = world.work("script");
    fs::copy("/usr/bin/true", &script).unwrap();
    same!("open", world.says(&["run", script.to_str().unwrap()]), "ok");
    let mut plan = world.plan(&["run", script.to_str().unwrap()]);
    plan.exec = Exec::Listed;
    for op in &mut plan.mounts {
        if let MountOp::Bind { access: Access::ReadWrite, code, .. } = op {
            *code = Code::Refused;
        }
    }
    let plan = world.with_rights(plan, Rights::READ | Rights::LIST | Rights::WRITE);
    same!("listed", world.says_under(&plan), "errno 13");
    let mut loader = plan.clone();
    loader.argv = ["probe", "act", "run", "/lib64/ld-linux-x86-64.so.2", script.to_str().unwrap()]
        .map(Into::into)
        .to_vec();
    if let Some(lacking) = world.lacks(&[G::ExecOnly]) {
        return Withheld(lacking);
    }
    // The loader itself is found and run, and maps nothing that is not listed.
    same!("through the loader", world.says_under(&loader), "exit status: 127");
    Passed
}

fn no_network(world: &World) -> Verdict {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // In a network of one's own nobody listens there; without one, no such socket is to be had.
    let refused = if world.lacks(&[G::Loopback]).is_none() { "errno 111" } else { "errno 1" };
    same!("connecting", world.says(&["connect", &address]), refused);
    listener.set_nonblocking(true).unwrap();
    same!("arrived", listener.accept().is_err(), true);
    Passed
}

fn visible_sockets(world: &World) -> Verdict {
    let path = world.work("socket");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    socket.set_nonblocking(true).unwrap();
    same!("sending", world.says(&["pair", path.to_str().unwrap()]), "errno 1");
    same!("arrived", socket.recv(&mut [0; 8]).is_err(), true);
    Passed
}

fn descriptors(world: &World) -> Verdict {
    let extra = fs::File::open("/etc/passwd").unwrap();
    same!("descriptors", world.says(&["descriptors"]), "");
    drop(extra);
    Passed
}

fn environment(world: &World) -> Verdict {
    let mut plan = world.plan(&["env"]);
    plan.env = vec![("ONLY".into(), "this".into())];
    same!("environment", world.says_under(&plan), "ONLY=this");
    if let Some(lacking) = world.lacks(&[G::PidHidden]) {
        return Withheld(lacking);
    }
    same!("the keeper's", world.says(&["read", "/proc/1/environ"]), "errno 13");
    Passed
}

fn processes(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::PidHidden]) {
        return Withheld(lacking);
    }
    // Numbers start anew: the keeper has the first, and a thread may have had the second.
    let own = world.says(&["pid"]);
    same!("a small number", matches!(own.as_str(), "2" | "3"), true);
    let outside = format!("/proc/{}", std::process::id());
    same!("outside", world.says(&["stat", &outside]), "errno 2");
    Passed
}

fn protected_existing(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::ProtectedPaths]) {
        return Withheld(lacking);
    }
    fs::create_dir_all(world.work(".git/hooks")).unwrap();
    fs::write(world.work(".git/hooks/pre"), "orig").unwrap();
    fs::write(world.work(".git/config"), "orig").unwrap();
    for act in [
        &["write", ".git/hooks/pre"][..],
        &["append", ".git/config"],
        &["truncate", ".git/config"],
        &["remove", ".git/config"],
        &["write", ".git/hooks/new"],
        &["rename", ".git", "old"],
        &["rename", ".git/hooks", "hooks"],
        &["link", ".git/config", "config"],
    ] {
        let mut plan = world.plan(act);
        plan.protect = vec![world.work(".git/hooks"), world.work(".git/config")];
        let said = world.says_under(&plan);
        if !said.starts_with("errno ") {
            return Failed(format!("{act:?}: {said}"));
        }
    }
    same!("hook", fs::read_to_string(world.work(".git/hooks/pre")).unwrap(), "orig");
    same!("config", fs::read_to_string(world.work(".git/config")).unwrap(), "orig");
    Passed
}

fn protected_absent(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::ProtectedPaths]) {
        return Withheld(lacking);
    }
    let script = "then mkdir .git ; mkdir .git/hooks ; mkdir x ; mkdir x/hooks ; rename x .git ; write .envrc ; \
                  symlink .envrc s ; write s ; write plain ; rename plain .envrc ; link plain .envrc ; \
                  symlink x .vscode ; mkdir .vscode ; write /proc/self/cwd/.envrc ; write /proc/1/mem ; rmdir .git ; write .git";
    let words: Vec<&str> = script.split_whitespace().collect();
    let mut plan = world.plan(&words);
    plan.protect = [".git/hooks", ".envrc", ".vscode"].map(|name| world.work(name)).to_vec();
    let denied = "errno 13";
    let wanted = format!(
        "ok {denied} ok ok {denied} {denied} ok {denied} ok {denied} {denied} {denied} {denied} {denied} {denied} ok {denied}"
    );
    same!("answers", world.says_under(&plan), wanted);
    for name in [".envrc", ".vscode", ".git/hooks"] {
        same!(name, world.work(name).symlink_metadata().is_ok(), false);
    }
    Passed
}

fn protected_ordinary(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::ProtectedPaths]) {
        return Withheld(lacking);
    }
    fs::create_dir_all(world.work(".git/hooks")).unwrap();
    let script = "then write a.tmp ; rename a.tmp a ; append a ; read a ; mkdir d ; symlink a l ; append l ; \
                  link a d/b ; truncate a ; write .git/index.lock ; rename .git/index.lock .git/index ; \
                  write /dev/null ; mkdir new ; mkdir new/.git ; mkdir new/.git/hooks ; write new/.git/config";
    let words: Vec<&str> = script.split_whitespace().collect();
    let mut plan = world.plan(&words);
    plan.protect = [".git/hooks", ".git/config", ".envrc"].map(|name| world.work(name)).to_vec();
    let wanted = "ok ok ok changedmore ok ok ok ok ok ok ok ok ok ok ok ok";
    same!("answers", world.says_under(&plan), wanted);
    same!("no placeholder", world.work(".envrc").exists(), false);
    Passed
}

fn masks(world: &World) -> Verdict {
    let mut plan = world.plan(&["masks"]);
    plan.protect = vec![world.work(".envrc")];
    same!("modes", world.says_under(&plan), "ok");
    Passed
}

fn nested(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::FsHidden]) {
        return Withheld(lacking);
    }
    fs::create_dir(world.read("inner")).unwrap();
    let inner = world.read("inner");
    let new = inner.join("new");
    let mut plan = world.plan(&[
        "then",
        "write",
        new.to_str().unwrap(),
        ";",
        "write",
        world.read("x").to_str().unwrap(),
    ]);
    plan.mounts.push(MountOp::Bind {
        source: inner.clone(),
        dest: inner.clone(),
        access: Access::ReadWrite,
        code: Code::Refused,
    });
    plan.rights.push(Place { path: inner, rights: Rights::READ | Rights::WRITE });
    same!("answers", world.says_under(&plan), "ok errno 30");
    Passed
}

fn odd_names(world: &World) -> Verdict {
    use std::os::unix::ffi::OsStrExt;
    let odd = world.work("").join(std::ffi::OsStr::from_bytes(b"a b\n\xff%"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("f"), "odd").unwrap();
    let mut plan = world.plan(&["read", "f"]);
    plan.cwd.clone_from(&odd);
    plan.mounts.push(MountOp::Bind {
        source: odd.clone(),
        dest: odd.clone(),
        access: Access::ReadOnly,
        code: Code::Refused,
    });
    same!("content", world.says_under(&plan), "odd");
    Passed
}

fn linked_source(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::FsHidden]) {
        return Withheld(lacking);
    }
    let link = world.work("link");
    std::os::unix::fs::symlink(world.secret(""), &link).unwrap();
    let mut plan = world.plan(&["nothing"]);
    let bind = |path: &std::path::Path| MountOp::Bind {
        source: path.into(),
        dest: path.into(),
        access: Access::ReadOnly,
        code: Code::Refused,
    };
    plan.mounts.push(bind(&link));
    let said = match world.launch(&plan) {
        Ok(outcome) => format!("{:?}", outcome.end),
        Err(error) => error.to_string(),
    };
    same!("says which", said.contains(link.to_str().unwrap()) || said.contains("bwrap"), true);
    same!("says why", said.contains("os error 40") || said.contains("errno: 40"), true);
    Passed
}

fn private_tmp(world: &World) -> Verdict {
    if let Some(lacking) = world.lacks(&[G::PrivateTmp]) {
        return Withheld(lacking);
    }
    same!("writable", world.says(&["write", "/scratch/mark"]), "ok");
    same!("outside", std::path::Path::new("/scratch").exists(), false);
    same!("sized", world.says(&["grow", "/scratch/big"]), "errno 28");
    Passed
}

fn copied(world: &World) -> Verdict {
    fs::write(world.work("old"), "old").unwrap();
    fs::create_dir(world.work("a: b")).unwrap();
    let text = |name: &str| world.work(name).to_str().unwrap().to_owned();
    let (old, new, gone, moved) = (text("old"), text("new"), text("a: b"), text("moved"));
    let words = [
        "then",
        "append",
        &old,
        ";",
        "read",
        &old,
        ";",
        "write",
        &new,
        ";",
        "rename",
        &new,
        &moved,
        ";",
        "read",
        &moved,
        ";",
        "rmdir",
        &gone,
        ";",
        "mkdir",
        &gone,
        ";",
        "remove",
        &old,
        ";",
        "list",
        &text(""),
    ];
    let mut plan = world.plan(&words);
    for op in &mut plan.mounts {
        if let MountOp::Bind { access: access @ Access::ReadWrite, .. } = op {
            *access = Access::Copied;
        }
    }
    let said = match world.launch(&plan) {
        Err(error) if world.backend != sbx_platform::Backend::Native => {
            let reason = format!("{} cannot keep changes apart", world.backend);
            same!("refused by name", error.to_string().contains(&reason), true);
            return Passed;
        }
        Err(error) => return Failed(error.to_string()),
        Ok(outcome) => String::from_utf8_lossy(&outcome.stdout).trim_end().to_owned(),
    };
    same!("inside", said, "ok oldmore ok ok changed ok ok ok a: b,moved");
    same!("outside", fs::read_to_string(world.work("old")).unwrap(), "old");
    let names: Vec<_> =
        fs::read_dir(world.work("")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    same!("names outside", names.len(), 2);
    Passed
}

//! A matcher that says yes to everything still meets the kernel; and where it is whole, both say the same.

use crate::world::{BACKENDS, World};

#[test]
fn with_a_broken_matcher_the_kernel_still_holds() {
    for backend in BACKENDS {
        let world = World::new(&["fs.read{in=$P,paths=[open]}", "fs.write{in=$P,paths=[open]}"])
            .behind(*backend)
            .broken();
        world.write("open/f.txt", "mine");
        world.write("open/.git/hooks/pre-commit", "theirs");
        let secret = world.write("secret.txt", "secret");
        let outside = world.env.write("outside.txt", "secret");
        for path in [secret.to_str().unwrap(), outside.to_str().unwrap(), "/etc/hostname"] {
            let read = world.call(&["fs", "read", path]);
            assert_eq!((read.status, read.code()), (2, "refused"), "{backend:?} {read:?}");
            let write = world.call_with(&["fs", "write", path], b"x");
            assert_eq!((write.status, write.code()), (2, "refused"), "{backend:?} {write:?}");
            assert_eq!(world.call(&["fs", "delete", path]).code(), "refused", "{backend:?}");
        }
        assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
        // Inside the grant it works, but not beyond its verbs nor on protected names.
        assert_eq!(world.call(&["fs", "read", "open/f.txt"]).json["content"], "mine", "{backend:?}");
        assert_eq!(world.call(&["fs", "delete", "open/f.txt"]).code(), "refused", "{backend:?}");
        for path in
            ["open/.git/hooks/pre-commit", "open/.git/hooks/post-merge", "open/.git/config", "open/.bashrc"]
        {
            let write = world.call_with(&["fs", "write", path], b"x");
            assert_eq!((write.status, write.code()), (2, "refused"), "{backend:?} {path} {write:?}");
        }
        assert_eq!(std::fs::read(world.path("open/.git/hooks/pre-commit")).unwrap(), b"theirs");
        let list = world.call(&["fs", "list", "."]);
        assert_ne!(list.status, 0, "{backend:?} {list:?}");
        let found = world.call(&["fs", "search", "secret"]);
        assert!(!found.json.to_string().contains("secret.txt"), "{backend:?} {found:?}");
    }
}

#[test]
fn a_link_out_of_the_grant_leads_nowhere() {
    for backend in BACKENDS {
        let world = World::new(&["fs.read{in=$P}", "fs.write{in=$P}", "fs.delete{in=$P}"]).behind(*backend);
        let outside = world.env.write("outside.txt", "secret");
        std::os::unix::fs::symlink(&outside, world.path("way")).unwrap();
        std::os::unix::fs::symlink("..", world.path("up")).unwrap();
        world.write("in.txt", "inside");
        std::os::unix::fs::symlink("in.txt", world.path("near")).unwrap();
        for path in ["way", "up/outside.txt"] {
            assert_eq!(world.call(&["fs", "read", path]).code(), "scope_violation", "{backend:?} {path}");
            assert_eq!(world.call_with(&["fs", "write", path], b"x").code(), "scope_violation");
        }
        assert_eq!(world.call(&["fs", "read", "near"]).json["content"], "inside", "{backend:?}");
        // A search meets links and does not follow them.
        let found = world.call(&["fs", "search", "secret|inside"]);
        assert_eq!(found.json["matches"].as_array().unwrap().len(), 1, "{backend:?} {found:?}");
        // Deleting a link takes the link.
        assert_eq!(world.call(&["fs", "delete", "way"]).json["kind"], "link");
        assert_eq!(std::fs::read(&outside).unwrap(), b"secret");
    }
}

#[test]
fn patterns_open_what_matches_now() {
    for backend in BACKENDS {
        let world =
            World::new(&["fs.read{in=$P,paths=[*.md]}", "fs.write{in=$P,paths=[*.md]}"]).behind(*backend);
        world.write("a.md", "text");
        world.write("b.txt", "no");
        assert_eq!(world.call(&["fs", "read", "a.md"]).json["content"], "text", "{backend:?}");
        assert_eq!(world.call_with(&["fs", "write", "a.md"], b"newer").json["atomic"], false, "{backend:?}");
        assert_eq!(world.call(&["fs", "read", "b.txt"]).code(), "scope_violation");
        let new = world.call_with(&["fs", "write", "c.md"], b"x");
        assert_eq!((new.status, new.code()), (2, "refused"), "{backend:?} {new:?}");
        assert!(new.json["hint"].as_str().unwrap().contains("fs-glob"), "{new:?}");
    }
}

#[test]
fn the_log_and_own_records_are_out_of_reach() {
    let world = World::new(&[]);
    let home = world.env.home().display().to_string();
    world.grant(&[&format!("fs.read{{in={home}}}"), &format!("fs.write{{in={home}}}")]);
    let log = format!("{home}/.local/state/sbx/audit.jsonl");
    let record = format!("{home}/.config/sbx/agents/a.md");
    assert_eq!(world.call(&["fs", "read", &log]).code(), "scope_violation");
    assert_eq!(world.call_with(&["fs", "write", &record], b"x").code(), "scope_violation");
    let world = world.broken();
    assert_eq!(world.call(&["fs", "read", &log]).code(), "refused");
    assert_eq!(world.call_with(&["fs", "write", &record], b"x").code(), "refused");
}

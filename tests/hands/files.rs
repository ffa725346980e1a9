//! Each operation on files, allowed and denied, with the denial and its event.

use crate::world::{BACKENDS, World};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const ALL: &[&str] = &["fs.read{in=$P}", "fs.write{in=$P}", "fs.delete{in=$P}"];

#[test]
fn every_operation_works_behind_every_fence() {
    for backend in BACKENDS {
        let world = World::new(ALL).behind(*backend);
        let wrote = world.call_with(&["fs", "write", "a/b/new.txt", "--parents"], b"one\ntwo\nthree\n");
        assert_eq!(wrote.status, 0, "{backend:?} {wrote:?}");
        assert_eq!((&wrote.json["created"], &wrote.json["bytes"]), (&json!(true), &json!(14)));
        let read = world.call(&["fs", "read", "a/b/new.txt"]);
        assert_eq!(read.json["content"], "one\ntwo\nthree\n", "{backend:?} {read:?}");
        let lines = world.call(&["fs", "read", "a/b/new.txt", "--lines", "2:1"]);
        assert_eq!((&lines.json["content"], &lines.json["whole"]), (&json!("two\n"), &json!(false)));
        let bytes = world.call(&["fs", "read", "a/b/new.txt", "--bytes", "4:3"]);
        assert_eq!(bytes.json["content"], "two");
        let edit = world.call(&["fs", "edit", "a/b/new.txt", "--old", "two", "--new", "2"]);
        assert_eq!((edit.status, &edit.json["replacements"]), (0, &json!(1)), "{backend:?} {edit:?}");
        let list = world.call(&["fs", "list", "a"]);
        assert_eq!(list.json["entries"][0]["kind"], "directory", "{list:?}");
        let found = world.call(&["fs", "search", "^th"]);
        assert_eq!(found.json["matches"][0]["path"], "a/b/new.txt", "{found:?}");
        assert_eq!(found.json["matches"][0]["line"], 3);
        let named = world.call(&["fs", "search", "--glob", "*.txt"]);
        assert_eq!(named.json["matches"].as_array().unwrap().len(), 1, "{named:?}");
        assert_eq!(world.call(&["fs", "delete", "a/b/new.txt"]).status, 0);
        assert_eq!(world.call(&["fs", "delete", "a/b", "--directory"]).json["kind"], "directory");
        assert!(!world.path("a/b").exists());
    }
}

#[test]
fn every_operation_is_denied_without_its_grant_and_the_denial_is_recorded() {
    let world = World::new(&["proc.exec{in=$P,cmds=[true]}"]);
    world.write("f.txt", "old");
    let cases: &[(&[&str], &str)] = &[
        (&["fs", "read", "f.txt"], "fs.read"),
        (&["fs", "write", "f.txt"], "fs.write"),
        (&["fs", "edit", "f.txt", "--old", "old", "--new", "new"], "fs.read"),
        (&["fs", "delete", "f.txt"], "fs.delete"),
        (&["fs", "list", "."], "fs.read"),
        (&["fs", "search", "old"], "fs.read"),
    ];
    for (words, capability) in cases {
        let said = world.call_with(words, b"new");
        assert_eq!((said.status, said.code()), (1, "capability_absent"), "{words:?} {said:?}");
        assert_eq!(said.json["request"]["capability"], *capability);
        assert_eq!(said.json["is_error"], true);
        let smallest = said.json["suggested_grant"].as_str().unwrap();
        assert!(smallest.starts_with(capability), "{smallest}");
        let events = world.events();
        let denied = events.iter().rev().find(|event| event["kind"] == "decision").unwrap();
        assert_eq!(denied["body"]["decision"], "deny");
        assert_eq!(denied["body"]["denial"], said.json);
    }
    assert_eq!(std::fs::read(world.path("f.txt")).unwrap(), b"old");
    let events = world.events();
    assert!(!events.iter().any(|event| event["kind"] == "launch"), "a denied call starts no helper");
}

#[test]
fn an_agent_that_may_run_nothing_still_reads() {
    let world = World::new(&["fs.read{in=$P,paths=[docs]}"]);
    world.write("docs/x.md", "text");
    world.write("other.md", "no");
    assert_eq!(world.call(&["fs", "read", "docs/x.md"]).json["content"], "text");
    assert_eq!(world.call(&["fs", "read", "other.md"]).code(), "scope_violation");
    assert_eq!(world.call(&["fs", "read", "docs/../other.md"]).code(), "scope_violation");
    let events = world.events();
    let launch = events.iter().find(|event| event["kind"] == "launch").unwrap();
    assert_eq!(launch["body"]["helper"], true);
    assert!(
        events
            .iter()
            .any(|event| event["kind"] == "end" && event["body"]["launch"] == launch["body"]["launch"])
    );
    let call = events.iter().find(|event| event["kind"] == "tool").unwrap();
    assert_eq!((&call["body"]["tool"], &call["body"]["status"]), (&json!("read_file"), &json!("success")));
}

#[test]
fn writing_without_reading_and_deleting_without_writing() {
    for backend in BACKENDS {
        let world = World::new(&["fs.write{in=$P}"]).behind(*backend);
        world.write("f.txt", "old");
        assert_eq!(world.call_with(&["fs", "write", "f.txt"], b"newer").status, 0, "{backend:?}");
        assert_eq!(std::fs::read(world.path("f.txt")).unwrap(), b"newer");
        assert_eq!(world.call(&["fs", "read", "f.txt"]).status, 1);
        assert_eq!(world.call(&["fs", "edit", "f.txt", "--old", "n", "--new", "m"]).status, 1);
        assert_eq!(world.call(&["fs", "delete", "f.txt"]).code(), "capability_absent");
        world.grant(&["fs.delete{in=$P}"]);
        assert_eq!(world.call_with(&["fs", "write", "f.txt"], b"x").status, 1);
        assert_eq!(world.call(&["fs", "delete", "f.txt"]).status, 0, "{backend:?}");
    }
}

#[test]
fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
    let world = World::new(ALL);
    let path = world.write("run.sh", "old");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o754)).unwrap();
    let before = std::fs::metadata(&path).unwrap();
    let said = world.call_with(&["fs", "write", "run.sh"], b"new");
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(after.mode() & 0o7777, 0o754);
    // Where the file system has files without names, another file has taken its place.
    assert_eq!(said.json["atomic"], json!(before.ino() != after.ino()), "{said:?}");
    // Another name must not lose its file.
    std::fs::hard_link(&path, world.path("twin")).unwrap();
    let said = world.call_with(&["fs", "write", "run.sh"], b"both");
    assert_eq!(said.json["atomic"], false);
    assert_eq!(std::fs::read(world.path("twin")).unwrap(), b"both");
    assert_eq!(world.names(), [".git", "run.sh", "twin"]);
}

#[test]
fn an_existing_or_missing_file_can_be_asked_for() {
    let world = World::new(ALL);
    world.write("f.txt", "old");
    assert_eq!(world.call_with(&["fs", "write", "f.txt", "--new"], b"x").code(), "exists");
    assert_eq!(world.call_with(&["fs", "write", "g.txt", "--old"], b"x").code(), "not_found");
    assert_eq!(world.call_with(&["fs", "write", "d/g.txt"], b"x").code(), "not_found");
    assert_eq!(world.call(&["fs", "read", "g.txt"]).code(), "not_found");
    assert_eq!(world.call(&["fs", "delete", "g.txt"]).code(), "not_found");
    assert_eq!(world.call(&["fs", "read", "f.txt/x"]).code(), "wrong_kind");
    assert_eq!(world.call(&["fs", "delete", ".git/hooks"]).code(), "scope_violation");
}

#[test]
fn an_edit_is_exact_and_unique_or_nothing() {
    let world = World::new(ALL);
    world.write("f.txt", "a b b\r\n");
    let edit = |old: &str, new: &str, all: bool| {
        let mut words = vec!["fs", "edit", "f.txt", "--old", old, "--new", new];
        words.extend(all.then_some("--all"));
        world.call(&words)
    };
    assert_eq!(edit("c", "d", false).code(), "no_match");
    let twice = edit("b", "d", false);
    assert_eq!((twice.status, twice.code()), (2, "not_unique"));
    assert!(twice.json["hint"].as_str().unwrap().contains("replace_all"));
    assert_eq!(std::fs::read(world.path("f.txt")).unwrap(), b"a b b\r\n");
    assert_eq!(edit("b", "c", true).json["replacements"], 2);
    assert_eq!(std::fs::read(world.path("f.txt")).unwrap(), b"a c c\r\n");
    world.write("bin", b"\xff\0");
    assert_eq!(world.call(&["fs", "edit", "bin", "--old", "x", "--new", "y"]).code(), "not_text");
}

#[test]
fn content_and_names_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new(ALL);
    let name = std::ffi::OsStr::from_bytes(b"n\xff\n");
    std::fs::write(world.env.project().join(name), b"\0\x01\xfe").unwrap();
    let list = world.call(&["fs", "list", "."]);
    let entry = &list.json["entries"][1];
    assert_eq!((&entry["name_base64"], &entry["size"]), (&json!("bv8K"), &json!(3)), "{list:?}");
    let read = world.call(&["fs".as_ref(), "read".as_ref(), name]);
    assert_eq!(
        (&read.json["encoding"], &read.json["content"]),
        (&json!("base64"), &json!("AAH+")),
        "{read:?}"
    );
    assert_eq!(read.json["path_base64"].as_str().map(str::is_empty), Some(false));
    let wrote = world.call_with(&["fs".as_ref(), "write".as_ref(), name], b"\x80\x00");
    assert_eq!(wrote.status, 0, "{wrote:?}");
    assert_eq!(std::fs::read(world.env.project().join(name)).unwrap(), b"\x80\0");
    assert_eq!(world.call(&["fs".as_ref(), "delete".as_ref(), name]).status, 0);
}

#[test]
fn answers_and_requests_are_bounded() {
    let world = World::new(ALL);
    let large = std::fs::File::create(world.path("large")).unwrap();
    large.set_len(3 << 30).unwrap();
    let read = world.call(&["fs", "read", "large"]);
    assert_eq!((read.status, read.code()), (2, "too_large"));
    assert!(read.json["hint"].as_str().unwrap().contains("offset"));
    assert_eq!(world.call(&["fs", "read", "large", "--bytes", "0:9000000"]).code(), "too_large");
    let part = world.call(&["fs", "read", "large", "--bytes", "1000:4"]);
    assert_eq!(part.json["content"], "\0\0\0\0");
    assert_eq!(world.call(&["fs", "edit", "large", "--old", "a", "--new", "b"]).code(), "too_large");
    let much = vec![b'x'; (16 << 20) + 1];
    assert_eq!(world.call_with(&["fs", "write", "much"], &much).code(), "too_large");
    assert!(!world.path("much").exists());
    for number in 0..30 {
        world.write(&format!("many/{number:02}.txt"), "needle\nneedle\n");
    }
    let list = world.call(&["fs", "list", "many", "--limit", "10"]);
    assert_eq!((list.json["entries"].as_array().unwrap().len(), &list.json["truncated"]), (10, &json!(true)));
    let found = world.call(&["fs", "search", "needle", "--limit", "7"]);
    assert_eq!(
        (found.json["matches"].as_array().unwrap().len(), &found.json["stopped_by"]),
        (7, &json!("results"))
    );
    assert_eq!(found.json["skipped"], json!(1), "the large file is too large to look through");
}

#[test]
fn a_pattern_takes_linear_time_and_a_wrong_one_is_told() {
    let world = World::new(ALL);
    world.write("a.txt", "a".repeat(50_000));
    let slow = world.call(&["fs", "search", "(a*)*(a*)*b$"]);
    assert_eq!((slow.status, slow.json["matches"].as_array().unwrap().len()), (0, 0), "{slow:?}");
    assert_eq!(world.call(&["fs", "search", "("]).code(), "invalid_arguments");
    assert_eq!(world.call(&["fs", "search", "a{1000}{1000}{1000}"]).code(), "invalid_arguments");
}

#[test]
fn people_read_plain_text() {
    let world = World::new(&["fs.read{in=$P}"]);
    world.write("f.txt", "text");
    assert_eq!(world.env.sbx(&["fs", "read", "-a", "a", "f.txt"]), "text[exit 0]\n");
    let denied = world.env.sbx(&["fs", "read", "-a", "a", "/etc/hostname"]);
    assert!(denied.contains("scope_violation") && denied.contains("smallest grant:"), "{denied}");
    assert!(
        denied.contains("[HOME]/.config/sbx/agents/a.md:4") && denied.ends_with("[exit 1]\n"),
        "{denied}"
    );
}

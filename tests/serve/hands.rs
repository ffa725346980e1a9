//! The agent's hands over the protocol: each allowed, each denied, with the denial in the result and in the log.

use crate::world::{ALL, done, recorded, refused, serve, text, world};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

#[test]
fn files_are_read_written_changed_found_and_deleted() {
    let env = world(ALL, "");
    env.write("project/src/a.txt", "one\ntwo\n");
    let mut talk = serve(&env);
    let answer = talk.call("read_file", json!({ "path": "src/a.txt" }));
    assert_eq!((text(&answer), &done(&answer)["content"]), ("one\ntwo\n", &json!("one\ntwo\n")));
    done(&talk.call("write_file", json!({ "path": "src/b.txt", "content": "three\n" })));
    done(&talk.call("edit_file", json!({ "path": "src/b.txt", "old_text": "three", "new_text": "four" })));
    assert_eq!(std::fs::read_to_string(env.project().join("src/b.txt")).unwrap(), "four\n");
    let answer = talk.call("list_dir", json!({ "path": "src" }));
    let names: Vec<&Value> =
        done(&answer)["entries"].as_array().unwrap().iter().map(|e| &e["name"]).collect();
    assert_eq!(names, ["a.txt", "b.txt"]);
    let answer = talk.call("search", json!({ "pattern": "tw." }));
    assert_eq!(done(&answer)["matches"][0]["line"], 2, "{answer}");
    done(&talk.call("delete_file", json!({ "path": "src/b.txt" })));
    assert!(!env.project().join("src/b.txt").exists());
}

#[test]
fn every_hand_is_denied_where_it_is_not_granted() {
    let outside = [
        ("read_file", json!({ "path": "/etc/passwd" })),
        ("write_file", json!({ "path": "/tmp/x", "content": "" })),
        ("edit_file", json!({ "path": "/etc/passwd", "old_text": "root", "new_text": "me" })),
        ("delete_file", json!({ "path": "/etc/passwd" })),
        ("list_dir", json!({ "path": "/etc" })),
        ("search", json!({ "path": "/etc", "glob": "*" })),
        ("http_request", json!({ "url": "https://a.example/" })),
    ];
    let env = world(ALL, "");
    let mut talk = serve(&env);
    for (name, arguments) in &outside[..6] {
        let answer = talk.call(name, arguments.clone());
        assert_eq!(refused(&answer), "scope_violation", "{name}: {answer}");
        assert!(recorded(&env, name, "scope_violation"), "{name}");
    }
    let env = world(&["records.read"], "");
    let mut talk = serve(&env);
    let shown = talk.tools();
    for (name, arguments) in outside {
        assert!(!shown.iter().any(|shown| shown == name), "{name} is not offered");
        let answer = talk.call(name, arguments);
        assert_eq!(refused(&answer), "capability_absent", "{name}: {answer}");
        assert!(recorded(&env, name, "capability_absent"), "{name}");
    }
}

#[test]
fn requests_go_through_the_same_policy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let _ = (&stream)
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    let grant = format!("net.get: {{hosts: [\"127.0.0.1:{port}\"]}}");
    let env = world(&[&grant], "");
    let mut talk = serve(&env);
    let url = format!("http://127.0.0.1:{port}/");
    let answer = talk.call("http_request", json!({ "url": url }));
    assert_eq!(done(&answer)["body"], "hello", "{answer}");
    let answer = talk.call("http_request", json!({ "url": url, "method": "POST", "body": "x" }));
    assert_eq!(refused(&answer), "capability_absent", "{answer}");
    let answer = talk.call("http_request", json!({ "url": "http://localhost:9/" }));
    assert_eq!(refused(&answer), "scope_violation", "{answer}");
    assert!(recorded(&env, "http_request", "scope_violation"));
}

#[test]
fn hands_follow_the_record_that_changes() {
    let env = world(&["fs.read: {in: ROOT}"], "");
    env.write("project/a", "x");
    let mut talk = serve(&env);
    assert_eq!(
        refused(&talk.call("write_file", json!({ "path": "a", "content": "y" }))),
        "capability_absent"
    );
    crate::world::record(&env, &["fs.read: {in: ROOT}", "fs.write: {in: ROOT}"], "");
    assert_eq!(talk.line()["method"], "notifications/tools/list_changed");
    done(&talk.call("write_file", json!({ "path": "a", "content": "y" })));
    crate::world::record(&env, &["fs.write: {in: ROOT}"], "");
    assert_eq!(talk.line()["method"], "notifications/tools/list_changed");
    assert_eq!(refused(&talk.call("read_file", json!({ "path": "a" }))), "capability_absent");
}

#[test]
fn records_are_kept_by_class() {
    let env = world(
        &[
            "records.read",
            "records.create: {classes: [note]}",
            "records.update: {classes: [note]}",
            "records.delete: {classes: [draft]}",
        ],
        "",
    );
    env.write("home/.config/sbx/config.yml", "records: ~/notes\n");
    std::fs::create_dir_all(env.home().join("notes")).unwrap();
    let mut talk = serve(&env);
    let create =
        json!({ "id": "errands/shop", "class": "note", "body": "Buy milk.", "fields": { "due": "friday" } });
    done(&talk.call("records_create", create));
    let answer = talk.call("records_read", json!({ "id": "errands/shop" }));
    assert!(done(&answer)["body"].as_str().unwrap().contains("Buy milk."), "{answer}");
    assert_eq!(done(&talk.call("records_list", json!({})))["records"].as_array().unwrap().len(), 1);
    assert_eq!(
        done(&talk.call("records_search", json!({ "pattern": "milk" })))["matches"][0]["id"],
        "errands/shop"
    );
    done(&talk.call("records_update", json!({ "id": "errands/shop", "body": "Buy bread." })));
    for (name, arguments) in [
        ("records_create", json!({ "id": "plan", "class": "secret", "body": "" })),
        ("records_delete", json!({ "id": "errands/shop" })),
    ] {
        let answer = talk.call(name, arguments);
        assert_eq!(refused(&answer), "scope_violation", "{name}: {answer}");
        assert!(recorded(&env, name, "scope_violation"), "{name}");
    }
    let env = world(&["fs.read: {in: ROOT}"], "");
    env.write("home/.config/sbx/config.yml", "records: ~/notes\n");
    std::fs::create_dir_all(env.home().join("notes")).unwrap();
    let mut talk = serve(&env);
    assert!(!talk.tools().iter().any(|name| name.starts_with("records_")));
    for (name, arguments) in [
        ("records_list", json!({})),
        ("records_read", json!({ "id": "a" })),
        ("records_search", json!({ "pattern": "a" })),
        ("records_create", json!({ "id": "a", "class": "note" })),
        ("records_update", json!({ "id": "a", "body": "" })),
        ("records_delete", json!({ "id": "a" })),
    ] {
        let answer = talk.call(name, arguments);
        assert_eq!(refused(&answer), "capability_absent", "{name}: {answer}");
        assert!(recorded(&env, name, "capability_absent"), "{name}");
    }
}

#[test]
fn authority_is_given_on_only_as_far_as_it_is_held() {
    let env = world(&["fs.read: {in: ROOT}", "agent.grant: {id: helper}"], "");
    let file = env.write_record("helper.yml", "id: helper\ncapabilities: []\n");
    let mut talk = serve(&env);
    assert_eq!(done(&talk.call("agents_capabilities", json!({})))["agent"], "tester");
    let root = env.project().display().to_string();
    let grant = |what: &str| json!({ "id": "helper", "grants": [what] });
    done(&talk.call("agents_grant", grant(&format!("fs.read{{in={root},paths=[src]}}"))));
    assert!(std::fs::read_to_string(&file).unwrap().contains("fs.read"));
    let answer = talk.call("agents_grant", grant(&format!("fs.write{{in={root}}}")));
    assert_eq!(refused(&answer), "exceeds_grantor_authority", "{answer}");
    let own = json!({ "id": "tester", "grants": [format!("fs.write{{in={root}}}")] });
    assert_eq!(refused(&talk.call("agents_grant", own)), "self_modification");
    assert!(recorded(&env, "agents_grant", "self_modification"));
    let env = world(&["fs.read: {in: ROOT}"], "");
    let mut talk = serve(&env);
    let answer = talk.call("agents_grant", grant("fs.read"));
    assert_eq!(refused(&answer), "capability_absent", "{answer}");
    assert!(recorded(&env, "agents_grant", "capability_absent"));
}

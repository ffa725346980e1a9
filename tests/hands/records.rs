//! The store of records by id and class, and giving authority to another agent.

use crate::support::TestEnv;
use crate::world::World;
use sbx::capability::Spec;
use sbx::hands::{Cancel, Context, Reply, call};
use sbx::run::Setting;
use sbx::{Facts, Policy};
use serde_json::json;
use std::sync::Arc;

fn store(grants: &[&str]) -> World {
    let world = World::new(grants);
    let dir = world.env.home().join("records");
    std::fs::create_dir_all(&dir).unwrap();
    world.env.write(world.env.home().join(".config/sbx/config.yml"), format!("records: {}\n", dir.display()));
    world
}

const ALL: &[&str] = &["records.read", "records.create", "records.update", "records.delete"];

#[test]
fn records_are_created_read_found_changed_and_deleted() {
    let world = store(ALL);
    let made = world.call_with(
        &["records", "create", "notes/today", "--class", "note", "--set", "due=3"],
        b"# Today\nmilk\n",
    );
    assert_eq!((made.status, &made.json["class"]), (0, &json!("note")), "{made:?}");
    let file = world.env.home().join("records/notes/today.md");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "---\nclass: \"note\"\ndue: 3\n---\n# Today\nmilk\n");
    let again = world.call_with(&["records", "create", "notes/today", "--class", "note"], b"");
    assert_eq!((again.status, again.code()), (2, "exists"), "{again:?}");
    let read = world.call(&["records", "read", "notes/today"]);
    assert_eq!((&read.json["fields"]["due"], &read.json["body"]), (&json!(3), &json!("# Today\nmilk\n")));
    world.call_with(&["records", "create", "plan", "--class", "plan"], b"milk too\n");
    let list = world.call(&["records", "list"]);
    assert_eq!(list.json["records"].as_array().unwrap().len(), 2, "{list:?}");
    let list = world.call(&["records", "list", "--class", "plan"]);
    assert_eq!(list.json["records"], json!([{ "id": "plan", "class": "plan" }]));
    let found = world.call(&["records", "search", "MILK", "--ignore-case"]);
    assert_eq!(found.json["matches"].as_array().unwrap().len(), 2, "{found:?}");
    let revision = read.json["revision"].as_str().unwrap();
    let changed = world.call(&["records", "update", "notes/today", "--set", "due=4", "--revision", revision]);
    assert_eq!(changed.status, 0, "{changed:?}");
    let stale = world.call(&["records", "update", "notes/today", "--set", "due=5", "--revision", revision]);
    assert_eq!((stale.status, stale.code()), (2, "changed"), "{stale:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("due: 4") && text.ends_with("# Today\nmilk\n"), "{text}");
    assert_eq!(world.call(&["records", "delete", "plan"]).status, 0);
    assert_eq!(world.call(&["records", "read", "plan"]).code(), "not_found");
}

#[test]
fn classes_and_ids_are_decided() {
    let world = store(&[
        "records.read",
        "records.create{classes=[note]}",
        "records.update{classes=[note],paths=[notes/**]}",
        "records.delete{classes=[note]}",
    ]);
    let dir = world.env.home().join("records");
    world.env.write(dir.join("notes/a.md"), "---\nclass: note\n---\na");
    world.env.write(dir.join("other.md"), "---\nclass: note\n---\nb");
    world.env.write(dir.join("notes/law.md"), "---\nclass: law\n---\nc");
    for (words, code) in [
        (&["records", "create", "x", "--class", "law"][..], "scope_violation"),
        (&["records", "update", "notes/law", "--set", "a=1"], "scope_violation"),
        (&["records", "update", "other", "--set", "a=1"], "scope_violation"),
        (&["records", "update", "notes/a", "--class", "law"], "scope_violation"),
        (&["records", "delete", "notes/law"], "scope_violation"),
        (&["records", "create", "agents/evil", "--class", "note"], "capability_absent"),
        (&["records", "create", "evil", "--class", "agent"], "capability_absent"),
        (&["records", "update", "notes/a", "--class", "agent"], "capability_absent"),
    ] {
        let said = world.call_with(words, b"");
        assert_eq!((said.status, said.code()), (1, code), "{words:?} {said:?}");
        let events = world.events();
        assert!(events.iter().any(|event| event["body"]["denial"] == said.json), "{words:?}");
    }
    assert_eq!(world.call(&["records", "update", "notes/a", "--set", "a=1"]).status, 0);
    for id in ["../secret", "a/../../b", ".hidden", ""] {
        assert_eq!(world.call(&["records", "read", id]).code(), "invalid_arguments", "{id:?}");
    }
    assert_eq!(std::fs::read_to_string(dir.join("notes/law.md")).unwrap(), "---\nclass: law\n---\nc");
}

#[test]
fn a_link_in_the_store_leads_nowhere_and_an_agent_without_a_verb_learns_nothing() {
    let world = store(ALL);
    let dir = world.env.home().join("records");
    let secret = world.env.write("secret.md", "---\nclass: note\n---\nsecret");
    std::os::unix::fs::symlink(&secret, dir.join("way.md")).unwrap();
    let read = world.call(&["records", "read", "way"]);
    assert_eq!((read.status, read.code()), (2, "refused"), "{read:?}");
    let update = world.call(&["records", "update", "way", "--set", "a=1"]);
    assert_eq!(update.code(), "refused");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "---\nclass: note\n---\nsecret");
    world.env.write(dir.join("there.md"), "---\nclass: note\n---\n");
    world.grant(&["fs.read{in=$P}"]);
    for id in ["there", "missing"] {
        for verb in ["read", "delete"] {
            assert_eq!(world.call(&["records", verb, id]).code(), "capability_absent", "{verb} {id}");
        }
    }
    let unset = World::new(ALL);
    assert_eq!(unset.call(&["records", "list"]).code(), "not_configured");
}

fn context(env: &TestEnv, held: &[&str]) -> Context {
    let facts = Facts::new(env.home()).at(env.project());
    let specs: Vec<Spec> = held.iter().map(|spec| Spec::parse(spec).unwrap()).collect();
    let policy = Policy::from_specs("a", &specs, &facts).unwrap();
    Context::new(policy, &Setting::with_facts(facts).unwrap(), Arc::new(sbx::audit::Nowhere))
}

fn code(reply: &Reply) -> String {
    reply.to_json()["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_agent_gives_what_it_holds_and_no_more() {
    let env = TestEnv::new();
    let record = env.write_record("b.md", "---\nid: b\ncapabilities: []\n---\n");
    env.write_record("a.md", "---\nid: a\ncapabilities: []\n---\n");
    let project = env.project().display().to_string();
    let held = [&format!("fs.read{{in={project}}}")[..], "agent.grant{id=agents/b}"];
    let context = context(&env, &held);
    let give = |id: &str, grants: &[String]| {
        call("agents_grant", &json!({ "id": id, "grants": grants }), &context, &Cancel::new())
    };
    let narrow = format!("fs.read{{in={project},paths=[docs]}}");
    for (id, grant, expected) in [
        ("b", format!("fs.write{{in={project}}}"), "exceeds_grantor_authority"),
        ("b", "fs.read{in=/}".to_owned(), "exceeds_grantor_authority"),
        ("a", narrow.clone(), "self_modification"),
        ("agents/a", narrow.clone(), "self_modification"),
        ("c", narrow.clone(), "scope_violation"),
        ("b", "no.such".to_owned(), "invalid_arguments"),
    ] {
        assert_eq!(code(&give(id, std::slice::from_ref(&grant))), expected, "{id} {grant}");
    }
    assert_eq!(std::fs::read_to_string(&record).unwrap(), "---\nid: b\ncapabilities: []\n---\n");
    // All or none.
    assert_eq!(
        code(&give("b", &[narrow.clone(), "net.get{hosts=[x.example]}".to_owned()])),
        "exceeds_grantor_authority"
    );
    let given = give("b", std::slice::from_ref(&narrow));
    assert_eq!(given.to_json()["changed"], true, "{given:?}");
    assert!(std::fs::read_to_string(&record).unwrap().contains("docs"));
    assert_eq!(give("b", std::slice::from_ref(&narrow)).to_json()["changed"], false);
}

#[test]
fn an_agent_sees_its_own_capabilities_and_unknown_names_are_denied() {
    let env = TestEnv::new();
    let context = context(&env, &["fs.read{in=/w}"]);
    let reply = call("agents_capabilities", &json!({}), &context, &Cancel::new()).to_json();
    assert_eq!((&reply["agent"], &reply["grants"][0]["grant"]), (&json!("a"), &json!("fs.read{in=/w}")));
    assert_eq!(code(&call("no_such", &json!({}), &context, &Cancel::new())), "unknown_tool");
    assert_eq!(
        code(&call("read_file", &json!({ "pth": "x" }), &context, &Cancel::new())),
        "invalid_arguments"
    );
    assert_eq!(code(&call("read_file", &json!([]), &context, &Cancel::new())), "invalid_arguments");
    assert_eq!(
        code(&call(
            "agents_grant",
            &json!({ "id": "b", "grants": ["fs.read{in=/w}"] }),
            &context,
            &Cancel::new()
        )),
        "capability_absent"
    );
}

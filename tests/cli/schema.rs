//! `sbx schema`: the schemas are schemas, and what sbx ships and prints fits them.

use crate::support::{TestEnv, source_dir};
use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Value, json};

const KINDS: &[&str] = &[
    "record",
    "config",
    "denial",
    "check-request",
    "check-response",
    "outcome",
    "agents",
    "agent",
    "grants",
    "problems",
    "explanation",
    "risk-assessment",
    "risk-suggestions",
    "risk-rules",
    "why",
    "doctor",
    "audit-events",
    "audit-stats",
    "audit-verdict",
    "learn",
    "report",
    "skills",
    "skill-check",
    "provider-tools",
    "mcp-pins",
    "mcp-install",
    "hook-install",
    "tools",
    "tool-problems",
    "tool-run",
    "tool-status",
    "tool-session",
    "operation",
];

fn schema(env: &TestEnv, kind: &str) -> Value {
    env.json(&["schema", kind])
}

fn check(schema: &Value, value: &Value, fits: bool) {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert_eq!(errors.is_empty(), fits, "{value:#}\n{errors:#?}");
}

/// The front matter of a record as JSON.
fn front_matter(text: &str) -> Value {
    let front =
        text.strip_prefix("---\n").and_then(|rest| rest.split("\n---\n").next()).expect("front matter");
    let mut parser = Parser::new_from_str(front);
    loop {
        let (event, _) = parser.next_event().expect("a document").expect("YAML");
        if matches!(event, Event::MappingStart(..)) {
            return value(&mut parser, event);
        }
    }
}

fn value<'a>(parser: &mut Parser<'a, StrInput<'a>>, event: Event<'a>) -> Value {
    let mut children = |end: fn(&Event<'_>) -> bool| {
        let mut all = Vec::new();
        loop {
            let (event, _) = parser.next_event().expect("an end").expect("YAML");
            if end(&event) {
                return all;
            }
            all.push(value(parser, event));
        }
    };
    match event {
        Event::SequenceStart(..) => Value::Array(children(|event| matches!(event, Event::SequenceEnd))),
        Event::MappingStart(..) => {
            let flat = children(|event| matches!(event, Event::MappingEnd));
            flat.chunks(2)
                .map(|pair| (pair[0].as_str().expect("a key").to_owned(), pair[1].clone()))
                .collect()
        }
        Event::Scalar(text, ScalarStyle::Plain, ..) => {
            text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
        }
        Event::Scalar(text, ..) => json!(text),
        other => unreachable!("{other:?} in a record"),
    }
}

#[test]
fn every_schema_is_a_schema() {
    let env = TestEnv::new();
    for kind in KINDS {
        let schema = schema(&env, kind);
        assert!(jsonschema::meta::is_valid(&schema), "{kind}");
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{kind}");
        assert!(schema["title"].is_string(), "{kind}");
    }
}

#[test]
fn every_kind_is_tested_here() {
    let env = TestEnv::new();
    let shown = env.sbx(&["schema", "--help"]);
    for kind in KINDS.iter().chain(&["capabilities"]) {
        assert!(shown.contains(&format!("- {kind}:")), "{shown}");
    }
    assert_eq!(shown.matches("\n          - ").count(), KINDS.len() + 1 + 3, "kinds and colours: {shown}");
}

#[test]
fn the_catalogue_has_seventeen_rows() {
    let env = TestEnv::new();
    let rows = env.json(&["schema", "capabilities"]);
    assert_eq!(rows.as_array().map(Vec::len), Some(17));
    assert_eq!(
        rows[0],
        json!({ "capability": "records.read", "risk": "low", "summary": "read records", "scope": {}, "bare": "everything" })
    );
}

#[test]
fn the_shipped_profiles_fit_the_record_schema() {
    let env = TestEnv::new();
    let schema = schema(&env, "record");
    let mut seen = 0;
    for entry in std::fs::read_dir(source_dir().join("profiles/agents")).expect("profiles") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a profile");
        check(&schema, &front_matter(&text), true);
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn the_record_schema_takes_what_sbx_takes_and_refuses_what_it_refuses() {
    let env = TestEnv::new();
    let schema = schema(&env, "record");
    for (record, fits) in [
        (json!({}), true),
        (json!({ "capabilities": [] }), true),
        (json!({ "capabilities": null }), true),
        (json!({ "capabilities": "records.read, records.create" }), true),
        (
            json!({ "capabilities": ["net.get{hosts=[a.b]}", { "fs.read": { "in": "~/x", "paths": ["a"] } }] }),
            true,
        ),
        (json!({ "capabilities": [{ "fs.read": { "in": 3 } }] }), false),
        (json!({ "capabilities": [{ "fs.read": { "hosts": ["a"] } }] }), false),
        (json!({ "capabilities": ["fs.reed"] }), false),
        (json!({ "sandbox": "~/x", "access": "rw" }), true),
        (json!({ "sandbox": { "root": "~/x" } }), true),
        (json!({ "sandbox": { "rot": "~/x" } }), false),
        (json!({ "limits": { "wall": "5m", "pids": 20 } }), true),
        (json!({ "limits": { "wal": "5m" } }), false),
        (
            json!({ "env": ["PATH", { "TOKEN": { "inject": { "host": "a.b", "header": "Authorization" } } }] }),
            true,
        ),
        (json!({ "class": "note" }), false),
        (json!({ "unknown": 1 }), true),
    ] {
        check(&schema, &record, fits);
    }
}

#[test]
fn the_config_schema_takes_what_sbx_takes() {
    let env = TestEnv::new();
    let schema = schema(&env, "config");
    check(
        &schema,
        &json!({ "sandbox": "~/work", "backend": "native", "limits": { "wall": "1h" }, "accept_degraded": ["fs-glob"] }),
        true,
    );
    check(&schema, &json!({ "sandbx": "~/work" }), false);
    check(&schema, &json!({ "backend": "magic" }), false);
}

fn with_agent() -> TestEnv {
    let env = TestEnv::new();
    env.write_record("w.md", "---\ncapabilities:\n  - fs.read: {in: ~/site}\n  - net.get: {hosts: [a.example]}\n  - proc.exec\n  - agent.grant\n---\n");
    env
}

#[test]
fn requests_and_answers_of_a_batch_fit_their_schemas() {
    let env = with_agent();
    let (requests, answers) = (schema(&env, "check-request"), schema(&env, "check-response"));
    let questions = [
        json!({ "cap": "fs.read", "path": "~/site/x" }),
        json!({ "cap": "fs.write", "path": "~/site/x" }),
        json!({ "cap": "net.get", "url": "https://a.example/" }),
        json!({ "cap": "net.get", "host": "b.example", "port": 443 }),
        json!({ "cap": "proc.exec", "argv": ["ls", "-l"] }),
        json!({ "cap": "proc.eval", "cmd": "ls" }),
        json!({ "cap": "records.read", "id": "notes/1" }),
        json!({ "cap": "agent.grant", "id": "w", "granted": ["fs.read{in=/x}"] }),
        json!({ "cap": "agent.grant", "id": "other", "granted": ["fs.read{in=/x}"] }),
    ];
    let mut input: String = questions.iter().map(|question| format!("{question}\n")).collect();
    questions.iter().for_each(|question| check(&requests, question, true));
    check(&requests, &json!({ "cap": "fs.read", "extra": true }), false);
    input.push_str("nonsense\n");
    let shown = env.sbx_with_input(&["check", "-a", "w", "--batch"], input.as_bytes());
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(lines.len(), questions.len() + 1, "{shown}");
    for line in lines {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        check(&answers, &answer, true);
    }
}

#[test]
fn a_denial_fits_its_schema_wherever_it_is_printed() {
    let env = with_agent();
    env.write_record("other.md", "---\ncapabilities: []\n---\n");
    let denials = schema(&env, "denial");
    for args in [
        ["--json", "check", "-a", "w", "fs.read", "/etc/passwd"].as_slice(),
        &["--json", "check", "-a", "w", "net.post", "https://a.example/"],
        &["--json", "check", "-a", "w", "proc.exec", "--", "ls"],
        &["--json", "agents", "grant", "w", "--as", "w", "records.read", "--yes"],
        &["--json", "agents", "grant", "other", "--as", "w", "fs.write{in=/}", "--yes"],
    ] {
        check(&denials, &env.json(args), true);
    }
}

#[test]
fn every_json_answer_fits_its_schema() {
    let env = TestEnv::new();
    env.write(
        "home/.config/sbx/agents/odd.md",
        "---\nsandbox: /tmp\ncapabilities:\n  - fs.raed\n  - fs.read: {in: /etc}\n---\n",
    );
    env.write("project/bad.yml", "x: {run: [], persistent: 1}\ny: 'echo ${a}'\n");
    env.write_record(
        "t.md",
        "---\nsandbox: {root: $PROJECT}\ncapabilities: [proc.exec, proc.eval]\ntools:\n  say: {run: [echo, '${word}']}\n  fail: {run: exit 3}\n  wait: {run: [sleep, '60'], persistent: true}\n  off: {run: ls, enabled: false}\n---\n",
    );
    let skill = "---\nname: look\ndescription: looks\nallowed-tools: Read Frob\n---\nBody.\n";
    let skill = env.write("project/skills/look/SKILL.md", skill);
    let skill = skill.to_str().expect("text");
    for (kind, arguments) in [
        ("agents", &["agents", "list"][..]),
        ("agent", &["agents", "show", "odd"]),
        ("agent", &["agents", "show", "scout"]),
        ("grants", &["agents", "capabilities", "odd"]),
        ("problems", &["agents", "lint"]),
        ("explanation", &["explain", "--agent", "odd"]),
        ("skills", &["skills", "list", "--agent", "scout", "--dir", "skills"]),
        ("skill-check", &["skills", "check", skill, "--agent", "fetcher"]),
        ("provider-tools", &["provider-tools", "--agent", "fetcher", "--all"]),
        ("outcome", &["exec", "--agent", "builder", "--", "sh", "-c", "echo x; exit 3"]),
        ("outcome", &["exec", "--agent", "scout", "--", "rm", "x"]),
        ("tools", &["tools", "list", "--all", "--schema"]),
        ("tool-problems", &["tools", "validate", "bad.yml"]),
        ("tool-run", &["tools", "run", "-a", "t", "say", "word=x"]),
        ("tool-run", &["tools", "run", "-a", "t", "say"]),
        ("tool-run", &["tools", "run", "-a", "t", "fail"]),
        ("tool-status", &["tools", "start", "-a", "t", "--session", "schema", "wait"]),
        ("tool-session", &["tools", "status", "--session", "schema"]),
        ("tool-status", &["tools", "stop", "--session", "schema", "wait"]),
        ("tool-status", &["tools", "stop", "--session", "schema", "wait"]),
        ("operation", &["fs", "list", "-a", "scout", "."]),
        ("operation", &["fs", "read", "-a", "scout", "bad.yml"]),
        ("operation", &["fs", "read", "-a", "scout", "missing"]),
        ("operation", &["fs", "delete", "-a", "scout", "bad.yml"]),
        ("operation", &["fs", "search", "-a", "scout", "echo"]),
        ("operation", &["http", "-a", "scout", "GET", "http://host.example/"]),
        ("operation", &["records", "list", "-a", "scout"]),
        ("doctor", &["doctor"]),
        ("why", &["why", "--agent", "scout", "fs.read", "."]),
        ("why", &["why", "--agent", "scout", "fs.write", "x"]),
        ("why", &["why", "--agent", "fetcher", "net.get", "host.example"]),
        ("audit-events", &["audit", "show"]),
        ("audit-stats", &["audit", "stats"]),
        ("audit-verdict", &["audit", "verify"]),
    ] {
        check(&schema(&env, kind), &env.json(&[&["--json"], arguments].concat()), true);
    }
}

#[test]
fn an_installation_answers_by_its_schema() {
    let env = TestEnv::new();
    let answer = env.json(&[
        "--json",
        "mcp",
        "install",
        "--client",
        "codex",
        "--agent",
        "scout",
        "--name",
        "x",
        "--dry-run",
        "--",
        "x",
    ]);
    check(&schema(&env, "mcp-install"), &answer, true);
    let answer = env.json(&["hook", "install", "--client", "cursor", "--agent", "scout", "--json"]);
    check(&schema(&env, "hook-install"), &answer, true);
    env.write("project/server.py", "import sys,json\nfor l in sys.stdin:\n m=json.loads(l)\n if 'id' in m: print(json.dumps({'jsonrpc':'2.0','id':m['id'],'result':{'tools':[{'name':'a'}]}}),flush=True)\n");
    let answer = env.json(&["--json", "mcp", "pin", "--agent", "builder", "--", "python3", "server.py"]);
    check(&schema(&env, "mcp-pins"), &answer, true);
    assert_eq!(answer["tools"][0]["change"], "new");
}

//! Many calls at a time, progress, and calls that are called off.

use crate::server::Talk;
use crate::world::{ALL, alive, marker, serve, soon, world};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn send(talk: &mut Talk, id: &Value, name: &str, arguments: &Value, meta: &Value) {
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
    talk.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string());
}

#[test]
fn a_thousand_calls_at_a_time_are_neither_lost_nor_mixed() {
    let env = world(ALL, "tools:\n  say: {run: [echo, '${word}'], params: {word: identifier}}\n");
    let mut talk = serve(&env);
    talk.ask("logging/setLevel", json!({ "level": "emergency" }));
    for id in 0..1000u64 {
        let (name, arguments) = match id % 10 {
            0 => ("exec", json!({ "argv": ["echo", format!("word-{id}")] })),
            1 => ("say", json!({ "word": format!("word-{id}") })),
            2 => ("no-such-tool", json!({})),
            3 => ("eval", json!({ "command": format!("echo word-{id} >&2; exit 1") })),
            _ => ("explain_risk", json!({ "command": format!("echo word-{id}") })),
        };
        // Identifiers of both kinds; the text of a number is another than the number.
        let id = if id % 2 == 0 { json!(id) } else { json!(format!("{}", id - 1)) };
        send(&mut talk, &id, name, &arguments, &json!({}));
    }
    let mut answers = BTreeMap::new();
    for _ in 0..1000 {
        let line = talk.line();
        let key = line["id"].to_string();
        assert!(answers.insert(key, line).is_none(), "an answer came twice");
    }
    for id in 0..1000u64 {
        let key = if id % 2 == 0 { id.to_string() } else { format!("\"{}\"", id - 1) };
        let answer = &answers[&key];
        let wanted = if id % 10 == 2 { "no-such-tool".to_owned() } else { format!("word-{id}") };
        let found = answer["result"]["structuredContent"].to_string();
        let whole = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_digit());
        let at = found.find(&wanted).unwrap_or_else(|| unreachable!("{id}: {answer}"));
        assert!(whole(found[at + wanted.len()..].chars().next()), "{id}: {answer}");
    }
}

#[test]
fn an_identifier_in_use_is_not_taken_twice() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    send(&mut talk, &json!(7), "exec", &json!({ "argv": ["sleep", "30"] }), &json!({}));
    send(&mut talk, &json!(7), "exec", &json!({ "argv": ["echo"] }), &json!({}));
    assert_eq!(talk.line()["error"]["code"], -32600);
}

#[test]
fn calls_that_go_on_tell_so_when_asked() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    let call = json!({ "command": "sleep 2.5; echo done" });
    send(&mut talk, &json!(1), "eval", &call, &json!({ "progressToken": "mine" }));
    let mut last = -1.0;
    loop {
        let line = talk.line();
        if line["id"] == 1 {
            assert_eq!(line["result"]["structuredContent"]["stdout"], "done\n");
            break;
        }
        assert_eq!(
            (&line["method"], &line["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("mine"))
        );
        let progress = line["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "it only grows: {line}");
        last = progress;
    }
    assert!(last >= 1.0, "it was told while it ran");
    send(&mut talk, &json!(2), "eval", &json!({ "command": "echo quiet" }), &json!({}));
    assert_eq!(talk.line()["id"], 2, "nothing is told to those who do not ask");
}

#[test]
fn a_call_that_is_called_off_ends_with_everything_it_started() {
    let env = world(
        ALL,
        "tools:\n  nap: 'sleep ${n} & sleep ${n}; echo never'\n".replace("${n}", "NUMBER").as_str(),
    );
    let mark = marker(&env);
    crate::world::record(&env, ALL, &format!("tools:\n  nap: 'sleep {mark} & sleep {mark}; echo never'\n"));
    let mut talk = serve(&env);
    for (id, name, arguments) in [
        (
            json!(1),
            "exec",
            json!({ "argv": ["sh", "-c", format!("trap '' TERM INT; (setsid sleep {mark} &) ; sleep {mark}")] }),
        ),
        (json!("two"), "eval", json!({ "command": format!("sleep {mark} & sleep {mark}") })),
        (json!(3), "nap", json!({})),
    ] {
        send(&mut talk, &id, name, &arguments, &json!({}));
        soon("it runs", || alive(&mark) >= 2);
        talk.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id, "reason": "enough" } }).to_string());
        soon("all of it is gone", || alive(&mark) == 0);
        // There is no answer to what was called off, and the server goes on.
        assert_eq!(talk.ask("ping", json!({}))["result"], json!({}));
    }
    assert!(talk.rest().is_empty(), "nothing was said of them");
    let cancelled = crate::world::events(&env, |event| event.to_string().contains("\"cancelled\":true"));
    assert_eq!(cancelled.len(), 3, "{cancelled:?}");
}

#[test]
fn a_client_that_does_not_read_is_not_buried() {
    let env = world(ALL, "");
    let mut command = env.sbx_command(&["mcp", "serve", "--agent", "tester"]);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = child.stdout.take().unwrap();
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        for id in 0..1000 {
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "list_capabilities", "_meta": { "padding": "x".repeat(2000) } } });
            input.write_all(format!("{call}\n").as_bytes()).unwrap();
        }
        input
    });
    // Nobody reads for a while: what is not taken waits in bounded memory.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let kilobytes: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap();
    assert!(kilobytes < 200_000, "{kilobytes} kB");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(output));
    let mut ids: Vec<u64> = lines
        .take(1000)
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1000).collect::<Vec<_>>());
    drop(writer.join().unwrap());
    assert!(child.wait().unwrap().success());
}

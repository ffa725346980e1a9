//! A helper that is kept: what it sees grows old and is noticed, many ask at once, and what is called off ends.

use crate::life::{helpers_of, is_alive, many_files, until};
use crate::world::World;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A server that holds the agent's hands.
struct Held {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Held {
    fn by(world: &World) -> Self {
        let mut command = world.env.sbx_command(&["mcp", "serve", "--agent", "a"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from }
    }

    fn send(&mut self, id: u64, name: &str, arguments: &Value) {
        let call = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments },
        });
        writeln!(self.to, "{call}").unwrap();
    }

    /// The next answer: its number and what it holds.
    fn answer(&mut self) -> (u64, Value) {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the server ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = message["id"].as_u64() {
                return (id, message["result"]["structuredContent"].clone());
            }
        }
    }

    fn ask(&mut self, name: &str, arguments: &Value) -> Value {
        self.send(0, name, arguments);
        self.answer().1
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_view_that_is_out_of_date_is_made_anew() {
    let world = World::new(&["fs.read{in=$P,paths=[*.md]}", "fs.read{in=$P/dir}"]);
    world.write("a.md", "one");
    world.write("dir/x", "one");
    let mut held = Held::by(&world);
    let read =
        |held: &mut Held, path: &str| held.ask("read_file", &json!({ "path": path }))["content"].clone();
    assert_eq!(read(&mut held, "a.md"), "one");
    assert_eq!(read(&mut held, "dir/x"), "one");
    // Replaced, not written over: the file that was shown is another now.
    std::fs::rename(world.write("new", "two"), world.path("a.md")).unwrap();
    assert_eq!(read(&mut held, "a.md"), "two");
    world.write("b.md", "new");
    assert_eq!(read(&mut held, "b.md"), "new");
    std::fs::rename(world.path("dir"), world.path("away")).unwrap();
    world.write("dir/x", "two");
    assert_eq!(read(&mut held, "dir/x"), "two");
}

#[test]
fn many_ask_at_once_and_nothing_is_mixed() {
    let world = World::new(&["fs.read{in=$P}"]);
    for number in 0..10 {
        world.write(&format!("{number}.txt"), format!("content {number}"));
    }
    let mut held = Held::by(&world);
    const CALLS: u64 = 300;
    for id in 1..=CALLS {
        held.send(id, "read_file", &json!({ "path": format!("{}.txt", id % 10) }));
    }
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..CALLS {
        let (id, value) = held.answer();
        assert_eq!(value["content"], format!("content {}", id % 10), "{value}");
        assert!(seen.insert(id), "{id} was answered twice");
    }
    assert!(helpers_of(held.child.id()).len() <= 4);
}

#[test]
fn what_is_called_off_ends() {
    let world = World::new(&["fs.read{in=$P}"]);
    many_files(&world);
    let mut held = Held::by(&world);
    held.send(7, "search", &json!({ "pattern": "(a|b|c)+(x|y)+z" }));
    let mut helpers = Vec::new();
    assert!(until(|| {
        helpers = helpers_of(held.child.id());
        !helpers.is_empty()
    }));
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    writeln!(held.to, "{cancel}").unwrap();
    assert!(until(|| !helpers.iter().any(|helper| is_alive(*helper))), "{helpers:?} go on");
    assert_eq!(
        held.ask("read_file", &json!({ "path": "many/0.txt", "line": 1, "lines": 1 }))["size"],
        4000 * 81
    );
}

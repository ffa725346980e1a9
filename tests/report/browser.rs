//! A real browser, driven through two pipes: it opens a page, presses keys, looks and takes pictures.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long an answer may take before the test is called off.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// Everything the browser said unasked.
    pub events: Vec<Value>,
}

fn chromium() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let dirs = ["/usr/bin", "/usr/local/bin"];
    let all = dirs.iter().flat_map(|dir| names.iter().map(move |name| Path::new(dir).join(name)));
    all.into_iter().find(|path| path.exists()).expect("chromium is installed (scripts/test does it)")
}

impl Browser {
    /// Starts a browser with a profile of its own below `place`.
    pub fn start(place: &Path) -> Self {
        let (inward, outward) = (place.join("to"), place.join("from"));
        let made = Command::new("mkfifo").args([&inward, &outward]).status().expect("mkfifo starts");
        assert!(made.success(), "pipes are made");
        let script = "exec \"$1\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
            --remote-debugging-pipe --user-data-dir=\"$4\" about:blank 3<\"$2\" 4>\"$3\" >/dev/null 2>&1";
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args([&chromium(), &inward, &outward, &place.join("profile")])
            .env("HOME", place)
            .stdin(Stdio::null())
            .spawn()
            .expect("a browser starts");
        let to = OpenOptions::new().write(true).open(&inward).expect("a pipe to the browser");
        let back = File::open(&outward).expect("a pipe from the browser");
        let (tell, from) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(back).split(0).map_while(Result::ok) {
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if tell.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self { child, to, from, session: String::new(), next: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and waits for its answer.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let answer = self.from.recv_timeout(PATIENCE).expect("the browser answers");
            if answer["id"] == json!(self.next) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Opens a file and waits until it has loaded.
    pub fn open(&mut self, file: &Path) {
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.from.recv_timeout(PATIENCE).expect("the page loads");
            self.events.push(event);
        }
    }

    /// What an expression comes to in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let answer =
            self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Presses and releases a key.
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => key
                .chars()
                .next()
                .filter(char::is_ascii_alphanumeric)
                .map_or(0, |c| u32::from(c.to_ascii_uppercase())),
        };
        let text = if key == "Enter" {
            "\r"
        } else if key.chars().count() == 1 {
            key
        } else {
            ""
        };
        let event = |kind: &str| json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        self.call("Input.dispatchKeyEvent", event("keyDown"));
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }),
        );
    }

    /// A window of this width, in light or in dark.
    pub fn dress(&mut self, width: u32, scheme: &str) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", scheme);
    }

    /// A picture of the window, as base64 of a PNG.
    pub fn picture(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        picture["data"].as_str().expect("a picture").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

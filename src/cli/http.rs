//! `sbx http`: one request with an agent's authority.

use super::fence::Who;
use super::hand::{carry_out, text};
use super::{CliError, Exit, Ui};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::Read;

/// What to ask, and of whom.
#[derive(Debug, Args)]
pub(super) struct Http {
    #[command(flatten)]
    who: Who,
    /// A header line, as `Name: value`; may be repeated.
    #[arg(long, short = 'H', value_name = "LINE")]
    header: Vec<String>,
    /// Send standard input as the body.
    #[arg(long, short)]
    body: bool,
    /// The most redirects to follow.
    #[arg(long, value_name = "N")]
    redirects: Option<u64>,
    /// The most bytes of the answer.
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,
    /// How long it may take, in milliseconds.
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// The method: GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE.
    method: String,
    /// The URL.
    url: String,
}

/// More than can be sent, so that too much is told as such.
const MOST_INPUT: u64 = 16 << 20;

impl Http {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let mut headers = Map::new();
        for line in &self.header {
            let (name, value) = line.split_once(':').ok_or_else(|| {
                CliError::new(format!("`{line}` is not a header line")).hint("write `Name: value`")
            })?;
            headers.insert(name.trim().to_owned(), json!(value.trim()));
        }
        let mut arguments = json!({
            "method": self.method, "url": self.url, "headers": headers, "redirects": self.redirects,
            "max_bytes": self.max_bytes, "timeout_ms": self.timeout,
        });
        if self.body {
            let mut body = Vec::new();
            std::io::stdin()
                .lock()
                .take(MOST_INPUT)
                .read_to_end(&mut body)
                .map_err(|error| CliError::new("cannot read standard input").because(&error))?;
            arguments["body"] = json!(STANDARD.encode(&body));
            arguments["encoding"] = json!("base64");
        }
        carry_out(ui, &self.who, "http_request", &arguments, |value| show(ui, value))
    }
}

/// The body is the answer; the status is about it.
fn show(ui: &Ui, value: &Value) -> Result<(), CliError> {
    ui.remark(format!("sbx: {} from {}", value["status"], text(value, "url")));
    if value["truncated"] == json!(true) {
        ui.remark("sbx: there is more; --max-bytes takes more");
    }
    let body = text(value, "body");
    match text(value, "encoding") {
        "base64" => ui.content(&STANDARD.decode(body).unwrap_or_default()),
        _ => ui.content(body.as_bytes()),
    }
}

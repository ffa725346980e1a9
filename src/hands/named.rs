//! Named tools that stand for one of these operations: their values were checked as any tool's.

use super::cancel::Cancel;
use super::context::Context;
use super::fault::{Fault, FaultCode};
use super::{Reply, call};
use crate::run::tools::{Own, Report, Stop};
use crate::tool::{Api, Tool, ToolCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// The most bytes of an answer that a request may ask for.
const MOST_BODY: u64 = 8 << 20;

impl Own for Context {
    fn carry_out(
        &self,
        tool: &Tool,
        api: Api,
        values: &BTreeMap<String, String>,
        cancel: Option<&Cancel>,
    ) -> Result<Report, Stop> {
        let begun = Instant::now();
        let (name, arguments) = operation(api, values, tool.constraints.max_stdout);
        let never = Cancel::new();
        // A request goes no further than the tool says it reaches; redirects are decided by the same authority.
        let narrowed = api.reaches_out().then(|| {
            Self::new(self.policy.narrowed(&tool.narrowing()), &self.setting, self.audit().clone())
                .at(self.cwd())
        });
        match call(name, &arguments, narrowed.as_ref().unwrap_or(self), cancel.unwrap_or(&never)) {
            Reply::Done(answer) => Ok(told(api, &answer, begun)),
            Reply::Denied(mut denial) => {
                denial.tool = Some(tool.name.clone());
                Err(Stop::Denied(denial))
            }
            Reply::Failed(fault) => Err(Stop::failed(code(&fault), &tool.name, fault.to_string())),
        }
    }
}

/// The operation, with its values.
fn operation(api: Api, values: &BTreeMap<String, String>, most: u64) -> (&'static str, Value) {
    let (path, content) = (values.get("path"), values.get("content"));
    let request = |method: &str| {
        let mut asked =
            json!({ "method": method, "url": values.get("url"), "max_bytes": most.min(MOST_BODY) });
        if let Some(body) = values.get("body") {
            asked["body"] = json!(body);
        }
        ("http_request", asked)
    };
    match api {
        Api::FsRead => ("read_file", json!({ "path": path, "length": most })),
        Api::FsList => ("list_dir", json!({ "path": path })),
        Api::FsWrite => ("write_file", json!({ "path": path, "content": content })),
        Api::FsDelete => ("delete_file", json!({ "path": path })),
        Api::NetGet => request("GET"),
        Api::NetPost => request("POST"),
        Api::NetPut => request("PUT"),
        Api::NetDelete => request("DELETE"),
        Api::RecordsRead => ("records_read", json!({ "id": values.get("id") })),
        Api::RecordsDelete => ("records_delete", json!({ "id": values.get("id") })),
    }
}

fn code(fault: &Fault) -> ToolCode {
    match fault.code {
        FaultCode::TimedOut | FaultCode::TooLarge => ToolCode::LimitExceeded,
        _ => ToolCode::NotDone,
    }
}

/// The answer in the form that named tools have.
fn told(api: Api, answer: &Value, begun: Instant) -> Report {
    let mut report = Report { exit_code: Some(0), ..Report::default() };
    match api {
        Api::FsRead => {
            let content = answer["content"].as_str().unwrap_or_default();
            report.stdout = match answer["encoding"].as_str() {
                Some("base64") => {
                    String::from_utf8_lossy(&STANDARD.decode(content).unwrap_or_default()).into_owned()
                }
                _ => content.to_owned(),
            };
            report.value = json!(content);
            report.encoding = answer["encoding"].as_str().map(str::to_owned);
            report.stdout_truncated = answer["whole"] == false;
        }
        Api::FsList => {
            let entries = answer["entries"].as_array().into_iter().flatten();
            let names: Vec<&str> = entries.filter_map(|entry| entry["name"].as_str()).collect();
            report.stdout = names.join("\n");
            report.value = json!(names);
            report.stdout_truncated = answer["truncated"] == true;
        }
        Api::NetGet | Api::NetPost | Api::NetPut | Api::NetDelete | Api::RecordsRead => {
            report.stdout = answer["body"].as_str().unwrap_or_default().to_owned();
            report.encoding = answer["encoding"].as_str().map(str::to_owned);
            report.stdout_truncated = answer["truncated"] == true;
            report.value = answer.clone();
        }
        Api::FsWrite | Api::FsDelete | Api::RecordsDelete => {}
    }
    report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    report
}

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
        match call(name, &arguments, self, cancel.unwrap_or(&never)) {
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
    match api {
        Api::FsRead => ("read_file", json!({ "path": path, "length": most })),
        Api::FsList => ("list_dir", json!({ "path": path })),
        Api::FsWrite => ("write_file", json!({ "path": path, "content": content })),
        Api::FsDelete => ("delete_file", json!({ "path": path })),
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
        Api::FsWrite | Api::FsDelete => {}
    }
    report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    report
}

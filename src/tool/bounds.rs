//! The keys of a definition that bound a run: time, place, and what becomes of its output.

use super::definition::{Constraints, Output};
use super::fields::Fields;
use super::param::split_place;
use crate::manifest::{Node, NodeKind};
use std::time::Duration;

const CONSTRAINT_KEYS: &[&str] =
    &["timeout_seconds", "timeoutMs", "timeout_ms", "timeout", "cwd", "max_stdout_bytes", "max_stderr_bytes"];

impl Fields<'_> {
    pub(super) fn output(&mut self) -> Output {
        match self.text("output") {
            None | Some("text") => Output::Text,
            Some("json") => Output::Json,
            Some("lines") => Output::Lines,
            Some(other) => {
                let span = self.get("output").map_or(self.node.span, |node| node.span);
                self.bad("output", span, format!("`output` is text, json or lines, not `{other}`"));
                Output::Text
            }
        }
    }

    pub(super) fn constraints(&mut self) -> Constraints {
        let mut constraints = Constraints::default();
        let own = self.get("constraints");
        if let Some(own) = own {
            if own.map().is_none() {
                self.bad("constraints", own.span, "`constraints` is a map");
            }
            self.check_keys("constraints.", CONSTRAINT_KEYS, own);
        }
        let places = [("", Some(self.node)), ("constraints.", own)];
        for (path, node) in places.into_iter().filter_map(|(path, node)| Some((path, node?))) {
            for (key, value) in node.map().unwrap_or_default() {
                let Some(name) = key.text().filter(|name| CONSTRAINT_KEYS.contains(name)) else { continue };
                self.constraint(&format!("{path}{name}"), name, value, &mut constraints);
            }
        }
        constraints
    }

    fn constraint(&mut self, field: &str, name: &str, value: &Node, into: &mut Constraints) {
        let number = match &value.kind {
            NodeKind::Number(text) => {
                text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1e9)
            }
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Text(_) | NodeKind::List(_) | NodeKind::Map(_) => {
                None
            }
        };
        let bytes = match &value.kind {
            NodeKind::Number(text) => text.parse::<u64>().ok().filter(|number| *number > 0),
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Text(_) | NodeKind::List(_) | NodeKind::Map(_) => {
                None
            }
        };
        let known = match name {
            "timeout_seconds" => number.map(|seconds| into.timeout = Some(Duration::from_secs_f64(seconds))),
            "timeoutMs" | "timeout_ms" => {
                number.map(|milliseconds| into.timeout = Some(Duration::from_secs_f64(milliseconds / 1000.0)))
            }
            "timeout" => {
                value.text().and_then(crate::manifest::duration).map(|time| into.timeout = Some(time))
            }
            "max_stdout_bytes" => bytes.map(|most| into.max_stdout = most),
            "max_stderr_bytes" => bytes.map(|most| into.max_stderr = most),
            _ => value
                .text()
                .filter(|place| split_place(place).is_some())
                .map(|place| into.cwd = Some(place.to_owned())),
        };
        if known.is_none() {
            let wanted = match name {
                "timeout" => "a time with its unit, like `90s` or `5m`",
                "cwd" => "a directory without `..`: absolute, or below ~, $PROJECT or $SESSION_DIR",
                _ => "a number above 0",
            };
            self.bad(field, value.span, format!("`{name}` is {wanted}"));
        }
    }
}

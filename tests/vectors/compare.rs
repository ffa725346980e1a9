//! What was got against what is expected, field by field.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub(crate) type Outcome = Result<(), String>;

/// Every expected field must be there; lists of grants, warnings, findings and the like as sets.
pub(crate) fn compare(expect: &Value, got: &Value) -> Outcome {
    let fields = expect.as_object().ok_or("the vector expects nothing")?;
    match fields.iter().find(|(key, wanted)| !fits(key, wanted, got)) {
        Some((key, wanted)) => Err(format!("{key}: expected {wanted}, got {got}")),
        None => Ok(()),
    }
}

fn fits(key: &str, wanted: &Value, got: &Value) -> bool {
    if let Some((name, test)) = by_suffix(key).filter(|_| got.get(key).is_none()) {
        return test(wanted, at(got, name));
    }
    let found = at(got, key);
    match key {
        "findings" => findings(wanted, found),
        "body" => fields_of(wanted).all(|(key, value)| &found[key] == value),
        "manifest_after" => as_sets(wanted) == as_sets(found),
        "log" => lines(found).any(|line| is_told(wanted, line)),
        "argv" | "child_words" | "value" => wanted == found,
        _ if wanted.is_array() => found.is_array() && set(wanted) == set(found),
        _ => wanted == found,
    }
}

/// A field by its name, or by its path: `result.content.0.text`.
fn at<'v>(got: &'v Value, key: &str) -> &'v Value {
    if let Some(found) = got.get(key) {
        return found;
    }
    let step = |value: &'v Value, step: &str| match value {
        Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
        other => other.get(step),
    };
    key.split('.').try_fold(got, step).unwrap_or(&Value::Null)
}

type Test = fn(&Value, &Value) -> bool;

/// Fields that say how another is compared: `text_starts_with`, `tools_include`, `code_any`.
fn by_suffix(key: &str) -> Option<(&str, Test)> {
    let tests: [(&str, Test); 9] = [
        ("_starts_with", |wanted, got| {
            texts(wanted, got).is_some_and(|(wanted, got)| got.starts_with(wanted))
        }),
        ("_ends_with", |wanted, got| texts(wanted, got).is_some_and(|(wanted, got)| got.ends_with(wanted))),
        ("_not_contains", |wanted, got| !contains(wanted, got)),
        ("_contains", contains),
        ("_excludes", |wanted, got| !contains(wanted, got)),
        ("_includes", holds),
        ("_include", holds),
        ("_exclude", |wanted, got| got.is_array() && set(got).is_disjoint(&set(wanted))),
        ("_any", |wanted, got| wanted.as_array().is_some_and(|wanted| wanted.contains(got))),
    ];
    tests.into_iter().find_map(|(suffix, test)| Some((key.strip_suffix(suffix)?, test)))
}

fn texts<'v>(wanted: &'v Value, got: &'v Value) -> Option<(&'v str, &'v str)> {
    Some((wanted.as_str()?, got.as_str()?))
}

/// A text with another in it, or with all of several; a list with a text in one of its lines.
fn contains(wanted: &Value, got: &Value) -> bool {
    let one = |wanted: &Value| match (wanted.as_str(), got) {
        (Some(wanted), Value::String(got)) => got.contains(wanted),
        (Some(wanted), Value::Array(_)) => lines(got).any(|line| line.contains(wanted)),
        _ => false,
    };
    wanted.as_array().map_or_else(|| one(wanted), |all| all.iter().all(one))
}

/// A list with all of some values, a text with all of some parts, an object with all of some names.
fn holds(wanted: &Value, got: &Value) -> bool {
    let parts = wanted.as_array().map_or_else(|| vec![wanted], |parts| parts.iter().collect());
    parts.iter().all(|part| match (got, part.as_str()) {
        (Value::Array(items), _) => items.contains(part),
        (Value::String(text), Some(part)) => text.contains(part),
        (Value::Object(map), Some(part)) => map.contains_key(part),
        _ => false,
    }) && !got.is_null()
}

fn lines(log: &Value) -> impl Iterator<Item = &str> {
    log.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a line of the log is the one that is meant, by its first words or its last.
fn is_told(wanted: &Value, line: &str) -> bool {
    wanted.as_str().is_some_and(|wanted| line.starts_with(wanted) || line.ends_with(wanted))
}

fn fields_of(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn set(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().map(Value::to_string).collect()
}

fn as_sets(value: &Value) -> Map<String, Value> {
    let sorted = |value: &Value| match value {
        Value::Array(_) => json!(set(value)),
        other => other.clone(),
    };
    fields_of(value).map(|(key, value)| (key.clone(), sorted(value))).collect()
}

/// As many findings as expected, each expected one matched by its given fields.
fn findings(wanted: &Value, got: &Value) -> bool {
    let (Some(wanted), Some(got)) = (wanted.as_array(), got.as_array()) else { return false };
    let matches = |wanted: &Value, got: &Value| fields_of(wanted).all(|(key, value)| &got[key] == value);
    wanted.len() == got.len() && wanted.iter().all(|wanted| got.iter().any(|got| matches(wanted, got)))
}

/// Fields are found and compared as the vectors name them. No `#[test]`: this program has its own main.
pub(crate) fn check() {
    let got = json!({
        "result": { "content": [{ "text": "Error: no" }], "n": 1 }, "text": "Error: no", "code": "a",
        "tools": ["x", "y"], "log": ["2 tools/actions permitted", "error: not reloaded, the old rules stay"],
    });
    for expect in [
        json!({ "result.content.0.text": "Error: no", "result.n": 1 }),
        json!({ "text_starts_with": "Error: ", "text_ends_with": "no", "text_contains": "r: n", "text": "Error: no" }),
        json!({ "result.content.0.text_contains": ["Error", "no"], "text_not_contains": "yes" }),
        json!({ "tools_include": ["x"], "tools_exclude": ["z"], "tools": ["y", "x"], "code_any": ["b", "a"] }),
        json!({ "log": "error" }),
        json!({ "log": "2 tools/actions permitted", "log_contains": "permitted" }),
        json!({ "text_includes": "no", "result_include": ["n"], "tools_includes": "y" }),
        json!({ "missing": null }),
    ] {
        assert_eq!(compare(&expect, &got), Ok(()));
    }
    for expect in [
        json!({ "result.content.1.text": "Error: no" }),
        json!({ "text_ends_with": "yes" }),
        json!({ "text_contains": "yes" }),
        json!({ "tools_include": ["z"] }),
        json!({ "tools": ["x"] }),
        json!({ "log": "reloaded" }),
        json!({ "missing_include": [] }),
        json!({ "code_any": ["b"] }),
    ] {
        assert!(compare(&expect, &got).is_err(), "{expect}");
    }
}

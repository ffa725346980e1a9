//! One record of the store: Markdown with YAML front matter that names its class.
//!
//! Answers for reading a record's text and for changing it in place. It leaves where records are kept to others.
//! Invariant: a change is read back; what was not meant to change is the same.

use super::arguments::invalid;
use super::fault::{Fault, FaultCode};
use crate::manifest::{Node, NodeKind, parse_yaml, split};
use crate::text::Source;
use serde_json::{Map, Value, json};

/// The key that names a record's class.
const CLASS: &str = "class";
/// The longest id, and its longest part.
const ID: (usize, usize) = (200, 100);

/// A record's text and where its parts stand.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) text: String,
    front: Option<(Node, usize)>,
    body: usize,
}

/// An id in its one spelling.
pub(super) fn checked_id(id: &str) -> Result<String, Fault> {
    let parts: Vec<&str> = id.trim().split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let odd = |part: &&str| {
        part.starts_with('.')
            || part.len() > ID.1
            || part.chars().any(|c| c.is_control() || "\\*?:\"<>|".contains(c))
    };
    let joined = parts.join("/");
    if parts.is_empty() || joined.len() > ID.0 || parts.iter().any(odd) {
        let shown: String = id.chars().take(80).collect();
        return Err(invalid(format!("`{}` is not the id of a record", shown.escape_debug()))
            .hint("parts of plain characters with `/` between, none beginning with a dot"));
    }
    Ok(joined)
}

impl Record {
    /// Reads a record; one without front matter has no class.
    pub(super) fn read(id: &str, text: String) -> Result<Self, Fault> {
        let source = Source::new("record.md", text.as_str());
        let begins = text.trim_start_matches('\u{feff}').starts_with("---");
        if !begins {
            return Ok(Self { id: id.to_owned(), text, front: None, body: 0 });
        }
        let broken =
            |why: &str| Fault::new(FaultCode::WrongKind, format!("the record {id} cannot be read: {why}"));
        let parts = split(&source).map_err(|problem| broken(&problem.message))?;
        let yaml = &text[parts.yaml.start..parts.yaml.end];
        let node = parse_yaml(yaml, parts.yaml.start).map_err(|problem| broken(&problem.message))?;
        let body = parts.body.unwrap_or(text.len());
        Ok(Self { id: id.to_owned(), front: Some((node, parts.yaml.end)), body, text })
    }

    /// A new record.
    pub(super) fn new(id: &str, class: &str, fields: &Map<String, Value>, body: &str) -> Result<Self, Fault> {
        let mut text = format!("---\n{CLASS}: {}\n", json!(class));
        for (key, value) in fields {
            text.push_str(&line(key, value)?);
        }
        text.push_str("---\n");
        text.push_str(body);
        let record = Self::read(id, text)?;
        record.holds(fields).then_some(record).ok_or_else(|| unwritable(id))
    }

    /// Its class.
    pub(super) fn class(&self) -> Option<&str> {
        self.front.as_ref()?.0.get(CLASS)?.scalar()
    }

    /// What is below the front matter.
    pub(super) fn body(&self) -> &str {
        &self.text[self.body..]
    }

    /// The front matter as JSON.
    pub(super) fn fields(&self) -> Value {
        self.front.as_ref().map_or_else(|| json!({}), |(node, _)| to_json(node))
    }

    /// The same record with another body.
    pub(super) fn with_body(self, body: &str) -> Result<Self, Fault> {
        let text = format!("{}{body}", &self.text[..self.body]);
        Self::read(&self.id, text)
    }

    /// The same record with some fields set.
    pub(super) fn with_fields(self, fields: &Map<String, Value>) -> Result<Self, Fault> {
        let before = self.fields();
        let mut record = self;
        for (key, value) in fields {
            record = record.with_field(key, value)?;
        }
        let kept = before
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| fields.contains_key(key) || record.fields().get(key) == Some(value));
        if kept && record.holds(fields) { Ok(record) } else { Err(unwritable(&record.id)) }
    }

    fn with_field(self, key: &str, value: &Value) -> Result<Self, Fault> {
        let new = line(key, value)?;
        let mut text = self.text.clone();
        match &self.front {
            None => text.insert_str(0, &format!("---\n{new}---\n")),
            Some((node, end)) => match node.get(key) {
                None => text.insert_str(*end, &new),
                Some(old) => text.replace_range(old.span.start..old.span.end, &value.to_string()),
            },
        }
        Self::read(&self.id, text)
    }

    fn holds(&self, fields: &Map<String, Value>) -> bool {
        let now = self.fields();
        fields.iter().all(|(key, value)| now.get(key) == Some(value))
    }
}

fn unwritable(id: &str) -> Fault {
    Fault::new(FaultCode::WrongKind, format!("the fields of {id} cannot be changed in place"))
        .hint("give the whole record as `content`")
}

/// A field on a line of its own; JSON is YAML.
fn line(key: &str, value: &Value) -> Result<String, Fault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let starts = key.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts || key.len() > 64 || !key.chars().all(plain) || value.is_null() {
        return Err(invalid(format!("`{}` is not a field that can be set", key.escape_debug())));
    }
    Ok(format!("{key}: {value}\n"))
}

fn to_json(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Bool(yes) => json!(yes),
        NodeKind::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        NodeKind::Text(text) => json!(text),
        NodeKind::List(items) => items.iter().map(to_json).collect(),
        NodeKind::Map(pairs) => {
            let pair = |(key, value): &(Node, Node)| Some((key.scalar()?.to_owned(), to_json(value)));
            Value::Object(pairs.iter().filter_map(pair).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_where_they_stand() {
        let text = "---\n# kept\nclass: note\ntags: [a, b]\n---\nbody\n";
        let record = Record::read("x", text.to_owned()).unwrap();
        assert_eq!(record.class(), Some("note"));
        let set = json!({ "class": "plan", "tags": ["c"], "due": 3 });
        let record = record.with_fields(set.as_object().unwrap()).unwrap();
        assert_eq!(record.text, "---\n# kept\nclass: \"plan\"\ntags: [\"c\"]\ndue: 3\n---\nbody\n");
        let record = record.with_body("other").unwrap();
        assert!(record.text.ends_with("---\nother") && record.class() == Some("plan"));
    }

    #[test]
    fn what_cannot_be_set_in_place_is_told() {
        let text = "---\nclass: note\nlist:\n  - a\n  - b\nlast: 1\n---\n";
        let record = Record::read("x", text.to_owned()).unwrap();
        let set = json!({ "list": ["z"] });
        match record.with_fields(set.as_object().unwrap()) {
            Ok(record) => assert_eq!(record.fields()["last"], 1),
            Err(fault) => assert_eq!(fault.code, FaultCode::WrongKind),
        }
        for key in ["a: b", "", "a\nb", "-x"] {
            assert!(line(key, &json!(1)).is_err(), "{key:?}");
        }
    }

    #[test]
    fn an_id_is_plain() {
        assert_eq!(checked_id("./a//b").unwrap(), "a/b");
        for id in ["", "..", "a/../b", ".hidden", "a/.git", "a\nb", "a*"] {
            assert!(checked_id(id).is_err(), "{id:?}");
        }
    }
}

//! The `params` of a definition.

use super::fields::{Document, Fields};
use super::param::{Base, Kind, Param, Pattern, split_place};
use super::template::{Syntax, is_name};
use crate::manifest::{Node, NodeKind};

const KEYS: &[&str] =
    &["type", "allowed_prefix", "min", "max", "values", "pattern", "optional", "default", "description"];

/// Reads every parameter; each default is held to its own definition.
pub(super) fn read_params(node: &Node, fields: &mut Fields<'_>) -> Vec<Param> {
    let Some(pairs) = node.map() else {
        if node.kind != NodeKind::Null {
            fields.bad("params", node.span, "`params` is a map from names to parameters");
        }
        return Vec::new();
    };
    let mut params = Vec::new();
    for (key, spec) in pairs {
        let name = key.text().unwrap_or_default();
        let path = format!("params.{name}");
        let syntax = if fields.document == Document::Toml { Syntax::Braces } else { Syntax::Dollar };
        if !is_name(name, syntax) || name == "SESSION_DIR" {
            fields.bad(path, key.span, format!("`{name}` is not a parameter's name"));
            continue;
        }
        params.extend(Reader { name, path, spec, fields }.read());
    }
    params
}

struct Reader<'r, 'a> {
    name: &'r str,
    path: String,
    spec: &'r Node,
    fields: &'r mut Fields<'a>,
}

impl Reader<'_, '_> {
    fn bad(&mut self, key: &str, message: impl Into<String>) {
        let span = self.spec.get(key).map_or(self.spec.span, |node| node.span);
        let field = if key.is_empty() { self.path.clone() } else { format!("{}.{key}", self.path) };
        self.fields.bad(field, span, message);
    }

    fn read(mut self) -> Option<Param> {
        // A bare word is short for `{type: word}`.
        let kind = match &self.spec.kind {
            NodeKind::Text(word) => Some(word.as_str()),
            NodeKind::Map(_) => self.spec.get("type").and_then(Node::text),
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::List(_) => None,
        };
        self.fields.check_keys(&format!("{}.", self.path), KEYS, self.spec);
        let kind = self.kind(kind)?;
        let description = self.spec.get("description").and_then(Node::text).map(str::to_owned);
        let default = match self.spec.get("default") {
            None => None,
            Some(node) => match scalar(node) {
                Some(text) => Some(text),
                None => {
                    self.bad("default", "`default` is a string, a number, or true or false");
                    return None;
                }
            },
        };
        let optional = match self.spec.get("optional").map(|node| &node.kind) {
            None => default.is_some(),
            Some(NodeKind::Bool(truth)) => *truth || default.is_some(),
            Some(_) => {
                self.bad("optional", "`optional` is true or false");
                return None;
            }
        };
        let param =
            Param { name: self.name.to_owned(), kind, optional, default, description, implied: false };
        if let Some(Err(fault)) = param.default.as_deref().map(|default| param.judge(default)) {
            self.bad("default", format!("the default does not fit: {}", fault.message()));
            return None;
        }
        Some(param)
    }

    fn kind(&mut self, word: Option<&str>) -> Option<Kind> {
        let kind = match word {
            Some("path") => Kind::Path { prefix: self.prefix()? },
            Some("duration") => Kind::Duration,
            Some("int" | "integer") => self.int()?,
            Some("float" | "number") => self.float()?,
            Some("bool" | "boolean") => Kind::Bool,
            Some("enum") => Kind::Enum(self.values()?),
            Some("text" | "string") => Kind::Text(self.pattern()?),
            Some("identifier") => Kind::Identifier,
            other => {
                let given = other.map_or_else(String::new, |word| format!(", not `{word}`"));
                self.bad(
                    "type",
                    format!("`type` is path, duration, int, float, bool, enum, text or identifier{given}"),
                );
                return None;
            }
        };
        self.check_fitting(&kind);
        Some(kind)
    }

    /// A bound on a parameter that does not know it would bind nothing.
    fn check_fitting(&mut self, kind: &Kind) {
        let fitting: &[&str] = match kind {
            Kind::Path { .. } => &["allowed_prefix"],
            Kind::Int { .. } | Kind::Float { .. } => &["min", "max"],
            Kind::Enum(_) => &["values"],
            Kind::Text(_) => &["pattern"],
            Kind::Duration | Kind::Bool | Kind::Identifier => &[],
        };
        for key in ["allowed_prefix", "min", "max", "values", "pattern"] {
            if self.spec.get(key).is_some() && !fitting.contains(&key) {
                self.bad(key, format!("a parameter of type {} takes no `{key}`", kind.name()));
            }
        }
    }

    fn prefix(&mut self) -> Option<Option<String>> {
        let Some(node) = self.spec.get("allowed_prefix") else { return Some(None) };
        let prefix = node.text().filter(|text| split_place(text).is_some_and(|(base, _)| base != Base::Cwd));
        if prefix.is_none() {
            self.bad(
                "allowed_prefix",
                "`allowed_prefix` is absolute, or below ~, $PROJECT or $SESSION_DIR, without `..`",
            );
        }
        prefix.map(|prefix| Some(prefix.to_owned()))
    }

    /// A bound, or a fault.
    fn bound<T: std::str::FromStr>(&mut self, key: &str) -> Result<Option<T>, ()> {
        let Some(node) = self.spec.get(key) else { return Ok(None) };
        let number = match &node.kind {
            NodeKind::Number(text) => text.parse().ok(),
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Text(_) | NodeKind::List(_) | NodeKind::Map(_) => {
                None
            }
        };
        if number.is_none() {
            self.bad(key, format!("`{key}` is not a number of this parameter's type"));
        }
        number.map(Some).ok_or(())
    }

    fn ordered<T: PartialOrd>(&mut self, min: &Option<T>, max: &Option<T>) -> Option<()> {
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            self.bad("", "`min` is more than `max`");
            return None;
        }
        Some(())
    }

    fn int(&mut self) -> Option<Kind> {
        let (min, max) = (self.bound::<i64>("min"), self.bound::<i64>("max"));
        let (min, max) = (min.ok()?, max.ok()?);
        self.ordered(&min, &max)?;
        Some(Kind::Int { min, max })
    }

    fn float(&mut self) -> Option<Kind> {
        let (min, max) = (self.bound::<f64>("min"), self.bound::<f64>("max"));
        let (min, max) = (min.ok()?, max.ok()?);
        for (key, bound) in [("min", min), ("max", max)] {
            if bound.is_some_and(|bound| !bound.is_finite()) {
                self.bad(key, format!("`{key}` is not a finite number"));
                return None;
            }
        }
        self.ordered(&min, &max)?;
        Some(Kind::Float { min, max })
    }

    fn values(&mut self) -> Option<Vec<String>> {
        let items = self.spec.get("values").and_then(Node::list).unwrap_or_default();
        let values: Option<Vec<String>> = items.iter().map(scalar).collect();
        let values = values.filter(|values| !values.is_empty());
        if values.is_none() {
            self.bad("values", "`values` lists at least one string");
        }
        values
    }

    fn pattern(&mut self) -> Option<Option<Pattern>> {
        let Some(node) = self.spec.get("pattern") else { return Some(None) };
        match node.text().map(Pattern::new) {
            Some(Ok(pattern)) => Some(Some(pattern)),
            Some(Err(error)) => {
                self.bad("pattern", format!("the pattern cannot be read: {error}"));
                None
            }
            None => {
                self.bad("pattern", "`pattern` is a string");
                None
            }
        }
    }
}

fn scalar(node: &Node) -> Option<String> {
    match &node.kind {
        NodeKind::Text(text) | NodeKind::Number(text) => Some(text.clone()),
        NodeKind::Bool(truth) => Some(truth.to_string()),
        NodeKind::Null | NodeKind::List(_) | NodeKind::Map(_) => None,
    }
}

//! JSON with comments, edited in place: what is not meant to change stays the same to the byte.
//!
//! Invariant: an edit is a splice at a place the parser found, and the result is read again before it is used.

use serde_json::Value;
use std::ops::Range;

/// How deep a client's file may nest.
const MAX_DEPTH: usize = 64;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A map in the order of the text.
    Map(Vec<Member>),
    /// A list.
    List(Vec<Node>),
    /// A string, a number, `true`, `false` or `null`.
    Scalar(Value),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) start: usize,
    pub(crate) value: Node,
}

impl Node {
    /// Reads a text; an empty one is an empty map that stands nowhere.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { text, at: text.len() - text.trim_start_matches('\u{feff}').len() };
        reader.blanks()?;
        let node = reader.value(0)?;
        reader.blanks()?;
        if reader.at == text.len() { Ok(node) } else { Err(reader.wrong("the end of the file")) }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.members()?.iter().find(|member| member.key == key).map(|member| &member.value)
    }

    pub(crate) fn members(&self) -> Option<&[Member]> {
        match &self.kind {
            Kind::Map(members) => Some(members),
            Kind::List(_) | Kind::Scalar(_) => None,
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Map(members) => {
                members.iter().map(|member| (member.key.clone(), member.value.to_value())).collect()
            }
            Kind::List(items) => items.iter().map(Self::to_value).collect(),
            Kind::Scalar(value) => value.clone(),
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong(&self, wanted: &str) -> String {
        let before = &self.text[..self.at.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        format!("line {line}: {wanted} was expected")
    }

    /// Passes blanks and comments.
    fn blanks(&mut self) -> Result<(), String> {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.at += blank;
            let rest = &rest[blank..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                self.at += rest.find("*/").ok_or_else(|| self.wrong("the end of a comment"))? + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("less nesting"));
        }
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => Kind::Map(self.map(depth)?),
            Some(b'[') => Kind::List(self.list(depth)?),
            Some(b'"') => Kind::Scalar(Value::String(self.string()?)),
            _ => {
                let rest = &self.text[start..];
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
                let word = &rest[..end.unwrap_or(rest.len())];
                self.at += word.len();
                Kind::Scalar(serde_json::from_str(word).map_err(|_| self.wrong("a value"))?)
            }
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Member>, String> {
        let mut members: Vec<Member> = Vec::new();
        self.at += 1;
        loop {
            self.blanks()?;
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(members);
            }
            let start = self.at;
            let key = self.string()?;
            if members.iter().any(|member| member.key == key) {
                return Err(self.wrong(&format!("no second `{key}`")));
            }
            self.blanks()?;
            if self.peek() != Some(b':') {
                return Err(self.wrong("`:`"));
            }
            self.at += 1;
            self.blanks()?;
            members.push(Member { key, start, value: self.value(depth + 1)? });
            self.blanks()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {}
                _ => return Err(self.wrong("`,` or `}`")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, String> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.blanks()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(items);
            }
            items.push(self.value(depth + 1)?);
            self.blanks()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {}
                _ => return Err(self.wrong("`,` or `]`")),
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a string"));
        }
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        while let Some(byte) = bytes.get(end) {
            match byte {
                b'"' => break,
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        let text = self.text.get(self.at..=end).ok_or_else(|| self.wrong("the end of a string"))?;
        let string = serde_json::from_str(text).map_err(|_| self.wrong("a string"))?;
        self.at = end + 1;
        Ok(string)
    }
}

/// Sets the value at the end of a path of keys; maps that are missing are made.
pub(crate) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, String> {
    if text.trim().is_empty() {
        return set("{}\n", path, value);
    }
    let root = Node::parse(text)?;
    let mut node = &root;
    for (depth, key) in path.iter().enumerate() {
        if node.members().is_none() {
            return Err(format!("`{}` is not a map", path[..depth].join(".")));
        }
        match node.get(key) {
            Some(below) => node = below,
            None => {
                let missing = path[depth + 1..]
                    .iter()
                    .rev()
                    .fold(value.clone(), |value, key| serde_json::json!({ *key: value }));
                return Ok(insert(text, node, Some(key), &missing));
            }
        }
    }
    if node.to_value() == *value {
        return Ok(text.to_owned());
    }
    Ok(replace(text, &root, node, value))
}

/// Makes the first words of the list at the end of a path others; the rest stays, with the comments in it.
pub(crate) fn lead(text: &str, path: &[&str], cut: usize, put: &[String]) -> Result<String, String> {
    let root = Node::parse(text)?;
    let list = path.iter().try_fold(&root, |node, key| node.get(key)).ok_or("there is no such list")?;
    let items = spans(list);
    let start = items.first().map_or(list.span.start + 1, |first| first.start);
    // A word a line where the first has one of its own.
    let apart = match text[list.span.start..start].contains('\n') {
        true => format!(",\n{}", indent_of(text, start)),
        false => ", ".to_owned(),
    };
    let words: Vec<String> = put.iter().map(|word| Value::from(word.as_str()).to_string()).collect();
    let words = words.join(&apart);
    Ok(match (items.get(cut), items.last()) {
        (Some(next), _) if words.is_empty() => spliced(text, start..next.start, ""),
        (Some(next), _) => spliced(text, start..next.start, &format!("{words}{apart}")),
        (None, Some(last)) => spliced(text, start..last.end, &words),
        (None, None) => spliced(text, start..start, &words),
    })
}

/// Takes away what is at the end of a path of keys, if it is there.
pub(crate) fn unset(text: &str, path: &[&str]) -> Result<String, String> {
    let Some((last, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let root = Node::parse(text)?;
    let map = above.iter().try_fold(&root, |node, key| node.get(key));
    let at = map.and_then(Node::members).and_then(|all| all.iter().position(|member| member.key == *last));
    Ok(match (map, at) {
        (Some(map), Some(at)) => take_out(text, map, at),
        _ => text.to_owned(),
    })
}

/// Puts a value in the place of another.
pub(crate) fn replace(text: &str, root: &Node, node: &Node, value: &Value) -> String {
    let (unit, indent) = (unit(text, root), indent_of(text, node.span.start));
    spliced(text, node.span.clone(), &pretty(value, &unit, &indent))
}

/// Adds an item at the end of a list.
pub(crate) fn push(text: &str, list: &Node, value: &Value) -> String {
    insert(text, list, None, value)
}

/// Takes an item out of a list, with the comma and the blanks that belong to it; comments stay.
pub(crate) fn take_out(text: &str, list: &Node, index: usize) -> String {
    let spans = spans(list);
    let Some(item) = spans.get(index) else { return text.to_owned() };
    let end = spans.get(index + 1).map_or(list.span.end - 1, |next| next.start);
    if let Some(at) = comma(text, item.end..end) {
        let start = text[..item.start].trim_end().len();
        return spliced(&spliced(text, at..at + 1, ""), start..item.end, "");
    }
    // The last one: the comma before it goes instead.
    let before = index.checked_sub(1).and_then(|before| comma(text, spans[before].end..item.start));
    let start = text[..item.start].trim_end().len();
    match before {
        Some(at) if at + 1 == start => spliced(text, at..item.end, ""),
        Some(at) => spliced(&spliced(text, start..item.end, ""), at..at + 1, ""),
        None => spliced(text, start..item.end, ""),
    }
}

/// Where the members or items of a value stand, keys included.
fn spans(node: &Node) -> Vec<Range<usize>> {
    match &node.kind {
        Kind::Map(members) => members.iter().map(|member| member.start..member.value.span.end).collect(),
        Kind::List(items) => items.iter().map(|item| item.span.clone()).collect(),
        Kind::Scalar(_) => Vec::new(),
    }
}

/// Adds a member at the end of a map, or an item at the end of a list.
fn insert(text: &str, map: &Node, key: Option<&str>, value: &Value) -> String {
    let members = spans(map);
    let close = map.span.end - 1;
    let outer = indent_of(text, map.span.start);
    let inner = match members.first() {
        Some(first) if text[..first.start].rfind('\n') > text[..map.span.start].rfind('\n') => {
            indent_of(text, first.start)
        }
        _ => format!("{outer}  "),
    };
    let unit = if inner.starts_with('\t') {
        "\t".to_owned()
    } else {
        inner[outer.len().min(inner.len())..].to_owned()
    };
    let unit = if unit.is_empty() { "  ".to_owned() } else { unit };
    let key = key.map_or_else(String::new, |key| format!("{}: ", Value::from(key)));
    let member = format!("{inner}{key}{}", pretty(value, &unit, &inner));
    // After the last member and the comments that belong to it; a line comment must not swallow what follows.
    let before = text[..close].trim_end();
    let mut head = before.to_owned();
    if let Some(last) = members.last().filter(|last| comma(text, last.end..before.len()).is_none()) {
        head.insert(last.end, ',');
    }
    format!("{head}\n{member}\n{outer}{}", &text[close..])
}

/// The comma between values, which is not one in a comment.
fn comma(text: &str, between: Range<usize>) -> Option<usize> {
    let (mut at, end) = (between.start, between.end);
    while at < end {
        let rest = &text[at..end];
        at += match rest.as_bytes()[0] {
            b',' => return Some(at),
            b'/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |close| close + 2),
            b'/' => rest.find('\n').unwrap_or(rest.len()),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    None
}

fn spliced(text: &str, span: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..span.start], &text[span.end..])
}

/// The blanks a line starts with.
fn indent_of(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    text[start..at].chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
}

/// What the file indents with.
fn unit(text: &str, root: &Node) -> String {
    let first = root.members().and_then(<[Member]>::first).map(|first| indent_of(text, first.start));
    first.filter(|unit| !unit.is_empty()).unwrap_or_else(|| "  ".to_owned())
}

fn pretty(value: &Value, unit: &str, indent: &str) -> String {
    let plain = format!("{value:#}");
    let mut out = String::new();
    for (index, line) in plain.lines().enumerate() {
        let depth = (line.len() - line.trim_start().len()) / 2;
        if index > 0 {
            out.push('\n');
            out.push_str(indent);
        }
        out.push_str(&unit.repeat(depth));
        out.push_str(line.trim_start());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comments_and_unknown_keys_stay() {
        let text = "{\n\t// mine\n\t\"other\": [1, 2,], /* odd */\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"}, // first\n\t},\n}\n";
        let set = set(text, &["servers", "b"], &json!({ "command": "y", "args": ["z"] })).unwrap();
        let wanted = "{\n\t// mine\n\t\"other\": [1, 2,], /* odd */\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"}, // first\n\t\t\"b\": {\n\t\t\t\"command\": \"y\",\n\t\t\t\"args\": [\n\t\t\t\t\"z\"\n\t\t\t]\n\t\t}\n\t},\n}\n";
        assert_eq!(set, wanted);
    }

    #[test]
    fn maps_that_are_missing_are_made() {
        for text in [
            "",
            "{}",
            "{ // nothing yet\n}",
            "{\"x\": 1}",
            "{\n  \"x\": 1 // one\n}\n",
            "{\"servers\": {}}",
            "{\"x\":1,}",
        ] {
            let done = set(text, &["servers", "a"], &json!({ "command": "c" })).unwrap();
            let read = Node::parse(&done).unwrap_or_else(|error| unreachable!("{error}: {done}"));
            assert_eq!(read.get("servers").unwrap().to_value(), json!({ "a": { "command": "c" } }), "{done}");
            assert_eq!(read.get("x").is_some(), text.contains('x'), "{done}");
            for word in ["// nothing yet", "// one"] {
                assert_eq!(text.contains(word), done.contains(word));
            }
            assert_eq!(set(&done, &["servers", "a"], &json!({ "command": "c" })).unwrap(), done);
        }
    }

    #[test]
    fn a_value_is_replaced_where_it_stands() {
        let text = "{\"a\": {\"command\": \"x\", \"args\": [\"1\"], \"env\": {\"K\": \"v\"}}}";
        let done = set(text, &["a", "command"], &json!("sbx")).unwrap();
        assert_eq!(done, text.replace("\"x\"", "\"sbx\""));
    }

    #[test]
    fn an_item_is_taken_out_of_a_list() {
        for (text, index, wanted) in [
            ("[1, 2, 3]", 0, "[ 2, 3]"),
            ("[1, 2, 3]", 1, "[1, 3]"),
            ("[1, 2, 3]", 2, "[1, 2]"),
            ("[1]", 0, "[]"),
            ("[1,]", 0, "[]"),
            ("[\n  1, // a, b\n  2 // c\n]", 1, "[\n  1 // a, b // c\n]"),
            ("[\n  1, /* , */\n  2\n]", 0, "[ /* , */\n  2\n]"),
            ("[\n  {},\n  2,\n]", 1, "[\n  {},\n]"),
        ] {
            let node = Node::parse(text).unwrap();
            let done = take_out(text, &node, index);
            assert_eq!(done, wanted);
            let Kind::List(mut items) = node.kind else { unreachable!("a list") };
            items.remove(index);
            let left: Vec<Value> = items.iter().map(Node::to_value).collect();
            assert_eq!(Node::parse(&done).unwrap().to_value(), json!(left), "{done}");
        }
    }

    #[test]
    fn what_is_not_a_map_is_left_alone() {
        assert!(set("[]", &["a"], &json!(1)).is_err());
        assert!(set("{\"a\": 1}", &["a", "b"], &json!(1)).is_err());
        assert!(set("{\"a\": 1", &["a", "b"], &json!(1)).is_err());
        assert!(set("{\"a\": 1, \"a\": 2}", &["b"], &json!(1)).is_err());
    }
}

//! Careless readers of JSON, and readers with other ideas of where a line ends.
//!
//! What any of them takes for a denied call must never get through a gate with [`RULES`]: one of the tool `evil`, one of
//! `act` with the action `evil`, one of `good` with the path `/etc/evil`.

use serde_json::Value;

/// The section `mcp` of a record that denies those calls; it may read below `/w`.
pub const RULES: &str =
    "  allowed_tools: [good, act.good]\n  actions: {act: do}\n  arguments: {good: {path: fs.read}}\n";

/// What a line is to readers with other ideas of where lines end.
fn pieces(passed: &str) -> Vec<String> {
    let ends: [&[char]; 4] = [
        &['\n'],
        &['\n', '\r'],
        &['\n', '\r', '\u{2028}', '\u{2029}'],
        &['\n', '\r', '\u{85}', '\u{b}', '\u{c}', '\u{2028}', '\u{2029}'],
    ];
    let split = |ends: &[char]| passed.split(ends).map(str::to_owned).collect::<Vec<_>>();
    let mut all: Vec<String> = ends.iter().flat_map(|ends| split(ends)).collect();
    all.extend(all.clone().iter().map(|piece| piece.trim_start_matches('\u{feff}').to_owned()));
    all
}

/// A careless reader: takes the first or the last of equal keys, with or without case, stops keys at NUL.
#[derive(Clone, Copy, Debug)]
struct Reader {
    last: bool,
    folds: bool,
}

/// Keeps every member of every map, in order.
#[derive(Debug)]
enum All {
    Map(Vec<(String, All)>),
    List(Vec<All>),
    Text(String),
    Other,
}

impl<'de> serde::Deserialize<'de> for All {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = All;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("anything")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<All, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(All::Map(members))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<All, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(All::List(items))
            }
            fn visit_str<E>(self, text: &str) -> Result<All, E> {
                Ok(All::Text(text.to_owned()))
            }
            fn visit_bool<E>(self, _: bool) -> Result<All, E> {
                Ok(All::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<All, E> {
                Ok(All::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<All, E> {
                Ok(All::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<All, E> {
                Ok(All::Other)
            }
            fn visit_unit<E>(self) -> Result<All, E> {
                Ok(All::Other)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Reader {
    /// A member, or one of what `__proto__` says, where that was taken for more than a key.
    fn get<'v>(self, value: &'v All, wanted: &str) -> Option<&'v All> {
        let All::Map(members) = value else { return None };
        let own = self.own(members, wanted);
        own.or_else(|| self.own(members, "__proto__").and_then(|behind| self.get(behind, wanted)))
    }

    fn own<'v>(self, members: &'v [(String, All)], wanted: &str) -> Option<&'v All> {
        let fits = |(key, _): &&(String, All)| {
            let key = key.split('\0').next().unwrap_or_default();
            if self.folds { key.replace('\u{17f}', "s").eq_ignore_ascii_case(wanted) } else { key == wanted }
        };
        let mut found = members.iter().filter(fits);
        if self.last { found.next_back() } else { found.next() }.map(|(_, value)| value)
    }

    fn runs_evil(self, value: &All) -> bool {
        let text = |value: Option<&All>| match value {
            Some(All::Text(text)) => text.split('\0').next().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let fold = |name: String| match self.folds {
            true => name.trim().replace('\u{17f}', "s").replace('\u{212a}', "k").to_ascii_lowercase(),
            false => name,
        };
        match value {
            // A reader of the years in which batches were legal.
            All::List(items) => items.iter().any(|item| self.runs_evil(item)),
            All::Map(_) => {
                let params = self.get(value, "params");
                let arguments = params.and_then(|params| self.get(params, "arguments"));
                let argument = |name: &str| text(arguments.and_then(|arguments| self.get(arguments, name)));
                fold(text(self.get(value, "method"))) == "tools/call"
                    && match fold(text(params.and_then(|params| self.get(params, "name")))).as_str() {
                        "evil" => true,
                        "act" => argument("do") == "evil",
                        "good" => argument("path") == "/etc/evil",
                        _ => false,
                    }
            }
            All::Text(_) | All::Other => false,
        }
    }
}

/// Whether some reader takes a text for a denied call.
pub fn runs_denied(text: &str) -> bool {
    let readers = [(false, false), (false, true), (true, false), (true, true)];
    pieces(text).iter().any(|piece| {
        let by_value = serde_json::from_str::<Value>(piece)
            .is_ok_and(|value| value["method"] == "tools/call" && value["params"]["name"] == "evil");
        let all = serde_json::from_str::<All>(piece);
        by_value
            || all.is_ok_and(|all| {
                readers.iter().any(|(last, folds)| Reader { last: *last, folds: *folds }.runs_evil(&all))
            })
    })
}

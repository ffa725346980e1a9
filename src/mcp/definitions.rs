//! Definitions of a server's tools, as they were last listed.
//!
//! Answers for how many of them are remembered: a server can list other ones each time.
//! Invariant: bounded in number and in bytes; what does not fit was not seen.

use super::protocol::line_of;
use serde_json::Value;
use std::collections::BTreeMap;

/// More tools than any server has.
pub(super) const MOST: usize = 10_000;
/// As many bytes as their definitions take at most.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// What was listed.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    tools: BTreeMap<String, Listed>,
    bytes: usize,
    /// Which list is being shown, counted by first pages.
    list: u64,
}

#[derive(Debug)]
struct Listed {
    definition: Value,
    bytes: usize,
    list: u64,
}

impl Definitions {
    /// A list is shown from its beginning.
    pub(super) fn begin_list(&mut self) {
        self.list += 1;
    }

    pub(super) fn get(&self, tool: &str) -> Option<&Value> {
        self.tools.get(tool).map(|listed| &listed.definition)
    }

    /// Remembers a definition, if need be instead of what was only on earlier lists; what it takes, if there was room.
    pub(super) fn put(&mut self, tool: &str, definition: Value) -> Option<usize> {
        let bytes = tool.len() + line_of(&definition).len();
        self.forget(tool);
        if !self.has_room(bytes) {
            let list = self.list;
            self.tools.retain(|_, listed| listed.list == list);
            self.bytes = self.tools.values().map(|listed| listed.bytes).sum();
        }
        if !self.has_room(bytes) {
            return None;
        }
        self.bytes += bytes;
        self.tools.insert(tool.to_owned(), Listed { definition, bytes, list: self.list });
        Some(bytes)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.tools.len() < MOST && self.bytes + bytes <= MOST_BYTES
    }

    fn forget(&mut self, tool: &str) {
        if let Some(old) = self.tools.remove(tool) {
            self.bytes -= old.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn other_tools_on_every_list_take_the_place_of_the_old() {
        let mut seen = Definitions::default();
        for list in 0..5 {
            seen.begin_list();
            for tool in 0..MOST - 1 {
                assert!(seen.put(&format!("{list}-{tool}"), json!({})).is_some());
            }
        }
        assert!(seen.tools.len() <= MOST && seen.get("4-7").is_some() && seen.get("0-7").is_none());
    }

    #[test]
    fn a_list_without_an_end_is_not_remembered_to_its_end() {
        let mut seen = Definitions::default();
        seen.begin_list();
        let large = "x".repeat(1 << 20);
        let kept = (0..100)
            .filter(|tool| seen.put(&tool.to_string(), json!({ "description": large })).is_some())
            .count();
        assert!((50..64).contains(&kept) && seen.bytes <= MOST_BYTES, "{kept}");
        assert!(seen.put("7", json!({})).is_some(), "the same again takes no more room");
        assert_eq!(seen.get("7"), Some(&json!({})));
        assert_eq!(seen.get("99"), None);
    }
}

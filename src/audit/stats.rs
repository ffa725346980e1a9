//! What the log comes to, in numbers.

use super::chain::Entry;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Counts over entries.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// How many entries.
    pub events: u64,
    /// When the first was.
    pub first: Option<String>,
    /// When the last was.
    pub last: Option<String>,
    /// Their sessions.
    pub sessions: BTreeSet<String>,
    /// How many of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// Of each agent.
    pub agents: BTreeMap<String, AgentStats>,
    /// How many refusals for each reason.
    pub denials: BTreeMap<String, u64>,
}

/// Counts of one agent.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AgentStats {
    /// How many entries.
    pub events: u64,
    /// How many launches were begun.
    pub launches: u64,
    /// How many of them ended with another status than 0.
    pub failed: u64,
    /// How many requests were refused.
    pub denied: u64,
    /// How many launches hit a limit.
    pub limits: u64,
    /// How long launches took together.
    pub duration_ms: u64,
    /// When the last entry was.
    pub last: String,
}

impl Stats {
    /// Counts an entry. Lines about the log itself belong to no agent.
    pub fn add(&mut self, entry: &Entry) {
        self.events += 1;
        self.first.get_or_insert_with(|| entry.time.clone());
        self.last = Some(entry.time.clone());
        self.sessions.insert(entry.session.clone());
        *self.kinds.entry(entry.kind.clone()).or_default() += 1;
        if entry.is_denial() {
            let denial = entry.body.get("denial").unwrap_or(&Value::Null);
            let code = denial.get("code").or_else(|| entry.body.get("code")).and_then(Value::as_str);
            *self.denials.entry(code.unwrap_or("denied").to_owned()).or_default() += 1;
        }
        if entry.agent.is_empty() {
            return;
        }
        let number = |name: &str| entry.body.get(name).and_then(Value::as_u64);
        let agent = self.agents.entry(entry.agent.clone()).or_default();
        agent.events += 1;
        agent.last.clone_from(&entry.time);
        agent.denied += u64::from(entry.is_denial());
        match entry.kind.as_str() {
            "launch" => agent.launches += 1,
            "limit" => agent.limits += 1,
            "end" => {
                agent.failed += u64::from(number("status") != Some(0));
                agent.duration_ms += number("duration_ms").unwrap_or(0);
            }
            _ => {}
        }
    }

    /// For machines; `damaged` lines could not be counted.
    #[must_use]
    pub fn to_json(&self, damaged: u64) -> Value {
        let agent = |(name, agent): (&String, &AgentStats)| {
            json!({
                "agent": name, "events": agent.events, "launches": agent.launches, "failed": agent.failed,
                "denied": agent.denied, "limits": agent.limits, "duration_ms": agent.duration_ms,
                "last": agent.last,
            })
        };
        json!({
            "events": self.events, "damaged": damaged, "first": self.first, "last": self.last,
            "sessions": self.sessions.len(), "kinds": self.kinds,
            "agents": self.agents.iter().map(agent).collect::<Vec<_>>(), "denials": self.denials,
        })
    }
}

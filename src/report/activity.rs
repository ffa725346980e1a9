//! What the log says, over time: launches and refusals in equal slots, and the last refusals in full.

use crate::audit::{AgentStats, Entry, Stats, format_time};
use crate::decide::grant_command;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// How many refusals are told in full.
const RECENT: usize = 50;
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Up to so many hours are shown by the hour.
const HOURLY: u64 = 72;
/// So many slots are shown at most; what is older is left out.
const MOST: u64 = 400;

/// A part of the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slot {
    /// When it begins: a date, or a date and an hour.
    pub begins: String,
    /// How many launches were begun in it.
    pub launches: u64,
    /// How many requests were refused in it.
    pub denied: u64,
    /// How many other things happened.
    pub other: u64,
}

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// When.
    pub time: String,
    /// To whom.
    pub agent: String,
    /// What sort of event told of it.
    pub kind: String,
    /// Why, in one sentence.
    pub message: String,
    /// The smallest grant that would have allowed it.
    pub suggested: Option<String>,
}

/// What happened between two moments.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Activity {
    /// The slots, oldest first.
    pub slots: Vec<Slot>,
    /// The last refusals, newest first.
    pub refusals: VecDeque<Refusal>,
    /// Everything that was counted.
    pub stats: Stats,
    since: String,
    /// How much of a moment's text names its slot.
    width: usize,
}

impl Activity {
    /// Nothing yet, between two moments.
    #[must_use]
    pub fn between(since: SystemTime, now: SystemTime) -> Self {
        let span = now.duration_since(since).unwrap_or_default();
        let hourly = span.as_secs() <= HOURLY * HOUR.as_secs();
        let (step, width) = if hourly { (HOUR, "2026-01-31T12".len()) } else { (DAY, "2026-01-31".len()) };
        let count = (span.as_secs() / step.as_secs() + 1).min(MOST - 1);
        let begins = |back: u64| {
            let back = step.checked_mul(u32::try_from(back).unwrap_or(0)).unwrap_or_default();
            let text = format_time(now.checked_sub(back).unwrap_or(SystemTime::UNIX_EPOCH));
            text.get(..width).unwrap_or_default().to_owned()
        };
        let mut slots: Vec<Slot> =
            (0..=count).rev().map(|back| Slot { begins: begins(back), ..Slot::default() }).collect();
        slots.dedup_by(|a, b| a.begins == b.begins);
        let since = format_time(since);
        slots.retain(|slot| since.get(..width).is_none_or(|first| slot.begins.as_str() >= first));
        Self { slots, refusals: VecDeque::new(), stats: Stats::default(), since, width }
    }

    /// Counts an entry. Entries come in the order of the log.
    pub fn add(&mut self, entry: &Entry) {
        // Lines about the log itself belong to nobody's activity.
        if entry.agent.is_empty() || entry.time < self.since {
            return;
        }
        self.stats.add(entry);
        if entry.is_denial() {
            self.refusals.push_front(Refusal::of(entry));
            self.refusals.truncate(RECENT);
        }
        let Some(begins) = entry.time.get(..self.width) else { return };
        if let Ok(at) = self.slots.binary_search_by(|slot| slot.begins.as_str().cmp(begins)) {
            let slot = &mut self.slots[at];
            match entry.kind.as_str() {
                _ if entry.is_denial() => slot.denied += 1,
                "launch" => slot.launches += 1,
                _ => slot.other += 1,
            }
        }
    }

    /// The moment from which on is counted.
    #[must_use]
    pub fn since(&self) -> &str {
        &self.since
    }

    /// The counts of one agent.
    #[must_use]
    pub fn of(&self, agent: &str) -> Option<&AgentStats> {
        self.stats.agents.get(agent)
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let slot = |slot: &Slot| {
            json!({
                "begins": slot.begins, "launches": slot.launches, "denied": slot.denied, "other": slot.other,
            })
        };
        let refusal = |refusal: &Refusal| {
            json!({
                "time": refusal.time, "agent": refusal.agent, "kind": refusal.kind,
                "message": refusal.message, "suggested_grant": refusal.suggested,
            })
        };
        json!({
            "since": self.since,
            "slots": self.slots.iter().map(slot).collect::<Vec<_>>(),
            "refusals": self.refusals.iter().map(refusal).collect::<Vec<_>>(),
        })
    }
}

impl Refusal {
    fn of(entry: &Entry) -> Self {
        let denial = entry.body.get("denial");
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let message = text(denial.and_then(|denial| denial.get("message")))
            .or_else(|| text(entry.body.get("message")))
            .or_else(|| text(entry.body.get("reason")))
            .unwrap_or_else(|| {
                let told = entry.body.iter().filter_map(|(key, value)| match value {
                    Value::String(text) => Some(format!("{key} {text}")),
                    Value::Number(number) => Some(format!("{key} {number}")),
                    _ => None,
                });
                told.collect::<Vec<_>>().join(", ")
            });
        Self {
            time: entry.time.clone(),
            agent: entry.agent.clone(),
            kind: entry.kind.clone(),
            message,
            suggested: text(denial.and_then(|denial| denial.get("suggested_grant"))),
        }
    }

    /// The command that would allow it.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        self.suggested.as_ref().map(|grant| grant_command(&self.agent, grant))
    }
}

//! What changed between two versions of a record: grants, and what it asks for beside them.

use super::besides::{Aside, Sense, asides};
use crate::capability::Risk;
use crate::policy::{Grant, Policy, covers_grant, receipt_of};
use serde_json::{Value, json};

/// Whether the second version may do more or less than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The same.
    Same,
    /// More, and nothing less.
    Wider,
    /// Less, and nothing more.
    Narrower,
    /// More of one and less of another.
    Both,
}

impl Direction {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Wider => "wider",
            Self::Narrower => "narrower",
            Self::Both => "wider and narrower",
        }
    }
}

/// A grant or another line that only one version has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The line, as it comes out after narrowing.
    pub text: String,
    /// How much harm it can do; none for what is no grant.
    pub risk: Option<Risk>,
    /// Whether the other version holds it all the same, by another grant.
    pub covered: bool,
    /// Whether having it means more authority; a limit, for one, means less.
    pub widens: bool,
}

/// What two versions differ in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The agent and file of the first version.
    pub old: String,
    /// The agent and file of the second.
    pub new: String,
    /// Whether it came to more or to less authority.
    pub direction: Direction,
    /// What only the second has, riskiest first.
    pub added: Vec<Change>,
    /// What only the first has, riskiest first.
    pub removed: Vec<Change>,
    /// How many grants both have.
    pub kept: usize,
}

/// Compares what two policies come to; the names are those of their files.
#[must_use]
pub fn compare(old: (&str, &Policy), new: (&str, &Policy)) -> Difference {
    let (added, removed) = (only_in(new.1, old.1), only_in(old.1, new.1));
    // What narrows makes more of the version that does not have it.
    let grows = |gained: &[Change], lost: &[Change]| {
        let counts =
            |changes: &[Change], widens| changes.iter().any(|one| one.widens == widens && !one.covered);
        counts(gained, true) || counts(lost, false)
    };
    let direction = match (grows(&added, &removed), grows(&removed, &added)) {
        (false, false) => Direction::Same,
        (true, false) => Direction::Wider,
        (false, true) => Direction::Narrower,
        (true, true) => Direction::Both,
    };
    let lines = |policy: &Policy| policy.grants().iter().map(receipt_of).collect::<Vec<_>>();
    let (before, mut after) = (lines(old.1), lines(new.1));
    after.sort_unstable();
    after.dedup();
    let kept = after.iter().filter(|line| before.contains(line)).count();
    Difference { old: old.0.to_owned(), new: new.0.to_owned(), direction, added, removed, kept }
}

fn only_in(policy: &Policy, other: &Policy) -> Vec<Change> {
    let theirs: Vec<String> = other.grants().iter().map(receipt_of).collect();
    let change = |grant: &Grant| Change {
        text: receipt_of(grant),
        risk: Some(grant.capability().risk()),
        covered: covers_grant(other, grant),
        widens: true,
    };
    let own = policy.grants().iter().map(change).filter(|change| !theirs.contains(&change.text));
    let mut changes: Vec<Change> = own.collect();
    changes.sort_by(|a, b| b.risk.cmp(&a.risk).then_with(|| a.text.cmp(&b.text)));
    changes.dedup();
    let (own, theirs) = (asides(policy), asides(other));
    changes.extend(own.iter().filter(|aside| !theirs.contains(aside)).map(|aside| beside(aside, &theirs)));
    changes
}

/// A line that is no grant, next to all such lines of the other version.
fn beside(aside: &Aside, theirs: &[Aside]) -> Change {
    let amount = |other: &Aside| match other.sense {
        Sense::Measures(amount) if is_called(other, aside) => Some(amount),
        _ => None,
    };
    let widens = match aside.sense {
        Sense::Widens => true,
        Sense::Narrows => false,
        Sense::Measures(own) => theirs.iter().find_map(amount).is_some_and(|their| own > their),
    };
    let covered = aside.listed && !theirs.iter().any(|other| other.what == aside.what);
    Change { text: aside.line(), risk: None, covered, widens }
}

/// Whether two amounts are of the same thing: all but their last word is its name.
fn is_called(one: &Aside, other: &Aside) -> bool {
    let name = |aside: &Aside| aside.name.rsplit_once(' ').map(|(name, _)| name.to_owned());
    one.what == other.what && name(one) == name(other)
}

impl Difference {
    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let changes = |changes: &[Change]| -> Value {
            let one = |change: &Change| {
                json!({
                    "text": change.text, "risk": change.risk.map(Risk::name), "covered": change.covered,
                    "widens": change.widens,
                })
            };
            changes.iter().map(one).collect()
        };
        json!({
            "old": self.old, "new": self.new, "direction": self.direction.name(),
            "added": changes(&self.added), "removed": changes(&self.removed), "kept": self.kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use crate::capability::Spec;
    use crate::manifest::{Config, Manifest};
    use crate::text::{Severity, Source};

    fn policy(specs: &[&str]) -> Policy {
        let specs: Vec<Spec> = specs.iter().map(|spec| Spec::parse(spec).unwrap()).collect();
        Policy::from_specs("a", &specs, &Facts::new("/home/u")).unwrap()
    }

    fn compared(old: &[&str], new: &[&str]) -> Difference {
        compare(("old", &policy(old)), ("new", &policy(new)))
    }

    #[test]
    fn the_same_authority_written_in_another_order_is_the_same() {
        let difference = compared(
            &["fs.read{in=/w}", "net.get{hosts=[B.example.]}"],
            &["net.get{hosts=[b.example]}", "fs.read{in=/w}"],
        );
        assert_eq!((difference.direction, difference.kept), (Direction::Same, 2));
        assert!(difference.added.is_empty() && difference.removed.is_empty());
    }

    #[test]
    fn more_and_less_are_told_apart() {
        let narrower = compared(&["fs.write{in=/w}"], &["fs.write{in=/w,paths=[out]}"]);
        assert_eq!(narrower.direction, Direction::Narrower);
        assert!(narrower.added[0].covered && !narrower.removed[0].covered);
        assert_eq!(
            compared(&["fs.read{in=/w}"], &["fs.read{in=/w}", "proc.eval{in=/w}"]).direction,
            Direction::Wider
        );
        assert_eq!(compared(&["fs.read{in=/w}"], &["fs.write{in=/w}"]).direction, Direction::Both);
    }

    fn record(sections: &str) -> Policy {
        let text = format!("id: a\ncapabilities: []\n{sections}\n");
        let facts = Facts::new("/home/u");
        let (manifest, problems) = Manifest::parse(Source::new("a.yml", text), &facts);
        assert!(problems.iter().all(|one| one.severity < Severity::Error), "{sections} {problems:?}");
        Policy::resolve(&manifest.unwrap(), &Config::default(), &facts).0
    }

    #[test]
    fn every_section_counts() {
        let (same, wider, narrower, both) =
            (Direction::Same, Direction::Wider, Direction::Narrower, Direction::Both);
        for (old, new, expected) in [
            ("", "env: [TOKEN]", wider),
            ("", "env: {T: {inject: {host: a.example, header: X}}}", wider),
            (
                "env: {T: {inject: {host: a.example, header: X}}}",
                "env: {T: {inject: {host: a.example, header: X}, from: {env: OTHER}}}",
                both,
            ),
            ("", "listen: [3000]", wider),
            ("accept_degraded: [fs-glob]", "", narrower),
            ("", "provider_tools: [code_execution]", wider),
            ("", "limits: {wall: 60}", narrower),
            ("limits: {wall: 60}", "limits: {wall: 120, pids: 5}", both),
            ("limits: {wall: 60}", "limits: {wall: 1m}", same),
            ("limits: {memory: 1G}", "limits: {memory: 2G}", wider),
            ("", "tools: {up: {cmd: [uptime]}}", wider),
            ("tools: {up: {cmd: [uptime]}}", "tools: {up: {cmd: [uptime, -p]}}", both),
            ("", "mcp: {allowed_tools: [a.*]}", narrower),
            ("mcp: {allowed_tools: [a.*]}", "mcp: {allowed_tools: [a.*, b.*]}", wider),
            ("", "mcp: {}", narrower),
            ("mcp: {allowed_tools: [a], pins: x.json}", "mcp: {allowed_tools: [a]}", wider),
            ("", "risk: {deny_at: high}", same),
            ("", "risk: {deny_at: critical}", wider),
            ("risk: {deny_at: low}", "", wider),
            ("", "risk: {apply_to_exec: true}", narrower),
            ("", "risk: {groups: {enable: [git]}}", wider),
            ("risk: {groups: {enable: [git]}}", "risk: {groups: {enable: [git, filesystem]}}", narrower),
        ] {
            let difference = compare(("old", &record(old)), ("new", &record(new)));
            assert_eq!(difference.direction, expected, "{old} -> {new} {difference:?}");
            let shown = !difference.added.is_empty() || !difference.removed.is_empty();
            assert_eq!(shown, expected != same, "{old} -> {new} {difference:?}");
        }
    }
}

//! An agent's authority as a tree: what it can read, write, delete, run and reach.

use super::besides::besides;
use crate::capability::{Capability, Family, Risk, ScopeKey, ScopeValue};
use crate::policy::{Grant, PlacedScope, Policy};
use crate::text::Place;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One line of the tree with what hangs below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// What it is about.
    pub label: String,
    /// What may be done with it, or which part of it is meant.
    pub detail: String,
    /// How much harm it can do.
    pub risk: Option<Risk>,
    /// What is odd about it: inert, clamped, only for processes.
    pub marks: Vec<&'static str>,
    /// Where it is written.
    pub place: Option<Place>,
    /// What it is made of.
    pub children: Vec<Node>,
}

/// What an agent cannot do at all.
const NOTHING: &str = "nothing";

/// The branches of an agent's authority. Those about files, programs and the network are always there.
#[must_use]
pub fn authority(policy: &Policy) -> Vec<Node> {
    let files = |label, capability| branch(label, policy.held(capability).map(file).collect());
    let mut read = files("read", Capability::FsRead);
    read.children.extend(seen_by_processes(policy));
    let mut branches = vec![
        emptied(read),
        emptied(files("write", Capability::FsWrite)),
        emptied(files("delete", Capability::FsDelete)),
        emptied(branch("run", held_in(policy, Family::Proc).map(program).collect())),
        emptied(branch("reach", hosts(policy))),
        branch("records", held_in(policy, Family::Records).map(internal).collect()),
        branch("agents", held_in(policy, Family::Agent).map(internal).collect()),
    ];
    let rest = besides(policy);
    let items = |(label, items): (&'static str, Vec<String>)| Node {
        label: label.to_owned(),
        detail: items.join(", "),
        ..Node::default()
    };
    branches.push(branch("besides", rest.into_iter().map(items).collect()));
    let always = ["read", "write", "delete", "run", "reach"];
    branches.retain(|branch| always.contains(&branch.label.as_str()) || !branch.children.is_empty());
    branches
}

fn held_in(policy: &Policy, family: Family) -> impl Iterator<Item = &Grant> {
    policy.grants().iter().filter(move |grant| grant.capability().family() == family)
}

/// A branch is as risky as the riskiest thing in it.
fn branch(label: &str, children: Vec<Node>) -> Node {
    let risk = children.iter().filter_map(|child| child.risk).max();
    Node { label: label.to_owned(), risk, children, ..Node::default() }
}

/// Says so when a branch is bare.
fn emptied(mut branch: Node) -> Node {
    if branch.children.is_empty() {
        NOTHING.clone_into(&mut branch.detail);
    }
    branch
}

/// A grant that lives below a root.
fn rooted(grant: &Grant) -> Node {
    let mut marks = Vec::new();
    if grant.clamped {
        marks.push("clamped");
    }
    if grant.is_inert() {
        marks.push("inert: no root");
    }
    let label = grant.root.as_ref().map_or_else(|| NOTHING.to_owned(), |root| root.display().to_string());
    let risk = (!grant.is_inert()).then(|| grant.capability().risk());
    Node { label, risk, marks, place: grant.place.clone(), ..Node::default() }
}

fn file(grant: &Grant) -> Node {
    let mut node = rooted(grant);
    match grant.spec.scope.list(ScopeKey::Paths) {
        None if grant.is_inert() => {}
        None => "and everything below".clone_into(&mut node.detail),
        Some(paths) => node.children = leaves(paths),
    }
    node
}

fn program(grant: &Grant) -> Node {
    let mut node = rooted(grant);
    let within = |text: &str| format!("{text}, in {}", node.label);
    let label = match &grant.scope {
        _ if grant.is_inert() => NOTHING.to_owned(),
        PlacedScope::Eval => within("any shell text"),
        _ if grant.is_open_exec() => within("any command"),
        _ => format!("in {}", node.label),
    };
    node.label = label;
    for key in [ScopeKey::Cmds, ScopeKey::Patterns] {
        node.children.extend(grant.spec.scope.list(key).into_iter().flat_map(leaves));
    }
    node
}

/// The items of a list; an empty one allows nothing, and says so.
fn leaves(items: &[String]) -> Vec<Node> {
    let leaf = |text: &str| Node { label: text.to_owned(), ..Node::default() };
    if items.is_empty() { vec![leaf(NOTHING)] } else { items.iter().map(|item| leaf(item)).collect() }
}

/// The roots of programs, which a process may read whatever the agent itself may.
fn seen_by_processes(policy: &Policy) -> Vec<Node> {
    let mut seen: Vec<Node> = Vec::new();
    for grant in held_in(policy, Family::Proc).filter(|grant| !grant.is_inert()) {
        let mut node = rooted(grant);
        let whole =
            |read: &Grant| read.root == grant.root && matches!(read.scope, PlacedScope::Fs { paths: None });
        if policy.held(Capability::FsRead).any(whole) || seen.iter().any(|other| other.label == node.label) {
            continue;
        }
        node.risk = Some(Capability::FsRead.risk());
        node.marks.push("only the processes it runs");
        seen.push(node);
    }
    seen
}

/// Hosts with the verbs held on each.
fn hosts(policy: &Policy) -> Vec<Node> {
    let mut verbs: BTreeMap<String, Vec<&Grant>> = BTreeMap::new();
    for grant in held_in(policy, Family::Net) {
        let PlacedScope::Net { hosts } = &grant.scope else { continue };
        for (pattern, port) in hosts {
            let name = match port {
                Some(port) => format!("{pattern}:{port}"),
                None => pattern.to_string(),
            };
            verbs.entry(name).or_default().push(grant);
        }
    }
    verbs.into_iter().map(|(host, grants)| reached(host, &grants)).collect()
}

fn reached(host: String, grants: &[&Grant]) -> Node {
    const VERBS: [(Capability, &str); 4] = [
        (Capability::NetGet, "get"),
        (Capability::NetPost, "post"),
        (Capability::NetPut, "put"),
        (Capability::NetDelete, "delete"),
    ];
    let held = |capability| grants.iter().any(|grant| grant.capability() == capability);
    let names: Vec<&str> =
        VERBS.iter().filter(|(capability, _)| held(*capability)).map(|(_, name)| *name).collect();
    let detail = match names.len() {
        4 => "any method, and connections that are not looked into".to_owned(),
        _ => names.join(", "),
    };
    let riskiest = grants.iter().max_by_key(|grant| grant.capability().risk());
    Node {
        label: host,
        detail,
        risk: riskiest.map(|grant| grant.capability().risk()),
        place: riskiest.and_then(|grant| grant.place.clone()),
        ..Node::default()
    }
}

/// A grant about records or agents.
fn internal(grant: &Grant) -> Node {
    let items = |value: &ScopeValue| match value {
        ScopeValue::Text(text) => leaves(std::slice::from_ref(text)),
        ScopeValue::List(items) => leaves(items),
    };
    let children: Vec<Node> = grant.spec.scope.iter().flat_map(|(_, value)| items(value)).collect();
    Node {
        label: grant.capability().name().to_owned(),
        detail: if children.is_empty() { "all of them".to_owned() } else { String::new() },
        risk: Some(grant.capability().risk()),
        marks: Vec::new(),
        place: grant.place.clone(),
        children,
    }
}

impl Node {
    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "label": self.label, "detail": self.detail, "risk": self.risk.map(Risk::name),
            "marks": self.marks, "place": self.place,
            "children": self.children.iter().map(Self::to_json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use crate::capability::Spec;

    fn tree(specs: &[&str]) -> Vec<Node> {
        let specs: Vec<Spec> = specs.iter().map(|spec| Spec::parse(spec).unwrap()).collect();
        authority(&Policy::from_specs("a", &specs, &Facts::new("/home/u")).unwrap())
    }

    fn of<'t>(tree: &'t [Node], label: &str) -> &'t Node {
        tree.iter().find(|node| node.label == label).unwrap()
    }

    #[test]
    fn what_is_not_held_is_said() {
        let tree = tree(&[]);
        let labels: Vec<&str> = tree.iter().map(|node| node.label.as_str()).collect();
        assert_eq!(labels, ["read", "write", "delete", "run", "reach"]);
        assert!(tree.iter().all(|node| node.detail == "nothing" && node.risk.is_none()));
    }

    #[test]
    fn verbs_of_one_host_stand_together_and_all_four_mean_more() {
        let tree = tree(&[
            "net.get{hosts=[a.example,b.example]}",
            "net.post{hosts=[a.example]}",
            "net.put{hosts=[b.example]}",
            "net.post{hosts=[b.example]}",
            "net.delete{hosts=[b.example]}",
        ]);
        let reach = of(&tree, "reach");
        assert_eq!(reach.risk, Some(Risk::High));
        assert_eq!(
            (reach.children[0].label.as_str(), reach.children[0].detail.as_str()),
            ("a.example", "get, post")
        );
        assert!(reach.children[1].detail.starts_with("any method"));
    }

    #[test]
    fn a_process_reads_the_root_of_its_grant() {
        let tree = tree(&["proc.exec{in=/w,cmds=[git]}"]);
        let read = of(&tree, "read");
        assert_eq!(
            (read.children[0].label.as_str(), read.children[0].marks[0]),
            ("/w", "only the processes it runs")
        );
        assert_eq!(of(&tree, "run").children[0].children[0].label, "git");
    }

    #[test]
    fn an_inert_grant_and_an_empty_list_are_nothing() {
        let tree = tree(&["fs.write", "fs.read{in=/w,paths=[]}"]);
        assert_eq!(of(&tree, "write").children[0].label, "nothing");
        assert_eq!(of(&tree, "write").risk, None);
        assert_eq!(of(&tree, "read").children[0].children[0].label, "nothing");
    }
}

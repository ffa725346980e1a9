//! The rules in force, and which of them could concern a command.
//!
//! Shipped rules are read once, when the first text is looked at; starting a command that is no shell text
//! pays nothing for them.

use super::rule::{self, Origin, Rule, bad};
use super::{Context, Scene, assess};
use crate::manifest::{Node, RiskSettings, parse_plain_yaml, parse_yaml};
use crate::profile::RISK_RULES;
use crate::text::{Problem, Source, closest};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

/// Rules, found by the programs they speak of.
#[derive(Clone, Debug)]
pub struct RuleSet {
    shipped: Arc<Indexed>,
    added: Indexed,
}

/// Rules with an index.
#[derive(Clone, Debug, Default)]
struct Indexed {
    rules: Vec<Rule>,
    by_program: HashMap<String, Vec<usize>>,
    /// Those that name no program, or only a pattern.
    others: Vec<usize>,
    /// What is wrong with a rule that should be here.
    fault: Option<String>,
}

static SHIPPED: LazyLock<Arc<Indexed>> = LazyLock::new(|| {
    let mut shipped = Indexed::default();
    for (path, text) in RISK_RULES {
        let (rules, problems) = shipped_rules(path, text);
        // A test reads every shipped file. Should one be wrong all the same, every text is refused for it: a rule
        // is never missing without a word.
        if let Some(problem) = problems.first() {
            shipped.fault.get_or_insert(format!("{path}: {}", problem.message));
        }
        rules.into_iter().for_each(|rule| shipped.add(rule));
    }
    Arc::new(shipped)
});

impl Indexed {
    fn add(&mut self, rule: Rule) {
        let at = self.rules.len();
        let mut anywhere = false;
        for condition in &rule.conditions {
            let plain = condition.program.iter().filter(|name| !name.contains(['*', '?']));
            anywhere |= condition.program.is_empty()
                || condition.program.iter().any(|name| name.contains(['*', '?']));
            for name in plain {
                let list = self.by_program.entry(name.clone()).or_default();
                if list.last() != Some(&at) {
                    list.push(at);
                }
            }
        }
        if anywhere {
            self.others.push(at);
        }
        self.rules.push(rule);
    }

    fn concerning(&self, program: &str) -> impl Iterator<Item = &Rule> {
        let named = self.by_program.get(program).into_iter().flatten();
        named.chain(&self.others).filter_map(|at| self.rules.get(*at))
    }
}

impl RuleSet {
    /// The rules that ship with sbx.
    #[must_use]
    pub fn builtin() -> Self {
        Self { shipped: Arc::clone(&SHIPPED), added: Indexed::default() }
    }

    /// Adds the rules of a file.
    ///
    /// # Errors
    /// All that is wrong with it; a file that is wrong adds nothing.
    pub fn add_file(&mut self, source: &Source, origin: Origin) -> Result<(), Vec<Problem>> {
        let (rules, problems) = parse(source, origin);
        self.add(rules, problems)
    }

    /// Adds the rules of a node that was read already.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn add_node(&mut self, node: &Node, origin: Origin) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        let without_settings =
            node.map().into_iter().flatten().filter(|(key, _)| matches!(key.text(), Some("group" | "rules")));
        let mut pairs: Vec<(Node, Node)> = without_settings.cloned().collect();
        if !pairs.iter().any(|(key, _)| key.text() == Some("group")) {
            let text =
                |text: &str| Node { kind: crate::manifest::NodeKind::Text(text.to_owned()), span: node.span };
            pairs.push((text("group"), text(origin.name())));
        }
        let root = Node { kind: crate::manifest::NodeKind::Map(pairs), span: node.span };
        let rules = rule::read(&root, origin, &mut problems);
        self.add(rules, problems)
    }

    fn add(&mut self, rules: Vec<Rule>, mut problems: Vec<Problem>) -> Result<(), Vec<Problem>> {
        for rule in &rules {
            if self.rules().any(|known| known.id == rule.id) {
                problems.push(bad(
                    format!("there is a rule `{}` already", rule.id),
                    crate::text::Span::default(),
                ));
            }
            problems.extend(
                check_examples(rule).into_iter().map(|message| bad(message, crate::text::Span::default())),
            );
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        rules.into_iter().for_each(|rule| self.added.add(rule));
        Ok(())
    }

    /// Why these rules are not all that there should be; none when they are.
    pub(super) fn fault(&self) -> Option<&str> {
        self.shipped.fault.as_deref()
    }

    /// Every rule.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.shipped.rules.iter().chain(&self.added.rules)
    }

    /// Names of rules and groups in settings that there are none of, each in a sentence.
    #[must_use]
    pub fn unknown_names(&self, settings: &RiskSettings) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |key: &str, what: &str, names: &[String], known: &BTreeSet<&str>| {
            for name in names.iter().filter(|name| !known.contains(name.as_str())) {
                let near = closest(name, known.iter().copied());
                let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                wrong.push(format!("`{key}` names {what} `{name}`, which there is none of{hint}"));
            }
        };
        let ids: BTreeSet<&str> = self.rules().map(|rule| rule.id.as_str()).collect();
        let groups: BTreeSet<&str> = self.rules().map(|rule| rule.group.as_str()).collect();
        check("risk.deny", "the rule", &settings.deny, &ids);
        check("risk.ignore", "the rule", &settings.ignore, &ids);
        check(
            "risk.groups.enable",
            "the group",
            settings.enabled_groups.as_deref().unwrap_or_default(),
            &groups,
        );
        check("risk.groups.disable", "the group", &settings.disabled_groups, &groups);
        wrong
    }

    /// The rules that could concern a program.
    pub(super) fn concerning(&self, program: &str) -> impl Iterator<Item = &Rule> {
        self.shipped.concerning(program).chain(self.added.concerning(program))
    }

    /// Whether any rule names a program.
    pub(super) fn knows(&self, program: &str) -> bool {
        self.shipped.by_program.contains_key(program) || self.added.by_program.contains_key(program)
    }

    /// The programs that rules name.
    pub(super) fn programs(&self) -> impl Iterator<Item = &str> {
        self.shipped.by_program.keys().chain(self.added.by_program.keys()).map(String::as_str)
    }

    fn only(rule: &Rule) -> Self {
        let mut added = Indexed::default();
        added.add(rule.clone());
        Self { shipped: Arc::default(), added }
    }
}

/// The rules of a shipped file.
fn shipped_rules(path: &str, text: &str) -> (Vec<Rule>, Vec<Problem>) {
    let Some(root) = parse_plain_yaml(text) else { return parse(&Source::new(path, text), Origin::Builtin) };
    let mut problems = Vec::new();
    (rule::read(&root, Origin::Builtin, &mut problems), problems)
}

fn parse(source: &Source, origin: Origin) -> (Vec<Rule>, Vec<Problem>) {
    let mut problems = Vec::new();
    let rules = match parse_yaml(source.text(), 0) {
        Ok(root) => rule::read(&root, origin, &mut problems),
        Err(problem) => {
            problems.push(*problem);
            Vec::new()
        }
    };
    (rules, problems)
}

/// What is wrong with a rule's own examples: those it does not find, and those it should not.
#[must_use]
pub fn check_examples(rule: &Rule) -> Vec<String> {
    let scene = Scene::new("/home/u").at("/home/u/app");
    let set = RuleSet::only(rule);
    let finds = |line: &String| {
        let found = assess(line, &scene, &set, &RiskSettings::default(), &Context::default());
        found.matched().iter().any(|matched| matched.rule.id == rule.id)
    };
    let missed = rule.matches.iter().filter(|line| !finds(line));
    let wrong = rule.no_matches.iter().filter(|line| finds(line));
    let mut problems: Vec<String> =
        missed.map(|line| format!("`{}` does not find its example `{line}`", rule.id)).collect();
    problems.extend(wrong.map(|line| format!("`{}` finds `{line}`, which it says is fine", rule.id)));
    if rule.matches.is_empty() {
        problems.push(format!("`{}` has no example in `match`", rule.id));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rule says what to do instead, and that is less bad.
    fn check_alternatives(rule: &Rule) -> Vec<String> {
        let scene = Scene::new("/home/u").at("/home/u/app");
        let all = RuleSet::builtin();
        let mut wrong = Vec::new();
        if rule.alternatives.is_empty() {
            wrong.push(format!("`{}` does not say what to do instead", rule.id));
        }
        for alternative in &rule.alternatives {
            let found =
                assess(&alternative.command, &scene, &all, &RiskSettings::default(), &Context::default());
            let as_bad = found.severity() >= Some(rule.severity);
            if as_bad || alternative.explanation.is_none() {
                wrong.push(format!("`{}` suggests `{}`: {:?}", rule.id, alternative.command, found.denial()));
            }
        }
        wrong
    }

    #[test]
    fn every_shipped_rule_is_well_formed_and_finds_its_examples() {
        let mut ids = BTreeSet::new();
        let mut wrong = Vec::new();
        assert_eq!(RuleSet::builtin().fault(), None);
        let written: usize = RISK_RULES.iter().map(|(_, text)| text.matches("\n  - id: ").count()).sum();
        assert_eq!(RuleSet::builtin().rules().count(), written, "a rule that is written is not there");
        for (path, text) in RISK_RULES {
            let source = Source::new(*path, *text);
            let (rules, problems) = parse(&source, Origin::Builtin);
            wrong.extend(problems.iter().map(|problem| crate::text::render(problem, &source)));
            for rule in rules {
                assert!(ids.insert(rule.id.clone()), "{} is there twice", rule.id);
                assert!(
                    !rule.matches.is_empty() && !rule.no_matches.is_empty(),
                    "{} needs examples",
                    rule.id
                );
                wrong.extend(check_examples(&rule));
                wrong.extend(check_alternatives(&rule));
            }
        }
        assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
        assert!(ids.len() >= 210, "{}", ids.len());
    }

    #[test]
    fn a_shipped_rule_that_is_wrong_refuses_everything() {
        let shipped = Indexed { fault: Some("x.yml: odd".to_owned()), ..Indexed::default() };
        let set = RuleSet { shipped: Arc::new(shipped), added: Indexed::default() };
        let scene = Scene::new("/home/u");
        let found = assess("ls", &scene, &set, &RiskSettings::default(), &Context::default());
        assert!(!found.allowed() && found.denial().is_some_and(|(_, reason)| reason.contains("x.yml: odd")));
    }

    #[test]
    fn names_that_there_are_none_of_are_told() {
        let settings = RiskSettings {
            deny: vec!["git:force_psh".to_owned()],
            disabled_groups: vec!["dcker".to_owned()],
            ..RiskSettings::default()
        };
        let told = RuleSet::builtin().unknown_names(&settings);
        assert!(
            told.len() == 2 && told[0].contains("`git:force_push`?") && told[1].contains("`docker`?"),
            "{told:?}"
        );
    }

    #[test]
    fn a_rule_that_does_not_find_its_example_is_refused() {
        let mut set = RuleSet::builtin();
        let text = "group: own\nrules:\n- {id: own:x, severity: high, about: x, when: {program: deploy}, match: [deploy now, ls], no_match: [ls]}\n";
        let problems = set.add_file(&Source::new("own.yml", text), Origin::User).unwrap_err();
        assert!(
            problems.iter().any(|problem| problem.message.contains("does not find its example `ls`")),
            "{problems:?}"
        );
        let text = text.replace(", ls], no_match", "], no_match");
        set.add_file(&Source::new("own.yml", text), Origin::User).unwrap();
        assert!(set.rules().any(|rule| rule.id == "own:x"));
    }
}

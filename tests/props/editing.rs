//! Grant, then revoke: the same authority, and every other byte as it was.

use crate::world::{Ask, any_capability, any_spec, ask_of, cases, facts};
use proptest::prelude::*;
use sbx::capability::{ScopeKey, Spec};
use sbx::manifest::{check_spec, grant, revoke};
use sbx::{Config, Manifest, Policy, Source, decide};
use std::collections::BTreeSet;

const BODY: &str = "# Title\n\n---\ncapabilities: [not, these]\n```\n- fs.read # no\n```\n\ttrailing  \n";

/// How a record's list is written.
#[derive(Clone, Copy, Debug)]
enum Style {
    Block,
    BlockUnindented,
    Flow,
    FlowOverLines,
    Text,
    Absent,
    Null,
    NullWord,
    Shorthand,
    Silent,
    Empty,
}

const STYLES: &[Style] = &[
    Style::Block,
    Style::BlockUnindented,
    Style::Flow,
    Style::FlowOverLines,
    Style::Text,
    Style::Absent,
    Style::Null,
    Style::NullWord,
    Style::Shorthand,
    Style::Silent,
    Style::Empty,
];

fn list(style: Style, specs: &[Spec]) -> String {
    let item = |spec: &Spec| format!("'{}'", spec.to_string().replace('\'', "''"));
    let items: Vec<String> = specs.iter().map(item).collect();
    let lines = |lead: &str| -> String { items.iter().map(|item| format!("{lead}- {item}\n")).collect() };
    match style {
        Style::Block if !specs.is_empty() => {
            format!("capabilities: # held\n  # first\n{}  # last\n", lines("  "))
        }
        Style::BlockUnindented if !specs.is_empty() => format!("capabilities:\n{}", lines("")),
        Style::FlowOverLines => format!("capabilities: [\n  {}\n  ]\n", items.join(",\n  ")),
        Style::Text => {
            let compact: Vec<String> = specs.iter().map(Spec::to_string).collect();
            format!("capabilities: '{}'\n", compact.join(" ").replace('\'', "''"))
        }
        Style::Absent => "access: rw # mode\n".to_owned(),
        Style::Null => "capabilities:\n".to_owned(),
        Style::NullWord => "capabilities: ~ # none\n".to_owned(),
        Style::Shorthand => {
            format!("sandbox: /w/app # root\naccess: r\ncapabilities: [{}]\n", items.join(", "))
        }
        Style::Silent => String::new(),
        Style::Empty => "capabilities: [] # nothing\n".to_owned(),
        Style::Flow | Style::Block | Style::BlockUnindented => {
            format!("capabilities: [{}]\n", items.join(", "))
        }
    }
}

fn record(style: Style, specs: &[Spec], crlf: bool, bom: bool) -> String {
    let text = format!(
        "---\n# a comment\nid: holder\n{}\n# after\nenv: [LANG]  # kept\n# end\n---\n{BODY}",
        list(style, specs)
    );
    let text = if crlf { text.replace('\n', "\r\n") } else { text };
    if bom { format!("\u{feff}{text}") } else { text }
}

/// What the record comes to: every grant with its root, without order or spelling of roots.
fn authority(text: &str) -> BTreeSet<String> {
    let describe =
        |grant: &sbx::policy::Grant| format!("{} in {:?}: {:?}", grant.capability(), grant.root, grant.scope);
    policy(text).grants().iter().map(describe).collect()
}

fn policy(text: &str) -> Policy {
    let (manifest, problems) = Manifest::parse(Source::new("me.md", text), &facts());
    let manifest = manifest.unwrap_or_else(|| panic!("{problems:?} in\n{text}"));
    Policy::resolve(&manifest, &Config::default(), &facts()).0
}

/// What no edit may touch: the body, and each line that is not about grants.
fn rest(text: &str) -> (String, Vec<String>) {
    let ours =
        |line: &&str| line.contains("# a comment") || line.contains("id: holder") || line.contains("# after");
    let also = |line: &&str| line.contains("env: [LANG]") || line.contains("# end");
    let (front, body) = text.split_once("# Title").unwrap_or_else(|| panic!("the body is gone:\n{text}"));
    let lines =
        front.split_inclusive('\n').filter(|line| ours(line) || also(line)).map(str::to_owned).collect();
    (body.to_owned(), lines)
}

fn setting() -> impl Strategy<Value = (Style, Vec<Spec>, Spec, bool, bool)> {
    (
        proptest::sample::select(STYLES),
        proptest::collection::vec(any_spec(), 0..4),
        any_spec(),
        any::<bool>(),
        any::<bool>(),
    )
}

fn any_ask() -> impl Strategy<Value = Ask> {
    any_capability().prop_flat_map(|capability| ask_of(capability, true))
}

fn good(spec: &Spec) -> bool {
    check_spec(spec, &facts()).is_empty()
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn grant_then_revoke_restores_authority_and_keeps_the_rest(
        (style, specs, added, crlf, bom) in setting(),
    ) {
        let specs: Vec<Spec> = specs.into_iter().filter(good).collect();
        prop_assume!(good(&added));
        let text = record(style, &specs, crlf, bom);
        let source = |text: &str| Source::new("me.md", text);
        let before = authority(&text);

        let granted = grant(&source(&text), &added, &facts()).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        let Some(granted) = granted.text else { return Ok(()) };
        let held = authority(&granted);
        let clamped = policy(&text).grants().iter().any(|grant| grant.clamped);
        if clamped {
            // Said again below another root, a grant looks different; a property below asks `decide`.
            return Ok(());
        }
        prop_assert!(before.is_subset(&held), "granting took something away:\n{granted}");
        prop_assert!(held.len() <= before.len() + 1, "granting added more than one:\n{granted}");
        prop_assert_eq!(rest(&granted), rest(&text));
        prop_assert_eq!(granted.starts_with('\u{feff}'), bom);
        prop_assert!(!crlf || !granted.replace("\r\n", "").contains('\n'), "line ends are mixed:\n{granted:?}");

        let revoked = revoke(&source(&granted), &added, &facts()).map_err(|e| TestCaseError::fail(format!("{e}\n{granted}")))?;
        let revoked = revoked.text.unwrap_or(granted);
        // Items that stood elsewhere before go from there too.
        if held.len() > before.len() && revoke(&source(&text), &added, &facts()).is_err() {
            prop_assert_eq!(&authority(&revoked), &before, "{}\nbecame\n{}", text, revoked);
        }
        prop_assert!(authority(&revoked).len() <= before.len(), "{}\nbecame\n{}", text, revoked);
        prop_assert_eq!(rest(&revoked), rest(&text));
        // What is said beside a grant goes with it.
        let stays = |comment: &&str| text.contains(*comment) && authority(&revoked) == before;
        for comment in ["# held", "# first", "# last"].into_iter().filter(stays) {
            prop_assert!(revoked.contains(comment), "{} is gone:\n{}", comment, revoked);
        }
        prop_assert!(!crlf || !revoked.replace("\r\n", "").contains('\n'), "line ends are mixed:\n{revoked:?}");
    }

    #[test]
    fn revoking_never_adds_authority((style, specs, taken, crlf, bom) in setting()) {
        let specs: Vec<Spec> = specs.into_iter().filter(good).collect();
        let text = record(style, &specs, crlf, bom);
        let bare = Spec { scope: sbx::capability::Scope::bare(), ..taken.clone() };
        for spec in [taken, bare] {
            let Ok(change) = revoke(&Source::new("me.md", text.as_str()), &spec, &facts()) else { continue };
            let after = change.text.unwrap_or_else(|| text.clone());
            prop_assert!(authority(&after).len() <= authority(&text).len());
            prop_assert_eq!(rest(&after), rest(&text));
        }
    }

    #[test]
    fn a_grant_adds_nothing_but_itself(
        (style, specs, added, crlf, bom) in setting(), asks in proptest::collection::vec(any_ask(), 24),
    ) {
        let specs: Vec<Spec> = specs.into_iter().filter(good).collect();
        prop_assume!(good(&added));
        let text = record(style, &specs, crlf, bom);
        let Ok(change) = grant(&Source::new("me.md", text.as_str()), &added, &facts()) else { return Ok(()) };
        let granted = change.text.unwrap_or_else(|| text.clone());
        let (before, after) = (policy(&text), policy(&granted));
        // One without a root is for the record's own, where that is about to be spelled out.
        let hoists = text.contains("sandbox: /w/app")
            && added.capability.family().is_rooted()
            && added.scope.text(ScopeKey::In).is_none();
        let placed = Spec { scope: added.scope.clone().with_text(ScopeKey::In, "/w/app"), ..added.clone() };
        let alone = if hoists { placed } else { added };
        let alone = policy(&record(Style::Flow, std::slice::from_ref(&alone), false, false));
        for ask in asks {
            let request = ask.request();
            if decide(&after, &request).is_allowed() {
                let known = decide(&before, &request).is_allowed() || decide(&alone, &request).is_allowed();
                prop_assert!(known, "{} became\n{}\nwhich allows {:?}", text, granted, ask);
            }
        }
    }
}

//! Taking items away from a grant, for `revoke`.

use super::Facts;
use super::paths::expand_root;
use super::record::normalize_id;
use crate::capability::{HostPattern, Scope, ScopeKey, ScopeValue, Spec, ValueKind};
use sbx_platform::path::within;
use std::path::PathBuf;

/// What is left of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// All of it: the revoked spec is about something else.
    All,
    /// Some of it.
    Some(Spec),
    /// Nothing.
    None,
}

/// Takes the items of `revoked` away from `held`.
pub(super) fn subtract(held: &Spec, revoked: &Spec, facts: &Facts) -> Rest {
    if held.capability != revoked.capability {
        return Rest::All;
    }
    if !root_applies(&held.scope, &revoked.scope, facts) {
        return Rest::All;
    }
    let keys: Vec<ScopeKey> =
        revoked.scope.iter().map(|(key, _)| key).filter(|key| *key != ScopeKey::In).collect();
    // The same but for the root goes as a whole, an empty list of items too.
    let unrooted = |scope: &Scope| scope.clone().without(ScopeKey::In);
    if keys.is_empty() || unrooted(&held.scope) == unrooted(&revoked.scope) {
        return Rest::None;
    }
    let mut scope = held.scope.clone();
    let mut taken = false;
    for key in keys {
        let gone = items(&revoked.scope, key);
        for held_key in siblings(key).filter(|held_key| held.scope.iter().any(|(k, _)| k == *held_key)) {
            let kept: Vec<String> = items(&scope, held_key)
                .into_iter()
                .filter(|item| !gone.iter().any(|gone| same(key, gone, item)))
                .collect();
            taken |= kept.len() != items(&scope, held_key).len();
            scope = replace(scope, held_key, kept);
        }
    }
    match taken {
        false => Rest::All,
        true if is_spent(held, &scope) => Rest::None,
        true => Rest::Some(Spec { capability: held.capability, scope: tidy(held, scope) }),
    }
}

/// Without a root in the revoked spec every grant is meant; with one, those at or below it.
fn root_applies(held: &Scope, revoked: &Scope, facts: &Facts) -> bool {
    let place = |scope: &Scope| -> Option<PathBuf> {
        scope.text(ScopeKey::In).and_then(|text| expand_root(text, facts).ok()?.path)
    };
    match (revoked.text(ScopeKey::In), place(revoked)) {
        (None, _) => true,
        (Some(_), Some(revoked)) => place(held).is_some_and(|held| within(&held, &revoked)),
        (Some(text), None) => held.text(ScopeKey::In) == Some(text),
    }
}

/// `id` and `ids` are one list in two spellings.
fn siblings(key: ScopeKey) -> impl Iterator<Item = ScopeKey> {
    let keys: &[ScopeKey] = match key {
        ScopeKey::Id | ScopeKey::Ids => &[ScopeKey::Id, ScopeKey::Ids],
        ScopeKey::In => &[ScopeKey::In],
        ScopeKey::Cmds => &[ScopeKey::Cmds],
        ScopeKey::Patterns => &[ScopeKey::Patterns],
        ScopeKey::Paths => &[ScopeKey::Paths],
        ScopeKey::Hosts => &[ScopeKey::Hosts],
        ScopeKey::Classes => &[ScopeKey::Classes],
    };
    keys.iter().copied()
}

fn items(scope: &Scope, key: ScopeKey) -> Vec<String> {
    match key.kind() {
        ValueKind::Text => scope.text(key).map(str::to_owned).into_iter().collect(),
        ValueKind::List => scope.list(key).unwrap_or_default().to_vec(),
    }
}

fn replace(scope: Scope, key: ScopeKey, items: Vec<String>) -> Scope {
    match key.kind() {
        ValueKind::Text if items.is_empty() => scope.without(key),
        ValueKind::Text => scope,
        ValueKind::List => scope.with(key, ScopeValue::List(items)),
    }
}

/// Whether two items mean the same, however they are spelled.
fn same(key: ScopeKey, a: &str, b: &str) -> bool {
    match key {
        ScopeKey::Hosts => match (HostPattern::parse(a), HostPattern::parse(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => a == b,
        },
        ScopeKey::Id | ScopeKey::Ids => normalize_id(a) == normalize_id(b),
        ScopeKey::Paths => clean(a) == clean(b),
        ScopeKey::Patterns => a.split_whitespace().eq(b.split_whitespace()),
        ScopeKey::In | ScopeKey::Cmds | ScopeKey::Classes => a == b,
    }
}

fn clean(path: &str) -> String {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
}

/// Whether every list that allowed something is now empty.
fn is_spent(held: &Spec, scope: &Scope) -> bool {
    let alternatives = |keys: &[ScopeKey]| {
        let written = keys.iter().any(|key| held.scope.iter().any(|(held_key, _)| held_key == *key));
        written && keys.iter().all(|key| items(scope, *key).is_empty())
    };
    alternatives(&[ScopeKey::Cmds, ScopeKey::Patterns])
        || alternatives(&[ScopeKey::Id, ScopeKey::Ids])
        || [ScopeKey::Paths, ScopeKey::Hosts, ScopeKey::Classes].iter().any(|key| alternatives(&[*key]))
}

/// Drops an emptied list whose alternative still narrows: `cmds` beside `patterns`, `ids` beside `id`.
fn tidy(held: &Spec, scope: Scope) -> Scope {
    let pairs = [
        (ScopeKey::Cmds, ScopeKey::Patterns),
        (ScopeKey::Patterns, ScopeKey::Cmds),
        (ScopeKey::Ids, ScopeKey::Id),
    ];
    pairs.into_iter().fold(scope, |scope, (emptied, other)| {
        let was_written = held.scope.list(emptied).is_some_and(|items| !items.is_empty());
        let now_empty = was_written && items(&scope, emptied).is_empty();
        if now_empty && !items(&scope, other).is_empty() { scope.without(emptied) } else { scope }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(held: &str, revoked: &str) -> String {
        let spec = |text| Spec::parse(text).unwrap();
        match subtract(&spec(held), &spec(revoked), &Facts::new("/home/u")) {
            Rest::All => "all".to_owned(),
            Rest::None => "none".to_owned(),
            Rest::Some(spec) => spec.to_string(),
        }
    }

    #[test]
    fn items_are_taken_one_by_one() {
        assert_eq!(rest("net.get{hosts=[a.com,b.com]}", "net.get{hosts=[A.com]}"), "net.get{hosts=[b.com]}");
        assert_eq!(rest("net.get{hosts=[a.com]}", "net.get{hosts=[a.com]}"), "none");
        assert_eq!(rest("net.get{hosts=[a.com]}", "net.get{hosts=[b.com]}"), "all");
        assert_eq!(
            rest("fs.read{in=/w,paths=[./a,b]}", "fs.read{in=/w,paths=[a]}"),
            "fs.read{in=/w,paths=[b]}"
        );
    }

    #[test]
    fn an_emptied_list_never_becomes_any_command() {
        assert_eq!(rest("proc.exec{in=/w,cmds=[git]}", "proc.exec{cmds=[git]}"), "none");
        assert_eq!(
            rest("proc.exec{in=/w,cmds=[git],patterns=[npm test]}", "proc.exec{cmds=[git]}"),
            "proc.exec{in=/w,patterns=[npm test]}"
        );
        assert_eq!(rest("agent.update{id=a,ids=[b]}", "agent.update{ids=[a]}"), "agent.update{ids=[b]}");
    }

    #[test]
    fn a_root_takes_what_lies_at_or_below_it() {
        assert_eq!(rest("fs.read{in=/w/x}", "fs.read{in=/w}"), "none");
        assert_eq!(rest("fs.read{in=/w}", "fs.read{in=/w/x}"), "all");
        assert_eq!(rest("fs.read{in=~/a}", "fs.read{in=/home/u/a}"), "none");
    }
}

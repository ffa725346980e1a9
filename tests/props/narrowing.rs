//! One more level never widens.

use crate::world::{Ask, Levels, any_capability, any_level, any_levels, ask_of, cases, resolve, spec_of};
use proptest::prelude::*;
use sbx::capability::{ScopeKey, Spec};
use sbx::{Policy, decide};
use std::path::{Path, PathBuf};

/// Grants of one capability, levels above them, and requests for that capability.
fn setting() -> impl Strategy<Value = (Vec<Spec>, Levels, Vec<Ask>)> {
    any_capability().prop_flat_map(|capability| {
        (
            proptest::collection::vec(spec_of(capability), 1..4),
            any_levels(),
            proptest::collection::vec(ask_of(capability, true), 16),
        )
    })
}

/// The place a rooted request works in.
fn place(ask: &Ask) -> Option<&Path> {
    match ask {
        Ask::Path { path, .. } => Some(Path::new(path)),
        Ask::Exec { cwd, .. } | Ask::Eval { cwd } => cwd.as_deref().map(Path::new),
        Ask::Host { .. } | Ask::Record { .. } | Ask::Agent { .. } => None,
    }
}

/// Whether a level and every grant's own root lie one inside the other, at each step of the chain.
///
/// Where they do not, the guide clamps the deeper root to the level above, which moves the grant
/// rather than narrowing it; and a grant without any root only comes alive through a level. Where the level lies below
/// the root of a grant with `paths`, these are moved with it: they are read from wherever the root ends up.
fn narrows(policy: &Policy, outer: &Path) -> bool {
    let nested = |root: &Path| root.starts_with(outer) || outer.starts_with(root);
    policy.chain().clamps().is_empty()
        && policy.chain().levels().iter().all(|level| nested(&level.root))
        && policy.grants().iter().all(|grant| !grant.is_inert() && !grant.clamped)
        && policy.grants().iter().all(|grant| {
            let stays =
                |root: &Path| root.starts_with(outer) || grant.spec.scope.list(ScopeKey::Paths).is_none();
            grant.root.as_deref().is_none_or(|root| nested(root) && stays(root))
        })
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn an_outer_level_leaves_a_subset((specs, levels, asks) in setting(), outer in any_level()) {
        let Some(outer) = outer else { return Ok(()) };
        let before = resolve(&specs, &Levels { config: None, ..levels.clone() });
        let after = resolve(&specs, &Levels { config: Some(outer.clone()), ..levels });
        if !narrows(&before, Path::new(&outer)) {
            return Ok(());
        }
        for ask in asks {
            let request = ask.request();
            if decide(&after, &request).is_allowed() {
                prop_assert!(decide(&before, &request).is_allowed(), "{outer} widened to {ask:?}");
            }
        }
    }

    #[test]
    fn nothing_is_allowed_outside_any_level((specs, levels, asks) in setting()) {
        let policy = resolve(&specs, &levels);
        let roots: Vec<PathBuf> =
            [&levels.config, &levels.project, &levels.agent].into_iter().flatten().map(Into::into).collect();
        let outermost = roots.first();
        for grant in policy.grants() {
            let Some(root) = &grant.root else { continue };
            prop_assert!(policy.chain().root().is_none_or(|level| root.starts_with(level)));
        }
        for ask in asks {
            let request = ask.request();
            let allowed = decide(&policy, &request).is_allowed();
            if let (true, Some(place), Some(level)) = (allowed, place(&ask), outermost) {
                prop_assert!(place.starts_with(level), "{ask:?} is outside {level:?}");
            }
        }
    }

    #[test]
    fn fewer_grants_allow_a_subset((specs, levels, asks) in setting(), dropped in any::<prop::sample::Index>()) {
        let all = resolve(&specs, &levels);
        let mut fewer = specs.clone();
        fewer.remove(dropped.index(specs.len()));
        let fewer = resolve(&fewer, &levels);
        for ask in asks {
            let request = ask.request();
            prop_assert!(!decide(&fewer, &request).is_allowed() || decide(&all, &request).is_allowed());
        }
    }
}

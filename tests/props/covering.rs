//! `covers` is an order, and it means what `decide` means.

use crate::world::{AGENT, Ask, Levels, any_capability, any_levels, ask_of, cases, resolve, spec_of};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sbx::capability::{Capability, ScopeKey, ScopeValue, Spec};
use sbx::policy::covers_grant;
use sbx::{Policy, covers, decide};
use std::cell::Cell;

/// Grants and the levels above them.
#[derive(Clone, Debug)]
struct Holder {
    specs: Vec<Spec>,
    levels: Levels,
}

impl Holder {
    fn policy(&self) -> Policy {
        resolve(&self.specs, &self.levels)
    }
}

/// Takes one item of a list away, so that the result is near the original.
fn tightened(spec: &Spec, which: usize) -> Spec {
    let lists: Vec<(ScopeKey, Vec<String>)> = spec
        .scope
        .iter()
        .filter_map(|(key, value)| match value {
            ScopeValue::List(items) if !items.is_empty() => Some((key, items.clone())),
            ScopeValue::List(_) | ScopeValue::Text(_) => None,
        })
        .collect();
    let Some((key, items)) = lists.get(which % lists.len().max(1)) else { return spec.clone() };
    let mut items = items.clone();
    items.remove(which % items.len());
    Spec { scope: spec.scope.clone().with_list(*key, items), ..spec.clone() }
}

fn holder(capability: Capability) -> impl Strategy<Value = Holder> {
    let rarely = prop_oneof![3 => Just(Levels::default()), 1 => any_levels()];
    (proptest::collection::vec(spec_of(capability), 1..4), rarely)
        .prop_map(|(specs, levels)| Holder { specs, levels })
}

/// Another holder that often has less: some grants of the first, tightened, and sometimes one more.
fn lesser(outer: Holder, capability: Capability) -> impl Strategy<Value = Holder> {
    let keep = proptest::collection::vec((any::<bool>(), 0usize..12), outer.specs.len());
    let extra = proptest::collection::vec(spec_of(capability), 0..2);
    (keep, extra, any::<bool>(), holder(capability)).prop_map(move |(keep, extra, same_levels, other)| {
        let kept = outer
            .specs
            .iter()
            .zip(keep)
            .map(|(spec, (whole, which))| if whole { spec.clone() } else { tightened(spec, which) });
        let levels = if same_levels { outer.levels.clone() } else { other.levels };
        Holder { specs: kept.chain(extra).collect(), levels }
    })
}

fn family() -> impl Strategy<Value = (Holder, Holder, Holder, Vec<Ask>)> {
    any_capability().prop_flat_map(|capability| {
        holder(capability).prop_flat_map(move |first| {
            let asks = proptest::collection::vec(ask_of(capability, false), 24);
            (lesser(first.clone(), capability), Just(first), asks).prop_flat_map(
                move |(second, first, asks)| {
                    (Just(first), Just(second.clone()), lesser(second, capability), Just(asks))
                },
            )
        })
    })
}

fn includes(parent: &Policy, child: &Policy) -> bool {
    child.grants().iter().all(|grant| covers_grant(parent, grant))
}

#[test]
fn a_parent_that_covers_a_child_allows_whatever_the_child_is_allowed() {
    let (covered, allowed) = (Cell::new(0u32), Cell::new(0u32));
    let config = cases(800);
    let wanted = config.cases / 20;
    let property = |(first, second, third, asks): (Holder, Holder, Holder, Vec<Ask>)| {
        let policies = [first.policy(), second.policy(), third.policy()];
        for (parent, child) in [(0, 1), (1, 2), (0, 2), (1, 0), (2, 0)] {
            let (parent, child) = (&policies[parent], &policies[child]);
            if !includes(parent, child) {
                continue;
            }
            covered.set(covered.get() + 1);
            for ask in &asks {
                let request = ask.request();
                if decide(child, &request).is_allowed() {
                    allowed.set(allowed.get() + 1);
                    prop_assert!(decide(parent, &request).is_allowed(), "the parent lacks {ask:?}");
                }
            }
        }
        Ok(())
    };
    if let Err(error) = TestRunner::new(config).run(&family(), property) {
        panic!("{error}");
    }
    assert!(covered.get() > wanted && allowed.get() > wanted, "hardly anything was covered: vacuous");
}

#[test]
fn covering_is_transitive() {
    let chains = Cell::new(0u32);
    let config = cases(800);
    let wanted = config.cases / 20;
    let property = |(first, second, third, _): (Holder, Holder, Holder, Vec<Ask>)| {
        let (first, second, third) = (first.policy(), second.policy(), third.policy());
        if includes(&first, &second) && includes(&second, &third) {
            chains.set(chains.get() + 1);
            prop_assert!(includes(&first, &third));
        }
        Ok(())
    };
    if let Err(error) = TestRunner::new(config).run(&family(), property) {
        panic!("{error}");
    }
    assert!(chains.get() > wanted, "hardly any chain was found: vacuous");
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn every_policy_covers_itself(held in any_capability().prop_flat_map(holder)) {
        let policy = held.policy();
        for grant in policy.grants() {
            prop_assert!(covers_grant(&policy, grant), "{AGENT} does not cover its own {}", grant.spec);
        }
    }

    #[test]
    fn every_requirement_is_covered_by_itself(spec in any_capability().prop_flat_map(spec_of)) {
        let policy = resolve(std::slice::from_ref(&spec), &Levels::default());
        // A grant that the record's reader refuses is not held; one that is held is covered.
        if !policy.grants().is_empty() {
            prop_assert!(covers(&policy, &spec), "{spec}");
        }
    }
}

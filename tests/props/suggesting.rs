//! The grant that a denial suggests allows what was denied.

use crate::world::{Ask, Levels, any_capability, any_levels, ask_of, cases, facts, resolve, spec_of};
use proptest::prelude::*;
use sbx::capability::Spec;
use sbx::decide;
use sbx::manifest::check_spec;

fn setting() -> impl Strategy<Value = (Vec<Spec>, Levels, Vec<Ask>)> {
    any_capability().prop_flat_map(|capability| {
        (
            proptest::collection::vec(spec_of(capability), 0..3),
            any_levels(),
            proptest::collection::vec(ask_of(capability, true), 12),
        )
    })
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn adding_the_suggested_grant_allows_the_request((specs, levels, asks) in setting()) {
        let policy = resolve(&specs, &levels);
        for ask in asks {
            let request = ask.request();
            let decision = decide(&policy, &request);
            let Some(suggested) = decision.denial().and_then(|denial| denial.suggested_grant.clone()) else {
                continue;
            };
            let printed = Spec::parse(&suggested.to_string()).unwrap();
            prop_assert_eq!(&printed, &suggested);
            prop_assert!(check_spec(&suggested, &facts()).is_empty(), "{} is no grant, for {:?}", suggested, ask);
            let more: Vec<Spec> = specs.iter().cloned().chain([printed]).collect();
            let allowed = decide(&resolve(&more, &levels), &request).is_allowed();
            prop_assert!(allowed, "{} does not allow {:?}", suggested, ask);
        }
    }

    #[test]
    fn a_plain_request_within_the_levels_is_always_given_a_suggestion(path in "/w/app(/[a-z]{1,5}){0,3}") {
        let policy = resolve(&[], &Levels { config: Some("/w".to_owned()), ..Levels::default() });
        let request = sbx::Request::path(sbx::capability::Capability::FsRead, path);
        prop_assert!(decide(&policy, &request).denial().unwrap().suggested_grant.is_some());
    }
}

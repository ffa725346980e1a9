//! The index finds what a walk over all grants would find.

use crate::reference;
use crate::world::{Ask, Levels, any_capability, any_levels, any_spec, ask_of, cases, resolve, spec_of};
use proptest::prelude::*;
use sbx::capability::{Glob, Spec, matches_segment};
use sbx::decide;

fn setting() -> impl Strategy<Value = (Vec<Spec>, Levels, Vec<Ask>)> {
    any_capability().prop_flat_map(|capability| {
        (
            proptest::collection::vec(prop_oneof![4 => spec_of(capability), 1 => any_spec()], 1..6),
            any_levels(),
            proptest::collection::vec(ask_of(capability, true), 16),
        )
    })
}

/// Matches by trying everything: `**/` is any number of whole components, `**` any run, `*` a run without `/`.
fn glob_reference(pattern: &[char], text: &[char], at_start: bool) -> bool {
    let runs = |rest: &[char], crosses: bool| {
        let limit = text.iter().position(|c| *c == '/' && !crosses).unwrap_or(text.len());
        (0..=limit).any(|eaten| glob_reference(rest, &text[eaten..], false))
    };
    match pattern {
        [] => text.is_empty(),
        ['*', '*', '/', rest @ ..] if at_start => {
            let boundaries = (0..text.len()).filter(|at| text[*at] == '/').map(|at| at + 1);
            std::iter::once(0).chain(boundaries).any(|skip| glob_reference(rest, &text[skip..], true))
        }
        ['*', '*', rest @ ..] => runs(rest, true),
        ['*', rest @ ..] => runs(rest, false),
        ['?', rest @ ..] => {
            text.first().is_some_and(|c| *c != '/') && glob_reference(rest, &text[1..], false)
        }
        [c, rest @ ..] => text.first() == Some(c) && glob_reference(rest, &text[1..], *c == '/'),
    }
}

fn argument_reference(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['*', rest @ ..] => (0..=text.len()).any(|eaten| argument_reference(rest, &text[eaten..])),
        ['?', rest @ ..] => !text.is_empty() && argument_reference(rest, &text[1..]),
        [c, rest @ ..] => text.first() == Some(c) && argument_reference(rest, &text[1..]),
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn decide_agrees_with_a_slow_matcher((specs, levels, asks) in setting()) {
        let policy = resolve(&specs, &levels);
        let held: Vec<Spec> = policy.grants().iter().map(|grant| grant.spec.clone()).collect();
        for ask in asks {
            let request = ask.request();
            let slow = reference::allows(&held, &levels, &ask);
            prop_assert_eq!(decide(&policy, &request).is_allowed(), slow, "{:?}", ask);
        }
    }

    #[test]
    fn the_glob_matcher_agrees_with_trying_everything(
        pattern in "([ab/é]|\\*|\\*\\*|\\?|\\*\\*/){0,7}", text in "[ab/é€]{0,8}",
    ) {
        let (chars, wanted): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
        let fast = Glob::new(&pattern).matches(text.as_bytes());
        prop_assert_eq!(fast, glob_reference(&wanted, &chars, true));
    }

    #[test]
    fn the_argument_matcher_agrees_with_trying_everything(pattern in "[ab*?€]{0,7}", text in "[ab/€]{0,7}") {
        let (chars, wanted): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
        prop_assert_eq!(matches_segment(&pattern, text.as_bytes()), argument_reference(&wanted, &chars));
    }
}

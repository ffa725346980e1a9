//! What is printed reads back as the same.

use crate::world::{any_spec, cases, facts};
use proptest::prelude::*;
use sbx::capability::{CATALOG, Capability, Scope, ScopeKey, ScopeValue, Spec, ValueKind};
use sbx::manifest::check_spec;
use sbx::{Manifest, Source};

/// A spec whose items are any text at all, valid or not.
fn wild_spec() -> impl Strategy<Value = Spec> {
    let item =
        prop_oneof!["[a-z/*~.:]{0,6}", "[ \\\\\"\\[\\]{},=#a\n\t'-]{0,6}", "\\PC{0,4}", any::<String>()];
    (
        0..CATALOG.len(),
        proptest::collection::vec(proptest::option::of(proptest::collection::vec(item, 0..4)), 8),
    )
        .prop_map(|(row, values)| {
            let capability = CATALOG[row].capability;
            let written =
                capability.keys().iter().zip(values).filter_map(|(key, value)| Some((*key, value?)));
            Spec {
                capability,
                scope: written.fold(Scope::bare(), |scope, (key, items)| with(scope, key, items)),
            }
        })
}

fn with(scope: Scope, key: ScopeKey, items: Vec<String>) -> Scope {
    match key.kind() {
        ValueKind::List => scope.with_list(key, items),
        ValueKind::Text => scope.with_text(key, items.into_iter().next().unwrap_or_default()),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn mapped(spec: &Spec, flow: bool) -> String {
    let value = |value: &ScopeValue| match value {
        ScopeValue::Text(text) => quoted(text),
        ScopeValue::List(items) => {
            let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
    };
    let pairs: Vec<String> =
        spec.scope.iter().map(|(key, item)| format!("{}: {}", key.name(), value(item))).collect();
    match (pairs.is_empty(), flow) {
        (true, _) => spec.capability.name().to_owned(),
        (_, true) => format!("{{{}: {{{}}}}}", spec.capability, pairs.join(", ")),
        (_, false) => format!("{}:\n      {}", spec.capability, pairs.join("\n      ")),
    }
}

/// Every way in which the same grants can be written.
fn written_forms(specs: &[Spec]) -> Vec<String> {
    let compact: Vec<String> = specs.iter().map(Spec::to_string).collect();
    let list = |items: Vec<String>| items.iter().map(|item| format!("  - {item}\n")).collect::<String>();
    let each = |form: fn(&Spec) -> String| specs.iter().map(form).collect::<Vec<_>>();
    vec![
        format!("capabilities:\n{}", list(each(|spec| quoted(&spec.to_string())))),
        format!("capabilities:\n{}", list(each(|spec| mapped(spec, false)))),
        format!("capabilities:\n{}", list(each(|spec| mapped(spec, true)))),
        format!("capabilities: [{}]\n", each(|spec| mapped(spec, true)).join(", ")),
        format!("capabilities: {}\n", quoted(&compact.join(" "))),
        format!("capabilities: {}\n", quoted(&compact.join(","))),
        format!("capabilities: {}\n", quoted(&compact.join(",\n\t "))),
    ]
}

fn read(text: &str) -> Vec<Spec> {
    let (manifest, problems) = Manifest::parse(Source::new("a.yml", text), &facts());
    let manifest = manifest.unwrap_or_else(|| panic!("{problems:?} in\n{text}"));
    manifest.capabilities().unwrap_or_default().iter().map(|grant| grant.spec.clone()).collect()
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_printed_spec_reads_back(spec in wild_spec()) {
        let text = spec.to_string();
        prop_assert_eq!(Spec::parse(&text).map_err(|error| error.to_string()), Ok(spec), "{}", text);
    }

    #[test]
    fn a_record_means_the_same_in_every_written_form(specs in proptest::collection::vec(any_spec(), 1..5)) {
        let good: Vec<Spec> =
            specs.into_iter().filter(|spec| check_spec(spec, &facts()).is_empty()).collect();
        if good.is_empty() {
            return Ok(());
        }
        for text in written_forms(&good) {
            prop_assert_eq!(&read(&text), &good, "{}", text);
            let crlf = text.replace('\n', "\r\n");
            prop_assert_eq!(&read(&crlf), &good, "{:?}", crlf);
        }
    }

    #[test]
    fn a_misspelt_name_never_becomes_a_capability(name in "[a-z.]{0,12}") {
        let known = CATALOG.iter().any(|entry| entry.name == name);
        prop_assert_eq!(Capability::from_name(&name).is_some(), known);
    }
}

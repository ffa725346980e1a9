//! Every set of tools behind one door.
//!
//! Answers for which set a name belongs to. Each set answers for its own tools, offered and withheld, and for their
//! calls; a new set is a new line here.
//! Invariant: a name belongs to one set, and sbx's own come first.

use super::offer::{Offer, Reply};
use super::scene::{Means, Scene};
use super::{commands, guard, hands, named, processes, review};
use crate::capability::{Capability, Family, Scope, ScopeKey, Spec};
use crate::decide::{Denial, DenialCode};
use crate::run::Cancel;
use crate::text::closest;
use serde_json::{Map, Value};

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'c> {
    /// The tool's name.
    pub(super) name: &'c str,
    /// What it is given.
    pub(super) arguments: &'c Map<String, Value>,
    /// The agent as it stands.
    pub(super) scene: &'c Scene,
    /// What it is carried out with.
    pub(super) means: &'c Means,
    /// By which it is ended early.
    pub(super) cancel: &'c Cancel,
}

/// A set of sbx's own tools.
struct Set {
    /// Whether a name is one of its tools'.
    knows: fn(&str) -> bool,
    /// Its tools, offered and withheld.
    offers: fn(&Scene) -> Vec<Offer>,
    /// Carries out a call of one of them.
    carry: fn(&Call<'_>) -> Reply,
}

const OWN: &[Set] = &[
    Set { knows: |name| guard::NAMES.contains(&name), offers: guard::offers, carry: guard::call },
    Set { knows: |name| name == review::NAME, offers: review::offers, carry: review::call },
    Set { knows: |name| commands::NAMES.contains(&name), offers: commands::offers, carry: commands::call },
    Set { knows: |name| processes::NAMES.contains(&name), offers: processes::offers, carry: processes::call },
    Set { knows: hands::knows, offers: hands::offers, carry: hands::call },
];

/// The most bytes of arguments, but for tools that take a file's content.
const MOST_ARGUMENTS: usize = 1 << 20;

/// Every tool there is, offered or not, by name.
pub(super) fn all(scene: &Scene) -> Vec<Offer> {
    let mut all = own(scene);
    let taken: Vec<String> = all.iter().map(|offer| offer.name.clone()).collect();
    all.extend(named::offers(scene, &taken));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The tools of sbx's own.
fn own(scene: &Scene) -> Vec<Offer> {
    OWN.iter().flat_map(|set| (set.offers)(scene)).collect()
}

/// The tools a client is shown.
pub(super) fn shown(scene: &Scene) -> Vec<Offer> {
    let mut all = all(scene);
    all.retain(|offer| offer.withheld.is_none() && scene.rules.allowlist.shows(&offer.name));
    all
}

/// Whether a call is answered without starting anything, so that it need not wait for those that do.
pub(super) fn is_quick(name: &str) -> bool {
    guard::NAMES.contains(&name) || name == review::NAME || name == processes::STATUS
}

/// Carries a call out.
pub(super) fn carry_out(call: &Call<'_>) -> Reply {
    // Arguments are recorded and told back; what is too long for that is not looked at.
    let told = call.arguments.iter().filter(|(name, _)| !hands::is_content(call.name, name));
    if told.map(|(name, value)| name.len() + value.to_string().len()).sum::<usize>() > MOST_ARGUMENTS {
        let message = format!("the arguments of {} have more than {MOST_ARGUMENTS} bytes", call.name);
        let denial = Denial::of_tool(DenialCode::InvalidParams, call.scene.agent(), call.name, message);
        return Reply::Denied(Box::new(denial));
    }
    if let Some(set) = OWN.iter().find(|set| (set.knows)(call.name)) {
        return (set.carry)(call);
    }
    if call.scene.tools.get(call.name).is_some() {
        return named::call(call);
    }
    Reply::Denied(Box::new(unknown(call)))
}

/// Why a tool that takes capabilities is not offered: the first of them that is not held.
pub(super) fn absent(scene: &Scene, tool: &str, takes: &[Capability]) -> Option<Box<Denial>> {
    let policy = scene.policy();
    let held = |takes: &Capability| policy.held(*takes).any(|grant| !grant.is_inert());
    let missing = takes.iter().find(|takes| !held(takes))?;
    let message = format!("{} does not hold {missing}", policy.agent());
    let mut denial = Denial::of_tool(DenialCode::CapabilityAbsent, policy.agent(), tool, message);
    let facts = policy.facts();
    let root = policy.chain().root().or(facts.project.as_deref()).unwrap_or(&facts.cwd).to_str();
    let scope = match missing.family() {
        Family::Fs | Family::Proc => root.map(|root| Scope::bare().with_text(ScopeKey::In, root)),
        Family::Records | Family::Agent => Some(Scope::bare()),
        // Which host is for the user to say.
        Family::Net => None,
    };
    denial.suggested_grant = scope.map(|scope| Spec { capability: *missing, scope });
    Some(Box::new(denial))
}

fn unknown(call: &Call<'_>) -> Denial {
    let message = format!("there is no tool `{}`", call.name);
    let mut denial = Denial::of_tool(DenialCode::UnknownTool, call.scene.agent(), call.name, message);
    let shown = shown(call.scene);
    denial.hint = closest(call.name, shown.iter().map(|offer| offer.name.as_str()))
        .map(|near| format!("did you mean `{near}`?"));
    denial
}

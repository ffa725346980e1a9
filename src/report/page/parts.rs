//! The parts of the page.

use super::html::Html;
use super::{Page, Shown};
use crate::audit::AgentStats;
use crate::capability::Risk;
use crate::policy::{LevelName, Policy};
use crate::report::activity::{Activity, Slot};
use crate::report::diff::{Change, Difference};
use crate::report::tree::{Node, authority};

/// Height of the drawing, in its own units.
const HEIGHT: u64 = 100;
/// Width of a slot, of which a part is left free.
const SLOT: u64 = 10;
const BAR: u64 = 8;

pub(super) fn head(html: &mut Html, page: &Page<'_>) {
    let stats = &page.activity.stats;
    let launches: u64 = stats.agents.values().map(|agent| agent.launches).sum();
    let denied: u64 = stats.agents.values().map(|agent| agent.denied).sum();
    html.raw("<a class=\"skip\" href=\"#main\">Skip to the agents</a>\n<header>\n<h1>What agents may do, and did</h1>\n<p class=\"quiet\">")
        .number(page.agents.len() as u64)
        .raw(" agents, ")
        .number(launches)
        .raw(" launches and ")
        .number(denied)
        .raw(" refusals since ")
        .text(page.activity.since())
        .raw("</p>\n<nav aria-label=\"Parts\"><ul><li><a href=\"#agents\">Agents</a></li>");
    if page.difference.is_some() {
        html.raw("<li><a href=\"#differences\">Differences</a></li>");
    }
    html.raw("<li><a href=\"#activity\">Activity</a></li><li><a href=\"#refusals\">Refusals</a></li></ul></nav>\n</header>\n");
}

pub(super) fn agents(html: &mut Html, page: &Page<'_>) {
    html.raw("<section id=\"agents\" aria-labelledby=\"agents-head\">\n<h2 id=\"agents-head\">Agents</h2>\n")
        .raw("<div class=\"tools\" hidden><input id=\"filter\" type=\"search\" aria-label=\"Filter agents\" placeholder=\"Filter: a name, path, program or host ( / )\">")
        .raw("<button id=\"open-all\" type=\"button\">Open all</button><button id=\"close-all\" type=\"button\">Close all</button></div>\n")
        .raw("<p id=\"count\" class=\"quiet\" role=\"status\"></p>\n");
    for shown in page.agents {
        agent(html, shown, page.activity.of(&shown.name));
    }
    html.raw("</section>\n");
}

fn agent(html: &mut Html, shown: &Shown<'_>, stats: Option<&AgentStats>) {
    html.raw("<details class=\"agent\"><summary>").wrapped("<span class=\"name\">", &shown.name, "</span>");
    let tree = shown.policy.as_ref().ok().map(|policy| authority(policy));
    match tree.as_ref().map(|tree| tree.iter().filter_map(|branch| branch.risk).max()) {
        Some(Some(risk)) => pill(html, risk),
        Some(None) => {
            html.raw("<span class=\"mark\">no authority</span>");
        }
        None => {
            html.raw("<span class=\"mark\">the record has errors</span>");
        }
    }
    html.wrapped("<span class=\"quiet\">", shown.from, "</span>");
    if !shown.trusted {
        html.raw("<span class=\"mark\">not trusted</span>");
    }
    html.wrapped("<span class=\"about\">", &shown.description, "</span></summary>\n");
    html.wrapped("<p class=\"place\">", &shown.file, "</p>\n");
    match (&shown.policy, tree) {
        (Ok(policy), Some(tree)) => {
            chain(html, policy);
            html.raw("<ul class=\"tree\">\n");
            tree.iter().for_each(|branch| node(html, branch, true));
            html.raw("</ul>\n");
        }
        (Err(error), _) => {
            html.wrapped("<p class=\"wrong\"><code>", error, "</code></p>\n");
        }
        (Ok(_), None) => {}
    }
    if let Some(stats) = stats {
        html.raw("<p class=\"quiet\">").number(stats.launches).raw(" launches, ").number(stats.failed);
        html.raw(" failed, ").number(stats.denied).raw(" refusals, ").number(stats.limits);
        html.raw(" limits reached; last ").text(&stats.last).raw("</p>\n");
    }
    html.raw("</details>\n");
}

fn pill(html: &mut Html, risk: Risk) {
    html.raw(match risk {
        Risk::Low => "<span class=\"risk low\">low</span>",
        Risk::Medium => "<span class=\"risk medium\">medium</span>",
        Risk::High => "<span class=\"risk high\">high</span>",
    });
}

/// The levels that narrow, outermost first.
fn chain(html: &mut Html, policy: &Policy) {
    let chain = policy.chain();
    if chain.levels().is_empty() {
        html.raw("<p class=\"quiet\">No level above the grants names a root.</p>\n");
        return;
    }
    html.raw("<ol class=\"chain\" aria-label=\"Narrowing chain\">");
    for level in chain.levels() {
        html.raw("<li>").raw(match level.name {
            LevelName::Config => "config <code>",
            LevelName::Project => "project <code>",
            LevelName::Agent => "agent <code>",
            LevelName::Grant => "grant <code>",
        });
        html.text(level.root.display()).raw("</code>");
        if let Some(clamp) = chain.clamps().iter().find(|clamp| clamp.asked == *level) {
            html.raw(" <span class=\"mark\">narrowed to</span> <code>");
            html.text(clamp.narrowed_to.display()).raw("</code>");
        }
        html.raw("</li>");
    }
    html.raw("</ol>\n");
}

fn node(html: &mut Html, node: &Node, is_branch: bool) {
    let leaf = node.children.is_empty();
    html.raw(if leaf { "<li class=\"leaf\">" } else { "<li><details open><summary>" });
    html.raw(if is_branch { "<strong>" } else { "<span class=\"path\">" }).text(&node.label);
    html.raw(if is_branch { "</strong> " } else { "</span> " });
    if !node.detail.is_empty() {
        html.wrapped("<span class=\"quiet\">", &node.detail, "</span> ");
    }
    node.risk.into_iter().for_each(|risk| pill(html, risk));
    for mark in &node.marks {
        html.wrapped(" <span class=\"mark\">", mark, "</span>");
    }
    if let Some(place) = &node.place {
        html.raw(" <span class=\"place\">")
            .text(&place.file)
            .raw(":")
            .number(place.line as u64)
            .raw("</span>");
    }
    if !leaf {
        html.raw("</summary><ul>\n");
        node.children.iter().for_each(|child| self::node(html, child, false));
        html.raw("</ul></details>");
    }
    html.raw("</li>\n");
}

pub(super) fn difference(html: &mut Html, difference: &Difference) {
    html.raw("<section id=\"differences\" aria-labelledby=\"differences-head\">\n<h2 id=\"differences-head\">Differences</h2>\n<div class=\"card\">\n<p>From <code>")
        .text(&difference.old)
        .raw("</code> to <code>")
        .text(&difference.new)
        .raw("</code>: ")
        .wrapped("<strong>", difference.direction.name(), "</strong>, ")
        .number(difference.kept as u64)
        .raw(" grants as before</p>\n<ul class=\"tree\">\n");
    let mut changes = |open: &'static str, changes: &[Change]| {
        for change in changes {
            html.raw(open).wrapped("<code>", &change.text, "</code> ");
            change.risk.into_iter().for_each(|risk| pill(html, risk));
            if change.covered {
                html.raw(" <span class=\"mark\">held by another grant of the other version</span>");
            }
            html.raw("</li>\n");
        }
    };
    changes("<li class=\"added\">", &difference.added);
    changes("<li class=\"removed\">", &difference.removed);
    html.raw("</ul>\n</div>\n</section>\n");
}

pub(super) fn activity(html: &mut Html, page: &Page<'_>) {
    html.raw("<section id=\"activity\" aria-labelledby=\"activity-head\">\n<h2 id=\"activity-head\">Activity</h2>\n<div class=\"card\">\n");
    if page.damaged > 0 {
        html.raw("<p><span class=\"risk high\">damaged</span> ").number(page.damaged);
        html.raw(" lines of the log are not as they were written; see <code>sbx audit verify</code></p>\n");
    }
    let slots = &page.activity.slots;
    let most = slots.iter().map(total).max().unwrap_or(0);
    if most == 0 {
        html.raw("<p class=\"quiet\">Nothing was recorded.</p>\n</div>\n</section>\n");
        return;
    }
    html.raw("<svg preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Events over time; the table below has the numbers\" viewBox=\"0 0 ");
    html.number(slots.len() as u64 * SLOT).raw(" ").number(HEIGHT).raw("\">\n");
    for (at, slot) in slots.iter().enumerate() {
        bar(html, at as u64 * SLOT, slot, most);
    }
    html.raw("</svg>\n<p class=\"axis\">");
    html.wrapped("<span>", slots.first().map_or("", |slot| &slot.begins), "</span>");
    html.raw("<span>at most ").number(most).raw("</span>");
    html.wrapped("<span>", slots.last().map_or("", |slot| &slot.begins), "</span>");
    html.raw("</p>\n<p class=\"key quiet\"><span>launches</span><span class=\"is-denied\">refusals</span><span class=\"is-other\">other events</span></p>\n")
        .raw("<details><summary>The numbers</summary><table><thead><tr><th scope=\"col\">from</th><th scope=\"col\">launches</th><th scope=\"col\">refusals</th><th scope=\"col\">other</th></tr></thead><tbody>\n");
    for slot in slots.iter().rev().filter(|slot| total(slot) > 0) {
        html.wrapped("<tr><td>", &slot.begins, "</td><td>").number(slot.launches).raw("</td><td>");
        html.number(slot.denied).raw("</td><td>").number(slot.other).raw("</td></tr>\n");
    }
    html.raw("</tbody></table></details>\n</div>\n</section>\n");
}

fn total(slot: &Slot) -> u64 {
    slot.launches + slot.denied + slot.other
}

/// The refusals at the bottom, then launches, then the rest.
fn bar(html: &mut Html, left: u64, slot: &Slot, most: u64) {
    if total(slot) == 0 {
        return;
    }
    html.wrapped("<g><title>", &slot.begins, ": ").number(slot.launches).raw(" launches, ");
    html.number(slot.denied).raw(" refusals, ").number(slot.other).raw(" other</title>");
    let mut top = HEIGHT;
    let counts = [slot.denied, slot.launches, slot.other];
    let opened: [&'static str; 3] = [
        "<rect class=\"bar-denied\" x=\"",
        "<rect class=\"bar-launch\" x=\"",
        "<rect class=\"bar-other\" x=\"",
    ];
    for (open, height) in opened.into_iter().zip(heights(counts, most)) {
        top -= height;
        html.raw(open).number(left).raw("\" y=\"").number(top).raw("\" width=\"").number(BAR);
        html.raw("\" height=\"").number(height).raw("\"/>");
    }
    html.raw("</g>\n");
}

/// The heights of the parts of a bar, lowest first. What happened at all is seen: each part leaves room for those
/// above it, so that together they are never higher than the drawing.
fn heights(counts: [u64; 3], most: u64) -> [u64; 3] {
    let mut room = HEIGHT;
    let mut above = counts.iter().filter(|count| **count > 0).count() as u64;
    counts.map(|count| {
        if count == 0 {
            return 0;
        }
        above -= 1;
        let height = (count.saturating_mul(HEIGHT) / most.max(1)).max(1).min(room - above);
        room -= height;
        height
    })
}

pub(super) fn refusals(html: &mut Html, activity: &Activity) {
    html.raw("<section id=\"refusals\" aria-labelledby=\"refusals-head\">\n<h2 id=\"refusals-head\">Recent refusals</h2>\n<div class=\"card\">\n");
    if activity.refusals.is_empty() {
        html.raw("<p class=\"quiet\">Nothing was refused.</p>\n</div>\n</section>\n");
        return;
    }
    html.raw("<table><thead><tr><th scope=\"col\">when</th><th scope=\"col\">agent</th><th scope=\"col\">what, and what would allow it</th></tr></thead><tbody>\n");
    for refusal in &activity.refusals {
        html.wrapped("<tr><td class=\"quiet\">", &refusal.time, "</td><td>");
        html.text(&refusal.agent).wrapped("</td><td>", &refusal.message, "");
        if let Some(command) = refusal.command() {
            html.wrapped("<br><code>", command, "</code>");
        }
        html.raw("</td></tr>\n");
    }
    html.raw("</tbody></table>\n</div>\n</section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_bar_is_seen_and_the_bar_fits() {
        for (counts, most, drawn) in [
            ([198, 1, 1], 200, [98, 1, 1]),
            ([1, 1, 198], 200, [1, 1, 98]),
            ([1, 0, 0], 1, [100, 0, 0]),
            ([0, 0, 1], 100_000, [0, 0, 1]),
            ([1, 1, 1], u64::MAX, [1, 1, 1]),
            ([u64::MAX, 0, 1], u64::MAX, [1, 0, 1]),
        ] {
            assert_eq!(heights(counts, most), drawn, "{counts:?} of {most}");
        }
        for (denied, launches, other) in (0..300).flat_map(|a| (0..8).map(move |b| (a, b, 7 - b))) {
            let counts = [denied, launches, other];
            let heights = heights(counts, denied + 7);
            assert!(heights.iter().sum::<u64>() <= HEIGHT, "{counts:?}");
            assert!(
                counts.iter().zip(heights).all(|(count, height)| (*count > 0) == (height > 0)),
                "{counts:?}"
            );
        }
    }
}

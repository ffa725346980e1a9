//! One page that holds everything it needs: no network, no other file, no script that was not shipped with sbx.

mod html;
mod parts;

use super::activity::Activity;
use super::diff::Difference;
use crate::policy::Policy;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use html::Html;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// An agent to be shown.
#[derive(Debug)]
pub struct Shown<'a> {
    /// Its name.
    pub name: String,
    /// Which shelf its record stands on.
    pub from: &'static str,
    /// Whether it may be used.
    pub trusted: bool,
    /// What it is for.
    pub description: String,
    /// Its record.
    pub file: String,
    /// What it holds, or what is wrong with the record.
    pub policy: Result<&'a Policy, String>,
}

/// Everything that is shown.
#[derive(Debug)]
pub struct Page<'a> {
    /// The agents.
    pub agents: &'a [Shown<'a>],
    /// What happened.
    pub activity: &'a Activity,
    /// Lines of the log that are not as they were written.
    pub damaged: u64,
    /// What changed between two versions of a record.
    pub difference: Option<&'a Difference>,
    /// The moment, as text.
    pub now: &'a str,
}

/// The page as text.
#[must_use]
pub fn render_page(page: &Page<'_>) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
        .raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-")
        .text(digest(STYLE))
        .raw("'; script-src 'sha256-")
        .text(digest(SCRIPT))
        .raw("'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
        .raw("<meta name=\"referrer\" content=\"no-referrer\">\n<title>sbx: what agents may do, and did</title>\n<style>")
        .raw(STYLE)
        .raw("</style>\n</head>\n<body>\n");
    parts::head(&mut html, page);
    html.raw("<main id=\"main\">\n");
    parts::agents(&mut html, page);
    if let Some(difference) = page.difference {
        parts::difference(&mut html, difference);
    }
    parts::activity(&mut html, page);
    parts::refusals(&mut html, page.activity);
    html.raw("</main>\n<footer>Written by sbx ").text(env!("CARGO_PKG_VERSION")).raw(" at ").text(page.now);
    html.raw(". The page holds what was true then, and asks nobody for anything.</footer>\n<script>");
    html.raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
    html.finish()
}

/// What the policy of the page names its own style and script by.
fn digest(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

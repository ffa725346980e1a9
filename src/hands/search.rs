//! `search`: files by glob, lines by regular expression.

use super::Reply;
use super::arguments::{Arguments, invalid};
use super::cancel::Cancel;
use super::context::Context;
use super::files::ask_search;
use super::helper::wire::{Place, Query};
use super::judge::may;
use super::reach::{Meant, readable, shown};
use crate::capability::Capability;
use crate::decide::Request;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The most matches one answer tells.
const MOST: u64 = 2000;
/// How long a search may take, in milliseconds.
const MILLIS: u64 = 10_000;
/// The longest glob or pattern.
const LONGEST: usize = 4096;

pub(super) fn search(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let path = arguments.path()?.unwrap_or_else(|| PathBuf::from("."));
    let meant = Meant::followed(context, &path)?;
    let short = |key: &str| {
        let text = arguments.text(key)?;
        match text.filter(|text| text.len() > LONGEST || text.is_empty()) {
            Some(_) => Err(invalid(format!("`{key}` is empty or longer than {LONGEST} bytes"))),
            None => Ok(text.map(str::to_owned)),
        }
    };
    let (glob, pattern) = (short("glob")?, short("pattern")?);
    if glob.is_none() && pattern.is_none() {
        return Err(invalid("neither `glob` nor `pattern` is given").into());
    }
    let most = arguments.number("limit", 1, MOST)?.unwrap_or(200);
    let query = Query {
        glob: glob.map(anywhere),
        pattern,
        ignore_case: arguments.flag("ignore_case")?,
        most: usize::try_from(most).unwrap_or(usize::MAX),
        millis: MILLIS,
    };
    let mut told = ask_search(context, cancel, meant.clone(), &query)?;
    let found = told["matches"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let mut seen: Option<(PathBuf, bool)> = None;
    let mut allowed = |entry: &Value| {
        let Ok(place) = serde_json::from_value::<Place>(entry["path"].clone()) else { return false };
        if seen.as_ref().is_none_or(|(path, _)| *path != place.0) {
            let answer = is_allowed(context, &meant.target, &place.0);
            seen = Some((place.0, answer));
        }
        seen.as_ref().is_some_and(|(_, answer)| *answer)
    };
    let matches: Vec<Value> = found
        .into_iter()
        .filter(|entry| allowed(entry))
        .filter_map(|entry| readable(entry, "path"))
        .collect();
    let mut value = json!({
        "path": null, "matches": matches, "truncated": told["truncated"], "stopped_by": told["stopped_by"],
        "skipped": told["skipped"],
    });
    shown(&mut value, "path", &meant.target);
    Ok(value)
}

/// A glob without a separator means a name anywhere below.
fn anywhere(glob: String) -> String {
    if glob.contains('/') { glob } else { format!("**/{glob}") }
}

/// What was found is told only if it might be read by itself. Links were not followed, so the path is the thing.
fn is_allowed(context: &Context, base: &Path, below: &Path) -> bool {
    let plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    plain && may(context, &Request::path(Capability::FsRead, base.join(below)).by_tool("search"))
}

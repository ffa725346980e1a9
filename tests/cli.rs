//! The command line as its users meet it: whole output and exit status, each test in a world of its own.
//!
//! Expected texts are inline; `UPDATE_EXPECT=1 cargo test --test cli` writes them anew for review.

#![expect(unreachable_pub, reason = "the support module is shared by several test programs")]

#[path = "cli/arguments.rs"]
mod arguments;
#[path = "cli/attenuation.rs"]
mod attenuation;
#[path = "cli/builtin_tools.rs"]
mod builtin_tools;
#[path = "cli/check.rs"]
mod check;
#[path = "cli/edit.rs"]
mod edit;
#[path = "cli/exec.rs"]
mod exec;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/hook.rs"]
mod hook;
#[path = "cli/install.rs"]
mod install;
#[path = "cli/manual.rs"]
mod manual;
#[path = "cli/mcp.rs"]
mod mcp;
#[path = "cli/new.rs"]
mod new;
#[path = "cli/offers.rs"]
mod offers;
#[path = "cli/records.rs"]
mod records;
#[path = "cli/risk.rs"]
mod risk;
#[path = "cli/schema.rs"]
mod schema;
#[path = "cli/sessions.rs"]
mod sessions;
mod support;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/tools.rs"]
mod tools;
#[path = "cli/trust.rs"]
mod trust;

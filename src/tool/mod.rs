//! What an agent may be offered: named tools, skills, provider tools, servers with requirements.
//!
//! Pure: definitions, their values and what they come to. Files, processes and sessions are `run`'s matter.
//! Nothing here grants. A requirement is tested with [`covers`](crate::covers), the same function
//! that bounds `agent.grant`.
//! Invariant: a value is one argument, or part of one; no byte of it is read as shell text.

mod allowlist;
mod bind;
mod bounds;
mod definition;
mod evaluate;
mod fields;
mod lex;
mod need;
mod param;
mod params;
mod problem;
mod provider;
mod read;
mod requirement;
mod shell;
mod shipped;
mod skill;
mod template;
mod toml;
mod toolbox;

pub use allowlist::{Allowlist, GET_POLICY, body};
pub use bind::{Bound, Given};
pub use definition::{Action, Api, Constraints, KEPT, Layer, MOST_OUTPUT, Net, Output, TIMEOUT, Tool};
pub use fields::TOOL_KEYS;
pub use param::{Kind, MAX_VALUE, Param, Pattern, Surroundings};
pub use problem::{CallFault, Fault, ToolCode};
pub use provider::{Offer, offers};
pub use read::{Definitions, read_command, read_definitions, read_section};
pub use requirement::{Unmet, unmet};
pub use shell::ShellLine;
pub use shipped::shipped;
pub use skill::{Skill, allowed_tools};
pub use template::{Piece, Syntax, Template};
pub use toolbox::Toolbox;

//! What ships with sbx: data files from `profiles/`, compiled in.
//!
//! Invariant: every file under `profiles/` is registered here; a test says so.

mod builtin;
mod evaluators;
mod hook;
mod hosts;
mod learn;
mod mcp;
mod protected;
mod providers;
mod reads;
mod risk;
mod secrets;
mod system;
mod table;
mod trust;
mod usual;

pub use builtin::{BUILTIN_AGENTS, BUILTIN_TOOLS, FILES, File, RISK_RULES, agent, tool_names};
pub use evaluators::{Evaluation, Evaluator, evaluator};
pub use hook::{HookClient, HookTool, hook_clients, hook_tool};
pub use hosts::is_public_suffix;
pub use learn::{KnownPlace, PlaceSort, known_places};
pub use mcp::{
    McpAction, McpClient, McpLauncher, McpPreset, mcp_clients, mcp_launchers, mcp_needs, mcp_state,
};
pub use protected::{Opening, PROTECTED, ProtectedPath, strictest};
pub use providers::{Narrowing, ProviderTool, provider_tools};
pub use reads::verb_of;
pub use risk::{PLACES, READERS, WRAPPERS, Wrapper, Wrapping};
pub use secrets::{SECRETS, SecretOption, SecretRules};
pub use system::{
    Helper, HelperKind, System, SystemKind, helpers, inert_git_keys, install, system_view, view_of,
};
pub use trust::{Trusted, trust};
pub use usual::{needs_network, tried_anyway};

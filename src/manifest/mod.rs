//! From text to a record: front matter, YAML, grants as written, and their editing.
//!
//! Everything is as the user typed it, with places; what it means in the world is `policy`'s matter.
//! Invariant: parsing never stops at the first problem, and a problem never adds authority.

mod config;
mod edit;
mod expand;
mod facts;
mod find;
mod frontmatter;
mod grants;
mod load;
mod mcp;
mod pass;
mod paths;
mod plain_yaml;
mod record;
mod render;
mod reroot;
mod risk;
mod sections;
mod splice;
mod subtract;
mod trust;
mod write;
mod yaml;

pub use config::{AuditSettings, Config, OnFailure, Proxy};
pub use edit::{Change, EditError, grant, renamed, revoke};
pub use expand::expand;
pub use facts::{Facts, project_of};
pub use find::{AgentSource, FindError, Shelf, find, list, open_record, unreadable};
pub use frontmatter::{FrontMatter, split};
pub use grants::{WrittenGrant, WrittenIn, check_spec, parse_spec, spec_from_json};
pub use load::{LoadError, MAX_BYTES, read_source};
pub use mcp::{ArgumentPath, ArgumentRule, Mcp, Step};
pub use pass::pass;
pub use paths::{PathEntry, RootText, expand_root};
pub use record::{Manifest, normalize_id};
pub use risk::{RiskPolicy, RiskSettings, Severity};
pub use sections::{EnvRule, Injection, Limits, SECTIONS, SecretSource, Sections, bears_authority};
pub use trust::{TrustStore, fingerprint};
pub use write::{WriteError, rewrite};
pub use yaml::{Node, NodeKind};

pub(crate) use config::{AUDIT_KEYS, BACKENDS, KEYS as CONFIG_KEYS};
pub(crate) use load::read_bounded;
pub(crate) use mcp::KEYS as MCP_KEYS;
pub(crate) use plain_yaml::parse as parse_plain_yaml;
pub(crate) use record::{MAX_AGENT_ID, is_agent_id};
pub(crate) use render::{entry as render_entry, record as render_record};
pub(crate) use risk::RISK_KEYS;
pub(crate) use sections::duration;
pub(crate) use write::{create as create_file, create_with, rewrite_bounded};
pub(crate) use yaml::parse as parse_yaml;

/// The keys of `limits`.
pub(crate) const LIMIT_KEYS: &[&str] = Limits::KEYS;

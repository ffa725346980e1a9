//! What ships with sbx: data files from `profiles/`, compiled in.
//!
//! Invariant: every file under `profiles/` is registered here; a test says so.

mod builtin;
mod hosts;
mod protected;
mod providers;
mod risk;
mod secrets;
mod system;

pub use builtin::{BUILTIN_AGENTS, FILES, File, RISK_RULES, agent};
pub use hosts::{SHARED_HOSTS, is_public_suffix};
pub use protected::{Opening, PROTECTED, ProtectedPath, strictest};
pub use providers::{Narrowing, PROVIDER_TOOLS, ProviderTool};
pub use risk::{PLACES, READERS, WRAPPERS, Wrapper, Wrapping};
pub use secrets::{SECRETS, SecretOption, SecretRules};
pub use system::{HELPERS, Helper, HelperKind, INERT_GIT_KEYS, SYSTEM_VIEW, SystemKind};

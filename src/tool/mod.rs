//! What an agent may be offered: skills, provider tools, servers with requirements.
//!
//! Nothing here grants. A requirement is tested with [`covers`](crate::covers), the same function
//! that bounds `agent.grant`.

mod allowlist;
mod provider;
mod requirement;
mod skill;

pub use allowlist::{Allowlist, GET_POLICY, body};
pub use provider::{Offer, offers};
pub use requirement::{Unmet, unmet};
pub use skill::{Skill, allowed_tools};

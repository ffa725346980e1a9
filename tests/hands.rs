//! The agent's own operations through the real program: allowed, denied, bounded, and held by the kernel even where the
//! matcher is made to say yes to everything.
#![cfg(target_os = "linux")]
#![expect(dead_code, reason = "the support module is shared by several test programs")]
#![expect(unreachable_pub, reason = "the support module is shared by several test programs")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say so and stop")]

#[path = "hands/adversary.rs"]
mod adversary;
#[path = "hands/agreement.rs"]
mod agreement;
#[path = "hands/files.rs"]
mod files;
#[path = "hands/http.rs"]
mod http;
#[path = "hands/kernel.rs"]
mod kernel;
#[path = "hands/life.rs"]
mod life;
#[path = "hands/origin.rs"]
mod origin;
#[path = "hands/records.rs"]
mod records;
mod support;
#[path = "support_agreement"]
mod support_agreement {
    pub(crate) mod acts;
    #[expect(dead_code, reason = "the helper moves and runs nothing")]
    pub(crate) mod more;
    #[expect(dead_code, reason = "the helper moves and runs nothing")]
    pub(crate) mod world;
}
#[path = "hands/warm.rs"]
mod warm;
#[path = "hands/world.rs"]
mod world;

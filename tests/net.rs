//! The gateway through the real program: what leaves a fence, what reaches an origin, and what is refused.
//!
//! Origins listen on this machine's own addresses; a resolver file maps names to them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

#[path = "net/agreement.rs"]
mod agreement;
#[path = "net/bounds.rs"]
mod bounds;
#[path = "net/chaos.rs"]
mod chaos;
#[path = "net/differential.rs"]
mod differential;
#[path = "net/git.rs"]
mod git;
#[path = "net/matrix.rs"]
mod matrix;
#[path = "net/names.rs"]
mod names;
#[path = "net/origin.rs"]
mod origin;
#[path = "net/proxies.rs"]
mod proxies;
#[path = "net/secrets.rs"]
mod secrets;
#[path = "net/services.rs"]
mod services;
#[path = "net/smuggling.rs"]
mod smuggling;
#[path = "net/tls.rs"]
mod tls;
#[path = "net/told.rs"]
mod told;
#[path = "net/verbs.rs"]
mod verbs;
#[path = "net/world.rs"]
mod world;

//! The gateway: the only way out of a fenced network, and every name, connection and request through it judged.
//!
//! Answers for what leaves a launch that holds `net.*`, and for what is let in by `listen`. It leaves making the
//! sockets to the platform and every answer to `decide`.
//! Invariant: nothing is dialled, resolved or passed on unless `decide` allowed it for that very host and port.

mod ahead;
mod authority;
mod bounds;
mod dial;
mod doors;
mod fetch;
mod flow;
mod gateway;
mod http;
mod inbound;
mod inspect;
mod issuer;
mod keeping;
mod names;
mod outer_proxy;
mod outer_tls;
mod proxy;
mod relay;
mod report;
mod secret;
mod service;
mod settings;
mod sniff;
mod socks;
mod telling;
#[doc(hidden)]
pub mod tried;
mod untouched;

pub(crate) use outer_tls::BUNDLES;

pub use fetch::{Fetch, FetchError, Fetched, Fetcher};
pub use gateway::Gateway;
pub use secret::{Secret, Value};
pub use settings::{Further, Settings};

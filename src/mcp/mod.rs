//! The Model Context Protocol: standing between a client and a server.
//!
//! Answers for the stream and for which calls pass. It leaves decisions to [`decide`](mod@crate::decide), and the fence
//! around the server to [`run`](crate::run).
//! Invariant: nothing that comes over the protocol can change what is allowed.

mod arguments;
mod aside;
mod attaching;
mod call;
mod deciding;
mod definitions;
mod ferry;
mod flight;
mod gate;
mod inquiry;
pub mod install;
mod listing;
mod pins;
pub mod protocol;
mod resolve;
mod results;
mod rules;
pub mod serve;
mod session;
mod stderr;
mod watch;
mod wrap;

pub(crate) use arguments::Caller;
pub use aside::Aside;
pub(crate) use call::action;
pub use gate::{Gate, Passage, Teller};
pub use inquiry::{Eras, InquiryError, inquire};
pub use pins::{LockError, LockFile, Pins, Wanted, keep as keep_pins, pinned_part};
pub use resolve::{ResolveError, Resolved, World, recognise, resolve};
pub use results::denial_result;
pub(crate) use rules::chain;
pub use rules::{Origin, Pinned, Rules};
pub use session::{Session, SessionError};
pub use watch::Watch;
pub use wrap::{WrapError, decline};

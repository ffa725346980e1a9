//! sbx as a server: an agent's tools over the Model Context Protocol, in both eras.
//!
//! Answers for a client that holds nothing but a connection: which tools it is shown, what a call comes to, progress,
//! cancellation and the end. It leaves decisions to [`decide`](mod@crate::decide), running to [`run`](crate::run) and
//! the grammar of lines to [`protocol`](super::protocol).
//! Invariant: a call is answered once, by every layer, or not at all when it was cancelled; nothing outlives the server.

mod answer;
mod arguments;
mod calls;
mod commands;
mod guard;
mod hands;
mod life;
mod named;
mod notices;
mod offer;
mod pool;
mod processes;
mod requests;
mod review;
mod scene;
mod server;
mod sets;

pub use life::{Serve, ServeError};
pub use offer::{Hints, Offer, Reply};
pub use scene::{Means, Scene};
pub use server::{Handled, Server};

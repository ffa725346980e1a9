//! The Model Context Protocol: standing between a client and a server.
//!
//! Answers for the stream and for which calls pass. It leaves decisions to [`decide`](crate::decide), and the fence
//! around the server to [`run`](crate::run).
//! Invariant: nothing that comes over the protocol can change what is allowed.

pub mod protocol;

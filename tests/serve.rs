//! `sbx mcp serve` as clients meet it: both eras, every tool, cancellation, floods of calls, and the end.
//!
//! Real clients are found below the directory named by `SBX_TEST_MCP`, which `scripts/test` makes. Without them the
//! tests that need them fail, unless `SBX_TEST_WITHOUT_MCP_PEERS` is set.

#![expect(unreachable_pub, reason = "the support module is shared by several test programs")]
#![expect(clippy::unwrap_used, reason = "what a test needs and does not have should stop it")]

#[path = "serve/agent.rs"]
mod agent;
#[path = "serve/commands.rs"]
mod commands;
#[path = "serve/endings.rs"]
mod endings;
#[path = "serve/guard.rs"]
mod guard;
#[path = "serve/hands.rs"]
mod hands;
#[path = "serve/named.rs"]
mod named;
#[path = "serve/parallel.rs"]
mod parallel;
#[path = "serve/peers.rs"]
mod peers;
#[path = "serve/processes.rs"]
mod processes;
#[path = "serve/protocol.rs"]
mod protocol;
#[path = "mcp/rust.rs"]
mod rust;
#[expect(dead_code, reason = "another test program uses the rest")]
#[path = "mcp/server.rs"]
mod server;
#[expect(dead_code, reason = "other test programs use the rest")]
mod support;
#[path = "serve/world.rs"]
mod world;

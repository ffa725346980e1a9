//! The gateway for MCP servers: the gate by itself, the streams around it, and real clients and servers.
//!
//! Real peers are found below the directory named by `SBX_TEST_MCP`, which `scripts/test` makes. Without them the tests
//! that need them fail, unless `SBX_TEST_WITHOUT_MCP_PEERS` is set.

#![expect(unreachable_pub, reason = "the support module is shared by several test programs")]
#![expect(clippy::unwrap_used, reason = "what a test needs and does not have should stop it")]

#[path = "mcp/adversary.rs"]
mod adversary;
#[path = "mcp/differential.rs"]
mod differential;
#[path = "mcp/gate.rs"]
mod gate;
#[path = "mcp/matrix.rs"]
mod matrix;
#[path = "mcp/packages.rs"]
mod packages;
#[path = "mcp/peers.rs"]
mod peers;
#[path = "../fuzz/src/readers.rs"]
mod readers;
#[path = "mcp/rust.rs"]
mod rust;
#[path = "mcp/rust_client.rs"]
mod rust_client;
#[path = "mcp/server.rs"]
mod server;
#[path = "mcp/stream.rs"]
mod stream;
#[path = "mcp/stuck.rs"]
mod stuck;
#[expect(dead_code, reason = "other test programs use the rest")]
mod support;

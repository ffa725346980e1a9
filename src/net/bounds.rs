//! How much of the supervisor a fenced program can use.
//!
//! Answers for the numbers and what they are for; the places that keep them are elsewhere.
//! Invariant: everything a program inside can make grow is named here.

use std::time::Duration;

/// Connections served at one time; further ones wait where the kernel queues them.
pub(super) const CONNECTIONS: usize = 1024;
/// Descriptors kept for everything but connections.
pub(super) const OTHER_FILES: usize = 64;
/// Descriptors one connection takes, resolving included.
pub(super) const FILES_PER_CONNECTION: usize = 2;
/// Names that have an address inside at one time.
pub(super) const NAMES: usize = 8192;
/// Questions for names that wait for an answer from outside.
pub(super) const QUESTIONS: usize = 512;
/// Threads that ask the system's resolver.
pub(super) const RESOLVING_THREADS: usize = 8;
/// How long the system's resolver may take.
pub(super) const RESOLVING: Duration = Duration::from_secs(15);
/// How long the addresses of a name are kept.
pub(super) const PINNED: Duration = Duration::from_secs(60);
/// How long a program inside may keep the address of a name, in seconds.
pub(super) const TTL: u32 = 30;
/// Streams on which names are asked, at one time.
pub(super) const NAME_STREAMS: usize = 64;
/// How long a stream of questions may be silent.
pub(super) const NAME_STREAM_IDLE: Duration = Duration::from_secs(20);
/// The most bytes in the head of a request or an answer.
pub(super) const HEAD: usize = 64 << 10;
/// The most header lines.
pub(super) const HEADERS: usize = 128;
/// The most bytes of trailers after a chunked body.
pub(super) const TRAILERS: usize = 16 << 10;
/// How long a handshake or the head of a request may take from its first byte.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(20);
/// How long a client may wait before it says its first word, where that word is needed.
pub(super) const FIRST_WORD: Duration = Duration::from_secs(60);
/// How long connecting to one address may take.
pub(super) const CONNECTING: Duration = Duration::from_secs(15);
/// How long a connection may be silent in both directions.
pub(super) const IDLE: Duration = Duration::from_secs(3600);
/// How long it may be silent once one direction has ended.
pub(super) const HALF_CLOSED: Duration = Duration::from_secs(300);
/// How long the body of a refused request is read and thrown away, so that the refusal can be read.
pub(super) const DRAINING: Duration = Duration::from_secs(5);
/// The buffer a direction starts with.
pub(super) const SMALL_BUFFER: usize = 16 << 10;
/// The buffer of a direction in which much flows.
pub(super) const LARGE_BUFFER: usize = 512 << 10;
/// Large buffers at one time; other connections stay with small ones.
pub(super) const LARGE_BUFFERS: usize = 32;
/// TLS that waits to be sent on a connection of HTTP/1, each way; never more than one buffer comes to.
pub(super) const SEALED: usize = 256 << 10;
/// Answers to how a host's port is held that are kept.
pub(super) const HOLDS: usize = 1024;
/// Certificates kept for inspected hosts.
pub(super) const CERTIFICATES: usize = 512;
/// Connections of HTTP/2 that have room for much at one time; others make do with little.
pub(super) const H2_LARGE: usize = 16;
/// What such a connection holds at most of one request's or answer's body, and of all, each way.
pub(super) const H2_LARGE_STREAM: u32 = 1 << 20;
pub(super) const H2_LARGE_CONNECTION: u32 = 2 << 20;
pub(super) const H2_LARGE_FRAME: u32 = 64 << 10;
pub(super) const H2_LARGE_STREAMS: u32 = 128;
pub(super) const H2_LARGE_SENDING: usize = 128 << 10;
/// The same for all others.
pub(super) const H2_STREAM: u32 = 64 << 10;
pub(super) const H2_CONNECTION: u32 = 256 << 10;
pub(super) const H2_FRAME: u32 = 16 << 10;
pub(super) const H2_STREAMS: u32 = 32;
pub(super) const H2_SENDING: usize = 16 << 10;
/// Refusals that are kept to be told at the end.
pub(super) const REFUSALS: usize = 64;
/// Events of names, and of refusals, a second; the rest is counted.
pub(super) const EVENTS_PER_SECOND: u32 = 200;
/// Events that may come at once.
pub(super) const EVENTS_AT_ONCE: u32 = 2000;
/// How long further events are waited for, to be kept with the first.
pub(super) const EVENTS_TOGETHER: Duration = Duration::from_millis(10);
/// Events that wait to be kept.
pub(super) const EVENTS_WAITING: usize = 1024;

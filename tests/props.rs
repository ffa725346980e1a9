//! Properties of the language, on generated records and requests that are near misses of one another.
//!
//! Cases are bounded, so that the whole file takes seconds; `PROPTEST_CASES` sets another number.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

#[path = "props/covering.rs"]
mod covering;
#[path = "props/deciding.rs"]
mod deciding;
#[path = "props/editing.rs"]
mod editing;
#[path = "props/narrowing.rs"]
mod narrowing;
#[path = "props/printing.rs"]
mod printing;
#[path = "props/reference.rs"]
mod reference;
#[path = "props/suggesting.rs"]
mod suggesting;
#[path = "props/world.rs"]
mod world;

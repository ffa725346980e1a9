//! `sbx` gives an AI agent exactly the authority written in its record.
//!
//! The library is the same matcher that the program uses, for harnesses that want to ask in-process:
//!
//! ```
//! use sbx::{Config, Facts, Manifest, Policy, Request, Source, decide};
//!
//! let facts = Facts::new("/home/u").at("/home/u/app");
//! let record = "---\nid: scout\ncapabilities:\n  - proc.exec: {in: $PROJECT, cmds: [rg]}\n---\n";
//! let (manifest, _problems) = Manifest::parse(Source::new("scout.md", record), &facts);
//! let (policy, _problems) = Policy::resolve(&manifest.expect("a record"), &Config::default(), &facts);
//!
//! let request = Request::exec(["rm", "-rf", "/"]).in_dir("/home/u/app");
//! let decision = decide(&policy, &request);
//! let denial = decision.denial().expect("rm is not granted");
//! assert_eq!(denial.suggested_grant.as_ref().unwrap().to_string(), "proc.exec{in=/home/u/app,cmds=[rm]}");
//! ```
//!
//! Text becomes values early, values become plans late, plans meet the kernel in one place:
//! [`Source`] → [`Manifest`] → [`Policy`] → [`Decision`]. Everything up to the decision is pure;
//! what it needs to know of the world is handed in as [`Facts`].
#![forbid(unsafe_code)]

pub mod audit;
pub mod capability;
pub mod cli;
pub mod decide;
pub mod doctor;
pub mod hands;
pub mod hook;
pub mod learn;
pub mod manifest;
pub mod mcp;
pub mod net;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod report;
pub mod risk;
pub mod run;
pub mod text;
pub mod tool;

pub use decide::{Decision, Denial, DenialCode, Permit, Request, decide};
pub use manifest::{Config, Facts, Manifest};
pub use policy::{Policy, covers};
pub use text::{Problem, Source};

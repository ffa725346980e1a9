//! sbx in the live world: who is asking, where, with which configuration, and running what is permitted.

mod acts;
mod explain;
mod launch;
mod live;
mod network;
mod observe;
mod record;
mod repositories;
mod risk;
mod secrets;
pub mod session;
mod setting;
pub mod tools;
mod why;

pub use acts::{Act, SURELY_GONE, Tried, act, acting, process_began, told};
pub use explain::{Refusal, is_traced, refused};
pub use launch::{Ran, RunError, Started, exit_status, outcome_json, record_end, run, run_on, start};
pub use live::{Live, LiveFor};
pub use network::Network;
pub use observe::{Allowed, ObserveError, REHEARSING, Rehearsed, observe};
pub use record::{allowed, audit, denied};
pub use repositories::armed_repositories;
pub use risk::{RiskLayer, risk_denial};
pub use setting::{Agent, Setting, SettingError};
pub use why::{Attempt, Trial, Verdict, try_out};

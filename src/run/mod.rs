//! sbx in the live world: who is asking, where, with which configuration, and running what is permitted.

mod explain;
mod launch;
mod live;
mod network;
mod record;
mod repositories;
mod risk;
mod secrets;
mod setting;

pub use explain::refused;
pub use launch::{Ran, RunError, Started, exit_status, outcome_json, run, start};
pub use live::Live;
pub use network::Network;
pub use record::{allowed, audit, denied};
pub use repositories::armed_repositories;
pub use risk::{RiskLayer, risk_denial};
pub use setting::{Agent, Setting, SettingError};

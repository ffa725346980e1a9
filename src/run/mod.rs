//! sbx in the live world: who is asking, where, with which configuration, and running what is permitted.

mod acts;
mod cancel;
mod explain;
mod kept;
mod lacks;
mod launch;
mod live;
mod network;
mod observe;
mod own_programs;
mod permissions;
mod reaching;
mod record;
mod repositories;
mod risk;
mod secrets;
pub mod session;
mod setting;
pub mod tools;
mod why;

pub use acts::{Act, SURELY_GONE, Tried, act, acting, process_began, told};
pub use cancel::Cancel;
pub use explain::{ClosedCall, Refusal, bound_refusals, closed_calls, denial_of, is_traced, refused};
pub use kept::kept;
pub use launch::{
    Ran, RunError, Started, end_events, exit_status, outcome_json, outcome_status, planned, record_end, run,
    run_on, run_until, start, start_helper,
};
pub use live::{Live, LiveFor};
pub use network::{Network, fetcher};
pub use observe::{Allowed, ObserveError, REHEARSING, Rehearsed, observe};
pub use own_programs::OwnPrograms;
pub use permissions::barred_root;
pub use record::{allowed, audit, denied};
pub use repositories::armed_repositories;
pub use risk::{RiskLayer, judge, risk_denial};
pub use setting::{Agent, Setting, SettingError};
pub use why::{Attempt, Trial, Verdict, try_out};

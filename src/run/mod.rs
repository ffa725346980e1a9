//! sbx in the live world: who is asking, where, and with which configuration.

mod setting;

pub use setting::{Agent, Setting, SettingError};

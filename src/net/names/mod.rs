//! Names inside and outside: the stub that answers programs, and the one place where names are looked up.

mod datagrams;
mod packet;
mod resolve;
mod stub;
mod table;

pub(super) use datagrams::Datagrams;
pub(super) use packet::{Answer, parse};
pub(super) use resolve::{Found, Resolver, Trouble};
pub(super) use stub::Stub;
pub(super) use table::{Table, is_synthetic};

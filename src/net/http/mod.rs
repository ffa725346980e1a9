//! HTTP/1 and HTTP/2 as the gateway speaks them: read strictly, judged, written anew.

mod answer;
mod body;
mod exchange;
mod fields;
mod forward;
mod head;
mod meant;
mod refusal;
mod response;
mod route;
mod two;
mod underway;
mod wire;

pub(super) use answer::{Answer, read_answer};
pub(super) use body::Chunks;
pub(super) use exchange::{Open, Serving, serve};
pub(super) use head::{Form, parse_request};
pub(super) use refusal::{Refusal, forbidden};
pub(super) use route::{Route, host_line};
pub(super) use two::serve as serve_two;
pub(super) use wire::Wire;

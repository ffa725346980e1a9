//! HTTP/1 and HTTP/2 as the gateway speaks them: read strictly, judged, written anew.

mod answer;
mod body;
mod exchange;
mod head;
mod meant;
mod refusal;
mod two;
mod wire;

pub(super) use answer::{Answer, read_answer};
pub(super) use exchange::{Route, Serving, host_line, serve};
pub(super) use head::{Form, parse_request};
pub(super) use refusal::{Refusal, forbidden};
pub(super) use two::serve as serve_two;
pub(super) use wire::Wire;

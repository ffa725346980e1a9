//! What is wrong, or worth a second look, in records and on the machine. Warns, never blocks.

mod record;

pub use record::examine;

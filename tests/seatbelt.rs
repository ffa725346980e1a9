//! What a Mac would hold, found out without one: profiles are read back and evaluated by the rules that were
//! measured on real systems, and compared with `decide`, with the containment cases and with reviewed texts.

#![expect(clippy::panic, reason = "a test that cannot go on should say so and stop")]

#[path = "seatbelt"]
mod seatbelt {
    pub(crate) mod agreement;
    pub(crate) mod cases;
    pub(crate) mod evaluate;
    pub(crate) mod golden;
    pub(crate) mod mac;
    pub(crate) mod read;
    pub(crate) mod regex;
}

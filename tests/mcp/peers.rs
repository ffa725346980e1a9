//! Real clients and servers, direct and wrapped: the same but for what policy changes.

//! What the two ends of a link say to each other: frames, of which each is a message.
//!
//! A frame is a header of 8 bytes (length of what follows in the lower half of a word, kind in the
//! upper, little endian) and a body. Descriptors are those of the host/adapter interface; a socket
//! is named by the end that made it: by its block there, the engine's end with [`ADAPTERS`]
//! besides. Payload goes before the descriptor that tells of it, so that a descriptor counts as it
//! comes. `messages` and `greeting` have what the bodies are, `parser` takes frames out of bytes.
//!
//! Whatever comes over a link is a claim, whichever end sends it: lengths and kinds are checked here,
//! and what a message means by the end that gets it.

mod fields;
mod greeting;
mod messages;
mod parser;

pub use fields::BadMessage;
pub use greeting::{Hello, Refusal, VERSION, Welcome};
pub use messages::{ADAPTERS, Accepted, Message, PAYLOAD, Table, Transfer, Words};
pub use parser::{BadFrame, FRAME_HEADER, LONGEST_BODY, Parser, first_frame};

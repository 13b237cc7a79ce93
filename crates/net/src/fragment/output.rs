//! Cutting a message into parts that fit into packets.
//!
//! The engine sends what it is told here, part by part.

use longshore_wire::ipv4::HEADER_LEN;

/// A part of a message that goes into one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where it begins in the message; a multiple of 8.
    pub offset: usize,
    /// Its length in bytes.
    pub len: usize,
    /// More parts follow.
    pub more: bool,
}

/// How a message of `len` bytes goes into IPv4 packets of at most `mtu` bytes,
/// headers without options included: in one if it fits, else in parts that are
/// multiples of eight bytes but for the last. An `mtu` too small for that counts as
/// the least that IPv4 allows, 68 (RFC 791 section 3.2).
pub fn fragments(len: usize, mtu: usize) -> impl Iterator<Item = Part> {
    let room = mtu.max(68) - HEADER_LEN;
    let step = room & !7;
    let mut offset = 0;
    let mut done = false;
    core::iter::from_fn(move || {
        if done {
            return None;
        }
        let left = len - offset;
        let part = if left <= room {
            Part {
                offset,
                len: left,
                more: false,
            }
        } else {
            Part {
                offset,
                len: step,
                more: true,
            }
        };
        done = !part.more;
        offset += part.len;
        Some(part)
    })
}

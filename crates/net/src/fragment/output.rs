//! Cutting a message into parts that fit into packets.
//!
//! The engine sends what it is told here, part by part.

use longshore_wire::{ipv4, ipv6};

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
    let room = mtu.max(68) - ipv4::HEADER_LEN;
    cut(len, room, room)
}

/// The same for IPv6, whose parts have a fragment header each, which a message that
/// fits into one packet does not. An `mtu` of less than 1280 counts as that: every link
/// takes it (RFC 8200 section 5).
pub fn fragments_v6(len: usize, mtu: usize) -> impl Iterator<Item = Part> {
    let room = mtu.max(1280) - ipv6::HEADER_LEN;
    cut(len, room, room - ipv6::FRAGMENT_LEN)
}

/// All in one part if it fits into `whole` bytes, else in parts of at most `room`.
fn cut(len: usize, whole: usize, room: usize) -> impl Iterator<Item = Part> {
    let step = room & !7;
    let room = if len <= whole { whole } else { room };
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

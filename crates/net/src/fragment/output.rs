//! Splitting a message into parts that fit into packets.
//!
//! The engine sends the parts that this module computes, one by one.

use longshore_wire::{ipv4, ipv6};

/// A part of a message that is sent in one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its offset in the message; a multiple of 8.
    pub offset: usize,
    /// Its length in bytes.
    pub len: usize,
    /// More parts follow.
    pub more: bool,
}

/// Splits a message of `len` bytes into IPv4 packets of at most `mtu` bytes, with headers
/// without options: one packet if it fits, else parts whose lengths are multiples of
/// eight, except for the last. An `mtu` below the minimum of IPv4 counts as that, 68 (RFC
/// 791 section 3.2).
pub fn fragments(len: usize, mtu: usize) -> impl Iterator<Item = Part> {
    let room = mtu.max(68) - ipv4::HEADER_LEN;
    cut(len, room, room)
}

/// As [`fragments`], for IPv6: each part has a fragment header, which a message that fits
/// into one packet has not. An `mtu` below 1280 counts as that: every link takes it (RFC
/// 8200 section 5).
pub fn fragments_v6(len: usize, mtu: usize) -> impl Iterator<Item = Part> {
    let room = mtu.max(1280) - ipv6::HEADER_LEN;
    cut(len, room, room - ipv6::FRAGMENT_LEN)
}

/// One part if it fits into `whole` bytes, else parts of at most `room` bytes.
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

//! Extension headers (RFC 8200 section 4).

use super::next_header::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
use crate::WireError;
use crate::bytes::{get8, get16, get32, put, put16, put32};

/// Length of a fragment header, bytes.
pub const FRAGMENT_LEN: usize = 8;
/// Most headers that are processed (RFC 8504 section 5.3 allows a limit).
pub const MAX_EXTENSIONS: usize = 8;
/// Offset of the payload in a packet, as ICMPv6's pointers count.
const FIXED: u32 = super::HEADER_LEN as u32;
/// Offset of the fixed header's next header field.
const FIXED_NEXT_HEADER: u32 = 6;

/// A fragment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentHeader {
    /// The type of the header after it in the unfragmented packet.
    pub next_header: u8,
    /// Offset of the fragment, in bytes (a multiple of 8).
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Identifies the packet that it belongs to.
    pub identification: u32,
}

impl FragmentHeader {
    /// Parses a header; the fragment follows after [`FRAGMENT_LEN`] bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; FRAGMENT_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let place = get16(b, 2);
        Ok(Self {
            next_header: b[0],
            offset: place & !7,
            more: place & 1 != 0,
            identification: get32(b, 4),
        })
    }

    /// Writes the header; returns its length. `bytes` must not be shorter.
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        put(bytes, 0, [self.next_header, 0]);
        put16(bytes, 2, self.offset & !7 | u16::from(self.more));
        put32(bytes, 4, self.identification);
        FRAGMENT_LEN
    }

    /// Whether the fragment is a complete packet (RFC 6946), which is processed as if it
    /// had no fragment header.
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// The upper layer behind the extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper {
    /// Its protocol.
    pub next_header: u8,
    /// Its offset in the payload.
    pub at: usize,
    /// The packet is a fragment: its bytes are at `at`, and `next_header` is that of the
    /// unfragmented packet, which may be a further extension header.
    pub fragment: Option<FragmentHeader>,
}

/// Why a packet must be dropped because of its extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The packet is dropped silently.
    Silently(WireError),
    /// Its sender is owed an ICMPv6 parameter problem.
    Problem {
        /// The code of the message.
        code: u8,
        /// The offset of the problem, in bytes from the packet's beginning.
        pointer: u32,
        /// The error is sent even if the packet was sent to a group.
        to_group_too: bool,
    },
}

/// A field has an invalid value (code of a parameter problem).
const ERRONEOUS_FIELD: u8 = 0;
/// A next header that is not allowed there.
const UNKNOWN_NEXT_HEADER: u8 = 1;
/// A mandatory option that is not understood.
const UNKNOWN_OPTION: u8 = 2;

/// Processes the extension headers in `payload`, which follows a fixed header with this
/// `next_header`, up to the first header that is not one.
///
/// Only padding options are understood; for others the action in their type is taken
/// (section 4.2). A routing header without segments left is skipped.
///
/// # Errors
/// [`Refusal`].
pub fn walk(mut next_header: u8, payload: &[u8]) -> Result<Upper, Refusal> {
    const TRUNCATED: Refusal = Refusal::Silently(WireError::Truncated);
    let mut at = 0;
    let mut named_at = FIXED_NEXT_HEADER;
    for position in 0..=MAX_EXTENSIONS {
        let rest = payload.get(at..).unwrap_or_default();
        if next_header == FRAGMENT {
            let header = FragmentHeader::parse(rest).map_err(Refusal::Silently)?;
            named_at = FIXED + at as u32;
            at += FRAGMENT_LEN;
            next_header = header.next_header;
            if !header.is_atomic() {
                return Ok(Upper {
                    next_header,
                    at,
                    fragment: Some(header),
                });
            }
            continue;
        }
        if !matches!(next_header, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            return Ok(Upper {
                next_header,
                at,
                fragment: None,
            });
        }
        if next_header == HOP_BY_HOP && position != 0 {
            return Err(problem(UNKNOWN_NEXT_HEADER, named_at));
        }
        let (following, len) = following(next_header, rest).ok_or(TRUNCATED)?;
        let header = rest.get(..len).ok_or(TRUNCATED)?;
        let begins = FIXED + at as u32;
        if next_header == ROUTING {
            // Type 0 and all others: without segments left there is nothing to do.
            if get8(header, 3) != 0 {
                return Err(problem(ERRONEOUS_FIELD, begins + 2));
            }
        } else {
            check_options(crate::bytes::rest(header, 2), begins + 2)?;
        }
        named_at = begins;
        next_header = following;
        at += len;
    }
    Err(Refusal::Silently(WireError::BadField))
}

/// What an extension header of this `kind` at the beginning of `bytes` says of itself: the type of
/// the header after it, and its own length in bytes, which may be more than there are. `None` if
/// it is no extension header, or too short to say.
#[inline(always)]
#[must_use]
pub fn following(kind: u8, bytes: &[u8]) -> Option<(u8, usize)> {
    let [next, words, ..] = *bytes else {
        return None;
    };
    let len = match kind {
        FRAGMENT => FRAGMENT_LEN,
        HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => 8 + 8 * usize::from(words),
        _ => return None,
    };
    Some((next, len))
}

const fn problem(code: u8, pointer: u32) -> Refusal {
    Refusal::Problem {
        code,
        pointer,
        to_group_too: false,
    }
}

fn check_options(mut options: &[u8], mut pointer: u32) -> Result<(), Refusal> {
    const PAD1: u8 = 0;
    const PADN: u8 = 1;
    loop {
        let len = match *options {
            [] => return Ok(()),
            [PAD1, ..] => 1,
            [_] => return Err(Refusal::Silently(WireError::Truncated)),
            [kind, len, ..] => {
                if kind != PADN {
                    let refusal = Refusal::Problem {
                        code: UNKNOWN_OPTION,
                        pointer,
                        to_group_too: kind >> 6 == 2,
                    };
                    match kind >> 6 {
                        0 => {}
                        1 => return Err(Refusal::Silently(WireError::BadField)),
                        _ => return Err(refusal),
                    }
                }
                2 + usize::from(len)
            }
        };
        options = options
            .get(len..)
            .ok_or(Refusal::Silently(WireError::BadLength))?;
        pointer += len as u32;
    }
}

//! The header that nearly every segment has: no options, or timestamps alone in
//! the layout that RFC 7323 appendix A recommends.
//!
//! Owns [`Plain`], which is read straight from a packet's bytes and written
//! straight to them, a word at a time. The common path of `tcp` and `engine`
//! speaks of segments in it; whatever it cannot say is [`TcpHeader`]'s.

use super::{ALIGNED_TIMESTAMPS, HEADER_LEN, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use crate::{SeqNumber, get16, get32, put16, put32};

/// Bytes of a plain header with timestamps.
pub const PLAIN_LEN: usize = HEADER_LEN + 12;

/// The data offset, in its place beside the flags.
const WITHOUT_OPTIONS: u16 = (HEADER_LEN as u16 / 4) << 12;
const WITH_TIMESTAMPS: u16 = (PLAIN_LEN as u16 / 4) << 12;
/// What of that half word must be as one of the two: data offset and reserved bits,
/// and URG, with which the header's last field counts.
const NOT_FLAGS: u16 = 0xfe00 | TcpFlags::URG.0;

/// A header without options but timestamps. Ports and checksum are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// Data offset, reserved bits and flags, as they stand in the header's fourth
    /// word. The offset is 5, or 8 with timestamps.
    pub control: u16,
    /// The window, unscaled.
    pub window: u16,
    /// Sequence number.
    pub seq: SeqNumber,
    /// Acknowledgment number.
    pub ack: SeqNumber,
    /// Timestamps; mean nothing if the offset is 5.
    pub timestamps: Timestamps,
}

impl Plain {
    /// The fourth word's first half for these flags.
    #[inline]
    #[must_use]
    pub const fn control(flags: TcpFlags, timestamps: bool) -> u16 {
        if timestamps {
            WITH_TIMESTAMPS | flags.0
        } else {
            WITHOUT_OPTIONS | flags.0
        }
    }

    /// The flags.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> TcpFlags {
        TcpFlags(self.control & 0x1ff)
    }

    /// Whether it has timestamps.
    #[inline]
    #[must_use]
    pub const fn has_timestamps(&self) -> bool {
        self.control >> 12 == WITH_TIMESTAMPS >> 12
    }

    /// The header's length in bytes.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no header is empty")]
    pub const fn len(&self) -> usize {
        (self.control >> 12) as usize * 4
    }

    /// Reads the header at the start of a segment. `None` if it is not plain (the
    /// urgent pointer and reserved bits included) or cut short:
    /// [`TcpHeader::parse`] knows what it is then. The checksum is not verified.
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let control = get16(b, 12);
        let timestamps = match control & NOT_FLAGS {
            WITH_TIMESTAMPS => {
                let b: &[u8; PLAIN_LEN] = bytes.first_chunk()?;
                if get32(b, 20) != ALIGNED_TIMESTAMPS {
                    return None;
                }
                Timestamps {
                    val: get32(b, 24),
                    echo: get32(b, 28),
                }
            }
            WITHOUT_OPTIONS => Timestamps::default(),
            _ => return None,
        };
        Some(Self {
            control,
            window: get16(b, 14),
            seq: SeqNumber(get32(b, 4)),
            ack: SeqNumber(get32(b, 8)),
            timestamps,
        })
    }

    /// The same header, if it is plain.
    #[inline]
    #[must_use]
    pub fn of(header: &TcpHeader) -> Option<Self> {
        let TcpOptions {
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps,
            sack,
            fast_open: None,
            user_timeout: None,
        } = header.options
        else {
            return None;
        };
        if !sack.is_empty() || header.flags.intersects(TcpFlags::URG) {
            return None;
        }
        Some(Self {
            control: Self::control(header.flags, timestamps.is_some()),
            window: header.window,
            seq: header.seq,
            ack: header.ack,
            timestamps: timestamps.unwrap_or_default(),
        })
    }

    /// The same as a full header between these ports.
    #[must_use]
    pub fn header(&self, src_port: u16, dst_port: u16) -> TcpHeader {
        TcpHeader {
            src_port,
            dst_port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags(),
            window: self.window,
            urgent: 0,
            options: TcpOptions {
                timestamps: self.has_timestamps().then_some(self.timestamps),
                ..TcpOptions::default()
            },
        }
    }

    /// Writes it, between ports given as they stand in the header's first word,
    /// with a checksum of zero. Bytes beyond [`len`](Self::len) may be written too.
    #[inline]
    pub fn write(&self, to: &mut [u8; PLAIN_LEN], ports: u32) {
        put32(to, 0, ports);
        put32(to, 4, self.seq.0);
        put32(to, 8, self.ack.0);
        put16(to, 12, self.control);
        put16(to, 14, self.window);
        put32(to, 16, 0);
        put32(to, 20, ALIGNED_TIMESTAMPS);
        put32(to, 24, self.timestamps.val);
        put32(to, 28, self.timestamps.echo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain() -> impl Strategy<Value = Plain> {
        (
            (0u16..0x200, any::<bool>()),
            any::<(u16, u32, u32, u32, u32)>(),
        )
            .prop_map(|((flags, ts), (window, seq, ack, val, echo))| Plain {
                control: Plain::control(TcpFlags(flags) & !TcpFlags::URG, ts),
                window,
                seq: SeqNumber(seq),
                ack: SeqNumber(ack),
                timestamps: if ts {
                    Timestamps { val, echo }
                } else {
                    Timestamps::default()
                },
            })
    }

    proptest! {
        /// Both ways of writing a header, and both ways of reading it, agree.
        #[test]
        fn it_is_the_header_that_it_says(p in plain(), ports: u32) {
            let header = p.header((ports >> 16) as u16, ports as u16);
            let mut full = [0; PLAIN_LEN];
            let len = header.emit(&mut full);
            let mut quick = [0xff; PLAIN_LEN];
            p.write(&mut quick, ports);
            prop_assert_eq!(len, p.len());
            prop_assert_eq!(&full[..len], &quick[..len]);
            prop_assert_eq!(Plain::read(&quick[..len]), Some(p));
            prop_assert_eq!(Plain::of(&header), Some(p));
        }

        /// What it reads is what the parser reads; what it refuses is refused for
        /// a reason.
        #[test]
        fn any_bytes_are_read_as_the_parser_reads_them(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
            offset in prop_oneof![Just(5u8), Just(8), 0u8..16],
            canonical: bool,
        ) {
            if let Some(b) = bytes.get_mut(12) {
                *b = offset << 4;
            }
            if canonical && bytes.len() >= 24 {
                bytes[20..24].copy_from_slice(&ALIGNED_TIMESTAMPS.to_be_bytes());
                bytes[18..20].fill(0);
            }
            let parsed = TcpHeader::parse(&bytes);
            match Plain::read(&bytes) {
                Some(plain) => {
                    let (header, len) = parsed.unwrap();
                    prop_assert_eq!(len, plain.len());
                    prop_assert_eq!(header.seq, plain.seq);
                    prop_assert_eq!(header.ack, plain.ack);
                    prop_assert_eq!(header.flags, plain.flags());
                    prop_assert_eq!(header.window, plain.window);
                    let timestamps = plain.has_timestamps().then_some(plain.timestamps);
                    prop_assert_eq!(header.options, TcpOptions { timestamps, ..Default::default() });
                }
                None => {
                    let plain = parsed.is_ok_and(|(h, len)| {
                        Plain::of(&h).is_some() && (len == 20 || canonical && len == 32)
                    });
                    prop_assert!(!plain, "it is plain");
                }
            }
        }
    }
}

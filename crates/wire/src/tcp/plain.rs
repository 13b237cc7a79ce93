//! The header of nearly all segments: no options, or only timestamps in the layout that
//! RFC 7323 appendix A recommends.
//!
//! Owns [`Plain`], which writes such a header word by word, and [`Head`] and [`Stamps`],
//! which read one in place, each field on demand: on the fast path of `tcp` and `engine`
//! most fields are only compared. All other headers use [`TcpHeader`].

use super::{ALIGNED_TIMESTAMPS, HEADER_LEN, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use crate::SeqNumber;
use crate::bytes::{get16, get32, put16, put32};

/// Length of a plain header with timestamps, bytes.
pub const PLAIN_LEN: usize = HEADER_LEN + 12;

/// Data offset and flags of a plain header: the first half of its fourth word.
#[inline]
#[must_use]
pub const fn control(flags: TcpFlags, timestamps: bool) -> u16 {
    let len = if timestamps { PLAIN_LEN } else { HEADER_LEN };
    (len as u16 / 4) << 12 | flags.0
}

/// The fields that every header has, read in place.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Head<'a> {
    /// The header of the segment at this position. It is not validated.
    #[inline]
    #[must_use]
    pub fn of(segment: &'a [u8]) -> Option<Self> {
        Some(Self(segment.first_chunk()?))
    }

    /// Data offset, reserved bits and flags; see [`control`].
    #[inline]
    #[must_use]
    pub fn control(self) -> u16 {
        get16(self.0, 12)
    }

    /// The header's length according to its data offset, in bytes; less than 20 if that
    /// is invalid.
    #[inline]
    #[must_use]
    pub fn header_len(self) -> usize {
        usize::from(self.0[12] >> 4) * 4
    }

    /// The window field, unscaled.
    #[inline]
    #[must_use]
    pub fn window(self) -> u16 {
        get16(self.0, 14)
    }

    /// Sequence number.
    #[inline]
    #[must_use]
    pub fn seq(self) -> SeqNumber {
        SeqNumber(get32(self.0, 4))
    }

    /// Acknowledgment number.
    #[inline]
    #[must_use]
    pub fn ack(self) -> SeqNumber {
        SeqNumber(get32(self.0, 8))
    }
}

/// Timestamps in their usual layout, read in place.
#[derive(Debug, Clone, Copy)]
pub struct Stamps<'a>(&'a [u8; PLAIN_LEN]);

impl<'a> Stamps<'a> {
    /// The timestamps of a segment whose options begin with them. They are its only
    /// options if its data offset says so.
    #[inline]
    #[must_use]
    pub fn of(segment: &'a [u8]) -> Option<Self> {
        let bytes: &[u8; PLAIN_LEN] = segment.first_chunk()?;
        (get32(bytes, HEADER_LEN) == ALIGNED_TIMESTAMPS).then_some(Self(bytes))
    }

    /// TSval.
    #[inline]
    #[must_use]
    pub fn val(self) -> u32 {
        get32(self.0, HEADER_LEN + 4)
    }

    /// TSecr.
    #[inline]
    #[must_use]
    pub fn echo(self) -> u32 {
        get32(self.0, HEADER_LEN + 8)
    }
}

/// A header without options other than timestamps, to be written. The caller adds ports
/// and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// See [`control`].
    pub control: u16,
    /// The window field, unscaled.
    pub window: u16,
    /// Sequence number.
    pub seq: SeqNumber,
    /// Acknowledgment number.
    pub ack: SeqNumber,
    /// Timestamps; unused if the data offset is 5.
    pub timestamps: Timestamps,
}

impl Plain {
    /// The header's length in bytes, 20 or 32.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no header is empty")]
    pub const fn len(&self) -> usize {
        (self.control >> 12) as usize * 4
    }

    /// The plain form of a header; `None` if it has another form, for example an urgent
    /// pointer.
    #[must_use]
    pub fn of(header: &TcpHeader) -> Option<Self> {
        let timestamps = header.options.timestamps;
        let plain = TcpOptions {
            timestamps,
            ..TcpOptions::default()
        };
        if header.options != plain || header.flags.intersects(TcpFlags::URG) {
            return None;
        }
        Some(Self {
            control: control(header.flags, timestamps.is_some()),
            window: header.window,
            seq: header.seq,
            ack: header.ack,
            timestamps: timestamps.unwrap_or_default(),
        })
    }

    /// Writes it with a checksum of zero; `ports` is the header's first word. Bytes
    /// beyond [`len`](Self::len) may be overwritten too.
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

    fn header() -> impl Strategy<Value = TcpHeader> {
        let fields = any::<(u16, u16, u32, u32, u16, u16)>();
        (0u16..0x200, fields, any::<Option<(u32, u32)>>()).prop_map(
            |(flags, (src_port, dst_port, seq, ack, window, urgent), ts)| TcpHeader {
                src_port,
                dst_port,
                seq: SeqNumber(seq),
                ack: SeqNumber(ack),
                flags: TcpFlags(flags),
                window,
                urgent,
                options: TcpOptions {
                    timestamps: ts.map(|(val, echo)| Timestamps { val, echo }),
                    ..TcpOptions::default()
                },
            },
        )
    }

    proptest! {
        /// Both ways of writing a header agree, but for the urgent pointer.
        #[test]
        fn it_writes_the_header_that_it_is_of(mut header in header()) {
            let urgent = header.flags.intersects(TcpFlags::URG);
            prop_assert_eq!(Plain::of(&header).is_none(), urgent);
            header.flags = header.flags & !TcpFlags::URG;
            header.urgent = 0;
            let mut full = [0; PLAIN_LEN];
            let len = header.emit(&mut full);
            let plain = Plain::of(&header).unwrap();
            let mut quick = [0xff; PLAIN_LEN];
            plain.write(&mut quick, u32::from(header.src_port) << 16 | u32::from(header.dst_port));
            prop_assert_eq!(len, plain.len());
            prop_assert_eq!(&full[..len], &quick[..len]);
        }

        /// Both ways of reading it do.
        #[test]
        fn it_is_read_as_the_parser_reads_it(header in header(), cut in 0usize..40) {
            let mut bytes = [0; 40];
            let len = header.emit(&mut bytes);
            let head = Head::of(&bytes).unwrap();
            prop_assert_eq!((head.seq(), head.ack()), (header.seq, header.ack));
            prop_assert_eq!((head.window(), head.header_len()), (header.window, len));
            let timestamps = header.options.timestamps;
            prop_assert_eq!(head.control(), control(header.flags, timestamps.is_some()));
            let stamps = Stamps::of(&bytes);
            let read = stamps.map(|s| Timestamps { val: s.val(), echo: s.echo() });
            prop_assert_eq!(read, timestamps);
            prop_assert_eq!(Head::of(&bytes[..cut]).is_some(), cut >= HEADER_LEN);
            let there = cut >= PLAIN_LEN && timestamps.is_some();
            prop_assert_eq!(Stamps::of(&bytes[..cut]).is_some(), there);
        }
    }

    #[test]
    fn other_options_are_not_plain() {
        let mut header = TcpHeader::parse(&[0x50; 20]).unwrap().0;
        header.flags = TcpFlags::ACK;
        assert!(Plain::of(&header).is_some());
        header.options.sack.push(SeqNumber(1), SeqNumber(2));
        assert!(Plain::of(&header).is_none());
        header.options = TcpOptions {
            user_timeout: Some(1),
            ..TcpOptions::default()
        };
        assert!(Plain::of(&header).is_none());
    }
}

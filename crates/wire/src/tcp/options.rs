//! TCP options (RFC 9293 section 3.2, RFC 7323, RFC 2018, RFC 7413, RFC 5482).
//!
//! Unknown options are skipped. A malformed one ends the list, as in Linux: those before
//! it are valid.

use crate::SeqNumber;
use crate::bytes::{
    front, front_mut, get8, get16, get32, put, put_all, put8, put16, put32, rest, rest_mut,
};

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const USER_TIMEOUT: u8 = 28;
const FAST_OPEN: u8 = 34;
/// The option kind for experiments, and Fast Open's identifier (RFC 6994; RFC 7413
/// appendix B).
const EXPERIMENT: u8 = 254;
const FAST_OPEN_EXPERIMENT: u16 = 0xf989;
/// Accurate ECN: ECT(0), CE, ECT(1), and the reverse order.
const ACCURATE_ECN_0: u8 = 172;
const ACCURATE_ECN_1: u8 = 174;

/// Most bytes of options in a header.
const MAX_LEN: usize = super::MAX_HEADER_LEN - super::HEADER_LEN;

/// NOP, NOP, timestamps of 10 bytes: the only options of most segments.
pub(super) const ALIGNED_TIMESTAMPS: u32 = 0x0101_080a;

/// The timestamps option (RFC 7323 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub val: u32,
    /// TSecr: the peer's most recent timestamp.
    pub echo: u32,
}

/// At most four SACK blocks (RFC 2018 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(SeqNumber, SeqNumber); 4],
    len: u8,
}

impl SackBlocks {
    /// No blocks.
    pub const EMPTY: Self = Self {
        blocks: [(SeqNumber(0), SeqNumber(0)); 4],
        len: 0,
    };

    /// Adds a block, from its first byte to the one past its last; `false` if there are
    /// four already.
    pub fn push(&mut self, left: SeqNumber, right: SeqNumber) -> bool {
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(block) => {
                *block = (left, right);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[(SeqNumber, SeqNumber)] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// An iterator over the blocks.
    pub fn iter(&self) -> impl Iterator<Item = (SeqNumber, SeqNumber)> + '_ {
        self.as_slice().iter().copied()
    }

    /// The number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A Fast Open cookie of 4 to 16 bytes, or the request for one (RFC 7413).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenCookie {
    bytes: [u8; 16],
    len: u8,
    experimental: bool,
}

impl FastOpenCookie {
    /// The request for a cookie.
    pub const REQUEST: Self = Self {
        bytes: [0; 16],
        len: 0,
        experimental: false,
    };

    /// A cookie; `None` if its length is not valid.
    #[must_use]
    pub fn new(cookie: &[u8]) -> Option<Self> {
        let fits = cookie.is_empty()
            || (cookie.len() >= 4 && cookie.len() <= 16 && cookie.len().is_multiple_of(2));
        let mut bytes = [0; 16];
        fits.then(|| {
            put_all(&mut bytes, 0, cookie);
            Self {
                bytes,
                len: cookie.len() as u8,
                experimental: false,
            }
        })
    }

    /// The same cookie in the experiment's option (before RFC 7413), or in the standard
    /// one.
    #[must_use]
    pub const fn as_experiment(mut self, experimental: bool) -> Self {
        self.experimental = experimental;
        self
    }

    /// Whether it was received, or is sent, in the experiment's option.
    #[must_use]
    pub const fn is_experiment(&self) -> bool {
        self.experimental
    }

    /// Length of kind, length and, in the experiment, its identifier.
    const fn head_len(&self) -> usize {
        if self.experimental { 4 } else { 2 }
    }

    /// Length in a header with padding, bytes.
    const fn emitted_len(&self) -> usize {
        (self.head_len() + self.len as usize).next_multiple_of(4)
    }

    /// Writes the option with its padding.
    fn emit(&self, bytes: &mut [u8]) {
        let head = self.head_len();
        let len = head + usize::from(self.len);
        if self.experimental {
            put(bytes, 0, [EXPERIMENT, len as u8]);
            put16(bytes, 2, FAST_OPEN_EXPERIMENT);
        } else {
            put(bytes, 0, [FAST_OPEN, len as u8]);
        }
        put_all(bytes, head, self.as_bytes());
        rest_mut(front_mut(bytes, self.emitted_len()), len).fill(NOP);
    }

    /// Its bytes; none for a request.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        front(&self.bytes, usize::from(self.len))
    }
}

/// The accurate ECN option (RFC 9768 section 3.2.3): counts of payload bytes by ECN
/// field, 24 bits each; `None` for omitted ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccurateEcn {
    /// Bytes received with ECT(0).
    pub ect0: Option<u32>,
    /// Bytes received with CE.
    pub ce: Option<u32>,
    /// Bytes received with ECT(1).
    pub ect1: Option<u32>,
}

impl AccurateEcn {
    /// Parses the fields that are present; `kind` determines their order.
    fn parse(kind: u8, data: &[u8]) -> Self {
        let mut fields = data
            .chunks_exact(3)
            .map(|b| u32::from(get8(b, 0)) << 16 | u32::from(get16(b, 1)));
        let (first, ce, last) = (fields.next(), fields.next(), fields.next());
        let (ect0, ect1) = if kind == ACCURATE_ECN_0 {
            (first, last)
        } else {
            (last, first)
        };
        Self { ect0, ce, ect1 }
    }

    /// Whether all three fields are sent; otherwise ECT(0) and CE.
    const fn is_long(&self) -> bool {
        self.ect1.is_some()
    }

    /// Length in a header with padding, bytes.
    const fn len(&self) -> usize {
        if self.is_long() { 12 } else { 8 }
    }
}

/// The options that fit into a header.
struct Layout {
    len: usize,
    /// The number of SACK blocks.
    blocks: usize,
    user_timeout: Option<u16>,
    accurate_ecn: Option<AccurateEcn>,
}

/// The options of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// The largest segment that the sender accepts (SYN only).
    pub mss: Option<u16>,
    /// The shift of its window, at most 14 (SYN only).
    pub window_scale: Option<u8>,
    /// The sender supports SACK (SYN only).
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgments.
    pub sack: SackBlocks,
    /// Fast Open (SYN only).
    pub fast_open: Option<FastOpenCookie>,
    /// User timeout: granularity bit and value, as on the wire.
    pub user_timeout: Option<u16>,
    /// Accurate ECN.
    pub accurate_ecn: Option<AccurateEcn>,
}

impl TcpOptions {
    /// Parses the options of a header.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        if let [_, _, _, _, rest @ ..] = bytes
            && bytes.len() == 12
            && get32(bytes, 0) == ALIGNED_TIMESTAMPS
        {
            let timestamps = Timestamps {
                val: get32(rest, 0),
                echo: get32(rest, 4),
            };
            return Self {
                timestamps: Some(timestamps),
                ..Self::default()
            };
        }
        Self::parse_list(bytes)
    }

    fn parse_list(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        loop {
            bytes = match bytes {
                [] | [END, ..] => return options,
                [NOP, rest @ ..] => rest,
                [kind, len, data @ ..] => {
                    let len = usize::from(*len).checked_sub(2);
                    let Some((data, rest)) = len.and_then(|len| data.split_at_checked(len)) else {
                        return options;
                    };
                    options.take(*kind, data);
                    rest
                }
                [_] => return options,
            };
        }
    }

    fn take(&mut self, kind: u8, data: &[u8]) {
        match (kind, data.len()) {
            (MSS, 2) => self.mss = Some(get16(data, 0)),
            // RFC 7323 section 2.3: more than 14 counts as 14.
            (WINDOW_SCALE, 1) => self.window_scale = Some(get8(data, 0).min(14)),
            (SACK_PERMITTED, 0) => self.sack_permitted = true,
            (TIMESTAMPS, 8) => {
                self.timestamps = Some(Timestamps {
                    val: get32(data, 0),
                    echo: get32(data, 4),
                });
            }
            (SACK, n) if n.is_multiple_of(8) => {
                self.sack = SackBlocks::EMPTY;
                for block in data.chunks_exact(8) {
                    self.sack
                        .push(SeqNumber(get32(block, 0)), SeqNumber(get32(block, 4)));
                }
            }
            (FAST_OPEN, _) => self.fast_open = FastOpenCookie::new(data),
            (EXPERIMENT, 2..) if get16(data, 0) == FAST_OPEN_EXPERIMENT => {
                let cookie = FastOpenCookie::new(rest(data, 2));
                self.fast_open = cookie.map(|c| c.as_experiment(true));
            }
            (USER_TIMEOUT, 2) => self.user_timeout = Some(get16(data, 0)),
            (ACCURATE_ECN_0 | ACCURATE_ECN_1, _) => {
                self.accurate_ecn = Some(AccurateEcn::parse(kind, data));
            }
            _ => {}
        }
    }

    /// Length of the options in a header with padding, at most 40 bytes. If not all fit,
    /// accurate ECN, the user timeout and the last SACK blocks are omitted.
    #[inline]
    #[must_use]
    pub fn emitted_len(&self) -> usize {
        self.layout().len
    }

    #[inline]
    fn layout(&self) -> Layout {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        if self.timestamps.is_some() {
            len += 12;
        } else if self.sack_permitted {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4;
        }
        if let Some(cookie) = &self.fast_open {
            len += cookie.emitted_len();
        }
        let mut blocks = 0;
        if !self.sack.is_empty() && len + 12 <= MAX_LEN {
            blocks = self.sack.len().min((MAX_LEN - 4 - len) / 8);
            len += 4 + 8 * blocks;
        }
        let user_timeout = self.user_timeout.filter(|_| len + 4 <= MAX_LEN);
        if user_timeout.is_some() {
            len += 4;
        }
        let accurate_ecn = self.accurate_ecn.filter(|o| len + o.len() <= MAX_LEN);
        if let Some(option) = &accurate_ecn {
            len += option.len();
        }
        Layout {
            len,
            blocks,
            user_timeout,
            accurate_ecn,
        }
    }

    /// Writes the options in Linux's order, each padded to four bytes; SACK-permitted
    /// replaces the padding before timestamps. `bytes` has
    /// [`emitted_len`](Self::emitted_len) bytes.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) {
        let layout = self.layout();
        let mut at = 0;
        let mut word = |bytes: &mut [u8], value: u32| {
            put32(bytes, at, value);
            at += 4;
        };
        if let Some(mss) = self.mss {
            word(bytes, u32::from(MSS) << 24 | 4 << 16 | u32::from(mss));
        }
        if let Some(t) = self.timestamps {
            let lead = if self.sack_permitted {
                0x0402_080a
            } else {
                ALIGNED_TIMESTAMPS
            };
            word(bytes, lead);
            word(bytes, t.val);
            word(bytes, t.echo);
        } else if self.sack_permitted {
            word(bytes, 0x0101_0402);
        }
        if let Some(shift) = self.window_scale {
            word(
                bytes,
                u32::from(NOP) << 24 | u32::from(WINDOW_SCALE) << 16 | 3 << 8 | u32::from(shift),
            );
        }
        if layout.blocks != 0 {
            word(bytes, 0x0101_0500 | (2 + 8 * layout.blocks as u32));
            for (left, right) in self.sack.iter().take(layout.blocks) {
                word(bytes, left.0);
                word(bytes, right.0);
            }
        }
        if let Some(cookie) = &self.fast_open {
            cookie.emit(rest_mut(bytes, at));
            at += cookie.emitted_len();
        }
        if let Some(timeout) = layout.user_timeout {
            put(bytes, at, [USER_TIMEOUT, 4]);
            put16(bytes, at + 2, timeout);
            at += 4;
        }
        if let Some(option) = layout.accurate_ecn {
            let (ect0, ce) = (option.ect0.unwrap_or(0), option.ce.unwrap_or(0));
            let field = |bytes: &mut [u8], at: usize, value: u32| {
                let [_, high, middle, low] = value.to_be_bytes();
                put(bytes, at, [high, middle, low]);
            };
            let len = if option.is_long() { 11 } else { 8 };
            put(bytes, at, [ACCURATE_ECN_0, len]);
            field(bytes, at + 2, ect0);
            field(bytes, at + 5, ce);
            if let Some(ect1) = option.ect1 {
                field(bytes, at + 8, ect1);
                put8(bytes, at + 11, NOP);
            }
        }
    }
}

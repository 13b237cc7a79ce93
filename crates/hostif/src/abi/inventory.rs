//! What lies in a session's shared memory, word by word: who writes it, who reads it, and
//! where a crossing of it is counted.
//!
//! Owns [`PARTS`], the list on which docs/host-adapter-interface.md is checked
//! (`inventory/tests.rs`), and [`place_of`], by which an observer that compares the memory
//! before and after finds what was written and whose it is. No other code depends on it. A
//! field that is added to a shared type and not listed beside it does not compile.

use super::{CHUNK, ChannelControl, Geometry, Header, Offsets, SocketBlock, WorkerWords};
use longshore_ring::Waiter;
use longshore_ring::spsc::Slot;

bitflags::bitflags! {
    /// Who uses a word.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Sides: u8 {
        /// The programs of the session.
        const HOST = 1;
        /// The engine.
        const ADAPTER = 2;
        /// The host agent, which deals with processes: a part of the host's half, though it
        /// runs in the engine's process.
        const AGENT = 4;
    }
}

/// Where the meter has a crossing of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metered {
    /// Nothing crosses: one side alone uses it.
    Inside,
    /// Written before any program has the memory, and never after.
    Before,
    /// As a descriptor.
    Descriptor,
    /// As payload, each contiguous piece a transfer.
    Payload,
    /// As a transfer of its own, of the bytes that are written.
    Transfer,
    /// With the batch, the piece or the wake-up that it belongs to.
    Along,
    /// Nowhere.
    Nowhere,
}

/// A word of shared memory, or several that are used alike.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// Its field's name.
    pub name: &'static str,
    /// Bytes from the beginning of what it lies in.
    pub at: usize,
    /// Its length, bytes.
    pub len: usize,
    /// Who writes it.
    pub written: Sides,
    /// Who reads what others have written.
    pub read: Sides,
    /// Where a crossing of it is counted.
    pub metered: Metered,
    /// What it consists of, if that is listed itself. Then the rest says nothing.
    pub inside: &'static [Word],
}

/// The length of a field, bytes.
pub(super) const fn field_len<S, T>(_: fn(&S) -> &T) -> usize {
    size_of::<T>()
}

/// The words of a shared type, in the order of its fields, all of which are to be listed.
macro_rules! words {
    ($type:ident { $($field:ident: $row:expr),* $(,)? }) => {{
        const _: fn(&$type) = |of| {
            let $type { $($field: _),* } = of;
        };
        &[$($crate::abi::inventory::Word {
            name: stringify!($field),
            at: std::mem::offset_of!($type, $field),
            len: $crate::abi::inventory::field_len(|of: &$type| &of.$field),
            ..$row
        }),*]
    }};
}
pub(super) use words;

/// A word that `written` write, and `read` read, of those who have not written it.
pub(super) const fn word(written: Sides, read: Sides, metered: Metered) -> Word {
    Word {
        name: "",
        at: 0,
        len: 0,
        written,
        read,
        metered,
        inside: &[],
    }
}

/// What consists of `inside`.
pub(super) const fn of(inside: &'static [Word]) -> Word {
    let mut word = word(Sides::empty(), Sides::empty(), Metered::Inside);
    word.inside = inside;
    word
}

/// A word of the host's alone.
pub(super) const fn hosts() -> Word {
    word(Sides::HOST, Sides::HOST, Metered::Inside)
}

/// Nobody's.
pub(super) const fn unused() -> Word {
    word(Sides::empty(), Sides::empty(), Metered::Inside)
}

/// The two indices of a ring that goes from `from` to `to`: who publishes, who gives back.
pub(super) const fn indices(from: Sides, to: Sides) -> [Word; 2] {
    let line = longshore_ring::spsc::INDEX_STRIDE;
    let mut published = word(from, to, Metered::Along);
    (published.name, published.len) = ("published", size_of::<u64>());
    let mut given_back = word(to, from, Metered::Along);
    (given_back.name, given_back.at, given_back.len) = ("given_back", line, size_of::<u32>());
    [published, given_back]
}

/// As `indices`, of a ring whose reader claims what it is about to read, beside what is published.
pub(super) const fn claimed_indices(from: Sides, to: Sides) -> [Word; 2] {
    let [mut published, given_back] = indices(from, to);
    published.written = from.union(to);
    published.read = from.union(to);
    [published, given_back]
}

/// A part of the memory: so many of the same after each other.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// From one to the next, bytes.
    pub stride: usize,
    /// The words of each.
    pub words: &'static [Word],
}

/// A part whose elements are one word each.
const fn plain(name: &'static str, len: usize, words: &'static [Word]) -> Part {
    Part {
        name,
        stride: len,
        words,
    }
}

/// One word, as long as its part's elements.
const fn whole(len: usize, word: Word) -> [Word; 1] {
    [Word { len, ..word }]
}

const BOTH: Sides = Sides::HOST.union(Sides::ADAPTER);
const LINK: usize = size_of::<u32>();

/// All parts, in the order in which they lie.
pub const PARTS: [Part; 14] = [
    plain("header", size_of::<Header>(), Header::WORDS),
    plain(
        "channel control",
        size_of::<ChannelControl>(),
        ChannelControl::WORDS,
    ),
    plain("worker", size_of::<WorkerWords>(), WorkerWords::WORDS),
    plain(
        "waiter",
        size_of::<Waiter>(),
        &whole(size_of::<Waiter>(), word(BOTH, BOTH, Metered::Along)),
    ),
    plain(
        "socket link",
        LINK,
        &whole(LINK, word(BOTH, BOTH, Metered::Nowhere)),
    ),
    plain(
        "send chunk link",
        LINK,
        &whole(LINK, word(BOTH, BOTH, Metered::Nowhere)),
    ),
    plain(
        "held sockets",
        8,
        &whole(
            8,
            word(
                Sides::HOST.union(Sides::AGENT),
                Sides::HOST.union(Sides::AGENT),
                Metered::Inside,
            ),
        ),
    ),
    plain(
        "request",
        size_of::<Slot>(),
        &whole(
            size_of::<Slot>(),
            word(Sides::HOST, Sides::ADAPTER, Metered::Descriptor),
        ),
    ),
    plain(
        "completion",
        size_of::<Slot>(),
        &whole(
            size_of::<Slot>(),
            word(Sides::ADAPTER, Sides::HOST, Metered::Descriptor),
        ),
    ),
    plain("socket block", size_of::<SocketBlock>(), SocketBlock::WORDS),
    plain(
        "send directory entry",
        LINK,
        &whole(LINK, word(Sides::HOST, Sides::ADAPTER, Metered::Along)),
    ),
    plain(
        "receive directory entry",
        LINK,
        &whole(LINK, word(Sides::ADAPTER, Sides::HOST, Metered::Transfer)),
    ),
    plain(
        "send chunk",
        CHUNK,
        &whole(CHUNK, word(Sides::HOST, Sides::ADAPTER, Metered::Payload)),
    ),
    plain(
        "receive chunk",
        CHUNK,
        &whole(CHUNK, word(BOTH, Sides::HOST, Metered::Payload)),
    ),
];

/// A word of a session's memory.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The name of its part.
    pub part: &'static str,
    /// Which of that part's elements it is in.
    pub index: usize,
    /// Where the word begins, bytes from the beginning of the memory.
    pub begins: usize,
    /// The word.
    pub word: &'static Word,
}

/// What lies at byte `at` of a session's memory. `None` between the parts, and between the
/// words of one.
#[must_use]
pub fn place_of(geometry: &Geometry, at: usize) -> Option<Place> {
    let begins = Offsets::of(geometry).parts();
    let of_part = begins.partition_point(|begin| *begin <= at);
    let before = of_part.checked_sub(1);
    let begin = before.map_or(Some(&0), |part| begins.get(part))?;
    let part = PARTS.get(of_part)?;
    let within = at - begin;
    let index = within / part.stride;
    let (word, into) = find(part.words, within % part.stride)?;
    Some(Place {
        part: part.name,
        index,
        begins: at - into,
        word,
    })
}

/// The word that has byte `at` of what these words are, and which of its bytes that is.
fn find(words: &'static [Word], at: usize) -> Option<(&'static Word, usize)> {
    let has_it = |word: &&Word| (word.at..word.at + word.len).contains(&at);
    let word = words.iter().find(has_it)?;
    if word.inside.is_empty() {
        return Some((word, at - word.at));
    }
    find(word.inside, at - word.at)
}

#[cfg(test)]
mod tests;

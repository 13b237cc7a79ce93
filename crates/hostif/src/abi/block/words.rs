//! Whose the words of a block are, for the inventory.

use super::{SocketBlock, StreamReceiveHalf, StreamSendHalf};
use crate::abi::inventory::{Metered, Sides, Word, hosts, of, word, words};

const BOTH: Sides = Sides::HOST.union(Sides::ADAPTER);

/// The host's; the adapter writes it for a connection that it hands over, with the whole
/// block.
const BEGUN: Word = word(BOTH, Sides::HOST, Metered::Transfer);
/// The host's words of the waiters, at which the adapter looks to wake them.
const WAITERS: Word = word(BOTH, Sides::ADAPTER, Metered::Along);
/// What both write while the socket lives, and the adapter as a transfer.
const SHARED: Word = word(BOTH, BOTH, Metered::Transfer);
/// What the adapter says.
const REPORTED: Word = word(Sides::ADAPTER, Sides::HOST, Metered::Transfer);
/// What the adapter reads of the host's, once a socket is closed or idle.
const LOOKED_AT: Word = word(BOTH, Sides::ADAPTER, Metered::Nowhere);

impl SocketBlock {
    /// Its words.
    pub(in crate::abi) const WORDS: &[Word] = words!(SocketBlock {
        generation: SHARED,
        state: SHARED,
        flags: SHARED,
        errno: SHARED,
        inode: BEGUN,
        waiters: WAITERS,
        unlisted_waiters: WAITERS,
        options: BEGUN,
        in_transit: BEGUN,
        syn_room_or_size_goal: BEGUN,
        signals: REPORTED,
        other_end: REPORTED,
        snd: of(StreamSendHalf::WORDS),
        rcv: of(StreamReceiveHalf::WORDS),
        local: SHARED,
        peer: SHARED,
        linger: SHARED,
        errors: REPORTED,
        unreported_limit: REPORTED,
        usual_lowat: REPORTED,
    });
}

impl StreamSendHalf {
    const WORDS: &[Word] = words!(StreamSendHalf {
        lock: word(BOTH, BOTH, Metered::Nowhere),
        limit: SHARED,
        edge: LOOKED_AT,
        done: BEGUN,
        returned: LOOKED_AT,
        low_water: BEGUN,
        time_limit: BEGUN,
        sending_or_notices: BEGUN,
        more_bits: BEGUN,
        sent_or_notices: SHARED,
    });
}

impl StreamReceiveHalf {
    const WORDS: &[Word] = words!(StreamReceiveHalf {
        lock: hosts(),
        limit: BEGUN,
        edge: BEGUN,
        done: LOOKED_AT,
        reported: BEGUN,
        low_water: BEGUN,
        time_limit: BEGUN,
        urgent: BEGUN,
        urgent_read: BEGUN,
        urgent_come: REPORTED,
    });
}

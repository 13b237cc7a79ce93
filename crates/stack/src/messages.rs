//! The messages of a connection whose program has told how they end ([`MessageRule`]): where the
//! last whole one ends. For a piece of a message nobody is woken.
//!
//! Owns [`Messages`], which `low_water` asks when more has come. What was looked at is not
//! looked at again, so each byte costs once, however it comes; and what is not whole by half of
//! the receive buffer is waited for no longer (`low_water`), so a peer that never ends a message
//! takes no more than any other. With a time limit nobody waits for longer than that either.

use longshore_hostif::{Delimiter, LengthPrefix, MessageRule};
use longshore_tcp::Instant;

/// Bytes that are looked through at a time; more than stand before the end of a length.
const WINDOW: usize = 1024;

/// How messages end, and for how long their end is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedRule {
    /// How they end.
    pub rule: MessageRule,
    /// After so many milliseconds whoever waits is woken for a piece; 0 for never.
    pub within_ms: u32,
}

/// Where the messages of a receive stream end.
#[derive(Debug)]
pub(crate) struct Messages {
    timed: TimedRule,
    /// Where the last whole one ends.
    whole: u64,
    /// Where the next one begins whose length is not known; for a delimiter, how far was looked.
    at: u64,
    /// What came is no message by the rule: nothing is waited for any more.
    is_lost: bool,
    /// When those who wait are woken for the piece that is there.
    piece_due: Instant,
}

impl Messages {
    /// Those from `at` of the stream on.
    pub(crate) fn new(timed: TimedRule, at: u64) -> Self {
        Self {
            timed,
            whole: at,
            at,
            is_lost: false,
            piece_due: Instant::NEVER,
        }
    }

    /// How they end.
    pub(crate) fn timed(&self) -> TimedRule {
        self.timed
    }

    /// Their ends are waited for so many milliseconds, 0 for ever. A thread that waits is woken by
    /// that.
    pub(crate) fn set_within(&mut self, milliseconds: u32) {
        self.timed.within_ms = milliseconds;
        self.piece_due = Instant::NEVER;
    }

    /// When those who wait are to be woken for the piece that is there.
    #[inline]
    pub(crate) fn piece_due(&self) -> Instant {
        self.piece_due
    }

    /// What was told now wakes nobody, as it is a piece.
    pub(crate) fn put_off(&mut self, now: Instant) {
        if self.timed.within_ms != 0 && self.piece_due.is_never() {
            self.piece_due = now.after_us(u64::from(self.timed.within_ms) * 1000);
        }
    }

    /// All who wait are woken now.
    pub(crate) fn note_woken(&mut self) {
        self.piece_due = Instant::NEVER;
    }

    /// Whether there is no whole message in the stream, which reaches to `edge` and of which the
    /// program has read up to `read`. `get` gives bytes from a place on; whether it could.
    pub(crate) fn are_incomplete(
        &mut self,
        [read, edge]: [u64; 2],
        get: impl FnMut(u64, &mut [u8]) -> bool,
    ) -> bool {
        if !self.is_lost {
            match self.timed.rule {
                MessageRule::Length(prefix) => self.follow(&prefix, edge, get),
                MessageRule::Delimiter(delimiter) => self.search(&delimiter, [read, edge], get),
            }
        }
        !self.is_lost && self.whole <= read
    }

    /// Goes from one length to the next.
    fn follow(
        &mut self,
        prefix: &LengthPrefix,
        edge: u64,
        mut get: impl FnMut(u64, &mut [u8]) -> bool,
    ) {
        let mut buffer = [0; WINDOW];
        let mut window = 0..0;
        while self.at <= edge {
            self.whole = self.at;
            let end = self.at.saturating_add(prefix.header() as u64);
            if end > edge {
                return;
            }
            if end > window.end {
                // Messages may be shorter than it takes to find where they lie.
                window = self.at..edge.min(self.at.saturating_add(WINDOW as u64));
                let part = buffer.get_mut(..(window.end - window.start) as usize);
                self.is_lost = !part.is_some_and(|part| get(window.start, part));
            }
            let [from, to] = [self.at, end].map(|place| (place - window.start) as usize);
            let header = buffer.get(from..to).filter(|_| !self.is_lost);
            let length = header.and_then(|header| prefix.length_of(header));
            match length.and_then(|length| self.at.checked_add(length)) {
                Some(next) => self.at = next,
                None => {
                    self.is_lost = true;
                    return;
                }
            }
        }
    }

    /// Looks for the last delimiter in what has come.
    fn search(
        &mut self,
        delimiter: &Delimiter,
        [read, edge]: [u64; 2],
        mut get: impl FnMut(u64, &mut [u8]) -> bool,
    ) {
        let bytes = delimiter.bytes();
        // What the program has read may be gone.
        self.at = self.at.max(read);
        let mut buffer = [0; WINDOW];
        while edge.saturating_sub(self.at) >= bytes.len() as u64 {
            let len = (edge - self.at).min(WINDOW as u64) as usize;
            let window = buffer.get_mut(..len).unwrap_or_default();
            if !get(self.at, window) {
                self.is_lost = true;
                return;
            }
            let found = window.windows(bytes.len()).rposition(|part| part == bytes);
            if let Some(found) = found {
                self.whole = self.at + (found + bytes.len()) as u64;
            }
            // The next one may have begun.
            self.at = (self.at + (len + 1 - bytes.len()) as u64).max(self.whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untimed(rule: MessageRule) -> TimedRule {
        TimedRule { rule, within_ms: 0 }
    }

    /// What is told of a stream that comes in these pieces and is read up to `read`.
    fn reported(rule: MessageRule, pieces: &[&[u8]], read: u64) -> Vec<bool> {
        let (mut messages, mut stream) = (Messages::new(untimed(rule), 0), Vec::new());
        let mut looked_at = 0;
        let mut reported = Vec::new();
        for piece in pieces {
            stream.extend_from_slice(piece);
            reported.push(
                !messages.are_incomplete([read, stream.len() as u64], |at, to| {
                    looked_at += to.len();
                    let found = stream.get(at as usize..at as usize + to.len());
                    found.is_some_and(|found| {
                        to.copy_from_slice(found);
                        true
                    })
                }),
            );
        }
        if let MessageRule::Delimiter(delimiter) = rule {
            let most =
                stream.len() + (pieces.len() + stream.len() / WINDOW) * delimiter.bytes().len();
            assert!(looked_at <= most, "{looked_at} of {}", stream.len());
        }
        reported
    }

    fn delimiter(bytes: &[u8]) -> MessageRule {
        MessageRule::Delimiter(Delimiter::new(bytes).unwrap())
    }

    fn length(adjustment: i16, maximum: u32) -> MessageRule {
        MessageRule::Length(LengthPrefix {
            offset: 1,
            width: 2,
            is_little_endian: false,
            adjustment,
            maximum,
        })
    }

    #[test]
    fn a_delimiter_is_found_however_it_comes() {
        let blank = delimiter(b"\r\n\r\n");
        let pieces: &[&[u8]] = &[b"GET / HTTP/1.1\r\n", b"a: b\r", b"\n\r", b"\n", b"GET"];
        assert_eq!(
            reported(blank, pieces, 0),
            [false, false, false, true, true]
        );
        assert_eq!(reported(blank, pieces, 25), [false; 5], "that was read");
        let byte_by_byte: Vec<&[u8]> = b"ab\r\n\r\n".chunks(1).collect();
        assert_eq!(
            reported(blank, &byte_by_byte, 0),
            [false, false, false, false, false, true]
        );
        // At every place of a window.
        for before in WINDOW - 8..WINDOW + 8 {
            let mut whole = vec![b'x'; before];
            whole.extend_from_slice(b"\r\n\r\n");
            assert_eq!(
                reported(blank, &[&whole], 0),
                [true],
                "{before} bytes before it"
            );
            assert_eq!(reported(blank, &[&whole[..before + 3]], 0), [false]);
        }
    }

    #[test]
    fn who_never_ends_a_message_has_each_byte_looked_at_once() {
        let pieces = vec![&[b'\r'; 100][..]; 200];
        assert!(
            reported(delimiter(b"\r\n"), &pieces, 0)
                .iter()
                .all(|whole| !whole)
        );
    }

    #[test]
    fn a_message_is_as_long_as_it_says() {
        let pieces: &[&[u8]] = &[b"a\0", b"\x03xy", b"z", b"b\0\x01", b"xc"];
        assert_eq!(
            reported(length(0, 10), pieces, 0),
            [false, false, true, true, true]
        );
        assert_eq!(
            reported(length(0, 10), pieces, 6),
            [false, false, false, false, true]
        );
        // Of no bytes, one behind the other.
        assert_eq!(
            reported(length(0, 10), &[b"a\0\0b\0\0", b"c\0"], 6),
            [false, false]
        );
        assert_eq!(
            reported(length(-3, 10), &[b"a\0\x03", b"b\0\x04"], 3),
            [false, false]
        );
    }

    /// To find a place in the stream takes longer than to read a length.
    #[test]
    fn short_messages_are_looked_for_together() {
        let stream = b"a\0\x01x".repeat(10_000);
        let mut messages = Messages::new(untimed(length(0, 10)), 0);
        let mut times = 0;
        let whole = !messages.are_incomplete([39_996, 40_000], |at, to| {
            times += 1;
            to.copy_from_slice(&stream[at as usize..at as usize + to.len()]);
            true
        });
        assert!(whole && times <= 40, "{times}");
    }

    #[test]
    fn what_is_no_message_is_not_waited_for() {
        assert_eq!(
            reported(length(0, 10), &[b"a\0\x0b", b"x"], 0),
            [true, true]
        );
        assert_eq!(reported(length(-4, 10), &[b"a\0\x03"], 0), [true]);
    }

    #[test]
    fn the_first_piece_says_how_long_the_rest_of_it_is_waited_for() {
        let rule = delimiter(b"\n");
        let mut messages = Messages::new(TimedRule { rule, within_ms: 2 }, 0);
        messages.put_off(Instant(100));
        messages.put_off(Instant(1000));
        assert_eq!(messages.piece_due(), Instant(2100));
        messages.note_woken();
        assert!(messages.piece_due().is_never());
        messages.put_off(Instant(5000));
        assert_eq!(messages.piece_due(), Instant(7000));
        messages.set_within(0);
        messages.put_off(Instant(6000));
        assert!(messages.piece_due().is_never());
    }
}

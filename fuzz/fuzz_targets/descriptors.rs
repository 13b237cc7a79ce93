//! What the other side of the shared memory, or of a link, could have written: it is refused,
//! or it means something, and then means the same when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_hostif::attach::Message;
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, Completion, DATAGRAM_HEADER, DatagramRecord, Request,
};
use longshore_link::protocol::Parser;

/// What comes over a link, in two pieces.
fn link(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let (mut parser, mut taken) = (Parser::default(), Vec::new());
    for piece in [first, second] {
        parser.push(piece);
        while let Ok(Some(message)) = parser.peek() {
            message.encode(&mut taken);
            parser.take();
        }
    }
    assert_eq!(taken, bytes[..taken.len()]);
}

fuzz_target!(|bytes: &[u8]| {
    link(bytes);
    let _ = Message::decode(bytes);
    let mut words = [0_u64; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    }
    if let Ok(request) = Request::decode(&words) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(completion) = Completion::decode(&words) {
        assert_eq!(Completion::decode(&completion.encode()), Ok(completion));
    }
    if let Some(record) = bytes.first_chunk::<ACCEPT_RECORD>() {
        let _ = AcceptRecord::decode(record);
    }
    if let Some(record) = bytes.first_chunk::<DATAGRAM_HEADER>() {
        let _ = DatagramRecord::decode(record);
    }
});

//! Messages come back from their bytes, and nothing that is none is taken for one.

use super::*;
use crate::SocketId;
use proptest::prelude::*;

#[test]
fn messages_come_back() {
    let all = [
        Message::NewSession(SessionOptions::default()),
        Message::NewSession(SessionOptions {
            congestion: Some(2),
            kernel_too: Some(true),
            without_immediate_data: true,
        }),
        Message::NewSession(SessionOptions {
            congestion: None,
            kernel_too: Some(false),
            without_immediate_data: false,
        }),
        Message::Session(Token([7; 16])),
        Message::Join(Token([9; 16])),
        Message::Welcome(3, Geometry::DEFAULT),
        Message::Eventfd {
            waiter: 12,
            ask: u64::MAX,
        },
        Message::Owner {
            socket: SocketId {
                index: 3,
                generation: 4,
            },
            signals: 2,
            ask: 1 << 40,
        },
        Message::Child(Token([5; 16]), 9),
        Message::Known,
        Message::Refused(Refusal::Draining),
    ];
    for m in all {
        assert_eq!(Message::decode(&m.encode()).unwrap(), m);
    }
}

#[test]
fn another_version_is_told_apart() {
    let mut bytes = Message::NewSession(SessionOptions::default()).encode();
    // Both the newest that it speaks and the oldest.
    bytes[12] += 1;
    bytes[14] = bytes[12];
    assert!(matches!(
        Message::decode(&bytes),
        Err(AttachError::Refused(Refusal::Version))
    ));
}

#[test]
#[cfg_attr(miri, ignore = "it has no sockets of packets")]
fn who_is_turned_away_is_told_why_whenever_he_asks() {
    use rustix::net::socketpair;
    for early in [true, false] {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        if early {
            ask(
                ours.as_fd(),
                &Message::NewSession(SessionOptions::default()),
            )
            .unwrap();
        }
        turn_away(&theirs, Refusal::NoResources);
        drop(theirs);
        if !early {
            ask(
                ours.as_fd(),
                &Message::NewSession(SessionOptions::default()),
            )
            .unwrap();
        }
        let (answer, _) = receive(ours.as_fd()).unwrap();
        assert_eq!(answer, Message::Refused(Refusal::NoResources), "{early}");
    }
}

#[test]
fn tokens_are_printed_and_read() {
    let token = Token(std::array::from_fn(|i| i as u8 * 11));
    assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
    assert!("xyz".parse::<Token>().is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = Message::decode(&bytes);
    }
}

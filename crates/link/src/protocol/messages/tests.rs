use super::*;
use crate::protocol::{Parser, VERSION};
use longshore_hostif::attach::SessionOptions;
use longshore_hostif::{Geometry, Versions};
use proptest::prelude::*;

const SOCKET: SocketId = SocketId {
    index: ADAPTERS | 77,
    generation: 3,
};

fn comes_back(message: &Message<'_>) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let mut parser = Parser::default();
    // Not a byte less will do.
    parser.push(&bytes[..bytes.len() - 1]);
    assert_eq!(parser.peek(), Ok(None));
    parser.push(&bytes[bytes.len() - 1..]);
    assert_eq!(parser.peek().as_ref(), Ok(&Some(message.clone())));
    // A body that is shorter or longer is none of this kind, unless it ends with bytes of
    // any number.
    let is_open = matches!(message, Message::Payload { .. } | Message::Answer(..));
    let body = &bytes[8..];
    if !is_open {
        let longer = [body, &[0]].concat();
        assert!(Message::decode(message.kind(), &longer).is_err());
        if let Some((_, shorter)) = body.split_last() {
            assert!(Message::decode(message.kind(), shorter).is_err());
        }
    }
}

fn routes() -> Vec<Route> {
    let route = |address: &str, prefix_len, local, scope| Route {
        address: address.parse().unwrap(),
        prefix_len,
        local,
        scope,
    };
    vec![
        route("10.77.0.2", 24, true, 0),
        route("0.0.0.0", 0, false, 7),
        route("fe80::1", 64, true, 5),
    ]
}

#[test]
fn each_message_comes_back() {
    let words = Words {
        send_limit: 1,
        unreported_limit: 2,
        errno: 3,
        reports: 4,
        sent: 5 << 32,
        waits: true,
    };
    let accepted = Accepted {
        listener: SocketId {
            index: 1,
            generation: 2,
        },
        socket: SOCKET,
        at: 640,
        local: "10.77.0.2:80"
            .parse::<std::net::SocketAddr>()
            .unwrap()
            .into(),
        peer: "[fe80::1%3]:9"
            .parse::<std::net::SocketAddr>()
            .unwrap()
            .into(),
        send_limit: 1 << 20,
    };
    let options = SessionOptions {
        congestion: Some(2),
        kernel_too: Some(true),
        ..SessionOptions::default()
    };
    for message in [
        Message::Hello(Hello::ours(SessionOptions::default())),
        Message::Hello(Hello::ours(options)),
        Message::Welcome(Welcome {
            geometry: Geometry::DEFAULT,
            engine_alone: true,
        }),
        Message::Refused(Refusal::Protocol),
        Message::Descriptor(std::array::from_fn(|i| i as u64 * 0x0123_4567_89ab)),
        Message::Answer([9; 8], b"cubic"),
        Message::Accepted(accepted),
        Message::Words(SOCKET, words),
        Message::Table(Table {
            routes: routes(),
            loopback: Loopback::Engine,
            link_mtu: [1500, 1280],
            has_narrow_paths: true,
            congestion: 1,
        }),
        Message::Gone(SOCKET),
        Message::Bye,
    ] {
        comes_back(&message);
    }
}

#[test]
fn releases_that_do_not_understand_each_other_know_it() {
    let ours = Hello::ours(SessionOptions::default());
    assert!(ours.is_understood());
    let newer = Hello {
        version: VERSION + 1,
        ..ours
    };
    assert!(!newer.is_understood());
    let older = Hello {
        interface: Versions::OURS.oldest - 1,
        ..ours
    };
    assert!(!older.is_understood());
}

#[test]
fn values_that_cannot_be_are_refused() {
    let mut bytes = Vec::new();
    let table = Table {
        routes: routes(),
        ..Table::default()
    };
    Message::Table(table).encode(&mut bytes);
    // The prefix of the first route, which is of IPv4.
    let at = 8 + 2 + 12 + 1 + 16;
    assert_eq!(bytes[at], 24);
    bytes[at] = 33;
    let refused = Message::decode(kind::TABLE, &bytes[8..]);
    assert_eq!(refused, Err(BadMessage::Field(kind::TABLE, "prefix")));
    assert_eq!(Message::decode(99, &[]), Err(BadMessage::Kind(99)));
    let long = vec![0; 16 + PAYLOAD + 1];
    let refused = Message::decode(kind::PAYLOAD, &long);
    assert!(matches!(refused, Err(BadMessage::Length(..))));
}

proptest! {
    #[test]
    fn payload_comes_back(at: u64, index: u32, generation: u32, bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        let socket = SocketId { index, generation };
        comes_back(&Message::Payload { socket, at, bytes: &bytes });
    }

    /// What is taken for a message says so again: there are no two ways to say one thing.
    #[test]
    fn what_is_understood_is_said_the_same_way(kind in 0u32..13, body in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..200)) {
        if let Ok(message) = Message::decode(kind, &body) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(&bytes[8..], &body[..]);
        }
    }
}

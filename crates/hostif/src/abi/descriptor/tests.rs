//! Every descriptor comes back as it went; no message breaks the decoder.

use super::*;
use proptest::prelude::*;
use std::net::IpAddr;

fn socket() -> impl Strategy<Value = SocketId> {
    any::<(u32, u32)>().prop_map(|(index, generation)| SocketId { index, generation })
}

fn address() -> impl Strategy<Value = Address> {
    any::<[u64; 3]>().prop_map(Address)
}

fn numbered() -> impl Strategy<Value = Numbered> {
    any::<(IpAddr, u16)>().prop_map(|(ip, number)| Numbered::new(ip, number))
}

fn waiter() -> impl Strategy<Value = Option<u16>> {
    proptest::option::of(0u16..65_000)
}

pub(super) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (socket(), any::<bool>(), 0u8..16).prop_map(|(socket, stream, flags)| Request::Open {
            socket,
            kind: if stream {
                SocketKind::Stream
            } else {
                SocketKind::Datagram
            },
            flags: OpenFlags::from_bits_truncate(flags),
        }),
        (socket(), any::<u32>(), waiter(), address()).prop_map(|(socket, tag, waiter, local)| {
            Request::Bind {
                socket,
                tag,
                waiter,
                local,
            }
        }),
        (socket(), any::<u32>(), waiter(), any::<u32>()).prop_map(
            |(socket, tag, waiter, backlog)| Request::Listen {
                socket,
                tag,
                waiter,
                backlog
            }
        ),
        (socket(), any::<u32>(), waiter(), address()).prop_map(|(socket, tag, waiter, peer)| {
            Request::Connect {
                socket,
                tag,
                waiter,
                peer,
            }
        }),
        (socket(), any::<(u64, u64, u16)>(), 0..=crate::MAX_IMMEDIATE).prop_map(
            |(socket, (snd_edge, rcv_consumed, flags), immediate)| {
                Request::Edges {
                    socket,
                    snd_edge,
                    rcv_consumed,
                    flags: EdgeFlags::from_bits_truncate(flags),
                    immediate: immediate as u16,
                }
            }
        ),
        (socket(), any::<(u64, u64)>()).prop_map(|(socket, (snd_edge, rcv_consumed))| {
            Request::Urgent {
                socket,
                snd_edge,
                rcv_consumed,
            }
        }),
        (
            socket(),
            any::<(u64, u64, u8)>(),
            socket(),
            any::<(u64, u64)>()
        )
            .prop_map(
                |(socket, (snd_edge, rcv_consumed, flags), source, (from, to))| Request::Forward {
                    socket,
                    snd_edge,
                    rcv_consumed,
                    flags: EdgeFlags::from_bits_retain(flags.into()),
                    source,
                    from,
                    to,
                }
            ),
        (
            socket(),
            (0..1u64 << 48, 0..1u64 << 48),
            any::<(u8, u16, u32, u32)>()
        )
            .prop_map(
                |(socket, (snd_edge, rcv_consumed), (flags, file, offset, len))| {
                    Request::SendFile {
                        socket,
                        snd_edge,
                        rcv_consumed,
                        flags: EdgeFlags::from_bits_retain(flags.into()) - EdgeFlags::CLOSE,
                        extent: FileExtent { file, offset, len },
                    }
                }
            ),
        (
            socket(),
            any::<(u64, u64)>(),
            proptest::option::of(any::<u32>())
        )
            .prop_map(
                |(socket, (snd_edge, rcv_consumed), linger)| Request::Close {
                    socket,
                    snd_edge,
                    rcv_consumed,
                    linger
                }
            ),
        (socket(), 1u16..32, any::<u64>()).prop_map(|(socket, name, value)| Request::SetOption {
            socket,
            name: OptionName::from_raw(name).unwrap(),
            value,
        }),
        (socket(), any::<u32>(), waiter(), 1u64..4).prop_map(|(socket, tag, waiter, query)| {
            Request::Query {
                socket,
                tag,
                waiter,
                query: Query::from_raw(query).unwrap(),
            }
        }),
        (socket(), any::<u32>(), waiter()).prop_map(|(socket, tag, waiter)| Request::Owner {
            socket,
            tag,
            waiter,
        }),
        (socket(), any::<(u32, bool)>(), waiter(), address()).prop_map(
            |(socket, (tag, join), waiter, group)| Request::Group {
                socket,
                tag,
                waiter,
                group,
                join
            }
        ),
        (
            socket(),
            any::<u32>(),
            waiter(),
            (numbered(), numbered(), 0..SourceRequest::ALL.len())
        )
            .prop_map(
                |(socket, tag, waiter, (group, source, change))| Request::Sources {
                    socket,
                    tag,
                    waiter,
                    group,
                    source,
                    change: SourceRequest::ALL[change],
                }
            ),
        (socket(), any::<u32>(), waiter(), address()).prop_map(|(socket, tag, waiter, to)| {
            Request::TooLong {
                socket,
                tag,
                waiter,
                to,
            }
        }),
        (socket(), any::<u32>(), waiter()).prop_map(|(socket, tag, waiter)| Request::Cancel {
            socket,
            tag,
            waiter,
        }),
        socket().prop_map(|socket| Request::Subscribe { socket }),
        socket().prop_map(|socket| Request::Unsubscribe { socket }),
    ]
}

pub(super) fn completion() -> impl Strategy<Value = Completion> {
    prop_oneof![
        (
            socket(),
            any::<u32>(),
            any::<u16>(),
            any::<u64>(),
            address()
        )
            .prop_map(|(socket, tag, errno, value, address)| Completion::Done {
                socket,
                tag,
                errno,
                value,
                address
            }),
        (socket(), any::<(u64, u64, u8, u16, u64)>()).prop_map(
            |(socket, (rcv_edge, snd_acked, flags, errno, rcv_urgent))| {
                let flags = EdgeFlags::from_bits_retain(flags.into());
                Completion::Edges {
                    socket,
                    edges: Edges {
                        rcv_edge,
                        snd_acked,
                        flags,
                        errno,
                        rcv_urgent,
                    },
                }
            }
        ),
        Just(Completion::More),
    ]
}

proptest! {
    #[test]
    fn requests_come_back(r in request()) {
        prop_assert_eq!(Request::decode(&r.encode()), Ok(r));
    }

    #[test]
    fn completions_come_back(c in completion()) {
        prop_assert_eq!(Completion::decode(&c.encode()), Ok(c));
    }

    #[test]
    fn any_message_is_survived(mut m: [u64; 8], kind in 0u8..80) {
        let _ = (Request::decode(&m), Completion::decode(&m));
        m[0] = m[0] & !0xff | u64::from(kind);
        let _ = (Request::decode(&m), Completion::decode(&m));
    }
}

#[test]
fn unknown_options_are_refused() {
    let mut m = Request::SetOption {
        socket: SocketId {
            index: 1,
            generation: 1,
        },
        name: OptionName::NoDelay,
        value: 1,
    }
    .encode();
    m[2] = 99;
    assert!(matches!(
        Request::decode(&m),
        Err(BadDescriptor::Field {
            field: "option",
            ..
        })
    ));
}

/// Edges that are near and bring nothing with them say of a file what they append.
#[test]
fn edges_say_which_bytes_of_a_file_they_append() {
    let socket = SocketId {
        index: 1,
        generation: 2,
    };
    let extent = FileExtent {
        file: 1,
        offset: 2,
        len: 3,
    };
    let edges = |snd_edge, immediate| Request::Edges {
        socket,
        snd_edge,
        rcv_consumed: 5,
        flags: EdgeFlags::PUSH,
        immediate,
    };
    let reported = Request::SendFile {
        socket,
        snd_edge: 9,
        rcv_consumed: 5,
        flags: EdgeFlags::PUSH,
        extent,
    };
    assert_eq!(edges(9, 0).sending(extent), reported);
    for other in [
        edges(1 << 48, 0),
        edges(9, 4),
        Request::Subscribe { socket },
    ] {
        assert_eq!(other.sending(extent), other);
    }
}

#[test]
fn one_request_opens_a_socket() {
    let socket = SocketId {
        index: 1,
        generation: 2,
    };
    let open = Request::Open {
        socket,
        kind: SocketKind::Stream,
        flags: OpenFlags::empty(),
    };
    assert!(Request::opens(&open.encode()));
    assert!(!Request::opens(&Request::Subscribe { socket }.encode()));
}

/// It is in the stream, and in one chunk of it.
#[test]
fn payload_lies_in_one_chunk_of_its_stream() {
    let chunk = crate::CHUNK as u64;
    let fits = |rcv_edge, len| {
        let data = Data {
            socket: SocketId {
                index: 1,
                generation: 2,
            },
            flags: EdgeFlags::empty(),
            rcv_edge,
            snd_acked: 0,
            len,
            chunk: 3,
        };
        data.fits()
    };
    assert!(fits(5, 5) && fits(6, 5) && !fits(4, 5));
    assert!(fits(chunk, 5) && !fits(chunk + 4, 5) && fits(chunk + 5, 5));
    assert!(!fits(5, 0) && !fits(1 << 48, 5));
}

#[test]
fn an_interface_that_there_is_not_is_none_in_particular() {
    for interface in [Interface::Any, Interface::Loopback, Interface::Link] {
        assert_eq!(Interface::from_raw(interface as u64), interface);
    }
    for raw in [3, 1 << 32 | 1, u64::MAX] {
        assert_eq!(Interface::from_raw(raw), Interface::Any);
    }
}

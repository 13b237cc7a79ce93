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
        Message::Welcome(
            9,
            Geometry {
                workers: 64,
                ..Geometry::SMALL
            },
        ),
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
        Message::Renew(
            Token([3; 16]),
            SessionOptions {
                congestion: Some(1),
                ..SessionOptions::default()
            },
        ),
        Message::Refused(Refusal::Draining),
        Message::Refused(Refusal::HasSession),
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

const OURS: Token = Token([7; 16]);

/// What `ask` makes of an engine that answers so: that, and what the engine was asked.
#[cfg(not(miri))]
fn answered<T: Send>(
    answer: &Message,
    fds: &[BorrowedFd<'_>],
    ask: impl FnOnce(&Path) -> T + Send,
) -> (T, Message) {
    use rustix::net::{accept, bind, listen};
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "longshore-attach-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let path = std::env::temp_dir().join(name);
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let listener = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    let both = std::thread::scope(|scope| {
        let asker = scope.spawn(|| ask(&path));
        let connection = accept(&listener).unwrap();
        let (asked, none) = receive(connection.as_fd()).unwrap();
        assert!(none.is_empty());
        send(connection.as_fd(), answer, fds).unwrap();
        (asker.join().unwrap(), asked)
    });
    std::fs::remove_file(&path).unwrap();
    both
}

#[test]
#[cfg(not(miri))]
fn a_new_session_has_its_token_or_is_refused() {
    let options = SessionOptions {
        congestion: Some(2),
        ..SessionOptions::default()
    };
    let new = |answer| {
        let (got, asked) = answered(&answer, &[], |path| new_session(path, options));
        assert_eq!(asked, Message::NewSession(options));
        got.map(|(_, token)| token)
    };
    assert_eq!(new(Message::Session(OURS)).unwrap(), OURS);
    let refused = new(Message::Refused(Refusal::Draining));
    assert!(matches!(
        refused,
        Err(AttachError::Refused(Refusal::Draining))
    ));
    assert!(matches!(new(Message::Known), Err(AttachError::NotAnEngine)));
}

#[test]
#[cfg(not(miri))]
fn a_claim_is_known_or_refused() {
    let claimed = |answer| {
        let (got, asked) = answered(&answer, &[], |path| claim(path, OURS, 9));
        assert_eq!(asked, Message::Child(OURS, 9));
        got
    };
    assert!(claimed(Message::Known).is_ok());
    let refused = claimed(Message::Refused(Refusal::Draining));
    assert!(matches!(
        refused,
        Err(AttachError::Refused(Refusal::Draining))
    ));
    let other = claimed(Message::Session(OURS));
    assert!(matches!(other, Err(AttachError::NotAnEngine)));
}

#[test]
#[cfg(not(miri))]
fn a_session_is_renewed_by_its_own_token_or_not_at_all() {
    let options = SessionOptions {
        without_immediate_data: true,
        ..SessionOptions::default()
    };
    let renewed = |answer| {
        let (got, asked) = answered(&answer, &[], |path| renew(path, OURS, options, own_user()));
        assert_eq!(asked, Message::Renew(OURS, options));
        got.map(drop)
    };
    assert!(renewed(Message::Session(OURS)).is_ok());
    let other = renewed(Message::Session(Token([1; TOKEN_BYTES])));
    assert!(matches!(other, Err(AttachError::NotAnEngine)));
    let refused = renewed(Message::Refused(Refusal::HasSession));
    assert!(matches!(
        refused,
        Err(AttachError::Refused(Refusal::HasSession))
    ));
}

#[cfg(not(miri))]
fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A launcher and a process know whose engine they have lost. What listens at its path now is told
/// nothing, unless it is that user's or root's.
#[test]
#[cfg(not(miri))]
fn a_token_is_told_to_an_engine_of_the_same_user_or_roots_alone() {
    use rustix::net::{accept, bind, listen};
    if own_user() != 0 {
        return;
    }
    const OTHER: u32 = 65_534;
    let directory = std::env::temp_dir().join(format!("longshore-user-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    for (user, predecessor, is_right) in [
        (0, 0, true),
        (0, OTHER, true),
        (OTHER, OTHER, true),
        (OTHER, 0, false),
        (OTHER, OTHER - 1, false),
    ] {
        let path = directory.join("engine");
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let listener = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        // The kernel has the user of the thread that listens.
        let of_user = std::thread::scope(|threads| {
            let opened = threads.spawn(|| {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(user)).unwrap();
                listen(&listener, 2)
            });
            opened.join().unwrap()
        });
        of_user.unwrap();
        let opens = |path: &Path| {
            let options = SessionOptions::default();
            renew(path, OURS, options, predecessor).map(drop)
        };
        let joins = |path: &Path| join_successor(path, OURS, predecessor).map(drop);
        for ask in [&opens as &(dyn Fn(&Path) -> _ + Sync), &joins] {
            std::thread::scope(|threads| {
                let path = &path;
                let asker = threads.spawn(move || ask(path));
                let connection = accept(&listener).unwrap();
                let was_told = receive(connection.as_fd()).is_ok();
                drop(connection);
                assert_eq!(was_told, is_right, "{user} after {predecessor}");
                let is_other = matches!(
                    asker.join().unwrap(),
                    Err(AttachError::OtherUser { uid, .. }) if uid == user
                );
                assert_eq!(is_other, !is_right, "{user} after {predecessor}");
            });
        }
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
#[cfg(not(miri))]
fn whoever_joins_gets_a_channel_and_what_belongs_to_it() {
    use longshore_ring::SharedMemory;
    let memory = SharedMemory::create("test", 8192).unwrap();
    let fds = [memory.as_fd(), memory.as_fd()];
    let joined = |channel, geometry, fds: &[BorrowedFd<'_>]| {
        let answer = Message::Welcome(channel, geometry);
        let (got, asked) = answered(&answer, fds, |path| join(path, OURS));
        assert_eq!(asked, Message::Join(OURS));
        got
    };
    let got = joined(63, Geometry::SMALL, &fds).unwrap();
    assert_eq!((got.channel, got.geometry), (63, Geometry::SMALL));
    assert_eq!((got.token, got.shared_bytes()), (OURS, 8192));
    // A program that this one becomes has none of them.
    for fd in [&got.connection, &got.arena, &got.doorbell] {
        let flags = rustix::io::fcntl_getfd(fd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    let none = Geometry {
        sockets: 0,
        ..Geometry::SMALL
    };
    for (channel, geometry) in [(64, Geometry::SMALL), (0, none)] {
        let got = joined(channel, geometry, &fds);
        assert!(matches!(got, Err(AttachError::NotAnEngine)));
    }
    // As where this process may have one descriptor more, and no two.
    let got = joined(0, Geometry::SMALL, &fds[..1]);
    assert!(matches!(got, Err(AttachError::Broken(Errno::MFILE))));
    let two = Geometry {
        workers: 2,
        ..Geometry::SMALL
    };
    let got = joined(0, two, &[fds[0]; 3]).unwrap();
    assert_eq!((got.geometry, got.further_doorbells.len()), (two, 1));
    for (geometry, given, has) in [(two, 2, 1), (Geometry::SMALL, 3, 2), (two, 4, 3)] {
        match joined(0, geometry, &[fds[0]; 4][..given]) {
            Err(AttachError::Doorbells { doorbells, workers }) => {
                assert_eq!((doorbells, workers), (has, geometry.workers));
            }
            other => panic!("{other:?}"),
        }
    }
    let (refused, _) = answered(&Message::Refused(Refusal::Draining), &[], |path| {
        join(path, OURS)
    });
    assert!(matches!(
        refused,
        Err(AttachError::Refused(Refusal::Draining))
    ));
}

#[test]
#[cfg_attr(miri, ignore = "it has no sockets of packets")]
fn an_engine_that_is_not_there_is_named() {
    let path = Path::new("/proc/no/engine");
    let error = dial(path).unwrap_err();
    assert!(error.to_string().contains("/proc/no/engine"), "{error}");
    // Nor is anything asked of what is not connected.
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let alone = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    let asked = ask(alone.as_fd(), &Message::Known);
    assert!(matches!(asked, Err(AttachError::Broken(Errno::NOTCONN))));
}

#[test]
fn every_refusal_comes_back() {
    for why in [
        Refusal::Version,
        Refusal::UnknownSession,
        Refusal::NoChannel,
        Refusal::NoResources,
        Refusal::Draining,
        Refusal::NotAllowed,
    ] {
        let message = Message::Refused(why);
        assert_eq!(Message::decode(&message.encode()).unwrap(), message);
    }
}

#[test]
fn a_congestion_control_that_there_is_not_is_refused() {
    let count = crate::CONGESTION_NAMES.len() as u8;
    for place in 0..=count {
        let options = SessionOptions {
            congestion: Some(place),
            ..SessionOptions::default()
        };
        let message = Message::NewSession(options);
        let came = Message::decode(&message.encode());
        assert_eq!(came.ok(), (place < count).then_some(message));
    }
}

#[test]
fn a_token_is_just_so_many_digits() {
    let digits = "0".repeat(2 * TOKEN_BYTES);
    assert!(digits.parse::<Token>().is_ok());
    for text in [
        &digits[1..],
        &format!("{digits}0"),
        &format!("é{}", &digits[2..]),
    ] {
        assert!(text.parse::<Token>().is_err(), "{text}");
    }
}

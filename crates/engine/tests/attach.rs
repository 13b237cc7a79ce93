//! What a program can do to an engine by its connection alone: nothing that lasts.

mod common;

use common::engines::{Running, alone, run_with, sleepy, stat};
use common::{Host, TIMEOUT};
use longshore_engine::Config;
use longshore_hostif::attach::{
    AttachError, Message, Refusal, SessionOptions, Token, dial, join, new_session, receive, renew,
    send_as,
};
use longshore_hostif::{Agreed, Arena, ChannelState, Features, Versions};
use rustix::net::sockopt::{set_socket_linger, set_socket_send_buffer_size};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// A TCP socket of the kernel that takes ten seconds to close: what it has sent is not
/// acknowledged before that.
fn slow_to_close() -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    set_socket_send_buffer_size(&stream, 4 << 20).unwrap();
    stream.set_nonblocking(true).unwrap();
    while (&stream).write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&stream, Some(Duration::from_secs(10))).unwrap();
    (listener, stream)
}

/// Sends a message with a descriptor beside it.
fn send_with(connection: impl AsFd, message: &Message, fd: impl AsFd) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let bytes = message.encode();
    sendmsg(
        connection,
        &[IoSlice::new(&bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
}

#[test]
fn a_descriptor_that_is_slow_to_close_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut innocent = Host::new(&engine.path);
    let hostile = Host::new(&engine.path);
    let question = Message::Eventfd { waiter: 0, ask: 1 };
    for settled in [true, false] {
        let (_listener, stream) = slow_to_close();
        let silent = dial(&engine.path).unwrap();
        let connection = if settled {
            &hostile.connection
        } else {
            &silent
        };
        let sent = send_with(connection, &question, &stream);
        let refused = sent == Err(rustix::io::Errno::PERM);
        if refused {
            set_socket_linger(&stream, None).unwrap();
        }
        // The engine has the last copy of it, if it was let through.
        drop(stream);
        let began = Instant::now();
        for _ in 0..50 {
            let socket = innocent.open(longshore_hostif::SocketKind::Stream);
            assert_eq!(innocent.connect(socket, "10.9.9.9:1".parse().unwrap()), 101);
            innocent.close(socket);
        }
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "the engine stood still for {:?}, refused: {refused}",
            began.elapsed()
        );
    }
}

/// The answer to a file that is handed over.
fn hand_over(connection: impl AsFd, fd: impl AsFd) -> rustix::io::Result<Message> {
    send_with(&connection, &Message::File { ask: 7 }, fd)?;
    Ok(receive(connection.as_fd()).unwrap().0)
}

/// A file that may be handed over.
fn file() -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 10_000]).unwrap();
    file
}

#[test]
fn a_file_is_taken_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut innocent = Host::new(&engine.path);
    let host = Host::new(&engine.path);
    let refused = Ok(Message::Refused(Refusal::NoResources));
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    assert_eq!(hand_over(&host.connection, &reader), refused);
    let directory = std::fs::File::open("/").unwrap();
    assert_eq!(hand_over(&host.connection, &directory), refused);
    send_as(
        &Versions::OURS,
        host.connection.as_fd(),
        &Message::File { ask: 1 },
        &[],
    )
    .unwrap();
    assert_eq!(
        receive(host.connection.as_fd()).unwrap().0,
        Message::Refused(Refusal::NoResources)
    );
    // It is nobody's who has no session; one that is not accepted yet may not even send it.
    let silent = hand_over(dial(&engine.path).unwrap(), file());
    assert!(
        silent == refused || silent == Err(rustix::io::Errno::PERM),
        "{silent:?}"
    );
    let taken = Ok(Message::File { ask: 7 });
    for _ in 0..32 {
        assert_eq!(hand_over(&host.connection, file()), taken);
    }
    assert_eq!(hand_over(&host.connection, file()), refused);
    // One that is slow to close holds up nobody but those who hand files over.
    let (_listener, stream) = slow_to_close();
    send_with(&host.connection, &Message::File { ask: 2 }, &stream).unwrap();
    drop(stream);
    let began = Instant::now();
    let joined = Host::new(&engine.path);
    let socket = innocent.open(longshore_hostif::SocketKind::Stream);
    assert_eq!(innocent.connect(socket, "10.9.9.9:1".parse().unwrap()), 101);
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    drop(joined);
}

#[test]
fn a_launcher_may_want_all_payload_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (config, _other) = alone(dir.path());
    let engine = run_with(config, |_| {});
    let options = SessionOptions {
        without_immediate_data: true,
        ..SessionOptions::default()
    };
    let (_launcher, token) = new_session(&engine.path, options).unwrap();
    assert!(!Host::join(&engine.path, token).arena.takes_immediate_data());
    assert!(Host::new(&engine.path).arena.takes_immediate_data());
}

/// What remains of an engine that is gone is a token that its programs have.
#[test]
fn a_session_is_opened_anew_by_its_token_and_its_programs_join() {
    let dir = tempfile::tempdir().unwrap();
    let (config, _other) = alone(dir.path());
    let engine = run_with(config, |_| {});
    let token = Token([9; 16]);
    let joined = join(&engine.path, token).map(drop);
    let is_unknown = |joined: &Result<(), AttachError>| {
        matches!(joined, Err(AttachError::Refused(Refusal::UnknownSession)))
    };
    assert!(is_unknown(&joined), "{joined:?}");
    let options = SessionOptions {
        without_immediate_data: true,
        ..SessionOptions::default()
    };
    let own = rustix::process::geteuid().as_raw();
    let anew = || renew(&engine.path, token, options, own);
    let launcher = anew().unwrap();
    let mut host = Host::join(&engine.path, token);
    assert!(!host.arena.takes_immediate_data());
    let socket = host.open(longshore_hostif::SocketKind::Stream);
    assert_eq!(host.connect(socket, "10.9.9.9:1".parse().unwrap()), 101);
    // Nobody has it a second time, nor by a token that is another session's already.
    let (_other, others) = new_session(&engine.path, SessionOptions::default()).unwrap();
    for taken in [anew(), renew(&engine.path, others, options, own)] {
        let is_refused = matches!(taken, Err(AttachError::Refused(Refusal::HasSession)));
        assert!(is_refused, "{taken:?}");
    }
    drop(launcher);
}

/// Starts an engine, with its directory and its socket open to all users.
fn for_all_users<P>((config, other): (Config, P)) -> (Running, P) {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    let socket = config.socket.clone();
    open(socket.parent().unwrap());
    (run_with(config, |_| open(&socket)), other)
}

/// Does something as another user.
fn as_user<T: Send + 'static>(uid: u32, work: impl FnOnce() -> T + Send + 'static) -> T {
    let work = move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(uid)).unwrap();
        work()
    };
    std::thread::spawn(work).join().unwrap()
}

/// Two users know the token of a session at the engine before. Whichever opens it anew first has
/// a session of its own alone: neither the other's programs nor its launcher notice.
#[test]
fn a_session_that_another_user_has_opened_anew_is_for_that_ones_programs_alone() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (first, second, third) = (65_534, 65_533, 65_532);
    let dir = tempfile::tempdir().unwrap();
    let (engine, _other) = for_all_users(alone(dir.path()));
    let token = Token([9; 16]);
    let path = engine.path.clone();
    let opens = move |uid, without_immediate_data| {
        let (path, options) = (
            path.clone(),
            SessionOptions {
                without_immediate_data,
                ..SessionOptions::default()
            },
        );
        as_user(uid, move || renew(&path, token, options, uid))
    };
    let path = engine.path.clone();
    // In whose session a process is, by what its launcher has wanted of it.
    let joins = move |uid| {
        let path = path.clone();
        as_user(uid, move || {
            let joined = join(&path, token)?;
            let arena = Arena::open(joined.arena, joined.geometry).unwrap();
            Ok(arena.takes_immediate_data())
        })
    };
    let is_unknown = |joined: Result<bool, AttachError>| {
        matches!(joined, Err(AttachError::Refused(Refusal::UnknownSession)))
    };
    let _firsts = opens(first, true).unwrap();
    assert!(!joins(first).unwrap());
    assert!(is_unknown(joins(second)) && is_unknown(joins(0)));
    let _seconds = opens(second, false).unwrap();
    assert!(joins(second).unwrap() && !joins(first).unwrap());
    assert!(is_unknown(joins(third)) && is_unknown(joins(0)));
    // Neither has it twice.
    for uid in [first, second] {
        let again = opens(uid, true);
        let is_refused = matches!(again, Err(AttachError::Refused(Refusal::HasSession)));
        assert!(is_refused, "{again:?}");
    }
    // Root's is for its programs, and for those that have become another user's.
    let roots = opens(0, false).unwrap();
    for uid in [0, first, second, third] {
        assert!(joins(uid).unwrap(), "{uid}");
    }
    drop(roots);
}

/// A token that this engine has given is the launcher's and its programs', whoever they are: nobody
/// opens another session by it.
#[test]
fn a_session_of_this_engine_is_not_opened_anew_by_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (engine, _other) = for_all_users(alone(dir.path()));
    let options = SessionOptions::default();
    let path = engine.path.clone();
    let (launcher, token) = as_user(65_534, move || new_session(&path, options)).unwrap();
    let path = engine.path.clone();
    let again = as_user(65_533, move || renew(&path, token, options, 65_533));
    let is_refused = matches!(again, Err(AttachError::Refused(Refusal::HasSession)));
    assert!(is_refused, "{again:?}");
    let path = engine.path.clone();
    as_user(65_533, move || join(&path, token).map(drop)).unwrap();
    drop(launcher);
}

#[test]
fn a_file_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (engine, _other) = for_all_users(alone(dir.path()));
    let path = engine.path.clone();
    as_user(65_534, move || {
        let host = Host::new(&path);
        assert!(!host.arena.takes_files());
        let answer = hand_over(&host.connection, file());
        let refused = Ok(Message::Refused(Refusal::NoResources));
        // Before Linux 6.16 the descriptor is closed unseen.
        let cannot = Err(rustix::io::Errno::PERM);
        assert!(answer == refused || answer == cannot, "{answer:?}");
    });
    assert!(Host::new(&engine.path).arena.takes_files());
}

#[test]
fn a_channel_cannot_be_claimed_for_somebody_elses_process() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("control");
    let (mut config, other) = alone(dir.path());
    config.control = Some(control.clone());
    let (engine, _other) = for_all_users((config, other));
    let path = engine.path.clone();
    // In a thread with another user's identity, for the handshake.
    as_user(65_534, move || {
        let host = Host::new(&path);
        let (header, channel) = (host.arena.clone(), 7);
        let it = header.control(channel);
        assert!(it.change_state(ChannelState::Free, ChannelState::Reserved));
        it.pid.store(1, std::sync::atomic::Ordering::Release);
        assert!(it.change_state(ChannelState::Reserved, ChannelState::Claimed));
        longshore_hostif::HostChannel::new(header.clone(), channel).flag();
        host.doorbell.ring();
        let began = Instant::now();
        while header.control(channel).state() == ChannelState::Claimed {
            assert!(began.elapsed() < TIMEOUT);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(header.control(channel).state(), ChannelState::Reserved);
    });
    assert_eq!(stat(&control).engine["foreign_claims"], 1);
}

#[test]
fn one_user_cannot_take_all_sessions() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Each takes descriptors of the engine, which is in this process.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("control");
    let (mut config, other) = alone(dir.path());
    config.control = Some(control.clone());
    let (engine, _other) = for_all_users((config, other));
    let path = engine.path.clone();
    // While that user has all it may have, another is served.
    let held = as_user(65_534, move || {
        let mut sessions = Vec::new();
        let refused = loop {
            match new_session(&path, SessionOptions::default()) {
                Ok(session) => sessions.push(session),
                Err(error) => break error,
            }
            assert!(sessions.len() < 5000);
        };
        assert!(matches!(
            refused,
            AttachError::Refused(Refusal::NoResources)
        ));
        sessions.len()
    });
    assert_eq!(held, 256);
    let counts = stat(&control).engine;
    assert!(counts["attach_user_sessions"] >= 1, "{counts:?}");
    Host::new(&engine.path);
}

/// What programs of other releases are answered: those of the next one that speak our version
/// too have a session of ours, the others are refused.
#[test]
fn programs_of_other_releases_are_served_if_they_speak_our_version() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let ours = Versions::OURS;
    let ask = |oldest, newest, message: &Message| {
        let versions = Versions {
            oldest,
            newest,
            features: Features::from_bits_retain(!0),
        };
        let connection = dial(&engine.path).unwrap();
        send_as(&versions, connection.as_fd(), message, &[]).unwrap();
        let (answer, fds) = receive(connection.as_fd()).unwrap();
        (connection, answer, fds)
    };
    let wanted = Message::NewSession(SessionOptions::default());
    let (_launcher, answer, _) = ask(ours.newest, ours.newest + 1, &wanted);
    let Message::Session(token) = answer else {
        panic!("{answer:?}");
    };
    let join = Message::Join(token);
    let (_next, answer, mut fds) = ask(ours.newest, ours.newest + 1, &join);
    let Message::Welcome(_, geometry) = answer else {
        panic!("{answer:?}");
    };
    let arena = Arena::open(fds.swap_remove(0), geometry).unwrap();
    let agreed = Agreed {
        features: Versions::OURS.features,
        ..Agreed::OURS
    };
    assert_eq!(arena.agreed(), agreed);
    let refused = Message::Refused(Refusal::Version);
    for message in [&wanted, &join] {
        let (_, answer, _) = ask(ours.newest + 1, ours.newest + 2, message);
        assert_eq!(answer, refused);
        let (_, answer, _) = ask(1, ours.oldest - 1, message);
        assert_eq!(answer, refused);
    }
}

//! What one user can take of an engine: sockets, memory, connections to its sockets.

use super::{counts, is_served, wait_until};
use crate::common::Host;
use crate::common::engines::{Running, alone, run_with, stat};
use longshore_engine::UserLimits;
use longshore_hostif::SocketKind;
use longshore_hostif::attach::{AttachError, Refusal, SessionOptions, dial, new_session};
use longshore_ports::Port;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// An engine where an ordinary user may have this much; and a user of it. `None` where that
/// cannot be.
fn engine_with_limits(dir: &Path, limits: UserLimits) -> Option<(Running, PathBuf, impl Port)> {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let open_to_all = || std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(dir, open_to_all()).unwrap();
    let control = dir.join("control");
    let (mut config, other) = alone(dir);
    config.control = Some(control.clone());
    let path = config.socket.clone();
    let engine = run_with(config, |engine| {
        engine.limit_users(limits);
        std::fs::set_permissions(&path, open_to_all()).unwrap();
    });
    Some((engine, control, other))
}

/// In a thread with another user's identity, for the handshake.
fn as_nobody<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|s| {
        let thread = s.spawn(|| {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
            what()
        });
        thread.join().unwrap()
    })
}

#[test]
fn some_connections_are_kept_for_root() {
    const FOR_OTHERS: usize = 4096 - 512;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let Some((engine, control, _wire)) = engine_with_limits(dir.path(), UserLimits::default())
    else {
        return;
    };
    let attach = || new_session(&engine.path, SessionOptions::default()).map(drop);
    for _ in 0..10 {
        let began = Instant::now();
        let silent: Vec<_> = (0..FOR_OTHERS)
            .map(|_| dial(&engine.path).unwrap())
            .collect();
        let (refused, ours) = (as_nobody(attach), attach());
        // Silent ones are closed after ten seconds: a slow machine begins again.
        if began.elapsed() > Duration::from_secs(9) {
            continue;
        }
        let full = AttachError::Refused(Refusal::NoResources);
        assert_eq!(refused.map_err(|e| e.to_string()), Err(full.to_string()));
        assert!(ours.is_ok(), "{ours:?}");
        assert!(counts(&control, "attach_all_connections") >= 1);
        drop(silent);
        wait_until("another user is let in", || as_nobody(attach).is_ok());
        return;
    }
    panic!("{FOR_OTHERS} connections take longer than they may be silent, ten times");
}

#[test]
fn a_user_has_as_many_sockets_as_it_may() {
    const NO_BUFFERS: u16 = 105;
    let dir = tempfile::tempdir().unwrap();
    let limits = UserLimits {
        sockets: 10,
        memory: u64::MAX,
    };
    let Some((engine, control, _wire)) = engine_with_limits(dir.path(), limits) else {
        return;
    };
    let any: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let mut theirs = as_nobody(|| {
        // Of all its sessions together.
        let mut hosts = [Host::new(&engine.path), Host::new(&engine.path)];
        let held: Vec<_> = (0..10)
            .map(|i| hosts[i % 2].open(SocketKind::Stream))
            .collect();
        for (i, socket) in held.iter().enumerate() {
            hosts[i % 2].bind(*socket, any).unwrap();
        }
        for host in &mut hosts {
            let more = host.open(SocketKind::Stream);
            assert_eq!(host.bind(more, any), Err(NO_BUFFERS));
            assert_eq!(host.edges(more).unwrap().errno, NO_BUFFERS);
        }
        // One that is given back is another's.
        hosts[0].close(held[0]);
        let again = hosts[0].open(SocketKind::Stream);
        hosts[0].bind(again, any).unwrap();
        hosts
    });
    assert_eq!(counts(&control, "user_sockets"), 2);
    assert_eq!(counts(&control, "sockets"), 10);
    let mut ours = Host::new(&engine.path);
    for _ in 0..20 {
        let socket = ours.open(SocketKind::Stream);
        ours.bind(socket, any).unwrap();
    }
    // Connections that come count, too: none is taken.
    let listener = theirs[1].open(SocketKind::Stream);
    assert_eq!(theirs[1].listen(listener), NO_BUFFERS);
}

#[test]
fn who_takes_more_memory_than_it_may_loses_its_largest_session() {
    let dir = tempfile::tempdir().unwrap();
    let limits = UserLimits {
        sockets: 10,
        memory: 16 << 20,
    };
    let Some((engine, control, _wire)) = engine_with_limits(dir.path(), limits) else {
        return;
    };
    let mut innocent = Host::new(&engine.path);
    let hosts = as_nobody(|| [Host::new(&engine.path), Host::new(&engine.path)]);
    let fill = |host: &Host, mib: u32| {
        for chunk in 0..mib * 16 {
            let place = host.arena.snd_place(chunk, 0, 1 << 16).unwrap();
            host.arena.memory().write(place, &[7; 1 << 16]);
        }
    };
    fill(&innocent, 24);
    fill(&hosts[0], 4);
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(stat(&control).sessions.len(), 3);
    fill(&hosts[1], 14);
    let is_over = |host: &Host| host.arena.header().closed.load(Ordering::Acquire) != 0;
    wait_until("the largest is ended", || is_over(&hosts[1]));
    wait_until("it is gone", || stat(&control).sessions.len() == 2);
    assert!(!is_over(&hosts[0]) && !is_over(&innocent));
    assert!(counts(&control, "user_memory") >= 1);
    is_served(&mut innocent);
    drop(hosts);
}

/// Says something at a control socket, and hears the line that answers it.
fn asked(control: &Path, question: &[u8]) -> String {
    let mut stream = UnixStream::connect(control).unwrap();
    // The engine may have hung up on us already: its reason can be read all the same.
    let _ = stream.write_all(question);
    let mut answer = String::new();
    let _ = BufReader::new(stream).read_line(&mut answer);
    answer
}

#[test]
fn one_user_cannot_take_all_places_at_the_control_socket() {
    let dir = tempfile::tempdir().unwrap();
    let limits = UserLimits::default();
    let Some((engine, control, _wire)) = engine_with_limits(dir.path(), limits) else {
        return;
    };
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&control, open_to_all).unwrap();
    let stat = b"{\"cmd\":\"stat\"}\n";
    as_nobody(|| {
        let silent: Vec<_> = (0..4)
            .map(|_| UnixStream::connect(&control).unwrap())
            .collect();
        let answer = asked(&control, stat);
        assert!(answer.contains("other questions of this user"), "{answer}");
        drop(silent);
        wait_until("its questions are answered again", || {
            asked(&control, stat).contains("engine")
        });
    });
    is_served(&mut Host::new(&engine.path));
}

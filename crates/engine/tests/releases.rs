//! Programs and engines of different releases, when a program attaches first and when it attaches
//! anew to the engine that comes next. A release is what it speaks: versions, and features.

mod common;

use common::engines::{Running, alone, run_with};
use longshore_hostif::attach::{
    Joined, Message, Refusal, SessionOptions, Token, dial, receive, send_as,
};
use longshore_hostif::{Arena, Features, Versions};
use longshore_sockets::{Hooks, Host, Listener, Stream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

const OURS: Versions = Versions::OURS;

/// The oldest that this one speaks with, and with none of what came later.
fn oldest() -> Versions {
    Versions {
        newest: OURS.oldest,
        features: Features::empty(),
        ..OURS
    }
}

/// The one before, which knows of no workers.
fn older() -> Versions {
    Versions {
        newest: OURS.newest - 1,
        features: OURS.features - Features::WORKERS,
        ..OURS
    }
}

/// The next one, with all features that there can be, and without the oldest versions.
fn newer() -> Versions {
    Versions {
        oldest: OURS.newest,
        newest: OURS.newest + 1,
        features: Features::from_bits_retain(!0),
    }
}

/// An engine of this release; the other end of its wire has to be kept.
fn engine(directory: &Path, release: Versions) -> (Running, impl Sized) {
    let (config, wire) = alone(directory);
    let engine = run_with(config, |engine| engine.set_versions(release));
    (engine, wire)
}

/// What a process of a release is answered, and the descriptors beside it.
fn ask(release: Versions, path: &Path, message: &Message) -> (OwnedFd, Message, Vec<OwnedFd>) {
    let connection = dial(path).unwrap();
    send_as(&release, connection.as_fd(), message, &[]).unwrap();
    let (answer, fds) = receive(connection.as_fd()).unwrap();
    (connection, answer, fds)
}

/// Opens a session as a launcher of a release does, or opens it anew: its connection, or why not.
fn launch(
    release: Versions,
    path: &Path,
    before: Option<Token>,
) -> Result<(OwnedFd, Token), Refusal> {
    let options = SessionOptions::default();
    let message = match before {
        None => Message::NewSession(options),
        Some(token) => Message::Renew(token, options),
    };
    match ask(release, path, &message) {
        (connection, Message::Session(token), _) => Ok((connection, token)),
        (_, Message::Refused(why), _) => Err(why),
        (_, other, _) => panic!("{other:?}"),
    }
}

/// Joins as a process of a release does: its place, or why it has none.
fn join(release: Versions, path: &Path, token: Token) -> Result<Joined, Refusal> {
    let (connection, answer, fds) = ask(release, path, &Message::Join(token));
    let (channel, geometry) = match answer {
        Message::Welcome(channel, geometry) => (channel, geometry),
        Message::Refused(why) => return Err(why),
        other => panic!("{other:?}"),
    };
    let mut fds = fds.into_iter();
    Ok(Joined {
        connection,
        channel,
        geometry,
        arena: fds.next().unwrap(),
        doorbell: fds.next().unwrap(),
        further_doorbells: fds.collect(),
        engine: path.to_owned(),
        token,
    })
}

/// Joins, has found that the session speaks what a program and an engine of these releases have in
/// common, and sends from a socket to another.
fn works(program: Versions, engine: Versions, path: &Path, token: Token) {
    let joined = join(program, path, token).unwrap();
    let memory = joined.arena.try_clone().unwrap();
    let agreed = Arena::open(memory, joined.geometry).unwrap().agreed();
    assert_eq!(Some(agreed), engine.agree(&program));
    let host = Host::new(joined, Hooks::default()).unwrap();
    let listener = Listener::bind(host, "10.0.0.1:0".parse().unwrap(), 8).unwrap();
    let near = Stream::connect(host, listener.local().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    for _ in 0..3 {
        near.write_all(b"as before").unwrap();
        let mut got = [0; 9];
        assert_eq!(far.read(&mut got).unwrap(), got.len());
        assert_eq!(&got, b"as before");
    }
}

#[test]
fn programs_attach_to_engines_of_other_releases_first_and_anew() {
    let (programs, engines) = (
        [oldest(), older(), OURS, newer()],
        [oldest(), older(), OURS],
    );
    for program in programs {
        for before in engines {
            let directory = tempfile::tempdir().unwrap();
            let (first, _wire) = engine(directory.path(), before);
            let launched = launch(program, &first.path, None);
            if before.agree(&program).is_none() {
                assert_eq!(launched.map(drop), Err(Refusal::Version));
                continue;
            }
            let (launcher, token) = launched.unwrap();
            works(program, before, &first.path, token);
            drop((launcher, first));
            for after in engines {
                let (next, _wire) = engine(directory.path(), after);
                let renewed = launch(program, &next.path, Some(token));
                if after.agree(&program).is_none() {
                    assert_eq!(renewed.map(drop), Err(Refusal::Version));
                    let joined = join(program, &next.path, token);
                    assert_eq!(joined.map(drop), Err(Refusal::Version));
                    continue;
                }
                let (_launcher, same) = renewed.unwrap();
                assert_eq!(same, token);
                works(program, after, &next.path, token);
            }
        }
    }
}

/// A session speaks what its launcher does: a process of an older release, which lacks some of it,
/// cannot join. If an engine has come that lacks it, too, it can.
#[test]
fn a_process_of_another_release_than_its_launcher_attaches_where_it_speaks_what_the_session_does() {
    let directory = tempfile::tempdir().unwrap();
    let token = Token([5; 16]);
    for (release, joins) in [(OURS, Err(Refusal::Version)), (older(), Ok(()))] {
        let (engine, _wire) = engine(directory.path(), release);
        let (_launcher, _) = launch(OURS, &engine.path, Some(token)).unwrap();
        let joined = join(older(), &engine.path, token);
        assert_eq!(joined.map(drop), joins);
        works(OURS, release, &engine.path, token);
    }
}

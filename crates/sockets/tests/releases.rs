//! Programs of this release beside engines of others.

use longshore_hostif::attach::{
    AttachError, Refusal, SessionOptions, join_successor, new_session, renew,
};
use longshore_hostif::{Features, Versions};
use longshore_sockets::testing::Engine;
use longshore_sockets::{Hooks, Host, JoinError};
use rustix::process::geteuid;

/// An engine of the next release, which speaks this one's version too or not any more.
fn next(speaks_ours: bool) -> Versions {
    let ours = Versions::OURS;
    Versions {
        oldest: ours.newest + u16::from(!speaks_ours),
        newest: ours.newest + 1,
        ..ours
    }
}

#[test]
fn a_program_goes_on_under_the_next_engine_as_long_as_that_speaks_its_version() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::of_release(directory.path(), next(true));
    works(engine.join());
}

#[test]
fn a_program_is_refused_by_an_engine_that_speaks_its_version_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::of_release(directory.path(), next(false));
    let joined = Host::join(engine.path(), engine.token(), Hooks::default());
    let refused = joined.map(drop).unwrap_err();
    let of_version = matches!(
        refused,
        JoinError::Attach(AttachError::Refused(Refusal::Version))
    );
    assert!(of_version, "{refused}");
}

/// A release before this one, which speaks an older version and knows of no workers.
fn older() -> Versions {
    let ours = Versions::OURS;
    Versions {
        newest: ours.newest - 1,
        features: ours.features - Features::WORKERS,
        ..ours
    }
}

/// Sends from one socket of a process to another.
fn works(host: &'static Host) {
    let (near, far) = Engine::pair(host);
    near.write_all(b"as before").unwrap();
    let mut got = [0; 9];
    assert_eq!(far.read(&mut got).unwrap(), got.len());
    assert_eq!(&got, b"as before");
}

/// Its engine is gone, and one of another release comes: what the process knows of the session
/// before, its version and what a socket's name says, holds no more.
#[test]
fn a_program_attaches_anew_to_an_engine_of_another_release() {
    let (ours, next) = (Versions::OURS, next(true));
    for (first, then) in [
        (ours, older()),
        (older(), ours),
        (older(), next),
        (next, older()),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::of_release(directory.path(), first);
        let options = SessionOptions::default();
        let (_launcher, token) = new_session(engine.path(), options).unwrap();
        let before = Host::join(engine.path(), token, Hooks::default()).unwrap();
        works(before);
        let path = engine.path().to_owned();
        drop(engine);
        assert!(before.has_lost_engine());
        std::fs::remove_file(&path).unwrap();
        let engine = Engine::of_release(directory.path(), then);
        let user = before.engine_user().unwrap();
        let _launcher = renew(engine.path(), token, options, user).unwrap();
        let joined = join_successor(engine.path(), token, user).unwrap();
        assert!(!before.is_of(&joined));
        works(Host::new(joined, Hooks::default()).unwrap());
    }
}

#[test]
fn a_session_is_not_opened_anew_at_an_engine_that_speaks_its_version_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::of_release(directory.path(), next(false));
    let (options, user) = (SessionOptions::default(), geteuid().as_raw());
    let renewed = renew(engine.path(), engine.token(), options, user);
    let of_version = matches!(renewed, Err(AttachError::Refused(Refusal::Version)));
    assert!(of_version, "{renewed:?}");
}

//! Programs of this release beside engines of others.

use longshore_hostif::Versions;
use longshore_hostif::attach::{AttachError, Refusal};
use longshore_sockets::testing::Engine;
use longshore_sockets::{Hooks, Host, JoinError};

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
    let host = engine.join();
    let (near, far) = Engine::pair(host);
    near.write_all(b"as before").unwrap();
    let mut got = [0; 9];
    assert_eq!(far.read(&mut got).unwrap(), got.len());
    assert_eq!(&got, b"as before");
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

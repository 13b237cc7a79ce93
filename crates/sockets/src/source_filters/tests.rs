//! Lists of sources, as the engine is told of them and tells of them.

use super::*;
use crate::Socket;
use crate::testing::{Engine, fixture::engine};
use longshore_hostif::{SocketKind, Versions};

const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));

fn source(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 9, 9, number).into()
}

fn listed(included: bool, count: u8) -> Sources {
    Sources {
        included,
        list: (0..count).map(source).collect(),
    }
}

/// A group and a source, each with its number, and what of them.
type Asked = ((IpAddr, u16), (IpAddr, u16), SourceRequest);

/// What `ask` has the engine asked for.
fn asked(engine: &Engine, socket: &Socket, ask: impl FnOnce(Datagrams<'_>)) -> Vec<Asked> {
    engine.seen.lock().unwrap().sources.clear();
    ask(socket.datagrams());
    let sources = engine.seen.lock().unwrap().sources.clone();
    let unpacked = sources.into_iter();
    let unpacked = unpacked.map(|(group, source, how)| (group.get(), source.get(), how));
    unpacked.collect()
}

#[test]
fn a_list_is_proposed_source_by_source_and_set_at_its_end() {
    let (engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    let set = |included, count| {
        let asked = asked(&engine, &socket, |datagrams| {
            let set = datagrams.set_sources(GROUP, &listed(included, count));
            assert_eq!(set, Ok(()));
        });
        let number = asked[0].0.1;
        let (last, proposed) = asked.split_last().unwrap();
        for (place, proposed) in (0..).zip(proposed) {
            let source = (source(place), u16::from(place));
            assert_eq!(*proposed, ((GROUP, number), source, SourceRequest::Propose));
        }
        assert_eq!(proposed.len(), usize::from(count));
        let how = match included {
            true => SourceRequest::Include,
            false => SourceRequest::Exclude,
        };
        let unspecified = (Ipv4Addr::UNSPECIFIED.into(), u16::from(count));
        assert_eq!(*last, ((GROUP, number), unspecified, how));
        number
    };
    let mut numbers = vec![
        set(true, 0),
        set(false, 3),
        set(true, 1),
        set(true, MOST as u8),
    ];
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "each list has its own");
    let refused = asked(&engine, &socket, |datagrams| {
        let set = datagrams.set_sources(GROUP, &listed(true, MOST as u8 + 1));
        assert_eq!(set, Err(SocketError::Refused(Errno::NOBUFS)));
    });
    assert_eq!(refused, []);
}

/// No more are asked for than there are, nor than there can be.
#[test]
fn a_list_is_asked_for_to_its_end() {
    let (engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    let most = MOST as u8;
    for (included, count, read, asks) in [
        (false, 0, 0, 1),
        (true, 1, 1, 1),
        (false, 2, 2, 2),
        (true, 3, 3, 3),
        (true, most, most, MOST),
        (true, most + 1, most, MOST),
    ] {
        let said = listed(included, count);
        *engine.behavior.sources.lock().unwrap() = (included, said.list);
        let asked = asked(&engine, &socket, |datagrams| {
            assert_eq!(datagrams.sources(GROUP), Ok(listed(included, read)));
        });
        assert_eq!(asked.len(), asks, "{count}");
        for (place, asked) in (0..).zip(asked) {
            let source = (Ipv4Addr::UNSPECIFIED.into(), place);
            assert_eq!(asked, ((GROUP, 0), source, SourceRequest::Ask));
        }
    }
}

#[test]
fn one_source_is_changed_by_one_request() {
    let (engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    let group = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 9));
    let from = IpAddr::V6(Ipv6Addr::LOCALHOST);
    for change in [SourceRequest::Join, SourceRequest::Block] {
        let asked = asked(&engine, &socket, |datagrams| {
            assert_eq!(datagrams.change_source(group, from, change), Ok(()));
        });
        assert_eq!(asked, [((group, 0), (from, 0), change)]);
    }
    assert_eq!(unspecified(group), IpAddr::V6(Ipv6Addr::UNSPECIFIED));
}

#[test]
fn sources_are_distinguished_since_the_version_that_has_them() {
    for (newest, has_them) in [(23, false), (24, true)] {
        let directory = tempfile::tempdir().unwrap();
        let versions = Versions {
            newest,
            ..Versions::OURS
        };
        let engine = Engine::of_release(directory.path(), versions);
        let socket = Engine::open(engine.join(), SocketKind::Datagram);
        assert_eq!(socket.datagrams().distinguishes_sources(), has_them);
    }
}

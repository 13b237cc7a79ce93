//! From which sources a socket receives a group: what programs are answered, who gets what is sent,
//! and what routers are told.

use super::groups::{GROUP, change, comes_from, member};
use super::off_path::GEOMETRY;
use super::single::{CLIENT, Single};
use longshore_hostif::{
    Address, Completion, Numbered, OptionName, Request, SocketId, SourceRequest,
};
use longshore_testbed::packets::ipv4;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::protocol;
use longshore_wire::membership::Record;
use std::net::{IpAddr, Ipv4Addr};

use SourceRequest::{Ask, Block, Exclude, Include, Join, Leave, Propose, Unblock};

/// Another host of the network, and one that is nowhere.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const GROUP6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 7));

fn named(ip: impl Into<IpAddr>, number: u16) -> Numbered {
    Numbered::new(ip.into(), number)
}

/// Asks for something of a group's sources: the error, the value and the address of the answer.
fn ask(
    single: &mut Single,
    socket: SocketId,
    (group, source): (Numbered, Numbered),
    change: SourceRequest,
) -> (u16, u64, Address) {
    single.discard_completions();
    let request = Request::Sources {
        socket,
        tag: 1,
        waiter: None,
        group,
        source,
        change,
    };
    single.ask(0, &request);
    single.turn();
    let mut answers = single.reported().into_iter().filter_map(|c| match c {
        Completion::Done {
            errno,
            value,
            address,
            ..
        } => Some((errno, value, address)),
        _ => None,
    });
    answers.next_back().expect("an answer")
}

fn one(single: &mut Single, socket: SocketId, source: Ipv4Addr, change: SourceRequest) -> u16 {
    ask(single, socket, (named(GROUP, 0), named(source, 0)), change).0
}

/// Sets a list, by this number for it.
fn list(
    single: &mut Single,
    socket: SocketId,
    (number, sources): (u16, &[Ipv4Addr]),
    set: SourceRequest,
) -> u16 {
    let group = named(GROUP, number);
    for (place, source) in sources.iter().enumerate() {
        let source = named(*source, place as u16);
        assert_eq!(ask(single, socket, (group, source), Propose).0, 0);
    }
    let count = named(Ipv4Addr::UNSPECIFIED, sources.len() as u16);
    ask(single, socket, (group, count), set).0
}

/// The records of the reports that are sent within three seconds, each as often as it is.
fn told(single: &mut Single) -> Vec<(u8, Vec<Ipv4Addr>)> {
    let mut told = Vec::new();
    for _ in 0..30 {
        single.turn_after(100_000);
        for packet in single.packets() {
            if packet[9] != protocol::IGMP {
                continue;
            }
            let igmp = &packet[4 * usize::from(packet[0] & 15)..];
            assert_eq!(Partial::of(igmp).finish(), 0, "its checksum");
            if igmp[0] != 0x22 {
                told.push((igmp[0], vec![]));
                continue;
            }
            assert_eq!(igmp[12..16], GROUP.octets());
            let (sources, rest) = igmp[16..].as_chunks::<4>();
            assert!(rest.is_empty());
            assert_eq!(usize::from(igmp[11]), sources.len());
            told.push((
                igmp[8],
                sources.iter().map(|s| Ipv4Addr::from(*s)).collect(),
            ));
        }
    }
    told
}

/// A router asks for these sources of the group; one of `version` 2 for all groups.
fn query(single: &mut Single, sources: &[Ipv4Addr], version: u8) {
    let mut igmp = vec![0x11, 10, 0, 0];
    let to = match version {
        3 => {
            igmp.extend(GROUP.octets());
            igmp.extend([2, 125, 0, sources.len() as u8]);
            igmp.extend(sources.iter().flat_map(Ipv4Addr::octets));
            GROUP
        }
        _ => {
            igmp.extend([0; 4]);
            Ipv4Addr::new(224, 0, 0, 1)
        }
    };
    let sum = Partial::of(&igmp).finish();
    igmp[2..4].copy_from_slice(&sum.to_be_bytes());
    single.frame_in(&ipv4((CLIENT, to), protocol::IGMP, 1, &igmp));
}

#[test]
fn a_socket_gets_what_its_sources_send() {
    let mut single = Single::new(GEOMETRY, 1);
    let sockets = [member(&mut single), member(&mut single)];
    let gets = |single: &mut Single, source| comes_from(single, (source, GROUP), &sockets);
    // What no member receives does not come to those either that hear what others have joined.
    assert_eq!(one(&mut single, sockets[0], OTHER, Join), 0);
    assert_eq!(gets(&mut single, CLIENT), [false, false]);
    assert_eq!(gets(&mut single, OTHER), [true, true]);
    assert_eq!(one(&mut single, sockets[1], CLIENT, Join), 0);
    assert_eq!(gets(&mut single, CLIENT), [false, true]);
    assert_eq!(gets(&mut single, OTHER), [true, false]);
    assert_eq!(one(&mut single, sockets[0], CLIENT, Join), 0);
    assert_eq!(gets(&mut single, CLIENT), [true, true]);
    assert_eq!(one(&mut single, sockets[0], CLIENT, Leave), 0);
    assert_eq!(gets(&mut single, CLIENT), [false, true]);
    // With the last one the group is left, and then what others join is heard again.
    assert_eq!(one(&mut single, sockets[0], OTHER, Leave), 0);
    assert_eq!(gets(&mut single, CLIENT), [true, true]);
    assert_eq!(gets(&mut single, OTHER), [false, false]);
    single.set(sockets[0], OptionName::GroupAll, 0);
    assert_eq!(gets(&mut single, CLIENT), [false, true]);
    assert_eq!(change(&mut single, sockets[0], GROUP, true), 0);
    assert_eq!(one(&mut single, sockets[0], CLIENT, Block), 0);
    assert_eq!(gets(&mut single, CLIENT), [false, true]);
    assert_eq!(gets(&mut single, OTHER), [true, false]);
    assert_eq!(one(&mut single, sockets[0], CLIENT, Unblock), 0);
    assert_eq!(gets(&mut single, CLIENT), [true, true]);
    // One that is closed receives nothing for others.
    single.close(sockets[0]);
    single.turn();
    assert_eq!(gets(&mut single, OTHER), [false, false]);
}

/// In the order of Linux's `ip_mc_source` and `ip_mc_msfilter`.
#[test]
fn what_is_refused() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = member(&mut single);
    for not_joined in [Block, Unblock, Leave] {
        assert_eq!(one(&mut single, socket, OTHER, not_joined), 22);
    }
    assert_eq!(one(&mut single, socket, OTHER, Ask), 99);
    assert_eq!(list(&mut single, socket, (1, &[OTHER]), Include), 22);
    assert_eq!(list(&mut single, socket, (1, &[]), Include), 99);
    assert_eq!(one(&mut single, socket, OTHER, Join), 0);
    assert_eq!(one(&mut single, socket, OTHER, Join), 99);
    assert_eq!(one(&mut single, socket, FAR, Leave), 99);
    assert_eq!(one(&mut single, socket, OTHER, Block), 22);
    assert_eq!(change(&mut single, socket, GROUP, true), 98);
    for last in 1..10 {
        assert_eq!(one(&mut single, socket, [192, 0, 2, last].into(), Join), 0);
    }
    assert_eq!(one(&mut single, socket, CLIENT, Join), 105);
    assert_eq!(one(&mut single, socket, OTHER, Join), 105);
    let eleven: Vec<_> = (0..11).map(|last| Ipv4Addr::new(192, 0, 2, last)).collect();
    assert_eq!(list(&mut single, socket, (1, &eleven), Exclude), 105);
    assert_eq!(list(&mut single, socket, (1, &eleven[1..]), Exclude), 0);
    // No group, and a source of the other version.
    let none = (named(OTHER, 0), named(FAR, 0));
    assert_eq!(ask(&mut single, socket, none, Join).0, 22);
    let mixed = (named(GROUP6, 0), named(FAR, 0));
    assert_eq!(ask(&mut single, socket, mixed, Join).0, 22);
    // As many memberships as without sources, whose list need not be empty then.
    for last in 0..19 {
        let names = (named([239, 7, 7, last], 0), named(FAR, 0));
        assert_eq!(ask(&mut single, socket, names, Join).0, 0);
    }
    let names = (named([239, 7, 8, 1], 0), named(FAR, 0));
    assert_eq!(ask(&mut single, socket, names, Join).0, 105);
}

/// The mode of a membership without a list is that of what is asked next, even if that fails.
#[test]
fn the_mode_of_an_empty_list() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = member(&mut single);
    let includes = |single: &mut Single| one_asked(single, socket, 0).0 & 1 == 1;
    change(&mut single, socket, GROUP, true);
    assert!(!includes(&mut single));
    assert_eq!(one(&mut single, socket, OTHER, Leave), 99);
    assert!(includes(&mut single));
    assert_eq!(comes_from(&mut single, (OTHER, GROUP), &[socket]), [false]);
    assert_eq!(one(&mut single, socket, OTHER, Block), 0);
    assert_eq!(one(&mut single, socket, OTHER, Unblock), 0);
    // Now there is one, if empty.
    assert_eq!(one(&mut single, socket, OTHER, Join), 22);
    assert_eq!(list(&mut single, socket, (1, &[]), Exclude), 0);
    assert_eq!(one(&mut single, socket, OTHER, Join), 0);
    assert!(includes(&mut single));
}

fn one_asked(single: &mut Single, socket: SocketId, place: u16) -> (u64, Option<IpAddr>) {
    let names = (named(GROUP, 0), named(Ipv4Addr::UNSPECIFIED, place));
    let (errno, value, address) = ask(single, socket, names, Ask);
    assert_eq!(errno, 0);
    (value, address.get().map(|a| a.ip()))
}

#[test]
fn a_list_is_set_as_it_was_proposed_and_told_so() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = member(&mut single);
    change(&mut single, socket, GROUP, true);
    assert_eq!(list(&mut single, socket, (1, &[FAR, CLIENT]), Include), 0);
    assert_eq!(
        one_asked(&mut single, socket, 0),
        (2 << 8 | 1, Some(FAR.into()))
    );
    assert_eq!(
        one_asked(&mut single, socket, 1),
        (2 << 8 | 1, Some(CLIENT.into()))
    );
    assert_eq!(one_asked(&mut single, socket, 2), (2 << 8 | 1, None));
    assert_eq!(comes_from(&mut single, (CLIENT, GROUP), &[socket]), [true]);
    assert_eq!(comes_from(&mut single, (OTHER, GROUP), &[socket]), [false]);
    // A list is set once; of another number, or shorter or longer, it is not the one proposed.
    let propose = |single: &mut Single, number, source, place| {
        let names = (named(GROUP, number), named(source, place));
        ask(single, socket, names, Propose).0
    };
    let set = |single: &mut Single, number, count| {
        let names = (named(GROUP, number), named(Ipv4Addr::UNSPECIFIED, count));
        ask(single, socket, names, Exclude).0
    };
    assert_eq!(set(&mut single, 1, 2), 22);
    assert_eq!(propose(&mut single, 2, FAR, 0), 0);
    assert_eq!(propose(&mut single, 2, OTHER, 2), 22);
    assert_eq!(propose(&mut single, 3, OTHER, 1), 22);
    assert_eq!(set(&mut single, 2, 2), 22);
    assert_eq!(set(&mut single, 3, 1), 22);
    assert_eq!(set(&mut single, 2, 1), 0);
    assert_eq!(
        one_asked(&mut single, socket, 0),
        (1 << 8, Some(FAR.into()))
    );
    // It is bounded.
    for place in 0..64 {
        assert_eq!(propose(&mut single, 4, FAR, place), 0);
    }
    assert_eq!(propose(&mut single, 4, FAR, 64), 22);
}

/// RFC 3376 sections 5.1 and 5.2, on the wire.
#[test]
fn routers_are_told_of_sources() {
    use Record as R;
    let mut single = Single::new(GEOMETRY, 1);
    let sockets = [member(&mut single), member(&mut single)];
    let twice = |record: Record, sources: &[Ipv4Addr]| vec![(record as u8, sources.to_vec()); 2];
    assert_eq!(told(&mut single), []);
    one(&mut single, sockets[0], OTHER, Join);
    assert_eq!(told(&mut single), twice(R::Allow, &[OTHER]));
    one(&mut single, sockets[1], OTHER, Join);
    assert_eq!(told(&mut single), [], "the link receives no more by that");
    one(&mut single, sockets[1], FAR, Join);
    assert_eq!(told(&mut single), twice(R::Allow, &[FAR]));
    // Answers, by what is asked.
    query(&mut single, &[CLIENT, FAR], 3);
    assert_eq!(told(&mut single), [(R::IsInclude as u8, vec![FAR])]);
    query(&mut single, &[CLIENT], 3);
    assert_eq!(told(&mut single), []);
    query(&mut single, &[], 3);
    assert_eq!(told(&mut single), [(R::IsInclude as u8, vec![OTHER, FAR])]);
    one(&mut single, sockets[1], FAR, Leave);
    assert_eq!(told(&mut single), twice(R::Block, &[FAR]));
    // One that excludes: the lists of both are one by section 3.2.
    assert_eq!(change(&mut single, sockets[1], GROUP, false), 0);
    let both = [OTHER, CLIENT];
    assert_eq!(change(&mut single, sockets[1], GROUP, true), 0);
    assert_eq!(list(&mut single, sockets[1], (1, &both), Exclude), 0);
    assert_eq!(told(&mut single), twice(R::ToExclude, &[CLIENT]));
    query(&mut single, &[CLIENT, FAR], 3);
    assert_eq!(told(&mut single), [(R::IsInclude as u8, vec![FAR])]);
    assert_eq!(change(&mut single, sockets[1], GROUP, false), 0);
    assert_eq!(told(&mut single), twice(R::ToInclude, &[OTHER]));
    single.close(sockets[0]);
    single.turn();
    assert_eq!(told(&mut single), twice(R::Block, &[OTHER]));
}

/// Routers of version 2 hear of members, whatever their sources (RFC 3376 section 7.3.1).
#[test]
fn older_routers_are_told_of_groups_alone() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = member(&mut single);
    query(&mut single, &[], 2);
    assert_eq!(told(&mut single), []);
    one(&mut single, socket, OTHER, Join);
    let (report, leave) = ((0x16, vec![]), (0x17, vec![]));
    assert_eq!(told(&mut single), vec![report.clone(); 2]);
    one(&mut single, socket, FAR, Join);
    told(&mut single);
    one(&mut single, socket, FAR, Leave);
    assert_eq!(told(&mut single), [], "it is still a member");
    query(&mut single, &[], 2);
    assert_eq!(told(&mut single), [report]);
    one(&mut single, socket, OTHER, Leave);
    assert_eq!(told(&mut single), vec![leave; 2]);
}

/// What is received takes as many packets as it needs; what is not, one (RFC 3376 section 4.2.16).
#[test]
fn long_lists_take_several_reports() {
    let mut single = Single::new(GEOMETRY, 1);
    let sockets: Vec<_> = (0..20).map(|_| member(&mut single)).collect();
    for (nth, socket) in sockets.iter().enumerate() {
        for last in 0..10 {
            one(
                &mut single,
                *socket,
                [192, 0, 2, 10 * nth as u8 + last].into(),
                Join,
            );
        }
    }
    told(&mut single);
    query(&mut single, &[], 3);
    let answers = told(&mut single);
    let lens: Vec<_> = answers
        .iter()
        .map(|(kind, list)| (*kind, list.len()))
        .collect();
    assert_eq!(lens, [(1, 128), (1, 72)]);
    let all: std::collections::BTreeSet<_> = answers.into_iter().flat_map(|a| a.1).collect();
    assert_eq!(all.len(), 200);
}

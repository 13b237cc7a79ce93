//! How much of the room for groups and their sources one program takes: another one joins groups
//! all the same.

use super::off_path::GEOMETRY;
use super::single::Single;
use crate::account::Account;
use crate::requests::From;
use longshore_hostif::adapter::Immediate;
use longshore_hostif::{
    Arena, BlockFlags, Completion, Features, HostChannel, Numbered, OpenFlags, Request, SocketId,
    SocketKind, SocketState, SourceRequest,
};
use longshore_net::groups::{MOST, MOST_SOURCES};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// ENOBUFS.
const NO_ROOM: u16 = 105;
/// Groups that one socket may join.
const OF_SOCKET: u32 = 20;
const GROUP: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0, 7));

/// A program with a session of its own.
struct Program {
    session: u32,
    arena: Arc<Arena>,
    channel: HostChannel,
}

impl Program {
    /// One of this user, if users have bounds.
    fn new(single: &mut Single, user: Option<u32>) -> Self {
        let (session, arena) = single.add_session(GEOMETRY, Features::empty());
        if let Some(user) = user {
            let session = single.stack.endpoints.sessions.get_mut(session).unwrap();
            session.uid = user;
            session.account = Some(Arc::new(Account::new(1_000)));
        }
        let channel = HostChannel::new(arena.clone(), 0);
        Self {
            session,
            arena,
            channel,
        }
    }

    /// Asks for something; the error of the answer, if there is one.
    fn ask(&mut self, single: &mut Single, request: &Request) -> Option<u16> {
        let (session, channel) = (self.session, 0);
        let from = From { session, channel };
        let immediate = Immediate::default();
        single.stack.handle_request(from, request, &immediate);
        single.turn();
        let mut errno = None;
        while let Some(said) = self.channel.get().unwrap() {
            if let Some(Completion::Done { errno: of, .. }) = said {
                errno = Some(of);
            }
        }
        self.channel.release();
        errno
    }

    fn socket(&mut self, single: &mut Single) -> SocketId {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).unwrap().unwrap();
        let block = self.arena.block(index);
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        let open = Request::Open {
            socket,
            kind: SocketKind::Datagram,
            flags: OpenFlags::empty(),
        };
        self.ask(single, &open);
        socket
    }

    fn joins(&mut self, single: &mut Single, socket: SocketId, group: IpAddr) -> u16 {
        let request = Request::Group {
            socket,
            tag: 1,
            waiter: None,
            group: SocketAddr::new(group, 0).into(),
            join: true,
        };
        self.ask(single, &request).expect("an answer")
    }

    fn lists(&mut self, single: &mut Single, socket: SocketId, source: Ipv6Addr) -> u16 {
        let request = Request::Sources {
            socket,
            tag: 1,
            waiter: None,
            group: Numbered::new(GROUP, 0),
            source: Numbered::new(source.into(), 0),
            change: SourceRequest::Join,
        };
        self.ask(single, &request).expect("an answer")
    }

    /// The engine closes its sockets.
    fn dies(self, single: &mut Single) {
        let sockets = &single.stack.endpoints.sockets;
        let own = sockets.iter().filter(|(_, s)| s.session == self.session);
        let keys: Vec<u32> = own.map(|(key, _)| key).collect();
        for key in keys {
            single.stack.lifecycle().close_unheld(key);
        }
    }

    /// Joins groups from this number on, with as many sockets as that takes, until one is refused;
    /// how many.
    fn fill(&mut self, single: &mut Single, first: u32, v6: bool) -> u32 {
        let mut socket = None;
        for joined in 0..=MOST as u32 {
            if joined % OF_SOCKET == 0 {
                socket = Some(self.socket(single));
            }
            let errno = self.joins(single, socket.unwrap(), group(first + joined, v6));
            if errno != 0 {
                assert_eq!(errno, NO_ROOM);
                return joined;
            }
        }
        panic!("there is no end to the groups of one program");
    }
}

fn group(number: u32, v6: bool) -> IpAddr {
    match v6 {
        false => Ipv4Addr::from(0xef00_0000 + number).into(),
        true => Ipv6Addr::from((0xff15_u128 << 112) + u128::from(number)).into(),
    }
}

fn refused(single: &Single) -> [u64; 3] {
    let counted = &single.stack.counters.groups;
    [counted.all, counted.session, counted.user]
}

/// A program that joins as many groups of either version as it can leaves room for others, whoever
/// has started it, and has it no more once it is gone.
#[test]
fn a_program_leaves_room_for_the_groups_of_others() {
    for v6 in [false, true] {
        for user in [None, Some(4_000_001)] {
            let mut single = Single::new(GEOMETRY, 1);
            let mut greedy = Program::new(&mut single, user);
            let most = MOST as u32 / if user.is_some() { 4 } else { 2 };
            assert_eq!(greedy.fill(&mut single, 0, v6), most);
            let counted = [0, u64::from(user.is_none()), u64::from(user.is_some())];
            assert_eq!(refused(&single), counted);
            let mut other = Program::new(&mut single, Some(4_000_002));
            let socket = other.socket(&mut single);
            let joined = other.joins(&mut single, socket, group(100_000, v6));
            assert_eq!(joined, 0, "{v6} {user:?}");
            // Another session of the same user has what that one's has left.
            let mut second = Program::new(&mut single, user);
            let socket = second.socket(&mut single);
            let joined = second.joins(&mut single, socket, group(200_000, v6));
            assert_eq!(joined == 0, user.is_none(), "{v6} {user:?}");
            greedy.dies(&mut single);
            for _ in 0..40 {
                single.turn_after(100_000);
            }
            let mut next = Program::new(&mut single, user);
            assert!(next.fill(&mut single, 300_000, v6) > most / 2);
        }
    }
}

/// So does one that lists as many sources of a group as it can.
#[test]
fn a_program_leaves_room_for_the_sources_of_others() {
    const OF_MEMBERSHIP: usize = 64;
    for user in [None, Some(4_000_001)] {
        let mut single = Single::new(GEOMETRY, 1);
        let mut greedy = Program::new(&mut single, user);
        let source = |number: usize| Ipv6Addr::from((0xfd00_u128 << 112) + number as u128);
        let most = MOST_SOURCES / if user.is_some() { 4 } else { 2 };
        let mut socket = None;
        for number in 0..most {
            if number % OF_MEMBERSHIP == 0 {
                socket = Some(greedy.socket(&mut single));
            }
            let listed = greedy.lists(&mut single, socket.unwrap(), source(number));
            assert_eq!(listed, 0, "{number}");
        }
        let socket = greedy.socket(&mut single);
        assert_eq!(greedy.lists(&mut single, socket, source(most)), NO_ROOM);
        let counted = [0, u64::from(user.is_none()), u64::from(user.is_some())];
        assert_eq!(refused(&single), counted);
        assert_eq!(greedy.lists(&mut single, socket, source(0)), 0);
        let mut other = Program::new(&mut single, Some(4_000_002));
        let socket = other.socket(&mut single);
        assert_eq!(other.lists(&mut single, socket, source(most)), 0);
    }
}

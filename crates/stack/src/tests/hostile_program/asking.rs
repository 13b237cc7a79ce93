//! What the hostile program asks for: of sockets that it has, had or never had, with values that
//! may be or not.

use super::super::single::SERVER;
use super::{Hostile, PORT};
use longshore_hostif::{
    Address, EdgeFlags, FileExtent, Numbered, OptionName, Query, Request, SocketId, SourceRequest,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// All that there are.
const OPTIONS: [OptionName; 44] = [
    OptionName::NoDelay,
    OptionName::Cork,
    OptionName::KeepAlive,
    OptionName::KeepIdle,
    OptionName::KeepInterval,
    OptionName::KeepCount,
    OptionName::UserTimeout,
    OptionName::ReceiveBuffer,
    OptionName::SendBuffer,
    OptionName::DeferAccept,
    OptionName::QuickAck,
    OptionName::MaxSegment,
    OptionName::Congestion,
    OptionName::TypeOfService,
    OptionName::TimeToLive,
    OptionName::ReuseAddress,
    OptionName::ReusePort,
    OptionName::V6Only,
    OptionName::Stamped,
    OptionName::Linger2,
    OptionName::SynCount,
    OptionName::WindowClamp,
    OptionName::UdpGro,
    OptionName::FastOpen,
    OptionName::FastOpenConnect,
    OptionName::MaxPacingRate,
    OptionName::ReceiveErrors,
    OptionName::ReceiveErrors6,
    OptionName::TrafficClass,
    OptionName::HopLimit,
    OptionName::GroupAll,
    OptionName::GroupAll6,
    OptionName::PathMtu,
    OptionName::PathMtu6,
    OptionName::NotSentLowat,
    OptionName::ReceiveLowWater,
    OptionName::ReceiveMessages,
    OptionName::ReceiveMessagesWithin,
    OptionName::AcceptOnData,
    OptionName::PortOf,
    OptionName::Interface,
    OptionName::SentKeys,
    OptionName::StampSent,
    OptionName::AddressAlone,
];

impl Hostile {
    /// One that it has, or had, or never had.
    pub(super) fn socket(&mut self) -> SocketId {
        let mut socket = match self.numbers.below(8) {
            0 => SocketId {
                index: self.numbers.below(70) as u32,
                generation: self.numbers.below(4) as u32,
            },
            _ if self.sockets.is_empty() => SocketId {
                index: 0,
                generation: 1,
            },
            _ => self.numbers.pick(&self.sockets),
        };
        if self.numbers.below(16) == 0 {
            socket.generation = socket.generation.wrapping_add(1);
        }
        socket
    }

    /// Near what it might be, or anything.
    fn edge(&mut self, socket: SocketId) -> u64 {
        let block = self.arena.get_block(socket.index);
        let noted = |b: &longshore_hostif::SocketBlock| {
            let (sent, received) = (&b.snd.edge, &b.rcv.edge);
            sent.load(Ordering::Relaxed)
                .max(received.load(Ordering::Relaxed))
        };
        let edge = block.map_or(0, noted);
        match self.numbers.below(8) {
            0 => self.numbers.below(u64::MAX),
            1 => edge.wrapping_sub(self.numbers.below(100_000)),
            2 => edge.wrapping_add(self.numbers.below(1 << 26)),
            3 => 0,
            _ => edge.wrapping_add(self.numbers.below(2_000)),
        }
    }

    /// What an option might be set to, or anything.
    fn value(&mut self, socket: SocketId) -> u64 {
        match self.numbers.below(4) {
            0 => self.edge(socket),
            1 => u64::MAX >> self.numbers.below(64),
            // A rule for messages, by a length or by a delimiter.
            2 => (self.numbers.below(u64::MAX) << 2) | (1 + self.numbers.below(2)),
            _ => self.numbers.below(4),
        }
    }

    /// A group, or an address that is none.
    fn group(&mut self) -> Address {
        let last = self.numbers.below(30) as u8;
        match self.numbers.below(6) {
            0 => self.address(),
            1 => SocketAddr::new([0xff02, 0, 0, 0, 0, 0, 0, u16::from(last)].into(), 0).into(),
            _ => SocketAddr::new([224, 0, 1, last].into(), 0).into(),
        }
    }

    fn numbered_group(&mut self) -> Numbered {
        let group = self.group();
        Numbered::from_address(group).unwrap_or(Numbered::new(Ipv4Addr::UNSPECIFIED.into(), 0))
    }

    /// A source at a place in a list, or anything.
    fn source(&mut self) -> Numbered {
        let (last, place) = (self.numbers.below(5), self.numbers.below(3) as u16);
        let ip = match self.numbers.below(6) {
            0 => return self.numbered_group(),
            1 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last as u16]),
            _ => IpAddr::from([10, 0, 0, last as u8]),
        };
        Numbered::new(ip, place)
    }

    fn address(&mut self) -> Address {
        let port = self.numbers.pick(&[80, PORT, 1_024, 1_025, 0]);
        match self.numbers.below(12) {
            0..3 => Address::NONE,
            3..6 => SocketAddr::new([10, 0, 0, 2].into(), port).into(),
            6 => SocketAddr::new([224, 0, 1, 5].into(), port).into(),
            7 => SocketAddr::new([0; 16].into(), port).into(),
            _ => SocketAddr::new(SERVER.into(), port).into(),
        }
    }

    pub(super) fn request(&mut self) -> Request {
        let socket = self.socket();
        let (snd_edge, rcv_consumed) = (self.edge(socket), self.edge(socket));
        let flags = EdgeFlags::from_bits_retain(self.numbers.below(512) as u16);
        let (tag, waiter) = (1, Some(self.numbers.below(80) as u16));
        match self.numbers.below(22) {
            0 => Request::Bind {
                socket,
                tag,
                waiter,
                local: self.address(),
            },
            1 => Request::Listen {
                socket,
                tag,
                waiter,
                backlog: self.numbers.below(20) as u32,
            },
            2 | 3 => Request::Connect {
                socket,
                tag,
                waiter,
                peer: self.address(),
            },
            4 => Request::Cancel {
                socket,
                tag,
                waiter,
            },
            5 => Request::Urgent {
                socket,
                snd_edge,
                rcv_consumed,
            },
            6 => Request::Forward {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                source: self.socket(),
                from: self.edge(socket),
                to: self.edge(socket),
            },
            20 => Request::SendFile {
                socket,
                snd_edge: snd_edge & ((1 << 48) - 1),
                rcv_consumed: rcv_consumed & ((1 << 48) - 1),
                flags,
                extent: FileExtent {
                    file: self.numbers.pick(&[0, 0, 1, 31, 32, u16::MAX]),
                    offset: self.numbers.pick(&[0, 1 << 16, u32::MAX]),
                    len: self.numbers.pick(&[0, 64, 1 << 16, 1 << 20, u32::MAX]),
                },
            },
            7 => Request::Close {
                socket,
                snd_edge,
                rcv_consumed,
                linger: self.numbers.pick(&[None, Some(0), Some(7)]),
            },
            8 | 16 => Request::SetOption {
                socket,
                name: self.numbers.pick(&OPTIONS),
                value: self.value(socket),
            },
            9 => Request::Query {
                socket,
                tag,
                waiter,
                query: self.numbers.pick(&[
                    Query::TcpInfo,
                    Query::Error,
                    Query::SendQueue,
                    Query::PathMtu,
                    Query::Congestion,
                ]),
            },
            10 => Request::Subscribe { socket },
            11 => Request::Unsubscribe { socket },
            17 => Request::Group {
                socket,
                tag,
                waiter,
                group: self.group(),
                join: self.numbers.below(3) != 0,
            },
            21 => Request::Sources {
                socket,
                tag,
                waiter,
                group: self.numbered_group(),
                source: self.source(),
                change: self.numbers.pick(&SourceRequest::ALL),
            },
            19 => Request::TooLong {
                socket,
                tag,
                waiter,
                to: self.address(),
            },
            18 => Request::Owner {
                socket,
                tag,
                waiter,
            },
            _ => Request::Edges {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                immediate: self.numbers.below(2_000) as u16,
            },
        }
    }
}

//! Which options there are: the tables of those that concern the engine, for sockets of
//! each kind. `getsockopt` and `setsockopt` look them up and own what is done with them.

use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IP6, IPPROTO_TCP as TCP};
use libc::{SOL_SOCKET, SOL_UDP, c_int};
use longshore_hostif::OptionName as O;
use longshore_hostif::OptionName;
use longshore_sockets::{host_bits, more_bits};

/// An option that concerns the engine, or an accepted connection's kernel
/// socket.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// As in `setsockopt`.
    pub level: c_int,
    /// As in `setsockopt`.
    pub name: c_int,
    /// Its place in the set of those that the program has set. Options of
    /// different kinds of socket may share one.
    pub bit: u32,
    /// What is done with it.
    pub what: What,
    /// Whether an accepted connection has it from its listener.
    pub inherited: bool,
}

/// What is done with an option.
#[derive(Debug, Clone, Copy)]
pub enum What {
    /// A number, sent to the engine.
    Number(OptionName),
    /// TCP_NODELAY and TCP_CORK, which are switched with each answer by programs that put
    /// it together from pieces: sent to the engine as a number. Whether one is on stands in
    /// this bit of the socket's own ([`host_bits`]); the kernel socket of one that is
    /// connected is not asked.
    Switch(OptionName, u32),
    /// SO_REUSEADDR and SO_REUSEPORT, sent to the engine as a number: it counts as set only
    /// while it is on, so that it is read without the kernel socket. That of an accepted
    /// connection never has it: nearly all servers set one, it changes nothing for what has a
    /// connection, and to hand it on would take two calls to the kernel for each.
    Reuse(OptionName),
    /// TCP_CONGESTION: a name.
    Name,
    /// SO_MAX_PACING_RATE: a number of 32 or 64 bits, all ones for none.
    Rate(OptionName),
    /// SO_LINGER.
    Linger,
    /// SO_RCVLOWAT.
    LowWater,
    /// SO_PEEK_OFF.
    PeekOffset,
    /// UDP_SEGMENT.
    Segment,
    /// What a datagram leaves with, of one version of IP: each takes it along.
    Leaves(Leaves),
    /// UDP_CORK.
    Cork,
    /// IPV6_MTU, as far as it is done (`least_mtu` says for which values): it counts as set only
    /// while it is on, as the kernel socket is not to be asked for it.
    LeastMtu,
    /// What is to be told beside what is received or of what is sent, by this bit of
    /// [`more_bits`].
    Asks(u64),
    /// TCP_NOTSENT_LOWAT.
    NotSent,
    /// SO_TIMESTAMPING: `timestamping` says which flags are done.
    Timestamping,
    /// SO_RCVTIMEO and SO_SNDTIMEO.
    TimeLimit {
        /// Of which half.
        sending: bool,
    },
    /// What is to be told beside a datagram: it counts as set only while it is on.
    Told,
    /// SO_OOBINLINE.
    UrgentInline,
    /// SO_SELECT_ERR_QUEUE of a datagram socket; that of a stream has no effect in Linux.
    ErrorsUrgent,
    /// SO_BINDTODEVICE and SO_BINDTOIFINDEX, read by the latter: the number of an interface.
    Interface,
    /// IP_BIND_ADDRESS_NO_PORT.
    AddressAlone,
    /// Only asked for.
    Asked,
}

/// What a datagram leaves with.
#[derive(Debug, Clone, Copy)]
pub enum Leaves {
    /// IP_TTL, IPV6_UNICAST_HOPS.
    Hops,
    /// IP_TOS, IPV6_TCLASS.
    Class,
    /// IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS.
    GroupHops,
    /// IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP.
    Looped,
    /// IP_MTU_DISCOVER, IPV6_MTU_DISCOVER: the engine is told by this name.
    PathMtu(OptionName),
    /// IPV6_DONTFRAG.
    Whole,
    /// SO_NO_CHECK, of IPv4 alone.
    Unsummed,
}

const fn asks(level: c_int, name: c_int, bit: u32, kept: u64) -> Known {
    Known {
        level,
        name,
        bit,
        what: What::Asks(kept),
        inherited: false,
    }
}

const fn leaves(level: c_int, name: c_int, bit: u32, what: Leaves) -> Known {
    Known {
        level,
        name,
        bit,
        what: What::Leaves(what),
        inherited: false,
    }
}

const fn number(level: c_int, name: c_int, bit: u32, to: OptionName, inherited: bool) -> Known {
    Known {
        level,
        name,
        bit,
        what: What::Number(to),
        inherited,
    }
}

const fn switch(name: c_int, bit: u32, to: OptionName, kept: u32) -> Known {
    Known {
        level: TCP,
        name,
        bit,
        what: What::Switch(to, kept),
        inherited: true,
    }
}

/// One of SOL_SOCKET, which accepted connections have from their listeners.
pub const fn other(name: c_int, bit: u32, what: What) -> Known {
    Known {
        level: libc::SOL_SOCKET,
        name,
        bit,
        what,
        inherited: true,
    }
}

/// SO_REUSEADDR.
pub const REUSE_ADDRESS: Known = other(libc::SO_REUSEADDR, 7, What::Reuse(O::ReuseAddress));
/// SO_REUSEPORT.
pub const REUSE_PORT: Known = other(libc::SO_REUSEPORT, 8, What::Reuse(O::ReusePort));
/// SO_RCVTIMEO.
pub const RECEIVE_TIMEOUT: Known = other(libc::SO_RCVTIMEO, 5, What::TimeLimit { sending: false });
const SEND_TIMEOUT: Known = other(libc::SO_SNDTIMEO, 6, What::TimeLimit { sending: true });

/// Options of all sockets.
const COMMON: [Known; 14] = [
    number(SOL_SOCKET, libc::SO_KEEPALIVE, 0, O::KeepAlive, true),
    number(SOL_SOCKET, libc::SO_RCVBUF, 1, O::ReceiveBuffer, true),
    number(SOL_SOCKET, libc::SO_SNDBUF, 2, O::SendBuffer, true),
    other(libc::SO_LINGER, 3, What::Linger),
    other(libc::SO_RCVLOWAT, 4, What::LowWater),
    RECEIVE_TIMEOUT,
    SEND_TIMEOUT,
    REUSE_ADDRESS,
    REUSE_PORT,
    number(IP, libc::IP_RECVERR, 16, O::ReceiveErrors, true),
    number(IP6, libc::IPV6_RECVERR, 17, O::ReceiveErrors6, true),
    // With the bits of others that are off as long as nothing sets them.
    other(libc::SO_PEEK_OFF, 4, What::PeekOffset),
    Known {
        level: SOL_SOCKET,
        name: libc::SO_ZEROCOPY,
        bit: 16,
        what: What::Asks(more_bits::ZERO_COPY),
        inherited: true,
    },
    // An accepted connection has it by the bits of its listener.
    Known {
        level: SOL_SOCKET,
        name: libc::SO_TIMESTAMPING,
        bit: 16,
        what: What::Timestamping,
        inherited: false,
    },
];

/// Of the engine's algorithms, and so never the kernel's to check.
pub const CONGESTION: Known = Known {
    level: TCP,
    name: libc::TCP_CONGESTION,
    bit: 20,
    what: What::Name,
    inherited: true,
};

/// What says something of datagrams, groups or binding alone: on a stream it changes nothing, and
/// accepted connections have it from their listeners all the same. All bits are taken, so these
/// share one with options that hardly any listener sets: where one of them was set, each is read
/// of the listener and handed on.
const fn handed_on(level: c_int, name: c_int) -> Known {
    Known {
        level,
        name,
        bit: 22,
        what: What::Asked,
        inherited: true,
    }
}

const ADDRESS_ALONE: Known = Known {
    what: What::AddressAlone,
    ..handed_on(IP, libc::IP_BIND_ADDRESS_NO_PORT)
};

/// Options of TCP.
const STREAM: [Known; 41] = [
    number(IP, libc::IP_TOS, 9, O::TypeOfService, true),
    number(IP6, libc::IPV6_TCLASS, 9, O::TrafficClass, true),
    number(IP, libc::IP_TTL, 10, O::TimeToLive, true),
    number(IP6, libc::IPV6_UNICAST_HOPS, 10, O::HopLimit, true),
    switch(libc::TCP_NODELAY, 11, O::NoDelay, host_bits::NO_DELAY),
    switch(libc::TCP_CORK, 12, O::Cork, host_bits::CORK),
    number(TCP, libc::TCP_KEEPIDLE, 13, O::KeepIdle, true),
    number(TCP, libc::TCP_KEEPINTVL, 14, O::KeepInterval, true),
    number(TCP, libc::TCP_KEEPCNT, 15, O::KeepCount, true),
    number(TCP, libc::TCP_USER_TIMEOUT, 16, O::UserTimeout, true),
    number(TCP, libc::TCP_DEFER_ACCEPT, 17, O::DeferAccept, false),
    number(TCP, libc::TCP_QUICKACK, 18, O::QuickAck, false),
    number(TCP, libc::TCP_MAXSEG, 19, O::MaxSegment, true),
    CONGESTION,
    number(TCP, libc::TCP_LINGER2, 21, O::Linger2, true),
    number(TCP, libc::TCP_SYNCNT, 22, O::SynCount, false),
    number(TCP, libc::TCP_WINDOW_CLAMP, 23, O::WindowClamp, true),
    // All bits are taken; with another's (as those that ask for errors have it, too), a
    // value may be told that was not set: the default. So TCP_MAXSEG and TCP_QUICKACK have
    // theirs for themselves: what is read of these is not what is in use.
    Known {
        level: SOL_SOCKET,
        name: libc::SO_MAX_PACING_RATE,
        bit: 20,
        what: What::Rate(O::MaxPacingRate),
        inherited: true,
    },
    other(libc::SO_OOBINLINE, 3, What::UrgentInline),
    Known {
        level: TCP,
        name: libc::TCP_NOTSENT_LOWAT,
        bit: 24,
        what: What::NotSent,
        inherited: true,
    },
    asks(TCP, libc::TCP_INQ, 3, more_bits::LEFT),
    number(TCP, libc::TCP_FASTOPEN, 17, O::FastOpen, false),
    number(
        TCP,
        libc::TCP_FASTOPEN_CONNECT,
        22,
        O::FastOpenConnect,
        false,
    ),
    INTERFACE,
    handed_on(SOL_SOCKET, libc::SO_BROADCAST),
    handed_on(SOL_SOCKET, libc::SO_RXQ_OVFL),
    handed_on(SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE),
    handed_on(IP, libc::IP_PKTINFO),
    handed_on(IP, libc::IP_RECVTTL),
    handed_on(IP, libc::IP_RECVTOS),
    handed_on(IP, libc::IP_FREEBIND),
    ADDRESS_ALONE,
    number(IP, libc::IP_MTU_DISCOVER, 22, O::PathMtu, true),
    number(IP6, libc::IPV6_MTU_DISCOVER, 22, O::PathMtu6, true),
    handed_on(IP, libc::IP_MULTICAST_LOOP),
    handed_on(IP, UNICAST_INTERFACE.name),
    handed_on(IP6, UNICAST_INTERFACE6.name),
    handed_on(IP6, libc::IPV6_DONTFRAG),
    handed_on(IP6, libc::IPV6_RECVPKTINFO),
    handed_on(IP6, libc::IPV6_RECVHOPLIMIT),
    handed_on(IP6, libc::IPV6_RECVTCLASS),
];

/// `SO_RCVTIMEO_NEW` of asm-generic/socket.h: SO_RCVTIMEO with a structure of its own, which is the
/// same on 64-bit machines.
pub const SO_RCVTIMEO_NEW: c_int = 66;
/// As [`SO_RCVTIMEO_NEW`], of SO_SNDTIMEO.
pub const SO_SNDTIMEO_NEW: c_int = 67;
/// `SO_BINDTOIFINDEX` of asm-generic/socket.h.
pub const SO_BINDTOIFINDEX: c_int = 62;
/// The interface that a stream is bound to.
pub const INTERFACE: Known = Known {
    what: What::Interface,
    ..handed_on(SOL_SOCKET, SO_BINDTOIFINDEX)
};
/// The interface that a datagram socket is bound to.
pub const DATAGRAM_INTERFACE: Known = Known {
    bit: 13,
    ..INTERFACE
};

/// IPV6_ADDRFORM of linux/in6.h.
pub const IPV6_ADDRFORM: c_int = 1;
/// Of linux/in.h.
pub const MCAST_JOIN_GROUP: c_int = 42;
/// As [`MCAST_JOIN_GROUP`].
pub const MCAST_LEAVE_GROUP: c_int = 45;
/// Of linux/in.h, by their names: of IPPROTO_IP.
pub const IP_UNBLOCK_SOURCE: c_int = 37;
/// As [`IP_UNBLOCK_SOURCE`].
pub const IP_BLOCK_SOURCE: c_int = 38;
/// As [`IP_UNBLOCK_SOURCE`].
pub const IP_MSFILTER: c_int = 41;
/// As [`MCAST_JOIN_GROUP`], of either version of IP.
pub const MCAST_BLOCK_SOURCE: c_int = 43;
/// As [`MCAST_BLOCK_SOURCE`].
pub const MCAST_UNBLOCK_SOURCE: c_int = 44;
/// As [`MCAST_BLOCK_SOURCE`].
pub const MCAST_JOIN_SOURCE_GROUP: c_int = 46;
/// As [`MCAST_BLOCK_SOURCE`].
pub const MCAST_LEAVE_SOURCE_GROUP: c_int = 47;
/// As [`MCAST_BLOCK_SOURCE`].
pub const MCAST_MSFILTER: c_int = 48;

/// Whether an option says from which sources a group is received.
#[must_use]
pub const fn is_about_sources(level: c_int, name: c_int) -> bool {
    let of_ipv4 = level == IP && matches!(name, IP_UNBLOCK_SOURCE..=IP_MSFILTER);
    let of_either = matches!(
        name,
        MCAST_BLOCK_SOURCE | MCAST_UNBLOCK_SOURCE | MCAST_JOIN_SOURCE_GROUP..=MCAST_MSFILTER
    );
    of_ipv4 || matches!(level, IP | IP6) && of_either
}
/// `IPV6_FLOWINFO_SEND` of linux/in6.h.
pub const IPV6_FLOWINFO_SEND: c_int = 33;
/// `IPV6_MULTICAST_ALL` of linux/in6.h.
pub const IPV6_MULTICAST_ALL: c_int = 29;
/// What is set here names an interface of the kernel's.
pub const GROUP_INTERFACE: Known = Known {
    level: IP,
    name: libc::IP_MULTICAST_IF,
    bit: 20,
    what: What::Asked,
    inherited: false,
};
/// As [`GROUP_INTERFACE`], by IPV6_MULTICAST_IF.
pub const GROUP_INTERFACE6: Known = Known {
    level: IP6,
    name: libc::IPV6_MULTICAST_IF,
    ..GROUP_INTERFACE
};

/// `IP_UNICAST_IF` of linux/in.h: by which interface what goes to one host leaves.
pub const UNICAST_INTERFACE: Known = Known {
    name: 50,
    ..GROUP_INTERFACE
};
/// As [`UNICAST_INTERFACE`], `IPV6_UNICAST_IF` of linux/in6.h.
pub const UNICAST_INTERFACE6: Known = Known {
    name: 76,
    ..GROUP_INTERFACE6
};

const fn told(level: c_int, name: c_int, bit: u32) -> Known {
    Known {
        level,
        name,
        bit,
        what: What::Told,
        inherited: false,
    }
}

/// IP_PKTINFO.
pub const PACKET_INFO: Known = told(IP, libc::IP_PKTINFO, 14);
/// IPV6_RECVPKTINFO.
pub const PACKET_INFO6: Known = told(IP6, libc::IPV6_RECVPKTINFO, 15);
/// IP_RECVTTL.
pub const HOPS: Known = told(IP, libc::IP_RECVTTL, 22);
/// IPV6_RECVHOPLIMIT.
pub const HOPS6: Known = told(IP6, libc::IPV6_RECVHOPLIMIT, 23);
/// IP_RECVTOS.
pub const CLASS: Known = told(IP, libc::IP_RECVTOS, 24);
/// IPV6_RECVTCLASS.
pub const CLASS6: Known = told(IP6, libc::IPV6_RECVTCLASS, 21);

/// Options of UDP.
const DATAGRAM: [Known; 36] = [
    Known {
        bit: 13,
        inherited: false,
        ..ADDRESS_ALONE
    },
    DATAGRAM_INTERFACE,
    leaves(IP, libc::IP_TOS, 9, Leaves::Class),
    leaves(IP6, libc::IPV6_TCLASS, 9, Leaves::Class),
    leaves(IP, libc::IP_TTL, 10, Leaves::Hops),
    leaves(IP6, libc::IPV6_UNICAST_HOPS, 10, Leaves::Hops),
    leaves(IP, libc::IP_MTU_DISCOVER, 11, Leaves::PathMtu(O::PathMtu)),
    leaves(
        IP6,
        libc::IPV6_MTU_DISCOVER,
        11,
        Leaves::PathMtu(O::PathMtu6),
    ),
    leaves(IP6, libc::IPV6_DONTFRAG, 11, Leaves::Whole),
    PACKET_INFO,
    PACKET_INFO6,
    HOPS,
    HOPS6,
    CLASS,
    CLASS6,
    leaves(IP, libc::IP_MULTICAST_TTL, 18, Leaves::GroupHops),
    leaves(IP6, libc::IPV6_MULTICAST_HOPS, 18, Leaves::GroupHops),
    leaves(IP, libc::IP_MULTICAST_LOOP, 19, Leaves::Looped),
    leaves(IP6, libc::IPV6_MULTICAST_LOOP, 19, Leaves::Looped),
    GROUP_INTERFACE,
    GROUP_INTERFACE6,
    UNICAST_INTERFACE,
    UNICAST_INTERFACE6,
    // All bits are taken here, too.
    number(IP, libc::IP_MULTICAST_ALL, 19, O::GroupAll, false),
    number(IP6, IPV6_MULTICAST_ALL, 19, O::GroupAll6, false),
    number(SOL_UDP, libc::UDP_GRO, 13, O::UdpGro, false),
    Known {
        level: IP6,
        name: libc::IPV6_MTU,
        bit: 12,
        what: What::LeastMtu,
        inherited: false,
    },
    asks(SOL_SOCKET, libc::SO_TIMESTAMP, 13, more_bits::TIMESTAMP),
    asks(
        SOL_SOCKET,
        libc::SO_TIMESTAMPNS,
        13,
        more_bits::TIMESTAMP_NS,
    ),
    asks(SOL_SOCKET, libc::SO_RXQ_OVFL, 13, more_bits::DROPS),
    leaves(SOL_SOCKET, libc::SO_NO_CHECK, 13, Leaves::Unsummed),
    Known {
        inherited: false,
        ..other(libc::SO_SELECT_ERR_QUEUE, 13, What::ErrorsUrgent)
    },
    asks(IP, libc::IP_RECVORIGDSTADDR, 13, more_bits::DESTINATION),
    asks(IP6, libc::IPV6_RECVORIGDSTADDR, 13, more_bits::DESTINATION6),
    Known {
        level: SOL_UDP,
        name: libc::UDP_CORK,
        bit: 13,
        what: What::Cork,
        inherited: false,
    },
    Known {
        level: SOL_UDP,
        name: libc::UDP_SEGMENT,
        bit: 13,
        what: What::Segment,
        inherited: false,
    },
];

/// Whether each has its bit among those of the socket.
const fn fit(table: &[Known]) -> bool {
    let mut i = 0;
    while i < table.len() {
        if table[i].bit + host_bits::OPTIONS_SHIFT >= u32::BITS {
            return false;
        }
        i += 1;
    }
    true
}
const _: () = assert!(fit(&COMMON) && fit(&STREAM) && fit(&DATAGRAM));

/// All of them, for a stream or for datagrams.
pub fn all(stream: bool) -> impl Iterator<Item = &'static Known> {
    let special: &[Known] = if stream { &STREAM } else { &DATAGRAM };
    COMMON.iter().chain(special)
}

/// The one that a call names.
pub fn find(stream: bool, level: c_int, name: c_int) -> Option<&'static Known> {
    let name = match (level, name) {
        (SOL_SOCKET, libc::SO_RCVBUFFORCE) => libc::SO_RCVBUF,
        (SOL_SOCKET, libc::SO_SNDBUFFORCE) => libc::SO_SNDBUF,
        (SOL_SOCKET, libc::SO_BINDTODEVICE) => SO_BINDTOIFINDEX,
        // Times of 64 bits, as the others are where these are read.
        (SOL_SOCKET, SO_RCVTIMEO_NEW) => libc::SO_RCVTIMEO,
        (SOL_SOCKET, SO_SNDTIMEO_NEW) => libc::SO_SNDTIMEO,
        _ => name,
    };
    all(stream).find(|k| (k.level, k.name) == (level, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_once_by_its_level_and_name() {
        for stream in [false, true] {
            for known in all(stream) {
                let same = all(stream).filter(|k| (k.level, k.name) == (known.level, known.name));
                assert_eq!(same.count(), 1, "{known:?}");
                assert!(find(stream, known.level, known.name).is_some());
            }
        }
        let forced = find(true, SOL_SOCKET, libc::SO_RCVBUFFORCE).map(|k| k.name);
        assert_eq!(forced, Some(libc::SO_RCVBUF));
        let wide = find(false, SOL_SOCKET, SO_SNDTIMEO_NEW).map(|k| k.name);
        assert_eq!(wide, Some(libc::SO_SNDTIMEO));
        assert!(find(false, TCP, libc::TCP_NODELAY).is_none());
    }

    #[test]
    fn what_accepted_connections_inherit_has_a_bit_of_its_own() {
        // The bit says that the listener has set it: with another's, an accepted connection
        // would be given what nobody has set.
        let inherited: Vec<_> = all(true)
            .filter(|k| k.inherited && k.level == TCP)
            .collect();
        for known in &inherited {
            let same = inherited.iter().filter(|k| k.bit == known.bit);
            assert_eq!(same.count(), 1, "{known:?}");
        }
    }
}

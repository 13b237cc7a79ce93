//! Which options a program may set: those that are done on the engine as Linux does them,
//! and those that change nothing that a program could miss. All others are refused, as a
//! kernel would refuse them that is older than they are. Nothing is taken and not done.
//!
//! `setsockopt` asks here before anything else. What it passes on, the kernel may still
//! refuse: a value, or an option of another kind of socket.

use super::known;
use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IP6, IPPROTO_TCP as TCP, IPPROTO_UDP as UDP};
use libc::{SOL_SOCKET, c_int};

// Of asm-generic/socket.h.
const SO_BSDCOMPAT: c_int = 14;
const SO_SNDLOWAT: c_int = 19;
const SO_BUSY_POLL_BUDGET: c_int = 70;
const SO_PASSPIDFD: c_int = 76;
const SO_PASSRIGHTS: c_int = 83;
// Of linux/in.h and linux/in6.h.
const IP_HDRINCL: c_int = 3;
const IP_ROUTER_ALERT: c_int = 5;
const IP_NODEFRAG: c_int = 22;
// Of linux/netfilter_ipv4/ip_tables.h, and the same numbers of ip6_tables.h.
const IPT_SO_SET_REPLACE: c_int = 64;
const IPT_SO_SET_ADD_COUNTERS: c_int = 65;
const IPV6_CHECKSUM: c_int = 7;
const IPV6_HOPLIMIT: c_int = 52;
const IPV6_PATHMTU: c_int = 61;

/// The errno with which an option is refused, if it is. `zero` says that the value is a
/// number and zero, or none.
#[must_use]
pub fn refusal(stream: bool, level: c_int, name: c_int, zero: bool) -> Option<c_int> {
    if known::find(stream, level, name).is_some() {
        return None;
    }
    // Looked at before: on an interface of the kernel's, or malformed.
    if known::is_about_sources(level, name) {
        return None;
    }
    match level {
        SOL_SOCKET => of_socket(stream, name),
        IP => of_ipv4(name, zero),
        IP6 => of_ipv6(stream, name),
        TCP if stream => of_tcp(name),
        UDP if !stream => Some(libc::ENOPROTOOPT),
        // Of another protocol: the kernel says so.
        _ => None,
    }
}

fn of_socket(stream: bool, name: c_int) -> Option<c_int> {
    match name {
        // To be asked for alone, or of other kinds of socket: the kernel says so.
        libc::SO_TYPE
        | libc::SO_ERROR
        | libc::SO_DOMAIN
        | libc::SO_PROTOCOL
        | libc::SO_ACCEPTCONN
        | libc::SO_PEERCRED
        | libc::SO_PEERNAME
        | libc::SO_PEERSEC
        | libc::SO_PEERGROUPS
        | libc::SO_COOKIE
        | libc::SO_MEMINFO
        | libc::SO_INCOMING_NAPI_ID
        | libc::SO_BPF_EXTENSIONS
        | libc::SO_PASSCRED
        | libc::SO_PASSSEC
        | SO_SNDLOWAT
        | SO_PASSPIDFD
        | SO_PASSRIGHTS => None,
        // There is nothing to detach: the kernel says so.
        libc::SO_DETACH_FILTER | libc::SO_DETACH_REUSEPORT_BPF => None,
        // Asked for where it counts.
        libc::SO_BROADCAST => None,
        // Without effect in Linux, too.
        SO_BSDCOMPAT | libc::SO_DEBUG => None,
        libc::SO_OOBINLINE if !stream => None,
        libc::SO_NO_CHECK if stream => None,
        // About queues and processors of the kernel that the engine's packets do not pass.
        libc::SO_PRIORITY
        | libc::SO_INCOMING_CPU
        | libc::SO_BUSY_POLL
        | libc::SO_PREFER_BUSY_POLL
        | SO_BUSY_POLL_BUDGET => None,
        // Looked at before (`device`).
        libc::SO_BINDTODEVICE | known::SO_BINDTOIFINDEX => None,
        libc::SO_MARK => Some(libc::EPERM),
        _ => Some(libc::ENOPROTOOPT),
    }
}

fn of_ipv4(name: c_int, zero: bool) -> Option<c_int> {
    match name {
        // The rules of the kernel's firewall, which any socket may set: not about this one.
        IPT_SO_SET_REPLACE | IPT_SO_SET_ADD_COUNTERS => None,
        // Of other kinds of socket, or to be asked for alone.
        IP_HDRINCL | IP_ROUTER_ALERT | IP_NODEFRAG | libc::IP_MTU => None,
        // What is bound to the engine needs no leave to be.
        libc::IP_FREEBIND => None,
        // No options is what there is.
        libc::IP_OPTIONS if zero => None,
        // On an interface of the kernel's: `groups` has looked at it.
        libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP => None,
        known::MCAST_JOIN_GROUP | known::MCAST_LEAVE_GROUP => None,
        // Of datagram sockets: the kernel says so.
        libc::IP_MULTICAST_IF
        | libc::IP_MULTICAST_TTL
        | libc::IP_MULTICAST_LOOP
        | libc::IP_MULTICAST_ALL => None,
        libc::IP_TRANSPARENT => Some(libc::EPERM),
        _ => Some(libc::ENOPROTOOPT),
    }
}

fn of_ipv6(stream: bool, name: c_int) -> Option<c_int> {
    match name {
        IPT_SO_SET_REPLACE | IPT_SO_SET_ADD_COUNTERS => None,
        // Of other kinds of socket, or to be asked for alone.
        IPV6_CHECKSUM | IPV6_HOPLIMIT | IPV6_PATHMTU => None,
        // Of it, Linux uses the interface alone, which was looked at before (`device`).
        libc::IPV6_PKTINFO => None,
        // Asked for where it counts, or said by the kernel.
        libc::IPV6_V6ONLY | known::IPV6_ADDRFORM => None,
        libc::IPV6_FREEBIND => None,
        // Looked at where an address has a label.
        known::IPV6_FLOWINFO_SEND => None,
        // Of datagrams that are cut here: a segment never is.
        libc::IPV6_MTU if stream => None,
        libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP => None,
        known::MCAST_JOIN_GROUP | known::MCAST_LEAVE_GROUP => None,
        // Of datagram sockets: the kernel says so, or keeps what a stream has no use for.
        libc::IPV6_MULTICAST_IF
        | libc::IPV6_MULTICAST_HOPS
        | libc::IPV6_MULTICAST_LOOP
        | known::IPV6_MULTICAST_ALL => None,
        libc::IPV6_TRANSPARENT => Some(libc::EPERM),
        _ => Some(libc::ENOPROTOOPT),
    }
}

fn of_tcp(name: c_int) -> Option<c_int> {
    match name {
        // To be asked for alone.
        libc::TCP_INFO | libc::TCP_CC_INFO | libc::TCP_SAVED_SYN => None,
        // Keys: the caller looks whose peer they are for.
        libc::TCP_MD5SIG | super::SIGNATURE_EXT => None,
        name if super::AUTHENTICATION.contains(&name) => None,
        // Without effect in Linux, too, since 2013.
        libc::TCP_THIN_DUPACK => None,
        libc::TCP_REPAIR
        | libc::TCP_REPAIR_QUEUE
        | libc::TCP_QUEUE_SEQ
        | libc::TCP_REPAIR_OPTIONS
        | libc::TCP_REPAIR_WINDOW => Some(libc::EPERM),
        _ => Some(libc::ENOPROTOOPT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_refused() {
        for stream in [false, true] {
            for known in known::all(stream) {
                assert_eq!(
                    refusal(stream, known.level, known.name, false),
                    None,
                    "{known:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_done_is_refused_as_by_an_older_kernel() {
        let attached = refusal(true, SOL_SOCKET, libc::SO_ATTACH_FILTER, false);
        assert_eq!(attached, Some(libc::ENOPROTOOPT));
        assert_eq!(
            refusal(true, TCP, libc::TCP_REPAIR, false),
            Some(libc::EPERM)
        );
        assert_eq!(
            refusal(false, SOL_SOCKET, libc::SO_MARK, false),
            Some(libc::EPERM)
        );
        assert_eq!(refusal(false, IP, libc::IP_OPTIONS, true), None);
        assert_eq!(
            refusal(false, IP, libc::IP_OPTIONS, false),
            Some(libc::ENOPROTOOPT)
        );
    }
}

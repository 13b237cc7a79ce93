//! The socket API, call by call: what a C program sees on Linux it sees on
//! Longshore, whoever is at the far end.

use longshore_e2e::{conformance, scenarios};

scenarios! {
    /// Bytes over a connection, and how it ends.
    fn stream(bed) within 300 { conformance::run(bed, "stream"); }

    /// splice from one connection to another.
    fn splice(bed) within 300 { conformance::run(bed, "splice"); }

    /// How connections begin and end.
    fn endings(bed) within 300 { conformance::run(bed, "endings"); }

    /// Connecting, listening, accepting, addresses.
    fn connect(bed) within 300 { conformance::run(bed, "connect"); }

    /// select, poll, epoll.
    fn readiness(bed) within 300 { conformance::run(bed, "readiness"); }

    /// Many that become ready together.
    fn many(bed) within 300 { conformance::run(bed, "many"); }

    /// dup, fcntl, ioctl, passing on.
    fn descriptors(bed) within 300 { conformance::run(bed, "descriptors"); }

    /// fork, exec, threads.
    fn processes(bed) within 300 { conformance::run(bed, "processes"); }

    /// Children made without fork(), exec, calls by number.
    fn children(bed) within 300 { conformance::run(bed, "children"); }

    /// Epoll instances that children inherit, however they are made.
    fn inherited(bed) within 300 { conformance::run(bed, "inherited"); }

    /// pthread_cancel.
    fn cancel(bed) within 300 { conformance::run(bed, "cancel"); }

    /// Handlers of signals.
    fn signals(bed) within 300 { conformance::run(bed, "signals"); }

    /// One connection, several processes that wait for it.
    fn shared(bed) within 300 { conformance::run(bed, "shared"); }

    /// Waits by system calls of the program's own.
    fn own_waits(bed) within 300 { conformance::run(bed, "own_waits"); }

    /// getsockopt, setsockopt.
    fn options(bed) within 300 { conformance::run(bed, "options"); }

    /// SO_RCVLOWAT, and MSG_WAITALL beside it.
    fn low_water(bed) within 300 { conformance::run(bed, "low_water"); }

    /// UDP.
    fn datagram(bed) within 300 { conformance::run(bed, "datagram"); }

    /// What datagrams leave with.
    fn departures(bed) within 300 { conformance::run(bed, "departures"); }

    /// Each option is done, or refused.
    fn audit(bed) within 300 { conformance::run(bed, "audit"); }

    /// What is told beside what is received.
    fn told(bed) within 300 { conformance::run(bed, "told"); }

    /// Calls that make no sense.
    fn misuse(bed) within 300 { conformance::run(bed, "misuse"); }

    /// What ICMP has to say, by IP_RECVERR.
    fn errors(bed) within 300 { conformance::run(bed, "errors"); }

    /// Urgent data and SIGURG.
    fn urgent(bed) within 300 { conformance::run(bed, "urgent"); }

    /// SIGIO.
    fn signal_driven(bed) within 300 { conformance::run(bed, "async"); }

    /// Multicast and broadcasts.
    fn groups(bed) within 300 { conformance::run(bed, "groups"); }

    /// Fast Open, as client and as listener.
    fn fastopen(bed) within 300 { conformance::run(bed, "fastopen"); }

    /// Under a filter of system calls.
    fn confined(bed) within 300 { conformance::run(bed, "confined"); }
    /// IPv6, and both versions on one socket.
    fn inet6(bed) within 300 { conformance::run(bed, "inet6"); }

    /// What is told of the machine's interfaces.
    fn interfaces(bed) within 300 { conformance::run(bed, "interfaces"); }

    /// libc's resolver.
    fn names(bed) within 300 { conformance::run(bed, "names"); }

    /// Beside kernel and Unix sockets.
    fn mixing(bed) within 300 { conformance::run(bed, "mixing"); }
}

//! The socket API, call by call: what a C program sees on Linux it sees on
//! Longshore, whoever is at the far end.

use longshore_e2e::{conformance, scenarios};

scenarios! {
    /// Bytes over a connection, and how it ends.
    fn stream(lab) within 300 { conformance::run(lab, "stream"); }

    /// How connections begin and end.
    fn endings(lab) within 300 { conformance::run(lab, "endings"); }

    /// Connecting, listening, accepting, addresses.
    fn connect(lab) within 300 { conformance::run(lab, "connect"); }

    /// select, poll, epoll.
    fn readiness(lab) within 300 { conformance::run(lab, "readiness"); }

    /// Many that become ready together.
    fn many(lab) within 300 { conformance::run(lab, "many"); }

    /// dup, fcntl, ioctl, passing on.
    fn descriptors(lab) within 300 { conformance::run(lab, "descriptors"); }

    /// fork, exec, threads.
    fn processes(lab) within 300 { conformance::run(lab, "processes"); }

    /// Children made without fork(), exec, calls by number.
    fn children(lab) within 300 { conformance::run(lab, "children"); }

    /// pthread_cancel.
    fn cancel(lab) within 300 { conformance::run(lab, "cancel"); }

    /// Handlers of signals.
    fn signals(lab) within 300 { conformance::run(lab, "signals"); }

    /// One connection, several processes that wait for it.
    fn shared(lab) within 300 { conformance::run(lab, "shared"); }

    /// getsockopt, setsockopt.
    fn options(lab) within 300 { conformance::run(lab, "options"); }

    /// UDP.
    fn datagram(lab) within 300 { conformance::run(lab, "datagram"); }

    /// What datagrams leave with.
    fn departures(lab) within 300 { conformance::run(lab, "departures"); }

    /// Each option is done, or refused.
    fn audit(lab) within 300 { conformance::run(lab, "audit"); }

    /// What is told beside what is received.
    fn told(lab) within 300 { conformance::run(lab, "told"); }

    /// Calls that make no sense.
    fn misuse(lab) within 300 { conformance::run(lab, "misuse"); }

    /// What ICMP has to say, by IP_RECVERR.
    fn errors(lab) within 300 { conformance::run(lab, "errors"); }

    /// Urgent data and SIGURG.
    fn urgent(lab) within 300 { conformance::run(lab, "urgent"); }

    /// SIGIO.
    fn signal_driven(lab) within 300 { conformance::run(lab, "async"); }

    /// Multicast and broadcasts.
    fn groups(lab) within 300 { conformance::run(lab, "groups"); }

    /// Fast Open, as client and as listener.
    fn fastopen(lab) within 300 { conformance::run(lab, "fastopen"); }

    /// Under a filter of system calls.
    fn confined(lab) within 300 { conformance::run(lab, "confined"); }
    /// IPv6, and both versions on one socket.
    fn inet6(lab) within 300 { conformance::run(lab, "inet6"); }

    /// libc's resolver.
    fn names(lab) within 300 { conformance::run(lab, "names"); }

    /// Beside kernel and Unix sockets.
    fn mixing(lab) within 300 { conformance::run(lab, "mixing"); }
}

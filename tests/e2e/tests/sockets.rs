//! The socket API, call by call: what a C program sees on Linux it sees on
//! Longshore, whoever is at the far end.

use longshore_e2e::servers::PYTHON;
use longshore_e2e::{conformance, scenarios};

/// Has a socket reach itself through a library that is loaded with RTLD_DEEPBIND, and
/// binds one through functions that libc itself is asked for; libc's others are as they are.
/// A library that is closed is gone, also if its functions were asked for by name.
const PASSING_BY: &str = r#"
import _ctypes, ctypes, os, socket, struct, sys
library, ip = sys.argv[1:]
for mode in os.RTLD_DEEPBIND, 0, os.RTLD_GLOBAL:
    loaded = ctypes.CDLL(library, mode=os.RTLD_NOW | mode)
    why = loaded.reaches_itself(ip.encode())
    assert why == 0, os.strerror(why)
    _ctypes.dlclose(loaded._handle)
    assert library not in open("/proc/self/maps").read(), mode
for libc in ctypes.CDLL("libc.so.6", use_errno=True), ctypes.CDLL(None, use_errno=True):
    fd = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    address = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(ip))
    assert libc.bind(fd, address, 16) == 0, os.strerror(ctypes.get_errno())
    assert libc.close(fd) == 0
    assert libc.getpid() == os.getpid()
    try:
        libc.no_such_function
        sys.exit("found")
    except AttributeError as e:
        assert "no_such_function" in str(e), e
print("bound")
"#;

/// A server at the wildcard answers from the address that it was asked at.
const ASKED_AT_LOOPBACK: &str = r#"
import socket, struct, sys
for family, wildcard, asks in (socket.AF_INET, "0.0.0.0", (0, 8, 8)), (socket.AF_INET6, "::", (41, 49, 50)):
    level, option, kind = asks
    server = socket.socket(family, socket.SOCK_DGRAM)
    server.setsockopt(level, option, 1)
    server.bind((wildcard, 0))
    for ip in sys.argv[1:]:
        if (":" in ip) != (family == socket.AF_INET6):
            continue
        client = socket.socket(family, socket.SOCK_DGRAM)
        for end in client, server:
            end.settimeout(20)
        client.sendto(b"?", (ip, server.getsockname()[1]))
        _, [(got_level, got_kind, info)], _, asker = server.recvmsg(10, 100)
        assert (got_level, got_kind) == (level, kind)
        at = slice(8, 12) if level == 0 else slice(0, 16)
        asked = socket.inet_ntop(family, info[at])
        place = struct.unpack_from("=i", info, 0 if level == 0 else 16)[0]
        server.sendmsg([b"!"], [(level, kind, info)], 0, asker)
        print(asked, socket.if_indextoname(place), client.recvfrom(10)[1][0])
"#;

scenarios! {
    /// Bytes over a connection, and how it ends.
    fn stream(bed) within 300 { conformance::run(bed, "stream"); }

    /// splice from one connection to another.
    fn splice(bed) within 300 { conformance::run(bed, "splice"); }

    /// Receiving into whole pages, which the program sees where they were placed.
    fn zero_copy(bed) within 300 {
        conformance::run_with(bed, "zero_copy", &["--zero-copy", "always"]);
    }

    /// Sending whole pages, which the program's memory shows from where they are sent.
    fn zero_copy_send(bed) within 300 {
        conformance::run_with(bed, "zero_copy_send", &["--zero-copy", "always"]);
    }

    /// The same calls as ever, where pages are exchanged if that pays.
    fn zero_copy_auto(bed) within 300 {
        conformance::run_with(bed, "stream", &["--zero-copy", "auto"]);
    }

    /// How connections begin and end.
    fn endings(bed) within 300 { conformance::run(bed, "endings"); }

    /// Connecting, listening, accepting, addresses.
    fn connect(bed) within 300 { conformance::run(bed, "connect"); }

    /// select, poll, epoll.
    fn readiness(bed) within 300 { conformance::run(bed, "readiness"); }

    /// Looks at epoll instances in which other threads sleep.
    fn looks(bed) within 300 { conformance::run(bed, "looks"); }

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

    /// Handlers of signals that use the heap.
    fn memory(bed) within 300 { conformance::run(bed, "memory"); }

    /// One connection, several processes that wait for it.
    fn shared(bed) within 300 { conformance::run(bed, "shared"); }

    /// What one thread shuts down, another waits for.
    fn shut_by_others(bed) within 300 { conformance::run(bed, "shut_by_others"); }

    /// Functions of the program's own under libc's names.
    fn own_names(bed) within 300 { conformance::run(bed, "own_names"); }

    /// Waits by system calls of the program's own.
    fn own_waits(bed) within 300 { conformance::run(bed, "own_waits"); }

    /// getsockopt, setsockopt.
    fn options(bed) within 300 { conformance::run(bed, "options"); }

    /// SO_RCVLOWAT, and MSG_WAITALL beside it.
    fn low_water(bed) within 300 { conformance::run(bed, "low_water"); }

    /// UDP.
    fn datagram(bed) within 300 { conformance::run(bed, "datagram"); }

    /// Datagram sockets that share a port.
    fn sharers(bed) within 300 { conformance::run(bed, "sharers"); }

    /// Which of several errors a datagram is refused with.
    fn order(bed) within 300 { conformance::run(bed, "order"); }

    /// What datagrams leave with.
    fn departures(bed) within 300 { conformance::run(bed, "departures"); }

    /// The ports of sockets that ask for none in particular.
    fn ephemeral(bed) within 300 { conformance::run(bed, "ephemeral"); }

    /// Each option is done, or refused.
    fn audit(bed) within 300 { conformance::run(bed, "audit"); }

    /// Sockets that are bound to an interface, with an engine that has the loopback.
    fn devices(bed) within 300 {
        conformance::run_with(bed, "devices", &["--loopback", "engine"]);
    }

    /// What is told beside what is received.
    fn told(bed) within 300 { conformance::run(bed, "told"); }

    /// Calls that make no sense.
    fn misuse(bed) within 300 { conformance::run(bed, "misuse"); }

    /// Sockets after a call that failed, and after a shutdown.
    fn states(bed) within 300 { conformance::run(bed, "states"); }

    /// Sockets that are used again after a call that failed.
    fn again(bed) within 300 { conformance::run(bed, "again"); }

    /// What ICMP has to say, by IP_RECVERR.
    fn errors(bed) within 300 { conformance::run(bed, "errors"); }

    /// Urgent data and SIGURG.
    fn urgent(bed) within 300 { conformance::run(bed, "urgent"); }

    /// SIGIO.
    fn signal_driven(bed) within 300 { conformance::run(bed, "async"); }

    /// Multicast and broadcasts.
    fn groups(bed) within 300 { conformance::run(bed, "groups"); }

    /// From which sources a group is received.
    fn multicast_sources(bed) within 300 { conformance::run(bed, "multicast_sources"); }

    /// Fast Open, as client and as listener.
    fn fastopen(bed) within 300 { conformance::run(bed, "fastopen"); }

    /// Under a filter of system calls.
    fn confined(bed) within 300 { conformance::run(bed, "confined"); }
    /// IPv6, and both versions on one socket.
    fn inet6(bed) within 300 { conformance::run(bed, "inet6"); }

    /// What is told of the machine's interfaces.
    fn interfaces(bed) within 300 { conformance::run(bed, "interfaces"); }

    /// What has no network in a namespace of its own, and what has it.
    fn namespaces(bed) within 300 { conformance::run(bed, "namespaces"); }

    /// libc's resolver.
    fn names(bed) within 300 { conformance::run(bed, "names"); }

    /// Libraries that look past what was preloaded.
    fn passing_by(bed) within 300 {
        let library = conformance::compile_with(bed, "passing_by", &["-shared", "-fPIC"]);
        let host = bed.host(0).with_its_engine();
        let script = bed.file("passing_by.py", PASSING_BY);
        let python = host.cmd(PYTHON).arg(script).arg(library);
        assert_eq!(python.arg(host.ip().to_string()).check(), "bound\n");
    }

    /// What a datagram says of the loopback address that it came to, and answers from there.
    fn asked_at_loopback(bed) within 300 {
        let host = bed.host(0).option("--loopback").option("engine");
        let script = bed.file("asked_at_loopback.py", ASKED_AT_LOOPBACK);
        let python = host.cmd(PYTHON).arg(script).args(["127.0.0.1", "::1"]);
        let said = "127.0.0.1 lo 127.0.0.1\n::1 lo ::1\n";
        assert_eq!(python.check(), said);
    }

    /// Beside kernel and Unix sockets.
    fn mixing(bed) within 300 { conformance::run(bed, "mixing"); }
}

//! What up to three operations, one after the other, make of a connection within a host, of a
//! listener, of a new stream or of a new datagram socket, and what several series of calls say of it right after: all
//! sequences give the same on the kernel and on Longshore (`programs/sequences.c`).
//!
//! `LONGSHORE_CASES` is a part of the names of the cases to run, all of which are printed then.

use longshore_e2e::conformance::{self, Cases};
use longshore_e2e::{Host, Stack, Testbed, run};
use std::path::Path;
use std::time::Duration;

/// As many cases there are at least, of each kind.
const LEAST_CASES: usize = 7_000;

/// So many cases may differ once and not again, of each kind.
const MOST_ONCE: usize = 30;

/// So often what differs is tried alone.
const TRIES: u32 = 3;

/// So many differences are printed.
const MOST_PRINTED: usize = 40;

/// What differs: the kind of socket, operations that come in this order, others between them or
/// not, the end of the name of what looks, and why.
type Known = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
);

const DIFFER: &[Known] = &[
    ("connection", &["urgent", "urgent", "in line"], "", IN_LINE),
    (
        "connection",
        &["we shut R", "we shut W", "urgent"],
        "",
        RESETS,
    ),
    (
        "connection",
        &["we shut W", "we shut R", "urgent"],
        "",
        RESETS,
    ),
    (
        "listener",
        &["listen for one", "be called"],
        "accept",
        NO_ROOM,
    ),
    ("listener", &["shut W", "listen"], "call", INHERITS),
    ("listener", &["shut W", "listen for one"], "call", INHERITS),
    ("listener", &["shut both", "listen"], "call", INHERITS),
    (
        "listener",
        &["shut both", "listen for one"],
        "call",
        INHERITS,
    ),
    ("datagrams", &["send", "disconnect"], "", KEPT_PORT),
    (
        "datagrams of IPv6",
        &["connect", "be refused by v4"],
        "",
        OF_BOTH,
    ),
    (
        "datagrams of IPv6",
        &["connect to nobody", "be refused by v4"],
        "",
        OF_BOTH,
    ),
    (
        "datagrams of IPv6",
        &["bind to v4", "disconnect", "v6 only"],
        "send",
        OF_IPV4,
    ),
    (
        "stream",
        &["shut R", "be refused", "bind to all"],
        "",
        KERNELS_HALF,
    ),
    (
        "stream",
        &["shut both", "be refused", "bind to all"],
        "",
        KERNELS_HALF,
    ),
    (
        "stream",
        &["shut W", "connect", "other closes"],
        "the state",
        SHUT_BEFORE,
    ),
    (
        "stream",
        &["shut both", "connect", "other closes"],
        "the state",
        SHUT_BEFORE,
    ),
    (
        "stream",
        &["shut W", "connect to all", "other closes"],
        "the state",
        SHUT_BEFORE,
    ),
    (
        "stream",
        &["shut both", "connect to all", "other closes"],
        "the state",
        SHUT_BEFORE,
    ),
];

const IN_LINE: &str =
    "that the first of two urgent bytes was passed is known once somebody looks, and not before";

const RESETS: &str = "of an urgent byte that resets the connection nothing is told beside that";

const NO_ROOM: &str = "a caller for whom there was no room has its connection as soon as there is, on Linux a second later";

const INHERITS: &str =
    "what a socket was shut down for before it listens its connections are on Linux, too";

const KEPT_PORT: &str =
    "a port that came with a send to nobody in particular stays when the socket is disconnected";

const OF_BOTH: &str = "of what it sends to a peer of IPv4 after one of IPv6, Linux tells a socket no errors, nor gives it the answers";

const OF_IPV4: &str = "a send binds the socket before it looks for a destination, to an address of IPv4 that it may not have any more";

const KERNELS_HALF: &str =
    "the kernel's half of a socket that is bound to the wildcard stays shut down after a refusal";

const SHUT_BEFORE: &str = "a connection of a socket that was shut down before counts as over once the other end is closed";

fn is_known(kind: &str, name: &str) -> bool {
    let Some((operations, looks)) = name.split_once(", then ") else {
        return false;
    };
    DIFFER.iter().any(|(of, order, looks_end, _)| {
        let mut done = operations.split(", ");
        kind.starts_with(of)
            && looks.ends_with(looks_end)
            && order.iter().all(|next| done.any(|one| one == *next))
    })
}

fn lines(host: &Host<'_>, program: &Path, kind: &str, only: &str) -> Cases {
    let command = host.cmd(program).arg(kind).arg(only);
    conformance::cases(&command.timeout(Duration::from_secs(300)).check())
}

fn compare(kind: &'static str) {
    run(Stack::Longshore, Duration::from_secs(600), |bed| {
        let only = std::env::var("LONGSHORE_CASES").unwrap_or_default();
        let kernel_bed = Testbed::new(Stack::Kernel);
        let longshore = bed.host(0).option("--loopback").option("engine");
        let program = conformance::compile(bed, "sequences");
        let expected = lines(&kernel_bed.host(0), &program, kind, &only);
        let given = lines(&longshore, &program, kind, &only);
        assert_eq!(expected.len(), given.len());
        let differing = |given: Cases| {
            let differ = given.into_iter();
            let differ = differ.filter(|(name, gives)| expected[name] != *gives);
            differ.collect::<Cases>()
        };
        let all = differing(given);
        let unknown = |differ: &Cases| differ.keys().filter(|name| !is_known(kind, name)).count();
        let first = unknown(&all);
        // Calls wait for what is under way, but not for ever if an engine has no processor.
        let again = match first {
            0 => Cases::new(),
            _ => differing(lines(&longshore, &program, kind, &only)),
        };
        let mut differ = all;
        differ.retain(|name, _| !is_known(kind, name) && again.contains_key(name));
        if differ.len() <= MOST_PRINTED {
            let differs =
                |name: &str| lines(&longshore, &program, kind, name)[name] != expected[name];
            differ.retain(|name, _| (0..TRIES).all(|_| differs(name.as_str())));
        }
        for (name, gives) in differ.iter().take(MOST_PRINTED) {
            let should = &expected[name];
            println!("{name}\n    kernel:    {should}\n    longshore: {gives}");
        }
        if only.is_empty() {
            assert!(expected.len() >= LEAST_CASES, "{}", expected.len());
        } else {
            println!("{expected:#?}");
        }
        assert!(
            differ.is_empty(),
            "{} of {} cases",
            differ.len(),
            expected.len()
        );
        assert!(first <= MOST_ONCE, "{first} cases differ once");
    });
}

#[test]
fn of_a_connection() {
    compare("connection");
}

#[test]
fn of_a_listener() {
    compare("listener");
}

#[test]
fn of_a_stream() {
    compare("stream");
}

#[test]
fn of_a_stream_of_ipv6() {
    compare("stream of IPv6");
}

#[test]
fn of_datagrams() {
    compare("datagrams");
}

#[test]
fn of_datagrams_of_ipv6() {
    compare("datagrams of IPv6");
}

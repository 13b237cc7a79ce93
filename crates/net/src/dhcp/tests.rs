mod edges;

use super::*;
use longshore_wire::arp::Operation;

const US: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 50);

/// A client on virtual time.
struct World {
    client: Client,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let now = Instant(1_000_000);
        let client = Client::new(US, b"\xff us", 42, now);
        Self { client, now }
    }

    /// All that is to be done now.
    fn actions(&mut self) -> Vec<Action> {
        let mut all = Vec::new();
        while let Some(action) = self.client.poll(self.now) {
            all.push(action);
            assert!(all.len() < 10, "it does not end: {all:?}");
        }
        all
    }

    /// What is done at the next deadline; milliseconds until then.
    fn next(&mut self) -> (u64, Vec<Action>) {
        let then = self.client.deadline().max(self.now);
        let waited = then.since(self.now) / 1000;
        self.now = then;
        (waited, self.actions())
    }

    /// The one message that is sent at the next deadline.
    fn next_message(&mut self) -> (u64, Sent) {
        let (waited, actions) = self.next();
        let [Action::Send(message)] = actions[..] else {
            panic!("{actions:?}");
        };
        (waited, sent(&message))
    }

    fn reply(&self, kind: Kind) -> Reply {
        Reply {
            kind,
            xid: self.client.xid,
            client: US,
            address: OURS,
            server: SERVER,
            prefix_len: Some(24),
            router: Some(SERVER),
            mtu: None,
            lease: Some(3600),
            renew: None,
            rebind: None,
            routes: [None; MAX_ROUTES],
        }
    }

    fn receive(&mut self, kind: Kind) {
        let reply = self.reply(kind);
        self.client.handle_reply(&reply, self.now);
    }

    fn arp(&mut self, mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) {
        let packet = ArpPacket {
            operation: Operation::Request,
            sender_mac: mac,
            sender_ip,
            target_mac: MacAddr::default(),
            target_ip,
        };
        self.client.handle_arp(&packet, self.now);
    }

    /// Up to the probes.
    fn acknowledged() -> Self {
        let mut w = Self::new();
        assert_eq!(w.next_message().1.kind, 1);
        w.receive(Kind::Offer);
        assert_eq!(w.next_message().1.kind, 3);
        w.receive(Kind::Ack);
        w
    }

    /// Up to the last announcement.
    fn bound() -> Self {
        let mut w = Self::acknowledged();
        for _ in 0..3 {
            assert_eq!(w.next().1, [Action::Probe(OURS)]);
        }
        let (_, actions) = w.next();
        let [Action::Configured(lease), Action::Announce(OURS)] = actions[..] else {
            panic!("{actions:?}");
        };
        assert_eq!((lease.address, lease.prefix_len), (OURS, 24));
        assert_eq!(lease.router, Some(SERVER));
        assert_eq!(w.next(), (2000, vec![Action::Announce(OURS)]));
        w
    }
}

/// What a message says.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    kind: u8,
    to: Ipv4Addr,
    from: Ipv4Addr,
    in_use: Ipv4Addr,
    options: Vec<u8>,
}

fn sent(m: &Message) -> Sent {
    let bytes = m.bytes();
    let (mut at, mut options) = (240, Vec::new());
    while bytes[at] != 255 {
        options.push(bytes[at]);
        at += 2 + usize::from(bytes[at + 1]);
    }
    Sent {
        kind: bytes[242],
        to: m.destination,
        from: m.source,
        in_use: Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]),
        options,
    }
}

#[test]
fn an_address_is_asked_for_checked_and_announced() {
    let mut w = World::new();
    let (waited, discover) = w.next_message();
    assert_eq!((waited, discover.kind), (0, 1), "at once: a program waits");
    let any = Ipv4Addr::UNSPECIFIED;
    assert_eq!((discover.from, discover.in_use), (any, any));
    assert_eq!(discover.to, Ipv4Addr::BROADCAST);
    w.receive(Kind::Offer);
    let (waited, request) = w.next_message();
    assert_eq!((waited, request.kind, request.in_use), (0, 3, any));
    assert!(request.options.contains(&50) && request.options.contains(&54));
    w.receive(Kind::Ack);
    assert_eq!(w.client.address(), Some(OURS));
    assert_eq!(w.next(), (0, vec![Action::Probe(OURS)]));
    assert_eq!(w.next(), (200, vec![Action::Probe(OURS)]));
    assert_eq!(w.next(), (200, vec![Action::Probe(OURS)]));
    let (waited, actions) = w.next();
    assert_eq!(waited, 200, "silence");
    assert!(matches!(
        actions[..],
        [Action::Configured(_), Action::Announce(OURS)]
    ));
}

#[test]
fn questions_are_repeated_ever_more_rarely() {
    let mut w = World::new();
    let mut waits = Vec::new();
    for _ in 0..8 {
        let (waited, message) = w.next_message();
        assert_eq!(message.kind, 1);
        waits.push(waited);
    }
    let near = [0, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000, 64_000];
    for (waited, about) in waits.iter().zip(near) {
        assert!(waited.abs_diff(about) <= 1_000, "{waits:?}");
    }
}

#[test]
fn an_offer_that_is_not_kept_is_given_up() {
    let mut w = World::new();
    w.next_message();
    w.receive(Kind::Offer);
    let kinds: Vec<u8> = (0..5).map(|_| w.next_message().1.kind).collect();
    assert_eq!(kinds, [3, 3, 3, 3, 1]);
    // And one that is refused.
    w.receive(Kind::Offer);
    assert_eq!(w.next_message().1.kind, 3);
    let xid = w.client.xid;
    w.receive(Kind::Nak);
    assert_eq!(w.next_message().1.kind, 1);
    assert_ne!(w.client.xid, xid);
}

#[test]
fn only_what_is_an_answer_to_us_counts() {
    let mut w = World::new();
    let offer = w.reply(Kind::Offer);
    w.client.handle_reply(&offer, w.now);
    assert_eq!(w.next_message().1.kind, 1, "nothing was asked yet");
    for wrong in [
        Reply {
            xid: offer.xid ^ 1,
            ..offer
        },
        Reply {
            client: OTHER,
            ..offer
        },
        Reply {
            lease: None,
            ..offer
        },
        Reply {
            address: Ipv4Addr::UNSPECIFIED,
            ..offer
        },
        Reply {
            address: Ipv4Addr::LOCALHOST,
            ..offer
        },
        Reply {
            kind: Kind::Ack,
            ..offer
        },
    ] {
        w.client.handle_reply(&wrong, w.now);
        assert_eq!(w.actions(), [], "{wrong:?}");
    }
    w.client.handle_reply(&offer, w.now);
    assert_eq!(w.next_message().1.kind, 3);
    let another = Reply {
        kind: Kind::Ack,
        server: OTHER_SERVER,
        ..offer
    };
    w.client.handle_reply(&another, w.now);
    assert_eq!(w.actions(), []);
}

const OTHER_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

#[test]
fn what_somebody_has_is_declined() {
    let none = Ipv4Addr::UNSPECIFIED;
    for (sender, target) in [(OURS, SERVER), (none, OURS)] {
        let mut w = World::acknowledged();
        w.next();
        w.arp(US, none, OURS);
        w.arp(OTHER, SERVER, OURS);
        assert_eq!(w.actions(), [], "neither says that somebody has it");
        w.arp(OTHER, sender, target);
        let (_, decline) = w.next_message();
        assert_eq!((decline.kind, decline.in_use), (4, none));
        assert!(decline.options.contains(&50) && decline.options.contains(&54));
        let (waited, message) = w.next_message();
        assert_eq!((waited, message.kind), (10_000, 1));
    }
}

#[test]
fn a_lease_is_renewed_in_time() {
    let mut w = World::bound();
    let began = w.now.0 / 1000;
    let (_, renew) = w.next_message();
    // Half of an hour, counted from the request.
    assert!((w.now.0 / 1000 - began).abs_diff(1_800_000) < 5_000);
    assert_eq!((renew.kind, renew.to, renew.in_use), (3, SERVER, OURS));
    assert!(!renew.options.contains(&50) && !renew.options.contains(&54));
    let asked = w.now;
    w.now = w.now.after_ms(500);
    w.receive(Kind::Ack);
    assert_eq!(w.actions(), [], "nothing has changed");
    let (_, again) = w.next_message();
    assert_eq!((again.kind, again.to), (3, SERVER));
    assert_eq!(w.now.since(asked), 1_800_000_000);
    // The next answer brings another router.
    let mut ack = w.reply(Kind::Ack);
    ack.router = Some(OTHER_SERVER);
    w.client.handle_reply(&ack, w.now);
    let actions = w.actions();
    let [Action::Configured(lease)] = actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(lease.router, Some(OTHER_SERVER));
}

#[test]
fn a_lease_that_nobody_renews_ends() {
    let mut w = World::bound();
    let (mut to_server, mut to_all) = (0, 0);
    let begin = w.now;
    let end = loop {
        let (waited, actions) = w.next();
        match actions[..] {
            [Action::Send(m)] if m.destination == SERVER => to_server += 1,
            [Action::Send(m)] => {
                assert_eq!(sent(&m).in_use, OURS);
                to_all += 1;
            }
            [Action::Lost, Action::Send(m)] => {
                assert_eq!(sent(&m).kind, 1);
                break w.now;
            }
            _ => panic!("{actions:?}"),
        }
        assert!(to_server == 1 || waited >= 1_000);
    };
    assert!(to_server >= 3 && to_all >= 2, "{to_server} {to_all}");
    assert!(end.since(begin).abs_diff(3_600_000_000) < 5_000_000);
    assert_eq!(w.client.address(), None);
}

#[test]
fn a_refusal_takes_the_address_at_once() {
    let mut w = World::bound();
    w.next_message();
    w.receive(Kind::Nak);
    let (waited, actions) = w.next();
    assert_eq!(waited, 0);
    assert!(matches!(actions[..], [Action::Lost, Action::Send(_)]));
}

#[test]
fn an_address_is_defended_once_in_a_while() {
    let mut w = World::bound();
    w.arp(OTHER, OURS, OURS);
    assert_eq!(w.next(), (0, vec![Action::Announce(OURS)]));
    w.now = w.now.after_ms(10_001);
    w.arp(OTHER, OURS, OURS);
    assert_eq!(w.next(), (0, vec![Action::Announce(OURS)]));
    w.now = w.now.after_ms(1_000);
    w.arp(OTHER, OURS, OURS);
    let (_, actions) = w.next();
    let [Action::Lost, Action::Send(m)] = actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(sent(&m).kind, 4);
}

#[test]
fn who_leaves_says_so() {
    let mut w = World::bound();
    let release = sent(&w.client.release(w.now).unwrap());
    assert_eq!(
        (release.kind, release.to, release.in_use),
        (7, SERVER, OURS)
    );
    assert!(release.options.contains(&54) && !release.options.contains(&55));
    assert_eq!(w.client.release(w.now), None);
    assert_eq!(World::acknowledged().client.release(w.now), None);
}

#[test]
fn a_lease_for_ever_is_never_renewed() {
    let mut w = World::new();
    w.next_message();
    for kind in [Kind::Offer, Kind::Ack] {
        let mut reply = w.reply(kind);
        reply.lease = Some(u32::MAX);
        w.client.handle_reply(&reply, w.now);
        w.next();
    }
    for _ in 0..4 {
        w.next();
    }
    assert_eq!(w.client.deadline(), Instant(u64::MAX));
}

#[test]
fn a_renewal_that_could_not_leave_is_tried_again_soon() {
    let mut w = World::bound();
    w.next_message();
    w.client.not_sent(w.now);
    let (waited, again) = w.next_message();
    assert_eq!((waited, again.to), (1_000, SERVER));
}

#[test]
fn times_that_contradict_each_other_are_not_believed() {
    let lease = |renew, rebind| {
        let reply = Reply {
            renew: Some(renew),
            rebind: Some(rebind),
            ..World::new().reply(Kind::Ack)
        };
        let l = Lease::of(&reply).unwrap();
        let at = |t: Instant| t.0 / 1_000_000;
        (
            at(l.renew_at(Instant(0))),
            at(l.rebind_at(Instant(0))),
            at(l.ends_at(Instant(0))),
        )
    };
    assert_eq!(lease(100, 200), (100, 200, 3600));
    assert_eq!(lease(300, 200), (200, 200, 3600));
    assert_eq!(lease(100, 9999), (100, 3150, 3600));
}

/// A request that asks whether a lease holds (RFC 2131 section 4.3.2, INIT-REBOOT): to all,
/// from nobody, with the address and without a server.
fn asks_whether_it_holds(message: &Sent) -> bool {
    let none = Ipv4Addr::UNSPECIFIED;
    message.kind == 3
        && (message.to, message.from, message.in_use) == (Ipv4Addr::BROADCAST, none, none)
        && message.options.contains(&50)
        && !message.options.contains(&54)
}

#[test]
fn a_link_that_returns_is_asked_whether_the_lease_holds() {
    let mut w = World::bound();
    w.now = w.now.after_ms(60_000);
    let xid = w.client.xid;
    w.client.link_returned(w.now);
    assert_eq!(w.client.address(), Some(OURS), "in use meanwhile");
    let (waited, message) = w.next_message();
    assert!(
        waited == 0 && asks_whether_it_holds(&message),
        "{message:?}"
    );
    assert_ne!(w.client.xid, xid);
    let asked = w.now;
    w.receive(Kind::Ack);
    assert_eq!(w.next(), (0, vec![Action::Announce(OURS)]));
    assert_eq!(w.next(), (2000, vec![Action::Announce(OURS)]));
    // Its time counts from that request.
    assert_eq!(w.next_message().1.in_use, OURS);
    assert_eq!(w.now.since(asked), 1_800_000_000);
}

#[test]
fn where_the_link_is_another_the_address_is_lost() {
    let mut w = World::bound();
    w.client.link_returned(w.now);
    w.next_message();
    w.receive(Kind::Nak);
    let actions = w.actions();
    let [Action::Lost, Action::Send(message)] = actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(sent(&message).kind, 1);
    assert_eq!(w.client.address(), None);
}

#[test]
fn an_answer_with_another_address_is_none() {
    let mut w = World::bound();
    w.client.link_returned(w.now);
    w.next_message();
    let other = Reply {
        address: OTHER_SERVER,
        ..w.reply(Kind::Ack)
    };
    w.client.handle_reply(&other, w.now);
    assert_eq!(w.actions(), []);
    assert!(asks_whether_it_holds(&w.next_message().1));
}

#[test]
fn where_nobody_answers_the_lease_is_used_to_its_end() {
    let mut w = World::bound();
    w.client.link_returned(w.now);
    for _ in 0..4 {
        assert!(asks_whether_it_holds(&w.next_message().1));
    }
    assert_eq!(w.next().1, [Action::Announce(OURS)]);
    assert_eq!(w.next(), (2000, vec![Action::Announce(OURS)]));
    assert_eq!(w.next_message().1.to, SERVER, "then it is renewed");
    // The link returns when the lease is about to end, and nobody is there.
    let mut w = World::bound();
    w.now = w.now.after_ms(3_590_000);
    w.client.link_returned(w.now);
    for _ in 0..2 {
        assert!(asks_whether_it_holds(&w.next_message().1));
    }
    let (_, actions) = w.next();
    assert!(
        matches!(actions[..], [Action::Lost, Action::Send(_)]),
        "{actions:?}"
    );
    // And when it has ended.
    let mut w = World::bound();
    w.now = w.now.after_ms(3_600_000);
    w.client.link_returned(w.now);
    assert!(matches!(w.actions()[..], [Action::Lost, Action::Send(_)]));
}

#[test]
fn whoever_has_no_lease_yet_asks_anew_when_the_link_returns() {
    let mut w = World::new();
    w.next_message();
    w.now = w.now.after_ms(100);
    w.client.link_returned(w.now);
    let (waited, message) = w.next_message();
    assert_eq!((waited, message.kind), (0, 1));
    for (mut w, wanted) in [(World::acknowledged(), None), (World::bound(), Some(7))] {
        w.client.link_returned(w.now);
        w.actions();
        let release = w.client.release(w.now).map(|m| sent(&m));
        assert_eq!(release.as_ref().map(|m| m.kind), wanted);
        let holds = |m: &Sent| (m.to, m.in_use) == (SERVER, OURS) && m.options.contains(&54);
        assert!(release.is_none_or(|m| holds(&m)));
    }
}

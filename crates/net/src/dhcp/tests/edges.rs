//! To the second: what a client says of its time, repeats, renews and defends.

use super::*;

/// RFC 2131 table 1: the seconds since the client began.
#[test]
fn a_message_says_how_long_it_has_been_asking() {
    let mut w = World::new();
    let seconds = |action: &Action| match action {
        Action::Send(m) => u16::from_be_bytes([m.bytes()[8], m.bytes()[9]]),
        other => panic!("{other:?}"),
    };
    let begun = w.now;
    for _ in 0..5 {
        let (_, actions) = w.next();
        assert_eq!(
            u64::from(seconds(&actions[0])),
            w.now.since(begun) / 1_000_000
        );
    }
}

/// RFC 2131 section 4.1: a second more or less, by chance; each transaction has its own number.
#[test]
fn clients_do_not_ask_in_step() {
    let (mut early, mut late) = (0, 0);
    let mut xids = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let now = Instant(1_000_000);
        let client = Client::new(US, b"\xff us", seed * 7_919 + 1, now);
        let mut w = World { client, now };
        assert!(xids.insert(w.client.xid), "{seed}");
        w.next();
        let (waited, _) = w.next();
        assert!((3_000..5_000).contains(&waited), "{waited}");
        early += u32::from(waited < 3_500);
        late += u32::from(waited > 4_500);
    }
    assert!(early > 10 && late > 10, "{early} {late}");
}

/// RFC 2131 section 4.4.5: again after half of the time that is left until T2, and then until the
/// end, but not within a minute.
#[test]
fn a_renewal_is_repeated_after_half_of_what_is_left() {
    let mut w = World::bound();
    let asked = w.client.asked;
    let second = |at: Instant| at.since(asked) / 1_000_000;
    let mut times = vec![];
    for _ in 0..8 {
        let (_, message) = w.next_message();
        assert_eq!(message.kind, 3);
        times.push((second(w.now), message.to == SERVER));
    }
    // T1, T2 and the end are at 1800, 3150 and 3600 seconds.
    let (renewals, rebinds): (Vec<_>, Vec<_>) = times.iter().partition(|(_, server)| *server);
    let renewals: Vec<u64> = renewals.into_iter().map(|(at, _)| at).collect();
    assert_eq!(renewals[..4], [1_800, 2_475, 2_812, 2_981]);
    let rebinds: Vec<u64> = rebinds.into_iter().map(|(at, _)| at).collect();
    assert_eq!(rebinds[..2], [3_150, 3_375]);
}

/// RFC 5227 section 2.4: once in ten seconds an address is defended, and given up at the second
/// claim within them. What is said of other addresses is nobody's claim.
#[test]
fn an_address_is_defended_once_in_ten_seconds() {
    let mut w = World::bound();
    w.arp(OTHER, Ipv4Addr::new(10, 0, 0, 77), OURS);
    assert_eq!(w.actions(), []);
    w.arp(US, OURS, OURS);
    assert_eq!(w.actions(), []);
    for _ in 0..2 {
        w.arp(OTHER, OURS, SERVER);
        assert_eq!(w.actions(), [Action::Announce(OURS)]);
        w.now = w.now.after_ms(DEFEND_MS);
    }
    w.arp(OTHER, OURS, SERVER);
    w.actions();
    w.now = w.now.after_ms(DEFEND_MS - 1);
    w.arp(OTHER, OURS, SERVER);
    assert_eq!(w.client.address(), None);
    // While it is probed, a claim or another probe is enough, and others are nothing.
    for (from, target, taken) in [
        (OURS, SERVER, true),
        (Ipv4Addr::UNSPECIFIED, OURS, true),
        (Ipv4Addr::UNSPECIFIED, SERVER, false),
        (SERVER, OURS, false),
    ] {
        let mut w = World::acknowledged();
        w.next();
        w.arp(OTHER, from, target);
        assert_eq!(w.client.address().is_none(), taken, "{from} {target}");
    }
}

/// A refusal is one of the server that was asked.
#[test]
fn another_server_refuses_nothing() {
    let mut w = World::new();
    w.next();
    w.receive(Kind::Offer);
    assert_eq!(w.next_message().1.kind, 3);
    let stranger = Reply {
        server: Ipv4Addr::new(10, 0, 0, 9),
        ..w.reply(Kind::Nak)
    };
    let xid = w.client.xid;
    w.client.handle_reply(&stranger, w.now);
    assert_eq!(w.client.xid, xid);
    assert_eq!(w.next_message().1.kind, 3, "it is asked again");
}

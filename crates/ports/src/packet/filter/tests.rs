//! The filter run by an interpreter.

use super::*;
use crate::bpf::interpreter::{Packet, passes};

fn ip4(to: &str) -> Packet {
    let to: Ipv4Addr = to.parse().unwrap();
    let mut bytes = vec![0x45; 20];
    bytes[16..20].copy_from_slice(&to.octets());
    Packet::of(IPV4, bytes)
}

fn ip6(to: &str) -> Packet {
    let to: Ipv6Addr = to.parse().unwrap();
    let mut bytes = vec![0x60; 40];
    bytes[24..40].copy_from_slice(&to.octets());
    Packet {
        protocol: IPV6,
        bytes,
        ..ip4("0.0.0.0")
    }
}

fn arp_packet(sender: &str, target: &str) -> Packet {
    let octets = |a: &str| a.parse::<Ipv4Addr>().unwrap().octets();
    let mut bytes = vec![0; 28];
    bytes[14..18].copy_from_slice(&octets(sender));
    bytes[24..28].copy_from_slice(&octets(target));
    Packet {
        protocol: ARP,
        bytes,
        ..ip4("0.0.0.0")
    }
}

fn ours() -> Vec<Instruction> {
    program(
        &[
            ("10.1.0.5".parse().unwrap(), 16),
            ("192.0.2.9".parse().unwrap(), 32),
            ("fd00::12:3456".parse().unwrap(), 64),
            ("fe80::1".parse().unwrap(), 64),
        ],
        &[],
        false,
        0,
    )
}

#[test]
fn only_our_own_ipv4_and_broadcasts_pass() {
    let p = ours();
    for to in ["10.1.0.5", "192.0.2.9", "10.1.255.255", "255.255.255.255"] {
        assert!(passes(&p, &ip4(to)), "{to}");
    }
    for to in [
        "10.1.0.6",
        "10.1.0.0",
        "10.2.255.255",
        "224.0.0.1",
        "0.0.0.0",
    ] {
        assert!(!passes(&p, &ip4(to)), "{to}");
    }
}

#[test]
fn only_our_own_ipv6_and_its_groups_pass() {
    let p = ours();
    for to in [
        "fd00::12:3456",
        "fe80::1",
        "ff02::1",
        "ff02::1:ff12:3456",
        "ff02::1:ff00:1",
    ] {
        assert!(passes(&p, &ip6(to)), "{to}");
    }
    for to in [
        "fd00::12:3457",
        "fe80::2",
        "ff02::2",
        "ff02::1:ff12:3457",
        "::",
    ] {
        assert!(!passes(&p, &ip6(to)), "{to}");
    }
    let without = program(&[("10.1.0.5".parse().unwrap(), 16)], &[], false, 0);
    assert!(!passes(&without, &ip6("ff02::1")));
}

#[test]
fn arp_for_us_and_announcements_pass() {
    let p = ours();
    assert!(passes(&p, &arp_packet("10.1.0.1", "10.1.0.5")));
    assert!(passes(&p, &arp_packet("10.1.0.1", "10.1.0.1")));
    assert!(!passes(&p, &arp_packet("10.1.0.1", "10.1.0.7")));
    assert!(
        passes(&p, &arp_packet("10.1.0.5", "10.1.0.7")),
        "a conflict"
    );
}

#[test]
fn what_is_for_dhcp_clients_passes_where_it_is_wanted() {
    let to_client = |change: (usize, u8)| {
        let mut packet = ip4("10.9.9.9");
        packet.bytes.extend([0, 67, 0, 68, 0, 8, 0, 0]);
        packet.bytes[6..10].copy_from_slice(&[0x40, 0, 64, 17]);
        packet.bytes[change.0] = change.1;
        packet
    };
    let wanted = program(&[], &[], true, 0);
    assert!(passes(&wanted, &to_client((23, 68))));
    assert!(!passes(&program(&[], &[], false, 0), &to_client((23, 68))));
    // Another port, another protocol, a fragment, options.
    for change in [(23, 69), (9, 6), (7, 1), (6, 0x20), (0, 0x46)] {
        assert!(!passes(&wanted, &to_client(change)), "{change:?}");
    }
    assert!(passes(&wanted, &ip4("255.255.255.255")));
    assert!(!passes(&wanted, &ip4("10.1.0.5")));
}

#[test]
fn other_stations_outgoing_and_tagged_frames_do_not_pass() {
    let p = ours();
    for (packet_type, passed) in [(0, true), (1, true), (2, true), (3, false), (4, false)] {
        let packet = Packet {
            packet_type,
            ..ip4("10.1.0.5")
        };
        assert_eq!(passes(&p, &packet), passed, "{packet_type}");
    }
    let tagged = Packet {
        tagged: true,
        ..ip4("10.1.0.5")
    };
    assert!(!passes(&p, &tagged));
    let other = Packet {
        protocol: 0x88cc,
        ..ip4("10.1.0.5")
    };
    assert!(!passes(&p, &other));
}

#[test]
fn groups_pass_while_they_are_wanted() {
    let groups = ["239.1.2.3", "ff15::7"].map(|g| g.parse().unwrap());
    let addresses = ["10.1.0.5", "fd00::5"].map(|a| (a.parse().unwrap(), 16));
    let p = program(&addresses, &groups, false, 0);
    for to in ["239.1.2.3", "224.0.0.1"] {
        assert!(passes(&p, &ip4(to)), "{to}");
    }
    assert!(passes(&p, &ip6("ff15::7")) && passes(&p, &ip6("ff02::1")));
    assert!(!passes(&p, &ip4("239.1.2.4")) && !passes(&p, &ip6("ff15::8")));
    assert!(!passes(&ours(), &ip4("224.0.0.1")), "nobody to be asked");
}

#[test]
fn short_packets_are_dropped() {
    let p = ours();
    for packet in [
        ip4("10.1.0.5"),
        ip6("fe80::1"),
        arp_packet("10.1.0.1", "10.1.0.5"),
    ] {
        let cut = Packet {
            bytes: packet.bytes[..16].to_vec(),
            ..packet
        };
        assert!(!passes(&p, &cut));
    }
}

/// As many groups of each version as the stack keeps, and each of them passes.
#[test]
fn the_longest_program_fits_the_kernels_limit() {
    const GROUPS: u16 = 512;
    let v6 = |i: u16| (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, i).into(), 64);
    let addresses: Vec<_> = (0..MAX_ADDRESSES as u16).map(v6).collect();
    let group = |i: u16| Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, i);
    let group4 = |i: u16| Ipv4Addr::new(239, 0, (i >> 8) as u8, i as u8);
    let of_v6 = (0..GROUPS).map(|i| group(i).into());
    let of_v4 = (0..GROUPS).map(|i| group4(i).into());
    let groups: Vec<IpAddr> = of_v6.chain(of_v4).collect();
    let longest = program(&addresses, &groups, true, 3);
    // BPF_MAXINSNS
    assert!(longest.len() <= 4_096, "{}", longest.len());
    let plain = program(&addresses, &groups, true, 0);
    assert!(passes(&plain, &ip6("fd00::1:f")));
    for i in 0..GROUPS {
        assert!(passes(&plain, &ip6(&group(i).to_string())), "{i}");
        assert!(passes(&plain, &ip4(&group4(i).to_string())), "{i}");
    }
    assert!(!passes(&plain, &ip6(&group(GROUPS).to_string())));
    assert!(!passes(&plain, &ip4(&group4(GROUPS).to_string())));
    assert!(!passes(&plain, &ip6("fe80::7")), "no group");
}

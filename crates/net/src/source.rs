//! Source address selection (RFC 6724 section 5).
//!
//! Implements rules 1, 2, 3, 6 and 8: the others compare interfaces and mobile home
//! addresses, which do not exist here. The engine calls it when a program has not chosen
//! an address.

use core::net::Ipv6Addr;

/// A candidate address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The address.
    pub address: Ipv6Addr,
    /// The length of its network's prefix, in bits.
    pub prefix_len: u8,
    /// Other addresses are preferred (rule 3).
    pub deprecated: bool,
}

/// The scope of an address (RFC 6724 section 3.1): 1 to 14, wider scopes are larger.
const fn scope(ip: Ipv6Addr) -> u8 {
    if ip.is_multicast() {
        ip.octets()[1] & 0xf
    } else if ip.is_loopback() || ip.is_unicast_link_local() {
        2
    } else if ip.segments()[0] & 0xffc0 == 0xfec0 {
        5
    } else {
        14
    }
}

/// The default policy table's label (RFC 6724 section 2.1).
const fn label(ip: Ipv6Addr) -> u8 {
    let s = ip.segments();
    match s {
        [0, 0, 0, 0, 0, 0, 0, 1] => 0,
        [0, 0, 0, 0, 0, 0xffff, ..] => 4,
        [0, 0, 0, 0, 0, 0, ..] => 3,
        [0x2001, 0, ..] => 5,
        [0x2002, ..] => 2,
        [0x3ffe, ..] => 12,
        [first, ..] if first & 0xfe00 == 0xfc00 => 13,
        [first, ..] if first & 0xffc0 == 0xfec0 => 11,
        _ => 1,
    }
}

/// The best of `candidates` for `destination`; the first among equals. `None` if there
/// are no candidates.
#[must_use]
pub fn select(
    candidates: impl IntoIterator<Item = Candidate>,
    destination: Ipv6Addr,
) -> Option<Ipv6Addr> {
    let wanted = scope(destination);
    let rank = |c: &Candidate| {
        let reach = scope(c.address);
        // Rule 2: the smallest sufficient scope, else the widest.
        let reaches = if reach >= wanted { 32 - reach } else { reach };
        let common = (c.address.to_bits() ^ destination.to_bits()).leading_zeros() as u8;
        (
            c.address == destination,
            reach >= wanted,
            reaches,
            !c.deprecated,
            label(c.address) == label(destination),
            common.min(c.prefix_len),
        )
    };
    let mut best: Option<Candidate> = None;
    for c in candidates {
        if best.is_none_or(|b| rank(&c) > rank(&b)) {
            best = Some(c);
        }
    }
    best.map(|c| c.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn selected(ours: &[&str], destination: &str) -> String {
        let candidates = ours.iter().map(|text| Candidate {
            address: ip(text.trim_start_matches('!')),
            prefix_len: 64,
            deprecated: text.starts_with('!'),
        });
        select(candidates, ip(destination)).unwrap().to_string()
    }

    /// RFC 6724 section 10.1, where it needs no interfaces.
    #[test]
    fn the_rfcs_examples() {
        for (ours, destination, expected) in [
            (
                &["2001:db8:3::1", "fe80::1"][..],
                "2001:db8:1::1",
                "2001:db8:3::1",
            ),
            (&["2001:db8:3::1", "fe80::1"], "ff05::1", "2001:db8:3::1"),
            (
                &["2001:db8:1::1", "2001:db8:3::1"],
                "2001:db8:1::1",
                "2001:db8:1::1",
            ),
            (&["fe80::2", "2001:db8:1::1"], "fe80::1", "fe80::2"),
            (
                &["!2001:db8:1::2", "2001:db8:3::2"],
                "2001:db8:1::1",
                "2001:db8:3::2",
            ),
            (
                &["2001:db8:1::2", "2001:db8:3::2"],
                "2001:db8:1::1",
                "2001:db8:1::2",
            ),
            (
                &["2002:c633:6401:0:d5e3:7953:13eb:22e8", "2001:db8:1::2"],
                "2002:c633:6401::1",
                "2002:c633:6401:0:d5e3:7953:13eb:22e8",
            ),
        ] {
            assert_eq!(selected(ours, destination), expected, "to {destination}");
        }
    }

    #[test]
    fn local_networks_answer_from_their_own() {
        let ours = ["fe80::9", "2001:db8::2", "fd00::2", "fd00:0:0:1::2"];
        assert_eq!(selected(&ours, "fd00::7"), "fd00::2");
        assert_eq!(selected(&ours, "fd00:0:0:1::7"), "fd00:0:0:1::2");
        assert_eq!(selected(&ours, "2600::1"), "2001:db8::2");
        assert_eq!(selected(&ours, "fe80::1"), "fe80::9");
        assert_eq!(selected(&["fe80::9"], "2600::1"), "fe80::9", "the only one");
        assert_eq!(select([], ip("fd00::1")), None);
    }

    /// RFC 6724 section 2.1: the default policy table.
    #[test]
    fn labels_are_those_of_the_policy_table() {
        for (address, expected) in [
            ("::1", 0),
            ("::2", 3),
            ("::ffff:192.0.2.1", 4),
            ("::192.0.2.1", 3),
            ("2001::1", 5),
            ("2001:1::1", 1),
            ("2002:c000:201::1", 2),
            ("2003::1", 1),
            ("3ffe::1", 12),
            ("3fff::1", 1),
            ("fc00::1", 13),
            ("fd12::1", 13),
            ("fe00::1", 1),
            ("fbff::1", 1),
            ("fec0::1", 11),
            ("feff::1", 11),
            ("febf::1", 1),
            ("ff00::1", 1),
            ("2600::1", 1),
        ] {
            assert_eq!(label(ip(address)), expected, "{address}");
        }
    }

    /// RFC 6724 section 3.1, and RFC 4291 section 2.7 for multicast.
    #[test]
    fn scopes_are_those_of_the_architecture() {
        for (address, expected) in [
            ("ff02::1", 2),
            ("ff15::1", 5),
            ("ff3e::1", 14),
            ("::1", 2),
            ("fe80::1", 2),
            ("fec0::1", 5),
            ("feff::1", 5),
            ("ff0f::1", 15),
            ("fc00::1", 14),
            ("2600::1", 14),
        ] {
            assert_eq!(scope(ip(address)), expected, "{address}");
        }
    }

    /// Rule 2: of those that reach, the one with the smallest scope; of those that do not, the
    /// widest.
    #[test]
    fn the_scope_is_no_smaller_than_needed_and_no_wider() {
        let ours = ["2001:db8::2", "fec0::2", "fe80::2"];
        for (destination, expected) in [
            ("ff02::9", "fe80::2"),
            ("ff05::9", "fec0::2"),
            ("ff0e::9", "2001:db8::2"),
            ("2600::1", "2001:db8::2"),
            ("fec0::9", "fec0::2"),
            ("fe80::9", "fe80::2"),
        ] {
            assert_eq!(selected(&ours, destination), expected);
            let backwards = ["fe80::2", "fec0::2", "2001:db8::2"];
            assert_eq!(selected(&backwards, destination), expected);
        }
        for ours in [["fe80::2", "fec0::2"], ["fec0::2", "fe80::2"]] {
            assert_eq!(selected(&ours, "2600::1"), "fec0::2", "none reaches");
        }
    }

    /// Rule 6 comes before rule 8: an address of the destination's kind, however little they
    /// have in common; the prefix bounds what counts as common.
    #[test]
    fn the_kind_counts_before_the_common_bits() {
        assert_eq!(
            selected(&["2001:db8::2", "2001::2"], "2001:0:1::1"),
            "2001::2"
        );
        assert_eq!(selected(&["2003::2", "2600::2"], "2002::1"), "2003::2");
        // Behind the prefix nothing counts, and the first among equals is taken.
        let first = ["2001:db8::ff", "2001:db8::2"];
        assert_eq!(selected(&first, "2001:db8::3"), "2001:db8::ff");
    }
}

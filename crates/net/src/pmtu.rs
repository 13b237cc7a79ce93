//! The cache of path MTUs (RFC 1191, RFC 8201).
//!
//! It contains only destinations whose path takes less than the link. The engine has
//! checked that an ICMP message refers to something we sent before it calls this module,
//! which checks the value once more.

use crate::Instant;
use core::net::IpAddr;

/// How long a value is valid (RFC 1191 section 6.3: about ten minutes).
const LIFE_MS: u64 = 600_000;
/// Most destinations in the cache.
const CAPACITY: usize = 1024;
/// The smallest MTU accepted in IPv4: 68 is legal (RFC 791), but a forged message must
/// not make us send a flood of tiny packets. The value is Linux's.
const LEAST_V4: u16 = 552;
/// Every IPv6 link takes this much (RFC 8200 section 5): a message with a smaller MTU is
/// dropped (RFC 8201 section 4).
const LEAST_V6: u16 = 1280;
/// MTUs of common links (RFC 1191 section 7.1), for routers that do not report one.
const PLATEAUS: [u16; 10] = [
    65_535, 32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296,
];

#[derive(Debug, Clone, Copy)]
struct Entry {
    to: IpAddr,
    mtu: u16,
    expires: Instant,
}

/// The cache.
#[derive(Debug, Clone, Default)]
pub struct PathMtu {
    /// Sorted by destination.
    entries: Vec<Entry>,
}

impl PathMtu {
    /// An empty cache.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// The path MTU to `to`, in bytes from the IP header on; `None` if it is that of the
    /// link.
    #[inline]
    #[must_use]
    pub fn get(&self, to: IpAddr, now: Instant) -> Option<u16> {
        if self.entries.is_empty() {
            return None;
        }
        let entry = self.entries.get(self.find(to).ok()?)?;
        (now < entry.expires).then_some(entry.mtu)
    }

    /// A router reports that a packet to `to` was too long and that `mtu` is the limit,
    /// or 0 if it does not say: then the limit is estimated from `original_len`, the
    /// length of the packet quoted in the error. Returns the new value if that is less
    /// than the present one and than `link_mtu`.
    ///
    /// If the router does report an MTU, the quoted length is ignored: routers and
    /// translators on the way may change it (RFC 1191 section 5 mentions wrong ones), and
    /// it is easy to forge.
    pub fn reduce(
        &mut self,
        to: IpAddr,
        mtu: u16,
        original_len: u16,
        link_mtu: usize,
        now: Instant,
    ) -> Option<u16> {
        if to.is_ipv6() && mtu < LEAST_V6 {
            return None;
        }
        let least = if to.is_ipv4() { LEAST_V4 } else { LEAST_V6 };
        let says = mtu != 0;
        let mtu = if says {
            mtu
        } else {
            plateau_below(original_len)
        };
        let mtu = mtu.max(least);
        let known = self.get(to, now).map_or(link_mtu, usize::from);
        if usize::from(mtu) >= known.min(link_mtu) || (!says && mtu >= original_len) {
            return None;
        }
        let entry = Entry {
            to,
            mtu,
            expires: now.after_ms(LIFE_MS),
        };
        let known = self.find(to).ok();
        if let Some(known) = known.and_then(|at| self.entries.get_mut(at)) {
            *known = entry;
        } else {
            self.make_room(now);
            let at = self.find(to).unwrap_or_else(|at| at);
            self.entries.insert(at, entry);
        }
        Some(mtu)
    }

    /// The number of destinations in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, to: IpAddr) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&to, |e| e.to)
    }

    fn make_room(&mut self, now: Instant) {
        if self.entries.len() < CAPACITY {
            return;
        }
        self.entries.retain(|e| now < e.expires);
        if self.entries.len() >= CAPACITY {
            let oldest = self
                .entries
                .iter()
                .enumerate()
                .min_by_key(|(_, e)| e.expires);
            if let Some((oldest, _)) = oldest {
                self.entries.remove(oldest);
            }
        }
    }
}

/// The largest common MTU below `len`, for a link that did not take a packet of that
/// length.
fn plateau_below(len: u16) -> u16 {
    PLATEAUS.into_iter().find(|p| *p < len).unwrap_or(68)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    const T: Instant = Instant(1_000);
    /// What the link takes.
    const LINK: usize = 1_500;

    fn ip(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(n).into()
    }

    #[test]
    fn it_goes_down_and_is_forgotten() {
        let mut p = PathMtu::new();
        assert_eq!(p.get(ip(1), T), None);
        assert_eq!(p.reduce(ip(1), 1400, 1500, LINK, T), Some(1400));
        assert_eq!(p.reduce(ip(1), 1400, 1500, LINK, T), None, "known");
        assert_eq!(p.reduce(ip(1), 1450, 1500, LINK, T), None, "never up");
        assert_eq!(
            p.reduce(ip(1), 1300, 1400, LINK, T.after_ms(1_000)),
            Some(1300)
        );
        assert_eq!(p.get(ip(1), T.after_ms(600_000)), Some(1300));
        assert_eq!(p.get(ip(2), T), None);
        let later = T.after_ms(601_000);
        assert_eq!(p.get(ip(1), later), None);
        assert_eq!(p.reduce(ip(1), 1450, 1500, LINK, later), Some(1450));
    }

    #[test]
    fn routers_that_do_not_say() {
        let mut p = PathMtu::new();
        assert_eq!(p.reduce(ip(1), 0, 1500, LINK, T), Some(1492));
        assert_eq!(p.reduce(ip(1), 0, 1492, LINK, T), Some(1006));
        assert_eq!(p.reduce(ip(1), 0, 1006, LINK, T), Some(552));
        assert_eq!(p.reduce(ip(1), 0, 552, LINK, T), None);
    }

    #[test]
    fn what_is_not_believed() {
        let mut p = PathMtu::new();
        assert_eq!(
            p.reduce(ip(1), 1500, 1500, LINK, T),
            None,
            "it would have passed"
        );
        let (link, no) = (500, "less than the least");
        assert_eq!(p.reduce(ip(1), 68, 1500, link, T), None, "{no}");
        assert_eq!(p.reduce(ip(1), 0, 500, LINK, T), None, "{no}");
        assert_eq!(p.reduce(ip(1), 68, 1500, LINK, T), Some(552));
        let v6: IpAddr = "fd00::1".parse().unwrap();
        assert_eq!(p.reduce(v6, 1279, 1500, LINK, T), None);
        assert_eq!(
            p.reduce(v6, 0, 1500, LINK, T),
            None,
            "IPv6 routers have to say"
        );
        assert_eq!(p.reduce(v6, 1280, 1500, LINK, T), Some(1280));
    }

    #[test]
    fn a_router_that_says_is_believed_whatever_it_quotes() {
        let mut p = PathMtu::new();
        assert_eq!(p.reduce(ip(1), 800, 40, LINK, T), Some(800));
        assert_eq!(p.reduce(ip(2), 1_400, 0, LINK, T), Some(1_400));
        assert_eq!(
            p.reduce(ip(3), 2_000, 4_000, LINK, T),
            None,
            "the link decides"
        );
    }

    #[test]
    fn it_stays_small() {
        let mut p = PathMtu::new();
        for n in 0..3_000u32 {
            let now = T.after_ms(u64::from(n));
            assert_eq!(p.reduce(ip(n), 1400, 1500, LINK, now), Some(1400));
        }
        assert_eq!(p.len(), CAPACITY);
        assert_eq!(p.get(ip(2_999), T), Some(1400));
        assert_eq!(p.get(ip(0), T), None);
    }

    /// A router that does not say what it takes does not take what it was sent: what is no less
    /// than that says nothing.
    #[test]
    fn an_estimate_is_less_than_what_was_sent() {
        let mut p = PathMtu::new();
        assert!(p.is_empty());
        assert_eq!(p.reduce(ip(1), 0, LEAST_V4, LINK, T), None);
        assert_eq!(p.reduce(ip(1), 0, LEAST_V4 + 1, LINK, T), Some(LEAST_V4));
        assert_eq!((p.is_empty(), p.len()), (false, 1));
        for (sent, estimate) in [(1_500, 1_492), (1_492, 1_006), (1_006, LEAST_V4)] {
            let mut p = PathMtu::new();
            assert_eq!(p.reduce(ip(1), 0, sent, LINK, T), Some(estimate));
        }
    }

    /// What is no longer valid makes room before what is.
    #[test]
    fn a_full_cache_forgets_what_is_over() {
        let mut p = PathMtu::new();
        for n in 0..CAPACITY as u32 {
            let now = if n < 100 { T } else { T.after_ms(1_000) };
            p.reduce(ip(n), 1_400, 1_500, LINK, now);
        }
        assert_eq!(p.len(), CAPACITY);
        // To the microsecond: what was noted at T is over.
        let over = T.after_ms(LIFE_MS);
        assert_eq!(p.get(ip(5), over), None);
        assert_eq!(p.reduce(ip(9_000), 1_400, 1_500, LINK, over), Some(1_400));
        assert_eq!(p.len(), CAPACITY - 100 + 1);
        assert_eq!(p.get(ip(100), over), Some(1_400));
    }

    proptest! {
        #[test]
        fn values_are_legal_and_only_fall(reports in proptest::collection::vec((0u32..4, any::<u16>(), any::<u16>()), 1..50)) {
            let mut p = PathMtu::new();
            for (to, mtu, original) in reports {
                let before = p.get(ip(to), T);
                let after = p.reduce(ip(to), mtu, original, LINK, T);
                if let Some(value) = after {
                    prop_assert!(value >= LEAST_V4 && usize::from(value) < LINK);
                    prop_assert!(before.is_none_or(|b| value < b));
                }
                prop_assert_eq!(p.get(ip(to), T), after.or(before));
            }
        }
    }
}

//! Router discovery (RFC 4861 section 6.3), and stateless address autoconfiguration (RFC
//! 4862 section 5.5).
//!
//! Owns [`Routers`]: the default routers and the on-link prefixes, each with its
//! lifetime, and when to solicit routers (RFC 7559). Our addresses are in
//! [`address6`](crate::address6), which is told what to add and for how long. The engine
//! passes advertisements in and follows the results of [`Routers::poll`].

use crate::address6::{Addresses, Generated, Lifetimes};
use crate::random::Random;
use crate::stable::Identifiers;
use crate::{Cidr, Instant};
use core::net::Ipv6Addr;
use longshore_wire::icmpv6::{NdpOptions, PrefixInfo};
use longshore_wire::ipv6::MIN_MTU;

/// Most default routers; further ones are ignored.
pub const MOST_ROUTERS: usize = 8;
/// Most on-link prefixes.
pub const MOST_NETWORKS: usize = 16;
/// The first and the longest wait for an advertisement (RFC 7559's IRT and MRT).
const FIRST_WAIT_MS: u64 = 4_000;
const LONGEST_WAIT_MS: u64 = 3_600_000;
/// Length of our interface identifier, bits (RFC 4291 section 2.5.1).
const IDENTIFIER_LEN: u8 = 64;
/// An advertisement cannot shorten a valid lifetime to less than two hours (RFC 4862
/// section 5.5.3 e).
const LEAST_VALID_MS: u64 = 7_200_000;
/// Addresses generated for one prefix before giving up (RFC 7217's IDGEN_RETRIES).
const ATTEMPTS: u8 = 3;
const NEVER: Instant = Instant(u64::MAX);

/// The fields of a router advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advert {
    /// Hop limit for packets; 0 if not specified.
    pub hop_limit: u8,
    /// Lifetime of the sender as a default router, seconds; 0 if it is not one.
    pub lifetime: u16,
    /// How long neighbours are reachable, milliseconds; 0 if not specified.
    pub reachable_ms: u32,
    /// Interval between solicitations, milliseconds; 0 if not specified.
    pub retransmit_ms: u32,
}

/// Parameters that routers have advertised for the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advice {
    /// Hop limit of packets.
    pub hop_limit: Option<u8>,
    /// The link's MTU in bytes, at least 1280; never more than the interface's.
    pub mtu: Option<u16>,
    /// How long neighbours are reachable, in milliseconds.
    pub reachable_ms: Option<u32>,
    /// The interval between solicitations, in milliseconds.
    pub retransmit_ms: Option<u32>,
}

/// When the next solicitation is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Solicitation {
    at: Instant,
    /// The wait before it, in milliseconds; 0 for the first.
    waited: u64,
}

/// The state of router discovery.
#[derive(Debug, Clone)]
pub struct Routers {
    identifiers: Identifiers,
    /// Default routers, the preferred one first, each with the end of its lifetime.
    routers: Vec<(Ipv6Addr, Instant)>,
    networks: Vec<(Cidr, Instant)>,
    advice: Advice,
    solicitation: Option<Solicitation>,
    /// The MTU of the interface, bytes.
    link_mtu: usize,
    random: Random,
}

impl Routers {
    /// The initial state; the first solicitation is due at `now`. `link_mtu` is in bytes,
    /// `seed` random.
    #[must_use]
    pub const fn new(identifiers: Identifiers, link_mtu: usize, seed: u64, now: Instant) -> Self {
        Self {
            identifiers,
            routers: Vec::new(),
            networks: Vec::new(),
            advice: Advice {
                hop_limit: None,
                mtu: None,
                reachable_ms: None,
                retransmit_ms: None,
            },
            solicitation: Some(Solicitation { at: now, waited: 0 }),
            link_mtu,
            random: Random::new(seed),
        }
    }

    /// Our link-local address.
    #[must_use]
    pub fn link_local(&self) -> Ipv6Addr {
        let prefix = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
        self.identifiers.address(prefix, 0)
    }

    /// Adds [`link_local`](Self::link_local), with duplicate address detection at `at`.
    pub fn add_link_local(&self, addresses: &mut Addresses, at: Instant) {
        let made = Generated {
            attempt: 0,
            prefix_len: IDENTIFIER_LEN,
            lifetimes: Lifetimes::FOR_EVER,
        };
        addresses.add_made(self.link_local(), &made, at);
    }

    /// The default router.
    #[must_use]
    pub fn default_router(&self) -> Option<Ipv6Addr> {
        self.routers.first().map(|(ip, _)| *ip)
    }

    /// The on-link prefixes.
    pub fn networks(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.networks.iter().map(|(cidr, _)| *cidr)
    }

    /// The parameters that routers have advertised.
    #[must_use]
    pub const fn advice(&self) -> &Advice {
        &self.advice
    }

    /// Restarts router solicitation, since the link has changed.
    pub const fn ask_again(&mut self, now: Instant) {
        self.solicitation = Some(Solicitation { at: now, waited: 0 });
    }

    /// Processes an advertisement from the link-local address `from` (RFC 4861 section
    /// 6.3.4). Returns whether addresses, routers or prefixes have changed.
    pub fn handle_advert(
        &mut self,
        from: Ipv6Addr,
        advert: &Advert,
        options: &NdpOptions,
        addresses: &mut Addresses,
        now: Instant,
    ) -> bool {
        let mut changed = self.update_router(from, advert.lifetime, now);
        self.update_parameters(advert, options.mtu);
        for prefix in options.prefixes.iter().flatten() {
            if prefix.prefix.is_unicast_link_local() || prefix.prefix.is_multicast() {
                continue;
            }
            if prefix.on_link {
                changed |= self.update_prefix(prefix, now);
            }
            if prefix.autonomous {
                changed |= self.update_autonomous(prefix, addresses, now);
            }
        }
        changed
    }

    /// A router does not answer: another one becomes the default router, if there is one
    /// (RFC 4861 section 6.3.6). Returns whether the default router has changed.
    pub fn unreachable(&mut self, router: Ipv6Addr) -> bool {
        let first = self.routers.first().is_some_and(|(ip, _)| *ip == router);
        if !first || self.routers.len() < 2 {
            return false;
        }
        self.routers.rotate_left(1);
        true
    }

    /// Another host has an address that we generated: generates another one (RFC 7217
    /// section 6) and returns it.
    pub fn replace(
        &self,
        taken: Ipv6Addr,
        addresses: &mut Addresses,
        now: Instant,
    ) -> Option<Ipv6Addr> {
        let before = addresses.made(taken)?;
        let attempt = before.attempt + 1;
        let address = self.identifiers.address(taken, attempt);
        let made = Generated { attempt, ..before };
        let again = attempt < ATTEMPTS && addresses.add_made(address, &made, now);
        again.then_some(address)
    }

    /// Handles expired lifetimes and due solicitations.
    pub fn poll(&mut self, now: Instant) -> Due {
        let before = (self.default_router(), self.networks.len());
        let had_router = !self.routers.is_empty();
        self.routers.retain(|(_, until)| *until > now);
        self.networks.retain(|(_, until)| *until > now);
        if had_router && self.routers.is_empty() && self.solicitation.is_none() {
            self.ask_again(now);
        }
        let mut due = Due {
            changed: before != (self.default_router(), self.networks.len()),
            solicit: false,
        };
        if let Some(s) = self.solicitation.filter(|s| s.at <= now) {
            due.solicit = true;
            // RFC 7559 section 2: the wait doubles each time, randomised by up to a tenth
            // in either direction.
            let base = match s.waited {
                0 => FIRST_WAIT_MS,
                waited => (2 * waited).min(LONGEST_WAIT_MS),
            };
            let waited = base - base / 10 + self.random.draw() % (base / 5);
            self.solicitation = Some(Solicitation {
                at: now.after_ms(waited),
                waited,
            });
        }
        due
    }

    /// When [`poll`](Self::poll) has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let ends = self.routers.iter().map(|(_, until)| *until);
        let ends = ends.chain(self.networks.iter().map(|(_, until)| *until));
        let ends = ends.chain(self.solicitation.map(|s| s.at));
        ends.min().filter(|due| *due != NEVER)
    }

    fn update_router(&mut self, from: Ipv6Addr, lifetime: u16, now: Instant) -> bool {
        let before = self.default_router();
        let until = now.after_ms(u64::from(lifetime) * 1000);
        if lifetime == 0 {
            self.routers.retain(|(ip, _)| *ip != from);
        }
        let has_room = self.routers.len() < MOST_ROUTERS;
        match self.routers.iter_mut().find(|(ip, _)| *ip == from) {
            Some((_, end)) => *end = until,
            None if lifetime != 0 && has_room => {
                self.routers.push((from, until));
            }
            None => {}
        }
        // RFC 7559 section 2: an advertisement of a default router ends solicitation.
        if lifetime != 0 {
            self.solicitation = None;
        }
        self.default_router() != before
    }

    fn update_parameters(&mut self, advert: &Advert, mtu: Option<u32>) {
        const HOUR_MS: u32 = 3_600_000;
        let advice = &mut self.advice;
        if advert.hop_limit != 0 {
            advice.hop_limit = Some(advert.hop_limit);
        }
        // RFC 4861 section 6.2.1: the maximum is one hour.
        if (1..=HOUR_MS).contains(&advert.reachable_ms) {
            advice.reachable_ms = Some(advert.reachable_ms);
        }
        if (1..=HOUR_MS).contains(&advert.retransmit_ms) {
            advice.retransmit_ms = Some(advert.retransmit_ms);
        }
        let most = self.link_mtu.min(65_535) as u32;
        let fits = |mtu: &u32| (MIN_MTU as u32..=most).contains(mtu);
        if let Some(mtu) = mtu.filter(fits) {
            advice.mtu = Some(mtu as u16);
        }
    }

    fn update_prefix(&mut self, prefix: &PrefixInfo, now: Instant) -> bool {
        let whole = Cidr {
            address: prefix.prefix.into(),
            prefix_len: prefix.len,
        };
        let network = Cidr {
            address: whole.network(),
            prefix_len: prefix.len,
        };
        let until = end_of(prefix.valid, now);
        if prefix.valid == 0 {
            let before = self.networks.len();
            self.networks.retain(|(n, _)| *n != network);
            return self.networks.len() < before;
        }
        let has_room = self.networks.len() < MOST_NETWORKS;
        match self.networks.iter_mut().find(|(n, _)| *n == network) {
            Some((_, end)) => {
                *end = until;
                false
            }
            None if has_room => {
                self.networks.push((network, until));
                true
            }
            None => false,
        }
    }

    /// RFC 4862 section 5.5.3.
    fn update_autonomous(
        &mut self,
        prefix: &PrefixInfo,
        addresses: &mut Addresses,
        now: Instant,
    ) -> bool {
        if prefix.preferred > prefix.valid || prefix.len != 128 - IDENTIFIER_LEN {
            return false;
        }
        let said = Lifetimes {
            valid: end_of(prefix.valid, now),
            preferred: end_of(prefix.preferred, now),
        };
        let ours: Vec<(Ipv6Addr, Instant)> =
            addresses.made_with(prefix.prefix, prefix.len).collect();
        for (address, end) in &ours {
            // Forged advertisements must not remove addresses at once.
            let least = now.after_ms(LEAST_VALID_MS);
            let valid = if said.valid > least || said.valid > *end {
                said.valid
            } else {
                least.min(*end)
            };
            addresses.set_lifetimes(*address, Lifetimes { valid, ..said }, now);
        }
        if !ours.is_empty() || prefix.valid == 0 {
            return false;
        }
        let made = Generated {
            attempt: 0,
            prefix_len: prefix.len,
            lifetimes: said,
        };
        let address = self.identifiers.address(prefix.prefix, 0);
        addresses.add_made(address, &made, now)
    }
}

/// The results of [`Routers::poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Send a router solicitation now.
    pub solicit: bool,
    /// Routers or prefixes have changed.
    pub changed: bool,
}

/// The end of a lifetime in seconds; all ones means infinity.
const fn end_of(seconds: u32, now: Instant) -> Instant {
    if seconds == u32::MAX {
        NEVER
    } else {
        now.after_ms(seconds as u64 * 1000)
    }
}

#[cfg(test)]
mod tests;

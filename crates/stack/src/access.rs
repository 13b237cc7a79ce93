//! What programs may reach through an engine: rules by prefix, port and protocol for what is
//! accepted, connected to and bound.
//!
//! Packets of an engine pass no firewall of its host's (a packet socket) or another chain of
//! it than its administrator expects (a TAP device), so the engine has rules of its own. They
//! are looked at off the fast path: at bind, at connect, at a SYN and, for sockets without a
//! peer, at a datagram. Connections that are there already are left alone.

use core::str::FromStr;
use longshore_net::Cidr;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Allows or denies what it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    allow: bool,
    /// Both if `None`.
    transport: Option<Transport>,
    /// All addresses of both versions if `None`.
    prefix: Option<Cidr>,
    ports: RangeInclusive<u16>,
}

/// Not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no rule: write allow or deny, tcp or udp if it is for one of them, any or a \
     prefix as 10.0.0.0/8, and if it is for some ports, port N or port N-M"
)]
pub struct BadRule {
    text: String,
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let bad = || BadRule {
            text: text.to_owned(),
        };
        let mut words = text.split_whitespace().peekable();
        let allow = match words.next() {
            Some("allow") => true,
            Some("deny") => false,
            _ => return Err(bad()),
        };
        let transport = match words.peek() {
            Some(&"tcp") => Some(Transport::Tcp),
            Some(&"udp") => Some(Transport::Udp),
            _ => None,
        };
        if transport.is_some() {
            words.next();
        }
        let prefix = match words.next().ok_or_else(bad)? {
            "any" => None,
            prefix => Some(read_prefix(prefix).ok_or_else(bad)?),
        };
        let ports = match words.next() {
            None => 0..=u16::MAX,
            Some("port") => words.next().and_then(read_ports).ok_or_else(bad)?,
            Some(_) => return Err(bad()),
        };
        if words.next().is_some() {
            return Err(bad());
        }
        Ok(Rule {
            allow,
            transport,
            prefix,
            ports,
        })
    }
}

/// A prefix, or one address, which is a prefix of all its bits.
fn read_prefix(text: &str) -> Option<Cidr> {
    match text.split_once('/') {
        Some((address, len)) => Cidr::new(address.parse().ok()?, len.parse().ok()?).ok(),
        None => {
            let address: IpAddr = text.parse().ok()?;
            Cidr::new(address, if address.is_ipv4() { 32 } else { 128 }).ok()
        }
    }
}

fn read_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ports = first.parse().ok()?..=last.parse().ok()?;
    (!ports.is_empty()).then_some(ports)
}

impl Rule {
    fn matches(&self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        self.transport.is_none_or(|t| t == transport)
            && self.ports.contains(&port)
            && match self.prefix {
                None => true,
                // The wildcard is every address of the engine: what denies one of them denies
                // it, and what allows some does not allow it.
                Some(_) if ip.is_unspecified() => !self.allow,
                Some(prefix) => prefix.contains(ip),
            }
    }
}

/// Rules in their order: the first that matches counts, and what none matches is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    #[inline]
    fn allow(&self, transport: Transport, address: SocketAddr) -> bool {
        self.0.is_empty() || self.judge(transport, address)
    }

    #[cold]
    fn judge(&self, transport: Transport, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let mut rules = self.0.iter();
        rules
            .find(|rule| rule.matches(transport, ip, address.port()))
            .is_none_or(|rule| rule.allow)
    }
}

/// The programs that may bind the ports below net.ipv4.ip_unprivileged_port_start (1024).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LowPorts {
    /// As on the host: a process that has CAP_NET_BIND_SERVICE.
    #[default]
    Host,
    /// Programs that root has started.
    Root,
    /// Everybody who may use the engine.
    All,
}

/// An engine's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Which peers reach which of the engine's ports.
    pub accept: Rules,
    /// Which destinations programs reach, and which ports there.
    pub connect: Rules,
    /// Which of the engine's addresses and ports programs bind.
    pub bind: Rules,
    /// Which programs bind low ports.
    pub low_ports: LowPorts,
}

impl Access {
    /// Whether a peer reaches a port of the engine's. For UDP, only sockets that have no peer
    /// are asked for: what one with a peer receives, it has asked for itself.
    #[inline]
    pub(crate) fn may_accept(&self, transport: Transport, peer: IpAddr, port: u16) -> bool {
        self.accept.allow(transport, SocketAddr::new(peer, port))
    }

    /// Whether a program reaches this destination.
    #[inline]
    pub(crate) fn may_connect(&self, transport: Transport, to: SocketAddr) -> bool {
        self.connect.allow(transport, to)
    }

    /// Whether a program may bind this.
    pub(crate) fn may_bind(&self, transport: Transport, local: SocketAddr) -> bool {
        self.bind.allow(transport, local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Transport::{Tcp, Udp};

    fn rules(texts: &[&str]) -> Rules {
        Rules(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules = rules(&[
            "allow tcp 10.0.0.0/8 port 80-81",
            "deny 10.1.0.0/16",
            "deny udp any port 53",
            "deny 2001:db8::/32",
        ]);
        let allows = |transport, text| rules.allow(transport, at(text));
        assert!(allows(Tcp, "10.1.2.3:80") && allows(Tcp, "10.1.2.3:81"));
        assert!(!allows(Tcp, "10.1.2.3:82") && !allows(Udp, "10.1.2.3:80"));
        assert!(allows(Tcp, "192.0.2.1:53") && !allows(Udp, "192.0.2.1:53"));
        assert!(!allows(Tcp, "[2001:db8::1]:80") && allows(Tcp, "[2001:db9::1]:80"));
        // However a dual-stack socket writes it.
        assert!(!allows(Tcp, "[::ffff:10.1.2.3]:22"));
        assert!(Rules::default().allow(Tcp, at("10.1.2.3:82")));
    }

    #[test]
    fn the_wildcard_is_every_address() {
        let some = rules(&[
            "allow 10.0.0.1 port 80",
            "deny 10.0.0.2 port 81",
            "allow any",
        ]);
        assert!(some.allow(Tcp, at("10.0.0.1:80")));
        assert!(!some.allow(Tcp, at("0.0.0.0:81")));
        let one = rules(&["allow 10.0.0.1 port 80", "deny any"]);
        assert!(!one.allow(Tcp, at("0.0.0.0:80")));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "allow",
            "permit any",
            "allow 10.0.0.0/33",
            "allow any 80",
            "allow any port",
            "allow any port 2-1",
            "allow any port 80 now",
            "deny sctp any",
            "deny tcp",
            "deny any port 65536",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}

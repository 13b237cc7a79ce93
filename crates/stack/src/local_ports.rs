//! The ports for programs that ask for none in particular (Linux: net.ipv4.ip_local_port_range and
//! ip_local_reserved_ports).
//!
//! Owns [`LocalPorts`] and [`ReservedPorts`]; a [`Host`](crate::Host) says which they are, and
//! `demux` chooses by them.

use crate::port_set::PortSet;
use std::ops::RangeInclusive;

/// Ports from a first to a last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalPorts {
    first: u16,
    last: u16,
}

impl Default for LocalPorts {
    /// As Linux has it unless somebody has set it.
    fn default() -> Self {
        Self {
            first: 32_768,
            last: 60_999,
        }
    }
}

impl LocalPorts {
    /// The ports from `first` to `last`, both included; `None` if there are none, or 0 is one of
    /// them.
    #[must_use]
    pub fn new(first: u16, last: u16) -> Option<Self> {
        (first != 0 && first <= last).then_some(Self { first, last })
    }

    /// All of them.
    pub(crate) fn all(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    /// One of them for a number.
    pub(crate) fn of_number(self, number: u64) -> u16 {
        self.first + (number % u64::from(self.count())) as u16
    }
}

/// Ports that nobody is given who asks for none in particular, and that may be bound all the same
/// (Linux: net.ipv4.ip_local_reserved_ports).
#[derive(Debug, Clone, Default)]
pub struct ReservedPorts(PortSet);

impl ReservedPorts {
    /// Parses what Linux writes: ports and ranges of them, from 0 to 65535, with commas between
    /// them. `None` if the text is something else; an empty one reserves nothing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut reserved = Self::default();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
            if first > last {
                return None;
            }
            (first..=last).for_each(|port| reserved.0.set(port, true));
        }
        Some(reserved)
    }

    /// Whether it reserves nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.count(&(0..=u16::MAX)) == 0
    }

    pub(crate) fn contains(&self, port: u16) -> bool {
        self.0.contains(port)
    }

    pub(crate) fn ports(&self) -> &PortSet {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reserves_no_port_is_empty() {
        let is_empty = |text| ReservedPorts::parse(text).map(|all| all.is_empty());
        assert_eq!(is_empty("\n"), Some(true));
        assert_eq!(is_empty("8080\n"), Some(false));
    }

    #[test]
    fn reserved_ports_are_read_as_linux_writes_them() {
        let of = |text| {
            let reserved = ReservedPorts::parse(text)?;
            let all = (0..=u16::MAX).filter(|port| reserved.contains(*port));
            Some(all.collect::<Vec<_>>())
        };
        assert_eq!(of("\n"), Some(vec![]));
        assert_eq!(of("8080\n"), Some(vec![8080]));
        let several = "1-3,8080,65534-65535\n";
        assert_eq!(of(several), Some(vec![1, 2, 3, 8080, 65_534, 65_535]));
        assert_eq!(of("0-65535").map(|all| all.len()), Some(65_536));
        for text in ["8080 8081", "3-1", "65536", "-", "1-", "x", "1,y"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn each_has_a_number_and_no_other_port_has_one() {
        for (first, last) in [
            (1, u16::MAX),
            (1024, 1024),
            (u16::MAX, u16::MAX),
            (40_000, 40_002),
        ] {
            let ports = LocalPorts::new(first, last).unwrap();
            assert_eq!(ports.count() as usize, ports.all().count());
            assert_eq!(ports.of_number(0), first);
            let count = u64::from(ports.count());
            assert_eq!(ports.of_number(count - 1), last);
            assert_eq!(ports.of_number(count), first);
        }
        assert_eq!(LocalPorts::new(0, 5), None);
        assert_eq!(LocalPorts::new(7, 6), None);
        assert_eq!(LocalPorts::default().count(), 28_232);
    }
}

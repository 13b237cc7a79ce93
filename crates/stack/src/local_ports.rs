//! The ports for programs that ask for none in particular (Linux: net.ipv4.ip_local_port_range).

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

#[cfg(test)]
mod tests {
    use super::*;

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

//! A bus of any bandwidth and latency, for what no standard describes: an adapter behind a
//! switch, another machine, or a part that is yet to be built.
//!
//! Each direction has the bandwidth to itself. A read takes the latency, a posted write half
//! of it, and both the time in which their bytes move; nothing is added to the bytes.

use crate::transfer::{Access, Bus, Cycles, Sums};
use std::fmt;

/// A bus that is described by two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedRate {
    /// Bits each second, in each direction; not 0.
    pub bits_per_second: u64,
    /// What a read waits for beside its bytes, in nanoseconds.
    pub latency_ns: u64,
}

/// Multiples of units, the largest first.
const RATES: [(&str, u64); 4] = [
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
    ("b/s", 1),
];
const TIMES: [(&str, u64); 4] = [
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    ("s", 1_000_000_000),
];

/// A number with its unit, in the smallest of the units: at most 2^53.
fn measure(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (digits, scale) = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    let is_number = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = digits.parse().ok().filter(|_| is_number)?;
    #[expect(clippy::cast_precision_loss, reason = "a unit")]
    let value = (number * scale as f64).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is in range"
    )]
    (0.0..9e15).contains(&value).then_some(value as u64)
}

/// A rate with its unit (`1Gb/s`, `2.5Gb/s`, `300Mb/s`), in bits each second.
pub(crate) fn rate(text: &str) -> Option<u64> {
    measure(text, &RATES).filter(|rate| *rate != 0)
}

/// A time with its unit (`20us`, `1.5us`, `500ns`, `1ms`), in nanoseconds.
pub(crate) fn nanoseconds(text: &str) -> Option<u64> {
    measure(text, &TIMES)
}

/// A value in the largest unit that leaves it whole.
fn show(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let largest = units.iter().find(|(_, scale)| value.is_multiple_of(*scale));
    let (unit, scale) = largest.copied().unwrap_or(("", 1));
    write!(f, "{}{unit}", value / scale)
}

impl fmt::Display for FixedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bandwidth=")?;
        show(f, self.bits_per_second, &RATES)?;
        f.write_str(",latency=")?;
        match self.latency_ns {
            0 => f.write_str("0ns"),
            latency => show(f, latency, &TIMES[..3]),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes and rates far below 2^53")]
impl Bus for FixedRate {
    fn cycles(&self, access: Access, bytes: u64) -> Cycles {
        Cycles::of(access, bytes, 0)
    }

    fn most_cycles(&self, access: Access, sums: &Sums) -> Cycles {
        Cycles::of(access, sums.bytes, 0)
    }

    /// A cycle moves one byte.
    fn frequency(&self) -> f64 {
        self.bits_per_second as f64 / 8.0
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn latency_ns(&self, access: Access, bytes: u64) -> f64 {
        let share = if access.is_read() { 1.0 } else { 0.5 };
        share * self.latency_ns as f64 + bytes as f64 / self.frequency() * 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_take_the_latency_and_writes_half() {
        let bus = FixedRate {
            bits_per_second: 1_000_000_000,
            latency_ns: 20_000,
        };
        let ns = |access, bytes| bus.latency_ns(access, bytes);
        assert!((ns(Access::AdapterRead, 1000) - 28_000.0).abs() < 1e-6);
        assert!((ns(Access::AdapterWrite, 1000) - 18_000.0).abs() < 1e-6);
        assert_eq!(bus.to_string(), "bandwidth=1Gb/s,latency=20us");
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(rate("1Gb/s"), Some(1_000_000_000));
        assert_eq!(rate("2.5Gb/s"), Some(2_500_000_000));
        assert_eq!(rate("300kb/s"), Some(300_000));
        assert_eq!(nanoseconds("1.5us"), Some(1500));
        assert_eq!(nanoseconds("1s"), Some(1_000_000_000));
        assert_eq!(nanoseconds("0ns"), Some(0));
        for wrong in [
            "",
            "Gb/s",
            "1",
            "-1Gb/s",
            "0Gb/s",
            "1e9b/s",
            "infb/s",
            "99999999999Gb/s",
        ] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
    }
}

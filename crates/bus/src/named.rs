//! Buses by their names.
//!
//! Owns [`AnyBus`]; command lines and configurations choose a bus by it.

use crate::fixed_rate::{self, FixedRate};
use crate::transfer::{Access, Bus, Cycles, Sums};
use crate::{Cxl, Generation, LANES, PciX, Pcie};
use std::fmt;
use std::str::FromStr;

/// One of the modelled buses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnyBus {
    /// `pcix`
    PciX(PciX),
    /// `pcie-gen4x8` and its like
    Pcie(Pcie),
    /// `cxl`
    Cxl(Cxl),
    /// `bandwidth=1Gb/s,latency=20us` and its like
    FixedRate(FixedRate),
}

/// No bus has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownBus {
    name: String,
    /// What is wrong with a bus that is described by its numbers.
    wrong: Option<String>,
}

impl fmt::Display for UnknownBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = AnyBus::all().iter().map(ToString::to_string).collect();
        write!(f, "no bus is called `{}`", self.name)?;
        if let Some(wrong) = &self.wrong {
            write!(f, " ({wrong})")?;
        } else if let Some(nearest) = self.nearest(&names) {
            write!(f, " (did you mean {nearest}?)")?;
        }
        write!(
            f,
            "; there are {}, and one of your own is written as bandwidth=1Gb/s,latency=20us",
            names.join(", ")
        )
    }
}

impl UnknownBus {
    /// The name that is most like this, if any is: of PCI Express, that of the nearest generation
    /// with the nearest number of lanes.
    fn nearest<'a>(&self, names: &'a [String]) -> Option<&'a str> {
        let plain = |name: &str| -> Vec<u8> {
            let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
            letters.map(|byte| byte.to_ascii_lowercase()).collect()
        };
        let name = plain(&self.name);
        if let Some(wanted) = generation_and_lanes(&name) {
            let apart = |name: &&String| {
                let (generation, lanes) = generation_and_lanes(&plain(name))?;
                Some((wanted.0.abs_diff(generation), wanted.1.abs_diff(lanes)))
            };
            let links = names.iter().filter(|name| apart(name).is_some());
            return links.min_by_key(apart).map(String::as_str);
        }
        let edits = |other: &&String| edits(&name, &plain(other));
        let nearest = names.iter().min_by_key(edits)?;
        (edits(&nearest) <= MOST_EDITS).then_some(nearest)
    }
}

/// The most edits by which a name is like another.
const MOST_EDITS: usize = 2;

/// The numbers of a name as `pciegen5x8`.
fn generation_and_lanes(name: &[u8]) -> Option<(u32, u32)> {
    let name = std::str::from_utf8(name).ok()?;
    let (generation, lanes) = name.strip_prefix("pcie")?.split_once('x')?;
    let generation = generation.strip_prefix("gen").unwrap_or(generation);
    Some((generation.parse().ok()?, lanes.parse().ok()?))
}

/// How many letters have to be put in, taken out or replaced to make one name of another.
fn edits(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

impl std::error::Error for UnknownBus {}

impl AnyBus {
    /// All that have names, the oldest first.
    #[must_use]
    pub fn all() -> Vec<AnyBus> {
        let mut all = vec![AnyBus::PciX(PciX::default())];
        for generation in Generation::ALL {
            all.extend(LANES.map(|lanes| AnyBus::Pcie(Pcie::new(generation, lanes))));
        }
        all.push(AnyBus::Cxl(Cxl));
        all
    }

    fn bus(&self) -> &dyn Bus {
        match self {
            AnyBus::PciX(bus) => bus,
            AnyBus::Pcie(bus) => bus,
            AnyBus::Cxl(bus) => bus,
            AnyBus::FixedRate(bus) => bus,
        }
    }
}

impl fmt::Display for AnyBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyBus::PciX(_) => f.write_str("pcix"),
            AnyBus::Pcie(link) => {
                write!(f, "pcie-gen{}x{}", link.generation.number(), link.lanes)
            }
            AnyBus::Cxl(_) => f.write_str("cxl"),
            AnyBus::FixedRate(bus) => bus.fmt(f),
        }
    }
}

impl FromStr for AnyBus {
    type Err = UnknownBus;

    fn from_str(name: &str) -> Result<Self, UnknownBus> {
        let unknown = |wrong| UnknownBus {
            name: name.to_owned(),
            wrong,
        };
        if name.contains('=') {
            let bus = fixed(name).map_err(|wrong| unknown(Some(wrong)))?;
            return Ok(AnyBus::FixedRate(bus));
        }
        let mut all = AnyBus::all().into_iter();
        all.find(|bus| bus.to_string() == name)
            .ok_or_else(|| unknown(None))
    }
}

/// A bus that is described by its numbers, or what is wrong with them. One whose latency is not
/// given has none.
fn fixed(text: &str) -> Result<FixedRate, String> {
    let (mut bandwidth, mut latency) = (None, None);
    for part in text.split(',') {
        let (slot, value, written) = match part.split_once('=') {
            Some(("bandwidth", value)) => (
                &mut bandwidth,
                fixed_rate::rate(value),
                "with its unit, as 300Mb/s or 1Gb/s",
            ),
            Some(("latency", value)) => (
                &mut latency,
                fixed_rate::nanoseconds(value),
                "with its unit, as 500ns or 20us",
            ),
            _ => return Err(format!("`{part}` is neither its bandwidth nor its latency")),
        };
        let value = value.ok_or_else(|| format!("`{part}`: it is written {written}"))?;
        if slot.replace(value).is_some() {
            return Err(format!("`{part}` is said twice"));
        }
    }
    Ok(FixedRate {
        bits_per_second: bandwidth.ok_or("its bandwidth is not said")?,
        latency_ns: latency.unwrap_or(0),
    })
}

impl Bus for AnyBus {
    fn cycles(&self, access: Access, bytes: u64) -> Cycles {
        self.bus().cycles(access, bytes)
    }

    fn most_cycles(&self, access: Access, sums: &Sums) -> Cycles {
        self.bus().most_cycles(access, sums)
    }

    fn frequency(&self) -> f64 {
        self.bus().frequency()
    }

    fn is_shared(&self) -> bool {
        self.bus().is_shared()
    }

    fn latency_ns(&self, access: Access, bytes: u64) -> f64 {
        self.bus().latency_ns(access, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_said() {
        for (name, nearest) in [
            ("pcie-gen5x9", Some("pcie-gen5x8")),
            ("pcie-gen5x32", Some("pcie-gen5x16")),
            ("pcie-gen9x4", Some("pcie-gen6x4")),
            ("PCIe5x8", Some("pcie-gen5x8")),
            ("pcie_gen3x2", Some("pcie-gen3x2")),
            ("pci-x", Some("pcix")),
            ("cxl2", Some("cxl")),
            ("isa", None),
            ("", None),
            ("bandwidth=1", None),
        ] {
            let said = name.parse::<AnyBus>().unwrap_err().to_string();
            match nearest {
                Some(nearest) => {
                    let asks = format!("`{name}` (did you mean {nearest}?)");
                    assert!(said.contains(&asks), "{said}");
                }
                None => assert!(!said.contains("did you mean"), "{said}"),
            }
        }
    }

    #[test]
    fn every_bus_is_found_by_its_name() {
        let all = AnyBus::all();
        assert_eq!(all.len(), 2 + 4 * 5);
        for bus in all {
            assert_eq!(bus.to_string().parse(), Ok(bus));
        }
        assert_eq!(
            "pcie-gen4x8".parse(),
            Ok(AnyBus::Pcie(Pcie::new(Generation::Gen4, 8)))
        );
    }

    #[test]
    fn a_bus_can_be_described_by_its_numbers() {
        for text in [
            "bandwidth=1Gb/s,latency=20us",
            "bandwidth=2500Mb/s,latency=0ns",
        ] {
            let bus: AnyBus = text.parse().unwrap();
            assert_eq!(bus.to_string(), text);
        }
        assert_eq!(
            "latency=1500ns,bandwidth=1Mb/s".parse(),
            Ok(AnyBus::FixedRate(FixedRate {
                bits_per_second: 1_000_000,
                latency_ns: 1500
            }))
        );
    }

    #[test]
    fn other_names_are_answered_with_those_there_are() {
        for wrong in [
            "",
            "pcie",
            "pcie-gen2x8",
            "pcie-gen4x3",
            "PCIX",
            "latency=1us",
            "bandwidth=0Gb/s",
            "bandwidth=1Gb/s,bandwidth=2Gb/s",
            "bandwidth=1Gb/s,width=8",
        ] {
            let error = wrong.parse::<AnyBus>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}`")), "{error}");
            for name in ["pcix", "pcie-gen3x1", "pcie-gen6x16", "cxl"] {
                assert!(error.contains(name), "{error}");
            }
        }
    }

    #[test]
    fn of_a_bus_in_numbers_it_is_said_which_is_wrong() {
        for (text, wrong) in [
            (
                "bandwidth=1,latency=20us",
                "`bandwidth=1`: it is written with its unit",
            ),
            (
                "bandwidth=1Gb/s,latency=2",
                "`latency=2`: it is written with its unit",
            ),
            ("latency=2us", "its bandwidth is not said"),
            ("bandwidth=1Gb/s,width=8", "`width=8` is neither"),
            (
                "bandwidth=1Gb/s,bandwidth=2Gb/s",
                "`bandwidth=2Gb/s` is said twice",
            ),
        ] {
            let said = text.parse::<AnyBus>().unwrap_err().to_string();
            assert!(said.contains(wrong), "{said}");
        }
    }

    /// A newer generation, and more lanes, take no longer for the same traffic.
    #[test]
    fn newer_and_wider_links_are_faster() {
        let seconds = |name: &str| {
            let bus: AnyBus = name.parse().unwrap();
            let mut traffic = crate::Traffic::default();
            traffic.access(&bus, Access::AdapterRead, 65_536);
            traffic.access(&bus, Access::AdapterWrite, 256);
            traffic.seconds(&bus)
        };
        for pair in [
            ["pcix", "pcie-gen3x4"],
            ["pcie-gen3x8", "pcie-gen3x16"],
            ["pcie-gen3x8", "pcie-gen4x8"],
            ["pcie-gen4x8", "pcie-gen5x8"],
            ["pcie-gen5x8", "pcie-gen6x8"],
        ] {
            assert!(seconds(pair[1]) < seconds(pair[0]), "{pair:?}");
        }
    }
}

//! What a transfer engine goes by, and how it is written.
//!
//! Owns [`BusModel`], which `--transport bus:MODEL` is parsed into and a transfer engine is made
//! of.

use super::PIECE;
use crate::{AnyBus, UnknownBus, fixed_rate};
use std::fmt;
use std::str::FromStr;

/// When the adapter handles a request whose payload it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Forwarding {
    /// When all of it is there.
    #[default]
    StoreAndForward,
    /// When the first piece of it is there; the others follow as the bus carries them.
    CutThrough,
    /// Cut through while no other payload waits or is under way; otherwise payload is read whole,
    /// stored and forwarded (Gallatin, Chase and Yocum, Trapeze/IP, 1999, section 2: adaptive
    /// message pipelining).
    Adaptive,
}

impl Forwarding {
    /// All of them.
    pub const ALL: [Forwarding; 3] = [
        Forwarding::StoreAndForward,
        Forwarding::CutThrough,
        Forwarding::Adaptive,
    ];

    /// As it is written in a model.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Forwarding::StoreAndForward => "store",
            Forwarding::CutThrough => "cut-through",
            Forwarding::Adaptive => "adaptive",
        }
    }
}

/// A bus, and an adapter at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusModel {
    /// The bus.
    pub bus: AnyBus,
    /// What the adapter takes for each request, in ns.
    pub adapter_ns: u64,
    /// When it begins.
    pub forwarding: Forwarding,
    /// Bytes of reads under way, and of writes, at most; at least [`PIECE`].
    pub in_flight: u64,
    /// Descriptors that it fetches at once, at most: 1 to 256.
    pub fetch: u32,
}

impl BusModel {
    /// An adapter that takes no time, stores and forwards, has 256 KiB in flight and fetches 32
    /// descriptors at once, so that a request is one fetch with its immediate data.
    #[must_use]
    pub fn on(bus: AnyBus) -> Self {
        Self {
            bus,
            adapter_ns: 0,
            forwarding: Forwarding::default(),
            in_flight: 256 * 1024,
            fetch: 32,
        }
    }
}

impl fmt::Display for BusModel {
    /// As it is read; what is as usual is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::on(self.bus);
        write!(f, "{}", self.bus)?;
        if self.adapter_ns != usual.adapter_ns {
            write!(f, ",adapter-latency={}ns", self.adapter_ns)?;
        }
        if self.forwarding != usual.forwarding {
            write!(f, ",forwarding={}", self.forwarding.name())?;
        }
        if self.in_flight != usual.in_flight {
            write!(f, ",in-flight={}", self.in_flight)?;
        }
        if self.fetch != usual.fetch {
            write!(f, ",fetch={}", self.fetch)?;
        }
        Ok(())
    }
}

/// Not a bus with an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadBusModel {
    /// There is no such bus.
    Bus(UnknownBus),
    /// There is no such setting.
    Setting(String),
    /// A setting has no such value: which setting, the value, and what it may be.
    Value(&'static str, String, &'static str),
}

impl fmt::Display for BadBusModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBusModel::Bus(unknown) => unknown.fmt(f),
            BadBusModel::Setting(setting) => write!(
                f,
                "a modelled bus has no setting `{setting}`; there are adapter-latency=2us, \
                 forwarding=store|cut-through|adaptive, in-flight=256K and fetch=32"
            ),
            BadBusModel::Value(setting, value, may_be) => {
                write!(f, "{setting} cannot be `{value}`; write {may_be}")
            }
        }
    }
}

impl std::error::Error for BadBusModel {}

/// Bytes: a number, with K or M for KiB and MiB.
fn bytes(text: &str) -> Option<u64> {
    let (digits, scale) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

impl FromStr for BusModel {
    type Err = BadBusModel;

    /// A bus, as [`AnyBus`] is written, and after commas what is not as usual:
    /// `pcie-gen4x8,adapter-latency=2us,forwarding=cut-through,in-flight=64K,fetch=1`.
    fn from_str(text: &str) -> Result<Self, BadBusModel> {
        let is_of_bus = |part: &&str| {
            !part.contains('=') || part.starts_with("bandwidth=") || part.starts_with("latency=")
        };
        let (bus, settings): (Vec<&str>, Vec<&str>) = text.split(',').partition(is_of_bus);
        let mut model = Self::on(bus.join(",").parse().map_err(BadBusModel::Bus)?);
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let bad = |name, may_be| BadBusModel::Value(name, value.to_owned(), may_be);
            match name {
                "adapter-latency" => {
                    let ns = fixed_rate::nanoseconds(value);
                    model.adapter_ns = ns.ok_or_else(|| bad("adapter-latency", "500ns or 2us"))?;
                }
                "forwarding" => {
                    let found = Forwarding::ALL.into_iter().find(|f| f.name() == value);
                    let may_be = "store, cut-through or adaptive";
                    model.forwarding = found.ok_or_else(|| bad("forwarding", may_be))?;
                }
                "in-flight" => {
                    let found = bytes(value).filter(|n| (PIECE..=1 << 30).contains(n));
                    model.in_flight = found.ok_or_else(|| bad("in-flight", "2K to 1024M"))?;
                }
                "fetch" => {
                    let found = value.parse().ok().filter(|n| (1..=256).contains(n));
                    model.fetch = found.ok_or_else(|| bad("fetch", "1 to 256"))?;
                }
                _ => return Err(BadBusModel::Setting(setting.to_owned())),
            }
        }
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_written_as_it_is_read() {
        for text in [
            "pcix",
            "pcie-gen4x8,adapter-latency=2000ns,forwarding=cut-through,in-flight=65536,fetch=1",
            "bandwidth=1Gb/s,latency=20us,fetch=4",
            "pcix,forwarding=adaptive",
        ] {
            assert_eq!(text.parse::<BusModel>().unwrap().to_string(), text);
        }
        let model: BusModel = "in-flight=64K,cxl,adapter-latency=1.5us".parse().unwrap();
        assert_eq!((model.in_flight, model.adapter_ns), (65_536, 1500));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("", "no bus is called"),
            ("pcie-gen4", "pcie-gen4x8"),
            ("latency=1us", "bandwidth=1Gb/s,latency=20us"),
            ("pcix,speed=1", "adapter-latency=2us"),
            ("pcix,adapter-latency=2", "500ns"),
            ("pcix,forwarding=late", "store, cut-through or adaptive"),
            ("pcix,in-flight=1K", "2K to 1024M"),
            ("pcix,in-flight=99999999999999999999M", "2K to 1024M"),
            ("pcix,fetch=0", "1 to 256"),
        ] {
            let error = text.parse::<BusModel>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

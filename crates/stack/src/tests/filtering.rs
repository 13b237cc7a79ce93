//! The port of a memory wire that notes what it is told to let through, as one does that takes
//! only its own frames from an interface that it shares.

use longshore_frames::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};
use longshore_ports::memory::MemoryPort;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// What the port lets through; the test's half.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter(Arc<Mutex<Wanted>>);

/// The last that the port was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    addresses: Vec<(IpAddr, u8)>,
    dhcp: bool,
    groups: Vec<IpAddr>,
    /// All SYNs, if it was not told.
    syns: Option<u8>,
    /// What it says when it is asked next.
    has_returned: bool,
}

impl Filter {
    /// The addresses, each with the length of its prefix, and whether what is for DHCP clients
    /// comes through, too.
    pub(super) fn addresses(&self) -> (Vec<(IpAddr, u8)>, bool) {
        let wanted = self.0.lock().unwrap();
        (wanted.addresses.clone(), wanted.dhcp)
    }

    pub(super) fn groups(&self) -> Vec<IpAddr> {
        self.0.lock().unwrap().groups.clone()
    }

    /// One SYN in 2 to the power of this, if it was told which part of them.
    pub(super) fn syns(&self) -> Option<u8> {
        self.0.lock().unwrap().syns
    }

    /// It has lost what it was told, as one whose interface is another.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap() = Wanted::default();
    }

    /// The link carries frames again.
    pub(super) fn link_returns(&self) {
        self.0.lock().unwrap().has_returned = true;
    }
}

/// The port.
#[derive(Debug)]
pub(super) struct Filtering {
    port: MemoryPort,
    filter: Filter,
}

impl Filtering {
    pub(super) fn new(port: MemoryPort) -> (Self, Filter) {
        let filter = Filter::default();
        let filtering = Self {
            port,
            filter: filter.clone(),
        };
        (filtering, filter)
    }
}

impl Port for Filtering {
    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        self.port.recv_scatter(parts)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.port.send(frame)
    }

    fn set_addresses(&mut self, addresses: &[(IpAddr, u8)], dhcp: bool) -> Result<(), PortError> {
        let mut wanted = self.filter.0.lock().unwrap();
        wanted.addresses = addresses.to_vec();
        wanted.dhcp = dhcp;
        Ok(())
    }

    fn set_groups(&mut self, groups: &[IpAddr]) -> Result<(), PortError> {
        self.filter.0.lock().unwrap().groups = groups.to_vec();
        Ok(())
    }

    fn drop_syns(&mut self, shift: u8) -> Result<bool, PortError> {
        self.filter.0.lock().unwrap().syns = Some(shift);
        Ok(true)
    }

    fn link_has_returned(&mut self) -> bool {
        std::mem::take(&mut self.filter.0.lock().unwrap().has_returned)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}

//! What a port in front of another one (`capture`, `fault`) passes on to it as it is.

/// The methods of [`Port`](crate::Port) that are about the interface and not about frames, each
/// passed on to the port in this field.
macro_rules! pass_on_to {
    ($inner:ident) => {
        fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.$inner.fd()
        }

        fn link_events_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.$inner.link_events_fd()
        }

        fn is_attached(&self) -> bool {
            self.$inner.is_attached()
        }

        fn set_addresses(
            &mut self,
            addresses: &[(std::net::IpAddr, u8)],
            dhcp: bool,
        ) -> Result<(), $crate::PortError> {
            self.$inner.set_addresses(addresses, dhcp)
        }

        fn drop_syns(&mut self, shift: u8) -> Result<bool, $crate::PortError> {
            self.$inner.drop_syns(shift)
        }

        fn set_groups(&mut self, groups: &[std::net::IpAddr]) -> Result<(), $crate::PortError> {
            self.$inner.set_groups(groups)
        }

        fn link_has_returned(&mut self) -> bool {
            self.$inner.link_has_returned()
        }

        fn take_refusal(&mut self) -> Option<String> {
            self.$inner.take_refusal()
        }
    };
}

pub(crate) use pass_on_to;

#[cfg(test)]
mod tests {
    use crate::capture::CapturePort;
    use crate::fault::{FaultConfig, FaultPort};
    use crate::memory::{MemoryConfig, MemoryPort, pair};
    use crate::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};
    use std::io::IoSliceMut;
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    /// A port that answers otherwise than one that says nothing of its interface.
    #[derive(Debug)]
    struct Below {
        memory: MemoryPort,
        groups: usize,
        addresses: usize,
    }

    impl Port for Below {
        fn capabilities(&self) -> &Capabilities {
            self.memory.capabilities()
        }

        fn recv_scatter(
            &mut self,
            parts: &mut [IoSliceMut<'_>],
        ) -> Result<Option<RxMeta>, PortError> {
            self.memory.recv_scatter(parts)
        }

        fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
            self.memory.send(frame)
        }

        fn is_attached(&self) -> bool {
            false
        }

        fn set_addresses(&mut self, all: &[(IpAddr, u8)], _dhcp: bool) -> Result<(), PortError> {
            self.addresses = all.len();
            Ok(())
        }

        fn drop_syns(&mut self, _shift: u8) -> Result<bool, PortError> {
            Ok(true)
        }

        fn set_groups(&mut self, groups: &[IpAddr]) -> Result<(), PortError> {
            self.groups = groups.len();
            Ok(())
        }

        fn link_has_returned(&mut self) -> bool {
            true
        }

        fn take_refusal(&mut self) -> Option<String> {
            let (groups, addresses) = (self.groups, self.addresses);
            Some(format!("{groups} groups, {addresses} addresses"))
        }

        fn counters(&self) -> &PortCounters {
            self.memory.counters()
        }
    }

    fn below() -> Below {
        let (memory, _) = pair(&MemoryConfig::default());
        Below {
            memory,
            groups: 0,
            addresses: 0,
        }
    }

    fn passes_all_on(mut port: impl Port) {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(!port.is_attached());
        port.set_addresses(&[(address, 8)], false).unwrap();
        port.set_groups(&[address; 2]).unwrap();
        assert!(port.drop_syns(1).unwrap() && port.link_has_returned());
        let refusal = port.take_refusal();
        assert_eq!(refusal.as_deref(), Some("2 groups, 1 addresses"));
    }

    #[test]
    fn what_is_about_the_interface_passes_the_tracer_and_the_fault_injector() {
        passes_all_on(FaultPort::new(below(), &FaultConfig::default()));
        let clock = || Duration::ZERO;
        let capture = CapturePort::new(below(), Vec::new(), None, Box::new(clock));
        passes_all_on(capture.unwrap());
    }
}

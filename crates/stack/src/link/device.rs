//! The interface that frames go through: its port, what that can do, and our address there.
//!
//! Owns [`Device`], which is part of the [`Link`](super::Link). The sender of a packet knows its
//! next hop; the stack takes frames from the port. Everything here may change when the port's
//! interface does.

use super::Transport;
use crate::bytes::part;
use crate::counters::{Counters, EngineDrop};
use longshore_frames::{Capabilities, LinkKind, Port, PortError, TxChecksum, TxFrame, TxGso};
use longshore_wire::arp::ArpPacket;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader, Wanted};
use longshore_wire::{MacAddr, arp as arp_wire};
use std::net::IpAddr;

/// The port, and what is known of its interface.
pub(crate) struct Device {
    port: Box<dyn Port>,
    capabilities: Capabilities,
    mac: MacAddr,
    /// IPv4 packets to `mac`.
    wanted: Wanted,
}

/// Our address on the port's link; nothing where there is no link layer.
fn mac_of(capabilities: &Capabilities) -> MacAddr {
    match capabilities.link {
        LinkKind::Ethernet { mac } => MacAddr(mac),
        LinkKind::Ip => MacAddr::default(),
    }
}

impl Device {
    pub(super) fn new(port: Box<dyn Port>) -> Self {
        let capabilities = *port.capabilities();
        let mac = mac_of(&capabilities);
        Self {
            port,
            capabilities,
            mac,
            wanted: Wanted::new(mac, EtherType::Ipv4),
        }
    }

    // ---- Getters. ----

    /// The port.
    #[inline(always)]
    pub(crate) fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// The port, to take frames from and to flush.
    #[inline(always)]
    pub(crate) fn port_mut(&mut self) -> &mut dyn Port {
        &mut *self.port
    }

    /// What the port can do.
    #[inline(always)]
    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Our hardware address; all zero where there is no link layer.
    #[inline(always)]
    pub(crate) fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The link's header of IPv4 packets to us alone.
    #[inline(always)]
    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether frames have no header of the link's.
    #[inline(always)]
    pub(crate) fn is_bare(&self) -> bool {
        self.capabilities.link == LinkKind::Ip
    }

    /// The interface has another hardware address.
    #[cfg(test)]
    pub(crate) fn set_mac(&mut self, mac: MacAddr) {
        self.mac = mac;
    }

    // ---- The interface. ----

    /// Takes what has changed; says whether others on the link may have forgotten us since: it
    /// carries frames again, or our hardware address is another.
    pub(super) fn take_events(&mut self) -> bool {
        let mac = self.mac;
        if self.port.take_link_events() {
            self.capabilities = *self.port.capabilities();
            self.mac = mac_of(&self.capabilities);
            self.wanted = Wanted::new(self.mac, EtherType::Ipv4);
        }
        self.port.link_has_returned() || self.mac != mac
    }

    /// Tells the port our addresses, each with the length of its prefix; `dhcp`: and that
    /// answers of a DHCP server are to come through.
    pub(super) fn show_addresses(&mut self, addresses: &[(IpAddr, u8)], dhcp: bool) {
        // A port that is gone says so when it is used.
        let _ = self.port.set_addresses(addresses, dhcp);
    }

    /// Tells the port which groups are to come through.
    pub(super) fn show_groups(&mut self, groups: &[IpAddr]) {
        let _ = self.port.set_groups(groups);
    }

    // ---- Frames out. ----

    /// Sends a frame.
    #[inline(always)]
    pub(crate) fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.port.send(frame)
    }

    /// The header of a frame to `destination`.
    pub(crate) fn header_to(
        &self,
        destination: MacAddr,
        ether_type: EtherType,
    ) -> [u8; ethernet::HEADER_LEN] {
        let mut bytes = [0; ethernet::HEADER_LEN];
        self.header(destination, ether_type).emit(&mut bytes);
        bytes
    }

    #[inline(always)]
    fn header(&self, destination: MacAddr, ether_type: EtherType) -> EthernetHeader {
        EthernetHeader {
            destination,
            source: self.mac,
            ether_type,
        }
    }

    /// Sends an ARP packet.
    pub(super) fn send_arp(&mut self, packet: &ArpPacket, to: MacAddr, counters: &mut Counters) {
        let mut frame = [0; ethernet::HEADER_LEN + arp_wire::PACKET_LEN];
        let at = self.header(to, EtherType::Arp).emit(&mut frame);
        packet.emit(frame.get_mut(at..).unwrap_or_default());
        if self.send(&TxFrame::whole(&frame)).is_err() {
            counters.drop(EngineDrop::PortRefused);
        }
    }

    /// Sends a packet to the hardware address `to`, if there is a link layer. In `buffer` the IP
    /// header follows room for the link's; the transport header begins at `start`, and the port
    /// makes its checksum if `offload`.
    #[inline(always)]
    pub(super) fn send_packet(
        &mut self,
        to: Option<MacAddr>,
        ether_type: EtherType,
        (buffer, start): (&mut [u8], usize),
        offload: bool,
        transport: &Transport<'_>,
    ) -> Result<(), PortError> {
        let end = start + transport.header_len;
        let link_len = self.capabilities.link_header_len();
        let skip = ethernet::HEADER_LEN - link_len;
        if let (Some(destination), true) = (to, link_len != 0) {
            self.header(destination, ether_type).emit(buffer);
        }
        let checksum_offset = transport.checksum_at as u16;
        self.port.send(&TxFrame {
            headers: part(buffer, skip..end),
            payload: transport.payload,
            checksum: offload.then_some(TxChecksum {
                start: (start - skip) as u16,
                offset: checksum_offset,
            }),
            gso: transport.gso.map(|(kind, size)| TxGso {
                kind,
                size,
                header_len: (end - skip) as u16,
            }),
        })
    }
}

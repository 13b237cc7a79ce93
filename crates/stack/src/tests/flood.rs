//! SYNs of nobody to the second machine's listener: from hosts that are not there, and
//! from far away.

use super::numbers::Numbers;
use longshore_tcp::Instant;
use longshore_testbed::packets::{segment, syn};
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::tcp::{TcpHeader, TcpOptions};
use longshore_wire::{MacAddr, SeqNumber};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The flooded port.
const PORT: u16 = 80;

/// A flood.
#[derive(Debug)]
pub(super) struct Flood {
    /// When the next SYN comes; how many are still to come, and the time between two, in
    /// microseconds.
    pub(super) due: Instant,
    pub(super) left: u32,
    pub(super) every_us: u64,
    pub(super) ipv6: bool,
    pub(super) numbers: Numbers,
}

impl Flood {
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        (self.left != 0).then_some(self.due)
    }

    /// The next SYN to the hardware address `to`, if it is due.
    pub(super) fn next(&mut self, to: MacAddr, now: Instant) -> Option<Vec<u8>> {
        if self.left == 0 || self.due > now {
            return None;
        }
        self.left -= 1;
        self.due = self.due.after_us(self.every_us);
        let is_near = self.numbers.below(2) == 0;
        let host = 3 + self.numbers.below(60);
        Some(self.syn(to, is_near, host as u16))
    }

    fn syn(&mut self, to: MacAddr, is_near: bool, host: u16) -> Vec<u8> {
        let src_port = 1_024 + self.numbers.below(60_000) as u16;
        let options = TcpOptions {
            mss: Some(1_400),
            ..TcpOptions::default()
        };
        let header = TcpHeader {
            seq: SeqNumber(self.numbers.below(1 << 32) as u32),
            ..syn((src_port, PORT), options)
        };
        let octet = host as u8;
        let (source, destination): (IpAddr, IpAddr) = if self.ipv6 {
            let net = if is_near { 0xfd00 } else { 0x2001 };
            let source = Ipv6Addr::new(net, 0, 0, 0, 0, 0, 0, host);
            (
                source.into(),
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into(),
            )
        } else {
            let net = if is_near { [10, 0, 0] } else { [192, 0, 2] };
            let source = Ipv4Addr::new(net[0], net[1], net[2], octet);
            (source.into(), Ipv4Addr::new(10, 0, 0, 2).into())
        };
        let mut frame = vec![0; ethernet::HEADER_LEN];
        let link = EthernetHeader {
            destination: to,
            source: MacAddr([2, 0xff, 0, 0, 0, 1]),
            ether_type: match self.ipv6 {
                true => EtherType::Ipv6,
                false => EtherType::Ipv4,
            },
        };
        link.emit(&mut frame);
        frame.extend(segment((source, destination), &header, &[]));
        frame
    }
}

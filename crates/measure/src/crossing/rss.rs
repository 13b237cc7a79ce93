//! Which queue of an adapter a frame goes by: receive-side scaling as adapters do it, the Toeplitz
//! hash of addresses and ports.
//!
//! Both directions of a connection have the queue that is chosen by what is received, as a driver
//! has it that sends by the queue from which the processor receives. What is no TCP goes by the
//! first queue. The replay of a run's frames calls it.

use crate::crossing::frames::{Flow, Frame};
use std::net::IpAddr;

/// The key that Microsoft published with the hash, which drivers have by default.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];
/// Entries of the table that says the queue of a hash; queues follow each other in it.
const TABLE: usize = 128;

/// The queue of a frame, of so many: 1 or more.
pub(super) fn queue_of(frame: &Frame, queues: usize) -> usize {
    if queues == 1 {
        return 0;
    }
    frame.segment.map_or(0, |segment| {
        let [from, to] = segment.flow;
        let received = if frame.leaves { [to, from] } else { [from, to] };
        hash(&received) as usize % TABLE % queues
    })
}

/// The hash of a connection by the packets that come: for each bit that is set, from the first one
/// on, the 32 bits of the key that begin at its place.
fn hash(received: &Flow) -> u32 {
    let mut input = Vec::with_capacity(36);
    for (address, _) in received {
        match address {
            IpAddr::V4(address) => input.extend(address.octets()),
            IpAddr::V6(address) => input.extend(address.octets()),
        }
    }
    for (_, port) in received {
        input.extend(port.to_be_bytes());
    }
    let mut window = u32::from_be_bytes([KEY[0], KEY[1], KEY[2], KEY[3]]);
    let mut hash = 0;
    for (byte, next) in input.iter().zip(&KEY[4..]) {
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crossing::frames::Segment;

    fn flow(from: &str, to: &str) -> Flow {
        [from, to].map(|end| {
            let end: std::net::SocketAddr = end.parse().unwrap();
            (end.ip(), end.port())
        })
    }

    /// The published examples.
    #[test]
    fn hashes_are_those_that_adapters_are_verified_with() {
        for (from, to, expected) in [
            ("66.9.149.187:2794", "161.142.100.80:1766", 0x51cc_c178),
            ("199.92.111.2:14230", "65.69.140.83:4739", 0xc626_b0ea),
            ("24.19.198.95:12898", "12.22.207.184:38024", 0x5c2b_394a),
            (
                "[3ffe:2501:200:1fff::7]:2794",
                "[3ffe:2501:200:3::1]:1766",
                0x4020_7d3d,
            ),
        ] {
            assert_eq!(hash(&flow(from, to)), expected, "{from}");
        }
    }

    #[test]
    fn both_directions_have_a_queue_and_connections_are_spread() {
        let frame = |leaves, flow| Frame {
            leaves,
            bytes: 66,
            segment: Some(Segment {
                flow,
                seq: 1,
                syn: false,
                headers: 66,
                payload: 0,
            }),
        };
        let mut frames = [0; 4];
        for port in 40_000..40_400 {
            let client = format!("10.77.0.1:{port}");
            let there = queue_of(&frame(false, flow(&client, "10.77.0.2:80")), 4);
            let back = queue_of(&frame(true, flow("10.77.0.2:80", &client)), 4);
            assert_eq!(there, back, "{client}");
            frames[there] += 1;
        }
        assert!(frames.iter().all(|n| (50..150).contains(n)), "{frames:?}");
        let arp = Frame {
            leaves: false,
            bytes: 42,
            segment: None,
        };
        assert_eq!(queue_of(&arp, 4), 0);
        assert_eq!(
            queue_of(&frame(false, flow("1.2.3.4:5", "1.2.3.4:6")), 1),
            0
        );
    }
}

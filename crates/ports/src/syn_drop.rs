//! A filter by which the kernel drops SYNs before they take space in the port's queue.
//!
//! A flood of SYNs that is faster than the engine reads fills the queue between kernel
//! and engine, and the kernel then also drops the frames of connections. A filter in
//! front of that queue, whose cost falls on the sender of the flood and not on the
//! engine, passes a random fraction of SYNs, and everything else.

use crate::MAX_SYN_DROP;
use crate::bpf::{
    AND, DROP, HEADER_LEN_TO_X, IPV4, IPV6, Instruction, JUMP, JUMP_ANY_BIT, JUMP_EQUAL, LOAD_BYTE,
    LOAD_BYTE_AT_X, LOAD_HALF, LOAD_WORD, NETWORK, PROTOCOL, RANDOM, RETURN, branch, step,
};

const TCP: u32 = 6;
/// SYN and ACK: the first SYN of a connection has only the former.
const SYN_ACK: u32 = 0x12;
const SYN: u32 = 0x02;
/// The fragment offset in IPv4's field of flags and offset: only the first fragment has
/// TCP's header.
const FRAGMENT_OFFSET: u32 = 0x1fff;

/// Drops SYNs at random except for one in `1 << shift`; other packets, and the SYNs that
/// pass, reach the instruction after the last of these. SYNs behind IPv6 extension
/// headers are not detected. `shift` is at most [`MAX_SYN_DROP`].
pub(crate) fn program(shift: u8) -> Vec<Instruction> {
    if shift == 0 {
        return Vec::new();
    }
    let mask = (1u32 << shift.min(MAX_SYN_DROP)) - 1;
    vec![
        step(LOAD_WORD, PROTOCOL),
        branch(JUMP_EQUAL, IPV4, 0, 7),
        step(LOAD_BYTE, NETWORK + 9),
        branch(JUMP_EQUAL, TCP, 0, 14),
        step(LOAD_HALF, NETWORK + 6),
        branch(JUMP_ANY_BIT, FRAGMENT_OFFSET, 12, 0),
        step(HEADER_LEN_TO_X, NETWORK),
        step(LOAD_BYTE_AT_X, NETWORK + 13),
        step(JUMP, 4),
        branch(JUMP_EQUAL, IPV6, 0, 8),
        step(LOAD_BYTE, NETWORK + 6),
        branch(JUMP_EQUAL, TCP, 0, 6),
        step(LOAD_BYTE, NETWORK + 53),
        step(AND, SYN_ACK),
        branch(JUMP_EQUAL, SYN, 0, 3),
        step(LOAD_WORD, RANDOM),
        branch(JUMP_ANY_BIT, mask, 0, 1),
        step(RETURN, DROP),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::interpreter::{Packet, runs_to_end};

    /// A TCP header's flags after an IPv4 header of `words` words.
    fn v4(words: u8, protocol: u8, fragment: u16, flags: u8) -> Packet {
        let header = usize::from(words) * 4;
        let mut bytes = vec![0; header + 20];
        bytes[0] = 0x40 | words;
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes[9] = protocol;
        bytes[header + 13] = flags;
        Packet::of(IPV4, bytes)
    }

    fn v6(next: u8, flags: u8) -> Packet {
        let mut bytes = vec![0; 60];
        bytes[0] = 0x60;
        bytes[6] = next;
        bytes[53] = flags;
        Packet::of(IPV6, bytes)
    }

    /// Whether the packet passes if the kernel's random number is this.
    fn passes(shift: u8, mut packet: Packet, random: u32) -> bool {
        packet.random = random;
        runs_to_end(&program(shift), &packet)
    }

    #[test]
    fn first_syns_pass_by_chance() {
        for shift in 1..=MAX_SYN_DROP {
            let lucky = 1u32 << shift;
            for random in [0, lucky, lucky << 3] {
                assert!(passes(shift, v4(5, 6, 0, 0x02), random), "{shift}");
                assert!(passes(shift, v6(6, 0x02), random), "{shift}");
            }
            for random in [1, lucky - 1, lucky + 1, u32::MAX] {
                assert!(!passes(shift, v4(5, 6, 0, 0x02), random), "{shift}");
                // With options before it, and with ECN (RFC 3168) and accurate ECN.
                assert!(!passes(shift, v4(15, 6, 0, 0x02), random), "{shift}");
                assert!(!passes(shift, v4(5, 6, 0, 0xc2), random), "{shift}");
                // The first of several fragments.
                assert!(!passes(shift, v4(5, 6, 0x2000, 0x02), random), "{shift}");
                assert!(!passes(shift, v6(6, 0xc2), random), "{shift}");
            }
        }
    }

    #[test]
    fn all_else_passes() {
        for flags in [0x12, 0x10, 0x18, 0x11, 0x04, 0x14, 0x00] {
            assert!(passes(8, v4(5, 6, 0, flags), 1), "{flags:#x}");
            assert!(passes(8, v6(6, flags), 1), "{flags:#x}");
        }
        // No TCP header where its flags would be: UDP, ICMP, later fragments, ARP.
        for packet in [
            v4(5, 17, 0, 0x02),
            v4(5, 1, 0, 0x02),
            v4(5, 6, 1, 0x02),
            v4(5, 6, 0x2001, 0x02),
            v6(17, 0x02),
            v6(44, 0x02),
            Packet::of(crate::bpf::ARP, vec![0x02; 60]),
        ] {
            assert!(passes(8, packet, 1));
        }
    }

    #[test]
    fn without_a_share_there_is_nothing_to_run() {
        assert!(program(0).is_empty());
        assert_eq!(program(255), program(MAX_SYN_DROP));
    }
}

//! The socket filter of a packet port: a classic BPF program by which the kernel passes
//! packets for the engine's own addresses to the engine, and ignores all others.
//!
//! It only jumps forward, and every comparison that decides is followed by its `ret`, so
//! that no jump depends on later code.

use crate::bpf::{
    ARP, DROP, IPV4, IPV6, Instruction, JUMP, JUMP_ANY_BIT, JUMP_EQUAL, JUMP_EQUAL_X, JUMP_GREATER,
    LOAD_BYTE, LOAD_HALF, LOAD_WORD, NETWORK, PACKET_TYPE, PASS, PROTOCOL, RETURN, TAX,
    VLAN_TAG_PRESENT, branch, step,
};
use crate::syn_drop;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most addresses in one filter.
pub const MAX_ADDRESSES: usize = 16;

/// Most groups of one version of IP in one filter.
const MAX_GROUPS: usize = 513;

/// As many values as are compared before the `ret` that they jump to: a conditional jump reaches
/// 255 instructions.
const COMPARED_AT_ONCE: usize = 128;

/// The greatest packet type that may be for us: host 0, broadcast 1, multicast 2. Greater
/// ones are for other stations, or outgoing.
const PACKET_MULTICAST: u32 = 2;

/// Passes the packet if the accumulator is `k`, else continues.
fn pass_if(k: u32) -> [Instruction; 2] {
    [branch(JUMP_EQUAL, k, 0, 1), step(RETURN, PASS)]
}

/// Passes the packet if the accumulator is one of these, else continues.
fn pass_if_any(values: &[u32]) -> Vec<Instruction> {
    let mut block = Vec::with_capacity(values.len() + 8);
    for values in values.chunks(COMPARED_AT_ONCE) {
        for (nth, value) in values.iter().enumerate() {
            // Past the rest of them, and what skips the `ret`.
            let skip = values.len() - nth;
            block.push(branch(JUMP_EQUAL, *value, skip as u8, 0));
        }
        block.extend([step(JUMP, 1), step(RETURN, PASS)]);
    }
    block
}

/// The filter for these addresses, each with the length of its prefix, and for these
/// groups, at most [`MAX_GROUPS`] for each version of IP; with `dhcp`, also for packets
/// to DHCP clients. Of SYNs it passes one in `1 << syn_shift`.
pub(super) fn program(
    addresses: &[(IpAddr, u8)],
    groups: &[IpAddr],
    dhcp: bool,
    syn_shift: u8,
) -> Vec<Instruction> {
    let (mut groups4, mut groups6) = (Vec::new(), Vec::new());
    for group in groups {
        match group {
            IpAddr::V4(group) => groups4.push(*group),
            IpAddr::V6(group) => groups6.push(*group),
        }
    }
    if !groups4.is_empty() {
        // Routers send membership queries there.
        groups4.insert(0, ALL_SYSTEMS);
    }
    groups4.truncate(MAX_GROUPS);
    groups6.truncate(MAX_GROUPS);
    let mut v4 = Vec::new();
    let mut v6 = Vec::new();
    for (address, prefix_len) in addresses {
        match address {
            IpAddr::V4(ip) => v4.push((*ip, *prefix_len)),
            IpAddr::V6(ip) => v6.push(*ip),
        }
    }
    let mut all = vec![
        step(LOAD_WORD, VLAN_TAG_PRESENT),
        branch(JUMP_EQUAL, 0, 1, 0),
        step(RETURN, DROP),
        step(LOAD_WORD, PACKET_TYPE),
        branch(JUMP_GREATER, PACKET_MULTICAST, 0, 1),
        step(RETURN, DROP),
    ];
    all.extend(syn_drop::program(syn_shift));
    all.push(step(LOAD_WORD, PROTOCOL));
    let blocks = [
        (ARP, arp(&v4)),
        (IPV4, ipv4(&v4, &groups4, dhcp)),
        (IPV6, ipv6(&v6, &groups6)),
    ];
    for (protocol, block) in blocks {
        all.push(branch(JUMP_EQUAL, protocol, 1, 0));
        // A conditional jump reaches 255 instructions, this one any distance.
        all.push(step(JUMP, block.len() as u32));
        all.extend(block);
    }
    all.push(step(RETURN, DROP));
    all
}

/// ARP requests for and replies to us (RFC 826), announcements, in which sender and
/// target are the same, and claims of our addresses (RFC 5227).
fn arp(addresses: &[(Ipv4Addr, u8)]) -> Vec<Instruction> {
    let (sender, target) = (NETWORK + 14, NETWORK + 24);
    let mut block = vec![step(LOAD_WORD, sender), step(TAX, 0)];
    for (address, _) in addresses {
        block.extend(pass_if(u32::from(*address)));
    }
    block.push(step(LOAD_WORD, target));
    block.extend([branch(JUMP_EQUAL_X, 0, 0, 1), step(RETURN, PASS)]);
    for (address, _) in addresses {
        block.extend(pass_if(u32::from(*address)));
    }
    block.push(step(RETURN, DROP));
    block
}

/// Packets to one of our addresses, to our network's broadcast address, to a group, or to
/// a DHCP client, which does not know its address yet.
fn ipv4(addresses: &[(Ipv4Addr, u8)], groups: &[Ipv4Addr], dhcp: bool) -> Vec<Instruction> {
    let mut block = Vec::new();
    if dhcp {
        block.extend(to_dhcp_client());
    }
    block.push(step(LOAD_WORD, NETWORK + 16));
    for (address, prefix_len) in addresses {
        block.extend(pass_if(u32::from(*address)));
        // Networks of one or two addresses have no broadcast address (RFC 3021).
        if *prefix_len < 31 {
            let hosts = u32::MAX.checked_shr(u32::from(*prefix_len)).unwrap_or(0);
            block.extend(pass_if(u32::from(*address) | hosts));
        }
    }
    let groups: Vec<u32> = groups.iter().map(|group| u32::from(*group)).collect();
    block.extend(pass_if_any(&groups));
    block.extend(pass_if(u32::from(Ipv4Addr::BROADCAST)));
    block.push(step(RETURN, DROP));
    block
}

/// Passes an unfragmented UDP datagram to port 68 whose IP header has no options.
fn to_dhcp_client() -> [Instruction; 9] {
    const UDP: u32 = 17;
    const CLIENT: u32 = 68;
    const NO_OPTIONS: u32 = 0x45;
    [
        step(LOAD_BYTE, NETWORK),
        branch(JUMP_EQUAL, NO_OPTIONS, 0, 7),
        step(LOAD_BYTE, NETWORK + 9),
        branch(JUMP_EQUAL, UDP, 0, 5),
        step(LOAD_HALF, NETWORK + 6),
        branch(JUMP_ANY_BIT, 0x3fff, 3, 0),
        step(LOAD_HALF, NETWORK + 22),
        branch(JUMP_EQUAL, CLIENT, 0, 1),
        step(RETURN, PASS),
    ]
}

/// Packets to one of our addresses, to its solicited-node group (RFC 4291 section 2.7.1),
/// to a group, or to all nodes, as router advertisements are.
fn ipv6(addresses: &[Ipv6Addr], groups: &[Ipv6Addr]) -> Vec<Instruction> {
    let mut block = Vec::new();
    if !addresses.is_empty() {
        block.extend(pass_if_to(ALL_NODES));
    }
    for address in addresses {
        block.extend(pass_if_to(*address));
        block.extend(pass_if_to(solicited_node(*address)));
    }
    block.extend(pass_if_to_any(groups));
    block.push(step(RETURN, DROP));
    block
}

/// Passes a packet to one of these groups. They are told apart by their last 32 bits alone, as the
/// link does (RFC 2464 section 7): the stack looks at all of the address.
fn pass_if_to_any(groups: &[Ipv6Addr]) -> Vec<Instruction> {
    let last: Vec<u32> = groups.iter().map(|group| group.to_bits() as u32).collect();
    let compare = pass_if_any(&last);
    if compare.is_empty() {
        return compare;
    }
    let mut block = vec![
        step(LOAD_BYTE, NETWORK + 24),
        branch(JUMP_EQUAL, 0xff, 1, 0),
        step(JUMP, compare.len() as u32 + 1),
        step(LOAD_WORD, NETWORK + 36),
    ];
    block.extend(compare);
    block
}

/// The all-systems group of IPv4.
pub(super) const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// The link's all-nodes group.
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The solicited-node group of an address.
pub(super) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., g, h] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (g & 0xff), h)
}

/// Passes the packet if this is its IPv6 destination.
fn pass_if_to(address: Ipv6Addr) -> Vec<Instruction> {
    let bits = address.to_bits();
    let mut block = Vec::with_capacity(9);
    for word in 0..4u32 {
        // Jumps past the remaining words and the `ret`.
        let skip = (3 - word) * 2 + 1;
        block.push(step(LOAD_WORD, NETWORK + 24 + word * 4));
        let want = (bits >> (96 - word * 32)) as u32;
        block.push(branch(JUMP_EQUAL, want, 0, skip as u8));
    }
    block.push(step(RETURN, PASS));
    block
}

#[cfg(test)]
mod tests;

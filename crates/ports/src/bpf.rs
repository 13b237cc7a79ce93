//! Classic BPF, as far as our filters need it: instructions, their codes, and the form in
//! which the kernel takes a program (linux/filter.h).
//!
//! Programs load from the network header and ask the kernel for the protocol, so that
//! they work on interfaces with and without a link layer. The filter of a packet port and
//! the SYN filter ([`crate::syn_drop`]) use it.

use rustix::io::Errno;

/// One instruction: `code`, `jt`, `jf`, `k` (linux/filter.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jt: u8,
    pub(crate) jf: u8,
    pub(crate) k: u32,
}

pub(crate) const LOAD_WORD: u16 = 0x20;
pub(crate) const LOAD_HALF: u16 = 0x28;
pub(crate) const LOAD_BYTE: u16 = 0x30;
/// Loads the byte at X + `k`.
pub(crate) const LOAD_BYTE_AT_X: u16 = 0x50;
/// Loads four times the low half of the byte at `k` into X: the length of an IPv4 header.
pub(crate) const HEADER_LEN_TO_X: u16 = 0xb1;
pub(crate) const AND: u16 = 0x54;
pub(crate) const TAX: u16 = 0x07;
pub(crate) const JUMP: u16 = 0x05;
pub(crate) const JUMP_EQUAL: u16 = 0x15;
pub(crate) const JUMP_EQUAL_X: u16 = 0x1d;
pub(crate) const JUMP_GREATER: u16 = 0x25;
pub(crate) const JUMP_ANY_BIT: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;

/// `SKF_NET_OFF`: offsets from here on are relative to the network header.
pub(crate) const NETWORK: u32 = (-0x10_0000i32) as u32;
/// `SKF_AD_OFF`: offsets from here on select ancillary data of the kernel.
const KNOWN: u32 = (-0x1000i32) as u32;
/// The EtherType, with or without a link layer.
pub(crate) const PROTOCOL: u32 = KNOWN;
/// The packet type (`PACKET_HOST` and so on).
pub(crate) const PACKET_TYPE: u32 = KNOWN + 4;
/// Whether the frame had a VLAN tag, which the kernel has removed: then it belongs to
/// another network.
pub(crate) const VLAN_TAG_PRESENT: u32 = KNOWN + 48;
/// A random number of 32 bits.
pub(crate) const RANDOM: u32 = KNOWN + 56;

/// EtherTypes.
pub(crate) const ARP: u32 = 0x0806;
pub(crate) const IPV4: u32 = 0x0800;
pub(crate) const IPV6: u32 = 0x86dd;

/// Accepts the whole frame.
pub(crate) const PASS: u32 = u32::MAX;
pub(crate) const DROP: u32 = 0;

/// An instruction that does not jump, or always does.
pub(crate) fn step(code: u16, k: u32) -> Instruction {
    branch(code, k, 0, 0)
}

/// A conditional jump over this many instructions.
pub(crate) fn branch(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// Calls `use_it` with the program in the kernel's form. The memory that the `sock_fprog`
/// points to exists as long as `use_it` runs.
///
/// # Errors
/// `INVAL` if the program is longer than allowed, or the error of `use_it`.
pub(crate) fn with_program<T>(
    program: &[Instruction],
    use_it: impl FnOnce(&mut libc::sock_fprog) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut filter: Vec<libc::sock_filter> = program
        .iter()
        .map(|i| libc::sock_filter {
            code: i.code,
            jt: i.jt,
            jf: i.jf,
            k: i.k,
        })
        .collect();
    use_it(&mut libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?,
        filter: filter.as_mut_ptr(),
    })
}

#[cfg(test)]
pub(crate) mod interpreter;

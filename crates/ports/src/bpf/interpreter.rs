//! An interpreter of the instructions that our programs use, for their tests.

use super::*;

/// A packet as the kernel would show it to the filter, from the network header
/// on.
pub(crate) struct Packet {
    pub(crate) protocol: u32,
    pub(crate) packet_type: u32,
    pub(crate) tagged: bool,
    /// The kernel's random number.
    pub(crate) random: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Packet {
    /// To this station, without a tag.
    pub(crate) fn of(protocol: u32, bytes: Vec<u8>) -> Self {
        Packet {
            protocol,
            packet_type: 0,
            tagged: false,
            random: 0,
            bytes,
        }
    }

    fn load(&self, at: u32) -> Option<u32> {
        match at {
            PROTOCOL => Some(self.protocol),
            PACKET_TYPE => Some(self.packet_type),
            RANDOM => Some(self.random),
            VLAN_TAG_PRESENT => Some(u32::from(self.tagged)),
            _ => {
                let at = at.checked_sub(NETWORK)? as usize;
                let word = self.bytes.get(at..at + 4)?;
                Some(u32::from_be_bytes(word.try_into().unwrap()))
            }
        }
    }

    /// One or two bytes.
    fn load_short(&self, at: u32, len: usize) -> Option<u32> {
        let at = at.checked_sub(NETWORK)? as usize;
        let bytes = self.bytes.get(at..at + len)?;
        Some(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    }
}

/// The program's result: whether the packet passes.
pub(crate) fn passes(program: &[Instruction], packet: &Packet) -> bool {
    run(program, packet).expect("the program returns")
}

/// Whether the packet passes the last instruction of a partial program.
pub(crate) fn runs_to_end(program: &[Instruction], packet: &Packet) -> bool {
    run(program, packet).is_none()
}

/// The program's result; `None` if it ends without one.
fn run(program: &[Instruction], packet: &Packet) -> Option<bool> {
    let (mut a, mut x, mut pc) = (0u32, 0u32, 0usize);
    loop {
        let i = program.get(pc)?;
        pc += 1;
        let jump = |yes: bool| usize::from(if yes { i.jt } else { i.jf });
        match i.code {
            LOAD_WORD => match packet.load(i.k) {
                Some(word) => a = word,
                // As in the kernel: a load beyond the end drops the packet.
                None => return Some(false),
            },
            LOAD_HALF | LOAD_BYTE => {
                let len = if i.code == LOAD_HALF { 2 } else { 1 };
                match packet.load_short(i.k, len) {
                    Some(short) => a = short,
                    None => return Some(false),
                }
            }
            LOAD_BYTE_AT_X => match packet.load_short(i.k.wrapping_add(x), 1) {
                Some(byte) => a = byte,
                None => return Some(false),
            },
            HEADER_LEN_TO_X => match packet.load_short(i.k, 1) {
                Some(byte) => x = 4 * (byte & 0xf),
                None => return Some(false),
            },
            AND => a &= i.k,
            TAX => x = a,
            JUMP => pc += i.k as usize,
            JUMP_EQUAL => pc += jump(a == i.k),
            JUMP_EQUAL_X => pc += jump(a == x),
            JUMP_GREATER => pc += jump(a > i.k),
            JUMP_ANY_BIT => pc += jump(a & i.k != 0),
            RETURN => return Some(i.k != 0),
            other => panic!("{other:#x}"),
        }
    }
}

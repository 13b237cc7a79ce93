//! TCP_CONGESTION: the engine's algorithms by their names, whatever modules the kernel has.
//!
//! A socket that is undecided keeps the choice among the options that were set on it, above
//! their bits; one of the engine's is set at once, and asked when it is read. The kernel
//! socket gets the same choice where the kernel has it, for connections that stay there.

use super::{change_noted, give_behind, note_set};
use crate::log::once;
use crate::results::refused;
use crate::user::{In, Out};
use crate::{place, vectors};
use libc::{c_int, c_void, socklen_t};
use longshore_hostif::{CONGESTION_NAMES, OptionName};
use longshore_posix::options::known::{CONGESTION, Known};
use longshore_sockets::{Socket, SocketError};
use std::os::fd::RawFd;

/// Above the bits of the options of an undecided socket: one more than the place of the name
/// in [`CONGESTION_NAMES`], 0 if none was chosen.
const SHIFT: u32 = 28;
/// Bytes of a name, with what fills it up (TCP_CA_NAME_MAX).
const LONGEST: usize = 16;

const _: () = assert!(CONGESTION_NAMES.len() < 1 << (u32::BITS - SHIFT));

/// Reads what a program gives as a name; the place of the algorithm.
pub(crate) fn read(value: In<'_, c_void>, len: socklen_t) -> Result<usize, SocketError> {
    let len = (len as usize).min(LONGEST - 1);
    if len == 0 {
        return Err(refused(libc::EINVAL));
    }
    vectors::check(value, len).map_err(|_| refused(libc::EFAULT))?;
    let mut bytes = [0u8; LONGEST];
    bytes[..len].copy_from_slice(value.cast().slice(len));
    let name = bytes.split(|b| *b == 0).next().unwrap_or_default();
    let known = CONGESTION_NAMES.iter();
    let place = known.clone().position(|known| known.as_bytes() == name);
    place.ok_or_else(|| refused(libc::ENOENT))
}

/// Chooses the algorithm in this place.
pub(crate) fn set(
    fd: RawFd,
    socket: Option<&Socket>,
    known: &Known,
    place: usize,
) -> Result<(), SocketError> {
    let name = CONGESTION_NAMES[place];
    let kernel_has = give_behind(fd, known, name.as_bytes());
    if let Some(socket) = socket {
        note_set(socket, known);
        return socket.options().set(OptionName::Congestion, word(name));
    }
    if !kernel_has {
        once!(
            Debug,
            Congestion,
            "the kernel has no congestion control {name}: connections that stay with it use its own"
        );
    }
    change_noted(fd, |options| {
        let others = options & ((1 << SHIFT) - 1);
        others | 1 << known.bit | (place as u32 + 1) << SHIFT
    });
    Ok(())
}

/// What was chosen on an undecided socket with these options.
pub(crate) fn chosen(options: u32) -> Option<(OptionName, u64)> {
    let place = (options >> SHIFT).checked_sub(1)?;
    let name = CONGESTION_NAMES.get(place as usize)?;
    Some((OptionName::Congestion, word(name)))
}

/// A name as the engine takes it.
fn word(name: &str) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    u64::from_le_bytes(word)
}

/// A name as programs get it.
pub(crate) fn padded(name: &str) -> [u8; LONGEST] {
    let mut bytes = [0; LONGEST];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// What a socket that is still undecided will have on the engine; `None` if the kernel is to
/// answer, as to pointers that lead nowhere.
pub(crate) fn before_decided(
    options: u32,
    value: Out<'_, c_void>,
    len: Out<'_, socklen_t>,
) -> Option<c_int> {
    let place = match (options >> SHIFT).checked_sub(1) {
        Some(chosen) => chosen,
        None => place::attached()?.congestion(),
    };
    let name = CONGESTION_NAMES.get(place as usize)?;
    vectors::check_room(len, size_of::<socklen_t>()).ok()?;
    let room = len.get()? as usize;
    vectors::check_room(value, room).ok()?;
    let bytes = padded(name);
    let take = bytes.len().min(room);
    value.put_bytes(&bytes[..take]);
    len.put(take as socklen_t);
    Some(0)
}

/// A socket takes another's place and keeps what was chosen for that.
pub(crate) fn hand_on(from: &Socket, to: &Socket) -> Result<(), SocketError> {
    if super::set_by_program(from) & 1 << CONGESTION.bit == 0 {
        return Ok(());
    }
    to.options()
        .set(OptionName::Congestion, word(from.queries().congestion()?))
}

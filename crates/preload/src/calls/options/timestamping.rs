//! `setsockopt` of SO_TIMESTAMPING: its flags are kept in the socket's bits, and the engine is told
//! from where on bytes or datagrams are counted, and whether it is asked when datagrams come.

use crate::calls::{last_error, refused};
use crate::options::{Known, note_set, remember};
use crate::real;
use crate::user::In;
use libc::{c_int, c_void, socklen_t};
use longshore_hostif::OptionName as O;
use longshore_hostif::SocketState::{Dead, Listening, Open};
use longshore_posix::options::per_datagram;
use longshore_posix::options::timestamping::Flags;
use longshore_sockets::{Socket, SocketError};

/// Sets the flags of a socket that is the engine's, or undecided and a `stream` or not.
pub(super) fn set(
    fd: c_int,
    (socket, stream): (Option<&Socket>, bool),
    known: &Known,
    (value, len): (In<'_, c_void>, socklen_t),
) -> Result<(), SocketError> {
    let Some(number) = super::number(value, len) else {
        // The kernel knows what is wrong with it.
        return give_kernel(fd, known, value, len);
    };
    let flags = Flags::of_value(number.cast_unsigned(), stream).map_err(refused)?;
    let Some(socket) = socket else {
        give_kernel(fd, known, value, len)?;
        remember(fd, known);
        return Ok(());
    };
    let old = Flags::of(socket);
    let counts = |flags: Flags| flags.contains(Flags::OPT_ID);
    if flags.intersects(Flags::RECORDS) && !socket.options().stamps_sent() {
        return Err(refused(libc::ENOPROTOOPT));
    }
    if stream && counts(flags) && !counts(old) && matches!(socket.state(), Open | Dead | Listening)
    {
        return Err(refused(libc::EINVAL));
    }
    flags.keep(socket);
    note_set(socket, known);
    // What a socket that takes its place begins with. That of the kernel has no connection whose
    // bytes could be counted.
    let begins = flags - (Flags::OPT_ID | Flags::OPT_ID_TCP);
    let begins = begins.bits().to_ne_bytes();
    let _ = give_kernel(
        fd,
        known,
        In::from(&begins).cast(),
        size_of::<u32>() as socklen_t,
    );
    if !stream {
        let (name, asks) = per_datagram::stamped(socket);
        socket.options().set(name, asks)?;
    }
    match (counts(old), counts(flags)) {
        (false, true) => {
            let from_edge = stream && flags.contains(Flags::OPT_ID_TCP);
            socket.options().set(O::SentKeys, 1 + u64::from(from_edge))
        }
        (true, false) => socket.options().set(O::SentKeys, 0),
        _ => Ok(()),
    }
}

fn give_kernel(
    fd: c_int,
    known: &Known,
    value: In<'_, c_void>,
    len: socklen_t,
) -> Result<(), SocketError> {
    match real::setsockopt(fd, known.level, known.name, value, len) {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

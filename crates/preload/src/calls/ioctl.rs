//! `ioctl`.

use crate::calls::wall_clock::{now_ns, timespec_of, timeval_of};
use crate::calls::{answer, interfaces, note_nonblocking, refused};
use crate::signals::within;
use crate::user::{Argument, Out};
use crate::{fds, owner, real, vectors};
use libc::{c_int, c_ulong};
use longshore_posix::options::per_datagram;
use longshore_sockets::{Socket, SocketError, more_bits};

/// Whether the stream stands at urgent data.
const SIOCATMARK: c_ulong = 0x8905;
/// Bytes that wait to be sent (as TIOCOUTQ).
const SIOCOUTQ: c_ulong = libc::TIOCOUTQ;
/// Those of them that were not sent even once.
const SIOCOUTQNSD: c_ulong = 0x894b;

/// When the last datagram came: a `struct timeval` or `struct timespec`, of which both numbers have
/// 64 bits with either number of the request.
const SIOCGSTAMP: [c_ulong; 2] = [0x8906, 0x8010_8906];
const SIOCGSTAMPNS: [c_ulong; 2] = [0x8907, 0x8010_8907];

/// Whether the owner gets SIGIO, as O_ASYNC.
const FIOASYNC: c_ulong = 0x5452;
/// The owner of the socket, as F_SETOWN.
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;

/// `ioctl(2)`. What concerns the streams is answered for the engine; flags,
/// interfaces and all else are the kernel's.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, arg: Argument<'_>) -> c_int {
    if request == libc::SIOCGIFCONF {
        return interfaces::configuration(fd, arg.into());
    }
    let plain = || real::ioctl(fd, request, arg);
    if fds::is_kernels(fd) {
        return plain();
    }
    if SIOCGSTAMP.contains(&request) || SIOCGSTAMPNS.contains(&request) {
        return within(|| match fds::engine(fd).filter(Socket::is_datagram) {
            Some(socket) => answer(|| put_last_arrival(fd, &socket, request, arg.into())),
            None => plain(),
        });
    }
    // Where it is looked at, it leads to a number.
    let place: Out<'_, c_int> = arg.into();
    within(
        || match fds::engine(fd).and_then(|socket| number(&socket, request)) {
            Some(number) => answer(|| {
                let number = number?;
                vectors::check_room(place, size_of::<c_int>())?;
                place.put(number);
                Ok(0)
            }),
            None => {
                let result = plain();
                if matches!(request, FIOSETOWN | SIOCSPGRP) && result == 0 {
                    owner::changed(fd);
                }
                if matches!(request, libc::FIONBIO | FIOASYNC) && result == 0 {
                    let on = place.get().is_some_and(|number| number != 0);
                    if request == FIOASYNC {
                        owner::flags_set(fd, on);
                    } else {
                        note_nonblocking(fd, on);
                    }
                }
                result
            }
        },
    )
}

/// `sockatmark(3)`, whose own call of `ioctl` is inside libc.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sockatmark(fd: c_int) -> c_int {
    let mut is: c_int = 0;
    match ioctl(fd, SIOCATMARK, Out::from(&mut is).into()) {
        -1 => -1,
        _ => is,
    }
}

/// What the request asks of the socket; `None` if it is for the kernel to answer.
fn number(socket: &Socket, request: c_ulong) -> Option<Result<c_int, SocketError>> {
    let is_stream = !socket.is_datagram();
    if is_stream
        && matches!(
            request,
            libc::FIONREAD | SIOCATMARK | SIOCOUTQ | SIOCOUTQNSD
        )
    {
        socket.pair_end().await_coming();
        socket.pair_end().await_reset();
    }
    let number = match request {
        libc::FIONREAD if !is_stream => Ok(socket.datagrams().next_len()),
        libc::FIONREAD | SIOCOUTQ | SIOCOUTQNSD if socket.is_listening() => {
            // Linux has no such numbers of a listener.
            Err(refused(libc::EINVAL))
        }
        libc::FIONREAD => Ok(arrived(socket)),
        SIOCOUTQ => socket.queries().send_queue().map(|q| q.unacked as usize),
        SIOCOUTQNSD if is_stream => socket.queries().send_queue().map(|q| q.unsent as usize),
        // Datagrams have no mark, and the kernel says so.
        SIOCATMARK if is_stream => {
            socket.host().messages().catch_up();
            Ok(usize::from(socket.urgent_data().is_at_mark()))
        }
        _ => return None,
    };
    Some(number.map(|n| c_int::try_from(n).unwrap_or(c_int::MAX)))
}

/// Gives when the last datagram came that was received, from the engine or from the kernel's half, and
/// has that kept from then on, as Linux does once it is asked.
fn put_last_arrival(
    fd: c_int,
    socket: &Socket,
    request: c_ulong,
    to: Out<'_, [i64; 2]>,
) -> Result<c_int, SocketError> {
    if socket.more_bits() & more_bits::LAST_ARRIVAL == 0
        && let Some((name, value)) = per_datagram::ask(socket, more_bits::LAST_ARRIVAL, true)
    {
        socket.options().set(name, value)?;
    }
    let own = socket.datagrams().last_arrival(now_ns()).map(timespec_of);
    let mut kernels = [0_i64; 2];
    let is_kernels_known = socket.has_kernel_side()
        && real::ioctl(fd, SIOCGSTAMPNS[0], Out::from(&mut kernels).into()) == 0;
    let last = own.max(is_kernels_known.then_some(kernels));
    let last = last.ok_or(refused(libc::ENOENT))?;
    vectors::check_room(to, size_of::<[i64; 2]>())?;
    to.put(if SIOCGSTAMP.contains(&request) {
        timeval_of(last)
    } else {
        last
    });
    Ok(0)
}

/// Bytes to read. Before it is said that there are none, what has reached this machine is
/// given a moment to reach the socket: the kernel would have counted it.
fn arrived(socket: &Socket) -> usize {
    let look = || match socket.receive_stream().readable_bytes() {
        0 => Err(SocketError::WouldBlock),
        n => Ok(n),
    };
    socket.look_awhile(look).ok().flatten().unwrap_or(0)
}

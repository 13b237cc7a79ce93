//! `getsockopt`, `setsockopt`.
//!
//! The kernel socket behind the descriptor is asked first: it checks the value
//! and keeps it, so that reading it back gives what Linux gives. The rest is in `options`.

mod device;
pub mod get;
mod timestamping;

use crate::address::{self, Given};
use crate::calls::{answer, groups, last_error, refused, sources};
use crate::fds::{self, Entry};
use crate::log::once;
use crate::options::{Known, congestion, forget_least_mtu, keep_switch};
use crate::options::{note_set, remember, set_on_engine};
use crate::signals::within;
use crate::user::In;
use crate::{decide, place, real, vectors};
use libc::{IPPROTO_IPV6 as IP6, IPPROTO_TCP as TCP};
use libc::{c_int, c_void, socklen_t, timeval};
use longshore_hostif::OptionName as O;
use longshore_hostif::Owner;
use longshore_posix::options::known::{self, Leaves, What, find};
use longshore_posix::options::{AUTHENTICATION, SIGNATURE_EXT, per_datagram, refusal};
use longshore_sockets::{Host, Socket, SocketError};

/// `setsockopt(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: In<'_, c_void>,
    len: socklen_t,
) -> c_int {
    if fds::is_kernels(fd) {
        return real::setsockopt(fd, level, name, value, len);
    }
    within(|| set(fd, level, name, value, len))
}

fn set(fd: c_int, level: c_int, name: c_int, value: In<'_, c_void>, len: socklen_t) -> c_int {
    let entry = fds::get(fd);
    let (stream, socket) = match entry {
        Entry::Undecided(u) => (u.stream, None),
        Entry::Engine(_) => match fds::engine(fd) {
            Some(socket) => (!socket.is_datagram(), Some(socket)),
            None => return real::setsockopt(fd, level, name, value, len),
        },
        _ => return real::setsockopt(fd, level, name, value, len),
    };
    // Linux looks at that before all else; to it a length is a signed number.
    if c_int::try_from(len).is_err() {
        return answer(|| Err::<c_int, _>(refused(libc::EINVAL)));
    }
    let of_group = match known::is_about_sources(level, name) {
        _ if stream => None,
        true => sources::set(fd, entry, (level, name), (value, len)),
        false => groups::set(fd, entry, level, name, value, len),
    };
    if let Some(done) = of_group {
        return answer(|| done.map(|()| 0));
    }
    answer(|| {
        let zero = len == 0 || number(value, len) == Some(0);
        if let Some(errno) = refusal(stream, level, name, zero) {
            note_refused(level, name);
            return Err(refused(errno));
        }
        // A socket of IPv4 has no options of IPv6: the kernel says so.
        if device::is_about(stream, level, name) && (level != IP6 || groups::is_v6(fd, entry)) {
            device::choose(fd, entry, (level, name), value, len)?;
        }
        if (level, name) == (IP6, known::IPV6_ADDRFORM)
            && socket
                .as_ref()
                .is_some_and(|s| s.is_v6() && get::is_established(s))
            && number(value, len) == Some(libc::AF_INET)
        {
            // A socket of the engine stays of the version that it was made for.
            return Err(refused(libc::EADDRNOTAVAIL));
        }
        if (level, name) == (IP6, libc::IPV6_V6ONLY)
            && let Some(socket) = socket.as_ref().filter(|s| s.is_v6())
            && let Some(done) = set_v6_only(fd, socket, value, len)
        {
            return done;
        }
        if level == TCP && stream && signs(entry, name, value, len) {
            // As a kernel that was built without it.
            return Err(refused(libc::ENOPROTOOPT));
        }
        if level == TCP
            && let Some(s) = socket.as_ref().filter(|s| !s.is_datagram())
            && (is_too_late(s, name) || zero && takes_no_zero(s, name))
        {
            return Err(refused(libc::EINVAL));
        }
        let known = find(stream, level, name);
        let knows = match known.map(|k| k.what) {
            Some(What::Leaves(Leaves::Unsummed)) => Host::sends_unsummed,
            Some(What::AddressAlone) => Host::binds_addresses_alone,
            _ => |_: &Host| true,
        };
        if !place::attached().is_none_or(knows) {
            return Err(refused(libc::ENOPROTOOPT));
        }
        if let (Some(known), Some(socket)) = (known, &socket)
            && let Some(done) = flip(socket, known, value, len)
        {
            return done.map(|()| 0);
        }
        if let Some(known) = known.filter(|k| matches!(k.what, What::Name)) {
            let place = congestion::read(value, len)?;
            return congestion::set(fd, socket.as_ref(), known, place).map(|()| 0);
        }
        if let Some(known) = known.filter(|k| matches!(k.what, What::Timestamping)) {
            let of = (socket.as_ref(), stream);
            return timestamping::set(fd, of, known, (value, len)).map(|()| 0);
        }
        let least_mtu = known
            .filter(|k| matches!(k.what, What::LeastMtu))
            .map(|k| (k, per_datagram::least_mtu(number(value, len).unwrap_or(0))));
        if let Some((_, None)) = least_mtu {
            note_refused(level, name);
            return Err(refused(libc::ENOPROTOOPT));
        }
        let is_time = known.is_some_and(|k| matches!(k.what, What::TimeLimit { .. }));
        let (value, len) = match is_time && is_before_now(value, len) {
            true => (
                In::from(&SHORTEST).cast(),
                size_of::<timeval>() as socklen_t,
            ),
            false => (value, len),
        };
        if real::setsockopt(fd, level, name, value, len) != 0 {
            return Err(last_error());
        }
        let Some(known) = known else {
            return Ok(0);
        };
        if let Some((known, Some(false))) = least_mtu {
            forget_least_mtu(fd, socket.as_ref(), known);
            return Ok(0);
        }
        match (entry, &socket) {
            (Entry::Undecided(_), _) => remember(fd, known),
            (_, Some(socket)) => set_on_engine(fd, socket, known)?,
            _ => {}
        }
        Ok(0)
    })
}

/// The shortest time limit that the kernel keeps and reports as one.
const SHORTEST: timeval = timeval {
    tv_sec: 0,
    tv_usec: 1,
};

/// Whether a time limit is a negative one. With that, Linux does not wait at all, and tells the
/// program that there is no limit: this is what would be read back for the engine, too, and so
/// the kernel is given the shortest that there is.
fn is_before_now(value: In<'_, c_void>, len: socklen_t) -> bool {
    if (len as usize) < size_of::<timeval>() || !vectors::can_be_read(value, size_of::<timeval>()) {
        return false;
    }
    let time = value.cast::<timeval>().get();
    time.is_some_and(|t| t.tv_sec < 0 && (0..1_000_000).contains(&t.tv_usec))
}

/// Sets IPV6_V6ONLY of a socket of IPv6, which is possible until it is bound; `None` if there is no
/// number to be read.
fn set_v6_only(
    fd: c_int,
    socket: &Socket,
    value: In<'_, c_void>,
    len: socklen_t,
) -> Option<Result<c_int, SocketError>> {
    if socket.addresses().is_bound() {
        return Some(Err(refused(libc::EINVAL)));
    }
    let on = number(value, len).or_else(|| no_number(value, len))?;
    // The kernel's half may have kept a port that the socket has no more, of what was
    // shut down or refused and whose port nobody had chosen: then it refuses.
    let _ = real::setsockopt(fd, IP6, libc::IPV6_V6ONLY, value, len);
    Some(socket.options().set_v6_only(on != 0).map(|()| 0))
}

/// Whether an option would have the engine sign segments and check their signatures,
/// which it does not: a program that asks for that must not be told that it is done. A key for a
/// peer of the kernel's is for the kernel, as long as the socket may become its.
fn signs(entry: Entry, name: c_int, value: In<'_, c_void>, len: socklen_t) -> bool {
    if name != libc::TCP_MD5SIG && name != SIGNATURE_EXT && !AUTHENTICATION.contains(&name) {
        return false;
    }
    // The keys' structures begin with the peer's address, and are as long as its largest
    // kind.
    let peer = {
        let longest = size_of::<libc::sockaddr_storage>() as i32;
        let len = len.cast_signed().clamp(0, longest).cast_unsigned();
        address::read(value.cast(), len)
    };
    let kernels = match (place::attached(), peer) {
        (Some(host), Given::Inet(peer)) => decide::owner_of(host, peer) == Owner::Kernel,
        _ => false,
    };
    !(kernels && matches!(entry, Entry::Undecided(_)))
}

/// Sets a switch of a connection, which only the engine is sent. Nothing is done of
/// what is no such switch, or where the kernel has to say that the value is none.
fn flip(
    socket: &Socket,
    known: &Known,
    value: In<'_, c_void>,
    len: socklen_t,
) -> Option<Result<(), SocketError>> {
    let What::Switch(name, kept) = known.what else {
        return None;
    };
    if !has_connection(socket) || socket.has_kernel_side() {
        return None;
    }
    let on = number(value, len)? != 0;
    keep_switch(socket, kept, on);
    note_set(socket, known);
    Some(match name {
        O::Cork => socket.options().set_cork(on),
        name => socket.options().set(name, u64::from(on)),
    })
}

/// The number that a value is, if it is long enough for one.
fn number(value: In<'_, c_void>, len: socklen_t) -> Option<c_int> {
    let size = size_of::<c_int>();
    let is_number = len.cast_signed() >= size as i32 && vectors::check(value, size).is_ok();
    if is_number { value.cast().get() } else { None }
}

/// What Linux takes for the number of an option of IPv6 that stands nowhere.
fn no_number(value: In<'_, c_void>, len: socklen_t) -> Option<c_int> {
    (value.is_null() && len.cast_signed() >= size_of::<c_int>() as i32).then_some(0)
}

/// What is refused is said once.
fn note_refused(level: c_int, name: c_int) {
    once!(
        Debug,
        Option,
        "socket option {name} of level {level} is refused: the engine does not do it"
    );
}

/// Whether an option of TCP is only for before the socket is connected, and it is: Fast Open
/// is allowed to a listener, too.
pub(crate) fn is_too_late(socket: &Socket, name: c_int) -> bool {
    use longshore_hostif::SocketState::Listening;
    match name {
        libc::TCP_FASTOPEN => !is_closed(socket) && socket.state() != Listening,
        libc::TCP_FASTOPEN_CONNECT => !is_closed(socket),
        _ => false,
    }
}

/// Whether an option of TCP is not to be set to zero any more: the limit of a window is taken away
/// only before the socket is connected or listens.
fn takes_no_zero(socket: &Socket, name: c_int) -> bool {
    name == libc::TCP_WINDOW_CLAMP && !is_closed(socket)
}

/// Whether a stream has neither a connection nor a backlog.
fn is_closed(socket: &Socket) -> bool {
    use longshore_hostif::SocketState::{Dead, Open};
    matches!(socket.state(), Open | Dead)
}

fn has_connection(socket: &Socket) -> bool {
    use longshore_hostif::SocketState::{Connected, Early};
    !socket.is_datagram() && matches!(socket.state(), Connected | Early)
}

//! The options of a socket: what the program has set, what is kept of it beside the kernel
//! socket, and how the engine gets them.
//!
//! The kernel socket behind the descriptor keeps the values. What the engine has to know is
//! read back from there and sent on, at once or when the socket becomes its. The switches of a
//! connection are kept beside it instead, which saves the calls. Called by `setsockopt` and
//! `getsockopt`, by `decide` when a socket becomes the engine's, and by `accept`.

pub(crate) mod congestion;
pub(crate) mod device;

use crate::fds::{self, Undecided};
use crate::log::once;
use crate::real;
use crate::user::{In, Out};
use libc::{IPPROTO_IPV6 as IP6, c_int, c_void, socklen_t};
use longshore_hostif::OptionName;
use longshore_hostif::OptionName as O;
use longshore_posix::options::known::What;
pub(crate) use longshore_posix::options::known::{
    CLASS, CLASS6, HOPS, HOPS6, Known, PACKET_INFO, PACKET_INFO6,
};
pub(crate) use longshore_posix::options::known::{RECEIVE_TIMEOUT, REUSE_ADDRESS, REUSE_PORT};
use longshore_posix::options::timestamping::Flags;
use longshore_posix::options::{known, per_datagram};
use longshore_sockets::{Socket, SocketError, WaitLimit, host_bits, is_confined, more_bits};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Whether a socket with these options set has chosen an interface of the kernel's for
/// what goes to groups.
pub(crate) fn groups_by_kernel(fd: c_int, set: u32, v6: bool) -> bool {
    let known = if v6 {
        known::GROUP_INTERFACE6
    } else {
        known::GROUP_INTERFACE
    };
    let mut bytes = [0; 16];
    set & 1 << known.bit != 0 && read_back(fd, &known, &mut bytes).is_some_and(|_| int(&bytes) != 0)
}

/// The options that the program has set on a socket of the engine.
pub(crate) fn set_by_program(socket: &Socket) -> u32 {
    socket.host_bits() >> host_bits::OPTIONS_SHIFT
}

/// The bytes that the kernel socket has for an option.
pub(crate) fn read_back(fd: c_int, known: &Known, to: &mut [u8; 16]) -> Option<usize> {
    let mut len = to.len() as socklen_t;
    let value = Out::from(&mut to[..]).cast::<c_void>();
    let result = real::getsockopt(fd, known.level, known.name, value, Out::from(&mut len));
    (result == 0).then_some(len as usize)
}

/// The options that are set on an undecided socket, by whichever of the processes that have it: what
/// this one has set, and those in which the kernel's socket differs from one that is made for this.
/// Under a filter of system calls none can be made, and what others have set is not known.
pub(crate) fn of_undecided(fd: RawFd, undecided: Undecided) -> u32 {
    if !undecided.shared || is_confined() {
        return undecided.options;
    }
    let domain = match undecided.v6 {
        true => AddressFamily::INET6,
        false => AddressFamily::INET,
    };
    let kind = match undecided.stream {
        true => SocketType::STREAM,
        false => SocketType::DGRAM,
    };
    match rustix::net::socket_with(domain, kind, SocketFlags::CLOEXEC, None) {
        Ok(other) => undecided.options | differing(fd, &other, undecided.stream),
        Err(e) => {
            once!(
                Warn,
                Resource,
                "descriptor {fd} is a socket that other processes have, too: which options they have set on it could not be asked ({e})"
            );
            undecided.options
        }
    }
}

/// The options, by their bits, of which the kernel has another value for one socket than for
/// another of the same kind.
fn differing(fd: c_int, other: &impl AsRawFd, stream: bool) -> u32 {
    let value = |fd, known| {
        let mut bytes = [0; 16];
        read_back(fd, known, &mut bytes).map(|len| (len, bytes))
    };
    known::all(stream)
        // A name has to be among the engine's.
        .filter(|known| !matches!(known.what, What::Name))
        .filter(|known| value(fd, known) != value(other.as_raw_fd(), known))
        .fold(0, |options, known| options | 1 << known.bit)
}

pub(crate) fn int(bytes: &[u8; 16]) -> i32 {
    i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// A `timeval`; zero is no limit.
fn time(bytes: &[u8; 16]) -> Option<Duration> {
    let [seconds, micros] = [0, 8].map(|at| {
        let word: [u8; 8] = std::array::from_fn(|i| bytes[at + i]);
        u64::try_from(i64::from_ne_bytes(word)).unwrap_or(0)
    });
    let time = Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
    (!time.is_zero()).then_some(time)
}

/// What the engine is to be sent of an option that the kernel socket has; also
/// sets what is kept on our side.
fn carry(fd: c_int, known: &Known, socket: &Socket) -> Option<(OptionName, u64)> {
    if matches!(known.what, What::LeastMtu) {
        // The kernel tells the path's.
        socket
            .datagrams()
            .change_sending(true, |sending| sending.least = true);
        return None;
    }
    let mut bytes = [0; 16];
    let len = read_back(fd, known, &mut bytes)?;
    let value = int(&bytes);
    match known.what {
        // An older engine has one setting, which is that of the socket's own version of IP.
        What::Number(O::GroupAll) if socket.is_v6() && !socket.options().distinguishes_groups() => {
            None
        }
        What::Number(O::GroupAll6) if !socket.options().distinguishes_groups() => {
            Some((O::GroupAll, u64::from(value != 0)))
        }
        What::Number(name) => Some((name, u64::try_from(value).ok()?)),
        What::Switch(name, kept) => {
            keep_switch(socket, kept, value != 0);
            Some((name, u64::from(value != 0)))
        }
        What::Reuse(name) => {
            if value == 0 {
                socket.clear_host_bits(1 << (known.bit + host_bits::OPTIONS_SHIFT));
            }
            Some((name, u64::from(value != 0)))
        }
        // The kernel has not what is asked for here; see `congestion`.
        What::Name => None,
        What::Rate(name) => Some((name, rate(&bytes, len))),
        What::Leaves(what) => per_datagram::leave_with(socket, known.level == IP6, what, value),
        What::Asks(kept) => per_datagram::ask(socket, kept, value != 0),
        What::AddressAlone => note_address_alone(socket, value != 0),
        What::NotSent => {
            let bytes = value.cast_unsigned();
            socket.options().set_not_sent_lowat(bytes);
            Some((O::NotSentLowat, bytes.into()))
        }
        What::Interface => device::note(value, socket).map(|i| (O::Interface, i as u64)),
        What::Timestamping => {
            // With this bit it may be another that was set, and this have no flags.
            let flags = Flags::of_value(value.cast_unsigned(), !socket.is_datagram());
            let flags = flags.unwrap_or_default();
            flags.keep(socket);
            socket.is_datagram().then(|| per_datagram::stamped(socket))
        }
        What::Linger
        | What::LowWater
        | What::PeekOffset
        | What::Segment
        | What::Cork
        | What::TimeLimit { .. }
        | What::Told
        | What::UrgentInline
        | What::ErrorsUrgent => {
            keep(known, &bytes, socket);
            None
        }
        What::LeastMtu | What::Asked => None,
    }
}

/// Notes IP_BIND_ADDRESS_NO_PORT; what the engine is to be sent of it. With its bit it may be another
/// option that was set.
fn note_address_alone(socket: &Socket, on: bool) -> Option<(OptionName, u64)> {
    let was = has_more_bit(socket, more_bits::ADDRESS_ALONE);
    if on == was || !socket.host().binds_addresses_alone() {
        return None;
    }
    if on {
        socket.set_more_bits(more_bits::ADDRESS_ALONE);
    } else {
        socket.clear_more_bits(more_bits::ADDRESS_ALONE);
    }
    Some((O::AddressAlone, u64::from(on)))
}

fn has_more_bit(socket: &Socket, bit: u64) -> bool {
    socket.more_bits() & bit != 0
}

/// Sets an option that is kept on our side alone.
fn keep(known: &Known, bytes: &[u8; 16], socket: &Socket) {
    let value = int(bytes);
    match known.what {
        What::Linger => {
            let seconds = i32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            let seconds = seconds.clamp(0, i32::from(u16::MAX)) as u16;
            socket.options().set_linger((value != 0).then_some(seconds));
        }
        What::LowWater => {
            // One that cannot be notified goes on waking for less.
            let _ = socket.options().set_low_water(value.max(1) as u32);
        }
        What::PeekOffset => socket.peek_offset().set(u32::try_from(value).ok()),
        What::Segment => socket
            .datagrams()
            .set_segment(value.clamp(0, 65_535) as u16),
        What::Cork => {
            if value != 0 {
                socket.set_more_bits(more_bits::CORKED);
            } else {
                socket.clear_more_bits(more_bits::CORKED);
            }
        }
        What::TimeLimit { sending } => socket.options().set_time_limit(sending, time(bytes)),
        What::Told if value == 0 => {
            socket.clear_host_bits(1 << (known.bit + host_bits::OPTIONS_SHIFT));
        }
        What::UrgentInline => socket.urgent_data().set_inline(value != 0),
        What::ErrorsUrgent => socket.options().set_errors_urgent(value != 0),
        _ => {}
    }
}

/// Notes whether a switch is on.
pub(crate) fn keep_switch(socket: &Socket, kept: u32, on: bool) {
    if on {
        socket.set_host_bits(kept);
    } else {
        socket.clear_host_bits(kept);
    }
}

/// Whether a switch is on.
pub(crate) fn has_switch(socket: &Socket, kept: u32) -> bool {
    socket.host_bits() & kept != 0
}

/// Gives the kernel socket behind one of the engine's the switches that are kept beside
/// it, before it is asked for all that the program has set.
pub(crate) fn give_switches(fd: c_int, socket: &Socket) {
    for known in known::all(!socket.is_datagram()) {
        if let What::Switch(_, kept) = known.what {
            let on = i32::from(has_switch(socket, kept));
            give_behind(fd, known, &on.to_ne_bytes());
        }
    }
}

/// Sets an option of a kernel socket behind one of the engine's to what is known to be
/// one of its values; says whether it was taken.
pub(crate) fn give_behind(fd: c_int, known: &Known, bytes: &[u8]) -> bool {
    let (value, len) = (In::from(bytes).cast(), bytes.len() as socklen_t);
    real::setsockopt(fd, known.level, known.name, value, len) == 0
}

/// A rate as the kernel gives it, in as many bytes as its kind of machine has.
fn rate(bytes: &[u8; 16], len: usize) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *bytes;
    match len {
        8 => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => match u32::from_ne_bytes([a, b, c, d]) {
            u32::MAX => u64::MAX,
            rate => u64::from(rate),
        },
    }
}

/// Sends the engine all options that were set before a socket became its.
pub(crate) fn replay(fd: c_int, socket: &Socket, set: u32) -> Result<(), SocketError> {
    if set == 0 {
        return Ok(());
    }
    let stream = !socket.is_datagram();
    let options = known::all(stream)
        .filter(|k| set & 1 << k.bit != 0)
        .filter_map(|k| carry(fd, k, socket));
    let options = options.chain(congestion::chosen(set));
    // Datagrams are counted that are asked about when they leave.
    let counts = || !stream && Flags::of(socket).contains(Flags::OPT_ID);
    let keys = std::iter::once_with(|| counts().then_some((O::SentKeys, 1)));
    socket.options().set_all(options.chain(keys.flatten()))
}

/// Gives the kernel socket of an accepted connection what its listener has. On
/// the engine the connection has it already.
pub(crate) fn inherit(listener_fd: c_int, listener: &Socket, fd: c_int, socket: &Socket) {
    let set = set_by_program(listener);
    if set == 0 {
        return;
    }
    let mut have = 0;
    for known in known::all(true).filter(|k| k.inherited && set & 1 << k.bit != 0) {
        if matches!(known.what, What::Name | What::Reuse(_)) {
            have |= 1 << known.bit;
            continue;
        }
        if let What::Switch(_, kept) = known.what {
            keep_switch(socket, kept, has_switch(listener, kept));
            have |= 1 << known.bit;
            continue;
        }
        let mut bytes = [0; 16];
        let Some(len) = read_back(listener_fd, known, &mut bytes) else {
            continue;
        };
        if matches!(known.what, What::Number(O::ReceiveBuffer | O::SendBuffer)) {
            // What is read is twice what was set.
            let set = int(&bytes) / 2;
            bytes[..4].copy_from_slice(&set.to_ne_bytes());
        }
        give_behind(fd, known, &bytes[..len.min(bytes.len())]);
        if matches!(
            known.what,
            What::UrgentInline
                | What::NotSent
                | What::PeekOffset
                | What::Asks(_)
                | What::AddressAlone
        ) {
            // The engine has it already, or need not.
            carry(fd, known, socket);
        }
        have |= 1 << known.bit;
    }
    if have != 0 {
        socket.set_host_bits(have << host_bits::OPTIONS_SHIFT);
    }
}

/// Notes that the program has set an option.
pub(crate) fn note_set(socket: &Socket, known: &Known) {
    socket.set_host_bits(1 << (known.bit + host_bits::OPTIONS_SHIFT));
}

/// Notes that an option was set on a socket that is undecided.
pub(crate) fn remember(fd: c_int, known: &Known) {
    change_noted(fd, |options| options | 1 << known.bit);
}

/// Notes that IPV6_MTU is as it was before the program has set it.
pub(crate) fn forget_least_mtu(fd: c_int, socket: Option<&Socket>, known: &Known) {
    change_noted(fd, |options| options & !(1 << known.bit));
    if let Some(socket) = socket {
        socket.clear_host_bits(1 << (known.bit + host_bits::OPTIONS_SHIFT));
        socket
            .datagrams()
            .change_sending(true, |sending| sending.least = false);
    }
}

/// Changes which options are noted of a socket that is undecided, for whichever of its descriptors
/// it is used by first.
pub(super) fn change_noted(fd: c_int, change: impl Fn(u32) -> u32) {
    fds::change_undecided(fd, |undecided| Undecided {
        options: change(undecided.options),
        ..undecided
    });
}

pub(crate) fn set_on_engine(fd: c_int, socket: &Socket, known: &Known) -> Result<(), SocketError> {
    note_set(socket, known);
    if known.bit == RECEIVE_TIMEOUT.bit {
        socket.clear_host_bits(host_bits::OUR_TIMEOUT);
    }
    if let What::Asks(kept) = known.what {
        // With one of them, the kernel changes the other.
        let other =
            |k: &&Known| matches!(k.what, What::Asks(o) if o == per_datagram::other_time(kept));
        known::all(!socket.is_datagram())
            .filter(other)
            .for_each(|k| {
                carry(fd, k, socket);
            });
    }
    if let Some((name, value)) = carry(fd, known, socket) {
        socket.options().set(name, value)?;
    }
    if matches!(known.what, What::NotSent) {
        // A write that follows may be as long as the windows have room for, which the engine says
        // before it answers.
        let _ = socket.queries().tcp_info(&mut [0; 1]);
    }
    if matches!(known.what, What::Cork) && socket.more_bits() & more_bits::CORKED == 0 {
        // With the cork out, what was held back goes.
        return socket.wait(None, WaitLimit::ENDLESS, || socket.datagrams().finish());
    }
    Ok(())
}

//! Options that count for each datagram by itself: what it leaves with, and what is told
//! of one that comes. Called with what was set.

use super::known::Leaves;
use longshore_hostif::{OptionName, PathMtu};
use longshore_sockets::{LEAST_MTU_V6, Socket, more_bits};

/// What the engine has to stamp datagrams for.
const STAMPS: u64 =
    more_bits::TIMESTAMP | more_bits::TIMESTAMP_NS | more_bits::DROPS | more_bits::LAST_ARRIVAL;

/// The other way in which the time of arrival may be told, which setting one turns off.
#[must_use]
pub fn other_time(kept: u64) -> u64 {
    match kept {
        more_bits::TIMESTAMP => more_bits::TIMESTAMP_NS,
        more_bits::TIMESTAMP_NS => more_bits::TIMESTAMP,
        _ => 0,
    }
}

/// Notes whether something is to be told of what is received; what the engine is to be told
/// of that.
pub fn ask(socket: &Socket, kept: u64, on: bool) -> Option<(OptionName, u64)> {
    if on {
        socket.set_more_bits(kept);
    } else {
        socket.clear_more_bits(kept);
    }
    (kept & STAMPS != 0).then(|| stamped(socket))
}

/// What the engine is to be told of whether a datagram socket's program asks when datagrams come.
#[must_use]
pub fn stamped(socket: &Socket) -> (OptionName, u64) {
    let asks = socket.more_bits() & STAMPS != 0 || socket.options().stamps_arrivals();
    (OptionName::Stamped, u64::from(asks))
}

/// Has datagrams leave with what was set, from now on; what the engine is to be told of
/// that.
pub fn leave_with(
    socket: &Socket,
    ipv6: bool,
    what: Leaves,
    value: i32,
) -> Option<(OptionName, u64)> {
    let byte = u8::try_from(value).ok();
    let path_mtu = PathMtu::from_raw(value.cast_unsigned());
    socket
        .datagrams()
        .change_sending(ipv6, |sending| match what {
            Leaves::Hops => sending.hops = byte,
            Leaves::Class => sending.class = byte.unwrap_or(0),
            Leaves::GroupHops => sending.group_hops = byte.unwrap_or(1),
            Leaves::Looped => sending.looped = value != 0,
            Leaves::PathMtu(_) => sending.path_mtu = path_mtu,
            Leaves::Whole => sending.whole = value != 0,
            Leaves::Unsummed => sending.unsummed = value != 0,
        });
    match what {
        Leaves::PathMtu(name) => Some((name, path_mtu as u64)),
        _ => None,
    }
}

/// What the value of IPV6_MTU asks for: datagrams that are cut as if each path took just what all
/// of IPv6 take (`true`), or as their paths are, as with values that no link has; `None` if the
/// engine does not do it. What is no value the kernel refuses.
#[must_use]
pub fn least_mtu(value: i32) -> Option<bool> {
    const LEAST: i32 = LEAST_MTU_V6 as i32;
    const LONGEST: i32 = u16::MAX as i32;
    match value {
        LEAST => Some(true),
        ..LEAST | LONGEST.. => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_sizes_of_fragments_the_least_is_done() {
        for (value, expected) in [
            (0, Some(false)),
            (1279, Some(false)),
            (1280, Some(true)),
            (1281, None),
            (65_534, None),
            (65_535, Some(false)),
            (i32::MAX, Some(false)),
            (-1, Some(false)),
        ] {
            assert_eq!(least_mtu(value), expected, "{value}");
        }
    }
}

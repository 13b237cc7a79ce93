//! libc's functions that set and tell from which sources a group is received: libc calls the kernel
//! for those by itself.
//!
//! They are made of the options in `sources`, as libc makes them; what is wrong with a filter the
//! option says.

use super::groups::number;
use super::sources::{GROUP_AT, GROUP_FILTER, MODE_AT, MODE4_AT, MOST6, MSFILTER, STORAGE};
use crate::calls::options::get::getsockopt;
use crate::calls::options::setsockopt;
use crate::calls::{answer, refused};
use crate::user::{In, Out};
use crate::{fds, real, vectors};
use libc::{c_int, in_addr, sockaddr, sockaddr_storage, socklen_t};
use longshore_posix::options::known::{IP_MSFILTER, MCAST_MSFILTER};
use longshore_sockets::SocketError;

/// Room for a filter with `count` sources of `size` bytes each behind `head`.
fn filter(head: usize, count: u32, size: usize) -> Result<Vec<u8>, SocketError> {
    // No list is longer, and what is not as long as it says is refused for another reason.
    match count {
        0..=MOST6 => Ok(vec![0; head + size * count as usize]),
        _ => Err(refused(libc::ENOBUFS)),
    }
}

fn put<const N: usize>(filter: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = filter.get_mut(at..at + N) {
        place.copy_from_slice(&value);
    }
}

/// A `group_filter`, and the level of its option. libc knows that by the address's family, or else
/// by its length.
fn group_filter(
    interface: u32,
    (group, len): (In<'_, sockaddr>, socklen_t),
    count: u32,
) -> Result<(c_int, Vec<u8>), SocketError> {
    const FOUR: usize = size_of::<libc::sockaddr_in>();
    const SIX: usize = size_of::<libc::sockaddr_in6>();
    let len = len as usize;
    if len < size_of::<libc::sa_family_t>() || len > STORAGE {
        return Err(refused(libc::EINVAL));
    }
    vectors::check(group, len)?;
    let address = group.cast::<u8>().slice(len);
    let family = address.first_chunk().map_or(0, |f| u16::from_ne_bytes(*f));
    let level = match (c_int::from(family), len) {
        (libc::AF_INET, _) => libc::IPPROTO_IP,
        (libc::AF_INET6, _) => libc::IPPROTO_IPV6,
        (_, FOUR) => libc::IPPROTO_IP,
        (_, SIX) => libc::IPPROTO_IPV6,
        _ => return Err(refused(libc::EINVAL)),
    };
    let mut filter = filter(GROUP_FILTER, count, STORAGE)?;
    put(&mut filter, 0, interface.to_ne_bytes());
    if let Some(place) = filter.get_mut(GROUP_AT..GROUP_AT + len) {
        place.copy_from_slice(address);
    }
    put(&mut filter, MODE_AT + 4, count.to_ne_bytes());
    Ok((level, filter))
}

/// An `ip_msfilter`.
fn ipv4_filter(interface: in_addr, group: in_addr, count: u32) -> Result<Vec<u8>, SocketError> {
    let mut filter = filter(MSFILTER, count, size_of::<in_addr>())?;
    put(&mut filter, 0, group.s_addr.to_ne_bytes());
    put(&mut filter, 4, interface.s_addr.to_ne_bytes());
    put(&mut filter, MODE4_AT + 4, count.to_ne_bytes());
    Ok(filter)
}

/// Sets an option that is a filter, with this mode and these sources.
fn set<T>(
    fd: c_int,
    (level, name): (c_int, c_int),
    (mut filter, mode_at): (Vec<u8>, usize),
    (mode, list): (u32, In<'_, T>),
) -> Result<c_int, SocketError> {
    put(&mut filter, mode_at, mode.to_ne_bytes());
    let list_at = mode_at + 8;
    let sources = filter.get_mut(list_at..).unwrap_or_default();
    vectors::check(list, sources.len())?;
    sources.copy_from_slice(list.cast::<u8>().slice(sources.len()));
    let len = filter.len() as socklen_t;
    Ok(setsockopt(
        fd,
        level,
        name,
        In::from(&filter[..]).cast(),
        len,
    ))
}

/// Asks for an option that is a filter; puts its mode, how many sources it has, and of those as many
/// as there is room for.
fn get<T>(
    fd: c_int,
    (level, name): (c_int, c_int),
    (mut filter, mode_at): (Vec<u8>, usize),
    (mode, count, list): (Out<'_, u32>, Out<'_, u32>, Out<'_, T>),
) -> Result<c_int, SocketError> {
    let mut len = filter.len() as socklen_t;
    let to = Out::from(&mut filter[..]).cast();
    let result = getsockopt(fd, level, name, to, Out::from(&mut len));
    if result == 0 {
        let told = filter.get(mode_at + 8..len as usize).unwrap_or_default();
        list.cast::<u8>().put_bytes(told);
        mode.put(number(&filter, mode_at).unwrap_or(0));
        count.put(number(&filter, mode_at + 4).unwrap_or(0));
    }
    Ok(result)
}

/// `setsourcefilter(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn setsourcefilter(
    fd: c_int,
    interface: u32,
    group: In<'_, sockaddr>,
    group_len: socklen_t,
    mode: u32,
    count: u32,
    list: In<'_, sockaddr_storage>,
) -> c_int {
    if fds::is_kernels(fd) {
        return real::setsourcefilter(fd, interface, group, group_len, mode, count, list);
    }
    answer(|| {
        let (level, filter) = group_filter(interface, (group, group_len), count)?;
        set(fd, (level, MCAST_MSFILTER), (filter, MODE_AT), (mode, list))
    })
}

/// `getsourcefilter(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getsourcefilter(
    fd: c_int,
    interface: u32,
    group: In<'_, sockaddr>,
    group_len: socklen_t,
    mode: Out<'_, u32>,
    count: Out<'_, u32>,
    list: Out<'_, sockaddr_storage>,
) -> c_int {
    if fds::is_kernels(fd) {
        return real::getsourcefilter(fd, interface, group, group_len, mode, count, list);
    }
    answer(|| {
        let room = count.get().unwrap_or(0).min(MOST6);
        let (level, filter) = group_filter(interface, (group, group_len), room)?;
        let to = (mode, count, list);
        get(fd, (level, MCAST_MSFILTER), (filter, MODE_AT), to)
    })
}

/// `setipv4sourcefilter(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn setipv4sourcefilter(
    fd: c_int,
    interface: in_addr,
    group: in_addr,
    mode: u32,
    count: u32,
    list: In<'_, in_addr>,
) -> c_int {
    if fds::is_kernels(fd) {
        return real::setipv4sourcefilter(fd, interface, group, mode, count, list);
    }
    answer(|| {
        let filter = ipv4_filter(interface, group, count)?;
        let option = (libc::IPPROTO_IP, IP_MSFILTER);
        set(fd, option, (filter, MODE4_AT), (mode, list))
    })
}

/// `getipv4sourcefilter(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getipv4sourcefilter(
    fd: c_int,
    interface: in_addr,
    group: in_addr,
    mode: Out<'_, u32>,
    count: Out<'_, u32>,
    list: Out<'_, in_addr>,
) -> c_int {
    if fds::is_kernels(fd) {
        return real::getipv4sourcefilter(fd, interface, group, mode, count, list);
    }
    answer(|| {
        let filter = ipv4_filter(interface, group, count.get().unwrap_or(0).min(MOST6))?;
        let option = (libc::IPPROTO_IP, IP_MSFILTER);
        get(fd, option, (filter, MODE4_AT), (mode, count, list))
    })
}

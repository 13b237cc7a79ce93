//! Names, where the nameserver is one that the engine reaches.
//!
//! glibc's resolver talks to its nameservers by system calls inside libc, which nobody can
//! catch. So for as long as a call that resolves names takes, a relay stands for each
//! nameserver of the engine's: the resolver is given an address on the kernel's loopback in
//! its place, in the thread's own state (`_res`), and a thread passes on what comes there.
//! Where the nameservers are the kernel's, as on most machines, nothing of this is done.

mod relay;

use crate::calls::{errno, set_errno};
use crate::cancel::held;
use crate::namespace;
use crate::real;
use crate::signals::Held;
use crate::state::{self, Mode};
use crate::user::{In, Out, Text, Zero};
use libc::{addrinfo, c_char, c_int, c_uchar, c_void, hostent, size_t, sockaddr};
use libc::{sockaddr_in, sockaddr_in6, socklen_t};
use longshore_hostif::Owner;
use longshore_sockets::{Host, is_confined};
use relay::{Line, Relay};
use rustix::event::{EventfdFlags, eventfd};
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::JoinHandle;

/// Nameservers that the resolver has at most.
const NAMESERVERS: usize = 3;
/// A name that is an address.
const ADDRESS: &CStr = c"0.0.0.0";
/// Bytes that what is found of it needs at most.
const NAMES: usize = 256;

/// The head of glibc's `struct __res_state`, and where in it are the nameservers that have
/// IPv6 addresses.
#[repr(C)]
#[derive(Debug)]
pub struct State {
    retransmit: c_int,
    retry: c_int,
    options: u64,
    count: c_int,
    nameservers: [sockaddr_in; NAMESERVERS],
    between: [u8; 468],
    v6: [In<'static, sockaddr_in6>; NAMESERVERS],
}

const _: () = assert!(std::mem::offset_of!(State, nameservers) == 20);
const _: () = assert!(std::mem::offset_of!(State, v6) == 536);

unsafe extern "C" {
    safe fn __res_state() -> Out<'static, State>;
}

/// The resolver's state of this thread, as libc would use it now: read from the configuration
/// if it is new, or if that has changed, and otherwise what the program has made of it. libc
/// sees to that by itself when it is asked for a name, and so for one that is an address, too,
/// for which it asks nobody.
fn present_state<'a>() -> Out<'a, State> {
    let mut entry: hostent = Zero::zero();
    let mut names: [c_char; NAMES] = [0; NAMES];
    let mut found = std::ptr::null_mut();
    let mut error = 0;
    with_threads_state::gethostbyname_r(
        ADDRESS.into(),
        Out::from(&mut entry),
        Out::from(&mut names[..]),
        NAMES,
        Out::from(&mut found),
        Out::from(&mut error),
    );
    __res_state()
}

impl State {
    /// The nameserver of this number.
    fn nameserver(&self, number: usize) -> Option<SocketAddr> {
        let v4 = &self.nameservers[number];
        if v4.sin_family == libc::AF_INET as libc::sa_family_t {
            let ip = match Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)) {
                Ipv4Addr::UNSPECIFIED => Ipv4Addr::LOCALHOST,
                ip => ip,
            };
            return Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)));
        }
        let v6 = self.v6[number].get()?;
        let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
        let at = std::net::SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id);
        Some(SocketAddr::V6(at))
    }
}

/// A relay while it stands in for nameservers.
struct Standing<'a> {
    state: Out<'a, State>,
    before: [sockaddr_in; NAMESERVERS],
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl<'a> Standing<'a> {
    /// Puts a relay in the place of the nameservers in `state` that are the engine's;
    /// `None` if there is none, or no thread can be had. The state is this thread's, or the
    /// program's own, and initialised.
    fn new(host: &'static Host, state: Out<'a, State>) -> Option<Self> {
        let now = state.as_mut()?;
        let count = usize::try_from(now.count).unwrap_or(0).min(NAMESERVERS);
        let mut lines = Vec::new();
        let mut new = now.nameservers;
        for (number, place) in new.iter_mut().enumerate().take(count) {
            let nameserver = now.nameserver(number);
            let is_engines = |to: &SocketAddr| host.routes().owner_of(*to) == Owner::Engine;
            if let Some(line) = nameserver.filter(is_engines).and_then(Line::new) {
                *place = line.address();
                lines.push(line);
            }
        }
        if lines.is_empty() {
            return None;
        }
        let stop = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
        let until = stop.as_raw_fd();
        // Its thread has no signals: they are the program's, for its own.
        let signals = Held::all();
        let relay = Relay::new(lines);
        let thread = std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(move || relay.run(until));
        drop(signals);
        let thread = thread.ok()?;
        let before = std::mem::replace(&mut now.nameservers, new);
        Some(Self {
            state,
            before,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.state.as_mut() {
            state.nameservers = self.before;
        }
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Resolves with what `resolve` does, through the engine if that is where the nameservers
/// are. `state` is the resolver's, if it is not the thread's own.
fn through_engine<T>(state: Option<Out<'_, State>>, resolve: impl FnOnce() -> T) -> T {
    if state::is_off() || is_confined() {
        return resolve();
    }
    held(|| {
        let before = errno();
        let standing = match state::mode() {
            Mode::On(host) if !namespace::is_another() => {
                Standing::new(host, state.unwrap_or_else(present_state))
            }
            _ => None,
        };
        set_errno(before);
        let result = resolve();
        let after = errno();
        drop(standing);
        set_errno(after);
        result
    })
}

/// Whether no nameserver is asked for such a name: there is none, or it is an address.
fn is_local(name: Text<'_>) -> bool {
    let is_address = |name: &CStr| name.to_str().is_ok_and(|n| n.parse::<IpAddr>().is_ok());
    name.get().is_none_or(is_address)
}

/// `getaddrinfo(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getaddrinfo(
    node: Text<'_>,
    service: Text<'_>,
    hints: In<'_, addrinfo>,
    found: Out<'_, *mut addrinfo>,
) -> c_int {
    let plain = || real::getaddrinfo(node, service, hints, found);
    let is_number = |hints: addrinfo| hints.ai_flags & libc::AI_NUMERICHOST != 0;
    if is_local(node) || hints.get().is_some_and(is_number) {
        return plain();
    }
    through_engine(None, plain)
}

/// `getnameinfo(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getnameinfo(
    addr: In<'_, sockaddr>,
    len: socklen_t,
    node: Out<'_, c_char>,
    node_len: socklen_t,
    service: Out<'_, c_char>,
    service_len: socklen_t,
    flags: c_int,
) -> c_int {
    let plain = || real::getnameinfo(addr, len, node, node_len, service, service_len, flags);
    if node.is_null() || flags & libc::NI_NUMERICHOST != 0 {
        return plain();
    }
    through_engine(None, plain)
}

/// A call of libc's that resolves what its arguments say, with the thread's state.
macro_rules! resolves {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {
        mod with_threads_state {
            use super::*;
            real::real! { $($name($($arg: $type),*) -> $ret;)* }
        }
        $(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        #[allow(clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            through_engine(None, || with_threads_state::$name($($arg),*))
        }
        )*
    };
}

resolves! {
    gethostbyname(name: Text<'_>) -> *mut hostent;
    gethostbyname2(name: Text<'_>, family: c_int) -> *mut hostent;
    gethostbyaddr(addr: In<'_, c_void>, len: socklen_t, family: c_int) -> *mut hostent;
    gethostbyname_r(name: Text<'_>, entry: Out<'_, hostent>, buf: Out<'_, c_char>, len: size_t, found: Out<'_, *mut hostent>, error: Out<'_, c_int>) -> c_int;
    gethostbyname2_r(name: Text<'_>, family: c_int, entry: Out<'_, hostent>, buf: Out<'_, c_char>, len: size_t, found: Out<'_, *mut hostent>, error: Out<'_, c_int>) -> c_int;
    gethostbyaddr_r(addr: In<'_, c_void>, addr_len: socklen_t, family: c_int, entry: Out<'_, hostent>, buf: Out<'_, c_char>, len: size_t, found: Out<'_, *mut hostent>, error: Out<'_, c_int>) -> c_int;
    res_query(name: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int;
    res_search(name: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int;
    res_querydomain(name: Text<'_>, domain: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int;
    res_send(query: In<'_, c_uchar>, query_len: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int;
}

/// Functions that take a state of the program's own, which comes first.
macro_rules! resolves_in {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        mod with_own_state {
            use super::*;
            real::real! { $($name(state: Out<'_, State>, $($arg: $type),*) -> c_int;)* }
        }
        $(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name(state: Out<'_, State>, $($arg: $type),*) -> c_int {
            through_engine(Some(state), || with_own_state::$name(state, $($arg),*))
        }
        )*
    };
}

resolves_in! {
    res_nquery(name: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int);
    res_nsearch(name: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int);
    res_nquerydomain(name: Text<'_>, domain: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int);
    res_nsend(query: In<'_, c_uchar>, query_len: c_int, answer: Out<'_, c_uchar>, len: c_int);
}

//! The other names under which libc exports the calls that are ours. Programs and libraries
//! that were built against old headers, and a few parts of glibc itself, call these.

use crate::calls::resolver::State;
use crate::calls::{bind, connect, execve, fcntl, fork, recv, resolver, sendmsg, socket, stdio};
use crate::user::{Argument, In, OneMessage, Opaque, Out, Run, Text, Zero};
use libc::{FILE, c_int, c_uchar, c_uint, c_void};
use libc::{pid_t, size_t, sockaddr, sockaddr_in, socklen_t, ssize_t};

macro_rules! aliases {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty = $($call:ident)::+;)*) => {$(
        #[doc = concat!("As [`", stringify!($($call)::+), "`].")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            $($call)::+($($arg),*)
        }
    )*};
}

aliases! {
    __connect(fd: c_int, addr: In<'_, sockaddr>, len: socklen_t) -> c_int = connect::connect;
    __socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = socket::socket;
    __recv(fd: c_int, buf: Out<'_, c_void>, len: size_t, flags: c_int) -> ssize_t = recv::recv;
    __sendmmsg(fd: c_int, msgs: Out<'_, OneMessage<'_>>, count: c_uint, flags: c_int) -> c_int = sendmsg::sendmmsg;
    _IO_fdopen(fd: c_int, mode: Text<'_>) -> Opaque<FILE> = stdio::fdopen;
    _IO_popen(command: Text<'_>, mode: Text<'_>) -> Opaque<FILE> = execve::popen;
    __clone(run: Option<Run>, stack: Out<'_, c_void>, flags: c_int, argument: Out<'_, c_void>, parent: Out<'_, pid_t>, tls: Out<'_, c_void>, child: Out<'_, pid_t>) -> c_int = fork::clone;
    fcntl64(fd: c_int, cmd: c_int, arg: Argument<'_>) -> c_int = fcntl::fcntl;
    __fcntl(fd: c_int, cmd: c_int, arg: Argument<'_>) -> c_int = fcntl::fcntl;
    __res_query(name: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int = resolver::res_query;
    __res_search(name: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int = resolver::res_search;
    __res_querydomain(name: Text<'_>, domain: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int = resolver::res_querydomain;
    __res_send(query: In<'_, c_uchar>, query_len: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int = resolver::res_send;
    __res_nquery(state: Out<'_, State>, name: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int = resolver::res_nquery;
    __res_nsearch(state: Out<'_, State>, name: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int = resolver::res_nsearch;
    __res_nquerydomain(state: Out<'_, State>, name: Text<'_>, domain: Text<'_>, class: c_int, kind: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int = resolver::res_nquerydomain;
    __res_nsend(state: Out<'_, State>, query: In<'_, c_uchar>, query_len: c_int, answer: Out<'_, c_uchar>, len: c_int) -> c_int = resolver::res_nsend;
}

/// The ports that `bindresvport` tries.
const RESERVED: std::ops::Range<u16> = 600..1024;

/// `bindresvport(3)`: binds to a port of the privileged, which libc would do behind our back.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn bindresvport(fd: c_int, address: Out<'_, sockaddr_in>) -> c_int {
    let mut own: sockaddr_in = Zero::zero();
    own.sin_family = libc::AF_INET as libc::sa_family_t;
    let address = address.as_mut().unwrap_or(&mut own);
    if c_int::from(address.sin_family) != libc::AF_INET {
        crate::calls::set_errno(libc::EAFNOSUPPORT);
        return -1;
    }
    let (first, count) = (
        std::process::id() as u16 % RESERVED.len() as u16,
        RESERVED.len() as u16,
    );
    for i in 0..count {
        address.sin_port = (RESERVED.start + (first + i) % count).to_be();
        let len = size_of::<sockaddr_in>() as socklen_t;
        let bound = bind::bind(fd, In::from(&*address).cast(), len);
        if bound == 0 || crate::calls::errno() != libc::EADDRINUSE {
            return bound;
        }
    }
    -1
}

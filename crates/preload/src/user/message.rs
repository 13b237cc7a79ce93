//! Messages of `sendmsg` and `recvmsg`, and the lists of buffers that they and vectors name, as
//! typed arguments: what C promises of one it promises of the memory that it names.

use super::{In, Out, Zero};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t};
use std::mem::offset_of;

/// libc's `struct iovec`: a buffer, to be sent from or to be filled.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Buffer<'a> {
    pub(crate) iov_base: Out<'a, c_void>,
    pub(crate) iov_len: size_t,
}

/// libc's `struct msghdr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    pub(crate) msg_name: Out<'a, sockaddr>,
    pub(crate) msg_namelen: socklen_t,
    pub(crate) msg_iov: In<'a, Buffer<'a>>,
    pub(crate) msg_iovlen: size_t,
    pub(crate) msg_control: Out<'a, u8>,
    pub(crate) msg_controllen: size_t,
    pub(crate) msg_flags: c_int,
}

/// libc's `struct mmsghdr`: one of several messages, with how many bytes of it went or came.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct OneMessage<'a> {
    pub(crate) msg_hdr: Message<'a>,
    pub(crate) msg_len: c_uint,
}

/// Whether fields lie where libc has them.
macro_rules! as_in_libc {
    ($($typed:ident, $libcs:ident: $($field:ident)*;)*) => {$(
        const _: () = assert!(size_of::<$typed<'_>>() == size_of::<$libcs>());
        $(const _: () = assert!(offset_of!($typed<'_>, $field) == offset_of!($libcs, $field));)*
    )*};
}

as_in_libc! {
    Buffer, iovec: iov_base iov_len;
    Message, msghdr: msg_name msg_namelen msg_iov msg_iovlen msg_control msg_controllen msg_flags;
    OneMessage, mmsghdr: msg_hdr msg_len;
}

// SAFETY: numbers and pointers, which may be null.
unsafe impl Zero for Message<'_> {}

impl<'a> Message<'a> {
    /// One that is nothing but these buffers.
    pub(crate) fn of(buffers: In<'a, Buffer<'a>>, count: usize) -> Self {
        Self {
            msg_iov: buffers,
            msg_iovlen: count,
            ..Self::zero()
        }
    }
}

//! Addresses of sockets between a virtual machine and its host (vsock(7)).
//!
//! `link` connects to them and listens at them; rustix has no address of this kind.

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};

/// Where such a socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VsockAddress {
    /// The owner's context identifier: the number of a virtual machine, [`VsockAddress::HOST`], or
    /// [`VsockAddress::ANY`] to listen for all.
    pub cid: u32,
    /// The port there.
    pub port: u32,
}

impl VsockAddress {
    /// The host, as its virtual machines call it (VMADDR_CID_HOST).
    pub const HOST: u32 = libc::VMADDR_CID_HOST;
    /// Any machine that connects (VMADDR_CID_ANY).
    pub const ANY: u32 = libc::VMADDR_CID_ANY;
}

// SAFETY: what is passed on is a whole address of this kind, and lies there as long as `f` runs.
unsafe impl SocketAddrArg for VsockAddress {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        let address = libc::sockaddr_vm {
            svm_family: libc::AF_VSOCK as libc::sa_family_t,
            svm_reserved1: 0,
            svm_port: self.port,
            svm_cid: self.cid,
            svm_zero: [0; 4],
        };
        f(
            (&raw const address).cast(),
            size_of_val(&address) as SocketAddrLen,
        )
    }
}

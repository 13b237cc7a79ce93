//! Control messages: what goes beside the bytes of `sendmsg` and `recvmsg`.
//! UDP_SEGMENT and UDP_GRO, the engine's address that a datagram leaves from or came
//! to (IP_PKTINFO, IPV6_PKTINFO), and descriptors on Unix sockets.

use crate::calls::options;
use crate::log::once;
use libc::{c_int, c_uint, cmsghdr, in_pktinfo, in6_pktinfo, msghdr};
use longshore_sockets::{Received, Socket};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The control messages of a message.
///
/// # Safety
/// `msg` is a message whose control buffer may be read.
pub(crate) unsafe fn control<'a>(msg: *const msghdr) -> impl Iterator<Item = &'a cmsghdr> {
    // SAFETY: the caller's promise.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(msg) };
    std::iter::from_fn(move || {
        // SAFETY: null, or a header inside the buffer.
        let here = unsafe { next.as_ref() }?;
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(msg, here) };
        Some(here)
    })
}

/// The descriptors that a message carries.
///
/// # Safety
/// As [`control`].
pub(crate) unsafe fn passed(msg: *const msghdr) -> Vec<c_int> {
    let mut found = Vec::new();
    // SAFETY: the caller's promise.
    for c in unsafe { control(msg) } {
        if (c.cmsg_level, c.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            continue;
        }
        // SAFETY: a header of the message.
        let (data, header) = unsafe { (libc::CMSG_DATA(c), libc::CMSG_LEN(0)) };
        let bytes = c.cmsg_len.saturating_sub(header as usize);
        for i in 0..bytes / size_of::<c_int>() {
            // SAFETY: inside the control message, by its length.
            found.push(unsafe { data.cast::<c_int>().add(i).read_unaligned() });
        }
    }
    found
}

/// What a message that is sent asks for beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// UDP_SEGMENT; 0 without.
    pub(crate) segment: u16,
    /// Which of the engine's addresses it is to leave from.
    pub(crate) from: Option<IpAddr>,
}

/// Reads the control messages of a message that is sent.
///
/// # Safety
/// As [`control`].
pub(crate) unsafe fn asked(msg: *const msghdr) -> Asked {
    let mut asked = Asked::default();
    // SAFETY: the caller's promise.
    for c in unsafe { control(msg) } {
        let kind = (c.cmsg_level, c.cmsg_type);
        match kind {
            (libc::SOL_UDP, libc::UDP_SEGMENT) => {
                // SAFETY: a header of the message.
                asked.segment = unsafe { value(c) }.unwrap_or(0);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: as above.
                let info: Option<in_pktinfo> = unsafe { value(c) };
                let ip = info.map(|i| Ipv4Addr::from(u32::from_be(i.ipi_spec_dst.s_addr)));
                asked.from = ip.filter(|ip| !ip.is_unspecified()).map(IpAddr::V4);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: as above.
                let info: Option<in6_pktinfo> = unsafe { value(c) };
                let ip = info.map(|i| Ipv6Addr::from(i.ipi6_addr.s6_addr));
                asked.from = ip.filter(|ip| !ip.is_unspecified()).map(IpAddr::V6);
            }
            (level, name) => once!(
                Warn,
                Control,
                "control message {name} of level {level} has no effect on the engine"
            ),
        }
    }
    asked
}

/// The value of a control message, if it is long enough.
///
/// # Safety
/// `c` is a header inside a message; any bytes are a `T`.
unsafe fn value<T>(c: &cmsghdr) -> Option<T> {
    // SAFETY: arithmetic alone, from a header of a message.
    let (data, header) = unsafe { (libc::CMSG_DATA(c), libc::CMSG_LEN(0)) };
    let have = c.cmsg_len.saturating_sub(header as usize);
    // SAFETY: that many bytes are there.
    (have >= size_of::<T>()).then(|| unsafe { data.cast::<T>().read_unaligned() })
}

/// Fills the control buffer of a message that is received.
pub(crate) struct Filling<'a> {
    message: &'a mut msghdr,
    used: usize,
}

impl<'a> Filling<'a> {
    /// Begins at the start of the message's control buffer.
    pub(crate) fn new(message: &'a mut msghdr) -> Self {
        Self { message, used: 0 }
    }

    /// Says how long it has become.
    pub(crate) fn finish(self) {
        self.message.msg_controllen = self.used as _;
    }

    /// Adds a control message; says MSG_CTRUNC if there is no room for it.
    ///
    /// # Safety
    /// The control buffer may be written to.
    pub(crate) unsafe fn add<T>(&mut self, level: c_int, kind: c_int, value: T) {
        // SAFETY: arithmetic alone.
        let (space, len) = unsafe {
            let size = size_of::<T>() as c_uint;
            (libc::CMSG_SPACE(size) as usize, libc::CMSG_LEN(size))
        };
        let room = self.message.msg_controllen.saturating_sub(self.used);
        if self.message.msg_control.is_null() || room < space {
            self.message.msg_flags |= libc::MSG_CTRUNC;
            return;
        }
        // SAFETY: the buffer has room for one header and the value here.
        unsafe {
            let c: *mut cmsghdr = self.message.msg_control.byte_add(self.used).cast();
            c.write_unaligned(cmsghdr {
                cmsg_len: len as _,
                cmsg_level: level,
                cmsg_type: kind,
            });
            libc::CMSG_DATA(c).cast::<T>().write_unaligned(value);
        }
        self.used += space;
    }
}

/// Says beside a datagram what its socket is to be told.
///
/// # Safety
/// `message`'s control buffer may be written to.
pub(crate) unsafe fn tell(message: &mut msghdr, socket: &Socket, got: &Received) {
    let mut filling = Filling::new(message);
    let set = options::set_by_program(socket);
    let wants = |option: &options::Known| set & 1 << option.bit != 0;
    // In IPv6's terms, what an IPv4 datagram came to alone is told.
    let v4 = got
        .from
        .is_some_and(|from| from.ip().to_canonical().is_ipv4());
    // SAFETY: the caller's promise.
    unsafe {
        if let Some((IpAddr::V4(ip), link)) = got.own
            && wants(&options::PACKET_INFO)
        {
            filling.add(libc::IPPROTO_IP, libc::IP_PKTINFO, info4(ip, link, got.to));
        }
        if v4 && wants(&options::HOPS) {
            filling.add(libc::IPPROTO_IP, libc::IP_TTL, c_int::from(got.hops));
        }
        if v4 && wants(&options::CLASS) {
            filling.add(libc::IPPROTO_IP, libc::IP_TOS, got.class);
        }
        if let Some((ip, link)) = got.own
            && wants(&options::PACKET_INFO6)
        {
            filling.add(
                libc::IPPROTO_IPV6,
                libc::IPV6_PKTINFO,
                info6(ip, link, got.to),
            );
        }
        if !v4 && wants(&options::HOPS6) {
            filling.add(
                libc::IPPROTO_IPV6,
                libc::IPV6_HOPLIMIT,
                c_int::from(got.hops),
            );
        }
        if !v4 && wants(&options::CLASS6) {
            filling.add(
                libc::IPPROTO_IPV6,
                libc::IPV6_TCLASS,
                c_int::from(got.class),
            );
        }
        if got.segment != 0 {
            filling.add(libc::SOL_UDP, libc::UDP_GRO, c_int::from(got.segment));
        }
    }
    filling.finish();
}

fn info4(own: Ipv4Addr, link: u32, to: Option<IpAddr>) -> in_pktinfo {
    let c = |ip: Ipv4Addr| libc::in_addr {
        s_addr: u32::from(ip).to_be(),
    };
    let to = match to {
        Some(IpAddr::V4(to)) => to,
        _ => own,
    };
    in_pktinfo {
        ipi_ifindex: link as c_int,
        ipi_spec_dst: c(own),
        ipi_addr: c(to),
    }
}

fn info6(own: IpAddr, link: u32, to: Option<IpAddr>) -> in6_pktinfo {
    let ip = match to.unwrap_or(own) {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    in6_pktinfo {
        ipi6_addr: libc::in6_addr {
            s6_addr: ip.octets(),
        },
        ipi6_ifindex: link,
    }
}

//! Control messages: what goes beside the bytes of `sendmsg` and `recvmsg`.
//! UDP_SEGMENT and UDP_GRO, the engine's address that a datagram leaves from or came
//! to (IP_PKTINFO, IPV6_PKTINFO), hops and class of service, and descriptors on Unix
//! sockets.

use crate::address::Native;
use crate::calls::{options, refused};
use libc::{c_int, c_uint, cmsghdr, in_pktinfo, in6_pktinfo, msghdr, sockaddr_in, sockaddr_in6};
use longshore_hostif::Stamp;
use longshore_sockets::{Departure, Ready, Received, Socket, SocketError, more_bits};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// Reads the control messages of a datagram that is sent, as Linux does: of which levels
/// depends on the version of IP, and what a level does not know is an error.
///
/// # Errors
/// EINVAL for an unknown message or a bad value; EPERM for what takes a privilege.
///
/// # Safety
/// As [`control`].
pub(crate) unsafe fn asked(
    msg: *const msghdr,
    v6_socket: bool,
    to: Option<SocketAddr>,
) -> Result<Departure, SocketError> {
    let ipv6 = to.is_some_and(|to| to.ip().to_canonical().is_ipv6());
    let mut asked = Departure::default();
    // SAFETY: the caller's promise.
    for c in unsafe { control(msg) } {
        if c.cmsg_len < size_of::<cmsghdr>() {
            return Err(refused(libc::EINVAL));
        }
        // SAFETY: a header of the message.
        unsafe {
            match c.cmsg_level {
                libc::SOL_UDP if c.cmsg_type == libc::UDP_SEGMENT => {
                    asked.segment = exactly(c)?;
                }
                libc::SOL_UDP => return Err(refused(libc::EINVAL)),
                libc::SOL_SOCKET => of_socket(c)?,
                libc::IPPROTO_IP if !ipv6 => of_ipv4(c, &mut asked)?,
                libc::IPPROTO_IPV6 if ipv6 => of_ipv6(c, &mut asked)?,
                // The address may be given in IPv6's terms, too.
                libc::IPPROTO_IPV6 if v6_socket && c.cmsg_type == libc::IPV6_PKTINFO => {
                    let info: in6_pktinfo = exactly(c)?;
                    let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr).to_ipv4_mapped();
                    asked.from = Some(IpAddr::V4(ip.ok_or(refused(libc::EINVAL))?));
                }
                _ => {}
            }
        }
    }
    Ok(asked)
}

/// What says nothing to a datagram, or cannot be had.
fn of_socket(c: &cmsghdr) -> Result<(), SocketError> {
    match c.cmsg_type {
        libc::SCM_RIGHTS | libc::SCM_CREDENTIALS => Ok(()),
        libc::SO_MARK => Err(refused(libc::EPERM)),
        _ => Err(refused(libc::EINVAL)),
    }
}

/// # Safety
/// `c` is a header inside a message.
unsafe fn of_ipv4(c: &cmsghdr, asked: &mut Departure) -> Result<(), SocketError> {
    match c.cmsg_type {
        libc::IP_TTL => {
            // SAFETY: the caller's promise.
            let hops = unsafe { small(c) }?.filter(|hops| *hops != 0);
            asked.hops = Some(hops.ok_or(refused(libc::EINVAL))?);
        }
        libc::IP_TOS => {
            // SAFETY: as above.
            let byte: Option<u8> = unsafe { exactly(c) }.ok();
            let class = match byte {
                Some(class) => Some(class),
                // SAFETY: as above.
                None => unsafe { small(c) }?,
            };
            asked.class = Some(class.ok_or(refused(libc::EINVAL))?);
        }
        libc::IP_PKTINFO => {
            // SAFETY: as above.
            let info: in_pktinfo = unsafe { exactly(c) }?;
            let ip = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
            asked.from = Some(IpAddr::V4(ip)).filter(|ip| !ip.is_unspecified());
        }
        _ => return Err(refused(libc::EINVAL)),
    }
    Ok(())
}

/// # Safety
/// `c` is a header inside a message.
unsafe fn of_ipv6(c: &cmsghdr, asked: &mut Departure) -> Result<(), SocketError> {
    // -1 is what the socket has.
    match c.cmsg_type {
        // SAFETY: the caller's promise.
        libc::IPV6_HOPLIMIT => asked.hops = unsafe { small(c) }?,
        // SAFETY: as above.
        libc::IPV6_TCLASS => asked.class = Some(unsafe { small(c) }?.unwrap_or(0)),
        libc::IPV6_DONTFRAG => {
            // SAFETY: as above.
            match unsafe { small(c) }? {
                Some(on @ (0 | 1)) => asked.whole = Some(on != 0),
                _ => return Err(refused(libc::EINVAL)),
            }
        }
        libc::IPV6_PKTINFO => {
            // SAFETY: as above.
            let info: in6_pktinfo = unsafe { exactly(c) }?;
            let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
            asked.from = Some(IpAddr::V6(ip)).filter(|ip| !ip.is_unspecified());
        }
        _ => return Err(refused(libc::EINVAL)),
    }
    Ok(())
}

/// A number from 0 to 255; -1 is `None`.
///
/// # Safety
/// As [`value`].
unsafe fn small(c: &cmsghdr) -> Result<Option<u8>, SocketError> {
    // SAFETY: the caller's promise.
    match unsafe { exactly::<c_int>(c) }? {
        -1 => Ok(None),
        number => u8::try_from(number)
            .map(Some)
            .map_err(|_| refused(libc::EINVAL)),
    }
}

/// The value of a control message that has to be of this type.
///
/// # Safety
/// As [`value`].
unsafe fn exactly<T>(c: &cmsghdr) -> Result<T, SocketError> {
    // SAFETY: arithmetic alone.
    let len = unsafe { libc::CMSG_LEN(size_of::<T>() as c_uint) };
    // SAFETY: the caller's promise.
    let value = unsafe { value(c) }.filter(|_| c.cmsg_len == len as usize);
    value.ok_or(refused(libc::EINVAL))
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
    let more = socket.more_bits();
    if let Some(stamp) = got.stamp {
        // SAFETY: the caller's promise.
        unsafe { tell_arrival(&mut filling, more, stamp) };
    }
    // SAFETY: the caller's promise.
    unsafe {
        if got.segment != 0 {
            filling.add(libc::SOL_UDP, libc::UDP_GRO, c_int::from(got.segment));
        }
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
        tell_destination(&mut filling, socket, got, v4);
    }
    filling.finish();
}

/// Says when a datagram came, and how many were lost before it, if any was.
///
/// # Safety
/// As [`Filling::add`].
unsafe fn tell_arrival(filling: &mut Filling<'_>, more: u64, stamp: Stamp) {
    let (seconds, nanos) = (
        (stamp.arrived_ns / 1_000_000_000) as i64,
        (stamp.arrived_ns % 1_000_000_000) as i64,
    );
    // SAFETY: the caller's promise.
    unsafe {
        if more & more_bits::TIMESTAMP != 0 {
            let time = [seconds, nanos / 1000];
            filling.add(libc::SOL_SOCKET, libc::SO_TIMESTAMP, time);
        }
        if more & more_bits::TIMESTAMP_NS != 0 {
            filling.add(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, [seconds, nanos]);
        }
        if more & more_bits::DROPS != 0 && stamp.dropped != 0 {
            filling.add(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, stamp.dropped);
        }
    }
}

/// Says where a datagram was sent to, with the port (IP_RECVORIGDSTADDR).
///
/// # Safety
/// As [`Filling::add`].
unsafe fn tell_destination(filling: &mut Filling<'_>, socket: &Socket, got: &Received, v4: bool) {
    let more = socket.more_bits();
    if more & (more_bits::DESTINATION | more_bits::DESTINATION6) == 0 {
        return;
    }
    let to = got.to.or(got.own.map(|(ip, _)| ip));
    let (Some(to), Some(local)) = (to, socket.local()) else {
        return;
    };
    let to = SocketAddr::new(to, local.port());
    // SAFETY: the caller's promise; the storage of an address is longer than any.
    unsafe {
        if v4 && more & more_bits::DESTINATION != 0 {
            let to: sockaddr_in = Native::of_engine(to, false)
                .as_ptr()
                .cast::<sockaddr_in>()
                .read();
            filling.add(libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR, to);
        }
        if socket.is_v6() && more & more_bits::DESTINATION6 != 0 {
            let to: sockaddr_in6 = Native::of_engine(to, true)
                .as_ptr()
                .cast::<sockaddr_in6>()
                .read();
            filling.add(libc::IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR, to);
        }
    }
}

/// Says beside a stream's bytes how many more there are (TCP_INQ); one if nothing is but the
/// end.
///
/// # Safety
/// `message`'s control buffer may be written to.
pub(crate) unsafe fn tell_left(message: &mut msghdr, socket: &Socket) {
    let mut filling = Filling::new(message);
    if socket.more_bits() & more_bits::LEFT != 0 {
        let left = match socket.readable_bytes() {
            0 => usize::from(socket.readiness().contains(Ready::RDHUP)),
            left => left,
        };
        let left = c_int::try_from(left).unwrap_or(c_int::MAX);
        // SAFETY: the caller's promise.
        unsafe { filling.add(libc::IPPROTO_TCP, libc::TCP_INQ, left) };
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

//! Control messages: what goes beside the bytes of `sendmsg` and `recvmsg`.
//! UDP_SEGMENT and UDP_GRO, the engine's address that a datagram leaves from or came
//! to (IP_PKTINFO, IPV6_PKTINFO), hops and class of service, and descriptors on Unix
//! sockets.

use crate::address::Native;
use crate::calls::wall_clock::{now_ns, stamps_of_software, timespec_of, timeval_of};
use crate::calls::{interfaces, refused};
use crate::options;
use crate::options::device::LOOPBACK;
use crate::user::{In, Message};
use crate::vectors;
use libc::{c_int, cmsghdr, in_pktinfo, in6_pktinfo, sockaddr_in, sockaddr_in6};
use longshore_hostif::Stamp;
use longshore_posix::options::timestamping::Flags;
use longshore_sockets::{Departure, Received, Socket, SocketError, more_bits};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes before the value of a control message.
const HEADER: usize = size_of::<cmsghdr>();

/// SO_TIMESTAMPING where times have 64 bits on all machines.
const SO_TIMESTAMPING_NEW: c_int = 65;

/// Most bytes of control messages that go with what is sent (net.core.optmem_max).
const MOST: usize = 131_072;

/// A control message.
#[derive(Clone, Copy)]
pub(crate) struct Control<'a> {
    /// What it says itself about its length, header and value.
    len: usize,
    level: c_int,
    kind: c_int,
    /// No longer than the buffer.
    value: &'a [u8],
}

/// The control messages of a message, none if there is no memory where they should be. One with a
/// length that cannot be is the last.
fn control<'a>(msg: In<'a, Message<'a>>) -> impl Iterator<Item = Control<'a>> {
    let buffer = msg
        .get()
        .map(|m| (m.msg_control.as_in(), m.msg_controllen))
        .filter(|(buffer, len)| vectors::can_be_read(*buffer, *len))
        .unwrap_or((In::null(), 0));
    let mut rest = buffer.0.slice(buffer.1);
    std::iter::from_fn(move || {
        let header = In::from(rest.get(..HEADER)?).cast::<cmsghdr>().get()?;
        let len = header.cmsg_len;
        let value = rest.get(HEADER..len).unwrap_or(&rest[HEADER..]);
        let is_whole = len >= HEADER && len <= rest.len();
        let next = len.checked_next_multiple_of(align_of::<cmsghdr>());
        rest = next
            .filter(|_| is_whole)
            .and_then(|next| rest.get(next..))
            .unwrap_or(&[]);
        Some(Control {
            len,
            level: header.cmsg_level,
            kind: header.cmsg_type,
            value: if len < HEADER { &[] } else { value },
        })
    })
}

/// The descriptors that a message carries.
pub(crate) fn passed(msg: In<'_, Message<'_>>) -> Vec<c_int> {
    control(msg)
        .filter(|c| (c.level, c.kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS))
        .flat_map(|c| c.value.as_chunks().0)
        .map(|bytes| c_int::from_ne_bytes(*bytes))
        .collect()
}

/// Reads the control messages of a datagram that is sent, as Linux does: of which levels
/// depends on the version of IP, and what a level does not know is an error.
///
/// # Errors
/// EINVAL for an unknown message or a bad value; EPERM for what takes a privilege.
pub(crate) fn asked(
    msg: In<'_, Message<'_>>,
    v6_socket: bool,
    to: Option<SocketAddr>,
) -> Result<Departure, SocketError> {
    let ipv6 = to.is_some_and(|to| to.ip().to_canonical().is_ipv6());
    let mut asked = Departure::default();
    for c in control(msg) {
        if c.len != HEADER + c.value.len() {
            return Err(refused(libc::EINVAL));
        }
        match c.level {
            libc::SOL_UDP if c.kind == libc::UDP_SEGMENT => {
                asked.segment = exactly(c)?;
            }
            libc::SOL_UDP => return Err(refused(libc::EINVAL)),
            libc::SOL_SOCKET if matches!(c.kind, libc::SO_TIMESTAMPING | SO_TIMESTAMPING_NEW) => {
                let flags = Flags::of_message(exactly(c)?).map_err(refused)?;
                asked.stamped = Some(flags.bits());
            }
            libc::SOL_SOCKET => of_socket(c)?,
            libc::IPPROTO_IP if !ipv6 => of_ipv4(c, &mut asked)?,
            libc::IPPROTO_IPV6 if ipv6 => of_ipv6(c, &mut asked)?,
            // The address may be given in IPv6's terms, too.
            libc::IPPROTO_IPV6 if v6_socket && c.kind == libc::IPV6_PKTINFO => {
                let info: in6_pktinfo = exactly(c)?;
                let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr).to_ipv4_mapped();
                asked.from = Some(IpAddr::V4(ip.ok_or(refused(libc::EINVAL))?));
            }
            _ => {}
        }
    }
    Ok(asked)
}

/// Looks at the control messages of what is sent on a stream, as Linux does: those of sockets in
/// general alone count there.
///
/// # Errors
/// EINVAL for an unknown message or one with a length that cannot be; EPERM for what takes a privilege.
pub(crate) fn check_of_stream(msg: In<'_, Message<'_>>) -> Result<(), SocketError> {
    for c in control(msg) {
        if c.len != HEADER + c.value.len() {
            return Err(refused(libc::EINVAL));
        }
        if c.level == libc::SOL_SOCKET {
            of_socket(c)?;
        }
    }
    Ok(())
}

/// Refuses a control buffer that is nowhere, or longer than Linux takes.
///
/// # Errors
/// EFAULT, ENOBUFS.
pub(crate) fn check_buffer(m: &Message<'_>) -> Result<(), SocketError> {
    match m.msg_controllen {
        0 => Ok(()),
        len if len > MOST => Err(refused(libc::ENOBUFS)),
        len => vectors::check(m.msg_control, len),
    }
}

/// What says nothing to a datagram, or cannot be had.
fn of_socket(c: Control<'_>) -> Result<(), SocketError> {
    match c.kind {
        libc::SCM_RIGHTS | libc::SCM_CREDENTIALS => Ok(()),
        libc::SO_MARK => Err(refused(libc::EPERM)),
        _ => Err(refused(libc::EINVAL)),
    }
}

fn of_ipv4(c: Control<'_>, asked: &mut Departure) -> Result<(), SocketError> {
    match c.kind {
        libc::IP_TTL => {
            let hops = small(c)?.filter(|hops| *hops != 0);
            asked.hops = Some(hops.ok_or(refused(libc::EINVAL))?);
        }
        libc::IP_TOS => {
            let byte: Option<u8> = exactly(c).ok();
            let class = match byte {
                Some(class) => Some(class),
                None => small(c)?,
            };
            asked.class = Some(class.ok_or(refused(libc::EINVAL))?);
        }
        libc::IP_PKTINFO => {
            let info: in_pktinfo = exactly(c)?;
            check_interface(info.ipi_ifindex.cast_unsigned())?;
            let ip = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
            asked.from = Some(IpAddr::V4(ip)).filter(|ip| !ip.is_unspecified());
        }
        _ => return Err(refused(libc::EINVAL)),
    }
    Ok(())
}

fn of_ipv6(c: Control<'_>, asked: &mut Departure) -> Result<(), SocketError> {
    // -1 is what the socket has.
    match c.kind {
        libc::IPV6_HOPLIMIT => asked.hops = small(c)?,
        libc::IPV6_TCLASS => asked.class = Some(small(c)?.unwrap_or(0)),
        libc::IPV6_DONTFRAG => match small(c)? {
            Some(on @ (0 | 1)) => asked.whole = Some(on != 0),
            _ => return Err(refused(libc::EINVAL)),
        },
        libc::IPV6_PKTINFO => {
            let info: in6_pktinfo = exactly(c)?;
            check_interface(info.ipi6_ifindex)?;
            let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
            asked.from = Some(IpAddr::V6(ip)).filter(|ip| !ip.is_unspecified());
        }
        _ => return Err(refused(libc::EINVAL)),
    }
    Ok(())
}

/// Whether there is an interface of this number, by which a datagram is to leave.
///
/// # Errors
/// ENODEV.
fn check_interface(index: u32) -> Result<(), SocketError> {
    match index == 0 || index == LOOPBACK || interfaces::is_there(index) {
        true => Ok(()),
        false => Err(refused(libc::ENODEV)),
    }
}

/// A number from 0 to 255; -1 is `None`.
fn small(c: Control<'_>) -> Result<Option<u8>, SocketError> {
    match exactly::<c_int>(c)? {
        -1 => Ok(None),
        number => u8::try_from(number)
            .map(Some)
            .map_err(|_| refused(libc::EINVAL)),
    }
}

/// The value of a control message that has to be of this type.
fn exactly<T: Copy>(c: Control<'_>) -> Result<T, SocketError> {
    let value = Some(c.value).filter(|value| value.len() == size_of::<T>());
    let value = value.and_then(|value| In::from(value).cast().get());
    value.ok_or(refused(libc::EINVAL))
}

/// Fills the control buffer of a message that is received.
pub(crate) struct Filling<'m, 'a> {
    message: &'m mut Message<'a>,
    used: usize,
}

impl<'m, 'a> Filling<'m, 'a> {
    /// Begins at the start of the message's control buffer.
    pub(crate) fn new(message: &'m mut Message<'a>) -> Self {
        Self { message, used: 0 }
    }

    /// Says how long it has become.
    pub(crate) fn finish(self) {
        self.message.msg_controllen = self.used as _;
    }

    /// Adds a control message, or as much of it as there is room for; says MSG_CTRUNC if that is
    /// not all. Linux asks for no room behind the last one.
    pub(crate) fn add<T: Copy>(&mut self, level: c_int, kind: c_int, value: T) {
        let whole = HEADER + size_of::<T>();
        let room = self.message.msg_controllen.saturating_sub(self.used);
        let buffer = self.message.msg_control;
        let len = whole.min(room);
        if buffer.is_null() || len < whole {
            self.message.msg_flags |= libc::MSG_CTRUNC;
        }
        if buffer.is_null() || len < HEADER {
            return;
        }
        let at = buffer.add(self.used);
        at.cast().put(cmsghdr {
            cmsg_len: len as _,
            cmsg_level: level,
            cmsg_type: kind,
        });
        // Some of the bytes may be padding.
        let from = In::from(&value).cast::<MaybeUninit<u8>>();
        let to = at.add(HEADER).cast::<MaybeUninit<u8>>();
        let len = len - HEADER;
        to.slice_mut(len).copy_from_slice(from.slice(len));
        self.used += whole.next_multiple_of(align_of::<cmsghdr>()).min(room);
    }
}

/// Writes the control messages that a socket has asked for beside a datagram, in Linux's order, by
/// which is lost what a control buffer has no room for.
pub(crate) fn write_control(message: &mut Message<'_>, socket: &Socket, got: &Received) {
    let mut filling = Filling::new(message);
    if got.is_end() {
        // No datagram has come.
        filling.finish();
        return;
    }
    let set = options::set_by_program(socket);
    let wants = |option: &options::Known| set & 1 << option.bit != 0;
    // In IPv6's terms, what an IPv4 datagram came to alone is reported.
    let v4 = got
        .from
        .is_some_and(|from| from.ip().to_canonical().is_ipv4());
    let more = socket.more_bits();
    match got.stamp {
        Some(stamp) => {
            let flags = Flags::of(socket);
            add_arrival(&mut filling, (more, flags), stamp);
        }
        // It came before its socket asked for the time, which Linux reports as it is by now.
        None if more & (more_bits::TIMESTAMP | more_bits::TIMESTAMP_NS) != 0 => {
            let stamp = Stamp {
                arrived_ns: now_ns(),
                dropped: 0,
            };
            add_arrival(&mut filling, (more, Flags::empty()), stamp);
        }
        None => {}
    }
    if got.segment != 0 {
        filling.add(libc::SOL_UDP, libc::UDP_GRO, c_int::from(got.segment));
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
    if v4 {
        add_of_ipv4(&mut filling, wants, got);
    } else {
        add_of_ipv6(&mut filling, wants, got);
    }
    add_destination(&mut filling, socket, got, v4);
    filling.finish();
}

/// Adds what datagrams of IPv4 alone have.
fn add_of_ipv4(
    filling: &mut Filling<'_, '_>,
    wants: impl Fn(&options::Known) -> bool,
    got: &Received,
) {
    if let Some((IpAddr::V4(ip), link)) = got.own
        && wants(&options::PACKET_INFO)
    {
        filling.add(libc::IPPROTO_IP, libc::IP_PKTINFO, info4(ip, link, got.to));
    }
    if wants(&options::HOPS) {
        filling.add(libc::IPPROTO_IP, libc::IP_TTL, c_int::from(got.hops));
    }
    if wants(&options::CLASS) {
        filling.add(libc::IPPROTO_IP, libc::IP_TOS, got.class);
    }
}

/// Adds what datagrams of IPv6 alone have.
fn add_of_ipv6(
    filling: &mut Filling<'_, '_>,
    wants: impl Fn(&options::Known) -> bool,
    got: &Received,
) {
    if wants(&options::HOPS6) {
        let hops = c_int::from(got.hops);
        filling.add(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, hops);
    }
    if wants(&options::CLASS6) {
        let class = c_int::from(got.class);
        filling.add(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class);
    }
}

/// Says when a datagram came, and how many were lost before it, if any was.
fn add_arrival(filling: &mut Filling<'_, '_>, (more, flags): (u64, Flags), stamp: Stamp) {
    let time = timespec_of(stamp.arrived_ns);
    if more & more_bits::TIMESTAMP != 0 {
        filling.add(libc::SOL_SOCKET, libc::SO_TIMESTAMP, timeval_of(time));
    }
    if more & more_bits::TIMESTAMP_NS != 0 {
        filling.add(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, time);
    }
    if flags.contains(Flags::SOFTWARE) {
        let stamps = stamps_of_software(stamp.arrived_ns);
        filling.add(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, stamps);
    }
    if more & more_bits::DROPS != 0 && stamp.dropped != 0 {
        filling.add(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, stamp.dropped);
    }
}

/// Says where a datagram was sent to, with the port (IP_RECVORIGDSTADDR).
fn add_destination(filling: &mut Filling<'_, '_>, socket: &Socket, got: &Received, v4: bool) {
    let more = socket.more_bits();
    if more & (more_bits::DESTINATION | more_bits::DESTINATION6) == 0 {
        return;
    }
    let to = got.to.or(got.own.map(|(ip, _)| ip));
    let (Some(to), Some(local)) = (to, socket.addresses().local()) else {
        return;
    };
    let to = SocketAddr::new(to, local.port());
    if v4 && more & more_bits::DESTINATION != 0 {
        let to: sockaddr_in = Native::of_engine(to, false).whole();
        filling.add(libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR, to);
    }
    if !v4 && more & more_bits::DESTINATION6 != 0 {
        let to: sockaddr_in6 = Native::of_engine(to, true).whole();
        filling.add(libc::IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR, to);
    }
}

/// Says beside a stream's bytes how many more there are (TCP_INQ); one if nothing is but the
/// end.
pub(crate) fn write_unread(message: &mut Message<'_>, socket: &Socket) {
    let mut filling = Filling::new(message);
    if socket.more_bits() & more_bits::LEFT != 0 {
        let left = match socket.receive_stream().unread_bytes() {
            0 => u64::from(socket.halves().has_peer_ended()),
            left => left,
        };
        let left = c_int::try_from(left).unwrap_or(c_int::MAX);
        filling.add(libc::IPPROTO_TCP, libc::TCP_INQ, left);
    }
    filling.finish();
}

/// Bytes of a packet of IPv4 from its Ethernet header on, of which [`add_of_sent`] tells.
pub(crate) const SENT_HEADERS: usize = 14 + 20;

/// Adds what a program that asks is told of a datagram of IPv4 that has left from `own`, beside the time
/// of that, by the headers that it had: Linux tells the same as of one that has come.
pub(crate) fn add_of_sent(
    filling: &mut Filling<'_, '_>,
    socket: &Socket,
    own: Ipv4Addr,
    headers: &[u8; SENT_HEADERS],
) {
    const ETHERNET: usize = 14;
    let [_, class, .., a, b, c, d] = headers[ETHERNET..] else {
        return;
    };
    let to = Ipv4Addr::new(a, b, c, d);
    let routes = socket.host().routes();
    let is_own = to.is_loopback() || routes.own_place(to.into()).is_some();
    let link = if is_own {
        LOOPBACK
    } else {
        routes.link_scope()
    };
    let set = options::set_by_program(socket);
    let wants = |option: &options::Known| set & 1 << option.bit != 0;
    if wants(&options::PACKET_INFO) {
        let info = info4(own, link, Some(to.into()));
        filling.add(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
    }
    if wants(&options::HOPS) {
        let hops = c_int::from(headers[ETHERNET + 8]);
        filling.add(libc::IPPROTO_IP, libc::IP_TTL, hops);
    }
    if wants(&options::CLASS) {
        filling.add(libc::IPPROTO_IP, libc::IP_TOS, class);
    }
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

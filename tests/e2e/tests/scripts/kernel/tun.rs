//! A TUN device in a network namespace of the thread that opens it: IP packets to and
//! from the kernel, as they are.

use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpHeader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::thread::UnshareFlags;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

/// The device; it and its namespace are gone with the thread.
pub(crate) struct Tun {
    fd: OwnedFd,
}

impl Tun {
    /// Moves the thread to a network namespace of its own, where the kernel has
    /// `address` on the device, and `peer` is on the other side.
    ///
    /// Panics if that is not permitted; it takes root.
    pub(crate) fn in_a_namespace_of_its_own(address: Ipv4Addr, peer: Ipv4Addr) -> Tun {
        // SAFETY: a network namespace has no part in memory or descriptors, which is
        // what unsharing could pull from under other threads.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .expect("make a network namespace (takes root)");
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = open("/dev/net/tun", flags, Mode::empty()).expect("open /dev/net/tun");
        // SAFETY: an all-zero `ifreq` is a valid one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(b"tun0") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        let error = std::io::Error::last_os_error();
        assert_eq!(result, 0, "make a TUN device: {error}");
        // A child of this thread is in its namespace.
        for words in [
            &*format!("address add {address}/24 dev tun0"),
            "link set tun0 up",
            // A slow machine shall not be met by repetitions.
            &format!("route add {peer} dev tun0 rto_min 3s"),
        ] {
            let status = Command::new("ip").args(words.split(' ')).status();
            assert!(status.expect("run ip").success(), "ip {words}");
        }
        Tun { fd }
    }

    /// Gives the kernel a segment with `len` bytes of payload.
    pub(crate) fn send(&self, from: Ipv4Addr, to: Ipv4Addr, header: &TcpHeader, len: usize) {
        let tcp_len = header.header_len() + len;
        let mut packet = vec![0; HEADER_LEN + tcp_len];
        let ip = Ipv4Header {
            tos: 0,
            payload_len: tcp_len as u16,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: protocol::TCP,
            source: from,
            destination: to,
        };
        ip.emit(&mut packet);
        let segment = &mut packet[HEADER_LEN..];
        header.emit(segment);
        let sum = Partial::of_pseudo_v4(from, to, protocol::TCP, tcp_len as u32)
            .plus(Partial::of(segment))
            .finish();
        segment[CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.to_be_bytes());
        let written = rustix::io::write(&self.fd, &packet).expect("write to the TUN device");
        assert_eq!(written, packet.len());
    }

    /// The next packet that the kernel sends, waited for this long at most.
    pub(crate) fn receive(&self, wait: Duration) -> Option<Vec<u8>> {
        let mut packet = vec![0; 2048];
        let mut wanted = [PollFd::new(&self.fd, PollFlags::IN)];
        let wait = Timespec::try_from(wait).expect("a short time");
        if poll(&mut wanted, Some(&wait)).expect("poll") == 0 {
            return None;
        }
        let len = rustix::io::read(&self.fd, &mut packet).expect("read from the TUN device");
        packet.truncate(len);
        Some(packet)
    }
}

//! The packet port against the kernel's own stack, over a veth pair and over a
//! tunnel, in a network namespace that lives as long as the test's thread.

mod common;

use common::{TIMEOUT, ask, expect_frame, expect_in_place, ip};
use longshore_ports::packet::{PacketConfig, PacketError, PacketPort};
use longshore_ports::{
    GsoKind, InterfaceName, LinkKind, Port, RECV_ROOM, RxChecksum, TxChecksum, TxFrame, TxGso,
};
use longshore_testbed::in_own_namespace;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);

/// A veth pair: `near`, on which the port stands, and `far`, on which the
/// kernel has an address.
fn veth() {
    ip("link add near type veth peer name far");
    for end in ["near", "far"] {
        ip(&format!("link set {end} up"));
    }
    ip(&format!("address add {KERNEL}/24 dev far"));
}

fn config(name: &str) -> PacketConfig {
    PacketConfig {
        name: InterfaceName::new(name).unwrap(),
        addresses: vec![(OURS.into(), 24)],
        addresses_come: false,
        wait: false,
    }
}

fn mac(port: &PacketPort) -> [u8; 6] {
    match port.capabilities().link {
        LinkKind::Ethernet { mac } => mac,
        LinkKind::Ip => panic!("a veth is Ethernet"),
    }
}

/// Makes our addresses known to the kernel, and returns its hardware address.
fn meet(port: &mut PacketPort) -> [u8; 6] {
    let ours = mac(port);
    let text = ours.map(|b| format!("{b:02x}")).join(":");
    for neighbor in [OURS, Ipv4Addr::new(10, 98, 0, 3)] {
        ip(&format!(
            "neighbor replace {neighbor} lladdr {text} dev far"
        ));
    }
    let mut request = vec![0xff; 6];
    request.extend(ours);
    request.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1]);
    request.extend(ours);
    request.extend(OURS.octets());
    request.extend([0; 6]);
    request.extend(KERNEL.octets());
    let mut buf = vec![0; RECV_ROOM];
    ask(port, &mut buf, &request, |f| {
        f[12..14] == [8, 6] && f[21] == 2
    });
    buf[6..12].try_into().unwrap()
}

fn is_udp(frame: &[u8]) -> bool {
    frame.len() > 42 && frame[12..14] == [8, 0] && frame[23] == 17
}

#[test]
fn what_is_for_others_stays_with_the_kernel() {
    if !in_own_namespace() {
        return;
    }
    veth();
    let mut port = PacketPort::open(&config("near")).unwrap();
    meet(&mut port);
    let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
    socket.send_to(b"other", ("10.98.0.3", 9)).unwrap();
    socket.send_to(b"ours", (OURS, 9)).unwrap();
    let mut buf = vec![0; RECV_ROOM];
    let meta = expect_frame(&mut port, &mut buf, is_udp);
    assert_eq!(&buf[42..meta.len], b"ours");
    // The kernel at the other end of a veth leaves the sum to us.
    assert!(matches!(
        meta.checksum,
        RxChecksum::Partial {
            start: 34,
            offset: 6
        }
    ));
}

/// The multicast hardware addresses that the kernel has `near` accept.
fn accepted() -> Vec<String> {
    let listed = std::fs::read_to_string("/proc/thread-self/net/dev_mcast").unwrap();
    let lines = listed.lines().map(|line| line.split_whitespace());
    let of_near = lines.filter_map(|mut words| (words.nth(1)? == "near").then(|| words.nth(2)));
    of_near.flatten().map(str::to_owned).collect()
}

/// A group that was left is not accepted any more, however often the groups have changed: a program
/// that joins one after the other leaves nothing in the kernel.
#[test]
fn the_interface_accepts_the_groups_that_are_wanted() {
    if !in_own_namespace() {
        return;
    }
    veth();
    let mut port = PacketPort::open(&config("near")).unwrap();
    let group = |last: u8| IpAddr::from([239, 1, 2, last]);
    let station = |last: u8| format!("01005e0102{last:02x}");
    let v6: IpAddr = "ff15::7".parse().unwrap();
    for last in 1..20 {
        port.set_groups(&[group(last), group(last + 1), v6])
            .unwrap();
        let now = accepted();
        for (last, wanted) in [(last - 1, false), (last, true), (last + 1, true)] {
            assert_eq!(now.contains(&station(last)), wanted, "{last}: {now:?}");
        }
        assert!(now.contains(&"333300000007".to_owned()), "{now:?}");
    }
    port.set_groups(&[]).unwrap();
    let left = accepted();
    assert!((0..=20).all(|last| !left.contains(&station(last))));
    assert!(!left.contains(&"333300000007".to_owned()), "{left:?}");
}

/// Its payload goes to where it is expected, as far as there is room.
#[test]
fn a_datagram_is_received_into_place() {
    if !in_own_namespace() {
        return;
    }
    veth();
    let mut port = PacketPort::open(&config("near")).unwrap();
    meet(&mut port);
    let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
    for room in [[1000, 1000], [300, 500], [1400, 0], [2000, 2000], [1, 1399]] {
        expect_in_place(&mut port, room, |data| {
            socket.send_to(data, (OURS, 9)).unwrap();
        });
    }
}

#[test]
fn the_kernel_sums_and_cuts_what_we_send() {
    if !in_own_namespace() {
        return;
    }
    veth();
    let mut port = PacketPort::open(&config("near")).unwrap();
    if !port.capabilities().uso {
        longshore_testbed::skip("this kernel does not cut UDP from packet sockets");
        return;
    }
    let peer = meet(&mut port);
    let socket = UdpSocket::bind((KERNEL, 4000)).unwrap();
    let limit = Some(TIMEOUT);
    socket.set_read_timeout(limit).unwrap();
    let data: Vec<u8> = (0..10_500u32).map(|i| (i * 7) as u8).collect();
    let headers = udp_headers(peer, mac(&port), data.len());
    let payload = [std::io::IoSlice::new(&data)];
    port.send(&TxFrame {
        headers: &headers,
        payload: &payload,
        checksum: Some(TxChecksum {
            start: 34,
            offset: 6,
        }),
        gso: Some(TxGso {
            kind: GsoKind::Udp,
            size: 1000,
            header_len: 42,
        }),
    })
    .unwrap();
    let mut got = Vec::new();
    let mut buf = [0; 2000];
    while got.len() < data.len() {
        let (len, from) = socket.recv_from(&mut buf).unwrap();
        assert_eq!(from, (OURS, 4001).into());
        assert!(len <= 1000);
        got.extend_from_slice(&buf[..len]);
    }
    assert_eq!(got, data);
}

/// Ethernet, IPv4 and UDP, with the pseudo-header's sum in the checksum field.
fn udp_headers(to: [u8; 6], from: [u8; 6], payload: usize) -> Vec<u8> {
    let len = (8 + payload) as u16;
    let mut h = Vec::new();
    h.extend(to);
    h.extend(from);
    h.extend([8, 0, 0x45, 0]);
    h.extend((20 + len).to_be_bytes());
    h.extend([0, 1, 0x40, 0, 64, 17, 0, 0]);
    h.extend(OURS.octets());
    h.extend(KERNEL.octets());
    let sum = !fold(&h[14..34]);
    h[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut pseudo = h[26..34].to_vec();
    pseudo.extend([0, 17]);
    pseudo.extend(len.to_be_bytes());
    h.extend(4001u16.to_be_bytes());
    h.extend(4000u16.to_be_bytes());
    h.extend(len.to_be_bytes());
    h.extend(fold(&pseudo).to_be_bytes());
    h
}

fn fold(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn what_is_wrong_with_an_interface_is_named() {
    if !in_own_namespace() {
        return;
    }
    veth();
    let error = PacketPort::open(&PacketConfig {
        addresses: vec![(KERNEL.into(), 24)],
        ..config("near")
    })
    .unwrap_err();
    assert!(
        matches!(&error, PacketError::AddressTaken { interface, .. } if interface == "far"),
        "{error}"
    );
    let first = PacketPort::open(&config("near")).unwrap();
    assert!(matches!(
        PacketPort::open(&config("near")),
        Err(PacketError::AddressBusy { .. })
    ));
    drop(first);
    ip("link set near mtu 500");
    assert!(matches!(
        PacketPort::open(&config("near")),
        Err(PacketError::BadMtu { mtu: 500, .. })
    ));
}

#[test]
fn an_interface_that_is_down_loses_frames_and_comes_back() {
    if !in_own_namespace() {
        return;
    }
    veth();
    let mut port = PacketPort::open(&config("near")).unwrap();
    meet(&mut port);
    ip("link set near down");
    port.send(&TxFrame::whole(&[0; 60])).unwrap();
    assert_eq!(port.counters().drops.link_down, 1);
    // What came before is still there.
    while port.recv(&mut [0; 2000]).unwrap().is_some() {}
    ip("link set near up");
    meet(&mut port);
}

#[test]
fn an_interface_whose_mtu_becomes_too_small_is_said_so_once() {
    if !in_own_namespace() {
        return;
    }
    veth();
    let mut port = PacketPort::open(&config("near")).unwrap();
    let news = |port: &mut PacketPort, attached: bool| {
        let deadline = Instant::now() + TIMEOUT;
        while port.is_attached() != attached {
            assert!(Instant::now() < deadline, "no news came");
            port.take_link_events();
        }
    };
    assert_eq!(port.take_refusal(), None);
    for round in 0..2 {
        ip("link set near mtu 500");
        news(&mut port, false);
        let said = port.take_refusal().expect("it is said");
        assert!(said.contains("near has an MTU of 500"), "{said}");
        // Other news of the interface are no cause to say it again.
        ip(&format!("link set near txqueuelen {}", 100 + round));
        port.take_link_events();
        assert_eq!(port.take_refusal(), None);
        ip("link set near mtu 1500");
        news(&mut port, true);
        assert_eq!(port.take_refusal(), None);
    }
    meet(&mut port);
}

/// A tunnel's other end: makes `tun0`, as a program under test would, and gives
/// and takes bare IP packets.
fn tunnel() -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .unwrap();
    // SAFETY: all bytes zero are a valid ifreq.
    let mut ifr: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifr.ifr_name.iter_mut().zip(b"tun0") {
        *to = *from as libc::c_char;
    }
    ifr.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut ifr) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    ip("link set tun0 mtu 1400 up");
    file
}

/// Waits for news and takes it until the port is (or is not) on its interface.
fn until_attached(port: &mut PacketPort, attached: bool) -> bool {
    let deadline = Instant::now() + TIMEOUT;
    let mut changed = false;
    while port.is_attached() != attached || port.capabilities().mtu != 1400 {
        assert!(Instant::now() < deadline, "no news came");
        let mut fd = libc::pollfd {
            fd: port.link_events_fd().unwrap().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&raw mut fd, 1, 1000) };
        changed |= port.take_link_events();
    }
    changed
}

fn is_ready(port: &PacketPort) -> bool {
    let mut fd = libc::pollfd {
        fd: port.fd().unwrap().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&raw mut fd, 1, 0) != 0 }
}

fn bare_packet(from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend([0, 7, 0, 9, 0, 8, 0, 0]);
    packet
}

#[test]
fn a_tunnel_is_waited_for_and_may_come_again() {
    if !in_own_namespace() {
        return;
    }
    let mut port = PacketPort::open(&PacketConfig {
        wait: true,
        ..config("tun0")
    })
    .unwrap();
    assert!(!port.is_attached());
    assert_eq!(port.capabilities().link, LinkKind::Ip);
    port.send(&TxFrame::whole(&bare_packet(OURS, KERNEL)))
        .unwrap();
    assert_eq!(port.counters().drops.link_down, 1);
    for round in 0..2 {
        let mut tunnel = tunnel();
        let changed = until_attached(&mut port, true);
        assert_eq!(changed, round == 0);
        let inward = bare_packet(KERNEL, OURS);
        tunnel.write_all(&inward).unwrap();
        let mut buf = vec![0; RECV_ROOM];
        let meta = expect_frame(&mut port, &mut buf, |f| f[0] == 0x45);
        assert_eq!(buf[..meta.len], inward);
        let outward = bare_packet(OURS, KERNEL);
        port.send(&TxFrame::whole(&outward)).unwrap();
        loop {
            let len = tunnel.read(&mut buf).unwrap();
            // Beside ours there is what the kernel says to new interfaces.
            if buf[0] == 0x45 {
                assert_eq!(buf[..len], outward);
                break;
            }
        }
        drop(tunnel);
        until_attached(&mut port, false);
        // The kernel says once that it is gone; an engine must not be kept awake.
        while port.recv(&mut buf).unwrap().is_some() {}
        assert!(!is_ready(&port), "the socket stays readable");
    }
}

/// Looks for news until the link has come back, or has not for `timeout`.
fn returns(port: &mut PacketPort, timeout: Duration) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < timeout {
        port.take_link_events();
        if port.link_has_returned() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// What the kernel says of an interface.
fn shown(name: &str) -> String {
    let mut ip = std::process::Command::new("ip");
    let said = ip.args(["link", "show", name]).output().unwrap();
    String::from_utf8(said.stdout).unwrap()
}

/// Waits until the kernel has noticed that the link is up, or down, which it does after
/// a while.
fn until_up(up: bool) {
    let begin = Instant::now();
    while shown("near").contains("state UP") != up {
        assert!(begin.elapsed() < TIMEOUT, "{}", shown("near"));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes what the link's return still brings.
fn settle(port: &mut PacketPort) {
    until_up(true);
    while returns(port, SHORT) {}
}

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_link_that_returns_is_told_of_once() {
    if !in_own_namespace() {
        return;
    }
    veth();
    let mut port = PacketPort::open(&config("near")).unwrap();
    settle(&mut port);
    // The cable is pulled, and put back once the kernel has noticed.
    ip("link set far down");
    until_up(false);
    assert!(!returns(&mut port, SHORT));
    ip("link set far up");
    assert!(returns(&mut port, TIMEOUT));
    settle(&mut port);
    // Down and up again before the first check.
    ip("link set near down");
    ip("link set near up");
    assert!(returns(&mut port, TIMEOUT));
    settle(&mut port);
    // Another interface in its place.
    ip("link del near");
    assert!(!returns(&mut port, SHORT));
    veth();
    assert!(returns(&mut port, TIMEOUT));
    assert!(port.is_attached());
}

//! The TAP port against the kernel's own stack, in a network namespace that
//! lives as long as the test's thread.

mod common;

use common::{TIMEOUT, ask, expect_frame, expect_in_place, ip};
use longshore_ports::tap::{Tap, TapConfig, TapError};
use longshore_ports::{
    Capabilities, LinkKind, MAX_SYN_DROP, Port, PortError, RECV_ROOM, RecvBuffer, TxFrame,
};
use longshore_testbed::in_own_namespace;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

fn config() -> TapConfig {
    TapConfig {
        kernel_addresses: vec![(IpAddr::V4(KERNEL), 24)],
        mtu: Some(1500),
        ..TapConfig::create("lsp%d").unwrap()
    }
}

fn our_mac(capabilities: &Capabilities) -> [u8; 6] {
    match capabilities.link {
        LinkKind::Ethernet { mac } => mac,
        LinkKind::Ip => unreachable!("a TAP is Ethernet"),
    }
}

fn arp(mac: [u8; 6], to: [u8; 6], operation: u8, target: [u8; 6]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(to);
    frame.extend(mac);
    frame.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation]);
    frame.extend(mac);
    frame.extend(OURS.octets());
    frame.extend(target);
    frame.extend(KERNEL.octets());
    frame
}

/// Whether a frame is an answer to a question for a hardware address.
fn is_arp_answer(f: &[u8]) -> bool {
    f[12..14] == [8, 6] && f[21] == 2
}

/// Asks for the kernel's hardware address, so that it learns ours; its answer is in `buf`.
fn meet_the_kernel(tap: &mut Tap, buf: &mut [u8]) {
    let question = arp(our_mac(tap.capabilities()), [0xff; 6], 1, [0; 6]);
    ask(tap, buf, &question, is_arp_answer);
}

#[test]
fn the_kernel_answers_arp() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    let mac = our_mac(tap.capabilities());
    let mut buf = vec![0; RECV_ROOM];
    tap.send(&TxFrame::whole(&arp(mac, [0xff; 6], 1, [0; 6])))
        .unwrap();
    let meta = expect_frame(&mut tap, &mut buf, is_arp_answer);
    let answer = &buf[..meta.len];
    assert_eq!(answer[..6], mac);
    assert_eq!(answer[28..32], KERNEL.octets());
    let c = tap.counters();
    assert_eq!((c.tx_frames, c.tx_bytes), (1, 42));
    assert!(c.rx_frames >= 1 && c.drops.total() == 0);
}

#[test]
fn large_datagrams_come_scattered_and_unsegmented() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    let mut buf = vec![0; RECV_ROOM];
    meet_the_kernel(&mut tap, &mut buf);

    let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
    let data: Vec<u8> = (0..1400u32).map(|i| (i * 7) as u8).collect();
    socket.send_to(&data, (OURS, 4000)).unwrap();
    let (mut head, mut body) = ([0u8; 42], vec![0u8; RECV_ROOM]);
    let deadline = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < deadline, "the datagram did not come");
        let mut parts = [
            std::io::IoSliceMut::new(&mut head),
            std::io::IoSliceMut::new(&mut body),
        ];
        match tap.recv_scatter(&mut parts).unwrap() {
            Some(meta) if head[12..14] == [8, 0] && head[23] == 17 => {
                assert_eq!(meta.len, 42 + data.len());
                break;
            }
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert_eq!(body[..data.len()], data);
}

/// Its payload goes to where it is expected, as far as there is room.
#[test]
fn a_datagram_is_received_into_place() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    meet_the_kernel(&mut tap, &mut vec![0; RECV_ROOM]);
    let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
    for room in [[1000, 1000], [300, 500], [1400, 0], [2000, 2000], [1, 1399]] {
        expect_in_place(&mut tap, room, |data| {
            socket.send_to(data, (OURS, 4000)).unwrap();
        });
    }
}

/// A frame with an echo request of ICMP to the kernel, complete with checksums, whose
/// data is `len` bytes.
fn echo_request(mac: [u8; 6], to: [u8; 6], len: usize) -> Vec<u8> {
    let sum = |bytes: &[u8]| {
        let words = bytes.chunks(2).map(|w| match *w {
            [a, b] => u32::from(a) << 8 | u32::from(b),
            [a] => u32::from(a) << 8,
            _ => 0,
        });
        let mut sum: u32 = words.sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    };
    let mut ip = vec![0x45, 0];
    ip.extend((28 + len as u16).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 1, 0, 0]);
    ip.extend(OURS.octets());
    ip.extend(KERNEL.octets());
    let header_sum = sum(&ip);
    ip[10..12].copy_from_slice(&header_sum);
    let mut echo = vec![8, 0, 0, 0, 1, 2, 3, 4];
    echo.extend((0..len).map(|i| (i * 7) as u8));
    let echo_sum = sum(&echo);
    echo[2..4].copy_from_slice(&echo_sum);
    [&to[..], &mac, &[8, 0], &ip, &echo].concat()
}

/// Short frames go out in one piece and long ones in several, and both come in one.
#[test]
fn frames_of_any_length_come_back() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    let mac = our_mac(tap.capabilities());
    let mut buf = vec![0; RECV_ROOM];
    meet_the_kernel(&mut tap, &mut buf);
    let kernels = buf[6..12].try_into().unwrap();
    let mut buffer = RecvBuffer::new();
    // With 42 bytes of headers, some of them around the length that counts as short.
    for len in [0, 1, 2, 255, 469, 470, 471, 1472] {
        let request = echo_request(mac, kernels, len);
        let (headers, data) = request.split_at(42);
        let (a, b) = data.split_at(len / 3);
        let payload = [std::io::IoSlice::new(a), std::io::IoSlice::new(b)];
        tap.send(&TxFrame {
            payload: &payload,
            ..TxFrame::whole(headers)
        })
        .unwrap();
        let deadline = Instant::now() + TIMEOUT;
        let answer = loop {
            assert!(Instant::now() < deadline, "no answer to {len} bytes");
            match tap.recv_single(&mut buffer).unwrap().map(|meta| meta.len) {
                Some(n) if buffer.frame(n)[23] == 1 => break buffer.frame(n),
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(answer[34], 0, "an echo reply");
        assert_eq!(answer[38..], request[38..], "{len} bytes");
    }
    assert!(buffer.frame(RECV_ROOM + 1).is_empty());
}

#[test]
fn frames_that_cannot_go_are_refused() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    let long = vec![0; 1515];
    assert_eq!(
        tap.send(&TxFrame::whole(&long)),
        Err(PortError::TooLong {
            len: 1515,
            limit: 1514
        })
    );
    let pieces = [std::io::IoSlice::new(&[]); 17];
    let frame = TxFrame {
        payload: &pieces,
        ..TxFrame::whole(&long[..60])
    };
    assert_eq!(
        tap.send(&frame),
        Err(PortError::TooManyPieces { pieces: 17 })
    );
}

#[test]
fn a_small_buffer_drops_and_counts() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    let mac = our_mac(tap.capabilities());
    tap.send(&TxFrame::whole(&arp(mac, [0xff; 6], 1, [0; 6])))
        .unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while tap.counters().drops.rx_truncated == 0 {
        assert!(Instant::now() < deadline, "nothing came");
        assert_eq!(tap.recv(&mut [0; 30]), Ok(None));
    }
}

#[test]
fn what_is_wrong_with_a_device_is_named() {
    if !in_own_namespace() {
        return;
    }
    let first = Tap::open(&TapConfig {
        kernel_addresses: vec![(IpAddr::V4(KERNEL), 24)],
        ..TapConfig::create("taken").unwrap()
    })
    .unwrap();
    let open = |config: &TapConfig| Tap::open(config).unwrap_err();
    assert!(matches!(
        open(&TapConfig::create("taken").unwrap()),
        TapError::NameTaken { .. }
    ));
    assert!(matches!(
        open(&TapConfig::attach("taken").unwrap()),
        TapError::Busy { .. }
    ));
    assert!(matches!(
        open(&TapConfig::attach("absent").unwrap()),
        TapError::NoSuchInterface { .. }
    ));
    assert!(matches!(
        open(&TapConfig::attach("lo").unwrap()),
        TapError::NotATap { .. }
    ));
    assert_eq!(
        open(&TapConfig {
            mtu: Some(70_000),
            ..config()
        }),
        TapError::BadMtu { mtu: 70_000 }
    );
    let error = open(&config());
    assert!(
        matches!(&error, TapError::AddressInUse { interface, .. } if interface == "taken"),
        "{error}"
    );
    drop(first);
    Tap::open(&config()).unwrap();
}

#[test]
fn a_kernel_without_ipv6_on_the_device_says_so() {
    if !in_own_namespace() {
        return;
    }
    let address = IpAddr::V6("fd99::1".parse().unwrap());
    let both = TapConfig {
        kernel_addresses: vec![(IpAddr::V4(KERNEL), 24), (address, 64)],
        ..config()
    };
    drop(Tap::open(&both).unwrap());
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let error = Tap::open(&both).unwrap_err();
    assert!(
        matches!(&error, TapError::Ipv6Disabled { address: of, .. } if *of == address),
        "{error}"
    );
    Tap::open(&config()).unwrap();
}

#[test]
fn mtus_up_to_the_longest_packet() {
    if !in_own_namespace() {
        return;
    }
    for (asked, got) in [(1500, 1500), (9000, 9000), (65_535, 65_521)] {
        let tap = Tap::open(&TapConfig {
            mtu: Some(asked),
            ..config()
        })
        .unwrap();
        assert_eq!(tap.capabilities().mtu, got);
    }
}

/// Two engines that start at once do not take each other for in the way: the address of
/// the one has the prefix of its class for a moment.
#[test]
fn an_address_that_overlaps_for_a_moment_is_none_of_ours() {
    if !in_own_namespace() {
        return;
    }
    ip("link add other type veth peer name far");
    let opened = || {
        ip("addr add 10.99.1.1/8 dev other");
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                ip("addr del 10.99.1.1/8 dev other");
            });
            Tap::open(&config()).is_ok()
        })
    };
    // On a busy machine the moment may be a long one.
    assert!((0..10).any(|_| opened()));
}

#[test]
fn a_device_that_is_gone_says_so() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    ip(&format!("link del {}", tap.name()));
    let mut buf = vec![0; RECV_ROOM];
    let deadline = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < deadline);
        match tap.recv(&mut buf) {
            Err(error) => {
                assert_eq!(error, PortError::Down);
                break;
            }
            Ok(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn an_interface_that_is_down_loses_frames_and_comes_back() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    let name = tap.name().to_string();
    let set = |state| ip(&format!("link set {name} {state}"));
    let mac = our_mac(tap.capabilities());
    let question = arp(mac, [0xff; 6], 1, [0; 6]);
    let mut buf = vec![0; RECV_ROOM];
    set("down");
    tap.send(&TxFrame::whole(&question)).unwrap();
    assert_eq!(tap.counters().drops.link_down, 1);
    while tap.recv(&mut buf).unwrap().is_some() {}
    set("up");
    ask(&mut tap, &mut buf, &question, is_arp_answer);
}

#[test]
fn the_kernels_end_that_is_up_again_is_told_of() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    let returned = |tap: &mut Tap| {
        tap.take_link_events();
        tap.link_has_returned()
    };
    assert!(!returned(&mut tap), "its making is no return");
    let name = tap.name();
    ip(&format!("link set {name} down"));
    assert!(!returned(&mut tap));
    ip(&format!("link set {name} up"));
    assert!(returned(&mut tap));
    assert!(!returned(&mut tap));
    // Both before the first check.
    ip(&format!("link set {name} down"));
    ip(&format!("link set {name} up"));
    assert!(returned(&mut tap));
    // No other event is one.
    ip(&format!("address add 10.99.0.9/24 dev {name}"));
    ip("link add other type veth peer name another");
    ip("link set other up");
    assert!(!returned(&mut tap));
}

/// Of packets that the kernel sends to our side, those that are SYNs reach us by chance, and
/// the others all.
#[test]
fn of_syns_as_many_come_as_are_wanted() {
    if !in_own_namespace() {
        return;
    }
    let mut tap = Tap::open(&config()).unwrap();
    let mut buf = vec![0; RECV_ROOM];
    meet_the_kernel(&mut tap, &mut buf);
    let mut of_a_round = |tap: &mut Tap| {
        let (mut syns, mut others) = (0, 0);
        for _ in 0..20 {
            for flags in [0x02, 0x10] {
                for _ in 0..64 {
                    send_from_kernel(flags);
                }
                while let Some(meta) = tap.recv(&mut buf).unwrap() {
                    let frame = &buf[..meta.len];
                    match (frame.get(23), frame.get(47)) {
                        (Some(6), Some(0x02)) => syns += 1,
                        (Some(6), Some(0x10)) => others += 1,
                        _ => {}
                    }
                }
            }
        }
        (syns, others)
    };
    assert_eq!(of_a_round(&mut tap), (1280, 1280));
    assert!(tap.drop_syns(3).unwrap());
    let (syns, others) = of_a_round(&mut tap);
    assert_eq!(others, 1280);
    // 160 on average, give or take six standard deviations.
    assert!((89..232).contains(&syns), "{syns}");
    assert!(tap.drop_syns(MAX_SYN_DROP).unwrap());
    let (syns, others) = of_a_round(&mut tap);
    assert_eq!(others, 1280);
    assert!(syns < 5, "{syns}");
    assert!(tap.drop_syns(0).unwrap());
    assert_eq!(of_a_round(&mut tap), (1280, 1280));
}

/// A TCP segment of these flags from the kernel's address to ours.
fn send_from_kernel(flags: u8) {
    thread_local! {
        static RAW: std::os::fd::OwnedFd = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::RAW,
            Some(rustix::net::ipproto::RAW),
        )
        .unwrap();
    }
    let mut packet = vec![0; 40];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
    packet[12..16].copy_from_slice(&KERNEL.octets());
    packet[16..20].copy_from_slice(&OURS.octets());
    packet[32..34].copy_from_slice(&[0x50, flags]);
    let to = std::net::SocketAddrV4::new(OURS, 0);
    RAW.with(|raw| rustix::net::sendto(raw, &packet, rustix::net::SendFlags::empty(), &to))
        .unwrap();
}

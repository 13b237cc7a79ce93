//! Values of options, as hosts claim them, and what they come to.

use super::*;
use longshore_hostif::CONGESTION_NAMES;
use longshore_hostif::OptionName as O;

#[test]
fn every_name_of_a_congestion_control_crosses() {
    assert_eq!(CONGESTION_NAMES, Congestion::ALL.map(Congestion::name));
    let mut options = Options::new(OpenFlags::empty());
    for (name, which) in CONGESTION_NAMES.into_iter().zip(Congestion::ALL) {
        let mut word = [0; 8];
        word[..name.len()].copy_from_slice(name.as_bytes());
        options.set(OptionName::Congestion, u64::from_le_bytes(word));
        assert_eq!(options.tcp.congestion, which);
    }
    options.set(OptionName::Congestion, u64::from_le_bytes(*b"westwood"));
    assert_eq!(options.tcp.congestion, Congestion::Bbr);
}

#[test]
fn a_pacing_rate_and_its_absence_cross() {
    let mut options = Options::new(OpenFlags::empty());
    for rate in [1_000_000, u64::MAX] {
        options.set(OptionName::MaxPacingRate, rate);
        assert_eq!(options.tcp.max_pacing_rate, rate);
    }
}

/// Each option sets what it names, as far as it may go: a value is what its host claims.
#[test]
fn each_option_is_brought_into_its_range() {
    use OptionName as O;
    type Field = fn(&Options) -> u64;
    /// What is set, and what it comes to.
    type Values = &'static [(u64, u64)];
    const MANY: u64 = u64::MAX;
    let most = longshore_hostif::STREAM_MAX;
    let cases: [(O, Field, Values); 27] = [
        (
            O::NoDelay,
            |o| o.tcp.delay.nodelay.into(),
            &[(7, 1), (0, 0)],
        ),
        (O::Cork, |o| o.tcp.delay.cork.into(), &[(1, 1), (0, 0)]),
        (
            O::QuickAck,
            |o| o.tcp.delay.quickack.into(),
            &[(1, 1), (0, 0)],
        ),
        (
            O::KeepAlive,
            |o| o.tcp.keepalive.enabled.into(),
            &[(1, 1), (0, 0)],
        ),
        (
            O::KeepIdle,
            |o| o.tcp.keepalive.idle_ms.into(),
            &[(0, 1_000), (5, 5_000), (MANY, 32_767_000)],
        ),
        (
            O::KeepInterval,
            |o| o.tcp.keepalive.interval_ms.into(),
            &[(0, 1_000), (75, 75_000), (MANY, 32_767_000)],
        ),
        (
            O::KeepCount,
            |o| o.tcp.keepalive.probes.into(),
            &[(0, 1), (9, 9), (127, 127), (MANY, 127)],
        ),
        (
            O::UserTimeout,
            |o| o.tcp.user_timeout_ms.into(),
            &[(0, 0), (3, 3), (MANY, u32::MAX as u64)],
        ),
        (
            O::ReceiveBuffer,
            |o| {
                assert_eq!(o.receive_buffer, o.tcp.rcv.buffer);
                assert_eq!(o.receive_buffer, o.tcp.rcv.buffer_max);
                o.receive_buffer.into()
            },
            &[(0, 2_304), (100_000, 100_000)],
        ),
        (
            O::SendBuffer,
            |o| {
                assert!(o.send_fixed);
                o.send_buffer.into()
            },
            &[(0, 4_608), (100_000, 100_000)],
        ),
        (
            O::NotSentLowat,
            |o| o.not_sent_lowat.into(),
            &[(0, 0), (9, 9)],
        ),
        (
            O::ReceiveLowWater,
            |o| o.receive_lowat.into(),
            &[(0, 0), (1, 0), (2, 2), (MANY, u32::MAX as u64)],
        ),
        (
            O::DeferAccept,
            |o| o.defer_accept_s.into(),
            &[(0, 0), (8, 8)],
        ),
        (
            O::AcceptOnData,
            |o| o.accept_on_data_ms.into(),
            &[(0, 0), (59_999, 59_999), (60_001, 60_000), (MANY, 60_000)],
        ),
        (
            O::MaxSegment,
            |o| o.tcp.mss.into(),
            &[(0, 0), (1_000, 1_000), (MANY, 65_495)],
        ),
        (
            O::MaxPacingRate,
            |o| o.tcp.max_pacing_rate,
            &[(9, 9), (MANY, MANY)],
        ),
        (
            O::ReuseAddress,
            |o| o.reuse.address.into(),
            &[(1, 1), (0, 0)],
        ),
        (O::ReusePort, |o| o.reuse.port.into(), &[(1, 1), (0, 0)]),
        (
            O::Interface,
            |o| o.reuse.interface as u64,
            &[(1, 1), (2, 2), (3, 0), (MANY, 0), (0, 0)],
        ),
        (O::V6Only, |o| o.v6_only.into(), &[(1, 1), (0, 0)]),
        (
            O::Linger2,
            |o| o.tcp.fin_wait_ms.into(),
            &[(0, 0), (60, 60_000)],
        ),
        (
            O::SynCount,
            |o| o.tcp.retries.syn.into(),
            &[(0, 1), (6, 6), (MANY, 127)],
        ),
        (
            O::WindowClamp,
            |o| o.tcp.rcv.window_clamp.into(),
            &[(0, 0), (5_000, 5_000)],
        ),
        (O::FastOpen, |o| o.fast_open.into(), &[(16, 16), (0, 0)]),
        (
            O::FastOpenConnect,
            |o| o.fast_open_connect.into(),
            &[(1, 1), (0, 0)],
        ),
        (
            O::UdpGro,
            |o| o.datagrams.is_merged().into(),
            &[(1, 1), (0, 0)],
        ),
        (
            O::Stamped,
            |o| o.datagrams.is_stamped().into(),
            &[(1, 1), (0, 0)],
        ),
    ];
    for (name, field, values) in cases {
        let mut options = Options::new(OpenFlags::empty());
        for (value, expected) in values {
            options.set(name, *value);
            assert_eq!(field(&options), *expected, "{name:?} {value}");
        }
    }
    let mut options = Options::new(OpenFlags::empty());
    for (name, field) in [
        (O::SendBuffer, (|o| o.send_buffer.into()) as Field),
        (O::ReceiveBuffer, |o| o.receive_buffer.into()),
    ] {
        options.set(name, MANY);
        assert_eq!(field(&options), most);
    }
}

/// What the headers of a connection's packets have, by IPv4's options and by IPv6's.
#[test]
fn headers_are_of_one_version_each() {
    use OptionName as O;
    let (four, six) = ([10, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into());
    let of = |options: &Options, to| {
        let service = options.service(to);
        (service.ttl, service.tos)
    };
    let mut options = Options::new(OpenFlags::empty());
    assert_eq!((of(&options, four), of(&options, six)), ((64, 0), (64, 0)));
    options.set(O::TimeToLive, 3);
    options.set(O::TypeOfService, 0x10);
    assert_eq!(
        (of(&options, four), of(&options, six)),
        ((3, 0x10), (64, 0))
    );
    options.set(O::HopLimit, 5);
    options.set(O::TrafficClass, 0x20);
    assert_eq!(
        (of(&options, four), of(&options, six)),
        ((3, 0x10), (5, 0x20))
    );
    options.set(O::TimeToLive, 0);
    options.set(O::HopLimit, 1_000);
    assert_eq!((of(&options, four).0, of(&options, six).0), (1, 255));
    options.headers.set_hop_limit(9);
    assert_eq!((of(&options, four).0, of(&options, six).0), (1, 9));
}

/// Errors of datagrams are told by version, too: those that were asked for, and those of
/// paths, as IP_MTU_DISCOVER and IPV6_MTU_DISCOVER have it.
#[test]
fn errors_of_datagrams_are_asked_for_by_version() {
    use OptionName as O;
    let (four, six) = ([10, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into());
    let mut options = Options::new(OpenFlags::empty());
    let asks = |options: &Options, to| options.datagrams.asks_for_errors(to);
    let path = |options: &Options, to| options.path.reports_to_datagrams(to);
    assert!(!asks(&options, four) && !asks(&options, six));
    options.set(O::ReceiveErrors, 1);
    assert!(asks(&options, four) && !asks(&options, six));
    options.set(O::ReceiveErrors6, 1);
    options.set(O::ReceiveErrors, 0);
    assert!(!asks(&options, four) && asks(&options, six));
    // Dont, Want, Do, Probe.
    for (value, in_four, in_six) in [
        (0, false, false),
        (1, true, false),
        (2, true, true),
        (3, true, false),
    ] {
        options.set(O::PathMtu, value);
        options.set(O::PathMtu6, value);
        assert_eq!(path(&options, four), in_four, "{value}");
        assert_eq!(path(&options, six), in_six, "{value}");
    }
}

/// Of groups that others have joined: those of each version by an option of its own, and those of
/// IPv4 not from the start for a socket of IPv6.
#[test]
fn groups_of_each_version_are_set_apart() {
    let (four, six) = ("239.1.1.1".parse().unwrap(), "ff15::1".parse().unwrap());
    let all = |options: &Options| [four, six].map(|group| options.datagrams.has_all_groups(group));
    let mut options = Options::new(OpenFlags::empty());
    assert_eq!(all(&options), [true, true]);
    options.set(O::GroupAll, 0);
    assert_eq!(all(&options), [false, true]);
    let mut options = Options::new(OpenFlags::IPV6);
    assert_eq!(all(&options), [false, true]);
    options.set(O::GroupAll6, 0);
    assert_eq!(all(&options), [false, false]);
    options.set(O::GroupAll, 1);
    assert_eq!(all(&options), [true, false]);
}

/// TCP_NOTSENT_LOWAT: a program's own mark is told as such, and the machine's as usual again once it
/// has none.
#[test]
fn a_mark_of_the_program_is_none_of_the_machine() {
    let mut options = Options::new(OpenFlags::empty());
    options.not_sent_lowat = 7;
    assert_eq!(options.not_sent(3, 4).usual, 7);
    options.set(O::NotSentLowat, 9);
    let not_sent = options.not_sent(3, 4);
    assert_eq!((not_sent.sendable, not_sent.size_goal), (3, 4));
    assert_eq!((not_sent.usual, options.not_sent_mark()), (0, 9));
    options.set(O::NotSentLowat, 0);
    assert!(!options.not_sent_fixed);
}

/// What was learnt of a path counts by version, unless the program looks for the path's MTU itself, or
/// wants nothing of it.
#[test]
fn what_was_learnt_of_a_path_counts_as_the_program_has_said() {
    let (four, six) = ([10, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into());
    let counts =
        |options: &Options| [four, six].map(|to: IpAddr| options.path.counts_for_datagrams(to));
    let mut options = Options::new(OpenFlags::empty());
    assert_eq!(counts(&options), [true, true]);
    // Dont, Want, Do, Probe, Interface.
    for (value, expected) in [(0, true), (1, true), (2, true), (3, false), (4, false)] {
        options.set(O::PathMtu, value);
        options.set(O::PathMtu6, 2);
        assert_eq!(counts(&options), [expected, true], "{value}");
        options.set(O::PathMtu, 2);
        options.set(O::PathMtu6, value);
        assert_eq!(counts(&options), [true, expected], "{value}");
    }
}

#[test]
fn a_connection_has_the_family_of_its_listener() {
    for (flags, expected) in [
        (OpenFlags::empty(), BlockFlags::empty()),
        (OpenFlags::IPV6, BlockFlags::IPV6),
    ] {
        let flags = Options::new(flags).block_flags();
        assert_eq!(flags, expected | BlockFlags::BOUND);
    }
}

/// Linux: a socket of IPv6 alone has no way to an address of IPv4.
#[test]
fn a_destination_is_of_a_family_that_its_socket_has() {
    let four: SocketAddr = "10.0.0.1:9".parse().unwrap();
    let mapped: SocketAddr = "[::ffff:10.0.0.1]:9".parse().unwrap();
    let six: SocketAddr = "[fd00::1]:9".parse().unwrap();
    let of = |options: &Options| [four, mapped, six].map(|peer| options.destination(peer));
    let mut options = Options::new(OpenFlags::empty());
    let family = Err(RequestError::Family);
    assert_eq!(of(&options), [Ok(four), Ok(four), family]);
    options = Options::new(OpenFlags::IPV6);
    assert_eq!(of(&options), [Ok(four), Ok(four), Ok(six)]);
    options.v6_only = true;
    let unreachable = Err(RequestError::Unreachable);
    assert_eq!(of(&options), [unreachable, unreachable, Ok(six)]);
}

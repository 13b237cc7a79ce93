//! Headers and options: there and back, malformed, and in Linux's layout.

use super::*;
use proptest::prelude::*;

fn options() -> impl Strategy<Value = TcpOptions> {
    let syn = (
        any::<Option<u16>>(),
        proptest::option::of(0u8..15),
        any::<bool>(),
        any::<Option<(u32, u32)>>(),
        any::<Option<u16>>(),
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, t, user_timeout)| TcpOptions {
                mss,
                window_scale,
                sack_permitted,
                user_timeout,
                timestamps: t.map(|(val, echo)| Timestamps { val, echo }),
                ..TcpOptions::default()
            },
        );
    let data = (
        any::<Option<(u32, u32)>>(),
        proptest::collection::vec(any::<(u32, u32)>(), 0..4),
    )
        .prop_map(|(t, blocks)| {
            let mut sack = SackBlocks::EMPTY;
            for (l, r) in blocks.into_iter().take(3) {
                sack.push(SeqNumber(l), SeqNumber(r));
            }
            TcpOptions {
                timestamps: t.map(|(val, echo)| Timestamps { val, echo }),
                sack,
                ..TcpOptions::default()
            }
        });
    let cookie = proptest::collection::vec(any::<u8>(), 2..8).prop_map(|c| TcpOptions {
        fast_open: FastOpenCookie::new(&[c.clone(), c].concat()),
        ..TcpOptions::default()
    });
    prop_oneof![syn, data, cookie]
}

fn header() -> impl Strategy<Value = TcpHeader> {
    (
        any::<(u16, u16, u32, u32, u16, u16)>(),
        0u16..512,
        options(),
    )
        .prop_map(
            |((src_port, dst_port, seq, ack, window, urgent), flags, options)| TcpHeader {
                src_port,
                dst_port,
                seq: SeqNumber(seq),
                ack: SeqNumber(ack),
                flags: TcpFlags(flags),
                window,
                urgent,
                options,
            },
        )
}

proptest! {
    #[test]
    fn headers_come_back(h in header()) {
        let mut bytes = [0xee; MAX_HEADER_LEN + 4];
        let len = h.emit(&mut bytes);
        prop_assert!(len.is_multiple_of(4) && len <= MAX_HEADER_LEN);
        prop_assert_eq!(len, h.header_len());
        prop_assert_eq!(&bytes[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2], [0; 2]);
        prop_assert_eq!(TcpHeader::parse(&bytes), Ok((h, len)));
    }

    /// Of all 2^9 sets of control bits, two at a time.
    #[test]
    fn flags_are_a_set(a in 0u16..512, b in 0u16..512) {
        let (x, y) = (TcpFlags(a), TcpFlags(b));
        let has = |set: TcpFlags, bit: u16| set.0 >> bit & 1 != 0;
        let every = |that: &dyn Fn(u16) -> bool| (0..9).all(that);
        let mut more = x;
        more |= y;
        prop_assert!(every(&|bit| has(x | y, bit) == (has(x, bit) || has(y, bit))));
        prop_assert_eq!((x.union(y), more), (x | y, x | y));
        prop_assert!(every(&|bit| has(x & y, bit) == (has(x, bit) && has(y, bit))));
        prop_assert!(every(&|bit| has(!x, bit) != has(x, bit)));
        prop_assert_eq!((!x).0 & !0x1ff, 0);
        prop_assert_eq!(x.contains(y), every(&|bit| !has(y, bit) || has(x, bit)));
        prop_assert_eq!(x.intersects(y), !every(&|bit| !(has(x, bit) && has(y, bit))));
        prop_assert!(x.contains(x) && x.contains(TcpFlags::NONE));
        prop_assert!(!x.intersects(TcpFlags::NONE) && !x.intersects(!x));
    }

    /// RFC 7413 section 4.1.1, and its appendix B for the experiment's option.
    #[test]
    fn a_cookie_comes_back_in_either_option(
        bytes in proptest::collection::vec(any::<u8>(), 0..20),
        experimental: bool,
    ) {
        let valid = matches!(bytes.len(), 0 | 4 | 6 | 8 | 10 | 12 | 14 | 16);
        let cookie = FastOpenCookie::new(&bytes).map(|c| c.as_experiment(experimental));
        prop_assert_eq!(cookie.is_some(), valid);
        let Some(cookie) = cookie else { return Ok(()) };
        prop_assert_eq!((cookie.as_bytes(), cookie.is_experiment()), (&bytes[..], experimental));
        let options = TcpOptions { fast_open: Some(cookie), ..TcpOptions::default() };
        let mut written = vec![0xee; options.emitted_len()];
        options.emit(&mut written);
        let head: &[u8] = if experimental { &[254, 4, 0xf9, 0x89] } else { &[34, 2] };
        let said = head.len() + bytes.len();
        prop_assert_eq!(usize::from(written[1]), said);
        prop_assert_eq!((written[0], &written[2..head.len()]), (head[0], &head[2..]));
        prop_assert!(written[said..].iter().all(|pad| *pad == 1) && written.len() < said + 4);
        prop_assert_eq!(TcpOptions::parse(&written), options);
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..70), offset in 0u8..16) {
        let _ = TcpHeader::parse(&bytes);
        if let Some(b) = bytes.get_mut(12) { *b = offset << 4; }
        let _ = TcpHeader::parse(&bytes);
    }

    /// Whatever is set at once, what is sent fits and is what was meant.
    #[test]
    fn options_never_outgrow_the_header(
        a in options(),
        b in options(),
        cookie in proptest::collection::vec(any::<u8>(), 16),
        blocks in 0usize..=4,
        counts in proptest::option::of((0u32..1 << 24, 0u32..1 << 24, proptest::option::of(0u32..1 << 24))),
    ) {
        let mut all = TcpOptions {
            sack: SackBlocks::EMPTY,
            mss: a.mss.or(b.mss),
            window_scale: a.window_scale.or(b.window_scale),
            sack_permitted: a.sack_permitted,
            timestamps: a.timestamps.or(b.timestamps),
            fast_open: FastOpenCookie::new(&cookie).filter(|_| b.sack_permitted),
            user_timeout: a.user_timeout.or(b.user_timeout),
            accurate_ecn: counts.map(|(ect0, ce, ect1)| AccurateEcn {
                ect0: Some(ect0),
                ce: Some(ce),
                ect1,
            }),
        };
        for i in 0..blocks as u32 {
            all.sack.push(SeqNumber(i), SeqNumber(i + 1));
        }
        let len = all.emitted_len();
        prop_assert!(len <= 40 && len.is_multiple_of(4));
        let mut bytes = vec![0; len];
        all.emit(&mut bytes);
        let mut parsed = TcpOptions::parse(&bytes);
        prop_assert_eq!(parsed.emitted_len(), len);
        prop_assert!(all.sack.as_slice().starts_with(parsed.sack.as_slice()));
        if parsed.sack.len() < blocks {
            prop_assert!(len > 40 - 8 || parsed.sack.is_empty() && len > 40 - 12);
        }
        prop_assert!(parsed.user_timeout == all.user_timeout || len > 40 - 4);
        prop_assert!(parsed.accurate_ecn == all.accurate_ecn || len > 40 - 12);
        parsed.accurate_ecn = all.accurate_ecn;
        parsed.sack = all.sack;
        parsed.user_timeout = all.user_timeout;
        prop_assert_eq!(parsed, all);
    }

    #[test]
    fn changed_headers_are_survived(h in header(), changes in proptest::collection::vec((0usize..60, any::<u8>()), 1..4), cut in 0usize..=60) {
        let mut bytes = [0; MAX_HEADER_LEN];
        h.emit(&mut bytes);
        for (at, value) in changes {
            bytes[at] = value;
        }
        if let Ok((parsed, len)) = TcpHeader::parse(&bytes[..cut]) {
            prop_assert!(len <= cut && parsed.header_len() <= MAX_HEADER_LEN);
        }
    }

    #[test]
    fn any_options_are_survived(bytes in proptest::collection::vec(0u8..40, 0..40)) {
        let _ = TcpOptions::parse(&bytes);
    }
}

#[test]
fn a_malformed_option_ends_the_list() {
    let parsed = TcpOptions::parse(&[2, 4, 5, 0xb4, 3, 9, 7, 1]);
    assert_eq!(parsed.mss, Some(1460));
    assert_eq!(parsed.window_scale, None);
    assert_eq!(TcpOptions::parse(&[8, 0, 0, 0]), TcpOptions::default());
    assert_eq!(TcpOptions::parse(&[0, 2, 4, 5]).mss, None);
}

/// The kind for experiments has many users (RFC 6994): only one of them is Fast Open.
#[test]
fn other_experiments_are_passed_over() {
    for option in [
        &[254, 8, 0xf9, 0x88, 1, 2, 3, 4][..],
        &[254, 3, 0xf9],
        &[254, 2],
    ] {
        assert_eq!(TcpOptions::parse(option), TcpOptions::default());
    }
}

/// RFC 2018 section 3: each has eight bytes.
#[test]
fn half_a_block_is_none() {
    let mut option = [5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1];
    let blocks = |option: &[u8]| TcpOptions::parse(option).sack.len();
    assert_eq!(blocks(&option), 1);
    option[1] = 11;
    assert_eq!(blocks(&option), 0);
}

/// 28 bytes of others leave twelve, which is what one block takes.
#[test]
fn a_block_is_sent_into_the_last_twelve_bytes() {
    let mut options = TcpOptions {
        mss: Some(1460),
        timestamps: Some(Timestamps::default()),
        fast_open: FastOpenCookie::new(&[7; 10]),
        ..TcpOptions::default()
    };
    assert_eq!(options.emitted_len(), 28);
    options.sack.push(SeqNumber(1), SeqNumber(2));
    options.sack.push(SeqNumber(3), SeqNumber(4));
    assert_eq!(options.emitted_len(), 40);
    let mut bytes = [0xee; 40];
    options.emit(&mut bytes);
    let parsed = TcpOptions::parse(&bytes).sack;
    assert_eq!(parsed.as_slice(), &options.sack.as_slice()[..1]);
}

#[test]
fn accurate_ecn_is_padded() {
    let options = TcpOptions {
        accurate_ecn: Some(AccurateEcn {
            ect0: Some(1),
            ce: Some(2),
            ect1: Some(3),
        }),
        ..TcpOptions::default()
    };
    let mut bytes = [0xee; 12];
    options.emit(&mut bytes);
    assert_eq!(bytes, [172, 11, 0, 0, 1, 0, 0, 2, 0, 0, 3, 1]);
}

/// RFC 9768 section 3.2.3: two orders, and fields left out at the end.
#[test]
fn accurate_ecn_comes_in_two_orders() {
    let parse = |bytes: &[u8]| TcpOptions::parse(bytes).accurate_ecn.unwrap();
    let long = parse(&[172, 11, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1]);
    assert_eq!(
        (long.ect0, long.ce, long.ect1),
        (Some(1), Some(256), Some(65_536))
    );
    let other = parse(&[174, 8, 0, 0, 1, 0, 0, 2, 1, 1, 1, 1]);
    assert_eq!((other.ect0, other.ce, other.ect1), (None, Some(2), Some(1)));
    let empty = parse(&[174, 2, 1, 1]);
    assert_eq!(empty, AccurateEcn::default());
}

#[test]
fn unknown_options_are_passed_over() {
    assert_eq!(
        TcpOptions::parse(&[99, 3, 1, 2, 4, 5, 0xb4, 1]).mss,
        Some(1460)
    );
}

#[test]
fn a_syn_looks_like_linuxs() {
    let options = TcpOptions {
        mss: Some(1460),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 1, echo: 0 }),
        window_scale: Some(7),
        ..TcpOptions::default()
    };
    let mut bytes = [0; 20];
    options.emit(&mut bytes);
    assert_eq!(
        bytes,
        [
            2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7
        ]
    );
}

#[test]
fn a_data_segments_options_are_aligned() {
    let options = TcpOptions {
        timestamps: Some(Timestamps {
            val: 0x0102_0304,
            echo: 0x0506_0708,
        }),
        ..TcpOptions::default()
    };
    let mut bytes = [0; 12];
    options.emit(&mut bytes);
    assert_eq!(bytes, [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(TcpOptions::parse(&bytes), options);
}

#[test]
fn a_data_offset_outside_is_refused() {
    let mut bytes = [0; 24];
    bytes[12] = 0x70;
    assert_eq!(TcpHeader::parse(&bytes), Err(WireError::Truncated));
    bytes[12] = 0x40;
    assert_eq!(TcpHeader::parse(&bytes), Err(WireError::BadLength));
}

#[test]
fn flags_are_written_as_tcpdump_does() {
    assert_eq!(format!("{:?}", TcpFlags::SYN | TcpFlags::ACK), "S.");
    assert_eq!(format!("{:?}", TcpFlags::NONE), "-");
}

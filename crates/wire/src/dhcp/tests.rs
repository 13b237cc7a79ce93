use super::*;
use proptest::prelude::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// An answer with these options, the end left to the caller.
fn reply(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; OPTIONS_AT];
    bytes[..4].copy_from_slice(&[REPLY, ETHERNET, 6, 0]);
    put32(&mut bytes, 4, 77);
    put32(&mut bytes, 16, u32::from(Ipv4Addr::new(10, 0, 0, 50)));
    bytes[28..34].copy_from_slice(&MAC.0);
    put32(&mut bytes, 236, COOKIE);
    bytes.extend_from_slice(options);
    bytes
}

const ACK: [u8; 9] = [53, 1, 5, 54, 4, 10, 0, 0, 1];

#[test]
fn what_a_server_says_is_read() {
    let mut options = ACK.to_vec();
    options.extend([0, 0, 1, 4, 255, 255, 255, 0, 3, 8, 10, 0, 0, 1, 10, 0, 0, 2]);
    options.extend([26, 2, 5, 0, 51, 4, 0, 0, 14, 16, 58, 4, 0, 0, 7, 8]);
    options.extend([59, 4, 0, 0, 12, 78, 12, 3, b'h', b'u', b'h', 255, 9]);
    let r = Reply::parse(&reply(&options)).unwrap();
    assert_eq!((r.kind, r.xid, r.client), (Kind::Ack, 77, MAC));
    assert_eq!(r.address, Ipv4Addr::new(10, 0, 0, 50));
    assert_eq!((r.server, r.router), (SERVER, Some(SERVER)));
    assert_eq!((r.prefix_len, r.mtu), (Some(24), Some(1280)));
    assert_eq!(
        (r.lease, r.renew, r.rebind),
        (Some(3600), Some(1800), Some(3150))
    );
    assert_eq!(r.routes, [None; MAX_ROUTES]);
}

/// RFC 3442's own examples of networks.
#[test]
fn classless_routes_are_read() {
    let mut options = ACK.to_vec();
    options.extend([121, 5 + 8 + 9 + 3]);
    options.extend([0, 10, 0, 0, 1]);
    options.extend([24, 10, 17, 0, 0, 0, 0, 0]);
    options.extend([29, 10, 198, 122, 47, 10, 0, 0, 2]);
    options.extend([24, 1, 2, 255]);
    let r = Reply::parse(&reply(&options)).unwrap();
    let route = |n: [u8; 4], prefix_len, router: [u8; 4]| {
        Some(StaticRoute {
            network: n.into(),
            prefix_len,
            router: router.into(),
        })
    };
    assert_eq!(
        r.routes[..4],
        [
            route([0, 0, 0, 0], 0, [10, 0, 0, 1]),
            route([10, 17, 0, 0], 24, [0, 0, 0, 0]),
            route([10, 198, 122, 40], 29, [10, 0, 0, 2]),
            None,
        ]
    );
}

#[test]
fn options_in_other_fields_count_where_it_says_so() {
    let put = |bytes: &mut Vec<u8>| {
        bytes[108..115].copy_from_slice(&[51, 4, 0, 0, 0, 60, 255]);
        bytes[44..49].copy_from_slice(&[26, 2, 5, 220, 255]);
    };
    let mut with = reply(&[&ACK[..], &[52, 1, 3, 255]].concat());
    put(&mut with);
    let r = Reply::parse(&with).unwrap();
    assert_eq!((r.lease, r.mtu), (Some(60), Some(1500)));
    let mut without = reply(&[&ACK[..], &[255]].concat());
    put(&mut without);
    let r = Reply::parse(&without).unwrap();
    assert_eq!((r.lease, r.mtu), (None, None));
}

#[test]
fn what_is_no_answer_is_refused() {
    let good = reply(&ACK);
    assert!(Reply::parse(&good).is_ok(), "an end is not needed");
    for (at, value) in [(0, REQUEST), (1, 6), (2, 8), (236, 0)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(Reply::parse(&bad), Err(WireError::BadField), "{at}");
    }
    assert_eq!(Reply::parse(&good[..239]), Err(WireError::Truncated));
    assert_eq!(Reply::parse(&reply(&[53, 1, 5])), Err(WireError::BadField));
    assert_eq!(Reply::parse(&reply(&ACK[3..])), Err(WireError::BadField));
    for cut in [&[1, 4, 255][..], &[1]] {
        let options = [&ACK[..], cut].concat();
        assert_eq!(Reply::parse(&reply(&options)), Err(WireError::BadLength));
    }
    // A mask with holes says nothing, and neither do lengths that cannot be.
    let odd = [&ACK[..], &[1, 4, 255, 0, 255, 0, 26, 1, 9, 51, 2, 1, 1]].concat();
    let r = Reply::parse(&reply(&odd)).unwrap();
    assert_eq!((r.prefix_len, r.mtu, r.lease), (None, None, None));
}

/// The options of a request.
fn options(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut at, mut all) = (OPTIONS_AT, Vec::new());
    while bytes[at] != option::END {
        let len = usize::from(bytes[at + 1]);
        all.push((bytes[at], bytes[at + 2..at + 2 + len].to_vec()));
        at += 2 + len;
    }
    all
}

#[test]
fn what_a_client_says_is_written() {
    let discover = Request {
        kind: Kind::Discover,
        xid: 0x0102_0304,
        seconds: 5,
        client: MAC,
        in_use: Ipv4Addr::UNSPECIFIED,
        wanted: None,
        server: None,
        client_id: &[255, 1, 2],
    };
    let mut bytes = [0xaa; MAX_REQUEST_LEN];
    let len = discover.emit(&mut bytes);
    assert_eq!(len, 300, "padded");
    assert_eq!(bytes[..12], [1, 1, 6, 0, 1, 2, 3, 4, 0, 5, 0x80, 0]);
    assert_eq!(bytes[28..34], MAC.0);
    let said = options(&bytes);
    assert_eq!(said[0], (53, vec![1]));
    assert_eq!(said[1], (61, vec![255, 1, 2]));
    assert_eq!(said[2], (57, vec![5, 192]), "an answer fits into a frame");
    assert!(said.iter().any(|(code, _)| *code == 55));
    assert_eq!(bytes[236..240], [99, 130, 83, 99], "RFC 2131 section 3");
    let decline = Request {
        kind: Kind::Decline,
        wanted: Some(Ipv4Addr::new(10, 0, 0, 50)),
        server: Some(SERVER),
        ..discover
    };
    decline.emit(&mut bytes);
    let said = options(&bytes);
    assert_eq!(
        said[2..],
        [(50, vec![10, 0, 0, 50]), (54, vec![10, 0, 0, 1])]
    );
    assert_eq!(bytes[10], 0, "nothing will come back");
    let renew = Request {
        kind: Kind::Request,
        in_use: Ipv4Addr::new(10, 0, 0, 50),
        client_id: &[7; 100],
        ..discover
    };
    assert!(renew.emit(&mut bytes) <= MAX_REQUEST_LEN);
    assert_eq!((bytes[10], &bytes[12..16]), (0, &[10, 0, 0, 50][..]));
    assert_eq!(options(&bytes)[1].1.len(), MAX_CLIENT_ID);
    let longest = Request {
        wanted: decline.wanted,
        server: decline.server,
        ..renew
    };
    let len = longest.emit(&mut bytes);
    assert!(len > 300, "no padding is left");
    assert_eq!(bytes[len - 1], option::END);
    let said = options(&bytes);
    let told: usize = said.iter().map(|(_, data)| 2 + data.len()).sum();
    assert_eq!(len, OPTIONS_AT + told + 1);
}

#[test]
fn each_kind_of_answer_is_told() {
    let kind = |code| Reply::parse(&reply(&[&[53, 1, code], &ACK[3..]].concat())).map(|r| r.kind);
    assert_eq!(kind(2), Ok(Kind::Offer));
    assert_eq!(kind(5), Ok(Kind::Ack));
    assert_eq!(kind(6), Ok(Kind::Nak));
    for client in [1, 3, 4, 7] {
        assert_eq!(kind(client), Err(WireError::BadField), "{client}");
    }
}

#[test]
fn of_options_that_are_there_twice_the_first_counts() {
    let options = [
        &ACK[..],
        &[51, 4, 0, 0, 0, 1, 121, 5, 0, 10, 0, 0, 1],
        &[51, 4, 0, 0, 0, 2, 121, 5, 0, 10, 0, 0, 2],
    ];
    let r = Reply::parse(&reply(&options.concat())).unwrap();
    assert_eq!(r.lease, Some(1));
    let router = r.routes[0].map(|route| route.router);
    assert_eq!(router, Some(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(r.routes[1], None);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(tail in proptest::collection::vec(any::<u8>(), 0..200), overload in 0u8..4) {
        let options = [&ACK[..], &[52, 1, overload], &tail].concat();
        let mut bytes = reply(&options);
        for (place, byte) in bytes[44..236].iter_mut().zip(tail.iter().rev()) {
            *place = *byte;
        }
        let _ = Reply::parse(&bytes);
        let _ = Reply::parse(&tail);
    }
}

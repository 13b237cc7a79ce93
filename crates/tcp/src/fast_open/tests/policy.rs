//! What a server makes of SYNs, and what a client remembers.

use super::{MSS, cookie, syn_header};
use crate::fast_open::cache::CACHE_SIZE;
use crate::fast_open::{
    FastOpenCache, FastOpenMode, FastOpenOutcome, FastOpenQueue, FastOpenUse, FastOpenVerdict,
};
use crate::segment::Segment;
use crate::time::{Instant, SECOND};
use core::net::{IpAddr, Ipv4Addr};
use longshore_wire::tcp::{FastOpenCookie, TcpOptions};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const USE: FastOpenUse = FastOpenUse::from_number(3);
const ASK: FastOpenMode = FastOpenMode::RequestCookie {
    experimental: false,
};

/// A SYN with 100 bytes; the keys make cookies of 1s, and made cookies of 2s.
fn judge(
    q: &mut FastOpenQueue,
    usage: FastOpenUse,
    option: Option<FastOpenCookie>,
) -> FastOpenVerdict {
    let header = syn_header(TcpOptions {
        fast_open: option,
        ..TcpOptions::default()
    });
    let made = |last| Some(if last { cookie(2) } else { cookie(1) });
    q.judge(&Segment::new(&header, 100), usage, made)
}

fn queue(limit: u32) -> FastOpenQueue {
    let mut q = FastOpenQueue::new();
    q.set_limit(limit);
    q
}

#[test]
fn a_cookie_of_either_key_is_good() {
    let none = FastOpenVerdict::default();
    let request = Some(FastOpenCookie::REQUEST);
    // Off: as if the option were not there.
    assert_eq!(judge(&mut queue(0), USE, request), none);
    let client_only = FastOpenUse::from_number(1);
    assert_eq!(judge(&mut queue(9), client_only, request), none);
    let mut q = queue(9);
    assert_eq!(judge(&mut q, USE, None), none);
    let given = FastOpenVerdict {
        accept: false,
        give: Some(cookie(1)),
    };
    assert_eq!(judge(&mut q, USE, request), given);
    // Somebody else's, too, is answered with their own.
    assert_eq!(judge(&mut q, USE, Some(cookie(3))), given);
    let good = judge(&mut q, USE, Some(cookie(1)));
    assert_eq!((good.accept, good.give), (true, None));
    // Of the last key: good, and a new one with it.
    let old = judge(&mut q, USE, Some(cookie(2)));
    assert_eq!((old.accept, old.give), (true, Some(cookie(1))));
}

#[test]
fn the_experiments_option_is_answered_by_itself() {
    let mut q = queue(9);
    let request = FastOpenCookie::REQUEST.as_experiment(true);
    let given = judge(&mut q, USE, Some(request)).give.expect("one");
    assert_eq!(given, cookie(1).as_experiment(true));
    assert!(judge(&mut q, USE, Some(given)).accept);
}

#[test]
fn without_cookies_all_data_are_taken() {
    let usage = FastOpenUse::from_number(0x202);
    for option in [None, Some(FastOpenCookie::REQUEST), Some(cookie(3))] {
        let verdict = judge(&mut queue(1), usage, option);
        assert_eq!((verdict.accept, verdict.give), (true, None));
    }
    let plain = syn_header(TcpOptions::default());
    let verdict = queue(1).judge(&Segment::new(&plain, 0), usage, |_| None);
    assert_eq!(verdict, FastOpenVerdict::default());
}

#[test]
fn no_more_than_the_limit_are_open_on_a_cookie_alone() {
    let mut q = queue(2);
    let mut accepted = || judge(&mut q, USE, Some(cookie(1))).accept;
    assert_eq!([accepted(), accepted(), accepted()], [true, true, false]);
    q.on_done();
    assert!(judge(&mut q, USE, Some(cookie(1))).accept);
}

fn outcome() -> FastOpenOutcome {
    FastOpenOutcome {
        cookie: None,
        mss: MSS,
        sent: 0,
        accepted: false,
        fell_back: false,
        experimental: false,
    }
}

fn given(cookie: FastOpenCookie) -> FastOpenOutcome {
    FastOpenOutcome {
        cookie: Some(cookie),
        ..outcome()
    }
}

const NOW: Instant = Instant(5 * SECOND);

#[test]
fn a_client_remembers_cookies() {
    let mut c = FastOpenCache::new();
    assert_eq!(c.mode_for(SERVER, USE, NOW), Some(ASK));
    c.learn(SERVER, &given(cookie(1)), NOW);
    let way = FastOpenMode::SendCookie {
        cookie: cookie(1),
        mss: MSS,
    };
    assert_eq!(c.mode_for(SERVER, USE, NOW), Some(way));
    assert_eq!(c.mode_for(OTHER, USE, NOW), Some(ASK));
    // Taken or not, it stays.
    for accepted in [true, false] {
        let sent = FastOpenOutcome {
            sent: 10,
            accepted,
            ..outcome()
        };
        c.learn(SERVER, &sent, NOW);
        assert_eq!(c.mode_for(SERVER, USE, NOW), Some(way));
    }
    assert_eq!(c.mode_for(SERVER, FastOpenUse::from_number(2), NOW), None);
    let bare = c.mode_for(SERVER, FastOpenUse::from_number(5), NOW);
    assert_eq!(bare, Some(FastOpenMode::SendWithoutCookie { mss: MSS }));
}

#[test]
fn syns_that_go_unanswered_again_and_again_go_without() {
    let mut c = FastOpenCache::new();
    c.learn(SERVER, &given(cookie(1)), NOW);
    let fell_back = FastOpenOutcome {
        fell_back: true,
        ..outcome()
    };
    c.learn(SERVER, &fell_back, NOW);
    assert!(c.mode_for(SERVER, USE, NOW).is_some());
    let mut pause = 240 * SECOND;
    for _ in 0..3 {
        c.learn(SERVER, &fell_back, NOW);
        assert_eq!(c.mode_for(SERVER, USE, NOW.after_us(pause - 1)), None);
        assert!(c.mode_for(SERVER, USE, NOW.after_us(pause)).is_some());
        pause *= 2;
    }
    // One that is answered ends it.
    c.learn(SERVER, &given(cookie(2)), NOW);
    c.learn(SERVER, &fell_back, NOW.after_us(pause));
    assert!(c.mode_for(SERVER, USE, NOW.after_us(pause)).is_some());
}

#[test]
fn who_gets_no_cookie_tries_the_experiment_once() {
    let mut c = FastOpenCache::new();
    c.learn(SERVER, &outcome(), NOW);
    let experiment = FastOpenMode::RequestCookie { experimental: true };
    assert_eq!(c.mode_for(SERVER, USE, NOW), Some(experiment));
    let refused = FastOpenOutcome {
        experimental: true,
        ..outcome()
    };
    c.learn(SERVER, &refused, NOW);
    assert_eq!(c.mode_for(SERVER, USE, NOW), Some(ASK));
    c.learn(SERVER, &outcome(), NOW);
    assert_eq!(c.mode_for(SERVER, USE, NOW), Some(ASK));
    c.learn(OTHER, &outcome(), NOW);
    let gift = cookie(4).as_experiment(true);
    c.learn(OTHER, &given(gift), NOW);
    let way = FastOpenMode::SendCookie {
        cookie: gift,
        mss: MSS,
    };
    assert_eq!(c.mode_for(OTHER, USE, NOW), Some(way));
}

/// What two opens at one time have found, in either order, ends at the standard's option; data
/// that went without a cookie says nothing of the option.
#[test]
fn the_experiment_is_not_tried_twice() {
    let asks = |outcomes: &[FastOpenOutcome]| {
        let mut cache = FastOpenCache::new();
        for of in outcomes {
            cache.learn(SERVER, of, Instant(1));
        }
        cache.mode_for(SERVER, USE, Instant(2))
    };
    let ignored = |experimental, sent| FastOpenOutcome {
        experimental,
        sent,
        cookie: None,
        fell_back: false,
        ..outcome()
    };
    let experiment = Some(FastOpenMode::RequestCookie { experimental: true });
    assert_eq!(asks(&[ignored(false, 0)]), experiment);
    assert_eq!(asks(&[ignored(true, 0)]), Some(ASK));
    assert_eq!(asks(&[ignored(true, 0), ignored(false, 0)]), Some(ASK));
    assert_eq!(asks(&[ignored(false, 0), ignored(true, 0)]), Some(ASK));
    assert_eq!(asks(&[ignored(false, 100)]), Some(ASK));
}

#[test]
fn the_cache_is_bounded() {
    let mut c = FastOpenCache::new();
    for i in 0..1000_u32 {
        let at = Instant(u64::from(i));
        c.learn(IpAddr::V4(Ipv4Addr::from_bits(i)), &given(cookie(1)), at);
        // The first one is in use.
        let first = c.mode_for(IpAddr::V4(Ipv4Addr::from_bits(0)), USE, at);
        assert!(matches!(first, Some(FastOpenMode::SendCookie { .. })));
    }
    assert_eq!(c.len(), CACHE_SIZE);
}

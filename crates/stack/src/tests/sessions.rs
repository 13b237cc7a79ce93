//! Sessions beside each other: which are polled, what each user has of a turn, and what
//! programs are told of the stack.

use super::off_path::GEOMETRY;
use super::single::{CLIENT, Single};
use crate::{Account, Of};
use longshore_hostif::{CONGESTION_NAMES, DatagramRecord, Features, HostSession, SocketKind};
use longshore_tcp::Congestion;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Sessions that are polled however little they ask, and turns before one is parked.
const KEPT: usize = 2;
const IDLE_TURNS: u64 = 256;

/// A session that asks for nothing is parked after a while, where there are more than a few, and
/// is polled again when something is done for it.
#[test]
fn idle_sessions_are_parked() {
    let mut single = Single::new(GEOMETRY, 1);
    let (second, _) = single.add_session(GEOMETRY, Features::empty());
    assert!(!single.stack.endpoints.sessions.polls_many());
    let (third, _) = single.add_session(GEOMETRY, Features::empty());
    let all = [single.session(), second, third];
    let sessions = |single: &Single| {
        let sessions = &single.stack.endpoints.sessions;
        (sessions.len(), sessions.parked(), sessions.polled().len())
    };
    assert_eq!(sessions(&single), (3, 0, 3));
    assert_eq!(single.stack.endpoints.sessions.keys().len(), 3);
    assert!(
        single.stack.endpoints.sessions.polls_many() && !single.stack.endpoints.sessions.is_empty()
    );
    for _ in 0..IDLE_TURNS - 10 {
        single.turn();
    }
    let next_idle = |single: &mut Single| {
        let turn = single.stack.counters.event_loop.turns;
        (0..3).find_map(|_| single.stack.endpoints.sessions.next_idle(turn))
    };
    assert_eq!(next_idle(&mut single), None, "not yet");
    (0..20).for_each(|_| single.turn());
    let idle = next_idle(&mut single).expect("one of them");
    assert!(all.contains(&idle));
    assert!(single.stack.endpoints.sessions.park(idle));
    assert!(single.stack.endpoints.sessions.park(idle), "it is");
    assert_eq!(sessions(&single), (3, 1, KEPT));
    assert!(!single.stack.endpoints.sessions.polled().contains(&idle));
    assert!(!single.stack.endpoints.sessions.park(99), "there is none");
    assert_eq!(next_idle(&mut single), None, "so few are kept");
    // It is polled from when something is asked on, and not idle for a while.
    let turn = single.stack.counters.event_loop.turns;
    single.stack.endpoints.sessions.poll(idle, turn);
    single.stack.endpoints.sessions.poll(idle, turn);
    assert_eq!(sessions(&single), (3, 0, 3));
    // What is done for a parked one has it polled, too.
    for key in all {
        assert!(single.stack.endpoints.sessions.park(key));
    }
    assert_eq!(sessions(&single), (3, 3, 0));
    single.stack.endpoints.sessions.get_mut(second);
    single.turn();
    assert_eq!(single.stack.endpoints.sessions.polled(), [second]);
    // With one that is taken out, its place is.
    assert!(single.stack.lifecycle().close_session(second).is_some());
    assert!(single.stack.lifecycle().close_session(second).is_none());
    assert_eq!(sessions(&single), (2, 2, 0));
}

/// A user's share of a turn's output is for all its sessions together; what is above it waits, and
/// others do not.
#[test]
fn a_user_has_its_share_of_output() {
    const SOCKETS: u16 = 8;
    const EACH: usize = 100;
    let mut single = Single::new(GEOMETRY, 1);
    let account = Arc::new(Account::new(1_000));
    single.in_stack_mut().account = Some(account.clone());
    let peer = SocketAddr::new(CLIENT.into(), 9);
    let stream = DatagramRecord::new(0, peer.into()).encode().repeat(EACH);
    let sockets: Vec<_> = (0..SOCKETS)
        .map(|number| single.bind(SocketKind::Datagram, 1_000 + number))
        .collect();
    single.turn();
    for socket in sockets {
        single.write(socket, 0, &stream);
    }
    let mut turns = Vec::new();
    while turns.iter().sum::<usize>() < usize::from(SOCKETS) * EACH {
        single.turn();
        turns.push(single.packets().len());
        assert!(turns.len() < 100, "{turns:?}");
    }
    // Two units for a datagram, of five hundred, and what one socket has at once besides.
    assert!(turns.iter().all(|sent| *sent <= 250 + 64), "{turns:?}");
    assert!(turns.len() >= 3, "{turns:?}");
    assert!(single.stack.counters.waits.output > 0);
    let turn = single.stack.counters.event_loop.turns;
    assert!(account.spent.left(Of::Output, turn) < 500);
    assert_eq!(account.spent.left(Of::Output, turn + 1), 500);
}

/// Programs find in their memory which destinations are the engine's, how long packets may be, and
/// how their sockets begin.
#[test]
fn programs_are_told_of_the_stack() {
    let mut single = Single::new(GEOMETRY, 1);
    let (own, peer): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 7].into());
    let host = HostSession::of(&single.arena);
    let routes: Vec<_> = host.routes().iter().collect();
    let of = |ip: IpAddr| {
        let best = routes.iter().filter(|route| route.contains(ip));
        best.max_by_key(|route| route.prefix_len).copied()
    };
    let ours = of(own).expect("our address");
    assert!(ours.local && ours.prefix_len == 32);
    assert!(of(peer).is_some_and(|route| !route.local));
    assert_eq!(
        host.routes().own_address(1).map(|route| route.address),
        Some(own)
    );
    assert_eq!(host.routes().link_mtu(peer), 1_500);
    assert!(!host.routes().has_narrow_paths());
    assert!(!host.is_alone());
    // What is chosen later, for all and for one.
    let name = |host: &HostSession| CONGESTION_NAMES[host.congestion() as usize];
    assert_eq!(name(&host), Congestion::default().name());
    single.stack.settings.congestion = Some(Congestion::Bbr);
    single.stack.publish_congestion();
    assert_eq!(name(&host), "bbr");
    let session = single.session();
    let reno = CONGESTION_NAMES.iter().position(|name| *name == "reno");
    single.in_stack_mut().congestion = Some(Congestion::ALL[reno.unwrap()]);
    single.stack.publish_congestion();
    assert_eq!(name(&host), "reno");
    single.stack.settings.kernel_too = false;
    let (_, arena) = single.add_session(GEOMETRY, Features::empty());
    let other = HostSession::of(&arena);
    assert!(other.is_alone());
    assert_eq!(name(&other), "bbr");
    assert!(!other.is_closed());
    assert!(single.stack.lifecycle().close_session(session).is_some());
    assert!(host.is_closed() && !other.is_closed());
}

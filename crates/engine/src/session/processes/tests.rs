//! Children that come, do not come, or come by another name.

use super::*;
use crate::session::Session;
use longshore_hostif::attach::Token;
use longshore_hostif::{Arena, BlockFlags, Geometry, SocketId, SocketState};
use longshore_ring::{Doorbell, Ringer};
use std::sync::Arc;

fn session() -> Session {
    let geometry = Geometry {
        channels: 64,
        waiters: 64,
        sockets: 64,
        snd_chunks: 64,
        rcv_chunks: 64,
    };
    let arena = Arc::new(Arena::create(geometry).expect("an arena"));
    let bell = Doorbell::new().expect("a doorbell");
    Session::new(Token([7; 16]), arena, bell, Arc::new(Ringer::for_one()))
}

/// A process that has connected.
fn peer(pid: u32) -> Peer {
    let pidfd = watch(pid).ok();
    Peer { pid, pidfd }
}

/// As a parent does before it forks.
fn reserve(session: &Session, channel: u32) {
    let control = session.arena.control(channel);
    assert!(control.change_state(ChannelState::Free, ChannelState::Reserved));
    control.reservations.fetch_add(1, Ordering::AcqRel);
    let all = &session.arena.header().reservations;
    all.fetch_add(1, Ordering::AcqRel);
}

#[test]
fn a_reservation_ends_when_no_child_comes_for_long() {
    let mut session = session();
    reserve(&session, 3);
    for late in [0, RESERVED_FOR - 1] {
        session.drop_stale_reservations(Instant(1000 + late));
        assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
    }
    session.drop_stale_reservations(Instant(1000 + RESERVED_FOR));
    assert_eq!(session.arena.control(3).state(), ChannelState::Free);
    assert!(session.reservations.is_empty());
}

#[test]
fn a_reservation_ends_with_the_child_that_it_is_for() {
    let mut session = session();
    reserve(&session, 3);
    let control = session.arena.control(3);
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep");
    let number = control.reservations.load(Ordering::Acquire);
    // Of a reservation before this one.
    control.name_child(number - 1, child.id());
    child.kill().expect("a child to kill");
    session.drop_stale_reservations(Instant(1000));
    assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
    // Nobody has waited for it yet, and it may take a moment to die.
    session.arena.control(3).name_child(number, child.id());
    while session.arena.control(3).state() == ChannelState::Reserved {
        session.drop_stale_reservations(Instant(1000));
    }
    child.wait().expect("its end");
    // One that lives.
    reserve(&session, 3);
    let control = session.arena.control(3);
    control.name_child(number + 1, std::process::id());
    session.drop_stale_reservations(Instant(1000));
    assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
}

#[test]
fn one_after_the_other_is_not_one_for_long() {
    let mut session = session();
    for i in 0..5 {
        reserve(&session, 3);
        session.drop_stale_reservations(Instant(i * RESERVED_FOR / 2));
        let control = session.arena.control(3);
        assert_eq!(control.state(), ChannelState::Reserved, "child {i}");
        control.set_state(ChannelState::Free);
    }
}

#[test]
fn a_channel_claimed_for_a_child_that_has_another_becomes_a_reservation() {
    let mut session = session();
    let own = std::process::id();
    assert!(session.admit(peer(own)).is_some());
    reserve(&session, 3);
    let control = session.arena.control(3);
    control.pid.store(own, Ordering::Release);
    control.set_state(ChannelState::Claimed);
    assert_eq!(session.adopt(3), None);
    assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
}

/// The engine has found a claim alone, and nobody makes a reservation of which it could tell
/// by the count: it keeps its house all the same until what is held for the child is let go of.
#[test]
fn what_a_quick_childs_parent_holds_for_it_goes_when_the_child_has_it_or_has_died() {
    for dies in [false, true] {
        let mut session = session();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("60").spawn().expect("sleep");
        let joined = session.admit(peer(child.id())).expect("a channel");
        reserve(&session, 3);
        held(&mut session);
        let control = session.arena.control(3);
        control.pid.store(child.id(), Ordering::Release);
        control.set_state(ChannelState::Claimed);
        assert!(session.drop_stale_reservations(Instant(0)).is_empty());
        assert_eq!(session.adopt(3), None);
        assert!(session.may_have_reservations(), "the house is to be kept");
        // The child may be about to take hold of what is in it.
        assert!(session.drop_stale_reservations(Instant(1000)).is_empty());
        if dies {
            child.kill().expect("a child to kill");
        } else {
            session.arena.control(u32::from(joined)).settle();
        }
        let orphans = loop {
            let orphans = session.drop_stale_reservations(Instant(2000));
            // It may take a moment to die.
            if !orphans.is_empty() || !dies {
                break orphans;
            }
        };
        assert_eq!(orphans, [5]);
        assert_eq!(session.arena.control(3).state(), ChannelState::Free);
        assert!(!session.may_have_reservations());
        // Another program in the place of this one has to settle again.
        session.admit(peer(child.id()));
        assert!(!session.arena.control(u32::from(joined)).is_settled());
        let _ = child.kill();
        child.wait().expect("its end");
    }
}

#[test]
fn a_child_that_joins_gets_the_channel_that_was_claimed_for_it() {
    let mut session = session();
    let own = std::process::id();
    reserve(&session, 3);
    let control = session.arena.control(3);
    control.pid.store(own, Ordering::Release);
    control.set_state(ChannelState::Claimed);
    session.arena.set_held(3, 5, true);
    assert_eq!(session.adopt(3), Some(own));
    assert_eq!(session.admit(peer(own)), Some(3));
    assert!(session.arena.holds(3, 5));
}

/// A socket of the engine's key 77 in block 5, held by the process of channel 3.
fn held(session: &mut Session) {
    let block = session.arena.block(5);
    let generation = block.begin(SocketState::Connected, BlockFlags::empty());
    let id = SocketId {
        index: 5,
        generation,
    };
    session.enter(id, 77);
    session.arena.set_held(3, 5, true);
}

/// So many messages carry it.
fn passes(session: &Session, count: u32) {
    let block = session.arena.block(5);
    block.in_transit.store(count, Ordering::Release);
}

#[test]
fn what_is_on_its_way_outlives_its_holder_for_a_while() {
    let mut session = session();
    reserve(&session, 3);
    held(&mut session);
    passes(&session, 1);
    assert!(session.is_held(5));
    session.arena.set_held(3, 5, false);
    session.arena.control(3).set_state(ChannelState::Free);
    assert!(!session.is_held(5) && session.note_transit(77, 5, Instant(1000)));
    assert!(session.may_have_reservations(), "the house is to be kept");
    let late = Instant(1000 + IN_TRANSIT_FOR);
    let soon = Instant(late.0 - TRANSIT_EVERY);
    assert!(session.lost_in_transit(soon).is_empty());
    assert_eq!(session.lost_in_transit(late), [77]);
    session.drop_stale_reservations(late);
    assert!(!session.may_have_reservations());
}

#[test]
fn a_session_that_sends_all_its_sockets_away_keeps_some() {
    let mut session = session();
    for key in 0..2 * MOST_IN_TRANSIT as u32 {
        passes(&session, 1);
        session.note_transit(key, 5, Instant(0));
    }
    assert_eq!(session.in_transit.len(), MOST_IN_TRANSIT);
    assert_eq!(session.transit_overflows, MOST_IN_TRANSIT as u64);
}

/// A channel that is claimed for somebody else's process would keep the session for as long
/// as that lives.
#[test]
fn a_channel_is_not_claimed_for_a_process_of_others() {
    let mut session = session();
    session.uid = rustix::process::geteuid().as_raw() + 1;
    reserve(&session, 3);
    let control = session.arena.control(3);
    control.pid.store(1, Ordering::Release);
    control.set_state(ChannelState::Claimed);
    assert_eq!(session.adopt(3), None);
    assert_eq!(session.foreign_claims, 1);
    assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
}

#[test]
fn what_has_arrived_is_not_on_its_way() {
    let mut session = session();
    reserve(&session, 3);
    held(&mut session);
    session.arena.set_held(3, 5, false);
    passes(&session, 1);
    assert!(session.note_transit(77, 5, Instant(0)));
    session.arena.set_held(3, 5, true);
    passes(&session, 0);
    let late = Instant(IN_TRANSIT_FOR - 1);
    assert!(session.lost_in_transit(late).is_empty());
    assert!(session.in_transit.is_empty());
    assert!(session.is_held(5));
}

/// A child in another namespace of pids: what it says is its pid counts for nothing.
#[test]
fn a_child_is_known_by_the_descriptor_that_introduces_it() {
    let mut session = session();
    let claim = |session: &Session, channel: u32, name: u32| {
        reserve(session, channel);
        let control = session.arena.control(channel);
        control.pid.store(name, Ordering::Release);
        assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
    };
    let own = std::process::id();
    claim(&session, 3, INTRODUCED | 3);
    assert_eq!(session.adopt(3), None, "nobody has introduced it");
    session.introduce(3, peer(own));
    assert_eq!(session.adopt(3), Some(own));
    // Under another channel's number.
    claim(&session, 4, INTRODUCED | 5);
    session.introduce(4, peer(own));
    assert_eq!(session.adopt(4), None);
    let before = session.bad_descriptors;
    for channel in [64, u32::MAX] {
        assert!(!session.introduce(channel, peer(own)));
    }
    assert_eq!(session.bad_descriptors, before + 2);

    // Its waiters go with it, and another's stay.
    let owners = |session: &Session| {
        let of = |i: usize| session.arena.waiters()[i].owner.load(Ordering::Relaxed);
        [of(0), of(1)]
    };
    let names = [INTRODUCED | 3, own];
    for (waiter, name) in session.arena.waiters().iter().zip(names) {
        waiter.owner.store(name, Ordering::Relaxed);
    }
    let header = session.arena.header();
    header.waiters_end.store(2, Ordering::Relaxed);
    session.take_dead(3);
    assert_eq!(owners(&session), [0, own]);
}

/// Whoever claims a channel and is never heard of keeps it, and the session, no longer than
/// a reservation.
#[test]
fn a_claim_that_nobody_makes_good_is_given_up() {
    let mut session = session();
    session.launched = false;
    for (channel, name) in [(3, INTRODUCED | 3), (4, 1)] {
        reserve(&session, channel);
        let control = session.arena.control(channel);
        control.pid.store(name, Ordering::Release);
        control.set_state(ChannelState::Claimed);
    }
    session.drop_stale_reservations(Instant(0));
    assert!(session.is_in_use() && session.may_have_reservations());
    session.drop_stale_reservations(Instant(RESERVED_FOR - 1));
    assert!(session.is_in_use());
    session.drop_stale_reservations(Instant(RESERVED_FOR));
    assert!(!session.is_in_use());
}

/// All channels reserved, with all sockets in each: a part is given up at a time.
#[test]
fn many_reservations_are_given_up_a_few_at_a_time() {
    let mut session = session();
    for channel in 0..64 {
        reserve(&session, channel);
        session.arena.set_held(channel, 5, true);
    }
    session.drop_stale_reservations(Instant(0));
    let mut looks = 0;
    while session.is_forking() {
        let held = session.drop_stale_reservations(Instant(RESERVED_FOR));
        assert_eq!(held, [5]);
        looks += 1;
    }
    assert_eq!(looks, 64 / DROPPED_AT_ONCE);
}

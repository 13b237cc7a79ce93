//! Whose a session is, who may join it, and what is looked after.

use super::*;
use crate::testing::GEOMETRY;
use crate::users::{Limits, UserLimits, Users};
use longshore_hostif::{Arena, ChannelState, HostSession, SocketState};
use longshore_ring::EventfdSignaler;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// A session of this user, and both halves of the interface.
fn session(uid: u32) -> (Session, Half, Arena) {
    let signaler = Arc::new(EventfdSignaler::for_one());
    let host = AdapterSession::create(GEOMETRY, signaler).unwrap();
    let memory = host.memory_fd().as_fd().try_clone_to_owned().unwrap();
    let arena = Arena::open(memory, GEOMETRY).unwrap();
    let doorbell = Doorbell::new().unwrap();
    let session = Session::new(Token([9; 16]), &host, doorbell, uid);
    (session, Half::new(host, uid), arena)
}

/// A user that is trusted with nothing.
const OTHER_USER: u32 = 4_000_001;

#[test]
fn a_session_opened_anew_is_for_all_only_if_its_user_is_trusted() {
    let own = rustix::process::geteuid().as_raw();
    for (is_renewed, uid, expected) in [
        (false, OTHER_USER, true),
        (false, own, true),
        (true, OTHER_USER, false),
        (true, own, true),
        (true, 0, true),
    ] {
        let (mut session, ..) = session(uid);
        session.is_renewed = is_renewed;
        assert_eq!(session.is_for_all(), expected, "{is_renewed} {uid}");
    }
}

#[test]
fn two_sessions_of_one_token_are_those_that_two_users_have_opened_anew() {
    // Whether each is opened anew, whether both are one user's, and whether one keeps the other
    // out.
    for (anew, is_same_user, expected) in [
        ([false, false], false, true),
        ([true, false], false, true),
        ([false, true], false, true),
        ([true, true], false, false),
        ([true, true], true, true),
    ] {
        let (mut one, mut half, _arena) = session(OTHER_USER);
        let (mut other, ..) = session(OTHER_USER + u32::from(!is_same_user));
        [one.is_renewed, other.is_renewed] = anew;
        assert_eq!(one.excludes(&other), expected, "{anew:?} {is_same_user}");
        other.token = Token([8; 16]);
        assert!(!one.excludes(&other), "it has another token");
        other.token = one.token;
        one.end(&mut half);
        assert!(!one.excludes(&other), "it is over");
    }
}

/// What the engine makes for programs counts among what their user may have.
#[test]
fn descriptors_are_charged_to_the_user_of_the_session() {
    let users = Users::new(Limits {
        connections: 1,
        sessions: 1,
        descriptors: 3,
        chosen: UserLimits::default(),
    });
    let user = users.get(OTHER_USER);
    let (mut session, mut half, arena) = session(OTHER_USER);
    session.user = Some(user.clone());
    arena.header().waiters_end.store(8, Ordering::Release);
    assert!(session.make_eventfd(&mut half, 0).is_some());
    assert!(session.make_eventfd(&mut half, 1).is_some());
    let may_more = |n| user.take_descriptors(n).is_some();
    assert!(may_more(1) && !may_more(2));
    assert!(session.make_eventfd(&mut half, 2).is_some());
    assert!(session.make_eventfd(&mut half, 3).is_none());
    drop(half);
    assert!(may_more(3), "they are given back");
}

#[test]
fn a_session_is_in_use_by_its_launcher_or_a_process_until_it_is_over() {
    let (mut session, mut half, _arena) = session(OTHER_USER);
    assert!(session.is_in_use());
    session.launched = false;
    assert!(!session.is_in_use());
    let (pid, pidfd) = (std::process::id(), None);
    let channel = session.attach(&mut half, Peer { pid, pidfd }).unwrap();
    assert!(session.is_in_use());
    // As if it had ended.
    let ended = session.take_dead(&mut half, channel).unwrap();
    assert_eq!(ended.name, pid);
    assert!(session.has_changed && !session.is_in_use());
    assert!(session.take_dead(&mut half, channel).is_none());
    session.launched = true;
    session.end(&mut half);
    assert!(!session.is_in_use() && !session.launched);
}

/// The program image before it in the same process sleeps nowhere any more.
#[test]
fn a_process_that_joins_again_has_none_of_the_waiters_that_it_had() {
    let (mut session, mut half, arena) = session(OTHER_USER);
    let pid = std::process::id();
    let join = |session: &mut Session, half: &mut Half| {
        let pidfd = None;
        session.attach(half, Peer { pid, pidfd }).unwrap()
    };
    let channel = join(&mut session, &mut half);
    let program = HostSession::of(&Arc::new(arena));
    let claim = || program.waiters().claim(pid, 0).is_some();
    let most = GEOMETRY.waiters as usize;
    assert_eq!((0..=most).filter(|_| claim()).count(), most);
    assert_eq!(join(&mut session, &mut half), channel);
    assert_eq!((0..=most).filter(|_| claim()).count(), most);
}

/// What is published there later is nobody's.
#[test]
fn channels_of_processes_that_are_gone_are_closed() {
    let (mut session, mut half, _arena) = session(OTHER_USER);
    let join = |session: &mut Session, half: &mut Half, pid| {
        let own = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty()).ok();
        session.attach(half, Peer { pid, pidfd }).unwrap()
    };
    let all = [1, 2, 3].map(|pid| join(&mut session, &mut half, pid));
    assert!(
        all.iter()
            .all(|channel| half.host.channels.is_open(*channel))
    );
    assert!(session.take_dead(&mut half, all[0]).is_some());
    let is_open = all.map(|channel| half.host.channels.is_open(channel));
    assert_eq!(is_open, [false, true, true]);
    assert_eq!(session.take_all(&mut half).len(), 2);
    assert!(
        !all.iter()
            .any(|channel| half.host.channels.is_open(*channel))
    );
}

/// It is said once that a session is to be looked after, of what stays until it is seen to.
#[test]
fn what_changes_in_a_session_is_looked_after_once() {
    let (mut session, _half, arena) = session(OTHER_USER);
    assert!(!session.wants_care() && !session.takes_care());
    session.has_changed = true;
    assert!(session.wants_care() && session.wants_care());
    assert!(session.takes_care() && !session.takes_care());
    // Nobody uses it, as long as that is so.
    session.launched = false;
    assert!(session.takes_care() && session.takes_care());
    session.launched = true;
    assert!(!session.takes_care());
    // A parent is about to have a child.
    let control = arena.control(3);
    assert!(control.change_state(ChannelState::Free, ChannelState::Reserved));
    arena.header().reservations.fetch_add(1, Ordering::AcqRel);
    assert!(session.may_have_reservations() && session.takes_care());
    session.processes.drop_stale_reservations(1);
    assert!(session.may_have_reservations(), "it is still to come");
}

/// The process of a session that is over is taken on by nobody.
#[test]
fn a_claimed_channel_is_opened_unless_the_session_is_over() {
    for is_over in [false, true] {
        let own = rustix::process::geteuid().as_raw();
        let (mut session, mut half, arena) = session(own);
        let control = arena.control(3);
        assert!(control.change_state(ChannelState::Free, ChannelState::Reserved));
        control.pid.store(std::process::id(), Ordering::Release);
        assert!(!session.take_claimed(&mut half, 3), "it is not claimed");
        assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
        session.is_over = is_over;
        assert_eq!(session.take_claimed(&mut half, 3), !is_over);
        assert_eq!(half.host.channels.is_open(3), !is_over);
    }
}

/// A socket that no process holds, and of which no message is on its way, is nobody's.
#[test]
fn a_socket_in_a_message_is_noted_and_lost_if_nobody_takes_it() {
    const TEN_SECONDS: u64 = 10_000_000;
    let (mut session, half, arena) = session(OTHER_USER);
    let block = arena.block(5);
    block.begin(SocketState::Open, longshore_hostif::BlockFlags::empty());
    assert!(!session.note_transit(77, 5, Instant(1)));
    block.in_transit.store(1, Ordering::Release);
    assert!(session.note_transit(77, 5, Instant(1)));
    assert!(session.may_have_reservations());
    // It has no key here any more: nothing is lost, and nothing is kept.
    let lost = session.lost_in_transit(&half, Instant(100 * TEN_SECONDS));
    assert_eq!(lost, [0u32; 0]);
    assert!(!session.may_have_reservations());
}

//! Processes that join, claim, go on to another program and end. What their parents keep for
//! them is in [`reservations`].

mod reservations;

use super::*;
use crate::abi::{BlockFlags, Geometry, SocketState};
use rustix::event::{PollFd, PollFlags, poll};

fn processes() -> Processes {
    let uid = rustix::process::geteuid().as_raw();
    let arena = Arena::create(Geometry::SMALL).expect("memory");
    Processes::new(Arc::new(arena), uid)
}

/// A process that has connected.
fn peer(pid: u32) -> Peer {
    let pidfd = watch(pid).ok();
    Peer { pid, pidfd }
}

/// A child that has ended, and whose parent has not waited for it.
fn ended_child() -> std::process::Child {
    let child = std::process::Command::new("true").spawn().expect("true");
    let fd = watch(child.id()).expect("a child that nobody has waited for");
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("its end");
    child
}

/// As a parent does before it forks.
fn reserve(processes: &Processes, channel: u32) {
    assert!(processes.arena.control(channel).reserve());
    let all = &processes.arena.header().reservations;
    all.fetch_add(1, Ordering::AcqRel);
}

/// A socket in block 5, held by the process of channel 3.
fn held(processes: &mut Processes) {
    let block = processes.arena.block(5);
    block.begin(SocketState::Connected, BlockFlags::empty());
    processes.arena.set_held(3, 5, true);
}

/// So many messages carry it.
fn passes(processes: &Processes, count: u32) {
    let block = processes.arena.block(5);
    block.in_transit.store(count, Ordering::Release);
}

#[test]
fn a_socket_in_a_message_is_in_transit_while_no_process_holds_it() {
    let mut processes = processes();
    reserve(&processes, 3);
    held(&mut processes);
    passes(&processes, 1);
    assert!(processes.is_held(5) && !processes.is_in_transit(5));
    processes.arena.set_held(3, 5, false);
    assert!(!processes.is_held(5) && processes.is_in_transit(5));
    processes.arena.set_held(3, 5, true);
    passes(&processes, 0);
    assert!(processes.is_held(5) && !processes.is_in_transit(5));
    // A channel that nobody has holds nothing, whatever its bitmap says.
    processes.arena.control(3).set_state(ChannelState::Free);
    assert!(!processes.is_held(5) && !processes.is_in_transit(5));
}

/// A child in another namespace of pids: what it says is its pid counts for nothing.
#[test]
fn a_child_is_known_by_the_descriptor_that_introduces_it() {
    let mut processes = processes();
    let claim = |processes: &Processes, channel: u32, name: u32| {
        reserve(processes, channel);
        let control = processes.arena.control(channel);
        control.pid.store(name, Ordering::Release);
        assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
    };
    let own = std::process::id();
    claim(&processes, 3, REGISTERED | 3);
    assert_eq!(processes.take_claimed(3), None, "nobody has registered it");
    processes.register_child(3, peer(own));
    assert_eq!(processes.take_claimed(3), Some(own));
    // Under another channel's number.
    claim(&processes, 4, REGISTERED | 5);
    processes.register_child(4, peer(own));
    assert_eq!(processes.take_claimed(4), None);
    let before = processes.bad_claims();
    for channel in [64, u32::MAX] {
        assert!(!processes.register_child(channel, peer(own)));
    }
    assert_eq!(processes.bad_claims(), before + 2);

    // Its waiters go with it, under the name that it has.
    let ended = processes.take_ended(3).expect("it was there");
    assert_eq!(ended.name, REGISTERED | 3);
    assert_eq!(processes.take_ended(3), None);
}

/// The waiters of the program image before are free.
#[test]
fn a_new_image_of_a_process_has_its_channel() {
    let mut processes = processes();
    let own = std::process::id();
    let first = processes.attach(peer(own)).expect("a channel");
    assert_eq!(first.replaces, None);
    let channel = first.channel;
    let second = processes.attach(peer(own));
    let replaces = Some(own);
    assert_eq!(second, Some(Attached { channel, replaces }));
    assert_eq!(processes.living(), 1);
    // Two that cannot be seen are two.
    let unseen = [processes.attach(peer(0)), processes.attach(peer(0))];
    assert_ne!(unseen[0].unwrap().channel, unseen[1].unwrap().channel);
    assert!(processes.has_unwatched());
}

/// As if there had been no descriptor for them when they came.
#[test]
fn processes_that_nothing_tells_of_are_asked_after_once() {
    let mut processes = processes();
    let mut child = ended_child();
    let [lives, ends] = [std::process::id(), child.id()].map(|pid| {
        let pidfd = None;
        processes.attach(Peer { pid, pidfd }).unwrap().channel
    });
    assert!(processes.has_unwatched());
    let found = processes.ask_after_unwatched();
    let (ended, watched) = (vec![ends], vec![lives]);
    assert_eq!(found, Unwatched { ended, watched });
    assert!(processes.pidfd(lives).is_some() && processes.pidfd(ends).is_none());
    // From now on there is nobody to be asked after.
    assert!(!processes.has_unwatched());
    assert_eq!(processes.ask_after_unwatched(), Unwatched::default());
    child.wait().unwrap();
}

/// What was held in a channel by whoever had it last is nothing that its next process holds.
#[test]
fn a_process_that_joins_holds_nothing_and_is_known_by_its_name() {
    let mut processes = processes();
    for channel in 0..64 {
        processes.arena.set_held(channel, 5, true);
    }
    let own = std::process::id();
    let channel = u32::from(processes.attach(peer(own)).unwrap().channel);
    assert!(!processes.arena.holds(channel, 5));
    let control = processes.arena.control(channel);
    assert_eq!(control.state(), ChannelState::Open);
    assert_eq!(control.pid.load(Ordering::Relaxed), own);
    assert_eq!(processes.living(), 1);
    let unseen = u32::from(processes.attach(peer(0)).unwrap().channel);
    let name = processes.arena.control(unseen).pid.load(Ordering::Relaxed);
    assert_eq!(name, REGISTERED | unseen);
}

/// A program may write what it likes to its channel's state: nobody else is given the channel
/// as long as it lives.
#[test]
fn the_channel_of_a_living_process_is_not_given_away() {
    let own = std::process::id();
    for state in [ChannelState::Free, ChannelState::Claimed] {
        let mut processes = processes();
        let channel = processes.attach(peer(own)).unwrap().channel;
        let control = processes.arena.control(u32::from(channel));
        control.set_state(state);
        control
            .pid
            .store(REGISTERED | u32::from(channel), Ordering::Release);
        processes.register_child(channel.into(), peer(own));
        assert_eq!(processes.take_claimed(channel), None);
        assert!(processes.claimed().is_empty());
        assert_ne!(processes.attach(peer(0)).unwrap().channel, channel);
        assert_eq!(processes.pid(channel), Some(own));
        assert!(processes.drop_stale_reservations(0).is_empty());
        assert!(processes.drop_stale_reservations(RESERVED_FOR).is_empty());
        assert_eq!(processes.pid(channel), Some(own));
    }
}

/// A claim that cannot be is counted as bad, and as one for a process of others.
#[test]
fn a_process_that_claims_is_open_and_looked_after_and_one_that_may_not_is_counted() {
    let mut processes = processes();
    let own = std::process::id();
    let claim = |processes: &Processes, channel: u32, name: u32| {
        reserve(processes, channel);
        let control = processes.arena.control(channel);
        control.pid.store(name, Ordering::Release);
        assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
    };
    claim(&processes, 3, REGISTERED | 3);
    let (pid, pidfd) = (own, None);
    processes.register_child(3, Peer { pid, pidfd });
    assert!(!processes.has_unwatched());
    assert_eq!(processes.take_claimed(3), Some(own));
    assert_eq!(processes.arena.control(3).state(), ChannelState::Open);
    assert!(processes.has_unwatched());
    assert_eq!(processes.take_claimed(3), None, "it is known");
    assert_eq!((processes.bad_claims(), processes.foreign_claims()), (0, 0));
    processes.uid += 1;
    claim(&processes, 4, 1);
    assert_eq!(processes.take_claimed(4), None);
    assert_eq!((processes.bad_claims(), processes.foreign_claims()), (1, 1));
}

/// Each bit of each word is a block.
#[test]
fn what_an_ended_process_held_is_found_wherever_it_is() {
    let geometry = Geometry {
        sockets: 192,
        ..Geometry::SMALL
    };
    let arena = Arc::new(Arena::create(geometry).unwrap());
    let uid = rustix::process::geteuid().as_raw();
    let mut processes = Processes::new(arena, uid);
    let own = std::process::id();
    let channel = processes.attach(peer(own)).unwrap().channel;
    let blocks = vec![0, 63, 64, 130, 191];
    for block in &blocks {
        processes.arena.set_held(channel.into(), *block, true);
    }
    let ended = processes.take_ended(channel).unwrap();
    assert_eq!((ended.name, ended.held), (own, blocks));
    assert!(!processes.arena.holds(channel.into(), 64));
}

#[test]
fn processes_are_counted_by_their_channels() {
    let mut processes = processes();
    let (own, parent) = (std::process::id(), rustix::process::getppid());
    let parent = parent.map_or(1, |parent| parent.as_raw_nonzero().get().unsigned_abs());
    assert_eq!((processes.channels(), processes.living()), (64, 0));
    assert!(!processes.are_any());
    let [a, b] = [own, parent].map(|pid| processes.attach(peer(pid)).unwrap().channel);
    assert_eq!((processes.living(), processes.pid(a)), (2, Some(own)));
    processes.arena.set_held(a.into(), 9, true);
    assert_eq!(processes.holders(9), [own]);
    processes.arena.set_held(b.into(), 9, true);
    assert_eq!(processes.holders(9), [own, parent]);
    assert!(processes.holders(8).is_empty());
    let ended = processes.take_ended(a).unwrap();
    assert_eq!((ended.name, ended.held), (own, vec![9]));
    assert_eq!(
        (processes.living(), processes.holders(9)),
        (1, vec![parent])
    );
    // Another may have its channel once it is free.
    let control = |channel| processes.arena.control(u32::from(channel)).state();
    assert_eq!(control(a), ChannelState::Open);
    processes.free_channel(a);
    assert_eq!(control(a), ChannelState::Free);
    let all = processes.take_all();
    assert!(matches!(&all[..], [(channel, Some(_))] if *channel == b));
    assert_eq!(processes.living(), 0);
}

/// Those that cannot be seen from here are named by their channels.
#[test]
fn a_process_of_another_namespace_has_a_name_of_its_own() {
    let mut processes = processes();
    for channel in 0..2 {
        let joined = processes
            .attach(Peer {
                pid: 0,
                pidfd: None,
            })
            .unwrap();
        assert_eq!((joined.channel, joined.replaces), (channel, None));
        let name = REGISTERED | u32::from(channel);
        let control = processes.arena.control(channel.into());
        assert_eq!(control.pid.load(Ordering::Relaxed), name);
    }
    assert!(processes.has_unwatched());
    // A child of one of them is known by what it has said itself.
    reserve(&processes, 5);
    let control = processes.arena.control(5);
    control.set_state(ChannelState::Claimed);
    control.pid.store(REGISTERED | 5, Ordering::Release);
    assert_eq!(processes.claimed(), [5]);
    assert_eq!(processes.take_claimed(5), None, "it has not said so yet");
    // By the kernel it is not known when it ends, either.
    let pid = std::process::id();
    assert!(processes.register_child(5, Peer { pid, pidfd: None }));
    assert!(!processes.register_child(64, peer(std::process::id())));
    assert_eq!((processes.bad_claims(), processes.foreign_claims()), (1, 0));
    assert_eq!(processes.take_claimed(5), Some(pid));
    assert!(processes.claimed().is_empty() && processes.has_unwatched());
    // Whoever has a channel has it, whatever is written there.
    processes.arena.control(5).set_state(ChannelState::Claimed);
    assert_eq!(processes.take_claimed(5), None);
    assert_eq!(processes.pid(5), Some(pid));
    // Nor is one taken that nobody claims.
    let living = processes.living();
    assert_eq!(processes.take_claimed(9), None);
    assert_eq!(
        (processes.living(), processes.foreign_claims()),
        (living, 0)
    );
    // What is claimed for one channel is no other's.
    reserve(&processes, 6);
    let control = processes.arena.control(6);
    control.set_state(ChannelState::Claimed);
    control.pid.store(REGISTERED | 5, Ordering::Release);
    assert!(processes.register_child(6, peer(1)));
    assert_eq!(processes.take_claimed(6), None);
}

#[test]
fn a_process_of_the_sessions_user_may_be_its_own() {
    let mut processes = processes();
    let own = std::process::id();
    assert!(processes.may_be_ours(own));
    processes.uid = 0;
    assert!(
        processes.may_be_ours(own) && processes.may_be_ours(0),
        "root's may be anybody's"
    );
    processes.uid = u32::MAX - 7;
    assert!(!processes.may_be_ours(own) && !processes.may_be_ours(0));
    // As it was started, or as whom it works.
    if let Some([real, effective]) = users_of(own) {
        for uid in [real, effective] {
            processes.uid = uid;
            assert!(processes.may_be_ours(own));
        }
    }
}

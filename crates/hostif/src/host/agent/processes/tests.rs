//! Children that come, do not come, or come by another name.

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

/// As a parent does before it forks.
fn reserve(processes: &Processes, channel: u32) {
    assert!(processes.arena.control(channel).reserve());
    let all = &processes.arena.header().reservations;
    all.fetch_add(1, Ordering::AcqRel);
}

#[test]
fn a_reservation_ends_when_no_child_comes_for_long() {
    let mut processes = processes();
    reserve(&processes, 3);
    for late in [0, RESERVED_FOR - 1] {
        processes.drop_stale_reservations(1000 + late);
        assert_eq!(processes.arena.control(3).state(), ChannelState::Reserved);
    }
    processes.drop_stale_reservations(1000 + RESERVED_FOR);
    assert_eq!(processes.arena.control(3).state(), ChannelState::Free);
    assert!(processes.reservations.is_empty());
}

#[test]
fn a_reservation_ends_with_the_child_that_it_is_for() {
    let mut processes = processes();
    reserve(&processes, 3);
    let control = processes.arena.control(3);
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep");
    let number = control.reservations.load(Ordering::Acquire);
    // Of a reservation before this one.
    control.name_child(number - 1, child.id());
    child.kill().expect("a child to kill");
    processes.drop_stale_reservations(1000);
    assert_eq!(processes.arena.control(3).state(), ChannelState::Reserved);
    // Nobody has waited for it yet, and it may take a moment to die.
    processes.arena.control(3).name_child(number, child.id());
    while processes.arena.control(3).state() == ChannelState::Reserved {
        processes.drop_stale_reservations(1000);
    }
    child.wait().expect("its end");
    // One that lives.
    reserve(&processes, 3);
    let control = processes.arena.control(3);
    control.name_child(number + 1, std::process::id());
    processes.drop_stale_reservations(1000);
    assert_eq!(processes.arena.control(3).state(), ChannelState::Reserved);
}

/// A child that has ended, and whose parent has not waited for it.
fn ended_child() -> std::process::Child {
    let child = std::process::Command::new("true").spawn().expect("true");
    let fd = watch(child.id()).expect("a child that nobody has waited for");
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("its end");
    child
}

/// As a child does before the first thing that it asks for.
fn claim(processes: &Processes, channel: u32, child: u32) {
    let control = processes.arena.control(channel);
    control.pid.store(child, Ordering::Release);
    assert!(control.change_state(ChannelState::Reserved, ChannelState::Claimed));
}

/// What it has asked for is in its channel, however short its life was.
#[test]
fn a_channel_that_a_child_has_claimed_is_not_given_up_as_it_has_ended() {
    let mut processes = processes();
    let mut child = ended_child();
    reserve(&processes, 3);
    let control = processes.arena.control(3);
    let number = control.reservations.load(Ordering::Acquire);
    control.name_child(number, child.id());
    claim(&processes, 3, child.id());
    assert!(processes.drop_stale_reservations(1000).is_empty());
    // It is looked after until somebody takes it on.
    assert!(processes.may_have_reservations());
    assert_eq!(processes.claimed(), [3]);
    assert_eq!(processes.take_claimed(3), Some(child.id()));
    child.wait().expect("its end");
}

/// The claim comes while its reservation is given up.
#[test]
fn a_channel_that_is_claimed_meanwhile_is_not_given_up() {
    let mut processes = processes();
    reserve(&processes, 3);
    held(&mut processes);
    claim(&processes, 3, std::process::id());
    assert_eq!(processes.give_up(3, ChannelState::Reserved), None);
    assert_eq!(processes.arena.control(3).state(), ChannelState::Claimed);
    let given_up = processes.give_up(3, ChannelState::Claimed);
    assert_eq!(given_up, Some(vec![5]));
    assert_eq!(processes.arena.control(3).state(), ChannelState::Free);
}

/// Whose it was, nobody can say any more; nor can it keep anything.
#[test]
fn a_child_that_is_gone_is_taken_on_for_what_it_has_asked_for() {
    let own = rustix::process::geteuid().as_raw();
    let arena = Arena::create(Geometry::SMALL).expect("memory");
    let mut processes = Processes::new(Arc::new(arena), own + 1);
    let mut child = ended_child();
    let id = child.id();
    let mut take = |channel: u16| {
        reserve(&processes, channel.into());
        claim(&processes, channel.into(), id);
        processes.take_claimed(channel)
    };
    assert_eq!(take(3), None, "its user can be seen, and is another");
    child.wait().expect("its end");
    assert_eq!(take(4), Some(id));
    assert_eq!(processes.foreign_claims(), 1);
    // It is found to have ended like any other.
    assert!(processes.has_unwatched());
    assert_eq!(processes.ask_after_unwatched().ended, [4]);
}

/// The child of one reservation is not that of the next, of which its parent has said nothing yet.
#[test]
fn a_reservation_is_not_for_the_child_of_the_one_before_it() {
    let mut processes = processes();
    reserve(&processes, 3);
    let control = processes.arena.control(3);
    let number = control.reservations.load(Ordering::Acquire);
    assert!(!control.reserve(), "it is not free");
    assert_eq!(control.reservations.load(Ordering::Acquire), number);
    let mut child = ended_child();
    control.name_child(number, child.id());
    assert_eq!(control.child(), Some(child.id()));
    control.set_state(ChannelState::Free);
    reserve(&processes, 3);
    assert!(processes.drop_stale_reservations(1000).is_empty());
    assert_eq!(processes.arena.control(3).state(), ChannelState::Reserved);
    child.wait().expect("its end");
}

#[test]
fn one_after_the_other_is_not_one_for_long() {
    let mut processes = processes();
    for i in 0..5 {
        reserve(&processes, 3);
        processes.drop_stale_reservations(i * RESERVED_FOR / 2);
        let control = processes.arena.control(3);
        assert_eq!(control.state(), ChannelState::Reserved, "child {i}");
        control.set_state(ChannelState::Free);
    }
}

#[test]
fn a_channel_claimed_for_a_child_that_has_another_becomes_a_reservation() {
    let mut processes = processes();
    let own = std::process::id();
    assert!(processes.attach(peer(own)).is_some());
    reserve(&processes, 3);
    let control = processes.arena.control(3);
    control.pid.store(own, Ordering::Release);
    control.set_state(ChannelState::Claimed);
    assert_eq!(processes.take_claimed(3), None);
    assert_eq!(processes.arena.control(3).state(), ChannelState::Reserved);
}

/// The engine has found a claim alone, and nobody makes a reservation of which it could tell
/// by the count: it is looked after all the same until what is held for the child is let go of.
#[test]
fn what_a_quick_childs_parent_holds_for_it_goes_when_the_child_has_it_or_has_died() {
    for dies in [false, true] {
        let mut processes = processes();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("60").spawn().expect("sleep");
        let joined = processes
            .attach(peer(child.id()))
            .expect("a channel")
            .channel;
        reserve(&processes, 3);
        held(&mut processes);
        let control = processes.arena.control(3);
        control.pid.store(child.id(), Ordering::Release);
        control.set_state(ChannelState::Claimed);
        assert!(processes.drop_stale_reservations(0).is_empty());
        assert_eq!(processes.take_claimed(3), None);
        assert!(
            processes.may_have_reservations(),
            "it is to be looked after"
        );
        // The child may be about to take hold of what is in it.
        assert!(processes.drop_stale_reservations(1000).is_empty());
        if dies {
            child.kill().expect("a child to kill");
        } else {
            processes.arena.control(u32::from(joined)).note_inherited();
        }
        let orphans = loop {
            let orphans = processes.drop_stale_reservations(2000);
            // It may take a moment to die.
            if !orphans.is_empty() || !dies {
                break orphans;
            }
        };
        assert_eq!(orphans, [5]);
        assert_eq!(processes.arena.control(3).state(), ChannelState::Free);
        assert!(!processes.may_have_reservations());
        // Another program in the place of this one has to settle again.
        processes.attach(peer(child.id()));
        assert!(!processes.arena.control(u32::from(joined)).has_inherited());
        let _ = child.kill();
        child.wait().expect("its end");
    }
}

#[test]
fn a_child_that_joins_gets_the_channel_that_was_claimed_for_it() {
    let mut processes = processes();
    let own = std::process::id();
    reserve(&processes, 3);
    let control = processes.arena.control(3);
    control.pid.store(own, Ordering::Release);
    control.set_state(ChannelState::Claimed);
    processes.arena.set_held(3, 5, true);
    assert_eq!(processes.take_claimed(3), Some(own));
    assert_eq!(processes.attach(peer(own)).map(|a| a.channel), Some(3));
    assert!(processes.arena.holds(3, 5));
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

/// A channel that is claimed for somebody else's process would keep the processes for as long
/// as that lives.
#[test]
fn a_channel_is_not_claimed_for_a_process_of_others() {
    let mut processes = processes();
    processes.uid += 1;
    reserve(&processes, 3);
    let control = processes.arena.control(3);
    control.pid.store(1, Ordering::Release);
    control.set_state(ChannelState::Claimed);
    assert_eq!(processes.take_claimed(3), None);
    assert_eq!(processes.foreign_claims(), 1);
    assert_eq!(processes.arena.control(3).state(), ChannelState::Reserved);
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
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let [lives, ends] = [std::process::id(), child.id()].map(|pid| {
        let pidfd = None;
        processes.attach(Peer { pid, pidfd }).unwrap().channel
    });
    assert!(processes.has_unwatched());
    let fd = watch(child.id()).unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, None).unwrap();
    let found = processes.ask_after_unwatched();
    let (ended, watched) = (vec![ends], vec![lives]);
    assert_eq!(found, Unwatched { ended, watched });
    assert!(processes.pidfd(lives).is_some() && processes.pidfd(ends).is_none());
    // From now on there is nobody to be asked after.
    assert!(!processes.has_unwatched());
    assert_eq!(processes.ask_after_unwatched(), Unwatched::default());
    child.wait().unwrap();
}

/// Whoever claims a channel and is never heard of keeps it, and the processes, no longer than
/// a reservation.
#[test]
fn a_claim_that_nobody_makes_good_is_given_up() {
    let mut processes = processes();
    for (channel, name) in [(3, REGISTERED | 3), (4, 1)] {
        reserve(&processes, channel);
        let control = processes.arena.control(channel);
        control.pid.store(name, Ordering::Release);
        control.set_state(ChannelState::Claimed);
    }
    processes.drop_stale_reservations(0);
    assert!(processes.are_any() && processes.may_have_reservations());
    processes.drop_stale_reservations(RESERVED_FOR - 1);
    assert!(processes.are_any());
    processes.drop_stale_reservations(RESERVED_FOR);
    assert!(!processes.are_any());
}

/// All channels reserved, with all sockets in each: a part is given up at a time.
#[test]
fn many_reservations_are_given_up_a_few_at_a_time() {
    let mut processes = processes();
    for channel in 0..64 {
        reserve(&processes, channel);
        processes.arena.set_held(channel, 5, true);
    }
    processes.drop_stale_reservations(0);
    let mut looks = 0;
    while processes.is_forking() {
        let held = processes.drop_stale_reservations(RESERVED_FOR);
        assert_eq!(held, [5]);
        looks += 1;
    }
    assert_eq!(looks, 64 / DROPPED_AT_ONCE);
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
fn a_reservation_that_was_a_claim_is_looked_at_as_a_new_one() {
    let mut processes = processes();
    let own = std::process::id();
    assert!(processes.attach(peer(own)).is_some());
    assert!(!processes.has_new_reservation());
    reserve(&processes, 3);
    let control = processes.arena.control(3);
    control.pid.store(own, Ordering::Release);
    control.set_state(ChannelState::Claimed);
    assert_eq!(processes.take_claimed(3), None);
    assert!(processes.has_new_reservation());
    processes.drop_stale_reservations(0);
    assert!(!processes.has_new_reservation());
}

/// Held by two reservations, and in any order.
#[test]
fn what_reservations_held_is_let_go_of_once() {
    let mut processes = processes();
    for (channel, held) in [(3, [9, 1]), (4, [5, 9])] {
        reserve(&processes, channel);
        for index in held {
            processes.arena.set_held(channel, index, true);
        }
    }
    assert!(processes.drop_stale_reservations(0).is_empty());
    assert!(processes.is_forking());
    assert_eq!(processes.drop_stale_reservations(RESERVED_FOR), [1, 5, 9]);
    assert!(!processes.is_forking());
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

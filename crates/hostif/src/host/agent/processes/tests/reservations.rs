//! Channels that a parent keeps for its child, and those that a child claims.

use super::*;

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

/// One that the engine cannot see has said what it is named here.
#[test]
fn a_reservation_ends_with_a_child_that_has_no_pid() {
    for dies in [false, true] {
        let mut processes = processes();
        // Neither is it another that cannot be seen.
        for _ in 0..2 {
            let other = processes.attach(peer(0)).expect("a channel").channel;
            processes.arena.control(u32::from(other)).note_inherited();
        }
        let own = processes.attach(peer(0)).expect("a channel").channel;
        reserve(&processes, 3);
        held(&mut processes);
        let control = processes.arena.control(3);
        let number = control.reservations.load(Ordering::Acquire);
        control.name_child(number, REGISTERED | u32::from(own));
        assert!(processes.drop_stale_reservations(0).is_empty());
        assert!(processes.drop_stale_reservations(1000).is_empty());
        if dies {
            assert!(processes.take_ended(own).is_some());
        } else {
            processes.arena.control(u32::from(own)).note_inherited();
        }
        assert_eq!(processes.drop_stale_reservations(2000), [5]);
        assert_eq!(processes.arena.control(3).state(), ChannelState::Free);
    }
}

/// It was introduced by a descriptor, by which the engine knows its pid as well.
#[test]
fn a_reservation_ends_with_a_child_that_has_a_pid_and_another_name() {
    let mut processes = processes();
    let own = std::process::id();
    reserve(&processes, 4);
    claim(&processes, 4, REGISTERED | 4);
    assert!(processes.register_child(4, peer(own)));
    assert_eq!(processes.take_claimed(4), Some(own));
    reserve(&processes, 3);
    held(&mut processes);
    let control = processes.arena.control(3);
    let number = control.reservations.load(Ordering::Acquire);
    control.name_child(number, own);
    assert!(processes.drop_stale_reservations(0).is_empty());
    processes.arena.control(4).note_inherited();
    assert_eq!(processes.drop_stale_reservations(1000), [5]);
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

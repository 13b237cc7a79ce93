//! What is in a set, and what it reports.

use super::interests::EXCLUSIVE;
use super::*;
use crate::readiness::Ready;
use crate::testing::Engine;
use crate::testing::fixture::engine;
use crate::{Host, Socket, Stream};
use longshore_hostif::{EdgeFlags, SocketKind};
use std::sync::atomic::Ordering;

const IN: u32 = Ready::IN.bits();
const OUT: u32 = Ready::OUT.bits();

/// What a set reports at once, at most `room` of it, by the words of the interests.
fn some(set: &ReadySet, room: usize) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    let found = set.harvest(room, |report| all.push((report.data, report.events)));
    assert_eq!(found, Ok(all.len()));
    all
}

/// All that a set reports, which is ready if that is anything.
fn reported(set: &ReadySet) -> Vec<(u64, u32)> {
    let is_ready = set.is_ready();
    let all = some(set, usize::MAX);
    assert_eq!(is_ready, !all.is_empty());
    all
}

fn refused<T>(errno: Errno) -> Result<T, SocketError> {
    Err(SocketError::Refused(errno))
}

/// Sockets that are writable, and so ready.
fn streams(host: &'static Host) -> [Stream; 4] {
    let ((a, b), (c, d)) = (Engine::pair(host), Engine::pair(host));
    [a, b, c, d]
}

#[test]
fn an_interest_is_one_descriptors_in_one_socket() {
    let (_engine, host, _directory) = engine();
    let [a, b, ..] = streams(host);
    let (a, b) = (a.socket(), b.socket());
    let set = ReadySet::new(host).unwrap();
    assert!(set.is_empty());
    assert_eq!(set.add(a, 5, OUT, 1), Ok(()));
    assert!(!set.is_empty());
    assert_eq!(set.add(a, 5, IN, 2), refused(Errno::EXIST));
    assert_eq!(set.add(a, 6, OUT, 3), Ok(()));
    assert_eq!(set.add(b, 5, IN, 4), Ok(()));
    assert_eq!(set.modify(b, 6, OUT, 5), refused(Errno::NOENT));
    assert_eq!(set.remove(b, 6), refused(Errno::NOENT));
    assert_eq!(reported(&set), [(1, OUT), (3, OUT)]);
    assert_eq!(set.remove(a, 5), Ok(()));
    assert_eq!(set.remove(a, 5), refused(Errno::NOENT));
    assert_eq!(reported(&set), [(3, OUT)]);
    assert_eq!(set.modify(b, 5, OUT, 6), Ok(()));
    assert_eq!(set.modify(a, 6, IN, 7), Ok(()));
    assert_eq!(reported(&set), [(6, OUT)]);
    assert_eq!(set.add(a, 5, OUT, 8), Ok(()));
    assert_eq!(reported(&set), [(6, OUT), (8, OUT)]);
}

/// Interests come and go in any order, in two sets, and each set has what a model has.
#[test]
fn sets_have_what_was_entered_and_not_taken_out() {
    let (_engine, host, _directory) = engine();
    let streams = streams(host);
    let sets = [ReadySet::new(host).unwrap(), ReadySet::new(host).unwrap()];
    let mut model = std::collections::BTreeMap::new();
    let mut random = 7_u32;
    for step in 0..2_000_u64 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (of_set, of_stream) = ((random >> 8 & 1) as usize, (random >> 12 & 3) as usize);
        let fd = (random >> 16 & 3).cast_signed();
        let (set, socket) = (&sets[of_set], streams[of_stream].socket());
        let place = (of_set, of_stream, fd);
        if random >> 30 == 0 {
            assert_eq!(
                set.remove(socket, fd).is_ok(),
                model.remove(&place).is_some()
            );
        } else if let Some(data) = model.get_mut(&place) {
            assert_eq!(set.add(socket, fd, OUT, step), refused(Errno::EXIST));
            assert_eq!(set.modify(socket, fd, OUT, step), Ok(()));
            *data = step;
        } else {
            assert_eq!(set.modify(socket, fd, OUT, step), refused(Errno::NOENT));
            assert_eq!(set.add(socket, fd, OUT, step), Ok(()));
            model.insert(place, step);
        }
        for (number, set) in sets.iter().enumerate() {
            let mut all: Vec<u64> = reported(set).iter().map(|(data, _)| *data).collect();
            all.sort_unstable();
            let of_this = model.iter().filter(|((of, ..), _)| *of == number);
            let mut expected: Vec<u64> = of_this.map(|(_, data)| *data).collect();
            expected.sort_unstable();
            assert_eq!(all, expected, "step {step}");
            assert_eq!(set.is_empty(), expected.is_empty());
        }
    }
    sets[0].close();
    let of_other = model.keys().filter(|(of, ..)| *of == 1).count();
    assert_eq!(reported(&sets[1]).len(), of_other, "of both sets");
    let left = host.ready_sets.enter().unwrap();
    assert_eq!(left.interests.iter().flatten().count(), of_other);
}

/// EPOLLEXCLUSIVE, as Linux has it.
#[test]
fn an_exclusive_interest_is_not_changed() {
    let (_engine, host, _directory) = engine();
    let [a, b, ..] = streams(host);
    let set = ReadySet::new(host).unwrap();
    set.add(a.socket(), 1, OUT | EXCLUSIVE, 1).unwrap();
    set.add(b.socket(), 2, OUT, 2).unwrap();
    assert_eq!(set.modify(a.socket(), 1, IN, 3), refused(Errno::INVAL));
    for (stream, fd) in [(&a, 1), (&b, 2)] {
        let exclusive = set.modify(stream.socket(), fd, OUT | EXCLUSIVE, 4);
        assert_eq!(exclusive, refused(Errno::INVAL));
    }
    assert_eq!(reported(&set), [(1, OUT), (2, OUT)]);
}

#[test]
fn what_there_is_no_room_for_is_reported_next() {
    let (_engine, host, _directory) = engine();
    let all = streams(host);
    let set = ReadySet::new(host).unwrap();
    for (i, stream) in all.iter().enumerate() {
        set.add(stream.socket(), i as RawFd, OUT, i as u64).unwrap();
    }
    let words = |room| -> Vec<u64> {
        let reports = some(&set, room);
        reports.iter().map(|(data, _)| *data).collect()
    };
    assert_eq!(words(0), []);
    assert_eq!(words(3), [0, 1, 2]);
    assert_eq!(words(3), [3, 0, 1]);
    assert_eq!(words(9), [2, 3, 0, 1]);
}

#[test]
fn a_report_names_the_descriptor_and_the_events_asked_for() {
    let (engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let set = ReadySet::new(host).unwrap();
    set.add(b.socket(), 77, IN | OUT, 5).unwrap();
    a.write_all(b"x").unwrap();
    engine.wait_until("it has come", |_| {
        host.messages().drain_if_free();
        b.socket().receive_stream().readable_bytes() == 1
    });
    let mut reports = Vec::new();
    set.harvest(9, |report| reports.push(report)).unwrap();
    let expected = Report {
        events: IN | OUT,
        data: 5,
        fd: 77,
        is_last: false,
    };
    assert_eq!(reports, [expected]);
    // An error and the end of both halves are reported whatever was asked for.
    set.modify(b.socket(), 77, 0, 6).unwrap();
    assert_eq!(reported(&set), []);
    b.socket().pending_error().set(104);
    for asked_for in [0, (Ready::ERR | Ready::HUP).bits()] {
        set.modify(b.socket(), 77, asked_for | EDGE, 6).unwrap();
        assert_eq!(reported(&set), [(6, Ready::ERR.bits())]);
    }
}

#[test]
fn what_is_reported_once_is_reported_again_when_it_is_set_again() {
    let (_engine, host, _directory) = engine();
    let [a, ..] = streams(host);
    let set = ReadySet::new(host).unwrap();
    set.add(a.socket(), 1, OUT | ONE_SHOT, 1).unwrap();
    assert_eq!(reported(&set), [(1, OUT)]);
    // It happens again, and nobody wants to know.
    a.socket().wake_local();
    assert_eq!(reported(&set), []);
    set.modify(a.socket(), 1, OUT | ONE_SHOT, 2).unwrap();
    assert_eq!(reported(&set), [(2, OUT)]);
    assert_eq!(reported(&set), []);
}

/// One that was reported elsewhere is reported here when it is set again; and what was to be reported
/// of it here can be asked for once, by its word.
#[test]
fn what_is_reported_once_elsewhere_is_reported_no_more() {
    let (_engine, host, _directory) = engine();
    let [a, b, c, d] = streams(host);
    let set = ReadySet::new(host).unwrap();
    set.add_disarmed(a.socket(), 1, OUT | ONE_SHOT, 1).unwrap();
    a.socket().wake_local();
    assert!(!set.is_ready() && reported(&set).is_empty());
    assert_eq!(set.report_also(1), Ok(0));
    set.modify(a.socket(), 1, OUT | ONE_SHOT, 2).unwrap();
    set.add(b.socket(), 2, IN | ONE_SHOT, 3).unwrap();
    set.add(c.socket(), 3, OUT, 4).unwrap();
    // One of the same word in another set has nothing to do with it.
    let other = ReadySet::new(host).unwrap();
    b.socket().pending_error().set(104);
    other.add(b.socket(), 2, IN | ONE_SHOT, 2).unwrap();
    assert_eq!(set.report_also(2), Ok(OUT));
    assert_eq!(reported(&other), [(2, Ready::ERR.bits())]);
    b.socket().pending_error().take();
    assert_eq!(set.report_also(3), Ok(0));
    assert_eq!(set.report_also(4), Ok(0), "it is reported again and again");
    // Of two sockets of one word, what either is ready for.
    for (stream, fd) in [(&a, 5), (&d, 6)] {
        set.add(stream.socket(), fd, OUT | ONE_SHOT, 6).unwrap();
    }
    assert_eq!(set.report_also(6), Ok(OUT));
    b.socket().pending_error().set(104);
    b.socket().wake_local();
    assert_eq!(reported(&set), [(4, OUT)]);
    set.add(d.socket(), 4, OUT | ONE_SHOT, 5).unwrap();
    let mut last = Vec::new();
    set.harvest(9, |r| last.push((r.data, r.is_last))).unwrap();
    assert_eq!(last, [(4, false), (5, true)]);
}

#[test]
fn an_edge_is_reported_when_something_happens() {
    let (_engine, host, _directory) = engine();
    let [a, b, ..] = streams(host);
    let set = ReadySet::new(host).unwrap();
    set.add(a.socket(), 1, OUT | EDGE, 1).unwrap();
    set.add(b.socket(), 2, OUT, 2).unwrap();
    assert_eq!(reported(&set), [(1, OUT), (2, OUT)]);
    assert_eq!(reported(&set), [(2, OUT)]);
    a.socket().wake_local();
    a.socket().wake_local();
    assert_eq!(reported(&set), [(2, OUT), (1, OUT)], "once for both");
    assert_eq!(reported(&set), [(2, OUT)]);
}

/// What leaves a set while it is on its ready list is not reported, nor is what takes its place.
#[test]
fn what_has_left_a_set_is_not_reported() {
    let (_engine, host, _directory) = engine();
    let [a, b, c, d] = streams(host);
    let (set, other) = (ReadySet::new(host).unwrap(), ReadySet::new(host).unwrap());
    for (fd, stream) in [(1, &a), (2, &b), (3, &c)] {
        set.add(stream.socket(), fd, OUT, fd as u64).unwrap();
    }
    set.remove(b.socket(), 2).unwrap();
    other.add(d.socket(), 4, OUT, 4).unwrap();
    assert_eq!(reported(&set), [(1, OUT), (3, OUT)]);
    assert_eq!(reported(&other), [(4, OUT)]);
    set.add(b.socket(), 2, OUT, 5).unwrap();
    assert_eq!(reported(&set), [(1, OUT), (3, OUT), (5, OUT)]);
    // A socket that is closed leaves all its sets.
    other.add(a.socket(), 1, OUT, 6).unwrap();
    drop(a);
    assert_eq!(reported(&set), [(3, OUT), (5, OUT)]);
    assert_eq!(reported(&other), [(4, OUT)]);
}

#[test]
fn a_set_that_is_closed_is_gone_and_its_number_is_given_again() {
    let (_engine, host, _directory) = engine();
    let [a, b, ..] = streams(host);
    let (first, second) = (ReadySet::new(host).unwrap(), ReadySet::new(host).unwrap());
    assert_ne!(first.number(), second.number());
    first.add(a.socket(), 1, OUT, 1).unwrap();
    first.add(b.socket(), 2, OUT, 2).unwrap();
    second.add(a.socket(), 1, OUT, 3).unwrap();
    let waiter = first.wake_fd().unwrap();
    assert!(waiter.is_some_and(|(_, is_new)| is_new));
    first.close();
    let gone = refused(Errno::BADF);
    assert_eq!(first.add(a.socket(), 1, OUT, 1), gone);
    assert_eq!(first.remove(a.socket(), 1), gone);
    assert_eq!(first.harvest(9, |_| ()), refused(Errno::BADF));
    assert_eq!((first.ring(), first.silence()), (gone, gone));
    assert_eq!(first.declare(), gone);
    assert_eq!(first.wake_fd(), refused(Errno::BADF));
    assert_eq!(first.wake_fd_if_made(), None);
    assert!(!first.is_ready());
    assert_eq!(reported(&second), [(3, OUT)]);
    let third = ReadySet::new(host).unwrap();
    assert_eq!(third.number(), first.number());
    assert!(third.is_empty());
    third.add(b.socket(), 9, OUT, 4).unwrap();
    assert_eq!(reported(&third), [(4, OUT)]);
    assert_eq!(reported(&ReadySet::of(host, third.number())), [(4, OUT)]);
    assert_eq!(a.socket().block().waiters().count(), 0);
}

#[test]
fn a_socket_in_anothers_place_has_its_interests() {
    let (_engine, host, _directory) = engine();
    let [a, b, c, ..] = streams(host);
    let (set, other) = (ReadySet::new(host).unwrap(), ReadySet::new(host).unwrap());
    let (_, is_new) = set.wake_fd().unwrap().unwrap();
    assert!(is_new);
    set.add(a.socket(), 1, OUT, 1).unwrap();
    set.add(c.socket(), 3, IN, 3).unwrap();
    other.add(a.socket(), 1, OUT | ONE_SHOT, 2).unwrap();
    assert_eq!(reported(&other), [(2, OUT)]);
    b.socket().take_places_of(a.socket()).unwrap();
    assert_eq!(a.socket().block().waiters().count(), 0);
    assert_eq!(b.socket().block().waiters().count(), 1);
    drop(a);
    assert_eq!(reported(&set), [(1, OUT)]);
    assert_eq!(reported(&other), [], "it was reported");
    assert_eq!(set.modify(b.socket(), 1, OUT, 4), Ok(()));
    assert_eq!(reported(&set), [(4, OUT)]);
    drop(b);
    assert_eq!(reported(&set), []);
    assert!(other.is_empty() && !set.is_empty());
}

fn is_readable(fd: RawFd) -> bool {
    // SAFETY: the set keeps it open.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let mut fds = [rustix::event::PollFd::new(
        &fd,
        rustix::event::PollFlags::IN,
    )];
    let at_once = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut fds, Some(&at_once)) == Ok(1)
}

#[test]
fn the_eventfd_of_a_set_is_made_once_and_rung_and_silenced() {
    let (_engine, host, _directory) = engine();
    let [a, b, ..] = streams(host);
    let set = ReadySet::new(host).unwrap();
    assert_eq!((set.ring(), set.silence()), (Ok(()), Ok(())));
    assert_eq!(set.wake_fd_if_made(), None);
    set.add(a.socket(), 1, OUT, 1).unwrap();
    assert_eq!(a.socket().block().waiters().count(), 0);
    let (fd, is_new) = set.wake_fd().unwrap().unwrap();
    assert!(is_new);
    assert_eq!(set.wake_fd(), Ok(Some((fd, false))));
    assert_eq!(set.wake_fd_if_made(), Some(fd));
    // The engine finds the thread that sleeps for it, for what is there and what comes.
    set.add(b.socket(), 2, OUT, 2).unwrap();
    for stream in [&a, &b] {
        assert_eq!(stream.socket().block().waiters().count(), 1);
    }
    set.silence().unwrap();
    assert!(!is_readable(fd));
    set.ring().unwrap();
    assert!(is_readable(fd));
    set.silence().unwrap();
    assert!(!is_readable(fd));
    // By however many descriptors it is in the set, it has the waiter until it is there no more.
    set.add(b.socket(), 3, OUT, 3).unwrap();
    set.add(b.socket(), 4, OUT, 4).unwrap();
    for (fd, waiters) in [(2, 1), (3, 1), (4, 0)] {
        set.remove(b.socket(), fd).unwrap();
        assert_eq!(b.socket().block().waiters().count(), waiters, "{fd}");
    }
}

/// A waiter for which the engine gives no descriptor is given back: there is one for the next try.
#[test]
fn a_set_that_gets_no_descriptor_keeps_no_waiter() {
    let (mut engine, host, _directory) = engine();
    let set = ReadySet::new(host).unwrap();
    let waiter = host.threads().claim_waiter().unwrap();
    host.threads().free_waiter(waiter);
    engine.stop();
    assert_eq!(set.wake_fd(), Ok(None));
    assert_eq!(host.threads().claim_waiter(), Some(waiter));
}

/// A thread that is to be woken by its name may be one that sleeps for a set: all of these look.
#[test]
fn sets_are_rung_for_a_thread_that_is_woken_by_name() {
    let (_engine, host, _directory) = engine();
    let set = ReadySet::new(host).unwrap();
    let (fd, _) = set.wake_fd().unwrap().unwrap();
    set.silence().unwrap();
    set.declare().unwrap();
    assert!(!is_readable(fd));
    host.threads().wake_thread(0x7012);
    assert!(is_readable(fd));
}

/// A thread that sleeps is woken by what this process does, and one that is awake is not.
#[test]
fn a_set_is_rung_for_those_that_sleep() {
    let (_engine, host, _directory) = engine();
    let [a, ..] = streams(host);
    let set = ReadySet::new(host).unwrap();
    let (fd, _) = set.wake_fd().unwrap().unwrap();
    set.silence().unwrap();
    set.add(a.socket(), 1, IN, 1).unwrap();
    a.socket().wake_local();
    assert!(!is_readable(fd), "nobody sleeps");
    set.declare().unwrap();
    a.socket().wake_local();
    assert!(is_readable(fd));
    set.silence().unwrap();
    // Woken once, it is not woken again until it says that it sleeps.
    a.socket().wake_local();
    assert!(!is_readable(fd));
    set.awake();
    // Of two that sleep one is woken, and when it wakes the other is for what is left.
    set.declare().unwrap();
    set.declare().unwrap();
    set.add(a.socket(), 2, OUT, 2).unwrap();
    assert!(is_readable(fd));
    set.silence().unwrap();
    set.awake();
    assert!(is_readable(fd), "the other");
    set.silence().unwrap();
    set.awake();
    a.socket().wake_local();
    assert!(!is_readable(fd), "nobody sleeps any more");
}

/// What was to wake those that sleep and was taken by another thread is told to them again, where
/// there is something left and where something comes.
#[test]
fn what_a_thread_takes_from_those_that_sleep_is_handed_on() {
    let (_engine, host, _directory) = engine();
    // Of which the engine has nothing to tell.
    let a = Engine::open(host, SocketKind::Datagram);
    let set = ReadySet::new(host).unwrap();
    let (fd, _) = set.wake_fd().unwrap().unwrap();
    set.silence().unwrap();
    set.add(&a, 1, IN, 1).unwrap();
    set.hand_on();
    a.wake_local();
    assert!(!is_readable(fd), "nobody sleeps");
    set.declare().unwrap();
    a.wake_local();
    assert!(is_readable(fd));
    // Taken, with nothing left for the one that sleeps on.
    set.silence().unwrap();
    set.hand_on();
    assert!(!is_readable(fd));
    a.wake_local();
    assert!(is_readable(fd), "for what comes");
    set.add(&a, 2, OUT, 2).unwrap();
    set.silence().unwrap();
    set.hand_on();
    assert!(is_readable(fd), "for what is left");
    set.silence().unwrap();
    set.awake();
    set.hand_on();
    a.wake_local();
    assert!(!is_readable(fd), "nobody sleeps any more");
}

/// A thread that is awake without having been rung is rung no more, and with nothing to report it
/// does not wake those that sleep on.
#[test]
fn a_set_is_not_rung_for_those_that_are_awake() {
    let (_engine, host, _directory) = engine();
    // Of which the engine has nothing to tell.
    let a = Engine::open(host, SocketKind::Datagram);
    let set = ReadySet::new(host).unwrap();
    let (fd, _) = set.wake_fd().unwrap().unwrap();
    set.silence().unwrap();
    set.declare().unwrap();
    set.declare().unwrap();
    // What is not ready for what was asked wakes nobody.
    set.add(&a, 1, IN, 1).unwrap();
    assert!(!is_readable(fd));
    set.awake();
    assert!(!is_readable(fd), "there is nothing for the other");
    a.wake_local();
    assert!(is_readable(fd), "which sleeps on");
    set.silence().unwrap();
    set.awake();
    set.declare().unwrap();
    set.awake();
    a.wake_local();
    assert!(!is_readable(fd), "nobody sleeps any more");
}

/// What a thread has said before it sleeps is no longer held back: it may be what another answers to.
#[test]
fn whoever_is_about_to_sleep_has_said_all() {
    let (_engine, host, _directory) = engine();
    let [a, ..] = streams(host);
    let set = ReadySet::new(host).unwrap();
    let request = host.edges(a.socket().block(), a.socket().id(), EdgeFlags::MORE);
    host.messages().report_written(&request, 0).unwrap();
    assert!(host.channel.holds());
    set.declare().unwrap();
    assert!(!host.channel.holds());
}

/// Of one set, as they were set last, and those alone that are to be reported.
#[test]
fn a_socket_is_asked_where_it_stands() {
    let (_engine, host, _directory) = engine();
    let [a, b, ..] = streams(host);
    let [set, other] = [(); 2].map(|()| ReadySet::new(host).unwrap());
    assert_eq!(set.places_of(a.socket()), []);
    set.add(a.socket(), 1, OUT, 10).unwrap();
    set.add(a.socket(), 2, IN | ONE_SHOT, 20).unwrap();
    set.add_disarmed(a.socket(), 3, OUT, 30).unwrap();
    set.add(b.socket(), 1, OUT, 40).unwrap();
    other.add(a.socket(), 1, OUT, 50).unwrap();
    set.modify(a.socket(), 1, IN, 11).unwrap();
    let place = |fd, events, data| Place { fd, events, data };
    let mut places = set.places_of(a.socket());
    places.sort_by_key(|place| place.fd);
    let expected = [place(1, IN, 11), place(2, IN | ONE_SHOT, 20)];
    assert_eq!(places, expected);
    assert_eq!(other.places_of(a.socket()), [place(1, OUT, 50)]);
    assert_eq!(other.places_of(b.socket()), []);
    // One that came to the place of a socket that is gone stands nowhere.
    let index = a.socket().id().index;
    let generation = a.socket().id().generation + 1;
    let next = std::mem::ManuallyDrop::new(Socket::from_use(host, SocketId { index, generation }));
    assert_eq!(set.places_of(&next), []);
}

/// With the engine gone everything is ready, also what stood in a place that is another's now.
#[test]
fn without_an_engine_all_connections_are_ready() {
    let (mut engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let datagram = Engine::open(host, SocketKind::Datagram);
    let set = ReadySet::new(host).unwrap();
    set.add(a.socket(), 1, IN, 1).unwrap();
    set.add(b.socket(), 2, IN | ONE_SHOT, 2).unwrap();
    set.add(&datagram, 3, IN, 3).unwrap();
    assert_eq!(reported(&set), []);
    b.socket().block().generation.fetch_add(1, Ordering::AcqRel);
    engine.stop();
    host.look_at_engine();
    let over = IN | (Ready::ERR | Ready::HUP).bits();
    assert_eq!(reported(&set), [(1, over), (2, over)]);
    assert_eq!(reported(&set), [(1, over)]);
    std::mem::forget(b);
}

#[test]
fn the_signals_of_all_sockets_of_a_set_are_counted_together() {
    let (_engine, host, _directory) = engine();
    let [a, b, c, _d] = streams(host);
    let set = ReadySet::new(host).unwrap();
    set.add(a.socket(), 1, IN, 1).unwrap();
    set.add(b.socket(), 2, IN, 2).unwrap();
    let before = set.raised(OwnersSignal::Urgent);
    let raise = |stream: &Stream| {
        let raised = stream
            .socket()
            .block()
            .raise(OwnersSignal::Urgent, || Ok::<_, ()>(()));
        raised.unwrap();
    };
    raise(&c);
    assert!(!set.raised(OwnersSignal::Urgent).is_after(&before));
    raise(&b);
    assert!(set.raised(OwnersSignal::Urgent).is_after(&before));
}

/// What a call of this process does to a socket is seen by its threads that sleep for it.
#[test]
fn whatever_changes_a_socket_wakes_those_that_sleep_for_it() {
    use crate::Half;
    use crate::block_words::more_bits;
    type Change = fn(&Socket);
    let changes: [(&str, Change); 12] = [
        ("shut", |s| s.halves().shut_down(Half::Read).unwrap()),
        ("shut without a connection", |s| {
            s.block().set_state(longshore_hostif::SocketState::Open);
            assert!(s.halves().shut_down(Half::Both).is_err());
        }),
        ("no longer shut", |s| s.halves().forget()),
        ("abandoned", Socket::abandon),
        ("urgent data in its place", |s| {
            s.urgent_data().set_inline(true)
        }),
        ("a notice", |s| {
            s.set_more_bits(more_bits::ZERO_COPY);
            s.add_notice(true);
        }),
        ("a low-water mark", |s| {
            s.options().set_low_water(5).unwrap()
        }),
        ("a mark of what is not sent", |s| {
            s.options().set_not_sent_lowat(5)
        }),
        ("no listener", |s| {
            s.block()
                .set_state(longshore_hostif::SocketState::Listening);
            s.accept_queue().stop(Half::Read).unwrap();
        }),
        ("no attempt to connect", |s| {
            s.block()
                .set_state(longshore_hostif::SocketState::Connecting);
            assert_eq!(s.connector().give_up(Errno::CANCELED), Ok(true));
        }),
        ("replaced", |s| {
            let open = Engine::open(s.host(), SocketKind::Stream);
            open.take_places_of(s).unwrap();
            std::mem::forget(open);
        }),
        ("in another set", |s| {
            // Nobody sleeps for that one.
            let other = ReadySet::new(s.host()).unwrap();
            other.add(s, 9, OUT, 9).unwrap();
            other.modify(s, 9, OUT | EDGE, 9).unwrap();
            s.wake_local();
        }),
    ];
    let (_engine, host, _directory) = engine();
    for (what, change) in changes {
        let (a, b) = Engine::pair(host);
        let set = ReadySet::new(host).unwrap();
        let (fd, _) = set.wake_fd().unwrap().unwrap();
        set.add(a.socket(), 1, Ready::PRI.bits(), 1).unwrap();
        set.silence().unwrap();
        set.declare().unwrap();
        change(a.socket());
        assert!(is_readable(fd), "{what}");
        std::mem::forget((a, b));
    }
}

/// What is entered and taken out again, and sets that are made and closed, leave nothing behind.
#[test]
fn places_and_waiters_are_used_again() {
    let (_engine, host, _directory) = engine();
    let [a, b, ..] = streams(host);
    let interests = || host.ready_sets.enter().unwrap().interests.len();
    let waiters = || {
        let all = host.arena.waiters().iter();
        all.filter(|w| w.owner.load(Ordering::Acquire) != 0).count()
    };
    let set = ReadySet::new(host).unwrap();
    let before = waiters();
    for events in [OUT, IN] {
        for _ in 0..50 {
            set.add(a.socket(), 1, events, 1).unwrap();
            set.remove(a.socket(), 1).unwrap();
            assert_eq!(reported(&set), []);
            let other = ReadySet::new(host).unwrap();
            other.add(a.socket(), 1, events, 1).unwrap();
            other.add(b.socket(), 2, events, 2).unwrap();
            other.wake_fd().unwrap().unwrap();
            assert_eq!(waiters(), before + 1);
            other.close();
            assert_eq!(waiters(), before);
        }
    }
    assert!(interests() <= 3, "{}", interests());
}

/// Nobody else wakes them: an engine that is killed says nothing.
#[test]
fn those_that_sleep_are_woken_when_the_engine_is_found_dead() {
    let (mut engine, host, _directory) = engine();
    let [a, ..] = streams(host);
    let set = ReadySet::new(host).unwrap();
    let (fd, _) = set.wake_fd().unwrap().unwrap();
    set.add(a.socket(), 1, IN, 1).unwrap();
    engine.kill();
    set.silence().unwrap();
    set.declare().unwrap();
    assert!(!is_readable(fd));
    host.look_at_engine();
    assert!(is_readable(fd));
    let over = IN | (Ready::ERR | Ready::HUP).bits();
    assert_eq!(reported(&set), [(1, over)]);
}

/// One that has ended in order has woken everybody, and wakes nobody who sleeps later.
#[test]
fn whoever_is_about_to_sleep_finds_that_the_engine_has_ended() {
    let (mut engine, host, _directory) = engine();
    let [a, ..] = streams(host);
    let set = ReadySet::new(host).unwrap();
    set.add(a.socket(), 1, IN | EDGE, 1).unwrap();
    engine.stop();
    // What it said before.
    host.messages().drain().unwrap();
    set.harvest(9, |_| ()).unwrap();
    assert!(!set.is_ready());
    set.declare().unwrap();
    assert!(set.is_ready());
    set.awake();
}

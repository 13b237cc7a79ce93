//! What threads sleep on, and what ends their waits.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::{Ignored, SMALL, engine, in_a_thread};
use crate::wait_limit::deadline_after;
use crate::{Hooks, Socket};
use longshore_hostif::SocketKind;
use std::os::fd::AsFd;

/// Waiters of the session that somebody has.
fn claimed(host: &Host) -> usize {
    let waiters = host.arena.waiters().iter();
    let is_claimed = |w: &&longshore_ring::Waiter| w.owner.load(Ordering::Acquire) != 0;
    waiters.filter(is_claimed).count()
}

#[test]
fn a_thread_has_one_waiter_of_its_own_until_it_ends() {
    let (_engine, host, _directory) = engine();
    let before = claimed(host);
    // Not one that the threads of other tests have.
    host.next_waiter.store(220, Ordering::Relaxed);
    let index = in_a_thread(|| {
        let index = host.threads().my_waiter().unwrap();
        assert_eq!(host.threads().my_waiter(), Some(index));
        assert_eq!(claimed(host), before + 1);
        let other = in_a_thread(|| {
            assert_eq!(claimed(host), before + 1);
            let other = host.threads().my_waiter().unwrap();
            assert_eq!(claimed(host), before + 2);
            other
        });
        assert_ne!(index, other);
        assert_eq!(claimed(host), before + 1);
        index
    });
    assert_eq!(claimed(host), before);
    // The thread that has it next is not taken for the thread that is gone.
    let waiter = host.session.waiters().at(index);
    waiter.declare(Sleep::Futex);
    host.threads().wake_waiter(index);
    assert!(waiter.is_declared());
    waiter.cancel();
}

/// In another process's place in the session a thread has another waiter.
#[test]
fn a_thread_sleeps_for_one_host_at_a_time() {
    let (engine, first, _directory) = engine();
    let second = engine.join();
    let before = claimed(first);
    in_a_thread(|| {
        first.threads().my_waiter().unwrap();
        let of_second = second.threads().my_waiter().unwrap();
        assert_eq!(claimed(first), before + 1);
        assert_eq!(second.threads().my_waiter(), Some(of_second));
        first.threads().my_waiter().unwrap();
        assert_eq!(claimed(first), before + 1);
    });
    assert_eq!(claimed(first), before);
}

#[test]
fn a_thread_that_sleeps_in_poll_is_woken_by_its_eventfd() {
    let (_engine, host, _directory) = engine();
    // Not one that the threads of other tests have.
    host.next_waiter.store(230, Ordering::Relaxed);
    in_a_thread(|| {
        let (waiter, fd) = host.threads().thread_eventfd().unwrap();
        assert_eq!(host.threads().thread_eventfd(), Some((waiter, fd)));
        assert_eq!(host.threads().my_waiter(), Some(waiter));
        // SAFETY: this thread keeps it open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let is_readable = || {
            let at_once = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&at_once)) == Ok(1)
        };
        let _ = rustix::io::read(fd, &mut [0; 8]);
        assert!(!is_readable());
        host.session.waiters().at(waiter).declare(Sleep::Eventfd);
        in_a_thread(|| host.threads().wake_waiter(waiter));
        assert!(is_readable());
    });
}

/// A thread of a test's sleeps until it is woken, and so does one whose user wants that.
#[test]
fn threads_look_again_unless_it_is_said_that_they_shall_not() {
    let (_engine, _host, _directory) = engine();
    assert!(!looks_again());
    for (variable, wanted) in [(None, true), (Some("never"), false), (Some("no"), true)] {
        assert_eq!(are_looks_wanted(variable.map(OsStr::new)), wanted);
    }
}

/// However many threads a process has had one after the other, it has no more waiters than it had
/// threads at once; one that another process has claimed meanwhile is passed over.
#[test]
fn waiters_that_were_given_back_are_taken_before_others() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let threads = host.threads();
    let some = [(); 4].map(|()| threads.claim_waiter().unwrap());
    for _ in 0..3 {
        some.iter().for_each(|index| threads.free_waiter(*index));
        let again = [(); 4].map(|()| threads.claim_waiter().unwrap());
        assert_eq!(again, some);
    }
    some.iter().for_each(|index| threads.free_waiter(*index));
    assert!(host.session.waiters().claim_this(u32::MAX, some[1]));
    let again = [(); 4].map(|()| threads.claim_waiter().unwrap());
    assert_eq!(again[..3], [some[0], some[2], some[3]]);
    assert!(!some.contains(&again[3]));
}

/// Of a socket and a descriptor of the kernel's, what comes first ends the wait.
#[test]
fn a_descriptor_beside_the_socket_ends_a_wait() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let (read, write) = std::io::pipe().unwrap();
    for by_pipe in [true, false] {
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let also = Some((read.as_fd(), PollFlags::IN));
                b.socket().wait(also, WaitLimit::ENDLESS, || {
                    if b.socket().receive_stream().readable_bytes() != 0 {
                        return Ok(false);
                    }
                    let at_once = Timespec {
                        tv_sec: 0,
                        tv_nsec: 0,
                    };
                    let mut fds = [PollFd::new(&read, PollFlags::IN)];
                    match poll(&mut fds, Some(&at_once)) {
                        Ok(1) => {
                            let _ = rustix::io::read(&read, &mut [0; 8]);
                            Ok(true)
                        }
                        _ => Err(SocketError::WouldBlock),
                    }
                })
            });
            std::thread::sleep(Duration::from_millis(30));
            if by_pipe {
                rustix::io::write(&write, b"x").unwrap();
            } else {
                a.write_all(b"x").unwrap();
            }
            assert_eq!(waits.join().unwrap(), Ok(by_pipe));
        });
    }
}

/// `pthread_cancel`: a thread that is to end does not sleep, unless its call goes on whatever
/// comes.
#[test]
fn a_thread_that_is_to_end_does_not_sleep() {
    let (engine, _host, _directory) = engine();
    let hooks = Hooks {
        is_cancelled: || true,
        ..Hooks::default()
    };
    let host = Host::join(engine.path(), engine.token(), hooks).unwrap();
    let socket = Engine::open(host, SocketKind::Stream);
    let never = || Err::<(), _>(SocketError::WouldBlock);
    for timeout in [None, Some(Duration::from_secs(60))] {
        let limit = WaitLimit::of_call(timeout);
        assert_eq!(
            socket.wait(None, limit, never),
            Err(SocketError::Interrupted)
        );
    }
    let ignored = WaitLimit {
        deadline: deadline_after(Some(Duration::from_millis(5))),
        ..WaitLimit::ENDLESS
    };
    assert_eq!(
        socket.wait(None, ignored, never),
        Err(SocketError::TimedOut)
    );
}

/// signal(7): a call with a timeout does not begin anew after a handler.
#[test]
fn handlers_mean_to_a_call_what_its_timeout_says() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let never = || Err::<(), _>(SocketError::WouldBlock);
    let waits = |limit| socket.wait(None, limit, never);
    // As if the handler of a signal had been postponed in this thread.
    section(|s| s.postpone(10));
    assert_eq!(waits(WaitLimit::of_call(None)), Err(SocketError::Restarts));
    let minute = Some(Duration::from_secs(60));
    assert_eq!(
        waits(WaitLimit::of_call(minute)),
        Err(SocketError::Interrupted)
    );
    let ignored = WaitLimit {
        deadline: deadline_after(Some(Duration::from_millis(5))),
        ..WaitLimit::ENDLESS
    };
    assert_eq!(waits(ignored), Err(SocketError::TimedOut));
    section(|s| s.postpone(0));
    let limit = WaitLimit::of_call(Some(Duration::from_millis(5)));
    assert_eq!(waits(limit), Err(SocketError::TimedOut));
}

/// Has `handler` run for a signal that nothing else here uses.
fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: all zeros is an action without flags; what the handlers here do is permitted in one.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    assert_eq!(failed, 0);
}

/// What a thread ends with that waits for `socket`, and what `also` is, in vain and no longer than
/// `at_most`, while it gets one signal after the other.
fn waits_under_signals(
    (socket, also): (&Socket, Also<'_>),
    (signals, at_most): (Signals, Duration),
    signal: i32,
) -> SocketError {
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (say, thread) = std::sync::mpsc::channel();
        let has_ended = &has_ended;
        let waits = scope.spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            say.send(own).unwrap();
            let limit = WaitLimit {
                deadline: deadline_after(Some(at_most)),
                signals,
                looked: false,
            };
            let never = || Err::<(), _>(SocketError::WouldBlock);
            let ended = socket.wait(also, limit, never).unwrap_err();
            section(|s| s.postpone(0));
            has_ended.store(true, Ordering::Release);
            // Until no signal is on its way any more.
            std::thread::park();
            ended
        });
        let thread = thread.recv().unwrap();
        while !has_ended.load(Ordering::Acquire) {
            // It sleeps by then, as a rule.
            std::thread::sleep(Duration::from_millis(20));
            let process = std::process::id();
            // SAFETY: the signal has a handler, and the thread is there until it is told to end.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
        }
        waits.thread().unpark();
        waits.join().unwrap()
    })
}

/// How long a wait lasts that a signal is to end, and one that is to go on.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

/// signal(7): a handler that runs while a thread sleeps ends its call, or does not by SA_RESTART; some
/// calls go on in any case.
#[test]
fn a_handler_that_runs_ends_a_wait_unless_its_call_goes_on() {
    extern "C" fn nothing(_: i32) {}
    let signal = libc::SIGRTMAX() - 4;
    handle(signal, nothing);
    let (engine, _host, _directory) = engine();
    let (read, _write) = std::io::pipe().unwrap();
    let end = (LONG, SocketError::Interrupted);
    let go_on = (SHORT, SocketError::TimedOut);
    for (restarts, by_restart) in [((|| true) as fn() -> bool, go_on), (|| false, end)] {
        let hooks = Hooks {
            restarts,
            ..Hooks::default()
        };
        let host = Host::join(engine.path(), engine.token(), hooks).unwrap();
        let socket = Engine::open(host, SocketKind::Stream);
        for (signals, (at_most, expected)) in [
            (Signals::End, end),
            (Signals::Restart, by_restart),
            (Signals::Ignored, go_on),
        ] {
            // On its word, and in poll.
            for also in [None, Some((read.as_fd(), PollFlags::IN))] {
                let ended = waits_under_signals((&socket, also), (signals, at_most), signal);
                assert_eq!(ended, expected, "{signals:?}");
            }
        }
    }
}

/// The shim postpones handlers while a thread is in here: one that waits is told so, and the call is
/// made anew or not when it has run.
#[test]
fn a_handler_that_is_postponed_while_a_thread_sleeps_ends_its_wait() {
    extern "C" fn is_postponed(signal: i32) {
        section(|s| s.postpone(signal as u32));
    }
    let signal = libc::SIGRTMAX() - 5;
    handle(signal, is_postponed);
    let (engine, _host, _directory) = engine();
    let hooks = Hooks {
        restarts: || false,
        ..Hooks::default()
    };
    let host = Host::join(engine.path(), engine.token(), hooks).unwrap();
    let socket = Engine::open(host, SocketKind::Stream);
    for (signals, at_most, expected) in [
        (Signals::Restart, LONG, SocketError::Restarts),
        (Signals::End, LONG, SocketError::Interrupted),
        (Signals::Ignored, SHORT, SocketError::TimedOut),
    ] {
        let ended = waits_under_signals((&socket, None), (signals, at_most), signal);
        assert_eq!(ended, expected, "{signals:?}");
    }
}

/// It sleeps on, whether on its word or in the kernel's poll.
#[test]
fn a_wait_that_no_signal_ends_does_not_look_for_want_of_sleep() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let (read, _write) = std::io::pipe().unwrap();
    section(|s| s.postpone(10));
    for also in [None, Some((read.as_fd(), PollFlags::IN))] {
        let mut looks = 0;
        let limit = WaitLimit {
            deadline: deadline_after(Some(Duration::from_millis(50))),
            looked: true,
            ..WaitLimit::ENDLESS
        };
        let ended = socket.wait(also, limit, || {
            looks += 1;
            Err::<(), _>(SocketError::WouldBlock)
        });
        assert_eq!(ended, Err(SocketError::TimedOut));
        assert!(looks < 20, "{looks}");
    }
    section(|s| s.postpone(0));
}

/// Also a thread that has looked before it came here, and then said something more.
#[test]
fn what_was_put_off_is_said_before_a_thread_sleeps() {
    let ignored = Ignored::new();
    ignored.say();
    let limit = WaitLimit {
        looked: true,
        ..WaitLimit::of_call(Some(Duration::from_millis(5)))
    };
    let never = || Err::<(), _>(SocketError::WouldBlock);
    let ended = ignored.socket.wait(None, limit, never);
    assert_eq!(ended, Err(SocketError::TimedOut));
    assert!(ignored.is_hurried());
}

/// The engine may be what is looked for.
#[test]
fn what_was_put_off_is_said_before_a_thread_looks_for_a_while() {
    let ignored = Ignored::new();
    ignored.say();
    let looked = ignored.host.threads().look_again(|| {
        assert!(ignored.is_hurried());
        Ok(Some(()))
    });
    assert_eq!(looked, Ok(Some(())));
    assert!(ignored.is_hurried());
}

/// On its word, where it is woken in the least time; in poll, where it finds that the engine has
/// died, once that has lasted too long, and if it waits for a descriptor, too.
#[test]
fn a_thread_sleeps_on_its_word_until_it_has_slept_in_vain() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let (read, _write) = std::io::pipe().unwrap();
    let threads = host.threads();
    let waiter = host.session.waiters().at(threads.my_waiter().unwrap());
    let limit = WaitLimit {
        deadline: deadline_after(Some(Duration::from_millis(60))),
        looked: true,
        ..WaitLimit::ENDLESS
    };
    let mut slept_on = Vec::new();
    let socket = Some(socket.id().index);
    let ended = threads.wait_for(socket, None, limit, |_| {
        let declared = waiter.take();
        slept_on.push(declared);
        // It is woken the first time.
        if let Some(how) = declared.filter(|_| slept_on.len() != 1) {
            waiter.declare(how);
        }
        Ok(None::<()>)
    });
    assert_eq!(ended, Err(SocketError::TimedOut));
    let (word, eventfd) = (Some(Sleep::Futex), Some(Sleep::Eventfd));
    assert_eq!(slept_on, [word, word, eventfd]);
    let also = Some((read.as_fd(), PollFlags::IN));
    let limit = WaitLimit {
        looked: true,
        ..WaitLimit::ENDLESS
    };
    let how = threads.wait_for(socket, also, limit, |_| Ok(waiter.take()));
    assert_eq!(how, Ok(Sleep::Eventfd));
}

#[test]
fn a_wait_may_last_as_long_as_was_said() {
    assert_eq!(WaitLimit::of_call(None).left(), None);
    assert_eq!(WaitLimit::ENDLESS.left(), None);
    let hour = Duration::from_secs(3600);
    let left = WaitLimit::of_call(Some(hour)).left().unwrap();
    assert!(left <= hour && left > hour / 2);
    assert_eq!(
        WaitLimit::of_call(Some(Duration::ZERO)).left(),
        Some(Duration::ZERO)
    );
    assert_eq!(WaitLimit::of_call(Some(Duration::MAX)).left(), None);
    assert_eq!(WaitLimit::of_call(Some(hour)).signals, Signals::End);
    assert_eq!(WaitLimit::of_call(None).signals, Signals::Restart);
}

/// Without a waiter nobody wakes the thread, which looks by itself.
#[test]
fn a_thread_without_a_waiter_finds_what_comes() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::with_geometry(directory.path(), SMALL);
    let host = engine.join();
    let (a, b) = Engine::pair(host);
    while host.threads().claim_waiter().is_some() {}
    let waits = std::thread::spawn(move || b.read(&mut [0; 9]));
    std::thread::sleep(Duration::from_millis(30));
    a.write_all(b"x").unwrap();
    assert_eq!(waits.join().unwrap(), Ok(1));
}

/// The attempt is told whether its thread slept and was woken.
#[test]
fn an_attempt_is_told_why_it_is_made() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let waits = std::thread::spawn(move || {
        let mut looks = Vec::new();
        let found = b.socket().wait_by_looks(None, WaitLimit::ENDLESS, |look| {
            looks.push(look);
            match b.socket().receive_stream().readable_bytes() {
                0 => Err(SocketError::WouldBlock),
                n => Ok(n),
            }
        });
        (found, looks)
    });
    std::thread::sleep(Duration::from_millis(50));
    a.write_all(b"x").unwrap();
    let (found, looks) = waits.join().unwrap();
    assert_eq!(found, Ok(1));
    assert_eq!(looks[0], Look::ByItself);
    assert_eq!(looks.last(), Some(&Look::Woken));
}

/// What ends a sleep in the kernel's poll: the eventfd, which is read, what else is waited for, or
/// the time; and the connection to the engine that hangs up is told apart.
#[test]
fn a_sleep_says_what_has_ended_it() {
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::unix::net::UnixStream;
    let wake = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let [(mut here, there), (ours, theirs)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    let nap = Some(Duration::from_millis(1));
    for signals in [Signals::Ignored, Signals::End] {
        let sleeps = |also: bool, connection: bool| {
            let also = also.then(|| (there.as_fd(), PollFlags::IN));
            let connection = connection.then(|| ours.as_fd());
            sleep_on(Some(wake.as_raw_fd()), also, connection, nap, signals)
        };
        assert_eq!(sleeps(true, true), (Woken::TimedOut, false));
        rustix::io::write(&wake, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(sleeps(true, true), (Woken::Yes, false));
        assert_eq!(sleeps(true, true), (Woken::TimedOut, false), "it was read");
    }
    std::io::Write::write_all(&mut here, b"x").unwrap();
    let also = Some((there.as_fd(), PollFlags::IN));
    for connection in [None, Some(ours.as_fd())] {
        let slept = sleep_on(None, also, connection, nap, Signals::End);
        assert_eq!(slept, (Woken::Yes, false));
    }
    drop(theirs);
    let slept = sleep_on(None, None, Some(ours.as_fd()), nap, Signals::End);
    assert_eq!(slept, (Woken::Yes, true));
}

/// A thread that waits for a socket stands in its list, and no longer than that.
#[test]
fn a_wait_leaves_nothing_in_the_list() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    let listed = || socket.block().waiters().count();
    assert_eq!(listed(), 0);
    let limit = WaitLimit {
        looked: true,
        ..WaitLimit::ENDLESS
    };
    let during = host
        .threads()
        .wait_for(Some(socket.id().index), None, limit, |_| Ok(Some(listed())));
    assert_eq!(during.unwrap(), 1);
    assert_eq!(listed(), 0);
    // Nor is the thread taken for one that sleeps.
    let waiter = host.threads().my_waiter().unwrap();
    assert!(!host.session.waiters().at(waiter).is_declared());
    assert!(!socket.block().has_waiters());
}

/// Nobody wakes it when an engine is killed.
#[test]
fn a_thread_that_was_not_woken_in_time_looks_whether_the_engine_lives() {
    let (mut engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    // What is asked for later finds that, too.
    assert!(host.threads().thread_eventfd().is_some());
    engine.kill();
    assert!(!host.is_gone());
    let limit = WaitLimit {
        deadline: deadline_after(Some(Duration::from_millis(20))),
        looked: true,
        ..WaitLimit::ENDLESS
    };
    let never = || Err::<(), _>(SocketError::WouldBlock);
    assert!(socket.wait(None, limit, never).is_err());
    assert!(host.is_gone());
}

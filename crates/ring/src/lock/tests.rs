//! What the lock keeps out, what it tells, and what becomes of the dead.

use super::*;
use crate::testing::{LONG, until, while_asleep};
use crate::{Woken, is_confined, set_confined};

#[test]
fn a_thread_that_holds_it_is_told_so() {
    let lock = SharedLock::new();
    let held = lock.lock().unwrap();
    assert_eq!(lock.lock().err(), Some(Reentered));
    drop(held);
    assert!(lock.lock().is_ok());
}

#[test]
fn a_child_frees_what_another_thread_held() {
    let lock = SharedLock::new();
    assert!(!lock.free_in_child());
    std::mem::forget(lock.lock().unwrap());
    assert!(lock.free_in_child());
    assert!(lock.try_lock().is_some());
}

#[test]
fn it_is_not_waited_for_by_who_only_tries() {
    let lock = SharedLock::new();
    let held = lock.try_lock();
    assert!(held.is_some() && lock.try_lock().is_none());
    drop(held);
    assert!(lock.try_lock().is_some());
}

#[test]
fn what_was_taken_is_told_until_it_is_noted() {
    let lock = SharedLock::new();
    assert!(!lock.is_taken());
    assert!(lock.offer().unwrap().take());
    assert!(lock.offer().is_none(), "there is nothing left");
    assert!(lock.is_taken());
    let held = lock.lock().unwrap();
    assert!(held.is_taken());
    assert_eq!(lock.lock().err(), Some(Reentered));
    drop(held);
    let mut held = lock.lock().unwrap();
    assert!(held.is_taken(), "it was not noted");
    held.note_taken();
    assert!(!lock.is_taken() && !held.is_taken());
    assert_eq!(
        lock.lock().err(),
        Some(Reentered),
        "it is held all the same"
    );
    drop(held);
    assert!(!lock.lock().unwrap().is_taken());
    assert!(lock.offer().unwrap().take());
    lock.forget_taken();
    assert!(!lock.lock().unwrap().is_taken());
}

#[test]
fn nobody_waits_for_an_offer() {
    let lock = SharedLock::new();
    assert!(!lock.lock().map(|held| held.is_taken()).unwrap());
    let held = lock.lock().unwrap();
    assert!(lock.offer().is_none(), "a call works");
    drop(held);
    let offer = lock.offer().unwrap();
    let held = lock.lock().unwrap();
    assert!(!held.is_taken());
    assert!(!offer.take(), "the call came first");
    drop(held);
    drop(lock.offer());
    assert!(lock.try_lock().is_some(), "withdrawn");
}

#[test]
#[cfg_attr(miri, ignore = "asks the kernel which threads live")]
fn what_was_taken_is_told_again_if_who_was_told_died() {
    let lock = SharedLock::new();
    assert!(lock.offer().unwrap().take());
    std::thread::scope(|s| {
        s.spawn(|| std::mem::forget(lock.lock().unwrap()));
    });
    assert!(lock.is_taken());
    assert!(lock.lock().unwrap().is_taken());
}

#[test]
#[cfg_attr(miri, ignore = "asks the kernel which threads live")]
fn a_dead_holders_lock_is_taken_over() {
    let lock = SharedLock::new();
    std::thread::scope(|s| {
        s.spawn(|| std::mem::forget(lock.lock().unwrap()));
    });
    assert!(lock.lock().is_ok());
}

#[test]
#[cfg_attr(miri, ignore = "asks the kernel which threads live")]
fn threads_that_slept_for_a_dead_holder_are_woken_by_its_successor() {
    let lock = SharedLock::new();
    std::thread::scope(|s| {
        s.spawn(|| std::mem::forget(lock.lock().unwrap()));
    });
    // Another thread sleeps.
    lock.0.fetch_or(WAITED_FOR, Ordering::Relaxed);
    let held = lock.lock().unwrap();
    assert_ne!(lock.0.load(Ordering::Relaxed) & WAITED_FOR, 0);
    drop(held);
    assert_eq!(lock.0.load(Ordering::Relaxed), FREE);
}

#[test]
#[cfg_attr(miri, ignore = "asks the kernel which threads live")]
fn it_excludes() {
    let (lock, inside) = (SharedLock::new(), AtomicU32::new(0));
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..5_000 {
                    let _held = lock.lock().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    });
}

/// Each marks the word before it sleeps, whether another has or not, and leaves its holder in it.
#[test]
#[cfg_attr(miri, ignore = "looks at the kernel's threads")]
fn those_that_wait_sleep_until_the_holder_lets_go() {
    let (lock, entered) = (SharedLock::new(), AtomicU32::new(0));
    let enter = || {
        let _held = lock.lock().unwrap();
        entered.fetch_add(1, Ordering::Relaxed);
    };
    let held = lock.lock().unwrap();
    let is_waited_for = || lock.0.load(Ordering::Relaxed) == (thread_id() | WAITED_FOR);
    while_asleep(enter, |_| {
        until(is_waited_for);
        while_asleep(enter, |second| {
            // It looks whether the holder lives, and sleeps again.
            until(|| crate::testing::is_asleep(second));
            assert!(is_waited_for());
            assert_eq!(entered.load(Ordering::Relaxed), 0);
            drop(held);
        });
    });
    assert_eq!(entered.load(Ordering::Relaxed), 2);
}

#[test]
#[cfg_attr(miri, ignore = "looks at the kernel's threads")]
fn whoever_lets_go_wakes_those_that_sleep() {
    let lock = SharedLock::new();
    let held = lock.lock().unwrap();
    let word = lock.0.fetch_or(WAITED_FOR, Ordering::Relaxed) | WAITED_FOR;
    let woken = while_asleep(|| futex::wait(&lock.0, word, Some(LONG)), |_| drop(held));
    assert_eq!(woken, Woken::Yes);
}

/// The kernel cannot be asked then whether it lives.
#[test]
#[cfg_attr(miri, ignore = "looks at the kernel's threads")]
fn under_a_filter_a_dead_holder_is_waited_for() {
    let (lock, entered) = (SharedLock::new(), AtomicU32::new(0));
    std::thread::scope(|s| {
        s.spawn(|| std::mem::forget(lock.lock().unwrap()));
    });
    let enter = || {
        let _held = lock.lock().unwrap();
        entered.fetch_add(1, Ordering::Relaxed)
    };
    let mut seen = (false, 0);
    set_confined(true);
    while_asleep(enter, |_| {
        seen = (is_confined(), entered.load(Ordering::Relaxed));
        set_confined(false);
    });
    assert_eq!(seen, (true, 0));
    assert_eq!(entered.load(Ordering::Relaxed), 1);
}

/// It has its parent's until then.
#[test]
#[cfg_attr(miri, ignore = "asks the kernel for the thread's id")]
fn a_child_of_fork_asks_for_its_own_thread_id() {
    let own = new_thread_id();
    assert_eq!(thread_id(), own);
    THREAD_ID.with(|id| id.set(own + 1));
    assert_eq!(thread_id(), own + 1, "it is asked for once");
    forget_thread_id();
    assert_eq!(thread_id(), own);
}

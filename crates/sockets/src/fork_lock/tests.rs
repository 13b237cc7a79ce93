//! The thread that holds a lock, and what becomes of it in the child of a fork.

use super::*;
use std::sync::Arc;

fn only_thread() -> OnlyThread {
    // SAFETY: these locks are the test's alone, and it is in nothing that they guard.
    unsafe { OnlyThread::new() }
}

#[test]
fn one_is_inside_at_a_time() {
    let lock = ForkLock::new(1);
    let mut inside = lock.enter().unwrap();
    *inside += 1;
    assert_eq!(*inside, 2);
    assert!(lock.enter().is_err(), "a signal handler of the same thread");
    assert!(lock.try_enter().is_none());
    drop(inside);
    assert_eq!(lock.try_enter().as_deref(), Some(&2));
    assert_eq!(*lock.enter().unwrap(), 2);
}

/// What another thread had half done is not looked at: it may be anything.
#[test]
fn what_was_being_changed_begins_anew_in_a_child() {
    let value = Arc::new(1);
    let lock = ForkLock::new(value.clone());
    lock.recover(&only_thread(), || panic!("nobody was inside"));
    assert_eq!(**lock.enter().unwrap(), 1);
    std::mem::forget(lock.enter().unwrap());
    lock.recover(&only_thread(), || Arc::new(2));
    assert_eq!(**lock.enter().unwrap(), 2);
    assert_eq!(Arc::strong_count(&value), 2, "it is not dropped");
}

#[test]
fn what_is_the_parents_alone_is_replaced_in_a_child() {
    let value = Arc::new(1);
    let lock = ForkLock::new(value.clone());
    std::mem::forget(lock.enter().unwrap());
    lock.replace(&only_thread(), value.clone());
    assert_eq!(Arc::strong_count(&value), 3, "the first is not dropped");
    lock.replace(&only_thread(), Arc::new(2));
    assert_eq!(**lock.enter().unwrap(), 2);
    assert_eq!(Arc::strong_count(&value), 2, "the second is");
}

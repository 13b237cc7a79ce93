//! Models of the ring and of sleeping, checked over all interleavings:
//! `RUSTFLAGS="--cfg loom" cargo test -p longshore-ring --test loom --release`.
#![cfg(loom)]

use longshore_ring::spsc::{Consumer, Indices, Producer, Slot};
use longshore_ring::{Sleep, Waiter};
use loom::sync::Arc;
use loom::thread;

#[test]
fn messages_arrive_whole_and_in_order() {
    loom::model(|| {
        let ring = Arc::new((Indices::new(), [Slot::new(), Slot::new()]));
        let other = ring.clone();
        let producer = thread::spawn(move || {
            let mut p = Producer::new();
            let mut sent = 0;
            while sent < 3 {
                if p.stage(&other.0, &other.1, &[sent; 8]).unwrap().is_ok() {
                    sent += 1;
                }
                p.publish(&other.0);
                thread::yield_now();
            }
        });
        let (mut c, mut expected) = (Consumer::new(), 0);
        while expected < 3 {
            while let Some(message) = c.take(&ring.0, &ring.1).unwrap() {
                assert_eq!(message, [expected; 8]);
                expected += 1;
            }
            c.release(&ring.0);
            thread::yield_now();
        }
        producer.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let shared = Arc::new((Indices::new(), [Slot::new()], Waiter::new()));
        let other = shared.clone();
        let producer = thread::spawn(move || {
            let mut p = Producer::new();
            p.stage(&other.0, &other.1, &[1; 8]).unwrap().unwrap();
            p.publish(&other.0);
            Waiter::fence();
            other.2.wake(None);
        });
        let mut c = Consumer::new();
        loop {
            if c.take(&shared.0, &shared.1).unwrap().is_some() {
                break;
            }
            shared.2.declare(Sleep::Futex);
            if c.pending(&shared.0) {
                shared.2.cancel();
                continue;
            }
            shared.2.sleep(None);
        }
        producer.join().unwrap();
    });
}

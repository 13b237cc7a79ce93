//! Models of what lies in shared memory, checked over all interleavings of their steps and
//! all values that the memory orderings allow:
//! `RUSTFLAGS="--cfg loom" cargo test -p longshore-ring --test loom --release`.
//!
//! Nobody in a model looks again after a while, so a wake-up that is missing is a deadlock,
//! which loom reports.
#![cfg(loom)]

use longshore_ring::spsc::{Consumer, Indices, Producer, Slot};
use longshore_ring::{Doorbell, FreeList, SharedLock, Sleep, Waiter};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// All orders in which at most `preemptions` times a thread is interrupted that could go on.
fn model(preemptions: usize, of: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(of);
}

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

/// A message may be taken back and a larger one put in its place, that takes a slot more, while
/// the consumer claims: none is lost, none is read while it is written, and none comes twice.
#[test]
fn what_is_put_in_the_place_of_a_message_arrives_once() {
    loom::model(|| {
        let ring = Arc::new((
            Indices::new(),
            [Slot::new(), Slot::new(), Slot::new(), Slot::new()],
        ));
        let other = ring.clone();
        let producer = thread::spawn(move || {
            let mut p = Producer::taking_back();
            let mut sent = Vec::new();
            for number in 1..=3 {
                if p.take_back(&other.0) {
                    sent.pop();
                }
                let more = u32::from(number == 3);
                p.stage_long(more, 0, &other.0, &other.1, &[number; 8])
                    .unwrap()
                    .unwrap();
                p.leave_words(number as u32);
                p.publish(&other.0);
                sent.push(number);
            }
            sent
        });
        let (mut c, mut got) = (Consumer::claiming(), Vec::new());
        let mut take = |got: &mut Vec<u64>| {
            while let Some(message) = c.take(&ring.0, &ring.1).unwrap() {
                assert_eq!(message, [message[0]; 8]);
                let more = u32::from(message[0] == 3);
                assert!(c.take_more(more, &ring.1).is_some());
                // Nothing is known of it where one behind it was taken back.
                assert!([0, message[0]].contains(&u64::from(c.words_left())));
                got.push(message[0]);
            }
        };
        take(&mut got);
        take(&mut got);
        let sent = producer.join().unwrap();
        take(&mut got);
        assert_eq!(got, sent);
    });
}

/// A message with slots behind its own, as one with payload has, goes on where the ring begins:
/// the consumer has read all of them before the producer writes to any again, and none before
/// they are written.
#[test]
fn a_message_of_several_slots_arrives_whole_where_the_ring_begins_anew() {
    const MORE: [u32; 3] = [0, 1, 1];
    loom::model(|| {
        let ring = Arc::new((Indices::new(), [Slot::new(), Slot::new()]));
        let other = ring.clone();
        let producer = thread::spawn(move || {
            let (mut p, mut sent) = (Producer::new(), 0);
            while let Some(more) = MORE.get(sent) {
                let words = [sent as u64; 8];
                let staged = p.stage_long(*more, 0, &other.0, &other.1, &words);
                sent += usize::from(staged.unwrap().is_ok());
                p.publish(&other.0);
                thread::yield_now();
            }
        });
        let (mut c, mut got) = (Consumer::new(), 0);
        while got < MORE.len() {
            while let Some(message) = c.take(&ring.0, &ring.1).unwrap() {
                assert_eq!(message, [got as u64; 8]);
                assert!(c.take_more(MORE[got], &ring.1).is_some());
                got += 1;
            }
            c.release(&ring.0);
            thread::yield_now();
        }
        producer.join().unwrap();
    });
}

/// A ring, the word on which its consumer sleeps, and the eventfd on which it may.
struct Shared {
    indices: Indices,
    slots: [Slot; 2],
    waiter: Waiter,
    doorbell: Doorbell,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            indices: Indices::new(),
            slots: [Slot::new(), Slot::new()],
            waiter: Waiter::new(),
            doorbell: Doorbell::new().unwrap(),
        })
    }

    /// Sends this many messages, and wakes the consumer for each if it sleeps.
    fn produce(&self, messages: u64) {
        let mut p = Producer::new();
        for number in 0..messages {
            let staged = p.stage(&self.indices, &self.slots, &[number; 8]);
            staged.unwrap().unwrap();
            p.publish(&self.indices);
            Waiter::fence();
            self.waiter.wake(Some(&self.doorbell));
        }
    }

    /// Sends a message that can wait until the consumer next looks, and rings only for one
    /// that does not look by itself.
    fn produce_at_leisure(&self) {
        let mut p = Producer::new();
        let staged = p.stage(&self.indices, &self.slots, &[0; 8]);
        staged.unwrap().unwrap();
        p.publish(&self.indices);
        Waiter::fence();
        self.waiter.wake_parked(&self.doorbell);
    }

    /// Receives this many messages and is parked in between. `sleeps`: before that it was about to
    /// sleep, and was woken for another reason.
    fn consume_parked(&self, messages: u64, sleeps: bool) {
        let (mut c, mut taken) = (Consumer::new(), 0);
        loop {
            while let Some(message) = c.take(&self.indices, &self.slots).unwrap() {
                assert_eq!(message, [taken; 8]);
                taken += 1;
            }
            if taken == messages {
                return;
            }
            if sleeps {
                self.waiter.declare(Sleep::Eventfd);
                self.waiter.cancel();
            }
            self.waiter.park();
            if !c.pending(&self.indices) {
                self.doorbell.wait();
                self.doorbell.clear();
            }
            self.waiter.cancel();
        }
    }

    /// Receives this many messages, asleep in between.
    fn consume(&self, messages: u64, how: Sleep) {
        let (mut c, mut taken) = (Consumer::new(), 0);
        loop {
            while let Some(message) = c.take(&self.indices, &self.slots).unwrap() {
                assert_eq!(message, [taken; 8]);
                taken += 1;
            }
            if taken == messages {
                return;
            }
            self.waiter.declare(how);
            if c.pending(&self.indices) {
                self.waiter.cancel();
                continue;
            }
            match how {
                Sleep::Futex => {
                    self.waiter.sleep(None);
                }
                Sleep::Eventfd => {
                    self.doorbell.wait();
                    self.doorbell.clear();
                    self.waiter.cancel();
                }
            }
        }
    }
}

/// A word for all who sleep, as that a session is over: who does not find it has declared itself
/// before, and is woken.
#[test]
fn who_sleeps_hears_what_is_said_to_all() {
    loom::model(|| {
        let all = Arc::new((AtomicU32::new(0), Waiter::new()));
        let other = all.clone();
        let speaker = thread::spawn(move || {
            other.0.store(1, Ordering::Release);
            Waiter::fence();
            other.1.wake(None);
        });
        while all.0.load(Ordering::Acquire) == 0 {
            all.1.declare(Sleep::Futex);
            if all.0.load(Ordering::Acquire) == 0 {
                all.1.sleep(None);
            }
        }
        speaker.join().unwrap();
    });
}

#[test]
fn who_sleeps_on_the_word_is_woken() {
    loom::model(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let producer = thread::spawn(move || other.produce(1));
        shared.consume(1, Sleep::Futex);
        producer.join().unwrap();
    });
}

#[test]
fn who_sleeps_on_the_word_is_woken_again() {
    model(3, || {
        let shared = Shared::new();
        let other = shared.clone();
        let producer = thread::spawn(move || other.produce(2));
        shared.consume(2, Sleep::Futex);
        producer.join().unwrap();
    });
}

#[test]
fn who_sleeps_on_the_eventfd_is_woken_again() {
    model(3, || {
        let shared = Shared::new();
        let other = shared.clone();
        let producer = thread::spawn(move || other.produce(2));
        shared.consume(2, Sleep::Eventfd);
        producer.join().unwrap();
    });
}

#[test]
fn one_that_is_parked_hears_even_of_what_can_wait() {
    loom::model(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let producer = thread::spawn(move || other.produce_at_leisure());
        shared.consume_parked(1, false);
        producer.join().unwrap();
    });
}

#[test]
fn one_that_is_parked_is_woken_again() {
    model(3, || {
        let shared = Shared::new();
        let other = shared.clone();
        let producer = thread::spawn(move || other.produce(2));
        shared.consume_parked(2, false);
        producer.join().unwrap();
    });
}

/// The waker has seen that it sleeps, and finds it parked when it wakes it.
#[test]
fn one_that_slept_before_it_was_parked_is_woken() {
    model(3, || {
        let shared = Shared::new();
        let other = shared.clone();
        let producer = thread::spawn(move || other.produce(2));
        shared.consume_parked(2, true);
        producer.join().unwrap();
    });
}

/// A waker that dies within a wake-up keeps no other from waking the consumer.
#[test]
fn one_that_is_parked_is_woken_whichever_waker_dies() {
    model(3, || {
        let shared = Shared::new();
        let other = shared.clone();
        let dying = shared.clone();
        // It has published nothing, and dies before it rings.
        let dying = thread::spawn(move || dying.waiter.take().is_some());
        let producer = thread::spawn(move || other.produce(1));
        shared.consume_parked(1, false);
        assert!(!dying.join().unwrap());
        producer.join().unwrap();
    });
}

/// Two may find the same sleeper: it is woken by one of them.
#[test]
fn a_sleeper_is_woken_once() {
    loom::model(|| {
        let shared = Shared::new();
        shared.waiter.declare(Sleep::Eventfd);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || u32::from(shared.waiter.wake(Some(&shared.doorbell))))
            })
            .collect();
        shared.doorbell.wait();
        let woken: u32 = others.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(woken, 1);
    });
}

/// Free indices, and what each of them stands for: a thread that has an index has it alone, and
/// sees what was done by the one that had it before.
struct Chunks {
    list: FreeList,
    links: [AtomicU32; 3],
    contents: [UnsafeCell<u32>; 3],
}

impl Chunks {
    fn new() -> Arc<Self> {
        let chunks = Self {
            list: FreeList::new(),
            links: std::array::from_fn(|_| AtomicU32::new(0)),
            contents: std::array::from_fn(|_| UnsafeCell::new(0)),
        };
        chunks.list.fill(3);
        Arc::new(chunks)
    }

    fn take(&self) -> Option<u32> {
        let index = self.list.pop(&self.links).unwrap()?;
        self.write(index);
        Some(index)
    }

    /// loom reports concurrent writes.
    fn write(&self, index: u32) {
        // SAFETY: the index is this thread's, which is what is checked.
        self.contents[index as usize].with_mut(|c| unsafe { *c += 1 });
    }

    fn give(&self, index: u32) {
        self.write(index);
        self.list.push(&self.links, index).unwrap();
    }
}

/// One takes two and gives the first back, while another takes: the head is then the same
/// index as before, and leads elsewhere.
#[test]
fn a_free_index_is_had_by_one() {
    model(3, || {
        let chunks = Chunks::new();
        let other = chunks.clone();
        let thread = thread::spawn(move || {
            let (first, second) = (other.take(), other.take());
            if let Some(first) = first {
                other.give(first);
            }
            if let Some(second) = second {
                other.write(second);
            }
        });
        let mine: Vec<u32> = std::iter::from_fn(|| chunks.take()).take(2).collect();
        for index in &mine {
            chunks.write(*index);
        }
        thread.join().unwrap();
    });
}

/// However many take and give back, none is lost, and none is there twice.
#[test]
fn free_indices_are_neither_lost_nor_doubled() {
    model(2, || {
        let chunks = Chunks::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let chunks = chunks.clone();
                thread::spawn(move || {
                    if let Some(index) = chunks.take() {
                        chunks.give(index);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let mut all: Vec<u32> = std::iter::from_fn(|| chunks.take()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

/// What is changed under the lock by two threads, each of which sees all that the other did.
fn contend(lock: SharedLock) {
    let shared = Arc::new((lock, UnsafeCell::new(0)));
    let change = |shared: &(SharedLock, UnsafeCell<u32>)| {
        let held = shared.0.lock().unwrap();
        // SAFETY: the lock is held, which is what is checked.
        shared.1.with_mut(|count| unsafe { *count += 1 });
        drop(held);
    };
    let other = shared.clone();
    let thread = thread::spawn(move || change(&other));
    change(&shared);
    thread.join().unwrap();
    // SAFETY: the other thread has ended.
    assert_eq!(shared.1.with(|count| unsafe { *count }), 2);
}

#[test]
fn a_lock_excludes_and_wakes_who_waits_for_it() {
    model(3, || contend(SharedLock::new()));
}

/// One of the threads that find the holder dead takes the lock, and a waiting thread is woken.
#[test]
fn a_dead_holders_lock_is_taken_by_one() {
    model(3, || contend(SharedLock::left_by_the_dead()));
}

/// A thread sleeps for a lock whose holder dies: the thread that takes the lock over wakes it.
#[test]
fn a_dead_holders_sleepers_are_woken_by_its_successor() {
    model(3, || {
        let lock = Arc::new(SharedLock::new());
        let other = lock.clone();
        std::mem::forget(lock.lock().unwrap());
        let sleeper = thread::spawn(move || drop(other.lock().unwrap()));
        longshore_ring::die();
        drop(lock.lock().unwrap());
        sleeper.join().unwrap();
    });
}

/// What a lock protects, as a send stream's last chunk is: in use by the holder from one
/// call to the next, or free since the other side has taken it.
struct Chunk {
    lock: SharedLock,
    /// 1 if the stream has it.
    held: AtomicU32,
    /// How often it is on the list of free ones: it must never be there while it is used.
    free: AtomicU32,
}

#[test]
fn what_is_taken_is_taken_once_and_from_no_call_at_work() {
    loom::model(|| {
        let chunk = Arc::new(Chunk {
            lock: SharedLock::new(),
            held: AtomicU32::new(1),
            free: AtomicU32::new(0),
        });
        let other = chunk.clone();
        let engine = thread::spawn(move || {
            for _ in 0..2 {
                if let Some(offer) = other.lock.offer()
                    && other.held.load(Ordering::Acquire) == 1
                    && offer.take()
                {
                    assert_eq!(other.free.fetch_add(1, Ordering::AcqRel), 0);
                }
            }
        });
        for _ in 0..2 {
            let mut locked = chunk.lock.lock().unwrap();
            if locked.is_taken() {
                chunk.held.store(0, Ordering::Release);
                locked.note_taken();
            }
            if chunk.held.load(Ordering::Relaxed) == 0 {
                // It is on its way to the list, or there.
                while chunk.free.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
                chunk.free.fetch_sub(1, Ordering::AcqRel);
                chunk.held.store(1, Ordering::Release);
            }
            assert_eq!(chunk.free.load(Ordering::Acquire), 0, "used, and free");
        }
        engine.join().unwrap();
    });
}

//! With fixed batching descriptors cross when so many wait, or the first of them has waited for
//! so long, both ways.

mod common;

use common::Host;
use common::engines::{Running, alone, run_with, stat};
use longshore_engine::Batching;
use longshore_hostif::{Request, SocketId};
use longshore_ports::Port;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Requests that are made, each answered.
const ASKED: u32 = 20;
/// Longer than the requests of a test take to be made.
const LONG: u64 = 1_000_000;
const SHORT: u64 = 20_000;

/// A program that listens on an engine which sleeps when it has nothing to do.
struct Listening {
    host: Host,
    listener: SocketId,
    control: PathBuf,
    last_tag: u32,
    last_answered: u32,
    _engine: Running,
    _wire: Box<dyn Port>,
    _dir: tempfile::TempDir,
}

impl Listening {
    fn on(batching: Option<Batching>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (mut config, wire) = alone(dir.path());
        let control = dir.path().join("control");
        config.control = Some(control.clone());
        let engine = run_with(config, |engine| engine.set_batching(batching));
        let mut host = Host::new(&engine.path);
        let listener = host.listening("10.0.0.1:80");
        Self {
            host,
            listener,
            control,
            last_tag: 1000,
            last_answered: 1000,
            _engine: engine,
            _wire: Box::new(wire),
            _dir: dir,
        }
    }

    /// Asks for what is answered, and lets the engine know at once.
    fn ask(&mut self) {
        self.last_tag += 1;
        self.host.put(Request::Listen {
            socket: self.listener,
            tag: self.last_tag,
            waiter: None,
            backlog: 128,
        });
    }

    fn await_last(&mut self) {
        if self.last_tag != self.last_answered {
            let tag = self.last_tag;
            self.host.wait("an answer", |host| host.done_with(tag));
            self.last_answered = tag;
        }
    }

    /// Batches to the adapter and to the host so far.
    fn batches(&self) -> [u64; 2] {
        let crossings = stat(&self.control).sessions[0].crossings;
        [crossings.to_adapter, crossings.to_host].map(|way| way.classes.descriptor.transfers)
    }

    /// Batches that requests and their answers take, asked one after the other.
    fn taken_by_all(&mut self, mut after_each: impl FnMut(&mut Self)) -> [u64; 2] {
        let before = self.batches();
        for _ in 0..ASKED {
            self.ask();
            after_each(self);
        }
        self.await_last();
        let after = self.batches();
        [0, 1].map(|way| after[way] - before[way])
    }
}

#[test]
fn descriptors_cross_as_soon_as_so_many_wait() {
    let adaptive = Listening::on(None).taken_by_all(Listening::await_last);
    assert_eq!(adaptive, [u64::from(ASKED); 2]);
    let pause = |_: &mut Listening| std::thread::sleep(Duration::from_millis(1));
    let fixed = Listening::on(Batching::fixed(10, LONG)).taken_by_all(pause);
    assert_eq!(fixed, [u64::from(ASKED) / 10; 2]);
    let single = Listening::on(Batching::fixed(1, LONG)).taken_by_all(Listening::await_last);
    assert_eq!(single, adaptive);
}

#[test]
fn descriptors_wait_for_others_no_longer_than_they_may() {
    let mut it = Listening::on(Batching::fixed(10, SHORT));
    let (before, asked) = (it.batches(), Instant::now());
    for _ in 0..3 {
        it.ask();
    }
    it.await_last();
    // The requests have waited, and then their answers.
    assert!(asked.elapsed() >= Duration::from_micros(2 * SHORT));
    let after = it.batches();
    let batches = [0, 1].map(|way| after[way] - before[way]);
    // One each, unless the program was held up between two of its requests.
    assert!(batches.iter().all(|n| (1..=3).contains(n)), "{batches:?}");
}
